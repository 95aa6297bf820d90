"""Prediction sets by the LAC score, one minus probability: comparisons of eight labels at a time, without a ranking."""

from cmfast.kernels.cpu._core.bits import popcount
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, bits, load, load_row, new_lines, some, splat, store, where
from cmfast.kernels.cpu.conformal import _bitsets
from cmfast.kernels.cpu.conformal._fixed_point import LEAST_SHARE, MOST_SHARE
from cmfast.kernels.cpu.conformal._single_row import SetResults, finish_set
from cmfast.kernels.cpu.conformal._strided_rows import ProbabilityRows, locate_row
from cmfast.kernels.status import INVALID, OK


@jit()
def fill_sets_by_lac(rows, q, rule, top1, out, start, stop):
    """Fill the sets of rows of at least eight classes; `q` is (batch, alpha, group, 1 or label)."""
    rows, out = ProbabilityRows(*rows), SetResults(*out)
    (_, A, G, labels), C = q.shape, rows.P.shape[1]
    limits, scores = q.reshape(-1, labels), new_lines(-(-C // WIDTH))
    for r in range(start, stop):
        at, b, i = locate_row(r, rows.n, rows.step), r // rows.n, r % rows.n
        g = rows.groups[at] if len(rows.groups) else 0
        good = _score_row(rows.P, at, C, scores) and 0 <= g < G
        out.status[r] = OK if good else INVALID
        for a in range(A):
            words, line = out.words[b * A + a, i], (b * A + a) * G + g
            if not good:
                _bitsets.set_all_bits(words, C)
                out.sizes[b * A + a, i] = C
                continue
            if labels > 1:
                size = _compare_by_label(scores, limits, line, C, words)
            else:
                size = _compare(scores, splat(limits[line, 0]), C, words)
            out.sizes[b * A + a, i] = size
            if top1 and size == 0:
                finish_set(rows.P[at], words, top1, out.sizes[b * A + a], i)


@jit(inner=True, borrows=True)
def _score_row(P, at, C, scores):
    """Write one minus the clamped probabilities of a row; return whether all are valid."""
    zero, one, bad = splat(0.0), splat(1.0), splat(0.0)
    for k in range(len(scores)):
        p = load_row(P, at, min(k * WIDTH, C - WIDTH))  # the last block overlaps the one before
        bad = where((p >= LEAST_SHARE) & (p <= MOST_SHARE), bad, one)
        store(scores, k, one - where(p > zero, where(p > one, one, p), zero))
    return not some(bad > zero)


@jit(inner=True, borrows=True)
def _compare(scores, limit, C, words):
    """Write the bits of the labels within one threshold; return their number."""
    size, last = 0, C // WIDTH
    for w in range(len(words)):
        word = 0
        for k in range(w * WIDTH, min((w + 1) * WIDTH, last)):
            word |= bits(~(load(scores, k) > limit)) << (k % WIDTH * WIDTH)
        if last < len(scores) and w == last // WIDTH:
            word |= (bits(~(load(scores, last) > limit)) >> (-C % WIDTH)) << (last % WIDTH * WIDTH)
        words[w] = word
        size += popcount(word)
    return size


@jit(inner=True, borrows=True)
def _compare_by_label(scores, limits, line, C, words):
    """Write the bits of the labels within a threshold of their own; return their number."""
    size = 0
    words[:] = 0
    for k in range(len(scores)):
        column = min(k * WIDTH, C - WIDTH)
        found = bits(~(load(scores, k) > load_row(limits, line, column))) >> (k * WIDTH - column)
        words[k // WIDTH] |= found << (k % WIDTH * WIDTH)
        size += popcount(found)
    return size
