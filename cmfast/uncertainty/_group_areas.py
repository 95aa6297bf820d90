"""Areas under curves of the samples of each group, from scores: errors, bootstrap replicates, and those of all samples.

Groups are independent samples of fixed size. The variance of the area of a group is DeLong's, or the sum of squared
influences of its samples; that of its difference to the area of all samples follows from the influences on both, which
are centred within each group. The bootstrap draws samples, or clusters, of each group, which weigh as often as they are
drawn.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from cmfast._core import dispatch, failures, validate, wording
from cmfast._core.annotations import OnFailure
from cmfast.confusion_counts._groups import number_groups
from cmfast.kernels.status import OK
from cmfast.uncertainty import _area_influences, _caveats
from cmfast.uncertainty._area_influences import AreaOptions, Scored
from cmfast.uncertainty._areas import AREA, AVERAGE_PRECISION, AVERAGES
from cmfast.uncertainty._group_gaps import GroupEnds
from cmfast.uncertainty._group_units import BLOCK_BYTES
from cmfast.uncertainty._newcombe import compute_newcombe_ends, compute_newcombe_z, count_class_sizes


class AreasOfGroups(NamedTuple):
    """One area of all groups, arrays of shape (G,).

    Attributes
    ----------
    area : array of float64
        NaN for groups without a positive or a negative sample, or with bad values.
    error : array of float64
        Standard error.
    sizes : pair of arrays of float64
        Number, or effective size, of positive samples and of others.
    whole : float
        Area of all samples.
    errors : pair of arrays of float64
        Standard errors of the differences to it, and of the logarithms of the ratios.
    draws : array of float64, shape (G, B), or None
        Bootstrap replicates; NaN where they have no area.
    whole_draws : array of float64, shape (B,), or None
    """

    area: np.ndarray
    error: np.ndarray
    sizes: tuple[np.ndarray, np.ndarray]
    whole: float
    errors: tuple[np.ndarray, np.ndarray]
    draws: np.ndarray | None
    whole_draws: np.ndarray | None

    def make_ends(self, method: str) -> GroupEnds:
        """Return the intervals by "logit" or "newcombe" of all groups."""
        if method == "newcombe":
            return GroupEnds(self._find_newcombe_ends, self._find_newcombe_z)
        return GroupEnds(self._find_logit_ends, self._find_logit_z, fails_without_error=True)

    def _find_newcombe_ends(self, groups: Any, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return both ends of Newcombe's intervals of some groups, `z` standard errors wide on each side."""
        fields = (self.area, self.error**2, *self.sizes)
        area, variance, m, n, z = np.broadcast_arrays(*(x[groups] for x in fields), z)
        return compute_newcombe_ends(area, variance, (m, n), z)

    def _find_newcombe_z(self, groups: Any, end: np.ndarray) -> np.ndarray:
        """Return the width at which Newcombe's intervals of some groups have an end."""
        return compute_newcombe_z(
            self.area[groups], self.error[groups] ** 2, (self.sizes[0][groups], self.sizes[1][groups]), end
        )

    def _find_logit_ends(self, groups: Any, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return both ends of the logit intervals of some groups, `z` standard errors wide on each side."""
        area, error = self.area[groups], self.error[groups]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            reach = np.exp(z * error / (area * (1.0 - area) + (error == 0.0)))
            return area / (area + (1.0 - area) * reach), area / (area + (1.0 - area) / reach)

    def _find_logit_z(self, groups: Any, end: np.ndarray) -> np.ndarray:
        """Return the width at which the logit intervals of some groups have an end."""
        area, error = self.area[groups], self.error[groups]
        with np.errstate(invalid="ignore", divide="ignore"):
            far = np.abs(np.log(area / (1.0 - area)) - np.log(end / (1.0 - end)))
            z = far * (area * (1.0 - area)) / error
        outside = (end <= 0.0) | (end >= 1.0) | (error == 0.0)
        return np.where(end == area, 0.0, np.where(outside, np.inf, z))


class GroupedScores(NamedTuple):
    """Adopted labels, scores and weights of all samples, and the position of the group of each; labels of groups.

    `max_fpr` is the false positive rate up to which areas under ROC curves are taken.
    """

    scored: Scored
    group: np.ndarray
    labels: tuple[Any, ...]
    names: tuple[str, ...]
    max_fpr: float

    def select(self, g: int) -> Scored:
        """Return the samples of a group."""
        return self.scored.take(self.group == g)

    def explain(self, g: int) -> str:
        """Return a text that names the first label, weight or score of a group that is bad."""
        own, given = self.group == g, self.scored
        labels = None if given.labels is None else np.where(own, given.labels, 1)
        sides = [np.where(own.reshape(-1, *[1] * (side.ndim - 1)), side, 0.0) for side in given.scores]
        return given._replace(labels=labels, scores=sides, weight=np.where(own, given.weight, 1.0)).explain(())


def adopt(name: str, sides: tuple[Any, Any, Any], chosen: AreaOptions) -> GroupedScores:
    """Validate labels, scores and groups, `sides`, and weights and clusters, of one sample per position."""
    y_true, y_score, groups = sides
    dispatch.check_row_order(
        y_true=y_true, y_score=y_score, groups=groups, sample_weight=chosen.sample_weight, clusters=chosen.clusters
    )
    given, max_fpr = _area_influences.adopt(name, y_true, {"y_score": y_score}, chosen)
    if given.codes.ndim != 1:
        validate.refuse("y_true", "of shape (n,), the label of each sample", f"shape {given.codes.shape}")
    keys, number, order = number_groups(groups, given.codes, given.codes.shape)
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    return GroupedScores(given, position[np.asarray(number)], keys.labels, keys.names, max_fpr)


def measure(
    name: str,
    given: GroupedScores,
    n_resamples: int | None,
    seed: int,
    *,
    on_failure: OnFailure,
    method: str,
    to_all: bool,
) -> AreasOfGroups:
    """Return the area `name` of all groups and of all samples; with `n_resamples` also bootstrap replicates.

    Groups with bad values have NaN, are left out of all samples, and are reported as `on_failure` says. `to_all` says
    whether groups are compared with all samples.
    """
    G = len(given.labels)
    parts = [given.select(g) for g in range(G)]
    status = np.array([part.find_status() for part in parts], np.int8).reshape(G)
    failures.report(
        status,
        on_failure,
        failed="groups left out",
        why=lambda index: given.explain(index[0]),
        name=lambda index: validate.format_value(given.labels[index[0]]),
    )
    area, error = np.full(G, np.nan), np.full(G, np.nan)
    influences: list[np.ndarray] = [np.zeros(0)] * G
    with np.errstate(divide="ignore", invalid="ignore"):  # of groups without samples of a class
        for g in np.flatnonzero(status == OK):
            found = _area_influences.compute(name, parts[g], parts[g].scores[0], given.max_fpr)
            area[g], influences[g] = found.area, found.influence
            error[g] = np.sqrt(parts[g].estimate_covariances([found.influence])[0, 0])
        usable = (status == OK)[given.group] if G else np.zeros(0, np.bool_)
        everything = given.scored.take(usable)
        whole = _area_influences.compute(name, everything, everything.scores[0], given.max_fpr)
    of_all = np.full(len(given.group), np.nan)
    of_all[usable] = whole.influence
    errors = _compare_with_all(given, parts, influences, area, whole.area, of_all)
    weighted = [count_class_sizes(part.codes, part.weight) for part in parts]
    sizes = tuple(np.array([pair[k] for pair in weighted], np.float64) for k in range(2))
    draws = whole_draws = None
    if n_resamples is not None:
        draws, whole_draws = _draw_areas(name, given, status == OK, n_resamples, seed)
    found_areas = AreasOfGroups(area, error, (sizes[0], sizes[1]), whole.area, errors, draws, whole_draws)
    if on_failure != "ignore":
        _warn(name, found_areas, parts, method, partial=given.max_fpr != 1.0, to_all=to_all)
    return found_areas


def _compare_with_all(
    given: GroupedScores, parts: list[Scored], influences: list[np.ndarray], area: np.ndarray, whole: float,
    of_all: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Return the standard errors of the difference of each group to all samples, and of the log ratio."""
    G = len(parts)
    out = np.full((2, G), np.nan)
    shared = [of_all[given.group == g] for g in range(G)]
    alone = np.array([_estimate_variance(part, own) for part, own in zip(parts, shared, strict=True)])
    for g in np.flatnonzero(~np.isnan(area)):
        others = np.nansum(np.delete(alone, g))
        with np.errstate(divide="ignore", invalid="ignore"):
            out[0, g] = others + _estimate_variance(parts[g], influences[g] - shared[g])
            out[1, g] = others / whole**2 + _estimate_variance(parts[g], influences[g] / area[g] - shared[g] / whole)
    return np.sqrt(out[0]), np.sqrt(out[1])


def _estimate_variance(part: Scored, influence: np.ndarray) -> float:
    """Return the variance of the sum of influences over the samples, or clusters, of a group of fixed size."""
    if part.unit is not None:
        influence = np.bincount(part.unit, influence, int(part.unit.max(initial=-1)) + 1)
    k = len(influence)
    return float(((influence - influence.mean()) ** 2).sum() * (k / (k - 1.0))) if k > 1 else float("nan")


def _draw_areas(
    name: str, given: GroupedScores, usable: np.ndarray, n_resamples: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return bootstrap replicates of the area of each group, shape (G, B), and of all samples, shape (B,).

    Each group has its own counter-based generator; NaN for groups with one sample or cluster.
    """
    G, scored, max_fpr = len(given.labels), given.scored, given.max_fpr
    draws, together = np.full((G, n_resamples), np.nan), np.full(n_resamples, np.nan)
    generators = [np.random.Generator(np.random.Philox(key=[seed, g])) for g in range(G)]
    rows = [np.flatnonzero(given.group == g) for g in range(G)]
    parts = [scored.take(given.group == g) for g in range(G)]
    step = max(1, BLOCK_BYTES // (8 * max(len(given.group), 1)))
    for first in range(0, n_resamples, step):
        b = min(step, n_resamples - first)
        weight = np.zeros((b, len(given.group)))
        for g in np.flatnonzero(usable):
            part = parts[g]
            unit = np.arange(len(rows[g])) if part.unit is None else part.unit
            k = int(unit.max(initial=-1)) + 1
            if k < 2:
                continue
            drawn = generators[g].integers(0, k, (b, k)) + k * np.arange(b)[:, np.newaxis]
            times = np.bincount(drawn.ravel(), minlength=b * k).reshape(b, k)
            weight[:, rows[g]] = times[:, unit] * part.weight
            draws[g, first : first + b] = draw_area(name, part.codes, part.scores[0], weight[:, rows[g]], max_fpr)
        together[first : first + b] = draw_area(name, scored.codes, scored.scores[0], weight, max_fpr)
    return draws, together


def draw_area(name: str, codes: np.ndarray, scores: np.ndarray, weight: np.ndarray, max_fpr: float = 1.0) -> np.ndarray:
    """Return the area `name` under each of b weightings of samples, given weights (b, n); NaN where it is undefined."""
    with np.errstate(divide="ignore", invalid="ignore"):
        if name == AREA and max_fpr < 1.0:
            return _draw_partial_area(codes == 1, scores, weight, max_fpr)
        if name == AREA:
            return _draw_roc_area(codes == 1, scores, weight)
        if name == AVERAGE_PRECISION:
            return _draw_average_precision(codes == 1, scores, weight)
        area, total = np.zeros(len(weight)), np.zeros(len(weight))
        for classes, values in _draw_parts(name, codes, scores, weight):
            share = np.ones(len(weight))
            if name.endswith("_weighted"):
                share = weight[:, np.isin(codes, classes)].sum(-1)
            area += share * values
            total += share
        return np.asarray(area / total)


def _draw_parts(
    name: str, codes: np.ndarray, scores: np.ndarray, weight: np.ndarray
) -> Iterator[tuple[list[int], np.ndarray]]:
    """Yield the classes of each area of an average, and the area under each weighting, shape (b,)."""
    C = scores.shape[1]
    if "ovr" in name:
        for k in range(C):
            yield [k], _draw_roc_area(codes == k, scores[:, k], weight)
        return
    for j in range(C):
        for k in range(j + 1, C):
            mask = (codes == j) | (codes == k)
            own, some = codes[mask], weight[:, mask]
            first, second = (_draw_roc_area(own == c, scores[mask, c], some) for c in (j, k))
            yield [j, k], 0.5 * (first + second)


def _sum_scores(positive: np.ndarray, scores: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights of positive and of other samples at each distinct score, from the highest on, (b, g) each."""
    order = np.argsort(-scores, kind="stable")
    ordered = scores[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(order) else np.zeros(0, np.int64)
    sides = []
    for mask in (positive, ~positive):
        own = weight[:, order] * mask[order]
        sides.append(np.add.reduceat(own, starts, axis=1) if len(starts) else own)
    return sides[0], sides[1]


def _draw_roc_area(positive: np.ndarray, scores: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the area under the ROC curve under each weighting."""
    true, false = _sum_scores(positive, scores, weight)
    above = np.cumsum(true, axis=1) - 0.5 * true
    return np.asarray((false * above).sum(-1) / (true.sum(-1) * false.sum(-1)))


def _draw_partial_area(positive: np.ndarray, scores: np.ndarray, weight: np.ndarray, max_fpr: float) -> np.ndarray:
    """Return the standardised area up to a false positive rate under each weighting, as `compute_area` does."""
    true, false = _sum_scores(positive, scores, weight)
    before = np.cumsum(false, axis=1) - false
    limit = max_fpr * false.sum(-1, keepdims=True)
    share = np.where(false > 0.0, np.clip((limit - before) / np.where(false > 0.0, false, 1.0), 0.0, 1.0), 0.0)
    above = np.cumsum(true, axis=1) - true + 0.5 * share * true
    area = (share * false * above).sum(-1) / (true.sum(-1) * false.sum(-1))
    chance = 0.5 * max_fpr * max_fpr
    return np.asarray(0.5 + 0.5 * (area - chance) / (max_fpr - chance))


def _draw_average_precision(positive: np.ndarray, scores: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the average precision under each weighting."""
    true, false = _sum_scores(positive, scores, weight)
    hits = np.cumsum(true, axis=1)
    precision = hits / (hits + np.cumsum(false, axis=1))
    return np.asarray(np.where(true > 0.0, true * precision, 0.0).sum(-1) / true.sum(-1))


def _warn(name: str, found: AreasOfGroups, parts: list[Scored], method: str, *, partial: bool, to_all: bool) -> None:
    """Warn of groups whose samples are too few for the interval of an area, or that have few clusters."""
    clustered = any(part.unit is not None for part in parts)
    if clustered:
        _caveats.warn_of_few_clusters(np.array([part.count_units() for part in parts]))
    smallest = [_find_smallest_class(part) for part in parts]
    sizes, uneven = (np.array([pair[k] for pair in smallest]) for k in range(2))
    robust = method == "newcombe"
    limit = _caveats.FEWEST_WEIGHTED_IN_AVERAGES if robust or name in AVERAGES else _caveats.FEWEST_WEIGHTED
    few = (uneven > 0.5) & (sizes < limit)
    if not robust:
        few |= found.error == 0.0
        if name in AVERAGES:
            few |= sizes < limit
        elif name == AREA:
            few |= _caveats.find_few_wrong_ranks(found.area, sizes)
    lacking = np.isnan(found.area) & (np.minimum(*found.sizes) == 0.0)
    if lacking.any():
        failures.warn_diagnostic(
            f"{name} is NaN in {np.count_nonzero(lacking)} of {len(few)} groups, which lack samples of a class"
        )
    few &= ~np.isnan(found.area)
    if few.any():
        offered = name == AREA and not partial and not clustered and not robust and not to_all
        cure = f"use {wording.option('method', 'newcombe')}" if offered else "only more samples help"
        failures.warn_diagnostic(
            f"intervals of {name} hold less often than stated: in {np.count_nonzero(few)} of {len(few)} groups a class "
            f"has too few samples, or too few of them are ranked wrongly; {cure}"
        )


def _find_smallest_class(part: Scored) -> tuple[float, float]:
    """Return the effective size of the smallest class of a group, and 1 if weights make it smaller, else 0."""
    smallest, uneven = np.inf, 0.0
    for k in np.unique(part.codes):
        own = part.weight[part.codes == k]
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            size = own.sum() ** 2 / (own * own).sum()
        if size < smallest:
            smallest, uneven = float(size), float(size < _caveats.UNEVEN * np.count_nonzero(own))
    return smallest, uneven
