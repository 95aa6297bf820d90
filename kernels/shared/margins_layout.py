"""Layout of the margins of a table: the marginals of each cell; the same for every table of a shape."""

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
    """Cells sorted by the marginals of the largest margin, which comes first and is eliminated exactly.

    Marginals are numbered through all margins, in the order of `order`.
    """

    order: np.ndarray  # (margins,) the caller's margin at each position
    offsets: np.ndarray  # (margins + 1,) first marginal of each
    places: np.ndarray  # (cells,) index in the table of each cell
    lines: np.ndarray  # (cells, margins) int32: marginals of each cell
    pairs: np.ndarray  # (pairs, 5) two margins, size of their shared margin, first index in `shared` of each
    shared: np.ndarray  # marginal of a margin -> marginal of the margin shared with another
    within: np.ndarray  # (margins,) earlier margin that has all of its axes, or -1


@lru_cache(64)
def make_cellless_layout(shape: tuple[int, ...], axes: Axes) -> MarginLayout:
    """Return the layout of tables of a shape without its cells (cached)."""
    sizes = [math.prod(shape[axis] for axis in of) for of in axes]
    order = np.array(sorted(range(len(axes)), key=lambda b: -sizes[b]), np.int64)
    offsets = np.concatenate([[0], np.cumsum([sizes[b] for b in order])]).astype(np.int64)
    pairs, shared = _find_shared_axes(shape, [axes[b] for b in order])
    within = [next((a for a in range(b) if set(axes[order[b]]) <= set(axes[order[a]])), -1) for b in range(len(axes))]
    none = np.empty(0, np.int64), np.empty((0, len(axes)), np.int32)
    return MarginLayout(order, offsets, *none, pairs, shared, np.array(within, np.int64))


@lru_cache(64)
def make_dense_layout(shape: tuple[int, ...], axes: Axes) -> MarginLayout:
    """Return the layout of all cells of tables of a shape (cached)."""
    of_lines = make_cellless_layout(shape, axes)
    closed = axes[of_lines.order[0]]
    turned = [*closed, *(axis for axis in range(len(shape)) if axis not in closed)]  # cells of a marginal adjacent
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


def make_sparse_layout(shape: tuple[int, ...], axes: Axes, coordinates: Sequence[np.ndarray]) -> MarginLayout:
    """Return the layout of the cells at `coordinates`, an array for each axis."""
    of_lines, n = make_cellless_layout(shape, axes), len(coordinates[0]) if shape else 1
    ordered = [axes[b] for b in of_lines.order]
    found = [compute_indices([coordinates[axis] for axis in of], [shape[axis] for axis in of], n) for of in ordered]
    places = np.argsort(found[0], kind="stable")
    lines = np.empty((len(places), len(axes)), np.int32)
    for b, number in enumerate(found):
        lines[:, b] = number[places] + of_lines.offsets[b]
    return of_lines._replace(places=places, lines=lines)


def compute_indices(coordinates: list[np.ndarray], sizes: list[int], n: int) -> np.ndarray:
    """Return the flat indices of `n` cells from their coordinates, the last axis fastest."""
    found = np.zeros(n, np.int64)
    for coordinate, size in zip(coordinates, sizes, strict=True):
        found = found * size + coordinate
    return found


def _find_shared_axes(shape: tuple[int, ...], axes: list[tuple[int, ...]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the shared margins of every two margins: over their common axes, or the total without common axes."""
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
            shared.append(
                compute_indices([own[of.index(axis)] for axis in common], [shape[axis] for axis in common], n)
            )
            begins.append(start)
            start += n
        pairs.append((a, b, math.prod(shape[axis] for axis in common), *begins))
    return np.array(pairs, np.int64).reshape(-1, 5), np.concatenate(shared)


def soften_layout(layout: MarginLayout, importance: Sequence[float] | None) -> tuple[MarginLayout, np.ndarray]:
    """Return a layout in which only hard margins are reconciled, and the slack of all margins."""
    if importance is None:
        return layout, np.zeros(len(layout.order))
    slack = 1.0 / np.array(importance, np.float64)[layout.order]
    hard = slack == 0.0
    pairs = layout.pairs[hard[layout.pairs[:, 0]] & hard[layout.pairs[:, 1]]]
    within = np.where(hard & hard[layout.within], layout.within, -1)
    return layout._replace(pairs=pairs, within=within), slack


def compute_tolerance(layout: MarginLayout, tol: float, n_cells: int) -> float:
    """Return the tolerance of the residual: `tol`, or the rounding error if that is larger."""
    longest = n_cells / max(1, min(np.diff(layout.offsets), default=1))
    return max(tol, LEAST_MARGIN_RESIDUAL * max(1.0, longest / FLOOR_LINES))


def concatenate_margins(
    shape: tuple[int, ...], axes: Axes, order: np.ndarray, targets: Sequence[Any], xp: Any = np
) -> Any:
    """Return the targets of all margins, arrays of `xp`, concatenated in the order of a layout."""
    sizes = [tuple(shape[axis] for axis in of) for of in axes]
    flat = [
        t.astype(np.float64).reshape((*t.shape[: t.ndim - len(size)], math.prod(size)))
        for t, size in zip(targets, sizes, strict=True)
    ]
    common = np.broadcast_shapes(*(t.shape[:-1] for t in flat))
    return xp.concatenate([xp.broadcast_to(flat[b], (*common, flat[b].shape[-1])) for b in order], -1)


def split_margins(lines: Any, shape: tuple[int, ...], axes: Axes, layout: MarginLayout, xp: Any = np) -> list[Any]:
    """Split concatenated marginals of a layout into an array for each margin, in the order of the caller."""
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
    """Tables and the targets of all their margins, float64, and the stride of each: 0 where all share one."""

    cells: Any
    cells_step: int
    wanted: Any
    wanted_step: int


class TableRules(NamedTuple):
    """Options of scaling a batch of tables."""

    smoothing: float
    slack: Any  # (margins,) one over the importance of each; 0 for hard margins
    tol: float
    last_width: float
    max_iter: int
    first: int  # first hard margin, whose factors absorb the normalisation; -1 without any


def make_table_rules(
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
        compute_tolerance(layout, tol, n_cells),
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
    """Scale tables whose cells are given in the order of a layout, on any target.

    Arrays are of `xp`, and `batches` is the target's module. ``solve(given, n, layout, rules)`` returns for a flat
    batch tables, factors and sums of all marginals, residuals, errors of cells, passes and statuses.
    """
    shape, axes, whole = margins
    layout, slack = soften_layout(whole, importance)
    wanted = concatenate_margins(shape, axes, layout.order, targets, xp)
    cells = values.astype(np.float64, copy=False)
    batch, (cells, wanted), (cells_step, wanted_step) = batches.broadcast_batches(1, cells, wanted)
    rules = make_table_rules(layout, slack, values.shape[-1], **options)
    found = solve(TableBatch(cells, cells_step, wanted, wanted_step), math.prod(batch), layout, rules)
    table, factors, achieved, *numbers = (a.reshape((*batch, *a.shape[1:])) for a in found)
    lines = (part for a in (factors, achieved) for part in split_margins(a, shape, axes, layout, xp))
    return table.astype(batches.result_dtype(values, *targets), copy=False), *lines, *numbers
