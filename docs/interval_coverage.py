"""Measure how often intervals hold the truth: ``python docs/interval_coverage.py`` writes docs/coverage.md.

For every setting a matrix of shares is the truth. Test sets of n samples are drawn from it, every method makes the
intervals of every metric for each, and the part of them that holds the true value is counted.
"""

import argparse
import itertools
from pathlib import Path
from typing import Any

import numpy as np

from cmfast import metrics, uncertainty

PAGE = Path(__file__).parent / "coverage.md"
METHODS = ("bca", "percentile", "basic", "normal", "posterior", "wilson")
GOOD, LEAST = 0.93, 0.9
TOGETHER = 50  # test sets at a time
NAMES = tuple(name for name in metrics.SCALARS if "likelihood" not in name and "odds" not in name)
SHARES = tuple(name for name in NAMES if name in ("accuracy", "zero_one_loss"))  # that Wilson's interval is for


def shares(n_classes: int, rare: float, recall: float) -> np.ndarray:
    """Return the shares of the cells: one class is `rare` times as frequent as the others, errors are spread evenly."""
    support = np.ones(n_classes)
    support[-1] = rare
    rows = np.full((n_classes, n_classes), (1 - recall) / (n_classes - 1))
    np.fill_diagonal(rows, recall)
    return rows * (support / support.sum())[:, np.newaxis]


def settings(most: int) -> dict[str, tuple[np.ndarray, int]]:
    """Return the truths and sizes of test sets, up to `most` classes."""
    found = {}
    for C, rare, recall, n in itertools.product((2, 3, 10, 100), (1.0, 0.1), (0.7, 0.95), (30, 100, 1000)):
        if most >= C and n >= 3 * C:
            kind = "one rare" if rare < 1.0 else "balanced"
            found[f"{C} classes, {kind}, recall {recall}, n {n}"] = shares(C, rare, recall), n
    return found


def coverage(P: np.ndarray, n: int, method: Any, repetitions: int, n_replicates: int) -> dict[str, float]:
    """Return for every metric which part of the intervals holds the truth; undefined ones do not."""
    names = SHARES if method == "wilson" else NAMES
    sets = uncertainty.resample(P, n=n, n_replicates=repetitions, rng=1)
    truth = metrics.compute(P * n, names)
    held = dict.fromkeys(names, 0)
    for first in range(0, repetitions, TOGETHER):
        options = {"method": method, "n_replicates": n_replicates, "rng": first}
        for name, one in uncertainty.interval(sets[first : first + TOGETHER], names, **options).items():
            # A truth that is an end, as a sum of rounded shares may be, is inside.
            inside = (one.low <= truth[name] + 1e-12) & (truth[name] - 1e-12 <= one.high)
            held[name] += int(inside.sum())
    return {name: number / repetitions for name, number in held.items()}


def colour(share: float) -> str:
    """Return a square for a cell of the heat map."""
    return "🟩" if share >= GOOD else "🟨" if share >= LEAST else "🟥"


def page(found: dict[str, dict[str, dict[str, float]]], repetitions: int, n_replicates: int, classes: int) -> str:
    """Return docs/coverage.md: coverage by setting and method, then the worst metrics."""
    command = f"docs/interval_coverage.py --repetitions {repetitions} --replicates {n_replicates} --classes {classes}"
    rows = [
        "# How often intervals hold the truth",
        "",
        f"Written by `{command}`:",
        "for every",
        f"setting {repetitions:,} test sets are drawn from known shares of the cells, and intervals of nominally 95 %",
        f"are made of each, with {n_replicates:,} replicates where something is drawn. Each cell has the median over",
        f"{len(NAMES)} metrics, and the lowest of them; Wilson's intervals are of shares alone. Green: {GOOD:.0%} and",
        f"more; red: below {LEAST:.0%}.",
        "",
        "- With a few wrong samples (30 at a recall of .95) every bootstrap fails, and so does the delta method: often",
        "  no replicate differs. Shares have Wilson's interval there.",
        "- From about five wrong samples on BCa holds what it promises, before the others: it is the default.",
        "- The prior of the posterior is half a sample for each cell, so it grows with the square of the classes: with",
        "  few samples of three classes it pulls good classifiers down. `prior=` takes less.",
        "",
        "| setting | " + " | ".join(f"`{method}`" for method in METHODS) + " |",
        "|---|" + "---|" * len(METHODS),
    ]
    worst = []
    for setting, methods in found.items():
        cells = []
        for method in METHODS:
            values = list(methods[method].values())
            middle = float(np.median(values))
            cells.append(f"{colour(middle)} {middle:.0%}, lowest {min(values):.0%}")
            worst += [(share, method, name, setting) for name, share in methods[method].items()]
        rows.append(f"| {setting} | " + " | ".join(cells) + " |")
    rows += ["", "## The worst", "", "| coverage | method | metric | setting |", "|---|---|---|---|"]
    rows += [f"| {share:.1%} | `{way}` | `{name}` | {setting} |" for share, way, name, setting in sorted(worst)[:25]]
    return "\n".join(rows) + "\n"


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=10_000)
    parser.add_argument("--replicates", type=int, default=2000)
    parser.add_argument("--classes", type=int, default=100, help="largest number of classes")
    args = parser.parse_args()
    found: dict[str, dict[str, dict[str, float]]] = {}
    for setting, (P, n) in settings(args.classes).items():
        found[setting] = {m: coverage(P, n, m, args.repetitions, args.replicates) for m in METHODS}
        medians = ", ".join(f"{m} {np.median(list(found[setting][m].values())):.2f}" for m in METHODS)
        print(f"{setting}: {medians}", flush=True)
    PAGE.write_text(page(found, args.repetitions, args.replicates, args.classes), encoding="utf-8")


if __name__ == "__main__":
    main()
