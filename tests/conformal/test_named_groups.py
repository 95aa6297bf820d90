"""Groups by name: the thresholds and sets of the groups numbered, and messages with the names."""

import copy
import datetime as dt
import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from checks import assert_same_bits
from optional import torch

import cmfast
from cmfast import conformal

RNG = np.random.default_rng(3)
P = RNG.dirichlet(np.full(4, 0.5), 300)
Y = RNG.integers(0, 4, 300)
CODES = RNG.integers(0, 3, 300)
NAMES = ["new", "old", "staff"]
TEXT = np.array(NAMES)[CODES]
S = conformal.scores(P, Y)
DATES = [dt.date(2026, month, 1) for month in (1, 2, 3)]
KINDS = {
    "text": TEXT,
    "list": TEXT.tolist(),
    "object": TEXT.astype(object),
    "series": pd.Series(TEXT),
    "categories": pd.Series(TEXT, dtype="category"),
    "polars": lambda: pytest.importorskip("polars").Series(TEXT),
    "arrow": lambda: pytest.importorskip("pyarrow").array(TEXT),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("by_class", [False, True])
def test_groups_of_text_have_the_thresholds_of_their_numbers(kind, by_class):
    groups = KINDS[kind]() if callable(KINDS[kind]) else KINDS[kind]
    of_classes = {"y": Y, "n_classes": 4} if by_class else {}
    found = conformal.threshold(S, [0.1, 0.3], groups=groups, **of_classes)
    want = conformal.threshold(S, [0.1, 0.3], groups=CODES, **of_classes)
    assert list(found) == NAMES
    for k, one in enumerate(found.values()):
        assert_same_bits(one, want[:, k])
    sets = conformal.prediction_sets(P, found, groups=groups)
    assert_same_bits(sets.packed, conformal.prediction_sets(P, want, groups=CODES).packed)


def test_new_rows_may_have_other_groups_in_another_order():
    found = conformal.threshold(S, 0.1, groups=TEXT)
    few = np.flatnonzero(CODES != 0)[:50]  # no row of the first group, so that numbers of their own would differ
    want = conformal.prediction_sets(P[few], conformal.threshold(S, 0.1, groups=CODES), groups=CODES[few])
    assert_same_bits(conformal.prediction_sets(P[few], found, groups=TEXT[few]).packed, want.packed)
    turned = dict(reversed(found.items()))
    assert_same_bits(conformal.prediction_sets(P[few], turned, groups=TEXT[few]).packed, want.packed)


def test_rows_of_a_group_without_threshold_get_all_classes():
    found = conformal.threshold(S, 0.1, groups=TEXT)
    groups = TEXT[:20].astype(object)
    groups[[3, 7]] = "guest"
    text = "2 of 20 rows given all classes (first: 3, 7): 2 INVALID; the group 'guest' at groups[3] is not one of those"
    with pytest.warns(cmfast.FailureWarning, match=re.escape(f"{text} with thresholds: 'new', 'old', 'staff'")):
        sets = conformal.prediction_sets(P[:20], found, groups=groups)
    assert sets.sizes[0, [3, 7]].tolist() == [4, 4]
    want = conformal.prediction_sets(P[:20], found, groups=TEXT[:20])
    rest = np.setdiff1d(np.arange(20), [3, 7])
    assert_same_bits(sets.mask[:, rest], want.mask[:, rest])


def test_groups_without_scores_of_a_class_are_named():
    with pytest.warns(
        cmfast.FailureWarning, match="class 3 of group 'old' has no scores, so its threshold is infinity"
    ):
        found = conformal.threshold(S, 0.1, y=np.where(TEXT == "old", Y % 3, Y), groups=TEXT)
    assert found["old"][0, 3] == np.inf


def test_batches_have_a_batch_of_thresholds_by_group():
    s, rows, groups = (np.stack([x, x[::-1]]) for x in (S, P, TEXT))
    found = conformal.threshold(s, [0.1, 0.2], groups=groups)
    numbers = np.stack([CODES, CODES[::-1]])
    want = conformal.threshold(s, [0.1, 0.2], groups=numbers)
    assert found["old"].shape == (2, 2)
    assert_same_bits(found["old"], want[..., 1])
    sets = conformal.prediction_sets(rows, found, groups=groups)
    assert_same_bits(sets.packed, conformal.prediction_sets(rows, want, groups=numbers).packed)


def test_other_names_of_groups():
    found = conformal.threshold(S, 0.1, groups=np.array(DATES, "M8[D]")[CODES])
    assert [one.item() for one in found] == DATES
    declared = pd.Series(TEXT, dtype=pd.CategoricalDtype(["staff", "new", "old", "guest"]))
    assert list(conformal.threshold(S, 0.1, groups=declared)) == ["staff", "new", "old"]
    by_id = {101 + k: one for k, one in enumerate(conformal.threshold(S, 0.1, groups=TEXT).values())}
    sets = conformal.prediction_sets(P, by_id, groups=101 + CODES)
    want = conformal.prediction_sets(P, conformal.threshold(S, 0.1, groups=CODES), groups=CODES)
    assert_same_bits(sets.packed, want.packed)
    plain = conformal.prediction_sets(P, {"a": 0.5, "b": 0.75}, groups=np.where(CODES, "a", "b"))
    assert_same_bits(plain.packed, conformal.prediction_sets(P, [[0.5, 0.75]], groups=(CODES == 0) * 1).packed)


@pytest.mark.torch
def test_thresholds_of_tensors_are_tensors():
    found = conformal.threshold(torch.tensor(S), 0.1, groups=TEXT)
    assert all(isinstance(one, torch.Tensor) for one in found.values())
    sets = conformal.prediction_sets(torch.tensor(P), found, groups=TEXT)
    want = conformal.prediction_sets(P, conformal.threshold(S, 0.1, groups=TEXT), groups=TEXT)
    assert_same_bits(sets.packed.numpy(), want.packed)


FOUND = conformal.threshold(S, 0.1, groups=TEXT)
REFUSED = {
    "no groups": (lambda: conformal.prediction_sets(P, FOUND), "groups must be the group of each row, as q has"),
    "an array": (
        lambda: conformal.prediction_sets(P, [[0.5, 0.6, 0.7]], groups=TEXT),
        "groups must be integers, as q is an array of thresholds, got dtype <U5; with the same groups threshold(s, ",
    ),
    "shapes": (
        lambda: conformal.prediction_sets(P, {"a": 0.5, "b": [0.5, 0.6]}, groups=TEXT),
        "q['b'] must be of shape (1,), as q['a'], got shape (2,)",
    ),
    "nothing": (lambda: conformal.prediction_sets(P, {}, groups=TEXT), "q must be an array, got dict without groups"),
    "missing": (
        lambda: conformal.threshold(S, 0.1, groups=np.where(CODES, TEXT, None)),
        "groups must be without missing values",
    ),
    "a number": (lambda: conformal.threshold(S, 0.1, groups=TEXT, n_groups=3), "n_groups must be None if groups have"),
    "length": (lambda: conformal.threshold(S, 0.1, groups=TEXT[:9]), "groups must be of shape (300,), one entry per"),
    "floats": (lambda: conformal.threshold(S, 0.1, groups=CODES / 2), "groups must be integers, got dtype float64"),
    "labels": (
        lambda: conformal.threshold(S, 0.1, y=TEXT),
        "y must be integers, the column of P of each label, got text; with the labels of the columns of P, y = [",
    ),
    "labels of p-values": (lambda: conformal.p_values(S, P, y=TEXT), "y must be integers, the column of P of each"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_messages_name_what_is_wrong(name):
    call, text = REFUSED[name]
    with pytest.raises((TypeError, ValueError), match=r"^conformal\.\w+: " + re.escape(text)):
        call()


def test_dask_arrays_have_numbered_groups():
    da = pytest.importorskip("dask.array")
    with pytest.raises(
        TypeError, match=r"groups must be integers with Dask arrays, got text; number them, as by names"
    ):
        conformal.threshold(da.from_array(S), 0.1, groups=TEXT)
    with pytest.raises(TypeError, match="q must be an array of thresholds, and groups integers, with Dask arrays"):
        conformal.prediction_sets(da.from_array(P, chunks=(100, 4)), FOUND, groups=TEXT)


def test_named_groups_are_covered():
    """Each group is covered as often as it should be, though they are not equally hard."""
    rng, n = np.random.default_rng(8), 4000
    p = rng.dirichlet(np.ones(4), n)
    y = np.array([rng.choice(4, p=one) for one in p])
    groups = np.where(rng.random(n) < 0.5, "A", "B")
    y[groups == "B"] = rng.integers(0, 4, (groups == "B").sum())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        q = conformal.threshold(conformal.scores(p[:2000], y[:2000]), 0.2, groups=groups[:2000])
        sets = conformal.prediction_sets(p[2000:], q, groups=groups[2000:])
    inside = sets.mask[0, np.arange(2000), y[2000:]]
    for name in "AB":
        assert abs(inside[groups[2000:] == name].mean() - 0.8) < 4 * np.sqrt(0.2 * 0.8 * 2 / 1000)


SITE = np.array(["north", "south"])[RNG.integers(0, 2, 300)]
COLUMNS_OF_GROUPS = {
    "dict": lambda: {"site": SITE, "kind": CODES},
    "pandas": lambda: pd.DataFrame({"site": SITE, "kind": CODES}),
    "polars": lambda: pytest.importorskip("polars").DataFrame({"site": SITE, "kind": CODES}),
    "lazy": lambda: pytest.importorskip("polars").DataFrame({"site": SITE, "kind": CODES}).lazy(),
    "arrow": lambda: pytest.importorskip("pyarrow").table({"site": SITE.tolist(), "kind": CODES.tolist()}),
}


@pytest.mark.parametrize("kind", COLUMNS_OF_GROUPS)
@pytest.mark.parametrize("by_class", [False, True])
def test_combinations_of_columns_are_groups(kind, by_class):
    groups = COLUMNS_OF_GROUPS[kind]()
    of_classes = {"y": Y, "n_classes": 4} if by_class else {}
    found = conformal.threshold(S, [0.1, 0.3], groups=groups, **of_classes)
    number = CODES + 3 * (SITE == "south")
    want = conformal.threshold(S, [0.1, 0.3], groups=number, **of_classes)
    assert list(found) == [(site, code) for site in ("north", "south") for code in range(3)]
    for k, one in enumerate(found.values()):
        assert_same_bits(one, want[:, k])
    sets = conformal.prediction_sets(P, found, groups=groups)
    assert_same_bits(sets.packed, conformal.prediction_sets(P, want, groups=number).packed)


def test_one_column_of_a_table_is_a_group_of_its_own():
    found = conformal.threshold(S, 0.1, groups=pd.DataFrame({"site": SITE}))
    want = conformal.threshold(S, 0.1, groups=SITE)
    assert found.keys() == want.keys() == {"north", "south"}
    some = conformal.prediction_sets(P, found, groups=pd.DataFrame({"site": SITE}))
    assert_same_bits(some.packed, conformal.prediction_sets(P, want, groups=SITE).packed)


def test_rows_of_another_combination_get_all_classes():
    table = pd.DataFrame({"site": SITE, "kind": CODES})
    q = conformal.threshold(S, 0.1, groups=table)
    with pytest.warns(
        cmfast.FailureWarning, match=r"the group \('east', 0\) at groups\[0\] is not one of those with thresholds: \('n"
    ):
        sets = conformal.prediction_sets(P[:2], q, groups=pd.DataFrame({"site": ["east", "north"], "kind": [0, 1]}))
    assert sets.sizes[0, 0] == 4


def test_each_group_without_threshold_is_shown():
    q, groups = conformal.threshold(S, 0.1, groups=TEXT), TEXT[:20].astype(object)
    for name in ("guest", "visitor", "zoo"):
        groups[5:9] = [name, "guest", "visitor", "zoo"]
        with pytest.warns(
            cmfast.FailureWarning, match=rf"4 INVALID; the group '{name}' at groups\[5\] .*: 'new', 'old', 'staff'$"
        ):
            assert (conformal.prediction_sets(P[:20], q, groups=groups).sizes[0, 5:9] == 4).all()


@pytest.mark.parametrize("kind", COLUMNS_OF_GROUPS)
def test_columns_of_groups_are_matched_by_name(kind):
    rng = np.random.default_rng(4)
    one, two = rng.integers(0, 2, (2, 300))
    scores = S * (1 + one) / 2
    q = conformal.threshold(scores, 0.1, groups=pd.DataFrame({"one": one, "two": two}))
    number = conformal.prediction_sets(P, conformal.threshold(scores, 0.1, groups=2 * one + two), groups=2 * one + two)
    turned = {"two": two, "one": one}
    given = turned if kind == "dict" else pd.DataFrame(turned)
    if kind in ("polars", "lazy", "arrow"):
        library = pytest.importorskip("pyarrow" if kind == "arrow" else "polars")
        given = library.table(turned) if kind == "arrow" else library.DataFrame(turned)
        given = given.lazy() if kind == "lazy" else given
    for thresholds in (q, pickle.loads(pickle.dumps(q)), copy.deepcopy(q), copy.copy(q), q.copy()):
        assert thresholds == dict(q)
        assert_same_bits(conformal.prediction_sets(P, thresholds, groups=given).packed, number.packed)
    assert repr(q) == repr(dict(q))
    by_position = conformal.prediction_sets(P, dict(q), groups={"a": one, "b": two})
    assert_same_bits(by_position.packed, number.packed)


@pytest.mark.parametrize("names", [["Site", "kind"], ["site"], ["site", "kind", "more"]])
def test_other_columns_of_groups_are_refused(names):
    q = conformal.threshold(S, 0.1, groups={"site": SITE, "kind": CODES})
    text = f"groups must be the columns ['site', 'kind'] that threshold was given, in any order, got columns {names}"
    with pytest.raises(ValueError, match=rf"^conformal.prediction_sets: {re.escape(text)}$"):
        conformal.prediction_sets(P, q, groups=dict.fromkeys(names, CODES))


OF_COLUMNS = {
    "names": (
        lambda: conformal.threshold(S, 0.1, groups=["site", "kind"]),
        r"threshold: groups must be .*, got \['site', 'kind'\]; .* as in groups=table\[\['site', 'kind'\]\]$",
    ),
    "name": (
        lambda: conformal.prediction_sets(P, {"a": 0.5}, groups="site"),
        r"prediction_sets: groups must be the group of each row, got 'site'; .* groups=table\['site'\]$",
    ),
    "names of new rows": (
        lambda: conformal.prediction_sets(P, {("a", "b"): 0.5}, groups=["site", "kind"]),
        r"prediction_sets: groups must be the group of each row, got \['site', 'kind'\]; give the columns themselves",
    ),
    "lengths": (
        lambda: conformal.threshold(S, 0.1, groups={"site": SITE, "kind": CODES[:5]}),
        r"groups\['kind'\] must be of shape \(300,\), as groups\['site'\], got shape \(5,\)$",
    ),
    "other length": (
        lambda: conformal.threshold(S, 0.1, groups={"site": SITE[:9], "kind": CODES[:9]}),
        r"groups must be of shape \(300,\), one entry per score, got shape \(9,\)$",
    ),
    "array of thresholds": (
        lambda: conformal.prediction_sets(P, [[0.5, 0.5]], groups={"site": SITE, "kind": CODES}),
        r"groups must be integers, as q is an array of thresholds, got columns; with the same groups threshold",
    ),
    "no columns": (
        lambda: conformal.threshold(S, 0.1, groups={}),
        r"groups must be an array, or columns, got a dict without columns$",
    ),
}


@pytest.mark.parametrize("case", OF_COLUMNS)
def test_messages_of_columns_name_what_is_wrong(case):
    call, text = OF_COLUMNS[case]
    with pytest.raises((TypeError, ValueError), match=rf"^conformal\.\w+: .*{text}" if "^" in text else text):
        call()


@pytest.mark.parametrize("library", ["pandas", "polars", "arrow"])
def test_the_columns_of_probabilities_name_the_classes(library):
    names = ["ape", "bee", "cat", "dog"]
    columns = {name: P[:, k].tolist() for k, name in enumerate(names)}
    if library == "arrow":
        table = pytest.importorskip("pyarrow").table(columns)
    else:
        table = pytest.importorskip(library).DataFrame(columns)
    text = np.array(names)[Y]
    s = conformal.scores(table, text)
    assert_same_bits(s, S)
    sets = conformal.prediction_sets(table, conformal.threshold(s, 0.1))
    assert sets.labels is None
    assert sets.to_pandas().columns.tolist() == names
    np.testing.assert_array_equal(sets.to_pandas().to_numpy(), sets.mask[0])
    want = conformal.prediction_sets(P, conformal.threshold(S, 0.1))
    assert want.to_pandas().columns.tolist() == [0, 1, 2, 3]
    assert sets.coverage(text) == sets.coverage(Y) == want.coverage(Y)
    labelled = conformal.prediction_sets(table, conformal.threshold(s, 0.1), labels=["w", "x", "y", "z"])
    assert labelled.to_pandas().columns.tolist() == ["w", "x", "y", "z"]


def test_labels_that_no_column_is_called_need_labels():
    table = pd.DataFrame(P, columns=["p_a", "p_b", "p_c", "p_d"])
    with pytest.raises(TypeError, match="y must be integers, got text; pass labels=, the class of each column of P"):
        conformal.scores(table, np.array(list("abcd"))[Y])
    found = conformal.scores(table, np.array(list("abcd"))[Y], labels=list("abcd"))
    assert_same_bits(found, S)
    y = pd.Series(np.array(list("abcd"))[Y])
    with pytest.raises(ValueError, match=r"P and y .*index"):
        conformal.scores(table, y[::-1], labels=list("abcd"))


def test_saps_without_the_weight_of_a_rank_says_what_to_give():
    with pytest.raises(ValueError, match=r'lam must be given for method="saps", .*, for example 0\.1, got None$'):
        conformal.scores(P, Y, method="saps")
