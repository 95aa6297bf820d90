"""The ops ``ipf_nd`` and ``ipf_cells`` on a device: tables scaled to margins, by a warp or a block for each."""

import math
from functools import lru_cache
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cuda._core import batches
from cmfast.kernels.cuda._core.module import BLOCKS, SHARED, THREADS, WARP, Kernel, library, most_shared, processors
from cmfast.kernels.cuda._core.resident import copy_to_device
from cmfast.kernels.shared import margins as table_rules
from cmfast.kernels.shared import margins_layout
from cmfast.kernels.shared.margins_layout import MarginLayout, TableBatch, TableMargins, TableRules

# Values of a table that a warp handles; shared memory holds three such tables for a block of several warps.
MOST_WARP_NUMBERS = 2048
MOST_INDICES = (1 << 31) - 1  # cells times margins: the kernel lists the cells of all marginals by numbers of 32 bits
PER_PROCESSOR = 4  # blocks of a multiprocessor, where their tables are in global memory
PROGRESS_TABLES = 10_000  # tables between two calls of `progress`
_OF_TABLES = (
    "RECONCILE_ROUNDS", "MOST_ROUNDED_GAP", "NUDGE", "PROOFS_FROM", "LEAST_PROOF_GAP", "BELOW", "MOST_ECHOES", "FADED",
    "CELL_PROBES", "CELLS_TOL", "MOST_ROUNDS", "MOST_LOGARITHM_RESIDUAL",
)  # fmt: skip
DEFINES = {name: getattr(table_rules, name) for name in _OF_TABLES}
_TABLES = Kernel("margins/launch", "cmfast_ipf_nd_tables", (("32",), ("256",)), 128)
KERNELS = (_TABLES,)
_RESULTS = ("out", "factors", "achieved", "out_residual", "out_error", "out_iter", "out_status")


class Pattern(NamedTuple):
    """Marginals of all cells, as the kernel reads them, and the memory of one table.

    Attributes
    ----------
    places, offsets, pairs, common, within : array of int32
        Those of ``margins_layout.MarginLayout``, where `common` is called `shared`.
    codes : array of int32, shape (margins, cells)
        Marginals of the eliminated margin, then of all others, which are numbered together from zero.
    starts, members : array of int32
        The cells of every marginal, one marginal after the other.
    spans : array of int32, shape (margins,)
        Threads that share a marginal: depends on the numbers of cells and marginals alone.
    by_pairs : bool
        Whether forming the Hessian by pairs of cells is cheaper than by pairs of marginals.
    size : int
        Values of the workspace of a table.
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


def make_pattern(xp: ModuleType, layout: MarginLayout) -> Pattern:
    """Return the pattern of a layout, on the current device."""
    cells, n_margins = layout.lines.shape
    closed, lines = int(layout.offsets[1]), int(layout.offsets[-1])
    others = lines - closed
    codes = layout.lines.T - np.where(np.arange(n_margins) > 0, closed, 0)[:, None]
    starts = np.concatenate([[0], np.cumsum(np.bincount(layout.lines.ravel(), minlength=lines))])
    members = np.argsort(layout.lines, 0, kind="stable").T
    spans = [_choose_span(cells // max(1, n)) for n in np.diff(layout.offsets).tolist()]
    along, across = cells // max(1, closed), cells * (n_margins - 1) // max(1, others)
    by_pairs = along * across * (n_margins - 1) < others * closed
    equations = others * (others + 1) // 2 + (0 if by_pairs else others * closed)
    size = 2 * lines + 5 * others + 2 * (closed + n_margins + cells) + max(cells, others) + max(equations, 4 * lines)
    arrays = (
        layout.places, layout.offsets, codes, starts, members, spans, layout.pairs, layout.shared, layout.within
    )  # fmt: skip
    there = (xp.asarray(np.ascontiguousarray(a, np.int32).ravel()) for a in arrays)
    return Pattern._make([*there, by_pairs, size])


def _require_few_cells(cells: int, n_margins: int) -> None:
    """Raise OverflowError for tables with more cells than indices of 32 bits can list for all margins."""
    if cells * n_margins > MOST_INDICES:
        most = MOST_INDICES // n_margins
        msg = f"tables of {cells} cells are too large for CUDA with {n_margins} margins: at most {most} cells"
        raise OverflowError(msg)


def _choose_span(cells: int) -> int:
    """Return the number of threads that share a marginal of so many cells: at least two cells each."""
    return min(WARP, 1 << max(0, (cells // 2).bit_length() - 1))


@lru_cache(32)
def _cache_dense_layout(
    xp: ModuleType, device: int, shape: tuple[int, ...], axes: margins_layout.Axes
) -> tuple[MarginLayout, Pattern]:
    """Return the layout of all cells of tables of a shape, and its pattern on the device (cached)."""
    del device
    layout = margins_layout.make_dense_layout(shape, axes)
    found = make_pattern(xp, layout)
    xp.cuda.get_current_stream().synchronize()  # any stream may read it from now on
    return layout, found


def ipf_nd(M: Any, *targets: Any, axes: margins_layout.Axes, ndim: int, **options: Any) -> tuple[Any, ...]:
    """Scale tables to margins over `axes`; return tables, factors, sums and diagnostics.

    The diagnostics are the residual, the error of cells, the passes and the status.
    """
    cut = M.ndim - ndim
    shape = M.shape[cut:]
    _require_few_cells(math.prod(shape), len(axes))
    layout, there = _cache_dense_layout(library(M), M.device.id, shape, axes)
    given, margins = M.reshape((*M.shape[:cut], math.prod(shape))), TableMargins(shape, axes, layout)
    cells, *others = _scale(given, targets, margins, there, **options)
    return cells.reshape((*cells.shape[:-1], *shape)), *others


def ipf_cells(
    values: Any, coords: Any, *targets: Any, axes: margins_layout.Axes, shape: tuple[int, ...], **options: Any
) -> tuple[Any, ...]:
    """Scale sparse tables of a shape, whose positive cells are at `coords` (all distinct), to margins over `axes`."""
    _require_few_cells(values.shape[-1], len(axes))
    layout = margins_layout.make_sparse_layout(shape, axes, list(coords.get()))  # synchronises
    there = make_pattern(library(values), layout)
    return _scale(values, targets, TableMargins(shape, axes, layout), there, **options)


def _scale(
    values: Any, targets: tuple[Any, ...], margins: TableMargins, there: Pattern, *,
    num_threads: int | None = None, progress: Any = None, **options: Any,
) -> tuple[Any, ...]:  # fmt: skip
    """Scale tables whose cells are given in the order of a layout."""
    del num_threads

    def solve(given: TableBatch, n: int, layout: MarginLayout, rules: TableRules) -> tuple[Any, ...]:
        """Scale a flat batch with the pattern of a layout, or of its soft version."""
        own = there
        if layout is not margins.layout:  # soft margins need not be reconciled
            pairs, within = (copy_to_device(values, a.astype(np.int32)) for a in (layout.pairs, layout.within))
            own = there._replace(pairs=pairs, within=within)
        held = rules._replace(slack=copy_to_device(values, rules.slack))
        return _solve(n, given._asdict(), layout, own, held._asdict(), progress)

    return margins_layout.scale_tables(values, targets, margins, solve, xp=library(values), batches=batches, **options)


def _solve(
    n: int, given: dict[str, Any], layout: MarginLayout, there: Pattern, rules: dict[str, Any], progress: Any
) -> tuple[Any, ...]:
    """Scale a flat batch of tables; return the arrays of results."""
    cells, (n_cells, n_margins), n_lines = given["cells"], layout.lines.shape, int(layout.offsets[-1])
    xp, types = library(cells), (np.float64, np.float64, np.int64, np.int8)
    out = *(xp.empty((n, size)) for size in (n_cells, n_lines, n_lines)), *(xp.empty(n, dtype) for dtype in types)
    named = dict(zip(_RESULTS, out, strict=True))
    numbers = there._asdict()
    size = numbers["size"]
    width = WARP if size <= MOST_WARP_NUMBERS else THREADS
    teams = min(THREADS // WARP, SHARED // (8 * size)) if width == WARP else 1
    own = batches.team_scratch(str(width))
    is_near = own + 8 * teams * size <= (SHARED if width == WARP else most_shared(cells.device))
    most = min(PER_PROCESSOR * processors(cells.device), max(1, batches.MOST_SCRATCH_BYTES // (8 * size)))
    together = max(1, n) if progress is None else PROGRESS_TABLES
    for start in range(0, n, together):
        some = slice(start, min(start + together, n))
        count = some.stop - start
        blocks = min(-(-count // teams), BLOCKS if is_near else most)
        part = {name: given[name][some] if given[f"{name}_step"] else given[name] for name in ("cells", "wanted")}
        _TABLES.launch(
            (str(width),), blocks, threads=teams * width, shared=own + 8 * teams * size * is_near,
            **given | part | numbers | rules, **{name: array[some] for name, array in named.items()}, n=count,
            n_cells=n_cells, margins=n_margins, closed=int(layout.offsets[1]), lines=n_lines,
            n_pairs=len(layout.pairs), scratch=None if is_near else xp.empty(blocks * size),
        )  # fmt: skip
        if progress is not None:
            progress(some.stop, n)
    if progress is not None and n == 0:
        progress(0, 0)
    return out
