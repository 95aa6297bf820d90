"""Paired differences over repetitions: Student's interval of the mean, and the verdict that follows from it.

A verdict is "holds" or "fails" only where the whole interval lies on one side; a difference that was not shown is
"undecided", never "fails", and one that was not found is no proof that there is none. What counts as no difference is
an equivalence margin, fixed before the run.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import t

HIGHER, LOWER, OPEN = "higher", "lower", "open"
FAILS, HOLDS, UNDECIDED = WORDS = ("fails", "holds", "undecided")
CLAIM_LEVEL = 0.95  # of the intervals of one claim together


def interval(differences: np.ndarray, level: float) -> dict[str, Any]:
    """Return the mean of paired differences with Student's interval, and on which side of zero all of it lies.

    A repetition whose difference is not defined (NaN) is left out; of none the interval is the whole line.
    """
    differences = np.asarray(differences, float)
    differences = differences[~np.isnan(differences)]
    n = len(differences)
    if not n:
        return {"mean": np.nan, "low": -np.inf, "high": np.inf, "side": OPEN, "error": np.inf, "repeats": 0}
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
    return {
        name: {**one, **_around(one["mean"], one["error"], one["repeats"], each)} if one["repeats"] else dict(one)
        for name, one in found.items()
    }


def judge_above(found: Mapping[str, Any], margin: float = 0.0) -> str:
    """Return the verdict on "the mean is above zero": fails where even the upper end is below the `margin`.

    `margin` is the smallest difference that would matter; zero where any would.
    """
    if found["high"] < margin:
        return FAILS
    return HOLDS if found["low"] > 0 else UNDECIDED


def judge_between(found: Mapping[str, Any], least: float = -np.inf, most: float = np.inf) -> str:
    """Return the verdict on "the mean lies from `least` to `most`": of an equivalence these are -margin and margin."""
    if found["low"] > most or found["high"] < least:
        return FAILS
    return HOLDS if found["low"] >= least and found["high"] <= most else UNDECIDED


def judge_all(verdicts: Sequence[str]) -> str:
    """Return the verdict on several statements at once: fails if any does, holds if all do."""
    return FAILS if FAILS in verdicts else HOLDS if set(verdicts) <= {HOLDS} else UNDECIDED


def combine(verdicts: Mapping[str, str]) -> str:
    """Return one verdict of those of several places: "fails where b, holds elsewhere".

    The largest group of places is last, and called the others.
    """
    places = {word: [name for name, verdict in verdicts.items() if verdict == word] for word in WORDS}
    there = {word: names for word, names in places.items() if names}
    if len(there) == 1:
        return next(iter(there))
    most = max(there, key=lambda word: len(there[word]))
    parts = [f"{word} where {_listed(names)}" for word, names in there.items() if word != most]
    return f"{', '.join(parts)}, {most} elsewhere"


def _listed(names: Sequence[str]) -> str:
    """Return places in words: "digits at 10 and 3, photo at 1"."""
    grouped: dict[str, list[str]] = {}
    for name in names:
        data, joint, rest = re.fullmatch(r"(.+?)(?:( at | by | is )(.+))?", name).groups(default="")  # type: ignore[union-attr]
        grouped.setdefault(data + joint, []).append(rest)
    return "; ".join(data + _and(rests) for data, rests in grouped.items())


def _and(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def write(found: Mapping[str, Any]) -> str:
    """Return the mean of paired differences with its interval in brackets."""
    return f"{found['mean']:+.3f} ({found['low']:+.3f} to {found['high']:+.3f})"


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
