"""Measure sizes and powers of paired comparisons: ``python docs/paired_sizes.py`` writes docs/paired_sizes.md.

Two classifiers are drawn many times, equal ones and unequal ones, and the cases in which `compare` calls one of them
higher are counted. The counts are kept next to the page. ``--page`` writes the page from them and measures nothing,
``--only TEXT`` measures the settings whose name contains the text. Seeds are fixed; all of it takes some 30 minutes of
one core.
"""

import argparse
import json
import math
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cmfast import metrics, uncertainty

HERE = Path(__file__).parent
PAGE, KEPT = HERE / "paired_sizes.md", HERE / "paired_sizes.json"
NAMES = ("accuracy", "balanced_accuracy", "f1_macro", "mcc", "kappa_quadratic")
LEVEL = 0.95
REPLICATES = 999  # so that p = 0.05 can be reached exactly
CHUNK = 250  # pairs of classifiers in one call
DIFFER = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 30, 50, 70, 100)
Labels = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]  # truth, both predictions, clusters


class Setting(NamedTuple):
    """How a pair of classifiers is drawn, how often, and what it is for."""

    kind: str
    draw: Callable[[np.random.Generator], Labels]
    repetitions: int


def other_class(rng: np.random.Generator, y: np.ndarray, C: int) -> np.ndarray:
    """Return a class that is not `y`, each with the same probability."""
    found: np.ndarray = (y + rng.integers(1, C, y.shape)) % C
    return found


def near_class(rng: np.random.Generator, y: np.ndarray, C: int) -> np.ndarray:
    """Return the other class of the pair of `y`; in one of ten cases any other class: a hierarchy."""
    return np.where(rng.random(y.shape) < 0.1, other_class(rng, y, C), np.minimum(y ^ 1, C - 1))


def truths(rng: np.random.Generator, n: int, C: int, rare: int | None) -> np.ndarray:
    """Return balanced classes; or `rare` samples of class 0 and the rest of the others."""
    if rare is None:
        return rng.permutation(np.arange(n) % C)
    return rng.permutation(np.r_[np.zeros(rare, np.int64), 1 + np.arange(n - rare) % (C - 1)])


def so_many_differ(n: int, C: int, k: int, wins: float) -> Callable[[np.random.Generator], Labels]:
    """Return how to draw classifiers that differ in `k` of `n` samples, of which the first wins a share `wins`.

    In four of five of these one of them is right; in the others, if there are three classes or more, neither is. Where
    they agree nine of ten samples are right.
    """

    def draw(rng: np.random.Generator) -> Labels:
        y = truths(rng, n, C, None)
        a = np.where(rng.random(n) < 0.9, y, other_class(rng, y, C))
        b = a.copy()
        at = rng.permutation(n)[:k]
        right, wrong = y[at], other_class(rng, y[at], C)
        second = (right + 1 + (wrong - right) % C % (C - 1)) % C if C > 2 else wrong  # another wrong class
        neither = (rng.random(k) < 0.2) & (C > 2)
        one, other = np.where(neither, second, right), wrong
        first_wins = rng.random(k) < np.where(neither, 0.5, wins)
        a[at], b[at] = np.where(first_wins, one, other), np.where(first_wins, other, one)
        return y, a, b, None

    return draw


def alike(
    n: int, C: int, wrong: float, rare: int | None = None, errors: Callable[..., np.ndarray] = other_class,
    more_wrong: float = 0.0,
) -> Callable[[np.random.Generator], Labels]:  # fmt: skip
    """Return how to draw two classifiers whose errors are independent; the second is wrong more often by so much."""

    def draw(rng: np.random.Generator) -> Labels:
        y = truths(rng, n, C, rare)
        a, b = (np.where(rng.random(n) < share, errors(rng, y, C), y) for share in (wrong, wrong + more_wrong))
        return y, a, b, None

    return draw


def in_clusters(k: int, size: int, C: int) -> Callable[[np.random.Generator], Labels]:
    """Return how to draw `k` clusters, in each of which each classifier has an error rate of its own."""

    def draw(rng: np.random.Generator) -> Labels:
        y = rng.integers(0, C, k * size)
        rates = np.repeat(rng.beta(0.3, 1.2, (2, k)), size, axis=1)
        a, b = (np.where(rng.random(k * size) < rate, other_class(rng, y, C), y) for rate in rates)
        return y, a, b, np.repeat(np.arange(k), size)

    return draw


def other_classes(n: int, recalls: tuple[float, ...]) -> Callable[[np.random.Generator], Labels]:
    """Return how to draw classifiers with the same recalls, the second of them of other classes.

    Classes are equally frequent and errors evenly spread, so that all metrics but the ordered ones are equal in truth,
    though the two are not interchangeable.
    """
    C, share = len(recalls), np.array(recalls)

    def draw(rng: np.random.Generator) -> Labels:
        y = truths(rng, n, C, None)
        a, b = (np.where(rng.random(n) < own[y], y, other_class(rng, y, C)) for own in (share, np.roll(share, 1)))
        return y, a, b, None

    return draw


def in_unlike_clusters(k: int) -> Callable[[np.random.Generator], Labels]:
    """Return how to draw `k` clusters of 12 samples of two classes that are lost by one classifier in different ways.

    With a chance of one in ten the second alone is right in nine samples of a cluster, else the first alone in one:
    the expected difference is 0, and skewed.
    """

    def draw(rng: np.random.Generator) -> Labels:
        y = np.tile([0, 1], 6 * k).reshape(k, 12)
        few = rng.random((k, 1)) < 0.1
        place = rng.permuted(np.tile(np.arange(12), (k, 1)), axis=1)
        a = np.where(few & (place < 9), 1 - y, y)
        b = np.where(~few & (place < 1), 1 - y, y)
        return y.reshape(-1), a.reshape(-1), b.reshape(-1), np.repeat(np.arange(k), 12)

    return draw


def settings() -> dict[str, Setting]:
    """Return all settings by name."""
    found = {}
    for C in (2, 10):
        for k in DIFFER:
            found[f"{C} classes, 500 samples, {k} differ"] = Setting("few", so_many_differ(500, C, k, 0.5), 4000)
    for n, C, wrong, rare in ((200, 2, 0.01, None), (1000, 3, 0.05, 20), (300, 3, 0.05, 6), (2000, 10, 0.1, 5)):
        what = "no rare class" if rare is None else f"a rare class of {rare}"
        found[f"{C} classes, {n:,} samples, {wrong:.0%} wrong, {what}"] = Setting(
            "rare", alike(n, C, wrong, rare), 4000
        )
    for C, n in ((2, 100), (3, 150), (10, 500), (30, 600), (100, 1000)):
        found[f"{C} classes, {n:,} samples, 20% wrong"] = Setting("classes", alike(n, C, 0.2), 2000)
        if C > 3:
            name = f"{C} classes in pairs, {n:,} samples, 20% wrong, nine of ten within pairs"
            found[name] = Setting("classes", alike(n, C, 0.2, None, near_class), 2000)
    for k in (3, 6, 8, 12, 30, 100):
        found[f"{k} clusters of 10 samples, 3 classes"] = Setting("clusters", in_clusters(k, 10, 3), 4000)
    for n in (60, 300, 2000):
        found[f"recalls .95, .8, .6 of other classes, {n:,} samples"] = Setting(
            "unlike", other_classes(n, (0.95, 0.8, 0.6)), 4000
        )
    found["recalls .99, .5 of other classes, 200 samples"] = Setting("unlike", other_classes(200, (0.99, 0.5)), 4000)
    for k in (8, 12, 30, 100):
        found[f"{k} clusters, of which few decide"] = Setting("unlike", in_unlike_clusters(k), 4000)
    for wins in (0.7, 0.9):
        for k in DIFFER:
            name = f"3 classes, 500 samples, {k} differ, {wins:.0%} won by the first"
            found[name] = Setting("power", so_many_differ(500, 3, k, wins), 2000)
    return found


def count_calls(draw: Callable[[np.random.Generator], Labels], repetitions: int, seed: int) -> dict[str, list[int]]:
    """Return how often one is called higher of every metric: by the permutation test, by the interval of BCa."""
    found = {"permutation": [0] * len(NAMES), "interval": [0] * len(NAMES)}
    for first in range(0, repetitions, CHUNK):
        some = range(first, min(first + CHUNK, repetitions))
        drawn = [draw(np.random.default_rng([seed, k])) for k in some]
        y, a, b = (np.concatenate([one[part] for one in drawn]) for part in range(3))
        group = np.repeat(np.arange(len(drawn)), [len(one[0]) for one in drawn])
        clusters = None if drawn[0][3] is None else np.concatenate([one[3] for one in drawn if one[3] is not None])
        T = uncertainty.paired_counts(y, a, b, groups=group, clusters=clusters)
        options: dict[str, Any] = {"confidence_level": LEVEL, "n_resamples": REPLICATES, "rng": seed + first}
        by_swaps = uncertainty.compare(T, list(NAMES), method="delta", **options)
        by_interval = uncertainty.compare(T, list(NAMES), test="interval", **options)
        for test, result in (("permutation", by_swaps), ("interval", by_interval)):
            for k, name in enumerate(NAMES):
                found[test][k] += int(np.count_nonzero(result[name].p_value <= 1 - LEVEL + 1e-12))
    return found


def further_wrong(
    n: int, C: int, rare: int | None, wrong: float, more: float
) -> Callable[[np.random.Generator], Labels]:
    """Return how to draw two classifiers with the same errors, of which the second has `more` besides."""

    def draw(rng: np.random.Generator) -> Labels:
        y = truths(rng, n, C, rare)
        a = np.where(rng.random(n) < wrong, other_class(rng, y, C), y)
        return y, a, np.where((rng.random(n) < more) & (a == y), other_class(rng, y, C), a), None

    return draw


def expected_matrix(n: int, C: int, rare: int | None, wrong: float) -> np.ndarray:
    """Return the confusion matrix to expect of a classifier that is `wrong` so often, its errors spread evenly."""
    support = np.bincount(truths(np.random.default_rng(0), n, C, rare), minlength=C).astype(float)
    rows = np.full((C, C), wrong / (C - 1))
    np.fill_diagonal(rows, 1.0 - wrong)
    return rows * support[:, np.newaxis]


def count_equivalent(
    n: int, C: int, rare: int | None, wrong: float, more: float, repetitions: int, seed: int
) -> list[int]:  # fmt: skip
    """Return how often models as far apart as the margin are called equivalent, of every metric."""
    worse = wrong + (1.0 - wrong) * more
    M = np.stack([expected_matrix(n, C, rare, share) for share in (wrong, worse)])
    margins = {name: abs(float(np.subtract(*metrics.compute(M, name)))) for name in NAMES}
    found, draw = [0] * len(NAMES), further_wrong(n, C, rare, wrong, more)
    for first in range(0, repetitions, CHUNK):
        drawn = [draw(np.random.default_rng([seed, k])) for k in range(first, min(first + CHUNK, repetitions))]
        y, a, b = (np.concatenate([one[part] for one in drawn]) for part in range(3))
        T = uncertainty.paired_counts(y, a, b, groups=np.repeat(np.arange(len(drawn)), n), n_classes=C)
        for at, (name, margin) in enumerate(margins.items()):
            found[at] += int(np.count_nonzero(uncertainty.equivalence(T, name, margin).p_value <= 1 - LEVEL + 1e-12))
    return found


def count_families(n_models: int, n: int, C: int, wrong: float, repetitions: int, seed: int) -> list[int]:
    """Return in how many families of equal models Holm's correction leaves a difference, of every metric."""
    found = [0] * len(NAMES)
    for k in range(repetitions):
        rng = np.random.default_rng([seed, k])
        y = truths(rng, n, C, None)
        said = [np.where(rng.random(n) < wrong, other_class(rng, y, C), y) for _ in range(n_models)]
        pairs = {
            (i, j): uncertainty.paired_counts(y, said[i], said[j], n_classes=C)
            for i in range(n_models)
            for j in range(i)
        }
        result = uncertainty.compare_many(pairs, list(NAMES), method="delta", n_resamples=REPLICATES, rng=k)
        for at, name in enumerate(NAMES):
            found[at] += bool((result[name].holm <= 1 - LEVEL + 1e-12).any())
    return found


FAMILIES = {
    "3 models, 3 classes, 100 samples, 10% wrong": (3, 100, 3, 0.1),
    "5 models, 3 classes, 200 samples, 5% wrong": (5, 200, 3, 0.05),
}
OF_FAMILIES = 1000
EQUIVALENT = {
    "2 classes, 30 samples, 10% wrong and 5% more": (30, 2, None, 0.1, 0.05),
    "2 classes, 200 samples, 10% wrong and 1% more": (200, 2, None, 0.1, 0.01),
    "3 classes, 300 samples, 5% wrong and 5% more, a rare class of 6": (300, 3, 6, 0.05, 0.05),
    "3 classes, 1,000 samples, 5% wrong and 2% more, a rare class of 20": (1000, 3, 20, 0.05, 0.02),
    "2 classes, 1,000 samples, none wrong and 1% more": (1000, 2, None, 0.0, 0.01),
    "10 classes, 2,000 samples, 10% wrong and 1% more, a rare class of 5": (2000, 10, 5, 0.1, 0.01),
    "10 classes, 5,000 samples, 10% wrong and 0.5% more": (5000, 10, None, 0.1, 0.005),
}
OF_EQUIVALENT = 2000

TEXT = """# How often equal models are called different

`docs/paired_sizes.py` writes this page from its counts in `paired_sizes.json`. It draws pairs of classifiers with
fixed seeds and counts how often `compare` calls one of them higher at a level of {level:.0%}. For equal models this is
the *size* of the test, which should be at most {alpha:.0%}; for unequal models it is the *power*. The standard error
of a size of {alpha:.0%} with {most:,} pairs is {error:.1%}.

What to learn from it:

- **The permutation test keeps its size** if the two models are exchangeable, for any number of samples that differ,
  rare classes, clusters, 2 to 100 classes, and after Holm's correction: of {n_sizes} sizes, {n_above} are above
  {alpha:.0%} plus two standard errors, and the largest is {largest:.1%}. With fewer than six samples that differ it
  never calls one higher, because no outcome has a p below {alpha:.0%}; `compare` warns about that.
- **The interval does not keep it.** With p from the interval (`test="interval"`, the last column of the tables), equal
  models are called different in up to {worst_interval:.0%} of cases, mostly if few samples differ, a class is rare, or
  clusters are few. So p comes from the permutation test, which decides if the two disagree.
- **Exchangeable means more than equal.** Two models may have the same accuracy, but errors in different classes or
  clusters. Swapping their predictions mixes these errors, so the test guarantees nothing. The table of unlike models
  shows its size there: up to {largest_unlike:.1%}.

## Few samples that differ

{few}

## Rare classes

{rare}

## Numbers of classes

{classes}

## Clusters

In each cluster both classifiers have their own error rates, drawn from the same distribution, so that samples of a
cluster are correlated. `compare` is given the clusters.

{clusters}

## Several models

How often any pair of equal models is called different after Holm's correction, in {families:,} families each.

{holm}

## Unlike models with equal metrics

The first model has these recalls, the second has the same recalls for other classes; or the second is much better in a
few clusters, and the first slightly better in all others. The true values of all metrics listed are equal.

{unlike}

## Equivalence

How often `equivalence` reports a difference below the margin if the margin is the true difference: the second model is
wrong wherever the first is, and on more samples. {equivalent_pairs:,} pairs each; the largest size is
{largest_equivalent:.1%}.

{equivalent}

## Power

How often the first model is called higher if it is the correct one in 70 % or 90 % of the samples that only one model
predicts correctly. Three classes, 500 samples. For the accuracy the test is McNemar's exact test.

{power}
"""


def _row(name: str, counts: list[int], n: int, last: str) -> str:
    return f"| {name} | " + " | ".join(f"{k / n:.1%}" for k in counts) + f" | {last} |"


def _table(kept: dict[str, Any], kind: str, names: tuple[str, ...] = NAMES) -> str:
    """Return the table of the settings of one kind."""
    rows = [
        "| setting | " + " | ".join(f"`{name}`" for name in names) + " | largest by the interval |",
        "|---|" + "---|" * (len(names) + 1),
    ]
    for name, setting in settings().items():
        if setting.kind == kind and name in kept:
            one = kept[name]
            n = one["repetitions"]
            largest = max(one["interval"][: len(names)]) / n
            rows.append(_row(name, one["permutation"][: len(names)], n, f"{largest:.1%}"))
    return "\n".join(rows)


def _power(kept: dict[str, Any]) -> str:
    rows = [
        "| samples that differ | " + " | ".join(f"{wins}, `{name}`" for wins in ("70%", "90%") for name in NAMES[:4])
    ]
    rows[0] += " |"
    rows.append("|---|" + "---|" * 8)
    for k in DIFFER:
        cells = []
        for wins in ("70%", "90%"):
            one = kept.get(f"3 classes, 500 samples, {k} differ, {wins} won by the first")
            cells += [f"{count / one['repetitions']:.0%}" for count in one["permutation"][:4]] if one else [""] * 4
        rows.append(f"| {k} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def sizes(kept: dict[str, Any]) -> list[tuple[float, float, str, str]]:
    """Return size, its standard error at the level, metric and setting, of interchangeable models."""
    of_kind = {name: setting.kind for name, setting in settings().items()} | dict.fromkeys(FAMILIES, "holm")
    return [
        (count / one["repetitions"], math.sqrt((1 - LEVEL) * LEVEL / one["repetitions"]), name, setting)
        for setting, one in kept.items()
        if of_kind.get(setting) in ("few", "rare", "classes", "clusters", "holm")
        for name, count in zip(NAMES, one["permutation"], strict=True)
    ]


def page(kept: dict[str, Any]) -> str:
    """Return docs/paired_sizes.md."""
    found = sizes(kept)
    kinds = {name: setting.kind for name, setting in settings().items()}
    by_interval = [
        max(one["interval"]) / one["repetitions"]
        for name, one in kept.items()
        if kinds.get(name) in ("few", "rare", "classes", "clusters")
    ]
    holm = ["| models | " + " | ".join(f"`{name}`" for name in NAMES) + " |", "|---|" + "---|" * len(NAMES)]
    holm += [
        f"| {name} | " + " | ".join(f"{k / kept[name]['repetitions']:.1%}" for k in kept[name]["permutation"]) + " |"
        for name in FAMILIES
        if name in kept
    ]
    alike = ["| setting | " + " | ".join(f"`{name}`" for name in NAMES) + " |", "|---|" + "---|" * len(NAMES)]
    alike += [
        f"| {name} | " + " | ".join(f"{k / kept[name]['repetitions']:.1%}" for k in kept[name]["equivalent"]) + " |"
        for name in EQUIVALENT
        if name in kept
    ]
    most = max((one["repetitions"] for one in kept.values()), default=1)
    return TEXT.format(
        level=LEVEL, alpha=1 - LEVEL, most=most, error=math.sqrt((1 - LEVEL) * LEVEL / most), n_sizes=len(found),
        n_above=sum(size > 1 - LEVEL + 2 * error for size, error, *_ in found),
        largest=max(found, default=(0.0,))[0], worst_interval=max(by_interval, default=0.0),
        largest_unlike=max(
            (count / one["repetitions"] for name, one in kept.items() if kinds.get(name) == "unlike"
             for count in one["permutation"][:4]), default=0.0,
        ),
        families=OF_FAMILIES, equivalent_pairs=OF_EQUIVALENT, equivalent="\n".join(alike),
        largest_equivalent=max(
            (k / kept[name]["repetitions"] for name in EQUIVALENT if name in kept for k in kept[name]["equivalent"]),
            default=0.0,
        ),
        holm="\n".join(holm), power=_power(kept), unlike=_table(kept, "unlike", NAMES[:4]),
        **{kind: _table(kept, kind) for kind in ("few", "rare", "classes", "clusters")},
    )  # fmt: skip


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", action="store_true", help="write the page of what is kept, and measure nothing")
    parser.add_argument("--only", default="", metavar="TEXT", help="settings whose name contains this")
    parser.add_argument("--again", action="store_true", help="also settings that were measured already")
    args = parser.parse_args()
    kept: dict[str, Any] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    warnings.simplefilter("ignore")  # of few clusters and few samples, on purpose
    every = [*settings().items(), *FAMILIES.items(), *EQUIVALENT.items()]
    jobs: list[tuple[str, Any]] = [] if args.page else every
    for name, job in jobs:
        if args.only not in name or (name in kept and not args.again):
            continue
        seed = zlib.crc32(name.encode())
        if isinstance(job, Setting):
            kept[name] = {"repetitions": job.repetitions, **count_calls(job.draw, job.repetitions, seed)}
        elif name in EQUIVALENT:
            kept[name] = {"repetitions": OF_EQUIVALENT, "equivalent": count_equivalent(*job, OF_EQUIVALENT, seed)}
        else:
            kept[name] = {"repetitions": OF_FAMILIES, "permutation": count_families(*job, OF_FAMILIES, seed)}
        KEPT.write_text(json.dumps(kept, separators=(",", ":")) + "\n", encoding="utf-8")
        print(name, kept[name], flush=True)
    PAGE.write_text(page(kept), encoding="utf-8")


if __name__ == "__main__":
    main()
