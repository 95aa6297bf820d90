"""Checked truth and prediction as class positions; skips scikit-learn's checks where they cannot fail."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.metrics._classification import _check_targets
from sklearn.utils.validation import _check_sample_weight

from cmfast import counting, metrics
from cmfast._core import dispatch
from cmfast._core.adapters import _text_codes
from cmfast.kernels.cpu._core import distinct

LEAST_SEARCHED_SPAN = 4096  # label range encoded by subtraction, even with fewer samples
MATRIX = 1024  # largest number of classes for which a matrix is counted if its margins suffice


@dataclass(frozen=True, eq=False)
class Targets:
    """Truth, prediction and weights, encoded for counting.

    Attributes
    ----------
    given_kind : {"binary", "multiclass", "multilabel-indicator"} or None
        The target type of scikit-learn; None if its checks were skipped, then the number of labels decides.
    classes : array, shape (C,)
        Sorted classes, some of which may not occur; for multilabel targets the columns.
    y_true, y_pred : array of int, shape (n,), or array of uint8 or sparse matrix, shape (n, C)
        Positions in `classes`; for multilabel targets the indicators of each sample's labels.
    weight : array, shape (n,), or None
        Sample weights.
    """

    given_kind: str | None
    classes: np.ndarray
    y_true: Any
    y_pred: Any
    weight: np.ndarray | None

    @property
    def kind(self) -> str:
        """The target type of scikit-learn."""
        return self.given_kind or ("binary" if len(self.labels) <= 2 else "multiclass")

    @property
    def is_multilabel(self) -> bool:
        """Whether a sample may have several labels."""
        return self.given_kind == "multilabel-indicator"

    @property
    def n(self) -> int:
        """Number of samples."""
        return int(self.y_true.shape[0])

    @property
    def total(self) -> Any:
        """Number of samples, or the sum of their weights."""
        return self.n if self.weight is None else float(np.sum(self.weight, dtype=np.float64))

    @cached_property
    def sums(self) -> Any:
        """Diagonal and margins over `classes`, without weights."""
        return metrics.label_margins(self.y_true, self.y_pred, n_classes=len(self.classes))

    @cached_property
    def occurring(self) -> Any:
        """Positions of the classes that occur."""
        if self.is_multilabel:
            return np.arange(len(self.classes))
        return np.flatnonzero(self.sums.row_sums + self.sums.col_sums)

    @cached_property
    def labels(self) -> Any:
        """The labels that occur, sorted."""
        return self.classes[self.occurring]

    def matrix(self) -> Any:
        """Return the confusion matrix of the labels that occur."""
        table = counting.confusion_matrix(
            self.y_true, self.y_pred, n_classes=len(self.classes), sample_weight=convert_weights(self.weight)
        )
        return table if len(self.labels) == len(self.classes) else table[np.ix_(self.occurring, self.occurring)]

    def count_correct(self) -> Any:
        """Return the numbers (or weights) of wrong and correct samples; multilabel samples need all labels correct."""
        if self.is_multilabel:
            differ = self.y_true != self.y_pred
            right = np.diff(differ.tocsr().indptr) == 0 if issparse(differ) else ~differ.any(1)
        elif self.weight is None:
            found = int(self.sums.diagonal.sum())
            return np.array([self.n - found, found])
        else:
            right = self.y_true == self.y_pred
        return counting.confusion_matrix(
            np.ones(self.n, np.int8), right.view(np.int8), n_classes=2, sample_weight=convert_weights(self.weight)
        )[1]


def convert_weights(weight: np.ndarray | None) -> np.ndarray | None:
    """Return weights as float64, the type in which they are summed."""
    return None if weight is None else weight.astype(np.float64, copy=False)


def make_targets(y_true: Any, y_pred: Any, sample_weight: Any = None) -> Targets | None:
    """Return checked targets; None for input delegated to scikit-learn: no samples, or invalid weights."""
    found = _make_plain_targets(y_true, y_pred, sample_weight) or _make_multilabel_targets(
        y_true, y_pred, sample_weight
    )
    if found is None:
        kind, labels, y_true, y_pred, weight = _check_targets(y_true, y_pred, sample_weight)
        if not kind.startswith("multilabel"):
            y_true, y_pred = (np.searchsorted(labels, y).astype(np.int64) for y in (y_true, y_pred))
        elif not issparse(y_true):
            return None
        if weight is not None and weight.dtype.kind not in "biuf":  # Python objects
            weight = weight.astype(np.float64)
        found = Targets(kind, np.asarray(labels), y_true, y_pred, weight)
    return None if found.n == 0 or not _is_countable(found.weight) else found


def _is_countable(weight: np.ndarray | None) -> bool:
    """Whether weights are None, or finite, nonnegative and one-dimensional."""
    return weight is None or bool(weight.ndim == 1 and np.isfinite(weight).all() and weight.min() >= 0)


def _make_plain_targets(y_true: Any, y_pred: Any, sample_weight: Any) -> Targets | None:
    """Return targets of integer or text columns that pass scikit-learn's checks; None for other input."""
    columns = [_get_column(y) for y in (y_true, y_pred)]
    t, p = columns
    if t is None or p is None or t.shape != p.shape or not len(t) or (t.dtype.kind == "U") != (p.dtype.kind == "U"):
        return None
    numbered = _encode_texts(t, p) if t.dtype.kind == "U" else _encode_integers(t, p)
    return None if numbered is None else _add_weights(Targets(None, *numbered, None), sample_weight)


def _make_multilabel_targets(y_true: Any, y_pred: Any, sample_weight: Any) -> Targets | None:
    """Return multilabel targets of dense 0/1 arrays that pass scikit-learn's checks; None for other input."""
    for y in (y_true, y_pred):
        if type(y) is not np.ndarray or y.ndim != 2 or y.shape[1] < 2 or y.dtype.kind not in "biu" or y.shape[0] == 0:
            return None
        if y.dtype.kind != "b" and (y.min() < 0 or y.max() > 1):
            return None
    if y_true.shape != y_pred.shape:
        return None
    y_true, y_pred = (y.astype(np.uint8, copy=False) for y in (y_true, y_pred))
    found = Targets("multilabel-indicator", np.arange(y_true.shape[1]), y_true, y_pred, None)
    return _add_weights(found, sample_weight)


def _add_weights(found: Targets, sample_weight: Any) -> Targets | None:
    """Return the targets with checked weights; None if scikit-learn may refuse them."""
    if sample_weight is None:
        return found
    if len(np.atleast_1d(sample_weight)) != found.n:
        return None
    weight = _check_sample_weight(sample_weight, found.y_true, force_float_dtype=False)
    return replace(found, weight=weight) if weight.dtype.kind in "biuf" else None


def _get_column(y: Any) -> np.ndarray | None:
    """Return a column of integers, bool or text as an array; None for anything else."""
    if isinstance(y, list | tuple):
        kinds = set(map(type, y))
        if kinds not in ({int}, {bool}, {str}):
            return None
    elif issparse(y) or isinstance(y, np.matrix | np.ma.MaskedArray) or not hasattr(y, "__array__"):
        return None
    column = np.asarray(y)
    if column.ndim == 1 and column.dtype.kind == "O" and set(map(type, column)) == {str}:
        column = column.astype("U")
    return column if column.ndim == 1 and column.dtype.kind in "biuU" else None


def _encode_integers(t: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Return classes and positions of integers; None if scikit-learn may warn, as of about as many as samples."""
    low, high = min(int(t.min()), int(p.min())), max(int(t.max()), int(p.max()))
    if high >= 2**63:
        return None
    kind = np.result_type(t, p)
    kind = kind if kind.kind in "biu" else np.dtype(np.int64)
    if high - low >= max(LEAST_SEARCHED_SPAN, len(t)):
        classes = distinct.find_distinct(t, p)
        if 2 * len(classes) > len(t):
            return None
        t, p = (distinct.find_positions(y, classes).astype(np.int64) for y in (t, p))
        return classes.astype(kind), t, p
    if low != 0:
        t, p = (y.astype(np.int64) - low for y in (t, p))
    return (np.arange(high - low + 1) + low).astype(kind), t, p


def _encode_texts(t: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return classes and positions of texts."""
    coded = dispatch.adopt(t=t, p=p)
    names = sorted(_text_codes.list_occurring(coded[0]) | _text_codes.list_occurring(coded[1]))
    t, p = _text_codes.match_labels(names, *coded)
    return np.array(names), t, p
