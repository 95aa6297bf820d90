"""Farkas certificates from combinations of the targets: no weights meet them, or some weights must be zero."""

import numpy as np

from cmfast.kernels.cpu.margins.records.linear_programs import SUMMATION_ROUNDING
from cmfast.kernels.cpu.margins.records.search import SUM_ROUNDING
from cmfast.kernels.cpu.margins.records.sparse_rows import DualCertificate, bound_sum, fix_zero_weights, multiply
from cmfast.kernels.shared.margins import LEAST_PROOF_GAP, LINEAR
from cmfast.kernels.status import INFEASIBLE, OK

ABSENT_WEIGHT_RATIO = 1e3  # times the weights, of those that count as none


def refuted(s, d, z):
    """Return whether a step or the multipliers prove that no weights have these totals; keep them if so.

    What need not be met keeps its sign at least: a multiplier of that sign counts, as that of a target of zero would.
    """
    hard = s.asked & s.hard
    if not (hard | s.may_turn).any():
        return False
    if s.p.rule == LINEAR:
        return _contradicts(s, np.where(hard, d, 0.0))
    for one, along_one in ((d, z), (s.multipliers, s.z)):
        signed = hard | (s.may_turn & (np.sign(s.targets) * one > 0.0))
        for kept in (hard,) if (signed == hard).all() else (hard, signed):
            y, along_y = _kept(s, one, along_one, kept)
            gap, size, *_ = _gap(s, y, along_y)
            gap -= s.bound_removed(along_y)
            if gap > LEAST_PROOF_GAP * size and gap > SUMMATION_ROUNDING * _magnitude(s, y):
                s.proof[:] = y
                return True
    return False


def _kept(s, y, z, kept):
    """Return what a combination is without some of the targets."""
    y = np.where(kept, y, 0.0)
    if not kept[s.asked].all():
        z = np.empty(len(z))
        s.passes.multiply(y, z)
    return y, z


def _gap(s, y, z):
    """Return how much more a combination of the targets is than weights can add up to, and of what size it is.

    And what weights can add up to by their bounds and by their total, less that, and the largest z.
    """
    products = np.where(s.asked & s.hard, s.targets, 0.0) * y
    size, product = float(np.abs(products).sum()), float(products.sum())
    by_bounds, top = bound_sum(z, s.q, s.p.low, s.p.high)
    by_total = (s.most_total if top > 0.0 else s.least_total) * top if top != 0.0 else 0.0
    return product - min(by_bounds, by_total), size, by_bounds - product, by_total - product, top


def _magnitude(s, y):
    """Return what bounded weights times a combination add up to at most, signs aside: what rounding is relative to."""
    rows, p = s.p.rows, s.p
    sizes = np.empty(len(s.q))
    multiply(rows._replace(values=np.abs(rows.values)), np.abs(y), sizes, 0, len(sizes))
    return float((s.q * np.where(p.high < np.inf, p.high, np.maximum(p.low, 1.0))) @ sizes)


def _contradicts(s, y):
    """Return whether a combination of the columns is zero on every record, but not of their targets."""
    rows = s.p.rows
    s.passes.multiply(y, s.scratch)
    sizes = np.empty(len(s.q))
    multiply(rows._replace(values=np.abs(rows.values)), np.abs(y), sizes, 0, len(sizes))
    products = np.where(s.asked & s.hard, s.targets, 0.0) * y
    if not abs(products.sum()) > ABSENT_WEIGHT_RATIO * float(np.maximum(s.q, np.abs(s.x)) @ np.abs(s.scratch)):
        return False  # weights not much larger than these have what is left of such a sum
    alive = s.q > 0.0
    if np.abs(s.scratch[alive]).max(initial=0.0) > LEAST_PROOF_GAP * sizes[alive].max(initial=0.0):
        return False
    if not abs(products.sum()) > LEAST_PROOF_GAP * np.abs(products).sum():
        return False
    s.proof[:] = y
    return True


def remove(s, d, z):
    """Take the weight from records of which a step proves that they have none; return OK, or why that cannot be.

    Where it leaves nothing for a target, the step with as much more of that as no other record minds is the proof.
    """
    if not (s.asked & s.hard).any():
        return OK
    before, asked = s.q.copy(), s.asked.copy()
    y, z = _kept(s, d, z, s.asked & s.hard)
    _, size, by_bounds, by_total, top = _gap(s, y, z)
    lost = SUM_ROUNDING * size + s.bound_removed(z)
    certificate = DualCertificate(z, top, max(by_bounds, 0.0) + lost, max(by_total, 0.0) + lost)
    allowed = np.zeros(len(z)) if s.allowed is None else s.allowed
    found = fix_zero_weights(s.p.rows, s.q, s.p.low, s.targets, s.of_one_sign, certificate, allowed)
    s.removed += found
    s.allowed = allowed if found else s.allowed
    if found == 0 or s.open() == OK:
        return OK
    empty = int(np.flatnonzero(asked & ~s.asked & s.hard & (s.targets != 0.0))[0])
    only = np.zeros(len(y))
    only[empty] = 1.0
    s.passes.multiply(only, s.scratch)
    used = (before > 0.0) & (s.scratch != 0.0)
    below = (top if by_total <= by_bounds else 0.0) - z[used]
    y[empty] += np.sign(s.targets[empty]) * (below / np.abs(s.scratch[used])).min()
    s.proof[:] = y
    return INFEASIBLE
