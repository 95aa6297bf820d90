"""Labels as people have them: text of any length, in any container; mixed, missing, huge, in tables and in columns."""

import functools
import itertools
import re
import tracemalloc
import warnings
from collections import Counter, deque
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from checks import assert_same_bits
from hypothesis import given
from hypothesis import strategies as st
from optional import polars as pl
from optional import torch
from sklearn import metrics as sklearn_metrics

import cmfast
from cmfast import metrics
from cmfast.kernels.cpu import counting


def by_hand(y_true, y_pred, labels=None):
    """Return the matrix of lists of labels: sorted as Python sorts them, that is text by code points."""
    order = sorted({*y_true, *y_pred}) if labels is None else labels
    pairs = Counter(zip(y_true, y_pred, strict=True))
    return [[pairs[t, p] for p in order] for t in order]


def halves(make):
    """Return what makes a chunked column from what makes an array."""
    return lambda x: pa.chunked_array([make(x[: len(x) // 2]), make(x[len(x) // 2 :])])


VARIABLE = np.dtypes.StringDType
TEXT = {  # every container of text; those before NumPy's keep trailing NULs
    "list": list,
    "tuple": tuple,
    "object": lambda x: np.array(x, object),
    "object-strided": lambda x: np.array([x, x], object).T[:, 0],
    "variable-width": lambda x: np.array(x, VARIABLE()),
    "pandas": pd.Series,
    "pandas-index": pd.Index,
    "pandas-object": lambda x: pd.Series(x, dtype=object),
    "pandas-python": lambda x: pd.Series(x, dtype="string[python]"),
    "pandas-pyarrow": lambda x: pd.Series(x, dtype="string[pyarrow]"),
    "pandas-arrow-type": lambda x: pd.Series(pd.arrays.ArrowExtensionArray(pa.array(x, pa.string()))),
    "pandas-arrow-dictionary": lambda x: pd.Series(pa.array(x).dictionary_encode().to_pandas()),
    "pandas-category": lambda x: pd.Series(x, dtype="category"),
    "pandas-category-object": lambda x: pd.Series(pd.Categorical(np.array(x, object))),
    "pandas-categorical": pd.Categorical,
    "polars": pl.Series,
    "polars-category": lambda x: pl.Series(x, dtype=pl.Categorical),
    "polars-enum": lambda x: pl.Series(x, dtype=pl.Enum([*dict.fromkeys(v for v in x if v is not None), "never"])),
    "arrow": pa.array,
    "arrow-large": lambda x: pa.array(x, pa.large_string()),
    "arrow-view": lambda x: pa.array(x, pa.string_view()),
    "arrow-dictionary": lambda x: pa.array(x).dictionary_encode(),
    "arrow-chunks": halves(lambda x: pa.array(x, pa.string())),
    "arrow-chunked-dictionaries": halves(lambda x: pa.array(x, pa.string()).dictionary_encode()),
    "numpy": np.array,
    "numpy-swapped": lambda x: np.array(x).astype(np.array(x).dtype.newbyteorder()),
}
KEEP_NUL = {name: make for name, make in TEXT.items() if not name.startswith("numpy")}
SORTED = {name: make for name, make in TEXT.items() if name != "polars-enum"}  # whose order is that of its categories
ALPHABET = ["a", "b", "B", " ", "é", "e\u0301", "ß", "\uffff", "😀", "\0x", "1", "\n"]


def words(rng, n, *, nul):
    """Return random labels: empty, alike, and in an order of code points that is not that of their UTF-16."""
    found = ["".join(rng.choice(ALPHABET, rng.integers(0, 4))) for _ in range(12)]
    found += ["", "a", "a ", *(["a\0", "a\0\0", "\0", "\0\0"] if nul else ["x\0y"])]
    return [found[k] for k in rng.integers(0, len(found), n)]


@pytest.mark.parametrize("make", SORTED.values(), ids=SORTED)
def test_text_in_every_container(rng, make):
    nul = make in KEEP_NUL.values()
    for n in (0, 1, 2, 300):
        t, p = words(rng, n, nul=nul), words(rng, n, nul=nul)
        if n == 0 and make in (TEXT["numpy"], TEXT["numpy-swapped"]):  # floats
            continue
        got = cmfast.confusion_matrix(make(t), make(p))
        assert got.dtype == np.int64
        assert got.tolist() == by_hand(t, p)
    labels = [*sorted({*t, *p})[::-2], "nowhere", "long " * 99]
    for some in (labels, np.array(labels, object), pd.Series(labels), pa.array(labels)):
        assert cmfast.confusion_matrix(make(t), make(p), labels=some).tolist() == by_hand(t, p, labels)


@pytest.mark.parametrize("make", SORTED.values(), ids=SORTED)
def test_text_agrees_with_scikit_learn(rng, make):
    """Which loses trailing NULs."""
    t, p = words(rng, 300, nul=False), words(rng, 300, nul=False)
    assert_same_bits(cmfast.confusion_matrix(make(t), make(p)), sklearn_metrics.confusion_matrix(t, p))
    labels = [*sorted({*t, *p})[::-2], "nowhere"]
    want = sklearn_metrics.confusion_matrix(t, p, labels=labels, normalize="true")
    np.testing.assert_allclose(
        cmfast.confusion_matrix(make(t), make(p), labels=labels, normalize="true"), want, rtol=1e-15
    )


@pytest.mark.parametrize(
    ("first", "second"), list(itertools.pairwise([*(SORTED[x] for x in KEEP_NUL if x in SORTED), list]))
)
def test_two_containers(rng, first, second):
    t, p = words(rng, 50, nul=True), words(rng, 50, nul=True)
    assert cmfast.confusion_matrix(first(t), second(p)).tolist() == by_hand(t, p)


@pytest.mark.parametrize("make", [SORTED[name] for name in KEEP_NUL if name in SORTED])
def test_trailing_nul_is_part_of_a_label(make):
    y, p = make(["a", "a\0", "a\0\0", "a"]), make(["a", "a", "a\0\0", "a\0"])
    assert cmfast.confusion_matrix(y, p).tolist() == [[1, 1, 0], [1, 0, 0], [0, 0, 1]]


BYTES = {
    "list": list,
    "object": lambda x: np.array(x, object),
    "polars": pl.Series,
    "arrow": pa.array,
    "arrow-dictionary": lambda x: pa.array(x).dictionary_encode(),
    "numpy": np.array,
}


@pytest.mark.parametrize("make", BYTES.values(), ids=BYTES)
def test_bytes(rng, make):
    values = [b"b", b"\xff", b"", b"a", *([] if make is np.array else [b"a\0", b"\0"])]
    t, p = ([values[k] for k in rng.integers(0, len(values), 60)] for _ in range(2))
    assert cmfast.confusion_matrix(make(t), make(p)).tolist() == by_hand(t, p)
    assert cmfast.confusion_matrix(make(t), make(p), labels=make(values)).tolist() == by_hand(t, p, values)


def test_subclasses_of_text_are_text():
    class Name(str):
        __slots__ = ()

        def __hash__(self):  # as the enumerations of some Python versions
            return 0

        __eq__ = str.__eq__

    y = [Name("b"), "a", np.str_("b")]
    assert cmfast.confusion_matrix(y, ["b", "a", "a"]).tolist() == [[1, 0], [1, 1]]
    assert cmfast.confusion_matrix([np.bytes_(b"b"), b"a"], [b"b", b"b"]).tolist() == [[0, 1], [0, 1]]


def test_lone_surrogates_are_labels():
    assert cmfast.confusion_matrix(["\ud800", "x"], ["\ud801", "x"]).tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 0]]


def as_objects(x):
    """Return text as Python objects; integers as they are."""
    return x.astype(object) if x.dtype.kind == "U" else x


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("make", [np.ndarray.tolist, as_objects, np.asarray, lambda x: x[::-1]])
def test_batches_weights_and_groups_of_text(rng, make, weighted):
    """As the same call with the positions of the labels among the sorted ones."""
    names = np.array(["", "bee", "a long name of a class", "Zoë"])
    t, p = rng.integers(0, 4, (3, 40)), rng.integers(0, 4, (2, 1, 40))
    place = {name: k for k, name in enumerate(sorted(names.tolist()))}
    ids = np.array([place[name] for name in names.tolist()])
    options = {"groups": rng.integers(0, 2, 40)} | ({"sample_weight": rng.random((3, 40))} if weighted else {})
    got = cmfast.confusion_matrix(make(names[t]), make(names[p]), **options)
    assert_same_bits(got, cmfast.confusion_matrix(make(ids[t]), make(ids[p]), **options))
    got = cmfast.confusion_matrix(make(names[t]), make(names[p]), labels=["bee", "Zoë"], **options)
    assert_same_bits(
        got, cmfast.confusion_matrix(make(ids[t]), make(ids[p]), labels=[place["bee"], place["Zoë"]], **options)
    )


def test_more_classes_than_one_table_of_labels(rng):
    names = [f"class {k}" for k in range(counting.MOST_LABEL_SPAN + 100)]
    t, p = rng.integers(0, len(names), (2, 9000))
    want = np.zeros((len(names), len(names)), np.int64)
    np.add.at(want, (t, p), 1)
    t, p = ([names[k] for k in y] for y in (t, p))
    np.testing.assert_array_equal(cmfast.confusion_matrix(t, p, labels=names), want)
    names, order = np.unique(names, return_inverse=True)
    assert {*t, *p} == {*names.tolist()}
    np.testing.assert_array_equal(cmfast.confusion_matrix(t, p)[np.ix_(order, order)], want)


def peak(*args, **options):
    """Return the bytes that a call holds at most at a time, beside its arguments."""
    tracemalloc.start()
    try:
        cmfast.confusion_matrix(*args, **options)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.exhaustive
@pytest.mark.parametrize("make", KEEP_NUL.values(), ids=KEEP_NUL)
def test_memory_follows_the_total_length_of_labels(make):
    """One long label among many short ones: an array of fixed width would take 800 MB."""
    n, longest = 20_000, 10_000
    short = [f"class {k % 7}" for k in range(n)]
    y, p = make([*short, "x" * longest]), make(["y" * longest, *short])
    labels = ["class 3", "x" * longest]
    many = make(["a", "b"] * counting.MOST_NUMPY_SAMPLES)
    cmfast.confusion_matrix(many, many)  # compiles, imports
    total = 2 * (sum(map(len, short)) + longest)
    assert peak(y, p) < 24 * total
    assert peak(y, p, labels=labels) < 24 * total
    assert cmfast.confusion_matrix(y, p, labels=labels).tolist() == by_hand([*short, labels[1]], ["y", *short], labels)


@pytest.mark.exhaustive
def test_memory_beside_numpys_own_text():
    """It has the width of its longest label already: no second copy of that."""
    y = np.array([*(f"class {k % 7}" for k in range(10_000)), "x" * 400])
    cmfast.confusion_matrix(
        ["a"] * 2 * counting.MOST_NUMPY_SAMPLES, ["a"] * 2 * counting.MOST_NUMPY_SAMPLES
    )  # compiles, imports
    assert peak(y, y) < y.nbytes / 10
    assert peak(np.array([y, y]).T[:, 0], y) < y.nbytes / 10


@pytest.mark.parametrize("function", [cmfast.normalize, cmfast.ipf])
def test_memory_of_text_where_numbers_are_wanted(function):
    M = [["x" * 100_000, "a"], *(["a", "b"] for _ in range(1000))]
    tracemalloc.start()
    try:
        with pytest.raises(TypeError, match="M must be real numbers"):
            function(M, *(["row"] if function is cmfast.normalize else []))
        assert tracemalloc.get_traced_memory()[1] < 2e6
    finally:
        tracemalloc.stop()


# Values of two types

MIXED = {
    "text-int": (["a", 1], "str .'a' at 0. and int .1 at 1."),
    "int-text": ([1, "a"], "int .1 at 0. and str .'a' at 1."),
    "bool-text": ([True, "a"], "bool .True at 0. and str"),
    "float-text": ([1.5, "a"], "float .1.5 at 0. and str"),
    "bytes-text": ([b"a", "a"], "bytes .b'a' at 0. and str"),
    "numpy-text": ([np.int8(3), "a"], "int8 .*3.* at 0. and str"),
    "late": ([*"abc", 7], "str .'a' at 0. and int .7 at 3."),
    "batch": ([["a", "b"], ["c", 7]], r"str .'a' at \(0, 0\). and int .7 at \(1, 1\)."),
    "rows": ([np.array([1, 2]), np.array(["a", "b"])], r"int .1 at \(0, 0\). and str .'a' at \(1, 0\)."),
    "huge": (["x" * 10**6, 1], "str .'x{39} at 0. and int"),
}
HOLDERS = {
    "list": lambda x: x,
    "tuple": tuple,
    "object": lambda x: np.array(x, object),
    "category": lambda x: x if isinstance(x[0], list | np.ndarray) else pd.Series(x, dtype="category"),
}


@pytest.mark.parametrize("hold", HOLDERS.values(), ids=HOLDERS)
@pytest.mark.parametrize(("values", "text"), MIXED.values(), ids=MIXED)
def test_values_of_two_types_are_refused(values, text, hold):
    """NumPy makes text of all of them: 1 and "1" would be one label."""
    bad, good = hold(values), ["a"] * len(values)
    for name, call in {
        "y_true": lambda: cmfast.confusion_matrix(bad, good),
        "y_pred": lambda: cmfast.confusion_matrix(good, bad),
        "labels": lambda: cmfast.confusion_matrix(good, good, labels=bad),
        "sample_weight": lambda: cmfast.confusion_matrix(good, good, sample_weight=bad),
        "groups": lambda: cmfast.confusion_matrix(good, good, groups=bad),
    }.items():
        with pytest.raises(TypeError, match=rf"^confusion_matrix: {name} must be values of one type, got {text}"):
            call()
    with pytest.raises(TypeError, match=rf"^metrics.label_margins: y_true must be values of one type, got {text}"):
        metrics.label_margins(bad, good)
    with pytest.raises(TypeError, match=rf"^normalize: M must be values of one type, got {text}"):
        cmfast.normalize(bad, "row")


def test_rows_of_different_lengths():
    for bad in ([["a", "b"], ["c"]], [["a"], ["b", "c"]], ["a", ["b"]], [[1, None], [2]]):
        with pytest.raises(TypeError, match=r"^confusion_matrix: y_true must be "):
            cmfast.confusion_matrix(bad, bad)
    endless = []
    endless.append(endless)
    with pytest.raises(TypeError, match=r"^confusion_matrix: y_true must be "):
        cmfast.confusion_matrix(endless, endless)


@pytest.mark.parametrize("make", [lambda x: np.array(x, object), lambda x: pd.Series(x, dtype=object)])
def test_integers_as_python_objects_are_integers(make):
    """A column of a DataFrame whose rows held something else, too."""
    for values in (
        [3, 1, 3],
        [True, False, True],
        [2**63, 0, 2**63 + 1],
        [np.int8(3), 5, np.uint64(7)],
        [True, 7, -(2**63)],
    ):
        other = values[::-1]
        want = cmfast.confusion_matrix(values, other)
        assert_same_bits(cmfast.confusion_matrix(make(values), make(other)), want)
        assert_same_bits(cmfast.confusion_matrix(make(values), other), want)
        assert_same_bits(cmfast.ConfusionCounts.from_labels(make(values), make(other)).matrix, want)
        assert metrics.from_labels(make(values), make(other), "accuracy") == metrics.from_labels(
            values, other, "accuracy"
        )
    frame = pd.DataFrame({"y": [1, "x", 2], "p": [1, "x", 1]}).drop(1)
    assert frame.y.dtype == object
    assert cmfast.confusion_matrix(frame.y, frame.p, sample_weight=make([2**53 + 1, 1])).tolist() == [
        [2**53 + 1, 0],
        [1, 0],
    ]
    for values in ([2**64, 1], [-1, 2**63]):
        with pytest.raises(TypeError, match="y_true must be integers that int64 or uint64 holds together"):
            cmfast.confusion_matrix(make(values), [0, 1])


def test_floats_as_python_objects_have_a_cure():
    text = r"^confusion_matrix: y_true must be an array of numbers, got Python objects .*; give y_true.astype\(float\)"
    for bad in (np.array([0.5, np.nan], object), pd.Series([0.5, np.nan], dtype=object)):
        with pytest.raises(TypeError, match=text):
            cmfast.confusion_matrix(bad, bad)


@pytest.mark.parametrize("make", [np.array, pd.Series, torch.tensor, list, pl.Series, pa.array])
def test_floats_that_are_whole_by_an_option_that_the_error_names(make):
    y, p = [1.0, 3.0, 3.0], [1.0, 3.0, 1.0]
    of_counts = cmfast.ConfusionCounts.from_labels
    for call in (cmfast.confusion_matrix, metrics.label_margins, of_counts, functools.partial(of_counts, n_classes=4)):
        with pytest.raises(
            TypeError, match=r"y_true must be .*, got dtype float\d\d; whole_floats=True takes whole numb"
        ):
            call(make(y), make(p))
        call(make(y), make(p), whole_floats=True)
        with pytest.raises(ValueError, match=r"y_pred must be whole numbers, got 0\.5 at 2"):
            call(make(y), make([1.0, 3.0, 0.5]), whole_floats=True)
    assert np.array_equal(cmfast.confusion_matrix(make(y), make(p), whole_floats=True), [[1, 0], [1, 1]])
    counts = of_counts(make(y), make(p), whole_floats=True)
    assert counts.labels == (1, 3)
    assert counts.update(make(y), make(p), whole_floats=True).n_samples == 6
    assert of_counts(["a"], ["b"], whole_floats=True).labels == ("a", "b")


def test_groups_of_labels_that_are_floats():
    frame = pd.DataFrame({"site": ["u", "v", "u"], "y": [1.0, 2.0, 2.0], "p": [1.0, 1.0, 2.0]})
    counts = cmfast.by(frame, "site", y_true="y", y_pred="p", whole_floats=True)
    assert (counts.labels, counts.matrix.tolist()) == ((1, 2), [[[1, 0], [0, 1]], [[0, 0], [1, 0]]])
    assert cmfast.by(frame, "site", y_true="y", y_pred="p", whole_floats=True, ignore_index=2).n_samples == 1
    with pytest.raises(TypeError, match=r"^by: y_true must be .*whole_floats=True takes whole numbers"):
        cmfast.by(frame, "site", y_true="y", y_pred="p")


# Integers that float64 does not hold

EDGES = [0, 1, -1, 2**53, 2**53 + 1, 2**63 - 1, 2**63 - 2, -(2**63), 1 - 2**63, 2**63, 2**63 + 1, 2**64 - 1, 2**64 - 2]


def held(values, rng):
    """Return containers that hold these integers exactly."""
    found = [values, [np.uint64(v) if v >= 2**63 else np.int64(v) for v in values]]
    for dtype in (np.int64, np.uint64):
        info = np.iinfo(dtype)
        if info.min <= min(values) and max(values) <= info.max:
            array = np.array(values, dtype)
            found += [
                array,
                array.astype(array.dtype.newbyteorder()),
                pd.Series(array),
                pl.Series(array),
                pa.array(array),
            ]
    return found[rng.integers(len(found))]


def test_no_two_integers_become_one_label(rng):
    counted = refused = 0
    for _ in range(400):
        some = [EDGES[k] for k in rng.permutation(len(EDGES))[: rng.integers(1, 5)]]
        t, p = ([some[k] for k in rng.integers(0, len(some), 6)] for _ in range(2))
        labels = some if rng.random() < 0.5 else None
        options = {} if labels is None else {"labels": held(labels, rng)}
        if any(min(values) < 0 and max(values) >= 2**63 for values in ([t, p] if labels is None else [t, p, labels])):
            with pytest.raises(TypeError, match="integers that int64 or uint64 holds together, got -"):
                cmfast.confusion_matrix(held(t, rng), held(p, rng), **options)
            refused += 1
        else:
            assert cmfast.confusion_matrix(held(t, rng), held(p, rng), **options).tolist() == by_hand(t, p, labels)
            counted += 1
    assert counted > 200
    assert refused > 5


@pytest.mark.parametrize(
    ("values", "got"),
    [
        ([2**63, -1], "got -1 and 9223372036854775808"),
        ([[0, 2**64 - 1], [-5, 3]], "got -5 and 18446744073709551615"),
        ([2**64, 1], "got one of 65 bits"),
        ([-(2**70), 1], "got one of 71 bits"),
        ([10**5000, 1], "got one of 16610 bits"),
        ([np.uint64(2**63), np.int64(-1)], "got -1 and 9223372036854775808"),
    ],
)
def test_integers_that_no_type_holds(values, got):
    with pytest.raises(TypeError, match=rf"^confusion_matrix: y_true must be integers that int64 or uint64 .*{got}"):
        cmfast.confusion_matrix(values, values)
    with pytest.raises(TypeError, match=rf"^confusion_matrix: labels must be integers that int64 or uint64 .*{got}"):
        cmfast.confusion_matrix([1, 2], [1, 2], labels=values)


@pytest.mark.parametrize("value", [np.ma.masked, np.ma.masked_array([1, 2], [0, 1])])
def test_masks_in_lists_are_not_lost(value):
    with pytest.raises(
        TypeError, match=r"^confusion_matrix: y_true must be an array, got masked values in a list; fill"
    ):
        cmfast.confusion_matrix([value, value], [value, value])


# Whatever a list may hold

WHATEVER = [
    0,
    1,
    -1,
    True,
    False,
    2**63,
    2**63 + 1,
    -(2**63),
    2**64,
    1.0,
    1.5,
    1j,
    np.nan,
    np.float32(1),
    np.float64(np.nan),
]
WHATEVER += ["a", "a\0", "", "1", "nan", "None", "True", b"a", b"a\0", np.str_("a"), np.bytes_(b"a"), np.array("a")]
WHATEVER += [None, pd.NA, pd.NaT, np.int8(1), np.uint64(2**63), np.bool_(True), np.datetime64("NaT"), Decimal("NaN")]
WHATEVER += [
    object,
    np.array(1),
    (),
    ("a",),
    [1],
    [[]],
    {1: 1},
    range(1),
    np.array(["a"]),
    pd.Series([1]),
    np.ma.masked,
]


def as_object_array(values):
    """Return one object per value, whatever it is."""
    out = np.empty(len(values), object)
    for k, value in enumerate(values):
        out[k] = value
    return out


@given(
    st.lists(st.sampled_from(range(len(WHATEVER))), min_size=1, max_size=3, unique=True),
    st.lists(st.integers(0, 2), min_size=1, max_size=5),
    st.sampled_from([list, tuple, deque, as_object_array, lambda x: pd.Series(as_object_array(x))]),
)
def test_labels_are_told_apart_or_refused(kinds, order, make):
    """Never raw words of a library, never two labels for one, never one for two."""
    values = [WHATEVER[kinds[k % len(kinds)]] for k in order]
    try:
        M = cmfast.confusion_matrix(make(values), make(values))
    except (TypeError, ValueError) as error:
        M, said = None, str(error)
    if M is None:
        assert said.startswith(("confusion_matrix: y_true must be ", "confusion_matrix: y_true and y_pred must be "))
    elif M.ndim == 2:
        assert M.shape[0] == len({value if np.isscalar(value) else value[()] for value in values})
        assert M.trace() == M.sum() == len(values)


# Missing values

INTEGERS = {
    "pandas-Int64": lambda x: pd.Series(x, dtype="Int64"),
    "pandas-UInt8": lambda x: pd.Series(x, dtype="UInt8"),
    "pandas-array": lambda x: pd.array(x, dtype="Int32"),
    "pandas-index": lambda x: pd.Index(x, dtype="Int64"),
    "pandas-arrow": lambda x: pd.Series(x, dtype="int64[pyarrow]"),
    "pandas-category": lambda x: pd.Series(pd.array(x, dtype="Int64"), dtype="category"),
    "polars": pl.Series,
    "polars-small": lambda x: pl.Series(x, dtype=pl.Int8),
    "arrow": pa.array,
    "arrow-chunks": halves(lambda x: pa.array(x, pa.int64())),
    "arrow-dictionary": lambda x: pa.array(x).dictionary_encode(),
}
BOOLEANS = {
    "pandas-boolean": lambda x: pd.Series(x, dtype="boolean"),
    "pandas-arrow": lambda x: pd.Series(x, dtype="bool[pyarrow]"),
    "polars": pl.Series,
    "arrow": pa.array,
}
FLOATS = {
    "pandas-Float64": lambda x: pd.Series(x, dtype="Float64"),
    "pandas-arrow": lambda x: pd.Series(x, dtype="double[pyarrow]"),
    "polars": pl.Series,
    "arrow": pa.array,
    "arrow-chunks": halves(lambda x: pa.array(x, pa.float64())),
}
LISTS = {"list": list, "object": lambda x: np.array(x, object), "pandas-object": lambda x: pd.Series(x, dtype=object)}
GAPPY = [
    *(
        pytest.param(make, ["a", None, "b", None], id=name)
        for name, make in TEXT.items()
        if name not in {"variable-width", "numpy", "numpy-swapped"}
    ),
    *(pytest.param(make, [3, None, 1, None], id=f"integers-{name}") for name, make in {**INTEGERS, **LISTS}.items()),
    *(pytest.param(make, [True, None, False, None], id=f"bool-{name}") for name, make in {**BOOLEANS, **LISTS}.items()),
    *(pytest.param(make, ["a", np.nan, "b", np.nan], id=f"nan-{name}") for name, make in LISTS.items()),
    *(pytest.param(make, ["a", pd.NA, "b", pd.NA], id=f"NA-{name}") for name, make in LISTS.items()),
    *(pytest.param(make, [1, pd.NA, 2, pd.NaT], id=f"NaT-{name}") for name, make in LISTS.items()),
    pytest.param(lambda x: np.array(x, VARIABLE(na_object=None)), ["a", None, "b", None], id="variable-None"),
    pytest.param(lambda x: np.array(x, VARIABLE(na_object=np.nan)), ["a", np.nan, "b", np.nan], id="variable-nan"),
    pytest.param(
        lambda x: pa.DictionaryArray.from_arrays([0, 1, 0, 1], x[:2]), ["a", None], id="arrow-null-of-its-own"
    ),
]


@pytest.mark.parametrize(("make", "values"), GAPPY)
def test_missing_values_are_named(make, values):
    """Whatever the column: how many, and where the first is."""
    bad = make(values)
    good = ["a"] * 4 if values[0] == "a" else [1] * 4
    for op, name, call in [
        ("confusion_matrix", "y_true", lambda: cmfast.confusion_matrix(bad, good)),
        ("confusion_matrix", "y_pred", lambda: cmfast.confusion_matrix(good, bad)),
        ("confusion_matrix", "labels", lambda: cmfast.confusion_matrix(good, good, labels=bad)),
        ("confusion_matrix", "groups", lambda: cmfast.confusion_matrix(good, good, groups=bad)),
        ("confusion_matrix", "sample_weight", lambda: cmfast.confusion_matrix(good, good, sample_weight=bad)),
        ("metrics.label_margins", "y_true", lambda: metrics.label_margins(bad, bad)),
        ("metrics.threshold_matrices", "y_true", lambda: metrics.threshold_matrices(bad, [0.1, 0.2, 0.3, 0.4])),
    ]:
        text = rf"^{op}: {name} must be without missing values, got 2 missing \(first: \S+ at 1\); fill them in, or "
        with pytest.raises(ValueError, match=text):
            call()


@pytest.mark.parametrize("make", [np.array, pd.Series, torch.tensor, list, *FLOATS.values()])
def test_missing_labels_that_are_floats(make):
    """What pandas makes of a column of integers with gaps."""
    bad = make([1.0, float("nan"), 2.0, float("nan")])
    good = torch.tensor([1] * 4) if make is torch.tensor else [1] * 4
    gaps = r"dtype float(64|32) with 2 missing \(first: nan at 1\)($|; (labels come first|leave these samples out))"
    for op, name, wanted, call in [
        ("confusion_matrix", "y_true", "integers, bool or strings", lambda: cmfast.confusion_matrix(bad, good)),
        ("confusion_matrix", "y_pred", "integers, bool or strings", lambda: cmfast.confusion_matrix(good, bad)),
        ("confusion_matrix", "labels", "integers as y_true", lambda: cmfast.confusion_matrix(good, good, labels=bad)),
        ("confusion_matrix", "groups", "integers", lambda: cmfast.confusion_matrix(good, good, groups=bad)),
        ("metrics.label_margins", "y_true", "integers", lambda: metrics.label_margins(bad, bad)),
        ("metrics.threshold_matrices", "y_true", "integers", lambda: metrics.threshold_matrices(bad, bad)),
    ]:
        with pytest.raises(TypeError, match=rf"^{op}: {name} must be {wanted}, got {gaps}"):
            call()


@pytest.mark.parametrize("make", FLOATS.values(), ids=FLOATS)
def test_missing_weights_are_bad_values(make):
    """They are floats, of which a missing one is NaN: the matrix that it falls into says so, as for any NaN."""
    y, weight = [0, 1, 1], make([0.5, None, 2.0])
    with pytest.warns(cmfast.FailureWarning, match="confusion_matrix: matrices not computed: INVALID"):
        assert np.isnan(cmfast.confusion_matrix(y, y, n_classes=2, sample_weight=weight)).all()
    with pytest.warns(cmfast.FailureWarning, match="1 of 2 matrices not computed .first: 1.: 1 INVALID"):
        M = cmfast.confusion_matrix(y, y, n_classes=2, sample_weight=weight, groups=[0, 1, 0])
    assert M[0].tolist() == [[0.5, 0], [0, 2]]


@pytest.mark.parametrize("make", {**INTEGERS, **BOOLEANS}.values(), ids={**INTEGERS, **BOOLEANS})
def test_nullable_columns_without_gaps(make):
    values = [True, False, True, True] if make in BOOLEANS.values() and make not in INTEGERS.values() else [3, 1, 3, 3]
    y = make(values)
    p = values[::-1]
    assert cmfast.confusion_matrix(y, p).tolist() == by_hand(values, p)
    assert cmfast.confusion_matrix(p, y).tolist() == by_hand(p, values)
    want = cmfast.confusion_matrix(p, p, groups=np.array(values, int), sample_weight=np.array(values, int))
    assert_same_bits(cmfast.confusion_matrix(p, p, groups=y, sample_weight=y), want)
    assert cmfast.confusion_matrix(y, p, labels=make(values[:2])).tolist() == by_hand(values, p, values[:2])
    found, wanted = metrics.label_margins(y, y), metrics.label_margins(values, values)
    assert all(a.tolist() == b.tolist() for a, b in zip(found, wanted, strict=True))


@pytest.mark.parametrize("make", FLOATS.values(), ids=FLOATS)
def test_nullable_weights_without_gaps(make):
    y, weight = [0, 1, 1], [0.5, 0.25, 2.0]
    assert cmfast.confusion_matrix(y, y, sample_weight=make(weight)).tolist() == [[0.5, 0], [0, 2.25]]


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["Int64", "Float64", "int64[pyarrow]", "double[pyarrow]", "boolean", "UInt8"])
@pytest.mark.parametrize("other", ["Int64", "float64", "bool", "float32", "double[pyarrow]"])
def test_tables_of_nullable_columns_are_matrices(kind, other):
    M = np.array([[1, 1], [0, 1]])
    table = pd.DataFrame({"a": M[:, 0], "b": M[:, 1]}).astype({"a": kind, "b": other})
    np.testing.assert_array_equal(cmfast.normalize(table, "row"), [[0.5, 0.5], [0, 1]])
    table.iloc[1, 0] = None
    with pytest.warns(cmfast.FailureWarning, match=r"normalize: INVALID: NaN value at M\[1, 0\]"):
        assert np.isnan(cmfast.normalize(table, "row")).all()


def test_bools_beside_numbers_in_a_table():
    table = pd.DataFrame({"a": [1, 3], "b": [True, False]})
    np.testing.assert_array_equal(cmfast.normalize(table, "row"), [[0.5, 0.5], [1, 0]])


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (pd.MultiIndex.from_tuples([(1, 2)]), r"must be an array of numbers, got Python objects \(tuple\)"),
        (pd.DataFrame({"a": [1], "b": ["x"]}), r"must be values of one type, got int .* and str"),
    ],
    ids=["MultiIndex", "mixed"],
)
def test_columns_and_tables_that_are_none(x, text):
    with pytest.raises(TypeError, match=f"^normalize: M {text}"):
        cmfast.normalize(x, "row")


NOTHING = [[], (), pd.Series([], dtype=object), pd.Series([], dtype="string[python]"), pl.Series([]), pa.array([])]
NOTHING += [pa.chunked_array([], pa.string()), pa.chunked_array([], pa.dictionary(pa.int32(), pa.string()))]


@pytest.mark.parametrize(
    "y", NOTHING, ids=[f"{type(y).__module__}.{type(y).__name__}-{k}" for k, y in enumerate(NOTHING)]
)
def test_columns_of_no_labels(y):
    assert cmfast.confusion_matrix(y, y).shape == (0, 0)
    assert cmfast.confusion_matrix(y, y, labels=["a", "b"]).tolist() == [[0, 0], [0, 0]]
    with pytest.raises(ValueError, match=r"^confusion_matrix: y_pred must be 1 samples as y_true, got shape \(0,\)"):
        cmfast.confusion_matrix(["a"], y)
    with pytest.raises(ValueError, match=r"^confusion_matrix: y_pred must be 0 samples as y_true, got shape \(1,\)"):
        cmfast.confusion_matrix(y, [1])


def test_categories_that_never_occur_and_their_order():
    """The order is that of the labels, as for any other column, where that of the categories means nothing."""
    sizes = pd.CategoricalDtype(["small", "middle", "large", "never"])
    y, p = (pd.Series(x, dtype=sizes) for x in (["small", "large", "middle"], ["small", "large", "large"]))
    assert cmfast.confusion_matrix(y, p).tolist() == by_hand(y.tolist(), p.tolist())
    enum = pl.Enum(["small", "middle", "large", "never"])
    found = cmfast.confusion_matrix(pl.Series(y.tolist(), dtype=enum), p)
    assert found.tolist() == by_hand(y.tolist(), p.tolist(), enum.categories.to_list()[:3])
    M = cmfast.confusion_matrix(y, p, labels=sizes.categories)
    assert M.tolist() == by_hand(y.tolist(), p.tolist(), list(sizes.categories))
    odd = pd.Series(["a", "b"], dtype=pd.CategoricalDtype(["a", "b", 7]))
    assert cmfast.confusion_matrix(odd, odd).tolist() == [[1, 0], [0, 1]]


def test_dictionaries_with_repeated_values():
    y = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), pa.array(["a", "a", "b"]))
    assert cmfast.confusion_matrix(y, ["a", "b", "b"]).tolist() == [[1, 1], [0, 1]]
    numbers = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), pa.array([5, 5, 3]))
    assert cmfast.confusion_matrix(numbers, [5, 3, 3]).tolist() == [[1, 0], [1, 1]]


def test_label_twice_among_labels_is_named():
    with pytest.raises(ValueError, match=r"labels must be unique, got 'b' 2 times$"):
        cmfast.confusion_matrix(["a"], ["a"], labels=["a", "b", "b"])
    with pytest.raises(ValueError, match=r"labels must be unique, got 7 2 times$"):
        cmfast.confusion_matrix([1], [1], labels=[7, 1, 7])


# Tables, and columns that are matrices

TABLES = {
    "pandas": (lambda x: pd.DataFrame({"label": x}), r"a pandas DataFrame; pass a column: {}\['label'\]$"),
    "polars": (lambda x: pl.DataFrame({"label": x}), r"a polars DataFrame; pass a column: {}\['label'\]$"),
    "polars-lazy": (
        lambda x: pl.LazyFrame({"label": x}),
        r"a polars LazyFrame; pass a column: {}\.collect\(\)\['name'\]$",
    ),
    "arrow": (lambda x: pa.table({"label": x}), r"a pyarrow Table; pass a column: {}\['label'\]$"),
    "arrow-batch": (lambda x: pa.record_batch({"label": x}), r"a pyarrow RecordBatch; pass a column: {}\['label'\]$"),
    "pandas-two": (lambda x: pd.DataFrame({7: x, "b": x}), r"a pandas DataFrame; pass a column: {}\[7\]$"),
    "polars-two": (lambda x: pl.DataFrame({"b": x, "a": x}), r"a polars DataFrame; pass a column: {}\['b'\]$"),
    "pandas-none": (lambda x: pd.DataFrame(index=x), r"a pandas DataFrame; pass a column: {}\['name'\]$"),
}


@pytest.mark.parametrize(("make", "text"), TABLES.values(), ids=TABLES)
def test_tables_are_no_labels(make, text):
    y = [0, 1, 1]
    table = make(y)
    X, grid = [[0.1], [0.2], [0.3]], cmfast.Grid([0.0], [1.0])
    for op, name, call in [
        ("confusion_matrix", "y_true", lambda: cmfast.confusion_matrix(table, y)),
        ("confusion_matrix", "y_pred", lambda: cmfast.confusion_matrix(y, table, n_classes=2)),
        ("confusion_matrix", "labels", lambda: cmfast.confusion_matrix(y, y, labels=table)),
        ("confusion_matrix", "groups", lambda: cmfast.confusion_matrix(y, y, groups=table)),
        ("confusion_matrix", "sample_weight", lambda: cmfast.confusion_matrix(y, y, sample_weight=table)),
        ("metrics.label_margins", "y_true", lambda: metrics.label_margins(table, table)),
        ("metrics.label_margins", "y_pred", lambda: metrics.label_margins(y, table, n_classes=2)),
        ("metrics.threshold_matrices", "y_true", lambda: metrics.threshold_matrices(table, [0.1, 0.2, 0.3])),
        ("cell_counts", "y_true", lambda: cmfast.cell_counts(X, table, y, grid=grid)),
        ("cell_counts", "y_pred", lambda: cmfast.cell_counts(X, y, table, grid=grid)),
        ("geometric_confusion_matrix", "y_true", lambda: cmfast.geometric_confusion_matrix(X, table, y)),
        ("width_curve", "y_pred", lambda: cmfast.width_curve(X, y, table)),
    ]:
        with pytest.raises(TypeError, match=rf"^{op}: {name} must be an array of labels, got {text.format(name)}"):
            call()


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_tables_are_matrices(make):
    M = np.array([[4, 1], [2, 3]])
    assert_same_bits(cmfast.normalize(make(M), "row"), cmfast.normalize(M, "row"))


CONTAINERS = [np.array, list, torch.tensor]


@pytest.mark.parametrize("make", CONTAINERS)
def test_a_column_matrix_is_hardly_ever_a_batch(make):
    """It is n rows of one sample each: n matrices, where one is wanted."""
    y = make([[0], [1], [1]])
    text = r"y_true and y_pred must be of shape .*samples last, got shape \(3, 1\), which is 3 rows of one sample"
    with pytest.raises(ValueError, match=f"^confusion_matrix: {text}; for 3 samples ravel them to shape "):
        cmfast.confusion_matrix(y, y)
    with pytest.raises(ValueError, match=f"^metrics.label_margins: {text}"):
        metrics.label_margins(y, y)


def test_a_column_matrix_beside_a_row_is_named():
    column, row = np.array([[0], [1], [1]]), np.array([0, 1, 1])
    for args in ((column, row), (row, column)):
        with pytest.raises(ValueError, match=r"; ravel what has shape \(3, 1\), samples come last$"):
            cmfast.confusion_matrix(*args)
    with pytest.raises(ValueError, match=r"^confusion_matrix: sample_weight .*; ravel what has shape \(3, 1\)"):
        cmfast.confusion_matrix(row, row, sample_weight=np.ones((3, 1)))


@pytest.mark.parametrize("make", CONTAINERS)
def test_a_column_matrix_with_known_classes_may_be_one(make):
    """The last piece of a stream, of one sample for each of three models."""
    y = make([[0], [1], [1]])
    text = r"y_true and y_pred are of shape \(3, 1\), which is 3 rows of one sample"
    for options in ({"n_classes": 2}, {"labels": [0, 1]}):
        with pytest.warns(cmfast.DiagnosticWarning, match=f"^confusion_matrix: {text}") as caught:
            M = cmfast.confusion_matrix(y, y, **options)
        assert caught[0].filename == __file__
        assert M.tolist() == [[[1, 0], [0, 0]], [[0, 0], [0, 1]], [[0, 0], [0, 1]]]
    with pytest.warns(cmfast.DiagnosticWarning, match=f"^metrics.label_margins: {text}"):
        assert metrics.label_margins(y, y, n_classes=2).diagonal.tolist() == [[1, 0], [0, 1], [0, 1]]
    text = r"y_true and y_score are of shape \(3, 1\), which is 3 rows of one sample"
    with pytest.warns(cmfast.DiagnosticWarning, match=f"^metrics.threshold_matrices: {text}"):
        assert tuple(metrics.threshold_matrices(y, y).matrices.shape) == (3, 2, 2, 2)


def test_other_batches_of_one_sample_are_silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cmfast.confusion_matrix([[0]], [[1]]).shape == (1, 2, 2)
        assert cmfast.confusion_matrix([0], [[0], [1]]).shape == (2, 2, 2)
        assert cmfast.confusion_matrix(np.zeros((2, 3, 1), int), np.zeros((2, 3, 1), int)).shape == (2, 3, 1, 1)
        assert cmfast.confusion_matrix(np.zeros((0, 1), int), np.zeros((0, 1), int)).shape == (0, 0, 0)


def test_a_column_matrix_beside_a_column():
    y, column = [0, 1, 1], [[0], [1], [1]]
    with pytest.raises(ValueError, match=r"y_pred must be 3 samples as y_true, got shape \(3, 1\)"):
        cmfast.confusion_matrix(y, column)
    with pytest.raises(ValueError, match=r"y_pred must be 1 samples as y_true of shape \(3, 1\), got shape \(3,\)"):
        cmfast.confusion_matrix(column, y)


def test_empty_lists_are_no_labels():
    with pytest.warns(cmfast.DiagnosticWarning, match="no samples"):
        assert metrics.from_labels([], [], "accuracy", n_classes=2) == 0.0
    assert metrics.label_margins([], [], n_classes=2).diagonal.tolist() == [0, 0]
    assert metrics.threshold_matrices([], []).matrices.shape[-2:] == (2, 2)


def by_places(t, p, **options):
    """Return the matrix of text the long way: places among the sorted labels that occur."""
    order = sorted({*t, *p}) if "labels" not in options else list(options.pop("labels"))
    known = {name: k for k, name in enumerate(order)}
    ids = [np.array([known.get(x, len(order)) for x in y], np.int64) for y in (t, p)]
    C = len(order)
    return cmfast.confusion_matrix(*ids, n_classes=C + 1, **options)[..., :C, :C]


CODED = {
    "pandas": lambda x: pd.Series(pd.Categorical(x, ["never", "b", "a", "c", "nor"])),
    "pandas-object": lambda x: pd.Series(pd.Categorical(x, pd.Index(["b", "a", 3, "c"], dtype=object))),
    "polars": lambda x: pl.Series(["nor", *x], dtype=pl.Categorical)[1:],
    "polars-all": lambda x: pl.Series(x, dtype=pl.Categorical),
    "polars-enum": lambda x: pl.Series(x, dtype=pl.Enum(["a", "b", "c", "never"])),
    "arrow": lambda x: pa.DictionaryArray.from_arrays(pa.array([["b", "a", "c"].index(v) for v in x]), ["b", "a", "c"]),
    "arrow-twice": lambda x: pa.DictionaryArray.from_arrays(
        pa.array([["b", "a", "c", "a"].index(v) + 2 * (k % 2) * (v == "a") for k, v in enumerate(x)]), list("baca")
    ),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("make", CODED.values(), ids=CODED)
@pytest.mark.parametrize("n", [5, 9000])
def test_codes_of_text_count_as_the_text_does(rng, make, n):
    t, p = (rng.choice(["a", "b", "c"][:most], n).tolist() for most in (2, 3))
    weight = {"sample_weight": rng.integers(0, 5, n)}
    halves_ = {"sample_weight": rng.random(n)}
    groups = {"groups": rng.integers(0, 3, n), "n_groups": 4}
    for options in ({}, weight, halves_, groups, groups | weight, groups | halves_, {"labels": ["c", "x", "a"]}):
        want = by_places(t, p, **options)
        assert_same_bits(cmfast.confusion_matrix(make(t), make(p), **options), want)
    assert cmfast.confusion_matrix(make(t), make(p), ignore_index="b").tolist() == by_hand(
        *zip(*[(a, b) for a, b in zip(t, p, strict=True) if a != "b"], strict=True)
    )
    for options in ({}, weight, groups, groups | weight):
        want = metrics.compute(by_places(t, p, **options), ["f1", "mcc", "kappa"])
        for name, value in metrics.from_labels(make(t), make(p), list(want), **options).items():
            assert_same_bits(value, want[name])
    rows = np.array([p, t]).reshape(2, n)
    assert_same_bits(cmfast.confusion_matrix(make(t), rows)[0], cmfast.confusion_matrix(t, p, labels=sorted({*t, *p})))


def test_weights_of_labels_that_are_left_out_spoil_nothing():
    y, weight = ["a", "b", "c"], [1.0, np.nan, 2.0]
    assert cmfast.confusion_matrix(y, y, labels=["a", "c"], sample_weight=weight).tolist() == [[1, 0], [0, 2]]
    with pytest.warns(cmfast.FailureWarning, match="INVALID"):
        assert np.isnan(cmfast.confusion_matrix(y, y, sample_weight=weight)).all()


def test_categories_that_nobody_uses_do_not_hide_what_is_strange():
    known = ["cat", "dog", "Cat", "Dog"]
    t, p = (pd.Categorical(y, known) for y in (["cat", "dog"], ["Cat", "Dog"]))
    for call in (cmfast.confusion_matrix, metrics.label_margins):
        with pytest.warns(cmfast.DiagnosticWarning, match="no label in common, of 2 and 2"):
            call(t, p)
        with pytest.raises(ValueError, match="groups must be at least 0"):
            call(t, t, groups=[0, -1])


@pytest.mark.parametrize("make", TEXT.values(), ids=TEXT)
def test_groups_of_text(make):
    y, p, groups = [0, 1, 1, 0], [0, 1, 0, 1], make(["u", "s", "u", "t"])
    want = cmfast.confusion_matrix(y, p, groups=[2, 0, 2, 1])
    assert cmfast.confusion_matrix(y, p, groups=groups).tolist() == want.tolist()
    text = [["no", "yes"][k] for k in y], [["no", "yes"][k] for k in p]
    assert cmfast.confusion_matrix(*text, groups=groups).tolist() == want.tolist()
    assert metrics.from_labels(y, p, "accuracy", groups=groups).tolist() == [1, 0, 0.5]
    assert metrics.from_labels(*text, "accuracy", groups=groups).tolist() == [1, 0, 0.5]
    for call in (cmfast.confusion_matrix, metrics.label_margins):
        with pytest.raises(ValueError, match="n_groups must be None where groups are text, got 3"):
            call(y, p, groups=groups, n_groups=3)
    with pytest.raises(ValueError, match="groups must be without missing values"):
        cmfast.confusion_matrix(y, p, groups=["u", None, "u", "t"])


DAYS = np.array(["2024-01-02", "2024-01-01"], "datetime64[D]")


@pytest.mark.parametrize("call", [metrics.from_labels, metrics.label_margins])
@pytest.mark.parametrize(
    ("dates", "cure"),
    [
        (DAYS, "give dates as text, which .astype(str) makes of them"),
        (pd.Series(DAYS), "give dates as text, which .astype(str) makes of them"),
        (DAYS.tolist(), "give dates as text: list(map(str, y_true))"),
        ([pd.Timestamp(day) for day in DAYS], "give dates as text: list(map(str, y_true))"),
    ],
    ids=["numpy", "pandas", "date", "Timestamp"],
)
def test_dates_are_refused_with_what_to_give(call, dates, cure):
    with pytest.raises(TypeError, match=re.escape(cure)):
        call(dates, dates)
    call(list(map(str, dates)), list(map(str, dates)))


@pytest.mark.parametrize("make", [np.asarray, pd.Series, pl.Series, pa.array])
def test_counts_of_dates(make):
    days = np.array(["2024-01-02", "2024-01-01", "2024-01-02"], "datetime64[D]")
    counts = cmfast.ConfusionCounts.from_labels(make(days), make(days[::-1].copy()))
    assert counts.labels == tuple(np.unique(days))
    assert counts.matrix.tolist() == cmfast.confusion_matrix(days, days[::-1]).tolist()
    assert (counts + counts).update(make(days), make(days)).n_samples == 9
    assert cmfast.ConfusionCounts.from_json(counts.to_json()) == counts
    chosen = cmfast.ConfusionCounts(labels=days[:1]).update(make(days), make(days))
    assert (chosen.labels, chosen.matrix.tolist()) == ((days[0],), [[2]])
    gap = np.array(["2024-01-02", "NaT"], "datetime64[D]")
    with pytest.raises(ValueError, match="y_true must be without missing values, got 1 missing"):
        cmfast.ConfusionCounts.from_labels(make(gap), make(gap))


def test_dates_beside_anything_else_are_refused_with_what_to_give():
    for y, p, options in (
        (DAYS, ["a", "b"], {}),
        ([0, 1], DAYS, {}),
        (DAYS, DAYS, {"n_classes": 2}),
        ([0, 1], [0, 1], {"groups": DAYS}),
    ):
        with pytest.raises(TypeError, match=r"got dtype datetime64\[D\]; give dates as text"):
            cmfast.confusion_matrix(y, p, **options)
