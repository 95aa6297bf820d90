"""The benchmarks of a GPU, run where there is none: they must not rot until the next one is at hand."""

import json
from importlib import import_module

import cuda_host
import cupy_on_cuda_host
import numpy as np
import on_cuda_host  # noqa: F401  # lets the package take its arrays
import pytest
from processes import ROOT

pytestmark = pytest.mark.skipif(cuda_host.missing() is not None, reason=str(cuda_host.missing()))


@pytest.fixture
def gpu(monkeypatch):
    """Return the module of the benchmarks, with arrays on the host."""
    cupy_on_cuda_host.install(monkeypatch)
    monkeypatch.syspath_prepend(ROOT)  # they are not installed with the package
    return import_module("benchmarks.gpu")


@pytest.mark.filterwarnings("ignore::cmfast.FailureWarning")
def test_every_job_runs_and_is_right(gpu, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(gpu, "BUDGET", 0.0)
    monkeypatch.setattr(gpu, "LEAST", 1)
    monkeypatch.setattr(gpu, "PART", 7)
    gpu.main(["--smoke", "--results", str(tmp_path)])
    (file,) = tmp_path.iterdir()
    found = json.loads(file.read_text())
    assert file.name == "host-0.json"
    assert found["machine"]["device"] == "host 0"
    jobs = {job["job"] for job in found["jobs"]}
    assert {"bi_normalize", "metrics.compute, 10 names", "confusion_matrix weights", "cell_counts, gcm", "gcm"} <= jobs
    targets = {(job["job"], job["target"]) for job in found["jobs"] if job["target"]}
    assert {("bi_normalize", "4 copies"), ("confusion_matrix uint8", "1.3 copies")} <= targets
    assert all(job["seconds"] > 0 and job["met"] in (None, True, False) for job in found["jobs"])
    assert "target 4 copies" in capsys.readouterr().out


def test_a_wrong_result_is_no_result(gpu):
    M = cuda_host.asarray(np.ones((9, 2, 2)))
    right = gpu.Job("right", "", 1, lambda M: M + 0.0, (M,))
    right.check()
    wrong = gpu.Job("wrong", "", 1, lambda M: M + (0.0 if isinstance(M, np.ndarray) else 1e-6), (M,))
    with pytest.raises(AssertionError):
        wrong.check()


def test_points_are_what_they_should_be(gpu, monkeypatch):
    monkeypatch.setattr(gpu, "ROWS", 1000)
    X, y, p = (a.get() for a in gpu.embeddings(4000, 3, 5))
    centres = np.random.default_rng(0).normal(size=(5, 3)) * 1.5
    noise = X - centres[y]
    np.testing.assert_allclose(noise.std(axis=0), 1.0, rtol=0.05)
    np.testing.assert_allclose(noise.mean(axis=0), 0.0, atol=0.05)
    assert np.bincount(y, minlength=5).min() > 700
    assert (p == np.argmin(((X[:, None] - centres) ** 2).sum(axis=2), axis=1)).all()
    assert abs(np.corrcoef(noise[:-1].ravel(), noise[1:].ravel())[0, 1]) < 0.05
