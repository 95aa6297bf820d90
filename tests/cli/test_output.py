"""Files that appear whole or not at all: any name, any number of runs, killed at any time; nothing pickled."""

import ast
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from cmfast import cli
from cmfast._files import partial_files as _parts
from cmfast._files.output import FileError, replace_file, write_npz

ROOT = Path(__file__).parents[2]
SOURCES = [path for folder in ("cmfast", "kernels", "examples") for path in sorted((ROOT / folder).rglob("*.py"))]


def calls_of(path):
    """Return ``(name, keywords, line)`` of every call in a file; of ``np.load(...)`` the name is ``load``."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node.func.attr, ast.unparse(node.func.value), {k.arg: ast.unparse(k.value) for k in node.keywords}


@pytest.mark.exhaustive
def test_nothing_is_ever_pickled():
    known = 0
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        if path.name == "jit.py":  # compiled code as Numba keeps it, in the user's own cache
            continue
        for word in ("import pickle", "from pickle", "import shelve", "import joblib", "allow_pickle=True"):
            assert word not in text, path
        for name, owner, options in calls_of(path):
            where = f"{path}: {owner}.{name}"
            if owner in {"np", "numpy"}:
                # savez takes allow_pickle as an option in some versions, and in others as an array of that name.
                assert name not in {"savez", "savez_compressed", "loads"}, where
            if owner in {"np", "numpy", "np.lib.format"} and name in {"save", "load", "write_array", "read_array"}:
                assert options.get("allow_pickle") == "False", where
                known += 1
    assert known >= 4


def test_an_array_of_objects_is_not_written(tmp_path):
    target = tmp_path / "out.npz"
    with pytest.raises(ValueError, match="allow_pickle"), replace_file(target) as file:
        write_npz(file, {"labels": np.array([1, "a", None], object)})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("compressed", [False, True])
def test_write_npz_is_what_numpy_reads(tmp_path, compressed):
    arrays = {"a": np.arange(6).reshape(2, 3), "allow_pickle": np.array(["x", "yz"]), "f": np.asfortranarray(np.eye(2))}
    with replace_file(tmp_path / "out.npz") as file:
        write_npz(file, {**arrays, "none": np.zeros((0, 3))}, compressed=compressed)
    with np.load(tmp_path / "out.npz", allow_pickle=False) as archive:
        for name, array in arrays.items():
            np.testing.assert_array_equal(archive[name], array)
        assert archive["none"].shape == (0, 3)


def names(folder):
    return sorted(os.fsdecode(path.name) for path in folder.iterdir())


@pytest.mark.parametrize("length", [1, 100, 240, 241, 250, 254, 255])
def test_any_name_that_the_file_system_takes(tmp_path, monkeypatch, length):
    monkeypatch.chdir(tmp_path)
    np.save("in.npy", np.ones((2, 2, 2)))
    name = "x" * max(length - 4, 0) + ".npy"[-length:]
    assert cli.main(["normalize", "in.npy", "-o", name, "--quiet"]) == 0
    assert names(tmp_path) == sorted(["in.npy", name])
    assert cli.main(["normalize", "in.npy", "-o", name, "--quiet", "--force"]) == 0
    assert names(tmp_path) == sorted(["in.npy", name])


def test_a_name_that_is_no_text(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.save("in.npy", np.ones((2, 2, 2)))
    name = os.fsdecode(b"\xff\xfe" * 100 + b".npy")
    assert cli.main(["normalize", "in.npy", "-o", name, "--quiet"]) == 0
    assert capsys.readouterr().out.isascii()
    assert cli.main(["normalize", "in.npy", "-o", "y" * 256, "--quiet"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert names(tmp_path) == sorted(["in.npy", name])


WRITER = """
import sys, time
from pathlib import Path
from cmfast._files.output import replace_file
with replace_file(Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    sys.stdin.readline()
    file.write(b" and half")
"""


def writer(target):
    """Start a process that has written half of its output, and waits."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, target],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "writing\n"
    return process


def finish(process):
    process.communicate("\n", timeout=60)
    assert process.returncode == 0


def parts(folder):
    return sorted(name for name in names(folder) if name.endswith(".part"))


@pytest.mark.processes
@pytest.mark.skipif(not _parts.LOCKS, reason="no locks here")
def test_what_a_killed_run_left_goes_with_the_next(tmp_path):
    target, other = tmp_path / "out.npy", tmp_path / "other.npy"
    for process in [writer(path) for path in (target, target, other)]:
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
    left = parts(tmp_path)
    assert len(left) == 3
    alive = writer(target)  # removes the two, and must not lose its own
    mine = [name for name in parts(tmp_path) if name not in left]
    assert len(mine) == 1
    assert len(parts(tmp_path)) == 2
    for _ in range(3):  # while it writes, others come and go
        with replace_file(target) as file:
            file.write(b"quick")
        assert target.read_bytes() == b"quick"
        assert mine[0] in parts(tmp_path)
    finish(alive)
    assert target.read_bytes() == b"half and half"
    with replace_file(other) as file:
        file.write(b"other")
    assert names(tmp_path) == ["other.npy", "out.npy"]


@pytest.mark.processes
@pytest.mark.skipif(not _parts.LOCKS, reason="no locks here")
def test_runs_at_the_same_time_do_not_harm_each_other(tmp_path):
    code = """
import sys
from pathlib import Path
from cmfast._files.output import replace_file
for k in range(300):
    with replace_file(Path("out")) as file:
        file.write(sys.argv[1].encode() * 1000)
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    processes = [
        subprocess.Popen([sys.executable, "-c", code, letter], env=environment, cwd=tmp_path, stderr=subprocess.PIPE)
        for letter in "abcd"
    ]
    seen = set()
    while any(process.poll() is None for process in processes):
        if (tmp_path / "out").exists():
            seen.add((tmp_path / "out").read_bytes())
        time.sleep(0.001)
    for process in processes:
        assert process.communicate()[1] == b""
        assert process.returncode == 0
    assert seen <= {letter.encode() * 1000 for letter in "abcd"}
    assert names(tmp_path) == ["out"]


@pytest.mark.skipif(not _parts.LOCKS, reason="no locks here")
def test_a_part_that_is_taken_for_abandoned_before_its_lock_is_made_anew(tmp_path, monkeypatch):
    locked = _parts._try_lock
    lost = []

    def slow(file):
        if not lost:  # another run sweeps between our two calls
            lost.append(file.name)
            _parts._remove_abandoned(tmp_path, Path(file.name).name[:17])
            assert not Path(file.name).exists()
        return locked(file)

    monkeypatch.setattr(_parts, "_try_lock", slow)
    with replace_file(tmp_path / "out") as file:
        assert file.name != lost[0]
        file.write(b"whole")
    assert names(tmp_path) == ["out"]
    assert (tmp_path / "out").read_bytes() == b"whole"


def test_a_file_system_without_locks(tmp_path, monkeypatch):
    if _parts.LOCKS:

        def none(file, flags):
            raise OSError(95, "Operation not supported")

        monkeypatch.setattr(_parts.fcntl, "flock", none)
    with replace_file(tmp_path / "out") as first, replace_file(tmp_path / "out") as second:
        first.write(b"1")
        second.write(b"2")
    assert names(tmp_path) == ["out"]
    monkeypatch.setattr(_parts, "LOCKS", False)
    with replace_file(tmp_path / "out") as file:
        file.write(b"3")
    assert (tmp_path / "out").read_bytes() == b"3"


def test_what_appeared_in_the_meantime_stays(tmp_path):
    target = tmp_path / "out"
    with pytest.raises(FileError, match="in the meantime"), replace_file(target, force=False):
        target.write_bytes(b"theirs")
    assert target.read_bytes() == b"theirs"
    assert names(tmp_path) == ["out"]


def test_what_appears_between_two_system_calls_stays(tmp_path, monkeypatch):
    target, exists = tmp_path / "out", Path.exists
    monkeypatch.setattr(Path, "exists", lambda self, **options: self != target and exists(self, **options))
    with pytest.raises(FileError, match="in the meantime"), replace_file(target, force=False):
        target.write_bytes(b"theirs")
    assert target.read_bytes() == b"theirs"

    def without(*_, **__):
        raise OSError(1, "no links here")

    monkeypatch.undo()
    monkeypatch.setattr(os, "link", without)
    for name, force in (("a", False), ("a", True)):
        with replace_file(tmp_path / name, force=force) as file:
            file.write(b"ours")
    assert (tmp_path / "a").read_bytes() == b"ours"
    assert names(tmp_path) == ["a", "out"]


def test_links(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.save("in.npy", np.ones((2, 2, 2)))
    Path("loop.npy").symlink_to("loop.npy")
    Path("dangling.npy").symlink_to("made.npy")
    Path("astray.npy").symlink_to("nowhere/made.npy")
    for name in ("loop.npy", "astray.npy"):
        assert cli.main(["normalize", "in.npy", "-o", name, "--quiet", "--force"]) == 2
        assert cli.main(["normalize", name, "-o", "out.npy", "--quiet", "--force"]) == 2
        assert Path(name).is_symlink()
    assert capsys.readouterr().err.count("\n") == 4
    assert cli.main(["normalize", "in.npy", "-o", "dangling.npy", "--quiet"]) == 0
    assert Path("dangling.npy").is_symlink()
    assert np.load("made.npy").shape == (2, 2, 2)
