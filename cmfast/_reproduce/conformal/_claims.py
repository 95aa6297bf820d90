"""What the paper says of sets and of their correlations, and what came out."""

from typing import Any

import numpy as np

import cmfast
from cmfast import conformal
from cmfast._reproduce._frame import ERRORS, Claim, mean_and_error
from cmfast._reproduce.conformal._network import ALPHAS, CENTRE

CALIBRATED = 600
STRONG = -0.5  # a correlation that is strongly negative
UNDEFINED = 0.05  # the share of a client's cells up to which it shows all patterns


def _signed(pair: tuple[float, float]) -> str:
    return f"{pair[0]:+.3f} ({pair[1]:.3f})"


def of_sets(centre: list[dict[str, Any]], seeds: range) -> list[Claim]:
    """Return what is said of coverage and of perfect classifiers."""
    covered = [mean_and_error([one["by_alpha"][k]["coverage"] for one in centre]) for k in range(len(ALPHAS))]
    holds = all(mean >= 1 - alpha - 2 * error for (mean, error), alpha in zip(covered, ALPHAS, strict=True))
    y = np.arange(4000) % 4
    P = np.eye(4)[y]
    q = conformal.threshold(conformal.scores(P, y, rng=np.random.default_rng(0)), 0.1)
    empty = float((conformal.prediction_sets(P, q, rng=np.random.default_rng(1)).sizes[0] == 0).mean())
    inclusive = conformal.threshold(conformal.scores(P, y, randomised=False), 0.1)
    full = float((conformal.prediction_sets(P, inclusive, randomised=False).sizes[0] == 4).mean())
    said = ", ".join(f"{mean:.3f}" for mean, _ in covered)
    return [
        Claim(
            "Sets hold the true label with a probability of at least 1 - alpha.",
            "section 3.2",
            "holds" if holds else "fails",
            f"coverage at alpha {', '.join(map(str, ALPHAS))}: {said} (mean of {len(seeds)} seeds)",
            {"coverage": covered},
            seeds=seeds,
        ),
        Claim(
            "It is at most 1 - alpha + 1 / (n - 1).",
            "section 3.2",
            "fails where scores have ties" if full > 0.9 + 1 / (len(y) - 1) else "holds",
            f"the bound is 1 / (n + 1), {1 / (CALIBRATED + 1):.5f} here, and only without ties: the inclusive score "
            "of a "
            f"perfect classifier has sets of all classes in {full:.0%} of rows, a coverage of 1",
            {"all_classes": full},
        ),
        Claim(
            "A perfect classifier has sets of one class for any alpha.",
            "section 3.2",
            "fails" if empty or full else "holds",
            f"randomised, {empty:.1%} of its sets are empty at alpha = 0.1; inclusive, {full:.0%} hold all classes",
            {"empty": empty, "all_classes": full},
            seeds=(0, 1),
        ),
    ]


def of_the_centre(centre: list[dict[str, Any]], seeds: range) -> list[Claim]:
    """Return the first three benefits: what sets show beside the confusion matrix, by epoch and by alpha."""
    lost = _without_truth()
    shared, never = (
        mean_and_error([one["by_alpha"][CENTRE][key] for one in centre]) for key in ("shared", "never_confused")
    )
    with_set, without = (mean_and_error([one["foretold"][k] for one in centre]) for k in (0, 1))
    gap = mean_and_error([one["foretold"][0] - one["foretold"][1] for one in centre])
    rho = np.array([[epoch["rho"] for epoch in one["by_epoch"]] for one in centre])
    change = [mean_and_error(rho[:, -1, k] - rho[:, 0, k]) for k in (0, 1)]
    first, last = rho[:, 0].mean(axis=0), rho[:, -1].mean(axis=0)
    falls = [change[k][0] < -2 * change[k][1] for k in (0, 1)]
    by_alpha = [[one["by_alpha"][k]["shared"] for one in centre] for k in range(len(ALPHAS))]
    means = [float(np.mean(one)) for one in by_alpha]
    return [
        Claim(
            "The correlation of sets shows potential confusions of pairs that were never confused.",
            "benefit 1",
            "holds" if gap[0] > 2 * gap[1] else "fails",
            f"of {shared[0]:.1f} pairs that share a set at alpha = 0.1, {never[0]:.1f} were never confused; pairs "
            "that one half "
            f"of the rows never confuses the other half does in {with_set[0]:.1%} if they share a set, in "
            f"{without[0]:.1%} if "
            f"not, difference {_signed(gap)}",
            {"shared": shared, "never_confused": never, "with_set": with_set, "without": without, "difference": gap},
            seeds=seeds,
        ),
        Claim(
            "It contains all that the confusion matrix contains.",
            "benefit 4",
            "fails" if lost["symmetric"] and lost["different_cells"] else "holds",
            "it is symmetric and has no truth: the same sets belong to different confusion matrices",
            lost,
        ),
        Claim(
            "Of similar classes it starts high and falls; of others it drops in the first epochs and stays.",
            "benefit 2, Fig. 3",
            "holds" if all(falls) else "holds where classes are similar" if falls[0] else "fails",
            f"digits 3 and 9 from {first[0]:+.3f} to {last[0]:+.3f}, change {_signed(change[0])}; 0 and 1 from "
            f"{first[1]:+.3f} to {last[1]:+.3f}, change {_signed(change[1])}",
            {"by_epoch": rho.mean(axis=0), "change": change},
            seeds=seeds,
        ),
        Claim(
            "Dissimilar classes have a strong negative correlation.",
            "remark 2",
            "holds" if last[1] <= STRONG else "fails",
            f"0 and 1 end at {last[1]:+.3f}: sets of one label of ten equally frequent classes give -1/9 = -0.111 "
            "to every pair",
            {"last": last},
            seeds=seeds,
        ),
        Claim(
            "alpha says how near a near miss must be.",
            "benefit 3",
            "holds" if means == sorted(means) else "fails",
            f"pairs that share a set at alpha {', '.join(map(str, ALPHAS))}: {', '.join(f'{m:.1f}' for m in means)} "
            "of 45",
            {"shared": by_alpha},
            seeds=seeds,
        ),
    ]


def _without_truth() -> dict[str, Any]:
    """Return whether the correlation of some sets is symmetric, and how two matrices differ that they belong to."""
    guess = np.arange(40) % 4
    sets = conformal.prediction_sets(np.eye(4)[guess], [0.5], u=np.full(len(guess), 0.6))
    G = conformal.ccm(sets).G[0]
    one, other = (cmfast.confusion_matrix(truth, guess, n_classes=4) for truth in (guess, (guess + 1) % 4))
    return {"symmetric": bool((G == G.T).all()), "different_cells": int((one != other).sum())}


def of_clients(apart: dict[float, dict[str, Any]], runs: dict[str, list[dict[str, Any]]], seeds: range) -> list[Claim]:
    """Return the last two benefits: what clients send, and choosing them."""
    few, many = min(apart), max(apart)
    gain = {
        name: {
            key: mean_and_error([a[key] - b[key] for a, b in zip(each, runs["all clients"], strict=True)])
            for key in ("accuracy", "pair")
        }
        for name, each in runs.items()
    }
    pair, accuracy = gain["highest"]["pair"], gain["highest"]["accuracy"]
    shown = {c: one["undefined"] < UNDEFINED for c, one in apart.items()}
    told = float(np.mean([one["given_away"] for one in apart.values()]))
    return [
        Claim(
            "A client's own matrix shows the patterns of all.",
            "section 6, Fig. 5",
            "holds" if shown[few] else "holds where clients are alike" if shown[many] else "fails",
            f"the mean of the clients' correlations is {apart[few]['gap']:.3f} from that of all their sets at a "
            "Dirichlet "
            f"parameter of {few:g} (at most {apart[few]['largest_gap']:.3f}), {apart[many]['gap']:.3f} at {many:g}; "
            "undefined "
            f"at a client are {apart[few]['undefined']:.1%} and {apart[many]['undefined']:.1%}. Counts add up exactly",
            {"by_concentration": apart},
            seeds=seeds,
        ),
        Claim(
            "A higher Dirichlet parameter makes the clients' distributions more heterogeneous.",
            "section 6",
            "fails" if apart[many]["gap"] < apart[few]["gap"] else "holds",
            f"it makes them alike: from {few:g} to {many:g} the distance falls from {apart[few]['gap']:.3f} to "
            f"{apart[many]['gap']:.3f}",
            seeds=seeds,
        ),
        Claim(
            "It does not tell the size and composition of a client's data.",
            "benefit 4",
            "fails where the shares are sent of which it is made" if told > 0.5 else "holds",
            f"the shares of {told:.0%} of the clients tell the exact number of their rows, and so all counts",
            {"given_away": {f"{c:g}": one["given_away"] for c, one in apart.items()}},
            seeds=seeds,
        ),
        Claim(
            "Choosing the clients of highest correlation improves the accuracy of the critical pair.",
            "benefit 5, Table 1",
            "holds" if pair[0] > ERRORS * pair[1] else "fails",
            ("" if pair[0] > ERRORS * pair[1] else "not beyond what seeds scatter: ")
            + f"digits 3 and 9, 7 of 10 clients, {_signed(pair)} against all clients, choosing "
            f"the lowest {_signed(gain['lowest']['pair'])}; mean of {len(seeds)} seeds (its standard error)",
            {"differences": gain},
            seeds=seeds,
        ),
        Claim(
            "The average accuracy is not affected.",
            "benefit 5, Table 1",
            "holds" if abs(accuracy[0]) <= ERRORS * accuracy[1] else "fails",
            f"{_signed(accuracy)} against all clients, choosing the lowest {_signed(gain['lowest']['accuracy'])}; "
            f"{ERRORS} standard errors would be a change",
            {"differences": {name: one["accuracy"] for name, one in gain.items()}},
            seeds=seeds,
        ),
    ]
