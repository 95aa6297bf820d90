"""Labels as users have them, on their way to integers of one axis of samples."""

from typing import Any

import numpy as np

from cmfast._core import dispatch, failures, validate
from cmfast._core.adapters import _text

NOWHERE = -1  # a place that no label has
INTEGERS = frozenset(map(np.dtype, "?bBhHiIlLqQ"))


def are_plain(y_true: Any, y_pred: Any) -> bool:
    """Whether these are NumPy's arrays of as many integers, in one axis: nothing about them need be checked further."""
    return (
        type(y_true) is type(y_pred) is np.ndarray
        and y_true.dtype in INTEGERS
        and y_pred.dtype in INTEGERS
        and y_true.ndim == 1
        and y_true.shape == y_pred.shape
    )


def whole(name: str, y: Any) -> Any:
    """Return floats as integers, checked to be whole numbers; anything else as it is."""
    if isinstance(y, _text.Coded) or dispatch.dtype_of(y).kind != "f":
        return y
    if dispatch.device_of(y) != "cpu":
        validate.refuse(name, "integers on a device", f"{validate.kind(y)}; convert them there", TypeError)
    values = np.asarray(dispatch.to_host(y))
    with np.errstate(invalid="ignore"):
        numbers = values.astype(np.int64)
    bad = np.flatnonzero((numbers != values) | (abs(values) >= 2.0**63))
    if bad.size:
        index = np.unravel_index(bad[0], values.shape)
        validate.refuse(name, "whole numbers", f"{values[index]} at {_text.where(index)}, {bad.size} such in all")
    return dispatch.from_host(numbers, like=y)


def dates(y_true: Any, y_pred: Any, names: Any) -> tuple[Any, Any, Any]:
    """Return dates as the integers that they are made of, in the finest unit of all; anything else as it is."""
    given = {"y_true": y_true, "y_pred": y_pred, "labels": names}
    if not all(y is None or (isinstance(y, np.ndarray) and y.dtype.kind == "M") for y in given.values()):
        return y_true, y_pred, names
    unit = np.result_type(*(y for y in given.values() if y is not None))
    for name, y in given.items():
        missing = np.flatnonzero(np.isnat(y)) if y is not None else np.empty(0)
        if y is not None and missing.size:
            _text.missing(name, missing.size, np.unravel_index(missing[0], y.shape), "NaT")
    first, second, last = (
        None if y is None else dispatch.read_only(y.astype(unit).view(np.int64)) for y in given.values()
    )
    return first, second, last


def matched(
    y_true: _text.Coded, y_pred: _text.Coded, names: _text.Coded | None, ignored: str | bytes | None = None
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return text as places among `names`, or among the labels that occur, and how many; warn if nothing is in both.

    A truth that is `ignored` is NOWHERE.
    """
    if ignored is not None and ignored in y_true.names:
        return _matched_beside(y_true, y_pred, names, ignored)
    known = [set(y.names) for y in (y_true, y_pred)]
    if names is None and y_true.codes.size and min(map(len, known)) > 1 and known[0].isdisjoint(known[1]):
        numbers = " and ".join(str(len(found)) for found in known)
        failures.diagnose(f"y_true and y_pred have no label in common, of {numbers}; are they of the same classes?")
    return _text.match(y_true, y_pred, names)


def _matched_beside(
    y_true: _text.Coded, y_pred: _text.Coded, names: _text.Coded | None, ignored: str | bytes
) -> tuple[np.ndarray, np.ndarray, int]:
    seen = y_true.codes != y_true.names.index(ignored)
    if names is None:
        both, guess = np.broadcast_arrays(seen, y_pred.codes)
        found = {y_true.names[k] for k in np.unique(y_true.codes[seen])}
        found |= {y_pred.names[k] for k in np.unique(guess[both])}
        names = _text.Coded(np.arange(len(found)), sorted(found), y_true.dtype)
    truth, guess, n = _text.match(y_true, y_pred, names)
    return np.where(seen, truth, NOWHERE), guess, n


def flat(axes: int | None, arrays: dict[str, Any]) -> list[Any]:
    """Return the arrays with their last `axes` axes, or all, as one; those must agree. None is skipped."""
    sizes = {name: dispatch.shape_of(y) for name, y in arrays.items() if y is not None}
    for name, shape in sizes.items():
        if axes is not None and len(shape) < axes:
            validate.refuse(name, f"of at least {axes} axes, as sample_axes says", f"shape {shape}")
    cut = {name: len(shape) - axes if axes is not None else 0 for name, shape in sizes.items()}
    first = next(iter(sizes))
    for name, shape in sizes.items():
        if shape[cut[name] :] != sizes[first][cut[first] :]:
            what = f"samples of shape {sizes[first][cut[first] :]} as {first}"
            validate.refuse(name, what, f"shape {shape}")
    return [None if y is None else _reshaped(y, sizes[name][: cut[name]]) for name, y in arrays.items()]


def _reshaped(y: Any, batch: tuple[int, ...]) -> Any:
    if isinstance(y, _text.Coded):
        return _text.Coded(_reshaped(y.codes, batch), y.names, y.dtype)
    n = int(np.prod(dispatch.shape_of(y)[len(batch) :], dtype=np.int64))
    return y.reshape(*batch, n)


def check_ignored(value: object) -> None:
    """Check the option `ignore_index`, before any array is looked at."""
    if value is not None and not isinstance(value, str | bytes):
        validate.count("ignore_index", value, least=-(2**63))


def ignored(value: Any, y_true: Any) -> Any:
    """Return the truth that counts nowhere, None where no label can be it."""
    text = isinstance(value, str | bytes)
    if text != isinstance(y_true, _text.Coded):
        wanted, given = ("an integer", "text") if text else ("text", "an integer")
        validate.refuse("ignore_index", f"{wanted}, as y_true", f"{given}, {validate.shown(value)}", TypeError)
    if text:
        return value
    value, dtype = validate.count("ignore_index", value, least=-(2**63)), dispatch.dtype_of(y_true)
    low, high = (0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    return value if low <= value <= high else None
