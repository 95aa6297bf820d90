"""Measure how often intervals of areas hold the truth: ``python docs/area_coverage.py``.

Samples of known distributions are drawn many times, and the intervals that hold the true area are counted. The counts
are kept in ``area_coverage.json``, and their tables in ``uncertainty.md`` are written anew. It takes some six minutes
of one core. Beside the intervals of `interval` it measures one that needs no influences: the logit interval of Boyd,
Eng and Page (2013) for average precision, whose standard error is that of a share of the positive samples.
"""

import argparse
import json
import warnings
from itertools import pairwise
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from cmfast import uncertainty
from cmfast.uncertainty import _area_influences

HERE = Path(__file__).parent
PAGE, KEPT = HERE / "uncertainty.md", HERE / "area_coverage.json"
SIZES = "by effective size"  # key of what was counted of weighted samples
SMALL, RANKS = "small classes", "by wrong ranks"  # of what was counted of small classes
PAIRS = "pairs"  # of what was counted of differences of two models on the same samples
PAIRED_CLASSES = ((5, 200), (10, 200), (20, 200), (20, 20), (50, 200))
PAIRED_AREAS = ((0.75, 0.75), (0.9, 0.75), (0.9, 0.9), (0.98, 0.85))
CORRELATIONS = (0.0, 0.5, 0.9)  # of the scores of both models within a class
PAIRED_METHODS = ("delta", "newcombe")
PAIRED_SETS = 1000
CLASSES = ((5, 5), (5, 500), (10, 10), (10, 500), (20, 20), (20, 500), (50, 50), (50, 500), (500, 10), (500, 50))
AREAS = (0.6, 0.75, 0.85, 0.95, 0.98)
SPREADS = (0.5, 1.0, 2.0)  # standard deviations of the scores of positive samples, where those of others have 1
WRONG = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0, 8.0, 500.0)  # size of the smaller class times min(area, 1 - area)
EDGES = (0, 5, 8, 12, 16, 20, 25, 40, 80)  # of effective sizes
FEWEST = 300  # intervals in a range for a share to be shown
UNEVEN = 0.75  # effective size of a class as a share of its samples: more is not looked at
POPULATION = 3_000_000
Z = 1.959963984540054
BOYD = "Boyd, Eng and Page"


class Setting(NamedTuple):
    """Shares of the classes, the distance of their scores in standard deviations, and the number of samples.

    Weights are lognormal, independent of all else; `spread` is the standard deviation of their logarithms.
    """

    shares: tuple[float, ...]
    distance: float
    n: int
    spread: float = 0.0


SETTINGS = {
    "10 % of 100 positive": Setting((0.9, 0.1), 1.5, 100),
    "10 % of 500 positive": Setting((0.9, 0.1), 1.5, 500),
    "50 % of 60 positive": Setting((0.5, 0.5), 1.0, 60),
    "50 % of 60 positive, far apart": Setting((0.5, 0.5), 3.0, 60),
    "2 % of 1,000 positive": Setting((0.98, 0.02), 2.0, 1000),
    "3 classes, 60 samples": Setting((0.6, 0.3, 0.1), 1.5, 60),
    "3 classes, 300 samples": Setting((0.6, 0.3, 0.1), 1.5, 300),
    "10 classes, 300 samples": Setting((0.1,) * 10, 2.0, 300),
    "50 % of 60 positive, weighted": Setting((0.5, 0.5), 1.0, 60, 1.0),
    "50 % of 300 positive, weighted": Setting((0.5, 0.5), 1.0, 300, 1.0),
    "3 classes, 300 samples, weighted": Setting((0.6, 0.3, 0.1), 1.5, 300, 1.0),
}
WEIGHTED = [
    Setting(shares, distance, n, spread)
    for shares, distance, sizes in (
        ((0.5, 0.5), 1.0, (24, 40, 60, 100, 160, 300)),
        ((0.9, 0.1), 1.5, (100, 200, 400, 800)),
        ((0.6, 0.3, 0.1), 1.5, (60, 150, 300, 600)),
    )
    for n in sizes
    for spread in (1.0, 1.5)
]
TWO = {"roc_auc": {}, "roc_auc, max_fpr=0.2": {"max_fpr": 0.2}, "average_precision": {}}
MANY: dict[str, dict[str, Any]] = {"roc_auc_ovr": {}, "roc_auc_ovr_weighted": {}, "roc_auc_ovo": {}}


def draw(setting: Setting, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return classes, and normal scores: of the positive class, or of every class."""
    C = len(setting.shares)
    y = rng.choice(C, n, p=setting.shares)
    if C == 2:
        return y, rng.normal(size=n) + setting.distance * y
    return y, rng.normal(size=(n, C)) + setting.distance * (np.arange(C) == y[:, np.newaxis])


def find_truth(setting: Setting, cases: dict[str, dict[str, Any]]) -> dict[str, float]:
    """Return the areas in a large population."""
    y, s = draw(setting, POPULATION // len(setting.shares), np.random.default_rng(1))
    found = {}
    for case, options in cases.items():
        name, chosen = case.partition(",")[0], _area_influences.AreaOptions(max_fpr=options.get("max_fpr"))
        given, u = _area_influences.adopt(name, y, {"y_score": s}, chosen)
        found[case] = float(_area_influences.compute(name, given, s, u).area)
    return found


def measure(setting: Setting, n_sets: int, seed: list[int]) -> dict[str, Any]:
    """Return the truth and the number of intervals that hold it, by case and method, and of those compared."""
    rng = np.random.default_rng(seed)
    cases = TWO if len(setting.shares) == 2 else MANY
    truth = find_truth(setting, cases)
    held = {case: {"logit": 0, "normal": 0} for case in cases}
    if "average_precision" in held and not setting.spread:
        held["average_precision"][BOYD] = 0
    used = 0
    while used < n_sets:
        y, s = draw(setting, setting.n, rng)
        if np.bincount(y, minlength=len(setting.shares)).min() < 2:
            continue  # without two samples of each class there is no interval
        used += 1
        weights = {"sample_weight": rng.lognormal(sigma=setting.spread, size=setting.n)} if setting.spread else {}
        for case, options in cases.items():
            for method in ("logit", "normal"):
                more = {"method": method, "on_failure": "ignore"} | options | weights
                one = uncertainty.interval(y, s, case.partition(",")[0], **more)
                held[case][method] += bool(one.low <= truth[case] <= one.high)
            if BOYD in held[case]:
                value = np.float64(one.estimate)
                with np.errstate(divide="ignore", invalid="ignore"):
                    middle = np.log(value / (1.0 - value))
                    reach = Z / np.sqrt(np.count_nonzero(y) * value * (1.0 - value))
                    target = np.log(truth[case] / (1.0 - truth[case]))
                held[case][BOYD] += bool(middle - reach <= target <= middle + reach)
    return {"test_sets": n_sets, "truth": truth, "held": held}


def measure_sizes(n_sets: int) -> dict[str, list[list[int]]]:
    """Return for each area, and each range of effective sizes, the number of intervals that hold the truth and of all.

    The size is that of the class where it is smallest, which must be uneven.
    """
    found: dict[str, list[list[int]]] = {case: [[0, 0] for _ in EDGES[1:]] for case in (*TWO, *MANY)}
    truths: dict[tuple[float, ...], dict[str, float]] = {}
    for k, setting in enumerate(WEIGHTED):
        rng, C = np.random.default_rng([12, k]), len(setting.shares)
        cases = TWO if C == 2 else MANY
        truth = truths.setdefault(setting.shares, {}) or find_truth(setting, cases)
        truths[setting.shares] = truth
        for _ in range(n_sets):
            y, s = draw(setting, setting.n, rng)
            w, number = rng.lognormal(sigma=setting.spread, size=setting.n), np.bincount(y, minlength=C)
            if number.min() < 2:
                continue
            sizes = np.bincount(y, w) ** 2 / np.bincount(y, w * w)
            place = int(np.searchsorted(EDGES, sizes.min(), side="right")) - 1
            if sizes.min() >= UNEVEN * number[sizes.argmin()] or place == len(EDGES) - 1:
                continue
            for case, options in cases.items():
                more: dict[str, Any] = {"on_failure": "ignore", "sample_weight": w} | options
                one = uncertainty.interval(y, s, case.partition(",")[0], **more)
                found[case][place][0] += bool(one.low <= truth[case] <= one.high)
                found[case][place][1] += 1
    return found


def measure_small_classes(
    n_sets: int,
) -> tuple[dict[str, Any], dict[str, list[list[int]]], dict[str, dict[str, list[float]]]]:
    """Return by sizes, area and spread how many intervals hold the true area, by wrong ranks of all, and widths."""
    held: dict[str, Any] = {}
    widths: dict[str, dict[str, list[float]]] = {}
    ranks = {method: [[0, 0] for _ in WRONG[1:]] for method in ("logit", "newcombe")}
    for k, (m, n) in enumerate(CLASSES):
        y = np.repeat([1, 0], [m, n])
        for j, area in enumerate(AREAS):
            one: dict[str, list[int]] = {method: [] for method in ("logit", "normal", "newcombe")}
            wide: dict[str, list[float]] = {method: [] for method in one}
            for i, spread in enumerate(SPREADS):
                rng = np.random.default_rng([13, k, j, i])
                middle = np.hypot(1.0, spread) * NormalDist().inv_cdf(area)
                s = rng.normal(size=(n_sets, m + n)) * np.where(y, spread, 1.0) + middle * y
                for method, counts in one.items():
                    options: dict[str, Any] = {"method": method, "on_failure": "ignore"}
                    found = uncertainty.interval(np.tile(y, (n_sets, 1)), s, "roc_auc", **options)
                    inside = (found.low <= area) & (area <= found.high)
                    counts.append(int(inside.sum()))
                    wide[method].append(round(float(np.mean(found.high - found.low)), 5))
                    wrong = min(m, n) * np.minimum(found.estimate, 1.0 - found.estimate)
                    place = np.searchsorted(WRONG, wrong, side="right") - 1
                    for at, hit in zip(place, inside, strict=True) if method in ranks else ():
                        ranks[method][at][0] += bool(hit)
                        ranks[method][at][1] += 1
            held[f"{m} + {n}, {area}"] = one
            widths[f"{m} + {n}, {area}"] = wide
    return held, ranks, widths


def measure_pairs(n_sets: int) -> dict[str, Any]:
    """Return by class sizes and areas how many intervals of the difference hold it, by method and correlation."""
    held: dict[str, Any] = {}
    for k, (m, n) in enumerate(PAIRED_CLASSES):
        y = np.repeat([1, 0], [m, n])
        labels = np.tile(y, (n_sets, 1))
        for j, areas in enumerate(PAIRED_AREAS):
            one: dict[str, list[int]] = {method: [] for method in PAIRED_METHODS}
            for i, correlation in enumerate(CORRELATIONS):
                rng = np.random.default_rng([14, k, j, i])
                middle = [np.sqrt(2.0) * NormalDist().inv_cdf(area) for area in areas]
                common = np.sqrt(correlation) * rng.normal(size=(n_sets, m + n))
                own = np.sqrt(1.0 - correlation) * rng.normal(size=(2, n_sets, m + n))
                a, b = (common + noise + center * y for noise, center in zip(own, middle, strict=True))
                for method, counts in one.items():
                    found = uncertainty.compare(labels, a, b, "roc_auc", method=method)
                    truth = areas[0] - areas[1]
                    counts.append(int(np.sum((found.low <= truth + 1e-12) & (truth - 1e-12 <= found.high))))
            held[f"{m} + {n}, {areas[0]} and {areas[1]}"] = one
    return held


def write_small_classes(counts: dict[str, Any], n_sets: int) -> str:
    """Return the table of the least coverage of the spreads, by the logit and by Newcombe's interval, in Markdown."""
    lines = ["| positive + negative samples | " + " | ".join(f"area {area}" for area in AREAS) + " |"]
    lines.append("|---" * (1 + len(AREAS)) + "|")
    for m, n in CLASSES:
        cells = []
        for area in AREAS:
            least = [100 * min(counts[f"{m} + {n}, {area}"][method]) / n_sets for method in ("logit", "newcombe")]
            cells.append(f"{least[0]:.0f}, {least[1]:.0f} %")
        lines.append("| " + " | ".join([f"{m} + {n}", *cells]) + " |")
    return "\n".join(lines)


def write_pairs(kept: dict[str, Any]) -> str:
    """Return the table of the least coverage of the correlations, by both methods, in Markdown."""
    lines = ["| positive + negative samples | " + " | ".join(f"areas {a} and {b}" for a, b in PAIRED_AREAS) + " |"]
    lines.append("|---" * (1 + len(PAIRED_AREAS)) + "|")
    for m, n in PAIRED_CLASSES:
        cells = []
        for a, b in PAIRED_AREAS:
            counts = kept["held"][f"{m} + {n}, {a} and {b}"]
            least = [100 * min(counts[method]) / kept["test_sets"] for method in PAIRED_METHODS]
            cells.append(f"{least[0]:.0f}, {least[1]:.0f} %")
        lines.append("| " + " | ".join([f"{m} + {n}", *cells]) + " |")
    return "\n".join(lines)


def write_ranks(counts: dict[str, list[list[int]]]) -> str:
    """Return the table of coverages by the size of the smaller class times the distance of the area, in Markdown."""
    lines = ["| size times distance | " + " | ".join(f'`"{method}"`' for method in counts) + " |", "|---" * 3 + "|"]
    for k, (low, high) in enumerate(pairwise(WRONG)):
        shares = [f"{100 * one[k][0] / one[k][1]:.1f} %" for one in counts.values()]
        ends = f"{low:g} to {high:g}" if high < WRONG[-1] else f"{low:g} or more"
        lines.append("| " + " | ".join([ends, *shares]) + " |")
    return "\n".join(lines)


def write_sizes(counts: dict[str, list[list[int]]]) -> str:
    """Return the table of coverages by effective size in Markdown."""
    lines = [
        "| effective size | " + " | ".join(f"`{case}`" for case in counts) + " |",
        "|---" * (1 + len(counts)) + "|",
    ]
    for k, (low, high) in enumerate(pairwise(EDGES)):
        shares = [f"{100 * one[k][0] / one[k][1]:.1f} %" if one[k][1] >= FEWEST else "" for one in counts.values()]
        lines.append("| " + " | ".join([f"{low} to {high}", *shares]) + " |")
    return "\n".join(lines)


def write_table(kept: dict[str, Any]) -> str:
    """Return the table of coverages in Markdown."""
    lines = ['| samples | area | `"logit"` | `"normal"` | Boyd, Eng and Page |', "|---|---|---|---|---|"]
    for name in SETTINGS:
        one = kept[name]
        for case, counts in one["held"].items():
            shares = [
                f"{100 * counts[m] / one['test_sets']:.1f} %" if m in counts else "" for m in ("logit", "normal", BOYD)
            ]
            lines.append("| " + " | ".join([name, f"`{case}`", *shares]) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measure all settings and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=2000, help="test sets of each setting")
    parser.add_argument("--page", action="store_true", help="write the page of what was measured before")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for k, (name, setting) in enumerate(SETTINGS.items()):
        if not args.page and kept.get(name, {}).get("test_sets") != args.sets:
            kept[name] = measure(setting, args.sets, [11, k])
            KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    if not args.page and kept.get(SIZES, {}).get("test_sets") != args.sets:
        kept[SIZES] = {"test_sets": args.sets, "counts": measure_sizes(args.sets)}
        KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    if not args.page and kept.get(SMALL, {}).get("test_sets") != args.sets:
        held, ranks, widths = measure_small_classes(args.sets)
        kept[SMALL] = {"test_sets": args.sets, "held": held, RANKS: ranks, "widths": widths}
        KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    if not args.page and kept.get(PAIRS, {}).get("test_sets") != PAIRED_SETS:
        kept[PAIRS] = {"test_sets": PAIRED_SETS, "held": measure_pairs(PAIRED_SETS)}
        KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    text = PAGE.read_text()
    tables = {"areas": write_table(kept), "sizes": write_sizes(kept[SIZES]["counts"])}
    tables[SMALL] = write_small_classes(kept[SMALL]["held"], kept[SMALL]["test_sets"])
    tables[RANKS] = write_ranks(kept[SMALL][RANKS])
    tables[PAIRS] = write_pairs(kept[PAIRS])
    for place, table in tables.items():
        begin, end = f"<!-- {place} begin -->", f"<!-- {place} end -->"
        head, tail = text[: text.index(begin) + len(begin)], text[text.index(end) :]
        text = f"{head}\n\n{table}\n\n{tail}"
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
