"""Which intervals hold the truth less often than they say: a rule from what docs/coverage.md measures."""

from typing import Any

import numpy as np

from cmfast._core import dispatch, failures
from cmfast.kernels.shared.metrics import Over, Value
from cmfast.metrics._catalogue import find
from cmfast.metrics._margins import margins

FEW = {"bca": 5, "percentile": 5, "basic": 10, "normal": 10, "posterior": 5}  # samples
MANY_CLASSES = 4  # from which on the prior of the posterior says little of a class
AVERAGES = (Over.MEAN, Over.ADJUSTED, Over.GEOMETRIC, Over.TAU, Over.MIN)

# Metrics that are shares of samples: of all, of a class, of its predictions, of all others.
OF_CLASS = {
    Value.RECALL: "row", Value.FALSE_NEGATIVE: "row", Value.PRECISION: "col", Value.FALSE_DISCOVERY: "col",
    Value.SPECIFICITY: "not row", Value.FALSE_POSITIVE: "not row", Value.NPV: "not col",
    Value.FALSE_OMISSION: "not col", Value.ACCURACY: "all",
}  # fmt: skip


def warn_of_few(M: Any, names: tuple[str, ...], method: str, options: dict[str, Any]) -> None:
    """Warn of intervals that are likely too narrow, as too few samples are right or wrong."""
    few = FEW.get(method)
    if few is None or options["on_failure"] == "ignore":
        return
    sums = margins(M, on_failure="ignore", num_threads=options["num_threads"])
    d, t, p, n = (np.asarray(dispatch.to_host(part), np.float64) for part in (*sums[:3], sums.total))
    if not d.shape[-1] or not d.size:
        return
    if options["n"] is not None:
        factor = options["n"] / np.where(n > 0, n, np.inf)
        d, t, p, n = d * factor[..., None], t * factor[..., None], p * factor[..., None], n * factor
    fits = {}
    for name in names:
        if method == "posterior" and (d.shape[-1] < MANY_CLASSES or _kind(name) == "all"):
            continue
        least = _least(_kind(name), d, t, p, n, options["positive"])
        doubtful = (least < few) & (n > 0)
        if doubtful.any():
            fits[name] = int(doubtful.sum())
    if fits:
        first, others = next(iter(fits)), len(fits) - 1
        what = first if not others else f"{first} and {others} other metric{'s' if others > 1 else ''}"
        where = f" in {max(fits.values())} of {n.size} matrices" if n.ndim else ""
        other = 'method="posterior", or "wilson" for shares of samples' if method != "posterior" else 'method="wilson"'
        failures.diagnose(
            f"intervals of {what} by {method} hold the truth less often than they say{where}: fewer than {few} samples "
            f"that they are of are right, or wrong, or of a class; use {other}"
        )


def _kind(name: str) -> str:
    """Return of which samples a metric is made: of all, of all classes alike, or of those of each class."""
    form = find(name)
    if form is None:
        return "all"
    metric = form.metric
    if form.average in (None, "binary") and metric.over is None and metric.value is not None:
        own = OF_CLASS.get(metric.value, "both")
        return f"{own} of positive" if form.average == "binary" or not form.per_class else own
    if form.average == "macro" or metric.over in AVERAGES:
        return "classes"
    return "all"


def _least(kind: str, d: np.ndarray, t: np.ndarray, p: np.ndarray, n: np.ndarray, positive: int) -> np.ndarray:
    """Return how many samples are right, or wrong, whichever are fewer; or how many the smallest class has."""
    if kind == "all":
        return np.asarray(np.minimum(d.sum(-1), n - d.sum(-1)))
    if kind == "classes":
        return np.asarray(np.where(t > 0, t, np.inf).min(-1))
    rest = n[..., None] - t - p + d
    right, wrong = {
        "row": (d, t - d), "col": (d, p - d), "not row": (rest, p - d), "not col": (rest, t - d),
        "both": (d, t + p - 2 * d), "all": (d + rest, t + p - 2 * d),
    }[kind.removesuffix(" of positive")]  # fmt: skip
    fewer = np.where(t + p > 0, np.minimum(right, wrong), np.inf)
    return np.asarray(fewer[..., positive] if kind.endswith("positive") else fewer.min(-1))
