"""Base class of array-library adapters: the methods that a library must supply, and defaults for the rest.

A library with arrays in host memory supplies :meth:`Adapter.adopt`, :meth:`Adapter.to_host` and
:meth:`Adapter.from_host`, in a module of this folder that ends with ``ADAPTER = ItsAdapter()``. An entry of `ADAPTERS`
registers it under the library's name; a line in `tests/harness/backends.py` runs every op on it. A library with device
arrays overrides the methods that touch the device. Code outside this folder passes adopted arrays on and indexes them;
it computes any other expression of them through :meth:`Adapter.evaluate`.
"""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from math import prod
from typing import Any

import numpy as np

from cmfast._core.kernel_lookup import get_kernel
from cmfast.kernels.loading import load

# Root module of an array's class -> module here, imported for the first such array.
ADAPTERS = {
    "numpy": "_numpy",
    "cupy": "_cupy",
    "torch": "_torch",
    "xarray": "_xarray",
    "dask": "_dask",
    "jax": "_jax",  # tracers
    "jaxlib": "_jax",  # arrays
}
KNOWN: dict[type, "Adapter"] = {}  # cache: array class -> adapter
# Whether a message alone needs the values that are read, so that no gradient is lost with them.
reads_for_message: ContextVar[bool] = ContextVar("cmfast_reads_for_message", default=False)


class Adapter:
    """Adapter of one array library: adopts its arrays, runs ops on them and returns results as such arrays."""

    takes_columns = False  # whether it also accepts lists, text, and the columns and tables of other libraries
    has_devices = False  # whether arrays may be on several devices; those of one call must share one
    names_axes = False  # whether arrays have named axes and wrap another array, which :meth:`unwrap` returns

    # Every library must supply these.

    def adopt(self, name: str, x: Any, op: str | None) -> Any:
        """Return the argument `name` as an array that all other methods accept, without a copy if possible.

        Raises TypeError, with advice, for anything else, and if a copy to the host would be needed. If `op` propagates
        gradients, the array may require them.
        """
        raise NotImplementedError

    def to_host(self, x: Any) -> np.ndarray:
        """Return the values of `x` as an ndarray: a view of its memory on the host, else a copy."""
        raise NotImplementedError

    def from_host(self, x: np.ndarray, like: Any) -> Any:
        """Return an array of this library on the device of `like` that takes over the memory of `x`."""
        raise NotImplementedError

    # Defaults for arrays in host memory, by the three methods above.

    def dtype(self, x: Any) -> np.dtype[Any]:
        """Return the NumPy dtype of `x`."""
        dtype: np.dtype[Any] = x.dtype
        return dtype

    def device(self, x: Any) -> str:
        """Return the device of `x`: "cpu", "cuda:0", ..."""
        del x
        return "cpu"

    def is_on_host(self, x: Any) -> bool:
        """Return whether `x` is in host memory."""
        del x
        return True

    def call(self, op: str, arrays: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Run `op` on the device of its arrays; an array may be None."""
        like = next(x for x in arrays if x is not None)
        hosts = (None if x is None else read_only(self.to_host(x)) for x in arrays)
        return self._returned(get_kernel(op, "cpu")(*hosts, **options), like)

    def _returned(self, out: Any, like: Any) -> Any:
        """Convert host results of an op into arrays of this library."""
        parts = list(out) if isinstance(out, tuple) else [out]
        for k, x in enumerate(parts):
            if isinstance(x, np.ndarray | np.generic):
                host = np.asarray(x)  # a read-only result may share the memory of an argument
                parts[k] = self.from_host(host if host.flags.writeable else host.copy(), like)
        return tuple(parts) if isinstance(out, tuple) else parts[0]

    def share_memory(self, name: str, x: Any) -> np.ndarray | None:
        """Return a view of the memory of the argument `name`, to write results to; None if it is on a device."""
        return self.to_host(self.adopt(name, x, None))

    def evaluate(self, function: Callable[..., Any], *arrays: Any) -> Any:
        """Apply `function` to arrays with NumPy's methods; return the array or tuple of arrays that it returns."""
        like = arrays[0]
        return self._returned(function(*(None if x is None else read_only(self.to_host(x)) for x in arrays)), like)

    def has_values(self, x: Any) -> bool:
        """Return whether `x` has values now, and does not stand for an array that a transformation traces."""
        del x
        return True

    def postpone(self, function: Callable[[Any], None], x: Any) -> bool:
        """Whether `x` has no values yet, and `function` will be called with them, as an ndarray, when it has."""
        del function, x
        return False

    def check_agreement(self, arrays: dict[str, Any]) -> str | None:
        """Raise ValueError where names of rows, dimensions or coordinates contradict the match by position.

        Returns the text of a warning where they may; else None.
        """

    def send(self, x: Any, like: Any) -> Any:
        """Copy a NumPy array or scalar to the device of `like`; return an array of this library unchanged."""
        return self.from_host(np.array(x), like) if isinstance(x, np.ndarray | np.generic) else x

    def flatten(self, x: Any, n_batch: int) -> Any:
        """Flatten all axes of `x` after the first `n_batch` into one."""
        return self.reshape(x, (*x.shape[:n_batch], prod(x.shape[n_batch:])))

    def reshape(self, x: Any, shape: tuple[int, ...]) -> Any:
        """Return `x` in another shape."""
        return x.reshape(shape)

    def entry(self, x: Any, index: Any) -> np.ndarray:
        """Return ``x[index]`` as a host array; `index` may be shorter than the number of axes."""
        return self.to_host(self.evaluate(lambda x: x[index], x))

    def extent(self, x: Any) -> tuple[int, int]:
        """Return the minimum and maximum of a nonempty integer array; synchronises the device."""
        ends: tuple[int, int] = self.evaluate(lambda x: (int(x.min()), int(x.max())), x)
        return ends

    def any(self, x: Any) -> bool:
        """Return whether any element of `x` is nonzero; synchronises the device."""
        return bool(self.evaluate(lambda x: x.any(), x))

    def cast(self, x: Any, dtype: type) -> Any:
        """Convert `x` to a NumPy dtype; return `x` itself if it has that dtype."""
        return self.evaluate(lambda x: x.astype(dtype, copy=False), x)

    def unique(self, x: Any) -> tuple[np.ndarray, Any]:
        """Return the sorted unique values of `x` on the host, and each element's position among them; synchronises."""
        host = self.to_host(x)
        if host.dtype.kind in "iu":
            kernels = load("cmfast.kernels.cpu._core.distinct")
            found = kernels.find_distinct(host)
            values, codes = found.astype(host.dtype), kernels.find_positions(host, found).astype(np.int64)
        else:
            values, codes = np.unique(host, return_inverse=True)
        return values, self.from_host(codes, x)

    def scatter(self, x: Any, shape: tuple[int, ...], source: list[Any], target: list[Any]) -> Any:
        """Copy ``x[np.ix_(*source)]`` into zeros of `shape` (int64 or float64) at ``np.ix_(*target)``."""
        part = self.to_host(x)
        part = part.astype(np.float64 if part.dtype.kind == "f" else np.int64)
        for axis, indices in enumerate(np.ix_(*source)):  # axis by axis: faster than indexing all axes at a time
            if not _is_range(indices, part.shape[axis]):
                part = part.take(indices.ravel(), axis)
        if all(map(_is_range, np.ix_(*target), shape)):
            return self.from_host(part, x)
        out = np.zeros(shape, part.dtype)
        out[np.ix_(*target)] = part
        return self.from_host(out, x)

    # Libraries with named axes override these.

    def unwrap(self, x: Any) -> Any:
        """Return the array inside an array with named axes; any other array unchanged."""
        return x

    def rewrap(self, data: Any, x: Any) -> Any:
        """Wrap `data` in the named axes of `x`."""
        del x
        return data

    def name_dimensions(self, signature: str, arrays: tuple[Any, ...], out: Any) -> Any:
        """Return `out` unchanged: arrays of this library have no named axes."""
        del signature, arrays
        return out

    def name_classes(self, matrix: Any, labels: Sequence[Any], axes: int | None, classes: Any, groups: Any) -> Any:
        """Name the axes of matrices counted from `labels` with named axes, with classes and groups as coordinates.

        The last `axes` axes of the labels (all if None) are samples. `groups` is None without groups, True for numbered
        groups.
        """
        del labels, axes, classes, groups
        return matrix


def _is_range(indices: np.ndarray, n: int) -> bool:
    """Return whether indices are 0 to ``n - 1``, in order."""
    return indices.size == n and bool((indices.ravel() == np.arange(n)).all())


def adapter(x: Any) -> Adapter:
    """Return the adapter of the library of `x`, cached by class."""
    cls = type(x)
    found = KNOWN.get(cls)
    if found is None:
        roots = [base.__module__.partition(".")[0] for base in cls.__mro__]
        name = next((ADAPTERS[root] for root in roots if root in ADAPTERS), None)
        if name is None and hasattr(cls, "__array_namespace__"):
            found = load("cmfast._core.adapters._array_api").adapter_of(x.__array_namespace__())
        else:
            found = load(f"cmfast._core.adapters.{name or '_numpy'}").ADAPTER
        KNOWN[cls] = found
    return found


def read_only(x: np.ndarray) -> np.ndarray:
    """Return a read-only view of `x`."""
    view: np.ndarray = x.view()
    view.setflags(write=False)
    return view
