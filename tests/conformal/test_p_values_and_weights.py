"""P-values and weighted thresholds: that they agree with sets, hold what they promise, and refuse what they must."""

import math

import numpy as np
import pytest
from checks import assert_same_bits
from optional import torch

import cmfast
from cmfast import conformal

RNG = np.random.default_rng(5)
N, M, C = 90, 50, 4
P, Y = RNG.dirichlet(np.ones(C), N + M), RNG.integers(0, C, N + M)
U = RNG.integers(0, 5, N + M) / 4
S = conformal.scores(P[:N], Y[:N], u=U[:N])
NEW = conformal.scores(P[N:], u=U[N:])


@pytest.mark.parametrize("by_class", [False, True])
@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.3, 0.7])
def test_sets_have_the_labels_whose_p_value_exceeds_alpha(alpha, by_class):
    y = Y[:N] if by_class else None
    p = conformal.p_values(S, NEW, y=y)
    sets = conformal.prediction_sets(
        P[N:], conformal.threshold(S, alpha, y=y, n_classes=C if by_class else None), u=U[N:]
    )
    assert ((p > alpha + 1e-12) == sets.mask[0]).all()


def test_true_labels_have_small_p_values_as_seldom_as_promised():
    rng = np.random.default_rng(1)
    s = rng.random((2000, 20))
    p = conformal.p_values(s[:, :19], s[:, 19:])
    for k in range(1, 20):
        share = (p <= k / 20).mean()
        assert abs(share - k / 20) < 4 * math.sqrt(k / 20 * (1 - k / 20) / 2000)


def test_equal_weights_give_the_threshold_without_weights():
    alphas = [k / 100 for k in range(1, 100)]
    for n in (1, 9, 19, 99):
        s = RNG.integers(0, 50, n) / 8
        want = conformal.threshold(s, alphas)
        for weight in (1, 0.1, 3e-300):
            q = conformal.threshold(s, alphas, sample_weight=np.full(n, weight), new_weight=np.full(2, weight))
            assert_same_bits(q, np.stack([want, want], 1))


def test_whole_weights_repeat_scores():
    s, w = RNG.random(30), RNG.integers(0, 5, 30)
    for own in range(1, 6):
        repeated = np.append(np.repeat(s, w), [math.inf] * (own - 1))
        q = conformal.threshold(s, [0.1, 0.4], sample_weight=w, new_weight=[own])
        assert_same_bits(q[:, 0], conformal.threshold(repeated, [0.1, 0.4]))


def test_one_threshold_for_each_new_row():
    w, v = RNG.random(N), 20 * RNG.random(M)
    q = conformal.threshold(S, [0.1, 0.3], sample_weight=w, new_weight=v)
    sets = conformal.prediction_sets(P[N:], q, groups=np.arange(M), u=U[N:])
    assert (sets.mask == (q[..., None] >= NEW)).all()
    alone = [conformal.threshold(S, [0.1, 0.3], sample_weight=w, new_weight=v[k : k + 1]) for k in range(M)]
    assert_same_bits(q, np.concatenate(alone, 1))
    order = RNG.permutation(N)
    assert_same_bits(q, conformal.threshold(S[order], [0.1, 0.3], sample_weight=w[order], new_weight=v))


def test_coverage_under_a_shift():
    """Rows are drawn by x from [0, 1], evenly in the calibration, by 2 x among new rows; errors grow with x."""
    rng = np.random.default_rng(3)
    repeats, n = 1500, 60
    x = rng.random((repeats, n + 1))
    x[:, n] = np.sqrt(x[:, n])
    s = np.abs(rng.normal(size=x.shape)) * (0.2 + x)
    options = {"sample_weight": 2 * x[:, :n], "new_weight": 2 * x[:, n:]}
    q = conformal.threshold(s[:, :n], 0.2, **options)[:, 0, 0]
    plain = conformal.threshold(s[:, :n], 0.2)[:, 0]
    weighted, unweighted = ((s[:, n] <= limit).mean() for limit in (q, plain))
    error = math.sqrt(0.8 * 0.2 / repeats)
    assert weighted > 0.8 - 3 * error
    assert unweighted < 0.8 - 3 * error, "without weights too few are covered"


def test_tensors_and_blocks_of_dask():
    w, v = RNG.random(N), RNG.random(M)
    want = conformal.threshold(S, 0.2, sample_weight=w, new_weight=v), conformal.p_values(S, NEW, y=Y[:N])
    s, new, y, w_, v_ = (torch.asarray(x) for x in (S, NEW, Y[:N], w, v))
    found = conformal.threshold(s, 0.2, sample_weight=w_, new_weight=v_), conformal.p_values(s, new, y=y)
    for one, expected in zip(found, want, strict=True):
        assert type(one) is torch.Tensor
        assert_same_bits(one.numpy(), expected)
    da = pytest.importorskip("dask.array")
    lazy = da.from_array(np.stack([S, S]), chunks=(1, N))
    news = da.from_array(np.stack([NEW, NEW / 2]), chunks=(1, M, C))
    found = conformal.p_values(lazy, news)
    assert_same_bits(found.compute(), np.stack([conformal.p_values(S, x) for x in (NEW, NEW / 2)]))
    both = [da.from_array(np.stack([x, x]), chunks=(1, -1)) for x in (w, v)]
    found = conformal.threshold(lazy, 0.2, sample_weight=both[0], new_weight=both[1])
    assert_same_bits(found.compute(), np.stack([want[0], want[0]]))


def test_refusals():
    w, v = np.ones(N), np.ones(M)
    with pytest.raises(ValueError, match="new_weight must be given with sample_weight"):
        conformal.threshold(S, 0.1, sample_weight=w)
    with pytest.raises(ValueError, match="sample_weight must be given with new_weight"):
        conformal.threshold(S, 0.1, new_weight=v)
    with pytest.raises(ValueError, match="sample_weight must be None with y or groups"):
        conformal.threshold(S, 0.1, sample_weight=w, new_weight=v, y=Y[:N])
    with pytest.raises(ValueError, match=r"sample_weight must be of shape \(90,\)"):
        conformal.threshold(S, 0.1, sample_weight=w[1:], new_weight=v)
    with pytest.raises(ValueError, match=r"new_weight must be of shape \(\.\.\., m\)"):
        conformal.threshold(S, 0.1, sample_weight=w, new_weight=1.0)
    with pytest.warns(cmfast.FailureWarning, match=r"1 of 50 new rows.*; -1 at new_weight\[3\] is not a weight"):
        conformal.threshold(S, 0.1, sample_weight=w, new_weight=np.where(np.arange(M) == 3, -1, 1))
    with pytest.warns(cmfast.FailureWarning, match=r"50 of 50 new rows.*; nan at sample_weight\[0\] is not a weight"):
        conformal.threshold(S, 0.1, sample_weight=np.where(np.arange(N) == 0, np.nan, 1), new_weight=v)
    with pytest.raises(ValueError, match=r"new_scores must be of shape \(\.\.\., m, C\) with y"):
        conformal.p_values(S, NEW[:, 0], y=Y[:N])
    with pytest.raises(ValueError, match=r"new_scores must be of shape .*, with the batch axes \(2,\) of s"):
        conformal.p_values(np.stack([S, S]), NEW)
    with pytest.raises(ValueError, match=r"y must be of shape \(90,\)"):
        conformal.p_values(S, NEW, y=Y)
