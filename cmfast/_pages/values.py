"""Values as pages write them: numbers, shares in percent, and the ends of intervals."""

import math

NOTHING = "\u2013"  # in place of a number that is not there


def number(value: float, form: str = "z.3f") -> str:
    """Return a number; a dash where there is none, and nothing below zero that is written as zero."""
    return NOTHING if math.isnan(value) else f"{value:{form}}"


def seconds(value: float) -> str:
    """Return a duration for people."""
    return f"{value:.2f} s" if value < 10 else f"{value:.0f} s"


def share(value: float) -> str:
    """Return a share as a number of percent with one decimal."""
    return NOTHING if math.isnan(value) else f"{100 * value:.1f} %"


def between(low: float, high: float, form: str = ".3f") -> str:
    """Return the ends of an interval."""
    return NOTHING if math.isnan(low) or math.isnan(high) else f"{low:{form}} to {high:{form}}"


def shares_between(low: float, high: float) -> str:
    """Return the ends of an interval of shares in percent."""
    return NOTHING if math.isnan(low) or math.isnan(high) else f"{100 * low:.1f} to {100 * high:.1f} %"
