"""Which tests run: the short run, the rest of it, slow ones on request. Versions in the header, Hypothesis profiles."""

import math
import os
import platform
import re
import shutil
import sys

import hypothesis
import numba
import numpy as np
import pytest
from first_line import pytest_pyfunc_call  # noqa: F401  # what failed, in the first line
from optional import Missing

import cmfast
from cmfast.kernels.cpu.scaling import launch

os.environ.setdefault("CMFAST_QUIET", "1")  # what compiles is not said, or the first test of a function would fail
os.environ.setdefault("MPLBACKEND", "Agg")  # figures are drawn into files

# What tests share holds no tests: looking for them would import it a second time, by another name.
collect_ignore = ["cases", "data", "harness", "oracle", "types/expected_errors.py"]
# Left out where no file and no marker expression is given; pyproject.toml says what each is for.
LEFT_OUT = frozenset(
    "cluster cuda_host exhaustive fuzz gpu house papers peers pictures processes slow torch".split()  # noqa: SIM905
)
# Numbers of classes for which the short run compiles straight-line code, four seconds each. Others take the loops that
# it is made of, with the same bits: tests/scaling/test_straight.py compares all sixteen.
SIZES = (3,)
MARK_OF_FILE = re.compile(r"^pytestmark = \[?\s*pytest\.mark\.(\w+)", re.MULTILINE)
PASSED = "cmfast/passed"  # in pytest's cache: what the last short run has shown

if os.environ.get("NUMBA_DISABLE_JIT") == "1":  # kernels run as plain Python, which is stricter in two places
    np.seterr(all="ignore")  # NumPy's scalars warn of NaN and overflow
    # Python's own takes no integer of NumPy and raises on overflow.
    math.ldexp = lambda x, power: float(np.ldexp(x, int(power)))

hypothesis.settings.register_profile("default", deadline=None, derandomize=True)
# A fourth of the examples: the whole run tries these tests again, with all of them.
hypothesis.settings.register_profile("short", deadline=None, derandomize=True, max_examples=25)
hypothesis.settings.register_profile("deep", deadline=None, max_examples=2000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_addoption(parser):
    """Let a run be short where files are named, or go on where the short run has ended."""
    parser.addoption(
        "--short", action="store_true", help="leave out what the short run leaves out, of named files, too"
    )
    text = "leave out the tests that have passed in the last short run of this folder"
    parser.addoption("--after-short", action="store_true", help=text)


def pytest_configure(config):
    """Decide once, in the process that was called, whether this is the short run."""
    workerinput = getattr(config, "workerinput", None)
    if workerinput is not None:
        config.is_short = workerinput["is_short"]
        if config.is_short:
            _shorten()
        return
    config.is_bare = config.args_source is not pytest.Config.ArgsSource.ARGS
    others = config.option.markexpr or config.option.after_short
    config.is_short = config.option.short or (config.is_bare and not others)
    if config.is_short:
        _shorten()
    if config.is_short and config.is_bare and not config.option.collectonly:
        config.pluginmanager.register(Passed(config))


def _shorten():
    """Compile less straight-line code, and try fewer examples of laws."""
    launch.UNROLLED_SIZES = SIZES
    if "HYPOTHESIS_PROFILE" not in os.environ:
        hypothesis.settings.load_profile("short")


class Passed:
    """Keep the names of the tests that pass in a short run, for ``--after-short``."""

    def __init__(self, config):
        self._config, self._names = config, []

    def pytest_runtest_logreport(self, report):
        """Note one; a skip in its set-up never gets here. Of laws more examples are to be tried."""
        if report.when == "call" and report.passed and "hypothesis" not in report.keywords:
            self._names.append(report.nodeid)

    def pytest_sessionfinish(self):
        """Write them into pytest's cache."""
        self._config.cache.set(PASSED, sorted(self._names))


def pytest_configure_node(node):
    """Tell a worker of pytest-xdist what has been decided."""
    node.workerinput["is_short"] = node.config.is_short
    node.workerinput["is_bare"] = node.config.is_bare


def pytest_report_header(config):
    """Name what a bug report needs, and what is not tried."""
    lines = [f"cmfast {cmfast.__version__}, numpy {np.__version__}, numba {numba.__version__}, {platform.machine()}"]
    if config.is_short:
        lines.append("the short run: CONTRIBUTING.md says what else there is, and what it needs")
    return lines


def pytest_ignore_collect(collection_path, config):
    """Do not even import a file whose tests are all left out."""
    if config.is_short and collection_path.suffix == ".py" and collection_path.name.startswith("test_"):
        found = MARK_OF_FILE.search(collection_path.read_text(encoding="utf-8"))
        return True if found and found[1] in LEFT_OUT else None
    return None


def unless_asked(expression):
    """Return the marks that a marker expression leaves out without naming them."""
    return frozenset({"slow"}.difference(re.findall(r"\w+", expression)))


def pytest_collection_modifyitems(config, items):
    """Leave out what the short run does without or has shown; slow tests unless an expression asks for them."""
    unwanted = LEFT_OUT if config.is_short else unless_asked(config.option.markexpr)
    passed = set(config.cache.get(PASSED, [])) if config.option.after_short else set()
    left_out = {
        item
        for item in items
        if item.nodeid in passed or unwanted.intersection(mark.name for mark in item.iter_markers())
    }
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session):
    """Let the workers of pytest-xdist share what has to be compiled, where nearly all of it will be needed.

    Before they collect, which calls some functions. In a run on a GPU it is not needed: the kernels of the CPU are not
    what is tested there.
    """
    given = getattr(session.config, "workerinput", None)
    if given is not None and given["is_bare"] and os.environ.get("CMFAST_REQUIRE_GPU") != "1":
        import warm

        worker = int(given["workerid"].removeprefix("gw"))
        warm.compile_part(worker, given["workercount"], given["testrunuid"], short=session.config.is_short)


def pytest_sessionfinish(session):
    """Remove what a worker has written while it waited for others."""
    given = getattr(session.config, "workerinput", None)
    if given is not None and "warm" in sys.modules:
        shutil.rmtree(sys.modules["warm"].meeting_place(given["testrunuid"]), ignore_errors=True)


def pytest_runtest_setup(item):
    """Close the figures that an earlier test left open; skip a test one of whose parameters no library makes."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    for value in missing_in(parameters):
        value.skip()


def missing_in(value):
    """Yield what stands for libraries that are not installed, in any container."""
    if isinstance(value, Missing):
        yield value
    elif isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from missing_in(item)


@pytest.fixture
def rng():
    """Return a generator with a fixed seed."""
    return np.random.default_rng(12345)
