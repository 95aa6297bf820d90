"""Comparisons by the CUDA kernels, run on the host: totals of any size, of which some have no reciprocal."""

import device
import numpy as np
import pytest

import cmfast

pytestmark = [pytest.mark.cuda_host, *device.marks]


@pytest.mark.parametrize("op", [cmfast.overlap, cmfast.l1_distance, cmfast.kl_divergence])
@pytest.mark.parametrize("scale", [(1.0, 1.0), (1e-318, 1.0), (1.0, 1e-306), (1e302, 1e-300), (1e299, 1e302)], ids=str)
@pytest.mark.parametrize("C", [3, 9, 40])
def test_totals_of_any_size_give_what_the_cpu_gives(op, scale, C):
    rng = np.random.default_rng(C)
    S, T = (rng.integers(1, 50, (5, C, C)) * factor for factor in scale)
    T[0] = S[0]
    got = op(device.asarray(S), device.asarray(T)).get()
    np.testing.assert_allclose(got, op(S, T), rtol=1e-12, atol=1e-15)
    assert op is cmfast.overlap or got[0] == 0.0


@pytest.mark.parametrize("op", [cmfast.overlap, cmfast.l1_distance, cmfast.kl_divergence])
@pytest.mark.parametrize("C", [2, 9, 40])
def test_a_total_that_overflows_is_refused_as_on_the_cpu(op, C):
    S = np.ones((3, C, C))
    T = S.copy()
    S[1] = T[2] = 1e308
    for given in ((S, T), (T, S)):
        want = op(*given, on_failure="ignore")
        assert np.isnan(want).tolist() == [False, True, True]
        got = op(*(device.asarray(x) for x in given), on_failure="ignore").get()
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        np.testing.assert_allclose(got[0], want[0], atol=1e-12)
