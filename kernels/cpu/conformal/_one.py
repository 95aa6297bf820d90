"""The sets of one row, whatever it adds up to, and with a threshold for each label."""

from typing import Any, NamedTuple

from cmfast.kernels.cpu._core.bits import popcount
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.conformal import _bits, _order
from cmfast.kernels.cpu.conformal._rows import place
from cmfast.kernels.cpu.conformal._units import WHOLE_UNITS, is_row, is_share, most_units, score, share, units
from cmfast.kernels.status import INVALID, OK


class SetResults(NamedTuple):
    """Sets of rows, for A thresholds of each of B elements of n rows."""

    words: Any  # int64, shape (B A, n, words): bits of the labels
    sizes: Any  # int64, shape (B A, n): labels in every set
    status: Any  # int8, shape (B n,): of every row


@jit(inner=True, borrows=True)
def first(row):
    """Return the first label of the ranking."""
    best = 0
    for j in range(1, len(row)):
        if share(row[j]) > share(row[best]):
            best = j
    return best


@jit(inner=True, borrows=True)
def _leading(ranking, filled, most, draw, penalty, k_reg):
    """Return how many of the labels of a row, in order, have a score of at most `most`, in units.

    Scores never fall along the ranking: a bucket whose last label may have at most that is in, one whose first label
    has more is out, and only between them are labels looked at one by one.
    """
    for part in range(filled):
        low, high, whole = ranking.starts[part], ranking.starts[part + 1], ranking.sums[part]
        if min(ranking.sums[part + 1], WHOLE_UNITS) + penalty * max(0, high - k_reg) <= most:
            continue
        if min(whole, WHOLE_UNITS) + penalty * max(0, low + 1 - k_reg) > most:
            return low
        _order.sort(ranking, part)
        for k in range(low, high):
            p = ranking.row[ranking.order[k]]
            if min(whole + units(draw * p), WHOLE_UNITS) + penalty * max(0, k + 1 - k_reg) > most:
                return k
            whole += units(p)
    return ranking.starts[filled]


@jit(inner=True, borrows=True)
def _one_by_one(ranking, filled, q, draw, penalty, k_reg, words):
    """Set the bits of the labels whose score does not exceed their own threshold."""
    for part in range(filled):
        _order.sort(ranking, part)
    whole = 0
    for k in range(ranking.starts[filled]):
        j = ranking.order[k]
        if not score(whole, k, ranking.row[j], draw, penalty, k_reg) > q[j]:
            _bits.put(words, j)
        whole += units(ranking.row[j])


@jit(inner=True, borrows=True)
def _most(limits):
    """Return the units of the largest of some thresholds; NaN excludes nothing."""
    most = most_units(limits[0])
    for k in range(1, len(limits)):
        most = max(most, most_units(limits[k]))
    return most


@jit(inner=True, borrows=True)
def finish(row, words, top1, sizes, i):
    """Count the labels of a set, and give an empty one the first label if that is wanted."""
    size = 0
    for w in range(len(words)):
        size += popcount(words[w])
    if top1 and size == 0 and len(row):
        _bits.put(words, first(row))
        size = 1
    sizes[i] = size


@jit(inner=True, borrows=True)
def fill_sets(rows, r, q, rule, top1, ranking, out):
    """Fill the sets of row `r` in the :class:`SetResults`; `q` has the shape (batch, alpha, group, 1 or label)."""
    at, b, i = place(r, rows.n, rows.step), r // rows.n, r % rows.n
    draw, g = rows.draws[at] if len(rows.draws) else 1.0, rows.groups[at] if len(rows.groups) else 0
    row, penalty, k_reg = rows.P[at], rule.penalty, rule.k_reg
    C, A, by_label = len(row), q.shape[1], q.shape[3] > 1
    good = is_row(row) and is_share(draw) and 0 <= g < q.shape[2]
    filled = 0
    if good and not rule.lac:
        most = _most(q[b, 0, g])
        for a in range(1, A):
            most = max(most, _most(q[b, a, g]))
        filled = _order.arrange(row, most, penalty, k_reg, ranking)
    for a in range(A):
        words = out.words[b * A + a, i]
        if not good:
            _bits.put_all(words, C)
            out.sizes[b * A + a, i] = C
            continue
        words[:] = 0
        limits = q[b, a, g]
        if rule.lac:
            for j in range(C):
                if not 1.0 - share(row[j]) > limits[j if by_label else 0]:
                    _bits.put(words, j)
        elif by_label:
            _one_by_one(ranking, filled, limits, draw, penalty, k_reg, words)
        else:
            size = _leading(ranking, filled, most_units(limits[0]), draw, penalty, k_reg)
            if size == C:
                _bits.put_all(words, C)
            else:
                for k in range(size):
                    _bits.put(words, ranking.order[k])
        finish(row, words, top1, out.sizes[b * A + a], i)
    out.status[r] = OK if good else INVALID
