"""Standard errors on a device: those of the CPU, most of them to the last bit; and faults in the kernels."""

import device
import numpy as np
import planted
import pytest
from checks import assert_same_bits

from cmfast import uncertainty
from cmfast.kernels.cuda._core import batches

pytestmark = device.marks
RNG = np.random.default_rng(5)
COUNTS = RNG.integers(0, 40, (3, 5, 5)) + 60 * np.eye(5, dtype=int)
NAMES = ["mcc", "recall", "f1_macro", "kappa_quadratic", "gerrity", "geometric_mean", "min_recall"]
NO_POWERS = [name for name in NAMES if name != "geometric_mean"]  # what pow rounds


def errors(M, names=NAMES, **options):
    found = uncertainty.standard_error(M, names, on_failure="ignore", **options)
    return [device.host(part) for part in found.values()]


@pytest.mark.parametrize("options", [{}, {"fixed": "rows"}, {"n": 700}])
def test_the_bits_are_those_of_the_cpu(options):
    found = errors(device.asarray(COUNTS), NO_POWERS, **options)
    for one, other in zip(found, errors(COUNTS, NO_POWERS, **options), strict=True):
        assert_same_bits(one, other)


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
        uncertainty.standard_error(M, NAMES, on_failure="ignore")


FAULTS = {
    "one-table-for-all": ("cmfast_standard_errors_slopes", "= value(s.C, 1 + part)", "= value(k, 1 + part)"),
    "columns-for-rows": ("cmfast_standard_errors_numbers", "line(C + i)", "line(2 * C + i)"),
    "fixed-rows-of-a-class": ("cmfast_standard_errors_classes", "i != c && x", "i == c && x"),
}


@device.of_the_host
@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_seen(fault, monkeypatch):
    planted.assert_seen(monkeypatch, FAULTS[fault])
