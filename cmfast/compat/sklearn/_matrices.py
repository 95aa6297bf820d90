"""Confusion matrices, and the metrics that are one number of a whole one."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cmfast import counting, normalizing
from cmfast._core import validate
from cmfast.compat.sklearn._originals import ask, is_foreign, leave, replaces
from cmfast.compat.sklearn._tables import tables
from cmfast.compat.sklearn._targets import MATRIX, Targets, as_float, targets

SHIFTS, LOW_WEIGHT_BITS = (0, 22, 44), 2**22 - 1  # larger weights are summed in three parts, each exactly


@replaces
def confusion_matrix(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    normalize: Any = None,
) -> Any:
    """Count how often each label was taken for each label; see scikit-learn's function of this name."""
    options = {"labels": labels, "sample_weight": sample_weight, "normalize": normalize}
    found = None if is_foreign(y_true, y_pred, *options.values()) else counted(y_true, y_pred, sample_weight)
    table = None if found is None else matrix(found, labels)
    if table is None:
        return leave("confusion_matrix", y_true, y_pred, **options)
    if normalize is not None:
        table = normalizing.normalize(table, normalize, on_failure="ignore")
        table = np.nan_to_num(table)
    if table.shape == (1, 1):
        ask("confusion_matrix", [0], [0])  # which warns of a single label
    return table


def counted(y_true: ArrayLike, y_pred: ArrayLike, sample_weight: Any) -> Targets | None:
    """Return the targets of a matrix; None for what is refused."""
    try:
        return targets(y_true, y_pred, sample_weight)
    except (TypeError, ValueError):  # which scikit-learn's own function words as one of three arrays
        return None


def matrix(found: Targets, labels: ArrayLike | None = None) -> Any:
    """Return the matrix of `labels`, of integers where weights are; None for labels that are refused."""
    weight = found.weight
    if found.is_multilabel:
        return None
    if weight is None or weight.dtype.kind == "f":
        return _table(found, labels)
    if weight.sum(dtype=np.float64) < validate.EXACT_FLOAT64:
        table = _table(found, labels)
        return None if table is None else table.astype(np.int64)
    parts = [_table(replace(found, weight=weight >> shift & LOW_WEIGHT_BITS), labels) for shift in SHIFTS]
    if parts[0] is None:
        return None
    # Beyond int64 the sum wraps, as scikit-learn's does.
    return sum(part.astype(np.int64) << shift for part, shift in zip(parts, SHIFTS, strict=True))


def _table(found: Targets, labels: Any) -> Any:
    """Return the matrix of `labels` in their order, or of all that occur; None for labels that are refused."""
    if labels is None:
        return found.matrix()
    place = {label: k for k, label in enumerate(np.asarray(labels).tolist())}
    places = np.array([place.get(label, -1) for label in found.labels.tolist()])
    among = np.zeros(len(found.classes), np.bool_)
    among[found.occurring] = places >= 0
    if not np.any(found.sums.row_sums[among]):
        return None
    n = np.size(labels)
    if len(found.classes) <= MATRIX:
        chosen = np.flatnonzero(places >= 0)
        counts = found.matrix()
        table = np.zeros((n, n), counts.dtype)
        table[np.ix_(places[chosen], places[chosen])] = counts[np.ix_(chosen, chosen)]
        return table
    lookup = np.full(len(found.classes), -1)
    lookup[found.occurring] = places
    y_true, y_pred = lookup[found.y_true], lookup[found.y_pred]
    return counting.confusion_matrix(y_true, y_pred, labels=np.arange(n), sample_weight=as_float(found.weight))


@replaces
def multilabel_confusion_matrix(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    samplewise: bool = False,
) -> Any:
    """Return a table per label, or per sample; see scikit-learn's function of this name."""
    options = {"sample_weight": sample_weight, "labels": labels, "samplewise": samplewise}
    table = None
    if not is_foreign(y_true, y_pred, sample_weight, labels):
        found = targets(y_true, y_pred, sample_weight)
        if found is not None and (found.is_multilabel or not samplewise):
            table = tables(found, labels, samplewise=samplewise)
    return leave("multilabel_confusion_matrix", y_true, y_pred, **options) if table is None else table


@replaces
def accuracy_score(
    y_true: ArrayLike, y_pred: ArrayLike, *, normalize: bool = True, sample_weight: ArrayLike | None = None
) -> Any:
    """Return the share of samples that were predicted right; see scikit-learn's function of this name."""
    found = None if is_foreign(y_true, y_pred, sample_weight) else targets(y_true, y_pred, sample_weight)
    if found is None or found.total == 0:
        return leave("accuracy_score", y_true, y_pred, normalize=normalize, sample_weight=sample_weight)
    right = float(found.right()[1])
    return right / found.total if normalize else right


@replaces
def zero_one_loss(
    y_true: ArrayLike, y_pred: ArrayLike, *, normalize: bool = True, sample_weight: ArrayLike | None = None
) -> Any:
    """Return the share of samples that were predicted wrong; see scikit-learn's function of this name."""
    found = None if is_foreign(y_true, y_pred, sample_weight) else targets(y_true, y_pred, sample_weight)
    if found is None or found.total == 0:
        return leave("zero_one_loss", y_true, y_pred, normalize=normalize, sample_weight=sample_weight)
    wrong = float(found.right()[0])
    return wrong / found.total if normalize else wrong


@replaces
def hamming_loss(y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: ArrayLike | None = None) -> Any:
    """Return the share of labels that were predicted wrong; see scikit-learn's function of this name."""
    found = None if is_foreign(y_true, y_pred, sample_weight) else targets(y_true, y_pred, sample_weight)
    if found is None or found.total == 0:
        return leave("hamming_loss", y_true, y_pred, sample_weight=sample_weight)
    if not found.is_multilabel:
        return float(found.right()[0]) / found.total
    wrong = tables(found)[:, [0, 1], [1, 0]].sum()
    return float(wrong) / (found.total * len(found.classes))
