"""Scaling of the matrices of a batch that a queue names, whatever they hold: by a warp, a block or a crew each.

Above 32 lines most matrices need little of that, and what they need takes the compiler less than half the time. So an
instance that has no more takes all of them first, and says which ones are left.
"""

from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cuda._core import batches
from cmfast.kernels.cuda._core.module import SHARED, THREADS, WARP, Kernel, library, most_shared, processors
from cmfast.kernels.cuda.scaling import arguments
from cmfast.kernels.cuda.zeros import support
from cmfast.kernels.shared.scaling import RESCUE, ScalingProblem

MOST_WARPS = 6  # of a block, where each is a team: the source promises it to the compiler
LARGE_SCRATCH_BYTES = 1 << 30  # as batches.MOST_SCRATCH_BYTES, for large matrices
TEAMS = 1 << 13  # that a GPU keeps busy, at most: the others would find the queue empty
CREW_CELLS = 1 << 16  # of a matrix, from which on blocks without one of their own share it
PIECE_ROWS = 256  # that a block adds up of a column before it goes on with the next
CREW_NUMBERS = 5  # in which a block keeps what it knows of those that it works with
ROW_FIELDS, COL_FIELDS = 6, 12  # numbers that a tile keeps of each of its lines
DEFINES = {
    "ROW_FIELDS": ROW_FIELDS,
    "COL_FIELDS": COL_FIELDS,
    "MOST_WARPS": MOST_WARPS,
    "CREW_NUMBERS": CREW_NUMBERS,
    "PIECE_ROWS": PIECE_ROWS,
    "BLOCK_REDUCE": "__noinline__",
}

_INSTANCES = (("32", "false"), ("256", "false"), ("256", "true"))  # width, and whether matrices are large
_EASY = tuple((*each, "true") for each in _INSTANCES[1:])
_TEAM = Kernel(
    "scaling/team",
    "cmfast_ipf_team",
    (*((*each, "false") for each in _INSTANCES), *_EASY),
    (168, 255, 255, 128, 128),  # of the last two there is room for two blocks on a processor
)
KERNELS = (_TEAM,)


def is_loaded(problem: ScalingProblem) -> bool:
    """Return whether `solve` can start at once; else a thread compiles its kernel."""
    return _TEAM.is_loaded(_instance(problem), problem.cells)


def _instance(problem: ScalingProblem, *, easy: bool = False) -> tuple[str, str, str]:
    width = WARP if max(problem.R, problem.C) <= WARP else THREADS
    return str(width), "true" if problem.is_large else "false", "true" if easy else "false"


def takes_easy(problem: ScalingProblem) -> bool:
    """Return whether `solve_easy` does anything with matrices of this shape, under these rules."""
    p = problem
    return p.n > 0 and min(p.R, p.C) > 0 and max(p.R, p.C) > WARP and not p.plain and p.amount >= 0.0


def solve_easy(problem: ScalingProblem) -> tuple[Any, Any]:
    """Scale what sweeps, or a few steps of Newton's method, bring to its end, with zeros if the diagonal has none.

    Returns
    -------
    array of int64, shape (n,)
        The numbers of all other matrices, in any order, of whose results none is written.
    array of uint64, shape (1,)
        How many they are.
    """
    left = arguments.of_queue(problem)
    _launch(problem, None, None, left)
    return left["out_queue"], left["out_length"]


def solve(problem: ScalingProblem, queue: Any = None, length: Any = None) -> None:
    """Scale the matrices ``queue[:length]``, which are integers on the device; all of them without a queue.

    Parameters
    ----------
    problem : Problem
        The batch; its results are written for these matrices alone.
    queue : array of int64, shape (n,), optional
        Distinct numbers of matrices, in any order.
    length : array of uint64, shape (1,), optional
        How many of them there are: only the device knows.
    """
    if problem.n > 0:
        _launch(problem, queue, length, {"out_queue": None, "out_length": None})


def _launch(problem: ScalingProblem, queue: Any, length: Any, left: dict[str, Any]) -> None:
    p, R, C, easy = problem, problem.R, problem.C, left["out_queue"] is not None
    xp, crew = library(p.cells), crew_of(p.cells, R, C, p.n) if p.is_large else 1
    rows, cols = (C, R) if R < C and not p.plain else (R, C)
    network, flow_at = _network(p, easy=easy)
    cells = rows * (cols | 1)
    sweeps = p.plain or (easy and p.is_large)  # which need no more than cells and lines
    sizes = {
        "graph_at": 0 if sweeps or cols > RESCUE else cols * (cols | 1),
        "cells_at": cells,
        "scaled_at": 0 if sweeps else cells,
    }
    lie = layout(
        p.cells.device, rows, cols, p.n, sizes,
        network=network, is_crew=crew > 1, is_large=p.is_large,
    )  # fmt: skip
    blocks, slots = lie.blocks, lie.blocks * lie.teams  # where cells lie
    _TEAM.launch(
        _instance(p, easy=easy), blocks * crew, shared=lie.bytes, threads=lie.teams * lie.width,
        **arguments.of_problem(p), plain=p.plain, tol=p.tol, rescue=RESCUE,
        queue=queue, length=length, next=xp.zeros(1, np.uint64),
        **crew_arguments(p.cells, rows, cols, crew, blocks),
        **lie.places, lines_size=lie.lines,
        lines=None if lie.places["lines_at"] >= 0 else xp.empty(slots * crew * lie.lines),
        shared_size=lie.near, scratch_size=lie.scratch, scratch=xp.empty(slots * lie.scratch),
        network_size=network, flow_at=flow_at, network=xp.empty(slots * network, np.int64), **left,
    )  # fmt: skip


def crew_of(cells: Any, R: int, C: int, n: int) -> int:
    """Return how many blocks work on a large matrix: more than one where there are fewer of these than processors."""
    if R * C < CREW_CELLS:
        return 1
    rows = -(-max(R, C) // (THREADS // WARP))  # that there are, as many at a time as a block takes
    return max(1, min(processors(cells.device) // n, rows, THREADS))


def crew_arguments(cells: Any, rows: int, cols: int, crew: int, blocks: int) -> dict[str, Any]:
    """Return what blocks of `blocks` crews meet by: boards, and room for what they tell each other."""
    xp, room = library(cells), max(rows, -(-rows // PIECE_ROWS) * cols, THREADS)
    return {
        "crew_size": crew, "boards": xp.zeros(3 * blocks, np.uint64) if crew > 1 else None,
        "room": room, "exchange": xp.empty(2 * room * blocks) if crew > 1 else None,
    }  # fmt: skip


class TeamLayout(NamedTuple):
    """Where what a team needs lies, in numbers.

    Attributes
    ----------
    width : int
        Threads of a team: a warp or a block.
    places : dict
        Of the parts of a tile, by argument. In shared memory they count from zero, others from -1 downwards.
    lines : int
        What the lines of a tile take. They have a scratch of their own, since every block has lines of its own.
    near, scratch : int
        What a team takes of shared memory, and of other memory.
    teams, blocks : int
        Of a block, and how many blocks work at once.
    bytes : int
        Of shared memory, that a block takes.
    """

    width: int
    places: dict[str, int]
    lines: int
    near: int
    scratch: int
    teams: int
    blocks: int
    bytes: int


def layout(
    device: Any, rows: int, cols: int, n: int, sizes: dict[str, int], *,
    network: int = 0, is_crew: bool = False, is_large: bool = False,
) -> TeamLayout:  # fmt: skip
    """Return where the lines of a tile lie, and its parts of these `sizes`: what is read most often comes first.

    Parts are in shared memory as long as there is room, but for those that several blocks share; before them stand
    what blocks know of each other if the matrices are large, and some numbers for sums. A team has `network` numbers of
    other memory besides.
    """
    width = WARP if max(rows, cols) <= WARP else THREADS
    room = SHARED // 8 if width == WARP else (most_shared(device) - batches.team_scratch(str(width))) // 8
    first = width + (CREW_NUMBERS if is_large else 0)
    sums = 0 if width == WARP else max(rows, cols)  # which lines end with room for
    lines = (ROW_FIELDS + COL_FIELDS) * WARP if width == WARP else ROW_FIELDS * rows + COL_FIELDS * cols + sums
    near, scratch = first + (lines if lines <= room - first else 0), 0
    places = {"lines_at": 0 if near > first else -1}
    for name, size in sizes.items():
        if near + size <= room and not is_crew:
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


def _network(p: ScalingProblem, *, easy: bool) -> tuple[int, int]:
    """Return how many integers a look at zeros takes, and where those for the flow begin, 0 where none are needed."""
    if p.plain or p.amount != 0.0:
        return 0, 0
    numbers = support.scratch(p.R, p.C)
    return (numbers, 0) if p.bi or easy else (numbers + p.R * p.C, numbers)
