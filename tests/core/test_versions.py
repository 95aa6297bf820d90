"""A cluster of two versions: a worker whose cmfast is another one refuses its tasks, and says which both are."""

import pickle
import shutil
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from processes import ROOT

import cmfast
from cmfast._core import source_digest
from cmfast.cli import _cluster
from cmfast.cli._parser import UsageError

pytestmark = pytest.mark.cluster

da = pytest.importorskip("dask.array")
cloudpickle = pytest.importorskip("cloudpickle")

WORKER = """
import pickle, sys, traceback
for path in sys.argv[1:]:
    try:
        made = pickle.load(open(path, "rb"))
        if hasattr(made, "dask"):
            print("RESULT", made.compute(scheduler="sync"))
        else:
            print("RESULT", made())
    except Exception as error:
        print(type(error).__name__, error)
"""


def task(part, threads):
    return part


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """Return a folder with a copy of cmfast, which may be made another version."""
    folder = tmp_path_factory.mktemp("other")
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "cmfast", folder / "cmfast", symlinks=False, ignore=ignore)
    return folder


def worked(folder, paths):
    """Return what a worker prints that has the cmfast of this folder."""
    command = [sys.executable, "-c", WORKER, *map(str, paths)]
    done = subprocess.run(command, cwd=folder, env={"PYTHONPATH": str(folder), "PATH": ""}, capture_output=True,
                          text=True, timeout=120, check=True)  # fmt: skip
    return done.stdout.splitlines()


def test_a_worker_of_another_version_refuses_by_name(other, tmp_path):
    y = da.from_array(np.arange(40) % 3, chunks=10)
    x = da.from_array(np.random.default_rng(0).normal(size=(40, 2)), chunks=(10, 2))
    made = {
        "matrix": cmfast.confusion_matrix(y, y, n_classes=3).sum(),
        "cells": cmfast.cell_counts(x, y, y, grid=cmfast.Grid([0.0, 0.0], [1.0, 1.0]), n_classes=3),
        "metric": cmfast.metrics.from_labels(y, y, "accuracy", n_classes=3),
    }
    paths = []
    for name, result in made.items():
        paths.append(tmp_path / name)
        paths[-1].write_bytes(cloudpickle.dumps(result))
    paths.append(tmp_path / "command")
    options = {"task": str.format, "given": (), "threads": 1, "made_by": source_digest.version_and_digest()}
    paths[-1].write_bytes(cloudpickle.dumps(partial(_cluster.run_task, "part", **options)))
    same = worked(other, paths)  # a copy is the same cmfast, wherever it lies
    assert [line.split()[0] for line in same] == ["RESULT"] * 4, same
    assert same[0] == "RESULT 40"
    assert same[3] == "RESULT (None, 'part')"

    version = other / "cmfast" / "_version.py"
    version.write_text(version.read_text().replace(cmfast.__version__, "7.8.9"))
    refused = worked(other, paths)
    for line in refused:
        assert "has cmfast 7.8.9 (" in line, line
        assert f"but the task was made by cmfast {source_digest.version_and_digest()}" in line
    assert refused[0].startswith("RuntimeError confusion_matrix: process ")
    assert refused[3].startswith("RESULT (UsageError('--scheduler: process")


def test_the_same_version_with_another_kernel_is_another(other):
    before = pickle.dumps(source_digest.version_and_digest())
    kernel = other / "cmfast" / "kernels" / "cpu" / "counting.py"
    kernel.write_text(kernel.read_text() + "# changed\n")
    code = "from cmfast._core.source_digest import version_and_digest as of; import pickle, sys; "
    code += "sys.stdout.buffer.write(pickle.dumps(of()))"
    done = subprocess.run([sys.executable, "-c", code], cwd=other, env={"PYTHONPATH": str(other), "PATH": ""},
                          capture_output=True, timeout=120, check=True)  # fmt: skip
    assert pickle.loads(done.stdout).split("(")[1] != pickle.loads(before).split("(")[1]


def test_every_task_of_a_graph_is_stamped(monkeypatch):
    y = da.from_array(np.arange(40) % 3, chunks=10)
    lazily = cmfast.confusion_matrix(y, y, n_classes=3)
    monkeypatch.setattr(source_digest, "version_and_digest", lambda: "another")
    with pytest.raises(RuntimeError, match="has cmfast another, but the task was made by cmfast"):
        lazily.compute(scheduler="sync")
    failed, result = _cluster.run_task("part", task=task, given=(), threads=1, made_by="0.0.1 (of before)")
    assert isinstance(failed, UsageError)
    assert result is None
