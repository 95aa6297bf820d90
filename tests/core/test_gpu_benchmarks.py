"""The benchmarks of a GPU, run where there is none: they must not rot until the next one is at hand."""

import json
import re
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec

import cuda_host
import cupy_on_cuda_host
import gpu_run
import numpy as np
import on_cuda_host  # noqa: F401  # lets the package take its arrays
import pytest
from processes import ROOT

import cmfast
from cmfast.kernels.cuda._core import module

pytestmark = [
    pytest.mark.cuda_host,
    pytest.mark.skipif(cuda_host.missing() is not None, reason=str(cuda_host.missing())),
]


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
    assert gpu.main(["--smoke", "--results", str(tmp_path)]) == 0
    (file,) = tmp_path.iterdir()
    found = json.loads(file.read_text())
    assert file.name == "host-0-smoke.json"
    assert found["complete"]
    assert found["machine"]["device"] == "host 0"
    jobs = {job["job"] for job in found["jobs"]}
    assert {"bi_normalize", "metrics.compute, 10 names", "confusion_matrix weights", "cell_counts, gcm", "gcm"} <= jobs
    targets = {(job["job"], job["target"]) for job in found["jobs"] if job["target"]}
    assert {("bi_normalize", "4 copies"), ("confusion_matrix uint8", "1.3 copies")} <= targets
    assert ("bi_normalize and back", "1.4 ms (H100), 1 ms (H200)") in targets
    assert all(job["seconds"] > 0 and job["met"] in (None, True, False) for job in found["jobs"])
    assert {job["left"] for job in found["jobs"] if job["job"] in ("bi_normalize", "ras")} == {0}
    out = capsys.readouterr().out
    assert "target 4 copies" in out
    assert re.search(r"accuracy 0\.9, \+ 0\.001, left 0  target", out)
    # Jobs with a target stand first: groups that have one, and in each of them.
    last = {job["job"]: number for number, job in enumerate(found["jobs"]) if job["target"]}
    first = {job["job"]: number for number, job in reversed([*enumerate(found["jobs"])])}
    assert max(last.values()) < first["overlap"]
    assert first["bi_normalize"] == 0
    assert last["metrics.compute, 10 names"] < first["margins"]
    assert last["confusion_matrix uint8"] < first["confusion_matrix weights"]
    assert first["cell_counts, gcm"] < first["cell_counts"]


@pytest.mark.filterwarnings("ignore::cmfast.FailureWarning")
def test_every_rival_runs_and_is_right(gpu, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(gpu, "BUDGET", 0.0)
    monkeypatch.setattr(gpu, "LEAST", 1)
    monkeypatch.setattr(gpu, "TOGETHER", 1)
    assert gpu.main(["--smoke", "--rivals", "--results", str(tmp_path)]) == 0, capsys.readouterr().out
    found = json.loads((tmp_path / "host-0-rivals-smoke.json").read_text())
    assert found["complete"]
    rivals = {rival["rival"]: rival for job in found["jobs"] for rival in job["rivals"]}
    skipped = {name for name, rival in rivals.items() if "skipped" in rival}
    absent = set() if find_spec("ot") else {"POT, ot.batch"}  # which tests alone do not need
    assert skipped == absent | {"Triton, 20 sweeps and back"}  # which needs a GPU
    assert all(rivals[name]["seconds"] > 0 < rivals[name]["seconds_of_ten"] for name in rivals.keys() - skipped)
    wanted = {"torch.bincount", "cupy.bincount", "torchmetrics", "torch.unique", "cupy.unique", "torch.sort, cumsum"}
    assert wanted | {"POT, ot.batch", "a thread per matrix, by hand", "torch.compile"} <= set(rivals)
    for name in ("a thread per matrix, by hand", "torch, 20 sweeps and back"):
        assert rivals[name]["note"].startswith("20 sweeps, residual ")
    assert {job["job"] for job in found["jobs"]} >= {"bi_normalize of one", "cell_counts", "threshold_matrices"}


def test_a_rival_that_is_wrong_or_absent_is_told(gpu, capsys):
    def absent():
        import no_such_library  # noqa: F401

    def wrong(found):
        assert found == 1, "not the same"

    rivals = [
        gpu.Rival("absent", absent, str),
        gpu.Rival("wrong", lambda: dict, wrong),
        gpu.Rival("good", lambda: dict, str),
    ]
    found = gpu.race(gpu.Race("job", "9", dict, tuple(rivals)), 1.0)
    assert found["error"].startswith("wrong: AssertionError: not the same")
    assert [sorted(rival.keys() & {"skipped", "error", "seconds"}) for rival in found["rivals"]] == [
        ["skipped"],
        ["error"],
        ["seconds"],
    ]
    assert "No module named 'no_such_library'" in capsys.readouterr().out


def test_targets_in_seconds_are_those_of_the_device(gpu, monkeypatch, capsys):
    M = cuda_host.asarray(np.ones((9, 2, 2)))
    monkeypatch.setattr(gpu, "seconds", lambda call: 1.5e-3)
    job = gpu.Job("job", "9", 1, lambda M: M + 0.0, (M,), most_seconds=2e-3)
    assert [gpu.row(job, speed)["met"] for speed in (2.9e12, 4.2e12)] == [True, False]
    assert "target 2 ms (H100), 1.4 ms (H200)" in capsys.readouterr().out


def planted(gpu, monkeypatch, *jobs):
    """Put two groups of such jobs in the place of all."""
    monkeypatch.setattr(gpu, "GROUPS", {"one": lambda size: iter(jobs[:2]), "two": lambda size: map(called, jobs[2:])})


def called(job):
    """Return a job, or raise what stands in its place."""
    if isinstance(job, Exception):
        raise job
    return job


def test_what_was_measured_is_on_disk_before_the_next_job(gpu, tmp_path, monkeypatch):
    """Whoever is killed in a job has all that was before it."""
    M, file = cuda_host.asarray(np.ones((9, 2, 2))), tmp_path / "host-0-smoke.json"
    seen = []

    def run(M):
        seen.append([job["job"] for job in json.loads(file.read_text())["jobs"]])
        return M + 0.0

    def killed(M):
        raise KeyboardInterrupt

    good = gpu.Job("good", "", 1, run, (M,))
    planted(gpu, monkeypatch, good, replace(good, name="second"), replace(good, name="killed", run=killed))
    with pytest.raises(KeyboardInterrupt):
        gpu.main(["--smoke", "--results", str(tmp_path)])
    assert [names for number, names in enumerate(seen) if names not in seen[:number]] == [[], ["good"]]
    found = json.loads(file.read_text())
    assert [job["job"] for job in found["jobs"]] == ["good", "second"]
    assert not found["complete"]
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_what_fails_is_told_and_the_next_job_is_tried(gpu, tmp_path, monkeypatch, capsys):
    M = cuda_host.asarray(np.ones((9, 2, 2)))
    good = gpu.Job("good", "9", 1, lambda M: M + 0.0, (M,))
    wrong = gpu.Job("wrong", "9", 1, lambda M: M + (0.0 if isinstance(M, np.ndarray) else 1e-6), (M,))
    planted(gpu, monkeypatch, wrong, good, MemoryError("no room"))
    assert gpu.main(["--smoke", "--results", str(tmp_path)]) == 1
    found = json.loads((tmp_path / "host-0-smoke.json").read_text())
    assert [(job["job"], job.get("error", "").partition(":")[0]) for job in found["jobs"]] == [
        ("wrong", "AssertionError"),
        ("good", ""),
        ("two", "MemoryError"),
    ]
    out = capsys.readouterr().out
    assert "FAILED AssertionError" in out
    assert "FAILED MemoryError: no room" in out


def test_a_part_does_not_replace_the_figures_of_all(gpu, tmp_path, monkeypatch):
    M = cuda_host.asarray(np.ones((9, 2, 2)))
    good = gpu.Job("good", "9", 1, lambda M: M + 0.0, (M,))
    planted(gpu, monkeypatch, good, good, replace(good, name="other"))
    assert gpu.main(["--smoke", "--only", "two", "--results", str(tmp_path / "new")]) == 0
    found = json.loads((tmp_path / "new" / "host-0-smoke-two.json").read_text())
    assert [job["job"] for job in found["jobs"]] == ["other"]


@pytest.mark.parametrize(
    "step", [step for step in gpu_run.steps() if step.group == "profile"], ids=lambda step: step.name
)
def test_a_profiler_finds_its_kernel(gpu, step, monkeypatch):
    launched, launch = [], module.Kernel.launch
    monkeypatch.setattr(module.Kernel, "launch", lambda k, *a, **o: (launched.append(k.name), launch(k, *a, **o))[1])
    command = step.command[step.command.index("benchmarks.gpu") + 1 :]
    assert gpu.main(list(command)) == 0
    assert step.prints in launched


@pytest.mark.parametrize("group", ["scaling", "gradients", "comparing", "metrics", "patterns"])
@pytest.mark.filterwarnings("ignore::cmfast.FailureWarning")
def test_no_honest_result_is_refused(gpu, group):
    """A few matrices pass where one of the thousand that a GPU is asked for may not."""
    for job in gpu.GROUPS[group](gpu.Size(gpu.PART, 0, 0)):
        job.check()


def test_a_wrong_result_is_no_result(gpu):
    M = cuda_host.asarray(np.ones((9, 2, 2)))
    right = gpu.Job("right", "", 1, lambda M: M + 0.0, (M,))
    right.check()
    wrong = gpu.Job("wrong", "", 1, lambda M: M + (0.0 if isinstance(M, np.ndarray) else 1e-6), (M,))
    with pytest.raises(AssertionError):
        wrong.check()


@pytest.mark.parametrize("wrong", [0, 23, 49], ids=["first", "random", "last"])
def test_items_of_the_whole_are_compared(gpu, monkeypatch, wrong):
    """Not only the first ones, which a GPU takes in the first turn of its blocks."""
    monkeypatch.setattr(gpu, "PART", 2)
    monkeypatch.setattr(gpu, "choose_items", lambda n: np.array(sorted({0, 1, 23, n - 2, n - 1})))
    M = cuda_host.asarray(np.ones((50, 2, 2)))

    def run(M):
        if len(M) == 50:
            M = M + 0.0
            M[wrong : wrong + 1] = M[wrong : wrong + 1] * 2.0
        return M

    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        gpu.Job("job", "", 1, run, (M,)).check()


def test_items_are_first_last_and_random(gpu, monkeypatch):
    monkeypatch.setattr(gpu, "PART", 10)
    found = gpu.choose_items(1000).tolist()
    assert found[:10] == [*range(10)]
    assert found[-10:] == [*range(990, 1000)]
    assert len(found) == 30
    assert found == sorted(set(found))
    assert gpu.choose_items(7).tolist() == [*range(7)]


def test_sums_of_the_whole_are_checked(gpu):
    """Each check refuses a result in which one thing is wrong somewhere."""
    rng = np.random.default_rng(0)
    there = cuda_host.asarray
    P, counts = np.full((50, 2, 2), 0.5), rng.integers(0, 9, (50, 3, 3))
    y, p = rng.integers(0, 3, (2, 500))
    table = np.histogram2d(y, p, bins=3)[0].astype(np.int64)
    margins = counts, counts.sum(2), counts.sum(1)
    thresholds = np.zeros(51), np.full((51, 2, 2), 5)
    draws = np.repeat(counts[:, None], 4, axis=1)
    X = rng.normal(size=(500, 1))
    cells = cmfast.cell_counts(*map(there, (X, y, p)), grid=cmfast.Grid([0.0], [0.2]))
    overlaps, (i, j, a) = cmfast.gcm(cells, ["all", "row", "bi"], **gpu.SMOOTHED).get(), rng.integers(0, 9, (3, 60))
    lines = np.bincount(i, a, 9) + np.bincount(j, a, 9)
    checks = [
        (gpu.check_lines, P),
        (lambda found: gpu.check_total(found, int(counts.sum())), counts),
        (lambda found: gpu.check_table(found, there(y), there(p)), table),
        (lambda found: gpu.check_margins(there(counts), (None, there(margins[1]), found)), margins[2]),
        (lambda found: gpu.check_matrices((None, found), 20), thresholds[1]),
        (lambda found: gpu.check_draws(there(counts), found), draws),
        (lambda found: gpu.check_minima(found, cells, ["all", "row", "bi"]), overlaps),
        (lambda found: gpu.check_products(lambda: None, *map(there, (i, j, a)), found), lines),
    ]
    for check, right in checks:
        check(there(right))
        wrong = right.copy()
        wrong.flat[-1] += 1
        with pytest.raises(AssertionError):
            check(there(wrong))


def test_easy_matrices_may_not_be_left_to_the_slow_kernel(gpu, monkeypatch):
    """Its results are right, so that nothing else says that the fast one does not work."""
    job = next(gpu.scaling(gpu.Size(20, 0, 0)))
    assert job.check() == 0
    patience = "int(min(max_iter, i64(PATIENT_PASSES)))"
    real = module.make_translation_unit

    def planted(topic, expression):
        code, names = real(topic, expression)
        assert topic != "scaling/group" or code.count(patience) == 1
        return code.replace(patience, "0"), names

    monkeypatch.setattr(module, "make_translation_unit", planted)
    monkeypatch.setattr(module, "_load_function", module._load_function.__wrapped__)
    monkeypatch.setattr(cuda_host._module, "_siblings", [])  # of which none is called
    with pytest.raises(AssertionError, match="20 matrices are left to the slow kernel, at most 0 may be"):
        job.check()


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
