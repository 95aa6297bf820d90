"""Let functions of counts accept the labels instead: ``interval(y_true, y_pred, names)``."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from cmfast._core import validate
from cmfast.confusion_counts import ConfusionCounts
from cmfast.uncertainty._paired_counts import PairedCounts, paired_counts

R = TypeVar("R")


def accept_labels(function: Callable[..., R]) -> Callable[..., R]:
    """Decorate a function of a matrix and metric names so that it also accepts labels, or counts with labels."""

    @wraps(function)
    def wrapper(*given: Any, **options: Any) -> R:
        """Count the labels, if labels are given, and call `function` with the matrix."""
        if len(given) > 2 or (len(given) == 2 and _are_labels(*given)):
            clusters = options.get("clusters")
            if clusters is not None and not isinstance(clusters, bool):
                options["clusters"] = True
            else:
                clusters = None
            given = (ConfusionCounts.from_labels(*given[:2], groups=clusters), *given[2:])
        if given and isinstance(given[0], ConfusionCounts):
            M, positive = given[0]._take_for(given[1] if len(given) > 1 else None, options.get("pos_label"))
            given = (M, *given[1:])
            options["pos_label"] = positive
        return function(*given, **options)

    return wrapper


def accept_pairs_of_labels(function: Callable[..., R]) -> Callable[..., R]:
    """Decorate a function of paired counts so that it also accepts ``y_true, y_a, y_b``."""

    @wraps(function)
    def wrapper(*given: Any, **options: Any) -> R:
        """Count the labels, if labels are given, and call `function` with the counts."""
        if len(given) > 2 and not isinstance(given[0], PairedCounts) and not isinstance(given[1], str):
            if isinstance(given[2], str):  # two matrices and a name
                wanted = "labels (y_true, y_a, y_b), as two matrices do not tell which samples both get wrong"
                validate.refuse("y_b", wanted, repr(given[2]), TypeError)
            given = (paired_counts(*given[:3]), *given[3:])
        return function(*given, **options)

    return wrapper


def _are_labels(first: Any, second: Any) -> bool:
    """Whether a second argument is not a metric name, or several, but labels of as many samples as the first."""
    if second is None or isinstance(second, str | bytes | dict) or not hasattr(second, "__len__"):
        return False
    if isinstance(second, list | tuple) and all(isinstance(name, str) for name in second):
        return False
    return hasattr(first, "__len__") and len(first) == len(second)
