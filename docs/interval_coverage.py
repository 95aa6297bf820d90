"""Measure how often intervals hold the truth: ``python docs/interval_coverage.py`` writes docs/coverage.md.

For every setting a matrix of shares is the truth. Test sets of n samples are drawn from it, every method makes the
intervals of every metric for each, and the part of them that holds the true value is counted. What was counted is kept
beside the page, so that a run that was stopped goes on, and the page can be written anew (``--page``).
"""

import argparse
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np

from cmfast import metrics, uncertainty

HERE = Path(__file__).parent
PAGE, KEPT = HERE / "coverage.md", HERE / "interval_coverage.json"
GOOD, LEAST = 0.93, 0.9
ENOUGH, FEW_SAMPLES = 9, 15  # wrong samples; samples of a class
METHODS = ("bca", "percentile", "basic", "normal", "posterior", "wilson")
SIZES = (30, 100, 1000, 10_000, 100_000)
TOGETHER = 50  # test sets at a time
SCALARS = tuple(name for name in metrics.SCALARS if "likelihood" not in name and "odds" not in name)
NAMES = (*SCALARS, "recall", "precision")  # the last two of the last class, which is the rare one
SHARES = ("accuracy", "zero_one_loss", "recall", "precision")  # that Wilson's interval is for


PRIORS = ("unit", "perks", "jeffreys")
TEXT = """# How often intervals hold the truth

Written by `docs/interval_coverage.py` from what it counted, which is kept in `interval_coverage.json`. For each of
{n_settings} settings test sets are drawn from known shares of the cells, and intervals of nominally 95 % are made of
each:

{much}

2,000 test sets make a share of 95 % known to half a percent, 100 of them to two. A cell of the first table has the
median over {n_metrics} metrics, and the lowest of them; Wilson's intervals are of the accuracy and its complement
alone. Green: {good} and more; red: below {least}.

![Every metric in every setting](coverage.png)

What follows from it, and what `interval` does about it:

- From some ten wrong samples on, with some ten samples of each class, every method holds what it promises. BCa is
  there first: with five wrong samples in all it holds 95 % of the accuracy, where the normal and the basic interval
  hold 88 %. So it is the default.
- With one or two wrong samples (30 at a recall of .95) every bootstrap fails, and so does the delta method: often
  nothing is wrong, and then no replicate differs. The posterior holds there, and Wilson's interval for what is a
  share.
- A small class decides about averages over classes, and about its own recall: with fewer than five samples of it
  balanced accuracy, macro F1 or the geometric mean hold 50 to 90 %. The posterior is better, and not good with ten
  classes.
- The recall of one class needs right and wrong samples of that class. With ten of a hundred classes' samples each at
  a recall of .95 most classes have nothing wrong, and a bootstrap gives a point. Wilson's interval is for that.
- `min_recall` of classes that are about equally good has no interval by any method: the smallest of several noisy
  numbers is below all of the true ones, however many samples there are.
- `interval` warns of fewer than five samples wrong or right of those that the metric is of, or fewer
  than five of a class that enters an average (ten for `"normal"` and `"basic"`).

{head}
{line}
{table}

## The recall of the smallest class

Where it has fewer than {few} samples on average.

{head_of_rare}
{line}
{rare}

## Priors

The posterior with one sample beforehand, half right and half wrong (`"unit"`), one spread evenly (`"perks"`), and
half a sample in each cell (`"jeffreys"`), which with ten classes is fifty, nearly all of them wrong. 400 test sets
each, 300 draws.

{priors_head}
{priors_line}
{of_priors}

## The worst

| coverage | method | metric | setting |
|---|---|---|---|
{worst}

## The worst with enough samples

Of {n_all:,} numbers where {enough} samples or more are wrong, and the smallest class has {few} or more, {n_late} are
below
{least}:

| coverage | method | metric | setting |
|---|---|---|---|
{late}
"""


def shares(n_classes: int, rare: float, recall: float) -> np.ndarray:
    """Return the shares of the cells: one class is `rare` times as frequent as the others, errors are spread evenly."""
    support = np.ones(n_classes)
    support[-1] = rare
    rows = np.full((n_classes, n_classes), (1 - recall) / (n_classes - 1))
    np.fill_diagonal(rows, recall)
    return rows * (support / support.sum())[:, np.newaxis]


def settings() -> dict[str, tuple[np.ndarray, int]]:
    """Return the truths and sizes of test sets; of a hundred classes none is rare, as one would not be noticed."""
    found = {}
    for C, rare, recall, n in itertools.product((2, 3, 10, 100), (1.0, 0.1), (0.7, 0.95), SIZES):
        if n >= 3 * C and (C < 100 or rare == 1.0):
            kind = "one rare" if rare < 1.0 else "balanced"
            found[f"{C} classes, {kind}, recall {recall}, n {n}"] = shares(C, rare, recall), n
    return found


def held(one: uncertainty.Interval, truth: Any, low: Any, high: Any) -> int:
    """Return how many intervals hold the truth; undefined ones do not."""
    truth = np.asarray(truth)
    if low.ndim > 1:
        low, high, truth = low[:, -1], high[:, -1], truth[-1]
    # A truth that is an end, as a sum of rounded shares may be, is inside.
    return int(((low <= truth + 1e-12) & (truth - 1e-12 <= high)).sum())


def coverage(
    P: np.ndarray, n: int, repetitions: int, n_replicates: int, methods: tuple[str, ...] = METHODS, prior: Any = "unit"
) -> dict[str, dict[str, float]]:
    """Return for every method and metric which part of the intervals holds the truth."""
    sets = uncertainty.resample(P, n=n, n_replicates=repetitions, rng=1)
    truth = metrics.compute(P * n, NAMES)
    found: dict[str, dict[str, int]] = {m: dict.fromkeys(SHARES if m == "wilson" else NAMES, 0) for m in methods}
    asked = tuple(method for method in methods if method != "basic")  # which come from percentiles
    for first, method in itertools.product(range(0, repetitions, TOGETHER), asked):
        options: dict[str, Any] = {"method": method, "n_replicates": n_replicates, "rng": first, "num_threads": 1}
        options["on_failure"] = "ignore"  # which says nothing of few samples: that is what is measured
        if method == "posterior":
            options["prior"] = prior
        part = uncertainty.interval(sets[first : first + TOGETHER], list(found[method]), **options)
        for name, one in part.items():
            found[method][name] += held(one, truth[name], one.low, one.high)
            if method == "percentile" and "basic" in methods:  # mirrored
                found["basic"][name] += held(one, truth[name], 2 * one.estimate - one.high, 2 * one.estimate - one.low)
    return {m: {name: round(k / repetitions, 4) for name, k in of.items()} for m, of in found.items()}


def expected(setting: str) -> tuple[float, float]:
    """Return how many samples are wrong, and how many there are of the smallest class, on average."""
    P, n = settings()[setting]
    return n * (1 - float(np.trace(P))), n * float(P.sum(1).min())


def spread(values: list[float]) -> str:
    """Return the median and the lowest of some shares, with a square of its colour: a cell of the table."""
    middle = float(np.median(values))
    square = "🟩" if middle >= GOOD else "🟨" if middle >= LEAST else "🟥"
    return f"{square} {middle:.0%}, lowest {min(values):.0%}"


def page(kept: dict[str, Any], priors: dict[str, Any]) -> str:
    """Return docs/coverage.md: coverage by setting and method, of priors, the worst metrics."""
    done: dict[str, list[str]] = {}
    for setting, one in kept.items():
        done.setdefault(f"{one['repetitions']:,} test sets and {one['replicates']:,} replicates", []).append(setting)
    much = [
        f"- {what}: {', '.join(sorted({x.partition(',')[0] for x in of}, key=_number))}" for what, of in done.items()
    ]
    table = [
        f"| {setting} | {expected(setting)[0]:,.1f} | "
        + " | ".join(spread([x for name, x in one["held"][m].items() if name in SCALARS]) for m in METHODS)
        + " |"
        for setting, one in kept.items()
    ]
    rare = [
        f"| {setting} | {expected(setting)[1]:,.1f} | "
        + " | ".join(f"{one['held'][m]['recall']:.0%}" for m in METHODS)
        + " |"
        for setting, one in kept.items()
        if expected(setting)[1] < FEW_SAMPLES
    ]
    worst = sorted((x, m, name, s) for s, one in kept.items() for m in METHODS for name, x in one["held"][m].items())
    late = [row for row in worst if expected(row[3])[0] >= ENOUGH and expected(row[3])[1] >= FEW_SAMPLES]
    of_priors = [
        f"| {setting} | "
        + " | ".join(spread([x for name, x in one[prior].items() if name in SCALARS]) for prior in PRIORS)
        + " |"
        for setting, one in priors.items()
    ]
    head = "| setting | {} | " + " | ".join(f"`{m}`" for m in METHODS) + " |"
    line = "|---|---|" + "---|" * len(METHODS)
    return TEXT.format(
        n_settings=len(kept), much="\n".join(much), n_metrics=len(SCALARS), good=f"{GOOD:.0%}", least=f"{LEAST:.0%}",
        head=head.format("wrong samples"), head_of_rare=head.format("samples of that class"), line=line,
        table="\n".join(table), rare="\n".join(rare), few=FEW_SAMPLES, enough=ENOUGH,
        priors_head="| setting | " + " | ".join(f'`"{prior}"`' for prior in PRIORS) + " |",
        priors_line="|---|" + "---|" * len(PRIORS), of_priors="\n".join(of_priors),
        worst=_rows(_worst(worst)[:12]), late=_rows(_worst(late)[:12]),
        n_late=sum(row[0] < LEAST for row in late), n_all=len(late),
    )  # fmt: skip


def _number(text: str) -> int:
    return int(text.partition(" ")[0])


def _worst(rows: list[tuple[float, str, str, str]]) -> list[tuple[float, str, str, str]]:
    """Return the worst of every metric, the worst first."""
    first: dict[str, tuple[float, str, str, str]] = {}
    for row in rows:
        first.setdefault(row[2], row)
    return list(first.values())


def _rows(rows: list[tuple[float, str, str, str]]) -> str:
    return "\n".join(f"| {share:.1%} | `{way}` | `{name}` | {setting} |" for share, way, name, setting in rows)


def heat_map(kept: dict[str, Any]) -> None:
    """Draw what every method holds, of every metric in every setting."""
    import matplotlib as mpl  # noqa: TID251

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: TID251

    fig, axes = plt.subplots(1, 5, figsize=(16, 10), sharey=True, layout="constrained")
    for ax, method in zip(axes, METHODS[:5], strict=True):
        shares_held = [[one["held"][method][name] for name in NAMES] for one in kept.values()]
        image = ax.imshow(shares_held, cmap="RdYlGn", vmin=0.8, vmax=0.97, aspect="auto", interpolation="nearest")
        ax.set_title(method)
        ax.set_xlabel(f"{len(NAMES)} metrics")
        ax.set_xticks([])
    axes[0].set_yticks(range(len(kept)), list(kept), fontsize=6)
    fig.colorbar(image, ax=axes, label="part of the intervals that hold the truth (80 % and less: red)", shrink=0.5)
    fig.savefig(HERE / "coverage.png", dpi=80, metadata={"Software": None})


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=10_000, help="test sets of every setting")
    parser.add_argument("--replicates", type=int, default=2000)
    parser.add_argument("--classes", type=int, nargs="+", default=[2, 3, 10, 100], help="which numbers of classes")
    parser.add_argument("--page", action="store_true", help="write the page of what is kept, and measure nothing")
    args = parser.parse_args()
    every: dict[str, Any] = json.loads(KEPT.read_text()) if KEPT.exists() else {"methods": {}, "priors": {}}
    kept, priors = every["methods"], every["priors"]
    for setting, (P, n) in settings().items():
        if args.page or setting in kept or len(P) not in args.classes:
            continue
        found = coverage(P, n, args.repetitions, args.replicates)
        kept[setting] = {"repetitions": args.repetitions, "replicates": args.replicates, "held": found}
        print(
            f"{setting}: " + ", ".join(f"{m} {np.median(list(of.values())):.2f}" for m, of in found.items()), flush=True
        )
        KEPT.write_text(json.dumps(every, separators=(",", ":")) + "\n", encoding="utf-8")
    for setting, (P, n) in settings().items():
        if args.page or setting in priors or len(P) not in args.classes or n not in (30, 100, 1000):
            continue
        made = {p: coverage(P, n, min(args.repetitions, 400), 300, ("posterior",), p)["posterior"] for p in PRIORS}
        priors[setting] = made
        KEPT.write_text(json.dumps(every, separators=(",", ":")) + "\n", encoding="utf-8")
    PAGE.write_text(page(kept, priors), encoding="utf-8")
    heat_map(kept)


if __name__ == "__main__":
    main()
