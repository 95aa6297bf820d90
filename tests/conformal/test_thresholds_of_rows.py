"""Thresholds per row: their explicit form, against one row at a time, and thresholds for as many rows as classes."""

import warnings

import numpy as np
import pytest
from checks import assert_same_bits
from optional import torch

import cmfast
from cmfast import conformal

RULES = [{}, {"method": "raps", "lam": 0.05, "k_reg": 1}, {"method": "saps", "lam": 0.1},
         {"method": "top_k"}]  # fmt: skip


def draw(*shape, seed=0):
    """Return rows of probabilities."""
    P = np.random.default_rng(seed).gamma(0.5, size=shape)
    return P / P.sum(-1, keepdims=True)


def make_sets(P, q, **options):
    """Return the mask of sets with drawn U, without warnings."""
    u = np.linspace(0.05, 0.95, P.shape[-2]) * np.ones(P.shape[:-1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return conformal.prediction_sets(P, q, u=u, **options).mask


def one_by_one(P, q, **options):
    """Return the sets of each row alone by its thresholds; `q` has the shape (A, n) or (A, n, C)."""
    u = np.linspace(0.05, 0.95, len(P))
    rows = [conformal.prediction_sets(P[[k]], q[:, k], u=u[[k]], **options).mask for k in range(len(P))]
    return np.concatenate(rows, axis=1)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("C", [5, 40])
@pytest.mark.parametrize("n", [1, 5, 23, 40])
def test_thresholds_per_row(rule, C, n):
    P, rng = draw(n, C), np.random.default_rng(1)
    top = C if rule.get("method") == "top_k" else 1.0
    q = top * rng.random((2, n))
    want = one_by_one(P, q, **rule)
    assert_same_bits(make_sets(P, q[..., np.newaxis], **rule), want)
    assert_same_bits(make_sets(P, q, groups=np.arange(n), **rule), want)
    both = top * rng.random((2, n, C))
    assert_same_bits(make_sets(P, both, **rule), one_by_one(P, both, **rule))
    by_class = top * rng.random((2, C))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = conformal.prediction_sets(P, by_class, u=np.linspace(0.05, 0.95, n), **rule).mask
    assert_same_bits(make_sets(P, by_class[:, np.newaxis], **rule), want)
    alone = top * rng.random(2)
    assert_same_bits(make_sets(P, alone[:, np.newaxis, np.newaxis], **rule), make_sets(P, alone, **rule))


def test_batches_tensors_and_dask():
    P, q = draw(3, 8, 6), np.random.default_rng(2).random((3, 2, 8))
    want = np.stack([one_by_one(p, limits) for p, limits in zip(P, q, strict=True)])
    assert_same_bits(make_sets(P, q[..., np.newaxis]), want)
    shared = np.stack([one_by_one(p, q[0]) for p in P])
    assert_same_bits(make_sets(P, q[:1, :, :, np.newaxis]), shared)
    u = np.linspace(0.05, 0.95, 8) * np.ones((3, 8))
    found = conformal.prediction_sets(torch.from_numpy(P), torch.from_numpy(q)[..., None], u=torch.from_numpy(u))
    assert_same_bits(found.mask.numpy(), want)
    da = pytest.importorskip("dask.array")
    lazy = conformal.prediction_sets(da.from_array(P, chunks=(2, 3, -1)), q[..., np.newaxis], u=da.from_array(u))
    assert_same_bits(np.asarray(lazy.mask), want)


def test_as_many_rows_as_classes():
    """A warning only if both readings differ."""
    P = draw(4, 4)
    q = np.array([[0.2, 0.5, 0.7, 0.9]])
    said = r"q of shape \(1, 4\) is taken as thresholds per class, .* pass q\[\.\.\., None\] for thresholds per row"
    with pytest.warns(cmfast.DiagnosticWarning, match=said):
        found = conformal.prediction_sets(P, q, u=np.full(4, 0.5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = conformal.prediction_sets(P, q[:, np.newaxis], u=np.full(4, 0.5))
        assert_same_bits(found.mask, again.mask)
        assert_same_bits(conformal.prediction_sets(P, q, u=np.full(4, 0.5), on_failure="ignore").mask, found.mask)
        conformal.prediction_sets(P, np.full((2, 4), 0.5))
        conformal.prediction_sets(P, np.full((2, 4), np.nan))
        conformal.prediction_sets(draw(5, 4), q)
        da = pytest.importorskip("dask.array")
        lazy = conformal.prediction_sets(da.from_array(draw(8, 4), chunks=(4, -1)), q, rng=1)
        np.asarray(lazy.mask)
    rows = conformal.prediction_sets(P, q[..., np.newaxis], u=np.full(4, 0.5))
    assert (rows.mask != found.mask).any()


def test_another_number_of_rows_is_refused_with_the_cure():
    with pytest.raises(ValueError, match=r"for a threshold per row pass q\[\.\.\., None\]"):
        conformal.prediction_sets(draw(5, 3), np.full((1, 5), 0.5))
    with pytest.raises(ValueError, match=r"q must be of shape \(\.\.\., A\) or \(\.\.\., A, 3\)"):
        conformal.prediction_sets(draw(5, 3), np.full((1, 4, 1), 0.5))


@pytest.mark.parametrize("rule", RULES)
def test_sets_of_several_thresholds_are_those_of_each_alone(rule):
    rng = np.random.default_rng(5)
    for C in (25, 33, 64, 65, 130):
        for n in (1, 8, 21):
            P = np.round(draw(n, C, seed=C) * 32) / 32  # with ties
            P[:, 0] = np.maximum(1.0 - P[:, 1:].sum(-1), 0.0)
            if n == 21:
                P[3, 2], P[9] = np.nan, 1.0  # invalid; and a sum beyond 1, on the general path
            q = (C if rule.get("method") == "top_k" else 1.0) * rng.random(5)
            q[rng.integers(5)] = rng.choice([-1.0, np.inf])
            u = rng.random(n)
            for empty in ("allow", "top1"):
                options = {"u": u, "empty": empty, "on_failure": "ignore", **rule}
                alone = [conformal.prediction_sets(P, [one], **options) for one in q]
                for A in range(2, 6):
                    both = conformal.prediction_sets(P, q[:A], **options)
                    assert_same_bits(both.packed, np.concatenate([x.packed for x in alone[:A]]))
                    assert_same_bits(both.sizes, np.concatenate([x.sizes for x in alone[:A]]))
                    assert (both.sizes == both.mask.sum(-1)).all()
