"""Sweeps over the margins of few records by categories: what is quickest where they agree soon."""

import math

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.shared.margins import RAKING
from cmfast.kernels.shared.scaling import PATIENT_SWEEPS, PLAIN_SWEEPS

MOST_NUMBERS = 1 << 20  # of records, which caches hold
MOST_MARGINS = 16


def swept(s):
    """Sweep while that will not take many more; return whether the totals are met."""
    p, layout = s.p, s.p.layout
    size = len(p.rows.columns)
    if p.rule != RAKING or layout is None or not s.all_hard or size > MOST_NUMBERS:
        return False
    margins = len(layout.order)
    most = p.max_iter // max(margins, 1)
    if margins > MOST_MARGINS or not s.asked.any() or most == 0:
        return False
    multipliers = np.where(s.asked, s.multipliers, 0.0)
    number, residual = sweep(p.rows, layout.offsets, s.q.copy(), s.asked, s.targets, multipliers, p.tol, most)
    s.passes.count += number * margins
    if not np.isfinite(multipliers).all():
        return False
    s.set(multipliers)
    return bool(residual <= p.tol and s.residual() <= p.tol)


@jit()
def sweep(rows, offsets, x, asked, targets, multipliers, tol, most):
    """Fit the margins of `x` in turn; return how many times, and what was missed the last time."""
    margins = len(offsets) - 1
    factors, sums = np.ones(offsets[margins]), np.zeros(offsets[margins])
    number, residual, left = 0, np.inf, 0.0
    while number < most and (number < PLAIN_SWEEPS or (residual > tol and left <= PATIENT_SWEEPS)):
        before, residual = residual, 0.0
        for b in range(margins):
            sums[offsets[b] : offsets[b + 1]] = 0.0
            last = b - 1 if b > 0 else margins - 1
            for c in range(len(x)):
                start = rows.first[c]
                x[c] *= factors[rows.columns[start + last]]
                sums[rows.columns[start + b]] += x[c]
            missed, size = 0.0, 0.0
            for k in range(offsets[b], offsets[b + 1]):
                factors[k] = 1.0
                if asked[k] and sums[k] > 0.0:
                    missed += abs(targets[k] - sums[k])
                    size += targets[k]
                    factors[k] = targets[k] / sums[k]
                    multipliers[k] += math.log(factors[k])
            if size > 0.0:
                residual = max(residual, missed / size)
        number += 1
        shrinks = 0.0 < residual < before < np.inf
        left = math.log(tol / residual) / math.log(residual / before) if shrinks else np.inf
    return number, residual
