"""Balancing of contact maps: filtering of bins, then weights that give all remaining bins their sums."""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from cmfast.kernels.shared import symmetric_newton
from cmfast.kernels.shared.balancing import EMPTY, MAD_MAX, MIN_COUNT, MIN_NNZ, NOT_KEPT
from cmfast.kernels.status import INVALID, MAX_ITER, OK, UNDETERMINED, ZERO_LINE


class Pixels(Protocol):
    """The pixels of a contact map that count: each once, positive, on and above the diagonal, within a block.

    Bins are given by positions from 0 on, -1 for those left out.
    """

    def sum_by_bin(self, place: Any, weigh: bool = False) -> Any:
        """Return for each bin with a position the number, or the sum if `weigh`, of its pixels with such bins.

        Pixels on the diagonal count once.
        """

    def passes(self, low: int, high: int, place: Any, base: int, n: int) -> Any:
        """Return the passes over the pixels of a block, whose positions begin with `base`."""

    def list_bins(self, low: int, high: int, place: Any, base: int) -> tuple[Any, Any]:
        """Return the rows and columns of the pixels of a block, as positions in it."""


def balance(
    rows: Any,
    columns: Any,
    values: Any,
    sums: Any,
    keep: Any,
    *,
    read: Callable[..., Pixels | None],
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
    """Balance a contact map; return weights, reasons and proofs of all bins, and diagnostics of every block.

    The diagnostics are residual, worst row, passes and status. Arrays are NumPy's. ``read(rows, columns, values, n=,
    upper=, cuts=, nearest=)`` returns a target's pixels, None if a cell is invalid or the two triangles differ;
    ``judge(rows, columns, n, sums)`` classifies the zeros.
    """
    cuts = np.array([0, n] if blocks is None else blocks, np.int64)
    number = len(cuts) - 1
    weights, reason, proof = np.full(n, np.nan), np.zeros(n, np.int8), np.zeros(n, np.int8)
    residual, worst = np.full(number, np.nan), np.full(number, np.nan)
    n_iter, status = np.zeros(number, np.int64), np.full(number, INVALID, np.int8)
    targets = np.ones(n) if sums is None else np.broadcast_to(sums.astype(np.float64), n)
    pixels = read(rows, columns, values, n=n, upper=upper, cuts=cuts, nearest=ignore_diags)
    if pixels is not None and ((targets > 0.0) & (targets < np.inf)).all():
        groups = cuts if mad_blocks is None else np.array(mad_blocks, np.int64)
        reason[:], found = _find_reasons(pixels, n, keep, groups, min_nnz, min_count, mad_max)
        kept = reason == 0
        bins = _Bins(_compute_positions(kept), np.concatenate([[0], np.cumsum(kept)]), found)
        with np.errstate(all="ignore"):  # overflows end as RANGE
            for b in range(number):
                low, high = int(cuts[b]), int(cuts[b + 1])
                within = kept[low:high]
                s = targets[low:high][within]
                x, marks, rest = _balance_block(pixels, low, high, bins, s, judge, tol, max_iter)
                weights[low:high][within], proof[low:high][within] = x, marks
                residual[b], worst[b], n_iter[b], status[b] = rest
                if progress is not None:
                    progress(b + 1, number)
    numbers = residual, worst, n_iter, status
    return weights, reason, proof, *(a[0] if blocks is None else a for a in numbers)


class _Bins(NamedTuple):
    """The bins that are kept."""

    place: Any  # position of each bin, -1 if left out
    before: Any  # number of kept bins before each bin, and in all
    number: Any  # pixels of each bin with kept bins


def _compute_positions(kept: Any) -> Any:
    """Return the position of each kept bin, -1 for others."""
    return np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32)


def _find_reasons(
    pixels: Pixels, n: int, keep: Any, groups: Any, min_nnz: int, min_count: float, mad_max: float | None
) -> tuple[Any, Any]:
    """Return per bin the reason code (0 if kept), by cooler's filters or `keep`, and the number of remaining pixels."""
    reason, all_bins = np.zeros(n, np.int8), np.arange(n, dtype=np.int32)

    def leave_out(wrong: Any, code: int) -> None:
        """Set the reason of bins that have none yet."""
        reason[wrong & (reason == 0)] = code

    if min_nnz > 0:
        leave_out(pixels.sum_by_bin(all_bins) < min_nnz, MIN_NNZ)
    counts = pixels.sum_by_bin(all_bins, weigh=True) if min_count > 0 or mad_max else np.zeros(n)
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
    if keep is not None:
        leave_out(~keep.astype(np.bool_), NOT_KEPT)
    left = pixels.sum_by_bin(_compute_positions(reason == 0))
    leave_out(left == 0, EMPTY)
    return reason, left


def _balance_block(
    pixels: Pixels, low: int, high: int, bins: _Bins, s: Any, judge: Any, tol: float, max_iter: int | None
) -> tuple[Any, Any, tuple[Any, ...]]:
    """Balance the kept bins of one block; return their weights, proof marks, and the diagnostics of the block."""
    n, marks = len(s), np.zeros(len(s), np.int8)
    if n == 0:
        return np.nan, marks, (np.nan, np.nan, 0, ZERO_LINE)
    where = low, high, bins.place, int(bins.before[low])

    def classify_zeros() -> int:
        """Classify the zeros of the block and mark the bins of its proof; return the status."""
        found = judge(*pixels.list_bins(*where), n, s)
        marks[:] = found.rows + 2 * found.columns
        return int(found.status)

    task = symmetric_newton.SymmetricProblem(pixels.passes(*where, n), s, 0, tol, max_iter, classify_zeros)
    found = symmetric_newton.solve(task, int(bins.number[low:high].max()))
    if found.status not in (OK, MAX_ITER, UNDETERMINED):
        return np.nan, marks, (np.nan, np.nan, found.n_iter, found.status)
    return found.x, marks, (found.residual, found.worst, found.n_iter, found.status)
