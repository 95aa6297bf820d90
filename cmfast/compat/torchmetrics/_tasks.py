"""Classes that select a metric by `task`, as torchmetrics' do."""

import inspect
from typing import Any

from torchmetrics import classification as theirs

from cmfast.compat.torchmetrics import _agreement, _scores
from cmfast.compat.torchmetrics._counting import split_ignored

OURS = {
    getattr(theirs, name): ours
    for module in (_agreement, _scores)
    for name, ours in vars(module).items()
    if name.startswith(("Binary", "Multiclass", "Multilabel")) and hasattr(theirs, name)
}


class TaskMetric:
    """Mixin that makes the metric of a task; precedes torchmetrics' class in the MRO."""

    def __new__(cls, *args: Any, **options: Any) -> Any:
        """Return the metric of `task`, after torchmetrics has checked the arguments."""
        one = next(base for base in cls.__mro__[1:] if base.__module__.startswith("torchmetrics"))
        several = options.get("ignore_index")
        first, _ = split_ignored(several)
        plain = type(one(*args, **(options if first is several else options | {"ignore_index": first})))
        chosen = OURS.get(plain, plain)
        given = inspect.signature(one.__new__).bind(cls, *args, **options)
        given.apply_defaults()
        rest = given.arguments.pop("kwargs", {})
        taken = inspect.signature(chosen.__init__).parameters
        return chosen(**{name: value for name, value in given.arguments.items() if name in taken}, **rest)


class Accuracy(TaskMetric, theirs.Accuracy):
    """Drop-in replacement for `torchmetrics.Accuracy`."""


class ConfusionMatrix(TaskMetric, theirs.ConfusionMatrix):
    """Drop-in replacement for `torchmetrics.ConfusionMatrix`."""


class CohenKappa(TaskMetric, theirs.CohenKappa):
    """Drop-in replacement for `torchmetrics.CohenKappa`."""


class F1Score(TaskMetric, theirs.F1Score):
    """Drop-in replacement for `torchmetrics.F1Score`."""


class JaccardIndex(TaskMetric, theirs.JaccardIndex):
    """Drop-in replacement for `torchmetrics.JaccardIndex`."""


class MatthewsCorrCoef(TaskMetric, theirs.MatthewsCorrCoef):
    """Drop-in replacement for `torchmetrics.MatthewsCorrCoef`."""


class Precision(TaskMetric, theirs.Precision):
    """Drop-in replacement for `torchmetrics.Precision`."""


class Recall(TaskMetric, theirs.Recall):
    """Drop-in replacement for `torchmetrics.Recall`."""


class Specificity(TaskMetric, theirs.Specificity):
    """Drop-in replacement for `torchmetrics.Specificity`."""


class StatScores(TaskMetric, theirs.StatScores):
    """Drop-in replacement for `torchmetrics.StatScores`."""
