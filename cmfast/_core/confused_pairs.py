"""Which confusions stand out, and whose directions differ: said only where chance does not explain it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cmfast._core.p_values import binomial_test, holm

USUAL_LEVEL = 0.95  # of texts that nobody asked for a level
STATEMENTS = 4  # the first pair; the first few, and all ranks by count; directions; ranks when balanced
MOST_LEADING_PAIRS = 8  # pairs that are said to stand out together
LARGEST_DIRECTION = 2.0**61  # count of a direction: two add up to what int64 holds


class Pairs(NamedTuple):
    """Pairs of classes that were confused at all, those of most samples first; ``first < second``."""

    first: np.ndarray
    second: np.ndarray
    forth: np.ndarray
    """Samples of the first class that were taken for the second."""
    back: np.ndarray
    n_pairs: int
    """Of all classes, with those that were never confused."""


class PairTests(NamedTuple):
    """What can be said of pairs beyond chance."""

    leading: int
    """How many of the first stand out from all others; 0 where none does."""
    told: np.ndarray
    """Whether the two directions of a pair differ."""
    ranks: np.ndarray
    """Shape (pairs, 2): the least and the largest rank that counts allow."""


def list_pairs(rows: np.ndarray, cols: np.ndarray, counts: np.ndarray, n_classes: int) -> Pairs:
    """Return the pairs of the cells that hold something; those of the diagonal are left out."""
    if counts.dtype.kind == "f":  # sums of weights, of which whole samples are taken, and no more than fit
        counts = np.clip(np.nan_to_num(counts, nan=0.0), 0.0, LARGEST_DIRECTION)
    off = (rows != cols) & (counts != 0)
    rows, cols, counts = (part[off].astype(np.int64) for part in (rows, cols, counts))
    keys, place = np.unique(np.minimum(rows, cols) * n_classes + np.maximum(rows, cols), return_inverse=True)
    forth, back = np.zeros((2, len(keys)), np.int64)
    up = rows < cols
    forth[place[up]], back[place[~up]] = counts[up], counts[~up]
    order = np.argsort(-(forth + back), kind="stable")
    first, second = np.divmod(keys[order], max(n_classes, 1))
    return Pairs(first, second, forth[order], back[order], n_classes * (n_classes - 1) // 2)


def find_distinct_pairs(found: Pairs, level: float = USUAL_LEVEL) -> PairTests:
    """Return what counts of samples support, with a chance of ``1 - level`` at most that any of it is wrong.

    One pair leads where an exact binomial test tells it from the second, which holds for the largest of many without
    a correction (Hung and Fithian, Rank verification for exponential families, 2019). Several lead where simultaneous
    exact intervals (Garwood, 1936) lie apart. Directions: exact binomial tests of all pairs, corrected by Holm.
    """
    n, error = found.forth + found.back, (1.0 - level) / STATEMENTS
    told = holm(np.atleast_1d(binomial_test(found.forth, found.back))) <= error
    low, high = poisson_intervals(n.astype(np.float64), error / (2 * max(found.n_pairs, 1)))
    empty = poisson_intervals(np.zeros(1), error / (2 * max(found.n_pairs, 1)))[1][0]
    ranks = bound_ranks(low, high, found.n_pairs, empty)
    leading = 0
    if len(n) and found.n_pairs > 1:
        after = np.append(n, 0)
        if binomial_test(after[0], after[1]) <= error:
            leading = 1
        else:
            ends = np.append(high, empty)
            full = len(n) == found.n_pairs  # after the last there is nothing to stand out from
            few = range(2, min(MOST_LEADING_PAIRS, len(n) - full) + 1)
            leading = next((g for g in few if low[g - 1] > ends[g]), 0)
    return PairTests(leading, told, ranks)


def bound_ranks(low: np.ndarray, high: np.ndarray, n: int, empty: float) -> np.ndarray:
    """Return the least and largest rank that simultaneous intervals allow; those of `n` not given end at `empty`."""
    above = len(low) - np.searchsorted(np.sort(low), high, side="right")
    below = np.searchsorted(np.sort(high), low, side="left") + np.where(low > empty, n - len(low), 0)
    return np.stack([1 + above, n - below], axis=-1)


def poisson_intervals(n: np.ndarray, tail: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the exact ends of expected counts, each missed with a chance of `tail` at most (Garwood, 1936)."""
    from scipy.special import gammainccinv, gammaincinv

    return np.where(n > 0, gammaincinv(np.maximum(n, 1.0), tail), 0.0), np.asarray(gammainccinv(n + 1.0, tail))


def find_least_recall(right: np.ndarray, of: np.ndarray, level: float = USUAL_LEVEL) -> int | None:
    """Return the class of least recall where its exact interval lies below all others (simultaneous), else None.

    Intervals are those of Clopper and Pearson, 1934, corrected by Bonferroni; classes without a sample are left out.
    """
    from scipy.special import betaincinv

    known = np.flatnonzero(of > 0)
    if len(known) < 2:
        return None
    r, n, tail = right[known].astype(np.float64), of[known].astype(np.float64), (1.0 - level) / (2 * len(known))
    low = np.where(r > 0, betaincinv(np.maximum(r, 0.5), n - r + 1.0, tail), 0.0)
    high = np.where(r < n, betaincinv(r + 1.0, np.maximum(n - r, 0.5), 1.0 - tail), 1.0)
    k = int(high.argmin())
    return int(known[k]) if high[k] < np.delete(low, k).min() else None


def describe_pair(first: object, second: object, forth: int, back: int, *, told: bool) -> str:
    """Name a pair with its samples: its directions where they differ, else both ways together."""
    if not told:
        n = forth + back
        return f"{first} and {second} ({n:,} sample{'s' * (n != 1)}, both ways together)"
    if forth < back:
        first, second, forth, back = second, first, back, forth
    return f"{first} and {second} ({forth:,} samples of {first} taken for {second}, {back:,} the other way round)"


def describe_confusions(M: np.ndarray, labels: Sequence[object], level: float = USUAL_LEVEL) -> str:
    """Say which confusions of a matrix of counts stand out."""
    rows, cols = np.nonzero(M)
    found = list_pairs(rows, cols, M[rows, cols], len(M))
    if not len(found.first):
        return "nothing is confused"
    if not (np.floor(M) == M).all():
        return "which confusions stand out is not said of weights, as it takes counts of samples"
    what = find_distinct_pairs(found, level)
    of = [
        describe_pair(labels[i], labels[j], int(n), int(m), told=bool(told))
        for i, j, n, m, told in zip(*found[:4], what.told, strict=True)
    ][: max(what.leading, 1)]
    if found.n_pairs == 1:
        return f"confused are {of[0]}"
    if not what.leading:
        return "no confusion stands out"
    return (
        f"most often confused are {of[0]}" if what.leading == 1 else f"{len(of)} confusions stand out: {'; '.join(of)}"
    )
