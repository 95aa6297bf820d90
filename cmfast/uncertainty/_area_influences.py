"""Averages over classes of areas under ROC curves, partial areas and average precision, by influences of samples.

The influence of a sample is the derivative of an area by the weight of the sample, times that weight, and the variance
of the area is the sum of the squared influences (infinitesimal jackknife, Jaeckel 1972). For one area of two classes
the squares of each class, times m / (m - 1) for m samples, are DeLong's variance. Influences add: over classes for
averages, over the samples of a cluster (Obuchowski 1997), and with a minus sign for the difference of two models. The
products of the influences on two areas add up to their covariance.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple, get_args

import numpy as np

from cmfast._core import bad_values, dispatch, failures, frames, table_columns, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import AreaMethod, Array, OnFailure
from cmfast.confusion_counts import _groups, _label_codes
from cmfast.kernels.status import INVALID, OK
from cmfast.metrics._thresholds import adopt_scores, describe_bad_label
from cmfast.uncertainty._areas import (
    AREA,
    AVERAGE_PRECISION,
    AVERAGES,
    EXACT_DIGITS,
    FAILED,
    LEAST_INFLUENCE,
    METHODS_OF_ERRORS,
    compute_area_interval,
    describe_without_newcombe,
    warn_of_no_width,
)
from cmfast.uncertainty._caveats import (
    warn_of_few_clusters,
    warn_of_small_classes,
    warn_of_undefined_areas,
    warn_of_uneven_weights,
)
from cmfast.uncertainty._results import Interval


class _Curve(NamedTuple):
    """Total weights of samples at each of g distinct scores, from the highest on, float64, shape (g,).

    `group` is the position of the score of each sample, shape (n,). `true_before` and `false_before` are the weights of
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


def _drop_rounding(influence: np.ndarray) -> np.ndarray:
    """Return the influences of samples, 0 if all are rounding, as where the scores separate the classes."""
    most = float(np.abs(influence).max(initial=0.0))  # NaN stays
    return np.zeros_like(influence) if most * len(influence) < LEAST_INFLUENCE else influence


def _sum_weights(positive: np.ndarray, scores: np.ndarray, weight: np.ndarray) -> _Curve:
    """Return the total weights of positive and negative samples of each distinct score."""
    values, index = np.unique(scores, return_inverse=True)
    index = len(values) - 1 - index.reshape(-1)
    positives, negatives = (np.bincount(index[mask], weight[mask], len(values)) for mask in (positive, ~positive))
    return _Curve(positives, negatives, np.cumsum(positives) - positives, np.cumsum(negatives) - negatives, index)


def compute_area(positive: np.ndarray, scores: np.ndarray, weight: np.ndarray, max_fpr: float = 1.0) -> Influences:
    """Return the area under a ROC curve up to the false positive rate `max_fpr`, standardised, with its influences.

    Between two points the curve is straight. McClish (Analyzing a portion of the ROC curve, 1989) standardises an area
    A up to u: ``(1 + (A - u**2 / 2) / (u - u**2 / 2)) / 2``, which is A for u = 1.
    """
    curve, u = _sum_weights(positive, scores, weight), max_fpr
    after = curve.false_before + curve.negatives
    P, N = (float(x[-1]) if len(x) else 0.0 for x in (curve.true_before + curve.positives, after))
    if P == 0.0 or N == 0.0:
        return Influences(np.nan, np.full(len(scores), np.nan))
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
    return Influences(0.5 + scale * (area - 0.5 * u * u), weight * (scale * influence))


def compute_average_precision(positive: np.ndarray, scores: np.ndarray, weight: np.ndarray) -> Influences:
    """Return the mean precision at the scores of the positive samples, with its influences."""
    curve = _sum_weights(positive, scores, weight)
    true = curve.true_before + curve.positives
    P = float(true[-1]) if len(true) else 0.0
    if P == 0.0:
        return Influences(np.nan, np.full(len(scores), np.nan))
    size = true + curve.false_before + curve.negatives
    size[size == 0.0] = 1.0  # of samples without weight, above all others
    precision = true / size
    area = float(np.sum(curve.positives * precision)) / P
    # A sample changes the precision at its own score and at all lower ones.
    step = curve.positives / size
    gain, loss = (np.cumsum(x[::-1])[::-1] for x in (step, step * precision))
    of_positives = (precision - area) + (gain - loss)  # 0 without negative samples
    return Influences(area, weight * (np.where(positive, of_positives[curve.group], -loss[curve.group]) / P))


def average_areas(codes: np.ndarray, scores: np.ndarray, weight: np.ndarray, name: str) -> Influences:
    """Return an average of the areas of C classes, given class indices (n,) and scores (n, C), with its influences.

    Averages weighted by the shares of classes include the influence of the samples on these shares.
    """
    n, C = scores.shape
    whole = weight.sum()
    sizes = np.bincount(codes, weight, C)
    area, influence, total = np.float64(0.0), np.zeros(n), np.float64(0.0)
    for classes, mask, one in _list_areas(codes, scores, weight, one_vs_rest="ovr" in name):
        share = sizes[classes].sum() / whole if name.endswith("_weighted") else 1.0
        total += share
        area += share * one.area
        influence[mask] += share * one.influence
        if name.endswith("_weighted"):
            influence += weight * ((np.isin(codes, classes) - share) * (one.area / whole))
    return Influences(float(area / total), influence / total)


def _list_areas(
    codes: np.ndarray, scores: np.ndarray, weight: np.ndarray, *, one_vs_rest: bool
) -> Iterator[tuple[list[int], np.ndarray, Influences]]:
    """Yield the classes of an area, a mask of the samples that it is made of, and the area with their influences.

    Of two classes it is the mean of the areas by the scores of each (Hand and Till 2001).
    """
    C = scores.shape[1]
    if one_vs_rest:
        for k in range(C):
            yield [k], np.ones(len(codes), np.bool_), compute_area(codes == k, scores[:, k], weight)
        return
    for j in range(C):
        for k in range(j + 1, C):
            mask = (codes == j) | (codes == k)
            own = codes[mask]
            first, second = (compute_area(own == c, scores[mask, c], weight[mask]) for c in (j, k))
            mean = Influences((first.area + second.area) / 2.0, (first.influence + second.influence) / 2.0)
            yield [j, k], mask, mean


class Scored(NamedTuple):
    """Problems (...): class indices (..., n), the scores of each model, weights, the cluster of each sample or None.

    Scores have shape (..., n), or (..., n, C) for averages over classes, and clusters are numbers from 0. For areas of
    two classes, `labels` are what the user gave, 1 for positive samples, and class indices are 0 and 1. `places` say
    where the user gave the scores: the argument, and the index in an element of the batch. Results return to the
    library of `home`.
    """

    codes: np.ndarray
    labels: np.ndarray | None
    scores: list[np.ndarray]
    places: list[tuple[str, tuple[int, ...]]]
    weight: np.ndarray
    unit: np.ndarray | None
    home: Any

    @property
    def batch(self) -> tuple[int, ...]:
        """Shape of the batch, () for one problem."""
        return self.codes.shape[:-1]

    def select(self, index: tuple[int, ...]) -> "Scored":
        """Return the problem at `index` of the batch, its clusters numbered from 0 without gaps."""
        if not self.batch:
            return self
        unit = None if self.unit is None else np.unique(self.unit[index], return_inverse=True)[1].reshape(-1)
        return self._replace(
            codes=self.codes[index],
            labels=None if self.labels is None else self.labels[index],
            scores=[side[index] for side in self.scores],
            weight=self.weight[index],
            unit=unit,
        )

    def take(self, mask: np.ndarray) -> "Scored":
        """Return some samples of one problem, their clusters numbered from 0 without gaps."""
        unit = None if self.unit is None else np.unique(self.unit[mask], return_inverse=True)[1].reshape(-1)
        return self._replace(
            codes=self.codes[mask],
            labels=None if self.labels is None else self.labels[mask],
            scores=[side[mask] for side in self.scores],
            weight=self.weight[mask],
            unit=unit,
        )

    def find_status(self) -> np.ndarray:
        """Return INVALID for problems with a NaN score, a bad label, or a weight negative or not finite; else OK."""
        with np.errstate(over="ignore", invalid="ignore"):
            bad = ~((self.weight >= 0.0).all(-1) & (self.weight.sum(-1) < np.inf))
        for side in self.scores:
            bad |= np.isnan(side).any(tuple(range(len(self.batch), side.ndim)))
        if self.labels is not None:
            bad |= ((self.labels < -1) | (self.labels > 1)).any(-1)
        return np.where(bad, INVALID, OK).astype(np.int8)

    def explain(self, index: tuple[int, ...]) -> str:
        """Return a text that names the first label, weight or score that is bad in the problem at `index`."""
        one = self.select(index)
        said = "" if one.labels is None else describe_bad_label(one.labels, index)
        wrong = ~((one.weight >= 0.0) & np.isfinite(one.weight))
        said = said or bad_values.describe_first("sample_weight", one.weight, wrong, index)
        for (name, at), side in zip(one.places, one.scores, strict=True):
            said = said or bad_values.describe_first(name, side, np.isnan(side), (*index, *at))
        return said + table_columns.describe_gaps() if said else bad_values.OVERFLOWING_WEIGHTS

    def count_units(self) -> np.ndarray:
        """Return the number of clusters of each problem, shape (...)."""
        assert self.unit is not None
        if not self.batch:  # numbers have no gaps
            return np.asarray(self.unit.max(initial=-1) + 1)
        unit = np.sort(self.unit, axis=-1)
        return np.asarray((np.diff(unit, axis=-1) > 0).sum(-1) + (unit.shape[-1] > 0))

    def estimate_covariances(self, influences: list[np.ndarray]) -> np.ndarray:
        """Return the covariances (K, K) of sums of the influences of samples of one problem on K areas.

        NaN with one cluster, or with one sample of a class. Samples and clusters without weight do not count.
        """
        weighted, influences = self.weight > 0.0, list(map(_drop_rounding, influences))
        if self.unit is None:
            group, values = self.codes, influences
        else:
            k = int(self.unit.max(initial=-1)) + 1
            weighted = np.bincount(self.unit, weighted, k) > 0.0
            group, values = np.zeros(k, np.int64), [np.bincount(self.unit, x, k) for x in influences]
        n_groups = int(group.max(initial=-1)) + 1
        sizes = np.bincount(group[weighted], minlength=n_groups).astype(np.float64)
        sizes[sizes == 1.0] = np.nan  # one sample has no variance, though rounding may leave some influence
        found = np.empty((len(values), len(values)))
        for j, one in enumerate(values):
            for k, other in enumerate(values[: j + 1]):
                products = np.bincount(group, one * other, n_groups)
                with np.errstate(invalid="ignore", divide="ignore"):
                    found[j, k] = found[k, j] = np.sum(products * (sizes / (sizes - 1.0)))
        return found


class AreaOptions(NamedTuple):
    """Options of intervals, comparisons and covariances of areas as the user passed them, and their defaults."""

    method: str | None = None
    test: str = "interval"
    confidence_level: float = 0.95
    pos_label: int | str | None = None
    sample_weight: Any = None
    clusters: Any = None
    max_fpr: float | None = None
    on_failure: OnFailure = None
    num_threads: int | None = None


def adopt(
    name: str, y_true: Any, given: dict[str, Any], chosen: AreaOptions, *, models: bool = False
) -> tuple[Scored, float]:
    """Validate labels, the scores of every model, weights, clusters and `max_fpr`; return them on the host.

    With `models` the scores of all models are rows of one array.
    """
    pos_label, clusters, max_fpr = chosen.pos_label, chosen.clusters, chosen.max_fpr
    sides = {} if models else given
    dispatch.check_row_order(y_true=y_true, **sides, sample_weight=chosen.sample_weight, clusters=clusters)
    if max_fpr is not None and name != AREA:
        validate.refuse("max_fpr", f"left out with {name!r}", validate.format_value(max_fpr))
    u = 1.0 if max_fpr is None else validate.number("max_fpr", max_fpr)
    if not 0.0 < u <= 1.0:
        validate.refuse("max_fpr", "above 0 and at most 1", validate.format_value(max_fpr))
    if name in AVERAGES and pos_label is not None:
        validate.refuse("pos_label", f"left out with {name!r}", validate.format_value(pos_label))
    adopt_sides = _adopt_classes if name in AVERAGES else _adopt_two_classes
    codes, labels, scores, weight, home = adopt_sides(y_true, given, chosen, models=models)
    unit = None
    if clusters is not None and clusters is not False:
        if isinstance(clusters, bool):
            validate.refuse("clusters", "the cluster of each sample where scores are given", clusters)
        unit = _number_clusters(clusters, codes)
    weights = np.ones(codes.shape) if weight is None else _fetch("sample_weight", weight).astype(np.float64)
    places: list[tuple[str, tuple[int, ...]]] = [(side, ()) for side in given]
    if models:
        places = [("y_score", (k,)) for k in range(len(scores))]
    return Scored(codes, labels, scores, places, weights, unit, home), u


def _number_clusters(clusters: Any, codes: np.ndarray) -> np.ndarray:
    """Return the number of the cluster of each sample, in the order of their sorted labels, shape of `codes`."""
    _, number, order = _groups.number_groups({"clusters": clusters}, codes, codes.shape)
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    return np.asarray(position[np.asarray(number)].reshape(codes.shape))


def _adopt_two_classes(
    y_true: Any, given: dict[str, Any], chosen: AreaOptions, *, models: bool
) -> tuple[np.ndarray, np.ndarray, list[np.ndarray], Any, Any]:
    """Return 1 for positive samples and 0 for others, labels and scores (..., n), on the host; and adopted weights."""
    sides: list[np.ndarray] = []
    home, labels, weight = None, None, None
    for name, side in given.items():
        scores, labels, weight = adopt_scores(
            y_true, side, chosen.sample_weight, chosen.pos_label, None, models=models, name=name
        )
        fetched = _fetch(name, scores)
        sides += list(np.moveaxis(fetched, -2, 0)) if models else [fetched]
        home = scores if home is None else home
    y = _fetch("y_true", labels)
    return (y == 1).astype(np.int64), y, sides, weight, home


def _adopt_classes(
    y_true: Any, given: dict[str, Any], chosen: AreaOptions, *, models: bool
) -> tuple[np.ndarray, None, list[np.ndarray], Any, Any]:
    """Return the index of the class of each sample (..., n), scores (..., n, C), on the host; and adopted weights.

    Classes are the labels of all problems.
    """
    codes, labels = _encode_classes(y_true)
    shape = codes.shape
    given = {name: order_columns(name, side, labels) for name, side in given.items()}
    *adopted, weight = dispatch.adopt(**given, sample_weight=chosen.sample_weight, optional=("sample_weight",))
    validate.real(**dict(zip(given, adopted, strict=True)), sample_weight=weight)
    sides = [_fetch(name, side) for name, side in zip(given, adopted, strict=True)]
    for name, side in zip(given, sides, strict=True):
        cut = side.ndim - 2 - models  # axes of the batch
        if cut < 0 or (*side.shape[:cut], side.shape[-2]) != shape:
            sizes = ", ".join([*map(str, shape[:-1]), *["K"] * models, str(shape[-1])])
            validate.refuse(name, f"of shape ({sizes}, C), a column of scores per class", f"shape {side.shape}")
        if side.shape != sides[0].shape:
            validate.refuse(name, f"of shape {sides[0].shape}", f"shape {side.shape}")
    if weight is not None and dispatch.shape_of(weight) != shape:
        validate.refuse("sample_weight", f"of shape {shape}", f"shape {dispatch.shape_of(weight)}")
    C = sides[0].shape[-1]
    if len(labels) != C and 0 not in shape[:-1]:
        wanted = f"of {C} classes, one for each column of scores in the order of the sorted labels"
        validate.refuse("y_true", wanted, f"{len(labels)} classes")
    return codes, None, list(np.moveaxis(sides[0], -3, 0)) if models else sides, weight, adopted[0]


def _encode_classes(y_true: Any) -> tuple[np.ndarray, list[Any]]:
    """Return the index of the class of each sample, shape (..., n), and the sorted labels of all problems."""
    column = _label_codes.encode_labels("y_true", y_true, floats=True)
    codes = _fetch("y_true", column.codes)
    if codes.ndim == 0:
        validate.refuse("y_true", "of shape (..., n)", "shape ()")
    validate.samples_last(sized=False, y_true=codes.shape)
    shape = codes.shape
    found, codes = np.unique(codes, return_inverse=True)
    labels = [column.values[k] for k in found]
    order = sorted(range(len(labels)), key=labels.__getitem__)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return place[codes.reshape(shape)], [labels[k] for k in order]


def order_models(y_true: Any, scores: dict[Any, Any]) -> dict[Any, Any]:
    """Return the scores of models by name, tables with their columns in the order of the sorted labels."""
    if not any(map(frames.is_table, scores.values())):
        return scores
    _, labels = _encode_classes(y_true)
    return {k: order_columns(f"y_score[{validate.format_value(k)}]", one, labels) for k, one in scores.items()}


def order_columns(name: str, scores: Any, labels: list[Any]) -> Any:
    """Return a table of scores with its columns in the order of `labels`, if these are named after the labels.

    Names after labels are the labels themselves, or all of them with the same text before and after, as in ``p_cat``.
    Columns without any label of text in their names go by position; ValueError, which calls the table `name`, if some
    have one but not all are named after the labels.
    """
    if not frames.is_table(scores) or frames.is_lazy_table(scores):
        return scores
    names = frames.column_names(scores)
    columns = {str(column): column for column in names}
    texts = [str(label) for label in labels]
    if len(names) != len(texts) or not texts:
        return scores
    for column in columns if len(columns) == len(names) else ():
        at = column.find(texts[0])
        while at >= 0:
            wanted = [column[:at] + text + column[at + len(texts[0]) :] for text in texts]
            if columns.keys() == set(wanted):
                return frames.select_columns(scores, [columns[text] for text in wanted])
            at = column.find(texts[0], at + 1)
    if all(isinstance(label, str) for label in labels) and any(
        _is_in(text, column) for text in texts for column in columns
    ):
        every, given = (validate.format_value(", ".join(map(repr, map(str, one))), str) for one in (labels, names))
        cure = "name each column after its label, or give an array whose columns are in the order of the sorted labels"
        named = f"a table with a column named after each of the labels {every}"
        validate.refuse(name, named, f"the columns {given}; {cure}, as by table[[...]].to_numpy()")
    return scores


def _is_in(label: str, column: str) -> bool:
    """Whether a label occurs in the name of a column, in any case; one of one or two letters only as a word."""
    text, column = label.casefold(), column.casefold()
    if len(text) > 2:
        return text in column
    return bool(text) and bool(re.search(rf"(?<![^\W_]){re.escape(text)}(?![^\W_])", column))


def _fetch(name: str, array: Any) -> np.ndarray:
    """Return an array on the host; refuse those of a device."""
    inner = adapter(array).unwrap(array)
    if not adapter(inner).is_on_host(inner):
        validate.refuse(name, "on the CPU", adapter(inner).device(inner), NotImplementedError)
    return np.asarray(adapter(inner).to_host(inner))


def compute(name: str, given: Scored, scores: np.ndarray, max_fpr: float) -> Influences:
    """Return the area `name` of one model, with the influences of all samples."""
    codes, weight = given.codes, given.weight
    if name in AVERAGES:
        found = average_areas(codes, scores, weight, name)
    elif name == AVERAGE_PRECISION:
        found = compute_average_precision(codes == 1, scores, weight)
    else:
        found = compute_area(codes == 1, scores, weight, max_fpr)
    influence = _drop_rounding(found.influence)
    area = found.area if influence is found.influence else round(float(found.area), EXACT_DIGITS)
    return Influences(area, influence)


def compute_all(
    name: str, given: Scored, max_fpr: float, on_failure: OnFailure, *, difference: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return the areas `name` of all problems, shape (..., K), and their covariances, shape (..., K, K).

    With `difference` the covariance is the variance of the first area minus the second, shape (..., 1, 1). Problems
    with bad values have NaN and are reported as `on_failure` says.
    """
    status, K = given.find_status(), len(given.scores)
    failures.report(status, on_failure, failed=FAILED, why=given.explain)
    J = 1 if difference else K
    areas, covariances = np.full((*given.batch, K), np.nan), np.full((*given.batch, J, J), np.nan)
    for index in np.ndindex(given.batch if given.codes.shape[-1] else (0,)):  # no samples, no area
        if status[index] != OK:
            continue
        one = given.select(index)
        with np.errstate(divide="ignore", invalid="ignore"):  # of classes without weight, whose areas are NaN
            found = [compute(name, one, scores, max_fpr) for scores in one.scores]
        influences = [each.influence for each in found]
        areas[index] = [each.area for each in found]
        covariances[index] = one.estimate_covariances([influences[0] - influences[1]] if difference else influences)
    return areas, covariances


def warn_of_samples(
    given: Scored, areas: np.ndarray, errors: np.ndarray, *, weighted: bool, p_values: bool = False
) -> None:
    """Warn of few clusters, of a class of small effective size by its weights, and of areas and errors of NaN."""
    if given.unit is not None:
        warn_of_few_clusters(given.count_units(), p_values=p_values, parts="problems")
    if weighted:
        warn_of_uneven_weights(given.codes, given.weight, averages=given.labels is None, p_values=p_values)
    weight = given.weight if weighted else None
    warn_of_undefined_areas(given.codes, weight, areas, errors, averages=given.labels is None)


def _return_home(home: Any, array: Any) -> Any:
    """Return an array, or a number, in the library and on the device of `home`."""
    inner = adapter(home).unwrap(home)
    return adapter(inner).send(np.asarray(array), inner)[()]


def compute_interval(y_true: Array, y_score: Array, name: str, **options: Any) -> Interval:
    """Return the interval of the area `name` of one model; options are :class:`AreaOptions`."""
    chosen = AreaOptions(**options)
    validate.num_threads(chosen.num_threads)  # sorting takes one thread
    method = "logit" if chosen.method is None else chosen.method
    validate.choice("method", method, get_args(AreaMethod))
    if method not in METHODS_OF_ERRORS:
        of = describe_without_newcombe(name, chosen.max_fpr)
        validate.refuse("method", f"logit or normal with {of}", method)
    level = validate.confidence_level(chosen.confidence_level)
    on_failure = validate.on_failure(chosen.on_failure)
    given, u = adopt(name, y_true, {"y_score": y_score}, chosen)
    areas, covariances = compute_all(name, given, u, on_failure)
    auc, error = areas[..., 0][()], np.sqrt(covariances[..., 0, 0])
    if on_failure != "ignore":
        warn_of_samples(given, np.asarray(auc), np.asarray(error), weighted=chosen.sample_weight is not None)
        warn_of_no_width(error)
        if given.labels is None:
            warn_of_small_classes(given.codes)
    made = compute_area_interval(auc, error, method, level)
    return Interval(*(_return_home(given.home, part) for part in made))


def compute_covariance(
    y_true: Array, y_score: Array, name: str, models: tuple[Any, ...] | None = None, **options: Any
) -> list[Any]:
    """Return the areas `name` of K models, their covariances and standard errors.

    `models` are their names, if they have some; options are :class:`AreaOptions`.
    """
    chosen = AreaOptions(**options)
    validate.num_threads(chosen.num_threads)
    on_failure = validate.on_failure(chosen.on_failure)
    given, u = adopt(name, y_true, {"y_score": y_score}, chosen, models=True)
    if models is not None:
        given = given._replace(places=[(f"y_score[{validate.format_value(one)}]", ()) for one in models])
    areas, covariances = compute_all(name, given, u, on_failure)
    errors = np.sqrt(np.diagonal(covariances, axis1=-2, axis2=-1))
    if on_failure != "ignore":
        warn_of_samples(given, areas, errors, weighted=chosen.sample_weight is not None)
    parts = (areas, covariances, errors)
    return [_return_home(given.home, part) for part in parts]
