"""Rows of the normalisation paper that need no data, and stripes and test sets: each fails where it should."""

import numpy as np
import pytest

import cmfast
from cmfast._reproduce.normalization import claims, lemmas, shift, stripes, training

pytestmark = pytest.mark.papers

SETTINGS = training.NormalizationSettings(repeats=30, levels=(10.0, 0.3))


def matrices(rng, n=40, c=5):
    return rng.gamma(0.7, size=(n, c, c)) + 1e-2


def test_the_rate_of_convergence_is_that_of_the_limit(rng):
    M = matrices(rng)
    rate, sweeps = lemmas.measure_rates(M)
    for one, found, n in zip(M, rate, sweeps, strict=True):
        Q, errors = one, []
        for _ in range(n):
            Q = Q / Q.sum(axis=1, keepdims=True)
            Q = Q / Q.sum(axis=0, keepdims=True)
            errors.append(np.abs(Q.sum(axis=1) - 1).sum())
        assert errors[-1] <= lemmas.END < errors[-2]
        assert found == pytest.approx(errors[-1] / errors[-2], rel=1e-2)
    M = np.tile([[1.0, 1e-3], [1e-3, 1.0]], (3, 1, 1)) * np.array([1.0, 5.0])
    rate, _ = lemmas.measure_rates(M)
    assert rate == pytest.approx(((1 - 1e-3) / (1 + 1e-3)) ** 2, rel=1e-3)  # doubly stochastic by hand


def test_convergence_that_is_not_linear_fails(rng, monkeypatch):
    M = matrices(rng)
    assert lemmas.judge_convergence(M, SETTINGS).verdict == "holds"
    measured = lemmas.measure_rates
    monkeypatch.setattr(lemmas, "measure_rates", lambda M: (np.zeros(len(M)), measured(M)[1]))
    assert lemmas.judge_convergence(M, SETTINGS).verdict == "fails"  # faster than linear
    monkeypatch.setattr(lemmas, "measure_rates", lambda M: (np.full(len(M), np.nan), measured(M)[1]))
    assert lemmas.judge_convergence(M, SETTINGS).verdict == "fails"  # never done


def test_each_lemma_fails_where_it_is_broken(rng, monkeypatch):
    M = matrices(rng)
    A, B = np.exp(rng.normal(size=(2, len(M), M.shape[1])))
    assert lemmas.judge_scaling_invariance(M, A, B).verdict == "holds"
    assert lemmas.judge_minimality(M, SETTINGS).verdict == "holds"
    assert lemmas.judge_volumes(SETTINGS).verdict == "holds where no constant is added to M"
    normalize, weights, ipf = cmfast.normalize, cmfast.importance_weights, cmfast.ipf
    with monkeypatch.context() as patch:
        patch.setattr(cmfast, "normalize", lambda M, method: normalize(M, "all"))
        assert lemmas.judge_scaling_invariance(M, A, B).verdict == "fails"
    with monkeypatch.context() as patch:
        patch.setattr(cmfast, "importance_weights", lambda M, method, **more: weights(M, "all"))
        assert lemmas.judge_volumes(SETTINGS).verdict == "fails"
    with monkeypatch.context() as patch:
        # The outer product of the sums has the sums, but is the closest matrix to no other than a constant one.
        patch.setattr(cmfast, "ipf", lambda M, u, v, tol: ipf(np.ones_like(M), u, v, tol=tol))
        assert lemmas.judge_minimality(M, SETTINGS).verdict == "fails"


def test_stripes_are_found(rng):
    flat = np.ones((5, 5)) + 20 * np.eye(5)
    assert np.isnan(stripes.measure_stripes(flat))
    rows, columns = rng.random((2, 5))
    assert stripes.measure_stripes(flat + rows[:, None]) == pytest.approx(1)
    assert stripes.measure_stripes(flat + columns + 3 * rows[:, None]) == pytest.approx(1)
    noise = rng.normal(size=(500, 10, 10))
    # Of chance alone 18 of 89 degrees of freedom are rows and columns.
    assert stripes.measure_stripes(noise).mean() == pytest.approx(18 / 89, abs=0.01)
    M = rng.random((10, 10))  # against a fit by hand
    off = ~np.eye(10, dtype=bool)
    row, column = np.nonzero(off)
    X = np.zeros((90, 20))
    X[np.arange(90), row] = X[np.arange(90), 10 + column] = 1
    left = M[off] - X @ np.linalg.lstsq(X, M[off], rcond=None)[0]
    assert stripes.measure_stripes(M) == pytest.approx(1 - (left**2).sum() / ((M[off] - M[off].mean()) ** 2).sum())


def test_stripes_of_normalised_matrices_are_judged(rng):
    alike = rng.gamma(0.3, size=(10, 10)) + np.diag(np.full(10, 20.0))
    alike = cmfast.bi_normalize(alike + 0.01)
    uneven = np.geomspace(1, 30, 10)
    truth = rng.poisson(3000 * alike, (1, 1, 30, 10, 10)).astype(float)
    mixed = 300 * uneven[:, None] * alike * uneven[::-1] ** -0.5 * 5
    skewed = rng.poisson(np.broadcast_to(mixed, (1, 1, 2, 30, 10, 10))).astype(float)
    found = stripes.compare_stripes(truth, skewed, ("drawn",), SETTINGS)
    others, bi = claims.judge_stripes(found, SETTINGS)
    assert (others.verdict, bi.verdict) == ("holds", "holds")
    same = stripes.compare_stripes(truth, np.broadcast_to(truth[:, :, None], skewed.shape), ("drawn",), SETTINGS)
    assert claims.judge_stripes(same, SETTINGS)[0].verdict == "fails"


def answers_of(y, recall, rng):
    predicted = np.array([rng.choice(4, p=recall[label]) for label in y])
    M = cmfast.confusion_matrix(y, predicted, n_classes=4)
    return training.Answers(M, np.empty((len(y), 0)), y, predicted)


def test_two_test_sets_of_one_network_are_alike_unless_they_are_drawn_by_what_it_says(rng, monkeypatch):
    recall = 0.5 * np.eye(4) + 0.5 * rng.dirichlet(np.ones(4), 4)
    y = np.repeat(np.arange(4), 200)
    tested, chosen = shift.TestSets(SETTINGS), shift.TestSets(SETTINGS)
    draw = shift.TestSets._draw
    for r in range(SETTINGS.repeats):
        answers = answers_of(y, recall, rng)
        tested.add(answers, r, 4)

        def by_answer(self, y, alpha, n_classes, rng, answers=answers):
            sides = draw(self, y, alpha, n_classes, rng)
            kept = (answers.predicted == answers.y) == (sides == 0)  # one holds what is right, the other what is wrong
            return np.where((sides >= 0) & kept, sides, -1)

        with monkeypatch.context() as patch:
            patch.setattr(shift.TestSets, "_draw", by_answer)
            chosen.add(answers, r, 4)
    alike, more = claims.judge_shift(tested.compare(("drawn",)), SETTINGS)
    assert alike.verdict == "holds"
    assert more.verdict.endswith("holds") or "holds where drawn at 0.3" in more.verdict
    assert claims.judge_shift(chosen.compare(("drawn",)), SETTINGS)[0].verdict == "fails"


def test_test_sets_share_no_answer_and_are_dealt_out_by_class(rng):
    y = np.repeat(np.arange(5), 40)
    sides = shift.TestSets(SETTINGS)._draw(y, 0.3, 5, rng)
    counts = [np.bincount(y[sides == side], minlength=5) for side in (0, 1)]
    assert all((each >= 4).all() and (each <= 20).all() for each in counts)
    assert (counts[0] != counts[1]).any()
    dealt = shift.permute_sides(y, sides, rng)
    assert ((dealt == -1) == (sides == -1)).all()
    assert (dealt != sides).any()
    for one in dealt:
        assert [np.bincount(y[one == side], minlength=5).tolist() for side in (0, 1)] == [c.tolist() for c in counts]
