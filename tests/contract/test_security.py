"""No pickle, no network, no code from data: what SECURITY.md says, read from the sources and tried."""

import ast
import asyncio
import json
import pickle
import re
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
import yaml
from processes import ROOT, python

import cmfast
from cmfast._files import contact_maps, points, tables
from cmfast._files.output import FileError
from cmfast._files.stores import Url

pytestmark = pytest.mark.house

FOLDERS = ROOT / "cmfast", ROOT / "kernels"
NETWORK = {"aiohttp", "ftplib", "http", "httpx", "requests", "smtplib", "socket", "ssl", "urllib", "xmlrpc"}
# Where a name that could do harm is used, and for what.
SOCKETS = {"cmfast/_core/source_digest.py"}  # the name of this machine, for a message
ADDRESSES = {"cmfast/_files/sources.py", "cmfast/_files/stores.py"}  # parts of a URL
PICKLES = {"kernels/cpu/_core/jit.py"}  # the cache of machine code, which the user's own processes wrote
READS = r"(.+\.)?(open|read_bytes|read_text|load_npz|fromfile|memmap)|json\.loads?|(np|numpy)\.load"
# What reads bytes that a user does not give.
OWN_BYTES = {
    "cmfast/_core/source_digest.py",  # sources of kernels
    "cmfast/_pages/render.py",  # style and script of pages
    "cmfast/_reproduce/normalization/data.py",  # sources of Python packages, as texts to classify
    "cmfast/cli/_screen.py",  # the null device
    "cmfast/cli/commands/_example.py",  # whether a file is the example that is about to be written
    "kernels/cpu/_core/jit.py",  # the cache
    "kernels/cpu/_core/pool.py",  # limits of the process, from the system
    "kernels/cpu/metrics/_gradients_classes.py",  # sources of kernels
    "kernels/cuda/_core/formulas.py",  # sources of kernels
    "kernels/cuda/_core/module.py",
    "kernels/cuda/_core/sorting.py",
}
CODE = {"kernels/cpu/metrics/_formulas.py", "kernels/cpu/metrics/_gradients_classes.py"}  # from our own sources


class Module(NamedTuple):
    """A module of the package: its name, the modules that it imports, and the functions that it calls."""

    name: str
    imports: list[str]
    functions: list[str]
    loads: list[tuple[str, ast.Call]]  # those whose name ends in "load" or the like, with the call


@cache
def modules():
    """Return all modules of the package; cached without their syntax trees, which are large."""
    found = []
    for path in (path for folder in FOLDERS for path in sorted(folder.rglob("*.py"))):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith("cmfast/kernels/"):
            tree = ast.parse(path.read_text())
            called = list(calls(tree))
            loads = [each for each in called if re.search("load|read|open", each[0].rpartition(".")[2])]
            found.append(Module(name, list(imports(tree)), [function for function, _ in called], loads))
    return found


def imports(tree):
    """Yield the modules that a tree imports, anywhere in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module


def calls(tree):
    """Yield the name of every function called in a tree, and the call."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


@pytest.mark.house
def test_modules_that_could_reach_a_network_are_known():
    found = {one.name for one in modules() if NETWORK & {each.partition(".")[0] for each in one.imports}}
    assert found <= SOCKETS | ADDRESSES
    assert found >= SOCKETS
    for one in modules():
        if one.name in SOCKETS:
            assert {each for each in one.functions if each.startswith("socket.")} == {"socket.gethostname"}
        if one.name in ADDRESSES:
            assert {each for each in one.imports if each.startswith(("urllib", "http"))} <= {"urllib.parse"}


@pytest.mark.house
def test_nothing_but_the_cache_is_unpickled():
    found = set()
    for one in modules():
        for function, call in one.loads:
            if re.fullmatch(r"(cloud)?pickle\.loads?|loads?_pickle|joblib\.load|torch\.load|pd\.read_pickle", function):
                found.add(one.name)
            if re.fullmatch(r"(np|numpy)\.load|np\.lib\.format\.(read_array|open_memmap)", function):
                given = {each.arg: each.value for each in call.keywords}
                refused = "allow_pickle" in given and ast.literal_eval(given["allow_pickle"]) is False
                assert refused or function.endswith("open_memmap"), f"{one.name}:{call.lineno}"
    assert found == PICKLES


@pytest.mark.house
def test_no_code_is_made_of_data():
    known = "eval exec compile __import__ os.system os.popen yaml.load"
    found = {one.name for one in modules() if not set(known.split()).isdisjoint(one.functions)}
    assert found == CODE


def test_every_reader_is_in_the_list():
    text = (ROOT / "SECURITY.md").read_text()
    readers = {path.name for path in (ROOT / "cmfast" / "_files").glob("*.py")}
    # These write, keep what was read, or choose columns of what a reader gave.
    others = {"__init__.py", "label_columns.py", "output.py", "partial_files.py", "scratch.py"}
    missing = {name for name in readers - others if name not in text}
    assert not missing
    reading = {one.name for one in modules() if any(re.fullmatch(READS, function) for function, _ in one.loads)}
    assert reading >= OWN_BYTES
    elsewhere = {name for name in reading - OWN_BYTES if not name.startswith("cmfast/_files/")}
    assert "cmfast/_reproduce/_files.py" in elsewhere
    assert {name for name in elsewhere if f"`{name}`" not in text} == set()
    for name in re.findall(r"`((?:cmfast|tests|docs)/[^`]+)`", text):
        assert (ROOT / name).exists(), name


@pytest.mark.processes
def test_main_functions_and_commands_open_no_socket(tmp_path):
    program = f"""
import socket

def refuse(*args, **options):
    raise AssertionError("a socket was opened")

socket.socket.connect = socket.socket.connect_ex = socket.socket.bind = socket.getaddrinfo = refuse
import numpy as np, cmfast
from cmfast import cli, conformal, metrics, uncertainty
y, p = np.random.default_rng(0).integers(0, 3, (2, 200))
C = cmfast.confusion_matrix(y, p)
cmfast.bi_normalize(C), metrics.compute(C, ["mcc"]), uncertainty.interval(C, "accuracy")
cmfast.geometric_confusion_matrix(np.random.default_rng(1).normal(size=(200, 2)), y, p, on_failure="ignore")
cmfast.report(y, p).save({str(tmp_path / "page.html")!r})
assert cli.main(["example", {str(tmp_path / "t.csv")!r}]) in (0, None)
table, columns = {str(tmp_path / "t.csv")!r}, ["--true", "label", "--pred", "new"]
for command in ("metrics", "confusion"):
    assert cli.main([command, table, *columns]) in (0, None)
assert cli.main(["compare", table, *columns, "--pred", "old"]) in (0, None)
assert cli.main(["report", table, *columns, "-o", {str(tmp_path / "r.html")!r}]) in (0, None)
print("done")
"""
    assert python("-W", "ignore", "-c", program, cwd=tmp_path).splitlines()[-1] == "done"


class Planted:
    """An object whose pickle makes a folder when it is read."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        import os

        return os.mkdir, (self.path,)


def plant_zarr(folder, name, metadata, payload):
    """Write a zarr array of one chunk, whatever its format."""
    folder.mkdir()
    (folder / name).write_text(json.dumps(metadata))
    for chunk in ("0.0", "c/0/0"):
        (folder / chunk).parent.mkdir(parents=True, exist_ok=True)
        (folder / chunk).write_bytes(payload)


def open_planted(path):
    """Read an array as the commands do."""
    return np.array(points.open_array(path, tick=lambda done, total: None))


OLD = {
    "zarr_format": 2, "shape": [2, 2], "chunks": [2, 2], "dtype": "<f8", "fill_value": 0, "order": "C",
    "compressor": None, "filters": None,
}  # fmt: skip
NEW = {
    "zarr_format": 3, "node_type": "array", "shape": [2, 2], "data_type": "float64", "fill_value": 0, "attributes": {},
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 2]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
}  # fmt: skip
PICKLE = {"id": "pickle", "protocol": 5}
BYTES = NEW["codecs"]


def shards(**inner):
    """Return the codecs of an array in shards."""
    parts = {"chunk_shape": [1, 2], "codecs": BYTES, "index_codecs": BYTES, **inner}
    return [{"name": "sharding_indexed", "configuration": parts}]


EVIL = [
    (".zarray", OLD | {"compressor": PICKLE}, "codec 'pickle', which is not read"),
    (".zarray", OLD | {"filters": [{"id": "zlib", "level": 1}, PICKLE]}, "codec 'pickle', which is not read"),
    (".zarray", OLD | {"compressor": [PICKLE]}, "codec [{'id': 'pickle'"),
    (".zarray", OLD | {"filters": PICKLE}, "its codecs are no list"),
    (".zarray", OLD | {"filters": [{"id": "json2"}]}, "codec 'json2'"),
    (".zarray", OLD | {"filters": [{"id": "msgpack2"}]}, "codec 'msgpack2'"),
    (".zarray", OLD | {"filters": [{"id": "vlen-utf8"}]}, "codec 'vlen-utf8'"),
    (".zarray", OLD | {"filters": [{"id": "categorize", "labels": ["a"], "dtype": "|O"}]}, "codec 'categorize'"),
    (".zarray", OLD | {"filters": [{"id": "astype", "encode_dtype": "|O", "decode_dtype": "<f8"}]}, "type is '|O'"),
    (".zarray", OLD | {"dtype": "|O", "filters": [PICKLE]}, "must hold numbers in rows, but its data type is '|O'"),
    (".zarray", OLD | {"dtype": [["a", "<f8"]]}, "must hold numbers in rows"),
    (".zarray", NEW | {"codecs": [{"name": "numcodecs.pickle"}]}, ".zarray must be of format 2"),
    ("zarr.json", OLD | {"node_type": "array", "compressor": PICKLE}, "zarr.json must be of format 3"),
    ("zarr.json", NEW | {"zarr_format": 3.0}, "zarr.json must be of format 3"),
    ("zarr.json", NEW | {"codecs": [*BYTES, {"name": "numcodecs.pickle"}]}, "codec 'numcodecs.pickle'"),
    ("zarr.json", NEW | {"codecs": [*BYTES, "pickle"]}, "codec 'pickle'"),
    ("zarr.json", NEW | {"codecs": [{"name": "numcodecs.zlib", "configuration": PICKLE}]}, "codec 'pickle'"),
    ("zarr.json", NEW | {"codecs": shards(codecs=[{"name": "numcodecs.pickle"}])}, "codec 'numcodecs.pickle'"),
    ("zarr.json", NEW | {"codecs": shards(index_codecs=["vlen-bytes"])}, "codec 'vlen-bytes'"),
    ("zarr.json", NEW | {"codecs": shards(codecs=shards(codecs=["vlen-utf8"]))}, "codec 'vlen-utf8'"),
    ("zarr.json", NEW | {"data_type": "variable_length_bytes"}, "must hold numbers in rows"),
    ("zarr.json", NEW | {"data_type": {"name": "numpy.datetime64"}}, "must hold numbers in rows"),
]


@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.parametrize(("name", "metadata", "text"), EVIL)
def test_arrays_of_zarr_run_no_code_of_their_chunks(name, metadata, text, remote, tmp_path):
    pytest.importorskip("zarr")
    mark = tmp_path / "code has run"
    path = tmp_path / "X.zarr"
    plant_zarr(path, name, metadata, pickle.dumps(Planted(mark)))
    if remote:
        fsspec = pytest.importorskip("fsspec")
        fsspec.filesystem("memory").put(f"{path}/", f"{path}/", recursive=True)
        path = Url(f"memory:/{path}")
    with pytest.raises(FileError, match=re.escape(text)) as caught:
        open_planted(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert not mark.exists()


def test_the_metadata_that_were_checked_are_those_that_are_read(tmp_path):
    pytest.importorskip("zarr")
    from zarr.api import asynchronous

    from cmfast._files.zarr_store import open_store

    mark, path = tmp_path / "code has run", tmp_path / "X.zarr"
    plant_zarr(path, ".zarray", OLD, np.arange(4.0).tobytes())
    store = asyncio.run(open_store(path))
    (path / ".zarray").write_text(json.dumps(OLD | {"compressor": PICKLE}))
    (path / "zarr.json").write_text(json.dumps(NEW | {"codecs": shards(codecs=["vlen-utf8"])}))
    (path / "0.0").write_bytes(pickle.dumps(Planted(mark))[:32].ljust(32, b"\0"))
    array = asyncio.run(asynchronous.open_array(store=store, mode="r"))
    assert asyncio.run(array.getitem(slice(None))).shape == (2, 2)
    assert (array.metadata.zarr_format, array.metadata.compressor) == (2, None)
    assert not mark.exists()


def test_every_codec_of_numbers_is_read(tmp_path):
    zarr = pytest.importorskip("zarr")
    import numcodecs
    from zarr.codecs import BloscCodec, Crc32cCodec, GzipCodec, TransposeCodec, ZstdCodec

    X = np.arange(24.0).reshape(4, 6)
    old = [{"compressors": kind()} for kind in (numcodecs.Blosc, numcodecs.Zstd, numcodecs.Zlib, numcodecs.GZip)]
    old += [{"compressors": kind()} for kind in (numcodecs.LZ4, numcodecs.LZMA, numcodecs.BZ2)]
    old += [
        {"filters": [kind]}
        for kind in (
            numcodecs.Delta("<f8"),
            numcodecs.Shuffle(8),
            numcodecs.FixedScaleOffset(0, 1, "<f8", "<i4"),
            numcodecs.Quantize(3, "<f8"),
            numcodecs.AsType("<f4", "<f8"),
        )
    ]
    new = [{"compressors": kind()} for kind in (BloscCodec, Crc32cCodec, GzipCodec, ZstdCodec)]
    new += [{"filters": TransposeCodec(order=(1, 0))}, {"shards": (4, 6)}, {"compressors": None}]
    for form, options in [*((2, each) for each in old), *((3, each) for each in new)]:
        path = tmp_path / "X.zarr"
        zarr.create_array(path, data=X, chunks=(2, 3), zarr_format=form, overwrite=True, **options)
        np.testing.assert_array_equal(open_planted(path), zarr.open_array(path, mode="r")[:], str(options))


READING = """
import sys
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
import numpy as np
from cmfast._files import contact_maps, matrices
from cmfast._files.output import FileError

tick = lambda done, total: None
before = getrusage(RUSAGE_SELF).ru_maxrss
try:
    if sys.argv[1] == "pixels.csv":
        contact_maps.read_map(Path(sys.argv[1]), "/", None, tick)
    else:
        matrices.open_matrices(Path(sys.argv[1]), None, tick=tick)
except FileError as error:
    print(error)
print(getrusage(RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.processes
@pytest.mark.parametrize("name", ["pixels.csv", "matrices.csv", "counted.csv"])
def test_one_long_cell_of_a_small_csv_file_takes_no_memory(name, tmp_path):
    long = "1" * 100_000
    head = {"pixels.csv": "i,j,count\n", "matrices.csv": "", "counted.csv": "true \\ predicted,a,b\na,1,2\n"}[name]
    row = {"pixels.csv": "0,1,2\n", "matrices.csv": "1,2,3,4\n", "counted.csv": ""}[name]
    last = {"pixels.csv": f"0,1,{long}\n", "matrices.csv": f"1,2,3,{long}\n", "counted.csv": f"b,3,{long}\n"}[name]
    text = head + row * 8000 + last
    (tmp_path / name).write_text(text)
    said, kilobytes = python("-W", "ignore", "-c", READING, name, cwd=tmp_path).splitlines()[-2:]
    assert said.startswith(f"{name}: line {text.count(chr(10))} holds a cell of more than 1,000 characters")
    assert int(kilobytes) < 100_000


def test_numbers_of_a_thousand_characters_are_read_alike_in_blocks(tmp_path, monkeypatch):
    path = tmp_path / "pixels.csv"
    rows, columns, values = [0, 1, 2, 7], [1, 1, 3, 7], [1.5, 2.0, 3.0, 4.0]
    lines = [f"{i},{j},{v:0>990}" for i, j, v in zip(rows, columns, values, strict=True)]
    path.write_text("\n".join(["i,j,count", *lines]))
    for size in (1, 2, 3, 4, 5):
        monkeypatch.setattr(tables, "TABLE_BLOCK_ROWS", size)
        found = contact_maps.read_map(path, "/", None, lambda done, total: None)
        for seen, wanted in zip(found, (rows, columns, values), strict=False):
            np.testing.assert_array_equal(seen, wanted)
        assert (found.rows.dtype, found.values.dtype, found.n) == (np.int64, np.float64, 8)
    for odd in ("0,1,x", "0.5,1,1", f"{2**63},1,1", "1,-,1", "0,1,"):
        path.write_text("\n".join(["i,j,count", *lines, odd, "0,0,0"]))
        with pytest.raises(FileError, match="line 6 holds a cell that is not a number, or a bin that is not a whole"):
            contact_maps.read_map(path, "/", None, lambda done, total: None)


def test_the_citation_has_the_version_and_the_papers():
    found = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert found["version"] == cmfast.__version__
    assert found["license"] == "BSD-3-Clause"
    assert {"cff-version", "message", "title", "authors"} <= {*found}
    assert all({"type", "title", "authors"} <= {*each} for each in found["references"])
