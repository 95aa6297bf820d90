"""Ctrl-C amid minutes of work: KeyboardInterrupt at once, and the process can go on."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from processes import ROOT

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.scaling import _assignment_and_balancing

pytestmark = pytest.mark.processes

PATIENCE = 5.0  # seconds; each of these works for minutes

CODE = """
import signal
import numpy as np, cmfast
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
rng = np.random.default_rng(0)
def slow(n, C):  # a digit takes millions of sweeps
    M = rng.uniform(0.5, 1, (n, C, C))
    M[:, C // 2:, :C // 2] *= 1e-14
    return M
options = {"solver": "sinkhorn", "max_iter": 10**9, "on_failure": "ignore", "tol": 1e-12}
threads = THREADS
CALL
M = rng.random((200, 5, 5))
want = cmfast.ipf(M, num_threads=threads).matrix
try:
    call(1)  # compiles
    print("ready", flush=True)
    call(10**9)
    print("ended", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
assert (cmfast.ipf(M, num_threads=threads).matrix == want).all()
print("alive", flush=True)
call(10**9)
"""

CALL = """
A = slow({n}, {C})
def call(most):
    cmfast.{function}(A, num_threads=threads, **options | dict(max_iter=most))
"""
CALLS = {
    "a batch": CALL.format(n=100_000, C=10, function="ipf"),
    "eight at a time": CALL.format(n=8, C=64, function="ras"),
    "in cache": CALL.format(n=1, C=300, function="bi_normalize"),
    "shared": CALL.format(n=1, C=900, function="ipf"),
}


@pytest.mark.skipif(os.name == "nt", reason="sends a signal to one process")
@pytest.mark.parametrize(("threads", "name"), [(1, "a batch"), *((2, name) for name in CALLS)])
def test_interrupt(threads, name):
    code = CODE.replace("THREADS", str(threads)).replace("CALL", CALLS[name])
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            for said in ("interrupted\n", "alive\n"):
                time.sleep(0.5)  # amid the call
                begun = time.monotonic()
                if said == "interrupted\n":
                    process.send_signal(signal.SIGINT)
                assert process.stdout.readline() == said
                assert time.monotonic() - begun < PATIENCE
            time.sleep(0.5)  # amid the second call, whose interrupt nothing catches
            begun = time.monotonic()
            process.send_signal(signal.SIGINT)
            code = process.wait(timeout=60)
            assert time.monotonic() - begun < PATIENCE
            assert code in (-signal.SIGINT, 128 + signal.SIGINT, 1)
        finally:
            process.kill()


@jit()
def _pair_at_once(A, order, row_power, col_power):
    return _assignment_and_balancing.pair_and_balance(A, order, row_power, col_power)


def test_far_cells_of_a_large_matrix_are_paired_in_steps(monkeypatch):
    """With the same result as at once, which is how small ones are."""
    rng = np.random.default_rng(0)
    A = np.where(rng.random((70, 70)) < 0.4, rng.uniform(-400, 400, (70, 70)), -np.inf)
    A[range(70), rng.permutation(70)] = 0.0
    found = []
    for pair in (_pair_at_once, _assignment_and_balancing.pair_and_balance_interruptibly):
        out = np.empty(70, np.int64), np.empty(70), np.empty(70)
        asked = []
        with monkeypatch.context() as patch:
            patch.setattr(_assignment_and_balancing, "PAIRING_CELLS_PER_CHECK", 1000)
            patch.setattr(pool, "checkpoint", lambda asked=asked: asked.append(True))
            assert pair(A, *out)
        found.append(out)
    assert len(asked) > 70
    np.testing.assert_array_equal(found[0], found[1])
    A[3] = -np.inf
    assert not _assignment_and_balancing.pair_and_balance_interruptibly(A, *out)
