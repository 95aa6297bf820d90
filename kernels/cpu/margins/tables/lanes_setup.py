"""Load eight tables into SIMD lanes, reconcile their targets, and scale them by a few sweeps."""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import (
    WIDTH,
    absolute,
    load,
    load_block,
    load_narrow,
    some,
    splat,
    store,
    where,
)
from cmfast.kernels.cpu.margins.tables import lanes_plan as plan
from cmfast.kernels.shared.margins import MOST_ROUNDED_GAP, RECONCILE_ROUNDS
from cmfast.kernels.shared.scaling import TOTALS_RTOL


@jit(inner=True, borrows=True)
def load_tables(p, S, cells, cell_rows, wanted, target_rows, smoothing):
    """Copy eight tables and their targets.

    Mark the regular ones, with positive cells and consistent positive targets.
    """
    _load_lanes(S, p.q, cells, cell_rows, p.n_cells)
    _load_lanes(S, p.targets, wanted, target_rows, p.n_lines)
    low, high = splat(np.inf), splat(0.0)
    for k in range(p.q, p.q + p.n_cells):
        cell = load(S, k)
        low, high = where(cell < low, cell, low), high + cell
        store(S, k, cell + smoothing)
    good = (low >= 0.0) & (low + smoothing > 0.0) & (high + p.n_cells * smoothing < np.inf)
    low, high = splat(np.inf), splat(0.0)
    for k in range(p.targets, p.targets + p.n_lines):
        target = load(S, k)
        low, high = where(target < low, target, low), high + target
    _replace_irregular(p, S, good & (low > 0.0) & (high < np.inf))
    _replace_irregular(p, S, _reconcile_margins(p, S))
    for b in range(len(p.offsets) - 1):
        total = splat(0.0)
        for k in range(p.offsets[b], p.offsets[b + 1]):
            total = total + load(S, p.targets + k)
        store(S, p.totals + b, total)
    for k in range(len(p.slabs)):
        _find_largest_coordinate(p, S, p.slabs[k])
    exchange_coordinates(p, S, p.q, True)
    exchange_coordinates(p, S, p.targets, False)


@jit(inner=True, borrows=True)
def _find_largest_coordinate(p, S, row):
    """Store which coordinate of an axis has the largest total."""
    start, number, size, stride = p.targets + p.axes[row, 0], p.axes[row, 1], p.axes[row, 2], p.axes[row, 3]
    chosen, most = splat(0.0), splat(0.0)
    for j in range(size):
        total = splat(0.0)
        for outer in range(start + j * stride, start + number, size * stride):
            for k in range(outer, outer + stride):
                total = total + load(S, k)
        chosen, most = where(total > most, float(j), chosen), where(total > most, total, most)
    store(S, p.chosen + p.axes[row, 4], chosen)


@jit(inner=True, borrows=True)
def exchange_coordinates(p, S, begin, cells):
    """Swap the chosen coordinate of each axis with coordinate zero, or back, in cells or in marginals."""
    for row in range(len(p.axes)):
        if (p.axes[row, 0] < 0) != cells:
            continue
        start, number, size, stride = begin + max(p.axes[row, 0], 0), p.axes[row, 1], p.axes[row, 2], p.axes[row, 3]
        for j in range(1, size):
            there = load(S, p.chosen + p.axes[row, 4]) == float(j)
            if some(there):
                for outer in range(start, start + number, size * stride):
                    for k in range(outer, outer + stride):
                        one, other = load(S, k), load(S, k + j * stride)
                        store(S, k, where(there, other, one))
                        store(S, k + j * stride, where(there, one, other))


@jit(inner=True, inline=True, borrows=True)
def _load_lanes(S, start, a, rows, n):
    """Copy `n` values of eight tables, at `rows` of `a`, to SIMD lines."""
    if n < WIDTH:
        load_narrow(S, start, a, rows, n)
    else:
        for k in range(0, n, WIDTH):
            c = min(k, n - WIDTH)  # the last block overlaps the one before
            load_block(S, start + c, a, rows, c)


@jit(inner=True, borrows=True)
def _replace_irregular(p, S, good):
    """Overwrite irregular tables by ones, so that their lanes stay finite; store which are regular."""
    store(S, plan.REGULAR, where(good, 1.0, splat(0.0)))
    if not some(~good):
        return
    for k in range(p.q, p.q + p.n_cells):
        store(S, k, where(good, load(S, k), 1.0))
    for b in range(len(p.offsets) - 1):
        ones = p.n_cells / float(p.offsets[b + 1] - p.offsets[b])
        for k in range(p.targets + p.offsets[b], p.targets + p.offsets[b + 1]):
            store(S, k, where(good, load(S, k), ones))


@jit(inner=True, borrows=True)
def _reconcile_margins(p, S):
    """Reconcile the margins of eight tables on shared axes; return the lanes that are regular and consistent."""
    good = load(S, plan.REGULAR) != 0.0
    for number in range(RECONCILE_ROUNDS):
        changed = splat(0.0)
        for i in range(len(p.pairs)):
            a, b, n = p.pairs[i, 0], p.pairs[i, 1], p.pairs[i, 2]
            _sum_shared(p, S, p.one, a, p.pairs[i, 3], n)
            _sum_shared(p, S, p.other, b, p.pairs[i, 4], n)
            for k in range(n):
                one, other = load(S, p.one + k), load(S, p.other + k)
                gap, least = absolute(one - other), where(one > other, one, other)
                if number == 0:
                    good = good & ~(gap > TOTALS_RTOL * least)
                ratio = where(gap > MOST_ROUNDED_GAP * least, one / other, 1.0)
                changed = changed + where(ratio != 1.0, 1.0, splat(0.0))
                store(S, p.other + k, ratio)
            to = p.pairs[i, 4]
            for k in range(p.offsets[b + 1] - p.offsets[b]):
                at = p.targets + p.offsets[b] + k
                store(S, at, load(S, at) * load(S, p.other + p.shared[to + k]))
        if not some(changed > 0.0):
            break
    return good


@jit(inner=True, borrows=True)
def _sum_shared(p, S, to, b, place, n):
    """Sum the targets of margin `b` over the axes it shares, into SIMD lines from `to` on."""
    for k in range(n):
        store(S, to + k, splat(0.0))
    for k in range(p.offsets[b + 1] - p.offsets[b]):
        at = to + p.shared[place + k]
        store(S, at, load(S, at) + load(S, p.targets + p.offsets[b] + k))


@jit(inner=True, borrows=True)
def scale_cells(p, S):
    """Scale the cells by all factors, with those of the eliminated margin set to meet its targets; sum and measure."""
    w = p.codes.shape[1]
    _clear_sums(p, S, 0)
    for line in range(p.n_closed):
        start, total = line * p.length, splat(0.0)
        for c in range(start, start + p.length):
            x = load(S, p.q + p.places[c])
            for b in range(w):
                x = x * load(S, p.factors + p.codes[c, b])
            store(S, p.x + p.places[c], x)
            total = total + x
        factor = load(S, p.targets + line) / total
        store(S, p.factors + line, factor)
        _scale_marginal(p, S, start, factor)
    _measure_residual(p, S)


@jit(inner=True, borrows=True)
def sweep(p, S):
    """Scale every margin to its targets in turn, the eliminated margin last (one IPF sweep), in place."""
    w = p.codes.shape[1]
    for b in range(w):
        for k in range(p.starts[b], p.stops[b]):
            by = load(S, p.targets + k) / load(S, p.sums + k)
            store(S, p.step + k, by)
            store(S, p.factors + k, load(S, p.factors + k) * by)
        _clear_sums(p, S, b + 1)
        if b + 1 < w:
            for c in range(p.n_cells):
                at, to = p.x + p.places[c], p.sums + p.codes[c, b + 1]
                x = load(S, at) * load(S, p.step + p.codes[c, b])
                store(S, at, x)
                store(S, to, load(S, to) + x)
    _clear_sums(p, S, 0)
    for line in range(p.n_closed if w > 0 else 0):
        start, total = line * p.length, splat(0.0)
        for c in range(start, start + p.length):
            at = p.x + p.places[c]
            x = load(S, at) * load(S, p.step + p.codes[c, w - 1])
            store(S, at, x)
            total = total + x
        factor = load(S, p.targets + line) / total
        store(S, p.factors + line, load(S, p.factors + line) * factor)
        _scale_marginal(p, S, start, factor)
    _measure_residual(p, S)


@jit(inner=True, inline=True, borrows=True)
def _clear_sums(p, S, first):
    """Set the sums of the swept margins from number `first` on to zero."""
    for b in range(first, p.codes.shape[1]):
        for k in range(p.starts[b], p.stops[b]):
            store(S, p.sums + k, splat(0.0))


@jit(inner=True, inline=True, borrows=True)
def _scale_marginal(p, S, start, factor):
    """Scale the cells of an eliminated marginal and add them to the sums of the other margins."""
    for c in range(start, start + p.length):
        at = p.x + p.places[c]
        x = load(S, at) * factor
        store(S, at, x)
        for b in range(p.codes.shape[1]):
            to = p.sums + p.codes[c, b]
            store(S, to, load(S, to) + x)


@jit(inner=True, borrows=True)
def _measure_residual(p, S):
    """Store the largest relative error of a margin; infinite where a value is NaN."""
    worst, whole = splat(0.0), splat(0.0)
    for b in range(p.codes.shape[1]):
        missed, total = splat(0.0), splat(0.0)
        for k in range(p.starts[b], p.stops[b]):
            target = load(S, p.targets + k)
            missed, total = missed + absolute(load(S, p.sums + k) - target), total + target
        part = missed / total
        worst, whole = where(part > worst, part, worst), whole + missed
    store(S, plan.RESIDUAL, where(whole < np.inf, worst, np.inf))
