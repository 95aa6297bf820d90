"""Thresholds of least cost at the ends of float64, against exact fractions."""

from fractions import Fraction

import numpy as np
import pytest

from cmfast import metrics

LARGEST = Fraction(float(np.finfo(np.float64).max))


COSTS = [
    [[0, 1e308], [1e308, 0]], [[0, 1e308], [1e308, -1e308]], [[-1.7e308, 1e308], [1e308, -1.6e308]],
    [[0, 5e-324], [1e-320, 0]], [[0, 1e-300], [1e300, 0]], [[0, 0], [0, 0]], [[0, 1], [3, -2]], [[1e308] * 2] * 2,
]  # fmt: skip
# Products that are at both ends of float64 at once have no common scale.
TOO_FAR = [(COSTS[3], 1e-300), (COSTS[4], 1e300), (COSTS[4], 1e-300)]


@pytest.mark.parametrize("weight", [None, 1e-300, 1e300, 1.0])
@pytest.mark.parametrize("cost", COSTS, ids=str)
def test_cost_beyond_float64(cost, weight):
    if (cost, weight) in TOO_FAR:
        return
    rng = np.random.default_rng(2)
    scores, y = rng.integers(0, 9, 40) / 8, rng.integers(0, 2, 40)
    weights = None if weight is None else np.full(40, weight)
    found = metrics.least_cost(y, scores, cost, sample_weight=weights)
    each, best = Fraction(1 if weight is None else weight), None
    for threshold in [np.inf, *sorted(set(scores.tolist()), reverse=True)]:
        said = scores >= threshold
        counts = [[int(np.sum((y == i) & (said == bool(j)))) for j in (0, 1)] for i in (0, 1)]
        total = each * sum(counts[i][j] * Fraction(float(cost[i][j])) for i in (0, 1) for j in (0, 1))
        best = total if best is None or total < best else best
    if abs(best) <= LARGEST:
        assert found.cost == pytest.approx(float(best), rel=1e-12, abs=1e-320)
    else:
        assert found.cost == np.copysign(np.inf, float(np.sign(best.numerator)))
    matrix = [[int(x) if weight is None else round(x / weight) for x in row] for row in np.asarray(found.matrix)]
    total = each * sum(matrix[i][j] * Fraction(float(cost[i][j])) for i in (0, 1) for j in (0, 1))
    assert float(total / best) == pytest.approx(1, rel=1e-9) if best else total == 0
