"""Measure how often intervals hold the truth: ``python docs/interval_coverage.py`` writes docs/coverage.md.

For every setting a matrix of shares is the truth. Test sets of n samples are drawn from it, every method makes the
intervals of every metric for each, and those that hold the true value are counted. What was counted is kept beside the
page, so that a run that was stopped goes on: 1,000 test sets of every setting first, then more. ``--minutes`` ends it
in time, ``--page`` writes the page of what is there.

All of it, 10,000 test sets of up to ten classes and 200 of a hundred, takes two or three hours of one core.
"""

import argparse
import itertools
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from cmfast import metrics, uncertainty
from cmfast.kernels.cpu.uncertainty import intervals
from cmfast.metrics import _plan
from cmfast.uncertainty._caveats import find_caveats

HERE = Path(__file__).parent
PAGE, KEPT = HERE / "coverage.md", HERE / "interval_coverage.json"
GOOD, LEAST = 0.93, 0.9
ENOUGH, FEW_SAMPLES = 9, 15  # wrong samples; samples of a class
METHODS = ("bca", "percentile", "basic", "normal", "posterior", "wilson")
DRAWN = ("bca", "percentile", "basic")  # of the same replicates
SIZES = (30, 100, 1000, 10_000, 100_000)
REPLICATES = {2: 399, 3: 399, 4: 199, 5: 199, 8: 199, 10: 199, 100: 199}  # by classes
FEWER = {100: 50}  # so many times fewer test sets, as each takes half a second
ROUNDS = (1000, 2000, 4000, 10_000)  # test sets of every setting, before any has more
CHUNK = 500  # test sets that are drawn with one seed
PRIOR_SETS = 1000
BINS = (0, 2, 5, 10, 50, 500)  # wrong samples of the table of methods
SHARE = 0.025  # that an interval cuts off on each side
NOTHING = 1e-12  # a truth that is an end, as a sum of rounded shares may be, is inside
SCALARS = tuple(name for name in metrics.SCALARS if "likelihood" not in name and "odds" not in name)
NAMES = (*SCALARS, "recall", "precision")  # the last two of the last class, which is the rare one
SHARES = ("accuracy", "zero_one_loss", "recall", "precision")  # that Wilson's interval is for
PRIORS = ("unit", "perks", "jeffreys")
LOW_HIGH = ("low", "high")
OTHERS = ("low", "low_warned", "fine", "fine_warned")  # numbers of random truths, and those that are warned of
TEXT = """# How often intervals cover the true value

A 95 % interval of a metric should contain its true value for 95 test sets in a hundred. Here each method is tried in
{n_settings} settings whose truth is known. With about ten wrong samples or more, about ten of each class, and evenly
spread errors, every method does what it should; BCa does first, so it is the default. With one or two wrong samples
every bootstrap fails, and the posterior and Wilson's interval work. `interval` warns where too few samples carry an
interval.

![Every metric in every setting: green where intervals cover as often as they should](coverage.png)

## How it was measured

`docs/interval_coverage.py` writes this page from its counts in `interval_coverage.json`. For each of {n_settings}
settings, test sets are drawn from known cell probabilities, and nominal 95 % intervals are computed for each:

{much}

The standard error of a coverage of 95 % is a quarter of a percentage point with 10,000 test sets, and one and a half
points with 200. So few replicates are enough because the ends are at the ranks `.025 (n + 1)` among them: one more
replicate would be outside as often as the true value should be. Each cell of the first table has the median and the
minimum over {n_metrics} metrics; Wilson's intervals exist for the accuracy and its complement only. Green: {good} and
more; red: below {least}.

## What to learn, and what `interval` does about it

{follows}

{head}
{line}
{table}

## Which method is the default

The median over all metrics and all settings with this number of wrong samples, at least 15 samples of the smallest
class and up to ten classes, and the share of these values that is {least} or more.

{default_head}
{default_line}
{default}

## What `interval` warns of

Of {n_low:,} coverages below {least}, `interval` warns in most test sets for {n_said:,}. The worst of the others:

| coverage | method | metric | setting |
|---|---|---|---|
{unsaid}

Of the {n_fine:,} coverages of {least} and more, it warns in most test sets for {n_timid:,}.

In the difficult settings (unequal recalls, errors far from the diagonal, hierarchies), {u_low:,} coverages are below
{least}, and it warns for {u_said:,} of them; {u_fine:,} are {least} and more, and it warns for {u_timid:,} of those.

## The recall of the smallest class

If it has fewer than {few} samples on average.

{head_of_rare}
{line}
{rare}

## Priors

The posterior with a prior of one sample, half correct and half wrong (`"unit"`), of one sample spread evenly
(`"perks"`), and of half a sample in each cell (`"jeffreys"`), which with ten classes is fifty samples, nearly all of
them wrong.

{priors_head}
{priors_line}
{of_priors}

## The worst

| coverage | method | metric | setting |
|---|---|---|---|
{worst}

## The worst with enough samples

Of {n_all:,} coverages with {enough} or more wrong samples, and {few} or more samples of the smallest class, {n_late}
are below {least}:

| coverage | method | metric | setting |
|---|---|---|---|
{late}
"""

FOLLOWS = """- With about ten wrong samples or more, about ten samples of each class, and evenly spread errors, every
  method reaches its nominal coverage. BCa reaches it first: with five wrong samples in total it covers the accuracy in
  95 % of cases, where the normal and the basic interval cover 88 %. So it is the default.
- With one or two wrong samples (30 samples at a recall of .95), every bootstrap and the delta method fail: often no
  sample is wrong, and then all replicates are equal. The posterior and, for proportions, Wilson's interval work
  there.
- A small class dominates averages over classes and its own recall: with fewer than five samples of it, intervals of
  balanced accuracy, macro F1 or the geometric mean cover 50 to 90 %. The posterior is better, but not good with ten
  classes. Only samples with weight count: if none of nine samples of a rare class is wrong, the other classes say
  nothing about the mean of the recalls.
- The recall of one class needs correct and wrong samples of that class. With 100 classes of ten samples each at a
  recall of .95, most classes have no wrong sample, and a bootstrap returns a single point. Use Wilson's interval.
- `min_recall` of classes with similar recalls has no valid interval by any method: the minimum of several noisy
  values is below all true values, for any number of samples.
- Averages of nonlinear functions (`tau`, and precision weighted by class counts) are biased in the same direction in
  every class: with a hundred classes of few wrong samples each, no method covers them.
- Wrong samples have different weights. For a quadratic kappa, three errors far from the diagonal weigh as much as a
  hundred near it: with 8 classes in 4 pairs, a fifth of the samples wrong within pairs and few errors between them,
  every bootstrap covers 70 to 85 %, even with more than a hundred wrong samples. So `interval` computes the number of
  samples that carry the variance, `(sum M g**2)**2 / sum M g**4` with the derivatives g of the metric in the cells,
  after adding half a sample spread over the off-diagonal cells.
- `interval` warns if fewer than five samples carry the variance (four for `"bca"`, nine for `"basic"`); if fewer than
  two samples are wrong or correct, in total or among those with weight; or if a class of an average has fewer than
  two (five for `"normal"`). With more than twenty classes, and where this number is not computed (metrics of one
  class, sparse matrices, arrays on a GPU), the limits are five, and ten for `"normal"` and `"basic"`; for the
  posterior with four classes or more, five. It also warns for `min_recall` if the two smallest recalls are within
  three standard errors, and for intervals whose centre is half a standard error or more from the estimate. It cannot
  detect a class without any sample in the test set.
- `interval` warns for nine in ten of the intervals here that cover less than 90 %, and for one in seventeen of the
  others; the counts are below. Of {truths} other truths, drawn at random after the rules were made
  (`docs/interval_coverage.py --others {seed}`: 2 to 8 classes, 80 to 6,300 samples, recalls of .5 to .999, class
  shares up to 100 to 1), it was {others}. A warning says that a sample is too small to be sure of the interval, not
  that the interval is wrong.
"""


def shares(n_classes: int, rare: float, recall: float) -> np.ndarray:
    """Return the shares of the cells: one class is `rare` times as frequent as the others, errors are spread evenly."""
    support = np.ones(n_classes)
    support[-1] = rare
    rows = np.full((n_classes, n_classes), (1 - recall) / (n_classes - 1))
    np.fill_diagonal(rows, recall)
    return rows * (support / support.sum())[:, np.newaxis]


def unequal(recalls: tuple[float, ...], support: tuple[float, ...] | None = None, near: bool = False) -> np.ndarray:
    """Return the shares of the cells of classes with these recalls; errors are even, or `near` ones more frequent."""
    C = len(recalls)
    far = np.abs(np.subtract.outer(np.arange(C), np.arange(C)))
    rows = np.where(far > 0, 2.0**-far if near else 1.0, 0.0)
    rows *= (1.0 - np.array(recalls)[:, np.newaxis]) / rows.sum(1, keepdims=True)
    np.fill_diagonal(rows, recalls)
    weight = np.ones(C) if support is None else np.array(support)
    return rows * (weight / weight.sum())[:, np.newaxis]


def in_pairs(n_classes: int, wrong: float, far: float, ratio: float = 1.0) -> np.ndarray:
    """Return the shares of the cells of a hierarchy: classes in pairs, `wrong` of each called the other of the pair.

    Each cell outside the pairs has a share `far` of all samples if classes are equally frequent; the last class is
    `ratio` times as frequent as the first.
    """
    rows = np.full((n_classes, n_classes), far * n_classes)
    for i in range(n_classes):
        rows[i, i ^ 1], rows[i, i] = wrong, 0.0
        rows[i, i] = 1.0 - rows[i].sum()
    support = np.geomspace(1.0, ratio, n_classes)
    return rows * (support / support.sum())[:, np.newaxis]


def unkind() -> dict[str, tuple[np.ndarray, int]]:
    """Return truths in which few samples may carry the variance: unequal recalls, far errors, hierarchies."""
    found = {}
    for n, far in itertools.product((150, 400, 1000, 4000), (3e-5, 1e-4, 1e-3)):
        found[f"8 classes in pairs, 20% wrong in pairs, {far:g} in each far cell, n {n}"] = in_pairs(8, 0.2, far), n
    found["8 classes in pairs, 5% wrong in pairs, 0.0001 in each far cell, n 400"] = in_pairs(8, 0.05, 1e-4), 400
    found["10 classes in pairs, 10% wrong in pairs, 0.0001 in each far cell, supports 1 to 100, n 2000"] = (
        in_pairs(10, 0.1, 1e-4, 100.0), 2000,
    )  # fmt: skip
    for n, near in itertools.product((60, 200, 1000), (False, True)):
        kind = "near ones more often" if near else "errors even"
        found[f"5 classes, recalls .99 to .5, {kind}, n {n}"] = unequal((0.99, 0.95, 0.9, 0.7, 0.5), near=near), n
    for n in (150, 500, 5000):
        found[f"4 classes, recalls .99 to .6, supports 100 to 3, n {n}"] = (
            unequal((0.99, 0.9, 0.8, 0.6), (100, 30, 10, 3)), n,
        )  # fmt: skip
    for n in (300, 1000, 10_000):
        found[f"2 classes, recalls .999 and .9, supports 10 to 1, n {n}"] = unequal((0.999, 0.9), (10, 1)), n
    found["3 classes, recalls .998, .9, .6, n 300"] = unequal((0.998, 0.9, 0.6)), 300
    found["10 classes, two with recalls .5 and .3, the others .99, n 1000"] = unequal((0.99,) * 8 + (0.5, 0.3)), 1000
    return found


def settings() -> dict[str, tuple[np.ndarray, int]]:
    """Return the truths and sizes of test sets; of a hundred classes none is rare, as one would not be noticed."""
    found: dict[str, tuple[np.ndarray, int]] = {}
    for C, rare, recall, n in itertools.product((2, 3, 10, 100), (1.0, 0.1), (0.7, 0.95), SIZES):
        if n >= 3 * C and (C < 100 or rare == 1.0):
            kind = "one rare" if rare < 1.0 else "balanced"
            found[f"{C} classes, {kind}, recall {recall}, n {n}"] = shares(C, rare, recall), n
    return found | unkind()


def names_of(method: str) -> tuple[str, ...]:
    """Return the metrics that have such intervals."""
    return SHARES if method == "wilson" else NAMES


def _rows_of(found: dict[str, Any]) -> np.ndarray:
    """Return a row for each name, of every matrix; of a metric per class what the last class has."""
    return np.stack([np.asarray(x) if name in SCALARS else np.asarray(x)[:, -1] for name, x in found.items()])


def _replicated(M: np.ndarray, replicates: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return draws of every metric of every matrix, the draws first, and its acceleration."""
    layout = _plan.make_plan(NAMES, M.shape[-1], "present", 1, argument="M")
    given: dict[str, Any] = {"plan": layout.plan, "num_threads": 1}
    options = {"scheme": "multinomial", "n": None, "prior": np.zeros(M.shape[1:]), "n_resamples": replicates}
    *draws, _ = intervals.metric_draws(M, **given, **options, seed=seed)
    cells = M.astype(np.float64)
    cells.flags.writeable = False
    bent = intervals._compute_accelerations(cells, 0, len(M), False, layout.plan, 1)
    bends = [x.reshape(len(M), -1)[:, -1] for x in bent]
    rows = _rows_of({name: draws[place] for name, place in zip(NAMES, layout.positions, strict=True)})
    return np.moveaxis(rows, -1, 0), np.stack([bends[place] for place in layout.positions])


def _ends(M: np.ndarray, replicates: int, methods: tuple[str, ...], rng: np.random.Generator) -> Any:
    """Yield every method, or prior, and both ends of the interval of every metric: a row each, of every matrix."""
    quiet: dict[str, Any] = {"num_threads": 1, "on_failure": "ignore"}  # it would speak of few samples
    estimate = _rows_of(metrics.compute(M, list(NAMES), **quiet))
    rank = SHARE * (replicates + 1) - 1  # from 0; in its place few replicates are no narrower than many
    between: dict[str, Any] = {"confidence_level": 1 - 2 * rank / (replicates - 1), "num_threads": 1}
    if set(DRAWN) & set(methods):
        draws, bends = _replicated(M, replicates, int(rng.integers(2**63)))
        for method in DRAWN[:2]:
            low, high, *_ = intervals.replicate_intervals(draws, estimate, bends, method=method, **between)
            yield method, low, high
        yield "basic", 2 * estimate - high, 2 * estimate - low  # the percentiles, mirrored
    for method in methods:
        if method in ("normal", "wilson"):
            found = uncertainty.interval(M, list(names_of(method)), method=method, **quiet)
            yield method, *(_rows_of({name: getattr(one, end) for name, one in found.items()}) for end in LOW_HIGH)
        elif method not in DRAWN:
            prior = "unit" if method == "posterior" else method
            made = uncertainty.posterior(M, list(NAMES), prior=prior, n_resamples=replicates, rng=rng, **quiet)
            rows = np.moveaxis(_rows_of({name: one.draws for name, one in made.items()}), -1, 0)
            yield method, *intervals.replicate_intervals(rows, estimate, method="percentile", **between)[:2]


def coverage(
    P: np.ndarray, n: int, test_sets: int, replicates: int, seed: Any, methods: tuple[str, ...] = METHODS
) -> dict[str, np.ndarray]:
    """Return for every method how many intervals hold the truth, of each metric; undefined ones do not."""
    rng = np.random.default_rng(seed)
    drawn = uncertainty.resample(P, n=n, n_resamples=test_sets, rng=rng, num_threads=1)
    sets, times = np.unique(drawn, axis=0, return_counts=True)  # small ones come again
    truth = _rows_of(metrics.compute(P[np.newaxis] * n, list(NAMES)))
    found = {method: np.zeros(len(names_of(method)), np.int64) for method in methods}
    step = max(1, min(50, 5000 // len(P) ** 2))
    for first in range(0, len(sets), step):
        some = slice(first, first + step)
        for method, low, high in _ends(sets[some], replicates, methods, rng):
            true = truth if method != "wilson" else truth[[NAMES.index(name) for name in SHARES]]
            found[method] += ((low <= true + NOTHING) & (true - NOTHING <= high)) @ times[some]
    return found


def expected(setting: str) -> tuple[float, float]:
    """Return how many samples are wrong, and how many there are of the smallest class, on average."""
    P, n = settings()[setting]
    return n * (1 - float(np.trace(P))), n * float(P.sum(1).min())


def warned(P: np.ndarray, n: int, replicates: int, test_sets: int = 12) -> dict[str, dict[str, bool]]:
    """Return for every method and metric whether `interval` warns in most of the test sets."""
    sets = uncertainty.resample(P, n=n, n_resamples=test_sets, rng=3)
    found = {}
    for method in METHODS:
        names = list(names_of(method))
        made = uncertainty.interval(sets, names, method=method, n_resamples=replicates, on_failure="ignore")
        by = find_caveats(sets, made, method, replicates, n=None, positive=1, num_threads=None)
        none = np.zeros(len(sets), np.bool_)
        masks = {name: np.any([fits.get(name, none) for fits in by.values()] or [none], axis=0) for name in names}
        found[method] = {name: bool(mask.mean() > 0.5) for name, mask in masks.items()}
    return found


def other_truth(rng: np.random.Generator) -> tuple[np.ndarray, int]:
    """Return shares of the cells and a number of samples, drawn at random: to try rules that were made without them."""
    C, n = int(rng.choice([2, 3, 4, 5, 6, 8])), int(10 ** rng.uniform(1.9, 3.8))
    support = np.exp(rng.uniform(0.0, np.log(rng.choice([1, 10, 100])), C))
    recalls, kind = 1.0 - 10 ** rng.uniform(-3.0, -0.3, C), rng.choice(["even", "near", "pairs", "rarely far", "next"])
    far = abs(np.subtract.outer(np.arange(C), np.arange(C)))
    if kind == "even":
        wrong = np.ones((C, C))
    elif kind == "near":
        wrong = rng.choice([2.0, 5.0, 20.0]) ** -far.astype(np.float64)
    elif kind == "pairs":
        wrong = np.full((C, C), 10 ** rng.uniform(-4.0, -1.0))
        wrong[np.arange(C), [i ^ 1 if i ^ 1 < C else (i + 1) % C for i in range(C)]] = 1.0
    elif kind == "rarely far":
        wrong = np.where(far == 1, 1.0, 10 ** rng.uniform(-5.0, -2.0))
    else:
        wrong = np.full((C, C), 1e-4)
        wrong[np.arange(C), np.roll(np.arange(C), -1)] = 1.0
    wrong[far == 0] = 0.0
    wrong *= ((1.0 - recalls) / wrong.sum(1))[:, np.newaxis]
    np.fill_diagonal(wrong, recalls)
    P = wrong * (support / support.sum())[:, np.newaxis]
    return P / P.sum(), n


def measure_others(seed: int, truths: int, test_sets: int) -> dict[str, int]:
    """Return how many numbers of random truths are below what is wanted, and of how many `interval` warns."""
    rng = np.random.default_rng(seed)
    found = dict.fromkeys(OTHERS, 0) | {"seed": seed, "truths": truths, "test_sets": test_sets}
    for k in range(truths):
        P, n = other_truth(rng)
        held, said = coverage(P, n, test_sets, REPLICATES[8], [5, k], METHODS[:5]), warned(P, n, REPLICATES[8], 24)
        for method, of_method in held.items():
            for name, hits in zip(names_of(method), of_method, strict=True):
                kind = "low" if hits < LEAST * test_sets else "fine"
                found[kind] += 1
                found[f"{kind}_warned"] += said[method][name]
        print(f"random truth {k}: {found}", flush=True)
    return found


def part(one: dict[str, Any], method: str) -> dict[str, float]:
    """Return which part of the intervals of a setting holds the truth, by metric."""
    return {name: k / one["test_sets"] for name, k in zip(names_of(method), one["held"][method], strict=True)}


def spread(values: list[float]) -> str:
    """Return the median and the lowest of some shares, with a square of its colour: a cell of the table."""
    middle = float(np.median(values))
    square = "🟩" if middle >= GOOD else "🟨" if middle >= LEAST else "🟥"
    return f"{square} {middle:.0%}, lowest {min(values):.0%}"


def page(kept: dict[str, Any], priors: dict[str, Any], others: dict[str, int]) -> str:
    """Return docs/coverage.md: coverage by setting and method, of priors, the worst metrics, warnings."""
    done: dict[str, list[str]] = {}
    for setting, one in kept.items():
        done.setdefault(f"{one['test_sets']:,} test sets and {one['replicates']:,} replicates", []).append(setting)
    much = [
        f"- {what}: {', '.join(sorted({x.partition(',')[0] for x in of}, key=_number))}" for what, of in done.items()
    ]
    every = {setting: {m: part(one, m) for m in METHODS} for setting, one in kept.items()}
    table = [
        f"| {setting} | {expected(setting)[0]:,.1f} | "
        + " | ".join(spread([x for name, x in one[m].items() if name in SCALARS]) for m in METHODS)
        + " |"
        for setting, one in every.items()
    ]
    rare = [
        f"| {setting} | {expected(setting)[1]:,.1f} | " + " | ".join(f"{one[m]['recall']:.0%}" for m in METHODS) + " |"
        for setting, one in every.items()
        if expected(setting)[1] < FEW_SAMPLES
    ]
    worst = sorted((x, m, name, s) for s, one in every.items() for m in METHODS for name, x in one[m].items())
    late = [row for row in worst if expected(row[3])[0] >= ENOUGH and expected(row[3])[1] >= FEW_SAMPLES]
    said = {}
    for setting in every:
        P, n = settings()[setting]
        said[setting] = warned(P, n, REPLICATES[len(P)], 2 if len(P) == 100 else 12)
    low = [row for row in worst if row[0] < LEAST]
    unsaid = [row for row in low if not said[row[3]][row[1]][row[2]]]
    timid = [row for row in worst[len(low) :] if said[row[3]][row[1]][row[2]]]
    of_unkind = unkind()
    u_low, u_unsaid = (sum(row[3] in of_unkind for row in rows) for rows in (low, unsaid))
    u_all, u_timid = (sum(row[3] in of_unkind for row in rows) for rows in (worst, timid))
    told = f"{others['low_warned']:,} of {others['low']:,}, and {others['fine_warned']:,} of {others['fine']:,}"
    follows = FOLLOWS.format(others=f"{told} ({others['fine_warned'] / others['fine']:.1%})", **others)
    of_priors = []
    for setting, one in priors.items():
        by = [every[setting]["posterior"], *(part(one, prior) for prior in PRIORS[1:])]
        cells = " | ".join(spread([x for name, x in values.items() if name in SCALARS]) for values in by)
        of_priors.append(f"| {setting} | {cells} |")
    head = "| setting | {} | " + " | ".join(f"`{m}`" for m in METHODS) + " |"
    line = "|---|---|" + "---|" * len(METHODS)
    return TEXT.format(
        n_settings=len(kept), much="\n".join(much), n_metrics=len(SCALARS), good=f"{GOOD:.0%}", least=f"{LEAST:.0%}",
        follows=follows, head=head.format("wrong samples"), head_of_rare=head.format("samples of that class"),
        line=line, table="\n".join(table), rare="\n".join(rare), few=FEW_SAMPLES, enough=ENOUGH,
        default_head="| wrong samples | " + " | ".join(f"`{m}`" for m in METHODS[:-1]) + " |",
        default_line="|---|" + "---|" * len(METHODS[:-1]), default="\n".join(_by_wrong(every)),
        n_low=len(low), n_said=len(low) - len(unsaid), unsaid=_rows(_worst(unsaid)[:12]),
        u_low=u_low, u_said=u_low - u_unsaid, u_fine=u_all - u_low, u_timid=u_timid,
        n_fine=len(worst) - len(low), n_timid=len(timid),
        priors_head="| setting | " + " | ".join(f'`"{prior}"`' for prior in PRIORS) + " |",
        priors_line="|---|" + "---|" * len(PRIORS), of_priors="\n".join(of_priors),
        worst=_rows(_worst(worst)[:12]), late=_rows(_worst(late)[:12]),
        n_late=sum(row[0] < LEAST for row in late), n_all=len(late),
    )  # fmt: skip


def _by_wrong(every: dict[str, dict[str, dict[str, float]]]) -> list[str]:
    """Return the rows of the table of methods: of settings with so many wrong samples."""
    rows = []
    for first, last in zip(BINS, (*BINS[1:], np.inf), strict=True):
        within = [
            one
            for setting, one in every.items()
            if first <= expected(setting)[0] < last and expected(setting)[1] >= FEW_SAMPLES and _number(setting) <= 10
        ]
        cells = []
        for method in METHODS[:-1]:
            values = np.array([x for one in within for name, x in one[method].items() if name in SCALARS])
            cells.append(f"{np.median(values):.0%}, {(values >= LEAST).mean():.0%}" if values.size else "")
        if within:
            title = f"{first} and more" if last == np.inf else f"{first} to {last}"
            rows.append(f"| {title} | {' | '.join(cells)} |")
    return rows


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
        shares_held = [list(part(one, method).values()) for one in kept.values()]
        image = ax.imshow(shares_held, cmap="RdYlGn", vmin=0.8, vmax=0.97, aspect="auto", interpolation="nearest")
        ax.set_title(method)
        ax.set_xlabel(f"{len(NAMES)} metrics")
        ax.set_xticks([])
    axes[0].set_yticks(range(len(kept)), list(kept), fontsize=6)
    fig.colorbar(image, ax=axes, label="part of the intervals that hold the truth (80 % and less: red)", shrink=0.5)
    fig.savefig(HERE / "coverage.png", dpi=80, metadata={"Software": None})


def _add(kept: dict[str, Any], setting: str, replicates: int, goal: int, seed: int, methods: tuple[str, ...]) -> None:
    """Add one chunk of test sets to what is kept of a setting."""
    P, n = settings()[setting]
    one = kept.setdefault(setting, {"test_sets": 0, "replicates": replicates, "held": {}})
    size = min(CHUNK, goal - one["test_sets"])
    found = coverage(P, n, size, one["replicates"], [seed, one["test_sets"]], methods)
    for method, more in found.items():
        before = one["held"].get(method, [0] * len(more))
        one["held"][method] = [int(a + b) for a, b in zip(before, more, strict=True)]
    one["test_sets"] += size


def measure(most: int, classes: list[int], minutes: float) -> None:
    """Count until there are `most` test sets of every setting, or the time is over."""
    every: dict[str, Any] = json.loads(KEPT.read_text()) if KEPT.exists() else {"methods": {}, "priors": {}}
    end = time.monotonic() + 60 * minutes
    jobs: list[tuple[str, str, int, int, tuple[str, ...]]] = []
    for goal in [g for g in ROUNDS if g < most] + [most]:
        for seed, (setting, (P, n)) in enumerate(settings().items()):
            jobs.append(("methods", setting, goal // FEWER.get(len(P), 1), seed, METHODS))
            if goal == ROUNDS[0] and len(P) < 100 and n <= 1000 and setting not in unkind():
                jobs.append(("priors", setting, min(most, PRIOR_SETS), 1000 + seed, PRIORS[1:]))
    for kind, setting, goal, seed, methods in jobs:
        if _number(setting) not in classes:
            continue
        kept = every[kind]
        while kept.get(setting, {}).get("test_sets", 0) < goal:
            if time.monotonic() > end:
                return
            _add(kept, setting, REPLICATES[_number(setting)], goal, seed, methods)
            KEPT.write_text(json.dumps(every, separators=(",", ":")) + "\n", encoding="utf-8")
        print(f"{kind}, {setting}: {kept.get(setting, {}).get('test_sets', 0)}", flush=True)


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=10_000, help="test sets of every setting")
    parser.add_argument("--classes", type=int, nargs="+", default=list(REPLICATES), help="which numbers of classes")
    parser.add_argument("--minutes", type=float, default=np.inf, help="stop then; a later run goes on")
    parser.add_argument("--others", type=int, metavar="SEED", help="only count warnings on random truths")
    parser.add_argument("--page", action="store_true", help="write the page of what is kept, and measure nothing")
    args = parser.parse_args()
    if args.others is None and not args.page:
        measure(args.repetitions, args.classes, args.minutes)
    every = json.loads(KEPT.read_text())
    if args.others is not None:
        every["others"] = measure_others(args.others, truths=70, test_sets=1000)
        KEPT.write_text(json.dumps(every, separators=(",", ":")) + "\n", encoding="utf-8")
    order = [setting for setting in settings() if setting in every["methods"]]
    kept = {setting: every["methods"][setting] for setting in order}
    priors = {setting: every["priors"][setting] for setting in order if setting in every["priors"]}
    PAGE.write_text(page(kept, priors, every["others"]), encoding="utf-8")
    heat_map(kept)


if __name__ == "__main__":
    main()
