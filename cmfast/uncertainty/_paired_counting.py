"""Count paired cells from three label columns by their integer codes, then translate codes to classes."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from cmfast import counting
from cmfast._core import dispatch, validate
from cmfast._core import labels as _labels
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array
from cmfast.confusion_counts import _groups, _label_codes
from cmfast.confusion_counts._count_samples import find_ignored, resolve_classes
from cmfast.confusion_counts._label_axis import IDS, LABELS, Axis
from cmfast.uncertainty._paired_cells import PairedCells, check_key_range, decode_keys, sort_cells

CLUSTERS = "clusters"  # name of the column of clusters
MOST_DENSE_CELLS = 2**16  # most cells of a dense table, unless four per sample are more


class _PairedSamples(NamedTuple):
    """Label codes below `n`, one column per side, and the unit of every sample."""

    columns: list[_label_codes.Codes]
    n: int
    units: _groups.Keys | None
    unit: Array | None
    place: np.ndarray
    """Index in `units` of every unit number."""


def count_paired_cells(
    y_true: Array,
    y_a: Array,
    y_b: Array,
    labels: Array | None,
    n_classes: int | None,
    groups: Any,
    clusters: Any,
    ignored: Any = None,
) -> tuple[PairedCells, Array]:
    """Count the paired cells of labels; return them with an empty array in the labels' library and device."""
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
    left_out = find_ignored(ignored, columns[0])
    if axis.source == IDS:
        for name, column in zip(given, columns, strict=True):
            _check_ids(name, column, len(axis.labels), left_out if name == "y_true" else [])
    if max(len(column.values) for column in columns) > _label_codes.OWN_CODE_SPAN:
        columns = [column.compact() for column in columns]
        left_out = find_ignored(ignored, columns[0])
    units, unit, order = _number_units(groups, clusters, columns[0].codes, shape)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    n = max(len(column.values) for column in columns)
    check_key_range(1 if units is None else len(place), n)
    samples = _PairedSamples(columns, n, units, unit, place)
    keys, counts = _count_code_cells(samples)
    if left_out:
        kept = ~np.isin(decode_keys(keys, n)[1], left_out)
        keys, counts = keys[kept], counts[kept]
    return _recode_by_labels(samples, keys, counts, axis, clustered=clusters is not None), columns[0].codes[:0]


def _check_ids(name: str, column: _label_codes.Codes, n: int, ignored: list[int]) -> None:
    """Refuse labels that are not ids of `n` classes, except those with the codes `ignored`."""
    if column.declared is not None or not all(isinstance(value, int) for value in column.values):
        validate.refuse(name, "integers where n_classes is given", "other labels", TypeError)
    if not column.values:
        return
    if ignored:
        codes = np.setdiff1d(adapter(column.codes).to_host(column.codes), ignored)
        if not codes.size:
            return
        least, most = int(codes[0]), int(codes[-1])
    else:
        least, most = adapter(column.codes).extent(column.codes)
    low, high = column.values[least], column.values[most]
    if low < 0 or high >= n:
        validate.refuse(name, f"in 0..{n - 1}", low if low < 0 else high)


def _number_units(
    groups: Any, clusters: Any, y: Array, shape: tuple[int, ...]
) -> tuple[_groups.Keys | None, Any, np.ndarray]:
    """Return the units, the unit number of every sample, and the order of these numbers."""
    if groups is None and clusters is None:
        return None, None, np.zeros(1, np.int64)
    named: dict[str, Any] = {}
    if groups is not None:
        named |= groups if isinstance(groups, Mapping) else {"groups": groups}
        if not named:
            validate.refuse("groups", "an array", "dict without columns", TypeError)
    if clusters is not None:
        if CLUSTERS in named:
            validate.refuse("groups", f"without a column {CLUSTERS!r} if clusters is given", "one")
        named[CLUSTERS] = clusters
    validate.refuse_tables(**named)
    return _groups.number_groups(named, y, shape)


def _count_code_cells(samples: _PairedSamples) -> tuple[np.ndarray, np.ndarray]:
    """Return keys and counts of the nonempty cells of codes and unit numbers, on the host, unsorted."""
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
    return sort_cells(host, np.ones(len(host), np.int64))


def _warn_of_disjoint_labels(axes: list[Axis]) -> None:
    """Warn once if text labels of the truth and of a classifier, several each, have no label in common."""
    truth, *others = axes
    for name, predicted in zip(("y_a", "y_b"), others, strict=True):
        if truth.kind == predicted.kind == "strings" and set(truth.labels).isdisjoint(predicted.labels):
            _labels.warn_of_disjoint(name, len(truth.labels), len(predicted.labels))
            return


def _recode_by_labels(
    samples: _PairedSamples, keys: np.ndarray, counts: np.ndarray, given: Axis, *, clustered: bool
) -> PairedCells:
    """Translate cells of codes to cells of classes; drop labels that are not listed."""
    unit, *sides = decode_keys(keys, samples.n)
    axes = []
    for column, side in zip(samples.columns, sides, strict=True):
        occurs = np.zeros(samples.n, np.bool_)
        occurs[side] = True
        axes.append(column.axis(occurs[: len(column.values)]))
    _warn_of_disjoint_labels(axes)
    axis = axes[0].union(axes[1], "y_a", "y_true").union(axes[2], "y_b", "y_true")
    if given.source in (IDS, LABELS):
        given.union(axis, "y_true, y_a and y_b", "labels")  # only to raise for unsuitable labels
        axis = given
    places, C = axis.positions, len(axis.labels)
    sides = [
        np.array([places.get(label, -1) for label in column.values] or [-1], np.int64)[side]
        for column, side in zip(samples.columns, sides, strict=True)
    ]
    y, a, b = sides
    keep = np.minimum(np.minimum(y, a), b) >= 0
    check_key_range(len(samples.place), C)
    keys = ((samples.place[unit] * C + y) * C + a) * C + b
    return PairedCells(axis, samples.units, clustered, *sort_cells(keys[keep], counts[keep]))
