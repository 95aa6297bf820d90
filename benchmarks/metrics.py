"""Every metric of a batch of confusion matrices."""

import numpy as np

from benchmarks import data, rivals
from benchmarks._job import Job, Rival
from cmfast import metrics


def jobs(*, small: bool = False) -> list[Job]:
    """Return the jobs; `small` ones end in a fraction of a second."""
    sizes = ((3, 100), (10, 100), (40, 10)) if small else ((3, 2_000_000), (10, 1_000_000), (100, 2_000), (1000, 20))
    return [_job(C, B) for C, B in sizes]


def _job(C: int, B: int) -> Job:
    # Rounded up, so that every class is true and predicted: rivals differ in what they make of a 0/0.
    M = np.ceil(100 * data.confusion_matrices(min(B, 1000), C, 0.8, 1e-3)).astype(np.int64)
    M = np.tile(M, (-(-B // len(M)), 1, 1))[:B]
    part = M[: max(1, B // 50)]
    labels = [_labels(m) for m in M[: min(20, B)]] if C <= 100 else []

    def check(found):
        want = rivals.numpy_metrics(M[:3])
        for name, values in found.items():
            k = min(3, len(values))
            np.testing.assert_allclose(values[:k], want[name][:k], rtol=1e-9, atol=1e-12, err_msg=name)
        return f"{len(found)} metrics"

    against = [Rival("NumPy expressions", lambda: rivals.numpy_metrics(part), len(part), check)]
    if labels:
        against.append(Rival("scikit-learn", lambda: rivals.sklearn_metrics(labels), len(labels), check))
    if C <= 10:
        few = min(20, B)
        against.append(Rival("PyCM", lambda: rivals.pycm_metrics(M[:few]), few, check))
    return Job(
        f"metrics {C}",
        f"{B:,} int64 matrices {C}x{C}",
        B,
        "matrices",
        lambda threads: metrics.compute(M, metrics.SCALARS, num_threads=threads),
        check,
        M.sum,
        "read",
        against,
    )


def _labels(m):
    i, j = np.nonzero(m)
    return np.repeat(i, m[i, j]), np.repeat(j, m[i, j])
