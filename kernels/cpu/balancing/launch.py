"""Which bins of a contact map are left, and the weights that give all of them their sums."""

import itertools
from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu.balancing import _newton, _zeros
from cmfast.kernels.cpu.balancing._pixels import Passes, pack
from cmfast.kernels.shared.balancing import EMPTY, MAD_MAX, MASKED, MIN_COUNT, MIN_NNZ
from cmfast.kernels.status import INVALID, LIMIT_ONLY, MAX_ITER, OK, UNDETERMINED, ZERO_LINE

ALIKE = 1e-12  # cells of both sides of the diagonal


class _Pixels(NamedTuple):
    """Positive cells on and above the diagonal, sorted by row and column."""

    rows: Any
    columns: Any
    values: Any

    def where(self, keep):
        """Return those to keep."""
        return self if keep.all() else _Pixels(*(a[keep] for a in self))


def balance(
    rows,
    columns,
    values,
    sums,
    mask,
    *,
    n,
    upper,
    blocks=None,
    mad_blocks=None,
    ignore_diags=0,
    min_nnz=0,
    min_count=0.0,
    mad_max=None,
    tol=1e-9,
    max_iter=None,
    num_threads=None,
    progress=None,
):
    """Weights, reason and proof of every bin; residual, worst row, passes and status of every block."""
    cuts = np.array([0, n] if blocks is None else blocks, np.int64)
    number = len(cuts) - 1
    weights, reason, proof = np.full(n, np.nan), np.zeros(n, np.int8), np.zeros(n, np.int8)
    residual, worst = np.full(number, np.nan), np.full(number, np.nan)
    n_iter, status = np.zeros(number, np.int64), np.full(number, INVALID, np.int8)
    targets = np.ones(n) if sums is None else np.broadcast_to(sums.astype(np.float64), n)
    pixels = _sorted(rows, columns, values, n, upper)
    if pixels is not None and ((targets > 0.0) & (targets < np.inf)).all():
        if blocks is not None:
            block = np.searchsorted(cuts, np.arange(n), side="right")
            pixels = pixels.where(block[pixels.rows] == block[pixels.columns])
        pixels = pixels.where(pixels.columns - pixels.rows >= ignore_diags)
        groups = cuts if mad_blocks is None else np.array(mad_blocks, np.int64)
        reason[:] = _reasons(pixels, n, mask, groups, min_nnz, min_count, mad_max)
        starts = np.searchsorted(pixels.rows, cuts)
        with np.errstate(all="ignore"):  # what overflows ends as RANGE
            for b in range(number):
                pool.checkpoint()
                part = _Pixels(*(a[starts[b] : starts[b + 1]] for a in pixels))
                within = slice(cuts[b], cuts[b + 1])
                answer = _block(
                    part, cuts[b], reason[within], targets[within], proof[within], tol, max_iter, num_threads
                )
                weights[within], found = answer
                residual[b], worst[b], n_iter[b], status[b] = found
                if progress is not None:
                    progress(b + 1, number)
    numbers = residual, worst, n_iter, status
    return weights, reason, proof, *(a[0] if blocks is None else a for a in numbers)


def _sorted(rows, columns, values, n, upper):
    """Return the pixels, each once; None where a number is none, or the two sides of the diagonal differ."""
    i, j = rows.astype(np.int64, copy=False), columns.astype(np.int64, copy=False)
    a = values.astype(np.float64, copy=False)
    if not ((a >= 0.0) & (a < np.inf)).all() or any(((k < 0) | (k >= n)).any() for k in (i, j)):
        return None
    if upper and (i > j).any():
        return None
    i, j, a = _summed(i, j, a, n)
    if not upper:
        below, above = i > j, i <= j
        other = _summed(j[below], i[below], a[below], n)
        i, j, a = i[above], j[above], a[above]
        off = i < j
        pairs = tuple(zip((i[off], j[off], a[off]), other, strict=True))
        if len(other[0]) != off.sum() or any((one != two).any() for one, two in pairs[:2]):
            return None
        if not np.allclose(*pairs[2], rtol=ALIKE, atol=0.0):
            return None
    return _Pixels(i, j, a)


def _summed(i, j, a, n):
    """Sort cells by row and column, add up those that are in one place, and leave out zeros."""
    if a.size and not a.all():
        i, j, a = i[a > 0.0], j[a > 0.0], a[a > 0.0]
    if len(i) < 2 or (((i[1:] == i[:-1]) & (j[1:] > j[:-1])) | (i[1:] > i[:-1])).all():
        return i, j, a
    order = np.lexsort((j, i))
    i, j, a = i[order], j[order], a[order]
    starts = np.flatnonzero(np.concatenate([[True], (i[1:] != i[:-1]) | (j[1:] != j[:-1])]))
    return i[starts], j[starts], np.add.reduceat(a, starts)


def _per_bin(pixels, values, n):
    """Add something up for every bin; what is on the diagonal counts once."""
    off = pixels.rows < pixels.columns
    return np.bincount(pixels.rows, values, n) + np.bincount(pixels.columns[off], values[off], n)


def _reasons(pixels, n, mask, groups, min_nnz, min_count, mad_max):
    """Say of every bin why it is left out, in the order of cooler; 0: it is not."""
    reason = np.zeros(n, np.int8)

    def leave_out(wrong, code):
        reason[wrong & (reason == 0)] = code

    if min_nnz > 0:
        leave_out(_per_bin(pixels, np.ones(len(pixels.rows)), n) < min_nnz, MIN_NNZ)
    counts = _per_bin(pixels, pixels.values, n) if min_count > 0 or mad_max else np.zeros(n)
    if min_count > 0:
        leave_out(counts < min_count, MIN_COUNT)
    if mad_max:
        for low, high in itertools.pairwise(groups):
            some = counts[low:high][counts[low:high] > 0.0]
            if len(some):
                counts[low:high] /= np.median(some)
        logs = np.log(counts[counts > 0.0])
        if len(logs):
            middle = np.median(logs)
            leave_out(counts < np.exp(middle - mad_max * np.median(np.abs(logs - middle))), MAD_MAX)
    if mask is not None:
        leave_out(mask.astype(np.bool_), MASKED)
    kept = reason == 0
    left = pixels.where(kept[pixels.rows] & kept[pixels.columns])
    seen = np.zeros(n, np.bool_)
    seen[left.rows], seen[left.columns] = True, True
    leave_out(~seen, EMPTY)
    return reason


def _block(pixels, start, reason, targets, proof, tol, max_iter, num_threads):
    """Balance the bins of one block that are left; return their weights, and the numbers of the block."""
    kept = reason == 0
    n, weights = int(kept.sum()), np.full(len(kept), np.nan)
    if n == 0:
        return weights, (np.nan, np.nan, 0, ZERO_LINE)
    i, j = pixels.rows - start, pixels.columns - start
    within = kept[i] & kept[j]
    place = np.cumsum(kept) - 1
    i, j, a = place[i[within]], place[j[within]], pixels.values[within]
    s, marks = targets[kept], np.zeros(n, np.int8)

    def judge():
        found = _allowed(i, j, n, s)
        marks[:] = found.rows + 2 * found.columns
        return found.status

    task = _newton.Task(Passes(pack(i, j, a, n, 0), num_threads), s, 0, tol, max_iter, judge)
    longest = int((np.bincount(i, minlength=n) + np.bincount(j, minlength=n)).max())
    found = _newton.solve(task, longest)
    proof[kept] = marks
    if found.status not in (OK, MAX_ITER, UNDETERMINED):
        return weights, (np.nan, np.nan, found.n_iter, found.status)
    weights[kept] = found.x
    return weights, (found.residual, found.worst, found.n_iter, found.status)


def _allowed(i, j, n, s):
    """Say what the zeros of a symmetric matrix allow; of cells that vanish note the bins."""
    off = i < j
    rows, columns = np.concatenate([i, j[off]]), np.concatenate([j, i[off]])
    order = np.argsort(rows, kind="stable")
    rows, columns = rows[order], columns[order]
    first = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))]).astype(np.int64)
    found = _zeros.allowed(first, columns, s, s)
    if found.status == LIMIT_ONLY:
        vanish = np.zeros(n, np.bool_)
        vanish[rows[found.dead]] = True
        return found._replace(rows=vanish)
    return found
