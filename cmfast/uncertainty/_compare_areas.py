"""Compare areas of two models on the same samples: by DeLong's test, by Newcombe's intervals, or by influences."""

from statistics import NormalDist
from typing import Any

import numpy as np

from cmfast._core import dispatch, failures, lazy, validate
from cmfast._core.annotations import Array
from cmfast.uncertainty._area_influences import AreaOptions, adopt, compute_all, warn_of_samples
from cmfast.uncertainty._areas import (
    AREA,
    FAILED,
    LEAST_INFLUENCE,
    choose_method,
    describe_without_newcombe,
    drop_rounding,
    mask_single_samples,
)
from cmfast.uncertainty._caveats import warn_of_small_pairs
from cmfast.uncertainty._comparison import Comparison, summarize_errors
from cmfast.uncertainty._newcombe import PairedAreas, count_class_sizes

PAIRED_METHODS = ("delta", "newcombe")


def compare_areas(y_true: Array, y_a: Array, y_b: Array, name: str = AREA, **options: Any) -> Comparison:
    """Return the comparison of the area `name` of two models on the same samples; options are :class:`AreaOptions`."""
    if lazy.are_lazy(y_true, y_a, y_b, options.get("sample_weight"), options.get("clusters")):
        later: Comparison = lazy.dask().call_delayed(compare_areas, y_true, y_a, y_b, name, **options)
        return later
    chosen = AreaOptions(**options)
    num_threads = validate.num_threads(chosen.num_threads)
    method, test = chosen.method or "delta", chosen.test
    validate.choice("method", method, PAIRED_METHODS)
    if method == "newcombe" and choose_method(name, chosen.clusters, chosen.max_fpr) != method:
        validate.refuse("method", f"delta with {describe_without_newcombe(name, chosen.max_fpr)}", method)
    validate.choice("test", test, ("interval",))
    confidence_level = validate.confidence_level(chosen.confidence_level)
    given, u = adopt(name, y_true, {"y_a": y_a, "y_b": y_b}, chosen)
    weighted = chosen.sample_weight is not None
    if name == AREA and given.unit is None and chosen.max_fpr is None:
        weight = given.weight if weighted else None
        arrays = (np.stack(given.scores, -2), given.labels, weight)
        areas, covariances, errors, status = dispatch.call("auc_covariance", *arrays, num_threads=num_threads)
        covariances, errors = mask_single_samples(given.codes, weight, covariances, errors)
        areas, covariances, _ = drop_rounding(areas, covariances, errors) if weighted else (areas, covariances, errors)
        failures.report(status, None, failed=FAILED, why=given.explain)
        variance = covariances[..., 0, 0] + covariances[..., 1, 1] - 2.0 * covariances[..., 0, 1]
    else:
        areas, covariances = compute_all(name, given, u, None, difference=True)
        variance = covariances[..., 0, 0]
    error, both = np.asarray(np.sqrt(np.maximum(variance, 0.0))), np.moveaxis(areas, -1, 0)
    alike = (error == 0.0) & (np.abs(both[0] - both[1]) < LEAST_INFLUENCE)
    both = np.stack([both[0], np.where(alike, both[0], both[1])])
    warn_of_samples(given, areas, error, weighted=weighted, p_values=True)
    fields: dict[str, Any] = summarize_errors(both, error, confidence_level)
    if name == AREA:
        sizes = count_class_sizes(given.codes, given.weight if weighted else None)
        if method == "newcombe":
            pair = PairedAreas(both, np.stack([covariances[..., k, k] for k in (0, 1)]), covariances[..., 0, 1], sizes)
            fields |= _summarize_pair(pair, confidence_level)
        elif given.unit is None and chosen.max_fpr is None:
            warn_of_small_pairs(both, sizes)
    batch = given.batch
    names = ["batch"] if len(batch) == 1 else [f"batch_{k}" for k in range(len(batch))]
    return Comparison(
        name=name,
        p_error=np.full(batch, np.nan)[()],
        n_discordant=_count_ranked_differently(given.scores, len(batch)),
        confidence_level=confidence_level,
        method=method,
        test=test,
        axes={axis: tuple(range(size)) for axis, size in zip(names, batch, strict=True)},
        **fields,
    )


def _summarize_pair(pair: PairedAreas, confidence_level: float) -> dict[str, np.ndarray]:
    """Return the interval, the p-value and the probability that the first is above, from the intervals of both."""
    from scipy.special import ndtr

    low, high = pair.compute_ends(NormalDist().inv_cdf((1.0 + confidence_level) / 2.0))
    root, difference = pair.find_root(), pair.areas[0] - pair.areas[1]
    known = np.where(np.isnan(root), np.nan, 0.0)
    low, high = (np.where(np.isnan(root), np.nan, x) for x in (low, high))
    return {
        "low": low[()],
        "high": high[()],
        "p_value": (2.0 * ndtr(-root))[()],
        "probability": (ndtr(np.sign(difference) * root) + known)[()],
    }


def _count_ranked_differently(scores: list[np.ndarray], axis: int) -> Any:
    """Return the number of samples, along `axis`, that two arrays of scores rank differently in any column."""
    first, second = (_rank(side, axis) for side in scores)
    differ = first != second
    return differ.any(tuple(range(axis + 1, differ.ndim))).sum(-1)


def _rank(scores: np.ndarray, axis: int) -> np.ndarray:
    """Return the rank of each score among the distinct scores along `axis`, from 0 on."""
    order = np.argsort(scores, axis=axis)
    ordered = np.take_along_axis(scores, order, axis)
    steps = np.zeros(scores.shape, np.int64)
    inner = (slice(None),) * axis
    later, earlier = ordered[(*inner, slice(1, None))], ordered[(*inner, slice(-1))]
    steps[(*inner, slice(1, None))] = later > earlier
    ranks = np.empty(scores.shape, np.int64)
    np.put_along_axis(ranks, order, np.cumsum(steps, axis), axis)
    return ranks
