"""The command: files in, files out; one line where it cannot; whole or not at all."""

import json
import os
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from commands import assert_exits_with_error

import cmfast
from cmfast._files import tables
from cmfast.cli import _screen, main

ROOT = Path(__file__).parents[2]
METHODS = ("all", "row", "col", "bi")


@pytest.fixture
def cmd(capsys, tmp_path, monkeypatch):
    """Run the command in an empty folder; return exit status, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*argv):
        capsys.readouterr()
        status = main([str(arg) for arg in argv])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


@pytest.fixture
def matrices(rng):
    return rng.integers(1, 50, size=(300, 4, 4))


# normalize


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", ["i8", "u1", "f4", ">f8", "?"])
def test_normalize_is_the_function(cmd, matrices, method, dtype):
    M = matrices.astype(dtype)
    np.save("in.npy", M)
    status, out, _ = cmd("normalize", "in.npy", "-o", "out.npy", "--method", method, "--quiet")
    assert status == 0
    assert "CONVERGED" in out
    got = np.load("out.npy")
    want = cmfast.normalize(M, method)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("shape", [(3, 3), (1, 3, 3), (0, 3, 3), (5, 0, 3, 3), (4, 5, 3, 3), (7, 0, 0)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_normalize_keeps_the_shape(cmd, rng, shape, order):
    M = rng.random(shape) + 0.1
    np.save("in.npy", np.asarray(M, order=order))
    assert cmd("normalize", "in.npy", "-o", "out.npy", "--method", "row", "--block-mb", "0.0005")[0] == 0
    got = np.load("out.npy")
    assert got.shape == shape
    np.testing.assert_array_equal(got, cmfast.normalize(M, "row"))


@pytest.mark.parametrize("order", ["C", "F"])
def test_block_size_changes_no_byte(cmd, matrices, order):
    np.save("in.npy", np.asarray(matrices.reshape(2, 150, 4, 4), order=order))
    files = []
    for mb in ("0.00013", "0.001", "0.0077", "32"):
        assert cmd("normalize", "in.npy", "-o", f"{mb}.npy", "--block-mb", mb, "--smoothing", "0.5")[0] == 0
        files.append(Path(f"{mb}.npy").read_bytes())
    assert len(set(files)) == 1


def test_options_reach_the_function(cmd, rng):
    M = rng.integers(0, 3, (20, 5, 5))
    np.save("in.npy", M)
    for option, value in (("--smoothing", 0.25), ("--smoothing", "pseudo-bayes"), ("--tol", 1e-3), ("--max-iter", 2)):
        name = option[2:].replace("-", "_")
        _ = cmd("normalize", "in.npy", "-o", "out.npy", "--force", option, value)
        want = cmfast.ipf(M, on_failure="ignore", **{name: value}).matrix
        np.testing.assert_array_equal(np.load("out.npy"), want)


def test_failed_matrices_are_counted_named_and_written(cmd, matrices):
    M = matrices.astype(float)
    M[[3, 250], 1, 1] = np.nan
    np.save("in.npy", M)
    for method in METHODS:
        arguments = ("normalize", "in.npy", "-o", "out.npy", "--method", method, "--force", "--status", "codes.npy")
        status, out, _ = cmd(*arguments, "--json", "--block-mb", "0.01")
        facts = json.loads(out)
        assert status == 1
        assert facts["failed"] == 2
        assert facts["first_failed"] == [3, 250]
        assert facts["statuses"] == {"CONVERGED": 298, "INVALID": 2}
        codes = np.load("codes.npy")
        assert codes.dtype == np.int8
        assert np.flatnonzero(codes).tolist() == [3, 250]
        assert np.isnan(np.load("out.npy")[[3, 250]]).all()
        assert not np.isnan(np.delete(np.load("out.npy"), [3, 250], axis=0)).any()
        status, out, _ = cmd(*arguments)
        assert status == 1
        assert "3, 250" in out


def test_memory_stays_bounded(cmd, rng):
    M = rng.random((40_000, 10, 10))
    np.save("in.npy", M)
    _ = cmd("normalize", "in.npy", "-o", "warm.npy", "--method", "row")
    tracemalloc.start()
    try:
        assert cmd("normalize", "in.npy", "-o", "out.npy", "--method", "row", "--block-mb", "1")[0] == 0
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < M.nbytes / 4


def test_progress_goes_to_a_terminal_and_is_silent_when_asked(cmd, matrices, monkeypatch):
    np.save("in.npy", matrices)
    assert cmd("normalize", "in.npy", "-o", "c.npy", "--method", "row")[2] == ""
    monkeypatch.setattr(_screen.Stream, "isatty", lambda self: True)
    assert "300" in cmd("normalize", "in.npy", "-o", "a.npy", "--method", "row")[2]
    assert cmd("normalize", "in.npy", "-o", "b.npy", "--method", "row", "--quiet")[2] == ""


def test_progress_without_tqdm(cmd, matrices, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setattr(_screen.Stream, "isatty", lambda self: True)
    np.save("in.npy", matrices)
    err = cmd("normalize", "in.npy", "-o", "a.npy", "--method", "row")[2]
    assert err.startswith("normalize: 100% (300 of 300 matrices)")


def test_an_existing_file_stays(cmd, matrices):
    np.save("in.npy", matrices)
    Path("out.npy").write_text("precious")
    assert_exits_with_error(cmd("normalize", "in.npy", "-o", "out.npy"), "out.npy: exists already, give --force")
    assert Path("out.npy").read_text() == "precious"
    assert cmd("normalize", "in.npy", "-o", "out.npy", "--force")[0] == 0
    assert np.load("out.npy").shape == matrices.shape


def test_input_is_never_the_output(cmd, matrices):
    np.save("in.npy", matrices)
    Path("link.npy").symlink_to("in.npy")
    os.link("in.npy", "hard.npy")
    before = Path("in.npy").read_bytes()
    for out in ("in.npy", "./in.npy", "link.npy", "hard.npy"):
        assert_exits_with_error(cmd("normalize", "in.npy", "-o", out, "--force"), "is the input itself")
    assert_exits_with_error(
        cmd("normalize", "in.npy", "-o", "o.npy", "--status", "in.npy", "--force"), "is the input itself"
    )
    assert_exits_with_error(cmd("normalize", "in.npy", "-o", "o.npy", "--status", "o.npy"), "the same file")
    assert Path("in.npy").read_bytes() == before


def test_a_link_stays_a_link_and_the_mode_stays(cmd, matrices):
    np.save("in.npy", matrices)
    Path("real.npy").write_text("old")
    Path("real.npy").chmod(0o640)
    Path("link.npy").symlink_to("real.npy")
    assert cmd("normalize", "in.npy", "-o", "link.npy", "--force")[0] == 0
    assert Path("link.npy").is_symlink()
    assert Path("real.npy").stat().st_mode & 0o777 == 0o640
    assert np.load("real.npy").shape == matrices.shape


def write_bad_files():
    np.save("good.npy", np.ones((2, 2, 2)))
    whole = Path("good.npy").read_bytes()
    Path("short.npy").write_bytes(whole[:-8])
    Path("head.npy").write_bytes(whole[:20])
    Path("text.npy").write_text("1 2\n3 4\n")
    Path("empty.npy").write_text("")
    np.savez("archive.npz", M=np.ones((2, 2)))
    np.save("objects.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    np.save("vector.npy", np.ones(3))
    np.save("complex.npy", np.ones((2, 2), complex))
    np.save("strings.npy", np.full((2, 2), "a"))
    np.save("oblong.npy", np.ones((4, 2, 3)))
    Path("folder.npy").mkdir()
    os.mkfifo("pipe.npy")


BAD_FILES = {
    "missing.npy": "missing.npy: no such file",
    "folder.npy": "folder.npy: is a directory",
    "short.npy": "short.npy: the file is shorter than its header says",
    "head.npy": "head.npy: damaged npy file",
    "text.npy": "text.npy: is no npy file",
    "empty.npy": "empty.npy: is no npy file",
    "archive.npz": "archive.npz: is an npz archive",
    "objects.npy": "objects.npy: holds Python objects",
    "vector.npy": "vector.npy: must hold square matrices",
    "complex.npy": "complex.npy: must hold real numbers of at most 64 bits, but its dtype is complex128",
    "strings.npy": "strings.npy: must hold real numbers",
    "oblong.npy": "oblong.npy: must hold square matrices (..., C, C), but its shape is (4, 2, 3)",
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_an_unreadable_file_is_one_line(cmd, name):
    write_bad_files()
    assert_exits_with_error(cmd("normalize", name, "-o", "out.npy", "--quiet"), BAD_FILES[name])
    assert not Path("out.npy").exists()


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (("--quiet",), "COMMAND"),
        (("frobnicate",), "frobnicate"),
        (("normalize",), "required: IN"),
        (("normalize", "good.npy"), "-o"),
        (("normalize", "good.npy", "-o", "o.npy", "--method", "diagonal"), "diagonal"),
        (("normalize", "good.npy", "-o", "o.npy", "--tol", "0"), "--tol"),
        (("normalize", "good.npy", "-o", "o.npy", "--tol", "nan"), "--tol"),
        (
            ("normalize", "good.npy", "-o", "o.npy", "--smoothing", "much"),
            "must be a number above 0 or pseudo-bayes, got 'much'",
        ),
        (("normalize", "good.npy", "-o", "o.npy", "--smoothing", "-1"), "--smoothing"),
        (
            ("normalize", "good.npy", "-o", "o.npy", "--threads", "0"),
            "--threads: must be an integer of at least 1, got '0'",
        ),
        (("normalize", "good.npy", "-o", "o.npy", "--method", "row", "--tol", "1e-3"), "--tol belongs to --method bi"),
        (("normalize", "good.npy", "-o", "nowhere/o.npy"), "there is no folder"),
        (("normalize", "good.npy", "-o", "o.csv"), "--output is written as npy"),
        (("normalize", "good.npy", "-o", "o.npy", "--status", "o.JSON"), "--status is written as npy"),
        (("normalize", "good.npy", "-o", "folder.npy"), "is a folder"),
        (("normalize", "good.npy", "-o", "pipe.npy", "--force"), "is no regular file"),
        (("normalize", "pipe.npy", "-o", "o.npy"), "pipe.npy: is no regular file"),
        (("confusion", "good.npy"), "must be of shape (n, 2)"),
        (("confusion", "missing.csv"), "missing.csv: no such file"),
        (("confusion", "missing.parquet"), "missing.parquet: "),
        (("confusion", "good.xlsx"), "unknown kind of file '.xlsx'"),
        (("confusion", "good.npy", "-o", "out.txt"), "--output must end in"),
        (("confusion", "good.npy", "--smoothing", "1"), "--smoothing belongs to --normalize bi"),
        (("gcm", "good.npy", "--labels", "good.npy"), "--pred"),
        (("gcm", "good.npy", "--labels", "missing.npy", "--pred", "good.npy"), "missing.npy: no such file"),
        (("demo", "--seed", "-1"), "--seed"),
        (("demo", "--out", "good.npy"), "good.npy: is a file"),
    ],
)
def test_wrong_usage_is_one_line(cmd, argv, text):
    write_bad_files()
    assert_exits_with_error(cmd(*argv), text)


def test_help_and_version(cmd, capsys):
    for argv, text in ((["--help"], "normalize"), (["gcm", "--help"], "--labels"), (["--version"], cmfast.__version__)):
        assert main(argv) == 0
        assert text in capsys.readouterr().out


def _listen():
    # A shell starts its background jobs with the interrupt ignored, and their children inherit that.
    _ = signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(*argv, **options):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-m", "cmfast", *argv],
        env=environment,
        preexec_fn=_listen,  # noqa: PLW1509  # no threads here
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


@pytest.mark.processes
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_a_killed_run_leaves_the_old_file(tmp_path, rng, number):
    np.save(tmp_path / "in.npy", rng.random((60_000, 10, 10)))
    out = tmp_path / "out.npy"
    out.write_text("old")
    # Blocks so small that the run takes far longer than this test needs to stop it.
    argv = ("normalize", "in.npy", "-o", "out.npy", "--force", "--method", "row", "--block-mb", "0.001")
    process = start(*argv, cwd=tmp_path)
    deadline = time.monotonic() + 60
    while not any(path.suffix == ".part" and path.stat().st_size for path in tmp_path.iterdir()):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert out.read_text() == "old"
    assert "Traceback" not in err
    if number == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
    else:
        assert process.returncode == 128 + number
        assert sorted(path.name for path in tmp_path.iterdir()) == ["in.npy", "out.npy"]


def test_a_full_disk_is_one_line(cmd, matrices, monkeypatch):
    def full(file, block):
        raise OSError(28, "No space left on device")

    np.save("in.npy", matrices)
    monkeypatch.setattr("cmfast.cli._writing.write_block", full)
    assert_exits_with_error(cmd("normalize", "in.npy", "-o", "out.npy", "--quiet"), "no space left on device")
    assert not Path("out.npy").exists()


def test_a_closed_pipe_is_no_error(tmp_path):
    process = start("info", cwd=tmp_path)
    process.stdout.close()
    assert process.wait(timeout=60) == 128 + signal.SIGPIPE
    assert process.stderr.read() == ""
    process.stderr.close()


# confusion


STRINGS = [("cat", "dog"), ("cat", "cat"), ("dog", "dog"), ("owl", "cat"), ("cat", "dog")]
STRING_MATRIX = [[1, 2, 0], [0, 1, 0], [1, 0, 0]]
NUMBERS = [(10, 9), (9, 9), (10, 10), (2, 10), (-1, 2)]
NUMBER_LABELS = [-1, 2, 9, 10]
NUMBER_MATRIX = [[0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0], [0, 0, 1, 1]]


def write_csv(name, rows, *head):
    Path(name).write_text("".join(f"{a},{b}\n" for a, b in [*head, *rows]), encoding="utf-8")


def counted(result):
    status, out, _ = result
    assert status == 0
    facts = json.loads(out)
    return facts["labels"], facts["matrix"]


@pytest.fixture(params=[1, 2, 3, 1 << 18])
def any_block(request, monkeypatch):
    monkeypatch.setattr(tables, "TABLE_BLOCK_ROWS", request.param)


@pytest.mark.usefixtures("any_block")
def test_confusion_of_csv(cmd):
    write_csv("a.csv", STRINGS, ("y_true", "y_pred"))
    write_csv("b.csv", [(p, t) for t, p in STRINGS], ("guess", "fact"))
    write_csv("c.csv", STRINGS)
    write_csv("d.csv", NUMBERS)
    Path("e.tsv").write_bytes("\ufeff".encode() + b"truth\tprediction\r\n10\t9\r\n\r\n9\t9\r\n")
    assert counted(cmd("confusion", "a.csv", "--json")) == (["cat", "dog", "owl"], STRING_MATRIX)
    named = cmd("confusion", "b.csv", "--true", "fact", "--pred", "guess", "--json")
    assert counted(named) == (["cat", "dog", "owl"], STRING_MATRIX)
    assert counted(cmd("confusion", "c.csv", "--no-header", "--json"))[1] == STRING_MATRIX
    assert counted(cmd("confusion", "c.csv", "--header", "--json"))[1] == [[1, 1, 0], [0, 1, 0], [1, 0, 0]]
    assert counted(cmd("confusion", "d.csv", "--json")) == (NUMBER_LABELS, NUMBER_MATRIX)
    assert counted(cmd("confusion", "e.tsv", "--json")) == ([9, 10], [[1, 0], [1, 0]])


@pytest.mark.usefixtures("any_block")
def test_confusion_of_npy(cmd):
    for dtype in ("i8", "i1", ">i4", "f8"):
        np.save("n.npy", np.array(NUMBERS, dtype))
        assert counted(cmd("confusion", "n.npy", "--json")) == (NUMBER_LABELS, NUMBER_MATRIX)
    np.save("s.npy", np.array(STRINGS))
    assert counted(cmd("confusion", "s.npy", "--json"))[1] == STRING_MATRIX
    np.save("r.npy", np.array([(0, p, t) for t, p in NUMBERS], [("w", "i8"), ("guess", "i8"), ("fact", "i8")]))
    fields = cmd("confusion", "r.npy", "--true", "fact", "--pred", "guess", "--json")
    assert counted(fields) == (NUMBER_LABELS, NUMBER_MATRIX)
    np.save("t.npy", np.array(NUMBERS)[:, ::-1])
    assert counted(cmd("confusion", "t.npy", "--true", "1", "--pred", "0", "--json"))[1] == NUMBER_MATRIX


@pytest.mark.usefixtures("any_block")
def test_confusion_of_arrow(cmd):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import feather, parquet

    table = pa.table(
        {
            "guess": [p for _, p in STRINGS],
            "fact": pa.array([t for t, _ in STRINGS]).dictionary_encode(),
            "n_true": pa.array([t for t, _ in NUMBERS], pa.int16()),
            "n_pred": pa.array([p for _, p in NUMBERS], pa.int32()),
            "holes": [1, None, 2, 3, 4],
        }
    )
    parquet.write_table(table, "t.parquet", row_group_size=2)
    feather.write_feather(table, "t.arrow", compression="uncompressed", chunksize=2)
    feather.write_feather(table, "t.feather", compression="lz4")
    for name in ("t.parquet", "t.arrow", "t.feather"):
        strings = cmd("confusion", name, "--true", "fact", "--pred", "guess", "--json")
        assert counted(strings) == (["cat", "dog", "owl"], STRING_MATRIX)
        numbers = cmd("confusion", name, "--true", "n_true", "--pred", "n_pred", "--json")
        assert counted(numbers) == (NUMBER_LABELS, NUMBER_MATRIX)
        assert_exits_with_error(cmd("confusion", name, "--true", "holes", "--pred", "n_pred", "--quiet"), "missing")
        assert_exits_with_error(cmd("confusion", name, "--true", "nothing", "--quiet"), "no column 'nothing'")
    Path("bad.parquet").write_bytes(b"PAR1 nonsense")
    assert_exits_with_error(cmd("confusion", "bad.parquet", "--quiet"), "bad.parquet: ")
    Path("bad.arrow").write_bytes(b"nonsense")
    assert_exits_with_error(cmd("confusion", "bad.arrow", "--quiet"), "bad.arrow: ")


def test_without_pyarrow_the_extra_is_named(cmd, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    Path("t.parquet").write_bytes(b"PAR1")
    assert_exits_with_error(cmd("confusion", "t.parquet"), 'pip install "cmfast[io]"')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "is empty"),
        (b"y_true,y_pred\n", "holds no samples"),
        (b"cat,dog\ncat,cat\n", "cannot tell whether the first line (cat,dog)"),
        (b"cat,dog,eel\ncat,cat,cat\n", "cannot tell whether the first line (cat,dog,eel)"),
        (b"0,1\n1,\n", "line 2 has an empty label in column '1'"),
        (b"0,1\n1,1,1\n", "line 2 has 3 columns"),
        (b"0\n1\n", "needs two columns"),
        (b"true pred\n0 1\n", "needs two columns separated by commas, semicolons or tabs, but its first line has 1"),
        (b"0,\xff\n", "is no UTF-8 text"),
    ],
)
def test_a_bad_csv_is_one_line(cmd, text, message):
    Path("bad.csv").write_bytes(text)
    assert_exits_with_error(cmd("confusion", "bad.csv", "--quiet"), message)


def test_a_csv_with_an_empty_group(cmd):
    Path("bad.csv").write_bytes(b"m,y_true,y_pred\nx,1,1\n,1,1\n")
    assert_exits_with_error(
        cmd("confusion", "bad.csv", "--by", "m", "--quiet"), "line 3 has an empty label in column 'm'"
    )


def test_labels_that_are_none(cmd):
    np.save("half.npy", np.array([[0.0, 1.0], [1.5, 0.0], [0.0, 0.0]]))
    assert_exits_with_error(cmd("confusion", "half.npy", "--quiet"), "row 1 holds 1.5")
    np.save("nan.npy", np.array([[0.0, np.nan]]))
    assert_exits_with_error(cmd("confusion", "nan.npy", "--quiet"), "row 0 holds nan")
    np.save("time.npy", np.zeros((3, 2), "M8[s]"))
    assert_exits_with_error(cmd("confusion", "time.npy", "--quiet"), "labels must be integers or strings")
    np.save("none.npy", np.zeros((0, 2), "i8"))
    assert_exits_with_error(cmd("confusion", "none.npy", "--quiet"), "holds no samples")


def test_confusion_table_and_files(cmd):
    write_csv("a.csv", STRINGS, ("y_true", "y_pred"))
    status, out, _ = cmd("confusion", "a.csv")
    assert status == 0
    assert [line.split() for line in out.splitlines()] == [
        ["true", "\\", "pred", "cat", "dog", "owl"],
        ["cat", "1", "2", "0"],
        ["dog", "0", "1", "0"],
        ["owl", "1", "0", "0"],
    ]
    for name in ("m.npy", "m.npz", "m.csv", "m.json"):
        assert cmd("confusion", "a.csv", "-o", name)[0] == 0
    assert np.load("m.npy").tolist() == STRING_MATRIX
    with np.load("m.npz") as archive:
        assert archive["matrix"].tolist() == STRING_MATRIX
        assert archive["labels"].tolist() == ["cat", "dog", "owl"]
    assert Path("m.csv").read_text().splitlines() == [
        "true \\ predicted,cat,dog,owl",
        "cat,1,2,0",
        "dog,0,1,0",
        "owl,1,0,0",
    ]
    assert json.loads(Path("m.json").read_text())["labels"] == ["cat", "dog", "owl"]


@pytest.mark.parametrize("method", METHODS)
def test_confusion_normalised(cmd, method):
    np.save("n.npy", np.array(NUMBERS))
    more = ("--smoothing", "0.5") if method == "bi" else ()
    status, out, _ = cmd("confusion", "n.npy", "--normalize", method, "--json", *more)
    assert status == 0
    options = {"smoothing": 0.5} if method == "bi" else {}
    assert json.loads(out)["matrix"] == cmfast.normalize(np.array(NUMBER_MATRIX), method, **options).tolist()


def test_confusion_that_cannot_be_normalised_exits_with_1(cmd):
    np.save("n.npy", np.array([[0, 1]] * 3))
    status, out, err = cmd("confusion", "n.npy", "--normalize", "bi", "--json", "--quiet")
    facts = json.loads(out)
    assert status == 1
    assert facts["status"] == "ZERO_LINE"
    assert facts["matrix"] == [[None, None], [None, None]]
    assert err.startswith("cmfast: warning: ")


# gcm


def save_points(rng):
    y = rng.integers(0, 3, 2000)
    X = rng.normal(size=(2000, 5)) + 2 * y[:, None]
    p = np.clip(np.rint(X.mean(axis=1) / 2), 0, 2).astype(int)
    for name, array in {"X.npy": X, "y.npy": y, "p.npy": p}.items():
        np.save(name, array)
    return X, y, p


FILES = ("X.npy", "--labels", "y.npy", "--pred", "p.npy")


@pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")
def test_gcm_is_the_function(cmd, rng):
    X, y, p = save_points(rng)
    arguments = ("gcm", *FILES, "--weights", "row", "bi", "--components", "3", "--smoothing", "0.5", "--seed", "4")
    want = cmfast.geometric_confusion_matrix(X, y, p, weights=["row", "bi"], n_components=3, smoothing=0.5, rng=4)
    status, out, _ = cmd(*arguments, "--json", "-o", "g.npz")
    facts = json.loads(out)
    assert status == 0
    np.testing.assert_array_equal(facts["gcm"], want.matrix)
    np.testing.assert_array_equal(facts["normalized"], want.diagnostics.normalized)
    for k, name in enumerate(("row", "bi")):
        assert facts["weights"][name]["overlap"] == want.diagnostics.overlap[k]
        assert facts["weights"][name]["guaranteed"] == want.diagnostics.guaranteed[k]
        assert facts["weights"][name]["null_overlap"] == want.diagnostics.null_overlap[k]
    with np.load("g.npz") as archive:
        np.testing.assert_array_equal(archive["gcm"], want.matrix)
        assert archive["weights"].tolist() == ["row", "bi"]
    assert cmd(*arguments, "-o", "g.json")[0] == 0
    assert json.loads(Path("g.json").read_text())["cells"] == want.diagnostics.n_cells
    status, out, _ = cmd(*arguments)
    assert status == 0
    for word in ("overlap", "guaranteed", "null overlap", "row", "bi"):
        assert word in out


def test_gcm_names_the_options_of_the_command(cmd, rng):
    X = rng.normal(size=(1000, 12))
    y, p = rng.integers(0, 3, (2, 1000))
    for name, array in {"X.npy": X, "y.npy": y, "p.npy": p}.items():
        np.save(name, array)
    status, out, err = cmd("gcm", *FILES, "--weights", "row")
    verdict = json.loads(cmd("gcm", *FILES, "--weights", "row", "--json")[1])["verdict"]
    for said in (out, err, verdict):
        assert "take fewer axes, as --components 2 or 3, or wider cells, in Python as grid=cmfast.Grid" in said
        assert "n_components" not in said
    assert status == 0
    np.save("y.npy", np.where(y == 2, 0, y))
    assert "leave class 2 out or pass --smoothing" in cmd("gcm", *FILES, "--weights", "bi", "--components", "2")[2]


def test_gcm_refuses_what_does_not_fit(cmd, rng):
    _ = save_points(rng)
    np.save("short.npy", np.zeros(5, int))
    np.save("half.npy", np.full(2000, 0.5))
    for name in ("short.npy", "half.npy"):
        assert_exits_with_error(
            cmd("gcm", "X.npy", "--labels", "y.npy", "--pred", name), "geometric_confusion_matrix: "
        )
    assert_exits_with_error(cmd("gcm", *FILES, "--grid", "hexagonal"), "hexagonal")


# info


def test_info(cmd):
    status, out, _ = cmd("info", "--json")
    facts = json.loads(out)
    assert status == 0
    assert facts["cmfast"] == cmfast.__version__
    assert facts["needed"]["numpy"] == np.__version__
    assert facts["threads"] >= 1
    status, text, _ = cmd("info")
    assert status == 0
    for word in ("numba", "threads", "cache", "GPU"):
        assert word in text


def test_info_empties_the_cache(cmd, tmp_path, monkeypatch):
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    old = tmp_path / "cmfast" / "0.0.9-0" / "kernel.nbc"
    old.parent.mkdir(parents=True)
    old.write_bytes(bytes(3_000_000))
    _, out, _ = cmd("info", "--json")
    assert json.loads(out)["cache"]["bytes"] >= 3_000_000
    assert json.loads(out)["cache"]["folder"].startswith(str(tmp_path / "cmfast"))
    assert "3.0 MB" in cmd("info")[1]
    status, out, _ = cmd("info", "--clear-cache", "--json")
    assert status == 0
    assert json.loads(out)["removed_bytes"] == 3_000_000
    assert json.loads(out)["cache"]["bytes"] == 0
    assert not old.exists()


def test_the_module_is_the_command(tmp_path):
    process = start("info", "--json", cwd=tmp_path)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert json.loads(out)["cmfast"] == cmfast.__version__


def save_tables(X, y, p):
    """Write the same points in every format; yield the arguments that read them."""
    import pyarrow as pa
    import pyarrow.feather
    import pyarrow.parquet
    import zarr

    columns = {f"x{k}": X[:, k] for k in range(X.shape[1])}
    pyarrow.parquet.write_table(pa.table({**columns, "y": y, "p": p}), "wide.parquet", row_group_size=300)
    yield "wide.parquet", "--labels", "y", "--pred", "p"
    pyarrow.parquet.write_table(pa.table({"name": [str(k) for k in y], **columns, "y": y, "p": p}), "named.pq")
    yield "named.pq", "--labels", "y", "--pred", "p", "--features", *columns
    lists = pa.table({"y": y.astype(np.uint8), "embedding": X.tolist(), "p": p.astype(np.int16)})
    pyarrow.parquet.write_table(lists, "lists.parquet")
    yield "lists.parquet", "--labels", "y", "--pred", "p"
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])
    pyarrow.feather.write_feather(pa.table({"e": fixed, "y": y, "p": p}), "fixed.feather", compression="uncompressed")
    yield "fixed.feather", "--labels", "y", "--pred", "p"
    zarr.create_array("X.zarr", data=X, chunks=(170, 2))
    zarr.create_array("y.zarr", data=y, chunks=(1000,))
    yield "X.zarr", "--labels", "y.zarr", "--pred", "p.npy"


@pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")
def test_gcm_reads_every_format(cmd, rng, monkeypatch):
    monkeypatch.setattr("cmfast._files.points.ZARR_BLOCK_BYTES", 10_000)
    X, y, p = save_points(rng)
    wanted = {
        choice: cmfast.geometric_confusion_matrix(X, y, p, weights="row", n_components=n_components).matrix
        for choice, n_components in (("2", 2), ("none", None))
    }
    for k, arguments in enumerate(save_tables(X, y, p)):
        for choice in wanted if k == 0 else ("2",):
            status, out, err = cmd("gcm", *arguments, "--weights", "row", "--components", choice, "--json")
            assert status == 0, err
            np.testing.assert_array_equal(json.loads(out)["gcm"], [wanted[choice]])


def test_gcm_refuses_tables_that_it_cannot_use(cmd, rng):
    import pyarrow as pa
    import pyarrow.parquet

    X, y, p = save_points(rng)
    tables = {
        "missing": {"x": X[:, 0], "y": pa.array([None, *y[1:].tolist()]), "p": p},
        "words": {"x": y.astype(str), "y": y, "p": p},
        "ragged": {"x": [[0.0]] * 1999 + [[0.0, 1.0]], "y": y, "p": p},
        "empty": {"x": X[:0, 0], "y": y[:0], "p": p[:0]},
        "float": {"x": X[:, 0], "y": y + 0.5, "p": p},
        "bare": {"y": y, "p": p},
    }
    said = {
        "missing": "a label is missing in column 'y'",
        "words": "column 'x' must hold numbers",
        "ragged": "not all of one length",
        "empty": "has no rows",
        "float": "column 'y' must hold class ids",
        "bare": "no columns but the labels",
    }
    for name, table in tables.items():
        pyarrow.parquet.write_table(pa.table(table), f"{name}.parquet")
        assert_exits_with_error(cmd("gcm", f"{name}.parquet", "--labels", "y", "--pred", "p", "--quiet"), said[name])
    assert_exits_with_error(cmd("gcm", "bare.parquet", "--labels", "y", "--pred", "q"), "has no column 'q' (has: y, p)")
    assert_exits_with_error(cmd("gcm", "none.parquet", "--labels", "y", "--pred", "p"), "none.parquet: no such file")
    Path("text.parquet").write_text("no table")
    assert_exits_with_error(cmd("gcm", "text.parquet", "--labels", "y", "--pred", "p"), "text.parquet: not readable")
    assert_exits_with_error(
        cmd("gcm", "none.zarr", "--labels", "y.npy", "--pred", "p.npy"), "none.zarr: is no zarr array"
    )
    assert_exits_with_error(cmd("gcm", *FILES, "--features", "x"), "--features belongs to a table")
    assert_exits_with_error(cmd("gcm", *FILES, "--components", "0"), "--components")
