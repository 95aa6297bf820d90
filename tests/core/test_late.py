"""Parts of kernels that are compiled when something first needs them, and called by their address."""

import numpy as np
import pytest
from processes import ROOT, python

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.late import LateParts

pytestmark = pytest.mark.processes

PARTS = LateParts(3)
HALVE, REFUSE, MISTAKEN = 1, 2, 3


@PARTS.part(HALVE, lambda: (np.ones(1), 0), returns=0.0)
def _halve(values, k):
    values[k] /= 2.0
    return values[k]


@PARTS.part(REFUSE, lambda: (0,), returns=0)
def _refuse(k):
    if k > 0:
        msg = "refused"
        raise ValueError(msg)
    return k


@PARTS.part(MISTAKEN, lambda: (0,), returns=0.0)
def _mistaken(k):
    return k


@jit()
def _halve_large(values, parts):
    """Halve what is above 1; return the part that is missing for it."""
    for k in range(len(values)):
        if values[k] > 1.0:
            if parts[HALVE] == 0:
                return HALVE
            _halve(parts, values, k)
    return 0


@jit()
def _ask(k, parts):
    return _refuse(parts, k)


def test_a_part_is_missing_until_it_is_needed_and_then_does_its_work():
    values = np.array([0.5, 1.0])
    assert _halve_large(values, PARTS.addresses) == 0
    values[0] = 3.0
    assert _halve_large(values, PARTS.addresses) == HALVE
    assert values[0] == 3.0
    PARTS.compile(HALVE)
    assert _halve_large(values, PARTS.addresses) == 0
    np.testing.assert_array_equal(values, [1.5, 1.0])


def test_an_error_within_a_part_is_raised():
    PARTS.compile(REFUSE)
    assert _ask(0, PARTS.addresses) == 0
    with pytest.raises(ValueError, match="refused"):
        _ask(1, PARTS.addresses)


def test_a_part_that_returns_something_else_than_it_says_is_never_called():
    with pytest.raises(AssertionError, match="returns int64, not float64"):
        PARTS.compile(MISTAKEN)
    assert PARTS.addresses[MISTAKEN] == 0


COMPILED = """
import cmfast
from cmfast.kernels.cpu._core import jit
begun, names = jit._CompileListener.on_start, set()
PARTS = {
    "pair_lanes", "check_and_equilibrate", "equilibrate_lane", "compute_extreme_mean", "set_initial_factors", "classify"
}
jit._CompileListener.on_start = lambda self, event: (
    names.add(event.data["dispatcher"].py_func.__name__), begun(self, event)
)
jit.watch(lambda *_: None, lambda: None)
for M in [[9, 1, 1], [1, 9, 1], [1, 1, 9]], [[1, 9, 1], [9, 1, 1], [1, 1, 9]], [[0, 9, 1], [9, 1, 1], [1, 1, 9]]:
    cmfast.bi_normalize(M)
    print(sorted(names & PARTS))
"""


def test_a_matrix_waits_for_what_it_needs_alone(tmp_path):
    lines = python("-c", COMPILED, cwd=tmp_path, path=ROOT, NUMBA_CACHE_DIR=str(tmp_path)).splitlines()
    assert lines == ["[]", "['pair_lanes']", "['pair_lanes']"]
