"""Files that cannot be read, one by one: a line that says why, exit status 2, no output."""

import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from processes import ROOT

from cmfast import cli
from cmfast._files import scratch

pa = pytest.importorskip("pyarrow")
from pyarrow import feather, parquet  # noqa: E402


@pytest.fixture
def refused(tmp_path, monkeypatch, capsys):
    """Assert that the command says `text` in one line, and leaves the folder as it was."""
    monkeypatch.chdir(tmp_path)

    def run(*argv, text):
        before = sorted(Path().rglob("*"))
        assert cli.main([*argv, "--quiet"]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.count("\n") == 1, err
        assert err.startswith("cmfast: ")
        assert text in err
        assert sorted(Path().rglob("*")) == before

    return run


def write_npy(name, text, data=bytes(800), version=(1, 0)):
    head = text.encode("latin-1")
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    Path(name).write_bytes(
        b"\x93NUMPY" + bytes(version) + len(head).to_bytes(2 if version[0] == 1 else 4, "little") + head + data
    )


SHAPES = [
    "(-1, 5, 5)",
    "(-1, -1)",
    "(True, True)",
    "(1.5, 2)",
    "('a', 2)",
    "((",
    "(2, 2",
    ")",
    "(1,",
    "None",
    "[2, 2]",
    "{}",
]
SHAPES += [
    "(0, 1000000000000000000, 1000000000000000000)",
    "(100000000000000000000000, 2, 2)",
    "(9223372036854775807, 2)",
]
SHAPES += ["(4611686018427387904, 4, 4)", "(10, 10, 10)", "(" * 300 + ")" * 300, "2 ** 99"]


@pytest.mark.parametrize("shape", SHAPES)
def test_npy_shapes(refused, shape):
    write_npy("bad.npy", f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}")
    np.save("y.npy", np.zeros(3, int))
    refused("normalize", "bad.npy", "-o", "out.npy", text="bad.npy: ")
    refused("metrics", "bad.npy", text="bad.npy: ")
    refused("confusion", "bad.npy", "-o", "out.npz", text="bad.npy: ")
    refused("gcm", "bad.npy", "--labels", "y.npy", "--pred", "y.npy", "-o", "out.npz", text="bad.npy: ")


HEADS = {
    "nothing": "",
    "no dict": "3",
    "a call": "__import__('os').getcwd()",
    "no shape": "{'descr': '<f8', 'fortran_order': False, }",
    "no type": "{'descr': '<q9', 'fortran_order': False, 'shape': (2, 2), }",
    "huge type": "{'descr': '|V99999999999', 'fortran_order': False, 'shape': (2, 2), }",
    "objects": "{'descr': '|O', 'fortran_order': False, 'shape': (2, 2), }",
    "objects inside": "{'descr': [('a', '<i4'), ('b', '|O')], 'fortran_order': False, 'shape': (2,), }",
    "an escape": "{'descr': '\\d', 'fortran_order': False, 'shape': (2, 2), }",
    "latin": "{'descr': '\xe9', 'fortran_order': False, 'shape': (2, 2), }",
    "long": "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }" + " " * 20_000,
}


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0), (0, 9), (255, 255)])
def test_npy_heads(refused, name, version):
    write_npy("bad.npy", HEADS[name], version=version)
    refused("normalize", "bad.npy", "-o", "out.npy", text="bad.npy: ")
    refused("confusion", "bad.npy", text="bad.npy: ")


def test_npy_letters_that_unicode_lacks(refused):
    np.save("bad.npy", np.array([("a", "b"), ("a", "b")]))
    whole = Path("bad.npy").read_bytes()
    Path("bad.npy").write_bytes(whole[:-4] + b"\xff\xff\xff\x7f")
    refused("confusion", "bad.npy", text="letters that Unicode does not have")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'y_true,y_pred\n"a,b\na,b\n', "bad.csv: line 3: unexpected end of data"),
        (b'y_true,y_pred\na,"b\na,b\n', "bad.csv: line 3: "),
        (b'y_true,y_pred\n"a"b,c\n', "bad.csv: line 2: "),
        (b"y_true,y_pred\n" + b"a" * 200_000 + b",b\n", "bad.csv: line 2: field larger than field limit"),
        (b"y_true,y_pred\ra,b\r", "bad.csv: line 1: "),
        (b"y_true,y_pred,y_true\na,b,c\n", "bad.csv: has 2 columns named 'y_true'; give their numbers"),
        ("y_true,y_pred\na,b\n".encode("utf-16"), "bad.csv: is no UTF-8 text"),
        (b"\n\n\n", "bad.csv: needs two columns"),
        (b"y_true,y_pred\n,\n", "bad.csv: line 2 has an empty label"),
        (b"PK\x03\x04\xff\xff\xff", "bad.csv: "),
        (bytes(1000), "bad.csv: needs two columns"),
    ],
)
def test_csv(refused, text, message):
    Path("bad.csv").write_bytes(text)
    refused("confusion", "bad.csv", "--true", "y_true", "-o", "out.csv", text=message)


def columns():
    """Return columns of every type that holds no labels, each with what is said of it."""
    ints = [1, 2, 3]
    return {
        "binary": (pa.array([b"a", b"b", b"c"]), "binary"),
        "list": (pa.array([[1], [2], [3]]), "list<"),
        "struct": (pa.array([{"a": 1}, {"a": 2}, {"a": 3}]), "struct<"),
        "null": (pa.nulls(3), "row 0 of column 'bad': a label is missing"),
        "one null": (pa.array([1, None, 3]), "row 1 of column 'bad': a label is missing"),
        "null string": (pa.array(["a", "b", None]), "row 2 of column 'bad': a label is missing"),
        "decimal": (pa.array([Decimal(1), Decimal(2), Decimal(3)]), "decimal128"),
        "timestamp": (pa.array(ints, pa.timestamp("s")), "timestamp"),
        "date": (pa.array(ints, pa.date32()), "date32"),
        "duration": (pa.array(ints, pa.duration("s")), "duration"),
        "half": (pa.array([1.0, 2.5, 3.0]), "row 1 holds 2.5, which is no class label"),
        "not a number": (pa.array([1.0, 2.0, float("nan")]), "row 2 holds nan"),
        "infinity": (pa.array([float("inf"), 2.0, 3.0], pa.float32()), "row 0 holds inf"),
        "beyond 2**53": (pa.array([1.0, 2.0**53, 3.0]), "row 1 holds"),
        "map": (pa.array([[(1, 2)]] * 3, pa.map_(pa.int64(), pa.int64())), "map<"),
    }


@pytest.mark.parametrize("name", columns())
@pytest.mark.parametrize("suffix", ["parquet", "feather"])
def test_columns_that_hold_no_labels(refused, suffix, name):
    column, text = columns()[name]
    table = pa.table({"good": [1, 2, 3], "bad": column})
    (parquet.write_table if suffix == "parquet" else feather.write_feather)(table, f"bad.{suffix}")
    for argv in (("--true", "good", "--pred", "bad"), ("--true", "bad", "--pred", "good")):
        refused("confusion", f"bad.{suffix}", *argv, "-o", "out.npz", text=text)
    refused("metrics", f"bad.{suffix}", "--true", "good", "--pred", "0", "--by", "bad", text="bad.")


def test_a_dictionary_may_hold_what_is_missing(refused):
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(["a", None]))
    feather.write_feather(pa.table({"a": ["a", "a", "b"], "bad": column}), "bad.feather")
    refused("confusion", "bad.feather", text="column 'bad': a label is missing")


def test_rows_are_counted_from_the_start_of_the_file(refused):
    parquet.write_table(
        pa.table({"a": [1] * 10, "b": [*[1] * 9, None], "c": [*[1.0] * 9, 0.5]}), "bad.parquet", row_group_size=4
    )
    refused("confusion", "bad.parquet", "--true", "a", "--pred", "b", text="row 9 of column 'b': a label is missing")
    refused("confusion", "bad.parquet", "--true", "a", "--pred", "c", text="row 9 holds 0.5")
    refused("gcm", "bad.parquet", "--labels", "a", "--pred", "b", text="row 9: a label is missing in column 'b'")
    wide = {"x": [0.5] * 5, "a": [1] * 5, "b": pa.array([1] * 4 + [2**63], pa.uint64())}
    parquet.write_table(pa.table(wide), "wide.parquet", row_group_size=2)
    refused("gcm", "wide.parquet", "--labels", "a", "--pred", "b", text="row 4 of column 'b' holds 9223372036854775808")


@pytest.mark.parametrize("suffix", ["parquet", "feather"])
def test_two_columns_of_one_name(refused, suffix, capsys):
    arrays = [pa.array([0, 1]), pa.array([0.5, 1.5]), pa.array([1, 1]), pa.array([1, 0])]
    table = pa.Table.from_arrays(arrays, names=["a", "x", "b", "a"])
    if suffix == "parquet":
        parquet.write_table(table, "two.parquet")
    else:
        with pa.ipc.new_file("two.feather", table.schema) as file:
            file.write_table(table)
    name = f"two.{suffix}"
    refused("confusion", name, "--true", "a", "--pred", "b", text="has 2 columns named 'a'; give their numbers")
    refused("gcm", name, "--labels", "b", "--pred", "a", text="has 2 columns named 'a'")
    for pred, matrix in (("3", [[0, 1], [1, 0]]), ("2", [[0, 1], [0, 1]])):
        assert cli.main(["confusion", name, "--true", "0", "--pred", pred, "--json", "--quiet"]) == 0
        assert json.loads(capsys.readouterr().out)["matrix"] == matrix


def test_encrypted_and_cut_tables(refused):
    table = pa.table({"y_true": list(range(1000)), "y_pred": [f"{k}" for k in range(1000)]})
    parquet.write_table(table, "t.parquet")
    feather.write_feather(table, "t.feather", compression="lz4")
    feather.write_feather(table, "t.arrow", compression="uncompressed")
    for name in ("t.parquet", "t.feather", "t.arrow"):
        whole = Path(name).read_bytes()
        for stop in (0, 1, 4, 8, 100, len(whole) // 2, len(whole) - 5, len(whole) - 1):
            Path(f"cut.{name}").write_bytes(whole[:stop])
            refused("confusion", f"cut.{name}", text=f"cut.{name}: ")
        Path(f"other.{name}").write_bytes(whole[:4] + b"\xff" * (len(whole) - 16) + whole[-12:])
        refused("confusion", f"other.{name}", text=f"other.{name}: ")
    whole = Path("t.parquet").read_bytes()
    Path("secret.parquet").write_bytes(b"PARE" + whole[4:-4] + b"PARE")
    refused("confusion", "secret.parquet", text="secret.parquet: ")
    for name, other in (("t.parquet", "swapped.feather"), ("t.feather", "swapped.parquet"), ("t.arrow", "swapped.npy")):
        Path(other).write_bytes(Path(name).read_bytes())
        refused("confusion", other, text=f"{other}: ")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"shape": [4]}, ""),
        ({"shape": []}, ""),
        ({"shape": [-4, 2]}, ""),
        ({"shape": ["4", 2]}, ""),
        ({"shape": [10**30, 2]}, ""),
        ({"shape": [10**12, 2]}, "GiB in the folder for temporary files"),
        ({"shape": None}, ""),
        ({"data_type": "string", "fill_value": ""}, ""),
        ({"data_type": "complex128", "fill_value": [0, 0]}, "must hold numbers in rows"),
        ({"data_type": "nonsense"}, ""),
        ({"data_type": "bool"}, ""),
        ({"zarr_format": 9}, ""),
        ({"node_type": "group"}, ""),
        ({"codecs": []}, ""),
        ({"codecs": [{"name": "nonsense"}]}, ""),
        ({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [0, 2]}}}, ""),
        ({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}}}, ""),
        ({"chunk_grid": 3}, ""),
        ({"fill_value": "x"}, ""),
    ],
)
def test_odd_zarr(refused, monkeypatch, change, text):
    zarr = pytest.importorskip("zarr")
    monkeypatch.setattr(scratch, "get_free_bytes", lambda: 1 << 40)
    zarr.create_array("X.zarr", data=np.ones((4, 2)), chunks=(2, 2))
    np.save("y.npy", np.zeros(4, int))
    metadata = json.loads(Path("X.zarr/zarr.json").read_text())
    Path("X.zarr/zarr.json").write_text(json.dumps({**metadata, **change}))
    refused("gcm", "X.zarr", "--labels", "y.npy", "--pred", "y.npy", text=text)


def test_zarr_files(refused):
    zarr = pytest.importorskip("zarr")
    np.save("y.npy", np.zeros(4, int))
    zarr.create_array("X.zarr", data=np.ones((4, 2)), chunks=(2, 2))
    for name, data in (
        ("zarr.json", b""),
        ("zarr.json", b"{"),
        ("zarr.json", b"\xff"),
        ("c/0/0", b"xx"),
        ("c/0/0", None),
    ):
        path = Path("X.zarr", name)
        whole = path.read_bytes()
        path.unlink()
        if data is None:
            os.mkfifo(path)
        else:
            path.write_bytes(data)
        refused("gcm", "X.zarr", "--labels", "y.npy", "--pred", "y.npy", text="X.zarr")
        path.unlink()
        path.write_bytes(whole)
    Path("file.zarr").write_text("no folder")
    Path("none.zarr").mkdir()
    for name in ("file.zarr", "none.zarr"):
        refused("gcm", name, "--labels", "y.npy", "--pred", "y.npy", text=f"{name}: ")


@pytest.mark.exhaustive
def test_one_damaged_chunk_of_many_is_all_that_is_said(tmp_path):
    """What was being read beside it must not be spoken of when the process ends."""
    zarr = pytest.importorskip("zarr")
    np.save(tmp_path / "y.npy", np.arange(4000) % 3)
    zarr.create_array(tmp_path / "X.zarr", data=np.random.default_rng(0).normal(size=(4000, 6)), chunks=(100, 2))
    chunk = next(
        path for path in sorted((tmp_path / "X.zarr").rglob("*")) if path.parent.name == "7" and path.is_file()
    )
    chunk.write_bytes(chunk.read_bytes()[:5] + bytes(15))
    argv = ["gcm", "X.zarr", "--labels", "y.npy", "--pred", "y.npy", "--quiet"]
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-m", "cmfast", *argv],
            cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert "damaged zarr array" in done.stderr


SUFFIXES = ("npy", "csv", "tsv", "txt", "parquet", "pq", "arrow", "feather", "ipc")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_is_no_file(refused, monkeypatch, suffix):
    Path(f"folder.{suffix}").mkdir()
    os.mkfifo(f"pipe.{suffix}")
    Path(f"device.{suffix}").symlink_to("/dev/zero")
    Path(f"astray.{suffix}").symlink_to("nowhere")
    Path(f"loop.{suffix}").symlink_to(f"loop.{suffix}")
    Path(f"empty.{suffix}").write_bytes(b"")
    Path(f"closed.{suffix}").write_bytes(b"0,1\n")
    said = {
        "folder": "is a directory",
        "pipe": "is no regular file",
        "device": "is no regular file",
        "astray": "no such file",
        "loop": "symbolic links",
        "empty": "",
        "x" * 300: "too long",
        f"closed.{suffix}/x": "not a directory",
    }
    for name, text in said.items():
        refused("confusion", f"{name}.{suffix}", "-o", "out.npz", text=text)
    whole = Path.open

    def closed(path, *args, **options):  # root may read anything, so it is said for the system
        if path.name.startswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return whole(path, *args, **options)

    monkeypatch.setattr(Path, "open", closed)
    refused("confusion", f"closed.{suffix}", text=f"closed.{suffix}: permission denied")
