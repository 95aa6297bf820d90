"""The radix sort of keys against NumPy's sort."""

import numpy as np
import pytest

import cmfast
from cmfast.kernels.cpu.geometry import _radix_sort


@pytest.fixture(autouse=True)
def slow_numpy(monkeypatch):
    """Let NumPy's sort count as slow, as it is on some processors."""
    monkeypatch.setattr(_radix_sort, "is_numpy_slow", lambda: True)


@pytest.mark.parametrize("bits", [0, 1, 5, 11, 12, 22, 23, 33, 40, 55, 62, 63])
def test_keys_are_sorted(bits):
    rng = np.random.default_rng(bits)
    for n in (0, 1, 2, 100, _radix_sort.LEAST_RADIX_KEYS - 1, _radix_sort.LEAST_RADIX_KEYS, 50_001):
        keys = rng.integers(0, 2**bits - 1, n, endpoint=True)
        found, buffer = keys.copy(), np.full(n, -1)
        _radix_sort.sort(found, buffer)
        np.testing.assert_array_equal(found, np.sort(keys))


def test_equal_bits_between_different_ones_and_the_largest_key_are_sorted():
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 2**62, 20_000) & ~np.int64(0x7FFFC00FF0)
    keys[::7] = np.iinfo(np.int64).max  # a point without a cell
    found = keys.copy()
    _radix_sort.sort(found)
    np.testing.assert_array_equal(found, np.sort(keys))


def test_one_key_that_differs_is_moved():
    keys = np.full(_radix_sort.LEAST_RADIX_KEYS, 5, np.int64)
    keys[0] = 2**62 + 5
    _radix_sort.sort(keys)
    assert (keys[:-1] == 5).all()
    assert keys[-1] == 2**62 + 5


def test_cells_have_the_same_bits_with_either_sort(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300_000, 4)), rng.integers(0, 5, 300_000)
    X[::50] = np.nan
    grid = cmfast.Grid([0.0] * 4, [0.3] * 4)
    found = {}
    for slow in (True, False):
        monkeypatch.setattr(_radix_sort, "is_numpy_slow", lambda slow=slow: slow)
        cells = cmfast.cell_counts(X, y, y, grid=grid, n_classes=5, on_failure="ignore")
        sums = cmfast.sparse_histogram(X, grid=grid, weights=rng.permutation(len(y)) * 0 + y / 7, on_failure="ignore")
        found[slow] = cells.to_bytes(), [np.asarray(part).tobytes() for part in (sums.cells, sums.values)]
    assert found[True] == found[False]
