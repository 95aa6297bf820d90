"""Exact principal component analysis: integer sums over points, independent of their order and partition."""

from fractions import Fraction
from typing import Any

import numpy as np

from cmfast._core import dispatch
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array
from cmfast.geometry._width_rules import Spread
from cmfast.kernels.shared.geometry_columns import COORDINATE_DIGIT_BITS, make_steps


def diagonalize(scatter: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first `m` principal axes of a scatter matrix, and their shares of the total variance.

    The largest component of each axis is positive.
    """
    values, vectors = np.linalg.eigh(scatter)
    values, components = np.maximum(values[::-1], 0.0), vectors[:, ::-1].T[:m]
    largest = np.abs(components).argmax(axis=1)
    components = components * np.where(components[np.arange(m), largest] < 0, -1.0, 1.0)[:, None]
    whole = values.sum()
    return components, values[:m] / whole if whole > 0 else values[:m]


def sum_products(X: Array, found: Spread) -> np.ndarray:
    """Return integer sums over points of products of their coordinates' digits, which add up over parts."""
    span = {"low": tuple(map(float, found.low)), "high": tuple(map(float, found.high))}
    words = dispatch.call("column_products", X, **span)
    return adapter(words).to_host(words)


def compute_exact_axes(found: Spread, words: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return mean, principal axes and variance shares from exact integer sums, rounded only here."""
    n, number = len(found.low), found.n
    if not number:
        return np.full(n, np.nan), np.full((m, n), np.nan), np.full(m, np.nan)
    steps = make_steps(found.low, found.high)

    def sums(line: int) -> tuple[Any, Any, Any]:
        """Return as Python ints the sum of one digit and the sums of its products with all upper and lower digits."""
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
    scatter = np.ldexp(scatter, nearer[:, np.newaxis] + nearer)  # scale all columns to the step of the widest one
    columns = zip(first, steps.centre, steps.exponent, found.low, found.high, strict=True)
    return np.array([_compute_mean(number, *column) for column in columns]), *diagonalize(scatter, m)


def _compute_mean(number: int, first: int, centre: float, exponent: int, low: float, high: float) -> float:
    """Return the mean of a column from its exact integer sum, rounded once."""
    above = Fraction(first, number) + int(centre)
    exact = Fraction(float(low)) + above / Fraction(2) ** int(exponent)
    return float(min(exact, Fraction(float(high))))
