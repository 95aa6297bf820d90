"""SAPS and top-k: their formulas in exact arithmetic, ties, coverage over unkind cases, and TorchCP's own scores."""

import importlib.util
import sys
import zlib
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from checks import assert_same_bits
from conformal_peers import import_torchcp

import cmfast
from cmfast import conformal

pytestmark = pytest.mark.exhaustive

UNIT = Fraction(1, 2**52)
RULES = [{"method": "saps", "lam": 0.1}, {"method": "top_k"}]
NAMES = ["saps", "top-k"]


def exact_score(row, label, u, method, lam=0.0):
    """Return a score by its definition; ties by class, smaller first."""
    order = sorted(range(len(row)), key=lambda j: (-row[j], j))
    rank, u = order.index(label) + 1, Fraction(u)
    if method == "top_k":
        return rank - u
    if rank == 1:
        return (1 - u) * Fraction(row[label])
    return Fraction(max(row)) + Fraction(lam) * (rank - 1 - u)


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
@pytest.mark.parametrize("C", [1, 2, 7, 24, 25, 300])
def test_scores_are_their_definition(rule, C):
    rng = np.random.default_rng(C)
    P = np.concatenate([rng.dirichlet(np.full(C, 0.5), 9), np.round(rng.dirichlet(np.ones(C), 9) * 16) / 16])
    u, y = rng.random(18), rng.integers(0, C, 18)
    every, own = conformal.scores(P, u=u, **rule), conformal.scores(P, y, u=u, **rule)
    np.testing.assert_array_equal(own, every[np.arange(18), y])
    for i, row in enumerate(P.tolist()):
        for j in range(min(C, 30)):
            wanted = exact_score(row, j, u[i], **rule)
            assert abs(Fraction(float(every[i, j])) - wanted) <= (2 + C) * UNIT


def test_equal_probabilities_are_ranked_by_class():
    P = [[0.25, 0.25, 0.25, 0.25], [0.0, 0.5, 0.0, 0.5]]
    for dtype in (np.float32, np.float64):
        found = conformal.scores(np.array(P, dtype), randomised=False, method="top_k")
        assert found.tolist() == [[1, 2, 3, 4], [3, 1, 4, 2]]
    found = conformal.scores(P, randomised=False, method="saps", lam=0.5)
    assert found.tolist() == [[0.25, 0.75, 1.25, 1.75], [1.5, 0.5, 2.0, 1.0]]


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
@pytest.mark.parametrize("C", [4, 70, 300])
def test_sets_are_the_labels_within_the_threshold(rule, C):
    """For one threshold and for one of each class, with ties, zeros, NaN, infinity and the scores themselves."""
    rng = np.random.default_rng(C)
    P = np.round(rng.dirichlet(np.full(C, 0.1), 60) * 64) / 64
    P[:3] = [[1 / C], [0.0], [1.0]]
    u = rng.integers(0, 5, 60) / 4
    s = conformal.scores(P, u=u, **rule)
    q = np.array([0.0, -1.0, np.inf, np.nan, 0.5, 1.0, 2.5, C, s[5, 1], s[9, C // 2], np.nextafter(s[9, 0], 0)])
    sets = conformal.prediction_sets(P, q, u=u, **rule)
    np.testing.assert_array_equal(sets.mask, ~(s > q[:, None, None]))
    np.testing.assert_array_equal(sets.sizes, sets.mask.sum(-1))
    by_class = rng.choice(q, (3, C))
    np.testing.assert_array_equal(conformal.prediction_sets(P, by_class, u=u, **rule).mask, ~(s > by_class[:, None, :]))
    top = conformal.prediction_sets(P, [-1.0], u=u, empty="top1", **rule)
    np.testing.assert_array_equal(top.mask[0], np.arange(C) == P.argmax(-1)[:, None])


def sizes_of_top_k(rows, q, u):
    """Return sizes by the definition: ranks up to q + U."""
    return np.minimum(np.floor(q + u), rows.shape[-1])


def test_sizes_of_top_k_sets_differ_by_one():
    rng = np.random.default_rng(2)
    P, u = rng.dirichlet(np.ones(12), 500), rng.random(500)
    sets = conformal.prediction_sets(P, [3.25], u=u, method="top_k")
    assert set(sets.sizes[0].tolist()) == {3, 4}
    np.testing.assert_array_equal(sets.sizes[0], sizes_of_top_k(P, 3.25, u))


def draw_problem(rng, kind, n):
    """Return probabilities and labels of an unkind case; the model is not the truth in any of them."""
    C = {"ties": 6, "one class": 1, "1000 classes": 1000}.get(kind, 10)
    truth = rng.dirichlet(np.full(C, 0.2), n)
    y = (truth.cumsum(-1) < rng.random((n, 1))).sum(-1).clip(max=C - 1)
    if kind == "ties":
        return np.round(truth * 4) / 4, y
    if kind == "saturated":
        return np.eye(C)[truth.argmax(-1)], y
    if kind == "wrong model":
        return truth[:, ::-1], y
    return truth**3 / (truth**3).sum(-1, keepdims=True), y


KINDS = ["ties", "one class", "1000 classes", "saturated", "wrong model", "overconfident"]


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_coverage_is_the_one_that_was_asked_for(rule, kind):
    """Few calibration rows, many repetitions: within four standard errors of 1 - alpha <= P <= 1 - alpha + 1 / (n + 1).

    The numbers U are drawn for every row, as the guarantee has them; without them coverage can only be higher.
    """
    rng = np.random.default_rng(zlib.crc32(kind.encode()))
    n, repetitions, alpha = 19, 150 if kind == "1000 classes" else 600, 0.2
    hits, plain_hits = [], []
    for _ in range(repetitions):
        P, y = draw_problem(rng, kind, n + 30)
        u = rng.random(n + 30)
        for own, found in (({"u": u}, hits), ({"randomised": False}, plain_hits)):
            known, new = ({k: v[part] if k == "u" else v for k, v in own.items()} for part in (np.s_[:n], np.s_[n:]))
            q = conformal.threshold(conformal.scores(P[:n], y[:n], **known, **rule), alpha)
            found.append(conformal.prediction_sets(P[n:], q, **new, **rule).coverage(y[n:])[0])
    error = np.std(hits) / np.sqrt(repetitions)
    assert 1 - alpha - 4 * error <= np.mean(hits) <= 1 - alpha + 1 / (n + 1) + 4 * error
    assert np.mean(plain_hits) >= 1 - alpha - 4 * np.std(plain_hits) / np.sqrt(repetitions)


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_too_few_calibration_rows_give_all_classes(rule):
    P = np.random.default_rng(0).dirichlet(np.ones(5), 8)
    q = conformal.threshold(conformal.scores(P, np.zeros(8, int), **rule), 0.1)
    assert q.tolist() == [np.inf]
    assert conformal.prediction_sets(P, q, **rule).mask.all()


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_p_values_hold_the_sets(rule):
    rng = np.random.default_rng(4)
    P, y = rng.dirichlet(np.ones(5), 300), rng.integers(0, 5, 300)
    s = conformal.scores(P[:200], y[:200], **rule)
    p = conformal.p_values(s, conformal.scores(P[200:], **rule))
    q = conformal.threshold(s, [0.05, 0.3])
    mask = conformal.prediction_sets(P[200:], q, **rule).mask
    np.testing.assert_array_equal(p > np.array([0.05, 0.3])[:, None, None], mask)


@pytest.fixture
def torchcp(monkeypatch):
    """TorchCP's scores SAPS and TOPK, and a function that lets it draw given numbers, one for each row."""
    torch = pytest.importorskip("torch")
    if importlib.util.find_spec("torchcp") is None:
        pytest.skip("torchcp is not installed")
    scores = import_torchcp().classification.score

    def give(u):
        """Let TorchCP draw these numbers."""
        draws = torch.from_numpy(u)

        def rand(*shape, device=None):
            """Return the given numbers in the shape that TorchCP asks for."""
            size = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
            return draws.reshape(-1, *[1] * (len(size) - 1)).expand(size)

        monkeypatch.setattr(torch, "rand", rand)

    rules = {
        "saps": lambda randomised: scores.SAPS(score_type="identity", randomized=randomised, weight=0.1),
        "top_k": lambda randomised: scores.TOPK(score_type="identity", randomized=randomised),
    }
    yield rules, give
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchcp"]:
        del sys.modules[name]  # parts of it only


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
@pytest.mark.parametrize("C", [5, 200])
def test_torchcp_has_the_same_scores_of_all_labels(torchcp, rule, C):
    """With and without U; both add floats, so that the last bits may differ."""
    import torch

    rules, give = torchcp
    rng = np.random.default_rng(C)
    P, u = rng.dirichlet(np.ones(C), 40), rng.random(40)
    give(u)
    for randomised, own in ((True, {"u": u}), (False, {"randomised": False})):
        theirs = rules[rule["method"]](randomised)(torch.from_numpy(P)).numpy()
        np.testing.assert_allclose(conformal.scores(P, **own, **rule), theirs, rtol=0, atol=1e-13)


def test_torchcp_calibrates_the_first_rank_of_saps_by_another_rule(torchcp):
    """It multiplies by U where its scores of all labels multiply by 1 - U; without U calibration scores are 0."""
    import torch

    rules, give = torchcp
    rng = np.random.default_rng(1)
    P, u = rng.dirichlet(np.ones(5), 40), rng.random(40)
    first = P.argmax(-1)
    give(u)
    theirs = rules["saps"](True)(torch.from_numpy(P), torch.from_numpy(first)).numpy()
    np.testing.assert_allclose(theirs, u * P.max(-1), rtol=0, atol=1e-15)
    np.testing.assert_allclose(conformal.scores(P, first, u=u, **RULES[0]), (1 - u) * P.max(-1), rtol=0, atol=1e-15)
    theirs = rules["saps"](False)(torch.from_numpy(P), torch.from_numpy(first)).numpy()
    assert (theirs == 0).all()
    ours = conformal.scores(P, first, randomised=False, **RULES[0])
    np.testing.assert_allclose(ours, P.max(-1), rtol=0, atol=1e-15)
    others = (first + 1) % 5
    theirs = rules["saps"](True)(torch.from_numpy(P), torch.from_numpy(others)).numpy()
    np.testing.assert_allclose(conformal.scores(P, others, u=u, **RULES[0]), theirs, rtol=0, atol=1e-14)


def test_a_grid_that_ends_below_the_scores_is_said():
    P = np.random.default_rng(0).dirichlet(np.ones(9), 300)
    own = conformal.scores(P, np.arange(300) % 9, method="top_k")
    with pytest.warns(cmfast.DiagnosticWarning, match=r"beyond the grid and infinite, as \d+ scores are above top=1"):
        assert np.isinf(conformal.score_histogram(own, bins=100).threshold(0.1)).all()
    exact = conformal.threshold(own, 0.1)
    assert exact <= conformal.score_histogram(own, bins=90, top=9).threshold(0.1) <= exact + 0.1
    assert np.isinf(conformal.score_histogram(own[:3], bins=90, top=9).threshold(0.1)).all()


def _score_all_exactly(p, share, method, penalty, k_reg):
    """Return the scores of all labels of a row: integers in units of 2**-52, rounded to float64 once.

    `share` of a label's own step counts.
    """
    unit = 1 << 52
    scores, before, top = [0.0] * len(p), 0, round(Fraction(max(p)) * unit)
    for rank, label in enumerate(sorted(range(len(p)), key=lambda k: -p[k])):
        own = round(Fraction(share * p[label]) * unit)
        if method == "raps":
            whole = min(before + own, unit) + penalty * max(0, rank + 1 - k_reg)
            before += round(Fraction(p[label]) * unit)
        else:
            whole = own if rank == 0 else top + penalty * (rank - 1) + round(Fraction(share * float(penalty)))
        scores[label] = float(Fraction(whole, unit))
    return scores


@pytest.mark.parametrize("method", ["raps", "saps"])
def test_penalties_are_added_exactly(rng, method):
    for C, lam in product((1, 2, 3, 10, 24, 25, 70), (2.0**-52, 0.01, 0.1, 1 / 3, 0.9, 1.0, 2.0 / 3.0, 3.3, 14.0)):
        P = rng.dirichlet(np.full(C, 0.2), 24)
        P[0], P[1, 1:] = 1.0 / C, 0.0
        u = np.concatenate([[0.0, 1.0, 0.5], rng.random(21)])
        y = rng.integers(0, C, 24)
        for k_reg in (0, 1, 3, 2 * C) if method == "raps" else (None,):
            rule = {"method": method, "lam": lam, "u": u} | ({} if k_reg is None else {"k_reg": k_reg})
            penalty = round(Fraction(lam) * 2**52)
            expected = np.array(
                [_score_all_exactly(p, 1.0 - x, method, penalty, k_reg) for p, x in zip(P.tolist(), u, strict=True)]
            )
            what = f"{C} classes, {lam}, {k_reg}"
            assert_same_bits(conformal.scores(P, **rule), expected, what=what)
            assert_same_bits(conformal.scores(P, y, **rule), expected[np.arange(24), y], what=what)
            limits = np.array([0.5, *expected[3, :2], *expected[:, y[0]].max(keepdims=True), 1.01])
            sets = conformal.prediction_sets(P, limits, **rule).mask
            np.testing.assert_array_equal(sets, expected <= limits[:, None, None], err_msg=what)
