"""What reaches a terminal, a pipe, a full disk, or nobody."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cmfast import metrics
from cmfast.cli import _screen

pytestmark = pytest.mark.pictures

ROOT = Path(__file__).parents[2]
ODD = [
    "\x1b[31mred\x1b[0m",  # a colour
    "\x1b]0;title\x07",  # the title of the window
    "\x9b2J",  # clears the screen, in one letter
    "\u202eevil\u2066",  # reads backwards
    "two\nlines",
    "back\rspace\b",
    "\u200bunseen",
    "nul\0",
]


def shell(line, cwd, **environment):
    """Run a line of a shell, with output that is buffered as a user's is."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    environment.pop("PYTHONUNBUFFERED", None)
    line = line.replace("cmfast ", f"'{sys.executable}' -m cmfast ", 1)
    # Not under set -o pipefail or the like: the status is the command's.
    return subprocess.run(
        ["/bin/sh", "-c", line], cwd=cwd, env=environment, capture_output=True, check=False, timeout=120
    )


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.csv").write_text(
        "y_true,y_pred\n" + "caf\u00e9,na\u00efve\n\u732b,caf\u00e9\n" * 3, encoding="utf-8"
    )
    np.save(tmp_path / "M.npy", np.ones((3, 2, 2)))
    return tmp_path


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("line", ["--version", "confusion a.csv --quiet", "confusion a.csv --quiet --json"])
def test_a_full_disk_under_stdout_is_one_line(folder, line):
    done = shell(f"cmfast {line} > /dev/full", folder)
    assert (done.returncode, done.stderr) == (2, b"cmfast: standard output: no space left on device\n")


@pytest.mark.parametrize("line", ["--help", "confusion a.csv --quiet"])
def test_a_reader_that_has_gone_is_no_error(folder, line):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONUNBUFFERED", None)
    command = [sys.executable, "-m", "cmfast", *line.split()]
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(timeout=60) == 141
    process.stderr.close()


CLOSED = {
    "stdin": "<&-",
    "stdout": ">&-",
    "stderr": "2>&-",
    "all": "<&- >&- 2>&-",
    "stderr to a full disk": "2>/dev/full",
}


@pytest.mark.parametrize("closed", CLOSED)
def test_closed_streams_do_not_stop_the_work(folder, closed):
    if "/dev/full" in CLOSED[closed] and not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    done = shell(f"cmfast normalize M.npy -o out.npy --method row {CLOSED[closed]}", folder)
    assert done.returncode == 0, done.stderr
    assert np.load(folder / "out.npy").tolist() == np.full((3, 2, 2), 0.5).tolist()
    assert b"Traceback" not in done.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["M.npy", "a.csv", "out.npy"]


def test_closed_stdout_takes_json_to_nowhere(folder):
    done = shell("cmfast confusion a.csv --quiet --json >&-", folder)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-16"])
def test_letters_that_the_terminal_lacks(folder, encoding):
    done = shell("cmfast confusion a.csv --quiet", folder, PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, b"")
    text = done.stdout.decode(encoding)
    assert ("\u732b" if encoding.startswith("utf") else r"\u732b") in text
    assert ("caf\\xe9" if encoding == "ascii" else "caf\u00e9") in text
    done = shell("cmfast confusion a.csv --quiet --json", folder, PYTHONIOENCODING=encoding)
    assert json.loads(done.stdout.decode(encoding))["labels"] == ["caf\u00e9", "na\u00efve", "\u732b"]


def tame(text):
    """Assert that nothing but letters and ends of lines is printed."""
    assert all(line.isprintable() for line in text.split("\n")), repr(text)
    return text


def cell(text):
    return '"' + text.replace('"', '""') + '"'


@pytest.fixture
def odd_csv(tmp_path):
    rows = [f"{cell(a)},{cell(b)},{cell(a)}\n" for a in ODD for b in ODD]
    (tmp_path / "odd.csv").write_bytes(("y_true,y_pred,\x1b[1mby\n" + "".join(rows)).encode())
    return "odd.csv"


def test_labels_are_tame_in_every_table_and_exact_in_json(run, odd_csv):
    shown = [r"\x1b[31mred\x1b[0m", r"\x1b]0;title\x07", r"\x9b2J", r"\u202eevil\u2066", r"two\nlines"]
    shown += [r"back\rspace\x08", r"\u200bunseen", r"nul\x00"]
    by = ("--by", "\x1b[1mby")
    for argv in (("confusion",), ("metrics",), ("metrics", "--only", "recall"), ("metrics", *by)):
        status, out, err = run(argv[0], odd_csv, *argv[1:])
        assert (status, err) == (0, "")
        assert all(text in tame(out) for text in shown), argv
    status, out, _ = run("metrics", odd_csv, *by, "--only", "accuracy")
    assert tame(out).splitlines()[1].split() == [r"\x1b[1mby", "accuracy"]
    assert len(out.splitlines()) == 2 + len(ODD)
    for argv in (("confusion",), ("metrics", "--only", "recall"), ("metrics", *by)):
        status, out, _ = run(argv[0], odd_csv, "--json", *argv[1:])
        found = json.loads(tame(out))
        assert sorted(found["labels"]) == sorted(ODD)
        if "by" in found:
            assert sorted(entry["group"] for entry in found["groups"]) == sorted(ODD)


@pytest.mark.parametrize("name", [*ODD[:-1], os.fsdecode(b"\xff\xfe")])
def test_names_of_files_are_tame(run, name):
    np.save("M.npy", np.ones((2, 2, 2)))
    for argv in (
        ("confusion", name),
        ("confusion", f"{name}.csv"),
        ("normalize", f"{name}.npy", "-o", "out.npy"),
        ("normalize", "M.npy", "-o", f"{name}/out.npy"),
        ("metrics", "M.npy", "--only", name),
        ("confusion", "M.npy", "-o", name),
        ("confusion", "M.npy", "--true", name),
        ("gcm", "M.npy", "--labels", name, "--pred", f"{name}.npy"),
        (name,),
        ("normalize", "M.npy", f"--{name}", "-o", "out.npy"),
    ):
        status, out, err = run(*argv)
        assert (status, out) == (2, "")
        assert tame(err).count("\n") == 1
    status, out, _ = run("normalize", "M.npy", "-o", f"{name}.npy")
    assert status == 0
    assert tame(out).splitlines()[0].startswith(_screen.shown(name))
    assert np.load(f"{name}.npy").shape == (2, 2, 2)
    status, out, _ = run("normalize", f"{name}.npy", "-o", "again.npy", "--json")
    assert json.loads(tame(out))["input"] == f"{name}.npy"


def test_names_in_tables_are_never_twice_the_same():
    for labels in (
        ["a\n", r"a\n"],
        [r"a\n", "a\n", r"'a\n'"],
        ["x" * 50 + end + "y" * 50 for end in "abc"],
        ["'", "''"],
    ):
        names = _screen.names(labels)
        assert len(set(names)) == len(labels)
        assert all(len(name) < 80 for name in names)
    assert _screen.names([1, "b", "caf\u00e9"]) == ["1", "b", "caf\u00e9"]


def test_a_message_is_never_longer_than_a_screen(run):
    Path("wide.csv").write_text(",".join(f"column{k}" for k in range(10_000)) + "\n")
    status, _, err = run("confusion", "wide.csv", "--true", "nothing", "--header")
    assert status == 2
    assert err.startswith("cmfast: wide.csv: has no column 'nothing' (has: column0, ")
    assert len(err) < 2100


@pytest.mark.parametrize(
    "names", [("macro", "weighted"), ("accuracy", "mcc"), ("precision", "support"), ("'macro'", "macro")]
)
def test_classes_with_the_names_of_the_report(run, names):
    Path("a.csv").write_text("y_true,y_pred,by\n" + "".join(f"{a},{b},{a}\n" for a in names for b in names))
    for argv in ((), ("--by", "by"), ("--only", "recall"), ("--by", "by", "--only", "recall", "accuracy")):
        status, out, err = run("metrics", "a.csv", *argv)
        assert (status, err) == (0, "")
        for name in names:
            assert re.search(rf"(^|\s)'*{name}'*(\s|$)", out), out
    report = metrics.classification_report([[3, 1], [2, 4]], display_labels=names)
    assert len(report.rows) == 4
    rows = list(report.rows.values())
    assert rows[0][:2] == (3 / 5, 3 / 4)
    assert rows[1][:2] == (4 / 5, 4 / 6)
    assert report.rows["macro"][-1] == report.rows["weighted"][-1] == 10
