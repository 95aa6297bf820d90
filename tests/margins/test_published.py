"""Weights that others have printed: to two digits, or as a mean and a total."""

import numpy as np
import pytest

import cmfast

# Kalton and Flores-Cervantes, Weighting methods, 2003, as R's survey tests and prints it: a by b, in columns of b.
SAMPLE = np.array([[20, 50, 100, 30], [40, 140, 50, 100], [40, 310, 50, 70]])
POPULATION = np.array([[80, 60, 170, 55], [40, 150, 60, 165], [55, 340, 200, 125]])
PRINTED = {
    "raking": [[1.81, 1.08, 2.20, 1.83], [1.45, 0.87, 1.76, 1.47], [2.02, 1.21, 2.45, 2.04]],
    "linear": [[1.82, 1.09, 2.19, 1.83], [1.50, 0.78, 1.88, 1.52], [1.97, 1.24, 2.34, 1.98]],
    "logit": [[1.87, 1.08, 2.17, 1.89], [1.46, 0.74, 2.09, 1.49], [1.98, 1.27, 2.18, 1.99]],
}
BY_NUMBERS = [[1.21, 1.43, 1.66, 1.88], [1.17, 1.40, 1.62, 1.85], [1.14, 1.36, 1.59, 1.81]]
PLACES = np.indices(SAMPLE.shape).reshape(2, -1)
# Schools of a sample, apiclus1, by type (E, H, M) and whether they met a goal: their number, and what their scores and
# pupils add up to; printed are the mean of scores and the total of pupils, raked to what is known of all 6,194 schools.
SCHOOLS = np.array(
    [[12, 7156, 5243], [3, 1978, 2237], [8, 4851, 5983], [132, 86281, 57088], [11, 6682, 13587], [17, 10935, 16460]]
)
TYPES, MET = np.array([0, 1, 2, 0, 1, 2]), np.array([0, 0, 0, 1, 1, 1])
MEAN_SCORE, PUPILS = 641.23, 3647280


@pytest.mark.parametrize("method", PRINTED)
def test_ratios_of_a_table_by_three_distances(method):
    targets = [(0, POPULATION.sum(1)), (1, POPULATION.sum(0))]
    bounds = (0.5, 2.2) if method == "logit" else None
    w = cmfast.rake(PLACES, targets, weights=SAMPLE.ravel(), method=method, bounds=bounds).weights
    np.testing.assert_allclose(w / SAMPLE.ravel(), np.ravel(PRINTED[method]), atol=0.00501)


def test_ratios_by_categories_that_count_as_numbers():
    columns = np.column_stack([np.ones(12), *(1 + PLACES)])
    w = cmfast.rake(columns, POPULATION.ravel() @ columns, weights=SAMPLE.ravel(), method="linear").weights
    np.testing.assert_allclose(w / SAMPLE.ravel(), np.ravel(BY_NUMBERS), atol=0.00501)


def test_a_mean_and_a_total_of_schools():
    number, scores, pupils = SCHOOLS.T
    known = [(0, [4421.0, 755.0, 1018.0]), (1, [1072.0, 5122.0])]
    w = cmfast.rake(np.stack([TYPES, MET]), known, weights=number * (6194 / 183)).weights
    each = w / number
    assert each @ scores / w.sum() == pytest.approx(MEAN_SCORE, abs=0.00501)
    assert each @ pupils == pytest.approx(PUPILS, abs=0.501)
