"""Commands of pages, and what they print: blocks of ``console``, in which a line of a command begins with ``$``.

``python docs/page_commands.py docs/report.md`` runs the commands of a page and writes what they print below them.
"""

import contextlib
import doctest
import io
import re
import shlex
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cmfast import cli

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE  # as of the examples in Python, see pyproject.toml
WIDEST = 74  # columns of a line; tests/contract/test_code_of_pages.py compares


class Command(NamedTuple):
    """A command of a page."""

    line: str
    """The command, without its prompt and without line breaks."""
    printed: str
    """What the page says that it prints."""


def read_commands(page: str) -> list[Command]:
    """Return the commands of a page in order; a line that ends with a backslash goes on in the next one."""
    found = []
    for block in BLOCK.findall(page):
        if not block.startswith("$ "):
            message = f"a console block begins with no command: {block!r}"
            raise ValueError(message)
        found += [Command(line.replace("\\\n", " "), printed) for line, printed in COMMAND.findall(block)]
    return found


def run_commands(page: str) -> Iterator[tuple[Command, str]]:
    """Run the commands of a page in the current folder; yield each and what it printed. Its exit status must be 0."""
    for command in read_commands(page):
        name, *words = shlex.split(command.line, comments=True)
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = cli.main(words) if name == "cmfast" else None
        if status != 0:
            message = f"{command.line}: status {status}, {err.getvalue()}"
            raise RuntimeError(message)
        yield command, out.getvalue()


def is_printed(want: str, got: str) -> bool:
    """Whether a command printed what its page shows: line breaks may differ, and ``...`` is any text."""
    return doctest.OutputChecker().check_output(want, got, FLAGS)


def update(page: str) -> str:
    """Return the page with the output of each command that prints something else than it shows."""
    outputs = iter([command.printed if is_printed(command.printed, got) else _wrap(got)
                    for command, got in run_commands(page)])  # fmt: skip

    def write(block: re.Match[str]) -> str:
        body = COMMAND.sub(lambda found: f"$ {found[1]}\n{next(outputs)}", block[1])
        return f"```console\n{body}```"

    return BLOCK.sub(write, page)


def _wrap(text: str) -> str:
    """Break long lines."""
    lines = [part for line in text.splitlines() for part in textwrap.wrap(line, WIDEST) or [""]]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def main() -> None:
    """Update the pages that are named."""
    for path in map(Path, sys.argv[1:]):
        page = path.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            page = update(page)
        path.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
