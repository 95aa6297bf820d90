"""What the page of other tools says: every answer is right, every column is what is kept, ours is what we do now."""

import json

import numpy as np
import pytest
import rivals
from oracle.margins import columns_of, feasible, over
from rivals_cases import CASES
from rivals_tools import DONE, GAVE_UP, REFUSED, TOOLS

import cmfast

pytestmark = pytest.mark.exhaustive

KEPT = json.loads(rivals.KEPT.read_text())
# What no digits of targets decide: it must not be called right, and may be.
UNDECIDED = ("beyond the digits",)


def design(case):
    """Return what each cell or record adds to each target, and the targets."""
    if case.counts is not None:
        return case.counts, case.targets[0][1]
    m = np.concatenate([target.ravel() for _, target in case.targets])
    axes = [of for of, _ in case.targets]
    if case.kind == "records":
        sizes = {of[0]: len(target) for of, target in case.targets}
        return columns_of(case.codes, sizes, axes), m
    places = np.indices(case.seed.shape).reshape(case.seed.ndim, -1)
    return columns_of(places, dict(enumerate(case.seed.shape)), axes), m


def lines(case):
    """Return a map as cells of one triangle, what they add to each bin, and ones: half of the diagonal, twice."""
    n = len(case.seed)
    i, j = np.triu_indices(n)
    A = np.zeros((len(i), n))
    A[np.arange(len(i)), i] += 1.0
    A[np.arange(len(i)), j] += 1.0
    return triangle(case.seed), A, np.ones(n)


def triangle(M):
    """Return the cells of one triangle, of the diagonal half."""
    i, j = np.triu_indices(len(M))
    return M[i, j] * np.where(i == j, 0.5, 1.0)


def problem(case):
    """Return seeds, a design and totals, of whatever kind."""
    if case.kind == "map":
        return lines(case)
    return (case.seed.ravel(), *design(case))


LARGE = {"sparse and spread", "tiny cells"}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.exhaustive] if name in LARGE else [])
        for name, case in CASES.items()
        if case.answer is not None
    ],
)
def test_the_answer_has_the_sums_and_is_the_seed_times_factors(name):
    case = CASES[name]
    q, A, m = problem(case)
    x = triangle(case.answer) if case.kind == "map" else case.answer.ravel()
    if name == "isolated bin":
        m = m * (case.answer.sum(1) > 0)
    np.testing.assert_allclose(A.T @ x, m, rtol=1e-10, atol=1e-12 * m.max())
    assert (x[q == 0] == 0).all()
    there = x > 0
    if name in {"limit", "pairs with a limit", "only one partner"}:  # no more than these can be positive
        dead = (q > 0) & ~there
        for c in np.flatnonzero(dead):
            some = A * np.where(there, 1.0, 0.0)[:, None]
            some[c] = A[c]
            assert not feasible(
                some, np.where(there | (np.arange(len(q)) == c), 1.0, 0.0), m, "truncated", *floor(c, len(q))
            )
    logs = np.log(x[there] / q[there])
    fit = np.linalg.lstsq(A[there], logs, rcond=None)[0]
    assert np.abs(A[there] @ fit - logs).max() <= 1e-7 * max(1.0, np.abs(logs).max())


def floor(c, n):
    """Return bounds that ask something of one cell."""
    low = np.zeros(n)
    low[c] = 1e-3
    return low, np.full(n, np.inf)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.why])
def test_where_no_answer_is_promised_a_linear_program_finds_none(name):
    case = CASES[name]
    if np.isnan(case.seed).any():
        return
    q, A, m = problem(case)
    low, high = case.bounds or (0.0, np.inf)
    some = q > 0
    assert not feasible(A[some], q[some], m, "truncated", np.full(some.sum(), low), np.full(some.sum(), high))


@pytest.mark.parametrize("name", CASES)
def test_ours(name):
    """Nothing wrong without a word, right wherever digits decide, and what is kept."""
    case, kept = CASES[name], KEPT["cmfast"]["cases"][name]
    found = rivals.told(case, "cmfast")
    assert found["said"] == kept["said"]
    assert rivals.verdict(case, found) == ("unsure" if name in UNDECIDED else "right")
    if found["said"] == DONE:
        assert found["off"] <= 1e-6
        assert found["off"] <= 30 * kept["off"] + 1e-9


@pytest.mark.parametrize("name", ["bounds", "trimmed"])
def test_all_margins_may_be_met_by_weights_within_bounds(name):
    case = CASES[name]
    A, m = design(case)
    assert feasible(A, case.seed, m, "truncated", *(np.full(len(case.seed), b) for b in case.bounds))
    found = cmfast.rake(A, m, weights=case.seed).weights
    assert found.max() > case.bounds[1]  # else the bounds would ask nothing


def test_totals_of_a_zero_column_and_shapes_of_margins():
    for case in CASES.values():
        if case.kind == "table":
            for of, target in case.targets:
                assert target.shape == tuple(case.seed.shape[axis] for axis in of)
            if case.other is not None:
                for of, target in case.targets:
                    np.testing.assert_allclose(over(case.other, of), target, rtol=1e-12)


def test_the_page_is_what_is_kept():
    assert rivals.page(KEPT) == rivals.PAGE.read_text()
    assert set(KEPT) == set(TOOLS)
    for tool, kept in KEPT.items():
        assert set(kept["cases"]) <= set(CASES), tool
        assert all(one["said"] in {DONE, GAVE_UP, REFUSED, "nothing", rivals.NO_END} for one in kept["cases"].values())
    assert set(KEPT["cmfast"]["cases"]) == set(CASES)


def test_verdicts():
    plain, none = CASES["plain"], CASES["NaN"]
    assert rivals.verdict(plain, {"said": DONE, "off": 1e-5}) == "right"
    assert rivals.verdict(plain, {"said": "nothing", "off": 1e-3}) == "wrong"
    assert rivals.verdict(plain, {"said": GAVE_UP, "off": 1e-9}) == "unsure"
    assert rivals.verdict(plain, {"said": REFUSED}) == "unsure"
    assert rivals.verdict(none, {"said": REFUSED}) == "right"
    assert rivals.verdict(none, {"said": GAVE_UP}) == "unsure"
    assert rivals.verdict(none, {"said": DONE}) == "wrong"
    assert rivals.error(plain, plain.answer) == 0.0
    assert rivals.error(plain, plain.answer / 3) == pytest.approx(2.0)
    assert rivals.error(plain, plain.answer * np.nan) == np.inf
    assert rivals.error(CASES["limit"], np.array([[1.0, 0.01], [0.0, 1.0]])) == pytest.approx(0.01)
    assert rivals.error(CASES["map"], CASES["map"].answer * 7) == pytest.approx(0.0, abs=1e-12)
    bounds = CASES["bounds"]
    assert rivals.error(bounds, np.full(2000, 3.0)) >= 1.0
