"""Name options and arguments in messages in the caller's own syntax.

Messages name options by :func:`option` and elements of an argument by :func:`element`: the command ``cmfast`` then
writes ``--smoothing`` where Python callers read ``smoothing=``.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Wording:
    """Python syntax for options and arguments, the default wording."""

    def option(self, name: str, value: str | int | None = None) -> str:
        """Return an option as a keyword argument, with its value if given: ``name=value``."""
        return f"{name}=" if value is None else f'{name}="{value}"' if isinstance(value, str) else f"{name}={value}"

    def any_option(self, names: tuple[str, ...]) -> str:
        """Return alternative options joined by "or"; a subclass omits options that its caller does not have."""
        return " or ".join(self.option(name) for name in names)

    def element(self, argument: str, k: int, what: str) -> str:
        """Return element `k` of a list argument as ``argument[k]``, preceded by `what`."""
        return f"{what}{argument}[{k}]"

    def example(self, code: str) -> str:
        """Return an example of Python code, introduced by "as"."""
        return f"as {code}"


_wording: ContextVar[Wording] = ContextVar("cmfast_wording", default=Wording())  # noqa: B039 - Wording has no state


def current() -> Wording:
    """Return the wording of the current call."""
    return _wording.get()


@contextmanager
def use_wording(wording: Wording) -> Iterator[None]:
    """Use `wording` for the messages of this block."""
    token = _wording.set(wording)
    try:
        yield
    finally:
        _wording.reset(token)


def option(name: str, value: str | int | None = None) -> str:
    """Return how the caller sets an option, with its value if given."""
    return current().option(name, value)


def any_option(*names: str) -> str:
    """Return how the caller sets any one of several alternative options."""
    return current().any_option(names)


def element(argument: str, k: int, what: str = "") -> str:
    """Return what the caller calls element `k` of an argument: its name, or its index, preceded by `what`."""
    return current().element(argument, k, what)


def example(code: str) -> str:
    """Return ``as code`` for Python callers, or the wording's replacement."""
    return current().example(code)
