"""Accuracy, error rate and their standard errors, from the trace and the total of counts: as among all metrics."""

import numpy as np
import pytest
from checks import assert_same_bits

from cmfast import metrics, uncertainty

pytestmark = pytest.mark.exhaustive

TRACED = ["accuracy", "zero_one_loss", "jaccard_micro", "f1_micro"]
OTHER = "precision_macro"  # needs sums of columns


def _make_counts(kind, C, rng):
    M = rng.integers(0, 50, (19, C, C))
    M[3] = 0
    M[4] = np.diag(np.arange(C))
    if kind == "negative":
        M[7, C - 1, 0] = -1
        M[18, C // 2, C - 1] = -50
    if kind == "huge":  # one total is inexact in float64, then one beyond int64
        M[5] *= 2**50
        M[6, 0, :2] = 2**62
    return M.astype(kind) if kind in ("int32", "uint8", "uint64") else M


@pytest.mark.parametrize("C", [1, 2, 3, 4, 6, 10, 17, 40])
@pytest.mark.parametrize("kind", ["counts", "int32", "uint8", "uint64", "negative", "huge"])
@pytest.mark.filterwarnings("ignore::cmfast.FailureWarning")
def test_traces_alone_have_the_bits_of_traces_among_other_sums(kind, C, rng):
    M = _make_counts(kind, C, rng)
    for undefined in ("present", "nan", 0.25):
        want = metrics.compute(M, [*TRACED, OTHER], undefined=undefined)
        for first, last in ((0, 19), (0, 8), (2, 9), (7, 8), (4, 6)):
            found = metrics.compute(M[first:last], TRACED, undefined=undefined)
            for name in TRACED:
                assert_same_bits(found[name], want[name][first:last])
    out = {name: np.full(19, 7.0) for name in TRACED}
    metrics.compute(M, TRACED, out=out)
    want = metrics.compute(M, [*TRACED, OTHER])
    for name in TRACED:
        assert_same_bits(out[name], want[name])


@pytest.mark.parametrize("C", [1, 2, 3, 10, 40])
@pytest.mark.parametrize("kind", ["counts", "int32", "negative", "huge"])
@pytest.mark.filterwarnings("ignore::cmfast.FailureWarning")
def test_their_standard_errors_alone_have_the_bits_of_those_among_others(kind, C, rng):
    M = _make_counts(kind, C, rng)
    for options in ({}, {"fixed": "rows"}):
        want = uncertainty.standard_error(M, [*TRACED, OTHER], **options)
        for first, last in ((0, 19), (2, 9), (7, 8)):
            found = uncertainty.standard_error(M[first:last], TRACED, **options)
            for name in TRACED:
                assert_same_bits(found[name], want[name][first:last])


def test_the_standard_error_of_accuracy_is_that_of_a_binomial_share(rng):
    M = rng.integers(0, 30, (50, 12, 12))
    M[:, range(12), range(12)] += rng.integers(0, 3000, (50, 12))
    n = M.sum((1, 2)).astype(np.longdouble)
    right = np.einsum("nii->n", M).astype(np.longdouble)
    want = np.sqrt(right * (n - right) / n**3)
    for cells in (M, M.astype(float)):
        error = np.abs(uncertainty.standard_error(cells, "accuracy") / want - 1)
        assert error.max() < 4.5e-16  # two units in the last place
