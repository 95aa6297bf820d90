"""Word the library's messages in terms of command line options."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from cmfast._core import wording


class CommandWording(wording.Wording):
    """Wording that names options as they are typed; unknown options keep Python's syntax."""

    def __init__(self, flags: Mapping[str, str], elements: Mapping[str, Sequence[str]] | None = None) -> None:
        self._flags, self._elements = dict(flags), dict(elements or {})

    def option(self, name: str, value: str | int | None = None) -> str:
        """Return an option as it is typed, with its value if given."""
        if name not in self._flags:
            return super().option(name, value)
        return self._flags[name] if value is None else f"{self._flags[name]} {value}"

    def any_option(self, names: tuple[str, ...]) -> str:
        """Return alternative options joined by "or", restricted to those of the command."""
        return super().any_option(tuple(name for name in names if name in self._flags) or names)

    def element(self, argument: str, k: int, what: str) -> str:
        """Return the command line's name of element `k` of an argument."""
        return self._elements[argument][k] if argument in self._elements else super().element(argument, k, what)

    def example(self, code: str) -> str:
        """Return an example that needs Python."""
        return f"in Python {super().example(code)}"

    def add_elements(self, argument: str, names: Sequence[str]) -> "CommandWording":
        """Return a wording with names for the elements of an argument."""
        return CommandWording(self._flags, {**self._elements, argument: names})


@contextmanager
def naming_elements(argument: str, names: Sequence[str]) -> Iterator[None]:
    """In this block, messages name the elements of an argument by `names` instead of indices."""
    words = wording.current()
    assert isinstance(words, CommandWording)
    with wording.use_wording(words.add_elements(argument, names)):
        yield
