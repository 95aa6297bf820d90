"""Prediction sets of a single row: the general path for any row sum and for thresholds per label."""

from typing import Any, NamedTuple

from cmfast.kernels.cpu._core.bits import popcount
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.conformal import _bitsets, _ranking
from cmfast.kernels.cpu.conformal._fixed_point import (
    SCORE_UNIT,
    UNLIMITED_UNITS,
    WHOLE_UNITS,
    clamp_share,
    find_largest_units,
    is_row,
    is_share,
    round_to_units,
    score_label,
    score_rank,
)
from cmfast.kernels.cpu.conformal._strided_rows import locate_row
from cmfast.kernels.shared.conformal import SAPS, TOP_K
from cmfast.kernels.status import INVALID, OK


class SetResults(NamedTuple):
    """Output arrays of prediction sets, for A thresholds of each of B batch elements of n rows."""

    words: Any  # int64, shape (B A, n, words): bits of the labels
    sizes: Any  # int64, shape (B A, n): labels in every set
    status: Any  # int8, shape (B n,): of every row


@jit(inner=True, borrows=True)
def find_top_label(row):
    """Return the top label of a row: the largest probability, ties by label."""
    best = 0
    for j in range(1, len(row)):
        if clamp_share(row[j]) > clamp_share(row[best]):
            best = j
    return best


@jit(inner=True, borrows=True)
def _count_included(ranking, filled, most, draw, penalty, k_reg):
    """Return how many labels of a row, ranked by probability, score at most `most` units of 2^-52.

    Scores never decrease along the ranking, so whole buckets are in or out by their last or first label; only the
    bucket at the boundary is sorted and searched.
    """
    for part in range(filled):
        low, high, whole = ranking.starts[part], ranking.starts[part + 1], ranking.sums[part]
        if min(ranking.sums[part + 1], WHOLE_UNITS) + penalty * max(0, high - k_reg) <= most:
            continue
        if min(whole, WHOLE_UNITS) + penalty * max(0, low + 1 - k_reg) > most:
            return low
        _ranking.sort_bucket(ranking, part)
        for k in range(low, high):
            p = ranking.row[ranking.order[k]]
            if min(whole + round_to_units(draw * p), WHOLE_UNITS) + penalty * max(0, k + 1 - k_reg) > most:
                return k
            whole += round_to_units(p)
    return ranking.starts[filled]


@jit(inner=True, borrows=True)
def _include_by_label(ranking, filled, q, draw, penalty, k_reg, words):
    """Set the bits of the labels whose score does not exceed their own threshold."""
    for part in range(filled):
        _ranking.sort_bucket(ranking, part)
    whole = 0
    for k in range(ranking.starts[filled]):
        j = ranking.order[k]
        if not score_label(whole, k, ranking.row[j], draw, penalty, k_reg) > q[j]:
            _bitsets.set_bit(words, j)
        whole += round_to_units(ranking.row[j])


@jit(inner=True, borrows=True)
def count_ranks_included(C, limit, largest, draw, method, penalty):
    """Return how many labels of a row have a SAPS or top-k score of at most `limit`.

    From the second rank on, scores have equal steps, so that their number is known up to rounding.
    """
    step = 1.0 if method == TOP_K else float(max(penalty, 1)) * SCORE_UNIT
    estimate = (limit - score_rank(method, 1, largest, draw, penalty)) / step + 2.0
    size = C if not estimate < C else int(estimate) if estimate > 0.0 else 0
    while size < C and not score_rank(method, size, largest, draw, penalty) > limit:
        size += 1
    while size > 0 and score_rank(method, size - 1, largest, draw, penalty) > limit:
        size -= 1
    return size


@jit(inner=True, borrows=True)
def _fill_set_by_rank(row, limits, draw, rule, filled, ranking, words):
    """Set the bits of the labels whose SAPS or top-k score is within their threshold, one for all or by class."""
    C, largest = len(row), clamp_share(row[find_top_label(row)])
    if len(limits) == 1:
        size = count_ranks_included(C, limits[0], largest, draw, rule.method, rule.penalty)
        if size == C:
            _bitsets.set_all_bits(words, C)
            return
        for part in range(filled):
            if ranking.starts[part] < size < ranking.starts[part + 1]:
                _ranking.sort_bucket(ranking, part)
        for k in range(size):
            _bitsets.set_bit(words, ranking.order[k])
        return
    for part in range(filled):
        _ranking.sort_bucket(ranking, part)
    for k in range(C):
        if not score_rank(rule.method, k, largest, draw, rule.penalty) > limits[ranking.order[k]]:
            _bitsets.set_bit(words, ranking.order[k])


@jit(inner=True, borrows=True)
def _find_largest_threshold(limits):
    """Return the largest of some thresholds in units of 2^-52; NaN counts as unlimited."""
    most = find_largest_units(limits[0])
    for k in range(1, len(limits)):
        most = max(most, find_largest_units(limits[k]))
    return most


@jit(inner=True, borrows=True)
def finish_set(row, words, top1, sizes, i):
    """Count the labels of a set, and if `top1` is set give an empty one its top label."""
    size = 0
    for w in range(len(words)):
        size += popcount(words[w])
    if top1 and size == 0 and len(row):
        _bitsets.set_bit(words, find_top_label(row))
        size = 1
    sizes[i] = size


@jit(inner=True, borrows=True)
def fill_sets(rows, r, q, rule, top1, ranking, out):
    """Fill the sets of row `r` by any method but LAC; `q` is (batch, alpha, group, 1 or label)."""
    at, b, i = locate_row(r, rows.n, rows.step), r // rows.n, r % rows.n
    draw, g = rows.draws[at] if len(rows.draws) else 1.0, rows.groups[at] if len(rows.groups) else 0
    row, penalty, k_reg = rows.P[at], rule.penalty, rule.k_reg
    C, A, by_label = len(row), q.shape[1], q.shape[3] > 1
    good = is_row(row) and is_share(draw) and 0 <= g < q.shape[2]
    filled = 0
    if good and rule.method >= SAPS:
        filled = _ranking.bucket_labels(row, UNLIMITED_UNITS, 0, 0, ranking)
    elif good:
        most = _find_largest_threshold(q[b, 0, g])
        for a in range(1, A):
            most = max(most, _find_largest_threshold(q[b, a, g]))
        filled = _ranking.bucket_labels(row, most, penalty, k_reg, ranking)
    for a in range(A):
        words = out.words[b * A + a, i]
        if not good:
            _bitsets.set_all_bits(words, C)
            out.sizes[b * A + a, i] = C
            continue
        words[:] = 0
        limits = q[b, a, g]
        if rule.method >= SAPS:
            _fill_set_by_rank(row, limits, draw, rule, filled, ranking, words)
        elif by_label:
            _include_by_label(ranking, filled, limits, draw, penalty, k_reg, words)
        else:
            size = _count_included(ranking, filled, find_largest_units(limits[0]), draw, penalty, k_reg)
            if size == C:
                _bitsets.set_all_bits(words, C)
            else:
                for k in range(size):
                    _bitsets.set_bit(words, ranking.order[k])
        finish_set(row, words, top1, out.sizes[b * A + a], i)
    out.status[r] = OK if good else INVALID
