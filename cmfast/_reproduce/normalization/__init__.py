"""Reproduction of Erbani et al., On the Normalization of Confusion Matrices: both experiments on four data sets."""

import shlex
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from cmfast._reproduce._reproduction import Progress, Reproduction, limit_to_one_thread, measure_time
from cmfast._reproduce.normalization import (
    claims,
    clouds,
    data,
    networks,
    own,
    properties,
    recovery,
    sections,
    shift,
    stripes,
    training,
)

QUICK = 3  # repetitions


def reproduce(
    *,
    quick: bool,
    progress: Progress,
    settings: training.NormalizationSettings | None = None,
    pools: list[data.Pool] | None = None,
    network: str = "perceptron",
    repeats: int | None = None,
    **files: Path,
) -> Reproduction:
    """Train the networks of both experiments and compare all normalisations of their matrices."""
    networks.check_network(network)
    settings = replace(settings or training.NormalizationSettings(), network=network)
    if network != "perceptron":  # by the paper alone
        settings = replace(settings, stops=(training.EARLY,))
    if repeats is not None:
        if repeats < 2:
            own.refuse("--repeats", f"must be 2 at least, got {repeats}")
        settings = replace(settings, repeats=repeats)
    elif quick:
        settings = replace(settings, repeats=min(QUICK, settings.repeats))
    if given := own.read_user_data(**files):
        if given.predicted is not None:
            if network != "perceptron":
                own.refuse("--network", "has nothing to train beside --pred")
            axes = (min(m, given.pool.X.shape[1]) for m in settings.components)
            settings = replace(settings, network=training.GIVEN, stops=(training.GIVEN,))
            settings = replace(settings, components=tuple(dict.fromkeys(axes)))
        pools = [given.pool]
    if pools is None:
        pools = [make() for make in data.SOURCES.values()]
    fit = [pool for pool in pools if networks.accepts_shape(settings.network, pool.X.shape[1:])]
    if not fit:
        own.refuse(f"--network {network}", "takes pictures of 4 pixels a side and more, none is given")
    predicted = given.predicted if given else None
    options = {"network": None if network == "perceptron" else network, "repeats": repeats, **files}
    asked = [shlex.join([f"--{name}", str(value)]) for name, value in options.items() if value is not None]
    return replace(_reproduce_pools(fit, predicted, quick, settings, progress), asked=asked)


def _reproduce_pools(
    pools: list[data.Pool],
    predicted: np.ndarray | None,
    quick: bool,
    settings: training.NormalizationSettings,
    progress: Progress,
) -> Reproduction:
    """Run both experiments on pools with equal numbers of classes; `predicted` are given predictions of one pool."""
    timings: dict[str, float] = {}
    by = [
        training.make_training_repeat(pool) if predicted is None else training.make_answer_repeat(pool, predicted)
        for pool in pools
    ]
    truth, skewed, seen, tested = _collect_matrices(by, settings, progress, timings)
    names = tuple(pool.name for pool in pools)
    with measure_time(timings, "comparing"):
        first = recovery.compare(truth, skewed, names, settings)
        trend = recovery.compute_changes(truth, skewed, names, settings)
        second = seen.compare(names)
        striped, moved = stripes.compare_stripes(truth, skewed, names, settings), tested.compare(names)
    n = len(names)
    return Reproduction(
        name="normalization",
        title="On the Normalization of Confusion Matrices, computed again",
        source="Erbani et al., On the Normalization of Confusion Matrices: Methods and Geometric Interpretations",
        lead=(
            "Is a bi-normalised confusion matrix the closest to what balanced data would have given, and is it a "
            f"picture of how the classes lie? {n} data set{'s' * (n > 1)}, {len(settings.levels)} levels of "
            f"heterogeneity, {settings.repeats} repetitions; networks: {settings.network}. A claim is decided where "
            "the paired intervals of all its places together leave zero out."
        ),
        claims=[
            *properties.claims(settings),
            *claims.judge_shift(moved, settings),
            *claims.judge_claims(first, trend, second, settings),
            *claims.judge_stripes(striped, settings),
        ],
        sections=sections.lay_out_sections(first, second, (truth, skewed), settings),
        settings={"quick": quick, **asdict(settings), "data": {pool.name: pool.title for pool in pools}},
        numbers={"experiment_1": first, "changes": trend, "experiment_2": second, "stripes": striped, "shift": moved},
        reduced=f"{settings.repeats} repetitions in place of {training.NormalizationSettings.repeats}",
        timings=timings,
    )


def _collect_matrices(
    repeat: list[training.Repeat],
    settings: training.NormalizationSettings,
    progress: Progress,
    timings: dict[str, float],
) -> tuple[np.ndarray, np.ndarray, clouds.Clouds, shift.TestSets]:
    """Run all repetitions; return balanced and imbalanced matrices, geometric matrices and pairs of test sets.

    Balanced: (data sets, stops, repetitions, C, C); imbalanced: with the levels before the repetitions.
    """
    tick, done, seen = progress("networks", "repetitions"), 0, clouds.Clouds(settings)
    tested = shift.TestSets(settings)
    truth, skewed = [], []
    for one in repeat:
        for r in range(settings.repeats):
            with measure_time(timings, "training"), limit_to_one_thread():
                found = one(r, settings)
            with measure_time(timings, "geometry"):
                for answers in found.skewed:
                    seen.add(answers[settings.stops[0]])
            balanced = found.balanced[settings.stops[0]]
            with measure_time(timings, "test sets"):
                tested.add(balanced, r, len(balanced.M))
            truth.append([found.balanced[stop].M for stop in settings.stops])
            skewed.append([[answers[stop].M for answers in found.skewed] for stop in settings.stops])
            done += 1
            tick(done, len(repeat) * settings.repeats)
    shape = (len(repeat), settings.repeats)
    all_truth, all_skewed = (np.array(M).reshape(*shape, *np.shape(M)[1:]) for M in (truth, skewed))
    return all_truth.swapaxes(1, 2), np.moveaxis(all_skewed, 1, 3), seen, tested
