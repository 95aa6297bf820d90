"""Two classifiers compared on a device: the draws of the CPU, on the emulation of CUDA."""

import device
import numpy as np
import on_cuda_host  # noqa: F401  # lets the package take its arrays
import pytest
from pairs import draw_predictions

from cmfast import uncertainty
from cmfast.kernels.cuda.uncertainty import intervals

pytestmark = [pytest.mark.cuda_host, *device.marks]


@pytest.mark.filterwarnings("ignore:.*too few samples or clusters:cmfast.DiagnosticWarning")  # of classes
@pytest.mark.parametrize("options", [{}, {"clusters": np.arange(200) // 5}, {"groups": np.arange(200) % 3}])
def test_comparisons_are_those_of_the_cpu(rng, options, monkeypatch):
    labels = draw_predictions(rng, 200, 4)
    here = uncertainty.paired_counts(*labels, **options)
    there = uncertainty.paired_counts(*map(device.asarray, labels), **options)
    assert there == here
    assert isinstance(there.first, type(device.asarray(labels[0])))
    names = ["accuracy", "f1_macro", "kappa_quadratic", "recall"]
    for asked in ({"n_resamples": 60}, {"method": "delta"}):
        on_cpu = uncertainty.compare(here, names, **asked)
        for most in (intervals.MOST_REPLICATE_BYTES, 1000):  # at once, and in parts
            monkeypatch.setattr(intervals, "MOST_REPLICATE_BYTES", most)
            on_cuda = uncertainty.compare(there, names, **asked)
            for name in names:
                for one, other in zip(on_cuda[name][1:-4], on_cpu[name][1:-4], strict=True):
                    np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_schedules_change_no_bit(rng):
    T = uncertainty.paired_counts(*map(device.asarray, draw_predictions(rng, 100, 3)))
    want = uncertainty.compare(T, "mcc", n_resamples=60)
    with device.schedule(1):
        assert uncertainty.compare(T, "mcc", n_resamples=60) == want
    assert uncertainty.compare(T, "mcc", n_resamples=40, num_threads=1) != want


def test_areas_are_computed_on_the_cpu_alone(rng):
    y, first, second = (device.asarray(x) for x in (rng.integers(0, 2, 40), rng.random(40), rng.random(40)))
    for call in (
        lambda: uncertainty.auc_covariance(y, first.reshape(1, 40)),
        lambda: uncertainty.interval(y, first, "roc_auc"),
        lambda: uncertainty.compare(y, first, second, "roc_auc"),
    ):
        with pytest.raises(NotImplementedError, match=r"auc_covariance has no cuda kernel|y_a must be on the CPU"):
            call()
