"""Parse option values; errors say what the value must be."""

import argparse
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar, cast, get_args

import numpy as np

from cmfast._core.annotations import SYNONYMS, Policy, Undefined

POLICIES = get_args(Policy)
ValueT = TypeVar("ValueT")


def positive_number(text: str) -> float:
    """Parse a finite number above zero."""
    return _parse(text, float, _is_positive, "a number above 0")


def importances(text: str) -> list[float]:
    """Parse numbers above zero, or inf, separated by commas."""
    wanted = "a number above 0 or inf, or some between commas"
    return [_parse(part, float, lambda value: value > 0, wanted) for part in text.split(",")]


def share(text: str) -> float:
    """Parse a number between 0 and 1, exclusive."""
    return _parse(text, float, lambda value: 0 < value < 1, "a number between 0 and 1")


def whole_number(text: str) -> int:
    """Parse an integer of at least 0."""
    return _parse(text, int, lambda value: value >= 0, "an integer of at least 0")


def natural_number(text: str) -> int:
    """Parse an integer of at least 1."""
    return _parse(text, int, lambda value: value >= 1, "an integer of at least 1")


def replicates(text: str) -> int:
    """Parse an integer of at least 2."""
    return _parse(text, natural_number, lambda value: value >= 2, "at least 2")


def components(text: str) -> int | None:
    """Parse an integer of at least 1, or "none"."""
    return None if text == "none" else natural_number(text)


def smoothing(text: str) -> float | str:
    """Parse a finite number above zero, or "pseudo-bayes"."""
    if text == "pseudo-bayes":
        return text
    value: float = _parse(text, float, _is_positive, "a number above 0 or pseudo-bayes")
    return value


def normalization(text: str) -> str:
    """Return the name of a normalisation for its synonym: row for true, col for pred."""
    return SYNONYMS.get(text, text)


def policy(text: str) -> Undefined:
    """Parse a policy for 0/0: a name, or a number from 0 to 1."""
    if text in POLICIES:
        return cast(Undefined, text)
    wanted = f"a number from 0 to 1, or one of {', '.join(POLICIES)}"
    value: float = _parse(text, float, lambda value: 0 <= value <= 1, wanted)
    return value


def _parse(text: str, read: Callable[[str], ValueT], fits: Callable[[ValueT], bool], wanted: str) -> ValueT:
    """Parse a value by `read` and check it by `fits`; raise ArgumentTypeError with `wanted` otherwise."""
    with suppress(ValueError):
        value = read(text)
        if fits(value):
            return value
    msg = f"must be {wanted}, got {text!r}"
    raise argparse.ArgumentTypeError(msg)


def _is_positive(value: float) -> bool:
    """Whether a number is finite and above 0."""
    return bool(np.isfinite(value) and value > 0)
