"""Thresholds by group and class together, and the shapes in which thresholds are given to sets."""

import math
from fractions import Fraction

import numpy as np
import pytest
from optional import torch

import cmfast
from cmfast import conformal

RNG = np.random.default_rng(7)
N, C, G = 240, 3, 4
P, Y, GROUPS = RNG.dirichlet(np.ones(C), N), RNG.integers(0, C, N), RNG.integers(0, G, N)
ALPHAS = [0.3, 0.1]
U = RNG.integers(0, 9, N) / 8


def rank_statistic(values, alpha):
    """Return the conformal quantile of a list by its definition."""
    k = math.ceil((len(values) + 1) * (1 - Fraction(str(alpha))))
    return sorted(values)[k - 1] if k <= len(values) else math.inf


def by_hand(s, y, groups, alphas):
    """Return thresholds of each alpha, group and class."""
    rows = list(zip(s, groups, y, strict=True))
    cells = [[[v for v, a, b in rows if (a, b) == (g, c)] for c in range(C)] for g in range(G)]
    return [[[rank_statistic(cell, alpha) for cell in line] for line in cells] for alpha in alphas]


@pytest.mark.parametrize("make", [np.asarray, pytest.param(lambda x: torch.asarray(x), id="torch")])  # noqa: PLW0108
def test_groups_and_classes(make):
    s = conformal.scores(P, Y, u=U)
    q = conformal.threshold(make(s), ALPHAS, y=make(Y), groups=make(GROUPS), n_classes=C, n_groups=G)
    want = by_hand(s.tolist(), Y.tolist(), GROUPS.tolist(), ALPHAS)
    assert np.asarray(q).tolist() == want
    sets = conformal.prediction_sets(make(P), q, groups=make(GROUPS), u=make(U))
    table = conformal.scores(P, u=U)
    members = [[[table[i, c] <= one[GROUPS[i]][c] for c in range(C)] for i in range(N)] for one in want]
    assert np.asarray(sets.mask).tolist() == members


def test_batches_and_unsigned_labels():
    s = RNG.random((2, 60))
    y, groups = RNG.integers(0, C, (2, 60)).astype(np.uint8), RNG.integers(0, G, (2, 60)).astype(np.uint64)
    options = {"n_classes": C, "n_groups": G, "on_failure": "ignore"}
    q = conformal.threshold(s, ALPHAS, y=y, groups=groups, **options)
    assert q.tolist() == [by_hand(s[b].tolist(), y[b].tolist(), groups[b].tolist(), ALPHAS) for b in range(2)]


def test_cells_without_scores_and_invalid_labels():
    with pytest.warns(
        cmfast.FailureWarning, match=r"1 of 4 cells of group and class without a threshold.*class 0 of group 1"
    ):
        q = conformal.threshold([0.1, 0.2, 0.3], 0.5, y=[0, 1, 1], groups=[0, 0, 1])
    assert q.tolist() == [[[0.1, 0.2], [math.inf, 0.3]]]
    for y, groups in ((5, 0), (0, -1)):
        with pytest.warns(cmfast.FailureWarning, match=r"1 of 5 scores left out.*(5 at y\[4\]|-1 at groups\[4\])"):
            q = conformal.threshold(
                [0.1, 0.2, 0.3, 0.4, 0.5], 0.5, y=[0, 1, 0, 1, y], groups=[0, 0, 1, 1, groups], n_classes=2, n_groups=2
            )
        assert q.tolist() == [[[0.1, 0.2], [0.3, 0.4]]]


def test_blocks_of_dask():
    da = pytest.importorskip("dask.array")
    s = RNG.random((4, 50))
    y, groups = RNG.integers(0, 2, (2, 4, 50))
    options = {"n_classes": 2, "n_groups": 2}
    want = conformal.threshold(s, ALPHAS, y=y, groups=groups, **options)
    lazy = [da.from_array(x, chunks=(2, 50)) for x in (s, y, groups)]
    found = conformal.threshold(lazy[0], ALPHAS, y=lazy[1], groups=lazy[2], **options)
    assert found.shape == want.shape
    assert found.compute().tolist() == want.tolist()


def masks(q, **options):
    """Return the sets of the common rows as lists."""
    return conformal.prediction_sets(P, q, u=U, **options).mask.tolist()


def test_one_threshold_for_each_row():
    q = RNG.random((2, N))
    table = conformal.scores(P, u=U)
    want = [[[table[i, c] <= one[i] for c in range(C)] for i in range(N)] for one in q]
    assert masks(q, groups=np.arange(N)) == want
