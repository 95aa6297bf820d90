"""Claims of the paper on sets and their correlations, with verdicts.

Verdicts on values that vary between seeds use simultaneous Student's intervals: "holds" or "fails" if a whole
interval is on one side, else "undecided". The margins below are the differences that do not matter, chosen before the
first full run.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import cmfast
from cmfast import conformal
from cmfast._pages.parts import Claim
from cmfast._reproduce import _paired_intervals as paired
from cmfast._reproduce.conformal._clients import Runs
from cmfast._reproduce.conformal._network import ALPHAS, CENTRE, PAIR, ConformalSettings

CALIBRATED = 600
STRONG = -0.5  # a correlation that is strongly negative
COVERED = 0.02  # by which coverage may be below what is promised
FORESEEN = 0.05  # of the pairs of classes: fewer that sets foretell would be of no use
EQUAL = 0.05  # of a correlation: what counts as none
LEAST_CORRELATION_CHANGE = 0.1  # of a correlation: the least change over the epochs that is called one
CONFUSED = 0.02  # of the rows of a pair of classes: what two pairs may differ by and be alike
UNDEFINED = 0.05  # the share of a client's cells up to which it shows all patterns
PATTERN = 0.8  # the rank correlation from which on two matrices show the same pattern
ACCURACY = 0.02  # a change of accuracy that does not matter; the paper calls .789 to .801 and .511 to .493 none
SLIGHT = 0.07  # the paper calls .808 to .742 and .630 to .570 slight

Numbers = dict[str, Any]


def _compute_interval(values: Any, settings: ConformalSettings) -> Numbers:
    """Return the mean of values by seed with Student's interval."""
    return paired.compute_interval(np.asarray(values, float), settings.interval)


def _list_intervals(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Return means with their intervals as text, each after its name."""
    return ", ".join(f"{name} {paired.format_interval_of_mean(each)}" for name, each in found.items())


def _claim(
    text: str,
    where: str,
    found: Mapping[str, Numbers],
    judges: Callable[[Numbers], str] | Mapping[str, Callable[[Numbers], str]],
    settings: ConformalSettings,
    *,
    before: str = "",
    after: str = "",
    figures: Mapping[str, Any] | None = None,
) -> Claim:
    """Return a claim on several places with simultaneous intervals; `judges` is one judge, or one per place."""
    wide = paired.widen_to_simultaneous(found, settings.interval)
    judge = judges if isinstance(judges, Mapping) else dict.fromkeys(wide, judges)
    verdict = paired.combine_verdicts({name: judge[name](each) for name, each in wide.items()})
    said = f"{before}{_list_intervals(wide)}{after}"
    return Claim(text, where, verdict, said, {"intervals": wide, **(figures or {})}, range(settings.seeds))


def _judge_at_most(most: float) -> Callable[[Numbers], str]:
    """Return a judge of "at most `most`"."""
    return lambda found: paired.judge_between(found, most=most)


def _judge_at_least(least: float) -> Callable[[Numbers], str]:
    """Return a judge of "at least `least`"."""
    return lambda found: paired.judge_between(found, least=least)


def _judge_within(margin: float) -> Callable[[Numbers], str]:
    """Return a judge of "within `margin` of zero"."""
    return lambda found: paired.judge_between(found, -margin, margin)


def _judge_above(margin: float) -> Callable[[Numbers], str]:
    """Return a judge of "above zero" that fails if the whole interval is below `margin`."""
    return lambda found: paired.judge_above(found, margin)


def claim_sets(centre: list[Numbers], settings: ConformalSettings) -> list[Claim]:
    """Judge the claims on coverage, its upper bound and perfect classifiers, the last two on made-up rows."""
    covered = {
        f"alpha {alpha:g}": _compute_interval(
            [one["by_alpha"][k]["coverage"] - (1 - alpha) for one in centre], settings
        )
        for k, alpha in enumerate(ALPHAS)
    }
    y = np.arange(4000) % 4
    P = np.eye(4)[y]
    q = conformal.threshold(conformal.scores(P, y, rng=np.random.default_rng(0)), 0.1)
    empty = float((conformal.prediction_sets(P, q, rng=np.random.default_rng(1)).sizes[0] == 0).mean())
    inclusive = conformal.threshold(conformal.scores(P, y, randomised=False), 0.1)
    full = float((conformal.prediction_sets(P, inclusive, randomised=False).sizes[0] == 4).mean())
    return [
        _claim(
            "Sets hold the true label with a probability of at least 1 - alpha.",
            "section 3.2",
            covered,
            _judge_at_least(-COVERED),
            settings,
            before="coverage less 1 - alpha: ",
            after=f"; {COVERED:g} less is still called as much",
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


def claim_central_training(centre: list[Numbers], settings: ConformalSettings) -> list[Claim]:
    """Judge the first three benefits: sets and the confusion matrix, by epoch and by alpha."""
    lost = _check_symmetry()
    shared, never = (np.mean([one["by_alpha"][CENTRE][key] for one in centre]) for key in ("shared", "never_confused"))
    foretold = np.array([one["foretold"] for one in centre])
    with_set, without = (_compute_interval(foretold[:, k], settings)["mean"] for k in (0, 1))
    by_alpha = np.array([[each["shared"] for each in one["by_alpha"]] for one in centre])
    nested = bool((np.diff(by_alpha, axis=1) >= 0).all())
    return [
        _claim(
            "The correlation of sets shows potential confusions of pairs that were never confused.",
            "benefit 1",
            {"difference": _compute_interval(foretold[:, 0] - foretold[:, 1], settings)},
            _judge_above(FORESEEN),
            settings,
            before=f"of {shared:.1f} pairs that share a set at alpha = 0.1, {never:.1f} were never confused; pairs "
            f"that one half of the rows never confuses the other half does in {with_set:.1%} if they share a set, in "
            f"{without:.1%} if not, ",
            figures={"shared": shared, "never_confused": never, "with_set": with_set, "without": without},
        ),
        Claim(
            "It contains all that the confusion matrix contains.",
            "benefit 4",
            "fails" if lost["symmetric"] and lost["different_cells"] else "holds",
            "it is symmetric and has no truth: the same sets belong to different confusion matrices",
            lost,
        ),
        *_claim_epochs(centre, settings),
        *_claim_likeness(centre, settings),
        Claim(
            "alpha says how near a near miss must be.",
            "benefit 3",
            "holds" if nested else "fails",
            f"pairs that share a set at alpha {', '.join(map(str, ALPHAS))}: "
            f"{', '.join(f'{mean:.1f}' for mean in by_alpha.mean(axis=0))} of 45, "
            f"{'never' if nested else 'sometimes'} fewer as alpha falls, in any of {len(centre)} seeds",
            {"shared": by_alpha},
            seeds=range(settings.seeds),
        ),
    ]


def _claim_epochs(centre: list[Numbers], settings: ConformalSettings) -> list[Claim]:
    """Judge the claims on two pairs of classes by epoch (Figs. 3 and 4)."""
    rho, share = (np.array([[e[key] for e in one["by_epoch"]] for one in centre]) for key in ("rho", "error_share"))
    early = max(1, rho.shape[1] // 4)
    alike, other = rho[:, :, 0], rho[:, :, 1]
    gap = share[:, :, 0] - share[:, :, 1]
    first, last = share[:, :early].mean(axis=(0, 1)), share[:, -1].mean(axis=0)
    return [
        _claim(
            "Correlations of similar classes start higher than those of others and fall; others drop in the first "
            "epochs and stay.",
            "benefit 2, Fig. 3",
            {
                "similar classes start higher": _compute_interval(alike[:, 0] - other[:, 0], settings),
                "similar classes fall": _compute_interval(alike[:, 0] - alike[:, -1], settings),
                "others drop early": _compute_interval(other[:, 0] - other[:, early], settings),
                "others stay": _compute_interval(other[:, -1] - other[:, early], settings),
            },
            {
                "similar classes start higher": _judge_above(LEAST_CORRELATION_CHANGE),
                "similar classes fall": _judge_above(LEAST_CORRELATION_CHANGE),
                "others drop early": _judge_above(LEAST_CORRELATION_CHANGE),
                "others stay": _judge_within(LEAST_CORRELATION_CHANGE),
            },
            settings,
            before="digits 3 and 9, and 0 and 1; first by how much, then how far down, last how far from there: ",
            after=f"; {LEAST_CORRELATION_CHANGE:g} would be a change, {early} of {rho.shape[1]} epochs are the first",
            figures={"by_epoch": rho.mean(axis=0)},
        ),
        _claim(
            "The confusion matrix behaves alike for similar classes and for others.",
            "benefit 2, Fig. 4",
            {
                "the first epochs": _compute_interval(gap[:, :early].mean(axis=1), settings),
                "the last epoch": _compute_interval(gap[:, -1], settings),
            },
            _judge_within(CONFUSED),
            settings,
            before=f"share of their rows that 3 and 9 have confused, and 0 and 1: {first[0]:.3f} and {first[1]:.3f} in "
            f"the first epochs, {last[0]:.3f} and {last[1]:.3f} in the last; difference in ",
            after=f"; alike up to {CONFUSED:g}. Where it fails, the matrix tells the pairs apart without any set",
            figures={"by_epoch": share.mean(axis=0)},
        ),
    ]


def _claim_likeness(centre: list[Numbers], settings: ConformalSettings) -> list[Claim]:
    """Judge the three remarks on pairs of classes ranked by the distance of their mean images."""
    rho = {
        kind: np.array([[epoch["likeness"][kind] for epoch in one["by_epoch"]] for one in centre])
        for kind in ("alike", "middle", "distant")
    }
    other = np.array([one["by_epoch"][-1]["rho"][1] for one in centre])

    def compute_end_intervals(kind: str) -> dict[str, Numbers]:
        """Return the intervals of the correlation of one kind of pairs after the first and the last epoch."""
        return {
            "after the first epoch": _compute_interval(rho[kind][:, 0], settings),
            "after the last": _compute_interval(rho[kind][:, -1], settings),
        }

    single = "sets of one label of ten equally frequent classes give -1/9 = -0.111 to every pair"
    return [
        _claim(
            "Similar classes have a positive correlation.",
            "remark 1",
            compute_end_intervals("alike"),
            _judge_above(EQUAL),
            settings,
            before="the five pairs of 45 whose mean images are nearest, at alpha = 0.1: ",
            after=f"; below {EQUAL:g} it is none",
        ),
        _claim(
            "Dissimilar classes have a strong negative correlation.",
            "remark 2",
            {
                "0 and 1": _compute_interval(other, settings),
                "the five most distant pairs": _compute_interval(rho["distant"][:, -1], settings),
            },
            _judge_at_most(STRONG),
            settings,
            after=f"; strong is {STRONG:g} and less, {single}",
        ),
        _claim(
            "Unrelated classes have a correlation near zero.",
            "remark 3",
            compute_end_intervals("middle"),
            _judge_within(EQUAL),
            settings,
            before="the middle third of the pairs by the distance of their mean images: ",
            after=f"; near is up to {EQUAL:g}. Classes that never share a set are not uncorrelated: {single}",
        ),
    ]


def _check_symmetry() -> dict[str, Any]:
    """Return whether counts of sets are symmetric, and in how many cells two matrices with equal sets differ."""
    guess = np.arange(40) % 4
    sets = conformal.prediction_sets(np.eye(4)[guess], [0.5], u=np.full(len(guess), 0.6))
    G = conformal.ccm(sets).G[0]
    one, other = (cmfast.confusion_matrix(truth, guess, n_classes=4) for truth in (guess, (guess + 1) % 4))
    return {"symmetric": bool((G == G.T).all()), "different_cells": int((one != other).sum())}


def claim_clients(apart: dict[float, Numbers], runs: dict[int, Runs], settings: ConformalSettings) -> list[Claim]:
    """Judge the last two benefits: what clients send, and choosing clients."""
    few, many = min(apart), max(apart)
    told = float(np.mean([one["given_away"] for one in apart.values()]))
    return [
        _claim_patterns(apart, settings),
        _claim(
            "A higher Dirichlet parameter makes the clients' distributions more heterogeneous.",
            "section 6",
            {
                "difference": _compute_interval(
                    _stack_seeds(apart[many], "uneven") - _stack_seeds(apart[few], "uneven"), settings
                )
            },
            paired.judge_above,
            settings,
            before=f"mean distance of a client's shares of classes from those of all, total variation: "
            f"{_stack_seeds(apart[few], 'uneven').mean():.3f} at {few:g}, "
            f"{_stack_seeds(apart[many], 'uneven').mean():.3f} at "
            f"{many:g}, ",
        ),
        Claim(
            "It does not tell the size and composition of a client's data.",
            "benefit 4",
            "fails where the shares are sent of which it is made" if told else "holds",
            f"the shares of {told:.1%} of the clients tell the exact number of their rows, and so all counts",
            {"given_away": {f"{c:g}": one["given_away"] for c, one in apart.items()}},
            seeds=range(settings.seeds),
        ),
        *_claim_rounds(runs, settings),
        *_claim_table_1(runs, settings),
    ]


def _stack_seeds(one: Numbers, key: str) -> np.ndarray:
    """Return the values of `key` by seed as a float array."""
    return np.array(one["by_seed"][key], float)


def _claim_patterns(apart: dict[float, Numbers], settings: ConformalSettings) -> Claim:
    """Judge whether a client's correlations show the pattern of those of all sets (Fig. 5)."""
    found, places = {}, {}
    for c, one in apart.items():
        places[f"the Dirichlet parameter at {c:g}"] = keys = (f"agreement at {c:g}", f"undefined at {c:g}")
        for name, key in zip(keys, ("agreement", "undefined"), strict=True):
            found[name] = _compute_interval(_stack_seeds(one, key), settings)
    wide = paired.widen_to_simultaneous(found, settings.interval)
    verdicts = {
        place: paired.judge_all([_judge_at_least(PATTERN)(wide[agree]), _judge_at_most(UNDEFINED)(wide[undefined])])
        for place, (agree, undefined) in places.items()
    }
    gaps = ", ".join(f"{one['gap']:.3f} at {c:g} (at most {one['largest_gap']:.3f})" for c, one in apart.items())
    return Claim(
        "A client's own matrix shows the patterns of all.",
        "section 6, Fig. 5",
        paired.combine_verdicts(verdicts),
        f"rank correlation of a client's correlations with those of all sets, and share of them that is undefined, by "
        f"Dirichlet parameter: {_list_intervals(wide)}; {PATTERN:g} and more is the same pattern, "
        f"up to {UNDEFINED:g} may be "
        f"undefined. The mean of the clients' correlations is off by {gaps}. Counts add up exactly",
        {"intervals": wide, "by_concentration": apart},
        range(settings.seeds),
    )


def _claim_rounds(runs: dict[int, Runs], settings: ConformalSettings) -> list[Claim]:
    """Judge whether choosing clients raises the correlation of the critical pair (Figs. 6 and 7)."""
    out = []
    for (classes, by_name), where, words in zip(
        runs.items(), ("benefit 5, Fig. 6", "benefit 5, Fig. 7"), ("", " The same of more classes."), strict=True
    ):
        gain = {}
        for k, alpha in enumerate(ALPHAS):
            own, all_of_them = (
                [_average_defined(one["by_round"][1:, k]) for one in by_name[name]]
                for name in ("highest", "all clients")
            )
            gain[f"alpha {alpha:g}"] = _compute_interval(np.subtract(own, all_of_them), settings)
        out.append(
            _claim(
                "Excluding the clients of lowest correlation raises the correlation of the critical pair, at every "
                f"alpha.{words}",
                where,
                gain,
                _judge_above(EQUAL),
                settings,
                before=f"digits 3 and 9 of {classes} classes, mean of the rounds after the first choice, "
                f"{settings.chosen} clients against all {settings.clients}: ",
                after=f"; {EQUAL:g} would be a rise. By remark 1 a rise means that they are harder to tell apart",
            )
        )
    return out


def _average_defined(values: np.ndarray) -> float:
    """Return the mean of the values without NaN, or NaN if all are NaN."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def find_weaker_class(by_name: Runs) -> int:
    """Return which class of the pair (0 or 1) is recognised less often by all clients, over all seeds.

    It is one choice for all seeds: the weaker one of each seed would rise by chance alone (regression to the mean).
    """
    return int(np.mean([one["each_of_pair"] for one in by_name["all clients"]], axis=0).argmin())


def _claim_table_1(runs: dict[int, Runs], settings: ConformalSettings) -> list[Claim]:
    """Judge the accuracies of Table 1: chosen clients minus all clients."""

    def compute_gains(of: Callable[[Numbers, Runs], float], name: str = "highest") -> dict[str, Numbers]:
        """Return, by number of classes, the interval of `of` with the clients `name` minus `of` with all clients."""
        return {
            f"{classes} classes": _compute_interval(
                [of(a, by) - of(b, by) for a, b in zip(by[name], by["all clients"], strict=True)], settings
            )
            for classes, by in runs.items()
            if name in by
        }

    def get_weaker_accuracy(one: Numbers, by: Runs) -> float:
        """Return the accuracy of the class of the pair that all clients recognise less often."""
        return float(one["each_of_pair"][find_weaker_class(by)])

    def get_stronger_accuracy(one: Numbers, by: Runs) -> float:
        """Return the accuracy of the class of the pair that all clients recognise more often."""
        return float(one["each_of_pair"][1 - find_weaker_class(by)])

    at_all = f"{settings.chosen} of {settings.clients} clients against all: "
    lowest = {key: compute_gains(lambda one, _, key=key: one[key], "lowest") for key in ("pair", "accuracy")}  # type: ignore[misc]
    weak = ", ".join(f"{PAIR[find_weaker_class(by)]} of {classes} classes" for classes, by in runs.items())
    where = "benefit 5, Table 1"
    said: list[tuple[str, dict[str, Numbers], Callable[[Numbers], str], str]] = [
        (
            "Choosing the clients of highest correlation improves the accuracy of the critical pair.",
            compute_gains(lambda one, _: one["pair"]),
            _judge_above(ACCURACY),
            f"; {ACCURACY:g} would be an improvement. Choosing the lowest: {_list_intervals(lowest['pair'])}",
        ),
        (
            "It significantly improves the critical class of lowest accuracy.",
            compute_gains(get_weaker_accuracy),
            _judge_above(ACCURACY),
            f"; digit {weak}; {ACCURACY:g} would be an improvement",
        ),
        (
            "It slightly decreases the accuracy of the critical class of highest accuracy.",
            compute_gains(get_stronger_accuracy),
            lambda found: paired.judge_between(found, -SLIGHT, 0.0),
            f"; slight is up to {SLIGHT:g}, what the paper calls so",
        ),
        (
            "It has small effects on the accuracy of the other classes.",
            compute_gains(lambda one, _: one["others"]),
            _judge_within(ACCURACY),
            f"; up to {ACCURACY:g} is small",
        ),
        (
            "The average accuracy is not affected.",
            compute_gains(lambda one, _: one["accuracy"]),
            _judge_within(ACCURACY),
            f"; {ACCURACY:g} would be a change. Choosing the lowest: {_list_intervals(lowest['accuracy'])}",
        ),
    ]
    return [
        _claim(text, where, found, judge, settings, before=at_all, after=after) for text, found, judge, after in said
    ]
