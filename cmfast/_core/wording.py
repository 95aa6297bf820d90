"""How messages refer to what a caller can change: as Python writes it, unless the caller has words of its own.

A message that gives advice names options by :func:`option`, and one element of an argument by :func:`element`. So the
command ``cmfast`` says ``--smoothing`` where Python says ``smoothing=``, and nobody has to find one in the other.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Wording:
    """The words of Python."""

    def option(self, name: str, value: str | int | None = None) -> str:
        """Return an option of a function, with a value or without."""
        return f"{name}=" if value is None else f'{name}="{value}"' if isinstance(value, str) else f"{name}={value}"

    def any_option(self, names: tuple[str, ...]) -> str:
        """Return options of which each would do, as far as the caller has them."""
        return " or ".join(self.option(name) for name in names)

    def element(self, argument: str, k: int, what: str) -> str:
        """Return element `k` of an argument that is a list, by its index, with `what` before that."""
        return f"{what}{argument}[{k}]"

    def example(self, code: str) -> str:
        """Return what introduces an example that only Python can run, and the example."""
        return f"as {code}"


_wording: ContextVar[Wording] = ContextVar("cmfast_wording", default=Wording())  # noqa: B039 - it has no state


def current() -> Wording:
    """Return the wording of this call."""
    return _wording.get()


@contextmanager
def use_wording(wording: Wording) -> Iterator[None]:
    """Word messages by `wording`."""
    token = _wording.set(wording)
    try:
        yield
    finally:
        _wording.reset(token)


def option(name: str, value: str | int | None = None) -> str:
    """Return how the caller sets an option, with a value or without."""
    return current().option(name, value)


def any_option(*names: str) -> str:
    """Return how the caller sets one of some options, of which each would do."""
    return current().any_option(names)


def element(argument: str, k: int, what: str = "") -> str:
    """Return what the caller calls element `k` of an argument: a name, or its index, with `what` before that."""
    return current().element(argument, k, what)


def example(code: str) -> str:
    """Return ``as code``, for callers who write Python."""
    return current().example(code)
