"""Claims of the paper with verdicts from paired intervals over repetitions."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cmfast._core.annotations import NORMALIZATIONS
from cmfast._pages.parts import Claim
from cmfast._reproduce import _paired_intervals as paired
from cmfast._reproduce.normalization.training import OF_STOPS, NormalizationSettings

Numbers = dict[str, Any]
Part = tuple[str, Sequence[str]]
"""A claim of some of the places of another, in its intervals: what it says, and which they are."""
Said = tuple[str, str, Numbers] | tuple[str, str, Numbers, Part, Part]
"""A claim, where it stands, the intervals of its places, claims of some of them."""
MOST_LISTED_PLACES = 4  # places whose intervals are written out: all of them are in the numbers
MOST_OVERLAP_GAP = 0.02  # of the overlap: what two matrices may differ by, beyond chance, and still be called alike
STRIPED = 0.05  # of the variance of errors: what a matrix may have more in stripes than another, and be as good


def verdict(found: Mapping[str, Numbers], judge: Callable[[Numbers], str] = paired.judge_above) -> str:
    """Return the combined verdict over places, each with an interval that must be above zero."""
    return paired.combine_verdicts({name: judge(each) for name, each in found.items()})


def _make_claim(
    text: str,
    where: str,
    found: Mapping[str, Numbers],
    settings: NormalizationSettings,
    judge: Callable[[Numbers], str] = paired.judge_above,
    rule: str = "above zero where it holds",
) -> Claim:
    """Return a claim with simultaneous intervals; `rule` states in words how it is judged."""
    ordered = sorted(found.items(), key=lambda pair: float(pair[1]["mean"]))
    said = [f"{name} {paired.format_interval_of_mean(each)}" for name, each in ordered]
    shown = (
        ", ".join(said) if len(said) <= MOST_LISTED_PLACES else f"of {len(said)} places from {said[0]} to {said[-1]}"
    )
    return Claim(text, where, verdict(found, judge), f"{rule}: {shown}", dict(found), [settings.seed])


def judge_shift(found: Mapping[str, Mapping[str, Numbers]], settings: NormalizationSettings) -> list[Claim]:
    """Judge section 3.1 on two test sets of one network, from `shift.TestSets.compare`."""
    lost, gained = (paired.widen_to_simultaneous(found[key], settings.interval) for key in ("lost", "gained"))
    return [
        _make_claim(
            "A network's row-normalised matrices of two test sets of other label distributions are alike. (The "
            "figure: overlap that is lost beyond what it is where both sets are dealt out anew within each class.)",
            "section 3.1",
            lost,
            settings,
            lambda each: paired.judge_between(each, most=MOST_OVERLAP_GAP),
            f"at most {MOST_OVERLAP_GAP:g} where it holds",
        ),
        _make_claim(
            "They are more alike than the matrices divided by their totals.",
            "section 3.1",
            gained,
            settings,
        ),
    ]


def judge_stripes(found: Mapping[str, Mapping[str, Any]], settings: NormalizationSettings) -> list[Claim]:
    """Judge the claims on Fig. 4, from `stripes.compare_stripes`."""
    wide = paired.widen_to_simultaneous(found["against_balanced"], settings.interval)
    bi = {place.removesuffix(" by bi"): each for place, each in wide.items() if place.endswith(" by bi")}
    others = {place: each for place, each in wide.items() if not place.endswith(" by bi")}
    share = {name: f"{value:.2f}" for name, value in found["share"].items() if name.endswith((" balanced", " by bi"))}
    return [
        _make_claim(
            "Normalisations other than bi produce vertical or horizontal stripes. (The figure: share of the variance "
            "of errors that rows and columns alone explain, less that of the balanced matrix.)",
            "section 6, Fig. 4",
            others,
            settings,
            lambda each: paired.judge_above(each, STRIPED),
            f"above zero where it holds, below {STRIPED:g} where it fails",
        ),
        _make_claim(
            "bi has no more stripes than the balanced matrix.",
            "section 6, Fig. 4",
            bi,
            settings,
            lambda each: paired.judge_between(each, most=STRIPED),
            f"share: {', '.join(f'{name} {value}' for name, value in share.items())}; difference, at most {STRIPED:g} "
            "where it holds",
        ),
    ]


def judge_claims(first: Numbers, trend: Numbers, second: Numbers, settings: NormalizationSettings) -> list[Claim]:
    """Return all claims, for networks that stop as in the paper and the first constant."""
    said = [*_list_recovery_claims(first, trend, settings), *_list_cloud_claims(second, settings)]
    out = []
    for text, where, found, *part in said:
        wide = paired.widen_to_simultaneous(found, settings.interval)
        for words, places in ((text, wide), *part):
            if places:
                out.append(_make_claim(words, where, {name: wide[name] for name in places}, settings))
    return out


def _list_recovery_claims(first: Numbers, trend: Numbers, settings: NormalizationSettings) -> list[Said]:
    """Return the claims of experiment 1 with their intervals."""
    stop, eps = settings.stops[0], f"{settings.smoothings[0]:g}"
    levels = _collect_levels(first, stop, eps)
    overlap = {place: level["overlap_of_bi_against_best"] for place, level in levels.items()}
    ceilings = ", ".join(f"{name} {found[stop][eps][0]['ceiling']['bi']:.3f}" for name, found in first.items())
    high = [place for place, level in levels.items() if level["alpha"] <= 1]
    low = [place for place in levels if place not in high]

    def collect_by_method(key: str) -> Numbers:
        """Return the numbers under `key` of every data set and method, in one dict."""
        return {f"{name} by {m}": each for name, found in trend.items() for m, each in found[key].items()}

    return [
        (
            "Bi-normalisation consistently has the highest overlap with the balanced matrix.",
            "section 6, Fig. 3a",
            overlap,
            ("The same at high heterogeneity, alpha of 1 and less.", high),
            ("The same at low heterogeneity, alpha above 1.", low),
        ),
        *_list_claims_elsewhere(first, settings),
        (
            "The gap between bi and the others widens with heterogeneity.",
            "section 6",
            {name: found["gap"] for name, found in trend.items()},
        ),
        (
            "The overlap diminishes with heterogeneity, whatever the normalisation.",
            "section 6",
            collect_by_method("loss"),
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
            collect_by_method("overlap_follows_effective_share"),
        ),
    ]


def _collect_levels(first: Numbers, stop: str, eps: str) -> Numbers:
    """Return the levels of experiment 1 of all data sets at one stop and smoothing, by data set and alpha."""
    return {f"{name} at {level['alpha']:g}": level for name, found in first.items() for level in found[stop][eps]}


def _list_claims_elsewhere(first: Numbers, settings: NormalizationSettings) -> list[Said]:
    """Return the first claim for other constants and for networks trained longer."""
    (stop, *later), (eps, *others) = settings.stops, [f"{e:g}" for e in settings.smoothings]
    asked = [(OF_STOPS[other], other, eps) for other in later]
    asked += [(f"bi of M + {other}", stop, other) for other in others]
    return [
        (
            f"The same of {words}.",
            "not in the paper",
            {name: level["overlap_of_bi_against_best"] for name, level in _collect_levels(first, *at).items()},
        )
        for words, *at in asked
    ]


def _list_cloud_claims(second: Numbers, settings: NormalizationSettings) -> list[Said]:
    """Return the claims of experiment 2 with their intervals."""
    axes, eps = f"{settings.components[0]} axes", f"{settings.smoothings[0]:g}"
    found = {name: each[axes][eps] for name, each in second.items()}

    def collect_from_levels(of: Callable[[Numbers], Numbers]) -> Numbers:
        """Return `of` of every data set and level, in one dict."""
        return {f"{name} at {level['alpha']:g}": of(level) for name, each in found.items() for level in each["levels"]}

    out: list[Said] = []
    for against, words in (("normalised", ""), ("permuted", ", and no longer so where pairs are permuted")):
        for g in NORMALIZATIONS:
            own = collect_from_levels(lambda level, against=against, g=g: level[against][g]["own_against_best"])  # type: ignore[misc]
            if against == "permuted":  # claim: no overlap remains
                own = {place: paired.negate_interval(each) for place, each in own.items()}
            text = f"The geometric matrix of {g} is closest to the normalisation {g}{words}."
            out.append((text, "Figs. 3 and 5", own))
    out.append(
        (
            "The correspondence is weaker for bi than for row.",
            "section 6, Fig. 3c",
            collect_from_levels(lambda level: level["row_before_bi"]),
        )
    )
    for g, where in (("row", "Fig. 3b"), ("all", "Fig. 5a"), ("col", "Fig. 5b")):
        text = f"The overlap of {g} with its geometric matrix grows with heterogeneity."
        growth = {name: each["growth"][g] for name, each in found.items()}
        out.append((text, f"section 6, {where}", {name: each["overlap"] for name, each in growth.items()}))
        beyond = {name: each["beyond"] for name, each in growth.items()}
        out.append((f"That of {g} grows by more than its guaranteed share.", "follows if it is geometry", beyond))
    return out
