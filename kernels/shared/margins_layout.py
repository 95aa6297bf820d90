"""Which cells of a table stand in which lines of its margins; the same for every table of a shape."""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.shared.margins import LEAST_MARGIN_RESIDUAL, MOST_MARGIN_PASSES
from cmfast.kernels.shared.scaling import FLOOR_LINES, last_width

Axes = tuple[tuple[int, ...], ...]


class MarginLayout(NamedTuple):
    """Cells sorted by the lines of the largest margin, which is the first here and is closed exactly.

    Lines are numbered through all margins, in the order of `order`.
    """

    order: np.ndarray  # (margins,) which margin of the caller stands where
    offsets: np.ndarray  # (margins + 1,) number of the first line of each
    places: np.ndarray  # (cells,) which cell of the table stands where
    lines: np.ndarray  # (cells, margins) int32
    pairs: np.ndarray  # (pairs, 5) two margins, lines of what they share, where `shared` begins for each
    shared: np.ndarray  # line of a margin -> line of what it shares with another one
    within: np.ndarray  # (margins,) margin before this one that has all of its axes, or -1


@lru_cache(64)
def lines_of(shape: tuple[int, ...], axes: Axes) -> MarginLayout:
    """Return the layout of tables of a shape without any cells."""
    sizes = [math.prod(shape[axis] for axis in of) for of in axes]
    order = np.array(sorted(range(len(axes)), key=lambda b: -sizes[b]), np.int64)
    offsets = np.concatenate([[0], np.cumsum([sizes[b] for b in order])]).astype(np.int64)
    pairs, shared = _overlaps(shape, [axes[b] for b in order])
    within = [next((a for a in range(b) if set(axes[order[b]]) <= set(axes[order[a]])), -1) for b in range(len(axes))]
    none = np.empty(0, np.int64), np.empty((0, len(axes)), np.int32)
    return MarginLayout(order, offsets, *none, pairs, shared, np.array(within, np.int64))


@lru_cache(64)
def dense(shape: tuple[int, ...], axes: Axes) -> MarginLayout:
    """Return the layout of all cells of tables of a shape."""
    of_lines = lines_of(shape, axes)
    closed = axes[of_lines.order[0]]
    turned = [*closed, *(axis for axis in range(len(shape)) if axis not in closed)]  # cells of a closed line together
    places = np.arange(math.prod(shape)).reshape(shape).transpose(turned).ravel()
    lines = np.empty(([shape[axis] for axis in turned]) + [len(axes)], np.int32)
    for b, of in enumerate(axes[number] for number in of_lines.order):
        number: Any = np.int32(of_lines.offsets[b])
        for k, axis in enumerate(turned):
            step = math.prod(shape[other] for other in of[of.index(axis) + 1 :]) if axis in of else 0
            own = np.int32(step) * np.arange(shape[axis] if step else 1, dtype=np.int32)
            number = number + own.reshape([-1 if other == k else 1 for other in range(len(turned))])
        lines[..., b] = number
    return of_lines._replace(places=places, lines=lines.reshape(-1, len(axes)))


def layout(shape: tuple[int, ...], axes: Axes, coordinates: Sequence[np.ndarray]) -> MarginLayout:
    """Return the layout of the cells that stand at `coordinates`, an array for each axis."""
    of_lines, n = lines_of(shape, axes), len(coordinates[0]) if shape else 1
    ordered = [axes[b] for b in of_lines.order]
    found = [numbers([coordinates[axis] for axis in of], [shape[axis] for axis in of], n) for of in ordered]
    places = np.argsort(found[0], kind="stable")
    lines = np.empty((len(places), len(axes)), np.int32)
    for b, number in enumerate(found):
        lines[:, b] = number[places] + of_lines.offsets[b]
    return of_lines._replace(places=places, lines=lines)


def numbers(coordinates: list[np.ndarray], sizes: list[int], n: int) -> np.ndarray:
    """Return the lines of `n` cells, counted along the last axis first."""
    found = np.zeros(n, np.int64)
    for coordinate, size in zip(coordinates, sizes, strict=True):
        found = found * size + coordinate
    return found


def _overlaps(shape: tuple[int, ...], axes: list[tuple[int, ...]]) -> tuple[np.ndarray, np.ndarray]:
    """Return what every two margins share: their common axes, if only the total, of which all lines are part."""
    each = [[shape[axis] for axis in of] for of in axes]
    start = max((math.prod(sizes) for sizes in each), default=0)
    pairs: list[tuple[int, ...]] = []
    shared = [np.zeros(start, np.int64)]
    for a, b in combinations(range(len(axes)), 2):
        common = [axis for axis in axes[a] if axis in axes[b]]
        if not common:
            pairs.append((a, b, 1, 0, 0))
            continue
        begins = []
        for of, sizes in ((axes[a], each[a]), (axes[b], each[b])):
            n = math.prod(sizes)
            own = np.unravel_index(np.arange(n), sizes)
            shared.append(numbers([own[of.index(axis)] for axis in common], [shape[axis] for axis in common], n))
            begins.append(start)
            start += n
        pairs.append((a, b, math.prod(shape[axis] for axis in common), *begins))
    return np.array(pairs, np.int64).reshape(-1, 5), np.concatenate(shared)


def softened(layout: MarginLayout, importance: Sequence[float] | None) -> tuple[MarginLayout, np.ndarray]:
    """Return a layout in whose order only margins that must be met agree, and the slack of all."""
    if importance is None:
        return layout, np.zeros(len(layout.order))
    slack = 1.0 / np.array(importance, np.float64)[layout.order]
    hard = slack == 0.0
    pairs = layout.pairs[hard[layout.pairs[:, 0]] & hard[layout.pairs[:, 1]]]
    within = np.where(hard & hard[layout.within], layout.within, -1)
    return layout._replace(pairs=pairs, within=within), slack


def least_residual(layout: MarginLayout, tol: float, n_cells: int) -> float:
    """Return what residual is small enough: that of rounding, where less is asked for."""
    longest = n_cells / max(1, min(np.diff(layout.offsets), default=1))
    return max(tol, LEAST_MARGIN_RESIDUAL * max(1.0, longest / FLOOR_LINES))


def together(shape: tuple[int, ...], axes: Axes, order: np.ndarray, targets: Sequence[Any], xp: Any = np) -> Any:
    """Return the targets of all margins, arrays of `xp`, as one line, in an order."""
    sizes = [tuple(shape[axis] for axis in of) for of in axes]
    flat = [
        t.astype(np.float64).reshape((*t.shape[: t.ndim - len(size)], math.prod(size)))
        for t, size in zip(targets, sizes, strict=True)
    ]
    common = np.broadcast_shapes(*(t.shape[:-1] for t in flat))
    return xp.concatenate([xp.broadcast_to(flat[b], (*common, flat[b].shape[-1])) for b in order], -1)


def apart(lines: Any, shape: tuple[int, ...], axes: Axes, layout: MarginLayout, xp: Any = np) -> list[Any]:
    """Return such a line, of a layout, as an array for each margin, in the order of the caller."""
    found: list[Any] = [None] * len(axes)
    for place, b in enumerate(layout.order):
        part = lines[..., layout.offsets[place] : layout.offsets[place + 1]]
        found[b] = xp.ascontiguousarray(part).reshape((*lines.shape[:-1], *(shape[axis] for axis in axes[b])))
    return found


class TableMargins(NamedTuple):
    """The shape of tables, the axes of their margins, and a layout of their cells."""

    shape: tuple[int, ...]
    axes: Axes
    layout: MarginLayout


class TableBatch(NamedTuple):
    """Tables and the targets of all their margins, float64, and the step along each: 0 where all share one."""

    cells: Any
    cells_step: int
    wanted: Any
    wanted_step: int


class TableRules(NamedTuple):
    """How tables of a batch are scaled."""

    smoothing: float
    slack: Any  # (margins,) one over the importance of each; 0 of those that must be met
    tol: float
    last_width: float
    max_iter: int
    first: int  # of the margins that must be met: its factors take what all others leave; -1 without any


def table_rules(
    layout: MarginLayout,
    slack: np.ndarray,
    n_cells: int,
    *,
    smoothing: float | None = None,
    tol: float,
    max_iter: int | None = None,
) -> TableRules:
    """Return the rules that follow from the options of the public functions."""
    hard = [int(place) for place in np.argsort(layout.order) if slack[place] == 0.0]
    return TableRules(
        float(smoothing or 0.0),
        slack,
        least_residual(layout, tol, n_cells),
        last_width(tol),
        MOST_MARGIN_PASSES if max_iter is None else max_iter,
        hard[0] if hard else -1,
    )


def scale_tables(
    values: Any,
    targets: Sequence[Any],
    margins: TableMargins,
    solve: Any,
    *,
    xp: Any,
    batches: Any,
    importance: Sequence[float] | None = None,
    **options: Any,
) -> tuple[Any, ...]:
    """Scale tables whose cells are given in the order of a layout's places, on any target.

    Arrays are of `xp`, and `batches` is the target's module. ``solve(given, n, layout, rules)`` returns of a flat batch
    tables, factors and sums of all lines, residuals, errors of cells, passes and statuses.
    """
    shape, axes, whole = margins
    layout, slack = softened(whole, importance)
    wanted = together(shape, axes, layout.order, targets, xp)
    cells = values.astype(np.float64, copy=False)
    batch, (cells, wanted), (cells_step, wanted_step) = batches.broadcast_batches(1, cells, wanted)
    rules = table_rules(layout, slack, values.shape[-1], **options)
    found = solve(TableBatch(cells, cells_step, wanted, wanted_step), math.prod(batch), layout, rules)
    table, factors, achieved, *numbers = (a.reshape((*batch, *a.shape[1:])) for a in found)
    lines = (part for a in (factors, achieved) for part in apart(a, shape, axes, layout, xp))
    return table.astype(batches.result_dtype(values, *targets), copy=False), *lines, *numbers
