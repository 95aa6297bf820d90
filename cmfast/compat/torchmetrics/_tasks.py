"""Classes that choose by `task`, as torchmetrics' do."""

import inspect
from typing import Any

from torchmetrics import classification as theirs

from cmfast.compat.torchmetrics import _agreement, _scores

OURS = {
    getattr(theirs, name): ours
    for module in (_agreement, _scores)
    for name, ours in vars(module).items()
    if name.startswith(("Binary", "Multiclass", "Multilabel")) and hasattr(theirs, name)
}


class TaskMetric:
    """Makes the metric of a task; stands in front of torchmetrics' class."""

    def __new__(cls, *args: Any, **options: Any) -> Any:
        """Return the metric of `task`, after torchmetrics has checked the arguments."""
        one = next(base for base in cls.__mro__[1:] if base.__module__.startswith("torchmetrics"))
        plain = type(one(*args, **options))
        chosen = OURS.get(plain, plain)
        given = inspect.signature(one.__new__).bind(cls, *args, **options)
        given.apply_defaults()
        rest = given.arguments.pop("kwargs", {})
        taken = inspect.signature(chosen.__init__).parameters
        return chosen(**{name: value for name, value in given.arguments.items() if name in taken}, **rest)


class Accuracy(TaskMetric, theirs.Accuracy):
    """torchmetrics' class of this name, by cmfast."""


class ConfusionMatrix(TaskMetric, theirs.ConfusionMatrix):
    """torchmetrics' class of this name, by cmfast."""


class CohenKappa(TaskMetric, theirs.CohenKappa):
    """torchmetrics' class of this name, by cmfast."""


class F1Score(TaskMetric, theirs.F1Score):
    """torchmetrics' class of this name, by cmfast."""


class JaccardIndex(TaskMetric, theirs.JaccardIndex):
    """torchmetrics' class of this name, by cmfast."""


class MatthewsCorrCoef(TaskMetric, theirs.MatthewsCorrCoef):
    """torchmetrics' class of this name, by cmfast."""


class Precision(TaskMetric, theirs.Precision):
    """torchmetrics' class of this name, by cmfast."""


class Recall(TaskMetric, theirs.Recall):
    """torchmetrics' class of this name, by cmfast."""


class Specificity(TaskMetric, theirs.Specificity):
    """torchmetrics' class of this name, by cmfast."""


class StatScores(TaskMetric, theirs.StatScores):
    """torchmetrics' class of this name, by cmfast."""
