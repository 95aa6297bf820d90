"""Dask arrays compared with the same work without Dask, and with other ways to count labels on Dask."""

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np

import cmfast
from benchmarks import _data, _numba_loops, _rivals
from benchmarks._job import Job, Rival

C = 10


def jobs(*, small: bool = False) -> Iterator[Job]:
    """Yield the jobs, if Dask is there; `small` ones end in a fraction of a second."""
    if find_spec("dask") is not None:
        yield _count("count on Dask", 40_000 if small else 20_000_000, 4)
        yield _points(40_000 if small else 4_000_000, 4)
        yield _make_scaling_job(80 if small else 80_000, 4)


def full_jobs(*, small: bool = False) -> Iterator[Job]:
    """Yield a hundred million labels in ten chunks, and twenty million points in two."""
    if find_spec("dask") is not None:
        yield _count("count on Dask, 1e8 labels", 40_000 if small else 100_000_000, 10)
        yield _points(40_000 if small else 20_000_000, 2, "cells on Dask, 1e7 points a chunk")


def compute_in_threads(lazy: Any, threads: int | None) -> Any:
    """Compute a lazy object in `threads` threads, or in all that the process may use."""
    return lazy.compute(scheduler="threads", **({} if threads is None else {"num_workers": threads}))


def _count(name: str, n: int, n_chunks: int) -> Job:
    import dask.array as da

    few = n // n_chunks  # scikit-learn takes a hundred times as long
    y, p = (np.tile(ids.astype(np.int8), n_chunks) for ids in _data.labels(few, C))
    lazy = [da.from_array(ids, chunks=few) for ids in (y, p)]
    want = _numba_loops.count(y, p, C)

    def check(M: Any) -> str:
        np.testing.assert_array_equal(np.asarray(M).reshape(C, C), want)
        return "same integers"

    def check_few(M: Any) -> str:
        np.testing.assert_array_equal(M * n_chunks, want)
        return "same integers"

    counted = cmfast.confusion_matrix(*lazy, n_classes=C)
    rivals = [
        Rival("without Dask", lambda: cmfast.confusion_matrix(y, p, n_classes=C), n, check),
        Rival("NumPy per chunk", _add_up_chunks(lazy, _numpy), n, check),
        Rival("scikit-learn per chunk", _add_up_chunks([ids[:few] for ids in lazy], _sklearn), few, check_few),
    ]
    if find_spec("pandas") is not None:
        rivals.append(Rival("Dask group-by of keys", _group_by(*lazy), n, check))
    if find_spec("dask_ml") is not None:
        rivals.append(_accuracy(lazy, n, int(np.trace(want))))
    return Job(
        name,
        f"{n:,} int8 labels, C={C}, {n_chunks} chunks",
        n,
        "labels",
        lambda threads: compute_in_threads(counted, threads),
        check,
        lambda: (y.sum(), p.sum()),
        "read",
        rivals,
    )


def _add_up_chunks(lazy: list[Any], one: Callable[..., Any]) -> Callable[[], Any]:
    """Return a function that sums the matrices of chunks, as a user of Dask would write it."""
    import dask

    parts = [dask.delayed(one)(*blocks) for blocks in zip(*(ids.to_delayed() for ids in lazy), strict=True)]
    total = dask.delayed(sum)(parts)
    return lambda: compute_in_threads(total, None)


def _numpy(y: Any, p: Any) -> Any:
    return _rivals.NumpyBincount(1 << 14, C, y.dtype)(y, p)


def _sklearn(y: Any, p: Any) -> Any:
    return _rivals.sklearn_confusion_matrix(y, p)


def _group_by(y: Any, p: Any) -> Callable[[], Any]:
    import dask.dataframe as dd

    keys = dd.from_dask_array(y.astype(np.int16) * C + p, columns="key").to_frame()
    sizes = keys.groupby("key").size()
    return lambda: compute_in_threads(sizes, None).reindex(range(C * C), fill_value=0).to_numpy()


def _accuracy(lazy: list[Any], n: int, right: int) -> Rival:
    """Return dask-ml, which has no confusion matrix: its accuracy, one number of it."""
    from dask_ml.metrics import accuracy_score

    def check(found: Any) -> str:
        np.testing.assert_equal(int(found), right)
        return "accuracy alone"

    return Rival("dask-ml accuracy", lambda: accuracy_score(*lazy, normalize=False), n, check)


def _points(n: int, n_chunks: int, name: str = "cells on Dask") -> Job:
    import dask.array as da

    arrays = _data.embeddings(n, 3, C)
    X, y, p = (da.from_array(array, chunks=(n // n_chunks, *array.shape[1:])) for array in arrays)
    grid = cmfast.Grid([0.0] * 3, [0.5] * 3)
    counted = cmfast.cell_counts(X, y, p, grid=grid, n_classes=C)
    want = cmfast.cell_counts(*arrays, grid=grid, n_classes=C)

    def check(found: Any) -> str:
        assert found == want
        return "same integers"

    return Job(
        name,
        f"{n:,} points, 3 axes, C={C}, {n_chunks} chunks",
        n,
        "points",
        lambda threads: compute_in_threads(counted, threads),
        check,
        arrays[0].sum,
        "read",
        [Rival("without Dask", lambda: cmfast.cell_counts(*arrays, grid=grid, n_classes=C), n, check)],
    )


def _make_scaling_job(B: int, n_chunks: int) -> Job:
    import dask.array as da

    M = _data.confusion_matrices(B, C, 0.6, 1e-3)
    lazy = cmfast.bi_normalize(da.from_array(M, chunks=(B // n_chunks, C, C)))
    want = cmfast.bi_normalize(M)

    def check(found: Any) -> str:
        np.testing.assert_array_equal(found, want)
        return "same bits"

    return Job(
        "bi_normalize on Dask",
        f"{B:,} matrices, C={C}, {n_chunks} chunks",
        B,
        "matrices",
        lambda threads: compute_in_threads(lazy, threads),
        check,
        M.copy,
        "copy",
        [Rival("without Dask", lambda: cmfast.bi_normalize(M), B, check)],
    )
