"""scikit-learn's balanced accuracy, Cohen's kappa, Matthews correlation and class likelihood ratios."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cmfast import metrics
from cmfast.compat.sklearn._matrices import make_matrix, try_targets
from cmfast.compat.sklearn._originals import delegate, is_foreign, replace_original, replay
from cmfast.compat.sklearn._targets import MATRIX, make_targets
from cmfast.metrics import MetricName

# Tiny inputs that make scikit-learn issue its own warning: a class predicted but never true; a single label; none.
MISSED = ([0, 0], [0, 1])
ALIKE = ([0], [0])
EVERY_PAIR = ([0, 0, 1, 1], [0, 1, 0, 1])


@replace_original
def balanced_accuracy_score(
    y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: ArrayLike | None = None, adjusted: bool = False
) -> Any:
    """Return the mean recall over classes; replaces scikit-learn's function of this name."""
    seen = None if is_foreign(y_true, y_pred, sample_weight) else try_targets(y_true, y_pred, sample_weight)
    table = None if seen is None else make_matrix(seen)
    if table is not None:
        name: MetricName = "balanced_accuracy_adjusted" if adjusted else "balanced_accuracy"
        found = metrics.compute(table, [name, "recall"], undefined="nan", on_failure="ignore")
        if not np.isnan(found[name]):
            if len(table) == 1:
                replay("confusion_matrix", *ALIKE)
            if np.isnan(found["recall"]).any():
                replay("balanced_accuracy_score", *MISSED)
            return float(found[name])
    return delegate("balanced_accuracy_score", y_true, y_pred, sample_weight=sample_weight, adjusted=adjusted)


@replace_original
def cohen_kappa_score(
    y1: ArrayLike,
    y2: ArrayLike,
    *,
    labels: ArrayLike | None = None,
    weights: str | None = None,
    sample_weight: ArrayLike | None = None,
    replace_undefined_by: float = np.nan,
) -> Any:
    """Return Cohen's kappa; replaces scikit-learn's function of this name."""
    options = {"labels": labels, "weights": weights, "sample_weight": sample_weight}
    found = None if is_foreign(y1, y2, labels, sample_weight) else try_targets(y1, y2, sample_weight)
    table = None if found is None else make_matrix(found, labels)
    if table is not None:
        value = metrics.kappa(table, weights=weights, undefined="strict", on_failure="ignore")
        if not np.isnan(value):
            return float(value)
    return delegate("cohen_kappa_score", y1, y2, **options, replace_undefined_by=replace_undefined_by)


@replace_original
def matthews_corrcoef(y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: ArrayLike | None = None) -> Any:
    """Return the Matthews correlation coefficient; replaces scikit-learn's function of this name."""
    found = None if is_foreign(y_true, y_pred, sample_weight) else make_targets(y_true, y_pred, sample_weight)
    if found is None or found.is_multilabel:
        return delegate("matthews_corrcoef", y_true, y_pred, sample_weight=sample_weight)
    if len(found.labels) == 1:
        replay("confusion_matrix", *ALIKE)
    if found.weight is None and len(found.classes) > MATRIX:
        d, t, p = found.sums[:3]
        return float(metrics.from_sums(d, t, p, "mcc"))
    return float(metrics.mcc(found.matrix()))


@replace_original
def class_likelihood_ratios(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    replace_undefined_by: Any = np.nan,
) -> Any:
    """Return the positive and negative likelihood ratios; replaces scikit-learn's function of this name."""
    options = {"labels": labels, "sample_weight": sample_weight, "replace_undefined_by": replace_undefined_by}
    found = None if is_foreign(y_true, y_pred, labels, sample_weight) else make_targets(y_true, y_pred, sample_weight)
    if found is not None and found.kind == "binary":
        table = make_matrix(found, labels)
        if isinstance(replace_undefined_by, dict):
            replay("class_likelihood_ratios", *EVERY_PAIR, replace_undefined_by=replace_undefined_by)
        if table is not None and table.shape == (2, 2):
            recall = metrics.compute(table, "recall", undefined="strict", on_failure="ignore")
            miss = table[[0, 1], [1, 0]] / np.maximum(table.sum(1), np.finfo(np.float64).tiny)
            if not np.isnan(recall).any() and recall[0] > 0 and miss[0] > 0:
                return float(recall[1] / miss[0]), float(miss[1] / recall[0])
    return delegate("class_likelihood_ratios", y_true, y_pred, **options)
