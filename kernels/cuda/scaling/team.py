"""General scaling of the matrices in a queue: by a warp, a thread block, or a group of blocks for each.

Above 32 rows or columns most matrices need only part of the code, which compiles in less than half the time. So an
instance with that part alone (the common cases) takes all matrices first and lists those it leaves.
"""

from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cuda._core import batches
from cmfast.kernels.cuda._core.module import SHARED, THREADS, WARP, Kernel, library, most_shared, processors
from cmfast.kernels.cuda.scaling import arguments
from cmfast.kernels.cuda.zeros import support
from cmfast.kernels.shared.scaling import RESCUE, ScalingProblem

MOST_WARPS = 6  # warps of a block, where each is a team (launch bounds of the source)
LARGE_SCRATCH_BYTES = 1 << 30  # limit of scratch memory for large matrices
TEAMS = 1 << 13  # teams that a GPU keeps busy, at most: more would find the queue empty
SHARED_MATRIX_CELLS = 1 << 16  # cells of a matrix from which on several blocks share it
PIECE_ROWS = 256  # rows that a block sums of a column at a time
GROUP_FIELDS = 5  # 64-bit values of a block's state within its group
ROW_FIELDS, COL_FIELDS = 6, 12  # values that a tile stores for each row and column
DEFINES = {
    "ROW_FIELDS": ROW_FIELDS,
    "COL_FIELDS": COL_FIELDS,
    "MOST_WARPS": MOST_WARPS,
    "GROUP_FIELDS": GROUP_FIELDS,
    "PIECE_ROWS": PIECE_ROWS,
    "BLOCK_REDUCE": "__noinline__",
}

_INSTANCES = (("32", "false"), ("256", "false"), ("256", "true"))  # team width, and whether matrices are large
_COMMON = tuple((*each, "true") for each in _INSTANCES[1:])
_TEAM = Kernel(
    "scaling/team",
    "cmfast_ipf_team",
    (*((*each, "false") for each in _INSTANCES), *_COMMON),
    (168, 255, 255, 128, 128),  # two blocks of the last two fit on a multiprocessor
)
KERNELS = (_TEAM,)


def is_loaded(problem: ScalingProblem) -> bool:
    """Test whether `solve` can start immediately; otherwise a thread compiles its kernel."""
    return _TEAM.is_loaded(_choose_instance(problem), problem.cells)


def _choose_instance(problem: ScalingProblem, *, easy: bool = False) -> tuple[str, str, str]:
    """Return the template arguments of the kernel for a problem."""
    width = WARP if max(problem.R, problem.C) <= WARP else THREADS
    return str(width), "true" if problem.is_large else "false", "true" if easy else "false"


def takes_common(problem: ScalingProblem) -> bool:
    """Test whether `solve_common` handles matrices of this shape, under these rules."""
    p = problem
    return p.n > 0 and min(p.R, p.C) > 0 and max(p.R, p.C) > WARP and not p.plain and p.amount >= 0.0


def solve_common(problem: ScalingProblem) -> tuple[Any, Any]:
    """Scale the matrices that sweeps or a few Newton steps solve, with zeros only if the diagonal is positive.

    Returns
    -------
    array of int64, shape (n,)
        Indices of all other matrices, in any order, whose results are not written.
    array of uint64, shape (1,)
        Their number.
    """
    left = arguments.make_queue_arguments(problem)
    _launch(problem, None, None, left)
    return left["out_queue"], left["out_length"]


def solve(problem: ScalingProblem, queue: Any = None, length: Any = None) -> None:
    """Scale the matrices ``queue[:length]``, indices on the device, or all of them without a queue.

    Parameters
    ----------
    problem : Problem
        The batch; only results of these matrices are written.
    queue : array of int64, shape (n,), optional
        Distinct indices of matrices, in any order.
    length : array of uint64, shape (1,), optional
        Their number, which is known only to the device.
    """
    if problem.n > 0:
        _launch(problem, queue, length, {"out_queue": None, "out_length": None})


def _launch(problem: ScalingProblem, queue: Any, length: Any, left: dict[str, Any]) -> None:
    """Launch the kernel of teams for a queue of matrices, with the layout of their workspaces."""
    p, R, C, easy = problem, problem.R, problem.C, left["out_queue"] is not None
    xp, group = library(p.cells), count_group_blocks(p.cells, R, C, p.n) if p.is_large else 1
    rows, cols = (C, R) if R < C and not p.plain else (R, C)
    network, flow_at = _count_flow_words(p, easy=easy)
    cells = rows * (cols | 1)
    sweeps = p.plain or (easy and p.is_large)  # sweeps need only cells and vectors
    sizes = {
        "graph_at": 0 if sweeps or cols > RESCUE else cols * (cols | 1),
        "cells_at": cells,
        "scaled_at": 0 if sweeps else cells,
    }
    lie = make_layout(
        p.cells.device, rows, cols, p.n, sizes,
        network=network, is_shared=group > 1, is_large=p.is_large,
    )  # fmt: skip
    blocks, slots = lie.blocks, lie.blocks * lie.teams  # workspaces of cells
    _TEAM.launch(
        _choose_instance(p, easy=easy), blocks * group, shared=lie.bytes, threads=lie.teams * lie.width,
        **arguments.make_problem_arguments(p), plain=p.plain, tol=p.tol, rescue=RESCUE,
        queue=queue, length=length, next=xp.zeros(1, np.uint64),
        **make_group_arguments(p.cells, rows, cols, group, blocks),
        **lie.places, lines_size=lie.lines,
        lines=None if lie.places["lines_at"] >= 0 else xp.empty(slots * group * lie.lines),
        shared_size=lie.near, scratch_size=lie.scratch, scratch=xp.empty(slots * lie.scratch),
        network_size=network, flow_at=flow_at, network=xp.empty(slots * network, np.int64), **left,
    )  # fmt: skip


def count_group_blocks(cells: Any, R: int, C: int, n: int) -> int:
    """Return the number of blocks that share a large matrix: more than one where multiprocessors are spare."""
    if R * C < SHARED_MATRIX_CELLS:
        return 1
    rows = -(-max(R, C) // (THREADS // WARP))  # rounds of rows that a block handles together
    return max(1, min(processors(cells.device) // n, rows, THREADS))


def make_group_arguments(cells: Any, rows: int, cols: int, group: int, blocks: int) -> dict[str, Any]:
    """Return the arguments by which the blocks of `blocks` groups communicate: flags and exchange buffers."""
    xp, exchange_size = library(cells), max(rows, -(-rows // PIECE_ROWS) * cols, THREADS)
    return {
        "group_size": group, "flags": xp.zeros(3 * blocks, np.uint64) if group > 1 else None,
        "exchange_size": exchange_size, "exchange": xp.empty(2 * exchange_size * blocks) if group > 1 else None,
    }  # fmt: skip


class TeamLayout(NamedTuple):
    """Layout of a team's workspace, in values of 64 bits.

    Attributes
    ----------
    width : int
        Threads of a team: a warp or a block.
    places : dict
        Offset of each part of a tile, by argument: from zero in shared memory, from -1 downwards in global memory.
    lines : int
        Values of the row and column vectors. Every block has its own.
    near, scratch : int
        Values of a team in shared memory, and in global memory.
    teams, blocks : int
        Teams of a block, and blocks that run together.
    bytes : int
        Shared memory of a block.
    """

    width: int
    places: dict[str, int]
    lines: int
    near: int
    scratch: int
    teams: int
    blocks: int
    bytes: int


def make_layout(
    device: Any, rows: int, cols: int, n: int, sizes: dict[str, int], *,
    network: int = 0, is_shared: bool = False, is_large: bool = False,
) -> TeamLayout:  # fmt: skip
    """Return the layout of a tile's vectors and of its parts of these `sizes`, the most frequently read first.

    Parts are in shared memory as long as they fit, except those that several blocks share; before them come the state
    of the block within its group, if matrices are large, and a buffer for sums. A team has `network` more words of
    global memory.
    """
    width = WARP if max(rows, cols) <= WARP else THREADS
    room = SHARED // 8 if width == WARP else (most_shared(device) - batches.team_scratch(str(width))) // 8
    first = width + (GROUP_FIELDS if is_large else 0)
    sums = 0 if width == WARP else max(rows, cols)  # buffer of sums after the vectors
    lines = (ROW_FIELDS + COL_FIELDS) * WARP if width == WARP else ROW_FIELDS * rows + COL_FIELDS * cols + sums
    near, scratch = first + (lines if lines <= room - first else 0), 0
    places = {"lines_at": 0 if near > first else -1}
    for name, size in sizes.items():
        if near + size <= room and not is_shared:
            places[name] = near - first
            near += size
        else:
            places[name] = ~scratch
            scratch += size
    teams = min(MOST_WARPS if width == WARP else 1, room // near, n)
    most = LARGE_SCRATCH_BYTES if is_large else batches.MOST_SCRATCH_BYTES
    blocks = -(-min(n, TEAMS, max(1, most // max(1, 8 * (scratch + network)))) // teams)
    own = batches.team_scratch(str(width)) + 8 * teams * near
    return TeamLayout(width, places, lines, near, scratch, teams, blocks, own)


def _count_flow_words(p: ScalingProblem, *, easy: bool) -> tuple[int, int]:
    """Return the number of words for the classification of zeros, and the offset of the flow, 0 where not needed."""
    if p.plain or p.amount != 0.0:
        return 0, 0
    numbers = support.count_scratch_words(p.R, p.C)
    return (numbers, 0) if p.bi or easy else (numbers + p.R * p.C, numbers)
