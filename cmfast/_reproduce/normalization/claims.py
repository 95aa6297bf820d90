"""What the paper says, against what came out; every verdict follows from paired intervals over the repetitions."""

from collections.abc import Mapping
from typing import Any

from cmfast._core.annotations import NORMALIZATIONS
from cmfast._reproduce._frame import Claim
from cmfast._reproduce.normalization.paired import HIGHER, LOWER
from cmfast._reproduce.normalization.training import Settings

Numbers = dict[str, Any]


def verdict(found: Mapping[str, Numbers]) -> tuple[str, str]:
    """Return the verdict over places, each with an interval of which all is above zero where the claim holds.

    A claim holds where the whole interval is above zero; where zero lies inside, nothing is shown either way.
    """
    places = {side: [name for name, each in found.items() if each["side"] == side] for side in (HIGHER, LOWER)}
    said = ", ".join(
        f"{name} {each['mean']:+.3f} ({each['low']:+.3f} to {each['high']:+.3f})" for name, each in found.items()
    )
    yes, no = places[HIGHER], places[LOWER]
    if len(yes) == len(found):
        return "holds", said
    if len(no) == len(found):
        return "fails", said
    if not yes and not no:
        return "holds where it is decided, and that is nowhere: zero lies in every interval", said
    if no:
        return f"fails where {', '.join(no)}", said
    return f"holds where {', '.join(yes)}", said


def judged(first: Numbers, trend: Numbers, second: Numbers, settings: Settings) -> list[Claim]:
    """Return all claims; the networks are those that stop as the paper's do, the constant is the first."""
    eps = f"{settings.smoothings[0]:g}"
    levels = {f"{name} at {level['alpha']:g}": level for name, found in first.items() for level in found["early"][eps]}
    overlap = {place: level["overlap_of_bi_against_best"] for place, level in levels.items()}
    high = {place: found for place, found in overlap.items() if levels[place]["alpha"] <= 1}
    low = {place: found for place, found in overlap.items() if levels[place]["alpha"] > 1}
    said = (
        (
            "Bi-normalisation consistently has the highest overlap with the balanced matrix.",
            "section 6, Fig. 3a",
            overlap,
        ),
        ("The same at high heterogeneity, alpha of 1 and less.", "section 6, Fig. 3a", high),
        ("The same at low heterogeneity, alpha above 1.", "section 6, Fig. 3a", low),
        (
            "The gap between bi and the others widens with heterogeneity.",
            "section 6",
            {name: found["gap"] for name, found in trend.items()},
        ),
        (
            "The overlap diminishes with heterogeneity, whatever the normalisation.",
            "section 6",
            {f"{name} {m}": each for name, found in trend.items() for m, each in found["loss"].items()},
        ),
        (
            (
                "By definition bi has the lowest divergence from the balanced matrix. (It is the closest doubly "
                "stochastic matrix to the imbalanced one: nothing follows for another matrix.)"
            ),
            "section 6, Fig. 6",
            {place: level["kl_of_bi_against_best"] for place, level in levels.items()},
        ),
        *_of_clouds(second, eps, settings),
    )
    seeds = [settings.seed]
    out = []
    for text, where, found in said:
        if found:
            out.append(Claim(text, where, *verdict(found), figures=dict(found), seeds=seeds))
    return out


def _of_clouds(second: Numbers, eps: str, settings: Settings) -> list[tuple[str, str, Numbers]]:
    axes = f"{settings.components[0]} axes"
    found = {name: each[axes][eps] for name, each in second.items()}
    out: list[tuple[str, str, Numbers]] = []
    for against, words in (("normalised", ""), ("permuted", ", and no longer so where pairs are permuted")):
        for g in NORMALIZATIONS:
            own = {
                f"{name} at {level['alpha']:g}": level[against][g]["own_against_best"]
                for name, each in found.items()
                for level in each["levels"]
            }
            if against == "permuted":  # the claim is that nothing is left of it
                own = {place: _turned(each) for place, each in own.items()}
            out.append(
                (f"The geometric matrix of {g} is closest to the normalisation {g}{words}.", "Figs. 3 and 5", own)
            )
    growth = {name: each["growth"]["row"]["overlap"] for name, each in found.items()}
    sure = {name: _minus(each["growth"]["row"]) for name, each in found.items()}
    out.append(("The overlap of row with its geometric matrix grows with heterogeneity.", "section 6, Fig. 3b", growth))
    out.append(("It grows by more than its guaranteed share does.", "follows if it is geometry", sure))
    return out


def _turned(found: Numbers) -> Numbers:
    side = {HIGHER: LOWER, LOWER: HIGHER}.get(found["side"], found["side"])
    return {**found, "mean": -found["mean"], "low": -found["high"], "high": -found["low"], "side": side}


def _minus(growth: Numbers) -> Numbers:
    return dict(growth["beyond"])
