"""Intervals and standard errors of metrics of a sum of matrices, one matrix per cluster or stratum."""

from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from cmfast._core import dispatch, failures, validate
from cmfast._core.adapters import adapter
from cmfast.metrics import _plan
from cmfast.uncertainty._invalid_counts import report_invalid
from cmfast.uncertainty._results import Interval, normal_interval

STRATUM_KINDS = "biuSU"  # dtype kinds that may label strata


class ClusterAxis(NamedTuple):
    """Meaning of the axis before the last two: the stratum of each matrix, and whether matrices are clusters.

    Attributes
    ----------
    strata : array of int64, shape (k,)
        Index of the stratum of every matrix.
    clustered : bool
        Whether each matrix is a cluster, resampled as a whole; otherwise its samples are resampled.
    """

    strata: np.ndarray
    clustered: bool


def parse_cluster_axis(M: Any, clustered: Any, strata: Any, n: int | None) -> ClusterAxis | None:
    """Validate the options `clusters` and `strata` against `M`; return None if `M` has no cluster axis."""
    validate.flag("clusters", clustered)
    if not clustered and strata is None:
        return None
    shape = dispatch.shape_of(M)
    if len(shape) < 3:
        what = "of shape (..., k, C, C) with clusters=True or strata, or labels y_true, y_pred"
        validate.refuse("M", what, f"shape {shape}")
    if strata is None:
        return ClusterAxis(np.zeros(shape[-3], np.int64), True)
    names = adapter(strata).to_host(strata)
    is_whole = names.dtype.kind == "f" and bool((np.isfinite(names) & (names == np.rint(names))).all())
    if not (names.dtype.kind in STRATUM_KINDS or is_whole) or names.shape != shape[-3:-2]:
        validate.refuse("strata", f"labels of shape {shape[-3:-2]}", f"dtype {names.dtype}, shape {names.shape}")
    if n is not None:
        validate.refuse("n", "None with strata", n)
    codes = np.unique(names, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return ClusterAxis(codes, bool(clustered))


def warn_of_lonely_units(parts: ClusterAxis, M: Any) -> bool:
    """Warn of strata that have one cluster, or sample, so that nothing varies there; return whether that is so in all.

    `M` are the counts, whose samples are the units without clusters.
    """
    if parts.clustered:
        sizes = np.bincount(parts.strata).astype(np.float64)
    else:
        own = adapter(M)
        totals = np.asarray(own.to_host(own.evaluate(lambda M: M.sum((-2, -1)), M)), np.float64)
        sizes = np.zeros((*totals.shape[:-1], int(parts.strata.max(initial=-1)) + 1))
        for index in np.ndindex(totals.shape[:-1]):
            sizes[index] = np.bincount(parts.strata, totals[index], sizes.shape[-1])
    batch = tuple(range(sizes.ndim - 1))
    lonely, n = (np.count_nonzero(mask.any(batch)) for mask in (sizes == 1, sizes > 0))
    if lonely:
        name, unit = ("clusters", "cluster") if parts.clustered else ("strata", "sample")
        which = f"one {unit}" + (f" in {lonely} of {n} strata" if n > 1 else "")
        part = " there" if lonely < n else ""
        cure = "; join these strata with others" if n > 1 else ""
        text = f"{name} has {which}, so nothing varies{part}: standard errors and intervals are undefined or too small"
        failures.warn_diagnostic(text + cure)
    return bool(0 < lonely == n)


def count_effective_clusters(parts: ClusterAxis, n: int | None) -> int:
    """Return the number of clusters that inform the variance: one cluster per stratum gives no information."""
    known = len(parts.strata) - len(np.unique(parts.strata)) + 1
    return known if n is None else min(n, known)


def compute_intervals(
    M: Any, parts: ClusterAxis, layout: _plan.IndexedPlan, method: str, confidence_level: float, options: dict[str, Any]
) -> list[Interval]:
    """Return the interval of each requested metric over clusters or strata."""
    normal = method == "normal"
    *found, status = dispatch.call(
        "cluster_intervals", M, plan=layout.plan, strata=parts.strata, clustered=parts.clustered,
        method="percentile" if normal else method, confidence_level=confidence_level, n=options["n"],
        n_resamples=0 if normal else options["n_resamples"], seed=options["seed"], numbers=options["numbers"],
        num_threads=options["num_threads"],
    )  # fmt: skip
    report_invalid(status, options["on_failure"], "matrices without intervals", M, clustered=True)
    made = [Interval(*found[5 * place : 5 * place + 5]) for place in layout.positions]
    if not normal:
        return made
    *spread, _ = _call_cluster_errors(M, parts, layout, options["n"], options["num_threads"])
    z = NormalDist().inv_cdf(0.5 + confidence_level / 2)
    return [
        normal_interval(one.estimate, spread[place], z)._replace(n_undefined=one.n_undefined)
        for one, place in zip(made, layout.positions, strict=True)
    ]


def compute_standard_errors(
    M: Any, parts: ClusterAxis, layout: _plan.IndexedPlan, options: dict[str, Any]
) -> list[Any]:
    """Return the standard error of each requested metric over clusters or strata."""
    *found, status = _call_cluster_errors(M, parts, layout, options["n"], options["num_threads"])
    report_invalid(status, options["on_failure"], "matrices without standard errors", M, clustered=True)
    return [found[place] for place in layout.positions]


def _call_cluster_errors(
    M: Any, parts: ClusterAxis, layout: _plan.IndexedPlan, n: int | None, num_threads: int | None
) -> Any:
    """Run the op ``cluster_errors``; return its standard errors in plan order, then the status."""
    options = {"plan": layout.plan, **parts._asdict(), "n": n, "num_threads": num_threads}
    return dispatch.call("cluster_errors", M, **options)
