"""Code on pages of the site can be read without scrolling sideways."""

import ast
import doctest
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from house import files

pytestmark = pytest.mark.house

WIDEST = 74  # what a column of the site holds in a window of 1,300 pixels
PAGES = [path for path in files(".md") if path.parts[0] == "docs" or path.name in ("CHANGELOG.md", "CONTRIBUTING.md")]
PROGRAMS = [path for path in files(".py") if path.parts[0] == "examples" or path.parts[:2] == ("docs", "gallery")]
SOURCES = [path for path in files(".py") if path.parts[0] == "cmfast"]  # their docstrings are the pages of the API
ROOT = Path(__file__).parents[2]
SHOWN = [path for path in files(".md") if path.parts[0] == "docs" or path.name == "README.md"]
SHELL = re.compile(r"^```(?:sh|bash|shell)\n(.*?)^```\n(\n```text\n)?", re.DOTALL | re.MULTILINE)
SILENT = "pip install", ".ci/run gpu"  # commands whose output tells nothing, and those that need a GPU
DOCUMENTED = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef


def code_lines(page: str) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line in a block of code, but not of directives that only look like one."""
    inside = kind = ""
    for number, line in enumerate(page.splitlines(), 1):
        bare = line.strip()
        if bare.startswith("```"):
            inside, kind = ("", "") if inside else ("code", bare.strip("`"))
        elif inside and not kind.startswith("{"):
            yield number, line


def docstring_lines(source: str) -> Iterator[tuple[int, str]]:
    """Yield each line of an example in a docstring, with its prompt, and where the documented object begins."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED):
            for example in doctest.DocTestParser().get_examples(ast.get_docstring(node) or ""):
                for line in example.source.splitlines():
                    yield getattr(node, "lineno", 1), f">>> {line}"


def test_no_line_is_wider_than_a_page() -> None:
    found = [(path, code_lines((ROOT / path).read_text(encoding="utf-8"))) for path in PAGES]
    found += [(path, enumerate((ROOT / path).read_text(encoding="utf-8").splitlines(), 1)) for path in PROGRAMS]
    found += [(path, docstring_lines((ROOT / path).read_text(encoding="utf-8"))) for path in SOURCES]
    wide = [f"{path}:{number}: {line}" for path, lines in found for number, line in lines if len(line) > WIDEST]
    assert not wide, f"{len(wide)} lines of code have more than {WIDEST} columns:\n" + "\n".join(wide)


def test_a_wide_line_is_found() -> None:
    page = "```sh\nshort\n" + "x" * 75 + "\n```\n" + "y" * 99 + "\n```{pages}\n" + "z" * 99 + "\n```\n"
    assert [number for number, line in code_lines(page) if len(line) > WIDEST] == [3]
    source = f'def f():\n    """Do.\n\n    >>> {"x" * 70}\n    >>> {"y" * 71}\n    {"z" * 99}\n    """\n'
    assert [number for number, line in docstring_lines(source) if len(line) > WIDEST] == [1]


def unshown_commands(page: str) -> list[str]:
    """Return the commands of a page of which it does not show what they print."""
    lines = [
        line for block, shown in SHELL.findall(page) if not shown for line in block.replace("\\\n", " ").splitlines()
    ]
    return [line for line in lines if line and not line.startswith("#") and not any(word in line for word in SILENT)]


def test_pages_show_what_commands_print() -> None:
    found = {str(path): unshown_commands((ROOT / path).read_text(encoding="utf-8")) for path in SHOWN}
    found = {path: commands for path, commands in found.items() if commands}
    cure = "write them as ```console, each line after $, and run python docs/page_commands.py PAGE"
    assert not found, f"pages show no output of {found}: {cure}"


def test_a_command_without_output_is_found() -> None:
    page = "```sh\npip install cmfast\n# all\ncmfast \\\n    info\n```\n\n"
    page += "```sh\ncmfast demo\n```\n\n```text\nDigits\n```\n"
    assert unshown_commands(page) == ["cmfast      info"]
    assert unshown_commands("```sh\nA=1 .ci/run gpu\n```\n") == []
