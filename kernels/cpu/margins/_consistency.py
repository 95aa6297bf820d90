"""Reconcile margins on their shared axes: scale them so that common sums agree, for tables and for records."""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.shared.margins import MOST_ROUNDED_GAP, RECONCILE_ROUNDS
from cmfast.kernels.shared.scaling import TOTALS_RTOL
from cmfast.kernels.status import OK, TOTALS


@jit()
def reconcile(layout, targets):
    """Scale margins so that their sums over shared axes agree, in place.

    Return OK, or TOTALS where they differ too much.
    """
    for number in range(RECONCILE_ROUNDS):
        changed = False
        for p in range(len(layout.pairs)):
            a, b, n = layout.pairs[p, 0], layout.pairs[p, 1], layout.pairs[p, 2]
            one = sum_shared(layout, targets, a, layout.pairs[p, 3], n)
            other = sum_shared(layout, targets, b, layout.pairs[p, 4], n)
            for k in range(n):
                gap, least = abs(one[k] - other[k]), max(one[k], other[k])
                if gap > TOTALS_RTOL * least and number == 0:
                    return TOTALS
                other[k] = one[k] / other[k] if gap > MOST_ROUNDED_GAP * least else 1.0
                changed |= other[k] != 1.0
            start, to = layout.offsets[b], layout.pairs[p, 4]
            for k in range(layout.offsets[b + 1] - start):
                targets[start + k] *= other[layout.shared[to + k]]
        if not changed:
            break
    return OK


@jit(inner=True)
def sum_shared(layout, targets, b, place, n):
    """Return the sums of margin `b` over the axes it shares with another; NaN where a target is unknown."""
    found = np.zeros(n)
    start = layout.offsets[b]
    for k in range(layout.offsets[b + 1] - start):
        found[layout.shared[place + k]] += targets[start + k]
    return found
