"""Distance functions of raking: how weights depend on the dual variable z, and what the method may assume of them."""

import math
from typing import NamedTuple

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, load_elements, store_elements, where
from cmfast.kernels.cpu._core.vector_functions import exp

MOST_EXPONENT = 700.0  # beyond it float64 overflows
RAKING, LINEAR, TRUNCATED, LOGIT = range(4)


class Distance(NamedTuple):
    """A distance function. With no more than its code, weights are smooth, increasing and positive functions of z."""

    code: int
    exponential: bool = False
    """Weights are exponential in z: sweeps apply, and a step needs no line search."""
    linear: bool = False
    """Weights are linear in z, and may be negative."""
    clipped: bool = False
    """Weights are exponential between their bounds and do not move beyond: the Hessian may vanish."""
    reaches_no_bound: bool = False
    """Weights have bounds, which they reach for no finite z."""


DISTANCES = {
    "raking": Distance(RAKING, exponential=True),
    "linear": Distance(LINEAR, linear=True),
    "truncated": Distance(TRUNCATED, clipped=True),
    "logit": Distance(LOGIT, reaches_no_bound=True),
}


@jit(inner=True, borrows=True)
def exponentiate(z, out, start, stop):
    """Compute exp(z) with exponents clipped to the float64 range; the last SIMD vector overlaps the one before."""
    if stop - start < WIDTH:
        for c in range(start, stop):
            out[c] = math.exp(min(max(z[c], -MOST_EXPONENT), MOST_EXPONENT))
        return
    c = start
    while c < stop:
        c = min(c, stop - WIDTH)
        power = load_elements(z, c)
        power = where(power > MOST_EXPONENT, MOST_EXPONENT, power)
        store_elements(out, c, exp(where(power < -MOST_EXPONENT, -MOST_EXPONENT, power)))
        c += WIDTH


@jit()
def compute_weights(code, q, bounds, z, x, h, start, stop):
    """Compute the weights x and their derivatives h in z, the dual function of a distance.

    `bounds` are the least and the largest ratio of a weight to its design weight.
    """
    low, high = bounds
    each = min(len(low) - 1, 1)
    if code in (RAKING, TRUNCATED):
        exponentiate(z, h, start, stop)
    for c in range(start, stop):
        if code == LINEAR:
            x[c], h[c] = q[c] * (1.0 + z[c]), q[c]
            continue
        if code == LOGIT:
            lower, upper = low[c * each], high[c * each]
            steep = (upper - lower) / ((1.0 - lower) * (upper - 1.0))
            at = steep * z[c] + math.log((1.0 - lower) / (upper - 1.0))
            part = 1.0 / (1.0 + math.exp(min(-at, MOST_EXPONENT)))
            x[c] = q[c] * (lower + (upper - lower) * part)
            h[c] = q[c] * (upper - lower) * steep * part * (1.0 - part)
            continue
        ratio, lower, upper = h[c], low[c * each], high[c * each]
        if code == RAKING:
            x[c] = q[c] * ratio
            h[c] = x[c]
        else:
            x[c] = q[c] * min(max(ratio, lower), upper)
            h[c] = x[c] if lower < ratio < upper else 0.0
