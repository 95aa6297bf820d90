"""A scorer by any name in the table of metrics."""

from typing import Any

import sklearn.metrics

from cmfast import metrics
from cmfast._core import validate
from cmfast._core.annotations import Undefined
from cmfast.compat.sklearn._matrices import matrix
from cmfast.compat.sklearn._targets import targets
from cmfast.metrics import MetricName
from cmfast.metrics._catalogue import find
from cmfast.metrics._plan import names_of

# Of these the smallest is the best.
LOSSES = frozenset({"fpr", "fnr", "fdr", "false_omission_rate", "negative_likelihood_ratio", "zero_one_loss"})


def make_scorer(
    name: MetricName,
    /,
    *,
    labels: Any = None,
    undefined: Undefined = "present",
    positive: int = 1,
    pos_label: Any = None,
) -> Any:
    """Return a scorer of scikit-learn that gives a metric of cmfast, by its name in the table of metrics.

    Parameters
    ----------
    name : str
        One number per matrix: ``"mcc"``, ``"f1_macro"``, ``"kappa_quadratic"``, ... A name per class has to come with
        its average. Metrics of which less is better are negated, as scikit-learn does.
    labels : array, optional
        Classes in their order, also those that a fold lacks; default: the labels that occur, sorted.
    undefined : {"present", "nan", "strict", "zero", "one"} or float
        What a 0/0 gives, as for :func:`cmfast.metrics.compute`.
    positive : {1, 0}
        Which class of two is the positive one, for binary names.
    pos_label : label, optional
        The same by its label, in the place of `positive`.

    Returns
    -------
    scorer
        For ``scoring=`` of `cross_val_score`, `GridSearchCV` and the like; takes ``sample_weight=``.

    Raises
    ------
    TypeError, ValueError
        An unknown name, or one that gives a number per class.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.dummy import DummyClassifier
    >>> from sklearn.model_selection import cross_val_score
    >>> from cmfast.compat.sklearn import make_scorer
    >>> X, y = np.zeros((20, 1)), np.arange(20) % 4 == 0
    >>> cross_val_score(DummyClassifier(), X, y, scoring=make_scorer("geometric_mean"), cv=2)
    array([0., 0.])
    """
    if not isinstance(name, str):
        validate.refuse("name", "one name", validate.shown(name), TypeError)
    names_of(name, "name")
    form = find(name)
    assert form is not None  # or it would have been refused
    if form.per_class:
        validate.refuse("name", f"one number per matrix, as {name}_macro", validate.shown(name))
    options = {"metric": name, "labels": labels, "undefined": undefined}
    options |= {"positive": positive, "pos_label": pos_label}
    return sklearn.metrics.make_scorer(value_of, greater_is_better=form.metric.name not in LOSSES, **options)


def value_of(
    y_true: Any,
    y_pred: Any,
    *,
    metric: MetricName,
    labels: Any = None,
    undefined: Undefined = "present",
    positive: int = 1,
    pos_label: Any = None,
    sample_weight: Any = None,
) -> float:
    """Return the metric of a name."""
    found = targets(y_true, y_pred, sample_weight)
    if found is None or (table := matrix(found, labels)) is None:
        validate.refuse("y_true", "one label per sample, with weights of at least 0, among labels", "none of that kind")
    if pos_label is not None:
        positive = list(found.labels if labels is None else labels).index(pos_label)  # one that scikit-learn has seen
    return float(metrics.compute(table, metric, undefined=undefined, positive=positive))
