"""scikit-learn's precision, recall, F-score and Jaccard index, per label or averaged."""

from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics._classification import _check_set_wise_labels, _check_zero_division, _warn_prf

from cmfast import metrics
from cmfast.compat.sklearn._originals import delegate, is_foreign, replace_original
from cmfast.compat.sklearn._tables import make_tables
from cmfast.compat.sklearn._targets import Targets, make_targets
from cmfast.metrics._names import Names

# Metric -> the samples that are missing if it is undefined, as worded in scikit-learn's warnings.
MISSING = {
    "precision": "predicted",
    "recall": "true",
    "f-score": "true nor predicted",
    "jaccard": "true or predicted",
}
EVERY = ("precision", "recall", "f-score")


def choose_labels(
    found: Targets, y_true: ArrayLike, y_pred: ArrayLike, average: str | None, labels: Any, pos_label: Any
) -> Any:
    """Return the labels to average over; scikit-learn's own check raises and warns."""
    if average == "binary" and found.kind == "binary" and (pos_label in found.labels or len(found.labels) < 2):
        return [pos_label]
    if average != "binary" and pos_label in (None, 1):
        return labels
    return _check_set_wise_labels(y_true, y_pred, average, labels, pos_label)


def compute_per_table(
    table: np.ndarray, names: dict[str, str], average: str | None, warn_for: Any, zero_division: Any
) -> Any:
    """Return metrics of every table, with undefined values filled and warned of; `names` maps to cmfast's names."""
    if average == "micro":
        table = table.sum(0, keepdims=True)
    wanted = cast(Names, sorted(set(names.values())))
    values = metrics.compute(table, wanted, undefined="strict", on_failure="ignore")
    found = []
    for name, ours in names.items():
        value = values[ours][..., 1].copy()
        undefined = np.isnan(value)
        if undefined.any():
            value[undefined] = _check_zero_division(zero_division)
            if zero_division == "warn" and name in warn_for:
                _warn_prf(average, MISSING[name], f"{name.capitalize()} is", len(value))
        found.append(value)
    return found


def average_defined(value: np.ndarray, weight: Any) -> float:
    """Return the weighted mean of non-NaN values; the plain mean if their weights are all 0."""
    defined = ~np.isnan(value)
    if not defined.any():
        return float(np.nan)
    weight = None if weight is None else np.asarray(weight)[defined]
    if weight is not None and weight.sum() == 0:
        weight = None
    return float(np.average(value[defined], weights=weight))


def name_f_score(beta: float) -> str:
    """Return cmfast's name of the F-score with this `beta`."""
    return f"fbeta_{float(beta)!r}"


def compute_scores(
    table: np.ndarray, beta: float, average: str | None, warn_for: Any, sample_weight: Any, zero_division: Any
) -> Any:
    """Return precision, recall, F-score and support of tables, averaged as requested."""
    names = {"precision": "precision", "recall": "recall"}
    if 0 < beta < np.inf:
        names["f-score"] = name_f_score(beta)
    precision, recall, *f = compute_per_table(table, names, average, warn_for, zero_division)
    f = f[0] if f else (recall if beta > 0 else precision)
    support = table[:, 1].sum(-1)
    if average is None:
        return precision, recall, f, support
    weight = {"weighted": support, "samples": sample_weight}.get(average or "")
    return *(average_defined(value, weight) for value in (precision, recall, f)), None


@replace_original
def precision_recall_fscore_support(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    beta: float = 1.0,
    labels: ArrayLike | None = None,
    pos_label: Any = 1,
    average: str | None = None,
    warn_for: Any = EVERY,
    sample_weight: ArrayLike | None = None,
    zero_division: Any = "warn",
) -> Any:
    """Return precision, recall, F-score and support; replaces scikit-learn's function of this name."""
    if not is_foreign(y_true, y_pred, labels, sample_weight):
        found = make_targets(y_true, y_pred, sample_weight)
        if found is not None and (found.is_multilabel or average != "samples"):
            wanted = choose_labels(found, y_true, y_pred, average, labels, pos_label)
            table = make_tables(found, wanted, samplewise=average == "samples")
            if table is not None:
                return compute_scores(table, beta, average, warn_for, found.weight, zero_division)
    return delegate(
        "precision_recall_fscore_support", y_true, y_pred, beta=beta, labels=labels, pos_label=pos_label,
        average=average, warn_for=warn_for, sample_weight=sample_weight, zero_division=zero_division,
    )  # fmt: skip


@replace_original
def precision_score(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    labels: ArrayLike | None = None,
    pos_label: Any = 1,
    average: str | None = "binary",
    sample_weight: ArrayLike | None = None,
    zero_division: Any = "warn",
) -> Any:
    """Return the precision; replaces scikit-learn's function of this name."""
    return precision_recall_fscore_support(
        y_true, y_pred, labels=labels, pos_label=pos_label, average=average, warn_for=("precision",),
        sample_weight=sample_weight, zero_division=zero_division,
    )[0]  # fmt: skip


@replace_original
def recall_score(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    labels: ArrayLike | None = None,
    pos_label: Any = 1,
    average: str | None = "binary",
    sample_weight: ArrayLike | None = None,
    zero_division: Any = "warn",
) -> Any:
    """Return the recall; replaces scikit-learn's function of this name."""
    return precision_recall_fscore_support(
        y_true, y_pred, labels=labels, pos_label=pos_label, average=average, warn_for=("recall",),
        sample_weight=sample_weight, zero_division=zero_division,
    )[1]  # fmt: skip


@replace_original
def fbeta_score(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    beta: float,
    labels: ArrayLike | None = None,
    pos_label: Any = 1,
    average: str | None = "binary",
    sample_weight: ArrayLike | None = None,
    zero_division: Any = "warn",
) -> Any:
    """Return the F-beta score; replaces scikit-learn's function of this name."""
    return precision_recall_fscore_support(
        y_true, y_pred, beta=beta, labels=labels, pos_label=pos_label, average=average, warn_for=("f-score",),
        sample_weight=sample_weight, zero_division=zero_division,
    )[2]  # fmt: skip


@replace_original
def f1_score(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    labels: ArrayLike | None = None,
    pos_label: Any = 1,
    average: str | None = "binary",
    sample_weight: ArrayLike | None = None,
    zero_division: Any = "warn",
) -> Any:
    """Return the F1 score; replaces scikit-learn's function of this name."""
    return fbeta_score(
        y_true, y_pred, beta=1, labels=labels, pos_label=pos_label, average=average,
        sample_weight=sample_weight, zero_division=zero_division,
    )  # fmt: skip


@replace_original
def jaccard_score(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    labels: ArrayLike | None = None,
    pos_label: Any = 1,
    average: str | None = "binary",
    sample_weight: ArrayLike | None = None,
    zero_division: Any = "warn",
) -> Any:
    """Return the Jaccard index (intersection over union); replaces scikit-learn's function of this name."""
    if not is_foreign(y_true, y_pred, labels, sample_weight):
        found = make_targets(y_true, y_pred, sample_weight)
        if found is not None and (found.is_multilabel or average != "samples"):
            wanted = choose_labels(found, y_true, y_pred, average, labels, pos_label)
            table = make_tables(found, wanted, samplewise=average == "samples")
            if table is not None:
                names = {"jaccard": "jaccard"}
                (value,) = compute_per_table(table, names, average, ("jaccard",), zero_division)
                weight = {"weighted": table[:, 1].sum(-1), "samples": found.weight}.get(average or "")
                return value if average is None else average_defined(value, weight)
    return delegate(
        "jaccard_score", y_true, y_pred, labels=labels, pos_label=pos_label, average=average,
        sample_weight=sample_weight, zero_division=zero_division,
    )  # fmt: skip
