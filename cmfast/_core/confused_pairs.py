"""Rank confused pairs of classes and test which stand out: only differences beyond chance are reported."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cmfast._core.p_values import binomial_test, holm

USUAL_LEVEL = 0.95  # confidence level of texts without a requested level
STATEMENTS = 4  # tests that share the error: leading pair; leading group and ranks; directions; balanced ranks
MOST_LEADING_PAIRS = 8  # largest group of leading pairs
LARGEST_DIRECTION = 2.0**61  # largest count of one direction, so that two of them fit in int64


class Pairs(NamedTuple):
    """Confused pairs of classes, those with most samples first; ``first < second``."""

    first: np.ndarray
    second: np.ndarray
    forth: np.ndarray
    """Samples of the first class that were predicted as the second."""
    back: np.ndarray
    """Samples of the second class that were predicted as the first."""
    n_pairs: int
    """Number of all pairs of classes, including those never confused."""


class PairTests(NamedTuple):
    """Results of the significance tests on confused pairs."""

    leading: int
    """How many of the first pairs exceed all others significantly; 0 for none."""
    told: np.ndarray
    """Whether the two directions of a pair differ significantly."""
    ranks: np.ndarray
    """Shape (pairs, 2): smallest and largest rank compatible with the simultaneous intervals."""


def list_pairs(rows: np.ndarray, cols: np.ndarray, counts: np.ndarray, n_classes: int) -> Pairs:
    """Sum nonzero cells into unordered pairs of classes, largest first; diagonal cells are left out."""
    if counts.dtype.kind == "f":  # sums of weights: truncated to whole samples and clipped to LARGEST_DIRECTION
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


def find_distinct_pairs(found: Pairs, confidence_level: float = USUAL_LEVEL) -> PairTests:
    """Test which confused pairs lead, which directions differ and which ranks are possible, at a confidence level.

    One pair leads if an exact binomial test separates it from the second, which needs no correction for the largest of
    many
    (Hung and Fithian, Rank verification for exponential families, 2019). Several lead if simultaneous exact Poisson
    intervals (Garwood, 1936) are disjoint. Directions: exact binomial tests of all pairs, corrected by Holm.
    """
    n, error = found.forth + found.back, (1.0 - confidence_level) / STATEMENTS
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
            full = len(n) == found.n_pairs  # all pairs occur: the last one has no successor to exceed
            few = range(2, min(MOST_LEADING_PAIRS, len(n) - full) + 1)
            leading = next((g for g in few if low[g - 1] > ends[g]), 0)
    return PairTests(leading, told, ranks)


def bound_ranks(low: np.ndarray, high: np.ndarray, n: int, empty: float) -> np.ndarray:
    """Return smallest and largest rank by simultaneous intervals; unlisted pairs (`n` in all) end at `empty`."""
    above = len(low) - np.searchsorted(np.sort(low), high, side="right")
    below = np.searchsorted(np.sort(high), low, side="left") + np.where(low > empty, n - len(low), 0)
    return np.stack([1 + above, n - below], axis=-1)


def poisson_intervals(n: np.ndarray, tail: float) -> tuple[np.ndarray, np.ndarray]:
    """Return exact Poisson intervals (Garwood, 1936) of counts `n`, with error at most `tail` on each side."""
    from scipy.special import gammainccinv, gammaincinv

    return np.where(n > 0, gammaincinv(np.maximum(n, 1.0), tail), 0.0), np.asarray(gammainccinv(n + 1.0, tail))


def find_least_recall(right: np.ndarray, of: np.ndarray, confidence_level: float = USUAL_LEVEL) -> int | None:
    """Return the class whose recall is significantly below all others; None if no recall is.

    Simultaneous Clopper-Pearson intervals (1934) with Bonferroni's correction; classes without samples are left out.
    """
    from scipy.special import betaincinv

    known = np.flatnonzero(of > 0)
    if len(known) < 2:
        return None
    r, n, tail = (
        right[known].astype(np.float64),
        of[known].astype(np.float64),
        (1.0 - confidence_level) / (2 * len(known)),
    )
    low = np.where(r > 0, betaincinv(np.maximum(r, 0.5), n - r + 1.0, tail), 0.0)
    high = np.where(r < n, betaincinv(r + 1.0, np.maximum(n - r, 0.5), 1.0 - tail), 1.0)
    k = int(high.argmin())
    return int(known[k]) if high[k] < np.delete(low, k).min() else None


def describe_pair(first: object, second: object, forth: int, back: int, *, told: bool) -> str:
    """Describe a pair and its sample counts: per direction if the directions differ (`told`), else their sum."""
    if not told:
        n = forth + back
        return f"{first} and {second} ({n:,} sample{'s' * (n != 1)}, both ways together)"
    if forth < back:
        first, second, forth, back = second, first, back, forth
    return f"{first} and {second} ({forth:,} samples of {first} taken for {second}, {back:,} the other way round)"


def describe_confusions(M: np.ndarray, labels: Sequence[object], confidence_level: float = USUAL_LEVEL) -> str:
    """Return a sentence on which confusions of a matrix of counts stand out significantly."""
    rows, cols = np.nonzero(M)
    found = list_pairs(rows, cols, M[rows, cols], len(M))
    if not len(found.first):
        return "nothing is confused"
    if not (np.floor(M) == M).all():
        return "confusions of weighted samples are not tested, as the tests need counts of samples"
    what = find_distinct_pairs(found, confidence_level)
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
