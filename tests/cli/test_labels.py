"""Labels of every kind through the command: none is changed, merged or lost, from any kind of file into any other."""

import csv
import json
import sys
import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import cmfast
from cmfast._files import tables
from cmfast.cli import _labels
from cmfast.cli.commands import _confusion

pa = pytest.importorskip("pyarrow")
from pyarrow import feather, parquet  # noqa: E402

# Neighbours that float64 takes for one, texts that a careless writer breaks.
KINDS = {
    "small": [2, 10, -3],
    "int64": [-(2**63), -(2**63) + 1, 2**63 - 1, 2**63 - 2],
    "uint64": [0, 2**63, 2**63 + 1, 2**64 - 1, 2**64 - 2],
    "strings": ["b", "a", "ab", "1", "01"],
    "awkward": [
        "a,b",
        'say "x"',
        "two\nlines",
        "tab\there",
        "\x1b[31mred",
        "\u202eabc",
        "\xe9",
        "e\u0301",
        "\U0001f600",
    ],
    "returns": ["a\rb", "a\r\nb", "a\nb"],
    "bool": [False, True],
}
TYPES = {"small": "i2", "int64": "i8", "uint64": "u8", "bool": "?"}
INPUTS = ("npy", "fields.npy", "csv", "tsv", "parquet", "feather", "coded.parquet", "coded.arrow")


def pairs_of(labels):
    """Return each label against itself and its neighbour, in numbers that tell every pair apart."""
    n = len(labels)
    return [pair for k in range(n) for pair in [(labels[k], labels[k])] * (k + 1) + [(labels[k], labels[(k + 1) % n])]]


def write(form, kind, pairs):
    """Write the pairs; return the name of the file."""
    name = f"in.{form}"
    suffix = form.rpartition(".")[2]
    if suffix == "npy":
        array = np.array(pairs, TYPES.get(kind))
        if form != "npy":
            array = np.array(list(map(tuple, pairs)), [("y_true", array.dtype), ("y_pred", array.dtype)])
        np.save(name, array)
    elif suffix in {"csv", "tsv"}:
        with Path(name).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, delimiter="," if suffix == "csv" else "\t").writerows([("y_true", "y_pred"), *pairs])
    else:
        columns = (pa.array([pair[k] for pair in pairs], *arrow_type(kind)) for k in (0, 1))
        columns = [column.dictionary_encode() if form.startswith("coded") else column for column in columns]
        table = pa.table(dict(zip(("y_true", "y_pred"), columns, strict=True)))
        (parquet.write_table if suffix == "parquet" else feather.write_feather)(table, name)
    return name


def arrow_type(kind):
    return [pa.from_numpy_dtype(TYPES[kind])] if kind in TYPES else []


def read(name):
    """Return labels and matrix of an output, by means that know nothing of cmfast."""
    suffix = Path(name).suffix
    if suffix == ".json":
        found = json.loads(Path(name).read_bytes())
        return found["labels"], found["matrix"]
    if suffix == ".npz":
        with np.load(name, allow_pickle=False) as archive:
            return archive["labels"].tolist(), archive["matrix"].tolist()
    with Path(name).open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file, strict=True))
    assert rows[0][1:] == [row[0] for row in rows[1:]]
    return rows[0][1:], [[int(cell) for cell in row[1:]] for row in rows[1:]]


def expected(pairs, labels):
    counts = Counter(pairs)
    return [[counts[t, p] for p in labels] for t in labels]


@pytest.mark.exhaustive
@pytest.mark.parametrize("rows", [2, 1 << 18])
@pytest.mark.parametrize("form", INPUTS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_label_arrives(run, monkeypatch, kind, form, rows):
    monkeypatch.setattr(tables, "TABLE_BLOCK_ROWS", rows)
    pairs = pairs_of(KINDS[kind])
    labels = sorted(KINDS[kind])
    want = expected(pairs, labels)
    name = write(form, kind, pairs)
    status, out, err = run("confusion", name, "--json")
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert (found["labels"], found["matrix"]) == (labels, want)
    assert list(map(type, found["labels"])) == list(map(type, labels))
    if rows > 2:
        for output in ("out.npz", "out.csv", "out.json"):
            assert run("confusion", name, "-o", output)[0] == 0
            got = read(output)
            assert got == (list(map(str, labels)) if output == "out.csv" else labels, want)
        assert run("confusion", name, "-o", "out.npy")[0] == 0
        assert np.load("out.npy", allow_pickle=False).tolist() == want


@pytest.mark.parametrize(("kind", "dtype"), [("small", "i8"), ("int64", "i8"), ("uint64", "u8"), ("bool", "?")])
def test_integers_stay_integers_in_npz(run, kind, dtype):
    name = write("npy", kind, pairs_of(KINDS[kind]))
    assert run("confusion", name, "-o", "out.npz")[0] == 0
    with np.load("out.npz", allow_pickle=False) as archive:
        assert archive["labels"].dtype == np.dtype(dtype)


def test_integers_that_share_no_type_are_text_in_numerical_order(run):
    labels = ["-20", "-3", "5", str(2**63)]
    table = {"y_true": pa.array([-20, -3, 5], pa.int64()), "y_pred": pa.array([2**63, 5, 2**63], pa.uint64())}
    parquet.write_table(pa.table(table), "mixed.parquet")
    Path("mixed.csv").write_text(f"y_true,y_pred\n-20,{2**63}\n-3,5\n5,{2**63}\n")
    want = [[0, 0, 0, 1], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]]
    for name in ("mixed.parquet", "mixed.csv"):
        for output in ("out.npz", "out.csv", "out.json"):
            assert run("confusion", name, "-o", output, "--force")[0] == 0
            assert read(output) == (labels, want)


def test_integers_of_any_length(run):
    long = "1" * 5000  # beyond what Python turns into a number
    for labels in ([long, long[:-1] + "2"], [str(2**64), str(2**64 + 1), "9"], ["9" * 640, "9" * 641]):
        Path("long.csv").write_text("y_true,y_pred\n" + "".join(f"{a},{b}\n" for a, b in pairs_of(labels)))
        status, out, _ = run("confusion", "long.csv", "-o", "out.npz", "--force", "--json")
        assert status == 0
        assert sorted(json.loads(out)["labels"]) == sorted(labels)
        assert sorted(read("out.npz")[0]) == sorted(labels)
    assert run("confusion", "long.csv", "--true", "9" * 5000)[0] == 2


def test_a_nul_at_the_end_is_kept_or_refused(run):
    pairs = [("a", "a\0"), ("a\0", "a\0"), ("a", "a"), ("\0", "a")]
    labels = ["\0", "a", "a\0"]
    parquet.write_table(pa.table({"y_true": [t for t, _ in pairs], "y_pred": [p for _, p in pairs]}), "nul.parquet")
    Path("nul.csv").write_text("y_true,y_pred\n" + "".join(f"{a},{b}\n" for a, b in pairs))
    for name in ("nul.parquet", *(["nul.csv"] if sys.version_info >= (3, 11) else [])):
        for output in ("out.json", "out.csv"):
            assert run("confusion", name, "-o", output, "--force")[0] == 0
            assert read(output) == (labels, expected(pairs, labels))
        status, out, err = run("confusion", name, "-o", "out.npz")
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert "NUL" in err
        assert not Path("out.npz").exists()
        status, out, err = run("confusion", name)
        assert out.splitlines()[0].split() == ["true", "\\", "pred", r"\x00", "a", r"a\x00"]


def test_a_lone_surrogate_is_kept_or_refused(run):
    np.save("odd.npy", np.array([("\ud800", "a"), ("a", "a")]))
    status, out, err = run("confusion", "odd.npy", "-o", "out.json")
    assert (status, err) == (0, "")
    assert read("out.json")[0] == ["a", "\ud800"]
    assert run("confusion", "odd.npy", "-o", "out.npz")[0] == 0
    assert read("out.npz")[0] == ["a", "\ud800"]
    status, out, err = run("confusion", "odd.npy", "-o", "out.csv")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert not Path("out.csv").exists()


def test_labels_of_two_kinds_are_refused_with_both(run):
    parquet.write_table(pa.table({"t": [1, 2], "p": ["1", "2"], "b": [True, False]}), "two.parquet")
    status, _, err = run("confusion", "two.parquet", "--true", "t", "--pred", "p")
    assert status == 2
    assert "the truth holds integers, but the prediction strings" in err
    assert json.loads(run("confusion", "two.parquet", "--true", "t", "--pred", "b", "--json")[1])["labels"] == [0, 1, 2]


def test_classes_that_do_not_occur_are_no_classes(run):
    # A categorical column keeps the categories of the table that it was cut from, and may hold one twice.
    codes = pa.DictionaryArray.from_arrays(pa.array([2, 0, 2]), pa.array(["x", "never", "y"]))
    parquet.write_table(pa.table({"t": codes, "p": codes}), "cut.parquet")
    assert json.loads(run("confusion", "cut.parquet", "--json")[1])["labels"] == ["x", "y"]
    numbers = pa.DictionaryArray.from_arrays(pa.array([2, 0, 2]), pa.array([7.0, 8.5, 9.0]))
    feather.write_feather(pa.table({"t": numbers, "p": numbers}), "cut.feather")
    assert json.loads(run("confusion", "cut.feather", "--json")[1])["labels"] == [7, 9]
    twice = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), pa.array(["x", "y", "x"]))
    feather.write_feather(pa.table({"t": twice, "p": twice}), "twice.feather")
    found = json.loads(run("confusion", "twice.feather", "--json")[1])
    assert (found["labels"], found["matrix"]) == (["x", "y"], [[2, 0], [0, 1]])


SIZES = ["never", "S", "M", "L"]


def ordered(labels, sizes=SIZES):
    return pa.DictionaryArray.from_arrays(pa.array([sizes.index(x) for x in labels], pa.int8()), sizes, ordered=True)


@pytest.mark.parametrize("form", ["parquet", "feather"])
def test_ordered_categories_keep_their_order(run, form, monkeypatch):
    """Of labels and of groups, in blocks; labels without an order come behind."""
    monkeypatch.setattr(tables, "TABLE_BLOCK_ROWS", 2)
    y, p, site = ["L", "S", "M", "L", "S"], ["L", "M", "M", "S", "S"], ["M", "S", "S", "M", "S"]
    table = pa.table({"y": ordered(y), "p": ordered(p), "q": [*p[:4], "a"], "site": ordered(site), "one": ["x"] * 5})
    write = parquet.write_table if form == "parquet" else feather.write_feather
    write(table, f"t.{form}", **({"row_group_size": 3} if form == "parquet" else {"chunksize": 3}))
    found = json.loads(run("confusion", f"t.{form}", "--true", "y", "--pred", "p", "--json")[1])
    assert (found["labels"], found["matrix"]) == (["S", "M", "L"], [[1, 1, 0], [0, 1, 0], [1, 0, 1]])
    found = json.loads(run("confusion", f"t.{form}", "--true", "y", "--pred", "q", "--json")[1])
    assert found["labels"] == ["S", "M", "L", "a"]
    options = ("--true", "y", "--pred", "p", "--by", "site", "--only", "kappa_quadratic", "--json")
    found = json.loads(run("metrics", f"t.{form}", *options)[1])
    assert [group["group"] for group in found["groups"]] == ["S", "M"]
    found = json.loads(
        run("metrics", f"t.{form}", "--true", "y", "--pred", "p", "--only", "kappa_quadratic", "--json")[1]
    )
    places = [[SIZES.index(x) for x in some] for some in (y, p)]
    assert found["metrics"]["kappa_quadratic"] == cmfast.metrics.from_labels(*places, "kappa_quadratic")
    options = ("--true", "y", "--pred", "p", "--pred", "q", "--only", "kappa_linear", "--resamples", "9", "--json")
    assert json.loads(run("compare", f"t.{form}", *options)[1])["labels"] == ["S", "M", "L", "a"]


def test_orders_that_contradict_each_other(run):
    y = ["S", "M"]
    parquet.write_table(pa.table({"y": ordered(y), "p": ordered(y, SIZES[::-1])}), "t.parquet")
    status, _, err = run("confusion", "t.parquet")
    assert status == 2
    assert "t.parquet: labels must be of ordered categories that agree, got ('never', 'S'," in err


@pytest.mark.parametrize("form", ["csv", "parquet", "feather"])
def test_memory_follows_the_length_of_all_labels(run, form):
    # One long label must not make room for its length in every row: 20,000 rows would take 8 GB.
    pairs = [(str(k % 7), str(k % 5)) for k in range(20_000)] + [("x" * 100_000, "1")]
    name = write(form, "strings", pairs)
    assert run("confusion", name, "--json")[0] == 0  # compiled, imported
    tracemalloc.start()
    try:
        assert run("confusion", name, "-o", "out.json")[0] == 0
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 32 << 20
    assert read("out.json")[0][-1] == "x" * 100_000


def test_npz_refuses_labels_that_would_fill_it_with_nothing(run, monkeypatch):
    monkeypatch.setattr(_confusion, "LABEL_BYTES", 1000)
    Path("long.csv").write_text("y_true,y_pred\na," + "b" * 1000 + "\n")
    status, out, err = run("confusion", "long.csv", "-o", "out.npz")
    assert (status, out) == (2, "")
    assert "write csv or json" in err
    assert not Path("out.npz").exists()
    assert run("confusion", "long.csv", "-o", "out.csv")[0] == 0


def test_a_column_of_ids_is_no_column_of_labels(run, monkeypatch):
    monkeypatch.setattr(_labels, "_memory", lambda: 8 * 99**2)
    Path("ids.csv").write_text("y_true,y_pred\n" + "".join(f"{k},{k}\n" for k in range(100)))
    status, out, err = run("confusion", "ids.csv")
    assert (status, out) == (2, "")
    assert "100 classes" in err
    assert run("confusion", "ids.csv", "-o", "out.npz")[0] == 2
    assert not Path("out.npz").exists()


@pytest.mark.parametrize(
    "values",
    [
        np.arange(-128, 128, 3).astype(np.int8),
        np.array([True, False, True]),
        np.array([], np.int64),
        np.array([2**64 - 1, 2**64 - 2], np.uint64),
        np.array([-(2**63), -(2**63) + 5, 2**63 - 1]),
        np.array([-(2**63), -(2**63) + 5]),
        np.array([7, 5, 7, 900], ">i4"),
    ],
)
def test_labels_are_told_apart(values):
    found = tables.encode_column(Path("x.npy"), values, 0)
    labels, codes = np.unique(values, return_inverse=True)
    assert [(type(label), label) for label in found.labels] == [(type(label), label) for label in labels.tolist()]
    np.testing.assert_array_equal(found.codes, codes)
