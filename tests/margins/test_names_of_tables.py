"""Results of tables keep the names of axes and categories that data frames and Series gave."""

import pickle
import re

import numpy as np
import pandas as pd
import pytest

import cmfast

CELLS = pd.DataFrame(
    {
        "sex": ["f", "f", "m", "m", "m"],
        "age": ["old", "young", "old", "young", "middle"],
        "n": [1.0, 2.0, 3.0, 4.0, 5.0],
    }
)
SEX = pd.Series([8.0, 12.0], index=pd.Index(["f", "m"], name="sex"))
AGE = pd.Series([6.0, 9.0, 5.0], index=pd.Index(["old", "young", "middle"], name="age"))
TIDY = [SEX.rename("n").reset_index(), AGE.rename("n").reset_index()]
WAYS = {
    "series": lambda: cmfast.ipf_cells("n", CELLS, [SEX, AGE]),
    "tables": lambda: cmfast.ipf_cells("n", CELLS, TIDY),
    "dict": lambda: cmfast.ipf_cells("n", CELLS, {"sex": SEX.to_dict(), "age": AGE.to_dict()}),
    "index": lambda: cmfast.ipf_cells(CELLS.set_index(["sex", "age"])["n"], _index(), [SEX, AGE]),
    "arrays": lambda: cmfast.ipf_cells(CELLS["n"].to_numpy(), _codes(), [(0, SEX), (1, AGE)]),
}


def _index():
    return CELLS.set_index(["sex", "age"]).index


def _codes():
    return np.array([list(map(list(of.index).index, CELLS[of.index.name])) for of in (SEX, AGE)])


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_cells_keep_the_names_of_their_categories(way):
    for result in (way(), pickle.loads(pickle.dumps(way()))):
        assert repr(result).startswith(
            "<MarginsResult: of 5 cells by sex x age, margins 2 by sex, age, status CONVERGED"
        )
        found = result.to_pandas()
        assert list(found) == ["sex", "age", "value"]
        assert found["sex"].tolist() == CELLS["sex"].tolist()
        assert found["age"].tolist() == CELLS["age"].tolist()
        np.testing.assert_array_equal(found["value"], result.table)
        assert type(result)._fields == cmfast.results.MarginsResult._fields


@pytest.mark.parametrize("M", [pd.DataFrame(np.ones((2, 3)), SEX.index, AGE.index), np.ones((2, 3))], ids=type)
def test_dense_tables_keep_the_names_of_their_categories(M):
    result = cmfast.ipf_nd(M, [(0, SEX), (1, AGE)])
    assert repr(result).startswith("<MarginsResult: of 2 x 3 by sex x age, margins 2 by sex, age, status CONVERGED")
    found = result.to_pandas()
    assert found[["sex", "age"]].drop_duplicates().shape == (6, 2)
    for row in found.itertuples():
        assert row.value == result.table[SEX.index.get_loc(row.sex), AGE.index.get_loc(row.age)]
    plain = cmfast.ipf_nd(np.ones((2, 3)), [(0, SEX.to_numpy()), (1, AGE.to_numpy())])
    assert list(plain.to_pandas()) == ["axis_0", "axis_1", "value"]
    half = cmfast.ipf_nd(np.ones((2, 3)), [(0, SEX), (1, AGE.to_numpy())]).to_pandas()
    assert list(half) == ["sex", "axis_1", "value"]
    assert half["axis_1"].tolist() == [0, 1, 2] * 2


def test_batches_of_cells_keep_the_names():
    values = np.stack([CELLS["n"], 2 * CELLS["n"]])
    found = cmfast.ipf_cells(values, _codes(), [(0, SEX), (1, AGE)]).to_pandas()
    assert list(found) == ["batch", "sex", "age", "value"]
    assert found["batch"].tolist() == [0] * 5 + [1] * 5
    assert found["age"].tolist() == CELLS["age"].tolist() * 2


def test_columns_may_have_the_name_of_the_values():
    found = cmfast.ipf_cells("n", CELLS.rename(columns={"sex": "value"}), {"value": {"f": 3.0, "m": 12.0}}).to_pandas()
    assert list(found) == ["value", "age", "scaled value"]
    assert found["value"].tolist() == CELLS["sex"].tolist()


def test_names_that_users_gave_are_escaped():
    cells = CELLS.rename(columns={"sex": "<b>"})
    page = cmfast.ipf_cells("n", cells, {"<b>": {"f": 3.0, "m": 12.0}})._repr_html_()
    assert "&lt;b&gt;" in page
    assert "<b>" not in page


@pytest.mark.pictures
def test_pictures_name_the_categories():
    pytest.importorskip("matplotlib")
    result = WAYS["series"]()

    def read(axis):
        return [text.get_text() for text in axis.get_ticklabels()]

    drawn = result.plot()
    assert (drawn.get_ylabel(), drawn.get_xlabel()) == ("sex", "age")
    assert (read(drawn.yaxis), read(drawn.xaxis)) == (["f", "m"], ["old", "young", "middle"])
    turned = result.plot(axes=("age", "sex"))
    assert (turned.get_ylabel(), turned.get_xlabel()) == ("age", "sex")
    sums = result.plot(axes="age")
    heights = sums.patches[0].get_data().values
    want = [result.table[CELLS["age"] == age].sum() for age in read(sums.xaxis)]
    np.testing.assert_allclose(heights, want)
    text = "MarginsResult.plot: axes must be axes of the table: sex, age, got 'ages'; did you mean 'age'?"
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        result.plot(axes="ages")


@pytest.mark.pictures
def test_pictures_of_too_many_combinations_are_refused():
    pytest.importorskip("matplotlib")
    n = 6_000
    cells = pd.DataFrame({"a": np.arange(n), "b": np.arange(n), "n": 1.0})
    totals = pd.DataFrame({"a": np.arange(n), "n": 1.0})
    result = cmfast.ipf_cells("n", cells, [totals])
    with pytest.raises(ValueError, match=r"axes must be .*25,000,000 combinations, got 6,000 x 6,000"):
        result.plot()
    assert result.plot(axes="a") is not None


def test_rows_of_a_frame_that_are_a_batch_do_not_name_the_table():
    M = pd.DataFrame([[1.0, 1.0, 2.0], [3.0, 1.0, 1.0]], SEX.index, AGE.index)
    wanted = 20.0 * M.to_numpy() / M.to_numpy().sum(1, keepdims=True)  # one total scales the whole table
    found = cmfast.ipf_nd(M, [((), 20.0), (0, AGE)])
    assert found.table == pytest.approx(np.tile(AGE, (2, 1)))
    for targets in (AGE, AGE.to_numpy()):
        result = cmfast.ipf_nd(M, [(0, targets)])
        assert "of 3 by age, a batch of 2, margins 1 by age" in repr(result)
        frame = result.to_pandas()
        assert list(frame) == ["batch", "age", "value"]
        assert frame["age"].tolist() == AGE.index.tolist() * 2
        np.testing.assert_array_equal(frame["value"], result.table.ravel())
    total = cmfast.ipf_nd(M, [((), 20.0)], ndim=1)
    assert total.table == pytest.approx(wanted)
    assert total.to_pandas()["age"].tolist() == AGE.index.tolist() * 2
    both = cmfast.ipf_nd(M, [(0, SEX)], ndim=2).to_pandas()
    assert list(both) == ["sex", "age", "value"]
    plain = cmfast.ipf_nd(M.set_axis(range(3), axis=1), [(0, AGE.to_numpy())]).to_pandas()
    assert list(plain) == ["batch", "axis_0", "value"]


M = pd.DataFrame(np.ones((2, 2)), ["a", "b"], ["x", "y"])
TOTALS = [8.0, 12.0]


@pytest.mark.parametrize(
    ("table", "margins", "pair", "axis", "shown"),
    [
        (M, [(0, pd.Series(TOTALS, ["a", "z"]))], ("M", 0), 0, r"\['a', 'b'\] and \['a', 'z'\];"),
        (M, [(0, TOTALS), (1, pd.Series(TOTALS, ["u", "v"]))], ("M", 1), 1, r"\['x', 'y'\] and \['u', 'v'\];"),
        (M, [((1, 0), pd.DataFrame(np.ones((2, 2)), ["a", "b"], ["x", "y"]))], ("M", 0), 1, r"\['x', 'y'\] and"),
        (np.ones((2, 2)), [(0, pd.Series(TOTALS, ["a", "b"])), (0, pd.Series(TOTALS, ["b", "c"]))], (0, 1), 0, ""),
        (M, [(0, pd.Series([5.0, 5.0], ["a", "b"]))], ("M", 0), 0, r"\['x', 'y'\] and \['a', 'b'\]"),
    ],
)
def test_targets_of_other_labels_are_refused(table, margins, pair, axis, shown):
    ndim = 1 if pair == ("M", 0) and axis == 0 and "'x'" in shown else 2
    first, second = (re.escape(f"target of margins[{k}]") if k != "M" else k for k in pair)
    wanted = f"ipf_nd: {first} and {second} must have the same labels in one order on axis {axis}, .*got .*{shown}"
    with pytest.raises(ValueError, match=wanted):
        cmfast.ipf_nd(table, margins, ndim=ndim)
    arrays = [(of, np.asarray(target)) for of, target in margins]
    cmfast.ipf_nd(table, arrays, ndim=ndim, on_failure="ignore")


def test_targets_of_the_same_labels_or_without_any_are_taken():
    rows, columns = pd.Series(TOTALS, ["a", "b"]), pd.Series([9.0, 11.0])
    both = pd.DataFrame([[4.0, 5.0], [4.0, 7.0]], ["x", "y"], ["a", "b"])
    wanted = cmfast.ipf_nd(M.to_numpy(), [(0, TOTALS), (1, [9.0, 11.0]), ((1, 0), both.to_numpy())]).table
    for table in (M, M.to_numpy(), pd.DataFrame(M.to_numpy())):
        for of_rows in (rows, rows.astype(float).set_axis(pd.Categorical(["a", "b"])), rows.reset_index(drop=True)):
            found = cmfast.ipf_nd(table, [(0, of_rows), (1, columns), ((1, 0), both)])
            np.testing.assert_array_equal(found.table, wanted)
    for table in (M, pd.DataFrame(M.to_numpy(), M.index)):
        with pytest.raises(ValueError, match=r"one index in two orders; give .*reindex"):
            cmfast.ipf_nd(table, [(0, rows.iloc[::-1])], ndim=2)
    with pytest.raises(ValueError, match=r"target of margins\[0\] must be of shape"):
        cmfast.ipf_nd(M, [(0, pd.Series([1.0, 2.0, 3.0], ["a", "b", "c"]))], ndim=2)
