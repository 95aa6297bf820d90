"""Infeasibility (Farkas) certificates from diverging dual iterates: no table exists, or some cells must be zero.

For any multipliers y of the marginals let z be the sum of y over the marginals of a cell. In a table with the margins m
and total T, the sum of z over the cells is m . y, so m . y <= T max z, or there is no such table; and a cell is at most
(T max z - m . y) / (max z - z). Where no margin gives T, it is the sum of all targets, and max z >= 0 for the cells
that no target counts. Newton steps and dual iterates become such y where a certificate exists.
"""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.margins.tables.workspace import BOUNDED, CELLS, FIXED_CELLS, SLACK, TOTAL, UNKNOWNS
from cmfast.kernels.shared.margins import BELOW, LEAST_PROOF_GAP, MOST_ROUNDED_GAP


@jit(inner=True, borrows=True)
def _evaluate_certificate(t, y):
    """Return the largest z, T times it, m . y, and the sum of the magnitudes of the terms of m . y."""
    top, product, size, closed = 0.0 if t.state[BOUNDED] else -np.inf, 0.0, 0.0, len(t.closed)
    for line in range(closed):
        if t.closed[line] > 0.0:
            product += t.closed[line] * y[line]
            size += abs(t.closed[line] * y[line])
        for c in range(t.first[line], t.first[line + 1]):
            top = max(top, _sum_multipliers(t, y, c))
    for k in range(t.counts[UNKNOWNS]):
        product += t.wanted[k] * y[closed + k]
        size += abs(t.wanted[k] * y[closed + k])
    return top, t.state[TOTAL] * top, product, size


@jit(inner=True, borrows=True)
def _sum_multipliers(t, y, c):
    """Return z of cell `c`, the sum of the multipliers of its marginals."""
    z, closed = y[t.codes[c, 0]], len(t.closed)
    for b in range(1, t.codes.shape[1]):
        z += y[closed + t.codes[c, b]]
    return z


@jit(inner=True, borrows=True)
def is_infeasibility_certificate(t, lift, y):
    """Test whether multipliers prove that the table is infeasible; stores them as the certificate."""
    _store_certificate(t, lift, y)
    _, most, product, size = _evaluate_certificate(t, t.proof)
    return product - most > LEAST_PROOF_GAP * size


@jit(inner=True, borrows=True)
def _store_certificate(t, lift, y):
    """Store multipliers as the certificate, zero for soft targets, which prove nothing."""
    for k in range(len(lift)):
        t.proof[k] = lift[k] if t.state[SLACK] == 0.0 else 0.0
    for k in range(len(y)):
        t.proof[len(lift) + k] = y[k] if t.slack[k] == 0.0 else 0.0


@jit(inner=True, borrows=True)
def fix_zero_cells(t):
    """Remove the cells that the Newton step proves to be zero, in place; or return True if that would empty a marginal.

    Zero means at most 1e-9 of the smallest target of its marginals. The remaining cells have no values afterwards. In
    the second case the cells are only marked, and the certificate is extended.
    """
    _store_certificate(t, t.step_lift, t.step)
    top, most, product, size = _evaluate_certificate(t, t.proof)
    left = max(most - product, 0.0) + MOST_ROUNDED_GAP * size  # plus the effect of rounding the targets
    if not left < np.inf:
        return False
    found = 0
    for c in range(t.counts[CELLS]):
        below = top - _sum_multipliers(t, t.proof, c)
        least = _find_smallest_target(t, c)
        if below > BELOW and least < np.inf and left <= LEAST_PROOF_GAP * least * below:
            t.x[c] = -below
            found += 1
    t.counts[FIXED_CELLS] += found
    if found == 0:
        return False
    if _has_emptied_marginal(t):
        return True
    n, start = 0, 0
    for line in range(len(t.closed)):
        stop = t.first[line + 1]
        for c in range(start, stop):
            if t.x[c] >= 0.0:
                t.q[n], t.places[n], t.x[n] = t.q[c], t.places[c], 0.0
                for b in range(t.codes.shape[1]):
                    t.codes[n, b] = t.codes[c, b]
                n += 1
        start = stop
        t.first[line + 1] = n
    t.counts[CELLS] = n
    return False


@jit(inner=True, borrows=True)
def _find_smallest_target(t, c):
    """Return the smallest hard target among the marginals of cell `c`."""
    line = t.codes[c, 0]
    least = t.closed[line] if t.closed[line] >= 0.0 and t.state[SLACK] == 0.0 else np.inf
    for b in range(1, t.codes.shape[1]):
        k = t.codes[c, b]
        if k < t.counts[UNKNOWNS] and t.slack[k] == 0.0:
            least = min(least, t.wanted[k])
    return least


@jit(inner=True, borrows=True)
def _has_emptied_marginal(t):
    """Test whether a marginal with a hard target has only removed cells; if so, extend the certificate by it."""
    n, others = len(t.closed), t.counts[UNKNOWNS]
    t.proof[:] = np.inf  # for each marginal, the distance of its nearest cell from the largest z
    for c in range(t.counts[CELLS]):
        below = max(-t.x[c], 0.0)
        line = t.codes[c, 0]
        t.proof[line] = min(t.proof[line], below)
        for b in range(1, t.codes.shape[1]):
            k = n + t.codes[c, b]
            t.proof[k] = min(t.proof[k], below)
    empty, by = -1, 0.0
    for k in range(n + others):
        must = t.slack[k - n] == 0.0 if k >= n else t.closed[k] > 0.0 and t.state[SLACK] == 0.0
        if 0.0 < t.proof[k] < np.inf and must:
            empty, by = k, t.proof[k]
    if empty < 0:
        return False
    _store_certificate(t, t.step_lift, t.step)
    t.proof[empty] += by
    return True
