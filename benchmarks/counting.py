"""Counting labels."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import cmfast
from benchmarks import _data, _numba_loops, _rivals
from benchmarks._job import Job, Rival


def jobs(*, small: bool = False) -> Iterator[Job]:
    """Yield the jobs; `small` ones end in a fraction of a second."""
    n = 10_000 if small else 10_000_000
    yield _job("count", n, np.int64)
    yield _job("count int8", n, np.int8)
    yield _make_label_job("count far ids", n // 10, np.sort(np.random.default_rng(1).integers(0, 1 << 60, 100)))
    yield _make_label_job("count text", n // 10, np.array([f"class {k:02}" for k in range(100)], object))


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


def _make_label_job(name: str, n: int, classes: np.ndarray) -> Job:
    """Return a job of labels that are no class numbers; no rival is told the classes, which are in order."""
    ids = _data.labels(n, len(classes))
    y, p = (classes[part] for part in ids)
    want = _numba_loops.count(*ids, len(classes))
    rivals: dict[str, tuple[Callable[..., Any], str]] = {
        "pandas.factorize": (_rivals.pandas_codes, "pandas"),
        "pyarrow": (_rivals.arrow_codes, "pyarrow"),
        "numpy.unique": (_rivals.numpy_codes, ""),
    }

    def check(found):
        labels, M = found
        np.testing.assert_array_equal(labels, classes)
        np.testing.assert_array_equal(M, want)
        return "same integers"

    def run(_):
        counts = cmfast.ConfusionCounts.from_labels(y, p)
        return counts.labels, counts.matrix

    return Job(
        name,
        f"{n:,} {y.dtype.name} labels, {len(classes)} classes",
        n,
        "labels",
        run,
        check,
        lambda: (y.copy(), p.copy()),
        "copy",
        [
            *(
                Rival(rival, lambda encode=encode: _rivals.coded_counts(y, p, encode), n, check, needs=needs)
                for rival, (encode, needs) in rivals.items()
            ),
            Rival("polars group-by", lambda: _rivals.polars_counts(y, p), n, check),
        ],
    )
