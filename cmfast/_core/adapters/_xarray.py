"""Arrays of xarray: what is in them is computed wherever it lives, and results keep the dimensions and coordinates.

Arrays of one call are matched by position. So those whose names or coordinates say something else are refused.
"""

import re
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import xarray as xr

from cmfast._core import caller, dispatch
from cmfast._core.adapters import Adapter, _class_order, adapter
from cmfast.kernels.ops import OPS

CORE = re.compile(r"\(([^)]*)\)")
# Axes that no array of the call has.
NEW = {"C": ("true", "predicted"), "G": ("group",), "n": ("sample",), "2": ("is_true", "is_predicted")}
NEW |= {"K": ("true_group", "predicted_group")}
# Words in the names of dimensions that say what is along them.
TRUE = frozenset({"true", "truth", "actual", "gt", "ground", "reference", "observed", "row", "rows"})
PREDICTED = frozenset({"predicted", "pred", "preds", "prediction", "predictions", "guess", "hat", "col", "cols"})
PREDICTED |= {"column", "columns"}
BATCHES = ("counting", "normalizing", "scaling", "zeros", "comparison", "metrics", "uncertainty")


class XArray(Adapter):
    """How arrays with named axes are taken, and results named."""

    has_devices = True
    names_axes = True

    def adopt(self, name: str, x: Any, op: str | None) -> Any:
        """Return a DataArray of what its adapter makes of what is in it, or of an array beside others that are some.

        Text has no place in one, and comes back as its adapter has it. Rows that are named as predictions are refused,
        and gradients, which named axes do not propagate.
        """
        del op
        if not isinstance(x, xr.DataArray):
            if isinstance(x, xr.Dataset | xr.DataTree | xr.Variable):
                what = type(x).__name__
                msg = f"{name} must be an array, got {what}; give an xarray.DataArray, as {name}['...'] is one"
                raise TypeError(msg)
            found = adapter(x).adopt(name, x, None)
            return xr.DataArray(found) if hasattr(found, "ndim") else found
        if x.chunks is not None:
            why = "numpy.asarray would compute it silently"
            msg = f"{name} is a lazy xarray.DataArray; {why}, so call .compute() first"
            raise TypeError(msg)
        _check_rows(name, x.dims)
        if all(dim in x.coords for dim in x.dims[-2:]) and x.ndim > 1:
            _class_order.check_class_order(name, *(x.coords[dim].values.tolist() for dim in x.dims[-2:]))
        found = adapter(x.data).adopt(name, x.data, None)
        return x.copy(data=found) if hasattr(found, "ndim") else found

    def check_agreement(self, arrays: dict[str, Any]) -> None:
        """Raise ValueError where two arrays have the same dimensions in two orders, or other coordinates along one."""
        named = [(name, x) for name, x in arrays.items() if isinstance(x, xr.DataArray)]
        for (first, x), (second, y) in combinations(named, 2):
            shared = [dim for dim in x.dims if dim in y.dims]
            orders = [[dim for dim in a.dims if dim in shared and not _is_unnamed(dim)] for a in (x, y)]
            if orders[0] != orders[1]:
                msg = (
                    f"{first} and {second} must have their dimensions in one order, got {x.dims} and {y.dims}; "
                    "transpose one of them"
                )
                raise ValueError(msg)
            for dim in shared:
                if dim in x.coords and dim in y.coords and not x.coords[dim].variable.equals(y.coords[dim].variable):
                    msg = (
                        f"{first} and {second} must have the same coordinates along {dim!r}, as they are matched by "
                        "position; align them, as xarray.align does, or drop those of one by .drop_vars"
                    )
                    raise ValueError(msg)

    def flatten(self, x: Any, n_batch: int) -> Any:
        """Return `x` with all axes after the first `n_batch` as one, of samples."""
        dims = x.dims[:n_batch]
        name = "sample"
        while name in dims:
            name = f"{name}_"
        coords = {key: c for key, c in x.coords.items() if {*c.dims} <= {*dims}}
        data = _inner(x).flatten(self.unwrap(x), n_batch)
        return xr.DataArray(data, coords, (*dims, name))

    def name_classes(self, matrix: Any, labels: Sequence[Any], axes: int | None, classes: Any, groups: Any) -> Any:
        arrays = [y for y in labels if isinstance(y, xr.DataArray)]
        cores = [("n",) * (y.ndim if axes is None else axes) for y in arrays]
        core = ("C", "C") if groups is None else ("G", "C", "C")
        found = _Dimensions(cores, tuple(arrays)).given(matrix, core)
        names = dict(zip(found.dims[-2:], (classes, classes), strict=True))
        if groups is not None and groups is not True:
            names[found.dims[-3]] = groups
        return found.assign_coords(names)

    def unwrap(self, x: Any) -> Any:
        return x.data if isinstance(x, xr.DataArray) else x

    def rewrap(self, data: Any, x: Any) -> Any:
        return x.copy(data=data) if isinstance(x, xr.DataArray) else data

    def device(self, x: Any) -> str:
        return _inner(x).device(self.unwrap(x))

    def is_on_host(self, x: Any) -> bool:
        return _inner(x).is_on_host(self.unwrap(x))

    def dtype(self, x: Any) -> np.dtype[Any]:
        return _inner(x).dtype(self.unwrap(x))

    def call(self, op: str, arrays: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Run the op on what is in the arrays, and give results the dimensions that its signature says are theirs."""
        if OPS[op].topic not in BATCHES:
            return dispatch.call(op, *map(self.unwrap, arrays), **options)
        ins, outs = _signature(OPS[op].signature)
        known = _Dimensions(ins, arrays)
        out = dispatch.call(op, *map(self.unwrap, arrays), **options)
        if not isinstance(out, tuple):
            return known.given(out, outs[0])
        cores = [None] * len(out) if outs == [None] else [*outs, *[()] * len(out)]
        return tuple(known.given(one, core) for one, core in zip(out, cores, strict=False))

    def name_dimensions(self, signature: str, arrays: tuple[Any, ...], out: Any) -> Any:
        ins, outs = _signature(signature)
        return _Dimensions(ins, arrays).given(out, outs[0])

    def to_host(self, x: Any) -> np.ndarray:
        return _inner(x).to_host(self.unwrap(x))

    def from_host(self, x: np.ndarray, like: Any) -> Any:
        """Return `x` itself: its axes have no names."""
        del like
        return x

    def evaluate(self, function: Callable[..., Any], *arrays: Any) -> Any:
        return _inner(arrays[0]).evaluate(lambda _: function(*arrays), self.unwrap(arrays[0]))


def _inner(x: Any) -> Adapter:
    """Return the adapter of what is in `x`."""
    return adapter(x.data if isinstance(x, xr.DataArray) else x)


def _check_rows(name: str, dims: Sequence[Any]) -> None:
    """Raise ValueError where names of dimensions say that rows are not the truth, or columns not the prediction."""
    roles: list[str | None] = [None, None, *map(_role, dims)]
    rest, rows, columns = roles[:-2], roles[-2], roles[-1]
    if name in _class_order.MATRICES:
        turned = (rows == "predicted" != columns) or (columns == "true" != rows)
        others = {*rest, rows, columns} >= {"true", "predicted"}
        apart = others and ((rows is None and "true" in rest) or (columns is None and "predicted" in rest))
    else:  # what else has a batch of labels or probabilities
        turned, apart = (rows, columns) == ("predicted", "true"), False
    if turned or apart:
        wanted = "last, the truth and then the prediction" if apart else "of the truth, and then of the prediction"
        msg = f"{name} must have dimensions {wanted}, got {tuple(dims)}; transpose or rename them"
        raise ValueError(msg)


def _role(dim: Any) -> str | None:
    """Return what the name of a dimension says is along it: "true", "predicted", or None."""
    words = set(re.findall("[a-z]+", str(dim).lower()))
    return "predicted" if words & PREDICTED else "true" if words & TRUE else None


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
        places: dict[Any, tuple[Any, ...]] = {}
        for core, x in sorted(pairs, key=lambda pair: _is_bare(pair[1])):
            n = x.ndim - len(core)
            for k, dim in enumerate(x.dims):
                place = ("batch", k - n) if k < n else (core[k - n], core[: k - n].count(core[k - n]))
                if not _is_unnamed(dim) and places.setdefault(dim, place) != place:
                    _refuse_places(dim, [pair[1].dims for pair in pairs])
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
    return all(map(_is_unnamed, x.dims))


def _is_unnamed(dim: Any) -> bool:
    return str(dim).startswith("dim_")


def _refuse_places(dim: Any, dims: list[tuple[Any, ...]]) -> None:
    msg = f"dimension {dim!r} must be the same axis of all arrays, got {' and '.join(map(str, dims))}; transpose one"
    raise ValueError(caller.prefix_name(msg))


ADAPTER = XArray()
