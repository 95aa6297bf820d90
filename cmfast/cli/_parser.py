"""Argument parser of the command, with one-line errors."""

import argparse
from collections.abc import Callable
from typing import Any, NoReturn

from cmfast._core import validate
from cmfast._core.annotations import NORMALIZATIONS

SEPARATORS = ("--sep", "--separator", "--delimiter", "--delim")
# The option here that has the purpose of a name elsewhere, and the name elsewhere.
RENAMED = {
    "--only": ("--metric", "--metrics", "--names", "--scoring"),
    "--true": ("--y-true", "--label", "--target", "--y_true"),
    "--pred": ("--y-pred", "--prediction", "--predicted", "--y_pred"),
    "--by": ("--group", "--groups", "--groupby", "--group-by"),
    "--confidence-level": ("--level", "--confidence"),
    "--threads": ("--num-threads", "--jobs", "--n-jobs"),
    "--output": ("--save", "--file"),
}
# Options whose value is a normalisation, in one command or another, and how it is also written.
OF_NORMALIZATIONS = ("--normalize", "--normalise", "--method", "--weights")


class UsageError(Exception):
    """Wrong use of the command; the message is one line."""


def misuse(text: str) -> NoReturn:
    """Raise UsageError with a one-line message."""
    raise UsageError(text)


class Parser(argparse.ArgumentParser):
    """Argument parser that raises one-line errors and adds a command's options only when it is used."""

    prepare: Callable[["Parser"], None] | None = None
    front: str = ""  # what the help begins with

    def format_help(self) -> str:
        """Return the help, which begins with an example."""
        return self.front + super().format_help()

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride]  # of overloads
        self, args: Any = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse arguments; suggest a similar option for an unknown one."""
        if self.prepare is not None:
            prepare, self.prepare = self.prepare, None
            prepare(self)
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}{self._suggest(rest)}")
        return found, rest

    def _suggest(self, rest: list[str]) -> str:
        """Return the end of a message: what to write instead of unknown arguments, or ""."""
        known = {name: action for action in self._actions for name in action.option_strings if name.startswith("--")}
        wrong = next((text.partition("=")[0] for text in rest if text.startswith("--")), "")
        if not wrong:
            several = isinstance(known.get("--pred"), argparse._AppendAction)
            return "; repeat --pred for each further column" if several else ""
        if wrong in SEPARATORS:
            return "; leave it out, as the first line tells commas, semicolons and tabs apart"
        meant = next((own for own, names in RENAMED.items() if wrong in names and own in known), None)
        if wrong in OF_NORMALIZATIONS:
            meant = next((own for own, action in known.items() if action.choices is NORMALIZATIONS), None)
        return f"; it is called {meant}" if meant else validate.suggest_name(wrong, known)

    @property
    def flags(self) -> dict[str, str]:
        """Dict from destination to the option string that sets it."""
        return {action.dest: action.option_strings[-1] for action in self._actions if action.option_strings}

    def error(self, message: str) -> NoReturn:
        """Raise UsageError instead of printing the usage."""
        misuse(f"{message} (see {self.prog} --help)")
