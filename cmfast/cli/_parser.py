"""Argument parser of the command, with one-line errors."""

import argparse
from collections.abc import Callable
from typing import Any, NoReturn

from cmfast._core import validate


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
            wrong = next((text.partition("=")[0] for text in rest if text.startswith("--")), "")
            known = [name for action in self._actions for name in action.option_strings if name.startswith("--")]
            self.error(
                f"unrecognized arguments: {' '.join(rest)}{validate.suggest_name(wrong, known) if wrong else ''}"
            )
        return found, rest

    @property
    def flags(self) -> dict[str, str]:
        """Dict from destination to the option string that sets it."""
        return {action.dest: action.option_strings[-1] for action in self._actions if action.option_strings}

    def error(self, message: str) -> NoReturn:
        """Raise UsageError instead of printing the usage."""
        misuse(f"{message} (see {self.prog} --help)")
