"""Tables whose rows and columns have names: a confusion matrix has the same classes in both, in one order."""

import numpy as np
import pandas as pd
import pytest

import cmfast
from cmfast import metrics

xr = pytest.importorskip("xarray")
CELLS = [[5, 1], [0, 4]]
WRONG = {
    "another order": (["a", "b"], ["b", "a"]),
    "other classes": (["a", "b"], ["b", "c"]),
    "numbers": ([1, 2], [0, 1]),
}


def _frame(rows, columns):
    return pd.DataFrame(CELLS, index=rows, columns=columns)


def _array(rows, columns):
    return xr.DataArray(CELLS, {"true": rows, "predicted": columns}, ("true", "predicted"))


@pytest.mark.parametrize("make", [_frame, _array])
@pytest.mark.parametrize("case", WRONG)
def test_classes_in_two_orders_are_refused(make, case):
    M = make(*WRONG[case])
    text = r"M must have the same classes in rows and columns, in one order, got \(.*\) and \(.*\); reindex both"
    with pytest.raises(ValueError, match=r"^metrics.compute: " + text):
        metrics.compute(M, "accuracy")
    with pytest.raises(ValueError, match=r"^bi_normalize: " + text):
        cmfast.bi_normalize(M)
    with pytest.raises(ValueError, match="A must have the same classes"):
        cmfast.overlap(M, np.eye(2))


@pytest.mark.parametrize("make", [_frame, _array])
@pytest.mark.parametrize("lines", [(["a", "b"], ["a", "b"]), (["true a", "true b"], ["said a", "said b"])])
def test_the_same_classes_and_names_of_their_own_are_taken(make, lines):
    assert metrics.compute(make(*lines), "accuracy") == 0.9


def test_tables_of_two_things_are_scaled():
    M = _frame([1, 2], [0, 1])
    np.testing.assert_array_equal(cmfast.ipf(M, smoothing=1).matrix, cmfast.ipf(CELLS, smoothing=1).matrix)


def test_totals_are_no_class():
    y, p = pd.Series(list("abb")), pd.Series(list("aba"))
    with pytest.raises(ValueError, match=r"M must be without totals, got a last row and column 'All'"):
        metrics.compute(pd.crosstab(y, p, margins=True), "accuracy")
    assert metrics.compute(pd.crosstab(y, p), "accuracy") == 2 / 3
