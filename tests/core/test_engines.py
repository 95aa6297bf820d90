"""Examples on engines: what each of them counts in parts has the bits of one process, and those of a plain loop."""

import os
import runpy
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import engine
import numpy as np
import pytest
from processes import ROOT, python
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB

import cmfast

pytestmark = pytest.mark.cluster

FOLDER = ROOT / "examples" / "engines"
RECORDED = ROOT / "docs" / "howto" / "printed"  # what the page shows of programs that no build of it runs
ENGINES = (
    "on_joblib",
    "on_mpi",
    "on_multiprocessing",
    "on_ray",
    "on_spark",
    "on_torch_distributed",
)  # that start processes of their own

EXECUTE = "import os, sys; os.execvp(sys.argv[1], sys.argv[1:])"
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}  # as containers run tests


def find_mpiexec():
    """Return the command that starts ranks: that of this environment, or the system's."""
    return shutil.which("mpiexec", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))


def looped(y, p, n_classes):
    """Return the counts of a plain loop."""
    found = np.zeros((n_classes, n_classes), np.int64)
    for pair in zip(y, p, strict=True):
        found[pair] += 1
    return found


def ran(example):
    """Return what an example has named, run in this process."""
    if why := engine.missing(example):
        pytest.skip(why)
    return runpy.run_path(str(FOLDER / f"{example}.py"))


def assert_counted(counts):
    """Assert that these are the counts of all digits, as one process makes them."""
    X, y = load_digits(return_X_y=True)
    p = GaussianNB().fit(X[::2], y[::2]).predict(X)
    points = cmfast.pca(X, 3).transform(X)
    assert counts == cmfast.cell_counts(points, y, p, grid=counts.grid, n_classes=10)
    np.testing.assert_array_equal(counts.confusion_matrix(), looped(y, p, 10))


def test_every_program_is_on_a_page():
    pages = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md"))
    programs = [path.relative_to(ROOT / "examples").as_posix() for path in (ROOT / "examples").rglob("*.py")]
    assert not [name for name in programs if f"```{{run-example}} {name}\n" not in pages]


def test_every_example_is_run_and_shown():
    names = {path.stem for path in FOLDER.glob("*.py")}
    assert names == set(engine.NEEDS)
    page = (ROOT / "docs" / "howto" / "engines.md").read_text(encoding="utf-8")
    assert not [name for name in names if f"engines/{name}.py" not in page]
    assert {path.stem for path in RECORDED.iterdir()} == {
        name for name in names if f"engines/{name}.py\n:needs:" in page
    }


@pytest.mark.parametrize("example", ["federated_http", "on_dask"])
def test_parts_add_up_to_the_counts_of_one_process(example, capsys):
    assert_counted(ran(example)["counts"])
    assert ("400 " in capsys.readouterr().out) == (example == "federated_http")  # damaged counts are refused


def test_blocks_of_xarray_have_the_matrices_of_one_process():
    found = ran("with_xarray")
    truth, guess, matrices = (found[name] for name in ("truth", "guess", "matrices"))
    assert matrices.dims == ("model", "region", "true", "predicted")
    for m, region in np.ndindex(2, 3):
        one = looped(truth.values[region], guess.values[m, region], 4)
        np.testing.assert_array_equal(matrices.values[m, region], one)


@pytest.mark.slow
@pytest.mark.parametrize("example", ENGINES)
def test_processes_add_up_to_the_counts_of_one(example, tmp_path):
    if why := engine.missing(example):
        pytest.skip(why)
    command = [str(ROOT / "tests" / "harness" / "engine.py"), str(FOLDER / f"{example}.py"), str(tmp_path / "out.npz")]
    if example == "on_torch_distributed":
        command = ["-m", "torch.distributed.run", "--nproc-per-node", "2", *command]
    if example == "on_mpi":
        command = ["-c", EXECUTE, find_mpiexec(), "--oversubscribe", "-n", "2", sys.executable, *command]
    home = tmp_path / "home"  # engines keep tokens and logs there
    home.mkdir()
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    with TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as short:  # names of sockets are no longer
        found = {"HOME": str(home), "XDG_CACHE_HOME": cache, "RAY_TMPDIR": short, **AS_ROOT}
        printed = python(*command, cwd=tmp_path, **found)
    if (recorded := RECORDED / f"{example}.txt").exists():
        assert recorded.read_text(encoding="utf-8") == printed
    assert_counted(cmfast.CellCounts.load(tmp_path / "out.npz"))
