"""Bootstrap intervals (percentile, basic, BCa) from replicates, with quantiles by selection instead of sorting.

BCa is that of Efron (Better bootstrap confidence intervals, 1987); selection is Hoare's find.
"""

import math

import numpy as np

from cmfast.kernels.cpu._core.copies import copy_vector
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.shared.uncertainty import MOST_ROUNDING_VARIANCE

METHODS = {"percentile": 0, "basic": 1, "bca": 2}
BASIC, BCA = METHODS["basic"], METHODS["bca"]
ROOT_HALF = math.sqrt(0.5)
LARGE_SAMPLE, SMALL_SAMPLE = 256, 64  # sample sizes for estimating a rank
MOST_SMALL_SAMPLED = 4096  # replicates above which the large sample is used


@jit(inner=True)
def _select(a, k, first, last):
    """Partition ``a[first:last]`` in place so that the element of rank `k` is at `k` (Hoare's find)."""
    last -= 1
    while first < last:
        low, middle, high = a[first], a[(first + last) // 2], a[last]
        pivot = max(min(low, middle), min(max(low, middle), high))
        i, j = first, last
        while i <= j:
            while a[i] < pivot:
                i += 1
            while pivot < a[j]:
                j -= 1
            if i <= j:
                a[i], a[j] = a[j], a[i]
                i += 1
                j -= 1
        if k <= j:
            last = j
        elif k >= i:
            first = i
        else:
            return


@jit(inner=True)
def _narrow_to_rank(a, m, k, work):
    """Copy to `work` a subset of the first `m` elements that contains those of rank `k` and `k` + 1.

    Return the size of the subset and the number of elements below it. Bounds are estimated from a sample; if they miss,
    all elements are copied.
    """
    n, below = m, 0
    if m > 4 * SMALL_SAMPLE:
        step, size = m // (LARGE_SAMPLE if m > MOST_SMALL_SAMPLED else SMALL_SAMPLE), 0
        for i in range(0, m, step):
            work[size] = a[i]
            size += 1
        share = k / m
        reach = 4.0 * math.sqrt(size * share * (1.0 - share)) + 3.0
        first, last = int(size * share - reach), int(size * share + reach)
        low, high = -np.inf, np.inf
        if first > 0:
            _select(work, first, 0, size)
            low = work[first]
        if last < size:
            _select(work, last, 0, size)
            high = work[last]
        n = 0
        for i in range(m):
            x = a[i]
            work[n] = x
            n += 1 if (x >= low) & (x <= high) else 0
            below += 1 if x < low else 0
        if below <= k and min(k + 1, m - 1) < below + n:
            return n, below
        n, below = m, 0
    copy_vector(a[:m], work)
    return n, below


@jit(inner=True)
def _quantile(a, m, share, work):
    """Return a quantile of the first `m` elements, interpolated linearly; `work` is a buffer of the same size."""
    if m == 0 or not 0.0 <= share <= 1.0:
        return np.nan
    position = share * (m - 1)
    k = min(int(position), m - 1)
    n, below = _narrow_to_rank(a, m, k, work)
    _select(work, k - below, 0, n)
    part, value = position - k, work[k - below]
    if part > 0.0 and k + 1 < m:
        above = np.inf
        for i in range(k - below + 1, n):
            above = min(above, work[i])
        if above > value:  # else both may be infinite
            value += part * (above - value)
    return value


@jit(inner=True)
def _normal_distribution(z):
    """Return the standard normal distribution function at `z`."""
    return 0.5 * math.erfc(-z * ROOT_HALF)


@jit(inner=True)
def _evaluate_polynomial(coefficients, x):
    """Evaluate a polynomial of degree seven by Horner's rule."""
    a, b, c, d, e, f, g, h = coefficients
    return ((((((h * x + g) * x + f) * x + e) * x + d) * x + c) * x + b) * x + a


@jit(inner=True)
def normal_quantile(p):
    """Return the standard normal quantile of probability `p` (Wichura, Algorithm AS 241, 1988)."""
    q = p - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        above = _evaluate_polynomial((
            3.3871328727963666080, 133.14166789178437745, 1971.5909503065514427, 13731.693765509461125,
            45921.953931549871457, 67265.770927008700853, 33430.575583588128105, 2509.0809287301226727,
        ), r)  # fmt: skip
        below = _evaluate_polynomial((
            1.0, 42.313330701600911252, 687.18700749205790830, 5394.1960214247511077, 21213.794301586595867,
            39307.895800092710610, 28729.085735721942674, 5226.4952788528545610,
        ), r)  # fmt: skip
        return q * above / below
    r = math.sqrt(-math.log(min(p, 1.0 - p)))
    if r <= 5.0:
        r -= 1.6
        above = _evaluate_polynomial((
            1.42343711074968357734, 4.63033784615654529590, 5.76949722146069140550, 3.64784832476320460504,
            1.27045825245236838258, 0.241780725177450611770, 0.0227238449892691845833, 7.74545014278341407640e-4,
        ), r)  # fmt: skip
        below = _evaluate_polynomial((
            1.0, 2.05319162663775882187, 1.67638483018380384940, 0.689767334985100004550, 0.148103976427480074590,
            0.0151986665636164571966, 5.47593808499534494600e-4, 1.05075007164441684324e-9,
        ), r)  # fmt: skip
    else:
        r -= 5.0
        above = _evaluate_polynomial((
            6.65790464350110377720, 5.46378491116411436990, 1.78482653991729133580, 0.296560571828504891230,
            0.0265321895265761230930, 0.00124266094738807843860, 2.71155556874348757815e-5,
            2.01033439929228813265e-7,
        ), r)  # fmt: skip
        below = _evaluate_polynomial((
            1.0, 0.599832206555887937690, 0.136929880922735805310, 0.0148753612908506148525,
            7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7,
            2.04426310338993978564e-15,
        ), r)  # fmt: skip
    return math.copysign(above / below, q)


@jit(inner=True)
def _adjust_probability(share, less, acceleration):
    """Return the BCa-adjusted probability (Efron 1987) that replaces the nominal tail `share`."""
    bias = normal_quantile(less)
    z = bias + normal_quantile(share)
    return _normal_distribution(bias + z / (1.0 - acceleration * z))


@jit()
def summarize(replicates, estimate, acceleration, method, confidence_level, out, start, stop):
    """Write the interval, the standard deviation and the number of undefined replicates of every row."""
    low, high, error, undefined = out
    numbers, work = np.empty(replicates.shape[1]), np.empty(replicates.shape[1])
    for row in range(start, stop):
        m, mean, less = 0, 0.0, 0.0
        value = estimate[row]
        for x in replicates[row]:
            if x == x:  # noqa: PLR0124 - NaN alone is not
                numbers[m] = x
                m += 1
                mean += x
                less += 1.0 if x < value else 0.5 if x == value else 0.0
        undefined[row] = replicates.shape[1] - m
        mean = mean / m if m > 0 else np.nan
        square = 0.0
        for k in range(m):
            square += (numbers[k] - mean) * (numbers[k] - mean)
        error[row] = math.sqrt(square / (m - 1)) if m > 1 else np.nan
        first, last = 0.5 * (1.0 - confidence_level), 0.5 * (1.0 + confidence_level)
        if method == BCA:
            less = min(max(less / m, 0.5 / m), 1.0 - 0.5 / m) if m > 0 else 0.5  # half a replicate from 0 and 1
            first = _adjust_probability(first, less, acceleration[row])
            last = _adjust_probability(last, less, acceleration[row])
        below, above = _quantile(numbers, m, first, work), _quantile(numbers, m, last, work)
        if method == BASIC:
            below, above = 2.0 * value - above, 2.0 * value - below
        known = value == value  # noqa: PLR0124
        low[row], high[row] = below if known else np.nan, above if known else np.nan


@jit()
def accelerate(cells, without, rows, out, start, stop):
    """Write the jackknife acceleration of BCa, from values with one sample of each cell left out; rows may be fixed."""
    C = cells.shape[1]
    for row in range(start, stop):
        b = row // (len(without) // len(cells))
        cubes, squares, mean, weight = 0.0, 0.0, 0.0, 0.0
        for i in range(C):
            if i == 0 or rows:
                mean, weight = 0.0, 0.0
                for k in range(i * C, (i + 1) * C if rows else C * C):
                    x, m = without[row, k], cells[b, k // C, k % C]
                    if m > 0.0 and x - x == 0.0:
                        mean += m * x
                        weight += m
                mean = mean / weight if weight > 0.0 else 0.0
            for j in range(C):
                x, m = without[row, i * C + j], cells[b, i, j]
                if m > 0.0 and x - x == 0.0:
                    away = mean - x
                    squares += m * (away * away)
                    cubes += m * (away * away * away)
        # Rounding noise of a metric that no sample changes is no skewness.
        bent = squares > MOST_ROUNDING_VARIANCE * max(1.0, mean * mean)
        out[row] = cubes / (6.0 * squares * math.sqrt(squares)) if bent else 0.0
