"""Libraries that the short run does without: a test that uses one is skipped where it is not installed.

``from optional import torch`` gives the library, or a stand-in. The stand-in can be named where parameters and
decorators are evaluated; the first call of it within a test skips that test. With CMFAST_REQUIRE_LIBRARIES=1, as in
``.ci/run``, a library that is missing is an error.
"""

import importlib
import os
from typing import Any

import pytest


class Missing:
    """Stand for a library that is not installed, or for anything in it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> "Missing":
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return Missing(f"{self._name}.{attribute}")

    def __call__(self, *_: Any, **__: Any) -> "Missing":
        """Skip the test that calls it; where none runs it is a decorator, or a value among parameters."""
        self._skip_in_a_test()
        return self

    def __repr__(self) -> str:
        return self._name

    def __instancecheck__(self, instance: object) -> bool:
        return False  # nobody can have made one

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[Any, ...]:
        """Skip the test that makes a subclass."""
        self._skip_in_a_test()
        return ()

    def _skip_in_a_test(self) -> None:
        if "PYTEST_CURRENT_TEST" in os.environ:
            self.skip()

    def skip(self) -> None:
        """Skip the test that is running."""
        pytest.skip(f"{self._name.partition('.')[0]} is not installed")


def load(name: str) -> Any:
    """Return the module `name`, or a stand-in if its library is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0] or os.environ.get("CMFAST_REQUIRE_LIBRARIES") == "1":
            raise
        return Missing(name)


def __getattr__(name: str) -> Any:
    """Import a library when it is first asked for: that of polars cannot be loaded under the thread sanitizer."""
    if name not in ("torch", "polars", "xarray", "array_api_strict", "jax"):
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    found = load(name)
    if name == "jax" and not isinstance(found, Missing):
        found.config.update("jax_enable_x64", True)  # results are float64 and int64
    return globals().setdefault(name, found)
