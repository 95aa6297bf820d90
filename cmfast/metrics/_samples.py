"""Compute diagonals and margins from labels: integers, text, category codes or Dask arrays, grouped or weighted."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from cmfast._core import dispatch, failures, lazy, validate
from cmfast._core import labels as _labels
from cmfast._core.adapters import _text_codes, adapter, read_only
from cmfast._core.annotations import Array, Ignored
from cmfast.metrics._margins import Margins

MOST_COUNTED_CLASSES = 256  # counting and evaluating a matrix takes .3 to .7 of the time of class sums
MOST_WEIGHT_BYTES = 4  # of integer weights of Dask arrays: sums of chunks stay within int64

# Class labels in order, with None for a class without a label; or None for the classes 0, 1, ...
Classes: TypeAlias = list[Any] | None


class Options(NamedTuple):
    """Options of functions that take labels."""

    n_classes: int | None
    n_groups: int | None
    ignore_index: Ignored
    sample_axes: int | None
    whole_floats: bool
    num_threads: int | None
    pos_label: Any = None
    positive: int | None = None
    """Index of the positive one of two classes if a binary metric is requested, else None."""
    labels: Any = None
    """The classes, in order; pairs with other labels are left out."""
    ordered: bool = True
    """Whether bands and tops are needed, as for metrics of ordered classes; else they may be 0."""


def sum_labels(
    given: dict[str, Array], options: Options, check: Callable[[int, Classes], object] = lambda C, classes: None
) -> tuple[Margins[Any], Classes]:
    """Return diagonal, margins and distance sums of validated labels, and the class labels.

    `check` is called with the number of classes and the class labels as soon as they are known.
    """
    threads = validate.num_threads(options.num_threads)
    if lazy.are_lazy(*given.values()):
        return _sum_chunks(given, options, check)
    samples = _adopt_samples(given, options)
    dtypes, shapes, names = samples.dtypes, samples.shapes, samples.listed
    pair = dict(zip(_labels.NAMES, samples, strict=False))
    coded = [name for name, y in pair.items() if isinstance(y, _text_codes.Coded)]
    texts = [name for name in coded if dtypes[name].kind in "US"]
    for name, y in pair.items():
        if name not in coded and dtypes[name].kind not in "bui":
            validate.refuse_labels(name, y, "integers")
    shape = validate.one_shape(**shapes)
    if not shape:
        validate.refuse("y_true", "of shape (..., n)", "shape ()")
    for name, y in pair.items():
        if texts and name not in texts:
            validate.refuse(name, f"text as {texts[0]}", validate.describe_dtype(y), TypeError)
    n_classes = options.n_classes
    if texts and n_classes is not None:
        validate.refuse("n_classes", "None where labels are text", validate.format_value(n_classes))
    n_classes = None if n_classes is None else validate.count("n_classes", n_classes)
    listed = None
    if names is not None:
        listed = _labels.check_listed(names, n_classes, dtypes["y_true"].kind)
    sized = n_classes is not None or bool(coded) or listed is not None
    doubt = validate.samples_last(sized=sized, y_true=shapes["y_true"], y_pred=shapes["y_pred"])
    if doubt is not None:
        failures.warn_diagnostic(doubt)
    if options.sample_axes == 1 and len(shape) == 2:
        warn = _labels.warn_of_one_hot if sized else _labels.warn_of_indicators
        warn(*pair.values())
    samples, ignored = _labels.ignore(samples, options.ignore_index)
    n_groups = options.n_groups
    if isinstance(samples.groups, _text_codes.Coded):
        groups, n_groups, _ = _labels.number_groups(samples.groups, n_groups)
        samples = samples._replace(groups=groups)
    n_groups = _count_groups(samples.groups, n_groups)
    counting = {"n_groups": n_groups, "num_threads": threads}
    ordered = options.ordered
    if coded:
        return _sum_codes(samples, ignored, options, check, counting)
    if listed is not None:
        check(len(listed), listed)
        truth, guess = (
            _labels.encode_positions(samples.y_true, listed, ignored, threads),
            _labels.encode_positions(samples.y_pred, listed, num_threads=threads),
        )
        one = adapter(truth)
        out = [one.unwrap(y) for y in (truth, guess)]
        truth = one.rewrap(adapter(out[0]).evaluate(_ignore_unlisted_pairs, *out), truth)
        samples = samples._replace(y_true=truth, y_pred=guess)
        C, ignored = len(listed), _labels.NO_POSITION
        return _sum_class_ids(samples, n_classes=C, ignored=ignored, ordered=ordered, **counting), listed
    if n_classes is None:
        return _sum_integers(samples, ignored, options, check, counting)
    check(n_classes, None)
    return _sum_class_ids(samples, n_classes=n_classes, ignored=ignored, ordered=ordered, **counting), None


def count_few_classes(
    given: dict[str, Array], options: Options, check: Callable[[int, Classes], object]
) -> tuple[Any, Classes] | None:
    """Count integer labels of few classes into a confusion matrix; return it with the class labels.

    None if class sums are needed: for many classes, and for arrays or options that need more than counting. `check` is
    called as :func:`sum_labels` does.
    """
    y_true, y_pred, weight, groups = given.values()
    plain = weight is groups is options.n_groups is options.ignore_index is options.labels is None
    if not plain or options.sample_axes != 1 or options.whole_floats is not False:
        return None
    if not type(y_true) is type(y_pred) is np.ndarray or not _labels.are_plain(y_true, y_pred) or not y_true.size:
        return None
    threads, n_classes = validate.num_threads(options.num_threads), options.n_classes
    if n_classes is not None:
        n_classes = validate.count("n_classes", n_classes)
        if n_classes > MOST_COUNTED_CLASSES:
            return None
        check(n_classes, None)
        sizes = {"n_classes": n_classes, "labels": None, "n_groups": None, "num_threads": threads}
        M, _, outside = dispatch.call("confusion_matrix", y_true, y_pred, None, None, **sizes)
        return None if outside is not None else (M, None)
    found = _labels.count_few_integers(y_true, y_pred, MOST_COUNTED_CLASSES, threads)
    if found is None:
        return None
    M, occurring = found
    classes, named = _name_integer_classes(options, occurring)
    C = len(classes)
    check(C, named)
    if len(occurring) < C:
        at = [classes.index(label) for label in occurring]
        every = list(range(len(at)))
        M = adapter(M).scatter(M, (C, C), [every, every], [at, at])
    return M, named


def _ignore_unlisted_pairs(truth: Any, guess: Any) -> Any:
    """Return the true class indices, with NOWHERE where the predicted label is not listed."""
    return truth - (truth - _labels.NO_POSITION) * (guess < 0)


def _sum_chunks(
    given: dict[str, Array], options: Options, check: Callable[[int, Classes], object]
) -> tuple[Margins[Any], Classes]:
    """Return the lazy sums of Dask arrays, computed chunk by chunk, and the class labels."""
    known = {"n_classes": options.n_classes, "labels": options.labels}
    y = {name: given[name] for name in _labels.NAMES}
    _labels.check_known(**known, groups=given["groups"], n_groups=options.n_groups, y=y)
    weight = given["sample_weight"]
    dtype = None if weight is None else adapter(weight).dtype(weight)
    if dtype is not None and (dtype.kind not in "bui" or dtype.itemsize > MOST_WEIGHT_BYTES):
        validate.refuse("sample_weight", "integers of at most 32 bits with Dask arrays", f"dtype {dtype}", TypeError)
    classes: Classes = None
    if options.labels is not None:
        validate.refuse_tables(labels=options.labels)
        (names,) = dispatch.adopt(labels=options.labels)
        kind = adapter(names).dtype(names).kind  # each block compares it with the kind of its labels
        classes = _labels.check_listed(names, options.n_classes, kind if kind in _labels.KINDS else "i")
        check(len(classes), classes)
    else:
        check(validate.count("n_classes", options.n_classes), None)
    axes = None if options.sample_axes is None else validate.count("sample_axes", options.sample_axes, least=1)
    found: Margins[Any] = lazy.dask().sum_blocks(_sum_chunk, given, axes, **options._asdict())
    return found, classes


def _sum_chunk(
    y_true: Array, y_pred: Array, sample_weight: Array | None = None, groups: Array | None = None, **options: Any
) -> Margins[Any]:
    """Return the sums of one chunk of the samples."""
    given = {"y_true": y_true, "y_pred": y_pred, "sample_weight": sample_weight, "groups": groups}
    return sum_labels(given, Options(**options))[0]


def get_marked_diagonal(sums: Margins[Any]) -> Any:
    """Return the diagonal, made negative where the status is INVALID, so that metrics of such sums are NaN."""
    given, status = sums.diagonal, sums.status
    if lazy.are_lazy(status) or (
        adapter(status).has_values(status) and not adapter(status).any(status)
    ):  # sums of Dask chunks raise instead
        return given
    d, status = (adapter(x).unwrap(x) for x in (given, status))
    return adapter(given).rewrap(adapter(d).evaluate(_mark_invalid, d, status), given)


def _mark_invalid(d: Any, status: Any) -> Any:
    """Return the diagonals minus 1 where `status` is a failure."""
    wrong = status != 0
    return d - adapter(wrong).cast(wrong, np.int64)[..., None]


def _adopt_samples(given: dict[str, Array], options: Options) -> _labels.Labels:
    """Convert labels, weights and groups to one array library, flattened along one sample axis."""
    _labels.check_ignored(options.ignore_index)
    validate.flag("whole_floats", options.whole_floats)
    axes = options.sample_axes
    axes = None if axes is None else validate.count("sample_axes", axes, least=1)
    floats = options.whole_floats
    n_classes = options.n_classes
    return _labels.adopt(
        given, options.labels, n_classes=n_classes, sample_axes=axes, whole_floats=floats, is_named=True
    )


def _sum_codes(
    samples: _labels.Labels,
    ignored: str | bytes | int | None,
    options: Options,
    check: Callable[[int, Classes], object],
    counting: dict[str, Any],
) -> tuple[Margins[Any], Classes]:
    """Return the sums of labels that are category codes, by a small confusion matrix if it fits, and the classes."""
    names, is_text = samples.listed, samples.y_true.is_text
    found = _labels.count_codes(samples, ignored, **counting)
    M: Any = None
    if found is not None:
        M, occurring = found
    else:
        samples, occurring = _labels.match_labels(samples, ignored)
    complete = _complete_text_classes if is_text else _complete_integer_classes
    classes = list(occurring if names is not None else complete(options, occurring))
    C = len(classes)
    check(C, classes)
    places = [classes.index(label) for label in occurring]
    if M is not None:
        every = [list(range(size)) for size in M.shape[:-2]]
        own = list(range(len(occurring)))
        M = adapter(M).scatter(M, (*M.shape[:-2], C, C), [*every, own, own], [*every, places, places])
        return Margins(*dispatch.call("margins", read_only(M), num_threads=counting["num_threads"])), classes
    truth, guess = samples.y_true, samples.y_pred
    if places != list(range(len(places))):
        table = np.array(
            [*places, _labels.NO_POSITION], np.int64
        )  # index -1 reads the last entry: NOWHERE stays NOWHERE
        truth, guess = table[truth], table[guess]
    if names is not None:
        truth = np.where(guess < 0, _labels.NO_POSITION, truth)
    at = None if ignored is None and names is None else _labels.NO_POSITION
    samples = samples._replace(y_true=truth, y_pred=guess)
    return _sum_class_ids(samples, n_classes=C, ignored=at, ordered=options.ordered, **counting), classes


def _complete_text_classes(options: Options, classes: list[Any]) -> list[Any]:
    """Return the text classes, extended to two by the positive label if fewer occur."""
    pos_label = options.pos_label
    if pos_label is None:
        return classes if options.positive is None else list(order_two_classes(classes, options.positive))
    if len(classes) > 1:
        return classes
    if not isinstance(pos_label, str | bytes):
        validate.refuse(
            "pos_label",
            "text, as labels are",
            f"{type(pos_label).__name__} {validate.format_value(pos_label)}",
            TypeError,
        )
    known = [*classes, *([] if pos_label in classes else [pos_label])]
    return [*known, *[None] * (2 - len(known))]


def _complete_integer_classes(options: Options, classes: Sequence[int]) -> Sequence[Any]:
    """Return the integer classes, extended to two by the positive label if fewer occur."""
    if options.pos_label is None:
        return classes if options.positive is None else order_two_classes(classes, options.positive)
    if not isinstance(options.pos_label, int | np.integer | np.bool_):
        given = f"{type(options.pos_label).__name__} {validate.format_value(options.pos_label)}"
        validate.refuse("pos_label", "an integer, as labels are", given, TypeError)
    positive = int(options.pos_label)
    found = sorted({*classes, positive})
    if len(found) > 2:
        others = [label for label in found if label != positive]
        listed = f"{', '.join(map(str, others[:3]))}{', ...' if len(others) > 3 else ''}"
        given = f"{validate.format_value(options.pos_label)} where labels are also {listed}"
        validate.refuse("pos_label", "of two classes", given)
    if set(found) <= {0, 1}:
        return [0, 1]
    return [*found, *[None] * (2 - len(found))]


def order_two_classes(classes: Sequence[Any], positive: int) -> Sequence[Any]:
    """Return two integer classes so that index `positive` is the positive one; other classes are returned as given.

    For 0 and 1, and for -1 and 1, the positive class is 1; two other integers do not tell which one is positive.
    """
    if not 0 < len(classes) <= 2 or (len(classes) == 2 and isinstance(classes[0], str | bytes)):
        return classes
    pair = next((pair for pair in ([0, 1], [-1, 1]) if set(classes) <= set(pair)), None)
    if pair is None and len(classes) == 1:
        validate.refuse("pos_label", f"given where {validate.format_value(classes[0])} is the only label", "None")
    if pair is None and positive == 1:  # the default, so perhaps not a choice of the user
        validate.refuse("pos_label", f"one of the labels {sorted(classes)}", "None")
    return pair or sorted(classes)  # also for ordered categories: two classes are sorted alike


def find_positive_class(name: str, label: Any, C: int, classes: Classes) -> int:
    """Return the index (0 or 1) of the label that the option `name` holds; refuse unknown labels."""
    if classes is None:
        place = validate.count(name, int(label) if isinstance(label, bool | np.bool_) else label)
        known = list(range(C))
    else:
        known = [x for x in classes if x is not None]
        place = known.index(label) if label in known else C
    if C != 2:
        validate.refuse(name, "None for other than two classes", f"{validate.format_value(label)} with {C} classes")
    if place >= C:
        validate.refuse(name, f"of the labels {validate.format_value(known)}", validate.format_value(label))
    return place


def find_class_ids(labels: Any, classes: Classes) -> Any:
    """Return the class indices of the labels in the option `average_over`."""
    if labels is None or classes is None:
        return labels
    listed = labels.tolist() if isinstance(labels, np.ndarray) and labels.ndim == 1 else labels
    if not isinstance(listed, list | tuple | range) or not len(listed):
        validate.refuse("average_over", "a list of labels, at least one", validate.format_value(labels), TypeError)
    known = [x for x in classes if x is not None]
    for label in listed:
        if label not in known:
            validate.refuse(
                "average_over", f"of the labels {validate.format_value(known)}", validate.format_value(label)
            )
    return [known.index(label) for label in listed]


def _count_groups(groups: Array | None, n_groups: int | None) -> int | None:
    """Return the number of groups, None without groups; refuse groups outside the range."""
    if groups is None:
        if n_groups is not None:
            validate.refuse("n_groups", "None without groups", validate.count("n_groups", n_groups))
        return None
    empty = 0 in dispatch.shape_of(groups)
    low, high = (0, -1) if empty else (_reduce_extreme(groups, "min"), _reduce_extreme(groups, "max"))
    number = high + 1 if n_groups is None else validate.count("n_groups", n_groups)
    if low < 0 or high >= number:
        wanted = "at least 0" if n_groups is None else f"in 0..{number - 1}"
        validate.refuse("groups", wanted, low if low < 0 else high)
    return number


def _sum_integers(
    samples: _labels.Labels,
    ignored: int | None,
    options: Options,
    check: Callable[[int, Classes], object],
    counting: dict[str, Any],
) -> tuple[Margins[Any], Classes]:
    """Return the sums of integer labels over the classes that occur, and these classes."""
    threads, sums, table = counting["num_threads"], None, None
    if ignored is not None or not _labels.are_far_apart(samples):
        sums = _sum_gapless_integers(samples, ignored, counting | {"ordered": options.ordered})
        table = None if sums is not None else _labels.count_dense_range(samples, ignored, counting)
    if sums is not None:
        found: Sequence[int] = range(dispatch.shape_of(sums.diagonal)[-1])
    else:
        found = table[2] if table is not None else _labels.list_occurring(samples, ignored, threads)
    classes, named = _name_integer_classes(options, found)
    C = len(classes)
    check(C, named)
    if sums is not None and len(found) == C:
        return sums, named
    if table is not None:
        return _sum_table(table, classes, threads), named
    if named is not None:
        known = [label for label in named if label is not None]
        truth, guess = (
            _labels.encode_positions(samples.y_true, known, ignored, threads),
            _labels.encode_positions(samples.y_pred, known, num_threads=threads),
        )
        samples = samples._replace(y_true=truth, y_pred=guess)
        ignored = None if ignored is None else _labels.NO_POSITION
    return _sum_class_ids(samples, n_classes=C, ignored=ignored, ordered=options.ordered, **counting), named


def _name_integer_classes(options: Options, found: Sequence[int]) -> tuple[Sequence[Any], Classes]:
    """Return the completed integer classes, and their labels, None if they are 0, 1, ..."""
    classes = _complete_integer_classes(options, found)
    is_range = isinstance(classes, range) or classes == list(range(len(classes)))
    return classes, None if is_range else list(classes)


def _sum_table(table: tuple[Any, int, list[int]], classes: Sequence[Any], num_threads: int | None) -> Margins[Any]:
    """Return the sums of a table over consecutive integers, restricted to the classes that occur."""
    M, low, found = table
    batch = dispatch.shape_of(M)[:-2]
    every = [list(range(size)) for size in batch]
    source, places = [label - low for label in found], [classes.index(label) for label in found]
    M = adapter(M).scatter(M, (*batch, len(classes), len(classes)), [*every, source, source], [*every, places, places])
    M = read_only(M) if isinstance(M, np.ndarray) else M
    return Margins(*dispatch.call("margins", M, num_threads=num_threads))


def _sum_gapless_integers(
    samples: _labels.Labels, ignored: int | None, counting: dict[str, Any]
) -> Margins[Any] | None:
    """Return the sums of integers that are 0, 1, ... without a gap, or None for other labels."""
    shape = samples.shapes["y_true"]
    if 0 in shape:
        return None
    largest = [_reduce_extreme(y, "max") for y in samples[:2]]
    if largest[0] == ignored:
        largest[0] = _largest_except(samples.y_true, largest[0])
    C = max(*largest, -1) + 1
    cells = C * math.prod(shape[:-1]) * (counting["n_groups"] or 1)
    if not 0 < cells <= max(_labels.MOST_GAPLESS_CELLS, math.prod(shape)):
        return None
    *parts, outside = dispatch.call("label_margins", *samples[:4], n_classes=C, ignored=ignored, **counting)
    sums = Margins(*parts)
    return sums if not outside and _all_occur(sums) else None


def _all_occur(sums: Margins[Any]) -> bool:
    """Return whether every class occurs, judged by its margins; False if weights are bad or add up to 0."""
    t, p = (adapter(x).to_host(x) for x in (sums.row_sums, sums.col_sums))
    found: Any = ((t != 0) | (p != 0)).reshape(-1, t.shape[-1])
    return bool(found.any(0).all()) and not adapter(sums.status).any(sums.status)


def _reduce_extreme(values: Array, which: str) -> int:
    """Return the "min" or the "max" of an integer array as a Python int."""
    one = adapter(values)
    if one.is_on_host(values) or not one.has_values(values):
        # Torch lacks min and max of most unsigned integers, NumPy has them. An array without values is refused.
        return int(getattr(one.to_host(values), which)())
    return int(one.evaluate(lambda x: getattr(x, which)(), values))  # synchronises


def _largest_except(values: Array, ignored: int) -> int:
    """Return the largest label other than `ignored`, or -1 without one."""
    host = adapter(values).to_host(values)
    rest = host[host != ignored]
    return int(rest.max()) if rest.size else -1


def _sum_class_ids(samples: _labels.Labels, *, n_classes: int, **options: Any) -> Margins[Any]:
    """Return the sums of class indices below `n_classes`; refuse indices outside."""
    if options["n_groups"] is not None and n_classes * options["n_groups"] > validate.LARGEST_INT64 // 40:
        validate.refuse_memory(40 * n_classes * options["n_groups"], n_classes=n_classes, n_groups=options["n_groups"])
    *sums, outside = dispatch.call("label_margins", *samples[:4], n_classes=n_classes, **options)
    if outside:
        _labels.refuse_outside_pairs(outside, n_classes)
    return Margins(*sums)
