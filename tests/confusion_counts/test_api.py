"""Counts that know their classes and groups: however samples come and are cut, they are those of a dictionary."""

import copy
import io
import json
import pickle
import re
import subprocess
import sys
from collections import Counter

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from optional import polars as pl
from optional import torch
from processes import ROOT

import cmfast
from cmfast import ConfusionCounts, metrics
from cmfast._core.adapters import _text_codes
from cmfast.confusion_counts import _count_samples
from cmfast.confusion_counts._label_axis import Axis

NAMES = ["mid", "low", "high", "none"]
RNG = np.random.default_rng(0)
CODES = RNG.integers(0, 3, (2, 60))
SITES = RNG.choice(["b", "a", "c"], 60)
MODELS = RNG.integers(5, 7, 60)


def texts(codes):
    return [NAMES[k] for k in codes]


# Columns of the codes 0, 1, 2 as labels of every kind, and what the labels are.
COLUMNS = {
    "list of str": (texts, NAMES),
    "list of int": (lambda codes: codes.tolist(), range(4)),
    "array": (lambda codes: codes, range(4)),
    "int8 below 0": (lambda codes: codes.astype(np.int8) - 5, range(-5, -1)),
    "int16": (lambda codes: codes.astype(np.int16) + 30_000, range(30_000, 30_004)),
    "far apart": (lambda codes: codes * 10**15 - 10**15, range(-(10**15), 4 * 10**15, 10**15)),
    "uint64": (lambda codes: codes.astype(np.uint64) + np.uint64(2**63), range(2**63, 2**63 + 4)),
    "bool": (lambda codes: codes > 0, [False, True, True]),
    "bytes": (lambda codes: np.array([b"x", b"a", b"\xff"])[codes], [b"x", b"a", b"\xff"]),
    "str of pandas": (lambda codes: pd.Series(texts(codes), index=np.arange(len(codes)) // 2), NAMES),
    "objects": (lambda codes: pd.Series(texts(codes), dtype=object), NAMES),
    "Int64 of pandas": (lambda codes: pd.Series(codes, dtype="Int64"), range(4)),
    "categorical": (lambda codes: pd.Series(pd.Categorical.from_codes(codes, NAMES)), NAMES),
    "categorical of objects": (lambda codes: pd.Categorical.from_codes(codes, pd.Index(NAMES, dtype=object)), NAMES),
    "categorical of integers": (lambda codes: pd.Categorical.from_codes(codes, [7, 3, 9]), [7, 3, 9]),
    "ordered categorical": (lambda codes: pd.Categorical.from_codes(codes, NAMES, ordered=True), NAMES),
    "String of polars": (lambda codes: pl.Series(texts(codes)), NAMES),
    "Categorical of polars": (lambda codes: pl.Series(texts(codes), dtype=pl.Categorical), NAMES),
    "Enum of polars": (lambda codes: pl.Series(texts(codes), dtype=pl.Enum(NAMES)), NAMES),
    "string of Arrow": (lambda codes: pa.array(texts(codes)), NAMES),
    "dictionary of Arrow": (lambda codes: pa.array(texts(codes)).dictionary_encode(), NAMES),
    "ordered dictionary": (lambda codes: pa.DictionaryArray.from_arrays(codes, NAMES, ordered=True), NAMES),
    "chunks of Arrow": (lambda codes: pa.chunked_array([texts(codes[:7]), texts(codes[7:])]), NAMES),
    "tensor": (torch.from_numpy, range(4)),
    "tensor below 0": (lambda codes: torch.from_numpy(codes).to(torch.int8) - 100, range(-100, -96)),
    "uint16 tensor": (lambda codes: torch.from_numpy(codes).to(torch.uint16), range(4)),
    "maps": (lambda codes: codes.reshape(3, -1, 2), range(4)),
}  # fmt: skip
DECLARED = ("categorical", "categorical of", "ordered", "Enum")


def pairs(counts, group=None):
    """Return what counts hold as a dictionary: (truth, prediction) -> samples."""
    M = counts.matrix if group is None else counts.matrix[counts.groups.index(group)]
    places = np.argwhere(np.asarray(M))
    return {(counts.labels[i], counts.labels[j]): int(M[i, j]) for i, j in places.tolist()}


@pytest.mark.parametrize("kind", COLUMNS)
def test_counts_are_those_of_a_dictionary(kind):
    make, names = COLUMNS[kind]
    counts = ConfusionCounts.from_labels(make(CODES[0]), make(CODES[1]))
    assert pairs(counts) == Counter((names[a], names[b]) for a, b in CODES.T.tolist())
    if kind.startswith(DECLARED):
        assert counts.labels == tuple(names)
    else:
        assert counts.labels == tuple(sorted(counts.labels))
    assert counts.matrix.dtype in (np.int64, torch.int64)
    assert isinstance(counts.matrix, torch.Tensor) == ("tensor" in kind)


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("grouped", [False, True])
def test_parts_merge_to_the_whole(kind, grouped):
    make, _ = COLUMNS[kind]
    of = [slice(0, 6), slice(6, 30), slice(30, 30), slice(30, 60)]

    def options(part):
        if kind == "maps":
            return {"groups": SITES[part].reshape(3, -1, 2)} if grouped else {}
        return {"groups": {"site": SITES[part], "model": MODELS[part]}} if grouped else {}

    whole = ConfusionCounts.from_labels(make(CODES[0]), make(CODES[1]), **options(slice(60)))
    columns = [(make(CODES[0][p]), make(CODES[1][p])) for p in of if kind != "maps" or p.start < p.stop]
    chosen = [options(p) for p in of if kind != "maps" or p.start < p.stop]
    stream = ConfusionCounts()
    for (y, p), more in zip(columns, chosen, strict=True):
        assert stream.update(y, p, **more) is stream
    parts = [ConfusionCounts.from_labels(y, p, **more) for (y, p), more in zip(columns, chosen, strict=True)]
    for same in (stream, ConfusionCounts.merge(parts), sum(parts), ConfusionCounts.merge(iter(parts[::-1]))):
        assert same == whole
        assert same.labels == whole.labels
    if grouped and kind != "maps":
        assert whole.groups == tuple(sorted({*zip(SITES.tolist(), MODELS.tolist(), strict=True)}))
        assert whole.group_names == ("site", "model")


def test_groups_of_any_labels():
    columns = {
        "str": SITES.tolist(),
        "number": RNG.choice([0.5, -1e300, 2.0], 60),
        "time": RNG.choice(np.array(["2024-05-01", "2023-01-01"], "M8[s]"), 60),
        "far": RNG.choice([10**18, -3], 60),
        "interval": pd.cut(RNG.random(60), [0.0, 0.1, 0.5, 1.0]),
        "category": pd.Categorical(SITES, ["c", "z", "b", "a"]),
        "flag": RNG.random(60) > 0.5,
    }
    for name, column in columns.items():
        counts = ConfusionCounts.from_labels(*CODES, groups={name: column})
        values = [str(x) if name == "interval" else x for x in list(column)]
        wanted = {}
        for a, b, group in zip(*CODES.tolist(), values, strict=True):
            wanted.setdefault(group, Counter())[a, b] += 1
        assert {group: pairs(counts, group) for group in counts.groups} == wanted
        assert ConfusionCounts.from_bytes(counts.to_bytes()) == counts == ConfusionCounts.from_json(counts.to_json())
    assert ConfusionCounts.from_labels(*CODES, groups=columns["category"]).groups == ("c", "b", "a")
    every = ConfusionCounts.from_labels(*CODES, groups=columns)
    assert every.group_names == tuple(columns)
    assert every.n_samples == 60


def test_groups_of_names_beside_tensors():
    y, p = map(torch.from_numpy, CODES)
    counts = ConfusionCounts.from_labels(y, p, groups=SITES.tolist())
    assert isinstance(counts.matrix, torch.Tensor)
    assert counts.groups == ("a", "b", "c")
    assert counts.to_bytes() == ConfusionCounts.from_labels(*CODES, groups=SITES).to_bytes()


def test_codes_of_categories_are_used(monkeypatch):
    """Nothing of the length of the columns is sorted or looked up."""
    labels = [pd.Categorical.from_codes(codes, NAMES) for codes in CODES]
    site = pd.Categorical(SITES)
    enums = [pl.Series(texts(codes), dtype=pl.Enum(NAMES)) for codes in CODES]

    def never(*args, **kwargs):
        pytest.fail("the values were looked at")

    monkeypatch.setattr(_text_codes, "encode", never)
    monkeypatch.setattr(np, "unique", never)
    assert ConfusionCounts.from_labels(*labels, groups=site).n_samples == 60
    assert ConfusionCounts.from_labels(*enums).n_samples == 60


def ordered(*categories):
    return pd.Categorical(categories, categories, ordered=True)


def test_ordered_categories_keep_their_order():
    a, b = ordered("low", "mid"), ordered("mid", "high", "top")
    first, second = (ConfusionCounts.from_labels(x, x) for x in (a, b))
    assert (first + second).labels == (second + first).labels == ("low", "mid", "high", "top")
    assert (first + ConfusionCounts.from_labels(["able"], ["mid"])).labels == ("low", "mid", "able")
    assert (ConfusionCounts.from_labels(pd.Categorical(["x"]), ["mid"]) + first).labels == ("low", "mid", "x")
    full = pd.Categorical(["low", "high"], ["low", "mid", "high"], ordered=True)
    counts = ConfusionCounts.from_labels(full, full[::-1])
    M = np.array([[0, 0, 1], [0, 0, 0], [1, 0, 0]])
    assert counts.matrix.tolist() == M.tolist()
    assert counts.compute("kappa_quadratic") == cmfast.metrics.kappa_quadratic(M)
    with pytest.raises(ValueError, match=r"^ConfusionCounts\.update: labels must be of ordered categories that agree"):
        copy.deepcopy(counts).update(ordered("high", "low"), ordered("high", "low"))
    unordered = pd.Categorical(["high"], ["high", "low"])
    assert (ConfusionCounts.from_labels(unordered, unordered) + counts).labels == ("low", "mid", "high")


def test_classes_that_are_given():
    counts = ConfusionCounts(labels=["dog", "cat"]).update(["cat", "bird", "dog"], ["dog", "dog", "dog"])
    assert (counts.labels, counts.matrix.tolist()) == (("dog", "cat"), [[1, 0], [1, 0]])
    found = cmfast.confusion_matrix(["cat", "bird", "dog"], ["dog", "dog", "dog"], labels=["dog", "cat"])
    np.testing.assert_array_equal(counts.matrix, found)
    categorical = pd.Categorical(["cat", "bird", "dog"])
    assert ConfusionCounts(labels=["dog", "cat"]).update(categorical, ["dog"] * 3) == counts
    ids = ConfusionCounts(n_classes=3).update([0, 2], [1, 1])
    assert ids.matrix.tolist() == [[0, 1, 0], [0, 0, 0], [0, 1, 0]]
    with pytest.raises(ValueError, match=r"^ConfusionCounts\.update: y_true must be in 0\.\.2, got 1 outside"):
        ids.update([3], [0])
    assert ids.n_samples == 2
    assert (ids + ConfusionCounts(n_classes=4).update([3], [3])).labels == (0, 1, 2, 3)
    assert ids.reset().matrix.tolist() == np.zeros((3, 3)).tolist()
    assert counts.reset().labels == ("dog", "cat")
    assert ConfusionCounts().update(["a"], ["a"]).reset().labels == ()
    read = ConfusionCounts.from_bytes(counts.to_bytes())
    with pytest.warns(cmfast.DiagnosticWarning, match=r"none of labels=\['dog', 'cat'\] is in y_true"):
        read.update(["bird"], ["cat"])
    assert read.labels == ("dog", "cat")


@pytest.mark.parametrize(
    ("before", "then", "match"),
    [
        (
            {"y_true": [1]},
            {"y_true": ["a"], "y_pred": ["a"]},
            r"labels must be integers, as before, got strings, \('a',\)",
        ),
        ({}, {"y_pred": ["a"]}, r"y_pred must be integers, as y_true, got strings, \('a',\)"),
        ({}, {"y_true": [0.5]}, r"y_true must be integers, bool or strings, got dtype float64"),
        ({}, {"y_true": [0, 1]}, r"arrays must have one shape"),
        ({}, {"sample_weight": [1.0, 2.0]}, r"arrays must have one shape"),
        ({}, {"groups": ["a", "b"]}, r"groups must be of shape \(1,\), as y_true, got shape \(2,\)"),
        ({}, {"groups": ["a"]}, r"groups must be given for all counts or for none, got counts without and with groups"),
        ({"groups": ["a"]}, {}, r"groups must be given for all counts or for none, got counts with and without groups"),
        ({"groups": ["a"]}, {"groups": {"site": ["a"]}}, r"groups must be by groups, as before, got site"),
        ({"groups": ["a"]}, {"groups": [1]}, r"groups must be strings, as before, got integers, \(1,\)"),
        ({"groups": ["a"]}, {"groups": [None]}, r"groups must be without missing values"),
        ({"groups": ["a"]}, {"groups": np.array([np.nan])}, r"groups must be without missing values, got 1 missing"),
        ({}, {"groups": {"t": np.array(["NaT"], "M8[s]")}}, r"t must be without missing values, got 1 missing"),
        ({}, {"groups": pd.Categorical([None], ["a"])}, r"groups must be without missing values"),
        ({}, {"groups": {}}, r"groups must be an array, got dict without columns"),
        ({}, {"groups": pd.DataFrame({"a": [1]})}, r"groups must be an array of labels, got a pandas DataFrame"),
        ({}, {"y_true": torch.tensor([1]), "y_pred": torch.tensor([1])}, r"arrays must come from one library"),
        ({}, {"y_true": pd.DataFrame({"a": [1]})}, r"y_true must be an array of labels"),
    ],
)
def test_what_is_refused_counts_nothing(before, then, match):
    def samples(options):
        return {"y_true": [1], "y_pred": [1], **options}

    if "y_true" in before:
        before = {**before, "y_pred": before["y_true"]}
    counts = ConfusionCounts().update(**samples(before))
    was = counts.to_bytes()
    with pytest.raises((TypeError, ValueError), match=rf"^ConfusionCounts\.update: {match}"):
        counts.update(**samples(then))
    assert counts.to_bytes() == was


def test_parts_that_do_not_merge():
    for bad in (None, 5, [5], [], [None]):
        with pytest.raises((TypeError, ValueError), match=r"^ConfusionCounts\.merge: parts"):
            ConfusionCounts.merge(bad)
    with pytest.raises(TypeError, match="unsupported operand"):
        _ = ConfusionCounts() + 1


@pytest.mark.parametrize("make", [np.array, torch.tensor], ids=["numpy", "torch"])
@pytest.mark.parametrize("options", [{}, {"n_classes": 4}, {"labels": [0, 1, 2, 3]}, {"labels": [2, 0, 1, 3]}], ids=str)
@pytest.mark.filterwarnings("ignore:.*none of labels=:cmfast.DiagnosticWarning")
def test_the_short_way_of_updates_counts_the_same(make, options):
    rng = np.random.default_rng(0)
    steps = [rng.integers(0, n, (2, size)) for n, size in ((2, 5), (4, 60), (4, 7), (3, 9), (4, 0))]
    steps += [steps[1].reshape(2, 6, 10), np.array([[0, 1], [1, 0]], np.uint8), np.array([[True, False], [True, True]])]
    if "n_classes" not in options:
        steps += [np.array([[0, 7], [3, 1]]), np.array([[1], [2]]), np.array([[-1], [2]])]
    counts, alone = cmfast.ConfusionCounts(**options), cmfast.ConfusionCounts(**options)
    for y, p in steps:
        counts.update(make(y), make(p))
        alone += cmfast.ConfusionCounts.from_labels(make(y), make(p), **options)
        assert counts == alone
        assert type(counts.matrix) is type(alone.matrix) is type(make(y))
    for y, p, words in (([1], [1, 2], "shape"), ([9], [0], "in 0..3"), (["a"], ["a"], "integers")):
        counts = cmfast.ConfusionCounts.from_labels(make([0, 3]), make([1, 2]), n_classes=4)
        with pytest.raises((TypeError, ValueError), match=words):
            counts.update(make(y) if isinstance(y[0], int) else y, make(p) if isinstance(p[0], int) else p)


def test_updates_of_known_classes_are_not_looked_at_twice(monkeypatch):
    y, p = np.random.default_rng(0).integers(0, 5, (2, 100))
    for make in (np.array, torch.tensor):
        for options in ({}, {"n_classes": 5}):
            counts = cmfast.ConfusionCounts.from_labels(make(y), make(p), **options)
            with monkeypatch.context() as patch:
                patch.setattr(_count_samples, "count_samples", None)
                counts.update(make(y), make(p))
            assert counts.matrix.tolist() == (2 * cmfast.confusion_matrix(y, p)).tolist()


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize(
    ("truth", "guess", "ignored", "options"),
    [
        ("a void b b void c", "a q b a b b", "void", {}),
        ("a void b b void c", "a q b a b b", "void", {"labels": ["c", "b", "a", "void"]}),
        ("0 9 1 1 9 2", "0 7 1 0 1 1", 9, {}),
        ("0 9 1 1 9 2", "0 7 1 0 1 1", np.int8(9), {}),
        ("0 1 1 1 0 2", "0 2 1 0 1 1", 1, {"n_classes": 3}),
        ("0 1 1 1 0 2", "0 2 1 0 1 1", 5, {}),
        ("0 9 1 8 9 2", "0 7 1 0 1 1", [9, 8], {}),
        ("a x b b x c", "a y b a b b", ["x", "c", "z"], {}),
    ],
)
def test_a_truth_that_counts_nowhere(truth, guess, ignored, options, grouped):
    several = ignored if isinstance(ignored, list) else [ignored]
    kind = type(several[0]) if isinstance(several[0], str) else int
    y, p = (np.array([kind(x) for x in text.split()]) for text in (truth, guess))
    groups = np.arange(len(y)) % 2
    beside = ~np.isin(y, several)
    columns = {"groups": groups} if grouped else {}
    want = cmfast.ConfusionCounts.from_labels(
        y[beside], p[beside], **{name: x[beside] for name, x in columns.items()}, **options
    )
    makers = [np.array, list] if kind is str else [np.array, torch.tensor, list]
    for make in makers:
        got = cmfast.ConfusionCounts.from_labels(make(y), make(p), **columns, **options, ignore_index=ignored)
        assert (got.labels, got.matrix.tolist()) == (want.labels, want.matrix.tolist())
    if not grouped and "n_classes" not in options:
        for sparse in (False, True):
            M = cmfast.confusion_matrix(y, p, **options, ignore_index=ignored, sparse=sparse)
            assert (M.toarray() if sparse else M).tolist() == want.matrix.tolist()
        batch = cmfast.confusion_matrix(y, [p, p], **options, ignore_index=ignored)
        assert batch.tolist() == [want.matrix.tolist()] * 2


@pytest.mark.parametrize(
    ("y", "ignored", "words"),
    [
        (["a"], 1, "ignore_index must be a label of the strings in y_true, got int 1"),
        ([1], "a", "ignore_index must be a label of the integers in y_true, got str 'a'"),
        ([1], 1.5, "ignore_index must be an integer, got float 1.5"),
        ([1], [2, "a"], "ignore_index must be a label of the integers in y_true, got str 'a'"),
        ([1], [2, 1.5], "ignore_index must be an integer, got float 1.5"),
    ],
)
def test_what_cannot_be_ignored(y, ignored, words):
    with pytest.raises(TypeError, match=words):
        cmfast.ConfusionCounts.from_labels(y, y, ignore_index=ignored)
    with pytest.raises(TypeError, match=r"confusion_matrix: ignore_index must be (text|an integer)"):
        cmfast.confusion_matrix(y, y, ignore_index=ignored)


def test_groups_without_an_end_are_written_and_read():
    counts = cmfast.ConfusionCounts.from_labels([0, 1, 1], [0, 1, 0], groups=[1.5, np.inf, -np.inf])
    assert json.loads(counts.to_json())["columns"][0]["labels"] == ["-Infinity", 1.5, "Infinity"]
    for same in (ConfusionCounts.from_json(counts.to_json()), ConfusionCounts.from_bytes(counts.to_bytes())):
        assert same == counts
        assert same.groups == (-np.inf, 1.5, np.inf)
    facts = {key: part for key, part in json.loads(counts.to_json()).items() if key != "digest"}
    text = json.dumps(facts).replace('"-Infinity"', '"-infinity"')
    with pytest.raises(ValueError, match="its labels are of several kinds"):
        ConfusionCounts.from_json(text)


@pytest.mark.parametrize("make", [np.array, torch.tensor], ids=["numpy", "torch"])
def test_one_group_and_its_report(make):
    y, p = make([0, 1, 1, 3]), make([0, 1, 0, 3])
    counts = cmfast.ConfusionCounts.from_labels(y, p, groups={"site": ["b", "a", "b", "a"], "fold": [1, 1, 2, 1]})
    for k, key in enumerate(counts.groups):
        one = counts.group(key)
        assert (one.labels, one.groups, one.matrix.tolist()) == (counts.labels, None, counts.matrix[k].tolist())
        names = list(map(str, counts.labels))
        assert str(one.classification_report(undefined="nan")) == str(
            metrics.classification_report(one.matrix, display_labels=names, undefined="nan")
        )
        one.update(make([0]), make([1]))
    assert counts == cmfast.ConfusionCounts.from_json(counts.to_json())
    assert counts.n_samples == 4
    with pytest.raises(KeyError, match=r"key must be one of the groups .*, got \('c', 1\)"):
        counts.group(("c", 1))
    with pytest.raises(TypeError, match="key must be one of"):
        counts.group(["a", 1])
    with pytest.raises(ValueError, match=r"there are groups; give counts.group\(key\).classification_report\(\)"):
        counts.classification_report()
    with pytest.raises(TypeError, match="there are no groups"):
        one.group("a")


def test_counts_in_a_notebook():
    counts = cmfast.ConfusionCounts.from_labels(["<b>", "dog"], ["<b>", "<b>"])
    html = counts._repr_html_()
    assert html.startswith("<table><caption>ConfusionCounts: 2 samples, 2 classes</caption><thead>")
    assert "<tr><th><bdi>dog</bdi></th><td>1</td><td>0</td></tr>" in html
    assert "<b>" not in html
    many = cmfast.ConfusionCounts.from_labels(range(50), range(50))
    assert many._repr_html_().startswith("<table><caption>ConfusionCounts: 50 samples, 50 classes</caption></table><p>")


def test_classes_by_their_labels():
    y, p = ["ill", "well", "ill", "ill"], ["ill", "ill", "well", "ill"]
    counts = ConfusionCounts.from_labels(y, p)
    assert counts.compute("recall_binary", pos_label="ill") == 2 / 3
    assert counts.compute("recall_binary", pos_label="well") == counts.compute("recall_binary") == 0
    three = ConfusionCounts.from_labels([*y, "odd"], [*p, "ill"])
    want = metrics.compute(three.matrix, ["f1_macro", "f1"], average_over=[0, 2])
    found = three.compute(["f1_macro", "f1"], average_over=["ill", "well"])
    assert {name: value.tolist() for name, value in found.items()} == {n: v.tolist() for n, v in want.items()}
    for options, text in (
        ({"pos_label": "sick"}, "pos_label must be of the labels"),
        ({"average_over": ["ill", []]}, "average_over"),
    ):
        with pytest.raises(ValueError, match=f"^ConfusionCounts.compute: {text}"):
            three.compute("f1_binary" if "pos_label" in options else "f1_macro", **options)


@pytest.mark.parametrize("labels", [[0, 1], [-1, 1], [1, 0], [0], [1], [-1], [False, True]])
@pytest.mark.parametrize("least", [False, True])
def test_which_of_two_integers_is_positive(labels, least):
    pos_label = min(labels) if least else None
    y = np.array([labels[k] for k in (0, -1, -1, 0, 0)])
    p = np.array([labels[k] for k in (0, -1, 0, 0, -1)])
    counts = ConfusionCounts.from_labels(y, p)
    want = metrics.from_labels(y, p, ["f1_binary", "recall"], pos_label=pos_label)
    found = counts.compute(["f1_binary", "recall"], pos_label=pos_label)
    assert {name: value.tolist() for name, value in found.items()} == {n: v.tolist() for n, v in want.items()}
    assert counts.table(["f1_binary", "recall"], pos_label=pos_label)["recall"].tolist() == want["recall"].tolist()
    assert counts.compute("f1_binary", pos_label=1) == metrics.from_labels(y, p, "f1_binary", pos_label=1)
    declared = ConfusionCounts.from_labels(y, p, labels=labels)  # whatever their order
    assert len(labels) < 2 or declared.compute("f1_binary", pos_label=pos_label) == want["f1_binary"]


def test_integers_that_do_not_say_which_is_positive():
    y, p = [1, 2, 2, 1, 1], [1, 2, 1, 1, 2]
    for counts in (ConfusionCounts.from_labels(y, p), ConfusionCounts.from_labels(y, p, groups=list("xyxyx"))):
        for ask in (counts.compute, counts.table):
            with pytest.raises(ValueError, match=r": pos_label must be one of the labels \[1, 2\], got None$"):
                ask(["accuracy", "f1_binary"])
            assert "accuracy" in ask(["accuracy"])
    counts = ConfusionCounts.from_labels(y, p)
    assert counts.compute("f1_binary", pos_label=1) == 2 / 3
    assert counts.compute("f1_binary", pos_label=2) == 0.5
    assert ConfusionCounts(n_classes=2).update([0, 1, 1], [0, 1, 0]).compute("recall_binary") == 0.5


def test_tables_and_reports_of_some_classes():
    y, p = ["cat", "dog", "ant", "dog"], ["cat", "ant", "ant", "dog"]
    counts = cmfast.ConfusionCounts.from_labels(y, p, groups=["u", "u", "v", "v"])
    table = counts.table(["recall", "recall_macro"], average_over=["dog", "cat"])
    assert table["class"].tolist() == ["dog", "cat"] * 2
    assert table["recall"].tolist() == [0, 1, 1, 0]
    assert table["recall_macro"].tolist() == [0.5, 0.5, 1, 1]
    report = cmfast.ConfusionCounts.from_labels(y, p).classification_report(average_over=["dog", "ant"])
    assert list(report.rows) == ["dog", "ant", "macro", "weighted"]
    assert report.rows["macro"][1] == 0.75
    two = cmfast.ConfusionCounts.from_labels(["n", "y"], ["y", "y"])
    assert two.table("recall_binary", pos_label="n")["recall_binary"].tolist() == [0]
    with pytest.raises(ValueError, match=r"average_over must be of the classes \['ant', 'cat', 'dog'\], got 'cow'"):
        cmfast.ConfusionCounts.from_labels(y, p).classification_report(average_over=["cow"])


def test_text_that_has_nothing_in_common_warns():
    counts = cmfast.ConfusionCounts().update(["cat", "dog"], ["Cat", "Dog"], groups=[0, 1])  # perhaps one of many
    with pytest.warns(cmfast.DiagnosticWarning, match="no label in common, of 2 and 2"):
        assert counts.compute("accuracy").tolist() == [0, 0]
    with pytest.warns(cmfast.DiagnosticWarning, match="no label in common, of 2 and 2"):
        counts = cmfast.ConfusionCounts.from_labels(["cat", "dog"], ["Cat", "Dog"], groups=[0, 1])
    assert counts.compute("accuracy").tolist() == [0, 0]  # said already
    assert counts.update(["cat"], ["dog"], groups=[1]).compute("accuracy").tolist() == [0, 0]
    with pytest.warns(cmfast.DiagnosticWarning, match="no label in common, of 2 and 2"):
        assert not np.diagonal(cmfast.confusion_matrix(["cat", "dog"], ["Cat", "Dog"])).any()
    assert not cmfast.confusion_matrix(["cat"], ["dog"]).trace()  # one sample that is wrong


def test_weights():
    counts = ConfusionCounts()
    for part in (slice(0, 20), slice(20, 60)):
        counts.update(CODES[0][part], CODES[1][part], sample_weight=np.full(60, 0.25, np.float32)[part])
    assert counts.matrix.dtype == np.float64
    np.testing.assert_array_equal(counts.matrix * 4, ConfusionCounts.from_labels(*CODES).matrix)
    assert (counts + ConfusionCounts.from_labels(*CODES)).matrix.dtype == np.float64
    none = ConfusionCounts.from_labels(["a", "b"], ["c", "b"], sample_weight=[0.0, 1.0])
    assert none.labels == ("a", "b", "c")  # it occurs, if with no weight
    assert ConfusionCounts.from_json(counts.to_json()) == counts


def test_what_counts_give():
    counts = ConfusionCounts.from_labels(*CODES, groups=SITES)
    M = counts.matrix
    np.testing.assert_array_equal(counts.compute("mcc"), cmfast.metrics.mcc(M))
    assert set(counts.compute(["mcc", "f1"], undefined="nan")) == {"mcc", "f1"}
    np.testing.assert_array_equal(counts.normalize("row"), cmfast.normalize(M, "row"))
    assert repr(counts) == "<ConfusionCounts: 60 samples, 3 classes, 3 groups>"
    assert repr(ConfusionCounts()) == "<ConfusionCounts: 0 samples, 0 classes>"
    with pytest.raises(ValueError, match="read-only"):
        counts.matrix[:] = 0
    with pytest.raises(TypeError, match="unhashable"):
        hash(counts)
    for same in (copy.copy(counts), copy.deepcopy(counts), pickle.loads(pickle.dumps(counts))):
        assert same == counts
    other = copy.copy(counts).update([0], [0], groups=["a"])
    assert other != counts
    assert counts != None  # noqa: E711  (it must not raise)


def test_frames_of_pandas():
    names = [texts(codes) for codes in CODES]
    whole = ConfusionCounts.from_labels(*names)
    pd.testing.assert_frame_equal(
        whole.to_pandas(), pd.crosstab(*(pd.Series(n) for n in names), rownames=["true"], colnames=["predicted"])
    )
    frame = ConfusionCounts.from_labels(*names, groups={"site": SITES, "model": MODELS}).to_pandas()
    assert frame.index.names == ["site", "model", "true"]
    rows = np.flatnonzero((SITES == "a") & (MODELS == 5))
    first = ConfusionCounts.from_labels(*([column[k] for k in rows] for column in names)).to_pandas()
    assert frame.loc[("a", 5)].loc[first.index, first.columns].equals(first)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_tables_of_metrics(library):
    pytest.importorskip(library)
    counts = ConfusionCounts.from_labels(*CODES, groups={"site": SITES, "model": MODELS})
    rows = counts.table(["accuracy", "mcc"], library=library)
    assert type(rows).__module__.partition(".")[0] == library
    found = rows.to_pydict() if library == "pyarrow" else {name: list(rows[name]) for name in rows.columns}
    assert list(found) == ["site", "model", "accuracy", "mcc"]
    assert list(zip(found["site"], found["model"], strict=True)) == list(counts.groups)
    np.testing.assert_array_equal(found["mcc"], counts.compute("mcc"))
    rows = counts.table(["accuracy", "f1"], library=library)
    found = rows.to_pydict() if library == "pyarrow" else {name: list(rows[name]) for name in rows.columns}
    assert found["class"] == [0, 1, 2] * len(counts.groups)
    np.testing.assert_array_equal(found["f1"], counts.compute("f1").ravel())
    np.testing.assert_array_equal(found["accuracy"], np.repeat(counts.compute("accuracy"), 3))
    assert len(ConfusionCounts.from_labels(*CODES).table("f1", library=library)) == 3
    assert len(ConfusionCounts.from_labels(*CODES).table("mcc", library=library)) == 1


def test_tables_of_all_metrics():
    counts = ConfusionCounts.from_labels(*CODES, groups=SITES)
    table = counts.table()
    assert list(table.columns) == ["groups", *metrics.SCALARS]
    assert table.equals(counts.table("scalars"))
    assert list(counts.compute()) == list(metrics.SCALARS)
    per_class = counts.table("per_class")
    assert list(per_class.columns) == ["groups", "class", *metrics.PER_CLASS]
    np.testing.assert_array_equal(per_class["f1"], counts.compute("f1").ravel())


def test_arrays_of_xarray():
    pytest.importorskip("xarray")
    counts = ConfusionCounts.from_labels(*map(texts, CODES), groups={"site": SITES, "model": MODELS})
    array = counts.to_xarray()
    assert array.dims == ("group", "true", "predicted")
    one = array[[*zip(array.site.values, array.model.values, strict=True)].index(("a", 5))]
    assert int(one.sel(true="low", predicted="mid")) == pairs(counts, ("a", 5)).get(("low", "mid"), 0)


def frames():
    frame = pd.DataFrame({"label": texts(CODES[0]), "guess": texts(CODES[1]), "site": SITES, "model": MODELS})
    frame["w"] = 0.5
    frame["size"] = pd.Categorical(RNG.choice(["S", "M", "L"], 60), ["S", "M", "L"], ordered=True)
    table = pa.Table.from_pandas(frame)
    return {"pandas": frame, "polars": pl.from_pandas(frame), "pyarrow": table}


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("keys", ["site", ["model", "site"]])
def test_groups_of_a_table(library, keys):
    frame = frames()[library]
    counts = cmfast.by(frame, keys, y_true="label", y_pred="guess")
    columns = {"site": SITES, "model": MODELS}
    named = [keys] if isinstance(keys, str) else keys
    wanted = ConfusionCounts.from_labels(*map(texts, CODES), groups={key: columns[key] for key in named})
    assert counts == wanted
    table = counts.table("accuracy")
    assert type(table).__module__.partition(".")[0] == library
    assert list(table.column_names if library == "pyarrow" else table.columns) == [*named, "accuracy"]
    assert type((counts + counts).table("accuracy")) is type(table)
    weighted = cmfast.by(frame, keys, y_true="label", y_pred="guess", sample_weight="w")
    np.testing.assert_array_equal(weighted.matrix, counts.matrix / 2)
    some = cmfast.by(frame, keys, y_true="label", y_pred="guess", labels=["mid", "low"])
    assert some.labels == ("mid", "low")


def test_groups_of_ordered_categories_keep_their_order():
    assert cmfast.by(frames()["pandas"], "size", y_true="label", y_pred="guess").groups == ("S", "M", "L")
    few = frames()["pandas"].query("size != 'M'")
    assert cmfast.by(few, "size", y_true="label", y_pred="guess").groups == ("S", "L")


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        (
            {"frame": {"a": [1]}},
            "frame must be .* or a Table of Arrow, got dict; give pandas.DataFrame",
        ),
        ({"frame": pl.LazyFrame({"site": [1]})}, "y_true must be one of the columns site, got 'label'"),
        ({"groups": "nosite"}, "groups must be one of the columns label, guess, .* got 'nosite'"),
        ({"groups": "sizze"}, "groups must be one of .* got 'sizze'; did you mean 'size'"),
        ({"groups": []}, "groups must be the name of a column, or a list of them"),
        ({"groups": None}, "groups must be the name of a column, or a list of them"),
        ({"groups": ["site", 3]}, "groups must be the name of a column, got int 3"),
        ({"groups": ["site", "site"]}, "groups must be different"),
        ({"y_true": "nolabel"}, "y_true must be one of the columns"),
        ({"y_pred": 5}, "y_pred must be the name of a column"),
        ({"sample_weight": "w2"}, "sample_weight must be one of the columns"),
    ],
)
def test_tables_that_cannot_be_counted(changes, match):
    given = {"frame": frames()["pandas"], "groups": "site", "y_true": "label", "y_pred": "guess", **changes}
    with pytest.raises((TypeError, ValueError), match=rf"^by: {match}"):
        cmfast.by(given.pop("frame"), given.pop("groups"), **given)


def test_a_column_of_which_there_are_two():
    frame = frames()["pandas"].rename(columns={"model": "site"})
    with pytest.raises(ValueError, match=r"^by: groups must be one of the columns .*, got 'site', which 2 of them are"):
        cmfast.by(frame, "site", y_true="label", y_pred="guess")


def test_states_of_torch():
    y, p = map(torch.from_numpy, CODES)
    counts = ConfusionCounts.from_labels(y, p, groups=SITES.tolist())
    file = io.BytesIO()
    torch.save(counts.state_dict(), file)
    file.seek(0)
    again = ConfusionCounts()
    again.load_state_dict(torch.load(file, weights_only=True))
    assert again == counts
    assert isinstance(again.matrix, torch.Tensor)
    again.update(y, p, groups=SITES.tolist())
    assert again == counts + counts
    for state in (None, {}, {**counts.state_dict(), "matrices": torch.ones(3)}, {**counts.state_dict(), "more": 1}):
        with pytest.raises((TypeError, ValueError), match=r"^ConfusionCounts\.load_state_dict: state_dict "):
            again.load_state_dict(state)
    assert again == counts + counts
    assert counts.sync() == counts


@pytest.mark.parametrize(
    "given",
    [
        {"y_true": ["a", "b"], "y_pred": ["a", "a"]},
        {"y_true": [2, 2**63], "y_pred": [2, 2], "groups": {"x": [1, 2], "y": ["u", "v"]}},
        {"y_true": [1, 2], "y_pred": [1, 1], "sample_weight": np.array([2**62 + 1, 3])},
        {"y_true": [1, 2], "y_pred": [1, 1], "sample_weight": [0.1, 5e-324]},
        {"y_true": np.array(["2026-01-01"], "M8[D]"), "y_pred": np.array(["2026-01-02"], "M8[D]")},
        {"y_true": [], "y_pred": [], "groups": []},
    ],
)
def test_states_of_numpy_in_checkpoints(given):
    counts = ConfusionCounts.from_labels(**given)
    file = io.BytesIO()
    torch.save(counts.state_dict(), file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    again = ConfusionCounts()
    again.load_state_dict(state)
    assert again == counts
    assert type(again.matrix) is np.ndarray
    assert again.matrix.dtype == counts.matrix.dtype
    for damage in ({"values": [[0.5]]}, {"shape": [3]}, {"dtype": "|O"}):
        name = "matrix" if counts.groups is None else "matrices"
        with pytest.raises(ValueError, match=rf"state_dict must be a state of ConfusionCounts: its {name} "):
            again.load_state_dict({**state, name: {**state[name], **damage}})
    assert again == counts


@pytest.mark.parametrize(
    ("given", "other", "match"),
    [
        ({"n_classes": 2}, {"n_classes": 3}, "with n_classes=2, as these were declared, got one with n_classes=3"),
        ({"n_classes": 2}, {}, r"with n_classes=2, .*, got one with found labels \(0, 1\)"),
        ({"labels": [0, 1]}, {"labels": [1, 0]}, r"with labels \(0, 1\), .*, got one with labels \(1, 0\)"),
        ({"labels": [0, 1]}, {"n_classes": 2}, r"with labels \(0, 1\), .*, got one with n_classes=2"),
    ],
)
def test_a_state_of_other_classes_than_those_declared(given, other, match):
    state = ConfusionCounts(**other).update([0, 1], [1, 1]).state_dict()
    counts = ConfusionCounts(**given).update([0], [0])
    before = counts.to_bytes()
    with pytest.raises(ValueError, match=rf"^ConfusionCounts\.load_state_dict: state_dict must be of counts {match}$"):
        counts.load_state_dict(state)
    assert counts.to_bytes() == before
    for free in (ConfusionCounts().update(["a"], ["b"]), ConfusionCounts(**other)):  # what is found takes any
        free.load_state_dict(state)
        assert free.state_dict()["classes"] == state["classes"]


PROCESS = """
import sys
import numpy as np, torch, torch.distributed as dist
import cmfast

rank, file, library = int(sys.argv[1]), sys.argv[2], sys.argv[3]
dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=3)
make = torch.tensor if library == "torch" else np.array
counts = cmfast.ConfusionCounts()
if rank == 0:
    counts.update(make([0, 1, 1]), make([0, 1, 2]), groups=["a", "b", "a"])
if rank == 1:
    counts.update(make([7, 1]), make([1, 1]), groups=["c", "a"], sample_weight=make([0.5, 2.0]))
every = counts.sync()
assert every.sync().n_samples == 3 * every.n_samples
alone = cmfast.ConfusionCounts(n_classes=2).update(make([rank % 2]), make([1])).sync()
assert alone.matrix.tolist() == [[0, 2], [0, 1]]
assert cmfast.ConfusionCounts().sync().labels == ()
assert isinstance(every.matrix, torch.Tensor) == (library == "torch")
print(every.labels, every.groups, every.matrix.tolist(), counts.n_samples)
dist.destroy_process_group()
"""


@pytest.mark.torch
@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without torch.distributed")
@pytest.mark.parametrize("library", ["torch", "numpy"])
def test_sums_over_processes(tmp_path, library):
    """Three processes with other labels and groups each, of which one has counted nothing."""
    command = [sys.executable, "-c", PROCESS]
    options = {"cwd": ROOT, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running = [subprocess.Popen([*command, str(k), str(tmp_path / "meet"), library], **options) for k in range(3)]
    said = [process.communicate(timeout=300) for process in running]
    assert [process.returncode for process in running] == [0, 0, 0], said
    first = ConfusionCounts.from_labels([0, 1, 1], [0, 1, 2], groups=["a", "b", "a"])
    both = first + ConfusionCounts.from_labels([7, 1], [1, 1], groups=["c", "a"], sample_weight=[0.5, 2.0])
    head = f"{both.labels} {both.groups} {both.matrix.tolist()}"
    assert [out.strip() for out, _ in said] == [f"{head} {n}" for n in (3, 2.5, 0)]


APART = """
import sys
import numpy as np, torch.distributed as dist
import cmfast
from cmfast._core import source_digest

rank, file, way = int(sys.argv[1]), sys.argv[2], sys.argv[3]
dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
n = 2**62 if way == "many" else 1
counts = cmfast.ConfusionCounts(n_classes=2).update([0], [rank], sample_weight=np.array([n]))
if way == "versions" and rank:
    source_digest.version_and_digest = lambda: "7.8.9"
try:
    print(counts.sync().matrix.tolist())
except (RuntimeError, OverflowError) as error:
    print(type(error).__name__, error)
dist.destroy_process_group()
"""


@pytest.mark.torch
@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without torch.distributed")
@pytest.mark.parametrize("way", ["one", "many", "versions"])
def test_processes_whose_counts_do_not_add_up(tmp_path, way):
    command = [sys.executable, "-c", APART]
    options = {"cwd": ROOT, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running = [subprocess.Popen([*command, str(k), str(tmp_path / "meet"), way], **options) for k in range(2)]
    said = [process.communicate(timeout=300) for process in running]
    assert [process.returncode for process in running] == [0, 0], said
    first, second = (out.strip() for out, _ in said)
    assert first == second
    if way == "one":
        assert first == "[[1, 1], [0, 0]]"
    elif way == "many":
        assert first.startswith("OverflowError ConfusionCounts.sync: counts must be counts of at most 2**63 - 1")
    else:
        assert re.fullmatch(
            r"RuntimeError ConfusionCounts\.sync: the processes have cmfast \S+ \(\w{12}\) and 7\.8\.9; install one "
            r"version on all machines",
            first,
        )


def test_files_that_contradict_themselves():
    counts = ConfusionCounts.from_labels(["a", "b"], ["b", "b"], groups={"g": ["x", "y"], "h": [2, 1]})
    good = {key: part for key, part in json.loads(counts.to_json()).items() if key != "digest"}
    assert ConfusionCounts.from_json(json.dumps(good)) == counts
    classes, columns = good["classes"], good["columns"]
    rows, M = good["groups"], good["matrices"]
    damage = {
        "classes": [None, [], {**classes, "labels": ["a"]}, {**classes, "labels": ["b", "a"]},
                    {**classes, "labels": ["a", "a"]}, {**classes, "labels": ["a", 1]},
                    {**classes, "labels": [[], "a"]},
                    {**classes, "kind": "integers"}, {**classes, "kind": "times"}, {**classes, "from": "x"},
                    {**classes, "from": "ids"}, {**classes, "from": [1]}, {**classes, "labels": {}},
                    {"from": "found", "kind": "times", "labels": ["a", "b"]},
                    {"from": "found", "kind": "bytes", "labels": ["\u0416", "b"]}],
        "columns": [None, [], columns[:1], columns * 2, [columns[0], columns[0]], [5, 6], [{}, {}],
                    [{**columns[0], "name": 5}, columns[1]]],
        "groups": [{**rows, "values": values} for values in ([[0, 1], [0, 1]], [[1, 0], [0, 1]], [[0, 1], [1, 2]],
                                                             [[0, 1], [1, -1]])],
        "matrices": [{**M, "shape": [1, 2, 4], "values": [[[0] * 4] * 2]}],
        "matrix": [{"dtype": "<i8", "shape": [2, 2], "values": [[0, 1], [1, 0]]}],
    }  # fmt: skip
    for name, values in damage.items():
        for value in values:
            with pytest.raises(ValueError, match=r"^ConfusionCounts\.from_json: text holds no ConfusionCounts"):
                ConfusionCounts.from_json(json.dumps({**good, name: value}))
    for name in ("classes", "columns", "groups"):
        with pytest.raises(ValueError, match=r"holds no ConfusionCounts"):
            ConfusionCounts.from_json(json.dumps({key: value for key, value in good.items() if key != name}))


@pytest.mark.parametrize("kind", COLUMNS)
def test_what_is_written_is_read(kind):
    make, _ = COLUMNS[kind]
    counts = ConfusionCounts.from_labels(make(CODES[0]), make(CODES[1]))
    for same in (ConfusionCounts.from_bytes(counts.to_bytes()), ConfusionCounts.from_json(counts.to_json())):
        assert same == counts
        assert same.labels == counts.labels
        assert [type(x) for x in same.labels] == [type(x) for x in counts.labels]


def test_orders_that_two_axes_make():
    def union(a, b):
        return Axis(tuple(a), "categories").union(Axis(tuple(b), "categories"), "labels").labels

    assert union("ac", "abc") == tuple("abc")
    assert union("bc", "abc") == tuple("abc")
    assert union("ab", "cd") == tuple("abcd")
    assert union("ab", "bxaz") == tuple("azbx")
    assert Axis((), "found").union(Axis(("b", "a"), "ordered"), "labels") == Axis(("b", "a"), "ordered")


def test_merge_on_counts_would_leave_these_out():
    counts = cmfast.ConfusionCounts.from_labels([0], [0])
    with pytest.raises(AttributeError, match=r"called on the class.*ConfusionCounts.merge\(\[a, b\]\)"):
        counts.merge([counts])
    assert cmfast.ConfusionCounts.merge([counts, counts]).n_samples == 2


def test_no_column_of_a_table_replaces_another():
    frame = pd.DataFrame({"class": ["a", "b"], "f1": ["x", "y"], "label": [0, 1], "guess": [1, 0]})
    table = cmfast.by(frame, ["class", "f1"], y_true="label", y_pred="guess").table(["f1"])
    assert list(table.columns) == ["'class'", "'f1'", "class", "f1"]
    assert table["'class'"].tolist() == ["a", "a", "b", "b"]
    assert table["'f1'"].tolist() == ["x", "x", "y", "y"]


def test_labels_of_another_kind_than_was_asked_for():
    with pytest.raises(TypeError, match=r"y_true and y_pred must be integers, as labels, got strings, \('0', '1'\)"):
        cmfast.ConfusionCounts(labels=[0, 1]).update(["0"], ["1"])


@pytest.mark.parametrize("groups", [None, ["a", "b"]])
def test_found_classes_without_their_matrix_are_no_state(groups):
    counts = ConfusionCounts.from_labels([0, 1], [0, 1], groups=groups)
    state = counts.state_dict()
    del state["matrix" if groups is None else "matrices"]
    held = ConfusionCounts.from_labels([5], [5])
    with pytest.raises(ValueError, match=r"it has classes, but no matrix of them|its groups are not whole"):
        held.load_state_dict(state)
    assert held.n_samples == 1
    facts = json.loads(counts.to_json())
    for name in ("digest", "matrix", "matrices"):
        facts.pop(name, None)
    with pytest.raises(ValueError, match=r"it has classes, but no matrix of them|its groups are not whole"):
        ConfusionCounts.from_json(json.dumps(facts))
    for empty in (ConfusionCounts(), ConfusionCounts(labels=[0, 1]), ConfusionCounts(n_classes=3)):
        assert ConfusionCounts.from_json(empty.to_json()) == empty
