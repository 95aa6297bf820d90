"""Curves along the thresholds of a score."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import _check_pos_label_consistency, _check_sample_weight, _deprecate_positional_args

from cmfast import counting
from cmfast.compat.sklearn._originals import is_foreign, leave, replaces


class ThresholdCounts(NamedTuple):
    """True and false positives at every distinct score, from the highest down, as float64."""

    fps: np.ndarray
    tps: np.ndarray
    thresholds: np.ndarray


def counts(y_true: ArrayLike, y_score: ArrayLike, pos_label: Any, sample_weight: Any) -> ThresholdCounts | None:
    """Return the counts at every threshold; None for what is left to scikit-learn."""
    if is_foreign(y_true, y_score, sample_weight):
        return None
    hit = zero_or_one(y_true, pos_label)
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
    return along(hit, score, weight) if len(hit) else None


def zero_or_one(y_true: ArrayLike, pos_label: Any) -> np.ndarray | None:
    """Return what is positive in a column to which scikit-learn cannot object; None for any other."""
    if type(y_true) is not np.ndarray or y_true.ndim != 1 or not len(y_true) or pos_label not in (None, 1):
        return None
    if y_true.dtype.kind in "iu" and y_true.min() >= 0 and y_true.max() <= 1:
        return y_true.astype(np.bool_)
    return y_true if y_true.dtype.kind == "b" else None


def along(hit: np.ndarray, score: np.ndarray, weight: np.ndarray | None = None) -> ThresholdCounts:
    """Return the counts at every distinct score."""
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


def _without(found: ThresholdCounts, dropped: np.ndarray) -> ThresholdCounts:
    """Return the counts but for what is dropped between the ends."""
    kept = np.ones(len(found.fps), np.bool_)
    kept[1:-1] = ~dropped
    return ThresholdCounts(*(part[kept] for part in found))


def _turning(found: ThresholdCounts) -> ThresholdCounts:
    """Return the counts where the ROC curve turns, and its ends."""
    fps, tps, _ = found
    return found if len(fps) <= 2 else _without(found, (np.diff(fps, 2) == 0) & (np.diff(tps, 2) == 0))


def _changing(found: ThresholdCounts) -> ThresholdCounts:
    """Return the counts but for those whose neighbours have as many true positives, and the ends."""
    alike = np.diff(found.tps) == 0
    return found if len(alike) <= 1 else _without(found, alike[:-1] & alike[1:])


def _from_infinity(found: ThresholdCounts) -> ThresholdCounts:
    """Return counts that begin where nothing is predicted to be positive."""
    zero = np.zeros(1)
    thresholds = np.concatenate([[np.inf], found.thresholds.astype(np.float64)])
    return ThresholdCounts(np.concatenate([zero, found.fps]), np.concatenate([zero, found.tps]), thresholds)


@_deprecate_positional_args(version="1.11")  # type: ignore[untyped-decorator]
@replaces
def confusion_matrix_at_thresholds(
    y_true: ArrayLike, y_score: ArrayLike, *, pos_label: Any = None, sample_weight: ArrayLike | None = None
) -> Any:
    """Return tn, fp, fn and tp at every threshold; see scikit-learn's function of this name."""
    found = counts(y_true, y_score, pos_label, sample_weight)
    if found is None:
        return leave(
            "confusion_matrix_at_thresholds", y_true, y_score, pos_label=pos_label, sample_weight=sample_weight
        )
    fps, tps, thresholds = found
    return fps[-1] - fps, fps, tps[-1] - tps, tps, thresholds


@replaces
def roc_curve(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    drop_intermediate: bool = True,
) -> Any:
    """Return false and true positive rates along the thresholds; see scikit-learn's function of this name."""
    options = {"pos_label": pos_label, "sample_weight": sample_weight}
    found = counts(y_true, y_score, **options)
    if found is None or found.fps[-1] <= 0 or found.tps[-1] <= 0:
        return leave("roc_curve", y_true, y_score, **options, drop_intermediate=drop_intermediate)
    fps, tps, thresholds = _from_infinity(_turning(found) if drop_intermediate else found)
    return fps / fps[-1], tps / tps[-1], thresholds


@replaces
def precision_recall_curve(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    drop_intermediate: bool = False,
) -> Any:
    """Return precision and recall along the thresholds; see scikit-learn's function of this name."""
    options = {"pos_label": pos_label, "sample_weight": sample_weight}
    found = counts(y_true, y_score, **options)
    if found is None or found.tps[-1] == 0:
        return leave("precision_recall_curve", y_true, y_score, **options, drop_intermediate=drop_intermediate)
    fps, tps, thresholds = _changing(found) if drop_intermediate else found
    precision, recall = tps / (tps + fps), tps / tps[-1]  # the first score is somebody's, so nothing is 0/0
    return np.append(precision[::-1], 1.0), np.append(recall[::-1], 0.0), thresholds[::-1].copy()


@replaces
def det_curve(
    y_true: ArrayLike,
    y_score: ArrayLike,
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
    drop_intermediate: bool = False,
) -> Any:
    """Return false positive and false negative rates along the thresholds; see scikit-learn's function of this name."""
    options = {"pos_label": pos_label, "sample_weight": sample_weight}
    found = counts(y_true, y_score, **options)
    if found is None or len(np.unique(y_true)) != 2 or found.fps[-1] <= 0 or found.tps[-1] <= 0:
        return leave("det_curve", y_true, y_score, **options, drop_intermediate=drop_intermediate)
    found = _from_infinity(found)
    fps, tps, thresholds = _changing(found) if drop_intermediate else found
    first = np.flatnonzero(fps == fps[0])[-1]  # of those without a false positive the lowest threshold says most
    part = slice(first, np.flatnonzero(tps == tps[-1])[0] + 1)
    fpr, fnr = fps[part] / fps[-1], (tps[-1] - tps[part]) / tps[-1]
    return fpr[::-1].copy(), fnr[::-1].copy(), thresholds[part][::-1].copy()
