"""Passes over a packed sparse symmetric matrix: products, sums, and the vectors of conjugate gradients.

Each block of rows adds to its own window, and windows are added in the order of the blocks, so that results do not
depend on the number of threads.
"""

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.solver.triangles_and_components import find_components, find_triangles
from cmfast.kernels.shared.conjugate_gradients import HostIterate

BINS_PER_CHUNK = 4096  # bins of a chunk of a vector
CONVERTED_VALUES = 64  # values converted at a time, a multiple of four
SECONDS_PER_PIXEL = 2e-9
SECONDS_PER_BIN = 1e-8


@jit()
def multiply_blocks(p, w, own, windows, start, stop):
    """Multiply blocks of rows by `w`: sums of rows go to `own`, sums of their columns to the window of the block.

    The columns of a row are distinct, so four of them are read before the first is written. Values are converted in
    advance.
    """
    numbers = np.empty(CONVERTED_VALUES)
    for t in range(start, stop):
        low, high, window = p.low[t], p.high[t], windows[t]
        for j in range(high - low):
            window[j] = 0.0
        for i in range(p.cuts[t], p.cuts[t + 1]):
            base = max(i, p.shift)
            ahead, mine, x = w[base:], window[base - low :], w[i]
            a, b, c, d = 0.0, 0.0, 0.0, 0.0
            begin, last = p.first[i], p.first[i + 1]
            while begin < last:
                m = min(last - begin, CONVERTED_VALUES)
                gap, value = p.gap[begin : begin + m], p.value[begin : begin + m]
                begin += m
                for k in range(m):
                    numbers[k] = np.float64(value[k])
                k = 0
                while k + 4 <= m:
                    e, f, g, h = gap[k], gap[k + 1], gap[k + 2], gap[k + 3]
                    q, r, s, u = numbers[k], numbers[k + 1], numbers[k + 2], numbers[k + 3]
                    at_e, at_f, at_g, at_h = mine[e], mine[f], mine[g], mine[h]
                    a += q * ahead[e]
                    b += r * ahead[f]
                    c += s * ahead[g]
                    d += u * ahead[h]
                    mine[e], mine[f], mine[g], mine[h] = at_e + q * x, at_f + r * x, at_g + s * x, at_h + u * x
                    k += 4
                while k < m:
                    a += numbers[k] * ahead[gap[k]]
                    mine[gap[k]] += numbers[k] * x
                    k += 1
            own[i] = (a + b) + (c + d)
        for k in range(p.rest_first[t], p.rest_first[t + 1]):
            i, j, q = p.rest_row[k], p.rest_column[k], p.rest_value[k]
            own[i] += q * w[j]
            window[j - low] += q * w[i]


@jit()
def sum_blocks(p, parts, vectors, out, dots, start, stop):
    """Add the results of all blocks: ``out = r * d + x * (A @ w)``; write its product with `d` for each chunk.

    `vectors` are w, x, r and d, `parts` the sums of rows and the windows of the blocks.
    """
    (own, windows), (w, x, r, d) = parts, vectors
    acc = np.empty(BINS_PER_CHUNK)
    for chunk in range(start, stop):
        begin, end = chunk * BINS_PER_CHUNK, min((chunk + 1) * BINS_PER_CHUNK, len(out))
        for i in range(begin, end):
            acc[i - begin] = p.diagonal[i] * w[i]
        for i in range(begin, min(end, len(own))):
            acc[i - begin] += own[i]
        for t in range(len(p.low)):
            for j in range(max(begin, p.low[t]), min(end, p.high[t])):
                acc[j - begin] += windows[t, j - p.low[t]]
        dot = 0.0
        for i in range(begin, end):
            out[i] = r[i] * d[i] + x[i] * acc[i - begin]
            dot += d[i] * out[i]
        dots[chunk] = dot


@jit()
def move_iterate(alpha, direction, diagonal, step, residual, dots, start, stop):
    """Move the solution by `alpha` along the search direction; update both residuals, write the energy of each chunk.

    `direction` is the search direction with its product, `residual` the residual before and after preconditioning.
    """
    (d, moved), r, (left, z) = direction, diagonal, residual
    for chunk in range(start, stop):
        dot = 0.0
        for i in range(chunk * BINS_PER_CHUNK, min((chunk + 1) * BINS_PER_CHUNK, len(d))):
            step[i] += alpha * d[i]
            left[i] -= alpha * moved[i]
            z[i] = left[i] / r[i]
            dot += left[i] * z[i]
        dots[chunk] = dot


@jit()
def update_direction(beta, z, x, d, w, start, stop):
    """Compute the next search direction, and its product with `x`."""
    for chunk in range(start, stop):
        for i in range(chunk * BINS_PER_CHUNK, min((chunk + 1) * BINS_PER_CHUNK, len(d))):
            d[i] = z[i] + beta * d[i]
            w[i] = x[i] * d[i]


@jit()
def find_least_pixel(p, x, found, start, stop):
    """Write the smallest scaled pixel of each block."""
    for t in range(start, stop):
        least = np.inf
        for i in range(p.cuts[t], p.cuts[t + 1]):
            base = max(i, p.shift)
            for k in range(p.first[i], p.first[i + 1]):
                least = min(least, x[i] * np.float64(p.value[k]) * x[base + np.int64(p.gap[k])])
        for k in range(p.rest_first[t], p.rest_first[t + 1]):
            least = min(least, x[p.rest_row[k]] * p.rest_value[k] * x[p.rest_column[k]])
        found[t] = least


class SymmetricProducts:
    """Pixels of a packed matrix, and parallel passes over them."""

    def __init__(self, packed, num_threads):
        self.packed, self.n, self.num_threads = packed, len(packed.diagonal), num_threads
        blocks, self.chunks = len(packed.low), -(-self.n // BINS_PER_CHUNK)
        self._own = np.zeros(len(packed.first) - 1)
        self._windows = np.empty((blocks, int((packed.high - packed.low).max(initial=0))))
        self._dots, self._zeros = np.empty(self.chunks), np.zeros(self.n)
        self._seconds = len(packed.gap) * SECONDS_PER_PIXEL
        self.count, self.shift, self.diagonal = 0, packed.shift, packed.diagonal
        self.checkpoint = pool.checkpoint

    def _run(self, kernel, args, n, seconds):
        """Run a kernel in parallel."""
        pool.run(kernel, args, n, seconds=seconds, num_threads=self.num_threads)

    def run_chunks(self, kernel, *args):
        """Run a kernel over chunks of bins."""
        self._run(kernel, args, self.chunks, self.n * SECONDS_PER_BIN)

    def dot(self, kernel, *args):
        """Run a kernel over chunks of bins; return the sum of the dot products it writes."""
        self.run_chunks(kernel, *args, self._dots)
        return float(self._dots.sum())

    def product(self, w, x, r, d, out):
        """Write ``r * d + x * (A @ w)``; return its product with `d`."""
        self.count += 1
        p = self.packed
        self._run(multiply_blocks, (p, w, self._own, self._windows), len(p.low), self._seconds)
        return self.dot(sum_blocks, p, (self._own, self._windows), (w, x, r, d), out)

    def sums(self, x):
        """Return the row sums of the scaled matrix."""
        out = np.empty(self.n)
        self.product(x, x, self._zeros, self._zeros, out)
        return out

    def iterate(self, x, r, g, z):
        """Return the iterate of conjugate gradients for the residual `g`, preconditioned to `z`."""
        return SymmetricIterate(self, x, r, g, z)

    def run_blocks(self, kernel, *args):
        """Run another kernel over the blocks of rows."""
        self.count += 1
        self._run(kernel, (self.packed, *args), len(self.packed.low), self._seconds)

    def least(self, x):
        """Return the smallest scaled cell."""
        found = np.empty(len(self.packed.low))
        self.run_blocks(find_least_pixel, x, found)
        on = self.packed.diagonal > 0.0
        cells = self.packed.diagonal[on] * x[on] ** 2
        return float(min(found.min(initial=np.inf), cells.min(initial=np.inf)))

    def triangles(self, x):
        """Return for each bin the triangle found with the largest smallest pixel, scaled by `x`.

        A tuple of host arrays: that pixel (0 without a triangle) and the two other bins.
        """
        found = np.empty(self.n), np.empty(self.n, np.int64), np.empty(self.n, np.int64)
        self.run_blocks(find_triangles, x, *found)
        return found

    def find_components(self):
        """Return the component of each bin, and its colour as a sign, 0 where it is not bipartite."""
        return find_components(self.packed)


class SymmetricIterate(HostIterate):
    """The vectors of conjugate gradients on the Hessian, starting from zero."""

    def __init__(self, passes, x, r, g, z):
        self._passes, self._x, self._r = passes, x, r
        self.solution, self._left, self._z = np.zeros_like(g), g.copy(), z
        self._d, self._moved = z.copy(), np.empty_like(g)
        self._w = x * self._d

    def multiply(self):
        """Multiply the Hessian by the search direction; return the curvature."""
        return self._passes.product(self._w, self._x, self._r, self._d, self._moved)

    def move(self, length):
        """Move the solution along the search direction, update the residuals; return the energy."""
        direction, residual = (self._d, self._moved), (self._left, self._z)
        return self._passes.dot(move_iterate, length, direction, self._r, self.solution, residual)

    def turn(self, ratio):
        """Set the search direction to the preconditioned residual plus `ratio` times the last direction."""
        self._passes.run_chunks(update_direction, ratio, self._z, self._x, self._d, self._w)
