"""What one call costs: one small matrix, import, the first call of a fresh process."""

import statistics
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import cmfast
from benchmarks import _data, _numba_loops, _rivals, _rivals_of_metrics
from benchmarks._job import Job, Rival

IMPORT = """
import time
import numpy
start = time.perf_counter()
import cmfast
print(time.perf_counter() - start)
"""

FIRST = """
import time
import numpy as np
import cmfast
M = np.full((10, 10), 3.0) + np.diag(np.arange(10.0))
start = time.perf_counter()
cmfast.bi_normalize(M)
print(time.perf_counter() - start)
"""

TOL = 1e-9


def jobs(*, small: bool = False) -> list[Job]:
    """Return single warm calls with little to do; they are small already."""
    M = _data.confusion_matrices(1, 10, 0.9, 1e-3)[0]
    counts = np.ceil(M).astype(np.int64)
    y, p = _data.labels(100, 10)
    many = _rivals.NumpyBincount(100, 10)
    labels = np.repeat(np.indices(counts.shape).reshape(2, -1), counts.ravel(), axis=1)
    sweeps = {
        "POT": lambda: _rivals.pot_sinkhorn(M[None], TOL)[0],
        "NumPy": lambda: _rivals.numpy_sinkhorn(M[None], TOL)[0],
        "Numba loop": lambda: _numba_loops.sinkhorn(M[None], TOL)[0],
    }
    return [
        _job("one ipf", "10x10", lambda threads: cmfast.ipf(M, num_threads=threads).matrix, M, sweeps, 1e-6),
        _job("one bi_normalize", "10x10", lambda threads: cmfast.bi_normalize(M, num_threads=threads), M, sweeps, 1e-6),
        _job(
            "one accuracy",
            "int64 10x10",
            lambda threads: cmfast.metrics.accuracy(counts, num_threads=threads),
            counts,
            {
                "scikit-learn, labels": lambda: _rivals_of_metrics.sklearn_accuracy(*labels),
                "NumPy": lambda: counts.trace() / counts.sum(),
                "Numba loop": lambda: _numba_loops.accuracy(counts[None])[0],
            },
            1e-15,
        ),
        _job(
            "one confusion_matrix",
            "100 int64 labels, C=10",
            lambda threads: cmfast.confusion_matrix(y, p, n_classes=10, num_threads=threads),
            y,
            {
                "scikit-learn": lambda: _rivals.sklearn_confusion_matrix(y, p),
                "numpy.bincount": lambda: many(y, p),
                "Numba loop": lambda: _numba_loops.count(y, p, 10),
            },
            0.0,
        ),
    ]


def _job(
    name: str,
    size: str,
    run: Callable[[int | None], Any],
    given: np.ndarray,
    rivals: dict[str, Callable[[], Any]],
    atol: float,
) -> Job:
    want = run(None)

    def check(found):
        np.testing.assert_allclose(found, want, rtol=0, atol=atol)
        return f"the same to {atol:g}" if atol else "same integers"

    honest = rivals["Numba loop"]()  # compiles it
    check(honest)
    return Job(
        name, size, 1, "calls", run, check, given.copy, "copy", [Rival(k, f, 1, check) for k, f in rivals.items()]
    )


def _fresh(code: str, times: int) -> float:
    runs = [
        float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
        for _ in range(times)
    ]
    return statistics.median(runs)


def import_seconds(times: int = 5) -> float:
    """Return the seconds of ``import cmfast`` over those of NumPy, in a fresh process."""
    return _fresh(IMPORT, times)


def first_call_seconds(times: int = 3) -> float:
    """Return the seconds of the first ``bi_normalize`` of a fresh process with a warm cache."""
    cmfast.bi_normalize(np.ones((10, 10)))  # warms the cache
    return _fresh(FIRST, times)
