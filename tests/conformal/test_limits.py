"""Scores end at 1 whatever rounding leaves of a row, and U means what it means elsewhere: s = cumulative sum - U p."""

import math
from fractions import Fraction

import numpy as np
import pytest
from folded import check_each

from cmfast import conformal

RNG = np.random.default_rng(6)


def rounded_rows(C, n, dtype):
    """Return rows of probabilities as a softmax of this type leaves them, and some that add up to more."""
    z = RNG.normal(scale=3.0, size=(n, C)).astype(dtype)
    P = np.exp(z)
    P /= P.sum(axis=1, keepdims=True)
    P[::7] *= np.array(1 + 2.0**-21, dtype)
    return P


def check_ends(C, dtype, options):
    P = rounded_rows(C, 300, dtype)
    s = conformal.scores(P, randomised=False, **options)
    if options.get("method") == "top_k":
        assert s.max() == C
    elif options.get("method") == "saps":
        assert s.max() <= 1.0 + options["lam"] * (C - 1) + 1e-12
    elif options.get("method") != "raps":
        assert s.max() <= 1.0
    else:
        assert s.max() <= 1.0 + options["lam"] * max(0, C - options["k_reg"]) + 1e-12
    assert conformal.prediction_sets(P, [float(s.max())], randomised=False, **options).mask.all()
    q = np.quantile(s, [0.3, 0.9, 0.999])
    found = conformal.prediction_sets(P, q, randomised=False, **options).mask
    assert (found == (s <= q[:, None, None])).all()


RULES = [{}, {"method": "raps", "lam": 0.01, "k_reg": 2}, {"method": "raps", "lam": 0.001, "k_reg": 37},
         {"method": "saps", "lam": 0.2}, {"method": "top_k"}]  # fmt: skip


@pytest.mark.exhaustive
@pytest.mark.parametrize("options", RULES, ids=str)
def test_sums_end_at_one(options):
    check_each(
        (f"{C} classes, {np.dtype(dtype)}, {options}", lambda C=C, dtype=dtype: check_ends(C, dtype, options))
        for C in (2, 5, 40, 64, 100, 700, 1200)
        for dtype in (np.float32, np.float64)
    )


def test_a_threshold_of_one_leaves_no_label_out():
    P = rounded_rows(1000, 9, np.float64)
    assert conformal.prediction_sets(P, [1.0], randomised=False).mask.all()
    assert conformal.prediction_sets(P, np.ones((1, 1000)), randomised=False).mask.all()


@pytest.mark.parametrize("C", [3, 50, 400])
def test_u_is_subtracted_from_the_cumulative_sum(C):
    """As MAPIE and TorchCP write it, in exact arithmetic."""
    P, u = RNG.dirichlet(np.full(C, 0.5), 20), RNG.random(20)
    s = conformal.scores(P, u=u)
    for row, share, found in zip(P.tolist(), u.tolist(), s.tolist(), strict=True):
        total = Fraction(0)
        for j in sorted(range(C), key=lambda j: -row[j]):
            total += Fraction(row[j])
            wanted = float(total - Fraction(share) * Fraction(row[j]))
            assert math.isclose(found[j], wanted, rel_tol=0, abs_tol=(C + 2) * 2.0**-52)


def test_the_ends_of_u():
    P = RNG.dirichlet(np.ones(6), 8)
    np.testing.assert_array_equal(conformal.scores(P, u=np.zeros(8)), conformal.scores(P, randomised=False))
    assert (conformal.scores(P, P.argmax(axis=1), u=np.ones(8)) == 0).all()


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "?"])
def test_u_of_any_type(dtype):
    P, u = RNG.dirichlet(np.ones(6), 8), np.array([0, 1, 0, 0, 1, 1, 0, 1], dtype)
    np.testing.assert_array_equal(conformal.scores(P, u=u), conformal.scores(P, u=u.astype(float)))
