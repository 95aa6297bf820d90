"""Measure how often intervals after raking hold the truth: ``python docs/raking_coverage.py``.

A population of 20,000 persons in 800 villages is made once. Samples are drawn from it, raked to its numbers of persons
by age and by region, and the intervals that hold the mean of the population are counted: those of
`RakeResult.estimate`, those of the same weights as if they had not been raked and, where units are few, those of
replicate weights, each raked without one unit (jackknife). The counts are kept in
``raking_coverage.json``, and the table in ``howto/surveys.md`` is written anew.

All of it takes ten minutes of one core.
"""

import argparse
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

import cmfast

HERE = Path(__file__).parent
PAGE, KEPT = HERE / "howto" / "surveys.md", HERE / "raking_coverage.json"
STUDIES = 2_000
N, VILLAGES = 20_000, 800
AGES, REGIONS = 4, 3
MOST_REPLICATES = 60  # most units for which the jackknife is computed


class Setting(NamedTuple):
    """A way to draw samples from the population, and what is measured."""

    shown: tuple[str, str, str]  # sample, values, method
    drawn: str  # "persons", "strata" or "villages"
    n: int  # persons or villages; persons of each stratum
    values: str
    method: str = "raking"


SETTINGS = [
    Setting(("1,000 persons", "normal", "raking"), "persons", 1000, "normal"),
    Setting(("200 persons", "normal", "raking"), "persons", 200, "normal"),
    Setting(("200 persons", "normal", "linear"), "persons", 200, "normal", "linear"),
    Setting(("200 persons", "normal", "truncated"), "persons", 200, "normal", "truncated"),
    Setting(("50 persons", "normal", "raking"), "persons", 50, "normal"),
    Setting(("25 persons", "normal", "raking"), "persons", 25, "normal"),
    Setting(("200 persons", "lognormal", "raking"), "persons", 200, "skewed"),
    Setting(("50 persons", "lognormal", "raking"), "persons", 50, "skewed"),
    Setting(("200 persons", "a share of 5 %", "raking"), "persons", 200, "rare"),
    Setting(("3 strata of 100, unequal weights", "normal", "raking"), "strata", 100, "normal"),
    Setting(("3 strata of 20, unequal weights", "normal", "raking"), "strata", 20, "normal"),
    Setting(("3 strata of 100, unequal weights", "lognormal", "raking"), "strata", 100, "skewed"),
    Setting(("40 villages of 10 to 40", "alike within villages", "raking"), "villages", 40, "alike"),
    Setting(("15 villages of 10 to 40", "alike within villages", "raking"), "villages", 15, "alike"),
    Setting(("6 villages of 10 to 40", "alike within villages", "raking"), "villages", 6, "alike"),
]


def make_population(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return the columns of the population."""
    sizes = rng.uniform(10.0, 40.0, VILLAGES)
    village = rng.choice(VILLAGES, N, p=sizes / sizes.sum())
    region = rng.choice(REGIONS, VILLAGES, p=[0.5, 0.3, 0.2])[village]
    age = rng.choice(AGES, N, p=[0.2, 0.3, 0.3, 0.2])
    center = 2.0 * age + 1.5 * region
    return {
        "village": village,
        "region": region,
        "age": age,
        "normal": center + rng.normal(0.0, 2.0, N),
        "skewed": np.exp(0.4 * center + rng.normal(0.0, 1.0, N)),
        "rare": (rng.random(N) < 0.02 * (1.0 + age)).astype(np.float64),
        "alike": center + rng.normal(0.0, 1.5, VILLAGES)[village] + rng.normal(0.0, 2.0, N),
    }


def draw_sample(people: dict[str, np.ndarray], setting: Setting, rng: np.random.Generator) -> dict[str, Any]:
    """Return the persons of a sample, their design weights, and the options that describe how they were drawn."""
    if setting.drawn == "persons":
        return {"of": rng.choice(N, setting.n, replace=False), "weight": N / setting.n, "options": {"fpc": N}}
    if setting.drawn == "villages":
        village = people["village"]
        chosen = np.isin(village, rng.choice(VILLAGES, setting.n, replace=False))
        options = {"clusters": village[chosen], "fpc": VILLAGES}
        return {"of": np.flatnonzero(chosen), "weight": VILLAGES / setting.n, "options": options}
    members = [np.flatnonzero(people["region"] == h) for h in range(REGIONS)]
    of = np.concatenate([rng.choice(each, setting.n, replace=False) for each in members])
    sizes = np.array([len(each) for each in members], np.float64)[people["region"][of]]
    return {"of": of, "weight": sizes / setting.n, "options": {"strata": people["region"][of], "fpc": sizes}}


def jackknife(
    codes: np.ndarray, targets: list[Any], weights: np.ndarray, y: np.ndarray, truth: float, options: dict[str, Any]
) -> tuple[float, float, float]:
    """Return the mean, whether its interval holds the truth, and its standard error, without each unit in turn."""
    unit = np.unique(options["clusters"], return_inverse=True)[1] if "clusters" in options else np.arange(len(y))
    first = np.unique(unit, return_index=True)[1]
    strata = np.asarray(options.get("strata", np.zeros(len(y), np.int64)))[first]
    size = np.bincount(strata)
    if len(strata) > MOST_REPLICATES:
        return np.nan, np.nan, np.nan
    grown = np.where(strata[unit] == strata[:, np.newaxis], (size / (size - 1))[strata][:, np.newaxis], 1.0)
    without = np.where(unit == np.arange(len(strata))[:, np.newaxis], 0.0, grown * weights)
    result = cmfast.rake(codes, targets, weights=np.concatenate([weights[np.newaxis], without]), on_failure="ignore")
    means = result.weights @ y / result.weights.sum(-1)
    replicates = means[1:][np.isfinite(means[1:])]  # without a category that this unit alone had: none
    left = 1.0 - size[strata] / np.broadcast_to(options["fpc"], len(y))[first]
    share = (left * ((size - 1) / size)[strata])[np.isfinite(means[1:])]
    error = float(np.sqrt(share @ (replicates - means[0]) ** 2))
    half = float(stdtrit(len(strata) - len(size), 0.975)) * error
    return float(means[0]), float(abs(means[0] - truth) <= half), error


def measure(people: dict[str, np.ndarray], setting: Setting, seed: list[int]) -> dict[str, float]:
    """Return how many samples could be raked, how many intervals hold the mean, and errors over the true spread."""
    rng, truth = np.random.default_rng(seed), float(people[setting.values].mean())
    targets = [(k, np.bincount(people[name]).astype(np.float64)) for k, name in enumerate(("age", "region"))]
    known = [(k, np.full(len(target), np.nan)) for k, target in targets]
    bounds = (0.3, 3.0) if setting.method == "truncated" else None
    found = []
    for _ in range(STUDIES):
        sample = draw_sample(people, setting, rng)
        of = sample["of"]
        codes, y = np.stack([people["age"][of], people["region"][of]]), people[setting.values][of]
        weights = np.broadcast_to(sample["weight"], len(of))
        result = cmfast.rake(codes, targets, weights=weights, method=setting.method, bounds=bounds, on_failure="ignore")
        if cmfast.Status(result.status) is not cmfast.Status.CONVERGED:
            continue  # a category without a person
        unaware = cmfast.rake(codes, known, weights=result.weights)
        both = [one.estimate(y, kind="mean", on_failure="ignore", **sample["options"]) for one in (result, unaware)]
        numbers = [(one.estimate, one.low <= truth <= one.high, one.standard_error) for one in both]
        found.append([*numbers, jackknife(codes, targets, weights, y, truth, sample["options"])])
    a = np.array(found, np.float64)  # sample, method, (estimate, held, error)
    spread = a[:, 0, 0].std(ddof=1)
    return {
        "raked": len(a),
        "held": int(a[:, 0, 1].sum()),
        "held_unaware": int(a[:, 1, 1].sum()),
        "error": float(a[:, 0, 2].mean() / spread),
        "error_unaware": float(a[:, 1, 2].mean() / spread),
        "held_jackknife": float(a[:, 2, 1].sum()),  # NaN where it was not computed
    }


def write_page(kept: list[dict[str, Any]], text: str) -> str:
    """Return the text of the page with the table of `kept`."""
    lines = [
        "| sample | values | method | coverage | standard error | not raked: coverage | standard error | jackknife |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for setting, one in zip(SETTINGS, kept, strict=True):
        held = [f"{100 * one[name] / one['raked']:.1f} %" for name in ("held", "held_unaware")]
        cells = [*setting.shown, held[0], f"{one['error']:.2f}", held[1], f"{one['error_unaware']:.2f}"]
        share = 100 * one["held_jackknife"] / one["raked"]
        cells.append("" if np.isnan(share) else f"{share:.1f} %")
        lines.append("| " + " | ".join(cells) + " |")
    begin, end = "<!-- coverage -->", "<!-- coverage ends -->"
    head, rest = text.split(begin)
    table = "\n".join(lines)
    return f"{head}{begin}\n\n{table}\n\n{end}{rest.split(end)[1]}"


def main() -> None:
    """Measure all settings and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", action="store_true", help="write the page of what was measured before")
    if parser.parse_args().page:
        kept = json.loads(KEPT.read_text())
    else:
        people = make_population(np.random.default_rng(20))
        kept = [{"setting": list(one.shown), **measure(people, one, [12, k])} for k, one in enumerate(SETTINGS)]
        KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    PAGE.write_text(write_page(kept, PAGE.read_text()))


if __name__ == "__main__":
    main()
