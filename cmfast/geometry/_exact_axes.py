"""Principal axes from integers: sums over points that are the same in any order, and of any parts."""

from fractions import Fraction
from typing import Any

import numpy as np

from cmfast._core import dispatch
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array
from cmfast.geometry._rules import Spread
from cmfast.kernels.shared.geometry_columns import COORDINATE_DIGIT_BITS, make_steps


def principal(scatter: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first `m` principal axes of points with this scatter, and their shares of the variance."""
    values, vectors = np.linalg.eigh(scatter)
    values, components = np.maximum(values[::-1], 0.0), vectors[:, ::-1].T[:m]
    largest = np.abs(components).argmax(axis=1)
    components = components * np.where(components[np.arange(m), largest] < 0, -1.0, 1.0)[:, None]
    whole = values.sum()
    return components, values[:m] / whole if whole > 0 else values[:m]


def products(X: Array, found: Spread) -> np.ndarray:
    """Return sums over points of the products of their digits, which add up over parts of them."""
    span = {"low": tuple(map(float, found.low)), "high": tuple(map(float, found.high))}
    words = dispatch.call("column_products", X, **span)
    return adapter(words).to_host(words)


def exact_axes(found: Spread, words: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return mean, axes and shares of the variance, from sums of integers that are rounded here for the first time."""
    n, number = len(found.low), found.n
    if not number:
        return np.full(n, np.nan), np.full((m, n), np.nan), np.full(m, np.nan)
    steps = make_steps(found.low, found.high)

    def sums(line: int) -> tuple[Any, Any, Any]:
        """Return as Python's integers the sum of one digit, and of its products with all upper and all lower ones."""
        whole = (words[0, line].astype(object) << 32) + words[1, line]
        return whole[0], whole[1 : 1 + n], whole[1 + n :]

    first = np.array([(sums(1 + i)[0] << COORDINATE_DIGIT_BITS) + sums(1 + n + i)[0] for i in range(n)], object)
    scatter = np.empty((n, n))
    for i in range(n):
        (_, both_upper, one), (_, other, both_lower) = sums(1 + i), sums(1 + n + i)
        second = (both_upper << 2 * COORDINATE_DIGIT_BITS) + ((one + other) << COORDINATE_DIGIT_BITS) + both_lower
        scatter[i] = (second * number - first[i] * first) / number
    varies = steps.centre > 0
    widest = steps.exponent[varies].min() if varies.any() else 0
    nearer = np.where(varies, widest - steps.exponent, 0)
    scatter = np.ldexp(scatter, nearer[:, np.newaxis] + nearer)  # all columns in the steps of the widest one
    columns = zip(first, steps.centre, steps.exponent, found.low, found.high, strict=True)
    return np.array([_mean(number, *column) for column in columns]), *principal(scatter, m)


def _mean(number: int, first: int, centre: float, exponent: int, low: float, high: float) -> float:
    """Return the mean of a column: the sum of its integers, rounded once."""
    above = Fraction(first, number) + int(centre)
    exact = Fraction(float(low)) + above / Fraction(2) ** int(exponent)
    return float(min(exact, Fraction(float(high))))
