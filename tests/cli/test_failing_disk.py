"""Every write of an output made to fail once: one line that names it, nothing half written, what was there stays."""

import errno
import io
from pathlib import Path

import numpy as np
import pytest
from failing_disk import fail_each, files_of

from cmfast import cli
from cmfast._files.output import replacing_all
from cmfast._files.runs import Runs

TABLE = ["--true", "y", "--pred", "p"]
BY = ["--by", "g", "--only", "accuracy"]
COMMANDS = {
    "confusion npy": ["confusion", "labels.csv", *TABLE, "-o", "out.npy"],
    "confusion npz": ["confusion", "labels.csv", *TABLE, "-o", "out.npz"],
    "confusion json": ["confusion", "labels.csv", *TABLE, "-o", "out.json"],
    "normalize": ["normalize", "M.npy", "-o", "out.npy", "--status", "codes.npy", "--smoothing", "1", "--quiet"],
    "resample": ["resample", "M.npy", "-o", "out.npy", "--replicates", "3", "--quiet"],
    "metrics csv": ["metrics", "labels.csv", *TABLE, *BY, "-o", "out.csv", "--quiet"],
    "merge": ["merge", "a.json", "a.json", "-o", "out.npz"],
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    np.save("M.npy", rng.integers(1, 9, (4, 3, 3)))
    rows = [f"{a},{b},{g}" for a, b, g in rng.integers(0, 3, (40, 3)).tolist()]
    Path("labels.csv").write_text("\n".join(["y,p,g", *rows]) + "\n")
    assert cli.main(["confusion", "labels.csv", *TABLE, "-o", "a.json", "--quiet"]) == 0
    return tmp_path


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_fails_whole(folder, monkeypatch, capsys, name, there):
    argv = [*COMMANDS[name], "--force"]
    if there:
        for option in ("-o", "--status"):
            if option in argv:
                Path(argv[argv.index(option) + 1]).write_bytes(b"of an earlier run")
    outputs = [argv[argv.index(option) + 1] for option in ("-o", "--status") if option in argv]
    capsys.readouterr()

    def check(status, at):
        err = capsys.readouterr().err
        assert status == 2, at
        assert err.count("\n") == 1, err
        assert any(f"{out}:" in err for out in outputs), err

    for number in (errno.ENOSPC, errno.EIO):
        if number == errno.EIO:
            for out in outputs:
                Path(out).write_bytes(b"of an earlier run")
        assert fail_each(monkeypatch, folder, lambda: cli.main(argv), check, number) >= 4
    again = files_of(folder)
    assert cli.main(argv) == 0
    assert files_of(folder) == again
    assert b"of an earlier run" not in again.values()


@pytest.mark.processes
def test_the_end_of_a_small_array_is_not_lost(folder, capsys):
    """numpy.save puts it into a buffer of C's, and fclose fails unseen."""
    resource = pytest.importorskip("resource")
    argv = ["confusion", "labels.csv", *TABLE, "-o", "out.npy"]
    assert cli.main(argv) == 0
    size = Path("out.npy").stat().st_size
    whole = Path("out.npy").read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for most in (16, size - 40, size - 1):
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
            status = cli.main([*argv, "--force"])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert status == 2
        assert Path("out.npy").read_bytes() == whole


def test_files_that_belong_together_are_put_back(tmp_path, monkeypatch):
    targets = [tmp_path / name for name in "abc"]
    for target in targets[:2]:
        target.write_bytes(b"before")

    def write():
        try:
            with replacing_all(targets) as files:
                for file in files:
                    file.write(b"after")
        except OSError as error:
            return error.filename
        return None

    assert fail_each(monkeypatch, tmp_path, write, lambda name, at: Path(name).name in "abc") >= 12
    assert [target.read_bytes() for target in targets] == [b"after"] * 3


def test_counts_that_go_to_disk_name_a_temporary_file(monkeypatch):
    class Full(io.BytesIO):
        def write(self, data):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("cmfast._files.runs._scratch", Full)
    with Runs(1) as runs, pytest.raises(OSError, match="a temporary file"):
        runs.add([("a",)], np.array([[0, 0, 0, 1]]))
