"""Erbani et al., On the Normalization of Confusion Matrices: both experiments on four data sets, and what follows."""

from dataclasses import asdict, replace

import numpy as np

from cmfast._reproduce._frame import Progress, Reproduction, timed
from cmfast._reproduce.normalization import claims, clouds, data, recovery, sections, training

QUICK = 3  # repetitions


def reproduce(*, quick: bool, progress: Progress) -> Reproduction:
    """Train the networks of both experiments and compare every normalisation of their matrices."""
    settings = training.Settings()
    return of_pools([make() for make in data.SOURCES.values()], quick, settings, progress)


def of_pools(pools: list[data.Pool], quick: bool, settings: training.Settings, progress: Progress) -> Reproduction:
    """Run both experiments on pools that have as many classes each."""
    if quick:
        settings = replace(settings, repeats=min(QUICK, settings.repeats))
    timings: dict[str, float] = {}
    truth, skewed, seen = _answers(pools, settings, progress, timings)
    names = tuple(pool.name for pool in pools)
    with timed(timings, "comparing"):
        first = recovery.compare(truth, skewed, names, settings)
        trend = recovery.changes(truth, skewed, names, settings)
        second = seen.compare(names)
    return Reproduction(
        name="normalization",
        title="On the Normalization of Confusion Matrices, computed again",
        source="Erbani et al., On the Normalization of Confusion Matrices: Methods and Geometric Interpretations",
        lead=(
            "Is a bi-normalised confusion matrix the closest to what balanced data would have given, and is it a "
            f"picture of how the classes lie? {len(names)} data sets, {len(settings.levels)} levels of heterogeneity, "
            f"{settings.repeats} repetitions."
        ),
        claims=claims.judged(first, trend, second, settings),
        sections=sections.laid_out(first, second, (truth, skewed), settings),
        settings={"quick": quick, **asdict(settings), "data": {pool.name: pool.title for pool in pools}},
        numbers={"experiment_1": first, "changes": trend, "experiment_2": second},
        timings=timings,
    )


def _answers(
    pools: list[data.Pool], settings: training.Settings, progress: Progress, timings: dict[str, float]
) -> tuple[np.ndarray, np.ndarray, clouds.Clouds]:
    """Return all matrices, (data sets, stops, repetitions, C, C) and with levels before the repetitions; the clouds."""
    tick, done, seen = progress("networks", "repetitions"), 0, clouds.Clouds(settings)
    truth, skewed = [], []
    for pool in pools:
        repeat = training.by_training(pool)
        for r in range(settings.repeats):
            with timed(timings, "training"), training.one_thread():
                found = repeat(r, settings)
            with timed(timings, "geometry"):
                for answers in found.skewed:
                    seen.add(answers["early"])
            truth.append([found.balanced[stop].M for stop in training.STOPS])
            skewed.append([[answers[stop].M for answers in found.skewed] for stop in training.STOPS])
            done += 1
            tick(done, len(pools) * settings.repeats)
    shape = (len(pools), settings.repeats)
    all_truth, all_skewed = (np.array(M).reshape(*shape, *np.shape(M)[1:]) for M in (truth, skewed))
    return all_truth.swapaxes(1, 2), np.moveaxis(all_skewed, 1, 3), seen
