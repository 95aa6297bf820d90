"""Metrics straight from labels with so many classes that a matrix of all pairs would not fit."""

import numpy as np

from benchmarks import rivals
from benchmarks._job import Job, Rival
from cmfast import metrics

NAMES = ["accuracy", *(f"{name}_{a}" for a in ("macro", "weighted") for name in ("precision", "recall", "f1"))]


def jobs(*, small: bool = False) -> list[Job]:
    """Return the jobs; `small` ones end in a fraction of a second."""
    return [_job(C, n) for C, n in ([(50, 2_000)] if small else [(10_000, 10_000_000), (100_000, 10_000_000)])]


def _job(C: int, n: int) -> Job:
    rng = np.random.default_rng(0)
    y = rng.integers(0, C, n)
    p = np.where(rng.random(n) < 0.7, y, rng.integers(0, C, n))
    out = np.empty_like(y)
    want = metrics.from_labels(y, p, NAMES, n_classes=C)

    def check(found):
        for name, value in found.items():
            np.testing.assert_allclose(value, want[name], rtol=2e-6, err_msg=name)  # torchmetrics: float32
        return f"{len(found)} metrics"

    def ours(found):
        assert found["recall_weighted"] == found["accuracy"]
        np.testing.assert_allclose(found["accuracy"], (y == p).mean(), rtol=1e-12)
        return check(found)

    against = [Rival("scikit-learn", lambda: rivals.sklearn_label_metrics(y, p), n, check)]
    if C <= 10_000:  # its matrix of all pairs takes 8 C^2 bytes, 80 GB for 100,000 classes
        against.append(Rival("torchmetrics", lambda: rivals.torchmetrics_label_metrics(y, p, C), n, check))
    return Job(
        f"labels {C}",
        f"{n:,} labels, {C:,} classes, no matrix",
        n,
        "labels",
        lambda threads: metrics.from_labels(y, p, NAMES, n_classes=C, num_threads=threads),
        ours,
        lambda: (np.copyto(out, y), np.copyto(out, p)),
        "copy",
        against,
        memory=True,
    )
