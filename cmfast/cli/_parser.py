"""The parser of the command line, and what a wrong use of it is."""

import argparse
from collections.abc import Callable
from typing import Any, NoReturn

from cmfast._core import validate


class UsageError(Exception):
    """Wrong options; the text is one line."""


def misuse(text: str) -> NoReturn:
    """Refuse the options of the command, in one line."""
    raise UsageError(text)


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, and whose options are added when it is used."""

    prepare: Callable[["Parser"], None] | None = None

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride]  # of overloads
        self, args: Any = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Refuse what is not known in the parser that knows what is near."""
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
        """The options by what they set."""
        return {action.dest: action.option_strings[-1] for action in self._actions if action.option_strings}

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the whole usage."""
        misuse(f"{message} (see {self.prog} --help)")
