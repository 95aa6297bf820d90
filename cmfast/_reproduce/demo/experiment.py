"""The two experiments of the paper on digits, and a bootstrap: numbers and matrices only."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np

import cmfast
from cmfast._core import compile_notices
from cmfast._core.annotations import NORMALIZATIONS, Method
from cmfast._reproduce import _paired_intervals as paired
from cmfast._reproduce._reproduction import limit_to_one_thread, measure_time
from cmfast._reproduce.normalization import training
from cmfast._reproduce.normalization.clouds import MATCHED
from cmfast._reproduce.normalization.data import Common, Halves, Pool, digits
from cmfast._reproduce.normalization.training import Answers

C = 10  # digits
Tick = Callable[[int, int], object]


@dataclass(frozen=True)
class DemoSettings(Common):
    """All settings that affect results, apart from the seed."""

    alpha: float = 0.3
    smoothing: float = 1e-3
    """Added to every cell before bi-normalising, and before a KL divergence."""
    other_smoothings: tuple[float, ...] = (1e-4, 1e-3, 1e-2, 0.1, 0.5, 1.0)
    components: int = 10
    width_factors: tuple[float, ...] = (0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
    resamples: int = 100_000


@dataclass
class Results:
    """Content of ``results.json`` and ``matrices.npz``."""

    numbers: dict[str, Any]
    matrices: dict[str, np.ndarray]
    timings: dict[str, float] = field(default_factory=dict)


class Twins(NamedTuple):
    """Predictions of one network after balanced and after imbalanced training."""

    balanced: Answers
    skewed: Answers


def run(seed: int, settings: DemoSettings, bar: Callable[[str, str], Tick]) -> Results:
    """Run all experiments; `bar` creates the progress bar of a stage."""
    results = Results({"seed": seed, "settings": asdict(settings), "samples": {"classes": C}}, {})
    with measure_time(results.timings, "first_calls"), compile_notices.silence():  # the bar says it
        _warm_up(settings, bar("compiling, on the first run only", "steps"))
    repetitions = _train(seed, settings, results, bar("training", "networks"))
    with measure_time(results.timings, "normalising"):
        _compare_normalizations(repetitions, settings, results)
    with measure_time(results.timings, "geometry"):
        _measure_geometry(seed, repetitions, settings, results, bar("geometry", "matrices"))
    _bootstrap_matrix(seed, repetitions[0].skewed.M, settings, results, bar("bootstrap", "matrices"))
    return results


def _warm_up(settings: DemoSettings, tick: Tick) -> None:
    """Compile the kernels (or load them from the cache), so that this does not count in timings."""
    rng = np.random.default_rng(0)
    y, predicted = rng.integers(0, C, (2, 5000))
    M = cmfast.confusion_matrix(y, predicted, n_classes=C)
    many = np.repeat(M[None], 1000, axis=0)
    first_calls: tuple[Callable[[], object], ...] = (
        lambda: [cmfast.normalize(M, method) for method in ("all", "row", "col")],
        lambda: cmfast.ipf(many, smoothing=settings.smoothing, tol=settings.tol),
        lambda: (cmfast.overlap(M, M), cmfast.kl_divergence(M, M)),
        lambda: _compute_delta_intervals(M, settings),
        lambda: _compute_gcm(rng.normal(size=(5000, 12)), y, predicted, settings, seed=0),
    )
    for done, call in enumerate(first_calls):
        tick(done, len(first_calls))
        call()
    tick(len(first_calls), len(first_calls))


def _train(seed: int, settings: DemoSettings, results: Results, tick: Tick) -> list[Twins]:
    """Train twin networks on the digits, balanced and at one level of imbalance; return their predictions."""
    common = {each.name: getattr(settings, each.name) for each in fields(Common)}
    options = training.NormalizationSettings(**common, seed=seed, levels=(settings.alpha,), stops=(training.LATE,))
    pool = digits()
    pool = replace(pool, X=pool.X.astype(np.float64))
    repeat, out = training.make_training_repeat(pool, halve_pool), []
    with measure_time(results.timings, "training"), limit_to_one_thread():
        for r in range(settings.repeats):
            found = repeat(r, options)
            out.append(Twins(found.balanced[training.LATE], found.skewed[0][training.LATE]))
            tick(r + 1, settings.repeats)
            if r > 0:
                continue
            results.matrices["pictures"] = _pick_pictures(pool, found.rows[0].test)
            for name, rows in zip(("balanced", "imbalanced"), found.rows, strict=True):
                results.numbers["samples"][f"{name}_train"] = np.bincount(pool.y[rows.train], minlength=C)
    return out


def halve_pool(pool: Pool, rng: np.random.Generator) -> Halves:
    """Split the digits of every class into two halves, with all four rotations of a digit in one half."""
    n = len(pool.y) // 4
    classes = [rng.permutation(np.flatnonzero(pool.y[:n] == c)) for c in range(C)]
    size = min(map(len, classes)) // 2
    parts = [np.concatenate([members[k * size : (k + 1) * size] for members in classes]) for k in (0, 1)]
    return Halves(*(np.concatenate([k * n + rows for k in range(4)]) for rows in parts))


def _pick_pictures(pool: Pool, rows: np.ndarray) -> np.ndarray:
    """Return one test picture per class; neighbouring classes have different rotations."""
    chosen = [pool.X[rows[pool.y[rows] == c]] for c in range(C)]
    # The four ways of turning follow each other, so that four neighbours of this list are turned differently.
    return np.stack([X[(c % 4) * (len(X) // 4)] for c, X in enumerate(chosen)])


# Experiment 1: which normalisation of the imbalanced matrix comes closest to the balanced one?


def _compare_normalizations(repetitions: list[Twins], settings: DemoSettings, results: Results) -> None:
    """Write to `results` the overlap and KL divergence of each normalised imbalanced matrix and the balanced matrix."""
    M1 = np.stack([r.balanced.M for r in repetitions])
    M2 = np.stack([r.skewed.M for r in repetitions])
    eps = settings.smoothing
    normalized = {name: _normalize(M2, name, eps, settings) for name in NORMALIZATIONS}
    smoothed = {name: _normalize(M2 + eps, name, None, settings) for name in NORMALIZATIONS}
    overlap = {name: cmfast.overlap(S, M1) for name, S in normalized.items()}
    # Without the constant a cell that is empty in one matrix alone would make the divergence infinite.
    kl = {name: cmfast.kl_divergence(M1 + eps, S) for name, S in smoothed.items()}
    others = {f"{e:g}": cmfast.overlap(_normalize(M2, "bi", e, settings), M1).mean() for e in settings.other_smoothings}
    results.numbers["samples"] |= {
        "balanced_test": M1[0].sum(axis=1),
        "imbalanced_test": M2[0].sum(axis=1),
        "accuracy_balanced": _compute_accuracy(M1),
        "accuracy_imbalanced": _compute_accuracy(M2),
        "empty_cells_imbalanced": int((M2[0] == 0).sum()),
        "never_predicted": np.flatnonzero(M2[0].sum(axis=0) == 0),
    }
    results.numbers["normalisation"] = {
        "overlap": _summarize_methods(overlap, largest=True),
        "kl": _summarize_methods(kl, largest=False),
        "overlap_by_smoothing": others,
    }
    results.matrices |= {"balanced": M1[0], "imbalanced": M2[0]}
    results.matrices |= {f"imbalanced_{name}": S[0] for name, S in normalized.items()}


def _normalize(M: np.ndarray, method: Method, smoothing: float | None, settings: DemoSettings) -> np.ndarray:
    """Normalise matrices by `method`; only "bi" takes the smoothing and the tolerance."""
    options: dict[str, Any] = {"smoothing": smoothing, "tol": settings.tol} if method == "bi" else {}
    out: np.ndarray = cmfast.normalize(M, method, **options)
    return out


def _compute_accuracy(M: np.ndarray) -> dict[str, Any]:
    """Return the accuracy of the first matrix ("shown") and the mean accuracy of all."""
    share = np.trace(M, axis1=-2, axis2=-1) / M.sum(axis=(-2, -1))
    return {"shown": share[0], "mean": share.mean()}


def _summarize_methods(by_method: Mapping[Any, np.ndarray], *, largest: bool) -> dict[str, Any]:
    """Return per method: the shown repetition, mean, standard deviation, and number of wins."""
    found = paired.summarize_methods(by_method, largest=largest)
    return {name: {"shown": one["every"][0], **one} for name, one in found.items()}


# Experiment 2: is a normalised matrix a picture of how the classes lie in the hidden layer?


def _compute_gcm(X: np.ndarray, y: np.ndarray, predicted: np.ndarray, settings: DemoSettings, *, seed: int) -> Any:
    """Return the geometric confusion matrices of all four weightings, without warnings."""
    with warnings.catch_warnings():  # what it warns of is in the numbers, and the report says it in words
        warnings.simplefilter("ignore")
        return cmfast.geometric_confusion_matrix(
            X,
            y,
            predicted,
            weights=list(NORMALIZATIONS),
            n_classes=C,
            n_components=settings.components,
            smoothing=settings.smoothing,
            rng=seed,
        )


def _measure_geometry(
    seed: int, repetitions: list[Twins], settings: DemoSettings, results: Results, tick: Tick
) -> None:
    """Write to `results` the geometric confusion matrices and their overlap with every normalisation (experiment 2)."""
    found = []
    total = len(repetitions) + len(settings.width_factors)
    for r in repetitions:
        found.append(_compute_gcm(r.skewed.points, r.skewed.y, r.skewed.predicted, settings, seed=seed))
        tick(len(found), total)
    G = np.stack([f.matrix for f in found])
    W = np.stack([f.diagnostics.normalized for f in found])
    pairs = cmfast.overlap(W[:, :, None], G[:, None, :])  # repetition, normalisation, weights of the GCM
    first = found[0].diagnostics
    results.numbers["geometry"] = {
        "points": first.n_points,
        "cells": first.n_cells,
        "alone": first.singleton_fraction,
        "unmixed": first.unmixed_fraction,
        "missing_mass_bi": first.missing_mass[NORMALIZATIONS.index("bi")],
        "overlap_table": {
            a: {b: {"shown": pairs[0, i, j], "mean": pairs[:, i, j].mean()} for j, b in enumerate(NORMALIZATIONS)}
            for i, a in enumerate(NORMALIZATIONS)
        },
        "matched": _summarize_overlaps(found, pairs),
        "by_width": _measure_widths(repetitions[0].skewed, seed, settings, lambda k: tick(len(found) + k, total)),
    }
    results.matrices |= {f"gcm_{name}": G[0, k] for k, name in enumerate(NORMALIZATIONS)}
    results.matrices |= {f"weighted_{name}": W[0, k] for k, name in enumerate(NORMALIZATIONS)}


def _summarize_overlaps(found: list[Any], pairs: np.ndarray) -> dict[str, Any]:
    """Return per weighting the overlap with its normalisation, the guaranteed part and that of permuted labels."""
    out: dict[str, Any] = {}
    for k, name in enumerate(NORMALIZATIONS):
        values = {key: np.array([getattr(f.diagnostics, column)[k] for f in found]) for key, column in MATCHED.items()}
        out[name] = {key: {"shown": v[0], "mean": v.mean(), "sd": v.std()} for key, v in values.items()}
        out[name]["own_normalisation_best_in"] = int((pairs[:, :, k].argmax(axis=1) == k).sum())
    return out


def _measure_widths(
    skewed: Answers, seed: int, settings: DemoSettings, tick: Callable[[int], object]
) -> list[dict[str, float]]:
    """Return overlap, guarantee and null for bi-normalisation, by cell width relative to Scott's rule."""
    curve = cmfast.width_curve(
        skewed.points,
        skewed.y,
        skewed.predicted,
        factors=settings.width_factors,
        n_classes=C,
        n_components=settings.components,
        smoothing=settings.smoothing,
        rng=seed,
        progress=lambda done, total: tick(len(settings.width_factors) * done // total),
    )
    return [
        {
            "factor": factor,
            "cells": d.n_cells,
            "overlap": d.overlap,
            "guaranteed": d.guaranteed,
            "null": d.null_overlap,
            "origin_spread": spread,
        }
        for factor, d, spread in zip(curve.factors, curve.diagnostics, curve.origin_spread.tolist(), strict=True)
    ]


# How sure are the entries? Draw the test set again, very often; or follow what every sample moves.


def _bootstrap_matrix(seed: int, M: np.ndarray, settings: DemoSettings, results: Results, tick: Tick) -> None:
    """Write to `results` bootstrap and delta-method intervals of the bi-normalised matrix `M`, with their timings."""
    rng = np.random.default_rng([seed, settings.repeats])
    with measure_time(results.timings, "bootstrap_drawing"):
        flat = M.reshape(-1)
        drawn = rng.multinomial(int(flat.sum()), flat / flat.sum(), size=settings.resamples)
        drawn = drawn.reshape(-1, *M.shape)
    with measure_time(results.timings, "bootstrap_bi_normalising"):
        scaled = cmfast.ipf(drawn, smoothing=settings.smoothing, tol=settings.tol, on_failure="ignore", progress=tick)
    with measure_time(results.timings, "bootstrap_intervals"):
        fine = scaled.matrix[scaled.status == cmfast.Status.CONVERGED]
        tail = (1 - settings.interval) / 2
        low, high = np.quantile(fine, (tail, 1 - tail), axis=0)
    reference = results.matrices["balanced"] / results.matrices["balanced"].sum(axis=1, keepdims=True)
    off = ~np.eye(C, dtype=bool)
    inside = (low <= reference) & (reference <= high)
    codes, counts = np.unique(scaled.status, return_counts=True)
    results.numbers["bootstrap"] = {
        "resamples": settings.resamples,
        "statuses": {cmfast.Status(int(c)).name: int(n) for c, n in zip(codes, counts, strict=True)},
        "largest_residual": scaled.residual[scaled.status == cmfast.Status.CONVERGED].max(initial=0.0),
        "mean_passes": scaled.n_iter.mean(),
        "balanced_inside_interval": float(inside[off].mean()),
        "median_interval_width": float(np.median((high - low)[off])),
    }
    results.matrices |= {"bi_low": low, "bi_high": high}
    with measure_time(results.timings, "intervals_without_draws"):
        first, last = _compute_delta_intervals(M, settings)
    ratios = ((last - first) / (high - low))[off & (M > 0)]
    results.numbers["bootstrap"]["median_width_ratio_without_draws"] = float(np.median(ratios))
    results.matrices |= {"bi_low_without_draws": first, "bi_high_without_draws": last}
    seconds = results.timings["bootstrap_bi_normalising"]
    results.timings["bootstrap_matrices_per_second"] = settings.resamples / seconds


def _compute_delta_intervals(M: np.ndarray, settings: DemoSettings) -> tuple[np.ndarray, np.ndarray]:
    """Return both ends of the intervals by the delta method, clipped at 0.

    The smoothing constant is no sample: it has a stratum of its own, of two halves that are alike and so never vary.
    """
    cells = np.repeat(np.arange(M.size), M.ravel())
    parts = np.zeros((len(cells) + 2, M.size), np.int64)
    parts[np.arange(len(cells)), cells] = round(2 / settings.smoothing)
    parts[-2:] = 1
    strata = np.arange(len(parts)) >= len(cells)
    options: dict[str, Any] = {"clusters": True, "strata": strata, "confidence_level": settings.interval}
    found = cmfast.uncertainty.interval(parts.reshape(-1, *M.shape), of="bi", method="normal", **options)
    return np.maximum(found.low, 0.0), found.high
