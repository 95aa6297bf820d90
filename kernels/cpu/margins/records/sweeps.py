"""Raking sweeps (iterative proportional fitting) over the margins of records by categories."""

import math
from typing import NamedTuple

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.shared.scaling import PATIENT_SWEEPS, PLAIN_SWEEPS

MOST_CACHED_ENTRIES = 1 << 20  # entries of categories that the caches hold


class SweepLimits(NamedTuple):
    """Limits of sweeps: a residual of `tol`, `most` sweeps, or more than `patience` predicted sweeps left."""

    tol: float
    patience: int
    most: int


def sweep_to_convergence(s):
    """Sweep a few times, and further while few more sweeps are predicted; return whether the totals are met.

    Far from the solution, where Newton steps are short, a sweep makes more progress than a step.
    """
    p, layout = s.p, s.p.layout
    margins = len(p.lines)
    if not p.distance.exponential or layout is None or not s.all_hard or not s.asked.any() or p.max_iter < margins:
        return False
    patience = PATIENT_SWEEPS if p.lines.size <= MOST_CACHED_ENTRIES else 0
    most, multipliers = p.max_iter // margins, np.where(s.asked, s.multipliers, 0.0)
    limits = SweepLimits(p.tol, patience, most)
    number, residual = run_sweeps(p.lines, layout.offsets, s.q.copy(), s.asked, s.targets, multipliers, limits)
    s.passes.count += number * margins
    if not np.isfinite(multipliers).all():
        return False
    s.set_multipliers(multipliers)
    return bool(residual <= p.tol and s.residual() <= p.tol)


@jit()
def run_sweeps(lines, offsets, x, asked, targets, multipliers, limits):
    """Run sweeps that scale the margins of `x` in turn, in place; return their number and the last residual."""
    tol, patience, most = limits
    margins = len(offsets) - 1
    factors, sums = np.ones(offsets[margins]), np.zeros(offsets[margins])
    number, residual, left = 0, np.inf, 0.0
    while number < most and (number < PLAIN_SWEEPS or (residual > tol and left <= patience)):
        before, residual = residual, 0.0
        for b in range(margins):
            sums[offsets[b] : offsets[b + 1]] = 0.0
            last = b - 1 if b > 0 else margins - 1
            for c in range(len(x)):
                x[c] *= factors[lines[last, c]]
                sums[lines[b, c]] += x[c]
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
