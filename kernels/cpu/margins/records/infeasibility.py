"""Farkas certificates from combinations of the targets: no weights meet them, or some weights must be zero."""

import numpy as np

from cmfast.kernels.cpu.margins.records.linear_programs import SUMMATION_ROUNDING
from cmfast.kernels.cpu.margins.records.search import SUM_ROUNDING
from cmfast.kernels.cpu.margins.records.sparse_rows import DualCertificate, bound_sum, fix_zero_weights, multiply
from cmfast.kernels.shared.margins import LEAST_PROOF_GAP
from cmfast.kernels.status import INFEASIBLE, OK

ABSENT_WEIGHT_RATIO = 1e3  # weights this many times larger than the present ones count as impossible


def prove_infeasible(s, d, z):
    """Test whether the step or the multipliers prove that no weights meet the targets; stores the certificate.

    A soft target keeps at least its sign: a multiplier of that sign counts as that of a target of zero would.
    """
    hard = s.asked & s.hard
    if not (hard | s.may_turn).any():
        return False
    if s.p.distance.linear:
        return _prove_linear_infeasible(s, np.where(hard, d, 0.0))
    for one, along_one in ((d, z), (s.multipliers, s.z)):
        signed = hard | (s.may_turn & (np.sign(s.targets) * one > 0.0))
        for kept in (hard,) if (signed == hard).all() else (hard, signed):
            y, along_y = _restrict_certificate(s, one, along_one, kept)
            gap, size, *_ = _compute_certificate_gap(s, y, along_y)
            gap -= s.bound_removed_weights(along_y)
            if gap > LEAST_PROOF_GAP * size and gap > SUMMATION_ROUNDING * _bound_magnitude(s, y):
                s.proof[:] = y
                return True
    return False


def _restrict_certificate(s, y, z, kept):
    """Return a certificate restricted to the targets `kept`, and its product with the records."""
    y = np.where(kept, y, 0.0)
    if not kept[s.asked].all():
        z = np.empty(len(z))
        s.passes.multiply(y, z)
    return y, z


def _compute_certificate_gap(s, y, z):
    """Return the gap of a certificate (positive proves infeasibility), its scale, and its bounds.

    The gap is the combination of the targets less the most that weights can add up to, by their bounds or by their
    total. Also the two bounds less the combination, and the largest z.
    """
    products = np.where(s.asked & s.hard, s.targets, 0.0) * y
    size, product = float(np.abs(products).sum()), float(products.sum())
    by_bounds, top = bound_sum(z, s.q, s.p.low, s.p.high)
    by_total = (s.most_total if top > 0.0 else s.least_total) * top if top != 0.0 else 0.0
    return product - min(by_bounds, by_total), size, by_bounds - product, by_total - product, top


def _bound_magnitude(s, y):
    """Return an upper bound of the magnitudes in the sum of weights times a certificate, for rounding errors."""
    rows, p = s.p.rows, s.p
    sizes = np.empty(len(s.q))
    multiply(rows._replace(values=np.abs(rows.values)), np.abs(y), sizes, 0, len(sizes))
    return float((s.q * np.where(p.high < np.inf, p.high, np.maximum(p.low, 1.0))) @ sizes)


def _prove_linear_infeasible(s, y):
    """Test whether a combination of the columns is zero on every record but not on the targets; stores it if so."""
    rows = s.p.rows
    s.passes.multiply(y, s.scratch)
    sizes = np.empty(len(s.q))
    multiply(rows._replace(values=np.abs(rows.values)), np.abs(y), sizes, 0, len(sizes))
    products = np.where(s.asked & s.hard, s.targets, 0.0) * y
    if not abs(products.sum()) > ABSENT_WEIGHT_RATIO * float(np.maximum(s.q, np.abs(s.x)) @ np.abs(s.scratch)):
        return False  # weights not much larger than the present ones can produce the remaining sum
    alive = s.q > 0.0
    if np.abs(s.scratch[alive]).max(initial=0.0) > LEAST_PROOF_GAP * sizes[alive].max(initial=0.0):
        return False
    if not abs(products.sum()) > LEAST_PROOF_GAP * np.abs(products).sum():
        return False
    s.proof[:] = y
    return True


def remove_zero_weights(s, d, z):
    """Set to zero the weights that a Newton step proves to be zero; return OK, or INFEASIBLE with a certificate stored.

    Where this leaves no record for a target, the certificate is the step plus enough of that target.
    """
    if not (s.asked & s.hard).any():
        return OK
    before, asked = s.q.copy(), s.asked.copy()
    y, z = _restrict_certificate(s, d, z, s.asked & s.hard)
    _, size, by_bounds, by_total, top = _compute_certificate_gap(s, y, z)
    lost = SUM_ROUNDING * size + s.bound_removed_weights(z)
    certificate = DualCertificate(z, top, max(by_bounds, 0.0) + lost, max(by_total, 0.0) + lost)
    allowed = np.zeros(len(z)) if s.allowed is None else s.allowed
    found = fix_zero_weights(s.p.rows, s.q, s.p.low, s.targets, s.of_one_sign, certificate, allowed)
    s.removed += found
    s.allowed = allowed if found else s.allowed
    if found == 0 or s.drop_empty_targets() == OK:
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
