"""Passes over the cells of one dense table in memory order.

A scaled cell is recomputed in every pass as the given cell times the factors of its marginals, so only the given cells
are read. Perturbations are stored likewise, a log-scale change for each marginal. Rows and the positions of their
marginals are those of :class:`TraversalPlan`; `used` are the margins that are swept, in order.
"""

import math
from typing import NamedTuple

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import (
    WIDTH,
    absolute,
    largest,
    load_elements,
    splat,
    store_elements,
    total,
    where,
)
from cmfast.kernels.cpu.margins._consistency import sum_shared
from cmfast.kernels.cpu.margins.tables.dense_traversal import TraversalPlan
from cmfast.kernels.cpu.margins.tables.passes import FIRST_WORD, advance_word, convert_to_perturbation


class DenseTable(NamedTuple):
    """The cells of a dense table, their traversal, and the margins that are swept, in order.

    Python passes a plain tuple: Numba's type check of named ones takes as long as a pass over a small table.
    """

    plan: TraversalPlan
    cells: np.ndarray
    last: np.ndarray  # a copy of the last rows, followed by a SIMD vector of zeros
    smoothing: float
    used: np.ndarray


class _Buffers(NamedTuple):
    """Buffers of a pass over the cells."""

    sums: np.ndarray  # for each position along a row, followed by a SIMD vector
    split: np.ndarray  # margins that vary along a row, then the others
    at: np.ndarray  # (margins,) index of the row's first factor
    row: np.ndarray


class _Factors(NamedTuple):
    """Factors of all marginals, and the index of those of the row."""

    values: np.ndarray
    split: np.ndarray
    number: int  # number of margins that vary along a row
    at: np.ndarray


@jit(inner=True, borrows=True)
def _list_margins(plan, used, split):
    """List the margins in use, first those that vary along a row; return the number of these."""
    number, last = 0, len(used)
    for i in range(len(used)):
        if plan.along[used[i]]:
            split[number] = used[i]
            number += 1
        else:
            last -= 1
            split[last] = used[i]
    return number


@jit(inner=True, inline=True, borrows=True)
def _locate_factors(plan, split, number, i, at):
    """Return the index of the row's factors of the i-th margin that varies along it; beyond the last, of ones.

    So the loop over a row always multiplies by two factors, without counting margins.
    """
    return at[split[i]] if i < number else plan.starts[len(plan.starts) - 1]


@jit(inner=True, inline=True, borrows=True)
def _advance_row(plan, start, left, at):
    """Set the indices of the row that begins at cell `start`; return how many rows are left of its plane."""
    if left > 0:
        for b in range(len(at)):
            at[b] += plan.steps[b, plan.steps.shape[1] - 1]
        return left - 1
    plane = start // (plan.rows * plan.length)
    for b in range(len(at)):
        at[b] = plan.starts[b]
    for axis in range(len(plan.grid) - 1, -1, -1):
        place, plane = plane % plan.grid[axis], plane // plan.grid[axis]
        for b in range(len(at)):
            at[b] += place * plan.steps[b, axis]
    return plan.rows - 1


@jit(inner=True, inline=True, borrows=True)
def _multiply_shared_factors(factors, split, number, at):
    """Return the product of the factors that are constant along the row."""
    found = 1.0
    for i in range(number, len(split)):
        found *= factors[at[split[i]]]
    return found


@jit(inner=True, inline=True, borrows=True)
def _scale_vector(cells, start, k, smoothing, factors, first, second):
    """Return eight cells of a row times the factors that vary along it; `first` and `second` index two of them."""
    x = load_elements(cells, start + k) + smoothing
    x = x * load_elements(factors.values, first + k) * load_elements(factors.values, second + k)
    for i in range(2, factors.number):
        x = x * load_elements(factors.values, factors.at[factors.split[i]] + k)
    return x


@jit(inner=True, inline=True, borrows=True)
def _scale_cell(cells, start, k, smoothing, factors, first, second):
    """Return one cell of a row times the factors that vary along it; `first` and `second` index two of them."""
    x = (cells[start + k] + smoothing) * factors.values[first + k] * factors.values[second + k]
    for i in range(2, factors.number):
        x *= factors.values[factors.at[factors.split[i]] + k]
    return x


@jit(inner=True, borrows=True)
def _sum_marginals(plan, t, sums, found):
    """Add the sums of positions along rows up to sums of the marginals of margin `t`."""
    for k in range(plan.offsets[t], plan.offsets[t + 1]):
        found[k] = 0.0
    for k in range(plan.starts[t], plan.starts[t + 1]):
        found[plan.lines[k]] += sums[k]


@jit(inner=True, borrows=True)
def _mask_tail(plan, mask):
    """Return a SIMD vector of ones for the last cells of a row, zeros for those read beyond it."""
    for k in range(WIDTH):
        mask[k] = 1.0 if k < (plan.length - 1) % WIDTH + 1 else 0.0
    return load_elements(mask, 0)


@jit(inner=True, borrows=True)
def _has_row_margin(plan, used, n_cells):
    """Test whether every row is a marginal of the first of several margins."""
    if len(used) == 1 or plan.along[used[0]]:
        return False
    return plan.starts[used[0] + 1] - plan.starts[used[0]] == n_cells // plan.length


@jit(inner=True, inline=True, borrows=True)
def _compute_factor(found, target, noted):
    """Return the factor that scales a sum to its target; accumulates in `noted` the error, least and largest factor."""
    if not target > 0.0:
        return 1.0
    if not 0.0 < found < np.inf:
        noted[0] = np.inf
        return 1.0
    by = target / found
    noted[0] += abs(found - target)
    noted[1], noted[2] = min(noted[1], by), max(noted[2], by)
    return by


@jit(inner=True, borrows=True)
def _sum_scaled_cells(table, factors, t, closed, targets, noted, buffers):
    """Sum the scaled cells by the marginals of margin `t`.

    With `closed` >= 0 every row is first scaled to its target in that margin, in the same pass.
    """
    plan, cells, last, smoothing, used = table
    sums, split, at, row = buffers
    for k in range(plan.starts[t], plan.starts[t + 1]):
        sums[k] = 0.0
    along, more, zero, tail = plan.along[t], splat(smoothing), splat(0.0), len(cells) + WIDTH - len(last)
    number, left, kept = _list_margins(plan, used, split), 0, _mask_tail(plan, row)
    of_lines = _Factors(factors, split, number, at)
    for start in range(0, len(cells), plan.length):
        left = _advance_row(plan, start, left, at)
        first, second = _locate_factors(plan, split, number, 0, at), _locate_factors(plan, split, number, 1, at)
        common, into, line = _multiply_shared_factors(factors, split, number, at), at[t], zero
        own, place = (cells, start) if start < tail else (last, start - tail)
        for k in range(0, plan.length, WIDTH):
            x = _scale_vector(own, place, k, more, of_lines, first, second)
            if k + WIDTH > plan.length:
                x = where(kept > zero, x, zero)
            if closed >= 0:
                store_elements(row, k, x)
                line = line + x
            elif along:
                store_elements(sums, into + k, load_elements(sums, into + k) + x * splat(common))
            else:
                line = line + x
        if closed >= 0:
            by = _compute_factor(total(line) * common, targets[plan.lines[at[closed]]], noted)
            factors[at[closed]] *= by
            common *= by
            for k in range(0, plan.length if along else 0, WIDTH):
                store_elements(sums, into + k, load_elements(sums, into + k) + load_elements(row, k) * splat(common))
        if not along:
            sums[into] += total(line) * common


@jit(inner=True, inline=True, borrows=True)
def _update_worst(worst, noted, of):
    """Return the larger of `worst` and the relative error of the margin just scaled, and reset that error."""
    missed, noted[0] = noted[0] / of, 0.0
    return max(worst, missed) if missed < np.inf else np.inf


@jit()
def sweep(given, targets, totals, factors, sums, found):
    """Scale all margins to their targets in turn (one IPF sweep), updating the factors.

    Return the largest relative error of a margin before it was scaled, and the largest log-scale change; infinite where
    a marginal has nothing to scale.
    """
    table = DenseTable(*given)
    plan, used = table.plan, table.used
    at, split = np.empty(len(plan.along), np.int64), np.empty(len(used), np.int64)
    worst, noted, row = 0.0, np.ones(3), np.empty(plan.length + WIDTH)
    noted[0] = 0.0
    buffers = _Buffers(sums, split, at, row)
    closed = used[0] if _has_row_margin(plan, used, len(table.cells)) else -1
    for i in range(1 if closed >= 0 else 0, len(used)):
        t, before = used[i], closed if i == 1 else -1
        _sum_scaled_cells(table, factors, t, before, targets, noted, buffers)
        if before >= 0:
            worst = _update_worst(worst, noted, totals[before])
        _sum_marginals(plan, t, sums, found)
        for k in range(plan.offsets[t], plan.offsets[t + 1]):
            found[k] = _compute_factor(found[k], targets[k], noted)
        for k in range(plan.starts[t], plan.starts[t + 1]):
            factors[k] *= found[plan.lines[k]]
        worst = _update_worst(worst, noted, totals[t])
    return worst, max(math.log(noted[2]), -math.log(noted[1])) if noted[1] > 0.0 else np.inf


@jit(inner=True, inline=True, borrows=True)
def _add_row(plan, row, start, at, sums):
    """Add a row of cells to the sums of all margins."""
    whole = plan.length // WIDTH * WIDTH
    for t in range(len(at)):
        into, along, line, found = at[t], plan.along[t], splat(0.0), 0.0
        for k in range(0, whole, WIDTH):
            x = load_elements(row, start + k)
            if along:
                store_elements(sums, into + k, load_elements(sums, into + k) + x)
            else:
                line = line + x
        for k in range(whole, plan.length):
            if along:
                sums[into + k] += row[start + k]
            else:
                found += row[start + k]
        if not along:
            sums[into] += total(line) + found


@jit()
def write_table(given, factors, out, sums):
    """Write the scaled table and the sums of all margins; return the number of positive finite cells."""
    plan, cells, _, smoothing, used = given
    at, split = np.empty(len(plan.along), np.int64), np.empty(len(used), np.int64)
    number, left, whole = _list_margins(plan, used, split), 0, plan.length // WIDTH * WIDTH
    more, zero, one, infinite = splat(smoothing), splat(0.0), splat(1.0), splat(np.inf)
    counted, positive, of_lines = zero, 0, _Factors(factors, split, number, at)
    sums[:] = 0.0
    for start in range(0, len(cells), plan.length):
        left = _advance_row(plan, start, left, at)
        first, second = _locate_factors(plan, split, number, 0, at), _locate_factors(plan, split, number, 1, at)
        common = _multiply_shared_factors(factors, split, number, at)
        for k in range(0, whole, WIDTH):
            x = _scale_vector(cells, start, k, more, of_lines, first, second)
            x = x * splat(common)
            counted = counted + where(x > zero, where(x < infinite, one, zero), zero)
            store_elements(out, start + k, x)
        for k in range(whole, plan.length):
            x = _scale_cell(cells, start, k, smoothing, of_lines, first, second)
            out[start + k] = x * common
            positive += 0.0 < out[start + k] < np.inf
        _add_row(plan, out, start, at, sums)
    return positive + int(total(counted))


@jit(inner=True, borrows=True)
def _sum_perturbation(table, changes, t, weighted, buffers):
    """Sum the log-scale changes of positive cells by the marginals of margin `t`, weighted by the cells if `weighted`.

    Return the largest magnitude of a change.
    """
    plan, x, last, _, used = table
    sums, split, at, mask = buffers
    for k in range(plan.starts[t], plan.starts[t + 1]):
        sums[k] = 0.0
    along, most, zero, tail = plan.along[t], splat(0.0), splat(0.0), len(x) + WIDTH - len(last)
    number, left, kept = _list_margins(plan, used, split), 0, _mask_tail(plan, mask)
    for start in range(0, len(x), plan.length):
        left = _advance_row(plan, start, left, at)
        first, second = _locate_factors(plan, split, number, 0, at), _locate_factors(plan, split, number, 1, at)
        common, into, line = 0.0, at[t], zero
        for i in range(number, len(used)):
            common += changes[at[split[i]]]
        own, place = (x, start) if start < tail else (last, start - tail)
        for k in range(0, plan.length, WIDTH):
            by = load_elements(own, place + k)
            if k + WIDTH > plan.length:
                by = where(kept > zero, by, zero)
            z = load_elements(changes, first + k) + load_elements(changes, second + k) + splat(common)
            for i in range(2, number):
                z = z + load_elements(changes, at[split[i]] + k)
            z = where(by > zero, z, zero)
            size = absolute(z)
            most = where(size > most, size, most)
            if weighted:
                z = z * by
            if along:
                store_elements(sums, into + k, load_elements(sums, into + k) + z)
            else:
                line = line + z
        if not along:
            sums[into] += total(line)
    return largest(most)


@jit()
def draw_perturbation(n):
    """Return `n` pseudo-random perturbations, the same in every call."""
    found, word = np.empty(n), FIRST_WORD
    for k in range(n):
        word = advance_word(word)
        found[k] = convert_to_perturbation(word)
    return found


@jit()
def sweep_perturbation(given, targets, changes, enough, sums, found):
    """Sweep a perturbation once, to first order, unless it is small enough; return its size before."""
    table, before = DenseTable(*given), -1.0
    plan, used = table.plan, table.used
    at, split = np.empty(len(plan.along), np.int64), np.empty(len(used), np.int64)
    buffers = _Buffers(sums, split, at, np.empty(WIDTH))
    for t in used:
        size = _sum_perturbation(table, changes, t, True, buffers)
        before = size if before < 0.0 else before
        if before <= enough:
            break
        _sum_marginals(plan, t, sums, found)
        for k in range(plan.offsets[t], plan.offsets[t + 1]):
            found[k] = found[k] / targets[k] if targets[k] > 0.0 else 0.0
        for k in range(plan.starts[t], plan.starts[t + 1]):
            changes[k] -= found[plan.lines[k]]
    return before


@jit()
def multiply_gram(given, changes, sums, found):
    """Compute A'A y, with A the incidence matrix of positive cells by marginals and `y` the log-scale changes."""
    table = DenseTable(*given)
    plan, used = table.plan, table.used
    at, split = np.empty(len(plan.along), np.int64), np.empty(len(used), np.int64)
    buffers = _Buffers(sums, split, at, np.empty(WIDTH))
    found[:] = 0.0
    for t in used:
        _sum_perturbation(table, changes, t, False, buffers)
        _sum_marginals(plan, t, sums, found)


@jit()
def multiply_gram_dense(layout, n_cells, changes, found):
    """Compute A'A y, with A the incidence matrix of all cells by marginals, from the margins alone."""
    for b in range(len(layout.offsets) - 1):
        start, stop = layout.offsets[b], layout.offsets[b + 1]
        for k in range(start, stop):
            found[k] = n_cells / (stop - start) * changes[k]
    for p in range(len(layout.pairs)):
        a, b, n = layout.pairs[p, 0], layout.pairs[p, 1], layout.pairs[p, 2]
        first, second = layout.offsets[a], layout.offsets[b]
        n_a, n_b = layout.offsets[a + 1] - first, layout.offsets[b + 1] - second
        both = n_cells * n / (n_a * n_b)  # number of cells that two overlapping marginals share
        of_a = sum_shared(layout, changes, a, layout.pairs[p, 3], n)
        of_b = sum_shared(layout, changes, b, layout.pairs[p, 4], n)
        for k in range(n_a):
            found[first + k] += both * of_b[layout.shared[layout.pairs[p, 3] + k]]
        for k in range(n_b):
            found[second + k] += both * of_a[layout.shared[layout.pairs[p, 4] + k]]
