"""Validate options and array metadata before computing, with the same error class and text on every backend.

All messages about arguments are worded here: ``function: argument must be <what>, got <what came>``.
"""

import math
import operator
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, get_args

import numpy as np

from cmfast._core import caller, failures, settings
from cmfast._core.adapters import _columns, _text_codes, adapter
from cmfast._core.annotations import FailurePolicy, Progress
from cmfast._core.dispatch import shape_of
from cmfast.kernels.loading import load

LARGEST_INT64 = 2**63 - 1  # largest count of a kernel, and largest array size
EXACT_FLOAT64 = 2**53  # every integer up to here is a float64
MOST_BITS = 512
MOST_ERROR_RATE = 0.2  # confidence level up to which an error rate was probably meant
MOST_SHOWN_CHARACTERS = 200  # characters of a value in a message
ON_FAILURE = get_args(FailurePolicy)
BOOLS = (bool, np.bool_)
REALS = frozenset(map(np.dtype, "?bBhHiIlLqQefd"))
NUMBERS = (int, float, np.integer, np.floating)


def refuse(name: str, wanted: str, given: object, error: type[Exception] = ValueError) -> NoReturn:
    """Raise `error`: ``<name> must be <wanted>, got <given>``."""
    fail(f"{name} must be {wanted}, got {given if isinstance(given, str) else format_value(given, str)}", error)


def fail(text: str, error: type[Exception] = ValueError) -> NoReturn:
    """Raise `error` with `text`, preceded by the name of the public function that was called."""
    line = " ".join(part.strip() for part in text.splitlines())  # a shown value may span several lines
    if not line.isprintable():  # a terminal could interpret control characters
        line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
    raise error(caller.prefix_name(line)) from None


def format_value(value: object, how: Callable[[object], str] = repr) -> str:
    """Format a value for a message, on one line and shortened; never raises."""
    if isinstance(value, int) and value.bit_length() > MOST_BITS:  # Python refuses to format thousands of digits
        return f"an integer of {value.bit_length()} bits"
    text = " ".join(how(value).split())
    return text if len(text) <= MOST_SHOWN_CHARACTERS else f"{text[: MOST_SHOWN_CHARACTERS - 3]}..."


@contextmanager
def explain_memory_error(n_bytes: int, **asking: object) -> Iterator[None]:
    """In this block, turn a MemoryError of a result of `n_bytes` into one that names the arguments responsible."""
    try:
        if n_bytes > LARGEST_INT64:  # NumPy's own error differs from place to place
            raise MemoryError
        yield
    except MemoryError:
        refuse_memory(n_bytes, **asking)


def refuse_memory(n_bytes: int, **asking: object) -> NoReturn:
    """Raise MemoryError that names the arguments asking for a result of `n_bytes`."""
    sizes = " and ".join(f"{name}={format_value(value)}" for name, value in asking.items())
    fail(f"{sizes} asks for an array of {float(n_bytes):.3g} bytes, which memory does not hold", MemoryError)


def real(**arrays: Any) -> None:
    """Validate that every array holds real numbers (bool, integer or float of at most 64 bits); None is skipped."""
    for name, array in arrays.items():
        if array is not None:
            _real(name, array)


def _real(name: str, array: Any) -> tuple[int, ...]:
    """Validate that `array` holds real numbers; return its shape."""
    if type(array) is not np.ndarray or array.dtype not in REALS:
        dtype = adapter(array).dtype(array)
        if dtype.kind not in "buif" or dtype.itemsize > 8:
            is_text = dtype.kind in "US" and name in _columns.MATRIX_NAMES
            cure = "; confusion_matrix(y_true, y_pred) counts labels" if is_text else ""
            refuse(name, "real numbers of at most 64 bits", f"dtype {dtype}{cure}", TypeError)
    return tuple(array.shape)


def integer(**arrays: Any) -> None:
    """Validate that every array holds integers (or bool); None is skipped."""
    for name, array in arrays.items():
        if array is not None and adapter(array).dtype(array).kind not in "bui":
            refuse(name, "integers", f"{describe_dtype(array)}{_advise_on_float_labels(name, array)}", TypeError)


def _advise_on_float_labels(name: str, array: Any) -> str:
    """Return the end of a message about labels `name` that are floats without NaN; "" for other arrays."""
    if not name.startswith("y_") or adapter(array).dtype(array).kind != "f" or "missing" in describe_dtype(array):
        return ""
    return f"; {labels_of_probabilities(array) or '.astype(int) makes labels of whole numbers'}"


def describe_dtype(array: Any) -> str:
    """Describe the dtype of an array for a message; for float arrays also the number of NaN."""
    dtype = adapter(array).dtype(array)
    text = f"dtype {dtype}"
    if dtype.kind == "M":
        return f"{text}; give dates as text, which .astype(str) makes of them"
    if dtype.kind != "f":
        return text
    bad = np.flatnonzero(np.isnan(adapter(array).to_host(array)))
    if not bad.size:
        return text
    return f"{text} with {_text_codes.describe_missing(bad.size, np.unravel_index(bad[0], shape_of(array)), 'nan')}"


_TAKES_SCORES = '; for scores give the name of an area, names="roc_auc"'
# By function of labels: what to do with scores.
_INSTEAD_OF_SCORES = dict.fromkeys(
    ("uncertainty.interval", "uncertainty.compare", "uncertainty.compare_groups"), _TAKES_SCORES
) | {"uncertainty.compare_many": "; areas of scores are uncertainty.auc_covariance(y_true, scores)"}


def refuse_labels(name: str, array: Any, wanted: str) -> NoReturn:
    """Raise TypeError for an array that cannot hold labels, with advice for floats."""
    text = describe_dtype(array)
    floats = adapter(array).dtype(array).kind == "f" and "missing" not in text
    cure = "whole_floats=True takes whole numbers"
    if caller.name().startswith(("display.", "report", "uncertainty.")):  # these have no option whole_floats
        cure = ".astype(int) makes labels of whole numbers"
    if floats:
        cure = labels_of_probabilities(array) or cure
        if name != "y_true":
            cure += _INSTEAD_OF_SCORES.get(caller.name(), "")
    elif "missing" in text:
        cure = "leave these samples out of all arrays, then .astype(int) makes labels"
    refuse(name, wanted, f"{text}; {cure}" if floats or "missing" in text else text, TypeError)


def labels_of_probabilities(array: Any) -> str:
    """Return advice for turning one-hot rows, or floats in 0..1 that are not all whole, into labels; else ""."""
    values = adapter(array).to_host(array)
    is_one_hot = values.ndim == 2 and values.shape[-1] > 1 and values.size and set(np.unique(values)) == {0.0, 1.0}
    if is_one_hot and (values.sum(-1) == 1).all():
        return "as one-hot rows are: .argmax(-1) makes labels of them"
    with np.errstate(invalid="ignore"):
        likely = bool(values.size and values.min() >= 0 and values.max() <= 1 and (values % 1).any())
    cure = "as probabilities are: .argmax(-1) makes labels of a row for each sample, > 0.5 of those of one class"
    return cure if likely else ""


def type_empty_labels(y: Any) -> Any:
    """Return labels unchanged, but an empty list as int64, which NumPy would make float64."""
    return np.empty(0, np.int64) if isinstance(y, list | tuple) and not y else y


def refuse_tables(**arrays: Any) -> None:
    """Raise TypeError if an array is a data frame, whose rows would count as a batch; advise to pass a column."""
    for name, array in arrays.items():
        column = None if array is None or type(array) is np.ndarray else _columns.column_hint(array)
        if column is not None:
            what = f"{type(array).__module__.partition('.')[0]} {type(array).__name__}"
            refuse(name, "an array of labels", f"a {what}; pass a column: {name}{column}", TypeError)


def samples_last(*, sized: bool, **shapes: tuple[int, ...]) -> str | None:
    """Detect shapes (n, 1) of all arrays, which mean n rows of one sample each and are rarely intended.

    Raises ValueError if the classes would be inferred from the labels. If their number is known (`sized`), rows of one
    sample may come from a stream: returns the text of a warning.
    """
    if not all(len(shape) == 2 and shape[0] > 1 and shape[1] == 1 for shape in shapes.values()):
        return None
    rows = next(iter(shapes.values()))[0]
    names = " and ".join(shapes)
    said = f"shape ({rows}, 1), which is {rows} rows of one sample; for {rows} samples ravel them to shape ({rows},)"
    if not sized:
        refuse(names, "of shape (..., n), samples last", said)
    return f"{names} are of {said}"


def matrices(*, square: bool = False, **arrays: Any) -> tuple[int, int]:
    """Validate that all arrays are real of shape (..., R, C), R and C the same (R = C if `square`); return (R, C)."""
    core: tuple[int, int] | None = None
    for name, array in arrays.items():
        shape = _real(name, array)
        if len(shape) < 2:
            cure = "; confusion_matrix(y_true, y_pred) counts labels" if name == "M" and len(shape) == 1 else ""
            refuse(name, "of shape (..., C, C)" if square else "of shape (..., R, C)", f"shape {shape}{cure}")
        if square and shape[-2] != shape[-1]:
            refuse(name, "square, of shape (..., C, C)", f"shape {shape}")
        if core is not None and shape[-2:] != core:
            first = next(iter(arrays))
            refuse(name, f"matrices of shape {core} as {first}", f"shape {shape}")
        core = (shape[-2], shape[-1])
    if core is None:
        raise AssertionError  # callers pass at least one array
    return core


def vectors(name: str, array: Any, length: int) -> tuple[int, ...]:
    """Validate that `array` is real of shape (..., length); return its batch shape."""
    shape = _real(name, array)
    if not shape or shape[-1] != length:
        refuse(name, f"of shape (..., {length})", f"shape {shape}")
    return shape[:-1]


def points(**arrays: Any) -> tuple[int, int]:
    """Validate that the only array is a real table of points, shape (N, m) with m at least 1; return (N, m)."""
    ((name, array),) = arrays.items()
    shape = _real(name, array)
    if len(shape) != 2 or shape[1] == 0:
        refuse(name, "of shape (N, m) with at least one column", f"shape {shape}")
    return shape[0], shape[1]


def point_arrays(n: int, *, n_axes: int = 0, **arrays: Any) -> None:
    """Validate that every array has one entry per point, shape (n,); None is skipped. Points have `n_axes` axes."""
    for name, array in arrays.items():
        if array is not None and (shape := shape_of(array)) != (n,):
            cure = f"; X.T has {n_axes} points" if shape == (n_axes,) else ""
            refuse(name, f"of shape ({n},), one entry per point", f"shape {shape}{cure}")


def batch(**shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Validate that the batch shapes broadcast; return the broadcast shape."""
    every = list(shapes.values())
    if every.count(every[0]) == len(every):
        return every[0]
    try:
        return np.broadcast_shapes(*every)
    except ValueError:
        what = ", ".join(f"{name}: {shape}" for name, shape in shapes.items())
        fail(f"batch shapes do not broadcast, got {what}")


def same_shape(**arrays: Any) -> tuple[int, ...]:
    """Validate that all arrays have the same shape and return it; None is skipped."""
    return one_shape(**{name: shape_of(array) for name, array in arrays.items() if array is not None})


def share(name: str, value: object) -> float:
    """Return `value` as a float strictly between 0 and 1."""
    found = number(name, value)
    if not 0.0 < found < 1.0:
        refuse(name, "between 0 and 1", value)
    return found


def confidence_level(value: object) -> float:
    """Validate the option ``confidence_level=`` and return it; warn if it looks like an error rate."""
    found = number("confidence_level", value)
    if 1.0 < found < 100.0:
        refuse("confidence_level", "between 0 and 1", f"{format_value(value)}; for {found:g} % pass {found / 100:g}")
    found = share("confidence_level", value)
    if found <= MOST_ERROR_RATE:
        text = f"confidence_level={value} makes intervals that hold the true value in {found:.3g} of all cases"
        failures.warn_diagnostic(f"{text}; for an error rate of {value} pass confidence_level={1.0 - found:.6g}")
    return found


def one_shape(**shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Validate that all shapes are equal and return it."""
    if len(set(shapes.values())) > 1:
        what = ", ".join(f"{name}: {shape}" for name, shape in shapes.items())
        longest = max(shapes.values(), key=len)
        short = next((name for name, shape in shapes.items() if shape != longest), "")
        as_rows = all(len(shape) and shape == longest[-len(shape) :] for shape in shapes.values())
        cure = f"; broadcast_to({short}, {longest}) repeats {short} for each row" if as_rows else ""
        fail(f"arrays must have one shape, got {what}{cure}")
    return next(iter(shapes.values()))


# By value of an option elsewhere: what it is called here.
_CALLED_HERE = {"index": "row", "recall": "row", "columns": "col", "precision": "col"}
# By option and value: what to call instead.
_CALL_INSTEAD = {("test", "mcnemar"): "; uncertainty.mcnemar is McNemar's test"}


def choice(name: str, value: object, allowed: Collection[str], other: str = "") -> None:
    """Validate that `value` is one of the strings `allowed`; `other` names further accepted values in the message."""
    if isinstance(value, str) and value in allowed:
        return
    wanted = f"{other}{'one of ' if len(allowed) > 1 else ''}{', '.join(map(repr, allowed))}"
    if not isinstance(value, str):
        refuse(name, wanted, type(value).__name__, TypeError)
    own = _CALLED_HERE.get(value)
    called = f"; it is called {own!r}" if own in allowed else suggest_name(value, allowed)
    refuse(name, wanted, f"{format_value(value)}{_CALL_INSTEAD.get((name, value), called)}")


def suggest_name(given: object, known: Collection[str]) -> str:
    """Return ``; did you mean 'x'?`` for the closest of the `known` names; "" if none is close."""
    from difflib import get_close_matches

    text = str(given)
    near = [name for name in known if name.lower() == text.lower()] or get_close_matches(text, known, 1, 0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


def names(name: str, value: Any, n: int) -> list[Any]:
    """Validate that `value` is a list or one-dimensional array of `n` names; return it as a list."""
    wanted = f"a sequence of {n} names"
    array: Any = value
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        found = list(value)
    elif hasattr(array, "tolist") and getattr(array, "ndim", 0) == 1:
        try:
            found = array.tolist()
        except NotImplementedError as error:  # a tensor without memory, as on torch's meta device
            refuse(name, wanted, f"{type(value).__name__}: {error}", TypeError)
    else:
        refuse(name, wanted, f"{type(value).__name__} {format_value(value)}", TypeError)
    if len(found) != n:
        refuse(name, wanted, f"{len(found)}")
    return found


def flag(name: str, value: object) -> None:
    """Validate that `value` is a bool, not merely truthy or falsy."""
    if not isinstance(value, BOOLS):
        refuse(name, "True or False", f"{type(value).__name__} {format_value(value)}", TypeError)


def count(name: str, value: Any, *, least: int = 0, most: int | None = LARGEST_INT64) -> int:
    """Validate that `value` is an integer (not bool or float) from `least` to `most`; return it as an int."""
    if isinstance(value, BOOLS):
        refuse(name, "an integer", repr(value), TypeError)
    try:
        number = operator.index(value)
    except TypeError:
        refuse(name, "an integer", f"{type(value).__name__} {format_value(value)}", TypeError)
    if number < least:
        refuse(name, f"at least {least}", number)
    if most is not None and number > most:
        refuse(name, f"at most {most}", number)
    return number


def number(name: str, value: Any) -> float:
    """Validate that `value` is a real number, possibly NaN or infinite; return it as a float."""
    if isinstance(value, BOOLS) or not isinstance(value, NUMBERS):
        refuse(name, "a number", f"{type(value).__name__} {format_value(value)}", TypeError)
    try:
        return float(value)
    except OverflowError:  # an int beyond the range of float64
        return np.inf if value > 0 else -np.inf


def finite(name: str, value: Any, *, wanted: str = "finite") -> float:
    """Validate that `value` is a finite real number; return it as a float."""
    found = number(name, value)
    if not math.isfinite(found):
        refuse(name, wanted, value)
    return found


def nonnegative(name: str, value: Any) -> float:
    """Validate that `value` is a real number of at least 0, possibly infinite; return it as a float."""
    found = number(name, value)
    if not found >= 0:
        refuse(name, "at least 0", value)
    return found


def positive(name: str, value: Any) -> float:
    """Validate that `value` is a finite real number above 0; return it as a float."""
    wanted = "finite and above 0"
    number = finite(name, value, wanted=wanted)
    if number <= 0:
        refuse(name, wanted, value)
    return number


def tolerance(value: Any) -> float:
    """Validate the option ``tol=``, a relative error of row and column sums in (0, 1); return it as a float."""
    number = positive("tol", value)
    if number >= 1:
        refuse("tol", "below 1", f"{value}; it is the largest relative error of a sum, as 1e-9")
    return number


def max_iter(value: Any) -> int | None:
    """Validate the option ``max_iter=`` and cap it at 2**53; return None for the kernel's default."""
    return None if value is None else min(count("max_iter", value, least=1, most=None), EXACT_FLOAT64)


def path(name: str, value: object) -> None:
    """Validate that `value` is a path: a str or os.PathLike."""
    if not isinstance(value, str | os.PathLike):
        refuse(name, "a path", f"{type(value).__name__} {format_value(value)}", TypeError)


def path_name(name: str, value: Any) -> str:
    """Validate that `value` is a path without NUL; return it as a str."""
    try:
        found = os.fsdecode(value)
    except TypeError:
        refuse(name, "a str or path", type(value).__name__, TypeError)
    if "\0" in found:
        refuse(name, "without NUL", repr(found))
    return found


def batch_index(index: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Validate that `index` selects one element of a batch of this shape; return it as a tuple of ints."""
    found = tuple(map(_index, index if isinstance(index, tuple) else (index,)))
    wanted = f"the index of one element of a batch of shape {shape}"
    if len(found) != len(shape) or None in found:
        refuse("index", wanted, format_value(index), TypeError)
    if not all(-n <= k < n for k, n in zip(found, shape, strict=True)):
        refuse("index", wanted, format_value(index), IndexError)
    return found


def single_index(index: Any, shape: tuple[int, ...], what: str) -> tuple[int, ...]:
    """Validate that `index` selects one element of a batch of this shape; None selects the only one."""
    if index is not None:
        return batch_index(index, shape)
    if math.prod(shape) != 1:
        fail(f"this draws one {what}; pass index= to select one of a batch of shape {shape}")
    return (0,) * len(shape)


def _index(k: Any) -> Any:
    """Return `k` as an int; None if it is not an integer."""
    try:
        return None if isinstance(k, bool | np.bool_ | np.ndarray) else operator.index(k)
    except TypeError:  # arrays of other libraries define __index__, too
        return None


def generator(rng: Any) -> "np.random.Generator":
    """Validate the option ``rng=``; return it if it is a NumPy Generator, else a new one with that seed."""
    load("numpy.random")  # NumPy's lazy import could run while another thread forks
    if isinstance(rng, np.random.Generator):
        return rng
    try:
        return np.random.default_rng(count("rng", rng, most=None))
    except TypeError:
        given = f"{type(rng).__name__} {format_value(rng)}"
        refuse("rng", "an integer or a Generator of NumPy", given, TypeError)


def on_failure(value: Any) -> FailurePolicy:
    """Validate the option ``on_failure=`` and return it; for None return what :func:`cmfast.config` says."""
    if value is None:
        return settings.current.get().on_failure
    choice("on_failure", value, ON_FAILURE)
    return value  # type: ignore[no-any-return]


def num_threads(value: Any) -> int | None:
    """Validate the option ``num_threads=`` and return it; for None return what :func:`cmfast.config` says."""
    return settings.current.get().num_threads if value is None else count("num_threads", value, least=1, most=None)


def progress(value: Progress) -> None:
    """Validate the option ``progress=``: a bool, None or a callable."""
    if not (value is None or isinstance(value, bool) or callable(value)):
        refuse("progress", "True, False, None or a callable (done, total)", type(value).__name__, TypeError)
