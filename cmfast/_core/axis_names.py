"""Give results the names of the entries along their axes: the classes, and the groups, of counts that know them."""

from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

import numpy as np

from cmfast.kernels.loading import find_loaded_module

R = TypeVar("R", bound=tuple[Any, ...])
Axes = dict[str, tuple[Any, ...]]
PLAIN = (np.ndarray, list, tuple)  # types without names
METRIC, ENTRY = "metric", "entry"  # keys of the texts that name the result and the entry of a row
COLUMNS = (METRIC, ENTRY, "index", "estimate", "low", "high", "mean", "standard_deviation")  # of tables of results
GROUP = "group"  # the axis of groups, whose labels are tuples if there are several keys


def get_axes_of_counts(M: Any) -> Axes:
    """Return the names of the groups, if there are groups, and classes of counts that know them; {} for other arrays.

    Such counts are :class:`cmfast.ConfusionCounts`, and tables of pandas. A table with other rows than columns has the
    axes "row" and "column".
    """
    if not hasattr(type(M), "_matrix_for_ops"):
        return {} if type(M) in PLAIN else _get_axes_of_table(M)
    return ({} if M.groups is None else {"group": M.groups}) | {"class": M.labels}


def _get_axes_of_table(M: Any) -> Axes:
    """Return the names of the rows and columns of a pandas DataFrame; {} for the default names 0, 1, ..."""
    pd = find_loaded_module("pandas")
    if pd is None or not isinstance(M, pd.DataFrame):
        return {}
    rows, columns = tuple(M.index), tuple(M.columns)
    if rows == columns:
        return {} if rows == tuple(range(len(rows))) else {"class": rows}
    return {"row": rows, "column": columns}


def name_axes(result: R, axes: Axes, metric: str = "", settings: Mapping[str, Any] | None = None) -> R:
    """Return the named tuple `result` with `axes`, the names along its axes, and its metric; itself without any.

    `settings` tell how it was computed, such as its method; those that it has already are kept. The class of the copy
    differs in this alone, so that named tuples keep their fields.
    """
    known = get_settings(result) | dict(settings or {})
    if not axes and not metric and not settings:
        return result
    named: Any = _make_named_class(type(result))(*result)
    named._axes, named._metric, named._settings = axes, metric, known
    return named  # type: ignore[no-any-return]


def get_axes(result: object) -> Axes:
    """Return the names along the axes of a result, as :func:`name_axes` was given them; {} without names."""
    axes: Axes = getattr(result, "_axes", {})
    return axes


def get_metric(result: object) -> str:
    """Return the name of the metric of a result, as :func:`name_axes` was given it; "" without."""
    metric: str = getattr(result, "_metric", "")
    return metric


def get_settings(result: object) -> dict[str, Any]:
    """Return how a result was computed, as :func:`name_axes` was given it; {} without."""
    settings: dict[str, Any] = getattr(result, "_settings", {})
    return settings


def get_columns(result: Any) -> tuple[str, ...]:
    """Return the names of the columns for the axes of a result; groups have a column for each key, if keys are known.

    Groups have one column "group" if a key has the name of another column.
    """
    axes, keys = tuple(get_axes(result)), get_settings(result).get("group_names", ())
    others = {*axes[1:], *COLUMNS, *type(result)._fields}
    return (*keys, *axes[1:]) if keys and axes[:1] == (GROUP,) and others.isdisjoint(keys) else axes


@cache
def _make_named_class(cls: type) -> type:
    """Return the subclass of a named tuple whose instances hold names."""

    def __reduce__(self: Any) -> tuple[Any, ...]:  # noqa: N807
        return name_axes, (cls(*self), get_axes(self), get_metric(self), get_settings(self))

    return type(cls.__name__, (cls,), {"__module__": cls.__module__, "__doc__": cls.__doc__, "__reduce__": __reduce__})


def name_entry(axes: Axes, index: tuple[int, ...]) -> dict[str, Any]:
    """Return the name of the entry at `index` of an array along each of its axes; {} if `axes` is {}."""
    return {axis: names[k] for (axis, names), k in zip(axes.items(), index, strict=False)}


def name_row(axes: Axes, index: tuple[int, ...], columns: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the names of an entry by axis, all of them as one text, and its index as text.

    `columns` has a column for each key of the groups, if they have several names, as of :func:`get_columns`.
    """
    names, numbers = name_entry(axes, index), ",".join(map(str, index))
    if columns and columns != tuple(axes):
        keys = columns[: len(columns) - len(axes) + 1]
        group = names.pop(GROUP)
        names = dict(zip(keys, (group,) if len(keys) == 1 else group, strict=True)) | names
    return names | {ENTRY: ", ".join(map(str, names.values())) or numbers, "index": numbers}
