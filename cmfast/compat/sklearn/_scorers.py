"""A scorer by any name in the table of metrics."""

from typing import Any

import numpy as np
import sklearn.metrics
from numpy.typing import ArrayLike

from cmfast import metrics
from cmfast._core import validate
from cmfast._core.annotations import Undefined
from cmfast.compat.sklearn._matrices import matrix
from cmfast.compat.sklearn._targets import targets
from cmfast.metrics import MetricName
from cmfast.metrics._catalogue import find_form
from cmfast.metrics._plan import is_binary, resolve_names
from cmfast.metrics._samples import order_two_classes

# Of these the smallest is the best.
LOSSES = frozenset({"fpr", "fnr", "fdr", "false_omission_rate", "negative_likelihood_ratio", "zero_one_loss"})


def make_scorer(
    name: MetricName,
    /,
    *,
    labels: ArrayLike | None = None,
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
        The same by its label, in the place of `positive`; one of `labels` where these are given. A fold may lack it.

    Returns
    -------
    scorer
        For ``scoring=`` of `cross_val_score`, `GridSearchCV` and the like; takes ``sample_weight=``.

    Raises
    ------
    TypeError, ValueError
        An unknown name, or one that gives a number per class; labels that are no list, or hold one twice, or not two
        where `pos_label` is given, or not that one. When it is called: labels of which none occurs.

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
        validate.refuse("name", "one name", validate.format_value(name), TypeError)
    resolve_names(name, "name")
    form = find_form(name)
    assert form is not None  # or it would have been refused
    if form.per_class:
        validate.refuse("name", f"one number per matrix, as {name}_macro", validate.format_value(name))
    labels = _listed(labels)
    if labels is not None and pos_label is not None:
        _place_of(pos_label, labels)
    options = {"metric": name, "labels": labels, "undefined": undefined}
    options |= {"positive": positive, "pos_label": pos_label}
    return sklearn.metrics.make_scorer(value_of, greater_is_better=form.metric.name not in LOSSES, **options)


def value_of(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    metric: MetricName,
    labels: Any = None,
    undefined: Undefined = "present",
    positive: int = 1,
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Return the metric of a name."""
    found = targets(y_true, y_pred, sample_weight)
    if found is None or found.is_multilabel:
        validate.refuse("y_true", "one label per sample, with weights of at least 0", "none of that kind")
    known = found.labels.tolist()
    classes = known if labels is None else labels
    table = matrix(found, labels)
    if table is None:
        given = f"none of them, but {validate.format_value(known)}"
        validate.refuse("y_true", f"of the labels {validate.format_value(classes)}", given)
    if pos_label is not None:
        if labels is None and len(known) < 2:  # a fold lacks one
            classes = known if pos_label in known else [*known, pos_label]
            table = np.pad(table, [(0, 2 - len(known))] * 2)
        positive = _place_of(pos_label, classes)
    elif labels is None and is_binary((metric,)):
        classes = order_two_classes(known, positive)
        places = [list(classes).index(label) for label in known]
        full = np.zeros((len(classes), len(classes)), table.dtype)
        full[np.ix_(places, places)] = table
        table = full
    return float(metrics.compute(table, metric, undefined=undefined, positive=positive))


def _listed(labels: Any) -> list[Any] | None:
    """Return the option `labels` as a list, checked."""
    if labels is None:
        return None
    if isinstance(labels, str | bytes | dict) or np.ndim(labels) != 1 or not len(labels):
        validate.refuse("labels", "a list of labels, at least one", validate.format_value(labels), TypeError)
    listed: list[Any] = np.asarray(labels).tolist()
    if len(set(listed)) < len(listed):
        validate.refuse("labels", "unique", validate.format_value(listed))
    return listed


def _place_of(pos_label: Any, labels: list[Any]) -> int:
    """Return which of two labels is the positive one."""
    if pos_label not in labels:
        validate.refuse("pos_label", f"of the labels {validate.format_value(labels)}", validate.format_value(pos_label))
    if len(labels) > 2:
        given = f"{validate.format_value(pos_label)} with {len(labels)} classes"
        validate.refuse("pos_label", "None for other than two classes", given)
    return labels.index(pos_label)
