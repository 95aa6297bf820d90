"""Kernels for pairs of labels by type and number of classes: the same tables as a plain sum, at every limit."""

import numpy as np
import pytest

import cmfast

pytestmark = pytest.mark.exhaustive

N_PAIRS = 200_000  # more than the tables of 300 classes take, in two pieces
CLASSES = [1, 2, 3, 4, 10, 15, 16, 63, 64, 100, 127, 128, 200, 255, 256, 300, 301]


def draw_pairs(n_classes, dtype, n=N_PAIRS, seed=0):
    """Return labels of a type, mostly equal in pairs, and their table by np.add.at."""
    rng = np.random.default_rng([seed, n_classes])
    y = rng.integers(0, n_classes, n)
    p = np.where(rng.random(n) < 0.8, y, rng.integers(0, n_classes, n))
    table = np.zeros((n_classes, n_classes), np.int64)
    np.add.at(table, (y, p), 1)
    return y.astype(dtype), p.astype(dtype), table


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint64])
def test_tables_are_those_of_a_plain_sum(dtype):
    most = 2 if dtype is np.bool_ else int(np.iinfo(dtype).max) + 1
    for n_classes in [n for n in CLASSES if n <= most]:
        y, p, table = draw_pairs(n_classes, dtype)
        for got in (
            cmfast.confusion_matrix(y, p, n_classes=n_classes),
            cmfast.confusion_matrix(y[1:], p[1:], n_classes=n_classes, num_threads=1),
        ):
            want = table.copy()
            if got.sum() < len(y):
                want[int(y[0]), int(p[0])] -= 1
            np.testing.assert_array_equal(got, want, err_msg=f"{n_classes} classes")


@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.int64, np.uint64])
def test_tables_larger_than_the_caches(dtype):
    for n_classes, n in ((1448, 5000), (1449, 5000), (1449, 100_003), (2500, N_PAIRS)):
        y, p, table = draw_pairs(n_classes, dtype, n)
        np.testing.assert_array_equal(cmfast.confusion_matrix(y, p, n_classes=n_classes), table)
        np.testing.assert_array_equal(cmfast.confusion_matrix(y, p, labels=range(n_classes)), table)
        present = table.any(0) | table.any(1)
        np.testing.assert_array_equal(cmfast.confusion_matrix(y, p), table[present][:, present])
        if np.issubdtype(dtype, np.signedinteger):
            below = cmfast.confusion_matrix(y - dtype(700), p - dtype(700), labels=np.arange(-700, n_classes - 700))
            np.testing.assert_array_equal(below, table)
        for wrong, place in (
            (n_classes, 0),
            (np.iinfo(dtype).max, 255),
            (np.iinfo(dtype).min, 256),
            (n_classes, n - 1),
        ):
            if not wrong:
                continue
            bad, want = y.copy(), table.copy()
            bad[place] = wrong
            want[int(y[place]), int(p[place])] -= 1
            np.testing.assert_array_equal(cmfast.confusion_matrix(bad, p, labels=range(n_classes)), want)
            with pytest.raises(ValueError, match=rf"1 outside \(first: {wrong} at {place}\)"):
                cmfast.confusion_matrix(bad, p, n_classes=n_classes)
    both = cmfast.confusion_matrix(np.array([y, p]), np.array([p, y]), n_classes=2500)
    np.testing.assert_array_equal(both, [table, table.T])


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_ranges_of_labels_may_begin_below_zero(dtype):
    for n_classes in (2, 3, 15, 16, 63, 100):
        y, p, table = draw_pairs(n_classes, dtype)
        low = -40 if n_classes > 15 else -128
        got = cmfast.confusion_matrix(y + dtype(low), p + dtype(low), labels=np.arange(low, low + n_classes))
        np.testing.assert_array_equal(got, table)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64])
@pytest.mark.parametrize("n_classes", [2, 10, 63, 100])
def test_labels_out_of_range_are_counted_and_found(dtype, n_classes):
    y, p, table = draw_pairs(n_classes, dtype)
    for wrong in {n_classes, 127, int(np.iinfo(dtype).max), int(np.iinfo(dtype).min)} - {0}:
        for place in (0, 7, N_PAIRS // 2, N_PAIRS - 1):
            bad = y.copy()
            bad[place] = wrong
            with pytest.raises(ValueError, match=rf"1 outside \(first: {wrong} at {place}\)"):
                cmfast.confusion_matrix(bad, p, n_classes=n_classes)
            left_out = cmfast.confusion_matrix(bad, p, labels=range(n_classes))
            want = table.copy()
            want[int(y[place]), int(p[place])] -= 1
            np.testing.assert_array_equal(left_out, want)


def test_negative_bytes_are_no_classes_above_127():
    y, p, _ = draw_pairs(100, np.int8)
    y[5] = -56  # 200 as an unsigned byte
    with pytest.raises(ValueError, match=r"1 outside \(first: -56 at 5\)"):
        cmfast.confusion_matrix(y, p, n_classes=201)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_rows_of_a_batch_are_counted_apart(dtype):
    for n_classes in (2, 15, 40):
        y, p, _ = draw_pairs(n_classes, dtype, n=20 * 9000)
        got = cmfast.confusion_matrix(y.reshape(20, 9000), p.reshape(20, 9000), n_classes=n_classes)
        for row in range(20):
            part = slice(9000 * row, 9000 * (row + 1))
            np.testing.assert_array_equal(got[row], cmfast.confusion_matrix(y[part], p[part], n_classes=n_classes))
        shared = cmfast.confusion_matrix(y[:9000], p.reshape(20, 9000), n_classes=n_classes)
        np.testing.assert_array_equal(shared[0], got[0])
