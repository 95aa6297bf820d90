"""What an array library supplies to take part, and what it gets by default: read this page to add one.

A library whose arrays are in the memory of the host supplies :meth:`Adapter.adopt`, :meth:`Adapter.to_host` and
:meth:`Adapter.from_host`, in a module of this folder that ends with ``ADAPTER = ItsAdapter()``. One entry of `ADAPTERS`
finds it by the name of the library, and one line in `tests/harness/backends.py` runs every op on it. A library with
arrays on devices overrides the methods that need the device. Outside this folder adopted arrays are passed on and
indexed; any expression of them is a function that is given to :meth:`Adapter.evaluate`.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from cmfast._core.kernel_lookup import get_kernel
from cmfast.kernels.loading import load

# Root module of an array's class -> module here, imported when the first such array comes.
ADAPTERS = {"numpy": "_numpy", "cupy": "_cupy", "torch": "_torch", "xarray": "_xarray", "dask": "_dask"}
KNOWN: dict[type, "Adapter"] = {}  # by class, once an array of it has come


class Adapter:
    """How arrays of one library are taken, where ops run on them, and how results become such arrays."""

    takes_columns = False  # whether it also takes lists, text, and the columns and tables of other libraries
    has_devices = False  # whether arrays of the library may be on several, and those of one call have to be on one
    names_axes = False  # whether they are arrays with named axes, of which :meth:`unwrap` gives what is inside

    # What every library supplies.

    def adopt(self, name: str, x: Any, op: str | None) -> Any:
        """Return the argument `name` as an array for all other methods, without a copy where that is possible.

        Raise TypeError, with the cure, for anything else, and for what would have to be moved to the host. If `op`
        propagates gradients, the array may require them.
        """
        raise NotImplementedError

    def to_host(self, x: Any) -> np.ndarray:
        """Return an ndarray with the values of `x`: its memory where that is on the host, else a copy."""
        raise NotImplementedError

    def from_host(self, x: np.ndarray, like: Any) -> Any:
        """Return an array of the memory of `x`, to which nothing else refers, on the device of `like`."""
        raise NotImplementedError

    # What follows from these on the host.

    def dtype(self, x: Any) -> np.dtype[Any]:
        """Return the dtype that NumPy has for `x`."""
        dtype: np.dtype[Any] = x.dtype
        return dtype

    def device(self, x: Any) -> str:
        """Return where `x` lives: "cpu", "cuda:0", ..."""
        del x
        return "cpu"

    def is_on_host(self, x: Any) -> bool:
        """Return whether `x` lies in the memory of the host."""
        del x
        return True

    def call(self, op: str, arrays: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Run `op` where its arrays live; those that are None stay None."""
        like = next(x for x in arrays if x is not None)
        hosts = (None if x is None else read_only(self.to_host(x)) for x in arrays)
        return self._returned(get_kernel(op, "cpu")(*hosts, **options), like)

    def _returned(self, out: Any, like: Any) -> Any:
        """Return what was computed on the host, as arrays of this library."""
        parts = list(out) if isinstance(out, tuple) else [out]
        for k, x in enumerate(parts):
            if isinstance(x, np.ndarray | np.generic):
                host = np.asarray(x)  # which may be memory of an argument if it is read-only
                parts[k] = self.from_host(host if host.flags.writeable else host.copy(), like)
        return tuple(parts) if isinstance(out, tuple) else parts[0]

    def evaluate(self, function: Callable[..., Any], *arrays: Any) -> Any:
        """Return what `function` makes of arrays that have the methods of NumPy's: an array, or several in a tuple."""
        like = arrays[0]
        return self._returned(function(*(None if x is None else read_only(self.to_host(x)) for x in arrays)), like)

    def check_agreement(self, arrays: dict[str, Any]) -> None:
        """Raise ValueError where names of rows, dimensions or coordinates contradict the match by position."""

    def send(self, x: Any, like: Any) -> Any:
        """Return a copy of an array or scalar of NumPy on the device of `like`; an array of this library as it is."""
        return self.from_host(np.array(x), like) if isinstance(x, np.ndarray | np.generic) else x

    def flatten(self, x: Any, n_batch: int) -> Any:
        """Return `x` with all axes after the first `n_batch` as one."""
        return self.reshape(x, (*x.shape[:n_batch], prod(x.shape[n_batch:])))

    def reshape(self, x: Any, shape: tuple[int, ...]) -> Any:
        """Return `x` with its entries in another shape."""
        return x.reshape(shape)

    def entry(self, x: Any, index: Any) -> np.ndarray:
        """Return on the host what `x` has at `index`, which may be short of axes."""
        return self.to_host(self.evaluate(lambda x: x[index], x))

    def extent(self, x: Any) -> tuple[int, int]:
        """Return the least and the largest of the integers in `x`, which has some; synchronises the device."""
        ends: tuple[int, int] = self.evaluate(lambda x: (int(x.min()), int(x.max())), x)
        return ends

    def any(self, x: Any) -> bool:
        """Return whether any entry of `x` is not zero; synchronises the device."""
        return bool(self.evaluate(lambda x: x.any(), x))

    def cast(self, x: Any, dtype: type) -> Any:
        """Return `x` as an array of a type of NumPy; `x` itself if it is one."""
        return self.evaluate(lambda x: x.astype(dtype, copy=False), x)

    def unique(self, x: Any) -> tuple[np.ndarray, Any]:
        """Return the sorted values of `x` on the host, and which of them each entry is; synchronises the device."""
        values, codes = np.unique(self.to_host(x), return_inverse=True)
        return values, self.from_host(codes, x)

    def scatter(self, x: Any, shape: tuple[int, ...], source: list[Any], target: list[Any]) -> Any:
        """Return zeros of `shape`, int64 or float64, with the entries `source` of `x` at `target`; a list per axis."""
        host = self.to_host(x)
        out = np.zeros(shape, np.float64 if host.dtype.kind == "f" else np.int64)
        out[np.ix_(*target)] = host[np.ix_(*source)]
        return self.from_host(out, x)

    # What libraries override that name axes.

    def unwrap(self, x: Any) -> Any:
        """Return the array inside of one with named axes; others as they are."""
        return x

    def rewrap(self, data: Any, x: Any) -> Any:
        """Return an array with the named axes of `x`, inside of which an array like `data` was."""
        del x
        return data

    def name_dimensions(self, signature: str, arrays: tuple[Any, ...], out: Any) -> Any:
        """Return the result `out` with the axes that its letters in `signature` have in `arrays`."""
        del signature, arrays
        return out

    def name_classes(self, matrix: Any, labels: Sequence[Any], axes: int | None, classes: Any, groups: Any) -> Any:
        """Return matrices that were counted of `labels` with named axes, and names of classes and groups along them.

        The last `axes` axes of the labels, or all, are samples. `groups` is None without groups, and True where they
        are numbers.
        """
        del labels, axes, classes, groups
        return matrix


def adapter(x: Any) -> Adapter:
    """Return the adapter of the library of `x`: one walk of the MRO per class, then a dict hit."""
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
    """Return a view that nobody can write to."""
    view: np.ndarray = x.view()
    view.setflags(write=False)
    return view
