"""Kish's effective sample size of raked weights, in fractions."""

from fractions import Fraction

import numpy as np
import pytest
from optional import torch

import cmfast

RNG = np.random.default_rng(4)
DESIGN = RNG.integers(0, 3, (2, 40))
TARGETS = [(0, [30.0, 20.0, 50.0]), (1, [10.0, 60.0, 30.0])]


def by_hand(weights):
    """Return the effective size of a list of weights."""
    exact = [Fraction(float(w)) for w in weights]
    return float(sum(exact) ** 2 / sum(w * w for w in exact))


def test_batches_and_tensors():
    weights = RNG.uniform(0.5, 3.0, (4, 40))
    result = cmfast.rake(DESIGN, TARGETS, weights=weights)
    want = [by_hand(row) for row in result.weights]
    assert result.effective_size() == pytest.approx(want, rel=1e-13)
    assert result.effective_size() == pytest.approx(40 / (1 + result.weights.var(-1) / result.weights.mean(-1) ** 2))
    found = cmfast.rake(
        torch.asarray(DESIGN), [(k, torch.tensor(t)) for k, t in TARGETS], weights=torch.asarray(weights)
    )
    assert type(found.effective_size()) is torch.Tensor
    assert found.effective_size().tolist() == pytest.approx(want)


def test_equal_weights_have_the_size_of_the_sample():
    result = cmfast.rake(np.ones((7, 1)), [21.0])
    assert float(result.effective_size()) == pytest.approx(7.0, rel=1e-14)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_weights_of_any_size(scale):
    one, other = (cmfast.rake(DESIGN, [(0, [s * 30, s * 20, s * 50])], weights=np.full(40, s)) for s in (1.0, scale))
    assert float(other.effective_size()) == pytest.approx(float(one.effective_size()))


def test_no_answer_has_no_size():
    result = cmfast.rake([[0, 0, 1]], [(0, [1.0, np.inf])], on_failure="ignore")
    assert np.isnan(result.effective_size())


def test_design_effect():
    """Kish's: one plus the squared coefficient of variation; the number of records over the effective size."""
    rng = np.random.default_rng(3)
    design = rng.integers(0, 3, (2, 50))
    totals = [(0, [20.0, 15.0, 15.0]), (1, [10.0, 20.0, 20.0])]
    result = cmfast.rake(design, totals, weights=rng.random((4, 50)) + 0.1)
    w = result.weights
    want = 1.0 + (w.std(-1) / w.mean(-1)) ** 2
    np.testing.assert_allclose(result.design_effect(), want, rtol=1e-12)
    np.testing.assert_allclose(result.design_effect() * result.effective_size(), 50.0, rtol=1e-13)
    equal = cmfast.rake([[0, 1, 0, 1]], [(0, [5.0, 5.0])])
    assert float(equal.design_effect()) == pytest.approx(1.0, rel=1e-14)
    found = cmfast.rake(torch.from_numpy(design), totals, weights=torch.from_numpy(w)).design_effect()
    assert type(found) is torch.Tensor
    np.testing.assert_allclose(found.numpy(), want, rtol=1e-6)
