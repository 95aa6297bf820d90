"""Adopt arguments and run ops on the backend of their arrays; there is no global switch."""

import reprlib
from collections.abc import Container, Mapping
from math import prod
from typing import Any, NoReturn

import numpy as np

from cmfast._core import axis_names, caller, failures
from cmfast._core.adapters import KNOWN, adapter, read_only
from cmfast.kernels.loading import find_loaded_module

# Options that set the size of a result, and how NumPy's ValueError begins for a size beyond the address space.
SIZES = ("n_classes", "n_groups", "n_resamples")
TOO_LARGE = ("Maximum allowed dimension", "array is too big")
NUMBERS = frozenset(map(np.dtype, "?bBhHiIlLqQefd"))  # dtypes that need no conversion
# By library: what makes one of its arrays of a NumPy array.
MAKERS = {"jax": "jax.numpy.asarray", "torch": "torch.as_tensor", "cupy": "cupy.asarray"}
_known = KNOWN.get  # bound once: saves time in small calls


def adopt(*, optional: Container[str] = (), op: str | None = None, **arrays: Any) -> list[Any]:
    """Convert the arguments into arrays of their common library; an argument named in `optional` may stay None.

    With `op`, arrays are passed on unchanged, so that they may require gradients that the op propagates.

    Raises TypeError if the arrays come from two libraries or two devices, or one is not an array of numbers. Required
    arguments are arrays from here on: kernels do not check again.
    """
    out: list[Any] = []
    for name, array in arrays.items():
        if type(array) is np.ndarray and array.dtype in NUMBERS:
            out.append(read_only(array))
        elif array is None and name in optional:
            out.append(None)
        else:
            return _adopt_any(arrays, optional, op)
    return out  # the common case: NumPy arrays with nothing to convert


def adopt_one(name: str, array: Any, op: str | None = None) -> Any:
    """Convert one required argument into an array of its library; takes half the time of :func:`adopt`."""
    if type(array) is np.ndarray and array.dtype in NUMBERS:
        return read_only(array)
    return _adopt_any({name: array}, (), op)[0]


def _adopt_any(arrays: dict[str, Any], optional: Container[str], op: str | None) -> list[Any]:
    """Convert arguments of any library, checking for one library and one device; the general path of :func:`adopt`."""
    labelled = {name: array for name, array in arrays.items() if array is not None}
    _check_counts(labelled)
    arrays = {name: take_matrix(array) for name, array in arrays.items()}
    given = {name: array for name, array in arrays.items() if array is not None}
    for name in arrays:
        if name not in given and name not in optional:
            msg = f"{name} must be an array, got None"
            raise TypeError(caller.prefix_name(msg))
    known = {name: adapter(array) for name, array in given.items()}
    inner = {adapter(one.unwrap(given[name])) if one.names_axes else one for name, one in known.items()}
    try:
        if len(inner) > 1:
            arrays = arrays | _send_numbers(given, op)
            inner = {adapter(one.unwrap(arrays[name])) for name, one in known.items()}
        one = next((each for each in known.values() if each.names_axes), *inner)
        out = [None if array is None else one.adopt(name, array, op) for name, array in arrays.items()]
        doubt = one.check_agreement(labelled)
    except (TypeError, ValueError) as error:
        if type(error) not in (TypeError, ValueError):
            raise
        raise type(error)(caller.prefix_name(str(error))) from error.__cause__
    if doubt is not None:
        failures.warn_diagnostic(doubt)
    devices = {}
    if one.has_devices:
        devices = {name: one.device(a) for name, a in zip(arrays, out, strict=True) if a is not None}
    if len(set(devices.values())) > 1:
        what = ", ".join(f"{name} on {device}" for name, device in devices.items())
        msg = f"arrays must be on one device, got {what}"
        raise TypeError(caller.prefix_name(msg))
    return out


def _send_numbers(arrays: dict[str, Any], op: str | None) -> dict[str, Any]:
    """Return arguments that are numbers or lists of numbers as arrays of the library and device of the others.

    Raises TypeError if the others are not of one library, or a list holds something else.
    """
    others = {name: adapter(x).unwrap(x) for name, x in arrays.items() if type(x).__module__ != "builtins"}
    libraries = {adapter(x) for x in others.values()}
    if len(libraries) != 1:
        refuse_libraries(arrays)
    (library,), (first, x) = libraries, next(iter(others.items()))
    like = library.adopt(first, x, op)
    sent = {}
    for name in arrays.keys() - others.keys():
        numbers = adapter(arrays[name]).adopt(name, arrays[name], None)
        if numbers.dtype not in NUMBERS:
            refuse_libraries(arrays)
        sent[name] = library.from_host(np.array(numbers), like)
    return sent


def refuse_libraries(arrays: dict[str, Any]) -> NoReturn:
    """Raise TypeError for arrays of several libraries, with the cure if some are Dask arrays."""
    libraries = {name: library_name(x) for name, x in arrays.items()}
    others = [name for name, library in libraries.items() if library != "dask"]
    what = ", ".join(f"{name} from {library}" for name, library in libraries.items())
    msg = f"arrays must come from one library, got {what}"
    if 0 < len(others) < len(libraries):
        msg += f"; make Dask arrays of the others, as by dask.array.from_array({others[0]})"
    elif len(wanted := {one for one in libraries.values() if one != "numpy" and not one.startswith("a Python")}) == 1:
        makes = MAKERS.get(next(iter(wanted)))
        own = {name: x for name, x in arrays.items() if libraries[name] == "numpy"}
        first = next((name for name, x in own.items() if getattr(x, "dtype", None) in NUMBERS), None)
        if makes and first is not None:  # JAX and PyTorch have no text
            msg += f"; make arrays of {wanted.pop()} of the others, as by {makes}({first})"
    raise TypeError(caller.prefix_name(msg))


def _check_counts(arrays: dict[str, Any]) -> None:
    """Raise ValueError if labelled counts have different labels, as matrices are matched by position.

    Counts and tables in one list, too, which are stacked.
    """
    for name, x in arrays.items():
        # The first element decides, because lists of numbers may be long.
        if type(x) in (list, tuple) and len(x) > 1 and axis_names.get_axes_of_counts(x[0]):
            orders = [axes for axes in map(axis_names.get_axes_of_counts, x) if axes]
            other = next((axes for axes in orders if axes != orders[0]), None)
            if other is not None:
                first, second = (reprlib.repr(next(reversed(axes.values()))) for axes in (orders[0], other))
                msg = (
                    f"{name} must hold matrices with the same labels in one order, as they are stacked by position, "
                    f"got {first} and {second}; count all with the same labels=, or reindex them"
                )
                raise ValueError(caller.prefix_name(msg))
    counts = [(name, x.labels) for name, x in arrays.items() if hasattr(type(x), "_matrix_for_ops")]
    for name, labels in counts[1:]:
        first, wanted = counts[0]
        if labels != wanted:
            msg = (
                f"{first} and {name} must have the same labels in one order, as matrices are matched by position, got "
                f"{reprlib.repr(wanted)} and {reprlib.repr(labels)}; count both with the same labels=, or give .matrix "
                "of both if their order is meant"
            )
            raise ValueError(caller.prefix_name(msg))


def take_matrix(x: Any) -> Any:
    """Return the matrix of labelled counts (:class:`cmfast.ConfusionCounts`); any other argument unchanged."""
    held_matrix = getattr(type(x), "_matrix_for_ops", None)
    return x if held_matrix is None else held_matrix(x)


def adopt_output(name: str, array: Any, like: Any) -> np.ndarray | None:
    """Return the memory of the argument `name`, which results are written to; None if it is on a device.

    Raises TypeError unless it is a writable C-contiguous array of the library and on the device of `like`.
    """
    one = adapter(like)
    try:
        if one.names_axes or adapter(array) is not one:
            wanted = "None for arrays with named axes" if one.names_axes else f"an array of {library_name(like)}"
            msg = f"{name} must be {wanted}, got {library_name(array)}"
            raise TypeError(msg)
        host = one.share_memory(name, array)
        if one.has_devices and one.device(array) != one.device(like):
            msg = f"{name} must be on {one.device(like)}, as the matrices are, got one on {one.device(array)}"
            raise TypeError(msg)
        if host is not None and not host.flags.carray:
            flaw = "read-only" if not host.flags.writeable else "misaligned" if host.flags.c_contiguous else "strided"
            msg = f"{name} must be a C-contiguous array that can be written to, got a {flaw} one"
            raise TypeError(msg)
    except (TypeError, ValueError) as error:
        raise type(error)(caller.prefix_name(str(error))) from error.__cause__
    return host


def check_agreement(**arrays: Any) -> None:
    """Raise ValueError if row labels, dimensions or coordinates of separately adopted arrays differ in order.

    Warns if Series may be of different samples, as their indexes differ.

    Arrays in a dict are checked one by one. None, and arrays of libraries without axis names, are skipped.
    """
    every = _list_arrays(arrays)
    for one in {adapter(array) for array in every.values()}:
        try:
            doubt = one.check_agreement(every)
        except ValueError as error:
            raise ValueError(caller.prefix_name(str(error))) from None
        if doubt is not None:
            failures.warn_diagnostic(doubt)


def _list_arrays(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments by name, those in a dict one by one."""
    every: dict[str, Any] = {}
    for name, array in arrays.items():
        every |= {f"{name}[{k!r}]": x for k, x in array.items()} if isinstance(array, Mapping) else {name: array}
    return every


def check_row_order(**arrays: Any) -> Any:
    """Raise ValueError if Series and DataFrames of pandas, of one row for each record, have one index in two orders.

    Those in a dict are checked one by one. Anything else is skipped: it is matched by position. Returns one of the
    Series, or None.
    """
    pd = find_loaded_module("pandas")
    if pd is None:
        return None
    every = _list_arrays(arrays)
    columns = {name: x.iloc[:, 0] if isinstance(x, pd.DataFrame) and x.shape[1] else x for name, x in every.items()}
    found = {name: x for name, x in columns.items() if isinstance(x, pd.Series)}
    check_agreement(**found)
    return next(iter(found.values()), None)


def library_name(array: Any) -> str:
    """Return the name of the library of `array`, for messages."""
    module = type(array).__module__.partition(".")[0]
    return f"a Python {type(array).__name__}" if module == "builtins" else {"jaxlib": "jax"}.get(module, module)


def shape_of(array: Any) -> tuple[int, ...]:
    """Return the shape of an adopted array as a plain tuple, the form that messages show."""
    return tuple(array.shape)


def call(op: str, *arrays: Any, **options: Any) -> Any:
    """Run `op` on adopted and validated arrays, on their own device."""
    first = arrays[0] if arrays[0] is not None else next(array for array in arrays if array is not None)
    try:
        return (_known(type(first)) or adapter(first)).call(op, arrays, options)
    except OverflowError as error:
        raise OverflowError(caller.prefix_name(str(error))) from error
    except MemoryError as error:
        text = _describe_sizes(options) + _describe_bytes(error) + _suggest_sparse(arrays)
        raise MemoryError(caller.prefix_name(text)) from error
    except ValueError as error:  # a size that NumPy refuses before allocating
        if not str(error).startswith(TOO_LARGE):
            raise
        text = "an array of more bytes than there are addresses"
        raise MemoryError(caller.prefix_name(_describe_sizes(options) + text)) from error


def _describe_sizes(options: dict[str, Any]) -> str:
    """Return the beginning of an out-of-memory message: the options that set the size of the result."""
    sizes = ", ".join(f"{name}={options[name]}" for name in SIZES if options.get(name) is not None)
    return f"{sizes} asks for more memory than there is: " if sizes else ""


def _suggest_sparse(arrays: tuple[Any, ...]) -> str:
    """Return the end of an out-of-memory message: how to count many classes without groups; "" for another function."""
    is_one_matrix = caller.name() == "confusion_matrix" and arrays[3] is None
    return "; sparse=True returns only the cells that occur" if is_one_matrix else ""


def _describe_bytes(error: MemoryError) -> str:
    """Return the size in bytes of the array that could not be allocated, if NumPy's error tells it."""
    shape, dtype = getattr(error, "shape", None), getattr(error, "dtype", None)
    if shape is None or dtype is None:
        return "memory is used up"
    return f"an array of {float(prod(shape) * dtype.itemsize):.3g} bytes"
