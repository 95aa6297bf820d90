"""Sorts by a range of bits: with a library that looks at these bits alone, the results of one that looks at all."""

from types import SimpleNamespace

import cuda_host
import numpy as np
import on_cuda_host  # noqa: F401  # lets cmfast take these arrays
import pytest
from checks import assert_same_bits

import cmfast
from cmfast.kernels.cuda._core import sorting

pytestmark = pytest.mark.skipif(cuda_host.missing() is not None, reason=str(cuda_host.missing()))

TEMPORARY = 100  # bytes that the sort below says it takes


@pytest.fixture
def by_bits(monkeypatch):
    """Let every sort be one that sees no other bits than it is told to; return the numbers of these."""
    seen = []

    def make_radix_sort(*, order, **arrays):
        assert order == "rising"

        def sorter(*, temp_storage, num_items, begin_bit, end_bit, stream, d_in_keys, d_out_keys, **values):
            assert stream.__cuda_stream__() == (0, 0)
            assert all(arrays[name] is array for name, array in (("d_in_keys", d_in_keys), *values.items()))
            if temp_storage is None:
                return TEMPORARY
            assert temp_storage.nbytes >= TEMPORARY
            assert (begin_bit, num_items) == (0, len(d_in_keys))
            assert d_in_keys.dtype.kind == "u"
            seen.append(end_bit)
            keys = d_in_keys._host & d_in_keys.dtype.type((1 << end_bit) - 1)
            places = keys.argsort(kind="stable")
            d_out_keys._host[:] = d_in_keys._host[places]
            if values["d_in_values"] is not None:
                values["d_out_values"]._host[:] = values["d_in_values"]._host[places]
            return TEMPORARY

        return sorter

    found = SimpleNamespace(make_radix_sort=make_radix_sort, SortOrder=SimpleNamespace(ASCENDING="rising"))
    monkeypatch.setattr(sorting, "_algorithms", lambda: found)
    monkeypatch.setattr(sorting, "LEAST", 1)
    return seen


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("n_keys", [1, 8, 100, 2**20, 2**31 - 2])
def test_keys_and_dropped_ones_are_sorted(by_bits, dtype, n_keys):
    rng = np.random.default_rng(n_keys)
    keys = rng.integers(0, n_keys, 500).astype(dtype)
    keys[::7], keys[3] = np.iinfo(dtype).max, n_keys - 1
    got = sorting.sort(cuda_host.asarray(keys), n_keys).get()
    assert got.dtype == dtype
    assert np.array_equal(got, np.sort(keys))
    order = sorting.order(cuda_host.asarray(keys), n_keys).get()
    assert order.dtype == np.int64
    assert np.array_equal(order, keys.argsort(kind="stable"))
    assert by_bits == [n_keys.bit_length()] * 2


def test_cells_and_matrices_are_the_same(monkeypatch, by_bits):
    rng = np.random.default_rng(6)
    X, (y, p), w = rng.random((800, 3)), rng.integers(0, 5, (2, 800)), rng.random(800)
    X[5] = np.nan
    grid = cmfast.Grid([0.0] * 3, [0.3] * 3)

    def results():
        there = [cuda_host.asarray(a) for a in (X, y, p, w)]
        cells = cmfast.cell_counts(*there[:3], grid=grid, n_classes=5, on_failure="ignore")
        parts = [cmfast.sparse_histogram(there[0], grid=grid, groups=there[1], on_failure="ignore", **weights)
                 for weights in ({}, {"weights": there[3]}, {"weights": there[2]})]  # fmt: skip
        made = [part for part in (cells + cells, *parts) for part in vars(part).values() if hasattr(part, "get")]
        assert len(made) >= 8
        return tuple(part.get() for part in (*made, cmfast.gcm(cells, "row")))

    got, sorts = results(), len(by_bits)
    assert sorts > 4
    monkeypatch.setattr(sorting, "LEAST", 1 << 22)
    assert_same_bits(got, results())
    assert len(by_bits) == sorts


def test_without_the_library_cupy_sorts(monkeypatch):
    monkeypatch.setattr(sorting, "LEAST", 1)
    sorting._algorithms.cache_clear()
    if sorting._algorithms() is None:
        assert sorting.sort(cuda_host.asarray(np.array([3, 1, 2])), 4).get().tolist() == [1, 2, 3]
    monkeypatch.setattr(sorting, "import_module", lambda name: SimpleNamespace())
    sorting._algorithms.cache_clear()
    assert sorting._algorithms() is None  # one too old to have it
    sorting._algorithms.cache_clear()
