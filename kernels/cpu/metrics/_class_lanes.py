"""Run a plan on the sums of one matrix of many classes, eight of its classes side by side, in memory of a few lines.

The lanes of the other kernels are eight matrices: a single one would fill all of them with copies, and a workspace of
a kilobyte a class. Here a lane is a class, and what is summed over classes is added class after class, so that the
results have the same bits.
"""

import numpy as np

from cmfast.kernels.cpu._core import batches
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, splat, store
from cmfast.kernels.cpu.metrics import _derived_tables, _formulas, _margins
from cmfast.kernels.cpu.metrics._derived_tables import NUMBERS, POOLED, RIGHT, SINGLE, TABLES, TOTAL_MASS, WRONG_MASS
from cmfast.kernels.cpu.metrics._margins import FIRST, SIZE_LINE, STATUS_LINE, SUMS, TOTAL_LINE, Given, Range
from cmfast.kernels.shared.metrics import Over, Plan, Step
from cmfast.kernels.status import OK

NO_HEADS = np.empty((0, WIDTH))
LEAST_CLASSES = 512  # below, the time is not worth compiling another kernel
EACH = int(Step.EACH)


def is_fit(C, n, plan):
    """Return whether the kernel below runs `plan` on `n` matrices of `C` classes: few ones, sums over all classes.

    What depends on the order of the classes, and the second pass over the recalls, has to be in a tile already.
    """
    if C < LEAST_CLASSES or n >= WIDTH or len(plan.members):
        return False
    kinds, codes = plan.rows[:, 0], plan.rows[:, 1]
    return not ((kinds == Step.REDUCE) & ((codes == Over.PICK) | (codes == Over.TAU_WEIGHTED))).any()


def run(given, exact, usual, plan, out, C, heads=NO_HEADS):
    """Run `plan` on every matrix of `given`, whose class sums are (n, C); return whether all totals were usual.

    `out` is what the kernels of ``values`` get of the results, `heads` the first lines of a tile. Where a total is
    unusual or sums are INVALID, the caller has to take the general path.
    """
    lines = TABLES + NUMBERS + plan.values * (SINGLE + 1) + plan.registers
    S, sums = _margins.aligned_lines(lines), _margins.aligned_lines(FIRST + SUMS)
    memory = S, sums, heads, np.empty((lines, WIDTH)), out[1].copy()
    return _evaluate_classes(given, exact, usual, tuple(plan), memory, out)


def run_tile(sums, exact, usual, plan, out, C):
    """Run `plan` on the matrices of one tile, as :func:`run` does on class sums; return False if one is INVALID."""
    n = len(out[2])
    if (sums[STATUS_LINE, :n] != OK).any():  # a negative cell need not show in the sums
        return False
    parts = sums[FIRST : FIRST + 3 * C, :n].reshape(3, C, n)
    given = [batches.flat_batch(part.T, 1) for part in parts] + [batches.flat_batch(sums[:0, :C], 1)] * 2
    return run(tuple(given), exact, usual, plan, out, C, sums[:FIRST])


@jit(borrows=True)
def _evaluate_classes(given, exact, usual, plan, memory, out):
    """Run `plan` on all matrices; return False at the first whose total is unusual, or which is INVALID.

    In `memory` are the workspace of one class of eight matrices, which here are eight classes of one, a tile of their
    sums, the first lines of a tile of the matrices, the lines of the workspace summed over classes, and where the
    results of one matrix begin.
    """
    given, usual, plan = Given(*given), Range(*usual), Plan(*plan)
    (S, sums, heads, found, own), (results, starts, status, _, _) = memory, out
    C = given.t.shape[1]
    for b in range(len(given.t)):
        n, good = _margins.judge_sums(given, exact, b)
        if not good or n > usual.most or 0.0 < n < usual.least:
            return False
        for line in range(FIRST + SUMS):
            store(sums, line, splat(0.0))
        for line in range(len(found)):
            store(found, line, splat(0.0))
        for line in range(len(heads)):
            store(sums, line, splat(heads[line, b]))
        store(sums, TOTAL_LINE, splat(float(n)))
        store(sums, SIZE_LINE, splat(float(n)))
        store(sums, STATUS_LINE, splat(float(OK)))
        for first in range(0, C, WIDTH):
            count = min(WIDTH, C - first)
            for w in range(count):  # lanes after the last class keep those of the classes before
                sums[FIRST, w], sums[FIRST + 1, w] = given.d[b, first + w], given.t[b, first + w]
                sums[FIRST + 2, w] = given.p[b, first + w]
            _derived_tables.derive_tables(sums, 0, plan, S, 1)
            _formulas.make_values(plan, S, 1)
            for row in range(plan.values, len(plan.rows)):
                if plan.rows[row, 0] == EACH:
                    value = TABLES + NUMBERS + plan.rows[row, 5] * (SINGLE + 1) + SINGLE
                    start = starts[plan.scalars + plan.rows[row, 2]] + b * C + first
                    fill = plan.params[plan.rows[row, 6], 0]
                    for w in range(count):
                        results[0, start + w] = fill if np.isnan(S[value, w]) else S[value, w]
            _add_lanes(plan, S, count, found)
        for line in range(TABLES, len(S)):
            store(S, line, splat(found[line, 0]))
        store(S, TABLES + TOTAL_MASS, splat(float(n)))
        for k in range(len(starts)):
            own[k] = starts[k] + (b if k < plan.scalars else b * C)
        _formulas.make_totals(sums, 0, S, TABLES, C, plan.products, plan.ordered)
        status[b] = np.int8(OK)
        _formulas.run_scalar_steps(plan, sums, 0, S, 1, (results, own, status, False, False), 0, 1)
    return True


@jit(inner=True, borrows=True)
def _add_lanes(plan, S, count, found):
    """Add the lines of `S` that are summed over classes to `found`, lane after lane."""
    for line in range(TABLES + RIGHT, TABLES + WRONG_MASS + 1):
        for w in range(count):
            found[line, 0] += S[line, w]
    for value in range(plan.values):
        at = TABLES + NUMBERS + value * (SINGLE + 1)
        for line in range(at, at + SINGLE):
            for w in range(count):
                found[line, 0] += S[line, w]
    if plan.pooled:
        for table in range(TABLES):
            for w in range(count):
                found[TABLES + POOLED + table, 0] += S[table, w]
