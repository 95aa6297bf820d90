"""More elements than 32 bits count, on a GPU with memory for them; the same on the host, with few.

A wrong index shows in the last items, which differ from all others. What is expected is worked out by hand.
"""

import device
import gpu
import numpy as np
import pytest

import cmfast

if device.IS_GPU:
    import cupy as xp

    ELEMENTS = 2**31 + 7
    pytestmark = [
        pytest.mark.gpu,
        pytest.mark.slow,
        pytest.mark.skipif(gpu.missing() is not None, reason=str(gpu.missing())),
    ]
else:
    import cuda_host as xp

    ELEMENTS = 2**12 + 7
    pytestmark = [pytest.mark.cuda_host, *device.marks]


@pytest.fixture(autouse=True)
def memory():
    """Begin with all of the device's memory."""
    if device.IS_GPU:
        xp.get_default_memory_pool().free_all_blocks()
    yield
    if device.IS_GPU:
        xp.get_default_memory_pool().free_all_blocks()


def needs(bytes_per_element):
    """Skip the test where the memory of the GPU is too small."""
    if device.IS_GPU:
        free, wanted = xp.cuda.runtime.memGetInfo()[0], bytes_per_element * ELEMENTS
        if free < wanted:
            pytest.skip(f"needs {wanted / 2**30:.0f} GiB on the GPU, {free / 2**30:.0f} are free")


def matrices(C, dtype, last):
    """Return ones, and a last matrix that is `last`; their elements are more than ELEMENTS."""
    M = xp.zeros((ELEMENTS // (C * C) + 2, C, C), dtype)
    M += np.dtype(dtype).type(1)
    M[-1] = device.asarray(np.asarray(last, dtype))
    assert M.size >= ELEMENTS
    return M


def assert_all(values, usual, last, rtol=1e-6):
    """Assert that all values but the last are `usual`, to within `rtol`; those of the last item are `last`."""
    usual, last = np.asarray(usual, float), np.asarray(last, float)
    np.testing.assert_allclose(device.host(values[-1]), last, rtol=rtol)
    for extreme in (values[:-1].min(axis=0), values[:-1].max(axis=0)):
        np.testing.assert_allclose(device.host(extreme), usual, rtol=rtol)


def test_overlap_of_many():
    needs(10)
    # Shares of the last: half on the diagonal of 4 cells, against a sixteenth in each of 16.
    S = matrices(4, np.float32, 1.0 - np.eye(4))
    T = matrices(4, np.float32, np.ones((4, 4)))
    assert_all(cmfast.overlap(S, T, on_failure="ignore"), 1.0, 12 / 16)


def test_margins_of_many():
    needs(20)
    M = matrices(10, np.int64, np.diag(np.arange(10)) + 1)
    found = cmfast.metrics.margins(M)
    assert_all(found[0], np.ones(10), np.arange(10) + 1, rtol=0)  # the diagonal
    for lines in found[1:3]:
        assert_all(lines, np.full(10, 10), np.arange(10) + 10, rtol=0)


def test_metrics_of_many():
    needs(10)
    M = matrices(4, np.float32, np.ones((4, 4)) + 3 * np.eye(4))  # rows and columns of the last add up to 7
    found = cmfast.metrics.compute(M, ["accuracy", "mcc", "f1_macro"])
    assert_all(found["accuracy"], 4 / 16, 16 / 28)
    assert_all(found["mcc"], 0.0, (16 * 28 - 4 * 7**2) / (28**2 - 4 * 7**2))
    assert_all(found["f1_macro"], 1 / 4, 2 * 4 / (7 + 7))


def test_normalizing_of_many():
    needs(10)
    last = np.arange(1, 17).reshape(4, 4)
    found = cmfast.normalize(matrices(4, np.float32, last), "row", on_failure="ignore")
    assert_all(found, np.full((4, 4), 1 / 4), last / [[10], [26], [42], [58]])


@pytest.mark.parametrize("C", [4, 10, 40, 100])  # by a thread, a part of a warp, a warp, a block
def test_scaling_of_many(C):
    needs(20)
    last = np.ones((C, C)) + 3 * np.eye(C)
    found = cmfast.bi_normalize(matrices(C, np.float32, last), on_failure="ignore")
    assert_all(found, np.full((C, C), 1 / C), last / (C + 3))  # all rows and columns have the same sum


def test_tables_of_many():
    needs(24)
    last = np.ones((2, 2, 2)) + 3 * np.eye(2)[:, :, None]  # all three margins are uniform
    tables = matrices(2, np.float32, np.ones((2, 2)))[: 2 * (ELEMENTS // 8 + 1)].reshape(-1, 2, 2, 2)
    tables[-1] = device.asarray(last.astype(np.float32))
    halves = device.asarray(np.full(2, 0.5))
    margins = [((axis,), halves) for axis in range(3)]
    found = cmfast.ipf_nd(tables, margins, ndim=3, on_failure="ignore").table
    assert_all(found.reshape(-1, 8), np.full(8, 1 / 8), last.reshape(-1) / 20)


def test_conformal_sets_of_many():
    needs(30)
    P = matrices(2, np.float32, [[0.25, 0.25], [0.25, 0.25]]).reshape(-1, 4)
    P[:-1] *= np.float32(0.25)
    P[-1] = device.asarray(np.array([0.625, 0.125, 0.125, 0.125], np.float32))
    scores = cmfast.conformal.scores(P, xp.zeros(len(P), np.uint8), method="lac", on_failure="ignore")
    assert_all(scores.reshape(-1, 1), [0.75], [0.375], rtol=0)
    found = cmfast.conformal.prediction_sets(P, 0.5, method="lac", on_failure="ignore")
    assert_all(found.sizes.reshape(-1, 1), [0], [1], rtol=0)
    assert device.host(found.packed.reshape(len(P), -1)[-1]).tolist() == [1]  # the first class alone


def test_threshold_of_many():
    needs(40)
    s = xp.zeros(ELEMENTS, np.float32)
    s += np.float32(0.25)
    s[-3:] = device.asarray(np.array([0.5, 0.75, 0.875], np.float32))
    q = cmfast.conformal.threshold(s, alpha=2.5 / (ELEMENTS + 1), on_failure="ignore")
    assert device.host(q).tolist() == [0.75]  # the last but one in order


def test_counts_of_many_points():
    needs(26)
    n = ELEMENTS
    x, y, p = xp.zeros((n, 1), np.float32), xp.zeros(n, np.uint8), xp.zeros(n, np.uint8)
    x += np.float32(0.5)
    x[-3:] = device.asarray(np.array([[7.5], [7.5], [8.5]], np.float32))
    y[-2:], p[-1:] = 1, 1
    found = cmfast.cell_counts(x, y, p, grid=cmfast.Grid([0.0], [1.0]), n_classes=2)
    triples = [device.host(a).tolist() for a in (found.cells, found.labels, found.predictions, found.counts)]
    assert triples == [[[0], [7], [7], [8]], [0, 0, 1, 1], [0, 0, 0, 1], [n - 3, 1, 1, 1]]


def test_thresholds_of_many():
    """Elements of the result: four counts of each score."""
    needs(40)
    n = ELEMENTS // 4 + 2
    s, y = xp.zeros(n, np.float32), xp.zeros(n, np.uint8)
    s += np.float32(0.25)
    s[-2:] = device.asarray(np.array([0.75, 0.125], np.float32))
    y[-2:-1] = 1
    found = cmfast.metrics.threshold_matrices(y, s, on_failure="ignore")
    # Above all scores, at the highest, at those between, which are equal, and at the lowest.
    at = [0, 1, 2, n - 1, n]
    want = [
        [[n - 1, 0], [1, 0]],
        [[n - 1, 0], [0, 1]],
        [[1, n - 2], [0, 1]],
        [[1, n - 2], [0, 1]],
        [[0, n - 1], [0, 1]],
    ]
    assert [device.host(found.matrices[k]).tolist() for k in at] == want
    assert device.host(found.matrices.reshape(n + 1, 4).sum(axis=1).min()) == n


def test_draws_of_many():
    needs(20)
    n = ELEMENTS // 4 + 2
    M = xp.zeros((2, 2), np.int64) + np.int64(3)
    drawn = cmfast.uncertainty.resample(M, n_resamples=n, rng=1).reshape(n, 4)
    totals = drawn.sum(axis=1)
    assert (device.host(totals.min()), device.host(totals.max())) == (12, 12)
    # The last ones depend on their number alone, as in a second call for fewer of them, and on the host.
    few = min(n, 1000)
    assert (
        device.host(drawn[:few]).tolist()
        == cmfast.uncertainty.resample(np.full((2, 2), 3), n_resamples=few, rng=1).reshape(few, 4).tolist()
    )
