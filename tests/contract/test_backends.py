"""The patches of docs/backends: whole, for one release each, with results that the page shows. No network is used."""

import importlib.util
import json
import re
import subprocess

import pytest
from processes import ROOT

SPECIFICATION = importlib.util.spec_from_file_location("check_backends", ROOT / "docs" / "backends" / "check.py")
check = importlib.util.module_from_spec(SPECIFICATION)
SPECIFICATION.loader.exec_module(check)
RESULTS = json.loads(check.RESULTS.read_text(encoding="utf-8"))
HUNK = re.compile(r"^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


def patch_of(name: str) -> str:
    return (check.HERE / f"{name}.patch").read_text(encoding="utf-8")


def test_every_project_has_a_patch_a_description_and_results():
    assert {path.stem for path in check.HERE.glob("*.patch")} == set(check.BACKENDS)
    assert {path.stem for path in check.HERE.glob("*.md")} - {"README"} == set(check.BACKENDS)
    assert list(RESULTS) == list(check.BACKENDS)


@pytest.mark.parametrize("name", check.BACKENDS)
def test_hunks_have_as_many_lines_as_they_say(name):
    old = new = 0
    for line in patch_of(name).splitlines():
        if line.startswith(("--- ", "+++ ")) and not (old or new):
            continue
        if found := HUNK.match(line):
            assert (old, new) == (0, 0)
            old, new = (int(number or 1) for number in found.groups())
        else:
            old -= line[:1] in " -" or not line
            new -= line[:1] in " +" or not line
    assert (old, new) == (0, 0)


@pytest.mark.parametrize("name", check.BACKENDS)
def test_git_reads_the_patch(name):
    done = subprocess.run(
        ["git", "apply", "--numstat", check.HERE / f"{name}.patch"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [line.split("\t")[2] for line in done.stdout.splitlines()] == list(map(str, check.list_changed(name)))


@pytest.mark.parametrize("name", check.BACKENDS)
def test_a_patch_imports_cmfast_where_it_may_be_missing_and_adds_tests(name):
    added = [line[1:] for line in patch_of(name).splitlines() if line.startswith("+") and not line.startswith("+++")]
    imports = [k for k, line in enumerate(added) if line.strip() == "import cmfast"]
    assert len(imports) == 1
    around = "\n".join(added[max(imports[0] - 40, 0) : imports[0] + 2])
    assert "except ImportError" in around or "_CMFAST_AVAILABLE" in "\n".join(added)
    assert any("test" in path.name for path in check.list_changed(name))
    assert any(line.lstrip().startswith("def test_") for line in added)


@pytest.mark.parametrize("name", check.BACKENDS)
def test_the_description_names_the_release(name):
    text = (check.HERE / f"{name}.md").read_text(encoding="utf-8")
    assert check.BACKENDS[name].version in text
    assert f"{name}.patch" in text


@pytest.mark.parametrize("name", check.BACKENDS)
def test_results_are_of_the_release_and_passed(name):
    found = RESULTS[name]
    assert found["version"] == check.BACKENDS[name].version
    for counts in found["tests"].values():
        assert counts["passed"] > 0
        assert counts["failed"] <= len(found["failed_before"])
    assert all(before > 0 and after > 0 for before, after in found["seconds"].values())


def test_the_page_is_made_of_the_results():
    assert check.page(RESULTS) == check.PAGE.read_text(encoding="utf-8")


def test_a_file_that_a_patch_changes_is_read_without_its_time():
    assert check.list_changed("ipfn")[1].as_posix() == "ipfn/ipfn.py"
