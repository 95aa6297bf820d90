"""Convert labels of any kind (text, dates, categories, integers) into integer codes along one axis of samples."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from cmfast._core import caller, dispatch, failures, lazy, validate
from cmfast._core.adapters import _columns, _text_codes, adapter, read_only
from cmfast._core.kernel_lookup import get_kernel
from cmfast._core.sparse import is_sparse
from cmfast._core.usual_options import NAMES_BY_INDEX
from cmfast.kernels.loading import load
from cmfast.kernels.shared import counting

NO_POSITION = counting.NO_POSITION
KINDS = {"b": "integers", "i": "integers", "u": "integers", "U": "strings", "S": "bytes"}
TEXT_KINDS = "OSTU"  # of dtypes that may hold text
MOST_CODE_TABLE_CELLS = 1 << 12  # a table of codes may have so many cells, even if there are fewer samples
SAME_BITS = 1 << 15  # cells up to which sums of weights are partitioned alike for every number of classes
INTEGERS = frozenset(map(np.dtype, "?bBhHiIlLqQ"))
FLOAT_WEIGHTS = frozenset(map(np.dtype, "fd"))
MOST_COUNTED_SPAN = 1 << 10  # range up to which integers are counted in a dense table of the whole range
MOST_GAPLESS_CELLS = 1 << 16  # class sums up to which integers are taken for 0, 1, ..., even if there are fewer samples
FEW_SAMPLES = 1 << 10  # read to tell whether integers are far apart; with fewer samples it does not matter
LEAST_INDICATED_SAMPLES, MOST_INDICATORS = 10, 64  # rows and columns of 0/1 arrays that look like multilabel indicators
NAMES = ("y_true", "y_pred")
OTHER = "other"  # name of the last row and column, of all labels that are not listed
PLAIN = (np.ndarray, list, tuple)  # types without columns, categories or row names


class Labels(NamedTuple):
    """Adopted labels, predictions, weights and groups of samples, in one library, with samples along the last axis.

    dtypes and shapes are stored by name, of the arrays that were given, so that checks query each array once.
    """

    y_true: Any
    y_pred: Any
    weight: Any
    groups: Any
    listed: Any
    """The option `labels`."""
    dtypes: dict[str, np.dtype[Any]]
    shapes: dict[str, tuple[int, ...]]
    sample_shapes: dict[str, tuple[int, ...]]
    """Shapes of the sample axes that were flattened into the last axis."""


def adopt(
    given: dict[str, Any],
    listed: Any,
    *,
    n_classes: int | None,
    sample_axes: int | None,
    whole_floats: bool,
    is_named: bool = False,
) -> Labels:
    """Adopt labels and predictions, and weights and groups (or None); raise TypeError for data frames.

    The result keeps the axis names of its library if `is_named`. Otherwise dates become integers if `n_classes` is
    None.
    """
    foreign = [x for x in (*given.values(), listed) if x is not None and type(x) not in PLAIN]
    if any(adapter(x).takes_columns for x in foreign):
        validate.refuse_tables(**given, labels=listed)
        plain = {name: _read_categories(name, given[name]) for name in NAMES}
        if any(plain[name] is not given[name] for name in NAMES):  # their indexes are lost, those of others kept
            dispatch.check_agreement(**given)
        given = given | plain
    names = None if listed is None else dispatch.adopt_one("labels", listed)
    for name in (*NAMES, "groups"):
        if isinstance(given[name], list | tuple) and not given[name]:  # an empty list, which NumPy would make float64
            dtype = np.int64 if names is None or name == "groups" else adapter(names).dtype(names)
            given = given | {name: np.empty(0, dtype)}
    y_true, y_pred, *rest = dispatch.adopt(optional=("sample_weight", "groups"), **given)
    if whole_floats:
        y_true, y_pred = convert_whole_floats("y_true", y_true), convert_whole_floats("y_pred", y_pred)
    if any(isinstance(y, _text_codes.Coded) and y.dtype.kind not in "US" for y in (y_true, y_pred)):
        y_true, y_pred, names = unify_codes(y_true, y_pred, names, n_classes)
    if n_classes is None and not is_named and isinstance(y_true, np.ndarray) and y_true.dtype.kind == "M":
        y_true, y_pred, names = dates_to_integers(y_true, y_pred, names)
    arrays = {name: x for name, x in zip(given, (y_true, y_pred, *rest), strict=True) if x is not None}
    hosts = np.ndarray | _text_codes.Coded
    if not is_named or any(isinstance(y, _text_codes.Coded) for y in (y_true, y_pred)):
        arrays = {name: x if isinstance(x, hosts) else adapter(x).unwrap(x) for name, x in arrays.items()}
    dtypes = {name: x.dtype if isinstance(x, hosts) else adapter(x).dtype(x) for name, x in arrays.items()}
    shapes = {name: tuple((x.codes if isinstance(x, _text_codes.Coded) else x).shape) for name, x in arrays.items()}
    samples = {name: shape[-1:] for name, shape in shapes.items()}
    if sample_axes != 1:
        arrays, shapes, samples = _flatten(sample_axes, arrays, shapes)
    y_true, y_pred, weight, groups = (arrays.get(name) for name in given)
    if weight is not None and dtypes["sample_weight"] not in validate.REALS:
        validate.real(sample_weight=weight)
    if groups is not None and dtypes["groups"].kind not in "bui" and not isinstance(groups, _text_codes.Coded):
        validate.integer(groups=groups)
    return Labels(y_true, y_pred, weight, groups, names, dtypes, shapes, samples)


def are_plain(y_true: np.ndarray, y_pred: np.ndarray) -> bool:
    """Whether both are one-dimensional integer arrays of the same shape, which need no further checks."""
    return y_true.dtype in INTEGERS and y_pred.dtype in INTEGERS and y_true.ndim == 1 and y_true.shape == y_pred.shape


def are_plain_weights(weight: Any, y_true: np.ndarray) -> bool:
    """Whether these are float weights of one-dimensional labels, which need no further checks."""
    return type(weight) is np.ndarray and weight.dtype in FLOAT_WEIGHTS and weight.shape == y_true.shape


def are_plain_integers(array: Any, y_true: np.ndarray) -> bool:
    """Whether these are integers for one-dimensional labels, groups or weights, which need no further checks."""
    return type(array) is np.ndarray and array.dtype in INTEGERS and array.shape == y_true.shape


def check_known(
    *, n_classes: Any, labels: Any = None, groups: Any = None, n_groups: Any = None, y: dict[str, Any] | None = None
) -> None:
    """Validate that the options fix the shape of the counts of Dask arrays.

    `y` has the label arrays by name where the option `labels` exists, which text needs.
    """
    text = None if labels is not None else next(iter(find_text(y or {}).items()), None)
    if text is not None and n_classes is not None:
        given = f"dtype {text[1]}; for text pass labels= instead of n_classes="
        validate.refuse(text[0], "integers where n_classes is given", given, TypeError)
    if text is not None:
        wanted = (
            f"given with Dask arrays of text ({text[0]} has dtype {text[1]}), which are not looked at before they are"
        )
        validate.refuse("labels", f"{wanted} counted", "None")
    if n_classes is None and labels is None:
        wanted = "given with Dask arrays, whose labels are not looked at before they are counted"
        validate.refuse("n_classes", wanted, "None")
    if groups is not None and n_groups is None:
        validate.refuse("n_groups", "given with groups that are a Dask array", "None")


def find_text(arrays: dict[str, Any]) -> dict[str, np.dtype[Any]]:
    """Return the dtypes of those Dask arrays that may hold text: fixed-width, of variable width, or of objects.

    The blocks of an object array are not looked at, so its adopted dtype would be that of no text at all.
    """
    dtypes = {name: adapter(x).dtype(x) for name, x in arrays.items() if lazy.are_lazy(x)}
    return {name: dtype for name, dtype in dtypes.items() if dtype.kind in TEXT_KINDS}


def warn_if_none_occurs(
    M: Any,
    listed: Any,
    occurring: Callable[[], Iterable[Any]],
    *,
    other: bool = False,
    predicted: Callable[[], Iterable[Any]] = list,
) -> None:
    """Warn if the counts of some samples are all zero and no listed label is one of those `occurring` in the truth.

    With `other`, only the rows of the listed labels matter. `predicted` returns the predicted labels.
    """
    if caller.is_task() or not adapter(M).has_values(M):
        return
    if other:
        M = M[:-1] if is_sparse(M) else adapter(M).evaluate(lambda M: M[..., :-1, :], M)
    if M.nnz if is_sparse(M) else adapter(M).any(M):
        return
    if set(listed).isdisjoint(occurring()):
        known, what = validate.format_value(list(listed)), "is in the row of the rest" if other else "was left out"
        failures.warn_diagnostic(f"every sample {what}, as none of labels={known} is in y_true")
    elif not other and (guesses := set(predicted())) and guesses.isdisjoint(listed):
        known = validate.format_value(list(listed))
        failures.warn_diagnostic(f"every sample was left out, as none of labels={known} is in y_pred")


def encode_text(y_true: Any, y_pred: Any) -> tuple[np.ndarray, np.ndarray, tuple[Any, ...]] | None:
    """Return text labels as positions among the labels that occur, sorted, and these labels; None for other labels."""
    if all(isinstance(y, np.ndarray) and y.dtype.kind in "biuf" for y in (y_true, y_pred)):
        return None
    if not adapter(y_true).takes_columns or not adapter(y_pred).takes_columns:
        return None
    given = {"y_true": y_true, "y_pred": y_pred, "sample_weight": None, "groups": None}
    samples = adopt(given, None, n_classes=None, sample_axes=1, whole_floats=False)
    coded = [isinstance(y, _text_codes.Coded) for y in (samples.y_true, samples.y_pred)]
    if not any(coded):
        return None
    if not all(coded):
        kinds = [KINDS.get(samples.dtypes[name].kind, "other labels") for name in NAMES]
        validate.refuse(
            "y_pred", f"{kinds[0]} as y_true", f"{kinds[1]}{advise_on_numbers('y_pred', *kinds)}", TypeError
        )
    samples, order = match_labels(samples, None)
    return samples.y_true, samples.y_pred, tuple(order)


def list_true_labels(samples: Labels) -> list[Any]:
    """Return the labels that occur as truth, or that its categories or codes declare."""
    y = samples.y_true
    return list(y.names) if isinstance(y, _text_codes.Coded) else adapter(y).unique(adapter(y).unwrap(y))[0].tolist()


def warn_of_one_hot(*labels: Any) -> bool:
    """Warn if all arrays look one-hot: shape (n, C) with exactly one 1 per row; return whether it warned.

    They may be n rows of C samples, as for retrieving one of C documents, so this is a warning and not an error. The
    first row already rules out nearly all other arrays.
    """
    shape = _find_one_hot(labels)
    if shape is None:
        return False
    n, C = shape
    given, every = ("y_true and y_pred", "both") if len(labels) == 2 else ("labels", "all")
    said = f"{given} have exactly one 1 in each of {n} rows, as one-hot labels have, and were counted as"
    failures.warn_diagnostic(f"{said} {n} rows of {C} samples; for one-hot labels pass .argmax(-1) of {every}")
    return True


def _find_one_hot(labels: Sequence[Any]) -> tuple[int, int] | None:
    """Return the shape of arrays that look one-hot, with exactly one 1 per row; None if one does not."""
    arrays = _get_2d_arrays(labels)
    n, C = dispatch.shape_of(arrays[0]) if arrays else (0, 0)
    if n < 2 or C < 3:
        return None
    for rows in (slice(0, 1), slice(None)):
        for y in arrays:
            host = adapter(y).entry(y, rows)
            if not ((host == 1).sum(-1) == 1).all() or not ((host == 0).sum(-1) == C - 1).all():
                return None
    return n, C


def warn_of_indicators(y_true: Any, y_pred: Any) -> None:
    """Warn if 0/1 arrays of more rows than columns look like multilabel indicators but are counted as a batch.

    Not called if the caller has given the classes. One-hot labels get their own warning.
    """
    if warn_of_one_hot(y_true, y_pred) or (shape := _find_indicators((y_true, y_pred))) is None:
        return
    n, columns = shape
    said = f"y_true and y_pred have {n} rows of {columns} that are 0 or 1, as indicators of several labels have, and"
    cure = "metrics.multilabel takes indicators; for a batch pass n_classes=2"
    failures.warn_diagnostic(f"{said} were counted as a batch of {n}, with {columns} samples each; {cure}")


def warn_of_pooled_indicators(*labels: Any) -> None:
    """Warn if 0/1 arrays look like multilabel indicators, but each of their values counts as an independent sample.

    One-hot labels get their own warning where they are counted.
    """
    if any(len(getattr(y, "shape", ())) != 2 for y in labels) or lazy.are_lazy(*labels):
        return
    if any(adapter(y).takes_columns and not isinstance(y, np.ndarray) for y in labels):  # tables
        return
    shape = _find_indicators(labels)
    if shape is None or _find_one_hot(labels) is not None:
        return
    n, columns = shape
    given, every = ("y_true and y_pred", "both") if len(labels) == 2 else ("labels", "all")
    said = f"{given} have {n} rows of {columns} that are 0 or 1, as indicators of several labels have, and were counted"
    cure = "interval and compare take indicators with multilabel=True"
    failures.warn_diagnostic(f"{said} as {n * columns} independent samples; {cure}; else pass .ravel() of {every}")


def _find_indicators(labels: Sequence[Any]) -> tuple[int, int] | None:
    """Return the shape of arrays that look like multilabel indicators: 0 or 1 in more rows than columns; else None."""
    arrays = _get_2d_arrays(labels)
    n, columns = dispatch.shape_of(arrays[0]) if arrays else (0, 0)
    if not 2 <= columns <= MOST_INDICATORS or n <= columns or n < LEAST_INDICATED_SAMPLES:
        return None
    for rows in (slice(0, 1), slice(None)):
        for y in arrays:
            host = adapter(y).entry(y, rows)
            if not ((host == 0) | (host == 1)).all():
                return None
    return n, columns


def hold_indicators(labels: Sequence[Any]) -> bool:
    """Return whether arrays, or tables, have one shape (n, L) and hold only 0 and 1."""
    tables = [adapter(y).takes_columns and not isinstance(y, np.ndarray) for y in labels]
    arrays = _get_2d_arrays([np.asarray(y) if is_table else y for y, is_table in zip(labels, tables, strict=True)])
    hosts = [adapter(y).to_host(y) for y in arrays]
    return bool(hosts) and all(bool(((host == 0) | (host == 1)).all()) for host in hosts)


def warn_of_matrices(*labels: Any) -> None:
    """Warn if labels are square and as heavy on the diagonal as confusion matrices."""
    if any(len(getattr(y, "shape", ())) != 2 for y in labels):
        return
    arrays = _get_2d_arrays(labels)
    n, C = dispatch.shape_of(arrays[0]) if arrays else (0, 1)
    if n != C or not 2 <= C <= MOST_INDICATORS or not all(adapter(y).is_on_host(y) for y in arrays):
        return
    for y in arrays:
        host = adapter(y).to_host(y)
        if host.dtype.kind not in "iu" or host.min() < 0 or (2 * host.diagonal() < host.sum(1)).any():
            return
    failures.warn_diagnostic(
        f"y_true and y_pred are {C} x {C} with most of each row on the diagonal, as confusion matrices are, and their "
        f"{C * C} cells were counted as labels; functions of metrics take a matrix as it is, as in metrics.compute(M)"
    )


def _get_2d_arrays(labels: Sequence[Any]) -> list[Any]:
    """Return the arrays without axis names if all have values, of one shape (n, C), and none is text; else none."""
    if any(isinstance(y, _text_codes.Coded) or not adapter(y).has_values(y) for y in labels):
        return []
    arrays = [adapter(y).unwrap(y) for y in labels]
    shapes = {dispatch.shape_of(y) for y in arrays}
    return arrays if len(shapes) == 1 and len(shapes.pop()) == 2 else []


def advise_on_names(listed: str, found: str) -> str:
    """Return the end of a message where `labels` of the kind `listed` may name classes that are `found` as integers."""
    if listed != "strings" or found != "integers":
        return ""
    if caller.name().startswith("display."):
        return "; display_labels= takes the names of classes"
    return f"; {NAMES_BY_INDEX}"


def advise_on_numbers(name: str, wanted: str, given: str) -> str:
    """Return the end of a message where of `name` and y_true one has text and one has integers, which may number it."""
    numbers = {("strings", "integers"): name, ("integers", "strings"): "y_true"}.get((wanted, given))
    return f"; if these number classes, give np.array(names)[{numbers}]" if numbers else ""


def check_listed(names: Any, n_classes: int | None, kind: str) -> list[Any]:
    """Validate the option `labels` (unique, of the kind of y_true) and return it as a list; reads its values."""
    if n_classes is not None:
        validate.refuse("labels", "None where n_classes is given", "both")
    shape = dispatch.shape_of(names)
    if len(shape) != 1 or shape[0] == 0:
        validate.refuse("labels", "of shape (C,) with at least one label", f"shape {shape}")
    listed = KINDS.get(adapter(names).dtype(names).kind, "")
    if listed != KINDS[kind]:
        given = f"{validate.describe_dtype(names)}{advise_on_names(listed, KINDS[kind])}"
        validate.refuse("labels", f"{KINDS[kind]} as y_true", given, TypeError)
    values = list_values(names)
    value, times = Counter(values).most_common(1)[0]
    if times > 1:
        validate.refuse("labels", "unique", f"{value!r:.40} {times} times")
    return values


def refuse_other(listed: Iterable[Any]) -> None:
    """Raise ValueError if a listed label has the name of the row and column of all others."""
    if OTHER in listed:
        validate.refuse("labels", f"without {OTHER!r}, the name of the last row with other=True", repr(OTHER))


def list_values(names: Any) -> list[Any]:
    """Return adopted labels as a list of Python values."""
    if isinstance(names, _text_codes.Coded):
        return [names.names[k] for k in names.codes.tolist()]
    values: list[Any] = adapter(names).to_host(names).tolist()
    return values


def are_unordered_text(classes: Any) -> bool:
    """Whether the classes are more than two texts, so that their order affects ordinal metrics."""
    return classes is not None and len(classes) > 2 and isinstance(classes[0], str | bytes)


def has_order(y: Any) -> bool:
    """Whether a column is an ordered categorical."""
    found = _read_categories("labels", y)
    return isinstance(found, _text_codes.Coded) and found.ordered


def warn_of_order(names: list[str], *, of_categories: bool = False) -> None:
    """Warn that the metrics `names` depend on the order of text classes, which was not given."""
    shown = ", ".join(names)
    verb = "depends" if len(names) == 1 else "depend"
    order = "in the order of a categorical that declares none" if of_categories else "and were sorted alphabetically"
    cure = "give it by labels=[...], or by an ordered categorical"
    failures.warn_diagnostic(f"{shown} {verb} on the order of the classes, which are text {order}; {cure}")


def convert_whole_floats(name: str, y: Any) -> Any:
    """Convert float labels to integers and raise if one is not a whole number; other labels stay unchanged."""
    if isinstance(y, _text_codes.Coded) or adapter(y).dtype(y).kind != "f":
        return y
    if not adapter(y).is_on_host(y):
        validate.refuse(name, "integers on a device", f"{validate.describe_dtype(y)}; convert them there", TypeError)
    values = adapter(y).to_host(y)
    values = values.astype(np.float64, copy=False)  # float16 has no 2**63
    with np.errstate(invalid="ignore"):
        numbers = values.astype(np.int64)
    bad = np.flatnonzero((numbers != values) | (abs(values) >= 2.0**63))
    if bad.size:
        index = np.unravel_index(bad[0], values.shape)
        given = f"{values[index]} at {_text_codes.format_index(index)}, {bad.size} such in all"
        cure = validate.labels_of_probabilities(values)
        validate.refuse(name, "whole numbers", f"{given}; {cure}" if cure else given)
    return adapter(y).from_host(numbers, y)


def dates_to_integers(y_true: Any, y_pred: Any, names: Any) -> tuple[Any, Any, Any]:
    """Convert dates to int64 in the finest unit of all arrays; other labels stay unchanged."""
    given = {"y_true": y_true, "y_pred": y_pred, "labels": names}
    if not all(y is None or (isinstance(y, np.ndarray) and y.dtype.kind == "M") for y in given.values()):
        return y_true, y_pred, names
    unit = np.result_type(*(y for y in given.values() if y is not None))
    for name, y in given.items():
        missing = np.flatnonzero(np.isnat(y)) if y is not None else np.empty(0)
        if y is not None and missing.size:
            _text_codes.refuse_missing(name, missing.size, np.unravel_index(missing[0], y.shape), "NaT")
    first, second, last = (None if y is None else read_only(y.astype(unit).view(np.int64)) for y in given.values())
    return first, second, last


def _read_categories(name: str, y: Any) -> Any:
    """Return a column of a data frame as its library's category codes; any other array unchanged."""
    if type(y) in PLAIN:
        return y
    try:
        found = _columns.categories(name, y)
    except ValueError as error:  # missing values, worded as for all columns
        validate.fail(str(error))
    coded = None if found is None else _text_codes.encode_categories(found.values, found.codes, ordered=found.ordered)
    return y if coded is None else coded


def unify_codes(y_true: Any, y_pred: Any, names: Any, n_classes: int | None) -> tuple[Any, Any, Any]:
    """Make integer labels uniform: codes for all arrays if a categorical order must be kept, else plain integers."""
    given = [y_true, y_pred]
    integers = [isinstance(y, _text_codes.Coded) and not y.is_text for y in given]
    if not any(integers):
        return y_true, y_pred, names
    others = [y for y, is_coded in zip(given, integers, strict=True) if not is_coded]
    ordered = names is None and n_classes is None and any(isinstance(y, _text_codes.Coded) and y.ordered for y in given)
    known = all(isinstance(y, np.ndarray) and y.dtype.kind in "bui" for y in others)
    if n_classes is not None or (others and known and not ordered):
        first, second = (_decode(y) if coded else y for y, coded in zip(given, integers, strict=True))
        return first, second, names
    if known:
        given = [_encode(y) if isinstance(y, np.ndarray) else y for y in given]
    if isinstance(names, np.ndarray) and names.dtype.kind in "bui":
        names = _encode(names)
    return given[0], given[1], names


def _decode(y: _text_codes.Coded) -> np.ndarray:
    """Return coded integers as a plain integer array."""
    return read_only(np.array(y.names, y.dtype)[y.codes])


def _encode(y: np.ndarray) -> _text_codes.Coded:
    """Return an integer array as codes and sorted distinct values."""
    values, codes = adapter(y).unique(y)
    return _text_codes.Coded(codes, values.tolist(), y.dtype)


def count_codes(
    samples: Labels, ignored: str | bytes | int | None, **options: Any
) -> tuple[np.ndarray, list[Any]] | None:
    """Count matrices of coded labels by their codes; return them with their labels, or None if matching is better.

    Rows and columns are reordered after counting, so that no array of the length of the samples is made.
    """
    y_true, y_pred, weight, groups, names, *_ = samples
    known = [] if names is not None else _known_order(y_true, y_pred)
    n, n_groups = max(len(y_true.names), len(y_pred.names)), options.get("n_groups")
    if groups is not None and n_groups is None:
        n_groups = int(groups.max(initial=-1)) + 1
    size = samples.shapes["y_true"][-1]
    rows = math.prod(np.broadcast_shapes(*(shape[:-1] for shape in samples.shapes.values())))
    cells = n * n * (1 if n_groups is None else n_groups)
    if not 0 < rows * cells <= max(MOST_CODE_TABLE_CELLS, rows * size) or (weight is not None and cells > SAME_BITS):
        return None
    # Codes are nonnegative, so int8 can be viewed as uint8: one type less to compile.
    truth, guess = (y.codes.view(np.uint8) if y.codes.dtype == np.int8 else y.codes for y in (y_true, y_pred))
    truth, guess = map(read_only, (truth, guess))
    at = y_true.names.index(ignored) if ignored is not None and ignored in y_true.names else None
    options |= {"n_classes": n, "labels": None, "ignored": at}
    M, status, outside = dispatch.call("confusion_matrix", truth, guess, weight, groups, **options)
    if outside is not None or np.any(status):  # bad weights, possibly of labels that are left out
        return None
    if names is None:
        seen = M if weight is None else dispatch.call("confusion_matrix", truth, guess, None, None, **options)[0]
        seen = seen.reshape(-1, n, n).any(axis=0)
        found = [{y.names[k] for k in np.flatnonzero(seen.any(axis=1 - k))} for k, y in enumerate((y_true, y_pred))]
        order = _order_labels(known, *found)
    else:
        order = [names.names[k] for k in names.codes.tolist()]
    source: list[Any] = []
    target: list[Any] = []
    for y in (y_true, y_pred):
        places = {name: k for k, name in enumerate(y.names)}
        pairs = [(places[name], k) for k, name in enumerate(order) if name in places]
        for part, indices in zip((source, target), np.array(pairs, np.int64).reshape(-1, 2).T, strict=True):
            part.append(indices)
    every, shape = [range(k) for k in M.shape[:-2]], (*M.shape[:-2], len(order), len(order))
    out = adapter(M).scatter(M, shape, [*every, *source], [*every, *target])
    return out, order


def _order_labels(known: list[Any], true: set[Any], predicted: set[Any]) -> list[Any]:
    """Return all labels that occur: first those with a known order, then the others, sorted.

    Warns if truths and predictions are several texts each and share none.
    """
    every = true | predicted
    if any(isinstance(label, str | bytes) for label in every) and true.isdisjoint(predicted):
        warn_of_disjoint("y_pred", len(true), len(predicted))
    return [*(label for label in known if label in every), *sorted(every.difference(known))]


def warn_of_disjoint(name: str, n_true: int, n_predicted: int) -> None:
    """Warn that the truth and the predictions `name` have no text label in common, if both have several."""
    if min(n_true, n_predicted) > 1:
        numbers = f"{n_true} and {n_predicted}"
        failures.warn_diagnostic(
            f"y_true and {name} have no label in common, of {numbers}; are they of the same classes?"
        )


def _known_order(y_true: _text_codes.Coded, y_pred: _text_codes.Coded) -> list[Any]:
    """Return the categories of the ordered columns, merged into one order; raise if two orders contradict."""
    orders = [y.names for y in (y_true, y_pred) if y.ordered]
    if len(orders) < 2:
        return orders[0] if orders else []
    return list(merge_orders("y_pred", *map(tuple, orders)))


def merge_orders(what: str, labels: tuple[Any, ...], others: tuple[Any, ...]) -> tuple[Any, ...]:
    """Merge two ordered lists of labels into one order that agrees with both; raise ValueError if none does."""
    found = insert_labels(labels, others)
    places = {label: k for k, label in enumerate(found)}
    if not all(places[a] < places[b] for a, b in pairwise(others)):
        orders = f"{validate.format_value(labels)} and {validate.format_value(others)}"
        validate.refuse(what, "of ordered categories that agree", orders)
    return found


def insert_labels(labels: tuple[Any, ...], others: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return `labels` with each new label of `others` inserted after its predecessor there."""
    out, known = list(labels), set(labels)
    at = len(out) if not known.intersection(others) else 0
    for label in others:
        if label in known:
            at = out.index(label) + 1
            continue
        out.insert(at, label)
        known.add(label)
        at += 1
    return tuple(out)


def match_labels(samples: Labels, ignored: str | bytes | int | None) -> tuple[Labels, list[Any]]:
    """Convert coded labels to positions in the listed labels, or in those that occur; return both. Warn if none match.

    A truth equal to `ignored` becomes NO_POSITION.
    """
    y_true, y_pred, _, _, names, *_ = samples
    seen = None
    if ignored is not None and ignored in y_true.names:
        seen = y_true.codes != y_true.names.index(ignored)
    if names is None:
        known = _known_order(y_true, y_pred)
        truth, guess = y_true, y_pred
        if seen is not None:  # predictions of ignored samples do not count as occurring
            both, codes = np.broadcast_arrays(seen, y_pred.codes)
            truth = _text_codes.Coded(y_true.codes[seen], y_true.names, y_true.dtype)
            guess = _text_codes.Coded(codes[both], y_pred.names, y_pred.dtype)
        order = _order_labels(known, _text_codes.list_occurring(truth), _text_codes.list_occurring(guess))
    else:
        order = [names.names[k] for k in names.codes.tolist()]
    first, second = _text_codes.match_labels(order, y_true, y_pred)
    truth = first if seen is None else np.where(seen, first, NO_POSITION)
    return samples._replace(y_true=truth, y_pred=second), order


def number_with_rest(
    samples: Labels, listed: list[Any], ignored: str | bytes | int | None, num_threads: int | None
) -> tuple[Labels, int | None, Any]:
    """Convert labels to positions in `listed`, and to the position after the last one for all others.

    Returns the samples, which truth to ignore (NO_POSITION, or None), and the names of all positions.
    """
    rest, found = len(listed), []
    for y, gone in ((samples.y_true, ignored), (samples.y_pred, None)):
        if isinstance(y, _text_codes.Coded):
            index = {name: k for k, name in enumerate(listed)}
            table = [NO_POSITION if gone is not None and name == gone else index.get(name, rest) for name in y.names]
            found.append(read_only(np.array(table, np.int64)[y.codes]))
            continue
        bare = adapter(y).unwrap(y)
        positions = encode_positions(bare, listed, num_threads=num_threads)
        mark = partial(_mark_rest, rest, gone)
        found.append(adapter(y).rewrap(adapter(bare).evaluate(mark, bare, positions), y))
    order: Any = [*listed, OTHER]
    is_text = isinstance(listed[0], str)
    labels = samples._replace(y_true=found[0], y_pred=found[1])
    return labels, None if ignored is None else NO_POSITION, order if is_text else np.array(order, object)


def _mark_rest(rest: int, ignored: Any, y: Any, positions: Any) -> Any:
    """Return positions with `rest` where there was none, and none where the label `y` is `ignored`."""
    out = positions + 0
    out[positions == NO_POSITION] = rest
    if ignored is not None:
        out[y == ignored] = NO_POSITION
    return out


def list_occurring(samples: Labels, ignored: int | None, num_threads: int | None = None) -> list[int]:
    """Return the sorted integers that occur as truth or prediction, without samples whose truth is `ignored`.

    Synchronises the device.
    """
    one = adapter(samples.y_true)
    if one.is_on_host(samples.y_true):
        truth, guess = one.to_host(samples.y_true), one.to_host(samples.y_pred)
        if ignored is not None:
            both = np.broadcast_arrays(truth, guess)
            truth, guess = (y[both[0] != ignored] for y in both)
        if not truth.size or not guess.size:
            return []
        found: list[int] = _integer_codes().find_distinct(truth, guess, num_threads=num_threads).tolist()
        return found
    truth, guess = one.unwrap(samples.y_true), one.unwrap(samples.y_pred)
    if ignored is not None:
        truth, guess = adapter(truth).evaluate(partial(_drop_ignored, ignored), truth, guess)
    return sorted({value for y in (truth, guess) for value in adapter(y).unique(y)[0].tolist()})


def _drop_ignored(ignored: int, truth: Any, guess: Any) -> tuple[Any, Any]:
    """Return truths and predictions without the samples whose truth is `ignored`."""
    if truth.shape != guess.shape:
        truth, guess = truth + guess * 0, guess + truth * 0
    seen = truth != ignored
    return truth[seen], guess[seen]


def are_far_apart(samples: Labels) -> bool:
    """Whether a few of the integer labels already show that their range exceeds their number, and any table."""
    arrays = [samples.y_true, samples.y_pred]
    if not all(adapter(y).is_on_host(y) for y in arrays):
        return False
    hosts = [adapter(y).to_host(y).reshape(-1) for y in arrays]
    if min(y.size for y in hosts) <= FEW_SAMPLES:
        return False
    some = [y[:: y.size // FEW_SAMPLES] for y in hosts]
    low, high = min(int(y.min()) for y in some), max(int(y.max()) for y in some)
    return high - low > max(MOST_GAPLESS_CELLS, *(y.size for y in hosts))


def _integer_codes() -> Any:
    """Return the kernel module that encodes integers, imported on first use because it imports Numba."""
    return load("cmfast.kernels.cpu._core.distinct")


def count_few_integers(
    y_true: np.ndarray, y_pred: np.ndarray, most: int, num_threads: int | None
) -> tuple[np.ndarray, list[int]] | None:
    """Count nonnegative integers below `most` into a matrix of those that occur; return it and these, or None."""
    get_kernel("confusion_matrix", "cpu")  # announces compilations
    kernels = load("cmfast.kernels.cpu.counting")
    found = kernels.count_occurring(y_true, y_pred, most, num_threads)
    return None if found is None else (found[0], found[1].tolist())


def count_dense_range(
    samples: Labels, ignored: int | None, counting: dict[str, Any]
) -> tuple[Any, int, list[int]] | None:
    """Count integer labels of a small range in a dense table; return matrices, first label and labels that occur.

    None if encoding each label is better. No array of the length of the samples is made.
    """
    y_true, y_pred, weight, groups, *_ = samples
    shape, one = samples.shapes["y_true"], adapter(y_true)
    if 0 in shape or one.names_axes or not one.is_on_host(y_true):
        return None
    ends = [one.extent(y) for y in (y_true, y_pred)]
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    span = high - low + 1
    cells = span * span * math.prod(shape[:-1]) * (counting["n_groups"] or 1)
    near = span <= MOST_COUNTED_SPAN and high < 2**63 and cells <= max(MOST_CODE_TABLE_CELLS, math.prod(shape))
    if not near or (weight is not None and cells > SAME_BITS):
        return None
    options = {"n_classes": None, "labels": low + np.arange(span), "ignored": ignored, **counting}
    M, status, _ = dispatch.call("confusion_matrix", y_true, y_pred, weight, groups, **options)
    if np.any(adapter(status).to_host(status)):  # bad weights: the general path reports which matrix they are in
        return None
    seen = M if weight is None else dispatch.call("confusion_matrix", y_true, y_pred, None, None, **options)[0]
    pairs: Any = adapter(seen).to_host(seen).reshape(-1, span, span).any(axis=0)
    return M, low, [low + k for k in np.flatnonzero(pairs.any(axis=0) | pairs.any(axis=1)).tolist()]


def encode_positions(y: Any, classes: list[int], ignored: int | None = None, num_threads: int | None = None) -> Any:
    """Return integer labels as positions in `classes`, of a narrow type; NO_POSITION for others and `ignored`."""
    array = adapter(y).unwrap(y)
    if adapter(array).is_on_host(array):
        host = adapter(array).to_host(array)
        found = _integer_codes().find_positions(host, classes, ignored=ignored, num_threads=num_threads)
        out = adapter(array).from_host(found, array)
    else:
        values, codes = adapter(array).unique(array)
        index = {value: k for k, value in enumerate(classes) if value != ignored}
        host = np.array([index.get(value, NO_POSITION) for value in values.tolist()], np.int64)
        places = adapter(array).send(host, array)
        out = adapter(array).evaluate(lambda places, codes: places[codes], places, codes)
    return adapter(y).rewrap(out, y)


def number_groups(groups: _text_codes.Coded, n_groups: int | None) -> tuple[Any, int, list[Any]]:
    """Return text groups as positions in the sorted groups that occur; their number; their names."""
    if n_groups is not None:
        validate.refuse("n_groups", "None where groups are text", n_groups)
    order = sorted(_text_codes.list_occurring(groups))
    (positions,) = _text_codes.match_labels(order, groups)
    return read_only(positions), len(order), order


def _flatten(
    axes: int | None, arrays: dict[str, Any], shapes: dict[str, tuple[int, ...]]
) -> tuple[dict[str, Any], dict[str, tuple[int, ...]], dict[str, tuple[int, ...]]]:
    """Flatten the last `axes` axes (None: all) of every array; return arrays, shapes and flattened shapes."""
    for name, shape in shapes.items():
        if axes is not None and len(shape) < axes:
            validate.refuse(name, f"of at least {axes} axes, as sample_axes says", f"shape {shape}")
    cut = {name: len(shape) - axes if axes is not None else 0 for name, shape in shapes.items()}
    samples = {name: shape[cut[name] :] for name, shape in shapes.items()}
    first = next(iter(samples))
    for name, shape in shapes.items():
        if samples[name] != samples[first]:
            validate.refuse(name, f"samples of shape {samples[first]} as {first}", f"shape {shape}")
    flat = {}
    for name, x in arrays.items():
        codes = x.codes if isinstance(x, _text_codes.Coded) else x
        codes = adapter(codes).flatten(codes, cut[name])
        flat[name] = replace(x, codes=codes) if isinstance(x, _text_codes.Coded) else codes
    shapes = {name: (*shape[: cut[name]], math.prod(samples[name])) for name, shape in shapes.items()}
    return flat, shapes, samples


def list_ignored(value: Any) -> list[Any]:
    """Return the labels of the option `ignore_index`: none, one or several."""
    if isinstance(value, list | tuple | set | frozenset) or (isinstance(value, np.ndarray) and value.ndim == 1):
        return list(value)
    return [] if value is None else [value]


def check_ignored(value: object) -> None:
    """Validate the option `ignore_index` before reading any array."""
    for one in list_ignored(value):
        if not isinstance(one, str | bytes):
            validate.count("ignore_index", one, least=-(2**63), most=2**64 - 1)


def ignore(samples: Labels, value: Any) -> tuple[Labels, Any]:
    """Return samples, and which true label to ignore or None; several become one of them, in a copy of the truths."""
    dtype, y_true = samples.dtypes["y_true"], samples.y_true
    found = [one for one in (resolve_ignored(one, dtype) for one in list_ignored(value)) if one is not None]
    if isinstance(y_true, _text_codes.Coded):
        found = [one for one in found if one in y_true.names]
    if len(found) < 2:
        return samples, found[0] if found else None
    if isinstance(y_true, _text_codes.Coded):
        merged = np.arange(len(y_true.names)).astype(y_true.codes.dtype)
        merged[[y_true.names.index(one) for one in found]] = y_true.names.index(found[0])
        y_true = replace(y_true, codes=merged[y_true.codes])
    else:
        bare = adapter(y_true).unwrap(y_true)
        y_true = adapter(y_true).rewrap(adapter(bare).evaluate(partial(_merge_labels, found), bare), y_true)
    return samples._replace(y_true=y_true), found[0]


def _merge_labels(values: list[int], y: Any) -> Any:
    """Return a copy of labels in which all of `values` are the first of them."""
    merged = y + 0
    for value in values[1:]:
        merged[y == value] = values[0]
    return merged


def resolve_ignored(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a label to ignore among labels of a dtype, None if it cannot hold it. Raise if the kinds differ."""
    text = isinstance(value, str | bytes)
    if text != (dtype.kind in "US"):
        wanted, given = ("an integer", "text") if text else ("text", "an integer")
        validate.refuse("ignore_index", f"{wanted}, as y_true", f"{given}, {validate.format_value(value)}", TypeError)
    if text:
        return value
    value = validate.count("ignore_index", value, least=-(2**63), most=2**64 - 1)
    low, high = (0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    return value if low <= value <= high else None


def refuse_outside(name: str, limit: int | None, number: int, first: list[tuple[tuple[int, ...], int]]) -> None:
    """Raise ValueError for labels outside the class ids, with their number and the first ones."""
    if limit == 0:
        validate.refuse("n_classes", "at least 1 for labels", 0)
    wanted = "at least 0" if limit is None else f"in 0..{limit - 1}"
    what = ", ".join(f"{value} at {index[0] if len(index) == 1 else index}" for index, value in first)
    tells = limit and name in NAMES and not caller.is_task()  # where the chunk is follows
    cure = "; n_classes= is the number of all classes" if tells else ""
    validate.refuse(name, wanted, f"{number} outside (first: {what}){cure}")


def refuse_outside_pairs(number: int, n_classes: int) -> None:
    """Raise ValueError for a number of pairs with a label outside the class ids."""
    validate.refuse("y_true and y_pred", f"in 0..{n_classes - 1}", f"{number} pairs outside")
