"""The command over damaged files and odd options: 0, 1 or 2, at most one line of complaint, whole files or none."""

import io
import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cmfast import cli
from cmfast._files import scratch
from cmfast.cli import _labels

pa = pytest.importorskip("pyarrow")
from pyarrow import feather, parquet  # noqa: E402

pytestmark = pytest.mark.fuzz

ROOT = Path(__file__).parents[2]
BLOCK = 100  # commands in a test, each with a seed of its own

NUMBERS = (
    "0",
    "1",
    "2",
    "3",
    "-1",
    "7",
    "1e-3",
    "0.5",
    "1e300",
    "1e308",
    "-0",
    "nan",
    "inf",
    "None",
    "True",
    "",
    " ",
    "x",
)
NUMBERS += ("2147483648", "9223372036854775807", "9223372036854775808", "1" * 40, "9" * 5000, "0x10", "1_0", "\u0663")
WORDS = (
    "y_true",
    "y_pred",
    "by",
    "x0",
    "x1",
    "0",
    "1",
    "5",
    "-",
    "--",
    "",
    "*",
    "'",
    "a\nb",
    "\x1b[1m",
    "\u202e",
    "\udcff",
)
LABELS = (
    *NUMBERS,
    *WORDS,
    "macro",
    "weighted",
    "accuracy",
    '"',
    "''",
    '"a',
    'a"b"',
    "a,b",
    "a\0",
    "\0",
    "\ufeff",
    "\r",
    "\u732b",
)
METHODS = ("all", "row", "col", "bi", "true", "ROW", "")
METRICS = ("mcc", "recall", "accuracy", "f1_macro", "kappa", "specificity", "nonsense", "mcc", "", "f1,mcc", ",")
OUTPUTS = (
    "out.npy",
    "out.npz",
    "out.csv",
    "out.json",
    "out.txt",
    "out",
    "there.npy",
    "nowhere/out.npz",
    "labels.csv",
    ".npz",
)
OUTPUTS += ("folder.npz", "x" * 251 + ".npz", "x" * 252 + ".npz", "out.JSON")
ENCODINGS = ("utf-8", "ascii", "latin-1", "utf-16")


def write_files():
    """Write a small valid file of every kind that the command reads, into the folder where it runs."""
    rng = np.random.default_rng(0)
    M = rng.integers(0, 9, (6, 3, 3))
    np.save("ints.npy", M)
    np.save("floats.npy", M.astype(float) + 0.5)
    np.save("fortran.npy", np.asfortranarray(M.astype(float)))
    np.save("square.npy", M[0])
    np.save("oblong.npy", M[:, :2].astype("u1"))
    np.save("none.npy", M[:0])
    n = 60
    X, y, p = rng.normal(size=(n, 2)), rng.integers(0, 3, n), rng.integers(0, 3, n)
    for name, array in {"X.npy": X, "y.npy": y, "p.npy": p, "labels.npy": np.stack([y, p], 1)}.items():
        np.save(name, array)
    np.save("texts.npy", np.stack([y, p], 1).astype(str))
    np.save(
        "fields.npy", np.array(list(zip(y, p, y % 2, strict=True)), [("y_true", "i4"), ("y_pred", "u8"), ("by", "?")])
    )
    rows = "".join(f'{a},{b},"{a % 2}"\n' for a, b in zip(y.tolist(), p.tolist(), strict=True))
    Path("labels.csv").write_text("y_true,y_pred,by\n" + rows)
    Path("labels.tsv").write_text("\ufeff" + rows.replace(",", "\t").replace("\n", "\r\n"), newline="")
    columns = {"x0": X[:, 0], "x1": X[:, 1].astype("f4"), "y_true": y, "y_pred": p, "by": (y % 2).astype(str)}
    table = pa.table({**columns, "coded": pa.array(p.astype(str)).dictionary_encode()})
    parquet.write_table(table, "table.parquet", row_group_size=25)
    parquet.write_table(pa.table({"y_true": y.astype(str), "y_pred": p.astype(str)}), "labels.pq", compression="none")
    feather.write_feather(table, "table.feather", compression="lz4")
    feather.write_feather(table, "table.arrow", compression="uncompressed", chunksize=25)
    feather.write_feather(
        pa.table({"X": X.tolist(), "y_true": y, "y_pred": p}), "lists.arrow", compression="uncompressed"
    )
    import zarr

    for name, array, format_ in (("X.zarr", X, 3), ("y.zarr", y, 3), ("old.zarr", X, 2)):
        zarr.create_array(name, data=array, chunks=(25, *array.shape[1:]), zarr_format=format_)
    Path("folder.npz").mkdir()
    Path("there.npy").write_text("there")
    Path("empty.csv").write_text("")
    return sorted(path for path in Path().rglob("*") if path.is_file() and path.name not in {"there.npy"})


def damage(whole, text, rng):
    """Return the bytes of a file with one thing wrong; `text`: it is made of words."""
    data = bytearray(whole)
    at = rng.randrange(len(data) + 1)
    # Most of what is worth breaking stands at the ends.
    at = rng.choice([at, min(at, 120), len(data) - min(at, 60)]) if len(data) > 200 else at
    length = rng.choice([1, 2, 8, 40, 400])
    match rng.randrange(9 if text else 8):
        case 0 | 1:
            for _ in range(rng.choice([1, 1, 3, 20])):
                if data:
                    data[min(max(at + rng.randrange(-20, 20), 0), len(data) - 1)] ^= 1 << rng.randrange(8)
        case 2:
            del data[at:]
        case 3:
            del data[at : at + length]
        case 4:
            data[at:at] = rng.randbytes(length)
        case 5:
            data[at : at + length] = bytes([rng.choice([0, 255, 127])]) * len(data[at : at + length])
        case 6:
            data[at:at] = data[max(at - length, 0) : at]
        case 7:
            data = bytearray(other_number(bytes(data), rng))
        case _:
            data[at:at] = rng.choice(LABELS).encode("utf-8", "surrogatepass")
    return bytes(data)


HEADS = (
    b"()",
    b"(",
    b"((",
    b")",
    b"(-1,5,5)",
    b"(True,True)",
    b"(1.5,2)",
    b"('a',)",
    b"(0,)",
    b"(3,3,)",
    b"[3,3]",
    b"None",
)
HEADS += (
    b"(" + b"9" * 30 + b",)",
    b"(0,99999999999,9999999999)",
    b"(-1,-1)",
    b"(3, 3",
    b"{}",
    b"(9223372036854775807,3)",
)
TYPES = (
    b"'<f8'",
    b"'<f2'",
    b"'>i8'",
    b"'|O'",
    b"'<U4'",
    b"'|S8'",
    b"'|V8'",
    b"'<M8[s]'",
    b"'<c16'",
    b"'|b1'",
    b"''",
    b"3",
)
TYPES += (
    b"[('a', '<i4'), ('b', '<i4')]",
    b"[('a', '|O')]",
    b"[('a', '<i8', (2,))]",
    b"'|V99999999999'",
    b"'<f16'",
    b"[]",
)


def other_number(data, rng):
    """Change a number in the head of a file, or, of an npy file, its shape or type."""
    head = re.match(rb"(?s).{10,12}{'descr': (.*?), 'fortran_order': (.*?), 'shape': (.*?), }", data[:128])
    if head:
        kind, order, shape = head.groups()
        kind, shape = rng.choice([(rng.choice(TYPES), shape), (kind, rng.choice(HEADS))])
        text = b"{'descr': " + kind + b", 'fortran_order': " + order + b", 'shape': " + shape + b", }"
        text += b" " * (-(len(text) + 11) % 64) + b"\n"
        version = rng.choice([1, 1, 1, 2, 3, 0, 9])
        size = len(text).to_bytes(2 if version < 2 else 4, "little")
        return data[:6] + bytes([version, rng.choice([0, 0, 0, 1])]) + size + text + data[128:]
    digits = [k for k, byte in enumerate(data[:600]) if chr(byte).isdigit()]
    if not digits:
        return data
    at = rng.choice(digits)
    return (
        data[:at]
        + rng.choice(["-1", "0", "99", "1" + "0" * 30, "2147483648", "null", "1.5", '"3"', "[]"]).encode()
        + data[at + 1 :]
    )


def spoil(paths, rng):
    """Damage one of the files, or put something else in its place; return what has to be mended."""
    path = rng.choice(paths)
    whole = path.read_bytes()
    match rng.randrange(20):
        case 0:
            path.unlink()
            path.mkdir()
        case 1:
            path.unlink()
        case 2:
            path.unlink()
            path.symlink_to(rng.choice(["nowhere", path.name, "ints.npy", "labels.csv", "/dev/zero", "folder.npz"]))
        case 3:
            path.unlink()
            os.mkfifo(path)
        case 4:  # another kind of file under this name
            path.write_bytes(rng.choice(paths).read_bytes())
        case _:
            data = whole
            for _ in range(rng.choice([1, 1, 1, 2, 4])):
                data = damage(data, path.suffix in {".csv", ".tsv", ".json"}, rng)
            path.write_bytes(data)
    return path, whole


def mend(path, whole):
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
    else:
        path.rmdir()
    path.write_bytes(whole)


def options(rng, offered, likely):
    """Return some of the options offered, each with a value."""
    chosen = []
    for name, values in offered.items():
        if rng.random() < likely:
            many = rng.choice([1, 1, 2, 3]) if name in {"--weights", "--only", "--features"} else 1
            chosen += [name] if values is None else [name, *rng.choices(values, k=many)]
    return chosen


def command(path, rng):
    """Return arguments that fit the damaged file, by and large."""
    likely = rng.choice([0.05, 0.3])
    name = path.parts[0]
    common = {"--json": None, "--quiet": None, "--force": None, "--threads": NUMBERS}
    tables = {"--true": WORDS, "--pred": WORDS, "--header": None, "--no-header": None}
    kind = rng.choice(["normalize", "metrics", "confusion", "gcm"])
    if rng.random() < 0.8:  # the one that is meant to read it
        of_points = name.endswith(".zarr") or name in {"X.npy", "y.npy", "p.npy", "lists.arrow"}
        of_labels = not of_points and (not name.endswith("npy") or name in {"labels.npy", "texts.npy", "fields.npy"})
        kind = (
            "gcm"
            if of_points
            else rng.choice(["confusion", "metrics"])
            if of_labels
            else rng.choice(["normalize", "metrics"])
        )
        if name.startswith("table") and rng.random() < 0.5:
            kind = "gcm"
    if kind == "normalize":
        more = {"--method": METHODS, "--smoothing": (*NUMBERS, "pseudo-bayes"), "--tol": NUMBERS, "--max-iter": NUMBERS}
        more |= {"--solver": ("auto", "newton", "sinkhorn", ""), "--empty": ("nan", "drop", ""), "--status": OUTPUTS}
        more |= {"--block-mb": (*NUMBERS, "0.0001")}
        argv = [name, "-o", rng.choice(("out.npy", *OUTPUTS))]
    elif kind == "metrics":
        more = {
            **tables,
            "--by": WORDS,
            "--only": METRICS,
            "--undefined": ("present", "nan", "strict", "zero", "one", "", "0.5", "2"),
        }
        argv = [name]
        common.pop("--force")
    elif kind == "confusion":
        more = {**tables, "--normalize": METHODS, "--smoothing": (*NUMBERS, "pseudo-bayes"), "-o": OUTPUTS}
        argv = [name]
    else:
        more = {"--weights": METHODS, "--components": (*NUMBERS, "none", "1"), "--seed": NUMBERS, "-o": OUTPUTS}
        more |= {"--grid": ("scott", "freedman-diaconis", ""), "--features": WORDS, "--smoothing": NUMBERS}
        table = name.startswith("table") or name in {"lists.arrow", "labels.pq"}
        X, y, p = (name, "y_true", "y_pred") if table else ("X.npy", "y.npy", "p.npy")
        if not table:
            X = name if name not in {"y.npy", "p.npy", "y.zarr"} else X
            y = name if name in {"y.npy", "y.zarr"} else y
            p = name if name == "p.npy" else p
        argv = [X, "--labels", y, "--pred", p, *(() if rng.random() < 0.1 else ("--components", "none"))]
        if name.startswith("table") and rng.random() < 0.7:
            argv += ["--features", "x0", "x1"]
    argv = [kind, *argv, *options(rng, more | common, likely)]
    if rng.random() < 0.05:
        argv.insert(
            rng.randrange(len(argv) + 1), rng.choice((*LABELS, "--nonsense", "-h", "--version", "-o", "--json"))
        )
    if rng.random() < 0.05:
        del argv[rng.randrange(len(argv))]
    return [arg for arg in argv if "\0" not in arg]  # the system passes none


def snapshot():
    """Return what is in the folder: no output may be left half written, no input changed."""
    found = {}
    for path in sorted(Path().rglob("*")):
        if path.is_file():
            found[path] = path.read_bytes() if path.stat().st_size < 1 << 20 else b""
        else:
            found[path] = str(path.readlink()) if path.is_symlink() else ""
    return found


def check(argv, status, out, err, before):
    """Assert what the command promises of any call."""
    assert status in {0, 1, 2}, (argv, status, err)
    assert "Traceback" not in err
    lines = [line for line in err.split("\n") if line and not line.startswith("cmfast: warning: ")]
    complaints = [line for line in lines if line.startswith("cmfast: ")]
    if status == 2:
        assert len(complaints) == 1, (argv, err)
        assert not out or "--status" in argv, (argv, out)
    else:
        assert not complaints, (argv, err)
        assert out
    assert all(part.isprintable() for line in err.split("\n") for part in line.split("\r")), (argv, err)
    assert all(line.isprintable() for line in out.split("\n")), (argv, out)
    progress = [line for line in lines if line not in complaints]
    assert all(line.lstrip("\r").startswith(("normalize", "confusion", "metrics", "gcm")) for line in progress), (
        argv,
        err,
    )
    after = snapshot()
    assert not [path for path in after if path.name.endswith(".part")], argv
    changed = {path for path in after.keys() | before.keys() if after.get(path) != before.get(path)}
    if status == 2:
        assert not changed, (argv, changed)
    helps = {"-h", "--help", "--version"} & set(argv)
    if status < 2 and "--json" in argv and not helps:
        json.loads(out, parse_constant=pytest.fail)
    for path in changed:
        match path.suffix.lower():
            case ".npz":
                with np.load(path, allow_pickle=False) as archive:
                    assert [archive[name].shape for name in archive.files]
            case ".json":
                json.loads(path.read_bytes(), parse_constant=pytest.fail)
            case ".csv":
                assert path.read_text(encoding="utf-8").startswith("true \\ predicted,")
            case _:
                assert np.load(path, allow_pickle=False) is not None
        if before.get(path) is None:
            path.unlink()
        else:
            path.write_bytes(before[path])


def call(argv, encoding, monkeypatch):
    """Run the command in this process, with streams as a shell gives them."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding, newline="\n") for _ in range(2))
    err.reconfigure(errors="backslashreplace")
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    try:
        status = cli.main(argv)
    finally:
        monkeypatch.undo()
    for stream in (out, err):
        stream.flush()
    return status, *(stream.buffer.getvalue().decode(encoding) for stream in (out, err))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a file of every kind, and their names."""
    before = Path.cwd()
    where = tmp_path_factory.mktemp("fuzz")
    os.chdir(where)
    try:
        return where, write_files()
    finally:
        os.chdir(before)


def fuzzed(folder, seeds, monkeypatch):
    """Return for how many seeds the command did what it should; what it did not is raised."""
    where, paths = folder
    for seed in seeds:
        rng = random.Random(seed)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(where)
            patch.setenv("COLUMNS", rng.choice(["80", "1", "0", "-5", "x"]))
            patch.setattr(scratch, "get_free_bytes", lambda: 1 << 24)
            patch.setattr(_labels, "_memory", lambda: 1 << 26)
            spoiled = spoil(paths, rng)
            try:
                argv = command(spoiled[0], rng)
                before = snapshot()
                try:
                    check(argv, *call(argv, rng.choice(ENCODINGS), monkeypatch), before)
                except BaseException as error:
                    error.add_note(f"seed {seed}: cmfast {argv} with {spoiled[0]} damaged")
                    raise
            finally:
                mend(*spoiled)
    return len(seeds)


@pytest.mark.parametrize("block", range(3))
def test_damaged_files_and_odd_options(folder, monkeypatch, block):
    assert fuzzed(folder, range(block * BLOCK, (block + 1) * BLOCK), monkeypatch) == BLOCK


@pytest.mark.slow
@pytest.mark.parametrize("block", range(3, 203))
def test_damaged_files_and_odd_options_by_the_thousand(folder, monkeypatch, block):
    assert fuzzed(folder, range(block * BLOCK, (block + 1) * BLOCK), monkeypatch) == BLOCK


def test_the_files_are_valid(folder, monkeypatch):
    """Undamaged, every file is read by what is meant to read it: or the fuzz would only ever see the first check."""
    where, _ = folder
    monkeypatch.chdir(where)
    for name in ("ints", "floats", "fortran", "square", "none"):
        assert (
            call(["normalize", f"{name}.npy", "-o", f"{name}.out", "--smoothing", "1"], "utf-8", pytest.MonkeyPatch())[
                0
            ]
            == 0
        )
        Path(f"{name}.out").unlink()
    for name in ("labels.npy", "texts.npy", "fields.npy", "labels.csv", "labels.tsv", "labels.pq"):
        more = ("--no-header", "--true", "0", "--pred", "1") if name.endswith("tsv") else ()
        assert call(["confusion", name, *more], "utf-8", pytest.MonkeyPatch())[0] == 0
    for name in ("table.parquet", "table.feather", "table.arrow"):
        assert call(["confusion", name, "--true", "by", "--pred", "coded"], "utf-8", pytest.MonkeyPatch())[0] == 0
        argv = ["gcm", name, "--labels", "y_true", "--pred", "y_pred", "--features", "x0", "x1", "--components", "none"]
        assert call(argv, "utf-8", pytest.MonkeyPatch())[0] == 0
    for X, y in (("X.npy", "y.npy"), ("X.zarr", "y.zarr"), ("old.zarr", "y.npy")):
        argv = ["gcm", X, "--labels", y, "--pred", "p.npy", "--components", "none"]
        assert call(argv, "utf-8", pytest.MonkeyPatch())[0] == 0


def fuzzed_in_processes(folder, seeds):
    """Do what `fuzzed` does with a process for each seed."""
    where, paths = folder
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONUNBUFFERED", None)
    for seed in seeds:
        rng = random.Random(f"process {seed}")
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(where)
            spoiled = spoil(paths, rng)
            try:
                argv = command(spoiled[0], rng)
                before = snapshot()
                done = subprocess.run(
                    [sys.executable, "-m", "cmfast", *argv],
                    env=environment,
                    capture_output=True,
                    check=False,
                    timeout=300,
                    stdin=subprocess.DEVNULL,
                )
                try:
                    check(argv, done.returncode, done.stdout.decode(), done.stderr.decode(), before)
                except BaseException as error:
                    error.add_note(f"process {seed}: cmfast {argv} with {spoiled[0]} damaged")
                    raise
            finally:
                mend(*spoiled)
    return len(seeds)


def test_damaged_files_in_processes(folder):
    assert fuzzed_in_processes(folder, range(3)) == 3


@pytest.mark.slow
def test_damaged_files_in_processes_by_the_hundred(folder):
    assert fuzzed_in_processes(folder, range(3, 200)) == 197
