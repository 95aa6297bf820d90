"""scikit-learn's areas under curves: ROC AUC and average precision, binary or averaged over classes."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics._base import _average_binary_score, _average_multiclass_ovo_score
from sklearn.preprocessing import label_binarize
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import type_of_target

from cmfast.compat.sklearn._curves import ThresholdCounts, count_thresholds, get_binary_truth
from cmfast.compat.sklearn._originals import delegate, is_foreign, replace_original


def _roc_area(
    y_true: ArrayLike, y_score: ArrayLike, sample_weight: ArrayLike | None = None, max_fpr: float | None = None
) -> float:
    """Return the area under the ROC curve for binary labels with positive class 1."""
    found = count_thresholds(y_true, y_score, 1, sample_weight)
    if found is None or found.fps[-1] <= 0 or found.tps[-1] <= 0:
        undefined: float = delegate("roc_auc_score", y_true, y_score, sample_weight=sample_weight, max_fpr=max_fpr)
        return undefined
    return _integrate_roc(found, max_fpr)


def _integrate_roc(found: ThresholdCounts, max_fpr: float | None) -> float:
    """Return the ROC AUC by the trapezoidal rule, standardised below `max_fpr` (McClish, 1989)."""
    fps, tps = (np.concatenate([[0.0], part]) for part in found[:2])
    if max_fpr is None or max_fpr == 1:
        return float(np.dot(np.diff(fps), tps[1:] + tps[:-1]) / (2 * fps[-1] * tps[-1]))
    fpr, tpr = fps / fps[-1], tps / tps[-1]
    inside = int(np.searchsorted(fpr, max_fpr, "right"))
    x = np.append(fpr[:inside], max_fpr)
    y = np.append(tpr[:inside], np.interp(max_fpr, fpr[inside - 1 : inside + 1], tpr[inside - 1 : inside + 1]))
    least = max_fpr**2 / 2  # the area of an uninformative score
    return float((1 + (np.trapezoid(y, x) - least) / (max_fpr - least)) / 2)  # McClish 1989


@replace_original
def roc_auc_score(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    average: str | None = "macro",
    sample_weight: ArrayLike | None = None,
    max_fpr: float | None = None,
    multi_class: str = "raise",
    labels: ArrayLike | None = None,
) -> Any:
    """Return the area under the ROC curve; replaces scikit-learn's function of this name."""
    options = {"average": average, "sample_weight": sample_weight, "max_fpr": max_fpr}
    if not is_foreign(y_true, y_score, sample_weight):
        found = _count_binary(y_true, y_score, sample_weight)
        if found is not None:
            return _integrate_roc(found, max_fpr)
        kind = type_of_target(y_true, input_name="y_true")
        as_given: Any = None
        truth, score = check_array(y_true, ensure_2d=False, dtype=as_given), check_array(y_score, ensure_2d=False)
        weight = None if sample_weight is None else column_or_1d(sample_weight)
        wide = score.ndim == 2 and score.shape[1] > 2
        if kind == "multilabel-indicator":
            return _average_binary_score(partial(_roc_area, max_fpr=max_fpr), truth, score, average, weight)
        if kind == "binary" and not wide:
            classes = np.unique(truth)
            if len(classes) == 2:
                truth = label_binarize(truth, classes=classes)[:, 0]
                return _average_binary_score(partial(_roc_area, max_fpr=max_fpr), truth, score, average, weight)
        elif kind in {"binary", "multiclass"} and max_fpr in (None, 1):
            classes = _choose_classes(truth, score, labels, multi_class, average, weight)
            if classes is not None:
                return _average_classes(truth, score, classes, multi_class, average, weight)
    return delegate("roc_auc_score", y_true, y_score, **options, multi_class=multi_class, labels=labels)


def _count_binary(y_true: Any, y_score: Any, sample_weight: Any) -> ThresholdCounts | None:
    """Return threshold counts for 0/1 labels, both present, and one column of scores; None for other input."""
    column = type(y_score) is np.ndarray and y_score.ndim == 1 and y_score.dtype.kind in "fiu"
    hit = get_binary_truth(y_true, 1)
    if (
        not column
        or hit is None
        or len(hit) != len(y_score)
        or not np.isfinite(y_score).all()
        or hit.all() == hit.any()
    ):
        return None
    found = count_thresholds(y_true, y_score, 1, sample_weight)
    return None if found is None or found.fps[-1] <= 0 or found.tps[-1] <= 0 else found


def _choose_classes(truth: Any, score: Any, labels: Any, multi_class: str, average: str | None, weight: Any) -> Any:
    """Return the classes of multiclass scores; None for arguments that scikit-learn refuses."""
    averages = {"ovr": ("micro", "macro", "weighted", None), "ovo": ("macro", "weighted")}.get(multi_class, ())
    if average not in averages or (multi_class == "ovo" and weight is not None):
        return None
    if score.ndim != 2 or not np.allclose(1, score.sum(axis=1)):
        return None
    classes = np.unique(truth)
    if labels is not None:
        given = column_or_1d(labels)
        if not np.array_equal(given, np.unique(given)) or len(np.setdiff1d(classes, given)):
            return None
        classes = given
    return classes if len(classes) == score.shape[1] else None


def _average_classes(truth: Any, score: Any, classes: Any, multi_class: str, average: str | None, weight: Any) -> Any:
    """Average the ROC AUC over classes (one-vs-rest) or pairs of classes (one-vs-one)."""
    if multi_class == "ovo":
        return _average_multiclass_ovo_score(_roc_area, np.searchsorted(classes, truth), score, average or "macro")
    return _average_binary_score(_roc_area, label_binarize(truth, classes=classes), score, average, weight)


def _precision_area(
    y_true: ArrayLike, y_score: ArrayLike, pos_label: Any = 1, sample_weight: ArrayLike | None = None
) -> float:
    """Return the average precision of binary labels."""
    found = count_thresholds(y_true, y_score, pos_label, sample_weight)
    if found is None or found.tps[-1] == 0:
        undefined: float = delegate(
            "average_precision_score", y_true, y_score, pos_label=pos_label, sample_weight=sample_weight
        )
        return undefined
    return _integrate_steps(found)


def _integrate_steps(found: ThresholdCounts) -> float:
    """Return the average precision: the sum of precision times the steps of recall."""
    fps, tps, _ = found
    steps = np.diff(tps, prepend=0.0)
    return float(np.dot(steps, tps / (tps + fps)) / tps[-1])


@replace_original
def average_precision_score(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    average: str | None = "macro",
    pos_label: Any = 1,
    sample_weight: ArrayLike | None = None,
) -> Any:
    """Return the average precision; replaces scikit-learn's function of this name."""
    options = {"average": average, "pos_label": pos_label, "sample_weight": sample_weight}
    if not is_foreign(y_true, y_score, sample_weight):
        weight = None if sample_weight is None else column_or_1d(sample_weight)
        found = _count_binary(y_true, y_score, weight) if pos_label == 1 else None
        if found is not None:
            return _integrate_steps(found)
        kind = type_of_target(y_true, input_name="y_true")
        truth = y_true
        if kind == "binary" and pos_label not in np.unique(y_true):
            kind = ""
        elif kind == "multiclass":
            truth = label_binarize(y_true, classes=np.unique(y_true))
            kind = kind if np.shape(y_score) == truth.shape and pos_label == 1 else ""
        elif kind == "multilabel-indicator" and pos_label != 1:
            kind = ""
        if kind in {"binary", "multiclass", "multilabel-indicator"}:
            area = partial(_precision_area, pos_label=pos_label)
            return _average_binary_score(area, truth, y_score, average, sample_weight=weight)
    return delegate("average_precision_score", y_true, y_score, **options)
