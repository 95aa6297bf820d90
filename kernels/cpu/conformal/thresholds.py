"""Conformal quantiles: the score of a given rank in each group, by selection, sorting network or histogram."""

import math

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, load, load_block, new_lines, splat, store, where
from cmfast.kernels.cpu.conformal import _sorting_network
from cmfast.kernels.status import INVALID, OK, ZERO_LINE

SECONDS_PER_SCORE = 1.5e-8
SECONDS_PER_SORTED = 4e-9  # per score, eight rows at a time
WEIGHT_BITS = 36  # of the largest calibration weight
MOST_WEIGHT_BITS = 61  # of a new weight: a larger one counts as this, and its threshold is infinity
SEED = np.uint64(88172645463325252)  # of the choice of pivots
SAMPLED = 256  # values of a sample from which a pivot is taken
MOST_QUICK = 2048  # values up to which pivots are medians of three
MOST_SORTED = 1024  # scores of a row for which eight rows are sorted together


@jit(inner=True)
def _draw(seed):
    """Return the next state of a xorshift generator."""
    seed ^= seed << np.uint64(13)
    seed ^= seed >> np.uint64(7)
    return seed ^ (seed << np.uint64(17))


@jit(inner=True)
def _select_few(v, low, high, k):
    """Partition ``v[low:high]`` in place so that index `k` holds what sorting would put there (quickselect)."""
    seed = SEED
    while high - low > 1:
        seed = _draw(seed)
        step = np.uint64(high - low)
        a, b = v[low + np.int64(seed % step)], v[low + np.int64((seed >> np.uint64(20)) % step)]
        c = v[(low + high) // 2]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = low, high - 1
        while i <= j:
            while v[i] < pivot:
                i += 1
            while v[j] > pivot:
                j -= 1
            if i <= j:
                v[i], v[j] = v[j], v[i]
                i += 1
                j -= 1
        if k <= j:
            high = j + 1
        elif k >= i:
            low = i
        else:
            return


@jit(inner=True)
def _select(v, low, high, k):
    """Partition ``v[low:high]`` in place so that index `k` holds what sorting would put there (Floyd and Rivest 1975).

    Pivots are values of a sample near the rank. Values below the pivot are moved to the front, without branches; if
    none is, those equal to it.
    """
    seed, is_least, pivot = SEED, False, 0.0
    while True:
        place, end = k, high
        is_sampled = high - low > MOST_QUICK
        if is_sampled:
            for i in range(low, low + SAMPLED):
                seed = _draw(seed)
                j = low + np.int64(seed % np.uint64(high - low))
                v[i], v[j] = v[j], v[i]
            share = (k - low) / (high - low)
            # Two standard deviations from the rank, so that it is in the smaller part.
            apart = 2.0 * np.sqrt(SAMPLED * share * (1.0 - share)) + 1.0
            place = np.int64(share * SAMPLED + (apart if share < 0.5 else -apart))
            place, end = low + min(max(place, 0), SAMPLED - 1), low + SAMPLED
        _select_few(v, low, end, place)
        if not is_sampled:
            return
        pivot = np.nextafter(pivot, np.inf) if is_least else v[place]
        end = low
        for i in range(low, high):
            x = v[i]
            v[i] = v[end]
            v[end] = x
            end += x < pivot
        if is_least and (k < end or pivot == np.inf):
            return
        if k < end:
            high, is_least = end, False
        else:
            low, is_least = end, end == low


@jit(inner=True)
def _normalize_score(x):
    """Return a score, where NaN is infinity and -0 is 0."""
    return np.inf if np.isnan(x) else x + 0.0


@jit(inner=True)
def _collect_between(s, lowest, highest, values):
    """Copy the scores of a row between two ranks to the front of `values`; return how many, and how many are lower.

    A sample of the row shows from where and up to where. If it misleads, all are copied.
    """
    n, count, lower, least, most, seed = len(s), 0, 0, -np.inf, np.inf, SEED
    if n > MOST_QUICK:
        for i in range(SAMPLED):
            seed = _draw(seed)
            values[i] = _normalize_score(s[np.int64(seed % np.uint64(n))])
        first, last = _find_sampled_rank((lowest - 1) / n, -1.0), _find_sampled_rank((highest - 1) / n, 1.0)
        if first >= 0:
            _select_few(values, 0, SAMPLED, first)
            least = values[first]
        if last < SAMPLED:
            _select_few(values, max(first, 0), SAMPLED, last)
            most = values[last]
    if lowest + highest > n:  # most scores are lower: they leave first
        for i in range(n):
            x = _normalize_score(s[i])
            values[count] = x
            count += x >= least
        lower = n - count
        count = _keep(values, count, most, False)
    else:
        for i in range(n):
            x = _normalize_score(s[i])
            values[count] = x
            count += x <= most
        below = count
        count = _keep(values, count, least, True)
        lower = below - count
    if lower < lowest and lower + count >= highest:
        return count, lower
    for i in range(n):
        values[i] = _normalize_score(s[i])
    return n, 0


@jit(inner=True)
def _keep(values, n, limit, is_least):
    """Move the first `n` values that are not beyond a limit to the front; return their number."""
    count = 0
    for i in range(n):
        x = values[i]
        values[count] = x
        count += x >= limit if is_least else x <= limit
    return count


@jit(inner=True)
def _find_sampled_rank(share, side):
    """Return the rank in the sample of a share of all scores, three standard deviations to the side of safety."""
    away = 3.0 * np.sqrt(SAMPLED * share * (1.0 - share)) + 1.0
    return np.int64(np.floor(share * SAMPLED + side * away))


@jit(inner=True)
def _group_scores(s, groups, values, starts, status):
    """Group scores contiguously (counting sort), NaN as infinity; scores with an invalid group are left out."""
    n_groups = len(starts) - 1
    starts[:] = 0
    for i in range(len(groups)):
        good = 0 <= groups[i] < n_groups
        status[i] = OK if good else INVALID
        if good:
            starts[groups[i] + 1] += 1
    for g in range(n_groups):
        starts[g + 1] += starts[g]
    for i in range(len(groups)):
        g = groups[i]
        if 0 <= g < n_groups:
            values[starts[g]] = _normalize_score(s[i])
            starts[g] += 1
    for g in range(n_groups, 0, -1):
        starts[g] = starts[g - 1]
    starts[0] = 0


@jit()
def _select_thresholds(s, groups, ranks, turn, results, start, stop):
    """Select the scores of given ranks in every group; `ranks` has a column per group size, or just one.

    The results are thresholds (B, alpha, group), the status of groups and that of scores.
    """
    out, out_status, out_rows = results
    n, n_groups = s.shape[1], out.shape[2]
    values, starts = np.empty(n), np.empty(n_groups + 1, np.int64)
    for b in range(start, stop):
        lower = 0  # scores that are left out, of a low rank
        if len(groups):
            _group_scores(s[b], groups[b], values, starts, out_rows[b])
        else:
            out_rows[b] = OK
            starts[0], starts[1] = 0, 0
            first, last = ranks[turn[0], 0], 0
            for a in turn:
                last = ranks[a, 0] if ranks[a, 0] <= n else last
            if last > 0:
                starts[1], lower = _collect_between(s[b], first, last, values)
        for g in range(n_groups):
            low, high = starts[g], starts[g + 1]
            held = high - low if len(groups) else n
            out_status[b, g] = ZERO_LINE if len(groups) and not held else OK
            for a in turn:  # in ascending rank, so that the search range shrinks
                k = ranks[a, held if len(groups) else 0]
                if k > held:
                    out[b, a, g] = np.inf
                else:
                    position = starts[g] + k - 1 - lower
                    _select(values, low, high, position)
                    out[b, a, g] = values[position]
                    low = position


@jit()
def _sort_thresholds(s, ranks, out, start, stop):
    """Select the scores of given ranks in rows of few scores without groups, sorting eight rows together."""
    n, zero, infinity = s.shape[1], splat(0.0), splat(np.inf)
    depth = -(-n // WIDTH) * WIDTH
    lines = new_lines(depth)
    for first in range(start, stop, WIDTH):
        count = min(WIDTH, stop - first)
        last = first + count - 1
        rows = (
            first,
            min(first + 1, last),
            min(first + 2, last),
            min(first + 3, last),
            min(first + 4, last),
            min(first + 5, last),
            min(first + 6, last),
            min(first + 7, last),
        )
        for column in range(0, n - WIDTH + 1, WIDTH):
            load_block(lines, column, s, rows, column)
        load_block(lines, n - WIDTH, s, rows, n - WIDTH)
        for k in range(n):
            one = load(lines, k)
            store(lines, k, where(one <= infinity, one + zero, infinity))  # NaN becomes infinity, -0 becomes 0
        for k in range(n, depth):
            store(lines, k, splat(-np.inf))
        _sorting_network.sort_lanes(lines, depth)
        for w in range(count):
            for a in range(len(ranks)):
                k = ranks[a, 0]
                out[first + w, a, 0] = lines[n - k, w] if k <= n else np.inf


def _flatten_rows(s, dtype):
    """Return an array as a read-only C-contiguous matrix of its last axis."""
    flat = np.ascontiguousarray(s, dtype).reshape(math.prod(s.shape[:-1]), s.shape[-1])
    flat.setflags(write=False)
    return flat


def threshold(s, groups, *, ranks, turn, n_groups, num_threads=None):
    """Return the scores of the given ranks in every group of every row, and the status of groups and scores."""
    batch, flat = s.shape[:-1], _flatten_rows(s, np.float64)
    labels = np.empty((0, 0), np.int64) if groups is None else _flatten_rows(groups, np.int64)
    labels.setflags(write=False)
    out = np.empty((len(flat), len(ranks), n_groups))
    shape = (*batch, len(ranks), n_groups)
    if groups is None and WIDTH <= s.shape[-1] <= MOST_SORTED and len(flat) >= WIDTH:
        seconds = flat.size * SECONDS_PER_SORTED
        pool.run(_sort_thresholds, (flat, ranks, out), len(flat), seconds=seconds, tile=WIDTH, num_threads=num_threads)
        return out.reshape(shape), np.zeros((*batch, n_groups), np.int8), np.zeros(s.shape, np.int8)
    status, each = np.empty((len(flat), n_groups), np.int8), np.empty(flat.shape, np.int8)
    args = (flat, labels, ranks, turn, (out, status, each))
    pool.run(_select_thresholds, args, len(flat), seconds=flat.size * SECONDS_PER_SCORE, num_threads=num_threads)
    return out.reshape(shape), status.reshape(*batch, n_groups), each.reshape(s.shape)


@jit(inner=True)
def find_bin(s, width, bins):
    """Return the histogram bin whose upper edge is the first not below `s`; bin `bins` holds NaN and larger scores."""
    if not s <= width * bins:  # NaN too
        return bins
    at = min(max(np.int64(s / width), 0), bins - 1)
    while (at + 1) * width < s:
        at += 1
    while at > 0 and at * width >= s:
        at -= 1
    return at


@jit()
def _count_scores(s, width, out, start, stop):
    """Count the scores of rows `start` to `stop` by bin."""
    bins = out.shape[1] - 1
    for b in range(start, stop):
        out[b] = 0
        for i in range(s.shape[1]):
            out[b, find_bin(s[b, i], width, bins)] += 1


def score_histogram(s, *, bins, width, num_threads=None):
    """Return the histogram of the scores of every row; one more bin holds scores beyond the last edge."""
    flat = _flatten_rows(s, np.float64)
    out = np.empty((len(flat), bins + 1), np.int64)
    seconds = (flat.size + out.size) * SECONDS_PER_SCORE / 3
    pool.run(_count_scores, (flat, width, out), len(flat), seconds=seconds, num_threads=num_threads)
    return out.reshape(*s.shape[:-1], bins + 1)


def weighted_threshold(s, weights, new_weights, *, alphas):
    """Return the weighted quantile of the scores of every row for each new weight, and the status of new weights.

    The quantile is the smallest score t such that the weights of larger scores, and the new weight, which counts for a
    score of infinity, sum to at most alpha times the sum of all weights (Tibshirani et al. 2019). Weights are rounded
    to integers, so that comparisons are exact.
    """
    batch, n, m = s.shape[:-1], s.shape[-1], new_weights.shape[-1]
    rows = math.prod(batch)
    held, parts = s.reshape(rows, n).astype(np.float64), weights.reshape(rows, n).astype(np.float64)
    news = new_weights.reshape(rows, m).astype(np.float64)
    out, status = np.full((rows, len(alphas), m), np.inf), np.full((rows, m), OK, np.int8)
    for b in range(rows):
        is_good = (news[b] >= 0) & (news[b] < np.inf)
        if not ((parts[b] >= 0) & (parts[b] < np.inf)).all():
            is_good[:] = False
        status[b, ~is_good] = INVALID
        largest = parts[b].max(initial=0.0)
        if not is_good.any() or not largest:
            continue  # the threshold is infinity
        shift = min(WEIGHT_BITS, 60 - n.bit_length()) - np.frexp(largest)[1]
        order = held[b].argsort(kind="stable")
        reached = np.cumsum(np.rint(np.ldexp(parts[b][order], shift)).astype(np.int64))
        ranked = np.append(np.where(np.isnan(held[b][order]), np.inf, held[b][order]) + 0.0, np.inf)
        with np.errstate(over="ignore"):
            own = np.rint(np.minimum(np.ldexp(news[b][is_good], shift), 2.0**MOST_WEIGHT_BITS)).astype(np.int64)
        totals = reached[-1] + own
        for a, (numerator, denominator) in enumerate(alphas):
            wanted = totals - _multiply_fraction(totals, numerator, denominator)
            out[b, a, is_good] = ranked[reached.searchsorted(wanted, side="left")]
    return out.reshape(*batch, len(alphas), m), status.reshape(new_weights.shape)


def _multiply_fraction(totals, numerator, denominator):
    """Return the integer part of totals * numerator / denominator, which is below 1, without overflow."""
    if denominator < 2**31:
        whole, rest = np.divmod(totals, denominator)
        return whole * numerator + rest * numerator // denominator
    return np.array([total * numerator // denominator for total in totals.tolist()], np.int64)
