"""Drop-in replacements for other libraries' metrics; each subpackage needs the library that it is named after."""

from importlib import import_module
from typing import TYPE_CHECKING

if not TYPE_CHECKING:

    def __getattr__(name):
        """Import a subpackage, which needs the library of its name, on first access."""
        if name not in ("sklearn", "torchmetrics"):
            msg = f"module {__name__!r} has no attribute {name!r}; there are compat.sklearn and compat.torchmetrics"
            raise AttributeError(msg)
        try:
            return import_module(f"cmfast.compat.{name}")
        except ImportError as error:  # so that `hasattr` is False
            msg = f"module {__name__!r} has no attribute {name!r}, as it needs a library: {error}"
            raise AttributeError(msg) from error

    def __dir__():
        """Return the subpackages, imported or not."""
        return ["sklearn", "torchmetrics"]
