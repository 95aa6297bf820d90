"""Counting labels."""

from collections.abc import Iterator

import numpy as np

import cmfast
from benchmarks import _data, _numba_loops, _rivals
from benchmarks._job import Job, Rival


def jobs(*, small: bool = False) -> Iterator[Job]:
    """Yield the jobs; `small` ones end in a fraction of a second."""
    n = 10_000 if small else 10_000_000
    yield _job("count", n, np.int64)
    yield _job("count int8", n, np.int8)


def full_jobs(*, small: bool = False) -> Iterator[Job]:
    """Yield a hundred million labels."""
    yield _job("count 1e8 int8", 20_000 if small else 100_000_000, np.int8)


def _job(name: str, n: int, dtype: type) -> Job:
    C = 10
    few = min(n, 10_000_000)  # scikit-learn needs many times the memory of its labels
    y, p = (np.tile(ids.astype(dtype), n // few) for ids in _data.labels(few, C))
    want = _numba_loops.count(y, p, C)

    def check(M):
        np.testing.assert_array_equal(M, want)
        return "same integers"

    def check_few(M):
        np.testing.assert_array_equal(M, _numba_loops.count(y[:few], p[:few], C))
        return "same integers"

    bincount, in_blocks = (_rivals.NumpyBincount(size, C, dtype) for size in (n, 1 << 14))
    return Job(
        name,
        f"{n:,} {np.dtype(dtype).name} labels, C={C}",
        n,
        "labels",
        lambda threads: cmfast.confusion_matrix(y, p, n_classes=C, num_threads=threads),
        check,
        lambda: (y.sum(), p.sum()),
        "read",
        [
            Rival("scikit-learn", lambda: _rivals.sklearn_confusion_matrix(y[:few], p[:few]), few, check_few),
            Rival("numpy.bincount", lambda: bincount(y, p), n, check),
            Rival("the same in blocks", lambda: in_blocks(y, p), n, check),
            Rival("Numba loop", lambda: _numba_loops.count(y, p, C), n, check),  # compiled for `want`
            Rival("boost-histogram", lambda: _rivals.boost_counts(y, p, C), n, check, needs="boost_histogram"),
            Rival("fast-histogram", lambda: _rivals.fast_counts(y, p, C), n, check, needs="fast_histogram"),
        ],
    )
