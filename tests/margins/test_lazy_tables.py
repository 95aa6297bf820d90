"""Lazy tables of polars and streams of Arrow where data frames go: the results of the frames that they hold."""

import numpy as np
import pytest

import cmfast

pd, pl, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))

OLD = {"age": ["young", "young", "old"], "income": ["low", "high", "low"], "persons": [4.0, 2.0, 3.0]}
AGES = {"age": ["old", "young"], "persons": [2.0, 8.0]}
INCOMES = {"income": ["low", "high"], "persons": [7.0, 3.0]}


class Stream:
    """What only yields a stream of Arrow, as a relation of DuckDB does."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


MAKE = {
    "LazyFrame": pl.LazyFrame,
    "stream": lambda columns: Stream(pa.table(columns)),
    "reader": lambda columns: pa.table(columns).to_reader(),
}


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_cells(make):
    want = cmfast.ipf_cells("persons", pd.DataFrame(OLD), [pd.DataFrame(AGES), pd.DataFrame(INCOMES)])
    found = cmfast.ipf_cells("persons", make(OLD), [make(AGES), make(INCOMES)])
    np.testing.assert_array_equal(found.table, want.table)
    assert [sums.tolist() for sums in found.achieved] == [sums.tolist() for sums in want.achieved]


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_records(make):
    people = {"age": OLD["age"] * 2, "income": OLD["income"] * 2, "w": [1.0, 2.0, 1.0, 1.0, 3.0, 1.0]}
    want = cmfast.rake(pd.DataFrame(people), [pd.DataFrame(AGES), pd.DataFrame(INCOMES)], weights="w")
    found = cmfast.rake(make(people), [make(AGES), make(INCOMES)], weights="w")
    np.testing.assert_array_equal(found.weights, want.weights)
    by_column = cmfast.rake(make(people), {"age": make(AGES), "income": {"low": 7.0, "high": 3.0}}, weights="w")
    np.testing.assert_allclose(by_column.weights, want.weights, rtol=1e-12)


def test_columns_stay_columns():
    series = pl.Series([4.0, 2.0, 3.0])
    coords = [pl.Series([0, 0, 1]), pl.Series([0, 1, 0])]
    found = cmfast.ipf_cells(series, np.array(coords), [(0, [8.0, 2.0]), (1, [7.0, 3.0])])
    np.testing.assert_allclose(found.table, [5.0, 3.0, 2.0], rtol=1e-9)
