"""One module per array library, each with an instance of :class:`Adapter`; and what columns and texts hold."""

from typing import Any

from cmfast._core.adapters._adapter import Adapter, read_only
from cmfast.kernels.loading import load

__all__ = ["ADAPTERS", "Adapter", "adapter", "read_only"]

# Root module of an array's class -> module here, imported when the first such array comes.
ADAPTERS = {"numpy": "_numpy", "cupy": "_cupy", "torch": "_torch", "xarray": "_xarray", "dask": "_dask"}
_by_class: dict[type, Adapter] = {}


def adapter(x: Any) -> Adapter:
    """Return the adapter of the library of `x`: one walk of the MRO per class, then a dict hit."""
    cls = type(x)
    found = _by_class.get(cls)
    if found is None:
        roots = [base.__module__.partition(".")[0] for base in cls.__mro__]
        name = next((ADAPTERS[root] for root in roots if root in ADAPTERS), "_numpy")
        _by_class[cls] = found = load(f"cmfast._core.adapters.{name}").ADAPTER
    return found
