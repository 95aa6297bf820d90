"""Measure how often intervals of differences between groups hold the truth: ``python docs/groups_coverage.py``.

For every setting the true metric of each group is known. Studies are drawn from it, every method makes the interval of
each pair and of the largest difference, or of the difference of each group to all samples, and those that hold the true
difference are counted. The counts are kept in
``groups_coverage.json``, and the tables in ``groups.md`` are written anew.

All of it takes twenty minutes of one core.
"""

import argparse
import json
from functools import cache
from itertools import combinations
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from cmfast import metrics, uncertainty

HERE = Path(__file__).parent
PAGE, KEPT = HERE / "groups.md", HERE / "groups_coverage.json"
SHARES, OTHERS, OVERALL, UNITS = "shares", "others", "overall", "units"  # names of the tables, in comments of the page
AREAS, PARTIAL, AREAS_TO_ALL = "areas", "partial areas", "areas to all"  # the same, of areas of scores
INDICATORS = "indicators"  # the same, of metrics of several labels
STUDIES, RESAMPLES = 2_000, 2_000
AREA_STUDIES, AREA_RESAMPLES = 400, 400  # of indicators, too
MOST_FALSE = 0.2  # false positive rate up to which partial areas are taken
SEVERAL = ("f1_macro", "f1_samples", "subset_accuracy")  # metrics of several labels
POPULATION = 400_000  # samples of a group whose metrics of several labels count as true
FALSE_LABELS = 0.1  # share of absent labels that is predicted, relative to frequent labels
UNIT_STUDIES = 500  # with clusters or weights, which are compared one by one
BLOCK = 50  # studies at a time
PAIRS, TO_ALL = "pairs", "to all"  # both by the bootstrap
QUANTILES, IGNORED = "quantiles", "ignored"  # quantiles of replicates; clusters and weights left out
PATIENT_SPREAD = 4.0  # sum of both parameters of the beta distribution of accuracies of patients: correlation .2
WEIGHT_SPREAD = 1.0  # standard deviation of the log of weights


class Setting(NamedTuple):
    """A distribution of studies: the metric, the number of samples of each group, and how often each is right."""

    metric: str
    sizes: tuple[int, ...]
    right: tuple[float, ...]
    shown: tuple[str, ...]  # the cells of the table before the coverages
    n_classes: int = 1  # classes of equal number of samples; 1: positive samples alone, whose recall is measured


def _recall(sizes: tuple[int, ...], right: tuple[float, ...], *shown: str) -> Setting:
    return Setting("recall_binary", sizes, right, (str(len(sizes)), *shown))


def _three(metric: str, n: int, right: tuple[float, ...], shown: str) -> Setting:
    name = {"mcc": "MCC", "f1_macro": "macro F1"}[metric]
    return Setting(metric, (n,) * len(right), right, (name, str(len(right)), str(n), shown), 3)


SETTINGS = {
    SHARES: [
        _recall((100,) * 2, (0.8, 0.8), "100", ".8, .8"),
        _recall((100,) * 2, (0.8, 0.7), "100", ".8, .7"),
        _recall((15,) * 2, (0.9, 0.7), "15", ".9, .7"),
        _recall((15,) * 2, (0.95, 0.95), "15", ".95, .95"),
        _recall((10, 500), (0.9, 0.8), "10 and 500", ".9, .8"),
        _recall((100,) * 5, (0.8,) * 5, "100", ".8"),
        _recall((20,) * 5, (0.9,) * 5, "20", ".9"),
        _recall((100,) * 5, (0.9, 0.9, 0.9, 0.9, 0.7), "100", "four .9, one .7"),
        _recall((20, 40, 100, 200, 400), (0.7, 0.75, 0.8, 0.85, 0.9), "20 to 400", ".7 to .9"),
        _recall((50,) * 20, (0.85,) * 20, "50", ".85"),
        _recall((50,) * 20, tuple(np.linspace(0.7, 0.95, 20)), "50", ".7 to .95"),
    ],
    OTHERS: [
        _three("mcc", 60, (0.8,) * 3, ".8"),
        _three("f1_macro", 60, (0.8,) * 3, ".8"),
        _three("mcc", 60, (0.9, 0.7, 0.7), ".9, .7, .7"),
        _three("f1_macro", 60, (0.9, 0.7, 0.7), ".9, .7, .7"),
        _three("mcc", 300, (0.8,) * 5, ".8"),
        _three("f1_macro", 300, (0.8,) * 5, ".8"),
        _three("f1_macro", 300, (0.7, 0.75, 0.8, 0.85, 0.9), ".7 to .9"),
    ],
}
SETTINGS[OVERALL] = [
    Setting("accuracy", (100,) * 3, (0.8,) * 3, ("accuracy", "3", "100", ".8"), 2),
    Setting("accuracy", (30, 100, 870), (0.9, 0.7, 0.8), ("accuracy", "3", "30, 100, 870", ".9, .7, .8"), 2),
    Setting("accuracy", (15,) * 5, (0.9,) * 5, ("accuracy", "5", "15", ".9"), 2),
    Setting("recall_binary", (60,) * 3, (0.8,) * 3, ("recall", "3", "60", ".8"), 2),
    Setting("recall_binary", (60,) * 3, (0.95, 0.7, 0.8), ("recall", "3", "60", ".95, .7, .8"), 2),
    Setting("recall_binary", (40, 400), (0.6, 0.9), ("recall", "2", "40 and 400", ".6, .9"), 2),
    Setting("precision_binary", (60,) * 3, (0.95, 0.7, 0.8), ("precision", "3", "60", ".95, .7, .8"), 2),
    Setting("mcc", (60,) * 3, (0.8,) * 3, ("MCC", "3", "60", ".8"), 3),
    Setting("f1_macro", (60,) * 3, (0.9, 0.7, 0.7), ("macro F1", "3", "60", ".9, .7, .7"), 3),
    Setting("f1_macro", (60, 300, 600), (0.9, 0.7, 0.8), ("macro F1", "3", "60, 300, 600", ".9, .7, .8"), 3),
]
# Of two groups: patients in each, with 5 to 40 samples; or weighted samples.
SETTINGS[UNITS] = [
    *(Setting("accuracy", (k, k), (0.9, 0.8), (f"{k} patients", ".9, .8"), 2) for k in (30, 12, 6)),
    Setting("accuracy", (200, 200), (0.9, 0.8), ("200 weighted samples", ".9, .8"), 2),
    Setting("accuracy", (40, 400), (0.9, 0.8), ("40 and 400 weighted samples", ".9, .8"), 2),
]
# Of two or more groups: positive and negative samples of each, the true areas under ROC curves, and the standard
# deviation of scores of positive samples, where those of others have 1.
SETTINGS[AREAS] = [
    Setting("roc_auc", (100, 100), (0.8, 0.8), ("2", "100 + 100", ".8, .8")),
    Setting("roc_auc", (100, 100), (0.9, 0.75), ("2", "100 + 100", ".9, .75")),
    Setting("roc_auc", (20, 20), (0.9, 0.75), ("2", "20 + 20", ".9, .75")),
    Setting("roc_auc", (20, 20), (0.97, 0.97), ("2", "20 + 20", ".97, .97")),
    Setting("roc_auc", (10, 200), (0.9, 0.9), ("2", "10 + 200", ".9, .9")),
    Setting("roc_auc", (10, 200), (0.95, 0.75), ("2", "10 + 200", ".95, .75")),
    Setting("roc_auc", (10, 200), (0.95, 0.95), ("2", "10 + 200, wide", ".95, .95"), 2),
    Setting("roc_auc", (5, 50), (0.8, 0.8), ("2", "5 + 50", ".8, .8")),
    Setting("roc_auc", (20, 100), (0.85,) * 5, ("5", "20 + 100", ".85")),
    Setting("roc_auc", (20, 100), (0.95, 0.9, 0.9, 0.85, 0.7), ("5", "20 + 100", ".95 to .7")),
]
SETTINGS[PARTIAL] = [SETTINGS[AREAS][k] for k in (0, 1, 2, 4, 5, 7, 8)]
SETTINGS[AREAS_TO_ALL] = [SETTINGS[AREAS][k] for k in (0, 2, 4, 5, 7)]


def _labels(metric: str, n: int, missed: tuple[float, ...], share: str, *shown: str) -> Setting:
    return Setting(metric, (n,) * len(missed), missed, (f"`{metric}`", str(len(missed)), str(n), share, *shown), 5)


# Of five labels: samples of each group, and the share of labels that the model misses in it; all labels are frequent
# (30 % of the samples) or rare (5 %).
SETTINGS[INDICATORS] = [
    _labels(metric, n, missed, share, shown)
    for n, missed, share, shown in (
        (50, (0.2, 0.2), "30 %", ".2, .2"),
        (50, (0.1, 0.4), "30 %", ".1, .4"),
        (300, (0.1, 0.2, 0.3), "30 %", ".1, .2, .3"),
        (50, (0.2, 0.3), "5 %", ".2, .3"),
        (300, (0.2, 0.3), "5 %", ".2, .3"),
    )
    for metric in SEVERAL
]
OF_PAIRS = (AREAS, PARTIAL, AREAS_TO_ALL, INDICATORS)  # tables of the pair that is covered least
METHODS = {
    AREAS: ("newcombe", "logit", "delta", "bootstrap"),
    PARTIAL: ("logit", "delta"),
    AREAS_TO_ALL: ("delta", "bootstrap"),
    INDICATORS: (PAIRS, TO_ALL),
    UNITS: ("delta", "bootstrap", IGNORED),
    OVERALL: ("wilson", "delta", "bootstrap"),
    SHARES: ("wilson", "delta", "bootstrap", QUANTILES),
    OTHERS: ("bootstrap", "delta"),
}
HEADS = {
    **dict.fromkeys((AREAS, PARTIAL, AREAS_TO_ALL), ("groups", "positive + negative samples each", "true areas")),
    INDICATORS: ("metric", "groups", "samples each", "frequency of labels", "labels missed"),
    UNITS: ("each group", "accuracies"),
    SHARES: ("groups", "positive samples each", "true recalls"),
    OTHERS: ("metric", "groups", "samples each", "accuracies"),
    OVERALL: ("metric", "groups", "samples each", "accuracies"),
}


def list_shares(setting: Setting) -> np.ndarray:
    """Return the probability of every cell of the confusion matrix of each group, shape (G, C, C)."""
    right = np.array(setting.right)[:, np.newaxis, np.newaxis]
    if setting.n_classes == 1:
        return np.concatenate([np.zeros((len(right), 1, 2)), np.concatenate([1.0 - right, right], 2)], 1)
    C = setting.n_classes
    return np.where(np.eye(C) > 0, right, (1.0 - right) / (C - 1)) / C


def draw_studies(setting: Setting, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return the counts of `n` studies, shape (n, G, C, C)."""
    shares = list_shares(setting)
    drawn = [rng.multinomial(size, share.ravel(), n) for size, share in zip(setting.sizes, shares, strict=True)]
    return np.stack(drawn, 1).reshape(n, *shares.shape)


def count_covered(setting: Setting, methods: tuple[str, ...], seed: list[int]) -> dict[str, dict[str, int]]:
    """Return by method how many studies hold the largest difference and ratio, and, of the worst pair, its difference.

    Studies in which the metric of a group is undefined do not hold it.
    """
    rng, shares = np.random.default_rng(seed), list_shares(setting)
    truth = np.atleast_1d(metrics.compute(shares, setting.metric))
    gap, ratio = truth.max() - truth.min(), truth.min() / truth.max()
    first, second = np.array(list(combinations(range(len(truth)), 2))).T
    pairs = truth[first] - truth[second]
    held: dict[str, Any] = {
        method: {"gap": 0, "ratio": 0, "pairs": np.zeros(len(pairs), np.int64)} for method in methods
    }
    for start in range(0, STUDIES, BLOCK):
        M = draw_studies(setting, min(BLOCK, STUDIES - start), rng)
        options: dict[str, Any] = {"n_resamples": RESAMPLES, "rng": start, "on_failure": "ignore"}
        for method in methods:
            if method == QUANTILES:
                drawn = metrics.compute(uncertainty.resample(M, n_resamples=RESAMPLES, rng=start), setting.metric)
                drawn = np.moveaxis(drawn, 2, 1)  # study, replicate, group
                low, high = np.quantile(drawn.max(-1) - drawn.min(-1), (0.025, 0.975), axis=1)
                held[method]["gap"] += _count_inside(gap, low, high)
                continue
            found = uncertainty.compare_groups(M, setting.metric, method=method, **options)
            assert [list(found.first), list(found.second)] == [first.tolist(), second.tolist()]
            held[method]["gap"] += _count_inside(gap, found.difference_low, found.difference_high)
            held[method]["ratio"] += _count_inside(ratio, found.ratio_low, found.ratio_high)
            inside = (found.pair_low <= pairs + 1e-12) & (pairs - 1e-12 <= found.pair_high)
            held[method]["pairs"] += np.sum(inside, 0)
    return {
        method: {key: int(np.min(value)) if key == "pairs" else int(value) for key, value in one.items()}
        for method, one in held.items()
    }


def count_covered_of_all(setting: Setting, methods: tuple[str, ...], seed: list[int]) -> dict[str, dict[str, int]]:
    """Return by method how many studies hold the difference to all samples, of the group with the fewest, and ratio.

    Studies in which the metric of a group is undefined do not hold it.
    """
    rng, shares = np.random.default_rng(seed), list_shares(setting)
    sizes = np.array(setting.sizes)[:, np.newaxis, np.newaxis]
    truth, total = (np.atleast_1d(metrics.compute(x, setting.metric)) for x in (shares, (sizes * shares).sum(0)))
    held = {method: {key: np.zeros(len(truth), np.int64) for key in ("gap", "ratio")} for method in methods}
    for start in range(0, STUDIES, BLOCK):
        M = draw_studies(setting, min(BLOCK, STUDIES - start), rng)
        options: dict[str, Any] = {"n_resamples": RESAMPLES, "rng": start, "on_failure": "ignore"}
        for method in methods:
            found = uncertainty.compare_groups(M, setting.metric, method=method, reference="overall", **options)
            ends = {"gap": (truth - total, found.pair_low, found.pair_high)}
            ends["ratio"] = truth / total, found.pair_ratio_low, found.pair_ratio_high
            for key, (true, low, high) in ends.items():
                held[method][key] += ((low <= true + 1e-12) & (true - 1e-12 <= high)).sum(0)
    return {method: {key: int(value.min()) for key, value in one.items()} for method, one in held.items()}


def draw_units(setting: Setting, weighted: bool, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return the labels, predictions, groups, and clusters or weights of one study."""
    sizes = list(setting.sizes) if weighted else [rng.integers(5, 41, k) for k in setting.sizes]
    rates, unit = [], []
    for size, right in zip(sizes, setting.right, strict=True):
        if weighted:
            rates.append(np.full(size, right))
            continue
        of = rng.beta(PATIENT_SPREAD * right, PATIENT_SPREAD * (1.0 - right), len(size))
        rates.append(np.repeat(of, size))
        unit.append(np.repeat(np.arange(len(size)), size))
    rate = np.concatenate(rates)
    y = rng.integers(0, 2, len(rate))
    p = np.where(rng.random(len(rate)) < rate, y, 1 - y)
    group = np.repeat(np.arange(len(rates)), [len(x) for x in rates])
    labels = {"y_true": y, "y_pred": p, "groups": group}
    if weighted:
        return labels | {"sample_weight": rng.lognormal(0.0, WEIGHT_SPREAD, len(rate))}
    return labels | {"clusters": np.concatenate(unit)}


def count_covered_of_units(setting: Setting, methods: tuple[str, ...], seed: list[int]) -> dict[str, dict[str, int]]:
    """Return by method how many studies with clusters or weights hold the difference of two groups."""
    rng, truth = np.random.default_rng(seed), setting.right[0] - setting.right[1]
    held = {method: {"gap": 0} for method in methods}
    for study in range(UNIT_STUDIES):
        given = draw_units(setting, "weighted" in setting.shown[0], rng)
        options: dict[str, Any] = {"n_resamples": RESAMPLES // 2, "rng": study, "on_failure": "ignore"}
        labels = [given.pop(side) for side in ("y_true", "y_pred", "groups")]
        for method in methods:
            if method == IGNORED:
                found = uncertainty.compare_groups(*labels, "accuracy", method="wilson", **options)
            else:
                found = uncertainty.compare_groups(*labels, "accuracy", method=method, **given, **options)
            held[method]["gap"] += _count_inside(truth, found.pair_low[0], found.pair_high[0])
    return held


def find_true_areas(setting: Setting, max_fpr: float | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the true areas of groups, up to a false positive rate, and the means of scores of positive samples."""
    full, spread = np.array(setting.right), float(setting.n_classes)
    middle = np.array([NormalDist().inv_cdf(area) for area in full]) * np.hypot(1.0, spread)
    if max_fpr is None:
        return full, middle
    rates = (np.arange(20_000) + 0.5) / 20_000 * max_fpr
    cuts = np.array([NormalDist().inv_cdf(1.0 - rate) for rate in rates])
    hits = np.array([[NormalDist().cdf(x) for x in (m - cuts) / spread] for m in middle])
    chance = 0.5 * max_fpr**2
    return 0.5 + 0.5 * (hits.mean(1) * max_fpr - chance) / (max_fpr - chance), middle


def count_covered_of_areas(
    setting: Setting, methods: tuple[str, ...], seed: list[int], **options: Any
) -> dict[str, dict[str, int]]:
    """Return by method how many studies of scores hold the largest difference, and, of the worst pair, its difference.

    `n_classes` of the setting is the standard deviation of the scores of positive samples. With a reference "overall"
    in the options groups are compared with all samples, whose area is the mean of those of the groups, as all negative
    samples have one distribution.
    """
    rng, (m, n), spread = np.random.default_rng(seed), setting.sizes, float(setting.n_classes)
    truth, middle = find_true_areas(setting, options.get("max_fpr"))
    G = len(truth)
    first, second = np.array(list(combinations(range(G), 2))).T
    pairs, gap = truth[first] - truth[second], truth.max() - truth.min()
    if "reference" in options:
        pairs = truth - truth.mean()
    y, group = np.tile(np.repeat([1, 0], [m, n]), G), np.repeat(np.arange(G), m + n)
    held = {method: {"gap": 0, "pairs": np.zeros(len(pairs), np.int64)} for method in methods}
    for study in range(AREA_STUDIES):
        s = rng.normal(size=len(y)) * np.where(y, spread, 1.0) + y * middle[group]
        given: dict[str, Any] = {"n_resamples": AREA_RESAMPLES, "rng": study, "on_failure": "ignore"} | options
        for method in methods:
            found = uncertainty.compare_groups(y, s, group, setting.metric, method=method, **given)
            held[method]["gap"] += _count_inside(gap, found.difference_low, found.difference_high)
            held[method]["pairs"] += (found.pair_low <= pairs + 1e-12) & (pairs - 1e-12 <= found.pair_high)
    return {method: {key: int(np.min(value)) for key, value in one.items()} for method, one in held.items()}


def count_covered_of_partial_areas(
    setting: Setting, methods: tuple[str, ...], seed: list[int]
) -> dict[str, dict[str, int]]:
    """Return the same of areas up to a false positive rate."""
    return count_covered_of_areas(setting, methods, seed, max_fpr=MOST_FALSE)


def count_covered_of_all_areas(
    setting: Setting, methods: tuple[str, ...], seed: list[int]
) -> dict[str, dict[str, int]]:
    """Return the same of the differences of groups to all samples."""
    return count_covered_of_areas(setting, methods, seed, reference="overall")


def draw_indicators(missed: float, share: float, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return true labels and predictions; the labels of a sample go together, and so do the errors."""
    busy, hard = np.where(rng.random((n, 1)) < 0.5, 1.5, 0.5), np.where(rng.random((n, 1)) < 0.3, 2.0, 4.0 / 7.0)
    y = rng.random((n, 5)) < share * busy
    wrong = np.where(y, missed, FALSE_LABELS * share / 0.3) * hard
    return y.astype(np.int8), np.where(rng.random((n, 5)) < wrong, ~y, y).astype(np.int8)


@cache
def measure_indicators(sizes: tuple[int, ...], missed: tuple[float, ...], share: float) -> dict[str, dict[str, int]]:
    """Return by metric and method how many studies hold its difference, of the pair, or group, with the fewest."""
    rng, group = np.random.default_rng([15, *sizes]), np.repeat(np.arange(len(sizes)), sizes)
    everyone = [draw_indicators(one, share, POPULATION, rng) for one in missed]
    of_groups = [metrics.multilabel(*one, list(SEVERAL)) for one in everyone]
    of_all = metrics.multilabel(*(np.concatenate(side) for side in zip(*everyone, strict=True)), list(SEVERAL))
    first, second = np.array(list(combinations(range(len(sizes)), 2))).T
    wanted, held = {}, {}
    for name in SEVERAL:
        truth = np.array([one[name] for one in of_groups])
        wanted[name] = {PAIRS: truth[first] - truth[second], TO_ALL: truth - of_all[name]}
        held[name] = {method: np.zeros(len(x), np.int64) for method, x in wanted[name].items()}
    for study in range(AREA_STUDIES):
        parts = [draw_indicators(one, share, n, rng) for one, n in zip(missed, sizes, strict=True)]
        y, p = (np.concatenate(side) for side in zip(*parts, strict=True))
        options: dict[str, Any] = {"n_resamples": AREA_RESAMPLES, "rng": study, "on_failure": "ignore"}
        for method in (PAIRS, TO_ALL):
            reference = {"reference": "overall"} if method == TO_ALL else {}
            found = uncertainty.compare_groups(y, p, group, list(SEVERAL), multilabel=True, **options, **reference)
            for name, one in found.items():
                true = wanted[name][method]
                held[name][method] += (one.pair_low <= true + 1e-12) & (true - 1e-12 <= one.pair_high)
    return {name: {method: int(np.min(x)) for method, x in one.items()} for name, one in held.items()}


def count_covered_of_indicators(
    setting: Setting, methods: tuple[str, ...], seed: list[int]
) -> dict[str, dict[str, int]]:
    """Return how many studies hold the difference of a multilabel metric; all metrics have the same studies."""
    del seed
    share = float(setting.shown[3].removesuffix(" %")) / 100.0
    counts = measure_indicators(setting.sizes, setting.right, share)[setting.metric]
    return {method: {"pairs": counts[method]} for method in methods}


def _fits(method: str, setting: Setting) -> bool:
    """Return whether a method can take the metric."""
    return method != "wilson" or setting.metric not in ("mcc", "f1_macro")


def _count_inside(truth: float, low: Any, high: Any) -> int:
    return int(np.sum((low <= truth + 1e-12) & (truth - 1e-12 <= high)))


def write_table(kept: dict[str, Any], name: str) -> str:
    """Return the table of coverages of the largest difference in Markdown."""
    methods = METHODS[name]
    words = {QUANTILES: "quantiles of replicates", IGNORED: "as independent, equal samples"}
    words |= {PAIRS: "pairs", TO_ALL: '`reference="overall"`'}
    heads = [*HEADS[name], *(words.get(one, f'`"{one}"`') for one in methods)]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for setting, one in zip(SETTINGS[name], kept[name], strict=True):
        shares = [
            f"{100 * one['held'][method]['pairs' if name in OF_PAIRS else 'gap'] / one['studies']:.1f} %"
            if method in one["held"]
            else ""
            for method in methods
        ]
        lines.append("| " + " | ".join([*setting.shown, *shares]) + " |")
    return "\n".join(lines)


def write_page(kept: dict[str, Any], text: str) -> str:
    """Return the text of the page with the tables of `kept`."""
    for name in kept:
        begin, end = (f"<!-- coverage of {name}{part} -->" for part in ("", " ends"))
        head, rest = text.split(begin)
        text = f"{head}{begin}\n\n{write_table(kept, name)}\n\n{end}{rest.split(end)[1]}"
    return text


COUNTED_BY: dict[str, Any] = {
    OVERALL: count_covered_of_all,
    UNITS: count_covered_of_units,
    AREAS: count_covered_of_areas,
    PARTIAL: count_covered_of_partial_areas,
    AREAS_TO_ALL: count_covered_of_all_areas,
    INDICATORS: count_covered_of_indicators,
}


def main() -> None:
    """Measure all settings and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", action="store_true", help="write the page of what was measured before")
    parser.add_argument("--only", choices=SETTINGS, help="measure one table, keep the others")
    args = parser.parse_args()
    kept = json.loads(KEPT.read_text()) if args.page or args.only else {}
    if not args.page:
        for name, settings in SETTINGS.items():
            if args.only not in (None, name):
                continue
            count = COUNTED_BY.get(name, count_covered)
            studies = UNIT_STUDIES if name == UNITS else AREA_STUDIES if name in OF_PAIRS else STUDIES
            held = [
                count(
                    one, tuple(method for method in METHODS[name] if method == QUANTILES or _fits(method, one)), [11, k]
                )
                for k, one in enumerate(settings)
            ]
            kept[name] = [
                {"setting": list(one.shown), "studies": studies, "held": counts}
                for one, counts in zip(settings, held, strict=True)
            ]
            KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    PAGE.write_text(write_page(kept, PAGE.read_text()))


if __name__ == "__main__":
    main()
