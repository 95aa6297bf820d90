"""Give results the names of the entries along their axes: the classes, and the groups, of counts that know them."""

from functools import cache
from typing import Any, TypeVar

R = TypeVar("R", bound=tuple[Any, ...])
Axes = dict[str, tuple[Any, ...]]


def get_axes_of_counts(M: Any) -> Axes:
    """Return the names of the groups, if there are groups, and classes of counts that know them; {} for other arrays.

    Such counts are :class:`cmfast.ConfusionCounts`.
    """
    if not hasattr(type(M), "_matrix_for_ops"):
        return {}
    return ({} if M.groups is None else {"group": M.groups}) | {"class": M.labels}


def name_axes(result: R, axes: Axes) -> R:
    """Return the named tuple `result` with `axes`, the names along its axes; `result` itself without any.

    The class of the copy differs in this alone, so that named tuples keep their fields.
    """
    if not axes:
        return result
    named: Any = _make_named_class(type(result))(*result)
    named._axes = axes
    return named  # type: ignore[no-any-return]


def get_axes(result: object) -> Axes:
    """Return the names along the axes of a result, as :func:`name_axes` was given them; {} without names."""
    axes: Axes = getattr(result, "_axes", {})
    return axes


@cache
def _make_named_class(cls: type) -> type:
    """Return the subclass of a named tuple whose instances hold names."""

    def __reduce__(self: Any) -> tuple[Any, ...]:  # noqa: N807
        return name_axes, (cls(*self), self._axes)

    return type(cls.__name__, (cls,), {"__module__": cls.__module__, "__doc__": cls.__doc__, "__reduce__": __reduce__})


def name_entry(axes: Axes, index: tuple[int, ...]) -> dict[str, Any]:
    """Return the name of the entry at `index` of an array along each of its axes; {} if `axes` is {}."""
    return {axis: names[k] for (axis, names), k in zip(axes.items(), index, strict=False)}
