"""Comparison of the totals of row and column targets, which must agree."""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.shared.scaling import TOTALS_RTOL
from cmfast.kernels.status import OK, RANGE, TOTALS


@jit(inline=True)
def compare_totals(U, V):
    """Return OK if the totals of row and column targets agree, TOTALS if not, RANGE if one overflows."""
    if not max(U, V) < np.inf:
        return RANGE
    if not abs(U - V) <= TOTALS_RTOL * max(U, V):
        return TOTALS
    return OK
