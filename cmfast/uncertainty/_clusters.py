"""Matrices of clusters, and of strata: intervals and standard errors of metrics of their sum."""

from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from cmfast._core import dispatch, validate
from cmfast._core.adapters import adapter
from cmfast.metrics import _plan
from cmfast.uncertainty._results import Interval, normal_interval
from cmfast.uncertainty._unfit import report

LABELS = "biuSU"  # kinds of arrays that name strata


class ClusterAxis(NamedTuple):
    """What the axis before the last two is of.

    Attributes
    ----------
    strata : array of int64, shape (k,)
        The number of the stratum of every matrix.
    clustered : bool
        Whether every matrix is a cluster, which is drawn as a whole; else its samples are drawn.
    """

    strata: np.ndarray
    clustered: bool


def parts_of(M: Any, clustered: Any, strata: Any, n: int | None) -> ClusterAxis | None:
    """Return what was asked for; None where `M` has no such axis."""
    validate.flag("clustered", clustered)
    if not clustered and strata is None:
        return None
    shape = dispatch.shape_of(M)
    if len(shape) < 3:
        what = "of shape (..., k, C, C) with clustered=True or strata"
        validate.refuse("M", what, f"shape {shape}")
    if strata is None:
        return ClusterAxis(np.zeros(shape[-3], np.int64), True)
    names = adapter(strata).to_host(strata)
    if names.dtype.kind not in LABELS or names.shape != shape[-3:-2]:
        validate.refuse("strata", f"labels of shape {shape[-3:-2]}", f"dtype {names.dtype}, shape {names.shape}")
    if n is not None:
        validate.refuse("n", "None with strata", n)
    return ClusterAxis(np.unique(names, return_inverse=True)[1].reshape(-1).astype(np.int64), bool(clustered))


def clusters_of(parts: ClusterAxis, n: int | None) -> int:
    """Return by how many clusters is known how far they scatter: one of each stratum says nothing of that."""
    known = len(parts.strata) - len(np.unique(parts.strata)) + 1
    return known if n is None else min(n, known)


def intervals(
    M: Any, parts: ClusterAxis, layout: _plan.IndexedPlan, method: str, level: float, options: dict[str, Any]
) -> list[Interval]:
    """Return the intervals of every name; `options` are those that every method takes, and those of draws."""
    normal = method == "normal"
    *found, status = dispatch.call(
        "cluster_intervals", M, plan=layout.plan, strata=parts.strata, clustered=parts.clustered,
        method="percentile" if normal else method, level=level, n=options["n"],
        n_replicates=0 if normal else options["n_replicates"], seed=options["seed"], numbers=options["numbers"],
        num_threads=options["num_threads"],
    )  # fmt: skip
    report(status, options["on_failure"], "matrices without intervals", M, clustered=True)
    made = [Interval(*found[5 * place : 5 * place + 5]) for place in layout.positions]
    if not normal:
        return made
    *spread, _ = _errors(M, parts, layout, options["n"], options["num_threads"])
    z = NormalDist().inv_cdf(0.5 + level / 2)
    return [
        normal_interval(one.estimate, spread[place], z)._replace(n_undefined=one.n_undefined)
        for one, place in zip(made, layout.positions, strict=True)
    ]


def errors(M: Any, parts: ClusterAxis, layout: _plan.IndexedPlan, options: dict[str, Any]) -> list[Any]:
    """Return the standard errors of every name."""
    *found, status = _errors(M, parts, layout, options["n"], options["num_threads"])
    report(status, options["on_failure"], "matrices without standard errors", M, clustered=True)
    return [found[place] for place in layout.positions]


def _errors(M: Any, parts: ClusterAxis, layout: _plan.IndexedPlan, n: int | None, num_threads: int | None) -> Any:
    """Return what the plan makes the errors of, then the status."""
    options = {"plan": layout.plan, **parts._asdict(), "n": n, "num_threads": num_threads}
    return dispatch.call("cluster_errors", M, **options)
