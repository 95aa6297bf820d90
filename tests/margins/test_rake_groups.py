"""Records of several groups, each raked to its own totals: plain fitting, single calls, and pooled margins."""

import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from optional import polars

import cmfast
from cmfast import DiagnosticWarning, FailureError, FailureWarning, Status

pytestmark = pytest.mark.filterwarnings("ignore:.*intervals are too short:cmfast.DiagnosticWarning")
RNG = np.random.default_rng(7)
N = 400
STATES = np.array(["NY", "CA", "TX", "AK"])
RECORDS = pd.DataFrame({
    "state": STATES[RNG.choice(4, N, p=[0.2, 0.3, 0.3, 0.2])],
    "age": np.array(["old", "young", "middle"])[RNG.integers(0, 3, N)],
    "sex": RNG.integers(5, 7, N),
    "county": RNG.integers(0, 2, N),
    "year": RNG.integers(2020, 2022, N),
    "w": RNG.uniform(1.0, 4.0, N),
    "y": RNG.normal(size=N),
})  # fmt: skip
RECORDS["county"] = RECORDS["state"] + RECORDS["county"].astype(str)  # categories that only one group has
TRUE = RECORDS["w"] * RNG.uniform(0.7, 1.5, N)


def total(*columns, weights=TRUE):
    """Return the totals of combinations of columns as a tidy table."""
    return weights.groupby([RECORDS[name] for name in columns]).sum().rename("n").reset_index()


def of_state(table, state):
    """Return the rows of a table of totals that belong to a state, without their column of it."""
    return table[table["state"] == state].drop(columns="state")


def assert_is_each_alone(result, frame, targets, options, by="state"):
    """Assert that each group has the bits of a call for its records alone."""
    keys = frame[by] if isinstance(by, str) else pd.Series(list(map(tuple, frame[by].to_numpy())), frame.index)
    for g, group in enumerate(result.groups):
        here = (keys == group).to_numpy()
        own = {
            name: x[here] if isinstance(x, np.ndarray) and x.shape == here.shape else x for name, x in options.items()
        }
        if isinstance(own.get("bounds"), tuple):
            own["bounds"] = tuple(x[here] if isinstance(x, np.ndarray) else x for x in own["bounds"])
        one = cmfast.rake(frame[here], targets(group), **own)
        assert one.weights.tobytes() == result.weights[here].tobytes()
        for name in ("residual", "weight_error", "n_iter", "status"):
            assert getattr(one, name).tobytes() == getattr(result, name)[g].tobytes(), name


def fit(ids, margins, w):
    """Return weights by iterative proportional fitting in plain NumPy; margins are pairs of codes and totals."""
    w = w.copy()
    for _ in range(2000):
        for codes, totals in margins:
            w *= (totals / np.bincount(codes, w, len(totals)))[codes]
    return w


def test_each_group_has_the_weights_of_plain_fitting():
    result = cmfast.rake(RECORDS, [total("state", "age"), total("state", "sex")], groups="state", weights="w")
    assert result.groups == ("AK", "CA", "NY", "TX")
    np.testing.assert_array_equal(result.status, [0, 0, 0, 0])
    for state in STATES:
        here = (RECORDS["state"] == state).to_numpy()
        margins = []
        for name in ("age", "sex"):
            codes = np.unique(RECORDS[name][here], return_inverse=True)[1]
            margins.append((codes, np.bincount(codes, TRUE[here])))
        wanted = fit(state, margins, RECORDS["w"][here].to_numpy())
        np.testing.assert_allclose(result.weights[here], wanted, rtol=1e-9)


FORMS = {
    "list of tables": [total("state", "age"), total("state", "sex")],
    "dict of combinations": {
        ("state", "age"): total("state", "age").set_index(["state", "age"])["n"],
        ("sex", "state"): total("sex", "state").set_index(["sex", "state"])["n"].to_dict(),
    },
    "dict of columns": {
        "age": total("state", "age"),
        "sex": total("state", "sex").set_index(["state", "sex"])["n"].to_dict(),
    },
    "list of pairs": [("age", total("state", "age")), (("state", "sex"), total("state", "sex"))],
    "list of Series": [
        total("state", "age").set_index(["state", "age"])["n"],
        total("sex", "state").set_index(["sex", "state"])["n"],
    ],
    "dict of groups": {
        state: {name: of_state(total("state", name), state).set_index(name)["n"].to_dict() for name in ("age", "sex")}
        for state in STATES
    },
    "tables of groups": {state: [of_state(total("state", name), state) for name in ("age", "sex")] for state in STATES},
}


def by_single_dicts(group):
    """Return the targets of one group."""
    return FORMS["dict of groups"][group]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"weights": "w", "importance": [5.0, np.inf]},
        {"weights": RECORDS["w"].to_numpy(), "method": "truncated", "bounds": (0.3, RNG.uniform(4.0, 5.0, N))},
        {"weights": "w", "method": "linear"},
    ],
)
def test_each_group_has_the_bits_of_a_call_of_its_own(form, options):
    result = cmfast.rake(RECORDS, FORMS[form], groups="state", **options)
    assert (result.status == 0).all()
    assert_is_each_alone(result, RECORDS, by_single_dicts, options)


@pytest.mark.parametrize("form", FORMS)
def test_values_of_targets_come_in_the_order_of_their_rows(form):
    result = cmfast.rake(RECORDS, FORMS[form], groups="state", weights="w")
    wanted = [total("state", "age"), total("state", "sex")]
    if form.endswith("groups"):
        wanted = [t.set_index("state").loc[STATES].reset_index() for t in wanted]
    elif form in ("dict of combinations", "list of Series"):
        wanted[1] = total("sex", "state")
    for k, table in enumerate(wanted):
        np.testing.assert_allclose(result.achieved[k], table["n"], rtol=1e-8)
        assert np.isfinite(result.multipliers[k]).all()
        assert np.isnan(result.proof[k]).all()


def to_categoricals(frame):
    """Return the table with categoricals in an order of their own."""
    return frame.astype({
        "state": pd.CategoricalDtype(["TX", "NY", "WA", "CA", "AK"]),
        "age": pd.CategoricalDtype(["young", "middle", "old", "oldest"]),
    })  # fmt: skip


@pytest.mark.parametrize(
    "make",
    [
        polars.from_pandas,
        lambda frame: polars.from_pandas(frame).lazy(),
        pa.Table.from_pandas,
        lambda frame: pytest.importorskip("narwhals").from_native(frame),
        to_categoricals,
    ],
)
def test_tables_of_every_library(make):
    frame = make(RECORDS)
    result = cmfast.rake(frame, FORMS["list of tables"], groups="state", weights="w")
    wanted = cmfast.rake(RECORDS, FORMS["list of tables"], groups="state", weights="w")
    np.testing.assert_allclose(result.weights, wanted.weights, rtol=1e-9)
    assert result.groups == (("TX", "NY", "CA", "AK") if make is to_categoricals else wanted.groups)
    if make is to_categoricals:
        assert_is_each_alone(result, frame, by_single_dicts, {"weights": "w"})


def test_groups_of_several_columns_and_categories_of_one_group():
    by = ["year", "state"]
    targets = [total("state", "year", "age"), total("year", "state", "county")]
    result = cmfast.rake(RECORDS, targets, groups=by, weights="w")
    assert result.groups == tuple(sorted(set(zip(RECORDS["year"], RECORDS["state"], strict=True))))

    def of(group):
        here = [t[(t["year"] == group[0]) & (t["state"] == group[1])].drop(columns=by) for t in targets]
        return {t.columns[0]: t.set_index(t.columns[0])["n"] for t in here}

    assert_is_each_alone(result, RECORDS, of, {"weights": "w"}, by)
    nested = {group: of(group) for group in result.groups}
    again = cmfast.rake(RECORDS, nested, groups=by, weights="w")
    assert again.weights.tobytes() == result.weights.tobytes()


def test_the_total_of_a_group_and_margins_that_only_some_groups_have():
    frame = pd.DataFrame({"g": [1, 1, 0, 0], "a": ["x", "y", "x", "x"]})
    result = cmfast.rake(frame, pd.DataFrame({"g": [0, 1], "n": [10.0, 6.0]}), groups="g")
    np.testing.assert_allclose(result.weights, [3.0, 3.0, 5.0, 5.0])
    result = cmfast.rake(frame, {1: {"a": {"x": 1.0, "y": 7.0}}, 0: {(): {(): 4.0}}}, groups="g")
    np.testing.assert_allclose(result.weights, [1.0, 7.0, 2.0, 2.0])
    np.testing.assert_allclose(np.concatenate(result.achieved), [1.0, 7.0, 4.0])


def test_a_target_of_nan_leaves_a_category_of_one_group_unconstrained():
    ages = total("state", "age")
    ages.loc[(ages["state"] == "NY") & (ages["age"] == "old"), "n"] = np.nan
    result = cmfast.rake(RECORDS, ages, groups="state", weights="w")
    free = ((RECORDS["state"] == "NY") & (RECORDS["age"] == "old")).to_numpy()
    np.testing.assert_allclose(result.weights[free], RECORDS["w"][free])
    assert (result.status == 0).all()


def test_bad_groups_harm_no_neighbours_and_are_named():
    good = cmfast.rake(RECORDS, FORMS["list of tables"], groups="state", weights="w")
    ages, sexes = (table.copy() for table in FORMS["list of tables"])
    ages.loc[ages["state"] == "CA", "n"] *= 2.0  # disagrees with the total of the other margin
    sexes.loc[(sexes["state"] == "TX") & (sexes["sex"] == 6), "n"] = np.inf
    ages = pd.concat([ages, pd.DataFrame({"state": ["WA"], "age": ["old"], "n": [9.0]})])  # without records
    with pytest.warns(FailureWarning) as caught:
        result = cmfast.rake(RECORDS, [ages, sexes], groups="state", weights="w")
    assert result.groups == ("AK", "CA", "NY", "TX", "WA")
    assert [Status(s).name for s in result.status] == ["CONVERGED", "TOTALS", "CONVERGED", "INVALID", "ZERO_LINE"]
    (one,) = caught
    said = r"rake: 3 of 5 sets of weights not found \(first: 1, 3, 4\): .*; state = CA: targets\[0\] .* disagree .*"
    assert re.fullmatch(said, str(one.message))
    here = RECORDS["state"].isin(["AK", "NY"]).to_numpy()
    assert result.weights[here].tobytes() == good.weights[here].tobytes()
    assert np.isnan(result.weights[~here]).all()
    targets = pd.concat([total("state", "age"), ages.iloc[-1:]])
    with pytest.raises(FailureError, match=r"ZERO_LINE \(element 4 of 5\): state = WA: no record adds to age = old, "):
        cmfast.rake(RECORDS, targets, groups="state", on_failure="raise")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        silent = cmfast.rake(RECORDS, [ages, sexes], groups="state", weights="w", on_failure="ignore")
    assert silent.status.tolist() == result.status.tolist()
    assert result.explain(4).startswith("ZERO_LINE")


def test_contradictions_are_proved_in_the_rows_that_were_given():
    frame = pd.DataFrame({"g": ["b"] * 4 + ["a"] * 2, "s": [0, 0, 1, 1, 0, 1], "t": [0, 0, 1, 1, 0, 1]})
    targets = {"s": {("a", 0): 1.0, ("b", 1): 2.0, ("b", 0): 8.0, ("a", 1): 1.0}}
    targets["t"] = {("b", 0): 5.0, ("b", 1): 5.0, ("a", 1): 1.0, ("a", 0): 1.0}
    with pytest.warns(FailureWarning, match=r"INFEASIBLE \(element 1 of 2\): g = b: .* = "):
        result = cmfast.rake(frame, targets, groups="g")
    np.testing.assert_allclose(result.weights[4:], 1.0)
    proof = [np.array([np.nan if np.isnan(x) else np.sign(x) for x in part]) for part in result.proof]
    np.testing.assert_array_equal(np.isnan(proof[0]), [True, False, False, True])
    np.testing.assert_array_equal(np.isnan(proof[1]), [False, False, True, True])
    y = np.concatenate([result.proof[0][[2, 1]], result.proof[1][:2]])
    reach = np.array([y[0] + y[2], y[1] + y[3]])  # of a record of each kind
    wanted = y @ [8.0, 2.0, 5.0, 5.0]
    side = np.sign(wanted)
    assert side != 0
    assert (side * reach <= 1e-9).all()


def test_replicate_weights_are_a_batch():
    many = np.stack([RECORDS["w"], RECORDS["w"] ** 2, np.ones(N)])
    many[1, 3] = np.nan
    with pytest.warns(
        FailureWarning, match=r"INVALID \(element \(1, .\) of 12\): state = .*: NaN value at weights\[3\]$"
    ):
        result = cmfast.rake(RECORDS, FORMS["list of tables"], groups="state", weights=many)
    assert result.status.shape == (3, 4)
    assert result.weights.shape == (3, N)
    assert result.achieved[0].shape == (3, 12)
    assert (result.status != 0).sum() == 1
    one = cmfast.rake(RECORDS, FORMS["list of tables"], groups="state")
    assert one.weights.tobytes() == result.weights[2].tobytes()
    assert "400 of 4 groups, a batch of 3" in repr(result)


def test_float32_stays_float32():
    table = total("state", "age").astype({"n": np.float32})
    single = RECORDS.astype({"w": np.float32})
    assert cmfast.rake(single, table, groups="state", weights="w").weights.dtype == np.float32
    assert cmfast.rake(single, FORMS["list of tables"], groups="state", weights="w").weights.dtype == np.float64


def test_progress_is_in_groups():
    seen = []
    cmfast.rake(RECORDS, FORMS["list of tables"], groups="state", progress=lambda *at: seen.append(at))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_no_records_at_all():
    result = cmfast.rake(RECORDS.iloc[:0], total("state", "age"), groups="state", on_failure="ignore")
    assert result.weights.shape == (0,)
    assert (result.status == Status.ZERO_LINE).all()


@pytest.mark.parametrize("kind", ["total", "mean"])
@pytest.mark.parametrize("drawn", [{}, {"strata": "state"}, {"clusters": "county"}, {"where": RECORDS["sex"] == 5}])
def test_estimates_are_those_of_pooled_margins(kind, drawn):
    tables = FORMS["list of tables"]
    grouped = cmfast.rake(RECORDS, tables, groups="state", weights="w")
    pooled = cmfast.rake(RECORDS, tables, weights="w")
    one, other = (x.estimate("y", kind=kind, **drawn) for x in (grouped, pooled))
    for name in ("estimate", "standard_error", "low", "high"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-7), name


def test_soft_margins_of_groups_are_those_of_pooled_ones():
    tables = FORMS["list of tables"]
    found = [cmfast.rake(RECORDS, tables, weights="w", importance=[9.0, 2.0], **by) for by in ({"groups": "state"}, {})]
    one, other = (x.estimate("y", strata="state").standard_error for x in found)
    assert one == pytest.approx(other, rel=1e-7)


def test_variances_of_groups_that_were_drawn_apart_add_up():
    grouped = cmfast.rake(RECORDS, FORMS["list of tables"], groups="state", weights="w")
    whole = grouped.estimate("y", strata="state")
    alone = []
    for state in STATES:
        here = (RECORDS["state"] == state).to_numpy()
        one = cmfast.rake(RECORDS[here], by_single_dicts(state), weights="w").estimate("y")
        alone.append((one.estimate, one.standard_error))
        within = grouped.estimate("y", strata="state", where=here)
        assert [within.estimate, within.standard_error] == pytest.approx(list(alone[-1]), rel=1e-9)
    estimates, errors = np.array(alone).T
    assert whole.estimate == pytest.approx(estimates.sum(), rel=1e-12)
    assert whole.standard_error == pytest.approx(np.sqrt((errors**2).sum()), rel=1e-9)


def test_estimates_need_only_the_groups_of_their_subpopulation():
    ages = total("state", "age")
    good = cmfast.rake(RECORDS, ages, groups="state", weights="w")
    ages.loc[ages["state"] == "CA", "n"] = np.inf
    result = cmfast.rake(RECORDS, ages, groups="state", weights="w", on_failure="ignore")
    assert np.isnan(result.estimate("y").estimate)
    here = RECORDS["state"] != "CA"
    for kind in ("total", "mean"):
        one, other = (x.estimate("y", where=here, kind=kind, strata="state") for x in (result, good))
        assert (one.estimate, one.standard_error) == (other.estimate, other.standard_error)


def test_few_units_in_the_groups_of_a_subpopulation_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = cmfast.rake(RECORDS, FORMS["list of tables"], groups="state", weights="w")
        result.estimate("y", strata="state")
        few = RECORDS["state"] != "NY"
        few[RECORDS.index[RECORDS["state"] == "NY"][:12]] = True
        records = RECORDS[few]
        result = cmfast.rake(records, FORMS["list of tables"], groups="state", weights="w")
        result.estimate("y", strata="state")
    with pytest.warns(DiagnosticWarning, match="intervals are too short: 12 records for 4 independent totals"):
        result.estimate("y", strata="state", where=records["state"] == "NY")


def test_copies_know_their_records():
    result = cmfast.rake(RECORDS, FORMS["list of tables"], groups="state", weights="w")
    again = pickle.loads(pickle.dumps(result))
    assert again.groups == result.groups
    assert again.estimate("y").standard_error == result.estimate("y").standard_error
    assert cmfast.rake(RECORDS, total("age"), weights="w").groups is None


def test_changed_weights_are_noticed():
    result = cmfast.rake(RECORDS, FORMS["list of tables"], groups="state", weights="w")
    result.weights[0] *= 1.5
    with pytest.raises(ValueError, match="changed after rake"):
        result.estimate("y")


DROPPED = total("state", "age").query("not (state == 'NY' and age == 'old')")
TWICE = pd.concat([total("state", "age"), total("state", "age").iloc[4:5]])


@pytest.mark.parametrize(
    ("targets", "options", "error", "said"),
    [
        (total("age"), {}, ValueError, "targets must have the columns of groups, got columns age without 'state'"),
        (DROPPED, {}, ValueError, "targets has no row for state = NY, age = old, which occurs in design; pass NaN"),
        (TWICE, {}, ValueError, "targets: state = CA, age = old occurs twice"),
        (
            {state: {"age": {"old": 1.0, "young": 2.0, "middle": 3.0}} for state in STATES[1:]},
            {},
            ValueError,
            "targets have no group state = NY, which occurs in design",
        ),
        (
            {state: {"age": {"old": 1.0, "young": 2.0}} for state in STATES},
            {},
            ValueError,
            "targets has no row for state = .., age = middle, which occurs in design",
        ),
        ({"NY": 3.0}, {}, TypeError, "targets\\['NY'\\] must be a dict {column: totals} or a table, the targets"),
        ({"NY": {"agee": {}}}, {}, ValueError, "targets\\['NY'\\] must be for different columns of design"),
        (total("state", "age"), {"groups": "stat"}, ValueError, "groups must be one of the columns .*'stat'"),
        (total("state", "age"), {"groups": 3}, TypeError, "groups must be the name of a column, or a list .*, got 3"),
        (total("state", "age"), {"groups": []}, TypeError, "groups must be the name of a column, or a list of them"),
        (total("state", "age"), {"groups": ["state", "state"]}, ValueError, "groups must be different columns"),
        (total("state", "age"), {"names": list("abc")}, ValueError, "names must be None with groups"),
        (total("state", "age"), {"weights": np.ones(3)}, ValueError, "weights must be of shape"),
        (total("state", "age"), {"weights": "w", "groups": "w"}, ValueError, "groups .* other columns than weights"),
        (total("state", "age"), {"importance": [1.0, 2.0]}, ValueError, "importance must be a number, or an array"),
        (3.0, {}, TypeError, "targets must be a dict {group: targets}, a table with the columns of groups, or a list"),
        ([], {}, TypeError, "targets must be a dict {group: targets}"),
    ],
)  # fmt: skip
def test_says_what_is_wrong(targets, options, error, said):
    with pytest.raises(error, match=f"rake: {said}"):
        cmfast.rake(RECORDS, targets, **({"groups": "state"} | options))


def test_missing_groups_are_refused():
    frame = RECORDS.copy()
    frame.loc[3, "state"] = None
    with pytest.raises(ValueError, match=r"rake: state must .*missing"):
        cmfast.rake(frame, FORMS["list of tables"], groups="state")


def test_groups_are_of_a_table():
    with pytest.raises(TypeError, match="rake: groups must be None unless design is a table, got 'state'"):
        cmfast.rake([[0, 1], [1, 0]], [(0, [1.0, 2.0])], groups="state")


def test_proportions_of_groups_are_doubted():
    shares = total("state", "age")
    shares["n"] /= shares.groupby("state")["n"].transform("sum")
    with pytest.warns(DiagnosticWarning, match="targets add up to 1, as proportions do"):
        cmfast.rake(RECORDS, shares, groups="state")
