"""One module per array library, each with an instance of :class:`Adapter`; and what columns and texts hold."""

from typing import Any

from cmfast._core.adapters._adapter import Adapter, read_only
from cmfast.kernels.loading import load

__all__ = ["ADAPTERS", "KNOWN", "Adapter", "adapter", "read_only"]

# Root module of an array's class -> module here, imported when the first such array comes.
ADAPTERS = {"numpy": "_numpy", "cupy": "_cupy", "torch": "_torch", "xarray": "_xarray", "dask": "_dask"}
KNOWN: dict[type, Adapter] = {}  # by class, once an array of it has come


def adapter(x: Any) -> Adapter:
    """Return the adapter of the library of `x`: one walk of the MRO per class, then a dict hit."""
    cls = type(x)
    found = KNOWN.get(cls)
    if found is None:
        roots = [base.__module__.partition(".")[0] for base in cls.__mro__]
        name = next((ADAPTERS[root] for root in roots if root in ADAPTERS), None)
        if name is None and hasattr(cls, "__array_namespace__"):
            found = load("cmfast._core.adapters._namespace").adapter_of(x.__array_namespace__())
        else:
            found = load(f"cmfast._core.adapters.{name or '_numpy'}").ADAPTER
        KNOWN[cls] = found
    return found
