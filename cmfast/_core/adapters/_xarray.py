"""Adapter of xarray arrays: computes on the wrapped arrays and gives results their dimensions and coordinates.

Arrays of one call match by position; arrays whose dimension names or coordinates contradict that are refused.
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
# Names of result axes that no argument has, by their letters.
NEW = {"C": ("true", "predicted"), "G": ("group",), "n": ("sample",), "2": ("is_true", "is_predicted")}
NEW |= {"K": ("true_group", "predicted_group")}
# Words in dimension names that mark the axis of truths or of predictions.
TRUE = frozenset({"true", "truth", "actual", "gt", "ground", "reference", "observed", "row", "rows"})
PREDICTED = frozenset({"predicted", "pred", "preds", "prediction", "predictions", "guess", "hat", "col", "cols"})
PREDICTED |= {"column", "columns"}
BATCHES = ("counting", "normalizing", "scaling", "zeros", "comparison", "metrics", "uncertainty", "agreement")


class XArray(Adapter):
    """Adapter of arrays with named axes, which gives results named axes."""

    has_devices = True
    names_axes = True

    def adopt(self, name: str, x: Any, op: str | None) -> Any:
        """Return a DataArray of the adopted inner array; wrap an array of another library.

        Text cannot be wrapped and is returned as its own adapter returns it. Raises for rows named as predictions, and
        for gradients, which named axes do not propagate.
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

    def check_agreement(self, arrays: dict[str, Any]) -> str | None:
        """Raise ValueError if two arrays have common dimensions in different orders, or different coordinates."""
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
        return None

    def flatten(self, x: Any, n_batch: int) -> Any:
        """Flatten all axes of `x` after the first `n_batch` into one named "sample"."""
        dims = x.dims[:n_batch]
        name = "sample"
        while name in dims:
            name = f"{name}_"
        coords = {key: c for key, c in x.coords.items() if {*c.dims} <= {*dims}}
        data = _inner(x).flatten(self.unwrap(x), n_batch)
        return xr.DataArray(data, coords, (*dims, name))

    def name_classes(self, matrix: Any, labels: Sequence[Any], axes: int | None, classes: Any, groups: Any) -> Any:
        """Name the axes of counts as in the DataArrays among `labels`, with classes and groups as coordinates."""
        arrays = [y for y in labels if isinstance(y, xr.DataArray)]
        cores = [("n",) * (y.ndim if axes is None else axes) for y in arrays]
        core = ("C", "C") if groups is None else ("G", "C", "C")
        found = _Dimensions(cores, tuple(arrays)).add_dimensions(matrix, core)
        names = dict(zip(found.dims[-2:], (classes, classes), strict=True))
        if groups is not None and groups is not True:
            names[found.dims[-3]] = groups
        return found.assign_coords(names)

    def unwrap(self, x: Any) -> Any:
        """Return the array inside a DataArray; any other array unchanged."""
        return x.data if isinstance(x, xr.DataArray) else x

    def rewrap(self, data: Any, x: Any) -> Any:
        """Return a copy of the DataArray `x` with `data` as its values; `data` itself if `x` is no DataArray."""
        return x.copy(data=data) if isinstance(x, xr.DataArray) else data

    def device(self, x: Any) -> str:
        """Return the device of the array inside a DataArray."""
        return _inner(x).device(self.unwrap(x))

    def is_on_host(self, x: Any) -> bool:
        """Return whether the array inside a DataArray is in host memory."""
        return _inner(x).is_on_host(self.unwrap(x))

    def dtype(self, x: Any) -> np.dtype[Any]:
        """Return the NumPy dtype of the array inside a DataArray."""
        return _inner(x).dtype(self.unwrap(x))

    def call(self, op: str, arrays: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Run the op on the wrapped arrays and give results the dimensions of its signature."""
        if OPS[op].topic not in BATCHES:
            return dispatch.call(op, *map(self.unwrap, arrays), **options)
        ins, outs = _signature(OPS[op].signature)
        known = _Dimensions(ins, arrays)
        out = dispatch.call(op, *map(self.unwrap, arrays), **options)
        if not isinstance(out, tuple):
            return known.add_dimensions(out, outs[0])
        cores = [None] * len(out) if outs == [None] else [*outs, *[()] * len(out)]
        return tuple(known.add_dimensions(one, core) for one, core in zip(out, cores, strict=False))

    def name_dimensions(self, signature: str, arrays: tuple[Any, ...], out: Any) -> Any:
        """Name the dimensions of the result `out` after the letters of `signature`, as named in `arrays`."""
        ins, outs = _signature(signature)
        return _Dimensions(ins, arrays).add_dimensions(out, outs[0])

    def to_host(self, x: Any) -> np.ndarray:
        """Return the values of a DataArray as an ndarray: a view of memory on the host, else a copy."""
        return _inner(x).to_host(self.unwrap(x))

    def from_host(self, x: np.ndarray, like: Any) -> Any:
        """Return `x` itself, without axis names."""
        del like
        return x

    def evaluate(self, function: Callable[..., Any], *arrays: Any) -> Any:
        """Apply `function` to the DataArrays by the adapter of the array inside the first."""
        return _inner(arrays[0]).evaluate(lambda _: function(*arrays), self.unwrap(arrays[0]))


def _inner(x: Any) -> Adapter:
    """Return the adapter of the array wrapped in `x`."""
    return adapter(x.data if isinstance(x, xr.DataArray) else x)


def _check_rows(name: str, dims: Sequence[Any]) -> None:
    """Raise ValueError if dimension names show that rows are not truths or columns not predictions."""
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
    """Return the role that a dimension name tells: "true", "predicted" or None."""
    words = set(re.findall("[a-z]+", str(dim).lower()))
    return "predicted" if words & PREDICTED else "true" if words & TRUE else None


def _signature(signature: str) -> tuple[list[Any], list[Any]]:
    """Return the core axes of inputs and outputs of a signature; ``[None]`` for outputs it does not state."""
    given, gives = signature.split("->")
    return _cores(given), _cores(gives) or [None]


def _cores(side: str) -> list[Any]:
    """Return the core axes of each array in one side of a signature."""
    return [tuple(filter(None, core.split(","))) for core in CORE.findall(side)]


class _Dimensions:
    """Dimensions of the arrays of a call: those of the batch, and core axes by letter."""

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

    def add_dimensions(self, x: Any, core: tuple[str, ...] | None) -> Any:
        """Wrap a result in its dimensions and their coordinates."""
        if not hasattr(x, "shape"):  # None, or a scalar
            return x
        if core is None:  # one value per matrix, or one per class
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
    """Whether all dimensions of `x` are unnamed (dim_0, dim_1, ...)."""
    return all(map(_is_unnamed, x.dims))


def _is_unnamed(dim: Any) -> bool:
    """Whether a dimension has xarray's default name (dim_0, ...)."""
    return str(dim).startswith("dim_")


def _refuse_places(dim: Any, dims: list[tuple[Any, ...]]) -> None:
    """Raise ValueError for a dimension that is a different axis in two arrays."""
    msg = f"dimension {dim!r} must be the same axis of all arrays, got {' and '.join(map(str, dims))}; transpose one"
    raise ValueError(caller.prefix_name(msg))


ADAPTER = XArray()
