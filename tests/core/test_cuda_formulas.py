"""The formulas of metrics as C++, rendered by several threads at a time."""

import gc
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from cmfast.kernels.cuda._core import formulas

N_THREADS, N_CALLS = 4, 40


@pytest.fixture
def threads_that_alternate():
    """Let threads take turns inside the parser: at collections, by a callback such as that of Hypothesis."""
    thresholds, interval, callback = gc.get_threshold(), sys.getswitchinterval(), lambda *_: list(range(2000)).clear()
    gc.callbacks.append(callback)
    gc.set_threshold(50)
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)
    gc.set_threshold(*thresholds)
    gc.callbacks.remove(callback)


@pytest.mark.usefixtures("threads_that_alternate")
def test_threads_render_at_the_same_time():
    """Python 3.11 raised SystemError when two threads parsed."""
    with ThreadPoolExecutor(N_THREADS) as pool:
        found = set(pool.map(lambda _: formulas.render.__wrapped__(), range(N_CALLS)))
    assert found == {formulas.render()}
