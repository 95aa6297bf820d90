"""Count samples with labels of any kind: by codes first, then reorder the few cells by label."""

from collections.abc import Iterable
from math import prod
from typing import Any, NamedTuple

import numpy as np

from cmfast import counting
from cmfast._core import dispatch, failures, validate
from cmfast._core import labels as _labels
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, Ignored
from cmfast.confusion_counts import _groups, _label_codes
from cmfast.confusion_counts._label_axis import CATEGORIES, FOUND, IDS, LABELS, OTHER, Axis, are_comparable, get_kind
from cmfast.confusion_counts._state import UNKNOWN, CountsState
from cmfast.metrics import _plan
from cmfast.metrics._evaluate import get_ordered_sums

MOST_BY_GROUP = 64  # with groups, columns with more codes are compacted to the codes that occur


class _NumberedSamples(NamedTuple):
    """Samples with integer labels, each array flattened to one axis."""

    y_true: Array
    y_pred: Array
    weight: Array | None
    shape: tuple[int, ...]


def resolve_classes(labels: Array | None, n_classes: int | None, *, dates: bool = False, other: bool = False) -> Axis:
    """Return the axis declared by `labels` or `n_classes`, or an empty one whose labels are inferred later.

    With `other`, it has a last class for all labels that are not listed.
    """
    validate.flag("other", other)
    if other and labels is None:
        validate.refuse("labels", "given with other=True", "None")
    if n_classes is not None:
        n = validate.count("n_classes", n_classes)
        if labels is not None:
            validate.refuse("labels", "None where n_classes is given", "both")
        with validate.explain_memory_error(8 * n * n, n_classes=n):
            return Axis(tuple(range(n)), IDS)
    if labels is None:
        return Axis((), FOUND)
    validate.refuse_tables(labels=labels)
    found = _label_codes.encode_labels("labels", labels, dates=dates)
    shape = dispatch.shape_of(found.codes)
    if len(shape) != 1 or not shape[0]:
        validate.refuse("labels", "of shape (C,) with at least one label", f"shape {shape}")
    names = tuple(found.values[k] for k in adapter(found.codes).to_host(found.codes).tolist())
    if len(set(names)) < len(names):
        twice = next(name for k, name in enumerate(names) if name in names[:k])
        validate.refuse("labels", "unique", f"{twice!r:.40} {names.count(twice)} times")
    if other:
        _labels.refuse_other(names)
        return Axis((*names, OTHER), OTHER)
    return Axis(names, LABELS)


def count_samples(
    y_true: Array,
    y_pred: Array,
    weight: Array | None,
    groups: Any,
    axis: Axis,
    ignored: Any,
    *,
    whole_floats: bool = False,
) -> CountsState:
    """Return the counts of samples, over the declared classes or, without any, the labels that occur.

    Samples whose truth is `ignored` are left out; None ignores none.
    """
    validate.flag("whole_floats", whole_floats)
    validate.refuse_tables(y_true=y_true, y_pred=y_pred)
    if axis.source != IDS or groups is not None:  # else where they are counted
        dispatch.check_agreement(y_true=y_true, y_pred=y_pred, sample_weight=weight, groups=groups)
    if whole_floats:
        y_true, y_pred = (
            _label_codes.convert_whole_floats("y_true", y_true),
            _label_codes.convert_whole_floats("y_pred", y_pred),
        )
    if axis.source == IDS:
        return _count_ids(y_true, y_pred, weight, groups, axis, ignored)
    given = axis if axis.source in (LABELS, OTHER) else None
    tensor = y_true
    shared = _share_host_memory(y_true, y_pred, weight) if groups is None else None
    if shared is None:
        return _count_labels(y_true, y_pred, weight, groups, given, ignored)
    y_true, y_pred, weight = shared
    held = _count_labels(y_true, y_pred, weight, None, given, ignored)
    return held._replace(matrix=adapter(tensor).from_host(held.whole(), tensor))


def count_known_ids(held: CountsState, y_true: Array, y_pred: Array) -> CountsState | None:
    """Count samples on the fast path, if all labels are integers among the classes 0, 1, ... of `held`; else None."""
    M: Any = held.matrix
    alike = type(y_true) is type(y_pred) is type(M) and y_true.shape == y_pred.shape
    if not alike or held.keys is not None or not held.axis.is_range or 0 in y_true.shape:
        return None
    arrays = dispatch.adopt(y_true=y_true, y_pred=y_pred)
    integers = all(adapter(y).dtype(y).kind in "iu" for y in arrays)
    if not integers or adapter(arrays[0]).device(arrays[0]) != adapter(M).device(M):
        return None
    options = {"n_classes": len(held.axis.labels), "labels": None, "n_groups": None, "num_threads": None}
    flat = [y if len(y.shape) == 1 else adapter(y).flatten(y, 0) for y in arrays]
    part, _, outside = dispatch.call("confusion_matrix", *flat, None, None, ignored=None, **options)
    if outside is not None:
        return None
    return CountsState(held.axis, None, part, prod(flat[0].shape))


def _share_host_memory(y_true: Array, y_pred: Array, weight: Array | None) -> list[Any] | None:
    """Return host tensors as NumPy arrays of the same memory, which makes small calls faster; else None."""
    alike = all(type(y) is type(y_true) for y in (y_pred, weight) if y is not None)
    if not alike or adapter(y_true).takes_columns or adapter(y_true).names_axes:
        return None
    given = {"y_true": y_true, "y_pred": y_pred, "sample_weight": weight}
    adopted = dispatch.adopt(optional=("sample_weight",), **given)
    if not adapter(adopted[0]).is_on_host(adopted[0]):
        return None
    return [None if y is None else adapter(y).to_host(y) for y in adopted]


def _count_ids(
    y_true: Array, y_pred: Array, weight: Array | None, groups: Any, axis: Axis, ignored: Ignored
) -> CountsState:
    """Count class ids 0, ..., n - 1, which the kernel checks, without looking up labels."""
    y_true, y_pred, weight = dispatch.adopt(
        optional=("sample_weight",),
        y_true=validate.type_empty_labels(y_true),
        y_pred=validate.type_empty_labels(y_pred),
        sample_weight=weight,
    )
    y_true, y_pred, weight = (None if x is None else adapter(x).unwrap(x) for x in (y_true, y_pred, weight))
    for name, y in (("y_true", y_true), ("y_pred", y_pred)):
        if adapter(y).dtype(y).kind not in "bui":
            validate.refuse_labels(name, y, "integers")
    validate.real(sample_weight=weight)
    _labels.warn_of_one_hot(y_true, y_pred)
    samples = _flatten_samples(y_true, y_pred, weight)
    return _count_codes(samples, groups, len(axis.labels), axis, ignored)


def _flatten_samples(y_true: Array, y_pred: Array, weight: Array | None) -> _NumberedSamples:
    """Return samples flattened to one axis, after checking that the shapes agree."""
    shape = validate.same_shape(y_true=y_true, y_pred=y_pred, sample_weight=weight)
    flat = [None if x is None else adapter(x).flatten(x, 0) for x in (y_true, y_pred, weight)]
    return _NumberedSamples(flat[0], flat[1], flat[2], shape)


def _count_codes(samples: _NumberedSamples, groups: Any, n: int, axis: Axis, ignored: Ignored) -> CountsState:
    """Count samples whose labels are codes below `n`, per group if there are groups."""
    keys = number = None
    order: Any = ()
    if groups is not None:
        keys, number, order = _groups.number_groups(groups, samples.y_true, samples.shape)
    options: dict[str, Any] = {"n_classes": n, "groups": number, "n_groups": None if keys is None else len(keys.rows)}
    options |= {"sample_weight": samples.weight, "ignore_index": ignored}
    if samples.weight is not None and adapter(samples.weight).dtype(samples.weight).kind != "f":
        options["on_failure"] = "raise"  # the only possible failure: an overflow of int64
    try:
        M = counting.confusion_matrix(samples.y_true, samples.y_pred, **options)
    except failures.FailureError:
        added = "the integers of one cell add up to more than int64 holds"
        validate.refuse("sample_weight", "of sums below 2**63", added, OverflowError)
    most = prod(samples.shape) if samples.weight is None else UNKNOWN
    if keys is None and samples.weight is None:  # fast path, as in a training loop
        return CountsState(axis, None, M, most)
    every = list(range(n))
    source = [every, every] if keys is None else [list(order), every, every]
    shape = (n, n) if keys is None else (len(keys.rows), n, n)
    return CountsState(axis, keys, adapter(M).scatter(M, shape, source, [list(range(size)) for size in shape]), most)


def _count_labels(
    y_true: Array, y_pred: Array, weight: Array | None, groups: Any, given: Axis | None, ignored: Any
) -> CountsState:
    """Count labels of any kind by their library's codes, then reorder the matrix by label."""
    columns = [
        _label_codes.encode_labels(name, y, dates=True, floats=True)
        for name, y in (("y_true", y_true), ("y_pred", y_pred))
    ]
    if weight is not None:
        validate.refuse_tables(sample_weight=weight)
        weight = dispatch.adopt_one("sample_weight", weight)
        weight = adapter(weight).unwrap(weight)
        validate.real(sample_weight=weight)
    if all(column.values == [0, 1] for column in columns):  # bool labels included
        _labels.warn_of_one_hot(*(column.codes for column in columns))
    if max(len(column.values) for column in columns) > (
        _label_codes.OWN_CODE_SPAN if groups is None else MOST_BY_GROUP
    ):
        columns = [column.compact() for column in columns]
    if given is not None and given.source == OTHER:
        return _count_with_rest(columns, weight, groups, given, ignored)
    samples = _flatten_samples(columns[0].codes, columns[1].codes, weight)
    n = max(len(column.values) for column in columns)
    at = find_ignored(ignored, columns[0]) or None
    held = _count_codes(samples, groups, n, Axis(tuple(range(n)), IDS), at)
    axis = _merge_axes(columns, samples, held, n, at)
    if given is not None:
        given.union(axis, "y_true and y_pred", "labels")  # raises if the kinds of labels differ
        axis = given
    places = axis.positions
    known = [[(k, places[label]) for k, label in enumerate(column.values) if label in places] for column in columns]
    groups_at = [] if held.keys is None else [list(range(len(held.keys.rows)))]
    source, target = ([*groups_at, *([pair[side] for pair in pairs] for pairs in known)] for side in (0, 1))
    shape = (*(map(len, groups_at)), len(places), len(places))
    return CountsState(axis, held.keys, adapter(held.matrix).scatter(held.matrix, shape, source, target), held.most)


def _count_with_rest(
    columns: list[_label_codes.Codes], weight: Array | None, groups: Any, axis: Axis, ignored: Any
) -> CountsState:
    """Count encoded labels as positions in `axis`, whose last class has all labels that are not listed."""
    listed = Axis(axis.own_labels, LABELS)
    for column in columns:  # raises if the kinds of labels differ
        listed.union(Axis(tuple(column.values[:1]), FOUND), "y_true and y_pred", "labels")
    places, found = listed.positions, []
    for column, gone in zip(columns, (find_ignored(ignored, columns[0]), []), strict=True):
        table = np.array([places.get(label, len(places)) for label in column.values] or [0], np.int64)
        table[gone] = _labels.NO_POSITION
        codes = adapter(column.codes).unwrap(column.codes)
        sent = adapter(codes).send(table, codes)
        found.append(adapter(codes).evaluate(_look_up, sent, codes))
    samples = _flatten_samples(found[0], found[1], weight)
    return _count_codes(samples, groups, len(axis.labels), axis, _labels.NO_POSITION)


def _look_up(table: Any, codes: Any) -> Any:
    """Return the entries of `table` at `codes`."""
    return table[adapter(codes).cast(codes, np.int64)]


def warn_of_disjoint_labels(held: CountsState) -> CountsState:
    """Warn once if text labels of truth and prediction, none listed and several each, have no label in common.

    Returns the counts, marked so that the same ones are not warned of again.
    """
    if held.is_checked:
        return held
    checked = held._replace(is_checked=True)
    if held.matrix is None or held.axis.source not in (FOUND, CATEGORIES) or held.axis.kind != "strings":
        return checked
    C = len(held.axis.labels)
    pairs: Any = adapter(held.matrix).to_host(held.matrix).reshape(-1, C, C).any(axis=0)
    occurs = [pairs.any(axis=axis) for axis in (1, 0)]
    if not (occurs[0] & occurs[1]).any():
        _labels.warn_of_disjoint("y_pred", *(int(found.sum()) for found in occurs))
    return checked


def warn_of_order(axes: Iterable[Axis], names: Any) -> None:
    """Warn once if requested metrics depend on the order of text classes that was not given."""
    sources = [axis.source for axis in axes if _labels.are_unordered_text(axis.labels)]
    sources = [source for source in sources if source in (FOUND, CATEGORIES)]
    if names is None or not sources or _plan.is_group(names):
        return
    ordered = [name for name in _plan.resolve_names(names) if get_ordered_sums(name)]
    if ordered:
        _labels.warn_of_order(ordered, of_categories=sources[0] == CATEGORIES)


def find_ignored(ignored: Any, truth: _label_codes.Codes) -> list[int]:
    """Return the codes of the ignored true labels that occur; raise if their kind differs."""
    kind = get_kind(truth.values[0]) if truth.values else ""
    _labels.check_ignored(ignored)
    labels = [int(one) if isinstance(one, np.integer) else one for one in _labels.list_ignored(ignored)]
    for label in labels:
        if kind and not are_comparable(kind, get_kind(label)):
            given = f"{type(label).__name__} {validate.format_value(label)}"
            validate.refuse("ignore_index", f"a label of the {kind or 'labels'} in y_true", given, TypeError)
    return [truth.values.index(label) for label in labels if label in truth.values]


def _merge_axes(
    columns: list[_label_codes.Codes], samples: _NumberedSamples, held: CountsState, n: int, ignored: Ignored
) -> Axis:
    """Return the merged labels of truth and prediction."""
    M = held.matrix
    if samples.weight is not None:  # weights may sum to 0 for a label that occurs
        M = counting.confusion_matrix(samples.y_true, samples.y_pred, n_classes=n, ignore_index=ignored)
    pairs: Any = adapter(M).to_host(M)
    pairs = pairs.any(axis=0) if pairs.ndim == 3 else pairs  # over all groups
    axes = [column.axis(pairs.any(axis=1 - k)) for k, column in enumerate(columns)]
    return axes[0].union(axes[1], "y_pred", "y_true")
