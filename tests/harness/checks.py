"""The one comparison of a result with its oracle: library, dtype, shape, values; and that inputs did not change."""

import sys
from dataclasses import fields
from typing import Any, NoReturn

import numpy as np
from describe import describe_difference, describe_statement, describe_value, find_differences
from optional import torch
from oracle._bounds import Within

from cmfast.kernels.ops import OPS


def library(x: Any) -> str:
    """Return the library of an array or scalar."""
    if isinstance(x, torch.Tensor):
        return "torch" if x.device.type == "cpu" else f"torch-{x.device.type}"
    if isinstance(x, np.ndarray | np.generic):
        return "numpy"
    if hasattr(x, "dtype"):
        return type(x).__module__.partition(".")[0].replace("jaxlib", "jax")  # where its arrays are compiled
    return type(x).__name__


def host(x: Any) -> np.ndarray:
    """Return an ndarray with the values of `x`."""
    if library(x) in ("cuda_host", "cupy"):
        return x.get()
    return x.cpu().numpy() if isinstance(x, torch.Tensor) else np.asarray(x)


def assert_matches(
    op: str,
    got: Any,
    want: np.ndarray | Within,
    *,
    expected_library: str = "numpy",
    rtol: float | None = None,
    what: str | None = None,
    part: str = "",
) -> None:
    """Assert that one array is what the oracle says. The tolerance is the one of the table.

    The message begins with `what`, the call, and with `part`, the name of this array in its result.
    """
    what = f"{op if what is None else what}:{' ' * bool(part)}{part}"
    of = f"{what}:" if part else what
    bounds, want = (want, want.low) if isinstance(want, Within) else (None, want)
    if library(got) != expected_library:
        fail(f"{of} got library {library(got)}, expected {expected_library}")
    got = host(got)
    if got.dtype != want.dtype:
        fail(f"{of} got dtype {got.dtype}, expected {want.dtype}")
    if got.shape != want.shape:
        fail(f"{of} got shape {got.shape}, expected {want.shape}")
    if bounds is not None:
        outside = ~((got >= bounds.low) & (got <= bounds.high)) & ~(np.isnan(got) & np.isnan(bounds.low))
        if outside.any():
            index = tuple(np.argwhere(outside)[0])
            fail(
                f"{what} {describe_difference(got, bounds.low, outside, 'expected from', f' to {bounds.high[index]}')}"
            )
        return
    exact = want.dtype.kind in "biuSU"
    if rtol is None and not exact:
        rtol = OPS[op].rtol[0] if want.dtype == np.float32 else OPS[op].rtol[1]
    different = find_differences(got, want) if exact else find_differences(got, want, rtol, rtol * 1e-3)
    if different.any():
        fail(f"{what} {describe_difference(got, want, different, bound='' if exact else f' within rtol {rtol:g}')}")


def fail(text: str) -> NoReturn:
    """Raise an AssertionError whose first line is `text`; pytest would put its own words after an assert's."""
    __tracebackhide__ = True
    raise AssertionError(text)


def assert_same_bits(first: Any, second: Any, *, what: str | None = None) -> None:
    """Assert that two results (arrays, scalars, or tuples of them) have the same type, shape and bits.

    `what` begins the message, with `first` as what came and `second` as what was expected; without it the message
    begins with the statement of the caller, as either may be either.
    """
    found = _bit_difference(first, second, "")
    if found is None:
        return
    if what is None:
        what = describe_statement(sys._getframe(1))
    fail(f"{what}: {found}")


def _bit_difference(first: Any, second: Any, where: str) -> str | None:
    """Return how two results differ, or None."""
    if isinstance(first, tuple):
        if not isinstance(second, tuple) or len(first) != len(second):
            one, other = (f"{len(x)} parts" if isinstance(x, tuple) else describe_value(x) for x in (first, second))
            return f"{where}got {one}, expected {other}"
        found = (
            _bit_difference(a, b, f"{where}part {k + 1} ") for k, (a, b) in enumerate(zip(first, second, strict=True))
        )
        return next((each for each in found if each is not None), None)
    if type(first) is not type(second):
        one, other = (f"{type(x).__module__}.{type(x).__qualname__}" for x in (first, second))
        return f"{where}got {one}, expected {other}"
    a, b = host(first), host(second)
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return f"{where}got {describe_value(a)}, expected {describe_value(b)}"
    if a.tobytes() == b.tobytes():
        return None
    if a.dtype.hasobject:
        return f"{where}other objects in {describe_value(a)}"
    size = a.dtype.itemsize
    one, other = (np.ascontiguousarray(x).reshape(-1).view(np.uint8).reshape(*x.shape, size) for x in (a, b))
    return f"{where}{describe_difference(a, b, (one != other).any(-1))}"


def assert_same_fields(found: Any, want: Any) -> None:
    """Compare two results of one dataclass of numbers and arrays, or tuples of them, bit by bit."""
    assert type(found) is type(want)
    for each in fields(want):
        one, other = getattr(found, each.name), getattr(want, each.name)
        for a, b in zip(one, other, strict=True) if isinstance(other, tuple) else [(one, other)]:
            what = f"{type(want).__name__}.{each.name} in {describe_statement(sys._getframe(1))}"
            assert_same_bits(np.asarray(a), np.asarray(b), what=what)
