"""What only a GPU can show; the conformance suite runs there too (``.ci/run gpu``)."""

import threading
import time

import gpu
import numpy as np
import pytest
from backends import GPU
from calls import CALLS
from checks import assert_same_bits, host

import cmfast

MISSING = gpu.missing()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(MISSING is not None, reason=str(MISSING))]
needs_torch = pytest.mark.skipif(
    MISSING is None and gpu.is_rehearsal(), reason="a rehearsal: no tensors stand for torch's on a GPU"
)

M = np.random.default_rng(0).random((1000, 10, 10))


def weighted(M):
    y, p = ((M[:, k] * 7).astype(np.int64) for k in (0, 1))
    return cmfast.confusion_matrix(y, p, n_classes=7, sample_weight=M[:, 2])


def geometric(M):
    y, p = ((M[:, k, 0] * 7).astype(np.int64) for k in (0, 1))
    cells = cmfast.cell_counts(M[:, 2, :3], y, p, grid=cmfast.Grid([0.0] * 3, [0.2] * 3), n_classes=7)
    return cmfast.gcm(cells, ["all", "row"])


RUNS = {**CALLS, "bi_normalize": cmfast.bi_normalize, "weights": weighted, "gcm": geometric}


def assert_same_parts(got, want):
    """Assert that two results, of one array or of several, have the same bits."""
    for one, other in zip(*((x if isinstance(x, tuple) else (x,)) for x in (got, want)), strict=True):
        assert_same_bits(one, other)


def test_the_conformance_suite_runs_here():
    tensors = set() if gpu.is_rehearsal() else {"torch-cuda"}
    assert {backend.library for backend in GPU} == {"cupy", *tensors}


@pytest.mark.parametrize("op", CALLS)
def test_nothing_waits_where_failures_are_ignored(op):
    import cupy
    import cupyx

    there = cupy.asarray(M)
    want = CALLS[op](there, on_failure="ignore")  # compiles
    with cupyx.allow_synchronize(False):  # raises where anything waits
        got = CALLS[op](there, on_failure="ignore")
    assert_same_parts(got, want)


@pytest.mark.parametrize("op", CALLS)
def test_a_call_returns_while_the_stream_is_busy(op):
    """Whatever waited for the device, noticed by CuPy or not, would wait for all that is before it on the stream."""
    import cupy

    there, done = cupy.asarray(M), threading.Event()
    cupy.cuda.get_current_stream().synchronize()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        CALLS[op](there, on_failure="ignore")  # compiles, and leaves memory for the next
        stream.synchronize()
        stream.launch_host_func(lambda _: done.wait(5.0), None)
        start = time.perf_counter()
        CALLS[op](there, on_failure="ignore")
        passed = time.perf_counter() - start
        done.set()
        stream.synchronize()
    assert passed < 4.0


@pytest.mark.parametrize("op", RUNS)
def test_streams_and_runs_change_no_bit(op):
    import cupy

    there = cupy.asarray(M)
    want = RUNS[op](there)
    for stream in (cupy.cuda.Stream(), cupy.cuda.Stream(non_blocking=True)):
        cupy.cuda.get_current_stream().synchronize()
        with stream:
            got = RUNS[op](there)
            stream.synchronize()
        assert_same_parts(got, want)


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


@pytest.mark.parametrize("C", [7, 40, 90])
def test_zero_patterns_have_the_bits_of_the_cpu(C):
    import cupy

    rng = np.random.default_rng(C)
    T = rng.random((60, C, C)) * (rng.random((60, C, C)) < rng.uniform(1, 6, (60, 1, 1)) / C)
    more = T + (rng.random(T.shape) < 0.5 / C)
    for given in ((more,), (more, T.sum(2), T.sum(1)), (more, np.rint(9 * T).sum(2), np.rint(9 * T).sum(1))):
        on_cpu, on_cuda = cmfast.support(*given), cmfast.support(*map(cupy.asarray, given))
        for one, other in zip((*on_cpu[:-1], *on_cpu.certificate), (*on_cuda[:-1], *on_cuda.certificate), strict=True):
            assert_same_bits(other.get(), one)


@pytest.mark.parametrize("scheme", ["multinomial", "row_multinomial", "expected_rounded"])
def test_draws_have_the_bits_of_the_cpu(scheme):
    import cupy

    counts = np.random.default_rng(3).integers(0, 10 ** np.arange(1, 9)[:, None, None], (8, 6, 6))
    options = {"n_resamples": 20_000, "scheme": scheme}
    on_cuda = cmfast.uncertainty.resample(cupy.asarray(counts), **options)
    assert_same_bits(on_cuda.get(), cmfast.uncertainty.resample(counts, **options))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_thresholds_have_the_bits_of_the_cpu(dtype):
    import cupy

    rng = np.random.default_rng(4)
    s = (rng.integers(-50_000, 50_000, (20, 40_000)) / 7).astype(dtype)
    y = rng.integers(0, 2, s.shape)
    on_cuda = cmfast.metrics.threshold_matrices(cupy.asarray(y), cupy.asarray(s))
    for one, other in zip(cmfast.metrics.threshold_matrices(y, s), on_cuda, strict=True):
        assert_same_bits(other.get(), one)


@needs_torch
def test_libraries_and_devices_do_not_mix():
    import cupy
    import torch

    on_host, on_cupy, on_torch = torch.from_numpy(M), cupy.asarray(M), torch.from_numpy(M).cuda()
    with pytest.raises(TypeError, match="one library, got A from cupy, B from numpy"):
        cmfast.overlap(on_cupy, M)
    with pytest.raises(TypeError, match="one library, got A from cupy, B from torch"):
        cmfast.overlap(on_cupy, on_torch)
    with pytest.raises(TypeError, match="one device, got A on cuda:0, B on cpu"):
        cmfast.overlap(on_torch, on_host)


def test_two_devices_are_not_mixed():
    import cupy

    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("needs a second GPU: arrays on two of them are not tried")
    here = cupy.asarray(M)
    with cupy.cuda.Device(1):
        other = cupy.asarray(M)
    with pytest.raises(TypeError, match="one device, got A on cuda:0, B on cuda:1"):
        cmfast.overlap(here, other)
    assert cmfast.overlap(other, other).device.id == 1


@needs_torch
@pytest.mark.parametrize("name", ["bool", "uint8", "uint16", "int32", "int64"])
def test_labels_of_every_type_come_from_torch(name):
    import torch

    y = torch.tensor([0, 1, 1]).to(getattr(torch, name)).cuda()
    out = cmfast.confusion_matrix(y, y)
    assert (out.device.type, out.dtype, out.tolist()) == ("cuda", torch.int64, [[1, 0], [0, 2]])


@needs_torch
@pytest.mark.parametrize("shape", [(0, 3, 3), (2, 0, 3, 3)])
def test_nothing_goes_to_torch_and_back(shape):
    import torch

    there = torch.zeros(shape, device="cuda")
    assert cmfast.normalize(there, "row").shape == shape
    assert cmfast.overlap(there, there).shape == shape[:-2]


@needs_torch
def test_views_come_from_torch():
    import torch

    there = torch.from_numpy(M).cuda()
    for view in (there.transpose(1, 2).contiguous().transpose(1, 2), torch._neg_view(-there), there.flip(0).flip(0)):
        assert_same_bits(cmfast.normalize(view, "row"), cmfast.normalize(there, "row"))


@needs_torch
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


@needs_torch
@pytest.mark.parametrize("C", [4, 9, 40])
def test_gradients_of_torch_are_those_of_the_cpu(C):
    import torch

    generator = torch.Generator().manual_seed(C)
    matrices = torch.rand((20, C, C), generator=generator) + 0.1
    found = []
    for there in (matrices, matrices.cuda()):
        leaf = there.clone().requires_grad_()
        cmfast.bi_normalize(leaf, tol=1e-12)[..., 0].square().sum().backward()
        found.append(leaf.grad.cpu())
    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-6)


def needs(gigabytes):
    import cupy

    cupy.get_default_memory_pool().free_all_blocks()
    free, _ = cupy.cuda.runtime.memGetInfo()
    if free < gigabytes * 2**30:
        pytest.skip(f"needs {gigabytes} GiB on the GPU, {free >> 30} are free")


@pytest.mark.slow
def test_more_labels_and_weights_than_32_bits_count():
    import cupy

    needs(12)
    labels = cupy.zeros(2**31 + 7, np.uint8)
    labels[-3:] = 1
    assert host(cmfast.confusion_matrix(labels, labels, n_classes=2)).tolist() == [[2**31 + 4, 0], [0, 3]]
    weights = cupy.full(labels.shape, 0.5, np.float32)
    weighted = cmfast.confusion_matrix(labels, labels, n_classes=2, sample_weight=weights)
    assert host(weighted).tolist() == [[2.0**30 + 2, 0], [0, 1.5]]
