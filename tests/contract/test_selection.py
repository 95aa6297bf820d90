"""What the short run leaves out is said in three places that agree; folded tests name what failed; stand-ins skip."""

import json
import re
import tomllib

import pytest
from folded import check_each, parametrize_folded
from optional import Missing, load
from processes import ROOT, python

TORCH = Missing("torch")


def test_every_marker_is_explained_where_contributors_look(pytestconfig):
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    markers = {line.partition(":")[0] for line in settings["markers"]}
    explained = re.findall(r"^\| `(\w+)` \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    (conftest,) = {plugin for plugin in pytestconfig.pluginmanager.get_plugins() if hasattr(plugin, "LEFT_OUT")}
    assert markers == conftest.LEFT_OUT == set(explained)


@pytest.mark.parametrize(
    ("line", "mark"),
    [
        ("pytestmark = pytest.mark.papers", "papers"),
        ("pytestmark = [pytest.mark.cuda_host, *device.marks]", "cuda_host"),
        ("pytestmark = [\n    pytest.mark.processes,\n    pytest.mark.skipif(True, reason='')]", "processes"),
        ("pytestmark = pytest.mark.filterwarnings('ignore')", "filterwarnings"),
        ("    pytestmark = pytest.mark.papers", None),
    ],
)
def test_marks_of_files_are_read_without_importing_them(pytestconfig, line, mark):
    (conftest,) = {plugin for plugin in pytestconfig.pluginmanager.get_plugins() if hasattr(plugin, "LEFT_OUT")}
    found = conftest.MARK_OF_FILE.search(f'"""A file."""\n\nimport pytest\n\n{line}\n')
    assert (found and found[1]) == mark


@pytest.mark.parametrize("expression", ["", "cuda_host", "not torch", "slow", "cuda_host and slow", "slow or not slow"])
def test_slow_tests_run_where_an_expression_names_them(pytestconfig, expression):
    (conftest,) = {plugin for plugin in pytestconfig.pluginmanager.get_plugins() if hasattr(plugin, "LEFT_OUT")}
    assert conftest.unless_asked(expression) == (set() if "slow" in expression else {"slow"})


@pytest.mark.processes
def test_the_short_run_and_what_comes_after_it_are_the_whole(tmp_path):
    """Each test is in one of them: marked tests, files that are not even imported, and parameters with marks."""
    places = ["tests/conformal", "tests/contract/test_conformance.py", "tests/scaling"]

    def collect(*options):
        cache = ("-o", f"cache_dir={tmp_path}")
        output = python("-m", "pytest", "--collect-only", "--quiet", *cache, *options, *places, cwd=ROOT)
        return [line for line in output.splitlines() if "::" in line]

    everything, short = collect("--after-short"), collect("--short")
    (tmp_path / "v" / "cmfast").mkdir(parents=True, exist_ok=True)
    (tmp_path / "v" / "cmfast" / "passed").write_text(json.dumps(short))
    rest = collect("--after-short")
    assert len(short) > 300
    assert len(rest) > 300
    assert sorted(short + rest) == sorted(everything)


def fail(text):
    raise AssertionError(text)


def test_the_first_failure_is_told_with_its_case_and_the_others_are_named():
    checks = [("case a", lambda: None), ("case b", lambda: fail("1 is not 2")), ("case c", lambda: pytest.fail("no"))]
    with pytest.raises(AssertionError) as error:
        check_each(checks)
    assert str(error.value).splitlines() == ["case b: 1 is not 2", "2 of 3 cases failed; the others: case c"]
    with pytest.raises(AssertionError, match=r"^case d: ZeroDivisionError: "):
        check_each([("case d", lambda: 1 // 0)])


def test_no_case_is_no_success():
    with pytest.raises(AssertionError, match="no case to check"):
        check_each([])


def test_a_skip_is_not_swallowed():
    with pytest.raises(pytest.skip.Exception):
        check_each([("case a", lambda: pytest.skip("reason")), ("case b", lambda: fail("never run"))])


def test_cases_are_run_by_name():
    seen = []

    @parametrize_folded({"first": [1, 2], "none": [], "second": [3]})
    def check(name, case):
        seen.append((name, case))

    assert [mark.args for mark in check.pytestmark] == [("name", ["first", "second"])]
    check("first")
    assert seen == [("first", 1), ("first", 2)]


def test_what_stands_for_a_library_skips_the_test_that_uses_it():
    class Model(TORCH.nn.Module):
        pass

    assert Model.__mro__ == (Model, object)
    assert not isinstance(3, TORCH.Tensor)
    with pytest.raises(pytest.skip.Exception, match="torch is not installed"):
        TORCH.tensor([1])


def test_a_library_that_is_required_is_not_stood_for(monkeypatch):
    monkeypatch.delenv("CMFAST_REQUIRE_LIBRARIES", raising=False)
    assert isinstance(load("no_such_library"), Missing)
    monkeypatch.setenv("CMFAST_REQUIRE_LIBRARIES", "1")
    with pytest.raises(ModuleNotFoundError):
        load("no_such_library")
