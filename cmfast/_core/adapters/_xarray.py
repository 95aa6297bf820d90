"""Arrays of xarray: what is in them is computed wherever it lives, and results keep the dimensions and coordinates."""

import re
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import xarray as xr

from cmfast._core import dispatch
from cmfast.kernels.ops import OPS

HAS_DEVICES = True

CORE = re.compile(r"\(([^)]*)\)")
# Axes that no array of the call has.
NEW = {"C": ("true", "predicted"), "n": ("sample",), "2": ("is_true", "is_predicted")}
BATCHES = ("counting", "normalizing", "scaling", "zeros", "comparison", "metrics", "uncertainty")


def asarray(name: str, x: Any) -> Any:
    """Return a DataArray of what its adapter makes of what is in it, or of an array beside others that are some.

    Text has no place in one, and comes back as its adapter has it.
    """
    if not isinstance(x, xr.DataArray):
        if isinstance(x, xr.Dataset | xr.DataTree | xr.Variable):
            msg = f"{name} must be an array, got {type(x).__name__}; give an xarray.DataArray, as {name}['...'] is one"
            raise TypeError(msg)
        found = _inner(x).asarray(name, x)
        return xr.DataArray(found) if hasattr(found, "ndim") else found
    if x.chunks is not None:
        msg = f"{name} is a lazy xarray.DataArray; numpy.asarray would compute it silently, so call .compute() first"
        raise TypeError(msg)
    found = _inner(x).asarray(name, x.data)
    return x.copy(data=found) if hasattr(found, "ndim") else found


def bare(x: Any) -> Any:
    """Return the array that is in `x`."""
    return x.data if isinstance(x, xr.DataArray) else x


def _inner(x: Any) -> Any:
    return dispatch.adapter(type(bare(x)))


def device(x: Any) -> str:
    """Return the name of the device of what is in `x`."""
    name: str = _inner(x).device(bare(x))
    return name


def call(op: str, arrays: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Run the op on what is in the arrays, and give results the dimensions that its signature says are theirs."""
    out = dispatch.call(op, *map(bare, arrays), **options)
    if OPS[op].topic not in BATCHES:
        return out
    ins, outs = _signature(OPS[op].signature)
    known = _Dimensions(ins, arrays)
    if not isinstance(out, tuple):
        return known.given(out, outs[0])
    cores = [None] * len(out) if outs == [None] else [*outs, *[()] * len(out)]
    return tuple(known.given(one, core) for one, core in zip(out, cores, strict=False))


def dimensioned(signature: str, arrays: tuple[Any, ...], out: Any) -> Any:
    """Return one result of bare arrays with the dimensions that the signature says are its."""
    ins, outs = _signature(signature)
    return _Dimensions(ins, arrays).given(out, outs[0])


def _signature(signature: str) -> tuple[list[Any], list[Any]]:
    """Return the core axes of what is taken and given; None for what the signature does not say."""
    given, gives = signature.split("->")
    return _cores(given), _cores(gives) or [None]


def _cores(side: str) -> list[Any]:
    return [tuple(filter(None, core.split(","))) for core in CORE.findall(side)]


class _Dimensions:
    """The dimensions of the arrays of a call: of the batch, and of the core axes by their letters."""

    def __init__(self, ins: list[Any], arrays: tuple[Any, ...]) -> None:
        self.batch: tuple[Any, ...] = ()
        self.letters: dict[str, list[Any]] = {}
        self.coords: dict[Any, Any] = {}
        pairs = [pair for pair in zip(ins, arrays, strict=False) if isinstance(pair[1], xr.DataArray)]
        for core, x in sorted(pairs, key=lambda pair: _is_bare(pair[1])):
            n = x.ndim - len(core)
            self.batch = max(self.batch, x.dims[:n], key=len)
            if not set(core) & set(self.letters):
                for letter, dim in zip(core, x.dims[n:], strict=True):
                    self.letters.setdefault(letter, []).append(dim)
            for name, coordinate in x.coords.items():
                self.coords.setdefault(name, coordinate)

    def given(self, x: Any, core: tuple[str, ...] | None) -> Any:
        """Return an array of the results with its dimensions, and the coordinates along them."""
        if not hasattr(x, "shape"):  # None, or not of the batch
            return x
        if core is None:  # per matrix or per class
            core = ("C",) if len(x.shape) > len(self.batch) else ()
        if len(x.shape) != len(self.batch) + len(core):
            return xr.DataArray(x)
        dims = [*self.batch]
        for k, letter in enumerate(core):
            names = self.letters.get(letter) or NEW.get(letter, ())
            at = core[:k].count(letter)
            name = names[at] if at < len(names) else letter + f"_{at}" * bool(at)
            dims.append(name if name not in dims else f"{name}_{k}")
        sizes = dict(zip(dims, x.shape, strict=True))
        fits = {name: c for name, c in self.coords.items() if sizes.items() >= dict(c.sizes).items()}
        return xr.DataArray(x, fits, dims)


def _is_bare(x: Any) -> bool:
    """Whether nobody has named the dimensions of `x`."""
    return all(str(dim).startswith("dim_") for dim in x.dims)


def to_host(x: Any) -> Any:
    """Return an ndarray with the values of `x`."""
    return dispatch.to_host(bare(x))


def from_host(x: np.ndarray) -> Any:
    """Return `x` itself."""
    return x


def chosen(x: Any) -> AbstractContextManager[Any]:
    """Return the context of what is in `x`."""
    return dispatch.chosen(bare(x))
