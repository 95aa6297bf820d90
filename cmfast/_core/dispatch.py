"""Pick the backend from the arrays themselves; there is no global switch."""

from collections.abc import Container, Mapping
from contextlib import AbstractContextManager
from math import prod
from types import ModuleType
from typing import Any

import numpy as np

from cmfast._core import caller
from cmfast.kernels.loading import load

# Root module of an array's class -> adapter, imported when the first such array comes.
ADAPTERS = {"numpy": "_numpy", "cupy": "_cupy", "torch": "_torch", "xarray": "_xarray", "dask": "_dask"}
# Options that decide how large a result is, and how NumPy's ValueError begins for one that is larger than addresses.
SIZES = ("n_classes", "n_groups", "n_replicates")
TOO_LARGE = ("Maximum allowed dimension", "array is too big")
NUMBERS = frozenset(map(np.dtype, "?bBhHiIlLqQefd"))  # what NumPy's arrays hold where nothing has to be converted
_by_class: dict[type, ModuleType] = {}


def adapter(cls: type) -> ModuleType:
    """Return the adapter of `cls`: one walk of the MRO per class, then a dict hit."""
    found = _by_class.get(cls)
    if found is None:
        roots = [base.__module__.partition(".")[0] for base in cls.__mro__]
        name = next((ADAPTERS[root] for root in roots if root in ADAPTERS), "_numpy")
        _by_class[cls] = found = load(f"cmfast._core.adapters.{name}")
    return found


def adopt(*, optional: Container[str] = (), op: str | None = None, **arrays: Any) -> list[Any]:
    """Convert arguments for their one library; of those named in `optional`, None stays None.

    They go to `op` as they are, if it is given: then they may require gradients that the op propagates.

    Raises TypeError where they come from two libraries or two devices, or where one is not an array of numbers. What
    is not optional is an array from here on: kernels do not look again.
    """
    out: list[Any] = []
    for name, array in arrays.items():
        if type(array) is np.ndarray and array.dtype in NUMBERS:
            out.append(read_only(array))
        elif array is None and name in optional:
            out.append(None)
        else:
            return _converted(arrays, optional, op)
    return out  # as most often: of one library, on one host, with nothing to convert


def adopt_one(name: str, array: Any, op: str | None = None) -> Any:
    """Do what :func:`adopt` does for one array that is not optional, in half the time."""
    if type(array) is np.ndarray and array.dtype in NUMBERS:
        return read_only(array)
    return _converted({name: array}, (), op)[0]


def read_only(x: np.ndarray) -> np.ndarray:
    """Return a view that nobody can write to."""
    view: np.ndarray = x.view()
    view.setflags(write=False)
    return view


def _converted(arrays: dict[str, Any], optional: Container[str], op: str | None) -> list[Any]:
    """Do what :func:`adopt` does for arrays of any library."""
    given = {name: array for name, array in arrays.items() if array is not None}
    for name in arrays:
        if name not in given and name not in optional:
            msg = f"{name} must be an array, got None"
            raise TypeError(caller.named(msg))
    outer = {adapter(type(array)) for array in given.values()}
    found = {adapter(type(bare(array))) for array in given.values()}
    if len(found) > 1:
        what = ", ".join(f"{name} from {library(a)}" for name, a in given.items())
        msg = f"arrays must come from one library, got {what}"
        raise TypeError(caller.named(msg))
    one = next((each for each in outer if each not in found), None) or next(iter(found))  # of what holds the others
    try:
        known = (op,) if getattr(one, "HAS_GRADIENTS", False) else ()
        out = [None if array is None else one.asarray(name, array, *known) for name, array in arrays.items()]
        _check_agreement(one, given)
    except (TypeError, ValueError) as error:
        if type(error) not in (TypeError, ValueError):
            raise
        raise type(error)(caller.named(str(error))) from error.__cause__
    if one.HAS_DEVICES:
        devices = {name: one.device(a) for name, a in zip(arrays, out, strict=True) if a is not None}
        if len(set(devices.values())) > 1:
            what = ", ".join(f"{name} on {device}" for name, device in devices.items())
            msg = f"arrays must be on one device, got {what}"
            raise TypeError(caller.named(msg))
    return out


def _check_agreement(one: ModuleType, arrays: dict[str, Any]) -> None:
    """Raise ValueError where arrays of a library that names axes are named otherwise than they are matched."""
    check = getattr(one, "check_agreement", None)
    if check is not None:
        check(arrays)


def check_agreement(**arrays: Any) -> None:
    """Check this of arrays that are not adopted together, also in a dict; None is skipped, as are other libraries."""
    every: dict[str, Any] = {}
    for name, array in arrays.items():
        every |= {f"{name}[{k!r}]": x for k, x in array.items()} if isinstance(array, Mapping) else {name: array}
    for one in {adapter(type(array)) for array in every.values()}:
        try:
            _check_agreement(one, every)
        except ValueError as error:
            raise ValueError(caller.named(str(error))) from None


def library(array: Any) -> str:
    """Return the name of the library of `array`, for messages."""
    module = type(array).__module__.partition(".")[0]
    return f"a Python {type(array).__name__}" if module == "builtins" else module


def shape_of(array: Any) -> tuple[int, ...]:
    """Return the shape of an adopted array as a plain tuple, in which messages show it."""
    return tuple(array.shape)


def dtype_of(array: Any) -> np.dtype[Any]:
    """Return the dtype that NumPy has for an adopted array."""
    dtype = array.dtype
    return dtype if isinstance(dtype, np.dtype) else adapter(type(array)).dtype(dtype)


def device_of(array: Any) -> str:
    """Return where an adopted array lives: "cpu", "cuda:0", ..."""
    device: str = adapter(type(array)).device(array)
    return device


def call(op: str, *arrays: Any, **options: Any) -> Any:
    """Run `op` where its arrays, adopted and validated, live."""
    first = arrays[0] if arrays[0] is not None else next(array for array in arrays if array is not None)
    cls = type(first)
    try:
        return (_by_class.get(cls) or adapter(cls)).call(op, arrays, options)
    except OverflowError as error:
        raise OverflowError(caller.named(str(error))) from error
    except MemoryError as error:
        raise MemoryError(caller.named(_asked(options) + _size(error))) from error
    except ValueError as error:  # a size that NumPy does not even try
        if not str(error).startswith(TOO_LARGE):
            raise
        text = "an array of more bytes than there are addresses"
        raise MemoryError(caller.named(_asked(options) + text)) from error


def _asked(options: dict[str, Any]) -> str:
    """Return which options decide how large a result is."""
    sizes = ", ".join(f"{name}={options[name]}" for name in SIZES if options.get(name) is not None)
    return f"{sizes} asks for more memory than there is: " if sizes else ""


def _size(error: MemoryError) -> str:
    """Return how large the array is that there was no memory for, where NumPy says it."""
    shape, dtype = getattr(error, "shape", None), getattr(error, "dtype", None)
    if shape is None or dtype is None:
        return "memory is used up"
    return f"an array of {float(prod(shape) * dtype.itemsize):.3g} bytes"


def to_host(array: Any) -> Any:
    """Return an ndarray with the values of `array`: one explicit copy at most, for messages and files."""
    return adapter(type(array)).to_host(array)


def chosen(array: Any) -> AbstractContextManager[Any]:
    """Return a context in which expressions of `array` are calculated on its device."""
    context: AbstractContextManager[Any] = adapter(type(array)).chosen(array)
    return context


def from_host(array: np.ndarray, like: Any) -> Any:
    """Return `array` in the library of `like`, which is on the host: its memory, not a copy."""
    return adapter(type(like)).from_host(array)


def distinct(array: Any) -> tuple[np.ndarray, Any]:
    """Return the sorted values of `array` on the host, and which of them each entry is; synchronises."""
    found: tuple[np.ndarray, Any] = adapter(type(array)).distinct(array)
    return found


def moved(array: Any, shape: tuple[int, ...], source: list[Any], target: list[Any]) -> Any:
    """Return zeros of `shape`, int64 or float64, with the places `source` of `array` at `target`; a list per axis."""
    return adapter(type(array)).moved(array, shape, source, target)


def bare(array: Any) -> Any:
    """Return the array that an adopted one has inside, as xarray's have; others as they are."""
    inner = getattr(adapter(type(array)), "bare", None)
    return array if inner is None else inner(array)


def dimensioned(signature: str, arrays: tuple[Any, ...], out: Any) -> Any:
    """Return what was computed of bare arrays as these have it: with named axes, of the letters of `signature`."""
    named = getattr(adapter(type(arrays[0])), "dimensioned", None)
    return out if named is None else named(signature, arrays, out)


def counts(matrix: Any, labels: tuple[Any, ...], **what: Any) -> Any:
    """Return matrices of the bare `labels` as the library of these has counts: with named axes, and the classes."""
    found = (getattr(adapter(type(y)), "counts", None) for y in labels)
    named = next((each for each in found if each is not None), None)
    return matrix if named is None else named(matrix, labels, **what)


def flattened(array: Any, n_batch: int) -> Any:
    """Return an adopted array with all axes behind the first `n_batch` as one."""
    one = getattr(adapter(type(array)), "flattened", None)
    if one is not None:
        return one(array, n_batch)
    shape = shape_of(array)
    return array.reshape(*shape[:n_batch], prod(shape[n_batch:]))


def extent(array: Any) -> tuple[int, int]:
    """Return the least and the largest of the integers in `array`, which has some; synchronises."""
    found: tuple[int, int] = adapter(type(array)).extent(array)
    return found


def wide(array: Any) -> Any:
    """Return integers as int64."""
    return adapter(type(array)).wide(array)


def real(array: Any) -> Any:
    """Return integers as float64."""
    return adapter(type(array)).real(array)


def codes(array: Any) -> Any:
    """Return integers as int8, which statuses are."""
    return adapter(type(array)).codes(array)


def sent(array: Any, like: Any) -> Any:
    """Return an array in the library and on the device of `like`: one of the host goes there, no other leaves its own.

    For names of groups and the like, which no device holds.
    """
    there = adapter(type(like))
    return there.sent(array, like) if isinstance(array, np.ndarray) and not isinstance(like, np.ndarray) else array
