"""Counting by the CUDA kernels, run on the host: every way to count gives the same integers."""

import device
import numpy as np
import pytest

import cmfast
from cmfast.kernels.cuda import counting

pytestmark = [pytest.mark.cuda_host, *device.marks]


@pytest.fixture
def launched(monkeypatch):
    """Return the kernels launched so far, by name."""
    names = []
    honest = counting.Kernel.launch

    def launch(self, *args, **options):
        names.append(self.name)
        return honest(self, *args, **options)

    monkeypatch.setattr(counting.Kernel, "launch", launch)
    return names


def labels(shape, n_classes, dtype):
    rng = np.random.default_rng(7)
    return [rng.integers(0, n_classes, shape).astype(dtype) for _ in range(2)]


@pytest.mark.parametrize("shape", [(4096,), (4097,), (30_001,), (2, 12_288), (3, 9001)], ids=str)
@pytest.mark.parametrize("dtype", ["u1", "i4", "i8"])
def test_long_rows_of_few_classes_are_counted_in_bytes(launched, shape, dtype):
    y, p = labels(shape, 13, dtype)
    got = cmfast.confusion_matrix(device.asarray(y), device.asarray(p), n_classes=13)
    assert "cmfast_confusion_matrix_count_bytes" in launched
    assert np.array_equal(got.get(), cmfast.confusion_matrix(y, p, n_classes=13))


@pytest.mark.parametrize("offset", [0, 1, 8])
def test_labels_that_begin_anywhere(offset):
    y, p = labels(20_000, 5, "u1")
    there = device.asarray(y)[offset:], device.asarray(p)[: y.size - offset]
    want = cmfast.confusion_matrix(y[offset:], p[: y.size - offset], n_classes=5)
    assert np.array_equal(cmfast.confusion_matrix(*there, n_classes=5).get(), want)


@pytest.mark.parametrize("dtype", ["u1", "i8"])
def test_bytes_do_not_overflow(monkeypatch, dtype):
    """One block has all samples, so that every thread counts the same cell more often than a byte holds."""
    monkeypatch.setattr(counting, "BLOCK_SAMPLES", 1 << 20)
    y = np.full(200_001, 2, dtype)
    y[-1] = 1
    got = cmfast.confusion_matrix(device.asarray(y), device.asarray(y), n_classes=3)
    assert got.get().tolist() == [[0, 0, 0], [0, 1, 0], [0, 0, 200_000]]


@pytest.mark.parametrize("dtype", ["u1", "i4", "i8"])
def test_labels_outside_are_counted_beside_the_cells(dtype):
    y, p = labels(10_000, 4, dtype)
    y[[0, 5000, 9999]] = 7, 4, 255 if dtype == "u1" else -1
    p[0] = 9
    with pytest.raises(ValueError, match="outside") as on_cpu:
        cmfast.confusion_matrix(y, p, n_classes=4)
    with pytest.raises(ValueError, match="outside") as on_cuda:
        cmfast.confusion_matrix(device.asarray(y), device.asarray(p), n_classes=4)
    assert str(on_cuda.value) == str(on_cpu.value)


@pytest.mark.parametrize("n_classes", [14, 40, 111])
def test_larger_tables_are_counted_by_atomics(launched, n_classes):
    y, p = labels(20_000, n_classes, "i8")
    got = cmfast.confusion_matrix(device.asarray(y), device.asarray(p), n_classes=n_classes)
    assert launched == ["cmfast_confusion_matrix_count"]
    assert np.array_equal(got.get(), cmfast.confusion_matrix(y, p, n_classes=n_classes))


@pytest.mark.parametrize(("n_classes", "held"), [(111, "1"), (202, "1"), (203, "0")])
@pytest.mark.parametrize("shape", [(30_001,), (2, 12_288)], ids=str)
def test_a_large_table_has_the_shared_memory_that_the_device_grants(monkeypatch, n_classes, held, shape):
    """160 kB here: 202 classes; for few samples a table is not worth it."""
    asked, honest = [], counting.Kernel.launch

    def launch(self, instance, blocks, /, *, shared, **options):
        asked.append((instance[1], shared))
        return honest(self, instance, blocks, shared=shared, **options)

    monkeypatch.setattr(counting.Kernel, "launch", launch)
    monkeypatch.setattr(counting, "most_shared", lambda device: 160 << 10)
    y, p = labels(shape, n_classes, "i4")
    want = cmfast.confusion_matrix(y, p, n_classes=n_classes)
    for samples in (counting.SAMPLES_PER_CELL, 0):
        monkeypatch.setattr(counting, "SAMPLES_PER_CELL", samples)
        got = cmfast.confusion_matrix(device.asarray(y), device.asarray(p), n_classes=n_classes)
        assert np.array_equal(got.get(), want)
    assert [of for of, _ in asked] == ["0", held]
    assert asked[1][1] == (4 * n_classes**2 if held == "1" else asked[0][1])


def test_schedules_change_no_count():
    there = [device.asarray(y) for y in labels(15_000, 6, "u1")]
    want = cmfast.confusion_matrix(*there, n_classes=6).get()
    for seed in (1, 2):
        with device.schedule(seed):
            assert np.array_equal(cmfast.confusion_matrix(*there, n_classes=6).get(), want)


def test_shares_of_weights_that_int64_cannot_add_up_are_nan():
    y, weight = np.array([[0, 0, 1], [0, 1, 1]]), np.array([[2**62, 2**62, 7], [1, 2, 3]])
    there, weights = device.asarray(y), device.asarray(weight)
    for method in ("true", "bi"):
        options = {"n_classes": 2, "normalize": method}
        with pytest.warns(cmfast.FailureWarning, match="1 of 2 .* more than fits"):
            found = cmfast.confusion_matrix(there, there, sample_weight=weights, **options).get()
        assert np.isnan(found[0]).all()
        wanted = cmfast.confusion_matrix(y[1], y[1], sample_weight=weight[1], **options)
        np.testing.assert_allclose(found[1], wanted, rtol=1e-12)
