"""scikit-learn scorers for every metric of cmfast."""

from typing import Any

import numpy as np
import sklearn.metrics
from numpy.typing import ArrayLike

from cmfast import metrics
from cmfast._core import validate
from cmfast._core.annotations import Undefined
from cmfast.compat.sklearn._matrices import make_matrix
from cmfast.compat.sklearn._targets import make_targets
from cmfast.metrics import MetricName
from cmfast.metrics._catalogue import find_form
from cmfast.metrics._plan import is_binary, resolve_names
from cmfast.metrics._samples import order_two_classes

# Metrics for which smaller is better.
LOSSES = frozenset({"fpr", "fnr", "fdr", "false_omission_rate", "negative_likelihood_ratio", "zero_one_loss"})


def make_scorer(
    name: MetricName,
    /,
    *,
    labels: ArrayLike | None = None,
    undefined: Undefined = "present",
    pos_label: Any = None,
) -> Any:
    """Return a scikit-learn scorer of a metric of cmfast, given by name.

    Parameters
    ----------
    name : str
        A metric with one value per matrix: ``"mcc"``, ``"f1_macro"``, ``"kappa_quadratic"``, ... A metric per class
        needs an average in its name. Metrics for which smaller is better are negated, as in scikit-learn.
    labels : array, optional
        Classes in order, including those that a fold may lack; default: the labels that occur, sorted.
    undefined : {"present", "nan", "strict", "zero", "one"} or float
        The value of 0/0, as for :func:`cmfast.metrics.compute`.
    pos_label : label, optional
        Label of the positive class of two; one of `labels` if these are given. A fold may lack it. Default: the second
        of two texts, 1 of 0 and 1, or of -1 and 1.

    Returns
    -------
    scorer
        For ``scoring=`` of `cross_val_score`, `GridSearchCV` and similar; accepts ``sample_weight=``.

    Raises
    ------
    TypeError, ValueError
        An unknown metric, or a metric per class; `labels` that are not a list, not unique or, with `pos_label`, not two
        labels that include it. When the scorer is called: `labels` none of which occurs.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.dummy import DummyClassifier
    >>> from sklearn.model_selection import cross_val_score
    >>> from cmfast.compat.sklearn import make_scorer
    >>> X, y = np.zeros((20, 1)), np.arange(20) % 4 == 0
    >>> cross_val_score(
    ...     DummyClassifier(),
    ...     X,
    ...     y,
    ...     scoring=make_scorer("geometric_mean"),
    ...     cv=2,
    ... )
    array([0., 0.])
    """
    if not isinstance(name, str):
        validate.refuse("name", "one name", validate.format_value(name), TypeError)
    resolve_names(name, "name")
    form = find_form(name)
    assert form is not None  # checked by names_of
    if form.per_class:
        validate.refuse("name", f"one number per matrix, as {name}_macro", validate.format_value(name))
    labels = _validate_labels(labels)
    if labels is not None and pos_label is not None:
        _find_positive(pos_label, labels)
    options = {"metric": name, "labels": labels, "undefined": undefined}
    options |= {"pos_label": pos_label}
    return sklearn.metrics.make_scorer(compute_value, greater_is_better=form.metric.name not in LOSSES, **options)


def compute_value(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    metric: MetricName,
    labels: Any = None,
    undefined: Undefined = "present",
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Return the value of the metric for labels and predictions; the score function of the scorers."""
    found = make_targets(y_true, y_pred, sample_weight)
    if found is None or found.is_multilabel:
        validate.refuse("y_true", "one label per sample, with weights of at least 0", "none of that kind")
    known = found.labels.tolist()
    classes = known if labels is None else labels
    table = make_matrix(found, labels)
    if table is None:
        given = f"none of them, but {validate.format_value(known)}"
        validate.refuse("y_true", f"of the labels {validate.format_value(classes)}", given)
    positive = 1
    if pos_label is not None:
        if labels is None and len(known) < 2:  # a fold may lack a class
            classes = known if pos_label in known else [*known, pos_label]
            table = np.pad(table, [(0, 2 - len(known))] * 2)
        positive = _find_positive(pos_label, classes)
    elif labels is None and is_binary((metric,)):
        classes = order_two_classes(known, positive)
        places = [list(classes).index(label) for label in known]
        full = np.zeros((len(classes), len(classes)), table.dtype)
        full[np.ix_(places, places)] = table
        table = full
    place = positive if is_binary((metric,)) else None  # scikit-learn's scorers ignore it for other averages
    return float(metrics.compute(table, metric, undefined=undefined, pos_label=place))


def _validate_labels(labels: Any) -> list[Any] | None:
    """Validate the option `labels` and return it as a list."""
    if labels is None:
        return None
    if isinstance(labels, str | bytes | dict) or np.ndim(labels) != 1 or not len(labels):
        validate.refuse("labels", "a list of labels, at least one", validate.format_value(labels), TypeError)
    listed: list[Any] = np.asarray(labels).tolist()
    if len(set(listed)) < len(listed):
        validate.refuse("labels", "unique", validate.format_value(listed))
    return listed


def _find_positive(pos_label: Any, labels: list[Any]) -> int:
    """Return the position of `pos_label` in two labels."""
    if pos_label not in labels:
        validate.refuse("pos_label", f"of the labels {validate.format_value(labels)}", validate.format_value(pos_label))
    if len(labels) > 2:
        given = f"{validate.format_value(pos_label)} with {len(labels)} classes"
        validate.refuse("pos_label", "None for other than two classes", given)
    return labels.index(pos_label)
