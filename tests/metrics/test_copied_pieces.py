"""Views of many matrices, which are copied in pieces, have the bits of contiguous copies."""

import numpy as np
import pytest
from checks import assert_same_bits

from cmfast import metrics
from cmfast.kernels.cpu.metrics import _copied_pieces

SIGNALLING_NAN = 0x7FF4_0000_0000_0001  # as the bits of a float64: a count that no conversion may touch
VIEWS = {
    "slice": lambda M, C: M[:, :C, 1 : C + 1],
    "steps": lambda M, C: M[:, ::2, ::2],
    "backwards": lambda M, C: M[::-1, C:, C:],
    "transposed": lambda M, C: np.ascontiguousarray(M[:, :C, :C]).transpose(0, 2, 1),
    "Fortran": lambda M, C: np.asfortranarray(M[:, :C, :C]),
    "batch last": lambda M, C: np.ascontiguousarray(M[:, :C, :C].transpose(1, 2, 0)).transpose(2, 0, 1),
    "every second": lambda M, C: np.ascontiguousarray(M[:, :C, :C])[::2],
    "part of Fortran": lambda M, C: np.asfortranarray(M[:, :C, :C])[3:-2],
    "repeated": lambda M, C: np.broadcast_to(M[0, :C, :C], (len(M), C, C)),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("C", [2, 7, 8, 33, 70])
@pytest.mark.parametrize("dtype", ["i8", "i4", "f8", "f4", "u1", "i2", "u8", "f2", "?"])
def test_views_have_the_bits_of_copies(view, C, dtype, rng):
    n = 2 * (_copied_pieces.LEAST_COPIED_BYTES // (np.dtype(dtype).itemsize * C * C)) + 7
    M = rng.integers(0, 2 if dtype == "?" else 9, (n, 2 * C, 2 * C)).astype(dtype)
    if dtype == "i8":
        M[4, : 2 * C, 1], M[6, 0, 1], M[8, 1, 1] = 0, SIGNALLING_NAN, -1
        M[10] = 2**53 // C**2  # sums that float64 cannot hold
    if dtype == "f8":
        M[4, 0, 1], M[6, 1, 1], M[8] = np.nan, -1.0, 1e300
    given = VIEWS[view](M, C)
    copy = np.ascontiguousarray(given)
    assert copy.nbytes >= _copied_pieces.LEAST_COPIED_BYTES
    before = given.copy()
    for names in (["mcc", "recall", "kappa_linear"], "accuracy"):
        found, want = (
            metrics.compute(x, names, num_threads=t, on_failure="ignore") for x, t in ((given, 2), (copy, 1))
        )
        for name in [names] if isinstance(names, str) else names:
            assert_same_bits(*((x if isinstance(names, str) else x[name]) for x in (found, want)))
    sums = [metrics.margins(x, on_failure="ignore") for x in (given, copy)]
    for one, other in zip(*sums, strict=True):
        assert_same_bits(one, other)
    assert_same_bits(given, before)


def test_views_are_not_copied_whole(rng):
    """Memory of a piece per thread, not of the batch."""
    M = rng.integers(0, 9, (3000, 30, 32))[..., :30]
    shapes = []

    def make(cells):
        shapes.append(cells.shape)
        return lambda *_: False

    fill = _copied_pieces.sum_in_pieces(make, _copied_pieces.view_matrices(M), 1)
    fill(np.empty((3000, 8)), None, 0, 3000)
    fill(np.empty((3000, 8)), None, 0, 1000)
    assert len(shapes) == 1
    assert np.prod(shapes[0]) * 8 <= _copied_pieces.COPIED_BYTES
