"""The host that runs the CUDA sources: it runs what is right, and finds what is wrong."""

import os
import re
import subprocess
import sys
from pathlib import Path

import cuda_host
import numpy as np
import pytest
from processes import ROOT

FAULTS = Path(cuda_host.__file__).with_name("faults.cu").read_text()
SEEDS = (0, 1, 2)
N = 128


def run(name, *args, blocks=1, threads=N, shared=0):
    """Launch one kernel of faults.cu."""
    kernel = cuda_host.RawModule(code=FAULTS, name_expressions=(name,)).get_function(name)
    kernel((blocks,), (threads,), args, shared_mem=shared)


def mirror(name):
    """Run a kernel that reverses two blocks of numbers; return what it made of them and what it should have."""
    x = np.arange(2 * N, dtype=np.float32)
    out = cuda_host.empty(2 * N, np.float32)
    run(name, cuda_host.asarray(x), out, blocks=2, shared=4 * N)
    return out.get(), x.reshape(2, N)[:, ::-1].ravel()


def sanitized(mode, *kernels):
    """Run faults in a process with a sanitizer; return its exit status and what it says."""
    environment = cuda_host.environment(mode)
    environment["PYTHONPATH"] = os.pathsep.join(map(str, (ROOT, ROOT / "tests" / "harness")))
    command = [sys.executable, "-m", "cuda_host", *kernels]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(params=SEEDS, ids="seed-{}".format)
def seed(request):
    """Run kernels in three orders."""
    with cuda_host.schedule(request.param):
        yield request.param


pytestmark = [
    pytest.mark.cuda_host,
    pytest.mark.skipif(cuda_host.missing() is not None, reason=str(cuda_host.missing())),
]


def test_a_right_kernel_is_right(seed):
    np.testing.assert_array_equal(*mirror("right"))


@pytest.mark.usefixtures("seed")
def test_a_missing_barrier_gives_wrong_values():
    got, want = mirror("barrier_missing")
    assert np.isnan(got).any()
    assert (got != want).any()


@pytest.mark.usefixtures("seed")
@pytest.mark.parametrize(
    ("name", "report"),
    [
        ("barrier_left", "left before a __syncthreads"),
        ("barriers_apart", "different __syncthreads"),
        ("lane_left", "deadlock"),
        ("lanes_apart", "different lines"),
        ("lane_outside", "outside its mask"),
        ("lane_not_in_mask", "not in its own mask"),
    ],
)
def test_a_fault_of_barriers_is_reported(name, report):
    with pytest.raises(RuntimeError, match=report):
        run(name, cuda_host.zeros(N, np.float32))


@pytest.mark.usefixtures("seed")
def test_a_write_beyond_an_array_is_reported():
    run("write_beyond", cuda_host.zeros(2 * N, np.float32), np.int32(2 * N - 1), blocks=2)
    with pytest.raises(RuntimeError, match="wrote beyond"):
        run("write_beyond", cuda_host.zeros(200, np.float32), np.int32(200), blocks=2)


def test_memory_that_nobody_wrote_is_poison():
    assert np.isnan(cuda_host.empty(3, np.float32).get()).all()
    assert (cuda_host.empty(3, np.int64).get() == -1).all()
    out = cuda_host.zeros(N, np.float32)
    run("never_written", out, shared=4 * N)
    assert np.isnan(out.get()).all()


def test_the_address_sanitizer_finds_what_is_out_of_bounds():
    status, said = sanitized("address", "right")
    assert status == 0, said
    for name in ("read_beyond", "shared_beyond"):
        status, said = sanitized("address", name)
        assert status != 0, name
        assert "heap-buffer-overflow" in said, said
        assert name in said
    status, said = sanitized("address", "loads_apart")
    assert status != 0
    assert "misaligned address" in said, said


def test_the_thread_sanitizer_finds_races():
    status, said = sanitized("thread", "right")
    assert status == 0, said
    status, said = sanitized("thread", "ordered")
    assert status == 0, said
    # The last ones of every warp wait for each other, and see nothing of each other's memory.
    races = ("barrier_missing", "update_lost", "blocks_collide", "second_turn")
    races += ("ordered_by_a_shuffle", "ordered_by_a_vote")
    status, said = sanitized("thread", *races)
    assert status != 0
    for name in races:
        assert re.search(rf"#[0-9] {name}\(", said), said


@pytest.mark.parametrize(("mode", "differs"), [("", "[False False]"), ("fused", "[ True False]")])
def test_products_are_fused_where_asked_for(mode, differs):
    assert sanitized(mode, "product_rest") == (0, f"{differs}\n")


def test_denormal_numbers_of_32_bits_are_zeros_unless_copied():
    """As where kernels are compiled with -ftz=true."""
    out = cuda_host.zeros(4, np.float32)
    run("tiny", cuda_host.asarray(np.array([2.0**-149, 2.0**-126], np.float32)), out, threads=1)
    assert out.get().tolist() == [2.0**-149, 0.0, 2.0**-126, 0.0]


@pytest.mark.slow
def test_fused_multiply_adds_change_no_result():
    """Nor a bit where those of the CPU are promised."""
    environment = cuda_host.environment("fused") | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "every_instance"]
    command.append("tests/core/test_cuda_instances.py")
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert re.search(r"^1\d\d passed", done.stdout.splitlines()[-1]), done.stdout


def test_more_threads_than_the_launch_bounds_are_refused():
    """As a GPU does, which compiles for no more."""
    out = cuda_host.zeros(N, np.float32)
    for W in (1, 2):
        run(f"bounded<{W}>", out, threads=32 * W)
        assert (out.get()[: 32 * W] == W).all()
        with pytest.raises(RuntimeError, match="more threads than __launch_bounds__ allows"):
            run(f"bounded<{W}>", out, threads=32 * W + 1)


def test_what_no_gpu_does_is_refused():
    out = cuda_host.zeros(N, np.float32)
    with pytest.raises(ValueError, match="no GPU has a block"):
        run("barrier_left", out, threads=2048)
    with pytest.raises(ValueError, match="no GPU has a grid"):
        run("barrier_left", out, blocks=0)
    with pytest.raises(ValueError, match="shared memory"):
        run("barrier_left", out, shared=64 << 10)
    with pytest.raises(TypeError, match="NumPy scalars, not int"):
        run("write_beyond", out, 3)
    with pytest.raises(ValueError, match="name_expressions"):
        cuda_host.RawModule(code=FAULTS).get_function("right")


def test_what_is_no_cuda_does_not_compile():
    code = "__global__ void k(float* x) { atomicAdd(x, 1.0f); }"
    with pytest.raises(RuntimeError, match="depends on who comes first"):
        cuda_host.RawModule(code=code, name_expressions=("k",)).get_function("k")
    code = "__global__ void k(float* x) { x[0] = __expf(x[1]); }"
    with pytest.raises(RuntimeError, match="__expf"):
        cuda_host.RawModule(code=code, name_expressions=("k",)).get_function("k")


def test_reading_on_the_host_is_counted():
    x = cuda_host.asarray(np.arange(3))
    before = cuda_host.synchronisations()
    y = (x[1:] + 1).sum()
    assert cuda_host.synchronisations() == before
    assert int(y) == 5
    assert x.get().tolist() == [0, 1, 2]
    assert cuda_host.synchronisations() == before + 2
    with pytest.raises(TypeError, match="implicit conversion"):
        np.asarray(x)


@pytest.mark.parametrize("other", [np.arange(3), np.array(1), [1, 2, 3], None], ids=["array", "number", "list", "None"])
def test_arrays_of_the_host_are_no_operands(other):
    x = cuda_host.asarray(np.arange(3))
    with pytest.raises(TypeError, match="Unsupported type"):
        x + other
    with pytest.raises(TypeError, match="Unsupported type"):
        cuda_host.where(x > 1, x, other)
    assert (x + np.int64(1) + True).get().tolist() == [2, 3, 4]


def test_memory_is_ordered_as_by_cupy():
    a = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    x = cuda_host.asarray(a)
    assert x.flags.f_contiguous
    assert x.astype(np.int32).flags.f_contiguous
    assert x.astype(np.int32).get().tolist() == a.tolist()
    assert (x + 1).flags.c_contiguous
    assert cuda_host.ascontiguousarray(x).flags.c_contiguous
    assert cuda_host.asarray(a.T[:, ::-1]).flags.c_contiguous
    assert cuda_host.ascontiguousarray(cuda_host.asarray(1.0)).shape == (1,)
    _, vectors = cuda_host.linalg.eigh(cuda_host.asarray(np.eye(3)))
    assert vectors.flags.f_contiguous


def test_what_cupy_refuses_or_leaves_open_is_refused():
    x = cuda_host.asarray(np.arange(6))
    with pytest.raises(NotImplementedError, match="non-contiguous"):
        x[::2].sort()
    index = cuda_host.asarray(np.array([1, 1, 2]))
    x[index] = 9
    x[index] = cuda_host.asarray(np.array([5, 5, 6]))
    with pytest.raises(RuntimeError, match="two values for one place"):
        x[index] = cuda_host.asarray(np.array([5, 6, 6]))


def test_a_device_sees_its_own_memory():
    x = cuda_host.zeros(4)
    with cuda_host.Device(1):
        y = cuda_host.zeros(4)
        for wrong in (lambda: x + 1, lambda: x + y, x[::2].sum, lambda: cuda_host.cumsum(x)):
            with pytest.raises(ValueError, match="different from the current device"):
                wrong()
    assert (x.device.id, y.device.id, y[1:].reshape(3, 1).device.id) == (0, 1, 1)
    assert y.get().tolist() == [0.0] * 4
    with pytest.raises(ValueError, match="different from the current device"):
        run("right", x, y)
