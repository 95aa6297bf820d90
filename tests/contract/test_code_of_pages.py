"""Code on pages of the site can be read without scrolling sideways."""

import ast
import doctest
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
