"""Counting labels."""

import numpy as np

import cmfast
from benchmarks import _data, _rivals
from benchmarks._job import Job, Rival


def jobs(*, small: bool = False) -> list[Job]:
    """Return the jobs; `small` ones end in a fraction of a second."""
    n, C = (10_000, 10) if small else (10_000_000, 10)
    y, p = _data.labels(n, C)
    want = _rivals.numpy_bincount(y, p, C)

    def check(M):
        np.testing.assert_array_equal(M, want)
        return "same integers"

    return [
        Job(
            "count",
            f"{n:,} int64 labels, C={C}",
            n,
            "labels",
            lambda threads: cmfast.confusion_matrix(y, p, n_classes=C, num_threads=threads),
            check,
            lambda: (y.sum(), p.sum()),
            "read",
            [
                Rival("scikit-learn", lambda: _rivals.sklearn_confusion_matrix(y, p), n, check),
                Rival("numpy.bincount", lambda: _rivals.numpy_bincount(y, p, C), n, check),
            ],
        )
    ]
