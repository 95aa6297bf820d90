"""The op ``support`` on a device: maximum flow and strongly connected components, a warp or block for each matrix."""

import math
from itertools import product
from typing import Any

import numpy as np

from cmfast.kernels.cuda._core import batches
from cmfast.kernels.cuda._core.module import BLOCKS, NAMES, SHARED, THREADS, Kernel, library

WARP = "32"
WARP_LINES = 64  # rows or columns up to which a warp handles a matrix, beyond it a thread block

_PATTERNS = Kernel(
    "zeros/support", "cmfast_support_patterns", tuple(product(("float", "double"), (WARP, str(THREADS)))), 80
)
KERNELS = (_PATTERNS,)


def count_scratch_words(R: int, C: int) -> int:
    """Return the number of 64-bit words of workspace of a matrix besides its flow, as laid out by the source."""
    row_words, col_words, levels = -(-R // 32), -(-C // 32), min(R, C) + 1
    words = 2 * (R * col_words + C * row_words) + (2 + levels) * (row_words + col_words) + 2 * levels
    return 2 * (R + C) + -(-words // 2)


def support(M: Any, row_sums: Any, col_sums: Any, *, num_threads: int | None = None) -> tuple[Any, ...]:
    """Classify zero patterns: status, dead cells, blocks of rows and columns, and infeasibility certificates.

    A certificate is rows and columns with the totals that they want and that are available.
    """
    del num_threads
    xp, (R, C) = library(M), M.shape[-2:]
    u = None if row_sums is None else row_sums.astype(np.float64, copy=False)[..., :, None]
    v = None if col_sums is None else col_sums.astype(np.float64, copy=False)[..., None, :]
    targets = [a for a in (u, v) if a is not None]
    batch, (cells, *lines), (m_step, *steps) = batches.broadcast_batches(2, batches.as_floating(M), *targets)
    (u, v), (u_step, v_step) = (lines, steps) if targets else ((None, None), (0, 0))
    n = math.prod(batch)
    found = {
        "out_status": xp.empty(n, np.int8), "out_dead": xp.empty((n, R, C), np.uint8),
        "out_row_block": xp.empty((n, R), np.int64), "out_col_block": xp.empty((n, C), np.int64),
        "out_rows": xp.empty((n, R), np.uint8), "out_cols": xp.empty((n, C), np.uint8),
        "out_wanted": xp.empty(n), "out_available": xp.empty(n),
    }  # fmt: skip
    if n:
        width = WARP if max(R, C) <= WARP_LINES else str(THREADS)
        teams, numbers, flows = THREADS // int(width), count_scratch_words(R, C), R * C if targets else 0
        held = batches.team_scratch(width) + 8 * teams * numbers
        is_held = held <= SHARED
        size = 8 * teams * (flows + (0 if is_held else numbers))  # bytes of global memory of a thread block
        blocks = min(batches.blocks(n, width), BLOCKS, max(1, batches.MOST_SCRATCH_BYTES // size) if size else BLOCKS)
        memory = None if is_held else xp.empty(blocks * teams * numbers, np.int64)
        flow = xp.empty(blocks * teams * flows, np.int64) if targets else None
        _PATTERNS.launch(
            (NAMES[cells.dtype], width), blocks, shared=held if is_held else batches.team_scratch(width),
            M=cells, m_step=m_step, row_sums=u, row_step=u_step, col_sums=v, col_step=v_step, R=R, C=C, n=n,
            numbers=numbers, memory=memory, flow=flow, **found,
        )  # fmt: skip
    bools = tuple(a.view(np.bool_) if a.dtype == np.uint8 else a for a in found.values())
    return tuple(a.reshape(batch + a.shape[1:]) for a in bools)
