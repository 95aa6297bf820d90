"""The page on stability names the lower bound of every dependency, and those that `.ci/run oldest` tests."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.house

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "stability.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = ("compat", "demo", "cluster", "dask", "maps", "io", "plot")  # the users'
TESTED = "`.ci/run oldest`"
# What arrays and tables may come from, without an extra: their bounds are those of the tests.
ACCEPTED = ("pandas", "polars", "torch", "xarray")


def read_bounds(lines: list[str]) -> set[tuple[str, str]]:
    """Return name and lower bound of each requirement that has one."""
    found = (re.match(r"([\w-]+)(?:\[[\w,-]+\])?>=([\d.]+)", line) for line in lines)
    return {(match[1].lower(), match[2]) for match in found if match}


def read_page(page: str) -> dict[str, set[tuple[str, str]]]:
    """Return names and lower bounds in the table of tested releases, by the second column."""
    _, _, rest = page.partition("| oldest | tested | newest |\n|---|---|---|\n")
    found: dict[str, set[tuple[str, str]]] = {}
    for row in rest.partition("\n\n")[0].splitlines():
        names, tested, _ = row.strip("| ").split(" | ")
        names = re.sub(r"([\w-]+) ([\d.]+) \(`compat`: ([\d.]+)\)", r"\1 \2, \1 \3", names)
        found.setdefault(tested, set()).update(
            (name.lower(), version) for name, version in (each.split(" ") for each in names.split(", "))
        )
    return found


def find_wanted() -> set[tuple[str, str]]:
    """Return the lower bounds that concern users: of the package, its extras, and the libraries that it accepts."""
    extras = PROJECT["optional-dependencies"]
    wanted = read_bounds([*PROJECT["dependencies"], *(line for name in EXTRAS for line in extras[name])])
    return wanted | {
        pair for pair in read_bounds([*extras["test"], *extras["check"], *extras["docs"]]) if pair[0] in ACCEPTED
    }


def find_wrong(page: str) -> list[str]:
    """Return what the page lacks or has too much, and what it calls tested that is not installed."""
    rows = read_page(page)
    shown = set().union(*rows.values()) - {("python", PROJECT["requires-python"].removeprefix(">="))}
    wanted = find_wanted() | {("cupy", bound) for _, bound in read_bounds(PROJECT["optional-dependencies"]["cuda12"])}
    script = [sys.executable, str(ROOT / "tests" / "harness" / "oldest.py")]
    constraints = subprocess.run(script, capture_output=True, text=True, check=True).stdout.splitlines()
    installed = {(name.lower(), version) for name, _, version in (line.partition("==") for line in constraints)}
    return [
        *(f"{name} {version} is not on the page" for name, version in sorted(wanted - shown)),
        *(f"{name} {version} is no lower bound" for name, version in sorted(shown - wanted)),
        *(f"{name} {version} is not installed" for name, version in sorted(rows[TESTED] - installed)),
    ]


def test_the_page_has_every_lower_bound():
    assert find_wrong(PAGE) == []


def test_what_is_called_tested_is_what_the_run_prints():
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (printed,) = re.findall(r"grep -iE '\^\(([\w|]+)\)=='", run)
    assert {name for name, _ in read_page(PAGE)[TESTED]} == set(printed.split("|")) - {"llvmlite"}


def test_a_page_that_says_more_is_found():
    assert find_wrong(PAGE.replace("pandas 2.2.2", "pandas 2.1")) == [
        "pandas 2.2.2 is not on the page", "pandas 2.1 is no lower bound", "pandas 2.1 is not installed",
    ]  # fmt: skip
    more = PAGE.replace("torchmetrics 1.7.3 | lower bound not tested", f"torchmetrics 1.7.3 | {TESTED}")
    assert find_wrong(more) == ["torch 2.6 is not installed", "torchmetrics 1.7.3 is not installed"]
