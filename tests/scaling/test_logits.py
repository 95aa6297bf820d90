"""Scaling of logarithms of cells: what callers rely on beside what the oracle says."""

from fractions import Fraction

import numpy as np
import pytest
from checks import assert_same_bits
from optional import torch

import cmfast

TIGHT = {"logits": True, "tol": 1e-13}


def logits(*shape, scale=1.0):
    return scale * np.random.default_rng(5).normal(size=shape)


def test_cells_in_range_are_those_of_ipf():
    L = logits(9, 5, 5, scale=3.0)
    found, want = cmfast.ipf(L, **TIGHT), cmfast.ipf(np.exp(L), tol=1e-13)
    np.testing.assert_allclose(found.matrix, want.matrix, rtol=1e-11)
    np.testing.assert_allclose(found.row_scale, np.log(want.row_scale), atol=1e-11)
    np.testing.assert_allclose(found.col_scale, np.log(want.col_scale), atol=1e-11)
    assert_same_bits(cmfast.bi_normalize(L, **TIGHT), found.matrix)


@pytest.mark.parametrize("scale", [100.0, 1e4, 1e9])
def test_any_range(scale):
    """A matrix of the sums wanted that is the exponential of a sum of three is the answer, whoever found it."""
    L = logits(6, 7, 7, scale=scale)
    result = cmfast.ipf(L, **TIGHT)
    assert not result.status.any()
    np.testing.assert_allclose(result.matrix.sum(-1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(result.matrix.sum(-2), 1.0, rtol=1e-12)
    sums = result.row_scale[..., :, None] + L + result.col_scale[..., None, :]
    np.testing.assert_allclose(result.matrix, np.exp(sums), rtol=1e-14 * scale, atol=1e-15 * scale)


@pytest.mark.parametrize("targets", [None, ([3.0, 5.0], [6.0, 2.0])])
@pytest.mark.parametrize("size", [1e6, 1e9, 1e13, 1e18])
def test_large_logarithms_lose_nothing_to_rounding(size, targets):
    """The odds ratio of a 2 x 2 table is the same after scaling; of these it was off by a factor of up to e**192."""
    rng = np.random.default_rng(3)
    a, b, c = rng.uniform(-size, size, (3, 200))
    d = [float(-sum(map(Fraction, (x, -y, -z, rng.uniform(-20, 20))))) for x, y, z in zip(a, b, c, strict=True)]
    L = np.stack([a, b, c, d], -1).reshape(-1, 2, 2)
    want = [float(sum(map(Fraction, (M[0, 0], -M[0, 1], -M[1, 0], M[1, 1])))) for M in L]
    near = abs(np.array(want)) < 500
    P = cmfast.ipf(L[near], *(targets or ()), logits=True).matrix
    found = np.log(P[:, 0, 0]) + np.log(P[:, 1, 1]) - np.log(P[:, 0, 1]) - np.log(P[:, 1, 0])
    assert near.sum() >= 80
    np.testing.assert_allclose(found, np.array(want)[near], rtol=1e-12, atol=1e-12)


def test_the_same_bits_for_any_neighbours():
    L = logits(10, 4, 4, scale=2.0)
    L[3] *= 1e3
    L[7] *= 200.0
    L[5, 0, 0] = np.nan
    whole = cmfast.ipf(L, **TIGHT, on_failure="ignore")
    for part in (slice(0, 1), slice(2, 4), slice(5, 10)):
        some = cmfast.ipf(L[part], **TIGHT, on_failure="ignore", num_threads=1)
        for one, other in zip(some, whole, strict=True):
            assert_same_bits(one, other[part])


def test_a_limit_of_logarithms_far_apart():
    L = np.array([[0.0, 2000.0, 1.0], [-np.inf, 500.0, -3000.0], [-np.inf, 0.0, 7000.0]])
    with pytest.warns(cmfast.FailureWarning, match=r"LIMIT_ONLY: no scaling exists, .* to zero$"):
        result = cmfast.ipf(L, logits=True)
    np.testing.assert_allclose(result.matrix, np.eye(3), atol=1e-12)
    assert np.isnan(result.row_scale).all()


def test_logarithms_at_the_ends_of_float64():
    """Their differences overflow; a column of these was taken for empty, though it is its factor that is too large."""
    L = np.array([[1e308, -1e308], [-1.5e308, 1e308]])
    with pytest.warns(cmfast.FailureWarning, match="RANGE: scale factors leave the float64 range"):
        assert np.isnan(cmfast.ipf(L, [1.0, 2.0], [2.0, 1.0], logits=True).matrix).all()
    np.testing.assert_allclose(cmfast.bi_normalize(L / 2.0, logits=True), np.eye(2), atol=1e-300)


@pytest.mark.parametrize("shape", [(0, 0), (3, 0, 0), (0, 3, 3), (0, 4), (4, 0)])
def test_nothing_to_scale(shape):
    targets = () if shape[-1] == shape[-2] else (np.zeros(shape[0]), np.zeros(shape[1]))
    result = cmfast.ipf(np.zeros(shape), *targets, logits=True)
    assert result.matrix.shape == shape
    assert not np.any(result.status)


def test_what_has_no_answer_says_why():
    bad, empty = np.zeros((2, 2)), np.full((2, 2), -1e4)
    bad[1, 0], empty[:, 1] = np.inf, -np.inf
    for L, said in ((bad, r"infinite value at M\[1, 0\]$"), (empty, r"column 1 is empty but its target is 1$")):
        with pytest.raises(cmfast.FailureError, match=said):
            cmfast.bi_normalize(L, logits=True, on_failure="raise")
    for options, said in (
        ({"smoothing": 0.1}, "logaddexp"),
        ({"start": (np.ones(2), np.ones(2))}, "start must be None"),
    ):
        with pytest.raises(ValueError, match=said):
            cmfast.bi_normalize(bad, logits=True, **options)


def tensor(*shape, scale):
    return torch.from_numpy(logits(*shape, scale=scale)).requires_grad_()


def test_gradients():
    L = tensor(2, 4, 4, scale=1.0)
    assert torch.autograd.gradcheck(lambda L: cmfast.ipf(L, **TIGHT)[:3], L)
    G = torch.from_numpy(logits(2, 4, 4))
    (found,) = torch.autograd.grad((cmfast.bi_normalize(L, **TIGHT) * G).sum(), L)
    (want,) = torch.autograd.grad((cmfast.bi_normalize(L.exp(), tol=1e-13) * G).sum(), L)
    torch.testing.assert_close(found, want, rtol=1e-9, atol=1e-12)


def test_gradients_in_targets_of_which_some_are_zero():
    L, G = tensor(3, 4, scale=2.0), torch.from_numpy(logits(3, 4))
    rows = torch.tensor([2.0, 0.0, 1.0], dtype=torch.float64, requires_grad=True)
    cols = torch.tensor([0.5, 1.5, 0.0, 1.0], dtype=torch.float64, requires_grad=True)
    found, want = (
        torch.autograd.grad((cmfast.ipf(M, rows, cols, tol=1e-13, **options).matrix * G).sum(), (L, rows, cols))
        for M, options in ((L, {"logits": True}), (L.exp(), {}))
    )
    for one, other in zip(found, want, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


def test_gradients_of_logarithms_far_apart():
    """Of two classes there is one number: a logit of half the sum of the diagonal less the rest."""
    L = torch.tensor([[1000.0, 4000.0], [-2001.0, 998.0]], dtype=torch.float64, requires_grad=True)
    P = cmfast.bi_normalize(L, **TIGHT)
    p = torch.sigmoid(torch.tensor(-0.5, dtype=torch.float64))
    torch.testing.assert_close(P[0, 0], p, rtol=1e-11, atol=0.0)
    (found,) = torch.autograd.grad(P[0, 0], L)
    slope = 0.5 * p * (1 - p)
    torch.testing.assert_close(found, slope * torch.tensor([[1.0, -1.0], [-1.0, 1.0]]).double(), rtol=1e-11, atol=0.0)


def test_single_precision():
    L = logits(4, 5, 5, scale=30.0).astype(np.float32)
    found = cmfast.bi_normalize(L, **TIGHT)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, cmfast.bi_normalize(L.astype(np.float64), **TIGHT), rtol=1e-6, atol=1e-44)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("C", [3, 300])
def test_messages_say_where_a_value_is_bad(value, C):
    L = np.zeros((C, C))
    L[C - 1, 2] = value
    kind = "NaN" if np.isnan(value) else "infinite"
    with pytest.raises(cmfast.FailureError, match=rf"{kind} value at M\[{C - 1}, 2\]"):
        cmfast.bi_normalize(L, logits=True, on_failure="raise")
