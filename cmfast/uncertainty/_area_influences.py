"""Averages over classes of areas under ROC curves, partial areas and average precision, by influences of samples.

The influence of a sample is the derivative of an area by the weight of the sample, and the variance of the area is the
sum of the squared influences (infinitesimal jackknife, Jaeckel 1972). For one area of two classes the squares of each
class, times m / (m - 1) for m samples, are DeLong's variance. Influences add: over classes for averages, over the
samples of a cluster (Obuchowski 1997), and with a minus sign for the difference of two models.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple, get_args

import numpy as np

from cmfast._core import bad_values, dispatch, failures, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import AreaMethod, Array, OnFailure
from cmfast.confusion_counts import _groups, _label_codes
from cmfast.kernels.status import INVALID, OK
from cmfast.metrics._thresholds import adopt_scores
from cmfast.uncertainty._areas import AREA, AVERAGE_PRECISION, AVERAGES, FAILED, compute_area_interval, warn_of_no_width
from cmfast.uncertainty._caveats import warn_of_few_clusters
from cmfast.uncertainty._comparison import Comparison, summarize_errors
from cmfast.uncertainty._results import Interval


class _Curve(NamedTuple):
    """Numbers of samples at each of g distinct scores, from the highest on, float64, shape (g,).

    `group` is the position of the score of each sample, shape (n,). `true_before` and `false_before` are the numbers of
    positive and of negative samples with higher scores.
    """

    positives: np.ndarray
    negatives: np.ndarray
    true_before: np.ndarray
    false_before: np.ndarray
    group: np.ndarray


class Influences(NamedTuple):
    """An area and the influence of every sample on it, float64, shape (n,)."""

    area: float
    influence: np.ndarray


def _count_scores(positive: np.ndarray, scores: np.ndarray) -> _Curve:
    """Return the numbers of positive and negative samples of each distinct score."""
    values, index = np.unique(scores, return_inverse=True)
    index = len(values) - 1 - index.reshape(-1)
    positives, negatives = (
        np.bincount(index[mask], minlength=len(values)).astype(np.float64) for mask in (positive, ~positive)
    )
    return _Curve(positives, negatives, np.cumsum(positives) - positives, np.cumsum(negatives) - negatives, index)


def compute_area(positive: np.ndarray, scores: np.ndarray, max_fpr: float = 1.0) -> Influences:
    """Return the area under a ROC curve up to the false positive rate `max_fpr`, standardised, with its influences.

    Between two points the curve is straight. McClish (Analyzing a portion of the ROC curve, 1989) standardises an area
    A up to u: ``(1 + (A - u**2 / 2) / (u - u**2 / 2)) / 2``, which is A for u = 1.
    """
    P, N = float(np.count_nonzero(positive)), float(np.count_nonzero(~positive))
    if P == 0.0 or N == 0.0:
        return Influences(np.nan, np.full(len(scores), np.nan))
    curve, u = _count_scores(positive, scores), max_fpr
    after = curve.false_before + curve.negatives
    last = int(np.searchsorted(after, u * N * (1.0 - 1e-15)))  # the score at which the curve is cut
    inside = np.arange(len(after)) < last
    part = min((u * N - curve.false_before[last]) / curve.negatives[last], 1.0)
    share = np.where(inside, 1.0, 0.0)
    share[last] = part
    area = float(np.sum(share * curve.negatives * (curve.true_before + share * curve.positives / 2.0)))
    area /= P * N
    # A positive sample is above the negative ones that follow within the area, and half above those of its own score.
    follow = np.maximum(u * N - after, 0.0)
    of_positives = np.where(share > 0.0, follow + share * share * curve.negatives / 2.0, 0.0)
    # A negative sample adds the positive ones above it, and moves the point at which the curve is cut.
    at_cut = curve.true_before[last] + part * curve.positives[last]
    of_negatives = np.where(inside, curve.true_before + curve.positives / 2.0 + (u - 1.0) * at_cut, u * at_cut)
    of_negatives[last] -= part * part * curve.positives[last] / 2.0
    influence = np.where(
        positive,
        of_positives[curve.group] / (P * N) - area / P,
        of_negatives[curve.group] / (P * N) - area / N,
    )
    scale = 0.5 / (u - 0.5 * u * u)
    return Influences(0.5 + scale * (area - 0.5 * u * u), scale * influence)


def compute_average_precision(positive: np.ndarray, scores: np.ndarray) -> Influences:
    """Return the mean precision at the scores of the positive samples, with its influences."""
    P = float(np.count_nonzero(positive))
    if P == 0.0:
        return Influences(np.nan, np.full(len(scores), np.nan))
    curve = _count_scores(positive, scores)
    true = curve.true_before + curve.positives
    size = true + curve.false_before + curve.negatives
    precision = true / size
    area = float(np.sum(curve.positives * precision)) / P
    # A sample changes the precision at its own score and at all lower ones.
    weight = curve.positives / size
    gain, loss = (np.cumsum(x[::-1])[::-1] for x in (weight, weight * precision))
    of_positives = precision + gain - loss - area
    return Influences(area, np.where(positive, of_positives[curve.group], -loss[curve.group]) / P)


def average_areas(codes: np.ndarray, scores: np.ndarray, name: str) -> Influences:
    """Return an average of the areas of C classes, given class indices (n,) and scores (n, C), with its influences.

    Averages weighted by the shares of classes include the influence of the samples on these shares.
    """
    n, C = scores.shape
    sizes = np.bincount(codes, minlength=C)
    area, influence, total = 0.0, np.zeros(n), 0.0
    for classes, mask, one in _list_areas(codes, scores, one_vs_rest="ovr" in name):
        weight = sizes[classes].sum() / n if name.endswith("_weighted") else 1.0
        total += weight
        area += weight * one.area
        influence[mask] += weight * one.influence
        if name.endswith("_weighted"):
            influence += (np.isin(codes, classes) - weight) * (one.area / n)
    return Influences(area / total, influence / total)


def _list_areas(
    codes: np.ndarray, scores: np.ndarray, *, one_vs_rest: bool
) -> Iterator[tuple[list[int], np.ndarray, Influences]]:
    """Yield the classes of an area, a mask of the samples that it is made of, and the area with their influences.

    Of two classes it is the mean of the areas by the scores of each (Hand and Till 2001).
    """
    C = scores.shape[1]
    if one_vs_rest:
        for k in range(C):
            yield [k], np.ones(len(codes), np.bool_), compute_area(codes == k, scores[:, k])
        return
    for j in range(C):
        for k in range(j + 1, C):
            mask = (codes == j) | (codes == k)
            own = codes[mask]
            first, second = (compute_area(own == c, scores[mask, c]) for c in (j, k))
            mean = Influences((first.area + second.area) / 2.0, (first.influence + second.influence) / 2.0)
            yield [j, k], mask, mean


def estimate_error(influence: np.ndarray, codes: np.ndarray, unit: np.ndarray | None) -> float:
    """Return the standard error of an area from the influences of samples; `unit` is the cluster of each, or None.

    NaN with one cluster, or with one sample of a class.
    """
    groups = codes if unit is None else np.zeros(int(unit.max(initial=-1)) + 1, np.int64)
    values = influence if unit is None else np.bincount(unit, influence, len(groups))
    squares, sizes = np.bincount(groups, values * values), np.bincount(groups).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(np.sqrt(np.sum(np.where(sizes > 0, squares * (sizes / (sizes - 1.0)), 0.0))))


class _Scored(NamedTuple):
    """Class indices (n,), the scores of every model, the cluster of each sample or None, and the array to return to."""

    codes: np.ndarray
    scores: list[np.ndarray]
    unit: np.ndarray | None
    home: Any


class AreaOptions(NamedTuple):
    """Options of intervals and comparisons of areas as the user passed them, and their defaults."""

    method: str | None = None
    test: str = "interval"
    confidence_level: float = 0.95
    pos_label: int | str | None = None
    clusters: Any = None
    max_fpr: float | None = None
    on_failure: OnFailure = None
    num_threads: int | None = None


def _adopt(name: str, y_true: Any, given: dict[str, Any], chosen: AreaOptions) -> tuple[_Scored, float]:
    """Validate labels, the scores of every model, clusters and `max_fpr`; return them on the host."""
    pos_label, clusters, max_fpr = chosen.pos_label, chosen.clusters, chosen.max_fpr
    if max_fpr is not None and name != AREA:
        validate.refuse("max_fpr", f"left out with {name!r}", validate.format_value(max_fpr))
    u = 1.0 if max_fpr is None else validate.number("max_fpr", max_fpr)
    if not 0.0 < u <= 1.0:
        validate.refuse("max_fpr", "above 0 and at most 1", validate.format_value(max_fpr))
    adopt = _adopt_classes if name in AVERAGES else _adopt_two_classes
    if name in AVERAGES and pos_label is not None:
        validate.refuse("pos_label", f"left out with {name!r}", validate.format_value(pos_label))
    codes, scores, home = adopt(y_true, given, pos_label)
    unit = None
    if clusters is not None and clusters is not False:
        if isinstance(clusters, bool):
            validate.refuse("clusters", "the cluster of each sample where scores are given", clusters)
        _, number, _ = _groups.number_groups({"clusters": clusters}, codes, codes.shape)
        unit = np.asarray(number)
    return _Scored(codes, scores, unit, home), u


def _adopt_two_classes(y_true: Any, given: dict[str, Any], pos_label: Any) -> tuple[np.ndarray, list[np.ndarray], Any]:
    """Return 1 for positive samples and 0 for others, and scores of shape (n,), on the host."""
    sides, home, labels = [], None, None
    for name, side in given.items():
        scores, labels, _ = adopt_scores(y_true, side, None, pos_label, None)
        if len(dispatch.shape_of(scores)) != 1:
            validate.refuse(name, "one row of scores, shape (n,)", f"shape {dispatch.shape_of(scores)}")
        sides.append(_fetch(name, scores))
        home = scores if home is None else home
    y = _fetch("y_true", labels)
    if ((y < -1) | (y > 1)).any():
        validate.refuse("y_true", "0 or 1, or -1 or 1; else pass pos_label", int(y[(y < -1) | (y > 1)][0]))
    return (y == 1).astype(np.int64), sides, home


def _adopt_classes(y_true: Any, given: dict[str, Any], pos_label: Any) -> tuple[np.ndarray, list[np.ndarray], Any]:
    """Return the index of the class of each sample, and scores of shape (n, C), on the host."""
    del pos_label  # refused before
    column = _label_codes.encode_labels("y_true", y_true, floats=True)
    codes = _fetch("y_true", column.codes)
    if codes.ndim != 1:
        validate.refuse("y_true", "of shape (n,)", f"shape {codes.shape}")
    labels = [column.values[k] for k in np.unique(codes)]
    order = sorted(range(len(labels)), key=labels.__getitem__)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    codes = place[np.unique(codes, return_inverse=True)[1].reshape(-1)]
    adopted = dispatch.adopt(**given)
    validate.real(**dict(zip(given, adopted, strict=True)))
    sides = [_fetch(name, side) for name, side in zip(given, adopted, strict=True)]
    for name, side in zip(given, sides, strict=True):
        if side.ndim != 2 or len(side) != len(codes):
            size = len(codes) if side.ndim == 2 else "n"
            validate.refuse(name, f"of shape ({size}, C), a column of scores per class", f"shape {side.shape}")
        if side.shape != sides[0].shape:
            validate.refuse(name, f"of shape {sides[0].shape}", f"shape {side.shape}")
    C = sides[0].shape[1]
    if len(labels) != C:
        wanted = f"of {C} classes, one for each column of scores in the order of the sorted labels"
        validate.refuse("y_true", wanted, f"{len(labels)} classes")
    return codes, sides, adopted[0]


def _fetch(name: str, array: Any) -> np.ndarray:
    """Return an array on the host; refuse those of a device."""
    inner = adapter(array).unwrap(array)
    if not adapter(inner).is_on_host(inner):
        validate.refuse(name, "on the CPU", adapter(inner).device(inner), NotImplementedError)
    return np.asarray(adapter(inner).to_host(inner))


def _explain_nan(scores: np.ndarray, index: tuple[int, ...]) -> str:
    """Return a text that names the first score that is NaN."""
    del index  # there is one element
    return bad_values.describe_first("y_score", scores.reshape(-1), np.isnan(scores).reshape(-1), ())


def _compute(name: str, codes: np.ndarray, scores: np.ndarray, max_fpr: float) -> Influences:
    """Return the area `name` of one model, with the influences of all samples."""
    if np.isnan(scores).any():
        return Influences(np.nan, np.full(len(codes), np.nan))
    if name in AVERAGES:
        return average_areas(codes, scores, name)
    if name == AVERAGE_PRECISION:
        return compute_average_precision(codes == 1, scores)
    return compute_area(codes == 1, scores, max_fpr)


def compute_interval(y_true: Array, y_score: Array, name: str, **options: Any) -> Interval:
    """Return the interval of the area `name` of one model; options are :class:`AreaOptions`."""
    chosen = AreaOptions(**options)
    validate.num_threads(chosen.num_threads)  # sorting takes one thread
    method = "logit" if chosen.method is None else chosen.method
    validate.choice("method", method, get_args(AreaMethod))
    level = validate.confidence_level(chosen.confidence_level)
    on_failure = validate.on_failure(chosen.on_failure)
    given, u = _adopt(name, y_true, {"y_score": y_score}, chosen)
    (scores,) = given.scores
    status = np.array(INVALID if np.isnan(scores).any() else OK, np.int8)
    failures.report(status, on_failure, failed=FAILED, why=partial(_explain_nan, scores))
    found = _compute(name, given.codes, scores, u)
    error = estimate_error(found.influence, given.codes, given.unit)
    if on_failure != "ignore":
        if given.unit is not None:
            warn_of_few_clusters(int(given.unit.max(initial=-1)) + 1)
        warn_of_no_width(np.float64(error))
    made = compute_area_interval(np.float64(found.area), np.float64(error), method, level)
    inner = adapter(given.home).unwrap(given.home)
    return Interval(*(adapter(inner).send(np.asarray(part), inner)[()] for part in made))


def compare(y_true: Array, y_a: Array, y_b: Array, name: str, **options: Any) -> Comparison:
    """Return the comparison of the area `name` of two models on the same samples; options are :class:`AreaOptions`."""
    chosen = AreaOptions(**options)
    validate.num_threads(chosen.num_threads)
    method, test = chosen.method or "delta", chosen.test
    validate.choice("method", method, ("delta",))
    validate.choice("test", test, ("interval",))
    confidence_level = validate.confidence_level(chosen.confidence_level)
    given, u = _adopt(name, y_true, {"y_a": y_a, "y_b": y_b}, chosen)
    bad = np.array(INVALID if any(np.isnan(side).any() for side in given.scores) else OK, np.int8)
    failures.report(bad, None, failed=FAILED, why=partial(_explain_nan, np.stack(given.scores)))
    first, second = (_compute(name, given.codes, side, u) for side in given.scores)
    if given.unit is not None:
        warn_of_few_clusters(int(given.unit.max(initial=-1)) + 1, p_values=True)
    error = estimate_error(first.influence - second.influence, given.codes, given.unit)
    fields: dict[str, Any] = summarize_errors(np.array([first.area, second.area]), np.asarray(error), confidence_level)
    columns = [side.reshape(len(side), -1).T for side in given.scores]
    ranks = [np.array([np.unique(column, return_inverse=True)[1].reshape(-1) for column in one]) for one in columns]
    return Comparison(
        name=name,
        p_error=np.float64(np.nan),
        n_discordant=np.int64(np.count_nonzero((ranks[0] != ranks[1]).any(0))),
        confidence_level=confidence_level,
        method=method,
        test=test,
        axes={},
        **fields,
    )
