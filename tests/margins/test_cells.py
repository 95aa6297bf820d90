"""Tables of which some cells are listed: as those with all of their cells; long tables, by the names of categories."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from cases.margins import PAIRS, margins_of, table
from optional import polars as pl

import cmfast
from cmfast import FailureError, Status

M = table((5, 4, 3), 1, 0.4)
KNOWN = list(zip(PAIRS, margins_of(M * table(M.shape, 2), PAIRS), strict=True))
COORDS = np.stack(np.nonzero(M))
CELLS = M[tuple(COORDS)]
OLD = pd.DataFrame({
    "age": ["young", "young", "old", "old"],
    "income": [1, 2, 1, 3],
    "persons": [4.0, 2.0, 3.0, 1.0],
})  # fmt: skip
AGES = pd.DataFrame({"persons": [3.0, 9.0], "age": ["old", "young"]})
INCOMES = pd.DataFrame({"income": [3, 2, 1], "persons": [1.5, 4.0, 6.5]})


def test_listed_cells_are_those_of_the_table():
    whole, some = cmfast.ipf_nd(M, KNOWN, tol=1e-13), cmfast.ipf_cells(CELLS, COORDS, KNOWN, tol=1e-13)
    assert some.table.tobytes() == whole.table[tuple(COORDS)].tobytes()
    for one, other in zip([*some.factors, *some.achieved], [*whole.factors, *whole.achieved], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    assert repr(some) == repr(whole).replace("5 x 4 x 3", str(len(CELLS)))


def test_the_order_of_cells_changes_no_more_than_rounding():
    order = np.random.default_rng(0).permutation(len(CELLS))
    some = cmfast.ipf_cells(CELLS[order], COORDS[:, order], KNOWN, tol=1e-13)
    np.testing.assert_allclose(some.table, cmfast.ipf_cells(CELLS, COORDS, KNOWN, tol=1e-13).table[order], rtol=1e-11)


def test_a_sparse_table_too_large_to_be_one():
    # A hundred thousand places on each of five axes, of which three have no margin.
    rng = np.random.default_rng(3)
    coords = np.concatenate([rng.integers(0, 30, (2, 2000)), rng.integers(0, 100_000, (3, 2000))])
    answer = np.exp(rng.normal(size=2000))
    targets = [np.bincount(line, answer, 30) for line in coords[:2]]
    result = cmfast.ipf_cells(answer * np.exp(rng.normal(size=30))[coords[0]], coords, list(enumerate(targets)))
    np.testing.assert_allclose(result.achieved[0], targets[0], rtol=1e-8)
    far = cmfast.ipf_cells(answer, coords, list(enumerate(targets)), shape=(30, 30, 2**62, 2**62, 2**62))
    np.testing.assert_allclose(far.table, answer, rtol=1e-12)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas])
def test_long_tables_are_read_by_name(make):
    result = cmfast.ipf_cells("persons", make(OLD), [make(AGES), make(INCOMES)], tol=1e-13)
    same = cmfast.ipf_cells(
        OLD["persons"], [[0, 0, 1, 1], [0, 1, 0, 2]], [(0, [9.0, 3.0]), (1, [6.5, 4.0, 1.5])], tol=1e-13
    )
    assert result.table.tobytes() == same.table.tobytes()
    for found in (result.factors, result.achieved):
        assert [part.shape for part in found] == [(2,), (3,)]
    np.testing.assert_allclose(result.factors[0], same.factors[0][::-1], rtol=1e-13)
    np.testing.assert_allclose(result.achieved[1], INCOMES["persons"], rtol=1e-12)


def test_long_tables_take_categories_batches_totals_and_what_is_not_asked():
    frame = OLD.assign(age=OLD["age"].astype("category"), weight=np.nan).drop(columns="persons")
    total = pd.DataFrame({"persons": [24.0]})
    ages = pd.DataFrame({"age": pd.Categorical(["young", "old", "older"]), "persons": [np.nan, 6.0, 0.0]})
    result = cmfast.ipf_cells(np.stack([OLD["persons"], OLD["persons"] ** 2]), frame, [ages, total])
    np.testing.assert_allclose(result.table[0], [12.0, 6.0, 4.5, 1.5])
    np.testing.assert_allclose(result.table[1], [14.4, 3.6, 5.4, 0.6])
    assert [part.shape for part in (*result.achieved, *result.factors)] == [(2, 3), (2, 1), (2, 3), (2, 1)]


def test_columns_without_a_margin_tell_cells_apart():
    with pytest.raises(ValueError, match=r"coords must be of different cells, got age = old twice, for cells 1 and 2"):
        cmfast.ipf_cells("persons", OLD[["age", "persons"]][1:].assign(age=["young", "old", "old"]), [AGES])
    result = cmfast.ipf_cells("persons", OLD, [AGES])
    np.testing.assert_allclose(result.table, [6.0, 3.0, 2.25, 0.75])


@pytest.mark.parametrize(
    ("frame", "margins", "said"),
    [
        (OLD, [AGES.assign(persons=[4.0, 9.0]), INCOMES], "[0] of age and margins[1] of income disagree on the total"),
        (OLD, [OLD.assign(persons=2.0), AGES], "[0] of age, income and margins[1] of age disagree on age = young: 4"),
        (OLD, [AGES.assign(persons=[0.0, 12.0]), INCOMES], "ZERO_LINE: income = 3 has no positive cell but"),
        (OLD.assign(persons=[1.0, -1.0, 1.0, 1.0]), [AGES], "negative value at values[1], which is age = young"),
        (OLD, [AGES.assign(persons=[np.inf, 1.0])], "INVALID: infinite value in margins[0] at age = old"),
        (OLD[:3], [OLD[["age", "income"]][:3].assign(persons=[1.0, 2.0, 0.0])], "none"),
    ],
)  # fmt: skip
def test_failures_name_categories(frame, margins, said):
    if said == "none":
        assert cmfast.ipf_cells("persons", frame, margins).table.tolist() == [1.0, 2.0, 0.0]
        return
    with pytest.raises(FailureError) as caught:
        cmfast.ipf_cells("persons", frame, margins, on_failure="raise")
    assert said in str(caught.value)


def test_limits_name_categories():
    frame = pd.DataFrame({"a": ["x", "x", "y"], "b": ["u", "v", "v"], "n": [1.0, 1.0, 1.0]})
    ones = [pd.DataFrame({"a": ["x", "y"], "n": [1.0, 1.0]}), pd.DataFrame({"b": ["u", "v"], "n": [1.0, 1.0]})]
    with pytest.warns(cmfast.FailureWarning, match=r"LIMIT_ONLY.* sets the cell a = x, b = v to zero"):
        result = cmfast.ipf_cells("n", frame, ones)
    np.testing.assert_allclose(result.table, [1.0, 0.0, 1.0])
    assert result.status == Status.LIMIT_ONLY


@pytest.mark.parametrize(
    ("args", "options", "error", "said"),
    [
        (("person", OLD, [AGES]), {}, ValueError, "values must be one of the columns age, income, persons"),
        (("persons", OLD, AGES), {}, TypeError, "margins must be a list of tables"),
        (("persons", OLD, [(0, [1.0, 2.0])]), {}, TypeError, "margins[0] must be a pair (column of coords, totals)"),
        (("persons", OLD, [OLD.drop(columns="persons")]), {}, ValueError, "margins[0] must be of some columns"),
        (("persons", OLD, [AGES[:1]]), {}, ValueError, "margins[0] has no row for age = young, which occurs in coords"),
        (("persons", OLD, [pd.concat([AGES, AGES])]), {}, ValueError, "margins[0]: age = young occurs twice"),
        (("persons", OLD, [pd.DataFrame({"n": [1.0, 2.0]})]), {}, ValueError, "margins[0] must be of one row"),
        (("persons", OLD.assign(age=["old", None, "old", "x"]), [AGES]), {}, ValueError, "age must be without missing"),
        (("persons", OLD, [AGES.assign(persons=["1", "2"])]), {}, TypeError, "persons of margins[0] must be real"),
        (("persons", OLD, [AGES]), {"shape": (2, 3)}, ValueError, "shape must be None if coords is a table"),
        ((CELLS, COORDS - 1, KNOWN), {}, ValueError, "coords[0] must be from 0 to 4, got -1 for cell 0"),
        ((CELLS, COORDS, KNOWN), {"shape": (5, 4, 2)}, ValueError, "target of margins[1] must be of shape (..., 5, 2)"),
        ((CELLS[:2], [[1, 1], [2, 2]], [(0, [1.0, 1.0])]), {}, ValueError, "got [1, 2] twice, for cells 0 and 1"),
        ((CELLS, COORDS, [(0, np.ones(5)), (0, np.ones(4))]), {}, ValueError, "margins[1] must be of shape (..., 5)"),
    ],
)  # fmt: skip
def test_says_what_is_no_table(args, options, error, said):
    with pytest.raises(error) as caught:
        cmfast.ipf_cells(*args, **options)
    assert said in str(caught.value)


def test_sparse_equations_are_solved_with_the_same_bits_by_any_number_of_threads():
    rng = np.random.default_rng(5)
    coords = np.stack(np.nonzero(rng.random((14, 14, 14)) < 0.15))
    answer = np.exp(rng.normal(0.0, 1.0, (3, coords.shape[1])))
    targets = []
    for of in PAIRS:
        target = np.zeros((3, 14, 14))
        np.add.at(target, (slice(None), *coords[list(of)]), answer)
        targets.append(target)
    effects = [np.exp(rng.normal(0.0, 1.5, (14, 14)))[tuple(coords[list(of)])] for of in PAIRS]
    given, margins = answer / np.prod(effects, 0), list(zip(PAIRS, targets, strict=True))
    found = [cmfast.ipf_cells(given, coords, margins, num_threads=k) for k in (1, 2)]
    assert (found[0].status == Status.CONVERGED).all()
    assert found[0].table.tobytes() == found[1].table.tobytes()
    np.testing.assert_allclose(found[0].table, answer, rtol=1e-6)
    alone = cmfast.ipf_cells(given[1], coords, [(of, t[1]) for of, t in margins])
    assert alone.table.tobytes() == found[0].table[1].tobytes()
