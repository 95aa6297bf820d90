"""Multilabel metrics of the samples of each group, by a bootstrap of whole samples, or clusters, within each group.

Sums of all samples are those of the groups added up, so replicates of all samples are the metric of the added sums.
"""

from typing import Any, NamedTuple

import numpy as np

from cmfast._core import dispatch, failures, validate
from cmfast._core.annotations import OnFailure
from cmfast._core.results_by_name import MOST_NAMED
from cmfast.confusion_counts._groups import number_groups
from cmfast.uncertainty import _caveats, _multilabel


class MultilabelGroups(NamedTuple):
    """One metric of all groups, for E labels, or E = 1.

    Attributes
    ----------
    estimate : array of float64, shape (E, G)
    known : array of bool, shape (E, G)
        False where the metric is 0/0.
    draws : array of float64, shape (E, G, B)
        Bootstrap replicates; NaN where the metric is 0/0.
    overall : array of float64, shape (E,)
        The metric of all samples.
    overall_draws : array of float64, shape (E, B)
    per_label : bool
    """

    estimate: np.ndarray
    known: np.ndarray
    draws: np.ndarray
    overall: np.ndarray
    overall_draws: np.ndarray
    per_label: bool


class GroupedIndicators(NamedTuple):
    """Resampling units of all groups, indicators on the host, positions of groups of samples and of units; labels."""

    samples: _multilabel.Samples
    hosts: list[np.ndarray]
    group: np.ndarray
    group_of_unit: np.ndarray
    clustered: bool
    groups: tuple[Any, ...]
    labels: tuple[Any, ...] | None

    def select(self, g: int) -> _multilabel.Samples:
        """Return the units of a group, of equal ones their number."""
        (side,) = self.samples.sums
        rows = side[self.group_of_unit == g]
        sizes = np.ones(len(rows), np.int64)
        if not self.clustered and len(rows):
            rows, sizes = np.unique(rows, axis=0, return_counts=True)
        return self.samples._replace(sizes=sizes.astype(np.int64), sums=[rows])


def prepare(
    sides: tuple[Any, Any, Any], clusters: Any, forms: list[tuple[str, str]], options: dict[str, Any]
) -> GroupedIndicators:
    """Validate indicators, `sides` with groups, and clusters; return their resampling units."""
    y_true, y_pred, groups = sides
    dispatch.check_row_order(y_true=y_true, y_pred=y_pred, groups=groups, clusters=clusters)
    n = len(y_true) if hasattr(y_true, "__len__") else 0
    if not n:
        validate.refuse("y_true", "of at least one sample", "none")
    keys, number, order = number_groups(groups, np.zeros(n, np.int64), (n,))
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    group = position[np.asarray(number)]
    clustered = clusters is not None and clusters is not False
    unit = np.arange(n)
    if clustered:
        if isinstance(clusters, bool):
            validate.refuse("clusters", "the cluster of each sample with multilabel=True", clusters)
        validate.refuse_tables(clusters=clusters)
        _, found, _ = number_groups({"clusters": clusters}, np.zeros(n, np.int64), (n,))
        pairs = group * (int(np.max(found, initial=0)) + 1) + np.asarray(found)
        unit = np.unique(pairs, return_inverse=True)[1].reshape(-1)
    given = {"y_true": y_true, "y_pred": y_pred}
    samples, hosts, _ = _multilabel.prepare_samples(given, unit, forms, options)
    group_of_unit = np.zeros(len(samples.sizes), np.int64)
    group_of_unit[unit] = group
    names = _multilabel.get_label_names(y_true)
    return GroupedIndicators(samples, hosts, group, group_of_unit, clustered, keys.labels, names)


def measure(
    given: GroupedIndicators, names: list[str], n_resamples: int, seed: int, num_threads: int | None
) -> dict[str, MultilabelGroups]:
    """Return every metric of all groups and of all samples, with bootstrap replicates."""
    B, (side,) = n_resamples, given.samples.sums
    everything = np.zeros((B, side.shape[1]))
    values, known, draws = [], [], []
    for g in range(len(given.groups)):
        part = given.select(g)
        stream = int(np.random.Generator(np.random.Philox(key=[seed, g])).integers(2**63))
        sums = np.concatenate([x @ part.sums[0] for x in part.draw_counts(B, stream, num_threads)])
        everything += sums
        own = part.sum_up()
        values.append(part.evaluate(own))
        known.append([~np.isnan(x) for x in _leave_undefined(part).evaluate(own)])
        drawn = _evaluate_known(part, sums)
        if len(part.sizes) < 2 and given.clustered:
            drawn = [np.full(x.shape, np.nan) for x in drawn]
        draws.append(drawn)
    whole = given.samples.evaluate(given.samples.sum_up())
    whole_draws = _evaluate_known(given.samples, everything)
    found = {}
    for k, (name, form) in enumerate(zip(names, given.samples.forms, strict=True)):
        stacked = np.stack([part[k] for part in draws])  # (G, B) or (G, B, L)
        per_label = _multilabel.is_per_label(form)
        found[name] = MultilabelGroups(
            estimate=_stack_rows(values, k),
            known=_stack_rows(known, k) > 0,
            draws=np.moveaxis(stacked, -1, 0) if per_label else stacked[np.newaxis],
            overall=np.atleast_1d(whole[k][0]),
            overall_draws=whole_draws[k].T if per_label else whole_draws[k][np.newaxis],
            per_label=per_label,
        )
    return found


def _stack_rows(parts: list[list[np.ndarray]], k: int) -> np.ndarray:
    """Return metric `k` of one row of sums of every group, (G, 1) or (G, 1, L), as (E, G)."""
    x = np.stack([part[k][0] for part in parts])
    return np.atleast_2d(x) if x.ndim == 1 else x.T


def _leave_undefined(samples: _multilabel.Samples) -> _multilabel.Samples:
    """Return the samples with NaN for 0/0."""
    return samples._replace(options=samples.options | {"undefined": "nan"})


def _evaluate_known(samples: _multilabel.Samples, sums: np.ndarray) -> list[np.ndarray]:
    """Return every metric of sums; NaN where it is 0/0."""
    values, known = samples.evaluate(sums), _leave_undefined(samples).evaluate(sums)
    return [np.where(np.isnan(y), np.nan, x) for x, y in zip(values, known, strict=True)]


def warn_of_few_samples(given: GroupedIndicators, names: list[str], on_failure: OnFailure) -> None:
    """Warn of groups with few clusters, few wrong samples or rare labels, by the rules of intervals."""
    if on_failure == "ignore":
        return
    if given.clustered:
        counts = np.bincount(given.group_of_unit, minlength=len(given.groups))
        _caveats.warn_of_few_clusters(counts)
        return
    forms = dict(zip(names, given.samples.forms, strict=True))
    doubted = [
        _multilabel.find_few_samples([host[given.group == g] for host in given.hosts], forms, "percentile")[0]
        for g in range(len(given.groups))
    ]
    number = sum(1 for some in doubted if some)
    if number:
        several = list(dict.fromkeys(name for some in doubted for name in some))
        what = ", ".join(several)
        if len(several) > MOST_NAMED:
            what = f"{len(several)} metrics, first {several[0]},"
        failures.warn_diagnostic(
            f"intervals of {what} hold less often than stated: in {number} of {len(doubted)} groups too few samples "
            "have a wrong label, or a label is true of too few; only more samples help"
        )
