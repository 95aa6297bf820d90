"""Paired bootstrap and permutation replicates of two classifiers on the same samples, summed and never stored.

Resampling units are samples of a cell ``T[truth, first, second]`` or whole clusters, drawn within strata of fixed size.
Bootstrap: a group is one stratum. Permutation test: units whose two answers may be swapped form a stratum of two kinds,
as observed and swapped, with probability one half each. Every group, replicate and kind of unit has a random stream of
its own.
"""

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH
from cmfast.kernels.cpu.metrics import _derived_tables, _margins, values
from cmfast.kernels.cpu.metrics._margins import FIRST, SIZE_LINE, STATUS_LINE, SUMS, TOTAL_LINE
from cmfast.kernels.cpu.uncertainty._binomial_batches import LINES, MOST_DRAWN, draw_binomials
from cmfast.kernels.cpu.uncertainty._replicates import add_cell, add_line, repeat_lanes
from cmfast.kernels.cpu.uncertainty.resample import SECONDS_PER_DRAW
from cmfast.kernels.shared.uncertainty import PairedUnits
from cmfast.kernels.status import OK

NO_COUNTS = np.empty(0, np.int64)


@jit()
def _draw_paired_sums(units, ordered, n_resamples, streams, sums, tally, start, stop):
    """Draw replicates `start` to `stop`, counted over all groups, and write both classifiers' class sums.

    `streams` is the seed and the number of the first group. `tally` has MOST_DRAWN values for each of 10 C sums, for
    the total, and for the workspace of `draw_binomials`.
    """
    shares, groups, starts, totals, bounds, cells, counts = units
    seed, first = streams
    C = (len(tally) - 1 - LINES) // (2 * SUMS)
    total, work = tally[2 * SUMS * C], tally[2 * SUMS * C + 1 :]
    left, drawn, samples = np.empty(MOST_DRAWN, np.int64), np.empty(MOST_DRAWN, np.int64), np.empty(MOST_DRAWN)
    draw = start
    while draw < stop:
        group, replicate = draw // n_resamples, draw % n_resamples
        n = min(MOST_DRAWN, stop - draw, n_resamples - replicate)
        more = samples[:n]
        tally[: 2 * SUMS * C + 1] = 0.0
        for stratum in range(groups[group], groups[group + 1]):
            left[:] = totals[stratum]
            for u in range(starts[stratum], starts[stratum + 1]):
                part = u - starts[groups[group]]
                draw_binomials(work, left[:n], shares[u], seed, first + group, replicate, part, drawn[:n])
                for c in range(bounds[u], bounds[u + 1]):
                    y, a, b = cells[0, c], cells[1, c], cells[2, c]
                    for r in range(n):
                        more[r] = drawn[r] * counts[c]
                    add_line(total, more)
                    add_cell(tally, C, 0, ordered, y, a, more)
                    add_cell(tally, C, SUMS * C, ordered, y, b, more)
        for r in range(n):
            lane = 2 * (draw + r - start)
            _write_pair(tally, C, r, total[r], sums, lane // WIDTH * (FIRST + SUMS * C), lane % WIDTH)
        draw += n


@jit(inner=True)
def _write_pair(tally, C, r, total, sums, at, w):
    """Write the class sums of one replicate, of both classifiers, to lanes `w` and `w` + 1."""
    for second in range(2):
        sums[at + TOTAL_LINE, w + second], sums[at + SIZE_LINE, w + second] = total, total
        sums[at + STATUS_LINE, w + second] = OK
        for k in range(SUMS * C):
            sums[at + FIRST + k, w + second] = tally[second * SUMS * C + k, r]


def paired_replicates(
    shares, groups, starts, totals, bounds, cells, counts,
    *, plan, n_classes, n_resamples, seed, before=0, num_threads=None,
):  # fmt: skip
    """Run `plan` on both matrices of every replicate of every group: scalars (G, B, 2), per-class results, status.

    The random streams are those of groups from number `before` on.
    """
    units = PairedUnits(*(np.ascontiguousarray(a) for a in (shares, groups, starts, totals, bounds, cells, counts)))
    for array in units:
        array.flags.writeable = False  # so that kernels are compiled for one array type
    C, G = n_classes, len(groups) - 1
    per_replicate = len(shares) / max(G, 1) * SECONDS_PER_DRAW
    together = max(WIDTH // 2, int(pool.MOMENT_SECONDS / max(per_replicate, 1e-9)) // WIDTH * WIDTH)
    lines, streams = _margins.count_tile_lines(C), (np.uint64(seed), before)

    def fill(sums, _, start, stop):
        """Write the class sums of matrices `start` to `stop`, two per replicate."""
        tally = np.empty((2 * SUMS * C + 1 + LINES, MOST_DRAWN))
        for first in range(start // 2, stop // 2, together):
            if 2 * first > start:
                pool.checkpoint()
            part = sums[(2 * first - start) // WIDTH * lines :]
            last = min(first + together, stop // 2)
            _draw_paired_sums(tuple(units), plan.ordered, n_resamples, streams, part, tally, first, last)
        repeat_lanes(sums, lines, stop - start)
        return False

    usual = 0.0, _derived_tables.largest_total(C, plan.ordered)
    cost = per_replicate / (2 * values.SECONDS_PER_SUMMED_CELL)
    return values.run(fill, (NO_COUNTS,), usual, C, (G, n_resamples, 2), cost, plan, num_threads)
