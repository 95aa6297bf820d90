"""Calls in memory that is handed to them: no allocation, no wait, the results of a call like any other."""

import cuda_host
import numpy as np
import on_cuda_host  # noqa: F401  # lets cmfast take these arrays
import pytest
from checks import assert_same_bits

import cmfast
from cmfast.kernels.cuda import comparison, counting, normalizing
from cmfast.kernels.cuda._core import resident, workspace
from cmfast.kernels.cuda.metrics import values
from cmfast.kernels.cuda.scaling import launch
from cmfast.metrics import _plan

pytestmark = [
    pytest.mark.cuda_host,
    pytest.mark.skipif(cuda_host.missing() is not None, reason=str(cuda_host.missing())),
]

RNG = np.random.default_rng(8)
M = RNG.integers(1, 30, (40, 3, 3)) + 20.0 * np.eye(3)
LARGE = RNG.random((2, 70, 70)) + 0.1
Y, P = RNG.integers(0, 4, (2, 5000)).astype(np.uint8)
SCALED = {
    "tol": 1e-9, "smoothing": None, "empty": "nan", "solver": "auto", "max_iter": None,
}  # fmt: skip


def _ipf(M, out=None):
    nothing = (None,) * 4
    return launch.ipf(M, *nothing, out=out, **SCALED)


def _metrics(M, out=None):
    plan = _plan.make_plan(("accuracy", "f1_macro", "recall"), 3, "present", 1, argument="names").plan
    return values.metrics_of_matrices(M, plan=plan, out=out)


# What is called, with which arrays, and of which shapes and types its results are.
CALLS = {
    "normalize": (lambda M, out=None: normalizing.normalize(M, method="row", out=out), (M,)),
    "overlap": (lambda S, T, out=None: comparison.overlap(S, T, out=out), (M, M[::-1].copy())),
    "confusion_matrix": (lambda y, p, out=None: counting.count_pairs(y, p, 4, out=out), (Y, P)),
    "confusion_matrix-rows": (
        lambda y, p, out=None: counting.count_pairs(y, p, 4, out=out),
        (Y.reshape(50, 100), P.reshape(50, 100)),
    ),
    "ipf": (_ipf, (M,)),
    "ipf-large": (_ipf, (LARGE,)),
    "ipf-float32": (_ipf, (M.astype(np.float32),)),
    "metrics": (_metrics, (M,)),
}


def handed_in(name, wanted):
    """Return arrays like the results `wanted`, as they are handed in."""
    if name == "metrics":  # scalars together, results per class together
        *parts, status = wanted
        tables = [part for part in parts if part.ndim == status.ndim + 1]
        kind = parts[0].dtype
        shapes = (len(parts) - len(tables), *status.shape), (len(tables), *status.shape, 3)
        return (*(cuda_host.empty(shape, kind) for shape in shapes), cuda_host.empty(status.shape, np.int8))
    return tuple(cuda_host.empty(part.shape, part.dtype) for part in wanted)


def host(results):
    return tuple(part.get() for part in results)


@pytest.mark.parametrize("name", CALLS)
def test_nothing_is_allocated_and_nothing_waits(name):
    call, given = CALLS[name]
    there = [cuda_host.asarray(a) for a in given]
    want = call(*there)
    out = handed_in(name, want)
    size = workspace.measure(cuda_host, lambda: call(*there, out=out))
    buffer = cuda_host.empty(size, np.uint8)
    again = handed_in(name, want)
    before = cuda_host.allocations(), cuda_host.synchronisations()
    with workspace.allocate_from(buffer):
        got = call(*there, out=again)
    assert (cuda_host.allocations(), cuda_host.synchronisations()) == before
    assert_same_bits(host(got), host(want))
    assert_same_bits(host(again), host(out))
    assert {part.data.mem for part in got} <= {part.data.mem for part in again}
    if size:
        with pytest.raises(MemoryError, match="is too small"), workspace.allocate_from(buffer[:1]):
            call(*there, out=again)


@pytest.mark.parametrize("wrong", ["shape", "type", "strides"])
@pytest.mark.parametrize("name", CALLS)
def test_wrong_arrays_for_results_are_refused(name, wrong):
    call, given = CALLS[name]
    there = [cuda_host.asarray(a) for a in given]
    first, *rest = handed_in(name, call(*there))
    bad = {
        "shape": lambda: cuda_host.empty((*first.shape, 1), first.dtype),
        "type": lambda: cuda_host.empty(first.shape, np.int16),
        "strides": lambda: cuda_host.empty((*first.shape, 2), first.dtype)[..., 0],
    }[wrong]()
    with pytest.raises(TypeError, match="out must be contiguous arrays"):
        call(*there, out=(bad, *rest))


def test_what_stays_on_the_device_is_not_put_into_a_workspace(monkeypatch):
    monkeypatch.setattr(resident, "_cached", {})
    there = cuda_host.asarray(M)
    out = handed_in("metrics", _metrics(there))
    monkeypatch.setattr(resident, "_cached", {})
    with (
        pytest.raises(RuntimeError, match="must be on the device"),
        workspace.allocate_from(cuda_host.empty(9999, np.uint8)),
    ):
        _metrics(there, out=out)
    assert not workspace.is_active()


def test_results_of_public_functions_are_as_before():
    there = cuda_host.asarray(M)
    assert_same_bits(cmfast.normalize(there, "row").get(), host(CALLS["normalize"][0](there))[0])
