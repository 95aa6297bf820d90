"""scikit-learn's confusion matrices and the metrics of a whole matrix: accuracy, zero-one loss, Hamming loss."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cmfast import counting, normalizing
from cmfast._core import validate
from cmfast.compat.sklearn._originals import delegate, is_foreign, replace_original, replay
from cmfast.compat.sklearn._tables import make_tables
from cmfast.compat.sklearn._targets import MATRIX, Targets, convert_weights, make_targets

SHIFTS, LOW_WEIGHT_BITS = (0, 22, 44), 2**22 - 1  # integer weights above 2**53 in total are summed in three exact parts


@replace_original
def confusion_matrix(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    normalize: Any = None,
) -> Any:
    """Return the confusion matrix; replaces scikit-learn's function of this name."""
    options = {"labels": labels, "sample_weight": sample_weight, "normalize": normalize}
    found = None if is_foreign(y_true, y_pred, *options.values()) else try_targets(y_true, y_pred, sample_weight)
    table = None if found is None else make_matrix(found, labels)
    if table is None:
        return delegate("confusion_matrix", y_true, y_pred, **options)
    if normalize is not None:
        table = normalizing.normalize(table, normalize, on_failure="ignore")
        table = np.nan_to_num(table)
    if table.shape == (1, 1):
        replay("confusion_matrix", [0], [0])  # issues the warning about a single label
    return table


def try_targets(y_true: ArrayLike, y_pred: ArrayLike, sample_weight: Any) -> Targets | None:
    """Return checked targets; None if the checks raise."""
    try:
        return make_targets(y_true, y_pred, sample_weight)
    except (TypeError, ValueError):  # delegated, because scikit-learn's own function words the error
        return None


def make_matrix(found: Targets, labels: ArrayLike | None = None) -> Any:
    """Return the matrix of `labels`, of integers if weights are integers; None for labels that scikit-learn refuses."""
    weight = found.weight
    if found.is_multilabel:
        return None
    if weight is None or weight.dtype.kind == "f":
        return _count_table(found, labels)
    if weight.sum(dtype=np.float64) < validate.EXACT_FLOAT64:
        table = _count_table(found, labels)
        return None if table is None else table.astype(np.int64)
    parts = [_count_table(replace(found, weight=weight >> shift & LOW_WEIGHT_BITS), labels) for shift in SHIFTS]
    if parts[0] is None:
        return None
    # A sum beyond int64 overflows silently, as in scikit-learn.
    return sum(part.astype(np.int64) << shift for part, shift in zip(parts, SHIFTS, strict=True))


def _count_table(found: Targets, labels: Any) -> Any:
    """Return the matrix of `labels` in order, or of all labels that occur; None if none of `labels` is a truth."""
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
    return counting.confusion_matrix(y_true, y_pred, labels=np.arange(n), sample_weight=convert_weights(found.weight))


@replace_original
def multilabel_confusion_matrix(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    samplewise: bool = False,
) -> Any:
    """Return a 2x2 table per label, or per sample; replaces scikit-learn's function of this name."""
    options = {"sample_weight": sample_weight, "labels": labels, "samplewise": samplewise}
    table = None
    if not is_foreign(y_true, y_pred, sample_weight, labels):
        found = make_targets(y_true, y_pred, sample_weight)
        if found is not None and (found.is_multilabel or not samplewise):
            table = make_tables(found, labels, samplewise=samplewise)
    return delegate("multilabel_confusion_matrix", y_true, y_pred, **options) if table is None else table


@replace_original
def accuracy_score(
    y_true: ArrayLike, y_pred: ArrayLike, *, normalize: bool = True, sample_weight: ArrayLike | None = None
) -> Any:
    """Return the accuracy; replaces scikit-learn's function of this name."""
    found = None if is_foreign(y_true, y_pred, sample_weight) else make_targets(y_true, y_pred, sample_weight)
    if found is None or found.total == 0:
        return delegate("accuracy_score", y_true, y_pred, normalize=normalize, sample_weight=sample_weight)
    right = float(found.count_correct()[1])
    return right / found.total if normalize else right


@replace_original
def zero_one_loss(
    y_true: ArrayLike, y_pred: ArrayLike, *, normalize: bool = True, sample_weight: ArrayLike | None = None
) -> Any:
    """Return the share of misclassified samples; replaces scikit-learn's function of this name."""
    found = None if is_foreign(y_true, y_pred, sample_weight) else make_targets(y_true, y_pred, sample_weight)
    if found is None or found.total == 0:
        return delegate("zero_one_loss", y_true, y_pred, normalize=normalize, sample_weight=sample_weight)
    wrong = float(found.count_correct()[0])
    return wrong / found.total if normalize else wrong


@replace_original
def hamming_loss(y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: ArrayLike | None = None) -> Any:
    """Return the share of wrongly predicted labels; replaces scikit-learn's function of this name."""
    found = None if is_foreign(y_true, y_pred, sample_weight) else make_targets(y_true, y_pred, sample_weight)
    if found is None or found.total == 0:
        return delegate("hamming_loss", y_true, y_pred, sample_weight=sample_weight)
    if not found.is_multilabel:
        return float(found.count_correct()[0]) / found.total
    wrong = make_tables(found)[:, [0, 1], [1, 0]].sum()
    return float(wrong) / (found.total * len(found.classes))
