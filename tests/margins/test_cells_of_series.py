"""Long tables given as Series of pandas, and tables wrapped by narwhals."""

import numpy as np
import pandas as pd
import pytest

import cmfast

CELLS = pd.DataFrame({"age": ["young", "young", "old"], "income": ["low", "high", "low"], "persons": [4.0, 2.0, 3.0]})
AGES, INCOMES = {"old": 2.0, "young": 8.0}, {"low": 7.0, "high": 3.0}
WANTED = [5.0, 3.0, 2.0]  # by hand: high is young alone, so that 3 of the 8 young are; the rest follows


def series(totals, name):
    """Return totals as a Series with a named index."""
    return pd.Series(totals, name="persons").rename_axis(name)


def test_series_of_margins_and_dicts():
    margins = [series(AGES, "age"), series(INCOMES, "income")]
    for given in (margins, {"age": AGES, "income": INCOMES}, {"age": margins[0], "income": margins[1]}):
        result = cmfast.ipf_cells("persons", CELLS, given)
        assert result.table == pytest.approx(WANTED)
        assert [sums.tolist() for sums in result.achieved] == [pytest.approx([2, 8]), pytest.approx([7, 3])]


def test_a_series_of_values_with_its_index():
    values = CELLS.set_index(["age", "income"])["persons"]
    margins = [series(AGES, "age"), series(INCOMES, "income")]
    assert cmfast.ipf_cells(values, values.index, margins).table == pytest.approx(WANTED)
    order = [2, 0, 1]
    shuffled = values.iloc[order]
    found = cmfast.ipf_cells(shuffled, shuffled.index, margins).table
    assert found == pytest.approx(np.array(WANTED)[order])
    one = values.xs("low", level="income")
    found = cmfast.ipf_cells(one, one.index, [series({"young": 1.0, "old": 5.0}, "age")]).table
    assert found == pytest.approx([1.0, 5.0])


def test_an_index_in_another_order_than_that_of_the_values_is_refused():
    values = CELLS.set_index(["age", "income"])["persons"]
    margins = [series(AGES, "age"), series(INCOMES, "income")]
    text = (
        r"^ipf_cells: coords and values must have the same index, as they are matched by position, got one index in "
        r"two orders; give values\.reindex\(coords\), or arrays if their order is meant$"
    )
    turned = values.index[::-1]
    with pytest.raises(ValueError, match=text):
        cmfast.ipf_cells(values, turned, margins)
    with pytest.raises(ValueError, match=text.replace(r"\(coords\)", r"\(coords\.index\)")):
        cmfast.ipf_cells(values, turned.to_frame(), margins)
    assert cmfast.ipf_cells(values.reindex(turned), turned, margins).table == pytest.approx(WANTED[::-1])
    # These say nothing of an order: arrays, the index 0, 1, ..., and the same levels swapped.
    for given in (values.to_numpy(), values.reset_index(drop=True)):
        assert cmfast.ipf_cells(given[::-1], turned, margins).table == pytest.approx(WANTED[::-1])
        assert cmfast.ipf_cells(given, values.index, margins).table == pytest.approx(WANTED)
    assert cmfast.ipf_cells(values, values.index.swaplevel(), margins).table == pytest.approx(WANTED)


def test_levels_of_an_index_are_compared_by_name():
    flows = pd.Series([1.0, 2.0, 3.0, 4.0], pd.MultiIndex.from_product([[0, 1], [0, 1]], names=["home", "work"]))
    margins = [series([3.0, 7.0], "home"), series([4.0, 6.0], "work")]
    assert cmfast.ipf_cells(flows, flows.index.swaplevel(), margins).table == pytest.approx(flows.to_numpy())
    with pytest.raises(ValueError, match=r"give values\.reorder_levels\(coords\.names\)\.reindex\(coords\), or arrays"):
        cmfast.ipf_cells(flows, flows.index.swaplevel()[::-1], margins)
    codes = pd.Index([2, 0, 1], name="home")
    totals = [series([3.0, 4.0, 5.0], "home")]
    assert cmfast.ipf_cells(pd.Series([1.0, 2.0, 3.0]), codes, totals).table == pytest.approx([5.0, 3.0, 4.0])
    with pytest.raises(ValueError, match="got one index in two orders"):
        cmfast.ipf_cells(pd.Series([1.0, 2.0, 3.0], pd.RangeIndex(3, name="home")), codes, totals)


def test_a_margin_over_two_levels():
    pairs = pd.Series([5.0, 3.0, 2.0], pd.MultiIndex.from_frame(CELLS[["age", "income"]]))
    found = cmfast.ipf_cells("persons", CELLS, [pairs.sample(frac=1, random_state=1)])
    assert found.table == pytest.approx(WANTED)


def test_refusals():
    with pytest.raises(
        TypeError, match=r"margins\[0\].* got Series .*; name it .*, as by margins\[0\]\.rename_axis\('age'\)"
    ):
        cmfast.ipf_cells("persons", CELLS, [pd.Series(AGES)])
    both = pd.Series([5.0, 3.0, 2.0], pd.MultiIndex.from_frame(CELLS[["age", "income"]], names=[None, None]))
    with pytest.raises(TypeError, match=r"as by margins\[0\]\.rename_axis\(\['age', 'income'\]\)"):
        cmfast.ipf_cells("persons", CELLS, [both])
    with pytest.raises(
        ValueError, match=r"index of margins\[0\] must be named by the columns age, income of coords, got 'sex'"
    ):
        cmfast.ipf_cells("persons", CELLS, [series(AGES, "sex")])
    with pytest.raises(ValueError, match=r"margins\[0\] has no row for age = young"):
        cmfast.ipf_cells("persons", CELLS, [series({"old": 1.0}, "age")])
    with pytest.raises(TypeError, match=r"margins must be a list of tables or a dict \{column: totals\}"):
        cmfast.ipf_cells("persons", CELLS, 3)


FRAME = pd.DataFrame({"site": ["b", "a", "b"], "label": [1, 0, 1], "guess": [1, 1, 0], "w": [1, 2, 3]})


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("lazy", [False, True])
def test_tables_of_narwhals(library, lazy):
    nw = pytest.importorskip("narwhals")
    pytest.importorskip(library)

    def wrap(frame):
        """Return a table of a library in the wrapper."""
        native = nw.from_native(frame)
        native = nw.from_dict(native.to_dict(as_series=False), backend=library)
        return native.lazy() if lazy else native

    counts = cmfast.by(wrap(FRAME), "site", y_true="label", y_pred="guess")
    assert counts.groups == ("a", "b")
    assert counts.matrix.tolist() == [[[0, 1], [0, 0]], [[0, 0], [1, 1]]]
    matrix = cmfast.confusion_matrix(wrap(FRAME), y_true="label", y_pred="guess", sample_weight="w")
    assert matrix.tolist() == [[0, 2], [3, 1]]
    margins = [wrap(series(totals, name).reset_index()) for name, totals in (("age", AGES), ("income", INCOMES))]
    assert cmfast.ipf_cells("persons", wrap(CELLS), margins).table == pytest.approx(WANTED)
    people = wrap(pd.DataFrame({"age": ["old", "young", "young"], "w": [1.0, 1.0, 3.0]}))
    assert cmfast.rake(people, {"age": AGES}, weights="w").weights == pytest.approx([2.0, 2.0, 6.0])
