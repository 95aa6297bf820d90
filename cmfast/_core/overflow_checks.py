"""Sum int64 counts without integer overflow: every class of counts adds and checks its counts here.

Counts are int64 and at least 0, in any library. A sum of two therefore overflows exactly where it is negative; longer
sums add the upper and the lower 32 bits separately.
"""

from math import prod
from typing import Any

import numpy as np

from cmfast._core import dispatch, validate
from cmfast._core.adapters import adapter
from cmfast.kernels.shared import halves

MOST_SAMPLES = 2**61 - 1  # largest total of counts that are multiplied or weighted, which needs two more bits


def sum_counts(x: Any) -> int:
    """Return the exact sum of int64 counts as a Python int; synchronises the device."""
    size = prod(dispatch.shape_of(x))
    if not size:
        return 0
    if halves.fits(*adapter(x).extent(x), size):
        return int(adapter(x).evaluate(lambda x: x.sum(), x))
    high, low = adapter(x).evaluate(_sum_halves, x)
    return int((high << halves.BITS) + low)


def _sum_halves(x: Any) -> tuple[int, int]:
    """Return the sum of the upper and the sum of the lower 32-bit halves of int64 integers."""
    return int((x >> halves.BITS).sum()), int((x & (2**halves.BITS - 1)).sum())


def add_counts(name: str, a: Any, b: Any, most: int = validate.LARGEST_INT64) -> Any:
    """Return ``a + b`` of int64 counts; raise OverflowError where a sum exceeds `most`. Synchronises the device."""
    out = adapter(a).evaluate(lambda a, b: a + b, a, b)
    size = prod(dispatch.shape_of(out))
    low, high = adapter(out).extent(out) if size else (0, 0)
    if low < 0 or high > most:  # a sum of two counts that overflows int64 is negative
        numbers = [adapter(x).to_host(x).astype(object) for x in (a, b)]
        exact = np.asarray(numbers[0] + numbers[1])
        if exact.max() > most:
            _refuse_large(name, exact, most)
        _refuse_negative(name, exact)
    return out


def sum_counts_along(name: str, x: Any, axis: int, most: int = validate.LARGEST_INT64) -> Any:
    """Sum int64 counts along an axis; raise OverflowError where a sum exceeds `most`. Synchronises the device."""
    n = dispatch.shape_of(x)[axis]
    largest = adapter(x).extent(x)[1] if prod(dispatch.shape_of(x)) else 0
    if largest * n > most:
        exact = np.asarray(adapter(x).to_host(x).astype(object).sum(axis))
        if exact.max() > most:
            _refuse_large(name, exact, most)
    return adapter(x).evaluate(lambda x: x.sum(axis), x)


def check_counts(name: str, x: Any, most: int = validate.LARGEST_INT64) -> None:
    """Raise ValueError for negative int64 counts, OverflowError for counts above `most`; synchronises the device."""
    if not prod(dispatch.shape_of(x)):
        return
    low, high = adapter(x).extent(x)
    if low < 0:
        _refuse_negative(name, adapter(x).to_host(x))
    if high > most:
        _refuse_large(name, adapter(x).to_host(x), most)


def check_total(name: str, x: Any, *, most: int = validate.LARGEST_INT64) -> int:
    """Return the sum of int64 counts; raise if one is negative or the sum exceeds `most`. Synchronises the device."""
    check_counts(name, x)
    found = sum_counts(x)
    if found > most:
        host = adapter(x).to_host(x)
        given = f"{found:,}, {host.max():,} of them{_where(host.argmax(), host.shape) or ' in one count'}"
        validate.refuse(name, f"counts of at most {_power(most)} samples in all", given, OverflowError)
    return found


def _refuse_negative(name: str, exact: Any) -> None:
    """Raise ValueError that names the smallest count and its index."""
    given = f"{int(exact.min()):,}{_where(exact.argmin(), exact.shape)}"
    validate.refuse(name, "at least 0, as counts are", given)


def _refuse_large(name: str, exact: Any, most: int) -> None:
    """Raise OverflowError that names the largest count and its index."""
    given = f"{int(exact.max()):,}{_where(exact.argmax(), exact.shape)}"
    validate.refuse(name, f"at most {_power(most)} in each cell", given, OverflowError)


def _power(most: int) -> str:
    """Format `most` as "2**k - 1"."""
    return f"2**{(most + 1).bit_length() - 1} - 1"


def _where(place: Any, shape: tuple[int, ...]) -> str:
    """Return " at <index>" for a flat index into `shape`; "" for a scalar."""
    index = tuple(int(k) for k in np.unravel_index(int(place), shape))
    return "" if not index else f" at {index[0] if len(index) == 1 else index}"
