"""Let functions of labelled points accept a table with columns of labels, and name the columns with missing values."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from inspect import signature
from typing import Any, TypeVar

import numpy as np

from cmfast._core import caller, frames, lazy, table_columns, validate

F = TypeVar("F", bound=Callable[..., Any])

SIDES = ("y_true", "y_pred")


def accept_point_table(function: F) -> F:
    """Decorate a function of points `X`, and of labels if it has any, so that it accepts a table.

    If the labels are names of columns, all other columns are the points. The table is remembered for
    :func:`cmfast._core.table_columns.describe_gaps`.
    """
    has_labels = set(SIDES) <= set(signature(function).parameters)

    @wraps(function)
    def wrapper(*given: Any, **options: Any) -> Any:
        """Read the columns of a table, if one is given, and call `function` with them."""
        X = given[0] if given else options.get("X")
        if type(X) is np.ndarray or not frames.holds_columns(X) or frames.is_column(X):
            return function(*given, **options)
        if has_labels and len(given) > len(SIDES) + 1 and isinstance(given[1], list) and isinstance(given[2], str):
            _refuse_features(given[1], *given[2:4])
        if has_labels and given and isinstance(options.get("X"), list) and isinstance(options.get("y_true"), str):
            _refuse_features(options["X"], options["y_true"], options.get("y_pred"))
        labels = {side: given[k] if len(given) > k else options.get(side) for k, side in enumerate(SIDES, 1)}
        reading: Any = nullcontext()
        if has_labels and isinstance(labels["y_true"], str) and not (given and "X" in options):
            table = _read_table(X)
            reading = table_columns.name_missing_columns(table, labels)
            given, options = _read_columns(table, labels, given, options)
            X = given[0]
        if not lazy.is_dask_frame(frames.unwrap_narwhals(X)):
            X = frames.read_table("X", frames.unwrap_narwhals(X))
            given, options = ((X, *given[1:]), options) if given else (given, options | {"X": X})
        with reading, table_columns.remember_columns(X, {"X": _list_columns(X)}):
            return function(*given, **options)

    return wrapper  # type: ignore[return-value]


def _list_columns(X: Any) -> list[str]:
    """Return the names of the columns of a table of points; [] of a lazy one, or if names are no texts or repeated."""
    names = [] if frames.is_lazy_table(X) else frames.column_names(X)
    return names if all(isinstance(name, str) for name in names) and len(set(names)) == len(names) else []


def _read_table(X: Any) -> Any:
    """Return the table `X`, collected; refuse one of Dask, whose columns of labels are not read."""
    table = frames.unwrap_narwhals(X)
    if lazy.is_dask_frame(table):
        cure = "table.compute() is one, and arrays of Dask are taken, too"
        validate.refuse("X", "a table in memory where labels are columns", f"a DataFrame of Dask; {cure}", TypeError)
    return frames.read_table("X", table)


def _read_columns(
    table: Any, columns: dict[str, Any], given: tuple[Any, ...], options: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call with arrays instead of a table and the names of its columns of labels."""
    table_columns.refuse_absent_sides(columns, SIDES)
    names = frames.column_names(table)
    absent = [side for side in SIDES if isinstance(columns[side], str) and columns[side] not in names]
    if absent:
        call = f"{caller.name()}(X, table[{columns['y_true']!r}], table[{columns['y_pred']!r}])"
        near = validate.suggest_name(columns[absent[0]], list(map(str, names)))
        came = f"{columns[absent[0]]!r}{near}; for columns of another table, {call}"
        validate.refuse(absent[0], f"one of the columns {validate.format_value(', '.join(map(str, names)), str)}", came)
    arrays = table_columns.read_columns(table, columns)
    features = [name for name in names if name not in columns.values()]
    text = [name for name in features if not frames.is_numeric(table[name])]
    if text or not features:
        numbers = [name for name in features if name not in text] or ["..."]
        call = f"{caller.name()}(table[{numbers}], table[{columns['y_true']!r}], table[{columns['y_pred']!r}])"
        came = f"other values in {', '.join(map(repr, text))}" if text else "none"
        validate.refuse(
            "X", "columns of numbers, all but those of the labels", f"{came}; choose, as in {call}", TypeError
        )
    points = frames.select_columns(table, features)
    rest = {name: value for name, value in options.items() if name not in ("X", *SIDES)}
    return (points, arrays["y_true"], arrays["y_pred"], *given[3:]), rest


def _refuse_features(features: list[Any], *labels: Any) -> None:
    """Raise TypeError for a table, a list of its columns and the names of the labels, with the call that works."""
    columns = ", ".join(f"table[{validate.format_value(label)}]" for label in labels)
    call = f"{caller.name()}(table[{features}], {columns})"
    validate.fail(f"X must be the points themselves, got a table and a list of columns; {call} takes them", TypeError)
