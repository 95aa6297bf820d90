"""What one call costs: import, first call of a fresh process, one small matrix."""

import statistics
import subprocess
import sys
import time

import numpy as np

import cmfast

IMPORT = """
import time
import numpy
start = time.perf_counter()
import cmfast
print(time.perf_counter() - start)
"""

FIRST = """
import time
import numpy as np
import cmfast
M = np.full((10, 10), 3.0) + np.diag(np.arange(10.0))
start = time.perf_counter()
cmfast.bi_normalize(M)
print(time.perf_counter() - start)
"""


def _fresh(code: str, times: int) -> float:
    runs = [
        float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
        for _ in range(times)
    ]
    return statistics.median(runs)


def import_seconds(times: int = 5) -> float:
    """Return the seconds of ``import cmfast`` over those of NumPy, in a fresh process."""
    return _fresh(IMPORT, times)


def first_call_seconds(times: int = 3) -> float:
    """Return the seconds of the first ``bi_normalize`` of a fresh process with a warm cache."""
    cmfast.bi_normalize(np.ones((10, 10)))  # warms the cache
    return _fresh(FIRST, times)


def small_call_seconds(calls: int = 2000) -> float:
    """Return the seconds of one warm ``bi_normalize`` of a 10x10 matrix."""
    M = np.full((10, 10), 3.0) + np.diag(np.arange(10.0))
    cmfast.bi_normalize(M)
    rounds = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(calls // 5):
            cmfast.bi_normalize(M)
        rounds.append((time.perf_counter() - start) / (calls // 5))
    return statistics.median(rounds)
