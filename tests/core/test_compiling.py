"""What compiles for long says so: in the user's words, once, in time, and only then."""

import io
import logging
import sys
import threading
import time

import numpy as np
import pytest
from callables import ENTRIES, call
from processes import ROOT, python

import cmfast
from cmfast._core import compile_notices
from cmfast._core.adapters import _numpy
from cmfast._core.progress import Bar, StderrHandler
from cmfast.kernels.cpu.margins.tables import lanes
from cmfast.kernels.cpu.scaling import _tile_equilibration, _tile_loop, _zero_support

pytestmark = pytest.mark.processes

KERNEL = "scale_square"
SAID = "cmfast: compiling overlap, once per machine, about 2 s\n"
# One kernel takes .2 s to compile, another as long; two threads share the work.
CODE = """
import sys, time
import numpy as np
import cmfast
from cmfast._core import compile_notices

compile_notices.NOTICE_DELAY = float(sys.argv[1])
M = np.ones((100_000, 3, 3))
exec(sys.argv[2])
cmfast.overlap(M, M, num_threads=2)
cmfast.overlap(M.astype("f4"), M.astype("f4"), num_threads=2)
"""


@pytest.fixture
def said(tmp_path, capfd):
    """Return a way to run the code in a fresh process and to read what it says on stderr."""

    def run(*args, options=(), folder=tmp_path, **environment):
        code = f"import runpy, sys; sys.stderr = sys.stdout; sys.argv[:1] = []; exec({CODE!r})"
        environment = {"NUMBA_CACHE_DIR": str(folder), "CMFAST_QUIET": "", **environment}
        return python(*options, "-c", code, "", *args, cwd=tmp_path, path=ROOT, **environment)

    return run


def test_what_compiles_for_long_is_said_once_and_never_again(said):
    assert said("0.02", "", options=("-W", "error")) == SAID
    assert said("0.02", "") == ""


def test_what_does_not_take_long_is_not_said(said):
    assert said("60", "") == ""


@pytest.mark.parametrize(
    "muted",
    ["import logging; logging.getLogger('cmfast').setLevel('ERROR')", "import os; os.environ['CMFAST_QUIET']='1'"],
)
def test_it_can_be_turned_off(said, muted):
    assert said("0.02", muted) == ""


def test_a_program_that_has_set_up_logging_gets_it_there(said):
    there = "import logging; logging.basicConfig(stream=sys.stdout, format='%(levelname)s %(name)s %(message)s')"
    assert said("0.02", there) == "WARNING cmfast " + SAID.removeprefix("cmfast: ")


def test_where_nothing_can_be_kept_it_is_said_that_every_process_compiles(said, tmp_path):
    file = tmp_path / "file"
    file.touch()
    text = said("0.02", "", folder=file)
    assert text.startswith("cmfast: compiling overlap, in every process, as ")
    assert text.endswith("cannot be written, about 2 s\n")


@pytest.fixture
def notices(monkeypatch, caplog_of_cmfast):
    """Return notices that wait for a moment only."""
    monkeypatch.delenv("CMFAST_QUIET", raising=False)
    monkeypatch.setattr(compile_notices, "NOTICE_DELAY", 0.05)
    monkeypatch.setattr(compile_notices, "_find_called_op", lambda frame: ("bi_normalize", "ipf"))
    return compile_notices.Notices()


@pytest.fixture
def caplog_of_cmfast():
    """Return the messages that cmfast logs."""
    texts = []
    handler = logging.Handler()
    handler.emit = lambda record: texts.append(record.getMessage())
    logger = logging.getLogger("cmfast")
    logger.addHandler(handler)
    yield texts
    logger.removeHandler(handler)


def waited(texts):
    """Wait until something is said."""
    end = time.monotonic() + 10
    while not texts and time.monotonic() < end:
        time.sleep(0.01)
    return texts


def test_it_is_said_while_it_compiles(notices, caplog_of_cmfast):
    notices.begin(KERNEL)
    about = compile_notices.KERNELS[KERNEL]
    assert waited(caplog_of_cmfast) == [f"compiling bi_normalize, once per machine, about {about:.0f} s"]
    notices.end()


def test_short_compilations_of_one_function_count_together(notices, caplog_of_cmfast, monkeypatch):
    monkeypatch.setattr(compile_notices, "NOTICE_DELAY", 3600.0)
    notices.begin(KERNEL)
    notices.end()
    assert not caplog_of_cmfast
    notices._spent["bi_normalize"] = 3600.0
    notices.begin(KERNEL)
    assert len(waited(caplog_of_cmfast)) == 1
    notices.end()
    notices.begin(KERNEL)
    notices.end()
    assert (len(caplog_of_cmfast), notices.compiled) == (1, 3)


def test_no_thread_is_left_behind(notices):
    before = threading.active_count()
    for _ in range(5):
        notices.begin(KERNEL)
        notices.end()
    end = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < end:
        time.sleep(0.01)
    assert threading.active_count() == before


def test_no_bar_is_torn(monkeypatch):
    text = io.StringIO()
    monkeypatch.setattr(sys, "stderr", text)
    bar = Bar("training", "networks")
    bar(1, 3)
    StderrHandler().emit(logging.LogRecord("cmfast", logging.WARNING, "", 0, "compiling %s", ("ipf",), None))
    bar(3, 3)
    lines = text.getvalue().replace("\r", "\n").split("\n")
    assert "cmfast: compiling ipf" in lines


@pytest.mark.parametrize("stream", [None, io.StringIO()])
def test_a_closed_stderr_is_no_error(monkeypatch, stream):
    if stream is not None:
        stream.close()
    monkeypatch.setattr(sys, "stderr", stream)
    failed = []
    monkeypatch.setattr(StderrHandler, "handleError", lambda handler, record: failed.append(record))
    StderrHandler().emit(logging.LogRecord("cmfast", logging.WARNING, "", 0, "anything", (), None))
    assert not failed


# Ops of what a method belongs to, which the harness makes first.
MADE_BEFORE = {"RakeResult.estimate": {"rake"}}


@pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")
@pytest.mark.parametrize("name", [name for name, entry in ENTRIES.items() if entry.arrays])
def test_what_a_function_needs_is_what_it_calls(name, monkeypatch):
    called = set()
    honest = _numpy.ADAPTER.call
    monkeypatch.setattr(_numpy.ADAPTER, "call", lambda op, *rest: called.add(op) or honest(op, *rest))
    call(ENTRIES[name])
    if called - MADE_BEFORE.get(name, set()):
        assert set(compile_notices.list_ops(name)) & called, called


def test_straight_line_code_is_not_said_again_for_every_size(notices, caplog_of_cmfast):
    notices._spent["bi_normalize"] = 1.0
    notices.begin(None)
    time.sleep(0.1)
    notices.end()
    assert not caplog_of_cmfast
    assert notices.compiled == 1


def test_what_a_function_compiles_is_the_sum_of_what_it_needs():
    about, seconds, kernels = compile_notices.estimate_seconds, compile_notices.SECONDS, compile_notices.KERNELS
    assert about("metrics.compute", "metrics_of_matrices", "any") == seconds["metrics_of_matrices"]
    assert about("normalize", "ipf", "any") == seconds["ipf"]
    assert about("Grid.regular", "column_ranges", "any") == compile_notices.USUAL_SECONDS
    assert about("geometric_confusion_matrix", "gcm", "any") > seconds["gcm"]
    assert about("bi_normalize", "ipf", "equilibrate_lane") == kernels["equilibrate_lane"]
    assert about("bi_normalize", "ipf", f"{KERNEL} for a size") < about("bi_normalize", "ipf", KERNEL)


def test_every_kernel_whose_seconds_are_known_is_there():
    kernels = {**vars(_tile_equilibration), **vars(_tile_loop), **vars(_zero_support), **vars(lanes)}
    assert {name.removesuffix(" for a size") for name in compile_notices.KERNELS} <= set(kernels)


def test_methods_and_callbacks_have_their_own_names(monkeypatch):
    from cmfast.kernels.cpu import comparison

    found = []
    honest = comparison._compare
    monkeypatch.setattr(
        comparison,
        "_compare",
        lambda *args: found.append(compile_notices._find_called_op(sys._getframe())) or honest(*args),
    )
    cmfast.overlap(np.ones((2, 2)), np.ones((2, 2)))
    assert found == [("overlap", "overlap")]
    assert compile_notices._find_called_op(sys._getframe()) is None
