"""Two classifiers on the same samples: counts that add up exactly, and tests against exact arithmetic and peers."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from optional import torch
from oracle import _paired as oracle
from pairs import draw_predictions, samples
from scipy import stats

import cmfast
from cmfast import uncertainty

PUBLISHED = json.loads((Path(__file__).parents[1] / "data" / "metrics.json").read_text())["paired"]


def dense(T):
    """Return all cells of counts without groups."""
    out = np.zeros(len(T.labels) ** 3, np.int64)
    out[np.asarray(T.keys)] = T.counts
    return out.reshape((len(T.labels),) * 3)


@pytest.mark.parametrize(("n", "C"), [(0, 0), (1, 1), (300, 2), (500, 7), (400, 60), (3000, 300)])
def test_counts_are_those_of_the_full_table(rng, n, C):
    y, a, b = draw_predictions(rng, n, max(C, 1))
    T = uncertainty.paired_counts(y, a, b, n_classes=C)
    if C <= 60:
        assert dense(T).tolist() == oracle.table(y, a, b, C)
    assert (np.diff(T.keys) > 0).all()
    assert T.n_samples == n
    for found, pair in ((T.first, (y, a)), (T.second, (y, b)), (T.agreement, (a, b))):
        np.testing.assert_array_equal(found, cmfast.confusion_matrix(*pair, n_classes=C))


def test_the_published_table():
    T = uncertainty.paired_counts(*samples(PUBLISHED["T_y_first_second"]))
    assert T.n_samples == PUBLISHED["n"]
    for name in ("first", "second", "agreement"):
        assert getattr(T, name).tolist() == PUBLISHED[name]
    for kind, p in (("exact", "p_exact"), ("mid_p", "p_mid"), ("corrected", "p_corrected")):
        found = uncertainty.mcnemar(T, kind=kind)
        assert found.p_value == pytest.approx(PUBLISHED["mcnemar"][p], rel=1e-12)
        assert (found.only_first, found.only_second) == (10, 18)
    for test, of in (("bowker", uncertainty.bowker), ("stuart_maxwell", uncertainty.stuart_maxwell)):
        found, wanted = of(T), PUBLISHED[test]
        assert found.degrees == wanted["df"]
        assert found.statistic == pytest.approx(wanted["chi2"], rel=1e-12)
        assert found.p_value == pytest.approx(wanted["p"], rel=1e-12)


@pytest.mark.parametrize("groups", [False, True])
@pytest.mark.parametrize("clusters", [False, True])
def test_parts_add_up_exactly(rng, groups, clusters):
    y, a, b = (np.array(["cat", "dog", "bird", "eel"])[x] for x in draw_predictions(rng, 400, 4))
    options = {"groups": rng.choice(["x", "y", "z"], 400)} if groups else {}
    options |= {"clusters": rng.integers(0, 30, 400)} if clusters else {}
    whole = uncertainty.paired_counts(y, a, b, **options)
    order = np.argsort(y)  # so that no part has all labels
    parts = []
    for part in np.array_split(order, 5):
        some = {name: column[part] for name, column in options.items()}
        parts.append(uncertainty.paired_counts(y[part], a[part], b[part], **some))
    assert sum(parts) == sum(parts[::-1]) == whole
    assert whole != parts[0]
    assert whole.groups == (("x", "y", "z") if groups else None)
    assert whole.first.shape == ((3, 4, 4) if groups else (4, 4))
    assert uncertainty.PairedCounts.from_bytes(whole.to_bytes()) == whole


def test_groups_and_clusters(rng):
    y, a, b = draw_predictions(rng, 500, 3)
    site, patient = rng.choice(["s", "r"], 500), rng.integers(0, 20, 500)
    T = uncertainty.paired_counts(y, a, b, groups={"site": site, "code": y}, clusters=patient)
    assert T.group_names == ("site", "code")
    assert T.groups == tuple((s, k) for s in "rs" for k in range(3))
    assert T.n_clusters == len({*zip(site, y, patient, strict=True)})
    for g, (s, k) in enumerate(T.groups):
        at = (site == s) & (y == k)
        alone = uncertainty.paired_counts(y[at], a[at], b[at], n_classes=3)
        np.testing.assert_array_equal(T.first[g], alone.first)
        for of in (uncertainty.mcnemar, uncertainty.bowker, uncertainty.stuart_maxwell):
            one, many = of(alone), of(T)
            assert (one.statistic, one.p_value) == pytest.approx((many.statistic[g], many.p_value[g]), rel=1e-12)
    assert repr(T).startswith("<PairedCounts: 500 samples, 3 classes, 6 groups, ")


def test_labels_that_are_given():
    y, a, b = ["a", "b", "c", "b"], ["a", "b", "b", "c"], ["b", "b", "c", "b"]
    T = uncertainty.paired_counts(y, a, b, labels=["b", "a"])
    assert T.labels == ("b", "a")
    assert T.first.tolist() == [[1, 0], [0, 1]]
    assert T.second.tolist() == [[1, 0], [1, 0]]
    categories = pd.Categorical(y, categories=["c", "b", "a", "d"], ordered=True)
    assert uncertainty.paired_counts(categories, a, b).labels == ("c", "b", "a", "d")


@pytest.mark.parametrize("offset", [0, -7, 10**6, 10**15])
def test_labels_of_any_library_and_type(rng, offset):
    some = [x + offset for x in draw_predictions(rng, 200, 3)]
    want = uncertainty.paired_counts(*some)
    assert want.labels == tuple(range(offset, offset + 3))
    torches = uncertainty.paired_counts(*map(torch.from_numpy, some))
    assert torches == want
    assert isinstance(torches.first, torch.Tensor)
    assert isinstance((torches + torches).agreement, torch.Tensor)
    assert uncertainty.paired_counts(*map(pd.Series, some)) == want
    texts = [[str(value - offset) for value in x.tolist()] for x in some]
    np.testing.assert_array_equal(uncertainty.paired_counts(*texts).first, want.first)


def test_flips(rng):
    y, a, b = draw_predictions(rng, 1000, 4)
    T, full = uncertainty.paired_counts(y, a, b, groups=y % 2), np.array(oracle.table(y, a, b, 4))
    changed = {(i, j, k): int(full[i, j, k]) for i, j, k in np.argwhere(full) if j != k}
    wanted = sorted(changed.items(), key=lambda cell: (-cell[1], cell[0]))
    assert T.flips(1000) == [(*cell, n) for cell, n in wanted]
    assert T.flips(3) == T.flips(1000)[:3]
    assert uncertainty.paired_counts([1], [0], [0]).flips() == []


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda f: f([0, 1], [0, 1], [0, 2], n_classes=2), ValueError, r"y_b must be in 0\.\.1, got 2"),
        (lambda f: f([0, -1], [0, 1], [0, 1], n_classes=2), ValueError, r"y_true must be in 0\.\.1, got -1"),
        (lambda f: f([0, 1], [0], [0, 1]), ValueError, "arrays must have one shape"),
        (
            lambda f: f([0, 1], ["a", "b"], [0, 1]),
            TypeError,
            r"y_a must be integers, as y_true, got strings, \('a', 'b'\)",
        ),
        (lambda f: f(["a", "b"], ["a", "b"], ["a", "b"], n_classes=2), TypeError, "y_true must be integers"),
        (lambda f: f([0, 1], [0, 1], [0, 1], groups=[1]), ValueError, r"groups must be of shape \(2,\)"),
        (lambda f: f([0, 1], [0, 1], [0, 1], clusters=["a", None]), ValueError, "clusters must be without missing"),
        (lambda f: f([0], [0], [0], groups={"clusters": [1]}, clusters=[1]), ValueError, "groups must be without a"),
    ],
)
def test_what_is_refused(call, error, text):
    with pytest.raises(error, match=rf"^uncertainty\.paired_counts: {text}"):
        call(uncertainty.paired_counts)


def test_parts_that_do_not_add_up():
    plain, grouped = (uncertainty.paired_counts([0, 1], [0, 1], [0, 1], groups=g) for g in (None, [0, 1]))
    with pytest.raises(ValueError, match="groups and clusters must be given for all counts or for none"):
        plain + grouped
    with pytest.raises(TypeError, match="one library"):
        plain + uncertainty.paired_counts(*[torch.tensor([0, 1])] * 3)
    with pytest.raises(TypeError, match="unhashable"):
        hash(plain)
    assert plain.__add__(3) is NotImplemented


@pytest.mark.parametrize("kind", ["exact", "mid_p", "corrected"])
def test_mcnemar_is_exact(kind):
    for b, c in [(0, 0), (0, 1), (1, 0), (5, 5), (3, 14), (40, 21), (200, 260), (1000, 1000), (0, 900)]:
        y = np.zeros(b + c + 3, int)
        T = uncertainty.paired_counts(
            y, (np.arange(len(y)) < c) * 1, (np.arange(len(y)) >= c) * (np.arange(len(y)) < b + c)
        )
        found, wanted = uncertainty.mcnemar(T, kind=kind), oracle.mcnemar(b, c, kind)
        assert (found.only_first, found.only_second) == (b, c)
        if kind == "corrected":
            assert found.statistic == pytest.approx(float(wanted), rel=1e-15)
            assert found.p_value == pytest.approx(stats.chi2.sf(float(wanted), 1), rel=1e-12)
        else:
            assert found.p_value == pytest.approx(float(wanted), rel=1e-11)


def test_symmetry_is_exact(rng):
    for C in (2, 3, 6):
        for density in (0.15, 0.5, 1.0):
            S = rng.integers(0, 20, (4, C, C)) * (rng.random((4, C, C)) < density)
            for of, want in ((uncertainty.bowker, oracle.bowker), (uncertainty.stuart_maxwell, oracle.stuart_maxwell)):
                found = of(S)
                for k in range(4):
                    statistic, degrees = want(S[k].tolist())
                    assert found.degrees[k] == degrees
                    assert found.statistic[k] == pytest.approx(float(statistic), rel=1e-10, abs=1e-12)
                    p = stats.chi2.sf(float(statistic), degrees) if degrees else 1.0
                    assert found.p_value[k] == pytest.approx(p, rel=1e-9)


def test_two_that_never_differ():
    """What divides by the sum of both counts fails here: (abs(b - c) - 1)**2 / (b + c)."""
    for T in (uncertainty.paired_counts([0, 1, 1], [0, 0, 1], [0, 0, 1]), uncertainty.paired_counts([], [], [])):
        with np.errstate(all="raise"):
            for kind in ("exact", "mid_p", "corrected"):
                found = uncertainty.mcnemar(T, kind=kind)
                assert (found.p_value, found.only_first, found.only_second) == (1.0, 0, 0)
            for found in (uncertainty.bowker(T), uncertainty.stuart_maxwell(T)):
                assert (found.p_value, found.statistic, found.degrees) == (1.0, 0.0, 0)
    b = c = 0
    with pytest.raises(ZeroDivisionError):
        _ = (abs(b - c) - 1) ** 2 / (b + c)


def test_same_as_statsmodels(rng):
    tables = pytest.importorskip("statsmodels.stats.contingency_tables")
    for C in (2, 4):
        y, a, b = draw_predictions(rng, 400, C)
        T = uncertainty.paired_counts(y, a, b)
        right = cmfast.confusion_matrix(a != y, b != y)
        for kind, options in (("exact", {"exact": True}), ("corrected", {"exact": False, "correction": True})):
            theirs, ours = tables.mcnemar(right, **options), uncertainty.mcnemar(T, kind=kind)
            assert (ours.statistic, ours.p_value) == pytest.approx((theirs.statistic, theirs.pvalue), rel=1e-11)
        square = tables.SquareTable(T.agreement, shift_zeros=False)
        for ours, theirs in (
            (uncertainty.bowker(T), square.symmetry()),
            (uncertainty.stuart_maxwell(T), square.homogeneity("stuart_maxwell")),
        ):
            assert ours.degrees == theirs.df
            assert (ours.statistic, ours.p_value) == pytest.approx((theirs.statistic, theirs.pvalue), rel=1e-10)


def test_same_as_mlxtend(rng):
    evaluate = pytest.importorskip("mlxtend.evaluate")
    y, a, b = draw_predictions(rng, 300, 3)
    T, table = uncertainty.paired_counts(y, a, b), evaluate.mcnemar_table(y, a, b)
    for kind, options in (("exact", {"exact": True}), ("corrected", {"corrected": True})):
        chi2, p = evaluate.mcnemar(table, **options)
        ours = uncertainty.mcnemar(T, kind=kind)
        assert ours.p_value == pytest.approx(p, rel=1e-11)
        if kind == "corrected":
            assert ours.statistic == pytest.approx(chi2, rel=1e-12)


def test_words():
    T = uncertainty.paired_counts([1] * 9, [1, 1, 1, 1, 1, 1, 0, 1, 0], [0, 0, 0, 0, 0, 0, 1, 1, 0])
    found = uncertainty.mcnemar(T)
    assert found.explain() == (
        "only the first is correct in 6 samples, only the second in 1: the first is correct more often, p = 0.125"
    )
    assert "<th>only_first</th><td>6</td>" in found._repr_html_()
    assert "chi-square 3.571 on 1 degrees of freedom, p = 0.0588" in uncertainty.bowker(T).explain()
    many = uncertainty.paired_counts([0, 1], [0, 1], [0, 1], groups=[0, 1])
    assert uncertainty.mcnemar(many).explain() == "2 groups, the least p is 1"
    assert uncertainty.bowker(many).explain() == "2 groups, the least p is 1"


def test_tables_that_hold_no_counts():
    good = np.array([[20, 10, 5], [3, 30, 15], [0, 5, 40]])
    for bad in (-1, np.nan, np.inf):
        tables = np.stack([good, good.astype(float)])
        tables[1, 2, 0] = bad
        for of in (uncertainty.bowker, uncertainty.stuart_maxwell):
            with pytest.warns(cmfast.FailureWarning, match=r"1 of 2 tables not tested \(first: 1\): 1 INVALID"):
                found = of(tables)
            assert np.isnan(found.p_value[1])
            assert found.p_value[0] == of(good).p_value
