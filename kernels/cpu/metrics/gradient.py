"""Backward pass of metrics: gradient in the cells, from incoming gradients and the derivatives of ``_gradients``."""

import math

import numpy as np

from cmfast.kernels.cpu._core import batches
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, load, splat, store, where
from cmfast.kernels.cpu.metrics import _gradients, _second_pass, values
from cmfast.kernels.cpu.metrics._copied_pieces import flatten_matrices
from cmfast.kernels.cpu.metrics._gradients_totals import LINES_OF_PRODUCTS
from cmfast.kernels.cpu.metrics._margins import FIRST, STATUS_LINE, SUMS
from cmfast.kernels.shared.metrics import Plan, count_slope_lines
from cmfast.kernels.status import OK

SECONDS_PER_GRADIENT_CELL = 1e-9


@jit(borrows=True)
def _backpropagate(sums, size, plan, S, incoming, out, start, stop):
    """Write the gradients in the cells of matrices `start` to `stop` (vector-Jacobian product).

    There are `size` derivatives per register. Incoming gradients are those of the scalars (n, S) and of the per-class
    results (n, T, C). `S` is the workspace.
    """
    plan, (of_scalars, of_tables) = Plan(*plan), incoming
    C = of_tables.shape[2]
    slopes, per_class = plan.registers * size, plan.tables * C * 4
    work = _gradients.LINES_OF_CLASS * (C + 1) + _gradients.SUMMED + plan.registers + LINES_OF_PRODUCTS
    G, T = S[work : work + slopes], S[work + slopes : work + slopes + per_class]
    mixed = S[work + slopes + per_class :]
    for line in range(slopes):
        store(G, line, splat(0.0))
    for first in range(start, stop, WIDTH):
        count, at = min(WIDTH, stop - first), (first - start) // WIDTH * (FIRST + SUMS * C)
        _gradients.differentiate(plan, sums, at, C, size, S[:work], G, T)
        good = where(load(sums, at + STATUS_LINE) == float(OK), 0.0, splat(np.nan))
        for line in range(size):
            store(mixed, line, good)
        given = size
        for register in range(plan.scalars):
            for w in range(WIDTH):
                mixed[given, w] = of_scalars[min(first + w, stop - 1), register]
            _add_scalar(mixed, G, register * size, size, load(mixed, given))
        for table in range(plan.tables):
            for k in range(C):
                for w in range(WIDTH):
                    mixed[given, w] = of_tables[min(first + w, stop - 1), table, k]
                _add_class(mixed, T, (table * C + k) * 4, C, k, size - 1, load(mixed, given))
        for i in range(C):
            rest = load(mixed, C + i) + load(mixed, size - 1)
            for j in range(C):
                g = rest + load(mixed, 2 * C + j)
                if i == j:
                    g = g + load(mixed, i)
                if plan.ordered:
                    g = g + load(mixed, 3 * C + abs(i - j)) + load(mixed, 4 * C + max(i, j))
                store(mixed, given, g)
                for w in range(count):
                    out[first + w, i * C + j] = mixed[given, w]


@jit(inner=True, borrows=True)
def _add_scalar(mixed, G, row, size, given):
    """Add the derivatives of a scalar times its incoming gradient, or 0 if that is 0, even for NaN derivatives."""
    for line in range(size):
        more = where(given == 0.0, splat(0.0), given * load(G, row + line))
        store(mixed, line, load(mixed, line) + more)


@jit(inner=True, borrows=True)
def _add_class(mixed, T, row, C, k, end, given):
    """Add the derivatives of a per-class value times its incoming gradient; NaN ones, of filled values, count as 0."""
    for part in range(4):
        slope = load(T, row + part)
        unmoved = (given == 0.0) | (slope != slope)  # noqa: PLR0124 - NaN alone differs from itself
        line = end if part == 3 else part * C + k
        store(mixed, line, load(mixed, line) + where(unmoved, splat(0.0), given * slope))


def metrics_gradient(M, of_scalars, of_tables, *, plan, num_threads=None):
    """Return the gradient in the cells of `M`, given those in the scalars and per-class results of `plan`."""
    C, batch = M.shape[-1], M.shape[:-2]
    own = count_slope_lines(C, ordered=plan.ordered)
    size, given = math.prod(batch), flatten_matrices(M)
    out, steps = np.empty((size, C * C), batches.result_dtype(M)), tuple(plan)
    of_scalars = np.ascontiguousarray(of_scalars, np.float64).reshape(size, plan.scalars)[:]
    of_tables = np.ascontiguousarray(of_tables, np.float64).reshape(size, plan.tables, C)[:]
    of_scalars.flags.writeable = of_tables.flags.writeable = False  # so that kernels are compiled for one array type

    def use(sums, S, start, stop, unusual):
        """Backpropagate to the cells of a block of matrices."""
        del unusual
        if plan.ordered:
            _second_pass.score_ordinal(sums, C, False)
        if plan.again:
            _second_pass.reduce_recalls(sums, C, steps)
        _backpropagate(sums, own, steps, S, (of_scalars, of_tables), out, start, stop)

    fill = values.make_summing_kernel(given, C, plan.ordered, (0.0, np.inf), num_threads)
    lines = _gradients.count_working_lines(C, plan) + (plan.registers + 1) * own + plan.tables * C * 4 + 1
    seconds = size * C * C * (1 + plan.registers + plan.tables) * SECONDS_PER_GRADIENT_CELL
    values.run_blocks(fill, use, C, size, seconds=seconds, num_threads=num_threads, lines=lines)
    return out.reshape(M.shape)
