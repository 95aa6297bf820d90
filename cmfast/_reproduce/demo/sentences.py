"""Sentences of the demo from its numbers."""

from typing import Any

from cmfast._core.annotations import NORMALIZATIONS
from cmfast._reproduce.normalization.data import LEVELS

Numbers = dict[str, Any]
REPRODUCTION = "cmfast reproduce normalization"


def best_of(values: Numbers, *, largest: bool) -> str:
    """Return the method with the best mean."""
    return (max if largest else min)(NORMALIZATIONS, key=lambda name: float(values[name]["mean"]))


def best_but(values: Numbers, method: str) -> str:
    """Return the method with the largest mean other than `method`."""
    return max((name for name in NORMALIZATIONS if name != method), key=lambda name: float(values[name]["mean"]))


def data(numbers: Numbers) -> str:
    """Describe the drawn data and the accuracy of the networks."""
    settings, samples = numbers["settings"], numbers["samples"]
    return (
        f"Handwritten digits, each turned four ways. An imbalanced set keeps at least {100 * settings['kept']:.0f} % "
        f"of every class and hands out the rest at random (Dirichlet, concentration {settings['alpha']:g}). The "
        "network is small and briefly trained on purpose, because only errors tell something: it gets "
        f"{100 * samples['accuracy_balanced']['shown']:.0f} % right after balanced training, "
        f"{100 * samples['accuracy_imbalanced']['shown']:.0f} % after imbalanced training, each on its own test set."
    )


def level(numbers: Numbers) -> str:
    """Name the paper's level of heterogeneity of this run, and where the others are."""
    alpha = numbers["settings"]["alpha"]
    names = ", ".join(f"{name} ({a:g})" for a, name in LEVELS.items())
    here = f"that is {LEVELS[alpha]} heterogeneity" if alpha in LEVELS else "that is none of the paper's levels"
    return (
        f"One data set, one level: the concentration here is {alpha:g}, {here} among the paper's {names}. What is said "
        "below need not hold at another: all levels, on four data sets, with what holds and what does not, by"
    )


def matrices(numbers: Numbers) -> str:
    """Explain the five heatmaps."""
    never = numbers["samples"]["never_predicted"]
    text = (
        "Rows are the true digit, columns the network's answer, numbers are percent of a class (of the average "
        "class where the whole is divided by its total). The first matrix is "
        "the aim; the other four are one and the same imbalanced matrix. Stripes down or across come from classes that "
        "are frequent, not from classes that look alike: the fewer stripes, the better the normalisation did its work."
    )
    if never:
        names = " and ".join(map(str, never))
        text += f" The network never answers {names}: its column of bi holds nothing but smoothing."
    return text


def verdict(numbers: Numbers) -> str:
    """State the result of the first experiment."""
    overlap, repeats = numbers["normalisation"]["overlap"], numbers["settings"]["repeats"]
    first = best_of(overlap, largest=True)
    second = best_but(overlap, first)
    times = f"{overlap[first]['best_in']} of {repeats} repetitions"
    if first != "bi":
        return (
            f"Here bi-normalisation is not the closest: {first} shares {overlap[first]['mean']:.3f} of its mass with "
            f"the balanced truth and is the closest in {times}; bi shares {overlap['bi']['mean']:.3f}."
        )
    gap = overlap[first]["mean"] - overlap[second]["mean"]
    return (
        f"Bi-normalisation comes closest to the balanced truth: it shares {overlap[first]['mean']:.3f} of its mass "
        f"with it, {gap:.3f} more than {second}, the next best, and it is the closest in {times}."
    )


def divergence(numbers: Numbers) -> str:
    """State what the KL divergence adds to the verdict."""
    kl = numbers["normalisation"]["kl"]
    first = best_of(kl, largest=False)
    return f"By Kullback-Leibler divergence the closest is {first}, at {kl[first]['mean']:.2f} nats."


def smoothing(numbers: Numbers) -> str:
    """State the influence of the smoothing constant."""
    overlap, others = numbers["normalisation"]["overlap"], numbers["normalisation"]["overlap_by_smoothing"]
    rival = best_but(overlap, "bi")
    worse = [name for name, value in others.items() if value < overlap[rival]["mean"]]
    end = (
        f"with {' or '.join(worse)} it falls behind {rival}" if worse else f"it stays ahead of {rival} with all of them"
    )
    return (
        "Empty cells have to be filled before a matrix is bi-normalised, and the constant is a choice: this report "
        f"adds {numbers['settings']['smoothing']:g} to every cell, set beforehand, not picked for its result. Over the "
        f"constants tried the overlap moves between {min(others.values()):.2f} and {max(others.values()):.2f}; {end}."
    )


def geometry(numbers: Numbers) -> str:
    """Explain the second experiment, and name the best matching pairs."""
    matched, repeats = numbers["geometry"]["matched"], numbers["settings"]["repeats"]
    own = ", ".join(f"{name} in {matched[name]['own_normalisation_best_in']}" for name in NORMALIZATIONS)
    return (
        "Every normalised matrix is compared with four geometric ones, which do not count errors one by one: they "
        "measure how far the cloud of a true class and that of a predicted class overlap. Bold is the best fit of a "
        "column; a geometric matrix is fitted best by the normalisation of its own kind, "
        f"of {repeats} repetitions: {own}."
    )


def decided(numbers: Numbers) -> str:
    """State how much of the overlap was guaranteed."""
    bi, alone = numbers["geometry"]["matched"]["bi"], numbers["geometry"]["alone"]
    earned = bi["overlap"]["mean"] - bi["guaranteed"]["mean"]
    return (
        f"Most of this agreement is no discovery: on {numbers['settings']['components']} axes {100 * alone:.0f} % of "
        "the pictures are alone in their cell, and there the two matrices agree by construction. For bi "
        f"{bi['guaranteed']['mean']:.2f} of {bi['overlap']['mean']:.2f} was guaranteed and {earned:.2f} earned beyond "
        f"it; with the labels dealt out at random the overlap would still be {bi['null']['mean']:.2f}."
    )


def clouds(numbers: Numbers) -> str:
    """Explain the two matrices side by side."""
    missing = 100 * numbers["geometry"]["missing_mass_bi"]
    return (
        "Left the bi-normalised counts of errors, right the overlap of the clouds under the same weights: where both "
        "are dark, classes that lie together are also the ones that get confused. "
        f"{missing:.1f} % of the bi-normalised mass lies in cells without a single picture (only the smoothing "
        "constant is in them) and is left out on both sides."
    )


def widths(numbers: Numbers) -> str:
    """State the influence of the cell width."""
    by = numbers["geometry"]["by_width"]
    return (
        f"The same pictures and the same network, with cells {by[0]['factor']:g} to {by[-1]['factor']:g} times as wide "
        f"as Scott's rule says: the overlap runs from {by[0]['overlap']:.2f} to {by[-1]['overlap']:.2f}, and moving "
        f"the grid by parts of a cell changes it by up to {max(w['origin_spread'] for w in by):.2f} (origin). So an "
        "overlap says little by itself; what counts is how far it stands above its guaranteed share and above the "
        "permuted labels."
    )


def bootstrap(numbers: Numbers) -> str:
    """State what the intervals cover."""
    found, level = numbers["bootstrap"], 100 * numbers["settings"]["interval"]
    share = 100 * found["balanced_inside_interval"]
    text = (
        f"The imbalanced test set is drawn again {found['resamples']:,} times and every matrix is bi-normalised; a bar "
        f"holds the middle {level:.0f} % of the results. The balanced truth lies inside the bar for {share:.0f} % of "
        "all confusions"
    )
    if share < level - 10:
        text += (
            ", not for "
            f"{level:.0f} %: the bars know the chance in the test set only, not that the network itself learned from "
            "other pictures, and a confusion that never occurred stays near zero in every draw"
        )
    return (
        f"{text}. The thin lines need no draws: how far every picture moves a cell is known from the derivative of the "
        "scaling, so one system of equations gives the errors of all cells (the delta method). Where a confusion was "
        f"seen they are {found['median_width_ratio_without_draws']:.2f} times as wide as the bars, in the median; near "
        "zero, where an interval is lopsided, take the bars."
    )


def statuses(numbers: Numbers) -> str:
    """Summarise the statuses of the bootstrap matrices."""
    return ", ".join(f"{count:,} {name}" for name, count in numbers["bootstrap"]["statuses"].items())


def making(numbers: Numbers) -> str:
    """Describe the settings."""
    s = numbers["settings"]
    return (
        f"The network has one hidden layer of {s['hidden']} units and sees its data {s['epochs']} times; both twins "
        f"start from the same weights. {s['repeats']} repetitions with other halves of the data, other imbalance and "
        "other first weights; what is shown as a matrix is the first of them, what is called a mean is over all. "
        f"Bi-normalised are the counts + {s['smoothing']:g} in every cell, to a residual of {s['tol']:g}."
    )
