"""Every public callable is called with anything at all; see ``fuzzing.py`` for what may come of it.

The long form, ``-m slow``, makes ``CMFAST_FUZZ_CALLS`` calls (100,000) with ``CMFAST_FUZZ_SEED`` (another each time,
which it prints). Any number of runs with different seeds adds up, and ``-k`` picks callables.
"""

import os
import random
import re
import sys
import warnings
import zlib
from collections import Counter

import hypothesis
import matplotlib as mpl
import numpy as np
import pytest
from callables import COUNTS, ENTRIES, GRID, GUESS, TRUTH, M, X, options, right
from describe import shorten
from fuzzing import LAYOUTS, Call, Given, arrange, calls, faults
from hypothesis import HealthCheck, settings
from optional import torch

import cmfast
from cmfast._core import dispatch

pytestmark = pytest.mark.fuzz

mpl.use("Agg")

QUICK = 25  # calls of each
LONG = int(os.environ.get("CMFAST_FUZZ_CALLS", "100000"))  # of all together
SEED = int(os.environ.get("CMFAST_FUZZ_SEED", random.SystemRandom().randrange(2**32)))


@pytest.fixture(autouse=True)
def _somewhere(tmp_path, monkeypatch):
    """Work where options may be the names of files."""
    monkeypatch.chdir(tmp_path)
    cmfast.cell_counts(X, TRUTH, GUESS, grid=GRID).save("cells.npz")


@pytest.fixture(scope="module")
def made(request):
    """Count the calls of each callable, and say at the end how many there were."""
    counter = Counter()
    yield counter
    reporter, capture = map(request.config.pluginmanager.get_plugin, ("terminalreporter", "capturemanager"))
    if reporter is None or capture is None:  # of a worker, which has no terminal
        return
    with capture.global_and_fixture_disabled():
        reporter.write_line(f"\n{counter.total()} calls of {len(counter)} callables, CMFAST_FUZZ_SEED={SEED}")


def share(name, n):
    """Return how many of `n` calls are enough: drawing takes long, and few options."""
    return n // 5 if name.endswith(".plot") else n


def assert_no_faults(what):
    """Say the call, what came of it and what was expected, on one line."""
    found = faults(what)
    if found:
        msg = f"{shorten(repr(what), 300)}: got {shorten('; '.join(found), 500)}, expected no fault"
        raise AssertionError(msg)


def search(name, n, seed):
    """Look for a call of `name` that does what no call may do; return how many were made."""
    n_made = 0

    @settings(max_examples=n, deadline=None, database=None, derandomize=False, suppress_health_check=list(HealthCheck))
    @hypothesis.given(calls(name))
    def one(what):
        nonlocal n_made
        n_made += 1
        assert_no_faults(what)

    hypothesis.seed(seed + zlib.crc32(name.encode()))(one)()
    return n_made


@pytest.mark.parametrize("name", ENTRIES)
def test_calls(name, capfd):
    search(name, share(name, QUICK), 0)
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
@pytest.mark.parametrize("name", ENTRIES)
def test_many_calls(name, made, capfd):
    parts = sum(share(other, 5) for other in ENTRIES)
    made[name] += search(name, share(name, -(-5 * LONG // parts // 5) * 5), SEED)
    assert capfd.readouterr() == ("", ""), f"CMFAST_FUZZ_SEED={SEED}"


def one_call(name, how="numpy", /, **changes):
    """Return a call with the arrays of the table, or those in `changes`, which also has options."""
    arrays = {}
    for k, array in ENTRIES[name].arrays.items():
        value = changes.pop(k, array)
        arrays[k] = arrange(value, how) if isinstance(value, np.ndarray) else Given(value, None, "odd")
    return Call(name, arrays, changes)


# Calls that once did what no call may do.
FOUND = [
    one_call("metrics.tss", M=np.ones((5, 5))),
    one_call("metrics.from_labels", y_true=np.array([0, 4]), y_pred=np.array([1, 2]), names="tss"),
    one_call(
        "metrics.from_sums", d=np.ones(3), t=np.ones(3), p=np.ones(3), bands=np.ones(3), tops=np.ones(3), names="tss"
    ),
    one_call("display.PathDisplay.from_matrices", M=np.array([[[1e308, 1.0], [np.inf, 3.0]], M]), name="f1"),
    one_call("geometric_confusion_matrix", y_true=np.full(4, 2**63 - 1)),
    one_call("sparse_histogram", groups=np.full(4, 2**63 - 1)),
    one_call("Grid.scaled", factor=1e-320),
    one_call("Grid.shifted", fraction=1e308),
    one_call("Grid.shifted", fraction=-1e308),
    one_call("metrics.defined", name="nonsense"),
    one_call("metrics.defined", name=torch.ones(2, 2)),
    one_call("metrics.classification_report", M=[[1, 2], [3]]),
    one_call("Support.explain", index=torch.ones(2, 2)),
    one_call("Support.explain", index="\x1b[31m"),
    one_call("geometric_confusion_matrix", y_true=np.full(4, 2**30 - 2)),
    one_call("contingency.learning_path", "torch", M=np.arange(1, 101, dtype="f4").reshape(4, 5, 5)),
    one_call("contingency.imbalance_sensitivity", r=torch.ones(2, requires_grad=True)),
    one_call("metrics.classification_report", display_labels=np.array(2)),
    one_call("metrics.classification_report", display_labels=np.array([["a", "b"], ["c", "d"]])),
    one_call("confusion_matrix", n_groups=2**53),
    one_call("confusion_matrix", n_groups=2**62),
    one_call("display.PathDisplay.from_matrices", M=np.ones((0, 3, 2, 2)), name="f1"),
]


@pytest.mark.parametrize("what", FOUND, ids=lambda what: what.name)
def test_what_was_found_once(what):
    assert_no_faults(what)


def test_every_option_has_right_values():
    """Without them every option that is given would be refused."""
    for entry in ENTRIES.values():
        assert all(right(entry, option) for option in options(entry) if option not in entry.free)


def changed(call, op, S, *rest, **options):
    S.base[...] = 7
    return call(op, S, *rest, **options)


def raw(call, op, *arrays, **options):
    msg = "cannot reshape array of size 4 into shape (3,)"
    raise ValueError(msg)


def nameless(call, op, *arrays, **options):
    msg = "overlap: nothing can be done about it"
    raise ValueError(msg)


def broken(call, op, *arrays, **options):
    msg = "overlap: A must be\nfine"
    raise ValueError(msg)


def crashed(call, op, *arrays, **options):
    return None.shape


def warned(call, op, *arrays, **options):
    warnings.warn("overflow encountered in multiply", RuntimeWarning, stacklevel=1)
    return call(op, *arrays, **options)


def printed(call, op, *arrays, **options):
    sys.stderr.write("here")
    return call(op, *arrays, **options)


def kept(call, op, S, *rest, **options):
    return S, *call(op, S, *rest, **options)[1:]


def of_layout(call, op, S, *rest, **options):
    out, status = call(op, S, *rest, **options)
    return (out if np.asarray(S).flags.c_contiguous else np.nextafter(out, 2)), status


def refused(call, op, S, *rest, **options):
    if not S.flags.c_contiguous:
        msg = "overlap: A must be contiguous, got strides"
        raise ValueError(msg)
    return call(op, S, *rest, **options)


PLANTED = {
    changed: "^A was changed",
    raw: "^another name in front: cannot reshape.*raw text 'cannot reshape'",
    nameless: "^no argument named: ",
    broken: "^more than a line: ",
    crashed: "^raw AttributeError: ",
    warned: "^warned RuntimeWarning: overflow",
    printed: "^printed 'here'",
    kept: "^the result is in the memory of an argument",
    of_layout: "^clean copies gave other bits: ",
    refused: "^clean copies gave None, these ValueError: overlap: A must be contiguous",
}


@pytest.mark.parametrize("how", ["numpy", "strided"])
@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_planted_faults_are_found(plant, how, monkeypatch):
    """A checker that cannot fail would find nothing in anything."""
    what = one_call("overlap", how)
    assert not faults(what)
    call = dispatch.call
    monkeypatch.setattr(dispatch, "call", lambda *args, **rest: plant(call, *args, **rest))
    found = faults(what)
    if how == "numpy" and plant in (of_layout, refused):
        assert not found
    else:
        assert found
        assert re.search(PLANTED[plant], "; ".join(found)), found


def test_a_planted_fault_is_found_by_searching(monkeypatch):
    call = dispatch.call
    monkeypatch.setattr(dispatch, "call", lambda *args, **rest: of_layout(call, *args, **rest))
    with pytest.raises(AssertionError, match="other bits"):
        search("overlap", 200, 0)


@pytest.mark.parametrize("how", LAYOUTS)
@pytest.mark.parametrize("array", [M, COUNTS, np.array(2.0), np.zeros((0, 2)), np.array(["a", "b"])], ids=str)
def test_what_stands_for_an_array_has_its_values(array, how):
    one = arrange(array, how)
    if not one.how.startswith("torch"):
        np.testing.assert_array_equal(np.asarray(one.value), one.clean)
