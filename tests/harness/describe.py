"""One line of text for a failing assertion: what was called, on what, what came and what was expected.

Imports nothing but NumPy, so that any test can use it. Everything here runs only where an assertion has already failed.
"""

import linecache
from dataclasses import fields, is_dataclass
from types import FrameType
from typing import Any

import numpy as np

MOST_LETTERS = 60  # of one argument
MOST_STATEMENT = 160


def shorten(text: str, most: int = MOST_LETTERS) -> str:
    """Return `text` on one line, cut to `most` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 3]}..."


def describe_value(value: Any) -> str:
    """Return the type and shape of an array, and any other value as Python writes it."""
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        dtype = str(value.dtype).removeprefix("torch.")
        library = type(value).__module__.partition(".")[0]
        return f"{'' if library == 'numpy' else f'{library} '}{dtype} {tuple(value.shape)}"
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return f"({', '.join(map(describe_value, value))}{',' * (len(value) == 1)})"
    try:
        return shorten(repr(value))
    except ValueError:  # an integer of thousands of digits
        return f"an integer of {value.bit_length()} bits"


def describe_call(name: str, args: tuple[Any, ...], options: dict[str, Any], how: object = "") -> str:
    """Return a call as text: ``ipf(float64 (3, 10, 10), tol=1e-09) as strided``."""
    given = [*map(describe_value, args), *(f"{key}={describe_value(value)}" for key, value in options.items())]
    return f"{name}({', '.join(given)})" + (f" as {how}" if str(how) else "")


def name_parts(result: Any, parts: tuple[Any, ...]) -> list[str]:
    """Return a name for each array in `parts`: the field or key of `result` that holds it, otherwise its number."""
    if hasattr(result, "_asdict"):
        named = result._asdict()
    elif isinstance(result, dict):
        named = result
    elif is_dataclass(result):
        named = {each.name: getattr(result, each.name, None) for each in fields(result)}
    else:
        named = {}
    flat: dict[int, str] = {}
    for name, value in named.items():
        for k, item in enumerate(value) if isinstance(value, tuple | list) else [(None, value)]:
            flat.setdefault(id(item), f"{name!r}" if k is None else f"{name!r} [{k}]")
    several = len(parts) > 1
    return [f"part {flat.get(id(part), k + 1)}" if several else "" for k, part in enumerate(parts)]


def find_differences(got: np.ndarray, want: np.ndarray, rtol: float = 0.0, atol: float = 0.0) -> np.ndarray:
    """Return where two arrays of one shape differ by more than the tolerance; NaN equals NaN."""
    if want.dtype.kind in "fc" and got.dtype.kind in "fciub":
        with np.errstate(all="ignore"):
            return ~np.isclose(got, want, rtol=rtol, atol=atol, equal_nan=True)
    different: np.ndarray = np.asarray(got != want)
    return different


def describe_difference(
    got: np.ndarray, want: np.ndarray, different: np.ndarray, expected: str = "expected", bound: str = ""
) -> str:
    """Return the index of the first True in `different`, both values there, and how many there are."""
    index = tuple(int(k) for k in np.argwhere(different)[0])
    one, other = str(got[index]), str(want[index])
    if one == other:  # a zero with the other sign, a NaN with other bits
        one, other = (f"{a} ({np.asarray(a[index]).tobytes().hex()})" for a in (got, want))
    where = f"{list(index)}: " if index else ""
    many = f" ({int(different.sum())} of {different.size} differ)" if different.size > 1 else ""
    return f"{where}got {one}, {expected} {other}{bound}{many}"


def describe_statement(frame: FrameType, last_instruction: int | None = None) -> str:
    """Return the source of the expression that a frame is evaluating, on one line."""
    at = frame.f_lasti if last_instruction is None else last_instruction
    first, last, begin, end = list(frame.f_code.co_positions())[at // 2]
    lines = linecache.getlines(frame.f_code.co_filename)
    if None in (first, last, begin, end) or not lines:
        return frame.f_code.co_name
    found = lines[first - 1 : last]
    found[-1] = found[-1].encode()[:end].decode(errors="ignore")
    found[0] = found[0].encode()[begin:].decode(errors="ignore")
    return shorten("".join(found), MOST_STATEMENT)
