"""Scaling of the matrices of a batch that a queue names, whatever they hold: by a warp or a block each."""

from typing import Any

import numpy as np

from cmfast.kernels.cuda._core import batches
from cmfast.kernels.cuda._core.module import SHARED, THREADS, Kernel, library, most_shared
from cmfast.kernels.cuda.scaling import arguments
from cmfast.kernels.cuda.zeros import support
from cmfast.kernels.shared.scaling import RESCUE, Problem

WARP = 32
MOST_WARPS = 6  # of a block, where each is a team: the source promises it to the compiler
LARGE_SCRATCH_BYTES = 1 << 30  # as batches.MOST_SCRATCH_BYTES, for large matrices
TEAMS = 1 << 13  # that a GPU keeps busy, at most: the others would find the queue empty
ROW_FIELDS, COL_FIELDS = 6, 12  # numbers that a tile keeps of each of its lines
DEFINES = {"ROW_FIELDS": ROW_FIELDS, "COL_FIELDS": COL_FIELDS, "MOST_WARPS": MOST_WARPS}

_TEAM = Kernel("scaling/team", "cmfast_ipf_team", (("32", "false"), ("256", "false"), ("256", "true")), (168, 255, 255))
KERNELS = (_TEAM,)


def is_loaded(problem: Problem) -> bool:
    """Return whether `solve` can start at once; else a thread compiles its kernel."""
    return _TEAM.is_loaded(_instance(problem), problem.cells)


def _instance(problem: Problem) -> tuple[str, str]:
    width = WARP if max(problem.R, problem.C) <= WARP else THREADS
    return str(width), "true" if problem.is_large else "false"


def solve(problem: Problem, queue: Any = None, length: Any = None) -> None:
    """Scale the matrices ``queue[:length]``, which are integers on the device; all of them without a queue.

    Parameters
    ----------
    problem : Problem
        The batch; its results are written for these matrices alone.
    queue : array of int64, shape (n,), optional
        Distinct numbers of matrices, in any order.
    length : array of int64, shape (1,), optional
        How many of them there are: only the device knows.
    """
    p, R, C = problem, problem.R, problem.C
    if p.n == 0:
        return
    xp = library(p.cells)
    width = WARP if max(R, C) <= WARP else THREADS
    rows, cols = (C, R) if R < C and not p.plain else (R, C)
    room = SHARED // 8 if width == WARP else (most_shared(p.cells.device) - batches.team_scratch(str(width))) // 8
    places, shared, scratch = _places(width, rows, cols, room - width, is_plain=p.plain)
    teams = min(MOST_WARPS if width == WARP else 1, room // (width + shared), p.n)  # of a block
    network, flow_at = _network(p)
    most = LARGE_SCRATCH_BYTES if p.is_large else batches.MOST_SCRATCH_BYTES
    blocks = -(-min(p.n, TEAMS, max(1, most // max(1, 8 * (scratch + network)))) // teams)
    slots = blocks * teams
    own = batches.team_scratch(str(width)) + 8 * teams * (width + shared)
    _TEAM.launch(
        _instance(p), blocks, shared=own, threads=teams * width,
        **arguments.of_problem(p), plain=p.plain, tol=p.tol, rescue=RESCUE,
        queue=queue, length=length, next=xp.zeros(1, np.uint64),
        **places, shared_size=width + shared, scratch_size=scratch, scratch=xp.empty(slots * scratch),
        network_size=network, flow_at=flow_at, network=xp.empty(slots * network, np.int64),
    )  # fmt: skip


def _places(width: int, rows: int, cols: int, room: int, *, is_plain: bool) -> tuple[dict[str, int], int, int]:
    """Return where the parts of a tile lie, by argument, and what they take of shared memory and scratch.

    All in numbers. What is read most often comes first: it lies in shared memory as long as there is `room`. Places
    there count from zero, others from -1 downwards.
    """
    pitch = cols | 1
    squared = 0 if is_plain or cols > RESCUE else cols * pitch
    lines = (ROW_FIELDS + COL_FIELDS) * WARP if width == WARP else ROW_FIELDS * rows + COL_FIELDS * cols
    cells = rows * pitch
    sizes = {"lines_at": lines, "graph_at": squared, "cells_at": cells, "scaled_at": 0 if is_plain else cells}
    places, shared, scratch = {}, 0, 0
    for name, size in sizes.items():
        if shared + size <= room:
            places[name] = shared
            shared += size
        else:
            places[name] = ~scratch
            scratch += size
    return places, shared, scratch


def _network(p: Problem) -> tuple[int, int]:
    """Return how many integers a look at zeros takes, and where those for the flow begin, 0 where none are needed."""
    if p.plain or p.amount != 0.0:
        return 0, 0
    numbers = support.scratch(p.R, p.C)
    return (numbers, 0) if p.bi else (numbers + p.R * p.C, numbers)
