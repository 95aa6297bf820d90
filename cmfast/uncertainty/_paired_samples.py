"""Samples that two classifiers labelled, counted: by the numbers that labels come with, which are few."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from cmfast import counting
from cmfast._core import dispatch, validate
from cmfast._core import labels as _labels
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array
from cmfast.confusion_counts import _groups, _label_codes
from cmfast.confusion_counts._count_samples import resolve_classes
from cmfast.confusion_counts._label_axis import IDS, LABELS, Axis
from cmfast.uncertainty._paired_held import HeldCells, check_room, decoded, sorted_cells

CLUSTERS = "clusters"  # the column that they are
MOST_DENSE_CELLS = 2**16  # cells that are counted in a table, and four times as many as there are samples


class _PairedSamples(NamedTuple):
    """Labels as numbers below `n`, one line of each; and which unit every sample is of."""

    columns: list[_label_codes.Codes]
    n: int
    units: _groups.Keys | None
    unit: Array | None
    place: np.ndarray
    """Where every number of a unit is in `units`."""


def counted(
    y_true: Array, y_a: Array, y_b: Array, labels: Array | None, n_classes: int | None, groups: Any, clusters: Any
) -> tuple[HeldCells, Array]:
    """Return the counts, and an empty array that lies where the labels do."""
    given = {"y_true": y_true, "y_a": y_a, "y_b": y_b}
    validate.refuse_tables(**given)
    dispatch.check_agreement(**given, groups=groups, clusters=clusters)
    axis = resolve_classes(labels, n_classes)
    columns = [_label_codes.encode_labels(name, y, floats=True) for name, y in given.items()]
    codes = dict(zip(given, (column.codes for column in columns), strict=True))
    dispatch.adopt(**codes)
    shape = validate.same_shape(**codes)
    if all(column.values == [0, 1] for column in columns):  # also of bool
        _labels.warn_of_one_hot(*codes.values())
    columns = [column._replace(codes=adapter(column.codes).flatten(column.codes, 0)) for column in columns]
    if axis.source == IDS:
        for name, column in zip(given, columns, strict=True):
            _check_ids(name, column, len(axis.labels))
    if max(len(column.values) for column in columns) > _label_codes.OWN_CODE_SPAN:
        columns = [column.compact() for column in columns]
    units, unit, order = _units(groups, clusters, columns[0].codes, shape)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    n = max(len(column.values) for column in columns)
    check_room(1 if units is None else len(place), n)
    samples = _PairedSamples(columns, n, units, unit, place)
    keys, counts = _cells(samples)
    return _labelled(samples, keys, counts, axis, clustered=clusters is not None), columns[0].codes[:0]


def _check_ids(name: str, column: _label_codes.Codes, n: int) -> None:
    """Refuse labels that are no ids of `n` classes."""
    if column.declared is not None or not all(isinstance(value, int) for value in column.values):
        validate.refuse(name, "integers where n_classes is given", "other labels", TypeError)
    if not column.values:
        return
    least, most = adapter(column.codes).extent(column.codes)
    low, high = column.values[least], column.values[most]
    if low < 0 or high >= n:
        validate.refuse(name, f"in 0..{n - 1}", low if low < 0 else high)


def _units(groups: Any, clusters: Any, y: Array, shape: tuple[int, ...]) -> tuple[_groups.Keys | None, Any, np.ndarray]:
    """Return the units, which of them every sample is of, and the order of these numbers."""
    if groups is None and clusters is None:
        return None, None, np.zeros(1, np.int64)
    named: dict[str, Any] = {}
    if groups is not None:
        named |= groups if isinstance(groups, Mapping) else {"groups": groups}
        if not named:
            validate.refuse("groups", "an array", "dict without columns", TypeError)
    if clusters is not None:
        if CLUSTERS in named:
            validate.refuse("groups", f"without a column {CLUSTERS!r} beside clusters", "one")
        named[CLUSTERS] = clusters
    validate.refuse_tables(**named)
    return _groups.number_groups(named, y, shape)


def _cells(samples: _PairedSamples) -> tuple[np.ndarray, np.ndarray]:
    """Return the cells of the numbers that labels and units came with, on the host, in no order."""
    n, (truth, first, second) = (
        samples.n,
        (adapter(column.codes).cast(column.codes, np.int64) for column in samples.columns),
    )
    n_units = len(samples.place)
    row = truth
    if samples.unit is not None:
        unit = adapter(samples.unit).cast(samples.unit, np.int64)
        row = adapter(truth).evaluate(lambda unit, truth: unit * n + truth, unit, truth)
    if n_units * n**3 <= max(MOST_DENSE_CELLS, 4 * dispatch.shape_of(truth)[0]):
        table = counting.confusion_matrix(first, second, n_classes=n, groups=row, n_groups=n_units * n)
        dense = adapter(table).to_host(table).reshape(-1)
        cells = np.flatnonzero(dense)
        return cells, dense[cells]
    keys = adapter(row).evaluate(lambda row, first, second: (row * n + first) * n + second, row, first, second)
    host = adapter(keys).to_host(keys)
    return sorted_cells(host, np.ones(len(host), np.int64))


def _labelled(
    samples: _PairedSamples, keys: np.ndarray, counts: np.ndarray, given: Axis, *, clustered: bool
) -> HeldCells:
    """Return counts of cells by what their numbers stand for; those of labels that were not given are left out."""
    unit, *sides = decoded(keys, samples.n)
    axes = []
    for column, side in zip(samples.columns, sides, strict=True):
        occurs = np.zeros(samples.n, np.bool_)
        occurs[side] = True
        axes.append(column.axis(occurs[: len(column.values)]))
    axis = axes[0].union(axes[1], "y_a", "y_true").union(axes[2], "y_b", "y_true")
    if given.source in (IDS, LABELS):
        given.union(axis, "y_true, y_a and y_b", "labels")  # for its checks
        axis = given
    places, C = axis.positions, len(axis.labels)
    sides = [
        np.array([places.get(label, -1) for label in column.values] or [-1], np.int64)[side]
        for column, side in zip(samples.columns, sides, strict=True)
    ]
    y, a, b = sides
    keep = np.minimum(np.minimum(y, a), b) >= 0
    check_room(len(samples.place), C)
    keys = ((samples.place[unit] * C + y) * C + a) * C + b
    return HeldCells(axis, samples.units, clustered, *sorted_cells(keys[keep], counts[keep]))
