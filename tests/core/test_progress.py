"""Progress of long work: tqdm's bar, in notebooks that of tqdm.auto."""

import io
import sys
from types import ModuleType, SimpleNamespace

import pytest

from cmfast._core.progress import Bar, is_terminal


def terminal():
    stream = io.StringIO()
    stream.isatty = lambda: True
    return stream


def a_shell(config):
    module = ModuleType("IPython")
    module.get_ipython = lambda: config and SimpleNamespace(config=config)
    return module


@pytest.mark.parametrize("config", [None, {"TerminalIPythonApp": {}}])
def test_no_bar_goes_into_a_log(config, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "IPython", a_shell(config))
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    bar = Bar("work", "points")
    bar(1, 3)
    bar(3, 3)
    assert capsys.readouterr().err.startswith("work: 100% (3 of 3 points)")
    monkeypatch.setattr(sys, "stderr", None)
    assert not is_terminal()


@pytest.mark.parametrize("notebook", [False, True])
def test_notebooks_get_the_bar_of_tqdm_auto(notebook, monkeypatch):
    made = []
    for name in ("tqdm", "tqdm.auto"):
        module = ModuleType(name)

        class Shown:
            def __init__(self, *, name=name, total, **options):
                made.append((name, total))
                self.n = 0

            def update(self, more):
                self.n += more

            def close(self):
                made.append(self.n)

        module.tqdm = Shown
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "IPython", a_shell({"IPKernelApp": {}} if notebook else None))
    monkeypatch.setattr(sys, "stderr", terminal())
    bar = Bar("work")
    bar(1, 3)
    bar(3, 3)
    assert made == [("tqdm.auto" if notebook else "tqdm", 3), 3]
