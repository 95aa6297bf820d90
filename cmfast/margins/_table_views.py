"""Data frames and pictures of tables of any number of axes, by which results of margins show themselves."""

from typing import Any

import numpy as np

from cmfast._core import dispatch, plotting, result_frames, validate
from cmfast.kernels.loading import load


def make_table_frame(table: Any, batch: tuple[int, ...]) -> Any:
    """Return a DataFrame with a row per cell of tables: its index on each axis, and its value."""
    n_axes = len(dispatch.shape_of(table)) - len(batch)
    return result_frames.make_frame({"value": table}, tuple(f"axis_{k}" for k in range(n_axes)))


def draw_margin(table: Any, batch: tuple[int, ...], index: Any, axes: Any, ax: Any) -> Any:
    """Draw the sums of one table of a batch over all but one or two `axes`; return the axes of the plot.

    Two axes are drawn as a heat map, one as steps.
    """
    host = result_frames.copy_to_host(table)[validate.single_index(index, batch, "table")]
    kept = _validate_axes(axes, host.ndim)
    with np.errstate(over="ignore"):
        sums = np.asarray(host, np.float64).sum(axis=tuple(k for k in range(host.ndim) if k not in kept))
    if len(kept) == 1:
        edges = np.arange(len(sums) + 1) - 0.5
        ax = plotting.draw_steps(ax, [(edges, sums)], [""], (f"axis {kept[0]}", "value"))
        plotting.set_integer_ticks(ax.xaxis)
        return ax
    first, second = kept
    labels = f"axis {first}", f"axis {second}"
    return load("cmfast.display._tables").draw_table(ax, sums if first < second else sums.T, labels, "value")


def _validate_axes(axes: Any, n_axes: int) -> tuple[int, ...]:
    """Validate one or two different axes of a table; None selects the first two."""
    if axes is None:
        return tuple(range(min(n_axes, 2)))
    given = axes if isinstance(axes, tuple | list) else (axes,)
    found = tuple(validate.count("axes", axis, most=n_axes - 1) for axis in given)
    if not 1 <= len(found) <= 2 or len(set(found)) < len(found):
        validate.refuse("axes", "one axis of the table, or two different ones", axes)
    return found
