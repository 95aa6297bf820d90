"""What other libraries say of the same samples: recorded by ``tests/harness/uncertainty_peers.py``."""

import json

import numpy as np
import uncertainty_peers

import cmfast
from cmfast import uncertainty

THEIRS = json.loads(uncertainty_peers.FILE.read_text())
M = np.array(uncertainty_peers.M)


def test_posteriors_have_the_moments_of_prob_conf_mat():
    drawn = uncertainty.posterior(M, list(THEIRS["posterior"]), prior="jeffreys", n_resamples=40_000)
    for name, (mean, deviation) in THEIRS["posterior"].items():
        np.testing.assert_allclose(drawn[name].mean, mean, atol=5 * deviation / 200)
        np.testing.assert_allclose(drawn[name].standard_deviation, deviation, rtol=0.02)


def test_errors_of_clusters_are_the_robust_ones_of_statsmodels():
    y, said = uncertainty_peers.samples()
    patients = cmfast.confusion_matrix(y, said, groups=np.arange(len(y)) % 20)
    accuracy, error = THEIRS["clustered"]
    found = uncertainty.interval(patients, "accuracy", clusters=True, method="normal")
    np.testing.assert_allclose(found.estimate, accuracy, rtol=1e-12)
    np.testing.assert_allclose(found.standard_error, error, rtol=1e-12)


def test_the_macro_averages_of_confidenceinterval_have_wrong_errors():
    """It squares a vector where it means the product with its transpose, and one slope lacks a divisor."""
    drawn = uncertainty.interval(M, list(THEIRS["analytic"]), method="percentile", n_resamples=20_000)
    for name, (value, error) in THEIRS["analytic"].items():
        ours = uncertainty.standard_error(M, name)
        np.testing.assert_allclose(drawn[name].estimate, value, rtol=1e-12)
        np.testing.assert_allclose(drawn[name].standard_error, ours, rtol=0.015)
        assert error > 1.02 * ours, name
