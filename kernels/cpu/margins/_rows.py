"""Passes over records: a record is a row of a matrix, of which only what is not zero is kept."""

import math
from typing import NamedTuple

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.shared.margins import LINEAR, LOGIT, RAKING

MOST_EXPONENT = 700.0  # beyond it float64 overflows


class Rows(NamedTuple):
    """What records add to the totals."""

    first: np.ndarray  # (records + 1,) int64: where each begins
    columns: np.ndarray  # int32, ascending within a record
    values: np.ndarray  # float64


@jit()
def along(rows, y, out):
    """Add up `y` by what records have of each column."""
    for c in range(len(out)):
        z = 0.0
        for j in range(rows.first[c], rows.first[c + 1]):
            z += rows.values[j] * y[rows.columns[j]]
        out[c] = z


@jit()
def add_up(rows, x, sums, sizes):
    """Add records up, of which there are `x`, and the magnitudes of what is added."""
    sums[:], sizes[:] = 0.0, 0.0
    for c in range(len(x)):
        for j in range(rows.first[c], rows.first[c + 1]):
            part = x[c] * rows.values[j]
            sums[rows.columns[j]] += part
            sizes[rows.columns[j]] += abs(part)


@jit()
def squares(rows, x, out):
    """Add up the squares of what records have, `x` times each."""
    out[:] = 0.0
    for c in range(len(x)):
        for j in range(rows.first[c], rows.first[c + 1]):
            out[rows.columns[j]] += x[c] * rows.values[j] * rows.values[j]


@jit()
def curve(rows, h, S):
    """Form the second derivatives: the lower triangle of the products of every two columns, `h` times each record."""
    S[:] = 0.0
    for c in range(len(h)):
        if h[c] == 0.0:
            continue
        start = rows.first[c]
        for i in range(start, rows.first[c + 1]):
            part = h[c] * rows.values[i]
            line = S[rows.columns[i]]
            for j in range(start, i + 1):
                line[rows.columns[j]] += part * rows.values[j]


@jit()
def extremes(rows, alive, least, most):
    """Note the least and the largest of each column, zeros aside, among records that may have a weight."""
    least[:], most[:] = 0.0, 0.0
    for c in range(len(alive)):
        if alive[c]:
            for j in range(rows.first[c], rows.first[c + 1]):
                k = rows.columns[j]
                least[k], most[k] = min(least[k], rows.values[j]), max(most[k], rows.values[j])


@jit()
def has_any(rows, wanted, out):
    """Note which records have something in a column that is wanted."""
    for c in range(len(out)):
        out[c] = False
        for j in range(rows.first[c], rows.first[c + 1]):
            out[c] |= wanted[rows.columns[j]] and rows.values[j] != 0.0


@jit()
def weigh(rule, q, low, high, z, x, h):
    """Weigh records by their multipliers; `h` is how fast the weights change with these."""
    each = min(len(low) - 1, 1)
    for c in range(len(q)):
        if rule == LINEAR:
            x[c], h[c] = q[c] * (1.0 + z[c]), q[c]
            continue
        if rule == LOGIT:
            lower, upper = low[c * each], high[c * each]
            steep = (upper - lower) / ((1.0 - lower) * (upper - 1.0))
            at = steep * z[c] + math.log((1.0 - lower) / (upper - 1.0))
            part = 1.0 / (1.0 + math.exp(min(-at, MOST_EXPONENT)))
            x[c] = q[c] * (lower + (upper - lower) * part)
            h[c] = q[c] * (upper - lower) * steep * part * (1.0 - part)
            continue
        ratio = math.exp(min(max(z[c], -MOST_EXPONENT), MOST_EXPONENT))
        if rule == RAKING or low[c * each] < ratio < high[c * each]:
            x[c] = q[c] * ratio
            h[c] = x[c]
        else:
            x[c] = q[c] * min(max(ratio, low[c * each]), high[c * each])
            h[c] = 0.0


@jit()
def reach(z, q, low, high):
    """Return the most that bounded weights can add up to, `z` times each, and the largest of these."""
    each = min(len(low) - 1, 1)
    most, top = 0.0, -np.inf
    for c in range(len(q)):
        if q[c] > 0.0:
            top = max(top, z[c])
            if z[c] > 0.0:
                most += q[c] * high[c * each] * z[c]
            elif z[c] < 0.0:
                most += q[c] * low[c * each] * z[c]
    return most, top


@jit()
def bury(rows, z, q, low, targets, of_one_sign, certain, by_bounds, by_total, top):
    """Take the weight from records of which `z` proves that they have none; return how many.

    The weights times z fall short by `by_bounds` of the most that they can be with bounds, by `by_total` with their
    total. What a record lacks of that is its own: its weight is at most that over how far its z is from theirs.
    """
    each, found = min(len(low) - 1, 1), 0
    for c in range(len(q)):
        if not q[c] > 0.0 or low[c * each] > 0.0:
            continue
        small = np.inf
        for j in range(rows.first[c], rows.first[c + 1]):
            k = rows.columns[j]
            if of_one_sign[k] and rows.values[j] != 0.0:
                small = min(small, abs(targets[k] / rows.values[j]))
        small = certain * min(small, q[c]) if small == np.inf else certain * small
        with_total, with_bounds = top - z[c], -z[c]
        if (with_total > 0.1 and by_total <= small * with_total) or (
            with_bounds > 0.1 and by_bounds <= small * with_bounds
        ):
            q[c] = 0.0
            found += 1
    return found
