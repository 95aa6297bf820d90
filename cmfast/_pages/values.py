"""Format values for pages: numbers, shares in percent, durations, intervals."""

import math

MISSING = "\u2013"  # shown for a missing number


def format_number(value: float, form: str = "z.3f") -> str:
    """Return a number as text; a dash for NaN, and no minus sign for values that round to zero."""
    return MISSING if math.isnan(value) else f"{value:{form}}"


def format_seconds(value: float) -> str:
    """Return a duration in seconds as text."""
    return f"{value:.2f} s" if value < 10 else f"{value:.0f} s"


def format_share(value: float) -> str:
    """Return a share in percent with one decimal; a dash for NaN."""
    return MISSING if math.isnan(value) else f"{100 * value:.1f} %"


def format_interval(low: float, high: float, form: str = ".3f") -> str:
    """Return the ends of an interval as text; a dash if one is NaN."""
    return MISSING if math.isnan(low) or math.isnan(high) else f"{low:{form}} to {high:{form}}"


def format_share_interval(low: float, high: float) -> str:
    """Return the ends of an interval of shares in percent; a dash if one is NaN."""
    return MISSING if math.isnan(low) or math.isnan(high) else f"{100 * low:.1f} to {100 * high:.1f} %"
