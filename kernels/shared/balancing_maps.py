"""Which bins of a contact map are left, and the weights that give all of them their sums."""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.shared import balancing_newton
from cmfast.kernels.shared.balancing import EMPTY, MAD_MAX, MASKED, MIN_COUNT, MIN_NNZ
from cmfast.kernels.status import INVALID, MAX_ITER, OK, UNDETERMINED, ZERO_LINE

ALIKE = 1e-12  # cells of both sides of the diagonal


class _Pixels(NamedTuple):
    """Positive cells on and above the diagonal, sorted by row and column."""

    rows: Any
    columns: Any
    values: Any

    def where(self, keep: Any) -> "_Pixels":
        """Return those to keep."""
        return self if keep.all() else _Pixels(*(a[keep] for a in self))


def balance(
    rows: Any,
    columns: Any,
    values: Any,
    sums: Any,
    mask: Any,
    *,
    passes: Callable[[Any, Any, Any, int], Any],
    judge: Callable[[Any, Any, int, Any], Any],
    n: int,
    upper: bool,
    blocks: list[int] | None = None,
    mad_blocks: list[int] | None = None,
    ignore_diags: int = 0,
    min_nnz: int = 0,
    min_count: float = 0.0,
    mad_max: float | None = None,
    tol: float = 1e-9,
    max_iter: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> tuple[Any, ...]:
    """Weights, reason and proof of every bin; residual, worst row, passes and status of every block.

    Arrays are NumPy's. ``passes(rows, columns, values, n)`` gives a target's passes over pixels that are sorted,
    positive and all different, ``judge(rows, columns, n, sums)`` says what their zeros allow.
    """
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
                part = _Pixels(*(a[starts[b] : starts[b + 1]] for a in pixels))
                within = slice(cuts[b], cuts[b + 1])
                rules = passes, judge, tol, max_iter
                answer = _block(part, cuts[b], reason[within], targets[within], proof[within], *rules)
                weights[within], found = answer
                residual[b], worst[b], n_iter[b], status[b] = found
                if progress is not None:
                    progress(b + 1, number)
    numbers = residual, worst, n_iter, status
    return weights, reason, proof, *(a[0] if blocks is None else a for a in numbers)


def _sorted(rows: Any, columns: Any, values: Any, n: int, upper: bool) -> _Pixels | None:
    """Return the pixels, each once; None where a number is none, or the two sides of the diagonal differ."""
    i, j = rows.astype(np.int64, copy=False), columns.astype(np.int64, copy=False)
    a = values.astype(np.float64, copy=False)
    if not ((a >= 0.0) & (a < np.inf)).all() or any(((k < 0) | (k >= n)).any() for k in (i, j)):
        return None
    if upper and (i > j).any():
        return None
    i, j, a = _summed(i, j, a)
    if not upper:
        below, above = i > j, i <= j
        other = _summed(j[below], i[below], a[below])
        i, j, a = i[above], j[above], a[above]
        off = i < j
        pairs = tuple(zip((i[off], j[off], a[off]), other, strict=True))
        if len(other[0]) != off.sum() or any((one != two).any() for one, two in pairs[:2]):
            return None
        if not np.allclose(*pairs[2], rtol=ALIKE, atol=0.0):
            return None
    return _Pixels(i, j, a)


def _summed(i: Any, j: Any, a: Any) -> tuple[Any, Any, Any]:
    """Sort cells by row and column, add up those that are in one place, and leave out zeros."""
    if a.size and not a.all():
        i, j, a = i[a > 0.0], j[a > 0.0], a[a > 0.0]
    if len(i) < 2 or (((i[1:] == i[:-1]) & (j[1:] > j[:-1])) | (i[1:] > i[:-1])).all():
        return i, j, a
    order = np.lexsort((j, i))
    i, j, a = i[order], j[order], a[order]
    starts = np.flatnonzero(np.concatenate([[True], (i[1:] != i[:-1]) | (j[1:] != j[:-1])]))
    return i[starts], j[starts], np.add.reduceat(a, starts)


def _per_bin(pixels: _Pixels, values: Any, n: int) -> Any:
    """Add something up for every bin; what is on the diagonal counts once."""
    off = pixels.rows < pixels.columns
    return np.bincount(pixels.rows, values, n) + np.bincount(pixels.columns[off], values[off], n)


def _reasons(
    pixels: _Pixels, n: int, mask: Any, groups: Any, min_nnz: int, min_count: float, mad_max: float | None
) -> Any:
    """Say of every bin why it is left out, in the order of cooler; 0: it is not."""
    reason = np.zeros(n, np.int8)

    def leave_out(wrong: Any, code: int) -> None:
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


def _block(
    pixels: _Pixels,
    start: int,
    reason: Any,
    targets: Any,
    proof: Any,
    passes: Any,
    judge: Any,
    tol: float,
    max_iter: int | None,
) -> tuple[Any, tuple[Any, ...]]:
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

    def judged() -> int:
        found = judge(i, j, n, s)
        marks[:] = found.rows + 2 * found.columns
        return int(found.status)

    task = balancing_newton.Task(passes(i, j, a, n), s, 0, tol, max_iter, judged)
    longest = int((np.bincount(i, minlength=n) + np.bincount(j, minlength=n)).max())
    found = balancing_newton.solve(task, longest)
    proof[kept] = marks
    if found.status not in (OK, MAX_ITER, UNDETERMINED):
        return weights, (np.nan, np.nan, found.n_iter, found.status)
    weights[kept] = found.x
    return weights, (found.residual, found.worst, found.n_iter, found.status)
