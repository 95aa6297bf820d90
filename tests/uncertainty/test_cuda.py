"""Replicates drawn by the CUDA kernels: those of the CPU, bit for bit."""

import device
import numpy as np
import pytest
from checks import assert_same_bits

from cmfast import uncertainty

pytestmark = [pytest.mark.cuda_host, *device.marks]

SCHEMES = ["multinomial", "row_multinomial", "expected_rounded"]


def both(*arrays, **options):
    """Return what the CPU and what the CUDA kernels draw."""
    there = uncertainty.resample(*(device.asarray(a) for a in arrays), on_failure="ignore", **options)
    return uncertainty.resample(*arrays, on_failure="ignore", **options), there.get()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("most", [3, 60, 3000, 10**9, 2**46])
@pytest.mark.parametrize("C", [2, 7, 20])
def test_the_draws_are_those_of_the_cpu(C, most, scheme):
    """Few and many expected successes, on both sides of a half."""
    rng = np.random.default_rng([C, most])
    M = rng.integers(0, most, (4, C, C)) // rng.integers(1, 50, (4, C, C))
    M[:, np.arange(C), np.arange(C)] += most
    M[3, 0] = 0
    on_cpu, on_cuda = both(M, M[..., 0], n_resamples=60, scheme=scheme, rng=C)
    assert_same_bits(on_cuda, on_cpu)


@pytest.mark.parametrize("n", [0, 1, 700, 10**13, 2**62])
def test_shares(n):
    M = np.random.default_rng(8).random((3, 5, 5)).astype(np.float32)
    M[1, 2, 2] = np.inf
    for scheme in ("multinomial", "expected_rounded"):
        on_cpu, on_cuda = both(M, n_resamples=40, scheme=scheme, n=n, rng=9)
        assert_same_bits(on_cuda, on_cpu)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_schedules_and_neighbours_change_no_bit(scheme):
    M = device.asarray(np.random.default_rng(1).integers(0, 30, (3, 4, 4)))
    options = {"n_resamples": 150, "scheme": scheme}
    want = uncertainty.resample(M, **options)
    for seed in (1, 2):
        with device.schedule(seed):
            assert_same_bits(uncertainty.resample(M, **options), want)
    assert_same_bits(uncertainty.resample(M[:1], **options)[0], want[0])
    assert_same_bits(uncertainty.resample(M, **{**options, "n_resamples": 9}), want[:, :9])


def test_nothing_waits_where_failures_are_ignored():
    M = device.asarray(np.array([[3, 1], [2, 4]]))
    with device.waits(0):
        found = uncertainty.resample(M, on_failure="ignore")
    assert_same_bits(found, uncertainty.resample(M))
