"""Section 5.2: learning paths of an easy and a hard problem, and of all pairs of digits."""

from collections.abc import Callable
from itertools import combinations
from math import comb
from typing import Any, NamedTuple

import numpy as np

from cmfast import contingency, metrics
from cmfast._core.annotations import Floats
from cmfast._pages.parts import Claim
from cmfast._reproduce.contingency._training import EASY, HARD, ContingencySettings, train_and_record
from cmfast.results import LearningPath

PRINTED = 1.68e-47
NAMES = {"0 and 1": EASY, "3 and 8": HARD}


class Runs(NamedTuple):
    """Training runs on two digits."""

    matrices: np.ndarray
    """(runs, epochs, 2, 2)"""
    path: LearningPath[Floats]
    error: np.ndarray
    """1 less the balanced accuracy after the last epoch."""


class Paths(NamedTuple):
    """All runs that section 5.2 is tested on."""

    both: dict[float, dict[str, Runs]]
    """By rate of learning, of the easy and of the hard pair."""
    pairs: dict[str, tuple[float, float]]
    """Of every two digits: median length, and mean error at the end."""


def train_pair(pair: tuple[int, int], runs: int, epochs: int, rate: float) -> Runs:
    """Train on two digits, with seeds from 0."""
    M = np.stack([train_and_record(pair, epochs, seed, rate=rate) for seed in range(runs)])
    return Runs(M, contingency.learning_path(M), 1.0 - metrics.balanced_accuracy(M[:, -1]))


def train_all_pairs(settings: ContingencySettings, tick: Callable[[int, int], object]) -> Paths:
    """Train on both pairs at every learning rate, and on all other pairs."""
    pairs = list(combinations(range(10), 2))
    done, total = 0, len(settings.rates) * 2 + len(pairs)
    both: dict[float, dict[str, Runs]] = {}
    for rate in settings.rates:
        both[rate] = {}
        for name, pair in NAMES.items():
            both[rate][name] = train_pair(pair, settings.runs, settings.epochs, rate)
            tick(done := done + 1, total)
    found = {}
    for a, b in pairs:
        runs = train_pair((a, b), settings.pair_runs, settings.epochs, settings.rates[0])
        found[f"{a} and {b}"] = float(np.median(runs.path.length)), float(runs.error.mean())
        tick(done := done + 1, total)
    return Paths(both, found)


def list_attainable_p(n: int) -> list[float]:
    """Return the attainable p-values of the two-sided Kolmogorov-Smirnov test of n against n, exactly."""
    ways = comb(2 * n, n)
    return [2 * sum((-1) ** (j - 1) * comb(2 * n, n - j * k) for j in range(1, n // k + 1)) / ways
            for k in range(1, n + 1)]  # fmt: skip


def compute_whiskers(lengths: np.ndarray) -> tuple[float, float]:
    """Return the whiskers of a box plot: the farthest values within 1.5 interquartile ranges of the box."""
    low, high = np.quantile(lengths, (0.25, 0.75))
    reach = 1.5 * (high - low)
    inside = lengths[(lengths >= low - reach) & (lengths <= high + reach)]
    return float(inside.min()), float(inside.max())


def compare_lengths(runs: dict[str, Runs]) -> dict[str, Any]:
    """Return medians, whiskers and the Kolmogorov-Smirnov test of the path lengths of the easy and the hard pair."""
    from scipy.stats import ks_2samp

    easy, hard = (np.asarray(one.path.length) for one in runs.values())
    test: Any = ks_2samp(easy, hard, method="exact")
    ends = compute_whiskers(easy), compute_whiskers(hard)
    return {
        "D": float(test.statistic),
        "p": float(test.pvalue),
        "median": [float(np.median(easy)), float(np.median(hard))],
        "straightness": [float(np.nanmedian(one.path.straightness)) for one in runs.values()],
        "error": [float(one.error.mean()) for one in runs.values()],
        "whiskers": ends,
        "overlap": bool(ends[0][1] >= ends[1][0] and ends[1][1] >= ends[0][0]),
    }


def correlate_length_with_error(pairs: dict[str, tuple[float, float]]) -> tuple[float, float]:
    """Return Spearman's correlation of path length and error over the pairs, and its p-value."""
    from scipy.stats import spearmanr

    found: Any = spearmanr(*np.array(list(pairs.values())).T)
    return float(found.statistic), float(found.pvalue)


def claim_paths(found: Paths, settings: ContingencySettings) -> list[Claim]:
    """Judge the claims on paths, their test, and the path on the hard pair."""
    tests = {rate: compare_lengths(runs) for rate, runs in found.both.items()}
    first, seeds = tests[settings.rates[0]], range(settings.runs)
    rho, p = correlate_length_with_error(found.pairs)
    at = list_attainable_p(100)
    above, below = min(x for x in at if x > PRINTED), max(x for x in at if x < PRINTED)
    there, here = (_compute_f1(*point) for point in ((0.5, 1.0), (1.0, 0.5)))
    on_the_line = there / (2.0 - there)
    longer = [t["median"][1] > t["median"][0] and t["p"] < 0.05 for t in tests.values()]
    said = {
        rate: f"{t['median'][0]:.2f} and {t['median'][1]:.2f} at rate {rate:g} (D {t['D']:.2f}, p {t['p']:.1e})"
        for rate, t in tests.items()
    }
    good = [f"{rate:g}" for rate, long in zip(tests, longer, strict=True) if long]
    return [
        Claim(
            "The path of the easy problem, 0 and 1, is shorter than that of the hard one, 3 and 8.",
            "section 5.2, Fig. 3",
            "holds" if all(longer) else f"holds where the rate of learning is {' or '.join(good)}" if good else "fails",
            f"median lengths {'; '.join(said.values())}, {settings.runs} runs of {settings.epochs} epochs each",
            {"tests": {f"{rate:g}": test for rate, test in tests.items()}},
            seeds=seeds,
        ),
        Claim(
            "The Kolmogorov-Smirnov test of 100 runs against 100 gives p = 1.68e-47.",
            "section 5.2, Fig. 4",
            "holds" if any(f"{x:.2e}" == f"{PRINTED:.2e}" for x in at) else "fails",
            f"no value of it: p is {above:.1e} or {below:.1e}, at D = {(at.index(above) + 1) / 100} or "
            f"{(at.index(below) + 1) / 100}, and {at[-1]:.1e} if all lengths of one are above all of the other",
            {"above": above, "below": below, "least": at[-1]},
        ),
        Claim(
            "The difference of the distributions is significant.",
            "section 5.2, Fig. 4",
            "holds" if first["p"] < 0.05 else "fails",
            f"here D = {first['D']:.2f}, p = {first['p']:.1e} on 8 x 8 pixels, with a network of {64 * 16 + 16 + 17} "
            "weights in place of a convolutional one",
            first,
            seeds=seeds,
        ),
        Claim(
            "The box plots do not overlap.",
            "section 5.2, Fig. 4",
            "fails" if first["overlap"] else "holds",
            f"whiskers of 0 and 1 from {first['whiskers'][0][0]:.2f} to {first['whiskers'][0][1]:.2f}, of 3 and 8 from "
            f"{first['whiskers'][1][0]:.2f} to {first['whiskers'][1][1]:.2f}",
            {"whiskers": first["whiskers"]},
            seeds=seeds,
        ),
        Claim(
            "The complexity of the path correlates with the struggle of the algorithm.",
            "section 5.2",
            "holds" if rho > 0 and p < 0.05 else "fails",
            f"over all 45 pairs of digits, {settings.pair_runs} runs each, length and error at the end: Spearman "
            f"{rho:+.2f}, p = {p:.1e}, as if pairs that share a digit were independent",
            {"spearman": rho, "p": p},
            seeds=range(settings.pair_runs),
        ),
        Claim(
            "From (0.5, 1) to (1, 0.5) the model moves along a contour of F1; both are almost relatively identical.",
            "section 5.2, Fig. 3",
            "holds" if abs(there - here) < 0.01 else "fails",
            f"F1 falls from {there:.3f} to {here:.3f}; its contour ends at (1, {on_the_line:.3f}), and relatively "
            "identical are equal rates",
            {"F1": [there, here], "contour": on_the_line},
        ),
    ]


def _compute_f1(tnr: float, tpr: float) -> float:
    """Return F1 of the positive class of balanced data at the given rates."""
    return float(metrics.f1(np.array([[tnr, 1.0 - tnr], [1.0 - tpr, tpr]]))[1])
