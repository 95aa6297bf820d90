"""Section 5.5: ten metrics of five classes over training epochs."""

from collections.abc import Callable
from typing import Any

import numpy as np

from cmfast import contingency, metrics
from cmfast._pages.parts import Claim
from cmfast._reproduce import _paired_intervals as paired
from cmfast._reproduce.contingency._space import MOST_ROUNDING, join_names
from cmfast._reproduce.contingency._training import FIVE, ContingencySettings, train_and_record
from cmfast.metrics import MetricName

TEN: dict[str, MetricName] = {  # as in Fig. 9: means over each class against the rest, but for tau
    "tau": "tau", "precision": "precision_macro", "recall": "recall_macro", "F1": "f1_macro",
    "accuracy": "accuracy_ovr_macro", "balanced accuracy": "balanced_accuracy_ovr_macro",
    "geometric mean": "geometric_mean_ovr_macro", "TSS": "tss_ovr_macro", "Heidke": "heidke_ovr_macro",
    "Gilbert": "gilbert_ovr_macro",
}  # fmt: skip
KINDS = ("balanced", "imbalanced")
LEAST_SIMILAR_CORRELATION = 0.9  # a correlation
Tracks = dict[str, np.ndarray]  # by kind, (runs, epochs, 5, 5)


def train_tracked(settings: ContingencySettings, tick: Callable[[int, int], object]) -> Tracks:
    """Train on five digits, with balanced and with increasingly imbalanced images."""
    out, done = {}, 0
    for kind, shares in zip(KINDS, (None, settings.shares), strict=True):
        runs = []
        for seed in range(settings.tracked):
            runs.append(train_and_record(FIVE, settings.epochs, seed, rate=settings.rates[0], shares=shares))
            tick(done := done + 1, 2 * settings.tracked)
        out[kind] = np.stack(runs)
    return out


def compute_ten_metrics(M: np.ndarray) -> dict[str, np.ndarray]:
    """Return the ten metrics by name, each of shape (runs, epochs)."""
    found = metrics.compute(M, list(TEN.values()))
    return {name: found[metric] for name, metric in TEN.items()}


def _correlate_runs(a: np.ndarray, b: np.ndarray) -> float:
    """Return the correlation of two metrics over epochs, averaged over the runs in which neither is constant."""
    a, b = (x - x.mean(axis=1, keepdims=True) for x in (a, b))
    size = np.sqrt((a * a).sum(axis=1) * (b * b).sum(axis=1))
    known = size > MOST_ROUNDING
    return float(((a * b).sum(axis=1)[known] / size[known]).mean()) if known.any() else float("nan")


def summarize_tracks(M: np.ndarray) -> dict[str, Any]:
    """Return correlation and mean difference of tau and each other metric, per half of the epochs."""
    found = compute_ten_metrics(M)
    half = M.shape[1] // 2
    out: dict[str, Any] = {}
    for which, part in (("first half", slice(0, half)), ("second half", slice(half, None))):
        tau = found["tau"][:, part]
        others = {name: one[:, part] for name, one in found.items() if name != "tau"}
        out[which] = {
            "levels": {name: _correlate_runs(tau, one) for name, one in others.items()},
            "changes": {name: _correlate_runs(np.diff(tau), np.diff(one)) for name, one in others.items()},
            "tau_less": paired.widen_to_simultaneous(
                {
                    name: paired.compute_interval((one - tau).mean(axis=1), paired.CLAIM_LEVEL)
                    for name, one in others.items()
                },
                paired.CLAIM_LEVEL,
            ),
        }
    out["moves"] = _measure_moves(M, found["tau"])
    return out


def _measure_moves(M: np.ndarray, tau: np.ndarray) -> dict[str, float]:
    """Return the mean step of a learning path while tau rises: where tau changes least (a quarter), and elsewhere.

    Tau rises until it first reaches 0.9 of its maximum in the run.
    """
    steps, climbs = contingency.learning_path(M).steps, np.abs(np.diff(tau))
    reached = np.maximum.accumulate(tau, axis=1)[:, 1:] >= LEAST_SIMILAR_CORRELATION * tau.max(axis=1, keepdims=True)
    flat, other = [], []
    for step, climb, done in zip(steps, climbs, reached, strict=True):
        before = ~done if not done[:4].any() else np.ones(len(done), bool)
        still = climb <= np.quantile(climb[before], 0.25)
        flat.append(step[before & still].mean())
        other.append(step[before & ~still].mean())
    return {"flat": float(np.mean(flat)), "other": float(np.mean(other))}


def compute_spread_ratios(seed: int) -> dict[int, float]:
    """Return the standard deviation of tau over that of balanced accuracy for random recalls, by number of classes."""
    rng = np.random.default_rng(seed)
    out = {}
    for k in (2, 5, 10, 100):
        recalls = rng.random((20_000, k))
        tau = 1.0 - np.sqrt(((1.0 - recalls) ** 2).mean(axis=1))
        out[k] = float(tau.std() / recalls.mean(axis=1).std())
    return out


def claim_epochs(tracks: Tracks, settings: ContingencySettings) -> list[Claim]:
    """Judge the claims read off Fig. 9."""
    found = {kind: summarize_tracks(M) for kind, M in tracks.items()}
    balanced, skewed = found.values()
    seeds = range(settings.tracked)
    changes = balanced["second half"]["changes"]
    unlike = [name for name, rho in changes.items() if not rho >= LEAST_SIMILAR_CORRELATION]
    nearest = max(changes, key=lambda name: changes[name])
    less = balanced["first half"]["tau_less"]
    first = balanced["first half"]["changes"]
    moved = [name for name, rho in first.items() if rho >= LEAST_SIMILAR_CORRELATION]
    moves = balanced["moves"]
    spread = compute_spread_ratios(settings.seed)
    return [
        Claim(
            "In the second half of the epochs tau moves as the other metrics do, small fluctuations too.",
            "section 5.5, Fig. 9",
            "holds"
            if not unlike
            else "fails"
            if len(unlike) == len(changes)
            else f"fails where the other is {join_names(unlike)}",
            f"changes from epoch to epoch correlate by {min(changes.values()):.2f} to {max(changes.values()):.2f} "
            f"({nearest}), of imbalanced digits by {min(skewed['second half']['changes'].values()):.2f} and more; "
            f"{LEAST_SIMILAR_CORRELATION:g} counts as alike",
            found,
            seeds=seeds,
        ),
        Claim(
            "In the first half tau is lower on average.",
            "section 5.5, Fig. 9",
            paired.combine_verdicts({f"the other is {name}": paired.judge_above(gap) for name, gap in less.items()}),
            "the others less tau: "
            + ", ".join(f"{gap['mean']:+.2f} {name}" for name, gap in less.items())
            + f"; their intervals reach {max(gap['high'] - gap['mean'] for gap in less.values()):.3f} to each side",
            {kind: one["first half"]["tau_less"] for kind, one in found.items()},
            seeds=seeds,
        ),
        Claim(
            "It climbs in steps that not all other metrics capture.",
            "section 5.5, Fig. 9",
            "holds" if len(moved) < len(first) else "fails",
            f"in the first half its changes correlate by {min(first.values()):.2f} to {max(first.values()):.2f} with "
            f"those of the others; by {LEAST_SIMILAR_CORRELATION:g} and more with {join_names(moved)}",
            {kind: one["first half"]["changes"] for kind, one in found.items()},
            seeds=seeds,
        ),
        Claim(
            "Within steps models move along the contours of tau.",
            "section 5.5, Fig. 9",
            "holds" if moves["flat"] > moves["other"] / 2 else "fails",
            f"while tau climbs to nine tenths, models move by {moves['flat']:.3f} in the space of five recalls where "
            f"it changes least (a quarter of the epochs), by {moves['other']:.3f} elsewhere",
            {kind: one["moves"] for kind, one in found.items()},
            seeds=seeds,
        ),
        Claim(
            "The Euclidean distance of tau does not do well in many dimensions.",
            "section 5.5",
            "holds" if spread[100] < spread[2] / 2 else "fails",
            "its values draw together with more classes, but as fast as the mean recall does: the ratio of both "
            "spreads is " + ", ".join(f"{ratio:.2f} for {k}" for k, ratio in spread.items()) + " classes",
            {"ratio_of_spreads": spread},
            seeds=(settings.seed,),
        ),
    ]
