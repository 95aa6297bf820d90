"""Inputs that fuzzing found worth keeping are read, or refused in a line that names the file."""

import gc
import inspect
import re
import signal
import time
from pathlib import Path

import pytest
from callables import STATES
from folded import check_each
from fuzz import run, targets

from cmfast._files import contact_maps, matrices, points, states, survey_records, survey_totals, tables

READING = re.compile(r"(read|open|iter|load|has|count_labels|csv|arrow)_?\w*")
# Functions of files that no target calls by itself, and the reader that calls them.
WITHIN = {
    "states.read_state": "from_bytes",
    "states.load_any": "read_counts",
    "tables.open_npy": "open_array",
    "tables.csv_lines": "iter_columns",
    "tables.arrow_batches": "iter_columns",
    "tables.read_arrow_labels": "iter_columns",
}


def check(name, data, folder):
    """Assert that no reader of a target does with an input what none may."""
    target = targets.TARGETS[name]
    _, found = targets.faults(target, data, folder)
    assert not found, f"{found[0].reader}: {found[0].what}"


@pytest.mark.parametrize("name", targets.TARGETS)
def test_the_corpus_is_read_or_refused(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if targets.TARGETS[name].missing:
        pytest.skip(f"{', '.join(targets.TARGETS[name].missing)} is not installed")
    corpus = run.read_corpus(name)
    check_each((f"input {k}", lambda data=data: check(name, data, tmp_path)) for k, data in enumerate(corpus))


def test_every_reader_is_fuzzed():
    source = Path(targets.__file__).read_text()
    assert {name.rpartition(".")[2] for name in STATES} == {name.rpartition(".")[2] for name in targets.STATES}
    for module in (contact_maps, matrices, points, survey_records, states, tables, survey_totals):
        stem = module.__name__.rpartition(".")[2]
        for name, function in inspect.getmembers(module, inspect.isfunction):
            first = next(iter(inspect.signature(function).parameters), "")
            if function.__module__ != module.__name__ or name.startswith("_") or first not in ("path", "paths", "file"):
                continue
            if READING.fullmatch(name):
                known = f"{stem}.{name}"
                assert f"{known}(" in source or WITHIN.get(known, "?") in source, f"{known} is in no target"


@pytest.mark.fuzz
def test_a_fault_is_found(monkeypatch, tmp_path):
    """Lists of JSON are as long as their shape says; without that check, changes at random find an error of NumPy."""
    demand = states.demand
    (tmp_path / "right").mkdir()
    assert not run.search("state.json", tmp_path / "right", 120.0, 300, 0).found
    monkeypatch.setattr(states, "demand", lambda holds, why: "has not its shape" in why or demand(holds, why))
    search = run.search("state.json", tmp_path, 120.0, 1, 0)
    while not any(fault.what.startswith("raw ") for fault, _ in search.found.values()):
        assert search.executed < 2000, "no fault in 2000 inputs"
        search.step()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer of processor time here")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_reader_that_takes_too_long_is_a_fault():
    """The first signal comes in a ``__del__``, where Python drops what is raised."""
    calls = []

    class Dropping:
        def __del__(self):
            spin(0.3)

    def spin(seconds):
        end = time.process_time() + seconds
        while time.process_time() < end:
            pass

    def call(seconds):
        calls.append(seconds)
        Dropping()
        spin(seconds[len(calls) - 1])

    reader = targets.Reader("spin", call)
    outcome, fault = targets.read(reader, (5.0, 5.0), None, 0.2)
    assert (outcome, fault.what, len(calls)) == ("late", "takes over 0.2 s", 2)
    calls.clear()
    assert targets.read(reader, (5.0, -0.3), None, 0.4) == ("read", None)  # late but once, as when it compiles
    assert gc.isenabled()
