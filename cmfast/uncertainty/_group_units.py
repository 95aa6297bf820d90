"""Samples with weights, or clusters of samples, as the units that were drawn within each group.

The variance of a sum over units drawn with replacement is that of the squared deviations of their linearised values: a
unit's cells times the derivatives of the metric. The bootstrap draws whole units.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from cmfast._core import dispatch, frames, lazy, validate
from cmfast._core.adapters import adapter
from cmfast.confusion_counts import ConfusionCounts, _label_codes
from cmfast.confusion_counts._groups import number_groups

SIDES = ("y_true", "y_pred")
BLOCK_BYTES = 2**26  # of the drawn numbers of units, or of matrices, held at a time
CLUSTER_KINDS = "biuSUM"  # dtype kinds that may label clusters


class Units(NamedTuple):
    """The units of one group: how many, and the cells that each has, as unit, cell and weight of every sample."""

    n_units: int
    of: np.ndarray
    cells: np.ndarray
    weights: np.ndarray


class GroupUnits(NamedTuple):
    """The units of every group.

    Attributes
    ----------
    units : list of Units
        Of each group.
    n_classes : int
    counts : array of int64, shape (groups, C, C)
        Number of samples in each cell, without weights.
    clustered : bool
        Whether units are clusters, and not samples.
    """

    units: list[Units]
    n_classes: int
    counts: np.ndarray
    clustered: bool

    def pool_rows(self, positive: int) -> "GroupUnits":
        """Return the units with all samples taken for positive."""
        C = self.n_classes
        units = [one._replace(cells=positive * C + one.cells % C) for one in self.units]
        counts = np.zeros_like(self.counts)
        counts[:, positive] = self.counts.sum(-2)
        return self._replace(units=units, counts=counts)

    def scale_counts(self) -> np.ndarray:
        """Return the counts of every group, scaled to Kish's effective size, (sum w)**2 / sum w**2, and rounded."""
        sizes = [(one.weights.sum() ** 2, (one.weights**2).sum() * len(one.weights)) for one in self.units]
        shares = np.array([size / most if most > 0.0 else 0.0 for size, most in sizes])
        scaled: np.ndarray = np.rint(self.counts * shares[:, np.newaxis, np.newaxis])
        return scaled.astype(np.int64)

    def compute_variance(self, slopes: np.ndarray) -> np.ndarray:
        """Return the variance of the sums of linearised values in each group; `slopes` have shape (groups, C * C).

        NaN for a group with one unit.
        """
        out = np.full(len(self.units), np.nan)
        for g, one in enumerate(self.units):
            k = one.n_units
            if k > 1:
                values = np.bincount(one.of, one.weights * slopes[g][one.cells], k)
                spread = ((values - values.mean()) ** 2).sum()
                out[g] = spread * (k / (k - 1.0) if self.clustered else 1.0)
        return out

    def draw(self, n_resamples: int, seed: int) -> Iterator[np.ndarray]:
        """Yield bootstrap replicates of the matrices of all groups, shape (b, groups, C, C), until all are drawn.

        NaN for a group with one unit. Each group has its own counter-based generator.
        """
        from scipy.sparse import csr_array

        C, G = self.n_classes, len(self.units)
        generators = [np.random.Generator(np.random.Philox(key=[seed, g])) for g in range(G)]
        designs = [csr_array((x.weights, (x.cells, x.of)), shape=(C * C, x.n_units)) for x in self.units]
        most = max([x.n_units for x in self.units] + [G * C * C, 1])
        step = max(1, BLOCK_BYTES // (8 * most))
        for first in range(0, n_resamples, step):
            b = min(step, n_resamples - first)
            out = np.full((b, G, C * C), np.nan)
            for g, one in enumerate(self.units):
                k = one.n_units
                if k < 2:
                    continue
                drawn = generators[g].integers(0, k, (b, k)) + k * np.arange(b)[:, np.newaxis]
                times = np.bincount(drawn.ravel(), minlength=b * k).reshape(b, k)
                out[:, g] = (designs[g] @ times.T.astype(np.float64)).T
            yield out.reshape(b, G, C, C)


class SampledCounts(NamedTuple):
    """Counts of each group, and the units that they were counted from."""

    counts: ConfusionCounts[Any]
    units: GroupUnits


def count_units(
    given: tuple[Any, ...], options: dict[str, Any], table: Any, columns: dict[str, Any] | None, ignored: Any
) -> SampledCounts:
    """Count labels with the weights or clusters of `options`, which lose them.

    `given` are the labels and groups, or `columns` their names in `table`.
    """
    weight, clusters = options.pop("sample_weight", None), options.pop("clusters", None)
    if columns is not None:
        table = frames.read_table("table", table)
        keys = columns["groups"]
        names = [keys] if isinstance(keys, str) else list(keys)
        y_true, y_pred = (frames.get_column(table, side, columns[side]) for side in SIDES)
        groups: Any = {name: frames.get_column(table, "groups", name) for name in names}
        weight, clusters = (
            frames.get_column(table, name, x) if isinstance(x, str) else x
            for name, x in (("sample_weight", weight), ("clusters", clusters))
        )
    else:
        y_true, y_pred, groups = given[:3]
    for name, x in (("y_true", y_true), ("y_pred", y_pred), ("sample_weight", weight), ("clusters", clusters)):
        if lazy.are_lazy(x):
            validate.refuse(name, "in memory with sample_weight or clusters", type(x).__name__, TypeError)
    dispatch.check_row_order(y_true=y_true, y_pred=y_pred, groups=groups, sample_weight=weight, clusters=clusters)
    w = None if weight is None else _read_weights(weight)
    counts = ConfusionCounts.from_labels(y_true, y_pred, sample_weight=weight, groups=groups, ignore_index=ignored)
    truth, guess = (_find_positions(name, y, counts.labels) for name, y in (("y_true", y_true), ("y_pred", y_pred)))
    n, C, of_groups = len(truth), len(counts.labels), counts.groups
    assert of_groups is not None
    unit = np.arange(n) if clusters is None else _encode_clusters(clusters, n)
    of_group = _number_samples(groups, of_groups, n)
    used = (truth >= 0) & (guess >= 0) & (of_group >= 0)
    if ignored is not None:
        lost = ignored if isinstance(ignored, list | tuple | set | frozenset) else [ignored]
        used &= ~np.isin(truth, [k for k, label in enumerate(counts.labels) if label in lost])
    w = np.ones(n) if w is None else w
    cells, units = truth * C + guess, []
    for g in range(len(of_groups)):
        here = np.flatnonzero(used & (of_group == g))
        found, of = np.unique(unit[here], return_inverse=True)
        units.append(Units(len(found), of.reshape(-1), cells[here], w[here]))
    plain = np.bincount((of_group * C * C + cells)[used], minlength=len(of_groups) * C * C)
    return SampledCounts(counts, GroupUnits(units, C, plain.reshape(-1, C, C), clusters is not None))


def _read_weights(weight: Any) -> np.ndarray:
    """Return the weights of samples as float64; refuse negative ones and those that are not finite."""
    given = dispatch.adopt_one("sample_weight", weight)
    validate.real(sample_weight=given)
    w = np.asarray(adapter(given).to_host(adapter(given).unwrap(given)), np.float64).ravel()
    if not (np.isfinite(w) & (w >= 0.0)).all():
        k = int(np.flatnonzero(~(np.isfinite(w) & (w >= 0.0)))[0])
        validate.refuse("sample_weight", "finite and not negative", f"{w[k]:g} at sample {k}")
    return w


def _find_positions(name: str, y: Any, labels: tuple[Any, ...]) -> np.ndarray:
    """Return the position among `labels` of each sample's label, -1 for others."""
    found = _label_codes.encode_labels(name, y).compact()
    places = {label: k for k, label in enumerate(labels)}
    table = np.array([places.get(value, -1) for value in found.values], np.int64)
    positions: np.ndarray = table[np.asarray(adapter(found.codes).to_host(found.codes)).ravel()]
    return positions


def _encode_clusters(clusters: Any, n: int) -> np.ndarray:
    """Return the number of each sample's cluster."""
    found = _label_codes.encode_column("clusters", clusters, _label_codes.OWN_CODE_SPAN, CLUSTER_KINDS, "labels")
    codes = np.asarray(adapter(found.codes).to_host(found.codes)).ravel()
    if len(codes) != n:
        validate.refuse("clusters", f"of shape ({n},), the cluster of each sample", f"shape ({len(codes)},)")
    return codes.astype(np.int64)


def _number_samples(groups: Any, labels: tuple[Any, ...], n: int) -> np.ndarray:
    """Return the position among the `labels` of groups of each sample, -1 for groups whose samples are all ignored."""
    shape = (n,)
    keys, number, order = number_groups(groups, np.zeros(n), shape)
    places = {label: k for k, label in enumerate(labels)}
    table = np.empty(len(order), np.int64)
    table[order] = [places.get(label, -1) for label in keys.labels]
    of: np.ndarray = table[np.asarray(number)]
    return of
