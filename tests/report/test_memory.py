"""A report of 10,000 classes takes the memory of its samples and of its page, as the system limits it."""

import sys

import pytest
from processes import python

pytestmark = [pytest.mark.processes, pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")]

# MiB beside what the process has loaded; one matrix of counts alone would be 763.
LIMITED = """
import re, resource, sys
from pathlib import Path
import numpy as np
import cmfast

def report(C, n):
    rng = np.random.default_rng(0)
    y = rng.integers(0, C, n)
    guesses = {k: np.where(rng.random(n) < 0.7, y, rng.integers(0, C, n)) for k in sys.argv[2]}
    return cmfast.report(y, guesses, labels=np.arange(C), num_threads=1)

report(3000, 9000)
used = 1024 * int(re.search(r"VmData:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1])
resource.setrlimit(resource.RLIMIT_DATA, (used + int(sys.argv[1]) * 2**20, -1))
page = report(10_000, 30_000)
print(len(page.to_dict()["labels"]), len(page.html))
"""


@pytest.mark.parametrize(("models", "mib"), [("a", "250"), ("ab", "400")])
def test_many_classes_take_little_memory(tmp_path, models, mib):
    classes, size = python("-c", LIMITED, mib, models, cwd=tmp_path, MALLOC_ARENA_MAX="1").split()
    assert int(classes) == 10_000
    assert int(size) < 10_000_000


def test_the_limit_is_one(tmp_path):
    code = LIMITED.replace("cmfast.report(", "np.ones((C, C)).sum() and cmfast.report(")
    with pytest.raises(AssertionError, match=r"MemoryError|allocate"):
        python("-c", code, "400", "ab", cwd=tmp_path)
