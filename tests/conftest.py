"""Versions in the header, Hypothesis profiles, slow tests on request."""

import math
import os
import platform
import sys

import hypothesis
import numba
import numpy as np
import pytest

import cmfast

os.environ.setdefault("CMFAST_QUIET", "1")  # what compiles is not said, or the first test of a function would fail

collect_ignore = ["types/expected_errors.py"]  # is for type checkers
WORTH = 1000  # tests that need nearly all kernels

if os.environ.get("NUMBA_DISABLE_JIT") == "1":  # kernels run as plain Python, which is stricter in two places
    np.seterr(all="ignore")  # NumPy's scalars warn of NaN and overflow
    # Python's own takes no integer of NumPy and raises on overflow.
    math.ldexp = lambda x, power: float(np.ldexp(x, int(power)))

hypothesis.settings.register_profile("default", deadline=None, derandomize=True)
hypothesis.settings.register_profile("deep", deadline=None, max_examples=2000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_report_header(config):
    """Name what a bug report needs."""
    return f"cmfast {cmfast.__version__}, numpy {np.__version__}, numba {numba.__version__}, {platform.machine()}"


def pytest_collection_modifyitems(config, items):
    """Leave slow tests out unless a marker expression asks for them."""
    if config.option.markexpr:
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]


def pytest_collection_finish(session):
    """Let the workers of pytest-xdist share what has to be compiled, where nearly all of it will be needed.

    In a run on a GPU it is not: the kernels of the CPU are not what is tested there.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is not None and len(session.items) >= WORTH and os.environ.get("CMFAST_REQUIRE_GPU") != "1":
        import warm

        warm.compile_part(int(worker["workerid"].removeprefix("gw")), worker["workercount"])


def pytest_runtest_setup(item):
    """Close the pictures that an earlier test left open."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")


@pytest.fixture
def rng():
    """Return a generator with a fixed seed."""
    return np.random.default_rng(12345)
