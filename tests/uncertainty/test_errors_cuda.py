"""Standard errors on a device: those of the CPU; and faults in the kernels, which calls must show."""

import device
import numpy as np
import planted
import pytest
from checks import assert_same_bits

from cmfast import uncertainty
from cmfast.kernels.cuda._core import batches
from cmfast.kernels.cuda.uncertainty import intervals

pytestmark = [pytest.mark.cuda_host, *device.marks]
RNG = np.random.default_rng(5)
COUNTS = RNG.integers(0, 40, (3, 5, 5)) + 60 * np.eye(5, dtype=int)
NAMES = ["mcc", "recall", "f1_macro", "kappa_quadratic", "gerrity", "geometric_mean", "min_recall"]


def errors(M, names=NAMES, **options):
    found = uncertainty.standard_error(M, names, on_failure="ignore", **options)
    return [device.host(part) for part in found.values()]


@pytest.mark.parametrize("options", [{}, {"fixed": "rows"}, {"n": 700}])
def test_errors_are_those_of_the_cpu_but_for_the_order_of_sums(options):
    for one, other in zip(errors(device.asarray(COUNTS), **options), errors(COUNTS, **options), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)


def test_parts_schedules_and_neighbours_change_no_bit(monkeypatch):
    M = COUNTS.astype(float)
    want = errors(device.asarray(M))
    M[1, 0, 0] = 0.5
    monkeypatch.setattr(batches, "MOST_SCRATCH_BYTES", 1000)  # one matrix at a time
    for seed in (1, 2):
        with device.schedule(seed):
            found = errors(device.asarray(M))
        for one, other in zip(found, want, strict=True):
            assert_same_bits(one[[0, 2]], other[[0, 2]])
            assert np.isnan(one[1]).all()


def test_nothing_waits_where_failures_are_ignored():
    M = device.asarray(COUNTS)
    errors(M)
    with device.waits(0):
        found = uncertainty.standard_error(M, NAMES, on_failure="ignore")
    assert list(found) == list(NAMES)


def test_large_matrices_that_share_memory_are_worked_on_in_turns(monkeypatch):
    M = RNG.integers(1, 9, (3, 21, 21))
    want = uncertainty.standard_error(device.asarray(M), of="bi")
    monkeypatch.setattr(batches, "MOST_SCRATCH_BYTES", 1000)  # one block
    assert_same_bits(uncertainty.standard_error(device.asarray(M), of="bi"), want)
    assert_same_bits(uncertainty.standard_error(device.asarray(M[1:2]), of="bi")[0], want[1])


@pytest.mark.parametrize("method", ["normal", "bca"])
def test_intervals_of_cells_are_those_of_the_cpu(method):
    options = {"of": "bi", "method": method, "n_resamples": 200}
    here, there = (uncertainty.interval(M, **options) for M in (COUNTS[0], device.asarray(COUNTS[0])))
    for one, other in zip(there, here, strict=True):
        np.testing.assert_allclose(device.host(one), other, rtol=1e-6)


@pytest.mark.parametrize("options", [{"clusters": True}, {"strata": [0, 1, 0, 1]}])
def test_parts_schedules_and_neighbours_change_no_interval_of_clusters(options, monkeypatch):
    M = RNG.integers(1, 9, (3, 4, 3, 3)).astype(float)
    options |= {"method": "bca", "n_resamples": 150, "on_failure": "ignore"}
    want = uncertainty.interval(device.asarray(M), "f1", **options)
    M[1, 2, 0, 0] = np.nan
    monkeypatch.setattr(intervals, "MOST_REPLICATE_BYTES", 1000)  # one element, and few units, at a time
    with device.schedule(1):
        found = uncertainty.interval(device.asarray(M), "f1", **options)
    for one, other in zip(map(device.host, found), map(device.host, want), strict=True):
        assert_same_bits(one[[0, 2]], other[[0, 2]])
        assert np.isnan(one[1]).all() or (one[1] == 150).all()


FAULTS = {
    "one-replicate": (
        "cmfast_cluster_replicates_cells",
        "number_of(numbers, b), k % n_resamples",
        "number_of(numbers, b), 0 * n_resamples",
    ),
    "scales-that-stay": ("cmfast_cluster_cell_errors_matrices", "direct - P(i, j) *", "direct - 0.5 * P(i, j) *"),
    "units-are-not-used-up": ("cmfast_cluster_intervals_draws", "rest -= size;", ""),
    "one-mean-of-all-strata": ("cmfast_cluster_errors_numbers", "moved(k) - mean;", "moved(k);"),
    "half-the-acceleration": ("cmfast_cluster_intervals_acceleration", "(6.0 * squares", "(12.0 * squares"),
    "samples-of-one-group": ("cmfast_paired_errors_counts", "(2 * group * C + y)", "(2 * 0 * C + y)"),
    "clusters-that-are-samples": ("cmfast_paired_errors_numbers", "if (clustered)", "if (clustered && 0)"),
    "a-pivot-that-stays": ("cmfast_cell_errors_matrices", "x = line[j];", ""),
    "half-of-what-a-cell-moves": ("cmfast_cell_errors_matrices", "(1.0 - 2.0 * p * own)", "(1.0 - p * own)"),
    "bent-the-other-way": ("cmfast_cell_errors_matrices", "x * x * x / (m", "-x * x * x / (m"),
    "one-table-for-all": ("cmfast_standard_errors_slopes", "= value(s.C, 1 + part)", "= value(k, 1 + part)"),
    "columns-for-rows": ("cmfast_standard_errors_numbers", "line(C + i)", "line(2 * C + i)"),
    "fixed-rows-of-a-class": ("cmfast_standard_errors_classes", "i != c && x", "i == c && x"),
}


@device.of_the_host
@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_seen(fault, monkeypatch):
    planted.assert_seen(monkeypatch, FAULTS[fault])
