"""Class sums of large counts in ranges of rows are those of NumPy, and so is a metric of them."""

import numpy as np
import pytest

from cmfast import metrics
from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu.metrics import _row_ranges


@pytest.fixture(autouse=True)
def many_ranges(monkeypatch):
    """Share matrices of any size, in as many ranges as they have rows."""
    monkeypatch.setattr(_row_ranges, "LEAST_SHARED_CELLS", 0)
    monkeypatch.setattr(pool, "PIECE_SECONDS", 1e-10)
    monkeypatch.setattr(pool, "INLINE_SECONDS", 0.0)
    monkeypatch.setattr(pool, "cpu_count", lambda: 3)


def sum_with_numpy(M):
    """Return diagonal, row and column sums, sums by distance from the diagonal and by larger class; the total."""
    i, j = np.indices(M.shape)
    classes = range(len(M))
    bands = [M[abs(i - j) == k].sum() for k in classes]
    tops = [M[np.maximum(i, j) == k].sum() for k in classes]
    return np.diag(M), M.sum(1), M.sum(0), bands, tops, M.sum()


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", [np.int64, np.int32])
@pytest.mark.parametrize("C", [33, 40, 71])
def test_sums_are_those_of_numpy(C, dtype, rng):
    M = rng.integers(0, 1000, (10, C, C)).astype(dtype)
    assert len(pool.free_pieces(C, C * C * _row_ranges.SECONDS_PER_SUMMED_CELL)) > 9
    found = metrics.margins(M)
    for b in range(len(M)):
        wanted = sum_with_numpy(M[b].astype(np.int64))
        for part, values in zip(found, wanted, strict=False):
            np.testing.assert_array_equal(part[b], values)


def test_totals_beyond_float64_are_exact(rng):
    M = rng.integers(0, 2**50, (35, 35))
    found = metrics.margins(M)
    assert found.total == M.sum() > 2**53
    np.testing.assert_array_equal(found.row_sums, M.sum(1))


def test_a_negative_cell_is_found_in_every_range(rng):
    M = rng.integers(1, 9, (35, 35, 35))
    for k in range(35):
        M[k, k, 34 - k] = -1
    with pytest.warns(Warning, match="INVALID"):
        assert np.isnan(metrics.accuracy(M)).all()


def test_metrics_do_not_depend_on_the_ranges(rng, monkeypatch):
    M = rng.integers(0, 1000, (60, 60))
    shared = metrics.compute(M)
    monkeypatch.setattr(pool, "PIECE_SECONDS", 1e-8)
    fewer = metrics.compute(M)
    alone = metrics.compute(M, num_threads=1)
    for name, value in alone.items():
        np.testing.assert_array_equal(shared[name], value, err_msg=name)
        np.testing.assert_array_equal(fewer[name], value, err_msg=name)
