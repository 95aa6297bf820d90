"""Eight numbers of a row as float64: rounded to nearest for every integer, and their signs."""

import numpy as np
import pytest

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import collect_signs, load_row, some_sign, splat, store_row

LARGEST = 2**63 - 1
TIES = [2**k + step * 2 ** (k - 53) for k in (53, 54, 61, 62) for step in (-3, -1, 0, 1, 3)]
EDGES = [0, -1, 1, 2**32, 2**32 - 1, -(2**32), LARGEST, -LARGEST, -LARGEST - 1, LARGEST - 511, LARGEST - 512, *TIES]


@jit()
def _convert(cells, out):
    for k in range(0, cells.shape[1], 8):
        store_row(out, 0, k, load_row(cells, 0, k))


@jit()
def _has_sign(cells):
    signs = splat(0.0)
    for row in range(len(cells)):
        signs = collect_signs(signs, cells, row, 0)
    return some_sign(signs)


def test_integers_are_rounded_to_nearest():
    rng = np.random.default_rng(0)
    near = [edge + away for edge in EDGES for away in (-1, 0, 1) if abs(edge + away) <= LARGEST]
    random = rng.integers(-LARGEST, LARGEST, 4000) >> rng.integers(0, 63, 4000)
    cells = np.r_[np.array(near), random][None, : (len(near) + 4000) // 8 * 8]
    out = np.empty(cells.shape)
    _convert(cells, out)
    want = np.array([[float(x) for x in cells[0].tolist()]])  # Python rounds to nearest, ties to even
    np.testing.assert_array_equal(out.view(np.int64), want.view(np.int64))


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.float64, np.float32])
def test_one_sign_of_many_is_found(dtype):
    cells = np.ones((3, 8), dtype)
    assert not _has_sign(cells)
    assert not _has_sign(cells * np.iinfo(dtype).max if np.dtype(dtype).kind == "i" else cells * np.inf)
    for place in np.ndindex(3, 8):
        one = cells.copy()
        one[place] = -1
        assert _has_sign(one)
