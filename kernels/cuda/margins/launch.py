"""Tables scaled to margins over any of their axes: a warp or a block for each."""

import math
from functools import lru_cache
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cuda._core import batches
from cmfast.kernels.cuda._core.module import BLOCKS, SHARED, THREADS, Kernel, library, most_shared, processors
from cmfast.kernels.shared import margins, margins_layout
from cmfast.kernels.shared.scaling import FLOOR_LINES, last_width

WARP = 32
NARROW = 2048  # numbers of a table that a warp keeps; a block of several warps has room for three such tables
PER_PROCESSOR = 4  # blocks that share one, where their tables lie in other memory
PROGRESS_TABLES = 10_000  # between two calls of `progress`
_OF_TABLES = (
    "ROUNDS", "EVEN", "NUDGE", "LEAST", "PROOFS_FROM", "CERTAIN", "BELOW", "MOST_ECHOES", "FADED", "PROBES",
    "CELLS_TOL", "UNIT", "MOST_ERROR", "MOST_ROUNDS", "EXACT",
)  # fmt: skip
DEFINES = {name: getattr(margins, name) for name in _OF_TABLES}
_TABLES = Kernel("margins/launch", "cmfast_ipf_nd_tables", (("32",), ("256",)), 255)
KERNELS = (_TABLES,)


class Pattern(NamedTuple):
    """Which cells stand in which lines, as the kernel reads it, and how much memory one table takes.

    Attributes
    ----------
    places, offsets, pairs, common, within : array of int32
        Those of ``margins_layout.Layout``, which says `shared` instead of `common`.
    codes : array of int32, shape (margins, cells)
        Lines of the closed margin, then of all others, which are counted from zero together.
    starts, members : array of int32
        The cells of every line, one line behind the other.
    spans : array of int32, shape (margins,)
        How many threads share a line: a function of the numbers of cells and lines alone.
    by_pairs : bool
        Whether it takes less to form equations by pairs of cells than by pairs of lines.
    size : int
        Numbers that a table takes.
    """

    places: Any
    offsets: Any
    codes: Any
    starts: Any
    members: Any
    spans: Any
    pairs: Any
    common: Any
    within: Any
    by_pairs: bool
    size: int


def pattern(xp: ModuleType, layout: margins_layout.Layout) -> Pattern:
    """Return what the kernel reads of a layout, on the current device."""
    cells, n_margins = layout.lines.shape
    closed, lines = int(layout.offsets[1]), int(layout.offsets[-1])
    others = lines - closed
    codes = layout.lines.T - np.where(np.arange(n_margins) > 0, closed, 0)[:, None]
    starts = np.concatenate([[0], np.cumsum(np.bincount(layout.lines.ravel(), minlength=lines))])
    members = np.argsort(layout.lines, 0, kind="stable").T
    spans = [_span(cells // max(1, n)) for n in np.diff(layout.offsets).tolist()]
    along, across = cells // max(1, closed), cells * (n_margins - 1) // max(1, others)
    by_pairs = along * across * (n_margins - 1) < others * closed
    equations = others * (others + 1) // 2 + (0 if by_pairs else others * closed)
    size = lines + 5 * others + 2 * (closed + n_margins + cells) + max(cells, others) + max(equations, 4 * lines)
    arrays = (
        layout.places, layout.offsets, codes, starts, members, spans, layout.pairs, layout.shared, layout.within
    )  # fmt: skip
    there = (xp.asarray(np.ascontiguousarray(a, np.int32).ravel()) for a in arrays)
    return Pattern._make([*there, by_pairs, size])


def _span(cells: int) -> int:
    """Return how many threads share a line of so many cells: two each, or more."""
    return min(WARP, 1 << max(0, (cells // 2).bit_length() - 1))


@lru_cache(32)
def _dense(
    xp: ModuleType, device: int, shape: tuple[int, ...], axes: margins_layout.Axes
) -> tuple[margins_layout.Layout, Pattern]:
    """Return the layout of all cells of tables of a shape; it stays on the device."""
    del device
    layout = margins_layout.dense(shape, axes)
    found = pattern(xp, layout)
    xp.cuda.get_current_stream().synchronize()  # any stream may read it from now on
    return layout, found


def ipf_nd(
    M: Any, *targets: Any, axes: margins_layout.Axes, ndim: int, smoothing: float | None = None, tol: float,
    max_iter: int | None = None, num_threads: int | None = None, progress: Any = None,
) -> tuple[Any, ...]:  # fmt: skip
    """Scale tables to margins over `axes`; return them, factors, sums, residual, error of cells, passes and status."""
    del num_threads
    xp, cut = library(M), M.ndim - ndim
    shape = M.shape[cut:]
    layout, there = _dense(xp, M.device.id, shape, axes)
    cells = M.reshape((*M.shape[:cut], math.prod(shape))).astype(np.float64, copy=False)
    wanted = margins_layout.together(shape, axes, layout.order, targets, xp)
    batch, arrays, steps = batches.broadcast_batches(1, cells, wanted)
    n, of_batch = math.prod(batch), zip(arrays, steps, strict=True)
    rules = _rules(layout, smoothing, tol, max_iter)
    found = _solve(n, [each for pair in of_batch for each in pair], layout, there, rules, progress)
    table, factors, achieved, *numbers = (a.reshape((*batch, *a.shape[1:])) for a in found)
    table = table.reshape((*batch, *shape)).astype(batches.result_dtype(M, *targets), copy=False)
    lines = (margins_layout.apart(a, shape, axes, layout, xp) for a in (factors, achieved))
    return table, *(part for parts in lines for part in parts), *numbers


def _rules(layout: margins_layout.Layout, smoothing: float | None, tol: float, max_iter: int | None) -> dict[str, Any]:
    longest = len(layout.places) / max(1, min(np.diff(layout.offsets), default=1))
    return {
        "smoothing": float(smoothing or 0.0),
        "tol": max(tol, margins.FLOOR * max(1.0, longest / FLOOR_LINES)),
        "last_width": last_width(tol),
        "max_iter": margins.MOST_PASSES if max_iter is None else max_iter,
        "first": int(np.flatnonzero(layout.order == 0)[0]),
    }


def _solve(
    n: int, arrays: list[Any], layout: margins_layout.Layout, there: Pattern, rules: dict[str, Any], progress: Any
) -> tuple[Any, ...]:
    """Return what became of a flat batch."""
    cells, cells_step, wanted, wanted_step = arrays
    xp, (n_cells, n_margins), n_lines = library(cells), layout.lines.shape, int(layout.offsets[-1])
    types = (np.float64, np.float64, np.int64, np.int8)
    out = *(xp.empty((n, size)) for size in (n_cells, n_lines, n_lines)), *(xp.empty(n, dtype) for dtype in types)
    numbers = there._asdict()
    size = numbers.pop("size")
    width = WARP if size <= NARROW else THREADS
    teams = min(THREADS // WARP, SHARED // (8 * size)) if width == WARP else 1
    bytes_near = 8 * teams * size + batches.team_scratch(str(width))
    is_near = bytes_near <= (SHARED if width == WARP else most_shared(cells.device))
    most = min(PER_PROCESSOR * processors(cells.device), max(1, batches.MOST_SCRATCH_BYTES // (8 * size)))
    together = max(1, n) if progress is None else PROGRESS_TABLES
    names = ("out", "factors", "achieved", "out_residual", "out_error", "out_iter", "out_status")
    for start in range(0, n, together):
        stop = min(start + together, n)
        blocks = min(-(-(stop - start) // teams), BLOCKS if is_near else most)
        part = {name: array[start:stop] for name, array in zip(names, out, strict=True)}
        _TABLES.launch(
            (str(width),), blocks, threads=teams * width, shared=bytes_near if is_near else bytes_near - 8 * size,
            cells=cells[start:stop] if cells_step else cells, cells_step=cells_step,
            wanted=wanted[start:stop] if wanted_step else wanted, wanted_step=wanted_step, n=stop - start,
            n_cells=n_cells, margins=n_margins, closed=int(layout.offsets[1]), lines=n_lines,
            n_pairs=len(layout.pairs), **numbers, **rules, **part, size=size,
            scratch=None if is_near else xp.empty(blocks * size),
        )  # fmt: skip
        if progress is not None:
            progress(stop, n)
    if progress is not None and n == 0:
        progress(0, 0)
    return out
