"""Plan of eight tables in SIMD lanes: the fields of the workspace, the independent marginals, the normalisation.

Cells and targets are all positive, so which marginals depend on others follows from the axes of the margins. A marginal
with coordinates c is the indicator of c on its axes, and indicators of nonzero coordinates span all. A marginal is an
unknown if the axes of its nonzero coordinates are together in no earlier margin; multipliers of the others stay fixed.
Their targets follow by differences, which keep more digits the larger they are: so the largest coordinate of each axis
is moved to index zero.
"""

import math
from functools import lru_cache, reduce
from itertools import accumulate, chain, combinations
from typing import NamedTuple

import numpy as np

from cmfast.kernels.shared import margins_layout as _layout
from cmfast.kernels.shared.margins import CELL_PROBES

MOST_LANE_CELLS = 4096  # beyond it eight tables leave the caches
MOST_LANE_LINES = 512
MOST_UNKNOWNS = 112

# SIMD lines of per-table scalars.
REGULAR, ACTIVE, RESIDUAL, STEP_NORM, PREVIOUS_STEP_NORM, LARGEST_RAISE, ERROR, N_ITER, COUNT = range(9)


class LanesPlan(NamedTuple):
    """Plan for tables of a shape: marginals of all margins, the eliminated margin first; cells sorted by its marginals.

    Fields are counted in SIMD lines of eight values.
    """

    offsets: np.ndarray  # (margins + 1,) first marginal of each margin
    places: np.ndarray  # (cells,) index in the table of each cell
    lines: np.ndarray  # (cells, margins) int32: marginals of each cell
    pairs: np.ndarray  # as in a layout
    shared: np.ndarray
    codes: np.ndarray  # (cells, swept margins) int32: marginals of the margins that no other one contains
    starts: np.ndarray  # (swept margins,) their first marginals
    stops: np.ndarray
    kept: np.ndarray  # (unknowns,) marginals whose multipliers are unknowns
    slots: np.ndarray  # (cells, swept margins) int32: index among the unknowns of its eliminated marginal, or -1
    touched: np.ndarray  # unknowns of each eliminated marginal, ascending
    firsts: np.ndarray  # (eliminated marginals + 1,) first index in `touched`
    crossed: np.ndarray  # (terms, 2) cell, and index in the Hessian of the pair of unknowns that share it
    rounded: np.ndarray  # (probes, marginals) rounding errors of targets
    axes: np.ndarray  # (n, 5) an axis of cells or a margin: first marginal or -1, count, coordinates, stride, axis
    slabs: np.ndarray  # rows of `axes` from which the total of each coordinate of an axis is summed
    gauge: np.ndarray  # (marginals, marginals) maps log factors to normalised, minimum-norm ones
    n_cells: int
    n_lines: int
    n_closed: int
    length: int  # cells of an eliminated marginal
    q: int  # given cells
    x: int  # scaled cells
    targets: int  # of all marginals
    factors: int
    sums: int
    step: int
    totals: int  # total of each margin
    chosen: int  # coordinate of each axis that is swapped with coordinate zero
    one: int  # sums of two margins over shared axes; later a row of the coupling to an eliminated marginal
    other: int
    found: int  # right-hand side and solution of the unknowns
    inverse: int  # of pivots
    equations: int  # lower triangle of the Hessian
    size: int


@lru_cache(64)
def make_lanes_plan(shape: tuple[int, ...], axes: _layout.Axes) -> LanesPlan | None:
    """Return the plan for tables of a shape (cached); None where they are better scaled one at a time."""
    layout = _layout.make_dense_layout(shape, axes)
    n_cells, n_lines = len(layout.places), int(layout.offsets[-1])
    if not 0 < n_cells <= MOST_LANE_CELLS or n_lines > MOST_LANE_LINES:
        return None
    of = [axes[b] for b in layout.order]
    swept = [b for b in range(1, len(of)) if layout.within[b] < 0]
    kept = _find_independent_marginals(shape, of, swept, layout.offsets)
    if len(kept) > MOST_UNKNOWNS:
        return None
    n, n_closed = len(kept), int(layout.offsets[1])
    number = np.full(n_lines, -1)
    number[kept] = np.arange(n)
    codes = np.ascontiguousarray(layout.lines[:, swept])
    unknowns = number[codes].reshape(n_closed, n_cells // n_closed, len(swept))
    each = [np.unique(own[own >= 0]) for own in unknowns]
    slots = [np.where(own >= 0, np.searchsorted(some, own), -1) for own, some in zip(unknowns, each, strict=True)]
    longest = max((int(pair[2]) for pair in layout.pairs), default=0)
    sizes = {
        "q": n_cells,
        "x": n_cells,
        "targets": n_lines,
        "factors": n_lines,
        "sums": n_lines,
        "step": n_lines,
        "totals": len(of),
        "chosen": len(shape),
        "one": max(longest, *map(len, each)),
        "other": longest,
        "found": n,
        "inverse": n,
        "equations": n * (n + 1) // 2,
    }
    begins = dict(zip(sizes, accumulate(sizes.values(), initial=COUNT), strict=False))
    exchanged, slabs = _list_exchanged_axes(shape, of, layout.offsets)
    return LanesPlan(
        offsets=layout.offsets,
        places=layout.places,
        lines=layout.lines,
        pairs=layout.pairs,
        shared=layout.shared,
        codes=codes,
        starts=layout.offsets[swept].astype(np.int64),
        stops=layout.offsets[1:][swept].astype(np.int64),
        kept=kept,
        slots=np.concatenate(slots).astype(np.int32),
        touched=np.concatenate(each).astype(np.int64),
        firsts=np.cumsum([0, *map(len, each)]),
        crossed=_list_hessian_terms(layout.places, number[codes]),
        rounded=_draw_rounding_errors(n_lines),
        axes=exchanged,
        slabs=slabs,
        gauge=_compute_normalisation(shape, of, [0, *swept], layout),
        n_cells=n_cells,
        n_lines=n_lines,
        n_closed=n_closed,
        length=n_cells // n_closed,
        size=COUNT + sum(sizes.values()),
        **begins,
    )


def _list_coordinates(shape, of):
    """Return the coordinates of the marginals of a margin, by axis."""
    sizes = [shape[axis] for axis in of]
    own = np.unravel_index(np.arange(math.prod(sizes)), sizes) if sizes else ()
    return dict(zip(of, own, strict=True))


def _find_independent_marginals(shape, of, swept, offsets):
    """Return the marginals whose multipliers are unknowns."""
    found = [np.empty(0, np.int64)]
    for b in swept:
        own = _list_coordinates(shape, of[b])
        needed = np.ones(math.prod(shape[axis] for axis in of[b]), np.bool_)
        for a in range(b):  # some nonzero coordinate on an axis that margin `a` lacks
            needed &= reduce(np.logical_or, (own[axis] > 0 for axis in of[b] if axis not in of[a]))
        found.append(offsets[b] + np.flatnonzero(needed))
    return np.concatenate(found)


def _list_hessian_terms(places, unknowns):
    """Return each cell with the Hessian entry it is added to, for every two unknowns of different margins."""
    found = [np.empty((0, 2), np.int64)]
    for a, b in combinations(range(unknowns.shape[1]), 2):
        both = (unknowns[:, a] >= 0) & (unknowns[:, b] >= 0)
        low, high = unknowns[both, a], unknowns[both, b]
        found.append(np.stack([places[both], high * (high + 1) // 2 + low], 1))
    return np.concatenate(found)


def _list_exchanged_axes(shape, of, offsets):
    """Return the axes of cells and margins whose coordinates are swapped, and one row of each axis for its totals."""
    rows: list[tuple[int, ...]] = []
    slabs: dict[int, int] = {}
    named = {axis for own in of for axis in own}
    for start, own in ((-1, range(len(shape))), *zip(offsets, of, strict=False)):
        for k, axis in enumerate(own):
            if shape[axis] > 1 and axis in named:
                if start >= 0:
                    slabs.setdefault(axis, len(rows))
                stride = math.prod(shape[other] for other in own[k + 1 :])
                rows.append((start, math.prod(shape[other] for other in own), shape[axis], stride, axis))
    return np.array(rows, np.int64).reshape(-1, 5), np.array(list(slabs.values()), np.int64)


def _draw_rounding_errors(n_lines):
    """Return pseudo-random rounding errors of magnitude 0.5 to 1.5, the same for every table; no two cancel exactly."""
    found = np.random.Generator(np.random.PCG64(1)).uniform(-1.0, 1.0, (CELL_PROBES, n_lines))
    return found + np.copysign(0.5, found)


def _compute_normalisation(shape, of, asked, layout):
    """Return the matrix that maps log factors to the minimum-norm ones, with mean zero in all margins but one.

    Log factors decompose into interactions, one for each set of axes, that sum to zero over each of its axes. Every
    margin with these axes may hold an interaction; the minimum norm weights each margin inversely to its number of
    marginals.
    """
    n = [math.prod(shape[axis] for axis in own) for own in of]
    found = np.zeros((int(layout.offsets[-1]),) * 2)
    own = [_list_coordinates(shape, each) for each in of]
    wide = [[axis for axis in each if shape[axis] > 1] for each in of]
    sets = chain.from_iterable(combinations(each, size) for each in wide for size in range(len(each) + 1))
    for part in sorted({tuple(sorted(each)) for each in sets}):
        having = [b for b in asked if set(part) <= set(of[b])]
        sizes = [shape[axis] for axis in part]
        apart = np.ones((1, 1))
        for size in sizes:
            apart = np.kron(apart, np.eye(size) - 1.0 / size)
        at = {b: _layout.compute_indices([own[b][axis] for axis in part], sizes, n[b]) for b in having}
        whole = sum(1.0 / n[b] for b in having)
        for b in having:
            rows = slice(layout.offsets[b], layout.offsets[b + 1])
            for a in having:
                share = 1.0 / (n[b] * whole) * (math.prod(sizes) / n[a])
                found[rows, layout.offsets[a] : layout.offsets[a + 1]] += share * apart[at[b]][:, at[a]]
    first = int(np.flatnonzero(layout.order == 0)[0])
    to = slice(layout.offsets[first], layout.offsets[first + 1])
    for b in range(len(of)):
        rows = slice(layout.offsets[b], layout.offsets[b + 1])
        if b != first:
            mean = found[rows].mean(0)
            found[rows] -= mean
            found[to] += mean
    return found
