"""Areas under curves between groups: scikit-learn in each group, DeLong's variance by all pairs, samples drawn by hand.

The combined intervals of two groups are checked against their formulas, and errors to all samples against differences
of scikit-learn's scores with changed weights.
"""

import warnings
from itertools import combinations
from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest
from checks import assert_same_bits
from optional import torch
from oracle.uncertainty import auc_covariance as compare_all_pairs
from scipy.optimize import brentq
from sklearn.metrics import average_precision_score, roc_auc_score

import cmfast
from cmfast import uncertainty
from cmfast.uncertainty._group_areas import draw_area

Z = NormalDist().inv_cdf(0.975)
NORMAL = NormalDist()
SCORES = {
    "roc_auc": roc_auc_score,
    "average_precision": average_precision_score,
    "roc_auc_ovr": lambda y, s, **w: roc_auc_score(y, s, multi_class="ovr", **w),
    "roc_auc_ovr_weighted": lambda y, s, **w: roc_auc_score(y, s, multi_class="ovr", average="weighted", **w),
    "roc_auc_ovo": lambda y, s, **w: roc_auc_score(y, s, multi_class="ovo", **w),
    "roc_auc_ovo_weighted": lambda y, s, **w: roc_auc_score(y, s, multi_class="ovo", average="weighted", **w),
}
NAMES = list(SCORES)


def draw(name="roc_auc", n=300, *, seed=0, n_groups=3):
    """Return labels, scores with ties and groups of unequal areas."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, n_groups, n)
    if "ov" not in name:
        y = rng.integers(0, 2, n)
        return y, np.round(rng.normal(size=n) + (1.6 - 0.4 * group) * y, 1), group
    y = rng.integers(0, 3, n)
    raw = np.exp(np.round(rng.normal(size=(n, 3)) + (1.6 - 0.4 * group[:, None]) * (np.arange(3) == y[:, None]), 1))
    return y, raw / raw.sum(1, keepdims=True), group


def compare(*given, **options):
    """Compare groups without warnings."""
    return uncertainty.compare_groups(*given, **{"on_failure": "ignore"} | options)


def find_delong_errors(y, s, group):
    """Return the area and DeLong's standard error of each group, by all pairs of samples."""
    found = [compare_all_pairs(s[group == g][np.newaxis], y[group == g])[:2] for g in np.unique(group)]
    return np.array([float(a[0]) for a, _ in found]), np.sqrt([float(v[0, 0]) for _, v in found])


@pytest.mark.parametrize("name", NAMES)
def test_areas_are_those_of_scikit_learn(name):
    y, s, group = draw(name)
    found = compare(y, s, group, name)
    want = [SCORES[name](y[group == g], s[group == g]) for g in range(3)]
    np.testing.assert_allclose(found.estimate, want, rtol=1e-12)
    np.testing.assert_allclose(found.overall, SCORES[name](y, s), rtol=1e-12)
    np.testing.assert_allclose(found.difference, max(want) - min(want), rtol=1e-12)
    np.testing.assert_allclose(found.ratio, min(want) / max(want), rtol=1e-12)
    first, second = np.array(list(combinations(range(3), 2))).T
    np.testing.assert_allclose(found.pair_difference, np.take(want, first) - np.take(want, second), atol=1e-12)
    given = {"on_failure": "ignore", "method": "newcombe" if name == "roc_auc" else "logit"}
    alone = [uncertainty.interval(y[group == g], s[group == g], name, **given) for g in range(3)]
    if name == "roc_auc":
        np.testing.assert_allclose(found.standard_error, find_delong_errors(y, s, group)[1], rtol=1e-12)
    logit = compare(y, s, group, name, method="logit")
    np.testing.assert_allclose(logit.standard_error, [x.standard_error for x in alone], rtol=1e-9)
    np.testing.assert_allclose([found.low, found.high], np.transpose([(x.low, x.high) for x in alone]), rtol=1e-9)
    assert found.method == ("newcombe" if name == "roc_auc" else "logit")


def test_delta_method_by_hand():
    y, s, group = draw()
    (a, b, c), (da, db, dc) = find_delong_errors(y, s, group)
    found = compare(y, s, group, "roc_auc", method="delta", confidence_level=0.9)
    z = NORMAL.inv_cdf(0.95)
    for k, (p, q, dp, dq) in enumerate([(a, b, da, db), (a, c, da, dc), (b, c, db, dc)]):
        error, log_error = np.hypot(dp, dq), np.hypot(dp / p, dq / q)
        np.testing.assert_allclose([found.pair_low[k], found.pair_high[k]], p - q + z * error * np.array([-1, 1]))
        ends = p / q * np.exp(z * log_error * np.array([-1, 1]))
        np.testing.assert_allclose([found.pair_ratio_low[k], found.pair_ratio_high[k]], ends)
        np.testing.assert_allclose(found.pair_p_value[k], 2 * NORMAL.cdf(-abs(p - q) / error), rtol=1e-9)


@pytest.mark.parametrize("method", ["logit", "newcombe"])
def test_intervals_of_two_groups_are_combined(method):
    y, s, group = draw(seed=3, n=90)
    found = compare(y, s, group, "roc_auc", method=method)
    ends = {}

    def find_ends(g, level):
        if (g, level) not in ends:
            own = y[group == g], s[group == g]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", cmfast.DiagnosticWarning)  # of low levels
                one = uncertainty.interval(*own, "roc_auc", method=method, confidence_level=level)
            ends[g, level] = float(one.estimate), float(one.low), float(one.high)
        return ends[g, level]

    def reach(a, b, level):  # Newcombe 1998, method 10
        (p, low, high), (q, below, above) = find_ends(a, level), find_ends(b, level)
        return p - q - np.hypot(p - low, above - q), p - q + np.hypot(high - p, q - below)

    for k, (a, b) in enumerate(combinations(range(3), 2)):
        np.testing.assert_allclose([found.pair_low[k], found.pair_high[k]], reach(a, b, 0.95), rtol=1e-9)
        side = 0 if found.pair_difference[k] > 0 else 1
        z = brentq(lambda z, a=a, b=b, side=side: reach(a, b, 2 * NORMAL.cdf(z) - 1)[side], 1e-3, 6.0)
        np.testing.assert_allclose(found.pair_p_value[k], 2 * NORMAL.cdf(-z), rtol=1e-7)
        # The ratio at an end makes the interval of p - ratio * q touch 0 (Donner and Zou).
        (p, low, high), (q, below, above) = find_ends(a, 0.95), find_ends(b, 0.95)
        r, t = found.pair_ratio_low[k], found.pair_ratio_high[k]
        np.testing.assert_allclose(p - r * q, np.hypot(p - low, r * (above - q)), rtol=1e-7)
        np.testing.assert_allclose(t * q - p, np.hypot(high - p, t * (q - below)), rtol=1e-7)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("units", ["samples", "weights", "clusters"])
def test_bootstrap_is_that_of_samples_drawn_by_hand(name, units):
    y, s, group = draw(name, 150)
    rng = np.random.default_rng(4)
    options, weight = {}, np.ones(150)
    unit = np.arange(150)
    if units == "weights":
        weight = rng.integers(1, 4, 150).astype(float)
        options = {"sample_weight": weight}
    if units == "clusters":
        unit = rng.integers(0, 40, 150)
        options = {"clusters": unit}
    found = compare(y, s, group, name, method="bootstrap", n_resamples=60, rng=7, **options)
    seed = int(np.random.default_rng(7).integers(2**63))
    drawn = np.full((3, 60), np.nan)
    for g in range(3):
        here = np.flatnonzero(group == g)
        _, of = np.unique(unit[here], return_inverse=True)
        k = of.max() + 1
        picks = np.random.Generator(np.random.Philox(key=[seed, g])).integers(0, k, (60, k))
        for b in range(60):
            rows = np.concatenate([here[of == j] for j in picks[b]])
            if len(np.unique(y[rows])) == (3 if "ov" in name else 2):
                drawn[g, b] = SCORES_OF_WEIGHTS[name](y[rows], s[rows], weight[rows])
    np.testing.assert_array_equal(found.n_undefined, np.isnan(drawn).sum(1))
    np.testing.assert_allclose(found.standard_error, np.nanstd(drawn, axis=1, ddof=1), rtol=1e-9)
    quantiles = np.nanquantile(drawn, [0.025, 0.975], axis=1)
    np.testing.assert_allclose([found.low, found.high], quantiles, rtol=1e-9)
    difference = np.nanquantile(drawn[0] - drawn[1], [0.025, 0.975])
    np.testing.assert_allclose([found.pair_low[0], found.pair_high[0]], difference, rtol=1e-9)


def compare_pairs(positive, s, w):
    """Return the weighted share of pairs in which the positive has the higher score; a tie counts half."""
    above, below = s[positive][:, np.newaxis], s[~positive]
    won = w[positive] @ ((above > below) + 0.5 * (above == below)) @ w[~positive]
    return won / (w[positive].sum() * w[~positive].sum())


def score_classes(name):
    """Return a function of labels, scores and weights: the average over classes, or Hand and Till's over pairs."""

    def score(y, s, w):
        total = shares = 0.0
        for classes in combinations(range(3), 2) if "ovo" in name else ((0,), (1,), (2,)):
            mask = np.isin(y, classes) if "ovo" in name else np.full(len(y), True)
            own, part, weight = y[mask], s[mask], w[mask]
            area = np.mean([compare_pairs(own == c, part[:, c], weight) for c in classes])
            share = w[np.isin(y, classes)].sum() if name.endswith("_weighted") else 1.0
            total, shares = total + share * area, shares + share
        return total / shares

    return score


SCORES_OF_WEIGHTS = {name: score_classes(name) for name in NAMES if "ov" in name}
SCORES_OF_WEIGHTS["roc_auc"] = lambda y, s, w: compare_pairs(y == 1, s, w)
SCORES_OF_WEIGHTS["average_precision"] = lambda y, s, w: average_precision_score(y, s, sample_weight=w)


@pytest.mark.parametrize("name", NAMES)
def test_pairs_give_what_scikit_learn_does(name):
    y, s, _ = draw(name, 60)
    np.testing.assert_allclose(SCORES_OF_WEIGHTS[name](y, s, np.ones(60)), SCORES[name](y, s), rtol=1e-12)
    if "ovo" not in name:  # of which scikit-learn takes no weights
        w = np.arange(1.0, 61.0)
        np.testing.assert_allclose(SCORES_OF_WEIGHTS[name](y, s, w), SCORES[name](y, s, sample_weight=w), rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_errors_to_all_samples_are_those_of_derivatives(name):
    y, s, group = draw(name, 120, seed=5)
    found = compare(y, s, group, name, reference="overall", method="delta")
    score, step = SCORES_OF_WEIGHTS[name], 1e-5

    def differentiate(rows):
        out = np.zeros(120)
        for k in rows:
            ends = []
            for change in (step, -step):
                w = np.ones(120)
                w[k] += change
                ends.append(score(y[rows], s[rows], w[rows]))
            out[k] = (ends[0] - ends[1]) / (2 * step)
        return out

    everything = differentiate(np.arange(120))
    whole = SCORES[name](y, s)
    for g in range(3):
        own = differentiate(np.flatnonzero(group == g))
        area = SCORES[name](y[group == g], s[group == g])
        errors = []
        for slopes in (own - everything, own / area - everything / whole):
            variance = 0.0
            for h in range(3):
                part = slopes[group == h]
                variance += ((part - part.mean()) ** 2).sum() * len(part) / (len(part) - 1)
            errors.append(np.sqrt(variance))
        difference, reach = area - whole, Z * errors[0] * np.array([-1, 1])
        np.testing.assert_allclose([found.pair_low[g], found.pair_high[g]], difference + reach, rtol=1e-5)
        ends = area / whole * np.exp(Z * errors[1] * np.array([-1, 1]))
        np.testing.assert_allclose([found.pair_ratio_low[g], found.pair_ratio_high[g]], ends, rtol=1e-5)


def test_all_samples_by_the_bootstrap_agree_with_the_delta_method():
    y, s, group = draw(n=3000)
    for name in ("roc_auc", "average_precision"):
        delta = compare(y, s, group, name, reference="overall", method="delta")
        drawn = compare(y, s, group, name, reference="overall", method="bootstrap", n_resamples=3000)
        np.testing.assert_allclose(drawn.pair_difference, delta.pair_difference, atol=1e-12)
        np.testing.assert_allclose(drawn.pair_high - drawn.pair_low, delta.pair_high - delta.pair_low, rtol=0.08)


def test_clusters_and_weights_are_those_of_intervals():
    y, s, group = draw()
    rng = np.random.default_rng(2)
    for options in ({"clusters": rng.integers(0, 60, 300)}, {"sample_weight": rng.random(300) + 0.5}):
        found = compare(y, s, group, ["roc_auc", "average_precision"], method="logit", **options)
        for name, one in found.items():
            for g in range(3):
                own = {key: value[group == g] for key, value in options.items()}
                given = own | {"on_failure": "ignore", "method": "logit"}
                alone = uncertainty.interval(y[group == g], s[group == g], name, **given)
                np.testing.assert_allclose([one.low[g], one.high[g]], [alone.low, alone.high], rtol=1e-9)


def test_all_forms_of_input_give_the_same():
    y, s, group = draw()
    site = np.array(["north", "south", "west"])[group]
    want = compare(y, s, site, "roc_auc")
    assert want.axes == {"group": ("north", "south", "west")}
    table = pd.DataFrame({"ill": y, "risk": s, "site": site, "w": np.ones(300)})
    same = [
        compare(y_true=y, y_score=s, groups=site, names="roc_auc"),
        compare(y.tolist(), s.tolist(), site.tolist(), names="roc_auc"),
        compare(table, "roc_auc", y_true="ill", y_score="risk", groups="site"),
        compare(table, "ill", "risk", "site", "roc_auc"),
        compare(table, ["roc_auc"], y_true="ill", y_score="risk", groups="site", sample_weight="w")["roc_auc"],
        compare(torch.from_numpy(y), torch.from_numpy(s), site, "roc_auc"),
        compare(table["ill"], table["risk"], table["site"], "roc_auc"),
        compare(np.where(y, "ill", "well"), s, site, "roc_auc", pos_label="ill"),
    ]
    for found in same:
        for field in ("estimate", "low", "p_value", "difference_low", "ratio_high", "pair_high"):
            np.testing.assert_allclose(getattr(found, field), getattr(want, field), rtol=1e-12)
        assert found.axes == want.axes
    assert "positive: ill" in repr(same[-1])
    two = compare(
        table.assign(half=np.arange(300) % 2), "roc_auc", y_true="ill", y_score="risk", groups=["site", "half"]
    )
    assert two.axes["group"][0] == ("north", 0)
    da = pytest.importorskip("dask.array")
    later = compare(da.from_array(y), da.from_array(s), da.from_array(site), "roc_auc")
    assert_same_bits(later.compute().pair_low, want.pair_low)
    turned = compare(y, s, site, "roc_auc", reference="south")
    np.testing.assert_allclose(turned.pair_low[0], want.pair_low[0])
    np.testing.assert_allclose(turned.pair_low[1], -want.pair_high[2])


def test_undefined_and_bad_groups_are_left_out():
    y, s, group = draw()
    y = np.where(group == 1, 1, y)  # no negative sample
    for method in ("newcombe", "logit", "delta", "bootstrap"):
        with pytest.warns(cmfast.DiagnosticWarning, match="roc_auc is NaN in 1 of 3 groups"):
            found = uncertainty.compare_groups(y, s, group, "roc_auc", method=method, n_resamples=200)
        assert np.isnan(found.estimate[1])
        assert np.isnan(found.pair_difference[[0, 2]]).all()
        two = compare(y[group != 1], s[group != 1], group[group != 1], "roc_auc", method=method, n_resamples=200)
        if method != "bootstrap":  # the number of a group is the key of its generator
            np.testing.assert_allclose([found.p_value, found.difference_low], [two.p_value, two.difference_low])
    bad = np.flatnonzero(group == 0)[3]
    s[bad] = np.nan
    y = draw()[0]
    said = rf"1 of 3 groups left out \(first: 0\): 1 INVALID; NaN value at y_score\[{bad}\]$"
    with pytest.warns(cmfast.FailureWarning, match=said):
        found = uncertainty.compare_groups(y, s, group, "roc_auc")
    assert np.isnan(found.estimate[0])
    np.testing.assert_allclose(found.overall, roc_auc_score(y[group != 0], s[group != 0]))
    said = r"1 of 3 groups left out \(first: 'north'\): 1 INVALID"
    with pytest.warns(cmfast.FailureWarning, match=said):
        uncertainty.compare_groups(y, s, np.array(["north", "south", "west"])[group], "roc_auc")
    for method in ("logit", "delta"):
        parted = [compare([1, 1, 0, 0] * 2, [4, 3, 2, 1] * 2, [0] * 4 + [1] * 4, "roc_auc", method=method)]
        assert parted[0].difference == 0.0
    wide = compare([1, 1, 0, 0] * 2, [4, 3, 2, 1] * 2, [0] * 4 + [1] * 4, "roc_auc")
    assert wide.pair_low[0] < -0.3
    assert wide.pair_p_value[0] == 1.0


@pytest.mark.parametrize("name", ["roc_auc", "average_precision"])
def test_areas_and_all_samples_are_compared_by_the_method_that_is_named(name):
    y, s, group = draw()
    found = compare(y, s, group, name, reference="overall")
    assert found.method == "delta"
    want = compare(y, s, group, name, reference="overall", method="delta")
    np.testing.assert_array_equal(found.pair_low, want.pair_low)
    np.testing.assert_array_equal(found.low, compare(y, s, group, name, method="delta").low)
    with pytest.warns(cmfast.DiagnosticWarning, match="only more samples help"):  # newcombe is not offered
        uncertainty.compare_groups([1, 1, 0, 0] * 2, [4, 3, 2, 1] * 2, [0] * 4 + [1] * 4, name, reference="overall")


def test_small_groups_are_warned_of():
    y, s, group = draw(n=36)
    with pytest.warns(cmfast.DiagnosticWarning, match='groups a class has too few samples.*; use method="newcombe"'):
        uncertainty.compare_groups(y, s + 2 * y, group, "roc_auc", method="logit")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        uncertainty.compare_groups(y, s + 2 * y, group, "roc_auc")
        uncertainty.compare_groups(y, s + 2 * y, group, "roc_auc", method="logit", on_failure="ignore")
    with pytest.warns(cmfast.DiagnosticWarning, match="fewer than 12 clusters in 3 of 3 groups"):
        uncertainty.compare_groups(*draw(), "roc_auc", clusters=np.arange(300) % 9)
    y, s, group = draw("roc_auc_ovr", 45)
    with pytest.warns(cmfast.DiagnosticWarning, match="only more samples help"):
        uncertainty.compare_groups(y, s, group, "roc_auc_ovr")


MORE = [pytest.param(name, marks=pytest.mark.exhaustive) for name in ("newcombe", "logit", "bootstrap")]


@pytest.mark.parametrize("method", ["delta", *MORE])
def test_equal_groups_differ_rarely(method):
    rng, found = np.random.default_rng(8), []
    group = np.repeat([0, 1, 2], 80)
    y = np.arange(240) % 2
    for study in range(200):
        s = rng.normal(size=240) + y
        found.append(compare(y, s, group, "roc_auc", method=method, n_resamples=300, rng=study).p_value <= 0.05)
    assert np.mean(found) < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)


def find_partial_area(y, s, w, max_fpr=0.3):
    """Return the standardised partial area of scikit-learn."""
    return roc_auc_score(y, s, sample_weight=w, max_fpr=max_fpr)


@pytest.mark.parametrize("options", [{}, {"sample_weight": True}, {"clusters": True}])
def test_partial_areas(options):
    y, s, group = draw(seed=6)
    rng = np.random.default_rng(9)
    units = {"sample_weight": rng.integers(1, 4, 300).astype(float), "clusters": rng.integers(0, 90, 300)}
    options = {key: units[key] for key in options}
    weight = options.get("sample_weight", np.ones(300))
    found = compare(y, s, group, "roc_auc", max_fpr=0.3, **options)
    assert found.method == "logit"
    own = [group == g for g in range(3)]
    np.testing.assert_allclose(found.estimate, [find_partial_area(y[one], s[one], weight[one]) for one in own])
    np.testing.assert_allclose(found.overall, find_partial_area(y, s, weight), rtol=1e-12)
    for g, one in enumerate(own):
        part = {key: value[one] for key, value in options.items()}
        alone = uncertainty.interval(y[one], s[one], "roc_auc", max_fpr=0.3, on_failure="ignore", **part)
        np.testing.assert_allclose([found.low[g], found.high[g]], [alone.low, alone.high], rtol=1e-9)
    given = options | {"max_fpr": 0.3}
    for reference in (None, "overall"):
        drawn, delta = (
            compare(y, s, group, "roc_auc", method=method, reference=reference, n_resamples=2000, **given)
            for method in ("bootstrap", "delta")
        )
        np.testing.assert_allclose(drawn.pair_high - drawn.pair_low, delta.pair_high - delta.pair_low, rtol=0.2)
    whole = compare(y, s, group, "roc_auc", max_fpr=1.0, method="bootstrap", n_resamples=50, **options)
    same = compare(y, s, group, "roc_auc", method="bootstrap", n_resamples=50, **options)
    np.testing.assert_allclose(whole.pair_low, same.pair_low, rtol=1e-12)


@pytest.mark.parametrize("max_fpr", [0.05, 0.3, 0.999])
def test_replicates_of_partial_areas_are_those_of_scikit_learn(max_fpr):
    y, s, _ = draw(n=80)
    weight = np.random.default_rng(2).integers(0, 3, (40, 80)).astype(float)
    found = draw_area("roc_auc", y, s, weight, max_fpr)
    np.testing.assert_allclose(found, [find_partial_area(y, s, w, max_fpr) for w in weight], rtol=1e-12)


Y, S, G = draw(n=60)
REFUSED = {
    "counts": (lambda: compare([[[3, 1], [1, 3]]], "roc_auc"), "names must be given with labels, scores and groups"),
    "mixed": (lambda: compare(Y, S, G, ["roc_auc", "mcc"]), "areas alone if one is an area, .* y_score, got 'mcc'"),
    "elsewhere": (lambda: compare(Y, S, G, "auc"), "'auc'; it is called 'roc_auc'"),
    "share": (
        lambda: compare(Y, S, G, "roc_auc", method="wilson"),
        "method must be one of 'bootstrap', 'delta', 'logit'",
    ),
    "other area": (
        lambda: compare(Y, S, G, "average_precision", method="newcombe"),
        "bootstrap, delta or logit with 'average_precision', got newcombe",
    ),
    "clusters": (
        lambda: compare(Y, S, G, "roc_auc", method="newcombe", clusters=G),
        "bootstrap, delta or logit with clusters, got newcombe",
    ),
    "counts' method": (lambda: compare(Y, Y, G, "accuracy", method="logit"), "method must be one of 'bootstrap'"),
    "undefined": (lambda: compare(Y, S, G, "roc_auc", undefined="nan"), "undefined must be left out with areas"),
    "ignored": (lambda: compare(Y, S, G, "roc_auc", ignore_index=0), "ignore_index must be left out with areas"),
    "no groups": (lambda: compare(Y, S, "roc_auc"), "groups must be the group of each sample, got 'roc_auc'"),
    "no name": (lambda: compare(Y, S, G), 'for scores give the name of an area, names="roc_auc"$'),
    "a metric of counts": (lambda: compare(Y, S, G, "f1"), "float64; .*; for scores give the name of an area, names="),
    "few groups": (lambda: compare(Y, S, G[:9], "roc_auc"), r"groups must be of shape \(60,\)"),
    "batch": (lambda: compare([Y], [S], [G], "roc_auc"), r"y_true must be of shape \(n,\)"),
    "all samples by newcombe": (
        lambda: compare(Y, S, G, "roc_auc", reference="overall", method="newcombe"),
        "method must be delta or bootstrap with areas and reference='overall', .*, got newcombe",
    ),
    "all samples by logit": (
        lambda: compare(Y, S, G, "average_precision", reference="overall", method="logit"),
        "method must be delta or bootstrap with areas and reference='overall', .*, got logit",
    ),
    "partial of counts": (
        lambda: compare(Y, Y, G, "accuracy", max_fpr=0.5),
        "max_fpr must be left out but for 'roc_auc'",
    ),
    "partial of others": (
        lambda: compare(Y, S, G, "average_precision", max_fpr=0.5),
        "max_fpr must be left out with 'average_precision'",
    ),
    "partial by newcombe": (
        lambda: compare(Y, S, G, "roc_auc", max_fpr=0.5, method="newcombe"),
        "bootstrap, delta or logit with max_fpr, got newcombe",
    ),
    "partial of all": (lambda: compare(Y, S, G, "roc_auc", max_fpr=2), "max_fpr must be above 0 and at most 1, got 2"),
    "table": (
        lambda: compare(pd.DataFrame({"y": Y, "s": S, "g": G}), "roc_auc"),
        r"y_true must be the name of a column, .*\(table, 'roc_auc', y_true=\.\.\., y_score=\.\.\., groups=\.\.\.\)",
    ),
    "reference": (lambda: compare(Y, S, G, "roc_auc", reference="x"), "reference must be one of the groups"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case):
    call, said = REFUSED[case]
    with pytest.raises((TypeError, ValueError), match=rf"^uncertainty\.compare_groups: .*{said}"):
        call()


def test_an_unknown_option_is_named():
    with pytest.raises(TypeError, match=r"there is no option 'foo'; the options are y_true, y_score, groups, method"):
        compare(Y, S, G, "roc_auc", foo=1)


@pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")
def test_a_group_that_is_ranked_rightly_is_compared_by_standard_errors():
    rng = np.random.default_rng(3)
    y = np.r_[np.ones(8), np.zeros(40), np.ones(50), np.zeros(50), np.ones(30), np.zeros(30)].astype(int)
    group = np.r_[["a"] * 48, ["b"] * 100, ["c"] * 60]
    score = rng.normal(size=208) + 2.5 * y
    score[:8] += 9.0  # those of group a: an interval by logits has no width, and no other reaches its area of 1
    found, errors = (
        uncertainty.compare_groups(y, score, group, "average_precision", method=method) for method in (None, "delta")
    )
    for name in ("difference", "low", "high", "p_value", "ratio", "ratio_low", "ratio_high"):
        one, other = (np.asarray(getattr(each, f"pair_{name}")) for each in (found, errors))
        np.testing.assert_allclose(one[:2], other[:2], rtol=1e-12, atol=1e-15)  # those with group a
    assert found.pair_p_value[2] != errors.pair_p_value[2]
    assert (found.pair_p_value > 0.0).all()


@pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")
def test_groups_that_are_all_ranked_rightly_do_not_differ():
    y, group = np.tile([0, 1], 40), np.repeat(["a", "b"], 40)
    score = y + np.random.default_rng(0).random(80) / 2
    found = uncertainty.compare_groups(y, score, group, "average_precision")
    assert found.verdict() == "no significant difference"
    assert found.p_value == 1.0
