"""Let ``compare_many`` take labels: ``compare_many(y_true, {"a": a, "b": b}, names)``, or columns of a table."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import reduce, wraps
from itertools import combinations
from typing import Any

from cmfast._core import caller, failures, frames, lazy, table_columns, validate
from cmfast._core.usual_options import describe_value
from cmfast.confusion_counts._groups import Keys
from cmfast.confusion_counts._label_axis import Axis
from cmfast.uncertainty._areas import AREA, holds_areas
from cmfast.uncertainty._models import get_name_of_column
from cmfast.uncertainty._paired_cells import make_empty_cells, merge_cells
from cmfast.uncertainty._paired_counts import PairedCounts, paired_counts

SIDES = ("y_true", "y_pred")
OF_SAMPLES = ("groups", "clusters", "ignore_index")  # options of paired_counts
SEVERAL = "the predictions of two or more classifiers, as a dict {name: predictions}, a list or a table of columns"


def accept_labels_of_models(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function of paired counts by pair so that it also accepts labels and predictions of several models."""

    @lazy.accept_delayed
    def call_with_counts(counts_by_pair: dict[Any, PairedCounts], *names: Any, **options: Any) -> Any:
        """Call the function with counts over the same classes and groups."""
        return function(_match_classes(counts_by_pair), *names, **options)

    @wraps(function)
    def wrapper(*given: Any, **options: Any) -> Any:
        """Count the labels, if labels are given, and call `function` with the counts."""
        _refuse_scores(given, options)
        read = _read_labels(given, options)
        if read is None:
            _refuse_options_of_labels(options)
            return function(*given, **options)
        table, y_true, predictions, names = read
        units = {name: options.pop(name) for name in OF_SAMPLES if options.get(name) is not None}
        if table is not None and lazy.is_dask_frame(table):
            pairs = combinations(predictions.items(), 2)
            counts = {(a, b): paired_counts(table, y_true=y_true, y_a=x, y_b=y, **units) for (a, x), (b, y) in pairs}
            return call_with_counts(counts, *names, **options)
        reading: AbstractContextManager[None] = nullcontext()
        if table is not None:
            named = {"y_true": y_true, "y_pred": predictions}
            named |= {name: value for name, value in units.items() if name != "ignore_index"}
            call = table_columns.TableCall(named, table, names)
            (y_true, predictions, *_), reading = table_columns.read_call(call, units, SIDES, ("y_pred", "groups"))
        with reading:
            return call_with_counts(_count_pairs(y_true, predictions, units), *names, **options)

    return wrapper


def _refuse_scores(given: tuple[Any, ...], options: dict[str, Any]) -> None:
    """Refuse names of areas, and scores, with the functions that take the scores of several models."""
    names = options.get("names", given[-1] if given else None)
    each = f'uncertainty.compare(y_true, s_a, s_b, "{AREA}") for each pair'
    cure = f"areas of several models are uncertainty.auc_covariance(y_true, scores) and its interval, or {each}"
    if isinstance(names, str | list | tuple) and holds_areas(names):
        validate.refuse("names", "metrics of counts", f"{validate.format_value(names)}; {cure}")
    if "y_score" in options:
        validate.refuse("y_score", "left out", f"{describe_value(options['y_score'])}; {cure}", TypeError)


def _read_labels(
    given: tuple[Any, ...], options: dict[str, Any]
) -> tuple[Any, Any, dict[Any, Any], tuple[Any, ...]] | None:
    """Return the table, if one is given, labels, predictions by model and names; None if counts are given.

    Of a table, labels and predictions are names of columns. They are removed from the options.
    """
    is_named = not options.keys().isdisjoint(SIDES)
    first = given[0] if given else None
    if not is_named and isinstance(first, Mapping) and any(map(_is_array, first.values())):
        call = f"{caller.name()}(y_true, predictions, names)"
        validate.refuse("y_true", f"the true labels, as in {call}", f"a dict of {len(first)}", TypeError)
    if not is_named and (len(given) < 2 or isinstance(given[0], Mapping) or _are_names(given[1])):
        if given and frames.is_table(given[0]):
            call = f"{caller.name()}(table, names, y_true='label', y_pred=['new', 'old', 'third'])"
            validate.fail(f"a table needs y_true= and y_pred=, the names of its columns, as in {call}", TypeError)
        return None
    table = None
    if is_named:
        missing = [side for side in SIDES if side not in options]
        if missing:
            both = f"{caller.name()}(table, names, y_true='label', y_pred=['new', 'old'])"
            validate.refuse(missing[0], f"given, too, as in {both}", f"only {SIDES[missing[0] == SIDES[0]]}", TypeError)
        y_true, predictions = (options.pop(side) for side in SIDES)
        if isinstance(y_true, str):
            if not given or not frames.holds_columns(given[0]):
                came = describe_value(given[0]) if given else "no table"
                validate.refuse(
                    "y_true", "labels, or the name of a column of a table", f"{y_true!r} and {came}", TypeError
                )
            table, *names = given
            return frames.unwrap_narwhals(table), y_true, _list_columns(predictions), tuple(names)
        names = list(given)
    else:
        y_true, predictions, *names = given
    return table, y_true, _name_predictions(predictions), tuple(names)


def _is_array(value: Any) -> bool:
    """Whether a value is an array or list of labels."""
    is_counted = isinstance(value, PairedCounts) or lazy.is_delayed(value)
    return hasattr(value, "__len__") and not is_counted and not isinstance(value, str | bytes | dict)


def _are_names(value: Any) -> bool:
    """Whether an argument is the name of a metric, several names, or None."""
    several = value if isinstance(value, list | tuple) else [value]
    return all(name is None or isinstance(name, str) for name in several)


def _list_columns(given: Any) -> dict[str, str]:
    """Return the columns of predictions by the name of the model."""
    named = given if isinstance(given, Mapping) else {}
    if isinstance(given, list | tuple) and all(isinstance(name, str) for name in given):
        named = {name: name for name in given}
        if len(named) < len(given):
            validate.refuse("y_pred", "different columns", validate.format_value(given))
    if len(named) < 2:
        wanted = "the names of two or more columns, as y_pred=['new', 'old', 'third']"
        validate.refuse("y_pred", wanted, validate.format_value(given), TypeError)
    return dict(named)


def _name_predictions(given: Any) -> dict[Any, Any]:
    """Return arrays of predictions by the name of their model."""
    given = frames.collect_table(given)
    if isinstance(given, Mapping):
        found = dict(given)
    elif frames.is_table(given):
        found = {name: frames.get_column(given, "y_pred", name) for name in frames.column_names(given)}
    elif isinstance(given, list | tuple):
        own = [get_name_of_column(one) for one in given]
        is_named = all(isinstance(name, str) and name for name in own) and len(set(own)) == len(own)
        names = own if is_named else [f"model {k + 1}" for k in range(len(given))]
        found = dict(zip(names, given, strict=True))
    else:
        validate.refuse("y_pred", SEVERAL, describe_value(given), TypeError)
    if len(found) < 2 or any(isinstance(one, str) or not hasattr(one, "__len__") for one in found.values()):
        validate.refuse("y_pred", SEVERAL, f"a {type(given).__name__} of {len(found)}", TypeError)
    return found


def _count_pairs(
    y_true: Any, predictions: Mapping[Any, Any], units: dict[str, Any]
) -> dict[tuple[Any, Any], PairedCounts]:
    """Return the paired counts of every pair of models."""
    pairs = combinations(predictions.items(), 2)
    with failures.issue_once():  # all pairs have the same caveats on the order of samples
        return {(a, b): paired_counts(y_true, y_a, y_b, **units) for (a, y_a), (b, y_b) in pairs}


def _match_classes(counts_by_pair: dict[Any, PairedCounts]) -> dict[Any, PairedCounts]:
    """Return paired counts of the same samples over the classes that occur in any of them."""
    held = [T._held for T in counts_by_pair.values()]
    axis: Axis = reduce(lambda one, other: one.union(other, "labels"), (cells.axis for cells in held))
    units: Keys | None = held[0].units
    empty = make_empty_cells()._replace(axis=axis, units=units, clustered=held[0].clustered)
    return {pair: PairedCounts(merge_cells(empty, T._held), T._home) for pair, T in counts_by_pair.items()}


def _refuse_options_of_labels(options: dict[str, Any]) -> None:
    """Refuse options that only labels have."""
    for name in OF_SAMPLES:
        if options.get(name) is not None:
            wanted = "left out where counts are given: pass it to paired_counts"
            validate.refuse(name, wanted, describe_value(options[name]))
        options.pop(name, None)
