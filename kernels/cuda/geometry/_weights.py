"""Fixed-point weights on the device, with the bits of the CPU, and conversion of their sums to float64.

The integer format follows from six values per table, which are copied to the host; no table is.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cuda._core import batches
from cmfast.kernels.cuda._core.module import Kernel, library
from cmfast.kernels.cuda.geometry._entries import Entries
from cmfast.kernels.shared import geometry_weights
from cmfast.kernels.shared.geometry_weights import FixedPoint, WeightSummary

_SUMMARY = Kernel("geometry/counts", "cmfast_gcm_summary")
_INTEGERS = Kernel("geometry/counts", "cmfast_gcm_integers")
_ROUND = Kernel("geometry/counts", "cmfast_gcm_round")
_ROUND_LIMBS = Kernel("geometry/counts", "cmfast_gcm_round_limbs")
KERNELS = (_SUMMARY, _INTEGERS, _ROUND, _ROUND_LIMBS)

WORD = 64  # bits
_NEVER = np.iinfo(np.int64).max
NOTHING = (0, _NEVER, -1, _NEVER, 0, _NEVER)


class WeightTable(NamedTuple):
    """A table of fixed-point weights `q`, (K, C, C): limbs, lowest first, just one if `form.width` is 0.

    `words` has the same integers as one word, (C, C), or two, (C, C, 2), lower one first; None if these are too narrow
    for sums. All are None for an invalid table.
    """

    q: Any
    form: FixedPoint | None
    words: Any


def quantise(weights: list[Any], M: Any) -> list[WeightTable]:
    """Return tables (C, C) of any real type in fixed point for counts `M`; synchronises."""
    xp, C = library(M), len(M)
    W = xp.empty((len(weights), C, C), np.float64)
    for k, table in enumerate(weights):
        W[k] = table
    M = xp.ascontiguousarray(M)
    forms = [geometry_weights.choose_format(found) for found in _summarize_tables(W, M)]
    return [
        WeightTable(None, None, None) if form is None else _make_table(W[k], M, form) for k, form in enumerate(forms)
    ]


def _make_table(W: Any, M: Any, form: FixedPoint) -> WeightTable:
    """Convert one table to fixed point: to limbs, and to words if two are wide enough."""
    q = _convert_weights(W, M, form)
    if not form.width:
        return WeightTable(q, form, q[0])
    if form.bits > 2 * WORD:
        return WeightTable(q, form, None)
    words = library(M).empty((*M.shape, 2), np.int64)
    words[..., 0], words[..., 1] = _convert_weights(W, M, form._replace(width=WORD, limbs=2))
    return WeightTable(q, form, words)


def _summarize_tables(W: Any, M: Any) -> list[WeightSummary]:
    """Return the :class:`WeightSummary` of every table; synchronises."""
    xp, (n, C, _) = library(M), W.shape
    found = xp.asarray(np.tile(np.array(NOTHING), (n, 1)))
    if W.size:
        lines = 2 * n * C
        _SUMMARY.launch((), batches.item_blocks(lines), W=W, M=M, n=lines, n_classes=C, out_found=found)
    *numbers, total = xp.concatenate([found.ravel(), M.sum().reshape(1)]).get().tolist()  # synchronises
    ends = range(0, len(numbers) + 1, len(NOTHING))
    return [_make_summary(numbers[a:b], total) for a, b in pairwise(ends)]


def _make_summary(numbers: list[int], total: int) -> WeightSummary:
    """Build a :class:`WeightSummary` from the values that the kernel found."""
    bad, low, high, smallest, top, first = numbers
    weight = [np.array(bits).view(np.float64)[()] for bits in (low, smallest, top)]
    if first == _NEVER:
        return WeightSummary(not bad, True, 0.0, 0.0, 0.0, 0)
    one = float(np.copysign(weight[0], -1.0 if first & 1 else 1.0))
    return WeightSummary(not bad, low == high, one, float(weight[1]), float(weight[2]), total)


def _convert_weights(W: Any, M: Any, form: FixedPoint) -> Any:
    """Return one table as fixed-point integers in the given format."""
    out = library(M).empty((form.limbs, *M.shape), np.int64)
    n = M.size
    if n:
        _INTEGERS.launch(
            (), batches.item_blocks(n),
            W=W, M=M, n=n, equal=form.equal, shift=form.shift, width=form.width, limbs=form.limbs, out=out,
        )  # fmt: skip
    return out


def convert_sums(sums: Any, forms: list[FixedPoint | None]) -> Any:
    """Return single-limb integer sums (..., W, items) as float64, each in the format of its table.

    Each is rounded once, and once more by an equal weight; NaN without a format.
    """
    xp, items = library(sums), sums.shape[-1]
    sums = xp.ascontiguousarray(sums)
    out = xp.empty(sums.shape, np.float64)
    if sums.size:
        shift = xp.asarray(np.array([0 if form is None else form.shift for form in forms], np.int32))
        scale = xp.asarray(np.array([np.nan if form is None else form.scale for form in forms]))
        _ROUND.launch(
            (), batches.item_blocks(sums.size),
            sums=sums, n=sums.size, cells=items, tables=len(forms), shift=shift, scale=scale, out=out,
        )  # fmt: skip
    return out


def convert_limb_sums(sums: Any, form: FixedPoint) -> Any:
    """Return normalised multi-limb sums (K, ...) as float64, each rounded once."""
    xp = library(sums)
    out = xp.empty(sums.shape[1:], np.float64)
    if out.size:
        _ROUND_LIMBS.launch(
            (), batches.item_blocks(out.size),
            sums=xp.ascontiguousarray(sums), n=out.size, limbs=len(sums), width=form.width, shift=form.shift, out=out,
        )  # fmt: skip
    return out


def propagate_carries(sums: Any, width: int) -> Any:
    """Propagate carries of multi-limb sums (K, ...), so that all limbs but the highest are below ``2**width``."""
    out = library(sums).empty(sums.shape, np.int64)
    carry: Any = 0
    for k in range(len(sums)):
        total = sums[k] + carry
        out[k], carry = total, total >> width
        if k < len(sums) - 1:
            out[k] = total & ((1 << width) - 1)
    return out


def split_words(sums: Any, form: FixedPoint) -> Any:
    """Return nonnegative sums of two words (..., 2) as limbs of a format, (K, ...)."""
    xp, (low, high) = library(sums), (sums[..., k].view(np.uint64) for k in (0, 1))
    out = xp.empty((form.limbs, *low.shape), np.int64)
    for k, start in enumerate(range(0, form.limbs * form.width, form.width)):
        rest = high >> start - WORD if start >= WORD else low >> start | high << WORD - start if start else low
        out[k] = (rest & ((1 << form.width) - 1)).astype(np.int64)
    return out


def find_minima(rows: Any, columns: Any) -> Any:
    """Return the smaller of a row and a column sum for every pair, in normalised limbs: (K, n, n)."""
    xp, (limbs, n) = library(rows), rows.shape
    less = xp.zeros((n, n), np.bool_)
    for r, c in zip(rows, columns, strict=True):  # higher limbs decide
        less = xp.where(r[:, None] == c[None, :], less, r[:, None] < c[None, :])
    out = xp.empty((limbs, n, n), np.int64)
    for k in range(limbs):
        out[k] = xp.where(less, rows[k][:, None], columns[k][None, :])
    return out


def weigh_runs(keys: Any, counts: Any, half: int, q: Any) -> list[Any]:
    """Return the fixed-point weighted count of every run, one array per limb."""
    mask = (1 << half) - 1
    cell = (keys >> half & mask) * q.shape[-1] + (keys & mask)
    return [limb.ravel()[cell] * counts for limb in q]


def sum_heights(side: Entries, masses: list[Any], width: int) -> Any:
    """Return the multi-limb heights (K, entries) of a histogram side."""
    heights = library(masses[0]).empty((len(masses), len(side.tags)), np.int64)
    for k, mass in enumerate(masses):
        heights[k] = side.heights(mass)
    return propagate_carries(heights, width)
