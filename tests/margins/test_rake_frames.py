"""Weights of records in tables: what codes give, and messages that name columns and categories."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from optional import polars as pl

import cmfast
from cmfast import FailureError, Status

TABLES = [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas]
RECORDS = pd.DataFrame({
    "age": ["young", "young", "young", "old", "old", "old"],
    "sex": [7, 7, 9, 7, 9, 9],
    "w": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    "note": [None, "a", None, "b", None, None],
})  # fmt: skip
CODES = np.array([[0, 0, 0, 1, 1, 1], [0, 0, 1, 0, 1, 1]])
AGES = pd.Series([40.0, 60.0], index=["old", "young"])
SEXES = {9: 55.0, 7: 45.0}
TIDY_AGES = AGES.rename_axis("age").reset_index(name="total")
TIDY_SEXES = pd.DataFrame({"n": [55.0, 45.0], "sex": [9, 7]})


def by_codes(**options):
    """Return what the same records give as codes, in the order in which categories are read."""
    return cmfast.rake(CODES, [(0, [60.0, 40.0]), (1, [45.0, 55.0])], **options)


def assert_same(result, wanted):
    """Assert the same weights, and numbers of targets in the order in which these were given, the other way round."""
    for name in ("weights", "residual", "weight_error", "n_iter", "status"):
        assert getattr(result, name).tobytes() == getattr(wanted, name).tobytes()
    for name in ("multipliers", "achieved", "proof"):
        for one, other in zip(getattr(result, name), getattr(wanted, name), strict=True):
            np.testing.assert_array_equal(one, other[..., ::-1])


@pytest.mark.parametrize("make", TABLES)
@pytest.mark.parametrize(
    "targets",
    [
        {"age": AGES, "sex": SEXES},
        {"age": AGES.to_dict(), "sex": pd.Series(SEXES)},
        {"age": TIDY_AGES, "sex": pl.from_pandas(TIDY_SEXES)},
        [TIDY_AGES, pa.Table.from_pandas(TIDY_SEXES)],
    ],
)
def test_names_give_what_codes_give(make, targets):
    frame = make(RECORDS)
    for options in ({}, {"method": "truncated", "bounds": (0.5, 40.0)}, {"importance": [1.0, np.inf]}):
        wanted = by_codes(weights=RECORDS["w"].to_numpy(), **options)
        assert_same(cmfast.rake(frame, targets, weights="w", **options), wanted)
        assert_same(cmfast.rake(frame, targets, weights=frame["w"], **options), wanted)
    assert_same(cmfast.rake(frame, targets), by_codes())
    many = np.stack([RECORDS["w"], RECORDS["w"] ** 2])
    assert_same(cmfast.rake(frame, targets, weights=many), by_codes(weights=many))


def test_categoricals_of_every_library_are_read():
    known = ["none", "old", "young"]
    as_pandas = RECORDS.assign(age=pd.Categorical(RECORDS["age"], known), sex=RECORDS["sex"].astype("Int8"))
    as_polars = pl.from_pandas(RECORDS).with_columns(pl.col("age").cast(pl.Enum(known)))
    as_arrow = pa.table({name: RECORDS[name] for name in ("age", "sex", "w")})
    as_arrow = as_arrow.set_column(0, "age", as_arrow["age"].dictionary_encode())
    wanted = by_codes(weights=RECORDS["w"].to_numpy())
    counts = pd.Series([60.0, 40.0], index=pd.CategoricalIndex(["young", "old"], known))
    for frame in (as_pandas, as_polars, as_arrow):
        for ages in (AGES, counts):
            result = cmfast.rake(frame, {"age": ages, "sex": SEXES}, weights="w")
            assert result.status == Status.CONVERGED
            np.testing.assert_allclose(result.weights, wanted.weights, rtol=1e-9)


def test_columns_may_have_any_name():
    frame = RECORDS[["age"]].rename(columns={"age": "column_names"})
    found = cmfast.rake(frame, [TIDY_AGES.rename(columns={"age": "column_names"})]).weights
    np.testing.assert_array_equal(found, cmfast.rake(RECORDS[["age"]], [TIDY_AGES]).weights)


def test_combinations_the_total_and_what_is_not_asked():
    both = RECORDS.groupby(["sex", "age"])["w"].sum() * [1.0, 2.0, 3.0, 4.0]
    wanted = RECORDS["w"] * both.reindex(pd.MultiIndex.from_frame(RECORDS[["sex", "age"]])).to_numpy()
    wanted /= RECORDS.groupby(["sex", "age"])["w"].transform("sum")
    turned = {(age, sex): total for (sex, age), total in both.items()}
    for targets in (
        {("age", "sex"): both},
        {("age", "sex"): turned},
        {("age", "sex"): pd.Series(turned)},
        both.reset_index(name="total"),
        {("sex", "age"): both.reset_index(name="total")},
    ):
        result = cmfast.rake(RECORDS, targets, weights="w")
        np.testing.assert_allclose(result.weights, wanted, rtol=1e-12)
        assert [part.shape for part in result.achieved] == [(4,)]
    total = cmfast.rake(RECORDS, {(): {(): 42.0}}, weights="w")
    np.testing.assert_allclose(total.weights, 2.0 * RECORDS["w"])
    some = cmfast.rake(RECORDS, {"age": {"young": np.nan, "old": 30.0}, (): {(): 36.0}}, weights="w")
    np.testing.assert_allclose(some.weights, [1.0, 2.0, 3.0, 8.0, 10.0, 12.0])
    assert [part.tolist() for part in some.achieved] == [[6.0, 30.0], [36.0]]


def test_a_table_of_numbers_is_still_a_matrix():
    columns = pd.DataFrame({"a": [1.0, 1.0, 1.0], "b": [0.0, 1.0, 1.0]})
    areas = pd.DataFrame({"a": [6.0, 7.0], "b": [4.0, 5.0]})
    same = cmfast.rake(columns.to_numpy(), areas.to_numpy())
    assert cmfast.rake(columns, areas).weights.tobytes() == same.weights.tobytes()
    assert cmfast.rake(columns, areas.iloc[0]).weights.tobytes() == same.weights[0].tobytes()
    codes = pd.DataFrame([[0, 0, 1]])
    np.testing.assert_allclose(cmfast.rake(codes, [(0, [6.0, 4.0])]).weights, [3.0, 3.0, 4.0])


@pytest.mark.parametrize(
    ("targets", "options", "said"),
    [
        ({"age": {"old": 1, "young": 2, "none": 3}}, {}, "ZERO_LINE: no record adds to age = none, which should be 3"),
        ({"age": AGES, "sex": {7: 4, 9: 5}}, {}, "TOTALS: targets of age and targets of sex disagree on the total: 1"),
        ([TIDY_AGES, TIDY_SEXES.assign(n=5)], {}, "targets[0] of age and targets[1] of sex disagree on the total: 100"),
        ({"age": AGES, ("sex", "age"): {(7, "young"): 1, (9, "young"): 2, (7, "old"): 3, (9, "old"): 94}}, {},
         "TOTALS: targets of age and targets of sex, age disagree on age = "),
        ({"age": {"old": 1, "young": np.inf}}, {}, "INVALID: infinite value in targets at age = young"),
        (TIDY_AGES.assign(total=-1), {}, "INVALID: negative value in targets at age = young"),
        ({"age": AGES, "sex": {7: 1, 9: 99}}, {"method": "logit", "bounds": (0.5, 20.0)},
         "these totals contradict each other: sex = 9 = 99, age = old"),
    ],
)  # fmt: skip
def test_failures_name_categories(targets, options, said):
    with pytest.raises(FailureError) as caught:
        cmfast.rake(RECORDS, targets, on_failure="raise", **options)
    assert said in str(caught.value)


NOT_TWO = "a category of targets[('age', 'sex')] must be of 2 columns, got ("


@pytest.mark.parametrize(
    ("changes", "targets", "options", "error", "said"),
    [
        ({}, {"agee": AGES}, {}, ValueError, "of design: age, sex, w, note, got 'agee'; did you mean 'age'?"),
        ({}, {("age", "age"): AGES}, {}, ValueError, "targets must be for different columns of design"),
        (
            {},
            {3: AGES},
            {},
            TypeError,
            "columns of design: age, sex, w, note, got 3; name the column, as in ('age', totals)",
        ),
        ({}, {"w": AGES}, {"weights": "w"}, ValueError, "columns of design: age, sex, note, got 'w'"),
        ({}, {"age": AGES[:1]}, {}, ValueError, "targets['age'] has no row for age = young, which occurs in design"),
        ({}, TIDY_AGES[:1], {}, ValueError, "targets has no row for age = young, which occurs in design"),
        (
            {},
            [TIDY_SEXES, TIDY_AGES[:1]],
            {},
            ValueError,
            "targets[1] has no row for age = young, which occurs in design",
        ),
        ({}, {"age": {}}, {}, ValueError, "targets['age'] has no row for age = young"),
        ({}, {"sex": {"7": 1, "9": 2}}, {}, ValueError, "targets['sex'] has no row for sex = 7"),
        ({}, {"age": pd.concat([AGES, AGES])}, {}, ValueError, "targets['age']: age = young occurs twice"),
        ({}, {"age": TIDY_SEXES}, {}, ValueError, "targets['age'] must be a table with its columns, and one more"),
        ({}, {("age", "sex"): AGES}, {}, ValueError, "index of targets[('age', 'sex')] must be of 2 levels, got 1"),
        ({}, {("age", "sex"): {"old": 1}}, {}, ValueError, NOT_TWO + "'old',)"),
        (
            {},
            {"age": {("old", "young"): 1}},
            {},
            ValueError,
            "targets['age'] must be of 1 columns, got ('old', 'young')",
        ),
        (
            {},
            {"age": {"old": [1, 2], "young": [3, 4]}},
            {},
            ValueError,
            "must be one number for each category, got shape",
        ),
        ({}, {"age": [1.0, 2.0]}, {}, TypeError, "targets['age'] must be a dict {category: total}, a Series of pandas"),
        ({}, {"age": {"old": 1, 5: 2}}, {}, TypeError, "age must be values of one type"),
        ({}, {"age": {"old": "1", "young": "2"}}, {}, TypeError, "targets['age'] must be real numbers"),
        ({}, {"age": {"old": 1, "young": None}}, {}, ValueError, "targets['age'] must be without missing values"),
        ({}, {}, {}, TypeError, "targets must be a dict {column: totals}, got an empty dict"),
        ({}, [TIDY_AGES, AGES], {}, TypeError, "targets[1] must be a DataFrame of pandas or polars"),
        ({}, {"note": AGES}, {}, ValueError, "note must be without missing values"),
        ({"age": ["old", np.nan, "old"] * 2}, {"age": AGES}, {}, ValueError, "age must be without missing values"),
        ({"sex": [7.0, np.nan, 9.0] * 2}, {"sex": SEXES}, {}, ValueError, "sex must be without missing values"),
        (
            {"age": pd.Categorical(["old", None, "young"] * 2)},
            [TIDY_AGES],
            {},
            ValueError,
            "age must be without missing",
        ),
        ({}, {"age": AGES}, {"weights": "v"}, ValueError, "weights must be one of the columns age, sex, w, note"),
        ({}, {"age": AGES}, {"weights": [1.0]}, ValueError, "weights must be of shape (..., 6), got shape (1,)"),
        ({}, {"age": AGES}, {"names": ["a", "b"]}, ValueError, "names must be None if targets names columns"),
        ({}, {"age": AGES}, {"importance": [1.0, 2.0]}, ValueError, "importance"),
    ],
)
def test_says_what_is_wrong_by_name(changes, targets, options, error, said):
    with pytest.raises(error) as caught:
        cmfast.rake(RECORDS.assign(**changes), targets, **options)
    assert said in str(caught.value)


@pytest.mark.parametrize("design", [dict(RECORDS), RECORDS["age"], CODES])
def test_totals_by_name_are_of_a_table(design):
    with pytest.raises(TypeError, match="design must be a DataFrame of pandas or polars, or a Table of Arrow"):
        cmfast.rake(design, {"age": AGES})


@pytest.mark.parametrize("make", TABLES[1:])
def test_missing_categories_are_refused_by_name(make):
    with pytest.raises(ValueError, match="age must be without missing values, got 2 missing"):
        cmfast.rake(make(RECORDS.assign(age=["old", None, "old"] * 2)), {"age": AGES})
