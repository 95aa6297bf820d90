"""Passes over the cells of one table: scaling, sums, the Hessian, perturbations."""

import math

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.margins.tables.workspace import CELLS, LEVENBERG, PASSES, RESIDUAL, SLACK, SOFT, UNKNOWNS
from cmfast.kernels.shared.margins import FADED, MOST_ECHOES, MOST_PRODUCT

FIRST_WORD = np.uint64(1)


@jit(inner=True, inline=True)
def advance_word(word):
    """Return the next word of a linear congruential generator."""
    return word * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)


@jit(inner=True, inline=True)
def convert_to_perturbation(word):
    """Return the number of magnitude 0.5 to 1.5 that a random word stands for; no two cancel exactly."""
    number = 2.0 * (word >> np.uint64(11)) * 2.0**-53 - 1.0
    return number + math.copysign(0.5, number)


@jit(inner=True, borrows=True)
def scale_cells(t):
    """Scale the cells by all multipliers, with those of the eliminated margin set so that its targets are met."""
    m, slack = t.codes.shape[1], t.state[SLACK]
    for line in range(len(t.closed)):
        start, stop = t.first[line], t.first[line + 1]
        top = -np.inf
        for c in range(start, stop):
            z = 0.0
            for b in range(1, m):
                z += t.multipliers[t.codes[c, b]]
            t.x[c] = z
            top = max(top, z)
        if not t.closed[line] >= 0.0:  # a free marginal
            t.lift[line] = 0.0
            for c in range(start, stop):
                t.x[c] = t.q[c] * math.exp(t.x[c])
            continue
        total = 0.0
        for c in range(start, stop):
            t.x[c] = t.q[c] * math.exp(t.x[c] - top)
            total += t.x[c]
        factor = t.closed[line] / total if stop > start else 0.0
        t.lift[line] = math.log(factor) - top if stop > start else 0.0
        if slack == 0.0 and factor > 0.0 and not 1.0 / MOST_PRODUCT < factor < MOST_PRODUCT:  # digits may be lost
            t.lift[line], factor = math.log(t.closed[line]) - math.log(total) - top, t.closed[line]
            for c in range(start, stop):
                t.x[c] /= total
        if slack > 0.0:
            t.lift[line] /= 1.0 + slack
            factor = math.exp(t.lift[line] + top) if stop > start else 0.0
            t.closed_goal[line] = t.closed[line] * math.exp(-slack * t.lift[line]) if stop > start else 0.0
        for c in range(start, stop):
            t.x[c] *= factor


@jit(inner=True, borrows=True)
def sum_cells(t):
    """Sum the cells by unknown, update soft goals, and measure the residual."""
    t.sums[: t.counts[UNKNOWNS] + 1] = 0.0
    for c in range(t.counts[CELLS]):
        for b in range(1, t.codes.shape[1]):
            t.sums[t.codes[c, b]] += t.x[c]
    if t.counts[SOFT]:
        _update_soft_goals(t)
    _measure_residual(t)


@jit(inner=True, borrows=True)
def _update_soft_goals(t):
    """Set the goals of soft targets, m exp(-slack multiplier), and their totals."""
    for k in range(t.counts[UNKNOWNS]):
        if t.slack[k] > 0.0:
            t.totals[t.margin[k]] = 0.0
    for k in range(t.counts[UNKNOWNS]):
        if t.slack[k] > 0.0:
            t.goal[k] = t.wanted[k] * math.exp(-t.slack[k] * t.multipliers[k])
            t.totals[t.margin[k]] += t.goal[k]


@jit(inner=True, borrows=True)
def _measure_residual(t):
    """Store the largest relative error of a margin as the residual."""
    worst, missed, of = 0.0, 0.0, 0
    for k in range(t.counts[UNKNOWNS]):
        if t.margin[k] != of:
            of, missed = t.margin[k], 0.0
        missed += abs(t.sums[k] - t.goal[k])
        worst = max(worst, missed / t.totals[of]) if missed < np.inf else np.inf
    t.state[RESIDUAL] = worst


@jit(inner=True, borrows=True)
def sweep(t):
    """Scale every margin to its targets in turn, the eliminated margin last (one IPF sweep), in place.

    Reads the sums of the first margin and leaves those of all; the next margin is summed while one is scaled. The
    multipliers of the eliminated margin are not kept. Return the largest log-scale change of a marginal.
    """
    n, m, widest = t.counts[UNKNOWNS], t.codes.shape[1], 0.0
    t.step[n] = 1.0
    for b in range(1, m):
        for k in range(n):
            if t.margin[k] == b:
                t.step[k] = t.wanted[k] / t.sums[k]
                by = math.log(t.step[k])
                t.multipliers[k] += by
                widest = max(widest, abs(by))
            elif t.margin[k] > b:
                t.sums[k] = 0.0
        if b < m - 1:
            for c in range(t.counts[CELLS]):
                t.x[c] *= t.step[t.codes[c, b]]
                t.sums[t.codes[c, b + 1]] += t.x[c]
    t.sums[: n + 1] = 0.0
    for line in range(len(t.closed)):
        start, stop, total = t.first[line], t.first[line + 1], 0.0
        for c in range(start, stop):
            t.x[c] *= t.step[t.codes[c, m - 1]]
            total += t.x[c]
        factor = t.closed[line] / total if t.closed[line] > 0.0 and stop > start else 1.0
        widest = max(widest, abs(math.log(factor)))
        for c in range(start, stop):
            t.x[c] *= factor
            for b in range(1, m):
                t.sums[t.codes[c, b]] += t.x[c]
    _measure_residual(t)
    return widest


@jit(inner=True, borrows=True)
def measure_amplification(t):
    """Return the total change by all further sweeps of a random perturbation over its size, to first order.

    Infinite where it decays slowly. If all perturbations decay within a few sweeps, the last change of a sweep bounds
    the error of the cells.
    """
    n, m = t.counts[UNKNOWNS], t.codes.shape[1]
    word = FIRST_WORD
    for k in range(n):
        word = advance_word(word)
        t.step[k] = convert_to_perturbation(word)
    t.step[n] = 0.0
    t.sums[: n + 1] = 0.0
    before = 0.0
    for line in range(len(t.closed)):
        word = advance_word(word)
        change = convert_to_perturbation(word) if t.closed[line] > 0.0 else 0.0
        for c in range(t.first[line], t.first[line + 1]):
            z = change
            for b in range(1, m):
                z += t.step[t.codes[c, b]]
            t.z[c] = z
            t.sums[t.codes[c, 1]] += t.x[c] * z
            before = max(before, abs(z))
    if before == 0.0:  # no cell changes, so nothing was measured
        return np.inf
    total = 1.0
    for _ in range(MOST_ECHOES):
        size = _sweep_perturbation(t)
        t.counts[PASSES] += m
        total += size / before
        if size <= FADED * before:
            return total
    return np.inf


@jit(inner=True, borrows=True)
def _sweep_perturbation(t):
    """Sweep a perturbation of the log cells once, to first order, in place; return its remaining size.

    Reads the sums of the first margin.
    """
    n, m, size = t.counts[UNKNOWNS], t.codes.shape[1], 0.0
    for b in range(1, m):
        for k in range(n):
            if t.margin[k] == b:
                t.step[k] = t.sums[k] / t.wanted[k]
            elif t.margin[k] > b:
                t.sums[k] = 0.0
        if b < m - 1:
            for c in range(t.counts[CELLS]):
                t.z[c] -= t.step[t.codes[c, b]]
                t.sums[t.codes[c, b + 1]] += t.x[c] * t.z[c]
    t.sums[: n + 1] = 0.0
    for line in range(len(t.closed)):
        start, stop, total = t.first[line], t.first[line + 1], 0.0
        for c in range(start, stop):
            t.z[c] -= t.step[t.codes[c, m - 1]]
            total += t.x[c] * t.z[c]
        mean = total / t.closed[line] if t.closed[line] > 0.0 else 0.0
        for c in range(start, stop):
            t.z[c] -= mean
            size = max(size, abs(t.z[c]))
            t.sums[t.codes[c, 1]] += t.x[c] * t.z[c]
    return size


@jit(inner=True)
def form_hessian(t):
    """Form the Hessian in the unknowns (the Schur complement of the eliminated margin), scaled, with damping.

    Upper triangle. Scaled by the sums of the marginals. A multiplier that others determine has a zero pivot and a zero
    gradient.
    """
    n, m = t.counts[UNKNOWNS], t.codes.shape[1]
    t.curvature[:n, :n] = 0.0
    of_line, touched, seen = np.zeros(n), np.empty(n, np.int64), np.zeros(n, np.bool_)
    for line in range(len(t.closed)):
        number = 0
        for c in range(t.first[line], t.first[line + 1]):
            for b in range(1, m):
                k = t.codes[c, b]
                if k == n:
                    continue
                for a in range(1, b + 1):
                    j = t.codes[c, a]
                    if j < n:
                        t.curvature[min(j, k), max(j, k)] += t.x[c]
                of_line[k] += t.x[c]
                if not seen[k]:
                    seen[k], touched[number], number = True, k, number + 1
        is_closed = t.closed[line] > 0.0
        for i in range(number):
            k = touched[i]
            part = of_line[k] / (t.closed_goal[line] * (1.0 + t.state[SLACK]))
            for j in range(i + 1 if is_closed else 0):
                a = touched[j]
                t.curvature[min(a, k), max(a, k)] -= part * of_line[a]
        for i in range(number):
            seen[touched[i]], of_line[touched[i]] = False, 0.0
    for k in range(n):
        # A marginal whose cells all underflow gets no step: its scale would be infinite.
        size = t.sums[k] + t.slack[k] * t.goal[k]
        t.scale[k] = 1.0 / math.sqrt(size) if size > 0.0 else 0.0
        t.curvature[k, k] += t.slack[k] * t.goal[k]
    for i in range(n):
        scale, own = t.scale[i], t.curvature[i]
        for j in range(i + 1, n):
            own[j] *= scale * t.scale[j]
        own[i] = own[i] * (scale * scale) + t.state[LEVENBERG]


@jit(inner=True, borrows=True)
def measure_step(t):
    """Complete the step by the eliminated margin.

    Return the largest raise of a log cell or goal, and the largest change.
    """
    m, slack = t.codes.shape[1], t.state[SLACK]
    highest, widest = 0.0, 0.0
    for k in range(t.counts[UNKNOWNS]):
        highest = max(highest, -t.slack[k] * t.step[k])
    for line in range(len(t.closed)):
        least, most, mean = np.inf, -np.inf, 0.0
        for c in range(t.first[line], t.first[line + 1]):
            z = 0.0
            for b in range(1, m):
                z += t.step[t.codes[c, b]]
            least, most = min(least, z), max(most, z)
            mean += t.x[c] * z
        t.step_lift[line] = 0.0
        if t.first[line + 1] > t.first[line]:
            t.step_lift[line] = -mean / (t.closed_goal[line] * (1.0 + slack)) if t.closed[line] > 0.0 else 0.0
            highest = max(highest, -slack * t.step_lift[line])
            most, least = most + t.step_lift[line], least + t.step_lift[line]
            highest, widest = max(highest, most), max(widest, most, -least)
    return highest, widest
