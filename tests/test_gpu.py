"""What only a GPU can show; the conformance suite runs there too (``.ci/run gpu``)."""

import gpu
import numpy as np
import pytest
from backends import GPU
from checks import assert_same_bits, host
from test_cuda import CALLS

import cmfast

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(gpu.missing() is not None, reason=str(gpu.missing()))]

M = np.random.default_rng(0).random((1000, 10, 10))


def test_the_conformance_suite_runs_here():
    assert {backend.library for backend in GPU} == {"cupy", "torch-cuda"}


@pytest.mark.parametrize("op", CALLS)
def test_nothing_waits_where_failures_are_ignored(op):
    import cupy
    import cupyx

    there = cupy.asarray(M)
    CALLS[op](there, on_failure="ignore")  # compiles
    with cupyx.allow_synchronize(False):
        CALLS[op](there, on_failure="ignore")


@pytest.mark.parametrize("op", CALLS)
def test_streams_and_runs_change_no_bit(op):
    import cupy

    there = cupy.asarray(M)
    want = CALLS[op](there)
    for stream in (cupy.cuda.Stream(), cupy.cuda.Stream(non_blocking=True)):
        cupy.cuda.get_current_stream().synchronize()
        with stream:
            got = CALLS[op](there)
            stream.synchronize()
        parts = zip(*((x if isinstance(x, tuple) else (x,)) for x in (got, want)), strict=True)
        for one, other in parts:
            assert_same_bits(one, other)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cells_have_the_bits_of_the_cpu(dtype):
    import cupy

    rng = np.random.default_rng(1)
    y, p = rng.integers(0, 20, (2, 3_000_000))
    X = (rng.normal(size=(len(y), 5)) + y[:, None] % 3).astype(dtype)
    table = rng.random((20, 20))
    grid = cmfast.Grid.scott(X)
    assert cmfast.Grid.scott(cupy.asarray(X)) == grid
    on_cpu = cmfast.cell_counts(X, y, p, grid=grid)
    on_cuda = cmfast.cell_counts(*map(cupy.asarray, (X, y, p)), grid=grid)
    for name in ("_keys", "counts", "cells"):
        assert getattr(on_cuda, name).get().tobytes() == getattr(on_cpu, name).tobytes()
    assert cmfast.gcm(on_cuda, cupy.asarray(table)).get().tobytes() == cmfast.gcm(on_cpu, table).tobytes()


def test_torch_goes_on_with_its_own_stream():
    import torch

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        tensor = torch.from_numpy(M).cuda(non_blocking=True)
        for _ in range(20):
            tensor = cmfast.normalize(tensor * 3.0, "row", on_failure="ignore")
        total = float(tensor.sum())
    assert total == pytest.approx(10_000, rel=1e-9)
    assert tensor.device.type == "cuda"


@pytest.mark.slow
def test_more_elements_than_32_bits_count():
    import cupy

    n = 2**31 // 100 + 5
    there = cupy.ones((n, 10, 10), np.float32)
    there[-1, 3, 4] = 3.0
    out = cmfast.normalize(there, "row", on_failure="ignore")
    assert host(out[-1, 3]).tolist() == pytest.approx([1 / 12] * 4 + [3 / 12] + [1 / 12] * 5)
    assert host(out[0, 0]).tolist() == pytest.approx([0.1] * 10)
    labels = cupy.zeros(2**31 + 7, np.uint8)
    labels[-3:] = 1
    assert host(cmfast.confusion_matrix(labels, labels, n_classes=2)).tolist() == [[2**31 + 4, 0], [0, 3]]
