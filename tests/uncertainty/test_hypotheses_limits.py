"""Tests of symmetry at the ends of float64, of nearly singular tables, and in any memory order."""

from fractions import Fraction

import numpy as np
import pytest
from oracle import _paired as oracle
from scipy import stats

from cmfast import uncertainty

TESTS = {uncertainty.bowker: oracle.bowker, uncertainty.stuart_maxwell: oracle.stuart_maxwell}


def fractions(S):
    return [[Fraction(float(x)) for x in row] for row in S]


@pytest.mark.parametrize("scale", [1e308, 1e200, 1e154, 1.0, 1e-150, 1e-200, 1e-300])
@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.__name__)
def test_the_ends_of_float64(test, scale):
    rng = np.random.default_rng(6)
    for _ in range(10):
        S = rng.integers(0, 2, (4, 4)) * rng.random((4, 4)) * scale
        found, (statistic, degrees) = test(S), TESTS[test](fractions(S))
        assert found.degrees == degrees
        if statistic < Fraction(1.7e308):
            assert found.statistic == pytest.approx(float(statistic), rel=1e-13)
            assert found.p_value == pytest.approx(stats.chi2.sf(float(statistic), degrees) if degrees else 1, rel=1e-9)
        else:
            assert (found.statistic, found.p_value) == (np.inf, 0)


@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.__name__)
def test_tables_that_are_nearly_singular(test):
    """Cells from 1e-12 to 1e12: plain elimination loses its pivots, and its error, or an exception, comes out."""
    rng = np.random.default_rng(7)
    for _ in range(200):
        C = int(rng.integers(2, 6))
        S = 10.0 ** rng.integers(-12, 12, (C, C)) * rng.integers(0, 2, (C, C))
        found, (statistic, degrees) = test(S), TESTS[test](fractions(S))
        assert found.degrees == degrees
        assert found.statistic == pytest.approx(float(statistic), rel=1e-9, abs=1e-13 * S.max())


@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.__name__)
def test_memory_order_and_neighbours_change_no_bit(test):
    rng = np.random.default_rng(8)
    for C in (2, 3, 9, 17, 40):
        S = rng.random((5, C, C)) * 100
        found = test(S)
        for other in (np.asfortranarray(S), S.swapaxes(-1, -2).copy().swapaxes(-1, -2), S[::-1].copy()[::-1]):
            np.testing.assert_array_equal(test(other).statistic, found.statistic)
        alone = [test(np.asfortranarray(one)).statistic for one in S]
        np.testing.assert_array_equal(alone, found.statistic)


def test_mid_p_of_equal_counts():
    for n in (1, 2, 5, 40):
        T = uncertainty.paired_counts([1] * 2 * n, [1] * n + [0] * n, [0] * n + [1] * n)
        assert uncertainty.mcnemar(T, kind="mid_p").p_value == pytest.approx(1 - stats.binom.pmf(n, 2 * n, 0.5) / 2)
    alike = uncertainty.paired_counts([0, 1], [0, 1], [0, 1])
    assert uncertainty.mcnemar(alike, kind="mid_p").p_value == 1
