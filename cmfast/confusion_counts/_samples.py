"""Samples of any labels, counted: what they are called is put to the counts afterwards, of which there are few."""

from typing import Any, NamedTuple

from cmfast import counting
from cmfast._core import dispatch, failures, validate
from cmfast._core.annotations import Array
from cmfast.confusion_counts import _codes, _keys
from cmfast.confusion_counts._axis import FOUND, IDS, LABELS, Axis
from cmfast.confusion_counts._held import Held

MOST_BY_GROUP = 64  # codes of labels that do not occur may be so many where there is a matrix for every group


class _Samples(NamedTuple):
    """Labels as numbers, one line of each."""

    y_true: Array
    y_pred: Array
    weight: Array | None
    shape: tuple[int, ...]


def classes(labels: Array | None, n_classes: int | None) -> Axis:
    """Return the classes that were given, or those to be found."""
    if n_classes is not None:
        n = validate.count("n_classes", n_classes)
        if labels is not None:
            validate.refuse("labels", "None where n_classes is given", "both")
        return Axis(tuple(range(n)), IDS)
    if labels is None:
        return Axis((), FOUND)
    validate.columns(labels=labels)
    found = _codes.coded("labels", labels, _codes.SPAN, "biu", _codes.LABELS)
    shape = dispatch.shape_of(found.codes)
    if len(shape) != 1 or not shape[0]:
        validate.refuse("labels", "of shape (C,) with at least one label", f"shape {shape}")
    names = tuple(found.values[k] for k in dispatch.to_host(found.codes).tolist())
    if len(set(names)) < len(names):
        twice = next(name for k, name in enumerate(names) if name in names[:k])
        validate.refuse("labels", "unique", f"{twice!r:.40} {names.count(twice)} times")
    return Axis(names, LABELS)


def counted(y_true: Array, y_pred: Array, weight: Array | None, groups: Any, axis: Axis) -> Held:
    """Return the counts of samples, of the classes that were given, or of those that occur where none were."""
    validate.columns(y_true=y_true, y_pred=y_pred)
    if axis.source == IDS:
        return _counted_ids(y_true, y_pred, weight, groups, axis)
    return _counted(y_true, y_pred, weight, groups, axis if axis.source == LABELS else None)


def _counted_ids(y_true: Array, y_pred: Array, weight: Array | None, groups: Any, axis: Axis) -> Held:
    """Return the counts of class ids, which the kernel checks; nothing is looked up."""
    y_true, y_pred, weight = dispatch.adopt(
        optional=("sample_weight",),
        y_true=validate.labelled(y_true),
        y_pred=validate.labelled(y_pred),
        sample_weight=weight,
    )
    y_true, y_pred, weight = (None if x is None else dispatch.bare(x) for x in (y_true, y_pred, weight))
    validate.integer(y_true=y_true, y_pred=y_pred)
    validate.real(sample_weight=weight)
    samples = _checked(y_true, y_pred, weight)
    return _tallied(samples, groups, len(axis.labels), axis)


def _checked(y_true: Array, y_pred: Array, weight: Array | None) -> _Samples:
    """Return samples in a line, whose shapes agree."""
    shape = validate.same_shape(y_true=y_true, y_pred=y_pred, sample_weight=weight)
    flat = [None if x is None else x.reshape(-1) for x in (y_true, y_pred, weight)]
    return _Samples(flat[0], flat[1], flat[2], shape)


def _tallied(samples: _Samples, groups: Any, n: int, axis: Axis) -> Held:
    """Return counts of samples whose labels are numbers below `n`."""
    keys = number = None
    order: Any = ()
    if groups is not None:
        keys, number, order = _keys.of_columns(groups, samples.y_true, samples.shape)
    options: dict[str, Any] = {"n_classes": n, "groups": number, "n_groups": None if keys is None else len(keys.rows)}
    M = counting.confusion_matrix(samples.y_true, samples.y_pred, sample_weight=samples.weight, **options)
    if keys is None and samples.weight is None:  # as in every step of a loop
        return Held(axis, None, M)
    every = list(range(n))
    source = [every, every] if keys is None else [list(order), every, every]
    shape = (n, n) if keys is None else (len(keys.rows), n, n)
    return Held(axis, keys, dispatch.moved(M, shape, source, [list(range(size)) for size in shape]))


def _counted(y_true: Array, y_pred: Array, weight: Array | None, groups: Any, given: Axis | None) -> Held:
    """Return the counts of labels of any kind: counted by the codes that they come with, and turned afterwards."""
    columns = [_codes.of_labels(name, y) for name, y in (("y_true", y_true), ("y_pred", y_pred))]
    if weight is not None:
        validate.columns(sample_weight=weight)
        weight = dispatch.bare(dispatch.adopt(sample_weight=weight)[0])
        validate.real(sample_weight=weight)
    if max(len(column.values) for column in columns) > (_codes.SPAN if groups is None else MOST_BY_GROUP):
        columns = [column.compact() for column in columns]
    samples = _checked(columns[0].codes, columns[1].codes, weight)
    n = max(len(column.values) for column in columns)
    held = _tallied(samples, groups, n, Axis(tuple(range(n)), IDS))
    axis = _axis_of(columns, samples, held, n)
    if given is not None:
        given.union(axis, "y_true")  # for its checks
        axis = given
    places = axis.places
    known = [[(k, places[label]) for k, label in enumerate(column.values) if label in places] for column in columns]
    groups_at = [] if held.keys is None else [list(range(len(held.keys.rows)))]
    source, target = ([*groups_at, *([pair[side] for pair in pairs] for pairs in known)] for side in (0, 1))
    shape = (*(map(len, groups_at)), len(places), len(places))
    return Held(axis, held.keys, dispatch.moved(held.matrix, shape, source, target))


def warn_of_strangers(held: Held) -> None:
    """Warn where no text is both a truth and a prediction, of several each that were found."""
    if held.matrix is None or held.axis.source != FOUND or held.axis.kind != "strings":
        return
    pairs = dispatch.to_host(held.matrix).reshape(-1, len(held.axis.labels), len(held.axis.labels)).any(axis=0)
    occurs = [pairs.any(axis=axis) for axis in (1, 0)]
    if min(found.sum() for found in occurs) > 1 and not (occurs[0] & occurs[1]).any():
        numbers = " and ".join(str(int(found.sum())) for found in occurs)
        failures.diagnose(f"truth and prediction have no label in common, of {numbers}; are they of the same classes?")


def _axis_of(columns: list[_codes.Codes], samples: _Samples, held: Held, n: int) -> Axis:
    """Return the labels of both columns."""
    M = held.matrix
    if samples.weight is not None:  # which may add up to nothing where a label occurs
        M = counting.confusion_matrix(samples.y_true, samples.y_pred, n_classes=n)
    pairs = dispatch.to_host(M)
    pairs = pairs.any(axis=0) if pairs.ndim == 3 else pairs  # of any group
    axes = [column.axis(pairs.any(axis=1 - k)) for k, column in enumerate(columns)]
    return axes[0].union(axes[1], "y_pred")
