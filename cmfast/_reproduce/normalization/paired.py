"""Differences of measures over the repetitions: the mean with an interval, and what may be said of it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.stats import t

HIGHER, LOWER, OPEN = "higher", "lower", "open"


def interval(differences: np.ndarray, level: float) -> dict[str, Any]:
    """Return the mean of paired differences with Student's interval, and on which side of zero all of it lies."""
    n = len(differences)
    # From one repetition nothing can be said about the next.
    error = float(differences.std(ddof=1) / np.sqrt(n)) if n > 1 else np.inf
    return _around(float(differences.mean()), error, n, level)


def _around(mean: float, error: float, n: int, level: float) -> dict[str, Any]:
    half = float(t.ppf((1 + level) / 2, n - 1)) * error if n > 1 else np.inf
    low, high = mean - half, mean + half
    side = HIGHER if low > 0 else LOWER if high < 0 else OPEN
    return {"mean": mean, "low": low, "high": high, "side": side, "error": error, "repeats": n}


def together(found: Mapping[str, Mapping[str, Any]], level: float) -> dict[str, dict[str, Any]]:
    """Return intervals so much wider that all of them hold what they estimate with the probability `level`.

    Of twenty intervals of 95 % one misses; so each gets its part of what may be missed (Bonferroni).
    """
    each = 1 - (1 - level) / max(1, len(found))
    return {name: {**one, **_around(one["mean"], one["error"], one["repeats"], each)} for name, one in found.items()}


def turned(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return an interval of the opposite differences."""
    side = {HIGHER: LOWER, LOWER: HIGHER}.get(found["side"], found["side"])
    return {**found, "mean": -found["mean"], "low": -found["high"], "high": -found["low"], "side": side}


def against_best(values: Mapping[str, np.ndarray], name: str, level: float, *, largest: bool = True) -> dict[str, Any]:
    """Compare one of several measures with the best of the others: positive where `name` is better.

    The rival is the one with the best mean, so where several are as good the comparison is hard on `name`.
    """
    sign = 1.0 if largest else -1.0
    rival = max((other for other in values if other != name), key=lambda other: sign * float(values[other].mean()))
    return {"rival": rival, **interval(sign * (values[name] - values[rival]), level)}


def spread(values: Mapping[str, np.ndarray], *, largest: bool = True) -> dict[str, Any]:
    """Return, per method: mean, standard deviation, every value, and in how many repetitions it was best."""
    table = np.stack(list(values.values()))
    winner = table.argmax(axis=0) if largest else table.argmin(axis=0)
    return {
        name: {"mean": v.mean(), "sd": v.std(), "best_in": int((winner == k).sum()), "every": v}
        for k, (name, v) in enumerate(values.items())
    }
