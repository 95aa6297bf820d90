"""What texts say of confusions is so: over simulated truths of noise, of ties, of rare classes and of few samples."""

from math import comb

import headlines
import numpy as np
import pytest

import cmfast
from cmfast import metrics, uncertainty
from cmfast._core import confused_pairs

pytestmark = pytest.mark.exhaustive

FAST = [case for case in headlines.cases() if case[1] in (5, 10)]


def exact(b, c):
    """Return the two-sided p of a binomial test of evenness, by adding up."""
    n = b + c
    return min(1.0, 2 * sum(comb(n, k) for k in range(min(b, c) + 1)) / 2**n)


def of(M):
    """Return what stands out of a matrix."""
    M = np.asarray(M)
    rows, cols = np.nonzero(M)
    return confused_pairs.find_distinct_pairs(confused_pairs.list_pairs(rows, cols, M[rows, cols], len(M)))


def allowed(confidence_level, draws):
    """Return how many of some draws may be wrong: the share that is promised, and two standard errors."""
    return draws * confidence_level + 2 * np.sqrt(draws * confidence_level * (1 - confidence_level))


@pytest.mark.parametrize(("kind", "C", "n"), FAST)
def test_few_headlines_are_false(kind, C, n):
    wrong, _ = headlines.simulate(kind, C, n, 20)
    assert wrong <= allowed(0.05, 20)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "C", "n"), headlines.cases())
def test_headlines_are_false_as_seldom_as_promised(kind, C, n):
    wrong, _ = headlines.simulate(kind, C, n, 400)
    assert wrong <= allowed(0.05, 400)


def test_without_a_test_of_ranks_most_headlines_would_be_false(monkeypatch):
    monkeypatch.setattr(confused_pairs, "binomial_test", lambda b, c: np.zeros(np.shape(b)))
    wrong, stands = headlines.simulate("uniform", 5, 10_000, 20)
    assert (wrong, stands) == (20, 20)


@pytest.mark.parametrize(("C", "n"), [(5, 2500), (10, 5000)])
def test_a_real_asymmetry_is_found(C, n):
    top, told = headlines.power(C, n, 20)
    assert top >= 19
    assert told >= 19


def test_one_pair_leads_as_the_binomial_test_says():
    for a in range(5, 40):
        M = np.full((4, 4), 4) - 4 * np.eye(4, dtype=int)
        M[0, 1] = M[1, 0] = a
        assert of(M).leading == (exact(2 * a, 8) <= 0.05 / 4)


def test_directions_are_told_apart_as_holm_says():
    M = np.zeros((4, 4), int)
    cells = {(0, 1): (20, 4), (0, 2): (20, 6), (0, 3): (12, 10), (1, 2): (9, 0)}
    for (i, j), (n, m) in cells.items():
        M[i, j], M[j, i] = n, m
    p = sorted((exact(*both), pair) for pair, both in cells.items())
    wanted = set()
    for k, (value, pair) in enumerate(p):
        if value * (len(p) - k) > 0.05 / 4:
            break
        wanted.add(pair)
    rows, cols = np.nonzero(M)
    found = confused_pairs.list_pairs(rows, cols, M[rows, cols], 4)
    told = confused_pairs.find_distinct_pairs(found).told
    assert {(int(i), int(j)) for i, j, d in zip(found.first, found.second, told, strict=True) if d} == wanted
    assert 0 < len(wanted) < 4


def test_ranks_are_those_that_intervals_allow():
    low, high = np.array([5.0, 4.0, 1.0, 0.0]), np.array([9.0, 8.0, 3.0, 2.0])
    wanted = [(1 + sum(low > h), 7 - sum(high < x) - 3 * (x > 0.5)) for x, h in zip(low, high, strict=True)]
    np.testing.assert_array_equal(confused_pairs.bound_ranks(low, high, 7, 0.5), wanted)


@pytest.mark.parametrize(
    ("M", "said"),
    [
        ([[9, 0], [0, 9]], "nothing is confused"),
        ([[9, 5], [4, 9]], "confused are a and b (9 samples, both ways together)"),
        ([[9, 2], [40, 9]], "confused are b and a (40 samples of b taken for a, 2 the other way round)"),
        ([[9, 136, 9], [134, 9, 9], [9, 9, 9]], "most often confused are a and b (270 samples, both ways together)"),
        ([[9, 13, 12], [13, 9, 11], [14, 15, 9]], "no confusion stands out"),
        ([[9, 1.5], [0, 9]], "confusions of weighted samples are not tested, as the tests need counts of samples"),
    ],
)
def test_what_is_said(M, said):
    assert confused_pairs.describe_confusions(np.array(M, float), ["a", "b", "c"]) == said


def test_several_that_are_equal_stand_out_together():
    M = np.full((6, 6), 3)
    for i, j in ((0, 1), (2, 3)):
        M[i, j] = M[j, i] = 200
    assert confused_pairs.describe_confusions(M, "abcdef").startswith(
        "2 confusions stand out: a and b (400 samples, both ways together); "
    )


def test_the_class_that_is_found_least_is_named_where_it_is_beyond_chance():
    of = np.array([100, 100, 0, 100])
    assert confused_pairs.find_least_recall(np.array([90, 50, 0, 88]), of) == 1
    assert confused_pairs.find_least_recall(np.array([90, 85, 0, 88]), of) is None
    assert confused_pairs.find_least_recall(np.array([0]), np.array([3])) is None
    wrong = 0
    rng = np.random.default_rng(0)
    for _ in range(400):
        wrong += confused_pairs.find_least_recall(rng.binomial(40, 0.7, 10), np.full(10, 40)) is not None
    assert wrong <= allowed(0.05, 400)
    assert "lowest recall" not in metrics.classification_report([[8, 2], [3, 7]]).explain()
    assert (
        metrics.classification_report([[98, 2], [50, 50]]).explain().endswith("the lowest recall is that of 1, 0.5000")
    )


def test_the_top_of_a_page_says_that_nothing_stands_out():
    y = np.arange(600) % 5
    guess = np.where(np.random.default_rng(0).random(600) < 0.7, y, np.random.default_rng(1).integers(0, 5, 600))
    found = cmfast.report(y, guess, n_resamples=20)
    assert "5 classes, 600 samples. No confusion of <bdi>model</bdi> stands out." in found.html
    assert found.to_dict()["models"][0]["standing"]["pairs"] == []
    assert "no confusion changes its rank significantly" in found.html
    assert set(found.to_dict()["models"][0]["classes"]["taken_for"]) == {-1}


def test_where_balancing_changes_a_rank_beyond_chance_it_is_said():
    M = np.array([[80_000, 3000, 40, 40], [3000, 80_000, 40, 40], [40, 40, 900, 500], [40, 40, 500, 900]])
    cells = np.repeat(np.arange(16), M.ravel())
    found = cmfast.report(cells // 4, cells % 4, n_resamples=20)
    one = found.to_dict()["models"][0]
    assert {(p["first"], p["second"]) for p in one["standing"]["moved"]} == {("2", "3"), ("0", "1")}
    assert one["standing"]["balanced"] == {"first": "2", "second": "3"}
    assert "when all classes count alike, <bdi>2</bdi> and <bdi>3</bdi> are confused most" in found.html
    assert "confusions whose rank changes beyond chance" in found.html
    assert one["classes"]["taken_for"] == [1, 0, 3, 2]


def test_of_two_models_the_commonest_difference_is_named_where_it_is_beyond_chance():
    y = ["a"] * 40 + ["b"] * 10
    first = ["a"] * 30 + ["b"] * 10 + ["b"] * 10
    assert "most frequent flip (10): the first predicts b" in uncertainty.paired_counts(y, first, y).explain()
    few = ["a"] * 38 + ["b"] * 2 + ["b"] * 8 + ["a"] * 2
    assert uncertainty.paired_counts(y, few, y).explain().endswith("no flip is significantly most frequent")
