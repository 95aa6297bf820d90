"""Give results the names of the entries along their axes: the classes, and the groups, of counts that know them."""

from functools import cache
from typing import Any, TypeVar

import numpy as np

from cmfast.kernels.loading import find_loaded_module

R = TypeVar("R", bound=tuple[Any, ...])
Axes = dict[str, tuple[Any, ...]]
PLAIN = (np.ndarray, list, tuple)  # types without names
METRIC, ENTRY = "metric", "entry"  # keys of the texts that name the result and the entry of a row


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


def name_axes(result: R, axes: Axes, metric: str = "") -> R:
    """Return the named tuple `result` with `axes`, the names along its axes, and its metric; itself without either.

    The class of the copy differs in this alone, so that named tuples keep their fields.
    """
    if not axes and not metric:
        return result
    named: Any = _make_named_class(type(result))(*result)
    named._axes, named._metric = axes, metric
    return named  # type: ignore[no-any-return]


def get_axes(result: object) -> Axes:
    """Return the names along the axes of a result, as :func:`name_axes` was given them; {} without names."""
    axes: Axes = getattr(result, "_axes", {})
    return axes


def get_metric(result: object) -> str:
    """Return the name of the metric of a result, as :func:`name_axes` was given it; "" without."""
    metric: str = getattr(result, "_metric", "")
    return metric


@cache
def _make_named_class(cls: type) -> type:
    """Return the subclass of a named tuple whose instances hold names."""

    def __reduce__(self: Any) -> tuple[Any, ...]:  # noqa: N807
        return name_axes, (cls(*self), get_axes(self), get_metric(self))

    return type(cls.__name__, (cls,), {"__module__": cls.__module__, "__doc__": cls.__doc__, "__reduce__": __reduce__})


def name_entry(axes: Axes, index: tuple[int, ...]) -> dict[str, Any]:
    """Return the name of the entry at `index` of an array along each of its axes; {} if `axes` is {}."""
    return {axis: names[k] for (axis, names), k in zip(axes.items(), index, strict=False)}


def name_row(axes: Axes, index: tuple[int, ...]) -> dict[str, Any]:
    """Return the names of an entry by axis, all of them as one text, and its index as text."""
    names, numbers = name_entry(axes, index), ",".join(map(str, index))
    return names | {ENTRY: ", ".join(map(str, names.values())) or numbers, "index": numbers}
