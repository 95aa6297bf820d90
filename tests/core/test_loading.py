"""A process that forks while another thread loads or compiles kernels: neither it nor its child waits for ever."""

import os
import subprocess
import sys

import pytest
from processes import ROOT, python

pytestmark = [pytest.mark.processes, pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork() here")]

# A child that waits for a lock is ended by its alarm, and then has a status.
AMID_COMPILES = """
import os, signal, threading, time, warnings
from numba.core.compiler_lock import global_compiler_lock
from cmfast.kernels.cpu._core.jit import jit

warnings.simplefilter("ignore", DeprecationWarning)  # of a fork with threads, from Python 3.12 on

def function(k):
    @jit()
    def total(values):
        out = 0.0
        for i in range(values):
            out += (i + k) ** 0.5
            for j in range(i):
                out += j % (k + 2)
        return out
    return total

inside, bad = 0, []
for k in range(20):
    thread = threading.Thread(target=function(k), args=(5,))
    thread.start()
    time.sleep(0.01 * (k % 7))
    free = global_compiler_lock._lock.acquire(blocking=False)
    if free:
        global_compiler_lock._lock.release()
    inside += not free
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        os._exit(0 if function(100 + k)(3) > 0 else 1)
    if os.waitpid(child, 0)[1] != 0:
        bad.append(k)
    thread.join()
print(inside, bad)
"""

AMID_AN_IMPORT = """
import os, signal, sys, threading, time, warnings
from cmfast.kernels.loading import load

warnings.simplefilter("ignore", DeprecationWarning)
thread = threading.Thread(target=load, args=("slow_kernel",))
thread.start()
while "slow_kernel" not in sys.modules:
    time.sleep(0.001)
child = os.fork()
if child == 0:
    signal.alarm(30)
    os._exit(0 if load("slow_kernel").LOADED else 1)
print(os.waitpid(child, 0)[1])
thread.join()
"""


AMID_A_FIRST_CALL = """
import os, signal, sys, threading, time, warnings
import cmfast

warnings.simplefilter("ignore", DeprecationWarning)
thread = threading.Thread(target=cmfast.confusion_matrix, args=([0, 1], [1, 1]))
thread.start()
time.sleep(float(sys.argv[1]))
child = os.fork()
if child == 0:
    signal.alarm(60)
    os._exit(0 if cmfast.confusion_matrix([0, 1], [1, 1]).sum() == 2 else 1)
print(os.waitpid(child, 0)[1])
thread.join()
"""


@pytest.mark.parametrize("seconds", [0.0, 0.01, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.5])
def test_fork_amid_a_first_call(seconds, tmp_path):
    """Numba and what it needs are imported then, and ask for locks that others hold around a fork."""
    done = subprocess.run(
        [sys.executable, "-c", AMID_A_FIRST_CALL, str(seconds)],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True,
        text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")


def test_twenty_forks_amid_compiles(tmp_path):
    inside, bad = python("-c", AMID_COMPILES, cwd=tmp_path, path=ROOT, NUMBA_CACHE_DIR=str(tmp_path)).split(maxsplit=1)
    assert bad.strip() == "[]"
    assert int(inside) >= 10  # most of them were forked while the other thread compiled


def test_fork_amid_an_import(tmp_path):
    (tmp_path / "slow_kernel.py").write_text("import time\ntime.sleep(1.0)\nLOADED = True\n")
    assert python("-c", AMID_AN_IMPORT, cwd=tmp_path, path=ROOT) == "0\n"


def test_threads_that_fork_at_once(tmp_path):
    code = """
import os, threading, warnings
import cmfast.kernels.loading
warnings.simplefilter("ignore", DeprecationWarning)
statuses = []
def fork():
    for _ in range(20):
        child = os.fork()
        if child == 0:
            os._exit(0)
        statuses.append(os.waitpid(child, 0)[1])
threads = [threading.Thread(target=fork) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(statuses), sum(statuses))
"""
    assert python("-c", code, cwd=tmp_path, path=ROOT) == "80 0\n"
