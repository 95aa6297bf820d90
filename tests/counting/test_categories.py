"""Columns that declare their categories: the order of ordered ones is kept, and codes of integers are used."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from checks import assert_same_bits
from optional import polars as pl

import cmfast
from cmfast import metrics

SIZES = ["S", "M", "L", "XL"]
UNUSED = ["none", *SIZES]
ORDERED = {
    "pandas": lambda x: pd.Categorical(x, UNUSED, ordered=True),
    "pandas-series": lambda x: pd.Series(pd.Categorical(x, UNUSED, ordered=True)),
    "polars": lambda x: pl.Series(x, dtype=pl.Enum(UNUSED)),
    "arrow": lambda x: pa.DictionaryArray.from_arrays(
        pa.array([UNUSED.index(v) for v in x], pa.int8()), UNUSED, ordered=True
    ),
    "arrow-chunks": lambda x: pa.chunked_array([ORDERED["arrow"](x[:2]), ORDERED["arrow"](x[2:])]),
    "integers": lambda x: pd.Categorical([NUMBERS[v] for v in x], NUMBERS.values(), ordered=True),
}
NUMBERS = {"none": 4, "S": 9, "M": -5, "L": 7, "XL": 0}


def places(x):
    return np.array([SIZES.index(v) for v in x])


@pytest.mark.exhaustive
@pytest.mark.parametrize("make", ORDERED.values(), ids=ORDERED)
@pytest.mark.parametrize("n", [30, 9000])
def test_ordered_categories_keep_their_order(rng, make, n):
    """Of those that occur, alone or beside a column without one; distances are those of places."""
    t, p = rng.choice(SIZES[:3], n).tolist(), rng.choice(SIZES[:3], n).tolist()
    weight, groups = rng.random(n), rng.integers(0, 2, n)
    beside = p if make is not ORDERED["integers"] else [NUMBERS[v] for v in p]
    for options in ({}, {"sample_weight": weight}, {"groups": groups}):
        want = cmfast.confusion_matrix(places(t), places(p), **options)
        for other in (make(p), beside):
            assert_same_bits(cmfast.confusion_matrix(make(t), other, **options), want)
        names = ["kappa_quadratic", "kappa_linear", "gerrity", "recall", "f1_macro"]
        for name, value in metrics.from_labels(make(t), make(p), names, **options).items():
            np.testing.assert_allclose(value, metrics.compute(want, name), rtol=1e-13)
    sparse = cmfast.confusion_matrix(make(t), make(p), sparse=True).toarray()
    np.testing.assert_array_equal(sparse, cmfast.confusion_matrix(places(t), places(p)))


def test_labels_beside_an_order_come_behind_it():
    ordered = pd.Categorical(["S", "M"], ["S", "M", "L"], ordered=True)
    assert cmfast.confusion_matrix(ordered, ["a", "M"]).tolist() == [[0, 0, 1], [0, 1, 0], [0, 0, 0]]
    unordered = pd.Categorical(["M", "S"], ["M", "S"])
    assert cmfast.confusion_matrix(ordered, unordered).tolist() == [[0, 1], [1, 0]]
    longer = pd.Categorical(["M", "XL"], ["M", "XL"], ordered=True)
    assert cmfast.confusion_matrix(ordered, longer).tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
    assert cmfast.confusion_matrix(ordered, longer, labels=["M", "S"]).tolist() == [[0, 0], [1, 0]]


@pytest.mark.parametrize("call", [cmfast.confusion_matrix, metrics.label_margins])
def test_orders_that_contradict_each_other(call):
    one, other = (pd.Categorical(["a", "b"], order, ordered=True) for order in (["a", "b"], ["b", "a"]))
    said = r"y_pred must be of ordered categories that agree, got \('a', 'b'\) and \('b', 'a'\)$"
    with pytest.raises(ValueError, match=said):
        call(one, other)


@pytest.mark.exhaustive
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("n", [40, 9000])
def test_codes_of_integers_count_as_integers_do(rng, ordered, n):
    values = np.array([0, 1, 3, 2**40, -7]) if not ordered else np.array([-7, 0, 1, 3, 2**40])
    t, p = (rng.choice(values[:most], n) for most in (4, 5))
    make = lambda x: pd.Series(pd.Categorical(x, values, ordered=ordered))  # noqa: E731
    weight = {"sample_weight": rng.integers(0, 5, n)}
    groups = {"groups": rng.integers(0, 3, n)}
    for options in ({}, weight, groups, {"labels": [3, 8, 0]}, {"ignore_index": 1}, {"sample_axes": None}):
        want = cmfast.confusion_matrix(t, p, **options)
        assert_same_bits(cmfast.confusion_matrix(make(t), make(p), **options), want)
        assert_same_bits(cmfast.confusion_matrix(make(t), p, **options), want)
    rows = np.array([p, t])
    assert_same_bits(cmfast.confusion_matrix(make(t), rows), cmfast.confusion_matrix(t, rows))
    few = t % 2, p % 2
    coded = [pd.Categorical(y) for y in few]
    assert_same_bits(cmfast.confusion_matrix(*coded, n_classes=3), cmfast.confusion_matrix(*few, n_classes=3))
    for options in ({}, {"pos_label": 0}, {"labels": [1, 0]}, {"average_over": [1]}):
        names = ["f1_binary"] if "pos_label" in options else ["f1_binary", "f1_macro", "recall"]
        for name, value in metrics.from_labels(*coded, names, **options).items():
            assert_same_bits(value, metrics.from_labels(*few, name, **options))


def test_categories_that_are_bool_or_ordered_backwards():
    y, p = [True, False, True], [True, True, True]
    make = lambda x: pd.Categorical(x, [True, False], ordered=True)  # noqa: E731
    assert cmfast.confusion_matrix(make(y), make(p)).tolist() == [[2, 0], [1, 0]]
    assert metrics.from_labels(make(y), make(p), "recall").tolist() == [1, 0]
    assert metrics.from_labels(make(y), make(p), "recall_binary") == 1
    assert metrics.from_labels(make(y), make(p), "recall_binary", pos_label=False) == 0
    assert metrics.from_labels(make(y[:1]), make(p[:1]), "recall_binary", pos_label=False) == 0


def test_codes_of_integers_beside_what_is_none():
    y = pd.Categorical([1, 2])
    for other, error, said in (
        (["a", "b"], TypeError, "y_pred must be integers as y_true, got strings"),
        ([0.5, 1.0], TypeError, "y_pred must be integers, bool or strings, got dtype float64"),
        (pd.Categorical(["a", "b"]), TypeError, "y_pred must be integers as y_true, got strings"),
    ):
        with pytest.raises(error, match=f"^confusion_matrix: {said}"):
            cmfast.confusion_matrix(y, other)
    assert cmfast.confusion_matrix(y, [1.0, 2.0], whole_floats=True).tolist() == [[1, 0], [0, 1]]
    with pytest.raises(ValueError, match="y_true must be without missing values, got 1 missing"):
        cmfast.confusion_matrix(pd.Categorical([1, None]), [1, 2])
