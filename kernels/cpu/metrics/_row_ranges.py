"""Sum one large matrix of counts in ranges of rows, on several threads.

Partial sums of counts are exact up to the total from which on a matrix is HUGE and summed in int64, so that the bits do
not depend on the ranges. Sums of fractions would.
"""

import numpy as np

from cmfast.kernels.cpu._core import accumulators, pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH
from cmfast.kernels.cpu.metrics._margins import (
    FIRST,
    SIZE_LINE,
    STATUS_LINE,
    SUMS,
    TOTAL_LINE,
    Range,
    aligned_lines,
    count_scratch_lines,
    count_tile_lines,
    is_unusual,
    repeat_last_lane,
    sum_rows,
)
from cmfast.kernels.status import INVALID, OK

SECONDS_PER_SUMMED_CELL = 3e-10
LEAST_SHARED_CELLS = 1 << 21  # cells from which on a matrix is summed by several threads


@jit(borrows=True)
def _sum_range(M, C, rows, ordered, part, scratch):
    """Write the sums of some rows, given as matrix, first row and end, to `part`; the lines of other rows stay."""
    b, begin, end = rows
    sum_rows(M, C, (b, begin, end, 0), ordered, part, 0, scratch.reshape(2, WIDTH // 2 * C))


@jit(borrows=True)
def _join_totals(parts, sums, at, w):
    """Write total and status of a matrix, whose ranges of rows have the sums `parts` (ranges, lines), to a lane."""
    n, status = 0.0, OK
    for q in range(len(parts)):
        n += parts[q, TOTAL_LINE]
        status = status if parts[q, STATUS_LINE] == OK else INVALID
    sums[at + TOTAL_LINE, w], sums[at + SIZE_LINE, w] = n, n
    sums[at + STATUS_LINE, w] = status if n < np.inf else INVALID


@jit(borrows=True)
def _join_ranges(parts, ends, C, ordered, lane, start, stop):
    """Add the sums of all ranges of rows of classes `start` to `stop` into a lane: sums, its tile and its number."""
    sums, at, w = lane
    t, p, band, top = FIRST + C, FIRST + 2 * C, FIRST + 3 * C, FIRST + 4 * C
    begin = 0
    for q in range(len(ends)):
        for i in range(max(begin, start), min(ends[q], stop)):
            sums[at + FIRST + i, w], sums[at + t + i, w] = parts[q, FIRST + i], parts[q, t + i]
            # The column above the diagonal: what earlier ranges have of it, which the first part holds, and this one.
            sums[at + top + i, w] = (parts[0, p + i] if q > 0 else 0.0) + parts[q, top + i]
        if q > 0:
            for k in range(p + start, p + stop):
                parts[0, k] += parts[q, k]
            if ordered:
                for k in range(band + start, band + stop):
                    parts[0, k] += parts[q, k]
        begin = ends[q]
    for k in range(start, stop):
        sums[at + p + k, w], sums[at + band + k, w] = parts[0, p + k], parts[0, band + k]


@jit(borrows=True)
def _finish_tiles(C, usual, sums, count):
    """Repeat the last of `count` matrices in the lanes after it; return whether any total is unusual."""
    unusual, size = False, FIRST + SUMS * C
    for first in range(0, count, WIDTH):
        at = first // WIDTH * size
        repeat_last_lane(sums, at, C, min(WIDTH, count - first))
        unusual = unusual or is_unusual(sums, at, Range(*usual))
    return unusual


def are_shared(cells, C, num_threads):
    """Return whether matrices are large counts whose rows several threads share."""
    few = C * C < LEAST_SHARED_CELLS or cells.dtype.kind == "f"
    return not few and num_threads != 1 and pool.cpu_count() > 1


def sum_large_counts(M, C, ordered, usual, sums, bounds, num_threads):
    """Sum the matrices in `bounds` into tiles, one after the other; return whether any total is unusual."""
    size, seconds = count_tile_lines(C), C * C * SECONDS_PER_SUMMED_CELL
    ranges = pool.free_pieces(C, seconds)
    ends = np.array([end for _, end in ranges])
    for b in range(*bounds):
        pool.checkpoint()
        parts = np.empty((len(ranges), size))  # of diagonal, row sums and tops each range writes its own rows

        def work(q, begin, end, b=b, parts=parts):
            """Sum one range of rows."""
            _sum_range(M, C, (b, begin, end), ordered, parts[q, :, None], aligned_lines(count_scratch_lines(C)))

        pool.run_pieces(work, ranges, seconds=seconds, num_threads=num_threads)
        tile, w = divmod(b - bounds[0], WIDTH)
        _join_totals(parts, sums, tile * size, w)
        given = parts, ends, C, ordered, (sums, tile * size, w)
        joining = parts.size * accumulators.SECONDS_PER_ADDED_NUMBER
        pool.run(_join_ranges, given, C, seconds=joining, num_threads=num_threads)
    return _finish_tiles(C, usual, sums, bounds[1] - bounds[0])
