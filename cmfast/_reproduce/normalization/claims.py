"""What the paper says, against what came out; every verdict follows from paired intervals over the repetitions."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cmfast._core.annotations import NORMALIZATIONS
from cmfast._reproduce._frame import Claim
from cmfast._reproduce.normalization import paired
from cmfast._reproduce.normalization.training import OF_STOPS, Settings

Numbers = dict[str, Any]
Part = tuple[str, Sequence[str]]
"""A claim of some of the places of another, in its intervals: what it says, and which they are."""
Said = tuple[str, str, Numbers] | tuple[str, str, Numbers, Part, Part]
"""A claim, where it stands, the intervals of its places, claims of some of them."""
SHOWN = 4  # places whose intervals are written out: all of them are in the numbers
SIDES = {paired.LOWER: "fails", paired.HIGHER: "holds", paired.OPEN: "undecided"}


def verdict(found: Mapping[str, Numbers]) -> str:
    """Return the verdict over places, each with an interval of which all is above zero where the claim holds.

    Where zero lies inside, it is undecided there. The largest group of places is last, and called the others.
    """
    places = {word: [name for name, each in found.items() if each["side"] == side] for side, word in SIDES.items()}
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
        data, joint, rest = re.fullmatch(r"(\w+)(?:( at | by )(.+))?", name).groups(default="")  # type: ignore[union-attr]
        grouped.setdefault(data + joint, []).append(rest)
    return "; ".join(data + _and(rests) for data, rests in grouped.items())


def _and(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _judged(text: str, where: str, found: Mapping[str, Numbers], settings: Settings) -> Claim:
    """Return a claim of intervals that hold together."""
    ordered = sorted(found.items(), key=lambda pair: float(pair[1]["mean"]))
    said = [f"{name} {each['mean']:+.3f} ({each['low']:+.3f} to {each['high']:+.3f})" for name, each in ordered]
    shown = ", ".join(said) if len(said) <= SHOWN else f"of {len(said)} places from {said[0]} to {said[-1]}"
    return Claim(text, where, verdict(found), f"above zero where it holds: {shown}", dict(found), [settings.seed])


def judged(first: Numbers, trend: Numbers, second: Numbers, settings: Settings) -> list[Claim]:
    """Return all claims; the networks are those that stop as the paper's do, the constant is the first."""
    said = [*_of_recovery(first, trend, settings), *_of_clouds(second, settings)]
    out = []
    for text, where, found, *part in said:
        wide = paired.together(found, settings.interval)
        for words, places in ((text, wide), *part):
            if places:
                out.append(_judged(words, where, {name: wide[name] for name in places}, settings))
    return out


def _of_recovery(first: Numbers, trend: Numbers, settings: Settings) -> list[Said]:
    stop, eps = settings.stops[0], f"{settings.smoothings[0]:g}"
    levels = _levels(first, stop, eps)
    overlap = {place: level["overlap_of_bi_against_best"] for place, level in levels.items()}
    ceilings = ", ".join(f"{name} {found[stop][eps][0]['ceiling']['bi']:.3f}" for name, found in first.items())
    high = [place for place, level in levels.items() if level["alpha"] <= 1]
    low = [place for place in levels if place not in high]

    def by_method(key: str) -> Numbers:
        return {f"{name} by {m}": each for name, found in trend.items() for m, each in found[key].items()}

    return [
        (
            "Bi-normalisation consistently has the highest overlap with the balanced matrix.",
            "section 6, Fig. 3a",
            overlap,
            ("The same at high heterogeneity, alpha of 1 and less.", high),
            ("The same at low heterogeneity, alpha above 1.", low),
        ),
        *_elsewhere(first, settings),
        (
            "The gap between bi and the others widens with heterogeneity.",
            "section 6",
            {name: found["gap"] for name, found in trend.items()},
        ),
        (
            "The overlap diminishes with heterogeneity, whatever the normalisation.",
            "section 6",
            by_method("loss"),
        ),
        (
            (
                "By definition bi has the lowest divergence from the balanced matrix. (It is the closest doubly "
                "stochastic matrix to the imbalanced one: nothing follows for another matrix.)"
            ),
            "section 6, Fig. 6",
            {place: level["kl_of_bi_against_best"] for place, level in levels.items()},
        ),
        (
            (
                "Where training and test set are balanced, all rows and columns have the same total. (The figure: 1 "
                "less chi-square of the predicted classes by its degrees of freedom. The overlap of a balanced matrix "
                f"with its own bi, the most that bi can reach: {ceilings}.)"
            ),
            "section 1",
            {name: found["predicted_evenly"] for name, found in trend.items()},
        ),
        (
            (
                "Weights are reliable where the distributions are not too dissimilar. (The figure: rank correlation "
                "over the levels of overlap and effective share of the samples.)"
            ),
            "section 4.1",
            by_method("overlap_follows_effective_share"),
        ),
    ]


def _levels(first: Numbers, stop: str, eps: str) -> Numbers:
    return {f"{name} at {level['alpha']:g}": level for name, found in first.items() for level in found[stop][eps]}


def _elsewhere(first: Numbers, settings: Settings) -> list[Said]:
    """Return the first claim of the other constants and of networks that learn on, as in the demo."""
    (stop, *later), (eps, *others) = settings.stops, [f"{e:g}" for e in settings.smoothings]
    asked = [(OF_STOPS[other], other, eps) for other in later]
    asked += [(f"bi of M + {other}", stop, other) for other in others]
    return [
        (
            f"The same of {words}.",
            "not in the paper",
            {name: level["overlap_of_bi_against_best"] for name, level in _levels(first, *at).items()},
        )
        for words, *at in asked
    ]


def _of_clouds(second: Numbers, settings: Settings) -> list[Said]:
    axes, eps = f"{settings.components[0]} axes", f"{settings.smoothings[0]:g}"
    found = {name: each[axes][eps] for name, each in second.items()}

    def everywhere(of: Callable[[Numbers], Numbers]) -> Numbers:
        return {f"{name} at {level['alpha']:g}": of(level) for name, each in found.items() for level in each["levels"]}

    out: list[Said] = []
    for against, words in (("normalised", ""), ("permuted", ", and no longer so where pairs are permuted")):
        for g in NORMALIZATIONS:
            own = everywhere(lambda level, against=against, g=g: level[against][g]["own_against_best"])  # type: ignore[misc]
            if against == "permuted":  # the claim is that nothing is left of it
                own = {place: paired.turned(each) for place, each in own.items()}
            text = f"The geometric matrix of {g} is closest to the normalisation {g}{words}."
            out.append((text, "Figs. 3 and 5", own))
    out.append(
        (
            "The correspondence is weaker for bi than for row.",
            "section 6, Fig. 3c",
            everywhere(lambda level: level["row_before_bi"]),
        )
    )
    for g, where in (("row", "Fig. 3b"), ("all", "Fig. 5a"), ("col", "Fig. 5b")):
        text = f"The overlap of {g} with its geometric matrix grows with heterogeneity."
        growth = {name: each["growth"][g] for name, each in found.items()}
        out.append((text, f"section 6, {where}", {name: each["overlap"] for name, each in growth.items()}))
        beyond = {name: each["beyond"] for name, each in growth.items()}
        out.append((f"That of {g} grows by more than its guaranteed share.", "follows if it is geometry", beyond))
    return out
