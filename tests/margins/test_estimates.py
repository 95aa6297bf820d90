"""Standard errors of estimates after raking: printed ones of R's survey, derivatives, and a dense computation."""

import json
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import raking_coverage
from optional import jax, polars, torch
from scipy import sparse, stats

import cmfast

pytestmark = pytest.mark.filterwarnings("ignore:.*intervals are too short:cmfast.DiagnosticWarning")
RNG = np.random.default_rng(42)
N = 60
AGE, SEX = RNG.integers(0, 3, N), RNG.integers(0, 2, N)
Q = RNG.uniform(1.0, 4.0, N)
Y = 3.0 * AGE + SEX + RNG.normal(size=N)
STRATA = np.repeat([5, 2, 9], [20, 25, 15])
CLUSTERS = np.concatenate([RNG.permutation(np.arange(n) % 4) for n in (20, 25, 15)])  # the same labels in all strata
AGES, SEXES = [60.0, 45.0, 50.0], [80.0, 75.0]
TARGETS = [(0, AGES), (1, SEXES)]
INDICATORS = np.concatenate([np.eye(3)[AGE], np.eye(2)[SEX]], 1)  # of rank 4
# Schools of a sample by district (the clusters, 15 of 757), type (E, H, M) and whether they met a goal: how many, sums
# of their scores and pupils; R's survey has them as apiclus1.
SCHOOLS = np.array(
    """
    61 0 1 10 7203 3884, 61 2 0 2 1458 1870, 61 2 1 1 711 1023, 135 0 0 3 2013 1191, 135 0 1 31 20495 13847,
    178 0 1 2 1001 937, 178 1 1 1 529 388, 178 2 0 1 547 343, 197 0 0 1 709 425, 197 0 1 9 6005 3696,
    197 2 0 2 1190 1875, 197 2 1 1 689 962, 255 0 0 1 552 345, 255 0 1 12 8633 6130, 255 2 1 3 2184 2550,
    406 0 1 2 1116 683, 413 0 1 1 551 274, 437 0 1 2 963 732, 437 1 1 1 443 418, 437 2 1 1 482 286,
    448 0 1 9 6858 3794, 448 1 1 1 703 2147, 448 2 1 2 1550 1434, 510 0 0 1 629 540, 510 0 1 15 9964 6995,
    510 1 0 1 595 1585, 510 1 1 1 661 1855, 510 2 0 1 614 1015, 510 2 1 2 1298 2978, 568 0 0 1 699 196,
    568 0 1 3 2160 646, 568 1 0 1 687 210, 568 1 1 3 2161 895, 568 2 1 1 679 233, 637 0 1 8 5418 2551,
    637 1 1 1 608 1689, 637 2 1 2 1333 1841, 716 0 0 5 2554 2546, 716 0 1 25 14254 11920, 716 1 1 3 1577 6195,
    716 2 1 4 2009 5153, 778 0 1 1 494 308, 778 2 0 1 411 372, 815 0 1 2 1166 691, 815 1 0 1 696 442, 815 2 0 1 631 508
    """.replace(",", " ").split(),
    np.int64,
).reshape(-1, 6)
TYPES, GOALS = (0, [4421.0, 755.0, 1018.0]), (1, [1072.0, 5122.0])
# Printed by R's survey (tests/rakecheck.Rout.save, tests/testoutput/caleg.Rout.save), the standard error of the mean
# after calibration to types as 23.921: 23.92049 rounded to four decimals and then to three.
PRINTED = {
    (0, 1): [(641.23, 0.00501, 23.704, 0.000501), (3647280, 0.501, 400603, 0.501)],
    (0,): [(642.31, 0.00501, 23.921, 0.000551), (3680893, 0.501, 406293, 0.501)],
}


def compute_by_hand(y, w, q, A, kind="total", strata=None, clusters=None, left=1.0, penalty=0.0):
    """Return an estimate and its standard error from dense matrices; `left` is the unsampled share, by stratum."""
    n = len(y)
    estimate = w @ y
    linear = y
    if kind == "mean":
        estimate = w @ y / w.sum()
        linear = (y - estimate) / w.sum()
    normal = A.T @ (q[:, None] * A) + np.diag(np.broadcast_to(penalty, A.shape[1]))
    e = w * (linear - A @ np.linalg.pinv(normal, rcond=1e-10) @ (A.T @ (q * linear)))
    strata = np.zeros(n, int) if strata is None else strata
    clusters = np.arange(n) if clusters is None else clusters
    variance = 0.0
    for stratum in np.unique(strata):
        within = strata == stratum
        sums = np.array([e[within & (clusters == c)].sum() for c in np.unique(clusters[within])])
        share = left[stratum] if isinstance(left, dict) else left
        variance += share * len(sums) * np.var(sums, ddof=1)
    return estimate, np.sqrt(variance)


@pytest.mark.parametrize("margins", PRINTED)
def test_standard_errors_printed_by_survey(margins):
    district, kind, goal, number, scores, pupils = SCHOOLS.T
    targets = [(TYPES, GOALS)[k] for k in margins]
    result = cmfast.rake(np.stack([kind, goal]), targets, weights=number * (6194 / 183))
    options = {"clusters": district, "fpc": 757}
    found = [
        result.estimate(scores / number, kind="mean", **options),
        result.estimate(pupils / number, kind="total", **options),
    ]
    for one, (estimate, rounding, error, error_rounding) in zip(found, PRINTED[margins], strict=True):
        assert one.estimate == pytest.approx(estimate, abs=rounding)
        assert one.standard_error == pytest.approx(error, abs=error_rounding)


@pytest.mark.parametrize("kind", ["total", "mean"])
@pytest.mark.parametrize("method", ["raking", "linear", "truncated", "logit"])
@pytest.mark.parametrize("drawn", ["records", "strata", "clusters", "both"])
def test_equals_a_dense_computation(kind, method, drawn):
    strata = STRATA if drawn in ("strata", "both") else None
    clusters = CLUSTERS if drawn in ("clusters", "both") else None
    bounds = None if method in ("raking", "linear") else (0.5, 1.9)
    result = cmfast.rake([AGE, SEX], TARGETS, weights=Q, method=method, bounds=bounds)
    found = result.estimate(Y, kind=kind, strata=strata, clusters=clusters, confidence_level=0.9)
    w = np.asarray(result.weights)
    estimate, error = compute_by_hand(Y, w, Q, INDICATORS, kind, strata, clusters)
    assert found.estimate == pytest.approx(estimate, rel=1e-12)
    assert found.standard_error == pytest.approx(error, rel=1e-9)
    units, parts = {"records": (60, 1), "strata": (60, 3), "clusters": (4, 1), "both": (12, 3)}[drawn]
    half = stats.t(units - parts).ppf(0.95) * error
    assert [found.low, found.high] == pytest.approx([estimate - half, estimate + half], rel=1e-9)
    assert found.n_undefined == 0


def test_a_dense_and_a_sparse_design_and_categories_agree():
    wanted = np.array([*AGES, *SEXES])
    found = [
        cmfast.rake(design, targets, weights=Q).estimate(Y, clusters=CLUSTERS).standard_error
        for design, targets in (
            (np.stack([AGE, SEX]), TARGETS),
            (INDICATORS, wanted),
            (sparse.csr_array(INDICATORS), wanted),
            (sparse.coo_array(np.repeat(INDICATORS, 20, 1)), np.repeat(wanted, 20)),  # more than 64 columns
        )
    ]
    assert found == pytest.approx([found[0]] * 4, rel=1e-9)


def estimate_linearly(q, A, totals, y):
    """Return the generalised regression estimate of a total, and the weights."""
    w = q * (1.0 + A @ np.linalg.solve(A.T @ (q[:, None] * A), totals - A.T @ q))
    return w @ y, w


def test_linearised_values_are_derivatives():
    """Each record's share of the variance is what its design weight adds to the estimate."""
    A = np.column_stack([np.ones(N), AGE, RNG.normal(size=N)])
    totals = np.array([155.0, 160.0, 3.0])
    slopes = np.empty(N)
    for k in range(N):
        step = np.zeros(N)
        step[k] = 1e-5 * Q[k]
        up, down = (estimate_linearly(Q + sign * step, A, totals, Y)[0] for sign in (1, -1))
        slopes[k] = (up - down) / 2e-5
    result = cmfast.rake(A, totals, weights=Q, method="linear")
    wanted = np.sqrt(N / (N - 1) * ((slopes - slopes.mean()) ** 2).sum())
    assert result.estimate(Y).standard_error == pytest.approx(wanted, rel=1e-7)


def test_soft_totals_are_derivatives_too():
    A = np.column_stack([np.ones(N), AGE, SEX])
    totals, p = np.array([155.0, 190.0, 60.0]), [np.inf, 20.0, 5.0]

    def estimate(q):
        return cmfast.rake(A, totals, weights=q, method="linear", importance=p, tol=1e-12).weights @ Y

    slopes = [
        (estimate(np.where(np.arange(N) == k, 1.001, 1.0) * Q) - estimate(np.where(np.arange(N) == k, 0.999, 1.0) * Q))
        / 0.002
        for k in range(N)
    ]
    wanted = np.sqrt(N / (N - 1) * ((slopes - np.mean(slopes)) ** 2).sum())
    result = cmfast.rake(A, totals, weights=Q, method="linear", importance=p)
    assert result.estimate(Y).standard_error == pytest.approx(wanted, rel=1e-4)
    achieved = A.T @ result.weights
    by_hand = compute_by_hand(Y, result.weights, Q, A, penalty=achieved / p)
    assert result.estimate(Y).standard_error == pytest.approx(by_hand[1], rel=1e-9)


def test_soft_margins_of_categories():
    result = cmfast.rake([AGE, SEX], [(0, AGES), (1, [100.0, 60.0])], weights=Q, importance=[np.inf, 3.0])
    penalty = np.concatenate([[0.0] * 3, result.achieved[1] / 3.0])
    wanted = compute_by_hand(Y, result.weights, Q, INDICATORS, penalty=penalty)
    assert result.estimate(Y).standard_error == pytest.approx(wanted[1], rel=1e-9)


def test_known_totals_have_no_error():
    result = cmfast.rake([AGE, SEX], TARGETS, weights=Q)
    found = result.estimate(np.stack([SEX, AGE == 2]), clusters=CLUSTERS)
    assert found.estimate.tolist() == pytest.approx([75.0, 50.0])
    assert (found.standard_error < 1e-10).all()
    share = result.estimate(SEX == 1, kind="mean")
    assert share.estimate == pytest.approx(75 / 155)
    assert share.standard_error < 1e-12


def test_post_strata_have_the_error_of_a_stratified_sample():
    """Raked to the strata that were drawn, the textbook's error of the stratified mean."""
    design = np.unique(STRATA, return_inverse=True)[1]
    sizes = np.array([400.0, 900.0, 200.0])  # of strata 2, 5, 9
    result = cmfast.rake([design], [(0, sizes)])
    found = result.estimate(Y, kind="mean", strata=STRATA, fpc=dict(zip([2, 5, 9], sizes, strict=True)))
    parts = [Y[h == STRATA] for h in (2, 5, 9)]
    shares = sizes / sizes.sum()
    variance = sum(
        (share**2 * (1 - len(part) / size) * part.var(ddof=1) / len(part))
        for share, part, size in zip(shares, parts, sizes, strict=True)
    )
    assert found.standard_error == pytest.approx(np.sqrt(variance), rel=1e-12)


@pytest.mark.parametrize("kind", ["total", "mean"])
def test_subpopulations(kind):
    inside = RNG.random(N) < 0.4
    result = cmfast.rake([AGE, SEX], TARGETS, weights=Q)
    found = result.estimate(np.where(inside, Y, np.nan), kind=kind, where=inside)
    w = result.weights
    linear, estimate = inside * Y, w @ (inside * Y)
    if kind == "mean":
        estimate = estimate / (w @ inside)
        linear = inside * (Y - estimate) / (w @ inside)
    wanted = compute_by_hand(linear, w, Q, INDICATORS)
    assert found.estimate == pytest.approx(estimate, rel=1e-12)
    assert found.standard_error == pytest.approx(wanted[1], rel=1e-9)


def test_nearly_redundant_columns():
    """Columns of a year and its square, whose condition is far above what normal equations bear."""
    year = 2000.0 + np.arange(N) % 7
    A = np.column_stack([np.ones(N), year, year**2])
    result = cmfast.rake(A, 1.001 * (Q @ A), weights=Q)
    centred = np.column_stack([np.ones(N), year - 2003, (year - 2003) ** 2])
    wanted = compute_by_hand(Y, result.weights, Q, centred)
    assert result.estimate(Y).standard_error == pytest.approx(wanted[1], rel=1e-6)


def test_unconstrained_targets_are_left_out():
    totals = np.array([[*AGES, *SEXES], [*AGES, np.nan, np.nan]])
    result = cmfast.rake(INDICATORS, totals, weights=Q)
    found = result.estimate(Y)
    for k, columns in enumerate((slice(0, 5), slice(0, 3))):
        wanted = compute_by_hand(Y, result.weights[k], Q, INDICATORS[:, columns])
        assert found.standard_error[k] == pytest.approx(wanted[1], rel=1e-9)
    assert found.standard_error[1] != pytest.approx(found.standard_error[0], rel=1e-3)
    free = cmfast.rake(INDICATORS, np.full(5, np.nan), weights=Q)
    assert free.estimate(Y).standard_error == pytest.approx(np.sqrt(N) * np.std(Q * Y, ddof=1), rel=1e-12)


def test_batches_of_weights_targets_and_values():
    weights = np.stack([Q, Q[::-1], np.ones(N)])
    targets = [(0, np.stack([AGES, [50.0, 55.0, 50.0]])[:, None]), (1, SEXES)]
    values = np.stack([Y, Y**2, SEX, np.cos(Y)])[:, None, None]
    result = cmfast.rake([AGE, SEX], targets, weights=weights)
    assert result.weights.shape == (2, 3, N)
    found = result.estimate(values, kind="mean", clusters=CLUSTERS)
    assert found.estimate.shape == found.low.shape == found.n_undefined.shape == (4, 2, 3)
    for i, j, k in np.ndindex(4, 2, 3):
        wanted = compute_by_hand(
            values[i, 0, 0], result.weights[j, k], weights[k], INDICATORS, "mean", clusters=CLUSTERS
        )
        assert found.estimate[i, j, k] == pytest.approx(wanted[0], rel=1e-11)
        assert found.standard_error[i, j, k] == pytest.approx(wanted[1], rel=1e-8, abs=1e-12)


def test_more_records_than_a_block():
    n = 20_000
    design = RNG.integers(0, 5, (2, n))
    q, y = RNG.uniform(1, 2, n), RNG.normal(size=n) + design[0]
    result = cmfast.rake(design, [(0, np.full(5, 6_000.0)), (1, np.full(5, 6_000.0))], weights=q)
    A = np.concatenate([np.eye(5)[design[0]], np.eye(5)[design[1]]], 1)
    e = result.weights * (y - A @ np.linalg.lstsq(A * np.sqrt(q)[:, None], y * np.sqrt(q), rcond=1e-10)[0])
    assert result.estimate(y).standard_error == pytest.approx(np.sqrt(n) * np.std(e, ddof=1), rel=1e-10)


def test_bad_values_do_not_harm_neighbours():
    result = cmfast.rake([AGE, SEX], TARGETS, weights=np.stack([Q, np.full(N, np.nan)]), on_failure="ignore")
    values = np.stack([Y, Y])[:, None]
    values[1, 0, 7] = np.nan
    with pytest.warns(cmfast.FailureWarning, match="2 of 4 estimates not computed") as caught:
        found = result.estimate(values)
    assert len(caught) == 1
    assert np.isfinite(found.estimate).tolist() == [[True, False], [False, False]]
    alone = cmfast.rake([AGE, SEX], TARGETS, weights=Q).estimate(Y)
    assert alone == tuple(part[0, 0] for part in found)
    with pytest.raises(cmfast.FailureError, match=r"estimate: INVALID: NaN value at values\[7\]; pass where="):
        cmfast.rake([AGE, SEX], TARGETS).estimate(values[1, 0], on_failure="raise")


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_values_of_any_size(size):
    result = cmfast.rake([AGE, SEX], TARGETS, weights=Q)
    found, one = result.estimate(size * Y, kind="mean"), result.estimate(Y, kind="mean")
    assert found.standard_error / size == pytest.approx(one.standard_error, rel=1e-12)
    with pytest.warns(cmfast.FailureWarning, match="beyond the range of float64"):
        result.estimate(np.full(N, 1e308))


def test_few_units_warn():
    result = cmfast.rake([AGE, SEX], TARGETS, weights=Q)
    few = np.arange(N) % 23
    with pytest.warns(cmfast.DiagnosticWarning, match="too short: 23 clusters for 4 independent totals") as caught:
        result.estimate(np.stack([Y, SEX]), clusters=few)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result.estimate(Y, clusters=np.arange(N) % 24)
        result.estimate(Y)
        result.estimate(Y, clusters=few, on_failure="ignore")


def test_names_of_columns():
    people = pd.DataFrame({"age": AGE.astype(str), "sex": SEX, "w": Q, "y": Y, "z": Y**2, "h": STRATA, "c": CLUSTERS})
    people["N"] = people["h"].map({5: 90, 2: 80, 9: 1000})
    targets = {"age": dict(zip("012", AGES, strict=True)), "sex": dict(enumerate(SEXES))}
    by_name = cmfast.rake(people, targets, weights="w")
    plain = cmfast.rake([AGE, SEX], TARGETS, weights=Q)
    found = by_name.estimate(["y", "z"], kind="mean", strata="h", clusters="c", fpc="N")
    assert list(found) == ["y", "z"]
    shares = {5: 1 - 4 / 90, 2: 1 - 4 / 80, 9: 1 - 4 / 1000}
    for name, values in (("y", Y), ("z", Y**2)):
        alone = by_name.estimate(name, kind="mean", strata="h", clusters="c", fpc="N")
        same = plain.estimate(values, kind="mean", strata=STRATA, clusters=CLUSTERS, fpc={5: 90, 2: 80, 9: 1000})
        _, error = compute_by_hand(values, plain.weights, Q, INDICATORS, "mean", STRATA, CLUSTERS, shares)
        assert found[name].standard_error == pytest.approx(error, rel=1e-9)
        assert [alone.low, same.low] == pytest.approx([found[name].low] * 2, rel=1e-12)
    assert found.to_pandas()["metric"].tolist() == ["y", "z"]
    from_series = by_name.estimate(
        people["y"], kind="mean", strata=people["h"].astype("category"), clusters="c", fpc="N"
    )
    assert from_series.low == found["y"].low
    in_polars = cmfast.rake(polars.from_pandas(people), targets, weights="w")
    assert in_polars.estimate("y", strata="h").low == pytest.approx(by_name.estimate("y", strata="h").low, rel=1e-12)


def test_fractions_as_corrections():
    result = cmfast.rake([AGE, SEX], TARGETS, weights=Q)
    plain, half, all_ = (result.estimate(Y, fpc=fpc).standard_error for fpc in (None, 0.5, 1.0))
    assert half == pytest.approx(plain / np.sqrt(2), rel=1e-12)
    assert all_ == 0.0
    assert result.estimate(Y, fpc=120).standard_error == pytest.approx(half, rel=1e-12)


def test_a_stratum_of_one_that_was_taken_whole():
    strata = np.where(np.arange(N) == 3, 1, 0)
    result = cmfast.rake([AGE, SEX], TARGETS, weights=Q)
    with pytest.raises(ValueError, match="stratum 1 has one record, which has no variance; merge it"):
        result.estimate(Y, strata=strata)
    found = result.estimate(Y, strata=strata, fpc={0: 1000, 1: 1})
    wanted = compute_by_hand(Y, result.weights, Q, INDICATORS)[1]
    assert 0.5 * wanted < found.standard_error < wanted


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_other_libraries(library):
    make = jax.numpy.asarray if library == "jax" else torch.asarray
    wanted = cmfast.rake(INDICATORS, [*AGES, *SEXES], weights=Q).estimate(Y, clusters=CLUSTERS)
    totals = make(np.array([*AGES, *SEXES]))
    result = cmfast.rake(make(INDICATORS), totals, weights=make(Q))
    found = result.estimate(make(Y), clusters=make(CLUSTERS))
    assert type(found.estimate) is type(totals)
    assert float(found.standard_error) == pytest.approx(float(wanted.standard_error), rel=1e-12)


def test_float32_weights():
    single = cmfast.rake(INDICATORS, np.float32([*AGES, *SEXES]), weights=Q.astype(np.float32))
    assert single.weights.dtype == np.float32
    double = cmfast.rake(INDICATORS, [*AGES, *SEXES], weights=Q)
    found = single.estimate(Y)
    assert found.estimate.dtype == np.float64
    assert found.standard_error == pytest.approx(double.estimate(Y).standard_error, rel=1e-5)


def test_copies_know_their_records():
    result = cmfast.rake([AGE, SEX], TARGETS, weights=Q)
    assert isinstance(result, cmfast.results.RakeResult)
    again = pickle.loads(pickle.dumps(result))
    assert again.estimate(Y) == result.estimate(Y)
    with pytest.raises(ValueError, match="does not know the records that were raked"):
        result._replace(weights=result.weights * 2).estimate(Y)


def test_changed_arrays_are_noticed():
    design, q = np.stack([AGE, SEX]), Q.copy()
    result = cmfast.rake(design, TARGETS, weights=q)
    wanted = result.estimate(Y)
    q[:] = 1.0
    assert result.estimate(Y) == wanted
    design[0] = np.roll(design[0], 1)
    with pytest.raises(ValueError, match="design or weights were changed after rake"):
        result.estimate(Y)
    other = cmfast.rake([AGE, SEX], TARGETS, weights=Q)
    other.weights[:] *= 2
    with pytest.raises(ValueError, match="design or weights were changed after rake"):
        other.estimate(Y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "median"}, "kind must be one of 'total', 'mean'"),
        ({"where": np.ones(N)}, "where must be True or False for each record"),
        ({"where": np.ones(N, int)}, r"got dtype int64, shape \(60,\); compare numbers, as where == 1$"),
        ({"where": np.ones(3, bool)}, "where must be True or False for each record"),
        ({"clusters": np.zeros(N, int)}, "one cluster has no variance; two or more are needed"),
        ({"clusters": [1, 2]}, r"clusters must be of shape \(60,\), a label for each record, got shape \(2,\)"),
        ({"strata": Q}, "strata must be whole numbers, got "),
        ({"clusters": np.where(np.arange(N) == 7, np.nan, 1.0)}, "clusters must be whole numbers, got nan at 7"),
        (
            {"strata": "region"},
            "strata must be an array, got str 'region'; names are those of columns, and no table was raked",
        ),
        ({"fpc": 59}, "fpc must be at least 60, the number of sampled units, got 59"),
        ({"fpc": -5.0}, "fpc must be above 0"),
        ({"fpc": np.nan}, "fpc must be above 0"),
        ({"fpc": {0: 100}}, "fpc must be a number, as there are no strata, got a dict"),
        ({"fpc": {2: 100, 5: 100}, "strata": STRATA}, "fpc must be a dict with all strata, got none for stratum 9"),
        ({"fpc": 100 + np.arange(N), "strata": STRATA}, "fpc must be the same for all records of a stratum"),
        ({"fpc": np.ones(3)}, r"fpc must be a number, or an array of shape \(60,\), got shape \(3,\)"),
        ({"confidence_level": 95}, "confidence_level must be between 0 and 1"),
        ({"on_failure": "skip"}, "on_failure must be"),
        ({"level": 0.9}, "it is called confidence_level="),
    ],
)
def test_wrong_options(options, message):
    result = cmfast.rake([AGE, SEX], TARGETS, weights=Q)
    with pytest.raises((TypeError, ValueError), match=message):
        result.estimate(Y, **options)


def test_wrong_values():
    result = cmfast.rake([AGE, SEX], TARGETS, weights=Q)
    with pytest.raises(ValueError, match=r"values must be of shape \(..., 60\)"):
        result.estimate(Y[:5])
    with pytest.raises(ValueError, match="do not broadcast"):
        cmfast.rake([AGE, SEX], TARGETS, weights=np.stack([Q, Q])).estimate(np.stack([Y, Y, Y]))
    with pytest.raises(TypeError, match="values must be an array, got str 'y'; names"):
        result.estimate("y")


def test_the_coverage_of_the_page(monkeypatch):
    """The table of the page is what was measured, and a short measurement agrees with it."""
    kept = json.loads(raking_coverage.KEPT.read_text(encoding="utf-8"))
    page = raking_coverage.PAGE.read_text(encoding="utf-8")
    assert raking_coverage.write_page(kept, page) == page
    monkeypatch.setattr(raking_coverage, "STUDIES", 60)
    people = raking_coverage.make_population(np.random.default_rng(20))
    found = raking_coverage.measure(people, raking_coverage.SETTINGS[-1], [0, 0])
    assert 20 < found["raked"] < 60  # some samples miss a region
    most = [kept[-1]["raked"], *(one["raked"] for one in kept[:-1])]
    assert f"{2_000 - most[0]} of the 2,000 of six villages, at most {2_000 - min(most[1:])} of" in page
    assert found["held"] < found["held_unaware"]
    assert found["held"] < found["held_jackknife"]


def make_people():
    """Return records with an index in no order, and the totals of a column."""
    draw = np.random.default_rng(5)
    index = draw.permutation(120)
    frame = pd.DataFrame({"age": draw.integers(0, 3, 120), "spend": draw.normal(3, 1, 120)}, index=index)
    return frame, {"age": {0: 300.0, 1: 250.0, 2: 250.0}}


def test_series_in_another_order_are_refused():
    people, totals = make_people()
    w = pd.Series(1.0, people.index)
    same = r"must have the same index, .* got one index in two orders"
    with pytest.raises(ValueError, match=rf"^rake: design and weights {same}"):
        cmfast.rake(people, totals, weights=w.sort_index())
    with pytest.raises(ValueError, match=rf"^rake: design\[0\] and design\[1\] {same}"):
        cmfast.rake([people.age, people.age.sort_index()], [(0, [300.0, 250, 250]), (1, [300.0, 250, 250])])
    with pytest.raises(ValueError, match=rf"^rake: design and bounds\[1\] {same}"):
        cmfast.rake(people, totals, weights=w, method="logit", bounds=(0.0, 99 * w.sort_index()))
    with pytest.raises(ValueError, match=rf"^ipf_cells: coords and values {same}"):
        cmfast.ipf_cells(w.sort_index(), people[["age"]], [pd.DataFrame({"age": [0], "x": [1.0]})])
    named = cmfast.rake(people, totals, weights=w)
    listed = cmfast.rake([people.age], [(0, [300.0, 250, 250])], weights=w)
    for result in (named, listed):
        for options in ({"where": people.age == 0}, {"strata": people.age}, {"clusters": people.age}):
            (name, column) = next(iter(options.items()))
            with pytest.raises(ValueError, match=rf"^RakeResult\.estimate: design and {name} {same}"):
                result.estimate(np.ones(120), **{name: column.sort_index()})
        with pytest.raises(ValueError, match=rf"^RakeResult\.estimate: design and values {same}"):
            result.estimate(people.spend.sort_index())
        assert result.estimate(people.spend) == result.estimate(people.spend.to_numpy())


def test_a_table_that_is_sorted_later_stays_as_it_was_raked():
    people, totals = make_people()
    result = cmfast.rake(people, totals)
    before = result.estimate("spend", kind="mean")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pandas 3 advises against what users do
        people.sort_values("spend", inplace=True)
    assert result.estimate("spend", kind="mean") == before


def test_columns_that_are_added_to_a_raked_table_are_found_and_changed_ones_are_new():
    people, totals = make_people()
    result = cmfast.rake(people, totals)
    people["twice"] = 2.0 * people.spend
    before = result.estimate("spend").estimate
    assert result.estimate("twice").estimate == 2.0 * before
    people["spend"] = people.spend / 2.0
    assert result.estimate("spend").estimate == before / 2.0


@pytest.mark.parametrize("ignore_index", [False, True])
def test_columns_that_are_added_after_the_rows_were_sorted_are_unknown(ignore_index):
    people, totals = make_people()
    result = cmfast.rake(people, totals)
    before = result.estimate("spend")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        people.sort_values("spend", inplace=True, ignore_index=ignore_index)
    people["twice"] = 2.0 * people.spend
    assert result.estimate("spend") == before
    with pytest.raises(ValueError, match=r"values must be one of the columns .*, got 'twice'"):
        result.estimate("twice")


def test_subpopulations_of_few_units_warn():
    people, totals = make_people()
    result = cmfast.rake(people, totals)
    with pytest.warns(cmfast.DiagnosticWarning, match="where= selects so few records: 1, of 6"):
        result.estimate("spend", where=np.arange(120) == 3)
    with pytest.warns(cmfast.DiagnosticWarning, match="where= selects no record, so that totals are 0"):
        assert result.estimate("spend", where=np.zeros(120, bool)).estimate == 0.0
    result.estimate("spend", where=np.arange(120) < 60)


@pytest.mark.parametrize(
    ("fpc", "message"),
    [
        (np.nan, r"fpc must be above 0 and finite: .*, got nan"),
        ([1.0, 2.0], r"an array of shape \(120,\), got shape \(2,\)"),
    ],
)
def test_what_came_as_a_correction_is_said(fpc, message):
    people, totals = make_people()
    with pytest.raises(ValueError, match=message):
        cmfast.rake(people, totals).estimate("spend", fpc=fpc)


@pytest.mark.parametrize("library", ["pandas", "polars", "arrow"])
def test_missing_integers_outside_a_subpopulation_do_no_harm(library):
    inside = np.arange(N) % 5 > 0
    counts = pd.array(np.where(inside, np.arange(N), 0), "Int64")
    counts[~inside] = pd.NA
    people = pd.DataFrame({"age": AGE, "sex": SEX, "w": Q, "y": counts, "inside": inside})
    targets = {"age": dict(enumerate(AGES)), "sex": dict(enumerate(SEXES))}
    if library == "polars":
        people = polars.from_pandas(people)
    elif library == "arrow":
        people = pytest.importorskip("pyarrow").Table.from_pandas(people)
    result = cmfast.rake(people, targets, weights="w")
    wanted = result.estimate(np.arange(N), where=inside)
    assert result.estimate("y", where="inside") == wanted
    with pytest.warns(cmfast.FailureWarning, match=r"NaN value at values y\[0\]; pass where= to leave"):
        assert np.isnan(result.estimate("y").estimate)


def test_whole_floats_name_strata_and_clusters():
    """As pandas stores integers if any of them is missing."""
    result = cmfast.rake([AGE, SEX], TARGETS, weights=Q)
    wanted = result.estimate(Y, strata=STRATA, clusters=CLUSTERS)
    assert result.estimate(Y, strata=np.array(STRATA, float), clusters=np.array(CLUSTERS, float)) == wanted
