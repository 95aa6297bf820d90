"""scikit-learn's curves over score thresholds: ROC, precision-recall, DET, counts."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import _check_pos_label_consistency, _check_sample_weight, _deprecate_positional_args

from cmfast import counting
from cmfast.compat.sklearn._originals import delegate, is_foreign, replace_original


class ThresholdCounts(NamedTuple):
    """False and true positives at every distinct score, in decreasing order of score, as float64."""

    fps: np.ndarray
    tps: np.ndarray
    thresholds: np.ndarray


def count_thresholds(
    y_true: ArrayLike, y_score: ArrayLike, pos_label: Any, sample_weight: Any
) -> ThresholdCounts | None:
    """Return the counts at every threshold; None for input that is delegated to scikit-learn."""
    if is_foreign(y_true, y_score, sample_weight):
        return None
    hit = get_binary_truth(y_true, pos_label)
    if hit is None:
        kind = type_of_target(y_true, input_name="y_true")
        if kind != "binary" and not (kind == "multiclass" and pos_label is not None):
            return None
        pos_label = _check_pos_label_consistency(pos_label, y_true)
        hit = column_or_1d(np.asarray(y_true) == pos_label)
    check_consistent_length(hit, y_score, sample_weight)
    score = column_or_1d(y_score)
    assert_all_finite(score)
    weight = None
    if sample_weight is not None:
        weight = _check_sample_weight(column_or_1d(sample_weight), hit)
        if not len(hit) or weight.min() < 0:
            return None
        counted = weight != 0
        hit, score, weight = hit[counted], score[counted], weight[counted]
    return count_sorted_scores(hit, score, weight) if len(hit) else None


def get_binary_truth(y_true: ArrayLike, pos_label: Any) -> np.ndarray | None:
    """Return 0/1 labels as bool, for columns that pass scikit-learn's checks; None for other input."""
    if type(y_true) is not np.ndarray or y_true.ndim != 1 or not len(y_true) or pos_label not in (None, 1):
        return None
    if y_true.dtype.kind in "iu" and y_true.min() >= 0 and y_true.max() <= 1:
        return y_true.astype(np.bool_)
    return y_true if y_true.dtype.kind == "b" else None


def count_sorted_scores(hit: np.ndarray, score: np.ndarray, weight: np.ndarray | None = None) -> ThresholdCounts:
    """Return false and true positives at every distinct score, by one grouped count."""
    order = np.argsort(score)[::-1]
    ordered = score[order]
    new = np.empty(len(score), np.bool_)
    new[0], new[1:] = True, ordered[1:] != ordered[:-1]
    groups = np.cumsum(new) - 1
    at = counting.confusion_matrix(
        np.zeros(len(hit), np.int8),
        hit[order].view(np.int8),
        n_classes=2,
        groups=groups,
        n_groups=int(groups[-1]) + 1,
        sample_weight=None if weight is None else weight[order].astype(np.float64, copy=False),
    )
    below = np.cumsum(at[:, 0], axis=0, dtype=np.float64)
    return ThresholdCounts(below[:, 0], below[:, 1], ordered[new])


def _drop_points(found: ThresholdCounts, dropped: np.ndarray) -> ThresholdCounts:
    """Drop the inner points selected by the mask `dropped`; the end points stay."""
    kept = np.ones(len(found.fps), np.bool_)
    kept[1:-1] = ~dropped
    return ThresholdCounts(*(part[kept] for part in found))


def _drop_collinear_points(found: ThresholdCounts) -> ThresholdCounts:
    """Drop inner points at which the ROC curve does not bend."""
    fps, tps, _ = found
    return found if len(fps) <= 2 else _drop_points(found, (np.diff(fps, 2) == 0) & (np.diff(tps, 2) == 0))


def _drop_flat_points(found: ThresholdCounts) -> ThresholdCounts:
    """Drop inner points whose neighbours have the same number of true positives."""
    alike = np.diff(found.tps) == 0
    return found if len(alike) <= 1 else _drop_points(found, alike[:-1] & alike[1:])


def _prepend_infinity(found: ThresholdCounts) -> ThresholdCounts:
    """Prepend the threshold infinity, at which no sample is predicted positive."""
    zero = np.zeros(1)
    thresholds = np.concatenate([[np.inf], found.thresholds.astype(np.float64)])
    return ThresholdCounts(np.concatenate([zero, found.fps]), np.concatenate([zero, found.tps]), thresholds)


@_deprecate_positional_args(version="1.11")  # type: ignore[untyped-decorator]
@replace_original
def confusion_matrix_at_thresholds(
    y_true: ArrayLike, y_score: ArrayLike, *, pos_label: Any = None, sample_weight: ArrayLike | None = None
) -> Any:
    """Return tn, fp, fn and tp at every threshold; replaces scikit-learn's function of this name."""
    found = count_thresholds(y_true, y_score, pos_label, sample_weight)
    if found is None:
        return delegate(
            "confusion_matrix_at_thresholds", y_true, y_score, pos_label=pos_label, sample_weight=sample_weight
        )
    fps, tps, thresholds = found
    return fps[-1] - fps, fps, tps[-1] - tps, tps, thresholds


@replace_original
def roc_curve(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    drop_intermediate: bool = True,
) -> Any:
    """Return false and true positive rates by threshold; replaces scikit-learn's function of this name."""
    options = {"pos_label": pos_label, "sample_weight": sample_weight}
    found = count_thresholds(y_true, y_score, **options)
    if found is None or found.fps[-1] <= 0 or found.tps[-1] <= 0:
        return delegate("roc_curve", y_true, y_score, **options, drop_intermediate=drop_intermediate)
    fps, tps, thresholds = _prepend_infinity(_drop_collinear_points(found) if drop_intermediate else found)
    return fps / fps[-1], tps / tps[-1], thresholds


@replace_original
def precision_recall_curve(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    drop_intermediate: bool = False,
) -> Any:
    """Return precision and recall by threshold; replaces scikit-learn's function of this name."""
    options = {"pos_label": pos_label, "sample_weight": sample_weight}
    found = count_thresholds(y_true, y_score, **options)
    if found is None or found.tps[-1] == 0:
        return delegate("precision_recall_curve", y_true, y_score, **options, drop_intermediate=drop_intermediate)
    fps, tps, thresholds = _drop_flat_points(found) if drop_intermediate else found
    precision, recall = (
        tps / (tps + fps),
        tps / tps[-1],
    )  # at every threshold a sample is predicted positive, so there is no 0/0
    return np.append(precision[::-1], 1.0), np.append(recall[::-1], 0.0), thresholds[::-1].copy()


@replace_original
def det_curve(
    y_true: ArrayLike,
    y_score: ArrayLike,
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    drop_intermediate: bool = False,
) -> Any:
    """Return false positive and false negative rates by threshold; replaces scikit-learn's function of this name."""
    options = {"pos_label": pos_label, "sample_weight": sample_weight}
    found = count_thresholds(y_true, y_score, **options)
    if found is None or len(np.unique(y_true)) != 2 or found.fps[-1] <= 0 or found.tps[-1] <= 0:
        return delegate("det_curve", y_true, y_score, **options, drop_intermediate=drop_intermediate)
    found = _prepend_infinity(found)
    fps, tps, thresholds = _drop_flat_points(found) if drop_intermediate else found
    first = np.flatnonzero(fps == fps[0])[-1]  # of the points without false positives keep the lowest threshold
    part = slice(first, np.flatnonzero(tps == tps[-1])[0] + 1)
    fpr, fnr = fps[part] / fps[-1], (tps[-1] - tps[part]) / tps[-1]
    return fpr[::-1].copy(), fnr[::-1].copy(), thresholds[part][::-1].copy()
