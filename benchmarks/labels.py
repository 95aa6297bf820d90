"""Labels that are no class ids: integers far apart, such as hashes, and text."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pyarrow as pa

import cmfast
from benchmarks import _data, _numba_loops
from benchmarks._job import Job, Rival
from cmfast import metrics


def jobs(*, small: bool = False) -> Iterator[Job]:
    """Yield the jobs; `small` ones end in a fraction of a second."""
    for C, n in [(10, 2_000), (60, 3_000)] if small else [(10, 10_000_000), (1000, 10_000_000)]:
        yield _make_ids_job(C, n)
    yield _make_many_ids_job(*((500, 3_000) if small else (100_000, 10_000_000)))


def _make_ids(C: int) -> np.ndarray:
    return np.random.default_rng(38).integers(-(2**63), 2**63 - 1, C)


def _make_ids_job(C: int, n: int) -> Job:
    """Rivals encode both columns and count the codes, which are then not those of sorted classes."""
    y, p = _data.labels(n, C)
    want, ids = _numba_loops.count(y, p, C), _make_ids(C)
    y, p, order = ids[y], ids[p], np.argsort(ids)
    want = want[np.ix_(order, order)]

    def check(M):
        np.testing.assert_array_equal(M, want)
        return "same integers"

    def count_pandas():
        codes, found = pd.factorize(np.concatenate([y, p]))
        return _sort_classes(_numba_loops.count(codes[:n], codes[n:], C), found)

    def count_arrow():
        found = pa.chunked_array([y, p]).dictionary_encode().unify_dictionaries()
        codes = [chunk.indices.to_numpy().astype(np.int64) for chunk in found.chunks]
        return _sort_classes(_numba_loops.count(*codes, C), found.chunk(0).dictionary.to_numpy())

    return Job(
        f"count ids {C}",
        f"{n:,} int64 ids far apart, C={C}",
        n,
        "labels",
        lambda threads: cmfast.confusion_matrix(y, p, num_threads=threads),
        check,
        lambda: (y.sum(), p.sum()),
        "read",
        [
            Rival("pandas.factorize", count_pandas, n, check),
            Rival("pyarrow dictionary", count_arrow, n, check),
        ],
    )


def _sort_classes(M, found):
    """Return a matrix over the classes `found` with these in order."""
    order = np.argsort(found)
    return M[np.ix_(order, order)]


def _make_many_ids_job(C: int, n: int) -> Job:
    """Make a job of so many classes that they are summed without a matrix; rivals only encode the ids."""
    ids = np.sort(_make_ids(C))
    y, p = (ids[codes] for codes in _data.labels(n, C))
    want = [np.bincount(np.searchsorted(ids, x), minlength=C) for x in (y, p)]

    def check(sums):
        for found, wanted in zip((sums.row_sums, sums.col_sums), want, strict=True):
            np.testing.assert_array_equal(found, wanted[want[0] + want[1] > 0])
        return "same integers"

    def check_classes(found):
        assert found == np.count_nonzero(want[0] + want[1])
        return "same number of classes"

    return Job(
        f"sum ids {C}",
        f"{n:,} int64 ids far apart, C={C:,}",
        n,
        "labels",
        lambda threads: metrics.label_margins(y, p, num_threads=threads),
        check,
        lambda: (y.sum(), p.sum()),
        "read",
        [
            Rival("pandas.factorize", lambda: len(pd.factorize(np.concatenate([y, p]))[1]), n, check_classes),
            Rival(
                "pyarrow dictionary",
                lambda: len(pa.chunked_array([y, p]).dictionary_encode().unify_dictionaries().chunk(0).dictionary),
                n,
                check_classes,
            ),
        ],
    )
