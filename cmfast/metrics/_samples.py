"""Labels as users have them, as the sums that metrics are made of; and what their classes are called."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from cmfast._core import dispatch, failures, validate
from cmfast._core import labels as _labels
from cmfast._core.adapters import _text
from cmfast._core.annotations import Array
from cmfast.metrics._margins import Margins

# Labels of the classes in order, None for one that nobody has named; or None: they are 0, 1, ...
Classes: TypeAlias = list[Any] | None


class Options(NamedTuple):
    """What a user says of labels."""

    n_classes: int | None
    n_groups: int | None
    ignore_index: int | str | None
    sample_axes: int | None
    whole_floats: bool
    num_threads: int | None
    pos_label: Any = None


def summed(
    given: dict[str, Array], options: Options, check: Callable[[int, Classes], object] = lambda C, classes: None
) -> tuple[Margins[Any], Classes]:
    """Return the sums of labels, checked, and what the classes are called.

    `check` sees the number of classes, and what they are called, before the sums are there.
    """
    threads = validate.num_threads(options.num_threads)
    arrays = _adopted(given, options)
    texts = [name for name in ("y_true", "y_pred") if isinstance(arrays[name], _text.Coded)]
    validate.integer(
        **{name: x for name, x in arrays.items() if name != "sample_weight" and not isinstance(x, _text.Coded)}
    )
    validate.real(sample_weight=arrays["sample_weight"])
    shape = validate.same_shape(**arrays)
    if not shape:
        validate.refuse("y_true", "of shape (..., n)", "shape ()")
    for name in ("y_true", "y_pred"):
        if texts and name not in texts:
            validate.refuse(name, f"text as {texts[0]}", validate.kind(arrays[name]), TypeError)
    n_classes = options.n_classes
    if texts and n_classes is not None:
        validate.refuse("n_classes", "None where labels are text", validate.shown(n_classes))
    n_classes = None if n_classes is None else validate.count("n_classes", n_classes)
    sized = n_classes is not None or bool(texts)
    doubt = validate.samples_last(sized=sized, y_true=arrays["y_true"], y_pred=arrays["y_pred"])
    if doubt is not None:
        failures.diagnose(doubt)
    ignored = None if options.ignore_index is None else _labels.ignored(options.ignore_index, arrays["y_true"])
    arrays["groups"], n_groups = _labels.numbered(arrays["groups"], options.n_groups)
    n_groups = _groups(arrays["groups"], n_groups)
    counting = {"n_groups": n_groups, "num_threads": threads}
    if texts:
        return _of_text(arrays, ignored, options.pos_label, check, counting)
    if options.pos_label is not None and n_classes is None:
        two = _two(arrays, options.pos_label, ignored)
        check(2, two)
        ignored = None if ignored is None else _labels.NOWHERE
        return _of(arrays, n_classes=2, ignored=ignored, **counting), two
    if n_classes is None:
        return _of_all(arrays, check, ignored=ignored, **counting), None
    check(n_classes, None)
    return _of(arrays, n_classes=n_classes, ignored=ignored, **counting), None


def _adopted(given: dict[str, Array], options: Options) -> dict[str, Any]:
    """Return the arrays in their one library, with samples along one axis."""
    _labels.check_ignored(options.ignore_index)
    validate.flag("whole_floats", options.whole_floats)
    axes = options.sample_axes
    axes = None if axes is None else validate.count("sample_axes", axes, least=1)
    validate.columns(**given)
    labelled = {name: validate.labelled(given[name]) for name in ("y_true", "y_pred")}
    optional = ("sample_weight", "groups")
    arrays = dict(zip(given, dispatch.adopt(optional=optional, **{**given, **labelled}), strict=True))
    if options.whole_floats:
        arrays |= {name: _labels.whole(name, arrays[name]) for name in labelled}
    if axes != 1:
        arrays = dict(zip(arrays, _labels.flat(axes, arrays), strict=True))
    return arrays


def _of_text(
    arrays: dict[str, Any],
    ignored: str | bytes | None,
    pos_label: Any,
    check: Callable[[int, Classes], object],
    counting: dict[str, Any],
) -> tuple[Margins[Any], Classes]:
    """Return the sums of text: those of a matrix by its codes, where that is small."""
    arrays |= {name: dispatch.bare(arrays[name]) for name in ("sample_weight", "groups") if arrays[name] is not None}
    y_true, y_pred, weight, groups = arrays.values()
    found = _labels.counted(y_true, y_pred, None, ignored, weight=weight, groups=groups, **counting)
    if found is None:
        *turned, classes = _labels.matched(y_true, y_pred, None, ignored)
        classes = _with(pos_label, classes)
        check(len(classes), classes)
        arrays |= dict(zip(("y_true", "y_pred"), turned, strict=True))
        at = None if ignored is None else _labels.NOWHERE
        return _of(arrays, n_classes=len(classes), ignored=at, **counting), classes
    M, occurring = found
    classes = _with(pos_label, occurring)
    check(len(classes), classes)
    more = len(classes) - len(occurring)
    M = np.pad(M, [(0, 0)] * (M.ndim - 2) + [(0, more)] * 2) if more else M
    return Margins(*dispatch.call("margins", dispatch.read_only(M), num_threads=counting["num_threads"])), classes


def _with(pos_label: Any, classes: list[Any]) -> list[Any]:
    """Return classes that are text with the positive one, and two of them, though fewer occur."""
    if pos_label is None or len(classes) > 1:
        return classes
    if not isinstance(pos_label, str | bytes):
        validate.refuse(
            "pos_label", "text, as labels are", f"{type(pos_label).__name__} {validate.shown(pos_label)}", TypeError
        )
    known = [*classes, *([] if pos_label in classes else [pos_label])]
    return [*known, *[None] * (2 - len(known))]


def _two(arrays: dict[str, Any], pos_label: Any, ignored: int | None) -> Classes:
    """Put 0 and 1 in the place of integers, of which there are two beside those that are ignored; return these."""
    if not isinstance(pos_label, int | np.integer | np.bool_):
        given = f"{type(pos_label).__name__} {validate.shown(pos_label)}"
        validate.refuse("pos_label", "an integer, as labels are", given, TypeError)
    positive = int(pos_label)
    names = [name for name in ("y_true", "y_pred") if 0 not in dispatch.shape_of(arrays[name])]
    ends = {name: {_extreme(arrays[name], which) for which in ("min", "max")} for name in names}
    found = _beside(ends, ignored) | {positive}
    if found <= {0, 1} and all(end <= {0, 1} for end in ends.values()) and ignored is None:
        return [0, 1]
    if len(found) > 2 or not all(_are(arrays[name], found, ignored if name == "y_true" else None) for name in names):
        values = {name: set(dispatch.distinct(arrays[name])[0].tolist()) for name in names}
        found = _beside(values, ignored) | {positive}
    if len(found) > 2:
        others = ", ".join(map(str, sorted(found - {positive})[:3]))
        given = f"{validate.shown(pos_label)} where labels are also {others}" + (", ..." if len(found) > 4 else "")
        validate.refuse("pos_label", "of two classes", given)
    classes = sorted(found)
    for name in ("y_true", "y_pred"):
        y = arrays[name]
        with dispatch.chosen(y):
            high = y == classes[-1] if len(classes) > 1 else y != y  # noqa: PLR0124 - nothing is the other one
            arrays[name] = high if ignored is None or name == "y_pred" else high * 1 - (y == ignored) * 1
    return classes if len(classes) == 2 else [*classes, None]


def _beside(values: dict[str, set[Any]], ignored: int | None) -> set[int]:
    """Return all values, but for a truth that is ignored."""
    return {int(x) for name, some in values.items() for x in some if not (name == "y_true" and x == ignored)}


def _are(y: Array, values: set[int], ignored: int | None) -> bool:
    """Whether all labels are among the values."""
    with dispatch.chosen(y):
        is_one = [y == value for value in (*values, *(() if ignored is None else (ignored,)))]
        for other in is_one[1:]:
            is_one[0] = is_one[0] | other
        return bool(is_one[0].all())


def place_of(name: str, label: Any, C: int, classes: Classes) -> int:
    """Return which class of two the label is that the option `name` holds."""
    if classes is None:
        place = validate.count(name, int(label) if isinstance(label, bool | np.bool_) else label)
        known = list(range(C))
    else:
        known = [x for x in classes if x is not None]
        place = known.index(label) if label in known else C
    if C != 2:
        validate.refuse(name, "None for other than two classes", f"{validate.shown(label)} with {C} classes")
    if place >= C:
        validate.refuse(name, f"of the labels {validate.shown(known)}", validate.shown(label))
    return place


def places_of(labels: Any, classes: Classes) -> Any:
    """Return which classes the option `labels` names."""
    if labels is None or classes is None:
        return labels
    listed = labels.tolist() if isinstance(labels, np.ndarray) and labels.ndim == 1 else labels
    if not isinstance(listed, list | tuple | range) or not len(listed):
        validate.refuse("labels", "a list of labels, at least one", validate.shown(labels), TypeError)
    known = [x for x in classes if x is not None]
    for label in listed:
        if label not in known:
            validate.refuse("labels", f"of the labels {validate.shown(known)}", validate.shown(label))
    return [known.index(label) for label in listed]


def _groups(groups: Array | None, n_groups: int | None) -> int | None:
    """Return how many groups there are, None without; all of them must be below."""
    if groups is None:
        if n_groups is not None:
            validate.refuse("n_groups", "None without groups", validate.count("n_groups", n_groups))
        return None
    empty = 0 in dispatch.shape_of(groups)
    low, high = (0, -1) if empty else (_extreme(groups, "min"), _extreme(groups, "max"))
    number = high + 1 if n_groups is None else validate.count("n_groups", n_groups)
    if low < 0 or high >= number:
        wanted = "at least 0" if n_groups is None else f"in 0..{number - 1}"
        validate.refuse("groups", wanted, low if low < 0 else high)
    return number


def _of_all(arrays: dict[str, Array], check: Callable[[int, Classes], object], **options: Any) -> Margins[Any]:
    """Return the sums over the classes up to the largest label."""
    found = {name: arrays[name] for name in ("y_true", "y_pred") if 0 not in dispatch.shape_of(arrays[name])}
    ignored = options["ignored"]
    largest = {name: _extreme(found[name], "max") for name in found}
    if largest and ignored is not None and largest["y_true"] == ignored:
        largest["y_true"] = _largest_but(found["y_true"], ignored)
    name, value = max(largest.items(), key=lambda item: item[1], default=("y_true", -1))
    n_classes = max(0, value) + 1 if found else 0
    try:
        if value >= validate.LARGEST:
            raise MemoryError
        check(n_classes, None)
        return _of(arrays, n_classes=n_classes, **options)
    except MemoryError:
        validate.refuse(name, "class ids, each of which takes memory", value, MemoryError)


def _extreme(values: Array, which: str) -> int:
    if dispatch.device_of(values) == "cpu":  # torch has no maximum of most unsigned integers, NumPy has
        return int(getattr(dispatch.to_host(values), which)())
    with dispatch.chosen(values):
        return int(getattr(values, which)())  # synchronises


def _largest_but(values: Array, ignored: int) -> int:
    """Return the largest label beside `ignored`, -1 without any."""
    host = dispatch.to_host(values)
    rest = host[host != ignored]
    return int(rest.max()) if rest.size else -1


def _of(arrays: dict[str, Array], *, n_classes: int, **options: Any) -> Margins[Any]:
    if options["n_groups"] is not None and n_classes * options["n_groups"] > validate.LARGEST // 40:
        validate.too_large(40 * n_classes * options["n_groups"], n_classes=n_classes, n_groups=options["n_groups"])
    *sums, outside = dispatch.call("label_margins", *arrays.values(), n_classes=n_classes, **options)
    if outside:
        validate.refuse("y_true and y_pred", f"in 0..{n_classes - 1}", f"{outside} pairs outside")
    return Margins(*sums)
