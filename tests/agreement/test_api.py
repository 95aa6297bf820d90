"""Agreement of raters: published and independent figures, laws, text and missing ratings, intervals, grades."""

import warnings

import numpy as np
import pandas as pd
import pytest
from cases.agreement import KRIPPENDORFF
from checks import assert_same_bits
from optional import torch
from scipy.special import stdtrit

import cmfast
from cmfast import agreement, metrics, uncertainty
from cmfast.agreement import _coefficients
from cmfast.kernels.cpu import agreement as kernel

NAMES = ["fleiss_kappa", "krippendorff_alpha", "gwet_ac1", "gwet_ac2", "conger_kappa", "light_kappa"]
# Fleiss 1971, table 1: thirty patients, six psychiatrists, five diagnoses.
FLEISS = np.array(
    [
        [0, 0, 0, 6, 0], [0, 3, 0, 0, 3], [0, 1, 4, 0, 1], [0, 0, 0, 0, 6], [0, 3, 0, 3, 0], [2, 0, 4, 0, 0],
        [0, 0, 4, 0, 2], [2, 0, 3, 1, 0], [2, 0, 0, 4, 0], [0, 0, 0, 0, 6], [1, 0, 0, 5, 0], [1, 1, 0, 4, 0],
        [0, 3, 3, 0, 0], [1, 0, 0, 5, 0], [0, 2, 0, 3, 1], [0, 0, 5, 0, 1], [3, 0, 0, 1, 2], [5, 1, 0, 0, 0],
        [0, 2, 0, 4, 0], [1, 0, 2, 0, 3], [0, 0, 0, 0, 6], [0, 1, 0, 5, 0], [0, 2, 0, 1, 3], [2, 0, 0, 4, 0],
        [1, 0, 0, 4, 1], [0, 5, 0, 1, 0], [4, 0, 0, 0, 2], [0, 2, 0, 4, 0], [1, 0, 5, 0, 0], [0, 0, 0, 0, 6],
    ]
)  # fmt: skip
QUIET = {"on_failure": "ignore"}


def draw(n=60, m=4, q=4, *, share=0.6, gone=0.0, seed=0):
    """Return ratings of `n` items, of which a share is the same for all raters."""
    rng = np.random.default_rng(seed)
    ratings = np.where(rng.random((n, m)) < share, rng.integers(0, q, (n, 1)), rng.integers(0, q, (n, m))).astype(float)
    ratings[rng.random((n, m)) < gone] = np.nan
    return ratings


@pytest.mark.parametrize(
    ("weights", "alpha"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849), ("ratio", 0.797)]
)
def test_example_of_krippendorff(weights, alpha):
    """Computing Krippendorff's alpha-reliability, 2011, sections C and D."""
    found = agreement.compute(KRIPPENDORFF, "krippendorff_alpha", weights=weights, **QUIET)
    assert round(float(found.estimate), 3) == alpha
    assert found.n_items == 11  # one unit has a single value


def test_example_of_fleiss():
    """Measuring nominal scale agreement among many raters, 1971: kappa 0.430, observed 0.5556, expected 0.2199."""
    found = agreement.from_counts(FLEISS, "fleiss_kappa")
    assert [round(float(x), 4) for x in (found.estimate, found.observed, found.expected)] == [0.4302, 0.5556, 0.2199]


@pytest.mark.parametrize(
    ("name", "weights", "estimate"),
    [
        ("fleiss_kappa", "nominal", 0.76117),
        ("conger_kappa", "nominal", 0.76207),
        ("gwet_ac1", "nominal", 0.77544),
        ("gwet_ac2", "interval", 0.914),
        ("gwet_ac2", "linear", 0.85874),
        ("gwet_ac2", "ordinal", 0.89894),
        ("fleiss_kappa", "ordinal", 0.85021),
        ("conger_kappa", "interval", 0.85717),
    ],
)
def test_examples_of_gwet(name, weights, estimate):
    """The same ratings by irrCAC 0.4.4, after Gwet 2014."""
    assert round(float(agreement.compute(KRIPPENDORFF, name, weights=weights, **QUIET).estimate), 5) == estimate


# irrCAC 0.4.4 of the ratings of `complete`, which have no missing ones: estimate and standard error.
GWET = {
    ("fleiss_kappa", "nominal"): (0.31587986, 0.05749),
    ("conger_kappa", "nominal"): (0.31805478, 0.05707),
    ("krippendorff_alpha", "nominal"): (0.32015561, 0.05749),
    ("gwet_ac1", "nominal"): (0.32431029, 0.05751),
    ("fleiss_kappa", "interval"): (0.39151191, 0.09299),
    ("conger_kappa", "interval"): (0.39296093, 0.09261),
    ("krippendorff_alpha", "interval"): (0.39531497, 0.09299),
    ("gwet_ac2", "interval"): (0.38808308, 0.09027),
}


@pytest.mark.parametrize(("name", "weights"), GWET)
def test_standard_errors_of_complete_ratings_are_those_of_gwet(name, weights):
    rng = np.random.default_rng(1)
    truth = rng.integers(1, 5, 40)
    ratings = np.where(rng.random((40, 4)) < 0.6, truth[:, None], rng.integers(1, 5, (40, 4)))
    found = agreement.compute(ratings, name, weights=weights, method="t")
    estimate, error = GWET[name, weights]
    assert (round(float(found.estimate), 8), round(float(found.standard_error), 5)) == (estimate, error)
    ends = estimate + stdtrit(39, 0.975) * found.standard_error * np.array([-1, 1])
    np.testing.assert_allclose([found.low, found.high], ends, rtol=1e-6)


@pytest.mark.parametrize("gone", [0.0, 0.3])
@pytest.mark.parametrize("weights", ["nominal", "ordinal", "interval", "linear"])
def test_standard_errors_are_near_those_of_the_jackknife(gone, weights):
    ratings, options = draw(gone=gone), {"weights": weights, "categories": range(4), **QUIET}
    found = agreement.compute(ratings, NAMES, **options)
    without = np.stack([np.delete(ratings, i, 0) for i in range(60)])
    for name, one in agreement.compute(without, NAMES, **options).items():
        spread = np.sqrt(59 / 60 * ((one.estimate - one.estimate.mean()) ** 2).sum())
        np.testing.assert_allclose(found[name].standard_error, spread, rtol=0.06)


def test_krippendorff_package():
    peer = pytest.importorskip("krippendorff")
    for seed in range(3):
        ratings = draw(gone=0.2, seed=seed)
        for weights in ("nominal", "ordinal", "interval", "ratio"):
            want = peer.alpha(ratings.T, level_of_measurement=weights)
            found = agreement.compute(ratings, "krippendorff_alpha", weights=weights)
            np.testing.assert_allclose(found.estimate, want, rtol=1e-10)


def test_statsmodels():
    peer = pytest.importorskip("statsmodels.stats.inter_rater")
    np.testing.assert_allclose(
        agreement.from_counts(FLEISS, "fleiss_kappa").estimate, peer.fleiss_kappa(FLEISS), rtol=1e-13
    )


@pytest.mark.parametrize("weights", ["nominal", "linear"])
def test_two_raters_are_cohens_kappa(weights):
    ratings = draw(200, 2).astype(int)
    M = cmfast.confusion_matrix(ratings[:, 0], ratings[:, 1], n_classes=4)
    name = "kappa" if weights == "nominal" else "kappa_linear"
    for of in ("conger_kappa", "light_kappa"):
        found = agreement.compute(ratings, of, weights=weights)
        np.testing.assert_allclose(found.estimate, metrics.compute(M, name), rtol=1e-12)
        error = uncertainty.standard_error(M, name) * np.sqrt(200 / 199)
        np.testing.assert_allclose(found.standard_error, error, rtol=1e-10)


def test_light_is_the_mean_of_kappas():
    ratings = draw(gone=0.1)
    pairs = [(g, h) for g in range(4) for h in range(g)]
    for undefined in ("present", "nan"):
        each = []
        for g, h in pairs:
            both = ratings[:, [h, g]][~np.isnan(ratings[:, [g, h]]).any(1)].astype(int)
            M = cmfast.confusion_matrix(*both.T, n_classes=4)
            each.append(metrics.kappa(M, undefined=undefined))
        found = agreement.compute(ratings, "light_kappa", undefined=undefined)
        np.testing.assert_allclose(found.estimate, np.mean(each), rtol=1e-12)


def test_counts_are_ratings_without_their_raters():
    ratings = draw(gone=0.2)
    counts = np.stack([(ratings == k).sum(1) for k in range(4)], 1)
    for weights in ("nominal", "ordinal", "interval"):
        options = {"weights": weights, "categories": range(4)}
        one, other = (
            agreement.compute(ratings, NAMES[:4], **options),
            agreement.from_counts(counts, NAMES[:4], **options),
        )
        for name in NAMES[:4]:
            for part, same in zip(one[name], other[name], strict=True):
                np.testing.assert_allclose(part, same, rtol=1e-11)


def test_laws():
    ratings = draw(gone=0.2)
    options = {"weights": "interval", "categories": range(4)}
    found = agreement.compute(ratings, NAMES, **options)
    for moved, change in (
        (ratings[::-1], {}),
        (ratings[:, ::-1], {}),
        (3 * ratings - 7, {"categories": [-7, -4, -1, 2]}),
    ):
        for name, one in agreement.compute(moved, NAMES, **options | change).items():
            for part, same in zip(one, found[name], strict=True):
                np.testing.assert_allclose(part, same, rtol=1e-10)
    table = np.subtract.outer(range(4), range(4)) ** 2
    for name, one in agreement.compute(ratings, NAMES, weights=5 * table, categories=range(4)).items():
        np.testing.assert_allclose(one.estimate, found[name].estimate, rtol=1e-11)
        np.testing.assert_allclose(one.standard_error, found[name].standard_error, rtol=1e-10)
    same = np.repeat(ratings[:, :1], 3, 1)
    for one in agreement.compute(same, NAMES, categories=range(4), **QUIET).values():
        np.testing.assert_allclose([one.estimate, one.low, one.high, one.standard_error], [1, 1, 1, 0], atol=1e-14)


def test_ranks_of_few_categories_are_their_order():
    """Krippendorff's ordinal distances are those of intervals if the two outer of three categories are as frequent."""
    ratings = np.array([[0, 1], [1, 2], [0, 0], [2, 2], [1, 1], [0, 1], [2, 1], [2, 0]] * 3)
    one, other = (
        agreement.compute(ratings, "krippendorff_alpha", weights=weights, **QUIET).estimate
        for weights in ("ordinal", "interval")
    )
    np.testing.assert_allclose(one, other, rtol=1e-13)


def test_threads_and_neighbours_leave_the_bits():
    batch = np.stack([draw(500, gone=0.1, seed=k) for k in range(30)])
    options = {"weights": "ordinal", "categories": range(4)}
    one = agreement.compute(batch, NAMES, num_threads=1, **options)
    many = agreement.compute(batch, NAMES, num_threads=4, **options)
    alone = agreement.compute(batch[7], NAMES, **options)
    for name in NAMES:
        for part, other, single in zip(one[name], many[name], alone[name], strict=True):
            assert_same_bits(part, other)
            assert_same_bits(np.asarray(part[7]), np.asarray(single))


def test_text_and_tables():
    ratings = draw(gone=0.2)
    want = agreement.compute(ratings, NAMES)
    names = np.array(["a", "b", "c", "d", None], object)[np.where(np.isnan(ratings), 4, ratings).astype(int)]
    gaps = [[None if x != x else int(x) for x in row] for row in ratings.tolist()]  # noqa: PLR0124
    kinds = {
        "objects": names,
        "lists": names.tolist(),
        "table": pd.DataFrame(names),
        "categories": pd.DataFrame(names).astype("category"),
        "numbers and None": gaps,
        "nullable": pd.DataFrame(gaps).astype("Int64"),
        "frame": pd.DataFrame(ratings),
    }
    for given in kinds.values():
        for name, one in agreement.compute(given, NAMES).items():
            for part, other in zip(one, want[name], strict=True):
                assert_same_bits(np.asarray(part), np.asarray(other))
    for missing, given in (
        ("?", np.where(np.isnan(ratings), "?", names).astype(str)),
        (9, np.where(np.isnan(ratings), 9, ratings)),
    ):
        found = agreement.compute(given, "light_kappa", missing=missing)
        assert_same_bits(np.asarray(found.low), np.asarray(want["light_kappa"].low))
    order = agreement.compute(names, "gwet_ac2", weights="ordinal", categories=["d", "c", "b", "a"])
    same = agreement.compute(ratings, "gwet_ac2", weights="ordinal")
    np.testing.assert_allclose(order.estimate, same.estimate, rtol=1e-13)
    tensor = agreement.compute(torch.from_numpy(ratings), "fleiss_kappa")
    assert_same_bits(tensor.low.numpy(), np.asarray(want["fleiss_kappa"].low))


def test_intervals():
    found = agreement.compute(draw(), "fleiss_kappa", confidence_level=0.9)
    reach = np.exp(stdtrit(59, 0.95) * found.standard_error / (1 - found.estimate))
    ends = 1 - (1 - found.estimate) * np.array([reach, 1 / reach])
    np.testing.assert_allclose([found.low, found.high], ends, rtol=1e-12)


# Coverage of nominal 95 % intervals of alpha and AC1 by both methods, as on the page.
COVERAGE = {
    (50, 3, (0.5, 0.5), 0.5, 0.0, "nominal"): (0.960, 0.952, 0.967, 0.954),
    (50, 3, (0.9, 0.1), 0.8, 0.0, "nominal"): (0.905, 0.883, 0.967, 0.896),
    (50, 3, (0.95, 0.05), 0.9, 0.0, "nominal"): (0.646, 0.656, 0.705, 0.746),
    (20, 4, (0.2,) * 5, 0.9, 0.3, "nominal"): (0.943, 0.923, 0.952, 0.907),
    (50, 3, (0.25,) * 4, 0.95, 0.0, "interval"): (0.910, 0.850, 0.963, 0.917),
}


@pytest.mark.parametrize("case", COVERAGE)
def test_coverage_on_the_page(case):
    """The table of docs/agreement.md, from fewer draws."""
    n, m, shares, same, gone, weights = case

    def rate(rng, shape):
        x = np.where(
            rng.random((*shape, m)) < same,
            rng.choice(len(shares), (*shape, 1), p=shares),
            rng.choice(len(shares), (*shape, m), p=shares),
        ).astype(float)
        x[rng.random(x.shape) < gone] = np.nan
        return x

    names = ["krippendorff_alpha", "gwet_ac1"]
    options = {"weights": weights, "categories": range(len(shares)), "undefined": "nan", **QUIET}
    truth = agreement.compute(rate(np.random.default_rng(1), (200_000,)), names, **options)
    ratings, found = rate(np.random.default_rng(2), (2000, n)), []
    for name in names:
        for method in ("log", "t"):
            one, value = agreement.compute(ratings, name, method=method, **options), truth[name].estimate
            known = ~np.isnan(one.low)
            found.append(((one.low <= value) & (value <= one.high))[known].mean())
    want = np.array(COVERAGE[case])
    assert (abs(found - want) < 4 * np.sqrt(want * (1 - want) * (1 / 2000 + 1 / 4000))).all()


def draw_setting(rng):
    """Return a function that draws ratings of a random setting, its weights, categories and number of items."""
    n, m, q = int(rng.choice([15, 20, 30, 50, 80, 150, 300])), int(rng.integers(2, 7)), int(rng.integers(2, 7))
    shares, same = rng.dirichlet(np.full(q, rng.choice([0.3, 1, 5]))), rng.uniform(0.2, 0.97)
    gone, weights = rng.choice([0, 0, 0.2, 0.4]), str(rng.choice(["nominal", "ordinal", "interval"]))

    def rate(rng, shape):
        common = rng.random((*shape, m)) < same
        x = np.where(common, rng.choice(q, (*shape, 1), p=shares), rng.choice(q, (*shape, m), p=shares)).astype(float)
        x[rng.random(x.shape) < gone] = np.nan
        return x

    return rate, weights, range(q), n


@pytest.mark.slow
def test_intervals_that_cover_too_rarely_are_warned_of():
    """The figures of docs/agreement.md, from settings that were not used to choose the limit."""
    rng, found = np.random.default_rng(20261129), []
    for k in range(60):
        rate, weights, categories, n = draw_setting(rng)
        options = {"weights": weights, "level": 0.95, "log": True, "categories": np.array(categories)}
        options["codes"] = tuple(
            _coefficients.CODES[name] for name in ("krippendorff_alpha", "gwet_ac1", "fleiss_kappa")
        )
        *truth, _ = kernel.agreement_coefficients(rate(np.random.default_rng(k), (200_000,)), **options)
        *drawn, _ = kernel.agreement_coefficients(rate(np.random.default_rng(1000 + k), (1000, n)), **options)
        for j in range(0, 24, 8):
            low, high, error, carrying = drawn[j + 1], drawn[j + 2], drawn[j + 3], drawn[j + 7]
            known = ~np.isnan(low)
            covers, warned = (low <= truth[j]) & (truth[j] <= high), (carrying < _coefficients.FEW_ITEMS) | (error == 0)
            if known.sum() >= 500:
                found.append((covers[known].mean(), warned[known].mean()))
    coverage, warned = np.transpose(found)
    assert len(found) > 150
    assert warned[coverage < 0.9].mean() > 0.85
    assert warned[coverage >= 0.9].mean() < 0.2
    assert coverage[warned < 0.2].min() > 0.9


def test_intervals_that_few_items_carry_warn():
    ratings = np.zeros((50, 3), int)
    ratings[:3] = [[1, 1, 1], [1, 0, 0], [1, 1, 0]]
    with pytest.warns(
        cmfast.DiagnosticWarning, match=r"^agreement\.compute: fewer than 8 items carry the variance of 1"
    ):
        agreement.compute(ratings, "fleiss_kappa")
    with pytest.warns(cmfast.DiagnosticWarning, match=r"^agreement\.from_counts: 1 of 1 standard errors are 0"):
        agreement.from_counts([[2, 0], [0, 2], [2, 0]], "fleiss_kappa")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agreement.compute(ratings, "fleiss_kappa", **QUIET)
        agreement.compute(draw(), NAMES)


def test_grades():
    values = [-0.1, 0.0, 0.2, 0.21, 0.4, 0.41, 0.6, 0.61, 0.8, 0.81, 1.0, np.nan]
    words = ["poor", *["slight"] * 2, *["fair"] * 2, *["moderate"] * 2, *["substantial"] * 2, *["almost perfect"] * 2]
    assert agreement.grade(values) == [*words, "undefined"]
    assert agreement.grade(np.array([[0.5], [0.9]])) == [["moderate"], ["almost perfect"]]
    found = agreement.compute(draw(), "fleiss_kappa")
    with pytest.warns(
        cmfast.DiagnosticWarning, match=r"^agreement\.grade: the grade is uncertain: its interval reaches"
    ):
        assert agreement.grade(found) == agreement.grade(float(found.estimate))
    sure = found._replace(low=found.estimate, high=found.estimate)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agreement.grade(sure)
        agreement.grade(agreement.compute([[0, 0]] * 3, "fleiss_kappa", undefined="nan", **QUIET))


def test_undefined_values_follow_kappa():
    same = [[1, 1, 1]] * 9
    for undefined in ("present", "nan", "strict", "zero", "one", 0.5):
        want = metrics.kappa([[5, 0], [0, 0]], undefined=undefined)
        for one in agreement.compute(same, NAMES, undefined=undefined, categories=[1], **QUIET).values():
            np.testing.assert_equal([one.estimate, one.low, one.standard_error], [want, np.nan, np.nan])
    never = agreement.compute([[1.0, np.nan], [np.nan, 2.0]], NAMES, undefined="nan", **QUIET)
    assert all(np.isnan(one.estimate) and np.isnan(one.observed) for one in never.values())


Y = [[0, 1], [1, 1], [0, 0]]
REFUSED = {
    "one axis": (lambda: agreement.compute([1, 2], "fleiss_kappa"), r"must be of shape \(\.\.\., n, m\)"),
    "scale of a batch": (lambda: agreement.compute([Y, Y], "gwet_ac1"), "categories must be given for 'gwet_ac1'"),
    "order of a batch": (
        lambda: agreement.compute([Y, Y], "fleiss_kappa", weights="ordinal"),
        "categories must be given with weights='ordinal' of a batch",
    ),
    "order of text": (lambda: agreement.compute([["a", "b"]], NAMES, weights="ordinal"), "in their order for text"),
    "text with values": (lambda: agreement.compute([["a", "b"]], NAMES, weights="interval"), "numbers with weights="),
    "table without categories": (
        lambda: agreement.compute(Y, "fleiss_kappa", weights=[[0, 1], [1, 0]]),
        "categories must be given with a table",
    ),
    "table of another size": (
        lambda: agreement.compute(Y, "fleiss_kappa", weights=[[0, 1], [1, 0]], categories=[0, 1, 2]),
        r"weights must be of shape \(3, 3\)",
    ),
    "unequal table": (
        lambda: agreement.from_counts(Y, "fleiss_kappa", weights=[[0, 1], [2, 0]]),
        "weights must be symmetric",
    ),
    "agreements": (
        lambda: agreement.from_counts(Y, "fleiss_kappa", weights=[[1, 0], [0, 1]]),
        "weights must be disagreements with a zero diagonal",
    ),
    "raters of counts": (lambda: agreement.from_counts(Y, "light_kappa"), "'light_kappa', which needs the ratings"),
    "ratio of counts": (lambda: agreement.from_counts(Y, "gwet_ac2", weights="ratio"), "categories must be the values"),
    "values of counts": (lambda: agreement.from_counts(Y, "gwet_ac2", categories=[1, 2, 3]), "must be 2 values"),
    "negative ratio": (
        lambda: agreement.compute(Y, "gwet_ac2", weights="ratio", categories=[-1, 0, 1]),
        "categories must be nonnegative",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    call, said = REFUSED[name]
    with pytest.raises(ValueError, match=said):
        call()


def test_kinds_that_are_refused():
    for given, said in (
        ([["a", 1]], "all numbers or all text"),
        ([["a", b"b"]], "all str or all bytes"),
        ([[{}, None]], "numbers or text, got a dict"),
    ):
        with pytest.raises(TypeError, match=said):
            agreement.compute(given, "fleiss_kappa")
    with pytest.raises(TypeError, match="missing must be text or None"):
        agreement.compute([["a", "b"]], "fleiss_kappa", missing=-1)
    with pytest.raises(TypeError, match="categories must be text"):
        agreement.compute([["a", "b"]], "fleiss_kappa", categories=[1, 2])


def test_too_many_categories():
    ratings = np.arange(10_000).reshape(-1, 2)
    with pytest.raises(OverflowError, match=r"^agreement\.compute: ratings has 10,000 categories"):
        agreement.compute(ratings, "fleiss_kappa", weights="linear")
    found = agreement.compute(ratings, "krippendorff_alpha", weights="interval")
    pairs = 1 - (2 * 1 / 2) / (np.var(np.arange(10_000)) * 2 * 10_000 / 9_999)  # squared differences of 1
    np.testing.assert_allclose(found.estimate, pairs, rtol=1e-12)


def test_bad_values_are_named():
    for given, options, said in (
        ([[0, np.inf], [1, 1]], {}, r"ratings\[0, 1\] is inf"),
        ([[0, 1], [7, 1]], {"categories": [0, 1]}, r"ratings\[1, 0\] is 7, which is not among the categories"),
        ([[1, -2]], {"weights": "ratio"}, r"ratings\[0, 1\] is -2, negative"),
        ([["a", "x"]], {"categories": ["a", "b"]}, r"ratings\[0, 1\] is not among the categories"),
    ):
        with pytest.raises(cmfast.FailureError, match=f"INVALID; {said}"):
            agreement.compute(given, "fleiss_kappa", on_failure="raise", **options)
    for value, said in ((-1.0, "negative value at"), (np.nan, "NaN value at"), (np.inf, "infinite value at")):
        with pytest.raises(cmfast.FailureError, match=rf"{said} counts\[0, 1\]"):
            agreement.from_counts([[1, value]], "fleiss_kappa", on_failure="raise")
    for value, said in ((0.5, "is not whole"), (2.0**53, "is too large")):
        with pytest.raises(cmfast.FailureError, match=rf"counts\[0, 1\] {said}"):
            agreement.from_counts([[1, value]], "fleiss_kappa", on_failure="raise")


def test_results():
    found = agreement.compute(np.stack([draw(), draw(seed=1)]), "fleiss_kappa")
    frame = found.to_pandas()
    assert list(frame.columns) == ["batch", *found._fields]
    np.testing.assert_array_equal(frame["low"], found.low)
    assert found.explain() == "2 coefficients"
    pytest.importorskip("matplotlib")
    assert len(found.plot().get_yticks()) == 2


def test_confusion_counts_are_no_ratings():
    counts = cmfast.ConfusionCounts.from_labels([0, 1, 1], [0, 1, 0])
    for function in (agreement.compute, agreement.from_counts):
        with pytest.raises(TypeError, match=r"must be a row per item .* got ConfusionCounts, .* metrics\.kappa takes"):
            function(counts)


def test_rows_that_may_be_raters_are_doubted():
    ratings = draw(60, 2)
    with pytest.warns(cmfast.DiagnosticWarning, match="2 items and 60 raters; items come first, so transpose"):
        agreement.compute(ratings.T, **QUIET)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*items come first")
        warnings.filterwarnings("ignore", message=".*fewer than")
        agreement.compute(ratings)
        agreement.compute(draw(12, 60))


@pytest.mark.parametrize("kind", ["Arrow", "stream of Arrow", "LazyFrame", "polars", "pandas"])
@pytest.mark.parametrize("text", [False, True])
def test_ratings_come_from_any_table(kind, text):
    host = np.array([[0, 0, 1], [1, 1, 1], [0, 1, 1], [2, 2, 0]] * 6)
    host = np.array(["a", "b", "c"])[host] if text else host
    columns = {f"rater {k}": host[:, k] for k in range(3)}
    if kind == "pandas":
        table = pd.DataFrame(columns)
    elif "Arrow" in kind:
        table = pytest.importorskip("pyarrow").table(columns)
        table = table.to_reader() if kind != "Arrow" else table
    else:
        table = pytest.importorskip("polars").DataFrame(columns)
        table = table.lazy() if kind == "LazyFrame" else table
    want = agreement.compute(host, "fleiss_kappa")
    for one, other in zip(agreement.compute(table, "fleiss_kappa"), want, strict=True):
        np.testing.assert_array_equal(one, other)


def test_text_ratings_are_no_counts_of_raters():
    found = agreement.compute([["a", "c"], ["b", "b"]] * 10, "fleiss_kappa")
    assert found.n_items == 20
    with pytest.raises(ValueError, match="got 'quadratic'; squared differences are 'interval'"):
        agreement.compute([[0, 1], [1, 1]] * 10, "conger_kappa", weights="quadratic")


@pytest.mark.parametrize(
    "ratings", [np.arange(4)[:, np.newaxis], [["a"], ["b"]], np.zeros((2, 5, 1)), np.zeros((5, 0))]
)
def test_one_rater_agrees_with_nobody(ratings):
    with pytest.warns(cmfast.DiagnosticWarning) as caught:
        agreement.compute(ratings)
    assert any("have fewer than two raters, one per column" in str(one.message) for one in caught)


def test_items_with_single_ratings_say_nothing():
    lonely = [[1, None], [None, 2], [3, None]]
    text = "agreement.compute: no item has ratings of two raters, so agreement is undefined, and undefined= its value"
    with pytest.warns(cmfast.DiagnosticWarning, match=f"^{text}$"):
        found = agreement.compute(lonely, "krippendorff_alpha", undefined="nan")
    assert np.isnan(found.estimate)
    assert found.n_items == 0
    with pytest.warns(cmfast.DiagnosticWarning, match="no item has ratings of two raters"):
        agreement.from_counts([[1, 0], [0, 1], [1, 0]], "fleiss_kappa")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        agreement.compute(lonely, "krippendorff_alpha", on_failure="ignore")
        both = np.array([[[1.0, np.nan]] * 3, [[1.0, 1.0], [2.0, 2.0], [1.0, 2.0]]])  # one is defined
        agreement.compute(both, "krippendorff_alpha")
    assert not [one for one in caught if "no item" in str(one.message)]
