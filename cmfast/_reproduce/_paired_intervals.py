"""Student's intervals of paired differences over repetitions, and verdicts on claims from them.

A verdict is "holds" or "fails" only if the whole interval is on one side; otherwise it is "undecided". Absence of a
significant difference does not prove equality: an equivalence margin, fixed before the run, defines "no difference".
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import t

HIGHER, LOWER, OPEN = "higher", "lower", "open"
FAILS, HOLDS, UNDECIDED = WORDS = ("fails", "holds", "undecided")
CLAIM_LEVEL = 0.95  # simultaneous level of the intervals of one claim


def compute_interval(differences: np.ndarray, level: float) -> dict[str, Any]:
    """Return the mean of paired differences with Student's interval, and the side of zero that contains all of it.

    Undefined differences (NaN) are left out; without any difference the interval is unbounded.
    """
    differences = np.asarray(differences, float)
    differences = differences[~np.isnan(differences)]
    n = len(differences)
    if not n:
        return {"mean": np.nan, "low": -np.inf, "high": np.inf, "side": OPEN, "error": np.inf, "repeats": 0}
    # One repetition gives no variance.
    error = float(differences.std(ddof=1) / np.sqrt(n)) if n > 1 else np.inf
    return _compute_ends(float(differences.mean()), error, n, level)


def _compute_ends(mean: float, error: float, n: int, level: float) -> dict[str, Any]:
    """Return Student's interval of the mean of `n` repetitions with standard error `error`, and its side of zero."""
    half = float(t.ppf((1 + level) / 2, n - 1)) * error if n > 1 else np.inf
    low, high = mean - half, mean + half
    side = HIGHER if low > 0 else LOWER if high < 0 else OPEN
    return {"mean": mean, "low": low, "high": high, "side": side, "error": error, "repeats": n}


def widen_to_simultaneous(found: Mapping[str, Mapping[str, Any]], level: float) -> dict[str, dict[str, Any]]:
    """Widen intervals so that all of them cover simultaneously with probability `level` (Bonferroni).

    Each interval gets an equal share of the allowed error.
    """
    each = 1 - (1 - level) / max(1, len(found))
    return {
        name: {**one, **_compute_ends(one["mean"], one["error"], one["repeats"], each)} if one["repeats"] else dict(one)
        for name, one in found.items()
    }


def judge_above(found: Mapping[str, Any], margin: float = 0.0) -> str:
    """Return the verdict on "the mean is above zero": fails if even the upper end is below `margin`.

    `margin` is the smallest difference that matters; zero if any does.
    """
    if found["high"] < margin:
        return FAILS
    return HOLDS if found["low"] > 0 else UNDECIDED


def judge_between(found: Mapping[str, Any], least: float = -np.inf, most: float = np.inf) -> str:
    """Return the verdict on "the mean is between `least` and `most`"; for equivalence pass -margin and margin."""
    if found["low"] > most or found["high"] < least:
        return FAILS
    return HOLDS if found["low"] >= least and found["high"] <= most else UNDECIDED


def judge_all(verdicts: Sequence[str]) -> str:
    """Return the verdict on several statements together: fails if any fails, holds if all hold."""
    return FAILS if FAILS in verdicts else HOLDS if set(verdicts) <= {HOLDS} else UNDECIDED


def combine_verdicts(verdicts: Mapping[str, str]) -> str:
    """Combine the verdicts of several places into one, such as "fails where b, holds elsewhere".

    The largest group of places comes last, as "elsewhere".
    """
    places = {word: [name for name, verdict in verdicts.items() if verdict == word] for word in WORDS}
    there = {word: names for word, names in places.items() if names}
    if len(there) == 1:
        return next(iter(there))
    most = max(there, key=lambda word: len(there[word]))
    parts = [f"{word} where {_list_places(names)}" for word, names in there.items() if word != most]
    return f"{', '.join(parts)}, {most} elsewhere"


def _list_places(names: Sequence[str]) -> str:
    """Return places as text, such as "digits at 10 and 3, photo at 1"."""
    grouped: dict[str, list[str]] = {}
    for name in names:
        data, joint, rest = re.fullmatch(r"(.+?)(?:( at | by | is )(.+))?", name).groups(default="")  # type: ignore[union-attr]
        grouped.setdefault(data + joint, []).append(rest)
    return "; ".join(data + _join_words(rests) for data, rests in grouped.items())


def _join_words(words: Sequence[str]) -> str:
    """Join words by commas and "and"."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def format_interval_of_mean(found: Mapping[str, Any]) -> str:
    """Return the mean of paired differences with its interval in brackets."""
    return f"{found['mean']:+.3f} ({found['low']:+.3f} to {found['high']:+.3f})"


def negate_interval(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the interval of the negated differences."""
    side = {HIGHER: LOWER, LOWER: HIGHER}.get(found["side"], found["side"])
    return {**found, "mean": -found["mean"], "low": -found["high"], "high": -found["low"], "side": side}


def compare_with_best(
    values: Mapping[str, np.ndarray], name: str, level: float, *, largest: bool = True
) -> dict[str, Any]:
    """Compare one method with the best of the others: positive differences favour `name`.

    The rival has the best mean, which is conservative for `name` if several are equally good.
    """
    sign = 1.0 if largest else -1.0
    rival = max((other for other in values if other != name), key=lambda other: sign * float(values[other].mean()))
    return {"rival": rival, **compute_interval(sign * (values[name] - values[rival]), level)}


def summarize_methods(values: Mapping[str, np.ndarray], *, largest: bool = True) -> dict[str, Any]:
    """Return mean, standard deviation, all values, and the number of wins of each method."""
    table = np.stack(list(values.values()))
    winner = table.argmax(axis=0) if largest else table.argmin(axis=0)
    return {
        name: {"mean": v.mean(), "sd": v.std(), "best_in": int((winner == k).sum()), "every": v}
        for k, (name, v) in enumerate(values.items())
    }
