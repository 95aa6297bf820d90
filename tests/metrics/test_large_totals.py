"""Weighted kappas of counts whose products exceed float64: two integers, rounded once each, and their quotient."""

import numpy as np
import pytest
from checks import assert_same_bits

from cmfast import metrics

pytestmark = pytest.mark.exhaustive

NAMES = ["kappa_linear", "kappa_quadratic"]


def _compute_kappa(M, power):
    """Return the kappa of one matrix in integers of Python."""
    C, cells = len(M), [[int(x) for x in row] for row in M]
    t, p = [sum(row) for row in cells], [sum(column) for column in zip(*cells, strict=True)]
    far = [[abs(i - j) ** power for j in range(C)] for i in range(C)]
    met = sum(t) * sum(far[i][j] * cells[i][j] for i in range(C) for j in range(C))
    expected = sum(far[i][j] * t[i] * p[j] for i in range(C) for j in range(C))
    return float(expected - met) / float(expected)


@pytest.mark.parametrize("C", [2, 5, 40, 100])
def test_weighted_kappas_are_exact_below_and_above_every_limit(C, rng):
    limits = [2**26 // (C - 1), 2**53 // (C - 1) ** 2, 2**31 // (C - 1), 9 * 10**7, 2**40, 2**50]
    share = rng.random((2 * len(limits) + 3, C, C)) ** 8
    totals = np.array([1000, *(n // 2 for n in limits), *limits, 0, 3 * C], float)
    M = np.floor(share / share.sum((1, 2), keepdims=True) * totals[:, None, None]).astype(np.int64)
    M[0, 0, 0] += 1
    M[-2:] = 0
    M[-2, 0, 0] = 2**30 // (C - 1)  # all in one class: no kappa
    M[-1, 0, C - 1] = 2**29 // (C - 1)
    found = metrics.compute(M, NAMES)
    single = [metrics.compute(m, NAMES) for m in M]
    for power, name in enumerate(NAMES, 1):
        want = [_compute_kappa(m, power) if m.sum() > m[0, 0] else 0.0 for m in M]
        assert_same_bits(found[name], np.array(want))
        assert_same_bits(np.array([one[name] for one in single]), np.array(want))
