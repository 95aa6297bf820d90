"""Intervals and posteriors on a device: the draws of the CPU; and faults in the kernels, which calls must show."""

import device
import numpy as np
import planted
import pytest
from checks import assert_same_bits

from cmfast import uncertainty
from cmfast.kernels.cuda.uncertainty import intervals

pytestmark = [pytest.mark.cuda_host, *device.marks]
COUNTS = np.array(
    [[[40, 3, 2], [4, 800, 60], [0, 5, 9]], [[9, 1, 0], [2, 7, 1], [1, 1, 5]], [[0, 0, 0], [1, 4, 2], [0, 3, 9]]]
)
NAMES = ["mcc", "recall", "kappa_quadratic"]


def ends(M, method="bca", **options):
    found = uncertainty.interval(M, NAMES, method=method, n_resamples=900, on_failure="ignore", **options)
    return [device.host(part) for one in found.values() for part in one]


@pytest.mark.parametrize(
    "options", [{}, {"scheme": "rows"}, {"method": "posterior"}, {"method": "basic", "confidence_level": 0.5}]
)
def test_intervals_are_those_of_the_cpu_whole_or_in_parts(options, monkeypatch):
    want, there = ends(COUNTS, **options), device.asarray(COUNTS)
    once = ends(there, **options)
    for one, other in zip(once, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    monkeypatch.setattr(intervals, "MOST_REPLICATE_BYTES", 1000)  # one matrix at a time
    for one, other in zip(ends(there, **options), once, strict=True):
        assert_same_bits(one, other)


def test_many_replicates_of_one_value_and_of_two():
    found = ends(device.asarray([[70, 0], [0, 50]]), "percentile")
    assert [part.item() for part in found[:5]] == [1, 1, 1, 0, 0]
    for one, other in zip(ends(device.asarray([[1, 1], [1, 0]])), ends(np.array([[1, 1], [1, 0]])), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


def test_schedules_and_neighbours_change_no_bit():
    M = COUNTS.astype(float)
    want = ends(device.asarray(M))
    M[1, 0, 0] = np.nan
    for seed in (1, 2):
        with device.schedule(seed):
            found = ends(device.asarray(M))
        for one, other in zip(found, want, strict=True):
            assert_same_bits(one[[0, 2]], other[[0, 2]])
    assert np.isnan(found[0][1])
    assert found[4][1] == 900


def test_nothing_waits_where_failures_are_ignored():
    M = device.asarray(COUNTS)
    ends(M)
    with device.waits(0):
        found = uncertainty.interval(M, NAMES, n_resamples=50, on_failure="ignore")
    assert list(found) == list(NAMES)


def test_what_is_drawn_from_a_posterior_is_that_of_the_cpu():
    options = {"n_resamples": 70, "prior": 0.3, "rng": 3}
    here, there = (uncertainty.posterior(M, NAMES, **options) for M in (COUNTS, device.asarray(COUNTS)))
    for name in NAMES:
        np.testing.assert_allclose(device.host(there[name].draws), here[name].draws, rtol=1e-11)


def test_cells_of_a_normalised_matrix():
    here, there = (uncertainty.interval(M, of="row", n_resamples=2000) for M in (COUNTS[0], device.asarray(COUNTS[0])))
    for one, other in zip(there, here, strict=True):
        np.testing.assert_allclose(device.host(one), other, rtol=1e-12)


FAULTS = {
    "rows-are-not-used-up": ("cmfast_metric_draws_of_counts", "left -= own;", ""),
    "a-stream-for-two-cells": ("cmfast_metric_draws_of_counts", "(1 + i) * C + j)", "(1 + i) * C)"),
    "shares-beyond-one": ("cmfast_metric_draws_of_shares", "mass += own[c];", "mass = own[c];"),
    "all-samples-left-out": ("cmfast_metric_intervals_without", "fmin(cells[k], 1.0)", "cells[k]"),
    "half-the-acceleration": ("cmfast_metric_intervals_acceleration", "(6.0 * sum", "(12.0 * sum"),
    "one-rank-too-many": ("cmfast_replicate_intervals_rows", "i64(place), m - 1)", "i64(place) + 1, m - 1)"),
    "units-are-not-used-up": ("cmfast_paired_replicates_sums", "left -= drawn;\n      for", "for"),
    "columns-for-rows": ("cmfast_paired_replicates_sums", "p[j] += x;", "p[i] += x;"),
}


@device.of_the_host
@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_seen(fault, monkeypatch):
    planted.assert_seen(monkeypatch, FAULTS[fault])
