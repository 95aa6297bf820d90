"""Passes over the cells of one dense table, in the order in which they lie.

A cell is what it was given times the factors of its lines, worked out anew in every pass: nothing but the given cells
is read. Changes are kept in the same way, a logarithm for each line. Rows, and where their lines stand, are those of
:class:`TraversalPlan`; `used` are the margins that are swept, in the order in which they are.
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
    """The cells of a table, how they are traversed, and the margins that are swept, in the order in which they are.

    Python hands it over as a plain tuple: Numba checks the class of named ones, which a small table would notice.
    """

    plan: TraversalPlan
    cells: np.ndarray
    last: np.ndarray  # the last rows again, followed by a vector of zeros
    smoothing: float
    used: np.ndarray


class _Buffers(NamedTuple):
    """What a pass over the cells writes and reads."""

    sums: np.ndarray  # for each place along a row, followed by a vector
    split: np.ndarray  # margins that differ along a row, then the others
    at: np.ndarray  # of every margin: where the lines of the row begin
    row: np.ndarray


class _Factors(NamedTuple):
    """Factors of all lines, and where those of a row are."""

    values: np.ndarray
    split: np.ndarray
    number: int  # of margins that differ along a row
    at: np.ndarray


@jit(inner=True, borrows=True)
def _list_margins(plan, used, split):
    """List the margins that are used, those first that differ along a row; return how many these are."""
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
    """Return where the numbers of a row begin of one of two margins that differ along it; of none where there is not.

    Those stand after the numbers of all margins. So the loop over a row need not count how many there are.
    """
    return at[split[i]] if i < number else plan.starts[len(plan.starts) - 1]


@jit(inner=True, inline=True, borrows=True)
def _advance_row(plan, start, left, at):
    """Set where the lines of the row stand that begins at a cell; return how many are left of its plane."""
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
    """Return what all cells of a row are multiplied by."""
    found = 1.0
    for i in range(number, len(split)):
        found *= factors[at[split[i]]]
    return found


@jit(inner=True, inline=True, borrows=True)
def _scale_vector(cells, start, k, smoothing, factors, first, second):
    """Return eight cells of a row times the factors that differ along it, which begin with `first` and `second`."""
    x = load_elements(cells, start + k) + smoothing
    x = x * load_elements(factors.values, first + k) * load_elements(factors.values, second + k)
    for i in range(2, factors.number):
        x = x * load_elements(factors.values, factors.at[factors.split[i]] + k)
    return x


@jit(inner=True, inline=True, borrows=True)
def _scale_cell(cells, start, k, smoothing, factors, first, second):
    """Return one cell of a row times the factors that differ along it, which begin with `first` and `second`."""
    x = (cells[start + k] + smoothing) * factors.values[first + k] * factors.values[second + k]
    for i in range(2, factors.number):
        x *= factors.values[factors.at[factors.split[i]] + k]
    return x


@jit(inner=True, borrows=True)
def _sum_marginals(plan, t, sums, found):
    """Add up what a margin has of each line."""
    for k in range(plan.offsets[t], plan.offsets[t + 1]):
        found[k] = 0.0
    for k in range(plan.starts[t], plan.starts[t + 1]):
        found[plan.lines[k]] += sums[k]


@jit(inner=True, borrows=True)
def _mask_tail(plan, mask):
    """Return a vector of ones for the last cells of a row, and zeros for those beyond it that are read with them."""
    for k in range(WIDTH):
        mask[k] = 1.0 if k < (plan.length - 1) % WIDTH + 1 else 0.0
    return load_elements(mask, 0)


@jit(inner=True, borrows=True)
def _has_row_margin(plan, used, n_cells):
    """Return whether every row is a line of the first of several margins."""
    if len(used) == 1 or plan.along[used[0]]:
        return False
    return plan.starts[used[0] + 1] - plan.starts[used[0]] == n_cells // plan.length


@jit(inner=True, inline=True, borrows=True)
def _compute_factor(found, target, noted):
    """Return what a line is scaled by; note how far off it was, and the least and the most that lines are scaled by."""
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
    """Add the scaled cells up for a margin.

    Before its cells are added every row is scaled to the target that it has as a line of a margin `closed`, if not -1.
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
    """Return how far off the worst margin was, after one that was scaled."""
    missed, noted[0] = noted[0] / of, 0.0
    return max(worst, missed) if missed < np.inf else np.inf


@jit()
def sweep(given, targets, totals, factors, sums, found):
    """Scale margins to their targets, one after the other.

    Return how far off the worst of them was when its turn came, and the most that a line was scaled by, as a logarithm;
    both infinite where a line has nothing to scale.
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
    """Write the table and the sums of all margins; return how many cells are positive numbers."""
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
    """Add up for a margin what changes of the lines are to its positive cells, each as often as it is large if so.

    Return the largest of them.
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
    """Return numbers at random, always the same."""
    found, word = np.empty(n), FIRST_WORD
    for k in range(n):
        word = advance_word(word)
        found[k] = convert_to_perturbation(word)
    return found


@jit()
def sweep_perturbation(given, targets, changes, enough, sums, found):
    """Sweep a change of the cells once, to first order, if it is not small enough; return how large it was before."""
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
    """Add up, for every line, what changes of the lines are to its positive cells."""
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
    """Do so where all cells are positive."""
    for b in range(len(layout.offsets) - 1):
        start, stop = layout.offsets[b], layout.offsets[b + 1]
        for k in range(start, stop):
            found[k] = n_cells / (stop - start) * changes[k]
    for p in range(len(layout.pairs)):
        a, b, n = layout.pairs[p, 0], layout.pairs[p, 1], layout.pairs[p, 2]
        first, second = layout.offsets[a], layout.offsets[b]
        n_a, n_b = layout.offsets[a + 1] - first, layout.offsets[b + 1] - second
        both = n_cells * n / (n_a * n_b)  # cells that two lines have in common, if any
        of_a = sum_shared(layout, changes, a, layout.pairs[p, 3], n)
        of_b = sum_shared(layout, changes, b, layout.pairs[p, 4], n)
        for k in range(n_a):
            found[first + k] += both * of_b[layout.shared[layout.pairs[p, 3] + k]]
        for k in range(n_b):
            found[second + k] += both * of_a[layout.shared[layout.pairs[p, 4] + k]]
