"""Every write of a saved state made to fail once; and what shows that such faults are found."""

import errno
import os
import tempfile
from pathlib import Path

import failing_disk
import numpy as np
import pytest
from callables import STATES
from failing_disk import Job

import cmfast
from cmfast._files import scratch
from cmfast._files.output import Outputs, replace_file, write_npz

MATRIX = np.arange(9).reshape(3, 3)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return the current folder, in which temporary files are, too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def job(write, *names):
    """Return a call that writes files of these names as a job."""

    def run():
        try:
            write()
        except OSError as error:
            return f"no file is named: {error}" if error.filename is None else str(error)
        return None

    return Job(run, dict.fromkeys(names, b"earlier"))


def assert_whole(work, folder, least=14):
    number, wrong = failing_disk.faults(work, folder)
    assert not wrong, "\n".join(wrong)
    assert number >= least


@pytest.mark.parametrize("suffix", ["npz", "json"])
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.exhaustive) for name in STATES])
def test_a_state_is_saved_whole_or_not_at_all(name, suffix, folder):
    state = STATES[name](np.asarray)
    assert_whole(job(lambda: state.save(f"state.{suffix}"), f"state.{suffix}"), folder)


@pytest.mark.parametrize("suffix", ["npz", "json"])
def test_counts_are_saved_whole_or_not_at_all(suffix, folder):
    counts = cmfast.ConfusionCounts.from_labels([0, 1, 2, 2], [0, 1, 1, 2])
    assert_whole(job(lambda: counts.save(f"counts.{suffix}"), f"counts.{suffix}"), folder)


@pytest.mark.exhaustive
def test_a_report_is_saved_whole_or_not_at_all(folder):
    page = cmfast.report([0, 1, 1, 0] * 10, [0, 1, 0, 0] * 10, n_resamples=50)
    assert_whole(job(lambda: page.save("page.html"), "page.html"), folder)


def write_together(*names):
    with Outputs() as outputs:
        for name in names:
            with outputs.replace_file(Path(name)) as file:
                file.write(name.encode())


def test_several_outputs_appear_together(folder):
    assert_whole(job(lambda: write_together("a", "b", "c"), "a", "b", "c"), folder)


def test_what_has_replaced_is_put_back_where_there_are_no_links(folder, monkeypatch):
    for name in "ab":
        Path(name).write_text("earlier")
    real = Path.replace

    def replace(path, target):
        if Path(target).name == "b":
            raise OSError(errno.EIO, "broken", str(path))
        return real(path, target)

    def link(*names):
        raise OSError(errno.EPERM, "no links")

    monkeypatch.setattr(os, "link", link)
    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(OSError, match="broken") as told:
        write_together("a", "b")
    assert told.value.filename == "b"
    assert failing_disk.contents(folder) == {"a": b"earlier", "b": b"earlier"}


def test_a_temporary_array_names_its_folder(folder):
    def write():
        with scratch.Scratch() as rows:
            rows.append(MATRIX)
            found = rows.mapped().sum()
        with replace_file(Path("sum")) as file:
            file.write(str(found).encode())

    assert_whole(job(write, "sum"), folder)


def half(path):
    """Write in place: what is there is gone before anything new is."""
    with Path(path).open("wb") as file:
        file.write(bytes(100))


def by_c(path):
    """Write by NumPy's means, which in C say nothing of a disk that is full."""
    with replace_file(Path(path)) as file:
        np.save(file, MATRIX, allow_pickle=False)


def left(path):
    """Leave a file behind that was to take the place of another."""
    part = Path(f"{path}.part")
    half(part)
    part.replace(path)


def swallowed(path):
    """Say that all went well."""
    try:
        half(path)
    except OSError:
        return


def nameless(path):
    """Write well, and name no file."""
    try:
        with replace_file(Path(path)) as file:
            file.write(b"whole")
    except OSError as error:
        raise OSError(error.errno, error.strerror) from None


@pytest.mark.parametrize(
    ("planted", "text"),
    [
        (half, "left out.npy (new)"),
        (half, "left out.npy (changed)"),
        (by_c, "ended well with out.npy (changed)"),
        (left, "left out.npy.part (new)"),
        (swallowed, "ended well with out.npy (changed)"),
        (nameless, "said 'no file is named"),
    ],
)
def test_planted_faults_are_found(planted, text, folder):
    _, wrong = failing_disk.faults(job(lambda: planted("out.npy"), "out.npy"), folder)
    assert any(text in each for each in wrong), wrong


@pytest.mark.parametrize("limit", [0, 100, 300])
def test_a_file_that_may_not_grow_is_named_and_not_there(limit, folder):
    def write():
        with replace_file(Path("out.npz")) as file:
            write_npz(file, {"matrix": MATRIX})

    with failing_disk.files_up_to(limit):
        said = job(write, "out.npz").run()
    assert said == "[Errno 27] File too large: 'out.npz'"
    assert failing_disk.contents(folder) == {}
    assert job(write, "out.npz").run() is None
