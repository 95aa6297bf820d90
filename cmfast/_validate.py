"""Checks of metadata, before anything is computed: the same class and text of error on every backend.

All wording of errors about arguments lives here. The pattern is ``op: argument, what is wanted, what was given``.
"""

import operator
from collections.abc import Iterable
from typing import Any, NoReturn

import numpy as np

from cmfast._dispatch import meta
from cmfast._typing import Progress

ON_FAILURE = ("raise", "warn", "ignore")


def refuse(op: str, name: str, wanted: str, given: object, error: type[Exception] = ValueError) -> NoReturn:
    """Raise `error` in the one pattern of the library."""
    msg = f"{op}: {name} must be {wanted}, got {given}"
    raise error(msg)


def required(op: str, **arrays: Any) -> None:
    """Check that no array is None."""
    for name, array in arrays.items():
        if array is None:
            refuse(op, name, "an array", "None", TypeError)


def real(op: str, **arrays: Any) -> None:
    """Check that every array holds real numbers (bool, integer or float up to 64 bits); None is skipped."""
    for name, array in arrays.items():
        if array is None:
            continue
        known = meta(array)
        if known.kind not in "buif" or known.itemsize > 8:
            refuse(op, name, "real numbers of at most 64 bits", f"dtype {known.dtype}", TypeError)


def integer(op: str, **arrays: Any) -> None:
    """Check that every array holds integers (or bool); None is skipped."""
    for name, array in arrays.items():
        if array is not None and meta(array).kind not in "bui":
            refuse(op, name, "integers", f"dtype {meta(array).dtype}", TypeError)


def matrices(op: str, *, square: bool = False, **arrays: Any) -> tuple[int, int]:
    """Check that all arrays are real ``(..., R, C)`` with the same R and C (R = C if `square`); return (R, C)."""
    required(op, **arrays)
    real(op, **arrays)
    core: tuple[int, int] | None = None
    for name, array in arrays.items():
        shape = meta(array).shape
        if len(shape) < 2:
            refuse(op, name, "of shape (..., C, C)" if square else "of shape (..., R, C)", f"shape {shape}")
        if square and shape[-2] != shape[-1]:
            refuse(op, name, "square, of shape (..., C, C)", f"shape {shape}")
        if core is not None and shape[-2:] != core:
            first = next(iter(arrays))
            refuse(op, name, f"matrices of shape {core} as {first}", f"shape {shape}")
        core = (shape[-2], shape[-1])
    if core is None:
        raise AssertionError  # a public function calls this with at least one array
    return core


def vectors(op: str, name: str, array: Any, length: int) -> tuple[int, ...]:
    """Check that `array` is real ``(..., length)``; return its batch shape."""
    real(op, **{name: array})
    shape = meta(array).shape
    if not shape or shape[-1] != length:
        refuse(op, name, f"of shape (..., {length})", f"shape {shape}")
    return shape[:-1]


def points(op: str, **arrays: Any) -> tuple[int, int]:
    """Check that the one array is a real table of points, shape (N, m) with m at least 1; return (N, m)."""
    real(op, **arrays)
    ((name, array),) = arrays.items()
    shape = meta(array).shape
    if len(shape) != 2 or shape[1] == 0:
        refuse(op, name, "of shape (N, m) with at least one column", f"shape {shape}")
    return shape[0], shape[1]


def per_point(op: str, n: int, **arrays: Any) -> None:
    """Check that every array has one entry per point; None is skipped."""
    for name, array in arrays.items():
        if array is not None and meta(array).shape != (n,):
            refuse(op, name, f"of shape ({n},), one entry per point", f"shape {meta(array).shape}")


def batch(op: str, **shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Check that the batch shapes broadcast; return the shape they broadcast to."""
    first, *others = shapes.values()
    if all(shape == first for shape in others):
        return first
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError:
        what = ", ".join(f"{name}: {shape}" for name, shape in shapes.items())
        msg = f"{op}: batch shapes do not broadcast, got {what}"
        raise ValueError(msg) from None


def same_shape(op: str, **arrays: Any) -> tuple[int, ...]:
    """Check that all arrays have one shape; None is skipped. Return it."""
    shapes = {name: meta(array).shape for name, array in arrays.items() if array is not None}
    if len(set(shapes.values())) > 1:
        what = ", ".join(f"{name}: {shape}" for name, shape in shapes.items())
        msg = f"{op}: arrays must have one shape, got {what}"
        raise ValueError(msg)
    return next(iter(shapes.values()))


def choice(op: str, name: str, value: object, allowed: Iterable[str]) -> None:
    """Check that `value` is one of the names in `allowed`."""
    names = tuple(allowed)
    if isinstance(value, str) and value in names:
        return
    if not isinstance(value, str):
        refuse(op, name, f"one of {', '.join(map(repr, names))}", type(value).__name__, TypeError)
    refuse(op, name, f"one of {', '.join(map(repr, names))}", repr(value))


def count(op: str, name: str, value: Any, *, least: int = 0) -> int:
    """Return `value` as an int; it must be an integer (no bool, no float) of at least `least`."""
    if isinstance(value, bool | np.bool_):
        refuse(op, name, "an integer", repr(value), TypeError)
    try:
        number = operator.index(value)
    except TypeError:
        refuse(op, name, "an integer", f"{type(value).__name__} {value!r}", TypeError)
    if number < least:
        refuse(op, name, f"at least {least}", number)
    return number


def finite(op: str, name: str, value: Any, *, wanted: str = "finite") -> float:
    """Return `value` as a float; it must be a finite real number."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        refuse(op, name, "a number", f"{type(value).__name__} {value!r}", TypeError)
    try:
        number = float(value)
    except OverflowError:  # an int beyond float64
        number = np.inf
    if not np.isfinite(number):
        refuse(op, name, wanted, value)
    return number


def positive(op: str, name: str, value: Any) -> float:
    """Return `value` as a float; it must be a finite real number above zero."""
    wanted = "finite and above 0"
    number = finite(op, name, value, wanted=wanted)
    if number <= 0:
        refuse(op, name, wanted, value)
    return number


def generator(op: str, rng: Any) -> "np.random.Generator":
    """Return the generator that the option ``rng=`` is or seeds."""
    if isinstance(rng, np.random.Generator):
        return rng
    return np.random.default_rng(count(op, "rng", rng))


def on_failure(op: str, value: object) -> None:
    """Check the option that every function with bad values has."""
    choice(op, "on_failure", value, ON_FAILURE)


def num_threads(op: str, value: Any) -> int | None:
    """Return the option as an int, or None."""
    return None if value is None else count(op, "num_threads", value, least=1)


def progress(op: str, value: Progress) -> None:
    """Check that the option is a bool, None or callable."""
    if not (value is None or isinstance(value, bool) or callable(value)):
        refuse(op, "progress", "True, False, None or a callable (done, total)", type(value).__name__, TypeError)
