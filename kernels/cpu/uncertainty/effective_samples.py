"""Effective number of samples that carry the variance of a metric (Kish); a small one makes intervals unreliable.

With the centred derivatives ``g`` of a metric in the cells, the variance is the sum of ``M g**2``. The effective sample
size is that of the weights ``g**2``: ``(sum M g**2)**2 / sum M g**4`` (Kish, Survey sampling, 1965). Half a sample is
spread over the off-diagonal cells first, because an empty cell may still have positive probability.
"""

import math

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.metrics._margins import SUMS
from cmfast.kernels.cpu.uncertainty._cell_derivatives import differentiate_matrices

SECONDS_PER_WEIGHED_CELL = 4e-9
MOST_SLOPES = 2**22  # derivatives in memory at a time


@jit(inner=True)
def _gather_slope(lines, C, i, j):
    """Return the derivative of a metric in cell (i, j), from its lines as in ``_gradients``."""
    g = lines[C + i] + lines[2 * C + j] + lines[3 * C + abs(i - j)] + lines[4 * C + max(i, j)]
    return g + lines[i] if i == j else g


@jit()
def _count_effective_samples(M, slopes, wanted, prior, out, start, stop):
    """Write Kish's effective sample sizes (registers, n) from counts and derivatives (n, registers, 5 C + 1).

    Matrices are scaled to `wanted` samples first, unless that is negative.
    """
    C = M.shape[1]
    own = prior / max(C * (C - 1), 1)
    for b in range(start, stop):
        total = 0.0
        for i in range(C):
            for j in range(C):
                total += M[b, i, j]
        factor = wanted / total if wanted >= 0.0 and total > 0.0 else 1.0
        for k in range(out.shape[0]):
            lines = slopes[b, k]
            mean, n, squares, fourths = 0.0, 0.0, 0.0, 0.0
            for i in range(C):
                for j in range(C):
                    w = M[b, i, j] * factor + (own if i != j else 0.0)
                    mean += w * _gather_slope(lines, C, i, j)
                    n += w
            mean = mean / n if n > 0.0 else 0.0
            for i in range(C):
                for j in range(C):
                    w, g = M[b, i, j] * factor + (own if i != j else 0.0), _gather_slope(lines, C, i, j) - mean
                    squares += w * (g * g)
            scale = squares / n if n > 0.0 else 0.0  # keeps fourth powers within the range of float64
            for i in range(C):
                for j in range(C):
                    w, g = M[b, i, j] * factor + (own if i != j else 0.0), _gather_slope(lines, C, i, j) - mean
                    x = g * g / scale if scale > 0.0 else 0.0
                    fourths += w * (x * x)
            defined = fourths > 0.0 and lines[SUMS * C] - lines[SUMS * C] == 0.0
            out[k, b] = n * n / fourths if defined else np.nan


def carrying_samples(M, *, plan, n=None, prior=0.5, num_threads=None):
    """Return the effective number of samples of every scalar of `plan` and every matrix; NaN if not differentiable."""
    C, batch = M.shape[-1], M.shape[:-2]
    size = math.prod(batch)
    cells = np.ascontiguousarray(M, np.float64).reshape(size, C, C)
    out, step = np.empty((plan.scalars, size)), max(1, MOST_SLOPES // max(plan.registers * (SUMS * C + 1), 1))
    for first in range(0, size, step):
        part = cells[first : first + step]
        part.flags.writeable = False
        found = differentiate_matrices(part, plan, num_threads)[0][:, : plan.scalars]
        seconds = len(part) * plan.scalars * C * C * SECONDS_PER_WEIGHED_CELL
        given = (part, np.ascontiguousarray(found), -1.0 if n is None else float(n), float(prior))
        part_out = np.empty((plan.scalars, len(part)))
        pool.run(_count_effective_samples, (*given, part_out), len(part), seconds=seconds, num_threads=num_threads)
        out[:, first : first + step] = part_out
    return tuple(row.reshape(batch) for row in out)
