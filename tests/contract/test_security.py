"""No pickle, no network, no code from data: what SECURITY.md says, read from the sources and tried."""

import ast
import re
from functools import cache
from typing import NamedTuple

import pytest
import yaml
from processes import ROOT, python

import cmfast

FOLDERS = ROOT / "cmfast", ROOT / "kernels"
NETWORK = {"aiohttp", "ftplib", "http", "httpx", "requests", "smtplib", "socket", "ssl", "urllib", "xmlrpc"}
# Where a name that could do harm is used, and for what.
SOCKETS = {"cmfast/_core/source_digest.py"}  # the name of this machine, for a message
ADDRESSES = {"cmfast/_files/sources.py", "cmfast/_files/stores.py"}  # parts of a URL
PICKLES = {"kernels/cpu/_core/jit.py"}  # the cache of machine code, which the user's own processes wrote
CODE = {"kernels/cpu/metrics/_formulas.py", "kernels/cpu/metrics/_gradients_classes.py"}  # from our own sources


class Module(NamedTuple):
    """A module of the package: its name, the modules that it imports, and the functions that it calls."""

    name: str
    imports: list[str]
    functions: list[str]
    loads: list[tuple[str, ast.Call]]  # those whose name ends in "load" or the like, with the call


@cache
def modules():
    """Return all modules of the package; cached without their syntax trees, which are large."""
    found = []
    for path in (path for folder in FOLDERS for path in sorted(folder.rglob("*.py"))):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith("cmfast/kernels/"):
            tree = ast.parse(path.read_text())
            called = list(calls(tree))
            loads = [each for each in called if re.search("load|read|open", each[0].rpartition(".")[2])]
            found.append(Module(name, list(imports(tree)), [function for function, _ in called], loads))
    return found


def imports(tree):
    """Yield the modules that a tree imports, anywhere in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module


def calls(tree):
    """Yield the name of every function called in a tree, and the call."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


@pytest.mark.house
def test_modules_that_could_reach_a_network_are_known():
    found = {one.name for one in modules() if NETWORK & {each.partition(".")[0] for each in one.imports}}
    assert found <= SOCKETS | ADDRESSES
    assert found >= SOCKETS
    for one in modules():
        if one.name in SOCKETS:
            assert {each for each in one.functions if each.startswith("socket.")} == {"socket.gethostname"}
        if one.name in ADDRESSES:
            assert {each for each in one.imports if each.startswith(("urllib", "http"))} <= {"urllib.parse"}


@pytest.mark.house
def test_nothing_but_the_cache_is_unpickled():
    found = set()
    for one in modules():
        for function, call in one.loads:
            if re.fullmatch(r"(cloud)?pickle\.loads?|loads?_pickle|joblib\.load|torch\.load|pd\.read_pickle", function):
                found.add(one.name)
            if re.fullmatch(r"(np|numpy)\.load|np\.lib\.format\.(read_array|open_memmap)", function):
                given = {each.arg: each.value for each in call.keywords}
                refused = "allow_pickle" in given and ast.literal_eval(given["allow_pickle"]) is False
                assert refused or function.endswith("open_memmap"), f"{one.name}:{call.lineno}"
    assert found == PICKLES


@pytest.mark.house
def test_no_code_is_made_of_data():
    known = "eval exec compile __import__ os.system os.popen yaml.load"
    found = {one.name for one in modules() if not set(known.split()).isdisjoint(one.functions)}
    assert found == CODE


def test_every_reader_is_in_the_list():
    text = (ROOT / "SECURITY.md").read_text()
    readers = {path.name for path in (ROOT / "cmfast" / "_files").glob("*.py")}
    # These write, keep what was read, or choose columns of what a reader gave.
    others = {"__init__.py", "label_columns.py", "output.py", "partial_files.py", "scratch.py", "spilled_groups.py"}
    missing = {name for name in readers - others if name not in text}
    assert not missing
    for name in re.findall(r"`((?:cmfast|tests|docs)/[^`]+)`", text):
        assert (ROOT / name).exists(), name


@pytest.mark.processes
def test_main_functions_and_commands_open_no_socket(tmp_path):
    program = f"""
import socket

def refuse(*args, **options):
    raise AssertionError("a socket was opened")

socket.socket.connect = socket.socket.connect_ex = socket.socket.bind = socket.getaddrinfo = refuse
import numpy as np, cmfast
from cmfast import cli, conformal, metrics, uncertainty
y, p = np.random.default_rng(0).integers(0, 3, (2, 200))
C = cmfast.confusion_matrix(y, p)
cmfast.bi_normalize(C), metrics.compute(C, ["mcc"]), uncertainty.interval(C, "accuracy")
cmfast.geometric_confusion_matrix(np.random.default_rng(1).normal(size=(200, 2)), y, p, on_failure="ignore")
cmfast.report(y, p).save({str(tmp_path / "page.html")!r})
assert cli.main(["example", {str(tmp_path / "t.csv")!r}]) in (0, None)
table, columns = {str(tmp_path / "t.csv")!r}, ["--true", "label", "--pred", "new"]
for command in ("metrics", "confusion"):
    assert cli.main([command, table, *columns]) in (0, None)
assert cli.main(["compare", table, *columns, "--pred", "old"]) in (0, None)
assert cli.main(["report", table, *columns, "-o", {str(tmp_path / "r.html")!r}]) in (0, None)
print("done")
"""
    assert python("-W", "ignore", "-c", program, cwd=tmp_path).splitlines()[-1] == "done"


def test_the_citation_has_the_version_and_the_papers():
    found = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert found["version"] == cmfast.__version__
    assert found["license"] == "BSD-3-Clause"
    assert {"cff-version", "message", "title", "authors"} <= {*found}
    assert all({"type", "title", "authors"} <= {*each} for each in found["references"])
