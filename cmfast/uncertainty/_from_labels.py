"""Let functions of counts accept labels instead: ``interval(y_true, y_pred, names)``, or columns of a table."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from cmfast._core import caller, frames, lazy, validate
from cmfast.confusion_counts import ConfusionCounts
from cmfast.uncertainty._paired_counts import PairedCounts, paired_counts

R = TypeVar("R")

SIDES = ("y_true", "y_pred")
PAIRED_SIDES = ("y_true", "y_a", "y_b")
MAY_BE_NAMED = frozenset({*SIDES, *PAIRED_SIDES, "names", "name"})
NO_TABLES = (np.ndarray, list, tuple, PairedCounts, ConfusionCounts)  # the usual arguments


def accept_labels(function: Callable[..., R]) -> Callable[..., R]:
    """Decorate a function of a matrix and metric names so that it also accepts labels, or counts with labels."""

    @wraps(function)
    def wrapper(*given: Any, **options: Any) -> R:
        """Count the labels, if labels are given, and call `function` with the matrix."""
        if not options.keys().isdisjoint(MAY_BE_NAMED):
            given = gather_named_arrays(given, options, SIDES)
        if _names_columns(given, options, SIDES):
            columns = _take_columns(options, SIDES) | _take_clusters(options)
            given = (_count_table(_count_labels, _merge_labels, given[0], columns), *given[1:])
        elif len(given) > 2 or (len(given) == 2 and _are_labels(*given)):
            given = (_count_arrays(*given[:2], **_take_clusters(options)), *given[2:])
        if given and lazy.is_delayed(given[0]):
            return lazy.accept_delayed(wrapper)(*given, **options)
        if given and isinstance(given[0], ConfusionCounts):
            M, positive = given[0]._take_for(given[1] if len(given) > 1 else None, options.get("pos_label"))
            given = (M, *given[1:])
            options["pos_label"] = positive
        return function(*given, **options)

    return wrapper


def accept_pairs_of_labels(*, clusters: bool = False) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Decorate a function of paired counts so that it also accepts ``y_true, y_a, y_b``, or columns of a table.

    With `clusters` it then also accepts the cluster of each sample, by the option of this name.
    """

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        """Return the function that counts labels before it calls `function`."""

        @wraps(function)
        def wrapper(*given: Any, **options: Any) -> R:
            """Count the labels, if labels are given, and call `function` with the counts."""
            if not options.keys().isdisjoint(MAY_BE_NAMED):
                given = gather_named_arrays(given, options, PAIRED_SIDES)
            if _names_columns(given, options, PAIRED_SIDES):
                columns = _take_columns(options, PAIRED_SIDES) | take_clusters(options)
                given = (_count_table(paired_counts, _merge_pairs, given[0], columns), *given[1:])
            elif len(given) > 2 and not isinstance(given[0], PairedCounts) and not isinstance(given[1], str):
                if isinstance(given[2], str):  # two matrices and a name
                    wanted = "labels (y_true, y_a, y_b), as two matrices do not tell which samples both get wrong"
                    validate.refuse("y_b", wanted, repr(given[2]), TypeError)
                given = (paired_counts(*given[:3], **take_clusters(options)), *given[3:])
            elif len(given) == 2 and not isinstance(given[0], PairedCounts) and _are_labels(*given):
                validate.refuse(
                    "y_b", "the labels that the second classifier predicts", "y_true and y_a only", TypeError
                )
            return function(*given, **options)

        return wrapper

    def take_clusters(options: dict[str, Any]) -> dict[str, Any]:
        """Remove the clusters of labels from the options, and return them."""
        return {"clusters": options.pop("clusters")} if clusters and options.get("clusters") is not None else {}

    return decorate


def gather_named_arrays(given: tuple[Any, ...], options: dict[str, Any], sides: tuple[str, ...]) -> tuple[Any, ...]:
    """Remove arrays and metric names that are given by name from the options; return all positional arguments.

    Names of the columns of a table stay in the options.
    """
    first = len(given)  # how many arrays are given by place
    if first and (first >= len(sides) or isinstance(given[-1], str)):
        first = 0
    named = [side for side in sides if side in options]
    if named and (not given or sides[0] not in options):
        missing = [side for side in sides[first:] if side not in options]
        if missing:
            wanted = f"given, too: {', '.join(f'{side}=' for side in sides)} are labels of the same samples"
            validate.refuse(missing[0], wanted, f"only {' and '.join(named)}", TypeError)
        if len(named) > len(sides) - first:
            validate.fail(f"{named[0]} is given twice, by its place and by its name", TypeError)
        given = (*given, *(options.pop(side) for side in sides[first:]))
    name = next((options.pop(name) for name in ("names", "name") if name in options), None)
    return given if name is None else (*given, name)


def _are_labels(first: Any, second: Any) -> bool:
    """Whether a second argument is not a metric name, or several, but labels of as many samples as the first."""
    if second is None or isinstance(second, str | bytes | dict) or not hasattr(second, "__len__"):
        return False
    if isinstance(second, list | tuple) and all(isinstance(name, str) for name in second):
        return False
    return hasattr(first, "__len__") and len(first) == len(second)


def _take_columns(options: dict[str, Any], sides: tuple[str, ...]) -> dict[str, Any]:
    """Remove the names of the columns of labels from the options, and return them."""
    return {side: options.pop(side, None) for side in sides}


def _take_clusters(options: dict[str, Any]) -> dict[str, Any]:
    """Set the option `clusters`, if it holds the cluster of each sample, to True, and return it as groups."""
    clusters = options.get("clusters")
    if clusters is None or isinstance(clusters, bool):
        return {}
    options["clusters"] = True
    return {"groups": clusters}


def _names_columns(given: tuple[Any, ...], options: dict[str, Any], sides: tuple[str, ...]) -> bool:
    """Whether the options name columns of a table; raise TypeError for a lazy table without them."""
    if not given or not options.keys().isdisjoint(sides):
        return bool(given)
    if not isinstance(given[0], NO_TABLES) and frames.is_lazy_table(given[0]):
        names = ", ".join(f"{side}=" for side in sides)
        validate.fail(f"a lazy table is read by the names of its columns; pass the table, and {names}", TypeError)
    return False


def _count_arrays(y_true: Any, y_pred: Any, groups: Any = None) -> Any:
    """Count two arrays of labels; Dask arrays give a Delayed."""
    if not lazy.are_lazy(y_true, y_pred, groups):
        return ConfusionCounts.from_labels(y_true, y_pred, groups=groups)
    arrays = {"y_true": y_true, "y_pred": y_pred, "groups": groups}
    return lazy.dask().merge_parts(_count_labels, _merge_labels, arrays, dict.fromkeys(arrays, 0), num_threads=None)


def _count_table(count: Callable[..., Any], merge: Callable[..., Any], frame: Any, columns: dict[str, Any]) -> Any:
    """Count the labels in columns of a table, which is read once; a Dask DataFrame gives a Delayed."""
    if not lazy.is_dask_frame(frame):
        return _count_part(frame, 0, count, columns)
    _count_part(frame._meta, 0, count, columns)  # raises any error that every partition would raise
    return lazy.dask().merge_partitions(_count_partition, merge, frame, count, columns)


def _count_partition(part: Any, k: int, *how: Any) -> Any:
    """Count partition `k` of a Dask DataFrame."""
    with caller.set_task(caller.name(), f", in partition {k}", is_part=True):
        return _count_part(part, k, *how)


def _count_part(frame: Any, k: int, count: Callable[..., Any], columns: dict[str, Any]) -> Any:
    """Count the labels in columns of a table in memory, or of one that is read here."""
    del k
    table = frames.read_table("the first argument", frame)
    read = {name: frames.get_column(table, name, column) for name, column in columns.items()}
    sides = [read.pop(name) for name in PAIRED_SIDES + SIDES[1:] if name in read]
    return count(*sides, **read)


def _count_labels(y_true: Any, y_pred: Any, groups: Any = None, *, num_threads: Any = None) -> Any:
    """Count one part of the labels."""
    del num_threads  # counting a part is too fast to need a second thread
    return ConfusionCounts.from_labels(y_true, y_pred, groups=groups)


def _merge_labels(parts: list[Any]) -> Any:
    """Add up the counts of parts."""
    return ConfusionCounts.merge(parts)


def _merge_pairs(parts: list[PairedCounts]) -> PairedCounts:
    """Add up the paired counts of parts."""
    return sum(parts[1:], parts[0])
