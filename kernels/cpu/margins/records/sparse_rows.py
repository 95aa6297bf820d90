"""Products with a design matrix of records by columns in compressed sparse row (CSR) form."""

import math
from typing import NamedTuple

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.shared.margins import LEAST_PROOF_GAP

LEAST_DUAL_GAP = 0.1  # least distance of the z of a removed record from that of the others


class SparseRows(NamedTuple):
    """A CSR matrix of records by columns."""

    first: np.ndarray  # (records + 1,) int64: first entry of each row
    columns: np.ndarray  # uint16, or uint32 for more than 65536 columns, ascending within a row
    values: np.ndarray  # float64; a single one where all are the same


class DualCertificate(NamedTuple):
    """Dual values z of records, and by how much the weights times z fall short of two upper bounds."""

    z: np.ndarray
    top: float  # the largest z
    by_bounds: float  # shortfall from the bound by the weights' bounds
    by_total: float  # shortfall from the bound by the total weight


@jit()
def multiply(rows, y, out, start, stop):
    """Compute out = A y for the records from `start` to before `stop`."""
    if len(rows.values) == 1:
        for c in range(start, stop):
            z = 0.0
            for j in range(rows.first[c], rows.first[c + 1]):
                z += y[rows.columns[j]]
            out[c] = rows.values[0] * z
        return
    for c in range(start, stop):
        z = 0.0
        for j in range(rows.first[c], rows.first[c + 1]):
            z += rows.values[j] * y[rows.columns[j]]
        out[c] = z


@jit()
def multiply_transposed(rows, x, sums, sizes, start, stop):
    """Compute sums = A'x and the sums of the magnitudes of its terms."""
    each = min(len(rows.values) - 1, 1)
    sums[:], sizes[:] = 0.0, 0.0
    for c in range(start, stop):
        for j in range(rows.first[c], rows.first[c + 1]):
            part = x[c] * rows.values[j * each]
            sums[rows.columns[j]] += part
            sizes[rows.columns[j]] += abs(part)


@jit()
def sum_squares(rows, x, out, start, stop):
    """Compute the diagonal of A' diag(x) A."""
    each = min(len(rows.values) - 1, 1)
    out[:] = 0.0
    for c in range(start, stop):
        for j in range(rows.first[c], rows.first[c + 1]):
            value = rows.values[j * each]
            out[rows.columns[j]] += x[c] * value * value


@jit()
def multiply_hessian(rows, h, y, z, out, start, stop):
    """Compute z = A y and out = A' diag(h) z."""
    each = min(len(rows.values) - 1, 1)
    out[:] = 0.0
    for c in range(start, stop):
        total = 0.0
        for j in range(rows.first[c], rows.first[c + 1]):
            total += rows.values[j * each] * y[rows.columns[j]]
        z[c] = total
        total *= h[c]
        for j in range(rows.first[c], rows.first[c + 1]):
            out[rows.columns[j]] += rows.values[j * each] * total


@jit()
def form_hessian(rows, h, S, start, stop):
    """Compute the lower triangle of the Hessian A' diag(h) A."""
    each = min(len(rows.values) - 1, 1)
    K = len(S)
    S[:] = 0.0
    for c in range(start, stop):
        if h[c] == 0.0:
            continue
        begin, end = rows.first[c], rows.first[c + 1]
        if end - begin == K and each > 0:
            for i in range(K):
                part = h[c] * rows.values[begin + i]
                line = S[i]
                for j in range(i + 1):
                    line[j] += part * rows.values[begin + j]
            continue
        for i in range(begin, end):
            part = h[c] * rows.values[i * each]
            line = S[rows.columns[i]]
            for j in range(begin, i + 1):
                line[rows.columns[j]] += part * rows.values[j * each]


@jit()
def find_extremes(rows, alive, least, most):
    """Write the least and the largest value of each column, and zero, among records that may have a weight."""
    each = min(len(rows.values) - 1, 1)
    least[:], most[:] = 0.0, 0.0
    for c in range(len(alive)):
        if alive[c]:
            for j in range(rows.first[c], rows.first[c + 1]):
                k = rows.columns[j]
                least[k], most[k] = min(least[k], rows.values[j * each]), max(most[k], rows.values[j * each])


@jit()
def mark_rows_using(rows, wanted, out):
    """Write which records have a nonzero value in a column of the mask `wanted`."""
    each = min(len(rows.values) - 1, 1)
    for c in range(len(out)):
        out[c] = False
        for j in range(rows.first[c], rows.first[c + 1]):
            out[c] |= wanted[rows.columns[j]] and rows.values[j * each] != 0.0


@jit()
def find_largest_dual_change(z, h):
    """Return the largest change of `z` in a step among records whose weight changes; infinite for NaN."""
    most = 0.0
    for c in range(len(z)):
        if h[c] > 0.0 and not abs(z[c]) <= most:
            most = abs(z[c]) if abs(z[c]) < np.inf else np.inf
    return most


@jit()
def find_largest_weight_change(z, h, x):
    """Return the largest relative change h z / x of a weight, or of `z` if that is more; infinite for NaN."""
    most = 0.0
    for c in range(len(z)):
        if h[c] > 0.0:
            change = abs(z[c]) * max(1.0, h[c] / x[c])
            if not change <= most:
                most = change if change < np.inf else np.inf
    return most


@jit()
def measure_sensitivity(h, x):
    """Return the largest sqrt(h) / x, the least h and the sum of h among weighted records."""
    steepest, least, total = 0.0, np.inf, 0.0
    for c in range(len(h)):
        if h[c] > 0.0 and x[c] > 0.0:
            steepest = max(steepest, math.sqrt(h[c]) / x[c])
            least = min(least, h[c])
            total += h[c]
    return steepest, least, total


@jit()
def bound_sum(z, q, low, high):
    """Return an upper bound of the sum of `z` times bounded weights, and the largest `z`."""
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
def fix_zero_weights(rows, q, low, targets, of_one_sign, certificate, allowed):
    """Set to zero in `q` the weights that the dual certificate proves negligible; return their number.

    Negligible is at most 1e-9 of the smallest target of the record, in its units. The gap of the certificate divided by
    the distance of the record's z from that of the others bounds its weight; `allowed` gets this bound.
    """
    z, top, by_bounds, by_total = certificate
    each, every, found = min(len(low) - 1, 1), min(len(rows.values) - 1, 1), 0
    for c in range(len(q)):
        with_total, with_bounds = top - z[c], -z[c]
        if not q[c] > 0.0 or low[c * each] > 0.0 or (with_total <= LEAST_DUAL_GAP and with_bounds <= LEAST_DUAL_GAP):
            continue
        small = np.inf
        for j in range(rows.first[c], rows.first[c + 1]):
            k = rows.columns[j]
            if of_one_sign[k] and rows.values[j * every] != 0.0:
                small = min(small, LEAST_PROOF_GAP * abs(targets[k] / rows.values[j * every]))
                if by_total > small * with_total and by_bounds > small * with_bounds:
                    break
        small = LEAST_PROOF_GAP * q[c] if small == np.inf else small
        if (with_total > LEAST_DUAL_GAP and by_total <= small * with_total) or (
            with_bounds > LEAST_DUAL_GAP and by_bounds <= small * with_bounds
        ):
            q[c] = 0.0
            allowed[c] = by_total / with_total if with_total > LEAST_DUAL_GAP else np.inf
            if with_bounds > LEAST_DUAL_GAP:
                allowed[c] = min(allowed[c], by_bounds / with_bounds)
            found += 1
    return found
