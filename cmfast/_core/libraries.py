"""Import optional libraries when they are first needed, and say how to install one that is missing."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from cmfast._core import caller


@contextmanager
def explain_absence(name: str, package: str = "") -> Iterator[None]:
    """In this block, say how to install the library `name`, as `package` if given, where its import fails."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != name:  # a library that this one needs in turn
            raise
        package = package or name
        text = caller.prefix_name(f"{package} is not installed: pip install {package}")
        raise ModuleNotFoundError(text, name=name) from error


def load_library(name: str) -> Any:
    """Import an optional library; raise ModuleNotFoundError that says how to install it."""
    with explain_absence(name):
        return import_module(name)


def load_pandas() -> Any:
    """Import pandas, when the first result becomes a table."""
    return load_library("pandas")
