"""Let functions of counts accept labels instead: ``interval(y_true, y_pred, names)``, or columns of a table."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import wraps
from inspect import signature
from typing import Any, NoReturn, TypeVar

import numpy as np

from cmfast._core import axis_names, caller, frames, lazy, table_columns, validate
from cmfast._core.labels import warn_of_pooled_indicators
from cmfast._core.usual_names import OF_SCORES
from cmfast._core.usual_options import USUAL_ARGUMENTS, describe_value
from cmfast.confusion_counts import ConfusionCounts
from cmfast.kernels.loading import load
from cmfast.metrics import _plan
from cmfast.uncertainty import _group_units
from cmfast.uncertainty._paired_counts import PairedCounts, paired_counts
from cmfast.uncertainty._results import Interval, Intervals, Posterior, PosteriorsByMetric

R = TypeVar("R")

SIDES = ("y_true", "y_pred")
PAIRED_SIDES = ("y_true", "y_a", "y_b")
MAY_BE_NAMED = frozenset({*SIDES, *PAIRED_SIDES, "names", "name"})
UNNAMED = ("groups",)  # the names of groups that have none
NO_TABLES = (np.ndarray, list, tuple, PairedCounts, ConfusionCounts)  # the usual arguments


def list_calls(wrapper: Callable[..., Any], sides: tuple[str, ...], columns: dict[str, str]) -> None:
    """Write the calls that a decorated function accepts after the first sentence of its docstring, in place.

    `sides` are the arrays that may be given instead of its first argument, and `columns` names of columns in the call
    with a table. The signature shows only the call of counts.
    """
    if wrapper.__doc__ is None:  # python -OO
        return
    counts, *rest = [p.name for p in signature(wrapper).parameters.values() if p.kind is not p.KEYWORD_ONLY]
    named = [f'{side}="{column}"' for side, column in columns.items()]
    calls = [[*sides, *rest], ["table", *rest, *named], [counts, *rest]]
    texts = [f"``{wrapper.__name__}({', '.join(one)})``" for one in calls]
    first, _, after = wrapper.__doc__.partition("\n\n")
    indent = re.match(" *", after)[0]  # type: ignore[index]  # Python 3.13 removes the indentation
    lines = f"Call it as {texts[0]},", f"as {texts[1]},", f"or as {texts[2]}."
    wrapper.__doc__ = "\n\n".join([first, "\n".join(indent + line for line in lines), after])


def _refuse_area(name: Any) -> None:
    """Raise ValueError for the name of an area of scores, and name the function that has its error."""
    if not isinstance(name, str) or name.lower() not in OF_SCORES:
        return
    areas = load("cmfast.uncertainty._areas")  # which imports this module
    own = areas.ELSEWHERE.get(name.lower(), name)
    if own in areas.SCORES:
        cure = f'uncertainty.interval(y_true, y_score, "{own}") has its interval and standard_error'
        validate.refuse("names", "metrics of labels", f"{name!r}, an area of scores; {cure}")


def accept_labels(function: Callable[..., R]) -> Callable[..., R]:
    """Decorate a function of a matrix and metric names so that it also accepts labels, or counts with labels."""

    @wraps(function)
    def wrapper(*given: Any, **options: Any) -> R:
        """Count the labels, if labels are given, and call `function` with the matrix."""
        if "names" in options or len(given) > 1:
            _refuse_area(options["names"] if "names" in options else given[-1])
        if not options.keys().isdisjoint(MAY_BE_NAMED):
            given = gather_named_arrays(given, options, SIDES)
        ignored = options.pop("ignore_index", None)
        if given and not isinstance(given[0], NO_TABLES):
            given = (frames.collect_table(given[0]), *given[1:])
        found = _find_columns(given, options, SIDES)
        if found is not None:
            columns, table, rest = found
            columns |= _take_units(options, of_table=True)
            with _name_clusters() if "groups" in columns else nullcontext():
                given = (ConfusionCounts.from_labels(table, **columns, ignore_index=ignored), *rest)
        elif len(given) > 2 and (isinstance(given[1], str) or isinstance(given[2], float)):
            return function(*given, **options)  # raises TypeError, as options are given by name
        elif len(given) > 2 or (len(given) == 2 and _are_labels(*given)):
            units = _take_units(options, of_table=False)
            if not units:
                warn_of_pooled_indicators(*given[:2])
            with _name_clusters() if units else nullcontext():
                given = (_count_arrays(*given[:2], **units, ignore_index=ignored), *given[2:])
        elif ignored is not None:
            _refuse_ignored(ignored)
        if given and lazy.is_delayed(given[0]):
            return lazy.accept_delayed(wrapper)(*given, **options)
        counts = given[0] if given else None
        if isinstance(counts, ConfusionCounts):
            names = given[1] if len(given) > 1 else None
            M, positive, axes = counts._take_for(names, options.get("pos_label"))
            options["pos_label"] = positive if _plan.is_binary(_plan.resolve_names(names)) else None
            if isinstance(options.get("strata"), _StrataOfGroups):
                options["strata"] = _find_strata(counts, options["strata"])
            if options.get("clusters") or options.get("strata") is not None:  # the groups are summed
                axes.pop("group", None)
            keys = counts.group_names if axis_names.GROUP in axes and counts.group_names != UNNAMED else ()
            out: R = _name_entries(function(M, *given[1:], **options), axes, names, keys)
            return out
        found_axes = axis_names.get_axes_of_counts(counts)
        found_axes = found_axes if "class" in found_axes else {}
        result: R = _name_entries(function(*given, **options), found_axes, given[1] if len(given) > 1 else None)
        return result

    list_calls(wrapper, SIDES, {"y_true": "label", "y_pred": "guess"})
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
            if "y_pred" in options:
                _refuse_predictions(options["y_pred"], options.get("y_true"))
            if not options.keys().isdisjoint(MAY_BE_NAMED):
                given = gather_named_arrays(given, options, PAIRED_SIDES)
            ignored = options.pop("ignore_index", None)
            found = _find_columns(given, options, PAIRED_SIDES)
            if found is not None:
                columns, table, rest = found
                columns |= take_clusters(options)
                given = (paired_counts(table, **columns, ignore_index=ignored), *rest)
            elif len(given) > 2 and not isinstance(given[0], PairedCounts) and not isinstance(given[1], str):
                _refuse_both_in_one(given[1])
                _refuse_counts(given[:3])
                if isinstance(given[2], str):  # two matrices and a name
                    wanted = "labels (y_true, y_a, y_b), as two matrices do not tell which samples both get wrong"
                    validate.refuse("y_b", wanted, repr(given[2]), TypeError)
                units = take_clusters(options)
                if not units:
                    warn_of_pooled_indicators(*given[:3])
                given = (paired_counts(*given[:3], **units, ignore_index=ignored), *given[3:])
            elif len(given) == 2 and not isinstance(given[0], PairedCounts) and _are_labels(*given):
                if caller.name() in USUAL_ARGUMENTS:  # tests of one table
                    validate.fail(USUAL_ARGUMENTS[caller.name()], TypeError)
                validate.refuse(
                    "y_b", "the labels that the second classifier predicts", "y_true and y_a only", TypeError
                )
            elif ignored is not None:
                _refuse_ignored(ignored)
            return function(*given, **options)

        list_calls(wrapper, PAIRED_SIDES, {"y_true": "label", "y_a": "new", "y_b": "old"})
        return wrapper

    def take_clusters(options: dict[str, Any]) -> dict[str, Any]:
        """Remove the clusters of labels from the options, and return them."""
        return {"clusters": options.pop("clusters")} if clusters and options.get("clusters") is not None else {}

    return decorate


def _refuse_predictions(y_pred: Any, y_true: Any) -> NoReturn:
    """Refuse `y_pred` where the predictions of two classifiers are wanted, with the call that gives both."""
    both = list(y_pred) if isinstance(y_pred, list | tuple) else []
    is_of_table = len(both) == 2 and all(isinstance(one, str) for one in (y_true, *both))
    values = [y_true, *both] if is_of_table else ["label", "first", "second"]
    sides = ", ".join(f"{side}={value!r}" for side, value in zip(PAIRED_SIDES, values, strict=True))
    cure = f"give two classifiers as y_a= and y_b=: {caller.name()}(table, ..., {sides})"
    validate.refuse("y_pred", "left out", f"{describe_value(y_pred)}; {cure}", TypeError)


def _refuse_both_in_one(y_a: Any) -> None:
    """Refuse a dict or list of the predictions of both classifiers where those of the first are wanted."""
    several = isinstance(y_a, dict) or (
        isinstance(y_a, list | tuple) and len(y_a) > 0 and getattr(y_a[0], "shape", ()) not in ((), (1,))
    )
    if several:
        given = f"a {type(y_a).__name__} of {len(y_a)}; give them one by one: {caller.name()}(y_true, a, b, ...)"
        validate.refuse("y_a", "the labels that the first classifier predicts", given, TypeError)


def _refuse_counts(given: tuple[Any, ...]) -> None:
    """Refuse counts among the labels of two classifiers."""
    for side, one in zip(PAIRED_SIDES, given, strict=True):
        if isinstance(one, ConfusionCounts | PairedCounts):
            wanted = "the labels of samples, as counts do not tell which samples both classifiers get wrong"
            validate.refuse(side, wanted, type(one).__name__, TypeError)


def gather_named_arrays(given: tuple[Any, ...], options: dict[str, Any], sides: tuple[str, ...]) -> tuple[Any, ...]:
    """Remove arrays and metric names that are given by name from the options; return all positional arguments.

    Names of the columns of a table stay in the options.
    """
    first = len(given)  # how many arrays are given by place
    if first and (first >= len(sides) or isinstance(given[-1], str)):
        first = 0
    named = [side for side in sides if side in options]
    by_place: tuple[Any, ...] = ()
    if named and sides[0] not in options and not any(isinstance(options[side], str) for side in named):
        *arrays, last = given or (None,)
        if 0 < len(arrays) == len(sides) - len(named) and _are_names(last):
            given, by_place, first = tuple(arrays), (last,), len(arrays)
    if named and (not given or sides[0] not in options):
        missing = [side for side in sides[first:] if side not in options]
        if missing:
            wanted = f"given, too: {', '.join(f'{side}=' for side in sides)} are labels of the same samples"
            validate.refuse(missing[0], wanted, f"only {' and '.join(named)}", TypeError)
        if len(named) > len(sides) - first:
            validate.fail(f"{named[0]} is given twice, by its place and by its name", TypeError)
        given = (*given, *(options.pop(side) for side in sides[first:]))
    name = next((options.pop(name) for name in ("names", "name") if name in options), None)
    return (*given, *by_place) if name is None else (*given, *by_place, name)


def _are_names(value: object) -> bool:
    """Whether an argument is the name of a metric, or a list of names."""
    several = value if isinstance(value, list | tuple) else [value]
    return all(isinstance(name, str) for name in several)


def _name_entries(found: Any, axes: axis_names.Axes, metric: object = None, keys: tuple[str, ...] = ()) -> Any:
    """Return intervals or posteriors, one or several, that know their metric and the class and group of each value.

    `keys` are the names of what the groups are made of.
    """
    if isinstance(found, Intervals | PosteriorsByMetric):
        several: Any = found
        return replace(several, _found={name: _name_entries(one, axes, name, keys) for name, one in found.items()})
    if not isinstance(found, Interval | Posterior):
        return found
    of = metric if isinstance(metric, str) else ""
    if not axes:
        return axis_names.name_axes(found, {}, of)
    ndim = len(found[0].shape) - isinstance(found, Posterior)  # the last axis of a posterior are the draws
    *batch, _ = axes
    core = ((), ("class",), ("true", "predicted"))[ndim - len(batch)]  # of a metric, one per class, the cells
    named = {name: axes[name] for name in batch} | dict.fromkeys(core, axes["class"])
    return axis_names.name_axes(found, named, of, {"group_names": keys} if keys else None)


def _are_labels(first: Any, second: Any) -> bool:
    """Whether a second argument is not a metric name, or several, but labels of as many samples as the first."""
    if second is None or isinstance(second, str | bytes | dict) or not hasattr(second, "__len__"):
        return False
    if isinstance(second, list | tuple) and all(isinstance(name, str) for name in second):
        return False
    return hasattr(first, "__len__") and len(first) == len(second)


@dataclass(frozen=True)
class _StrataOfGroups:
    """Mark that the strata are the last columns of the groups, after `n_clusters` columns of clusters."""

    n_clusters: int


def _take_units(options: dict[str, Any], *, of_table: bool) -> dict[str, Any]:
    """Replace clusters and strata of samples in the options by those of groups; return these groups, if any.

    `of_table` says that they name columns of a table.
    """
    clusters, strata = options.get("clusters"), options.get("strata")
    is_clustered = not (clusters is None or isinstance(clusters, bool))
    if is_clustered:
        options["clusters"] = True
    if strata is None:
        return {"groups": clusters} if is_clustered else {}
    if clusters is True:
        validate.refuse("clusters", "the cluster of each sample, if labels are given", "True")
    units = _name_columns("clusters", clusters, of_table) if is_clustered else {}
    columns = _name_columns("strata", strata, of_table)
    options["strata"] = _StrataOfGroups(len(units))
    return {"groups": units | columns}


def _name_columns(name: str, value: Any, of_table: bool) -> dict[str, Any]:
    """Return the columns that an option gives, as a dict; a single one has the name of the option."""
    if of_table and isinstance(value, list | tuple) and all(isinstance(column, str) for column in value):
        value = {column: column for column in value}
    if isinstance(value, Mapping):
        return {f"{name} {key}": column for key, column in value.items()}
    return {name: value}


def _find_strata(counts: "ConfusionCounts[Any]", marked: _StrataOfGroups) -> np.ndarray:
    """Return the stratum of each group of `counts`; raise ValueError if a cluster is in several strata."""
    keys, labels = counts._held.keys, counts.groups
    if keys is None or labels is None:
        return np.zeros(0, np.int64)
    n = marked.n_clusters
    units, strata = keys.rows[:, :n], np.unique(keys.rows[:, n:], axis=0, return_inverse=True)[1].reshape(-1)
    torn = np.flatnonzero((units[1:] == units[:-1]).all(axis=1) & (n > 0))
    if len(torn):
        first, second = (labels[k] for k in (torn[0], torn[0] + 1))
        cluster = ", ".join(map(validate.format_value, first[:n]))
        both = " and ".join(", ".join(map(validate.format_value, label[n:])) for label in (first, second))
        cure = "give clusters of different strata different names"
        validate.refuse("strata", "the same for all samples of a cluster", f"{both} in cluster {cluster}; {cure}")
    return strata


@contextmanager
def _name_clusters() -> Iterator[None]:
    """In this block, call groups clusters or strata in errors, as the caller named them."""
    try:
        yield
    except (TypeError, ValueError) as error:
        text = re.sub(r"\bgroups\['(clusters|strata)\b[^']*'\]", r"\1", str(error))
        text = re.sub(r"\bgroups\b", "clusters", text)
        raise type(error)(text) from error.__cause__


def _find_columns(
    given: tuple[Any, ...], options: dict[str, Any], sides: tuple[str, ...]
) -> tuple[dict[str, Any], Any, tuple[Any, ...]] | None:
    """Return the column names that a call gives, the table and the metric names; None if labels or counts are given.

    Raises TypeError for a lazy table without column names.
    """
    if given and not options.keys().isdisjoint(sides):
        return {side: options.pop(side, None) for side in sides}, given[0], given[1:]
    if not given or isinstance(given[0], NO_TABLES):
        return None
    found = table_columns.find_columns(given, options, sides)
    if found is None:
        table = given[0]
        kind = "lazy table" if frames.is_lazy_table(table) else ""
        if not kind and frames.is_table(table) and (len(given) < 3 or isinstance(given[1], str)):
            is_counted = caller.name() in USUAL_ARGUMENTS if sides == PAIRED_SIDES else len(set(table.shape)) == 1
            kind = "" if is_counted else "table of labels"
        if kind:
            names = ", ".join(f"{side}=" for side in sides)
            validate.fail(f"a {kind} is read by the names of its columns; pass the table, and {names}", TypeError)
    return found


def take_group_columns(
    given: tuple[Any, ...], options: dict[str, Any], sides: tuple[str, ...], ignored: Any
) -> tuple[Any, ...]:
    """Return the arguments of a function of matrices of groups, with labels and groups counted, if these are given."""
    found = _find_columns(given, options, sides)
    has_units = any(options.get(name) is not None for name in ("sample_weight", "clusters"))
    if found is not None:
        columns, table, rest = found
        if has_units:
            units = {name: options[name] for name in ("sample_weight", "clusters") if options.get(name) is not None}
            with table_columns.name_missing_columns(table, columns | units):
                return (_group_units.count_units((), options, table, columns, ignored), *rest)
        return (ConfusionCounts.from_labels(table, **columns, ignore_index=ignored), *rest)
    if len(given) > 2:
        if given[2] is None or isinstance(given[2], str):
            validate.refuse("groups", "the group of each sample", validate.format_value(given[2]), TypeError)
        if has_units:
            return (_group_units.count_units(given[:3], options, None, None, ignored), *given[3:])
        return (_count_arrays(*given[:3], ignore_index=ignored), *given[3:])
    if len(given) == 2 and _are_labels(*given):
        validate.refuse("groups", "the group of each sample", "y_true and y_pred only", TypeError)
    if ignored is not None:
        _refuse_ignored(ignored)
    return given


def _refuse_ignored(value: Any) -> NoReturn:
    """Refuse the option `ignore_index` of a function of counts."""
    wanted = "None unless labels are given: leave these samples out where the counts are counted"
    validate.refuse("ignore_index", wanted, validate.format_value(value))


def _count_arrays(y_true: Any, y_pred: Any, groups: Any = None, *, ignore_index: Any) -> Any:
    """Count two arrays of labels; Dask arrays give a Delayed."""
    columns = groups if isinstance(groups, Mapping) else {} if groups is None else {"groups": groups}
    if not lazy.are_lazy(y_true, y_pred, *columns.values()):
        return ConfusionCounts.from_labels(y_true, y_pred, groups=groups, ignore_index=ignore_index)
    arrays = {"y_true": y_true, "y_pred": y_pred, **columns}
    options = {"ignore_index": ignore_index, "num_threads": None}
    return lazy.dask().merge_parts(_count_labels, _merge_labels, arrays, dict.fromkeys(arrays, 0), **options)


def _count_labels(y_true: Any, y_pred: Any, *, ignore_index: Any, num_threads: Any = None, **columns: Any) -> Any:
    """Count one part of the labels, by the groups of some columns."""
    del num_threads  # counting a part is too fast to need a second thread
    groups = columns.get("groups", columns or None)
    return ConfusionCounts.from_labels(y_true, y_pred, groups=groups, ignore_index=ignore_index)


def _merge_labels(parts: list[Any]) -> Any:
    """Add up the counts of parts."""
    return ConfusionCounts.merge(parts)
