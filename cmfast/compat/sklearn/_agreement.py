"""Metrics of a whole confusion matrix that correct for chance or for how common the classes are."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cmfast import metrics
from cmfast.compat.sklearn._matrices import counted, matrix
from cmfast.compat.sklearn._originals import ask, is_foreign, leave, replaces
from cmfast.compat.sklearn._targets import MATRIX, targets
from cmfast.metrics import MetricName

# Few samples of which scikit-learn says what it has to say: of a class that is predicted and never true, of a single
# label, and nothing.
MISSED = ([0, 0], [0, 1])
ALIKE = ([0], [0])
EVERY_PAIR = ([0, 0, 1, 1], [0, 1, 0, 1])


@replaces
def balanced_accuracy_score(
    y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: ArrayLike | None = None, adjusted: bool = False
) -> Any:
    """Return the mean of the recalls; see scikit-learn's function of this name."""
    seen = None if is_foreign(y_true, y_pred, sample_weight) else counted(y_true, y_pred, sample_weight)
    table = None if seen is None else matrix(seen)
    if table is not None:
        name: MetricName = "balanced_accuracy_adjusted" if adjusted else "balanced_accuracy"
        found = metrics.compute(table, [name, "recall"], undefined="nan", on_failure="ignore")
        if not np.isnan(found[name]):
            if len(table) == 1:
                ask("confusion_matrix", *ALIKE)
            if np.isnan(found["recall"]).any():
                ask("balanced_accuracy_score", *MISSED)
            return float(found[name])
    return leave("balanced_accuracy_score", y_true, y_pred, sample_weight=sample_weight, adjusted=adjusted)


@replaces
def cohen_kappa_score(
    y1: ArrayLike,
    y2: ArrayLike,
    *,
    labels: ArrayLike | None = None,
    weights: str | None = None,
    sample_weight: ArrayLike | None = None,
    replace_undefined_by: float = np.nan,
) -> Any:
    """Return the agreement beyond chance; see scikit-learn's function of this name."""
    options = {"labels": labels, "weights": weights, "sample_weight": sample_weight}
    found = None if is_foreign(y1, y2, labels, sample_weight) else counted(y1, y2, sample_weight)
    table = None if found is None else matrix(found, labels)
    if table is not None:
        value = metrics.kappa(table, weights=weights, undefined="strict", on_failure="ignore")
        if not np.isnan(value):
            return float(value)
    return leave("cohen_kappa_score", y1, y2, **options, replace_undefined_by=replace_undefined_by)


@replaces
def matthews_corrcoef(y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: ArrayLike | None = None) -> Any:
    """Return the correlation of truth and prediction; see scikit-learn's function of this name."""
    found = None if is_foreign(y_true, y_pred, sample_weight) else targets(y_true, y_pred, sample_weight)
    if found is None or found.is_multilabel:
        return leave("matthews_corrcoef", y_true, y_pred, sample_weight=sample_weight)
    if len(found.labels) == 1:
        ask("confusion_matrix", *ALIKE)
    if found.weight is None and len(found.classes) > MATRIX:
        d, t, p = found.sums[:3]
        return float(metrics.from_sums(d, t, p, "mcc"))
    return float(metrics.mcc(found.matrix()))


@replaces
def class_likelihood_ratios(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    replace_undefined_by: Any = np.nan,
) -> Any:
    """Return the likelihood ratios of both predictions; see scikit-learn's function of this name."""
    options = {"labels": labels, "sample_weight": sample_weight, "replace_undefined_by": replace_undefined_by}
    found = None if is_foreign(y_true, y_pred, labels, sample_weight) else targets(y_true, y_pred, sample_weight)
    if found is not None and found.kind == "binary":
        table = matrix(found, labels)
        if isinstance(replace_undefined_by, dict):
            ask("class_likelihood_ratios", *EVERY_PAIR, replace_undefined_by=replace_undefined_by)
        if table is not None and table.shape == (2, 2):
            recall = metrics.compute(table, "recall", undefined="strict", on_failure="ignore")
            miss = table[[0, 1], [1, 0]] / np.maximum(table.sum(1), np.finfo(np.float64).tiny)
            if not np.isnan(recall).any() and recall[0] > 0 and miss[0] > 0:
                return float(recall[1] / miss[0]), float(miss[1] / recall[0])
    return leave("class_likelihood_ratios", y_true, y_pred, **options)
