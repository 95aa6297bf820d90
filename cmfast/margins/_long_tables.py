"""Read data frames: tables in long form and tidy margins, by the names of columns and categories."""

from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

import numpy as np

from cmfast._core import dispatch, frames, validate
from cmfast.confusion_counts import _label_codes
from cmfast.confusion_counts._groups import KINDS
from cmfast.margins._labels import AxisLabels

FLOATS = ("float", "double", "half")  # prefixes of column types that cannot be categories


class Arguments(NamedTuple):
    """Argument names of a function, for messages."""

    values: str
    frame: str
    margins: str
    records: bool = False  # whether rows are records, which may repeat, not cells


class LongTable(NamedTuple):
    """A long table as arrays: values, coordinates, and dense targets over all combinations of categories."""

    values: Any
    coords: np.ndarray  # (axes, n)
    margins: list[tuple[tuple[int, ...], np.ndarray]]  # 0 where a margin has no row: no cell is there
    shape: tuple[int, ...]
    rows: list[tuple[np.ndarray, ...]]  # index of each row of a margin in its dense target
    words: AxisLabels

    def select_rows(self, parts: list[Any]) -> list[Any]:
        """Return the entries of each margin array that belong to the rows of the given margins."""
        pairs = zip(parts, self.rows, strict=True)
        return [part[(..., *rows)] if rows else part[..., None] for part, rows in pairs]


class _Margin(NamedTuple):
    """A tidy margin: columns of categories and one of targets."""

    label: str  # name in messages
    columns: dict[str, Any]
    number: str  # name of the targets in messages
    numbers: Any


def are_by_name(frame: Any, margins: Any, called: Arguments) -> bool:
    """Return whether margins are given by column names and categories, not as arrays."""
    if not frames.is_table(frame):
        return isinstance(margins, Mapping) and len(margins) > 0
    if isinstance(margins, Mapping):
        return True
    if frames.is_table(margins):
        frames.library_name(called.frame, frame)
        frames.library_name(called.margins, margins)
        return frames.column_names(margins) != frames.column_names(frame)
    return isinstance(margins, list | tuple) and (
        any(map(frames.is_table, margins)) or are_named_pairs(margins) or all(isinstance(x, Mapping) for x in margins)
    )


def are_named_pairs(margins: Any) -> bool:
    """Return whether margins are pairs of the name of a column, or a tuple of names, and totals."""
    if not isinstance(margins, list | tuple) or not margins:
        return False
    return all(isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str | tuple) for pair in margins)


def read_long_table(values: Any, frame: Any, margins: Any, called: Arguments) -> LongTable:
    """Read a data frame and its margins; `values` is the name of a column, or an array.

    Axes are the columns that margins name and, if rows are cells, all other columns that can be categories.
    """
    frames.library_name(called.frame, frame)
    own, others = values, frames.column_names(frame)
    dispatch.check_row_order(**{called.frame: frame, called.values: values})
    if isinstance(values, str):
        own = frames.get_column(frame, called.values, values)
        others.remove(values)
    given = read_margins(margins, others, called)
    columns = list(dict.fromkeys(name for margin in given for name in margin.columns))
    if not called.records:
        columns += [name for name in others if name not in columns and not _is_floating(frame[name])]
    known: dict[str, dict[Any, int]] = {}
    codes = np.zeros((len(columns), len(frame)), np.int64)
    for line, name in zip(codes, columns, strict=True):
        line[:] = encode_categories(name, frames.get_column(frame, called.frame, name), known)
    found = [_read_target(margin, known) for margin in given]
    labels = tuple(called.margins if isinstance(margins, Mapping) else margin.label for margin in given)
    words = AxisLabels(tuple(columns), tuple(list(known[name]) for name in columns), labels)
    wanted, rows = [], []
    for margin, (places, numbers) in zip(given, found, strict=True):
        of = tuple(columns.index(name) for name in margin.columns)
        wanted.append((of, _fill_target(margin.label, of, places, numbers, codes, words, called.frame)))
        rows.append(places)
    return LongTable(own, codes, wanted, tuple(map(len, words.labels)), rows, words)


def read_margins(margins: Any, others: list[Any], called: Arguments) -> list[_Margin]:
    """Return all margins: from a list of tables, from totals by column names or, for records, from one table."""
    name = called.margins
    if called.records and frames.is_table(margins):
        return [read_margin_table(name, margins, others, called)]
    if are_named_pairs(margins):
        margins = dict(check_distinct(name, margins))
    if isinstance(margins, Mapping) and margins:
        return [read_totals(key, totals, others, called) for key, totals in margins.items()]
    if not isinstance(margins, list | tuple) or not margins:
        of = type(margins).__name__
        if called.records:
            validate.refuse(name, "a dict {column: totals}", f"an empty {of}", TypeError)
        validate.refuse(
            name, f"a list of tables or a dict {{column: totals}}, as {called.frame} is a table", of, TypeError
        )
    if all(isinstance(margin, Mapping) for margin in margins):
        wanted = f"a dict {{column: totals}}, as {called.frame} is a table"
        validate.refuse(name, wanted, "a list of dicts, which do not name their columns", TypeError)
    return [read_margin_table(f"{name}[{k}]", margin, others, called) for k, margin in enumerate(margins)]


def check_distinct(name: str, pairs: Any) -> Any:
    """Return pairs of names of columns and totals; refuse columns that are named twice."""
    keys = [key for key, _ in pairs]
    twice = next((key for key in keys if keys.count(key) > 1), None)
    if twice is not None:
        validate.refuse(name, "of different columns", f"{validate.format_value(twice)} twice")
    return pairs


def read_margin_table(option: str, margin: Any, others: list[Any], called: Arguments) -> _Margin:
    """Return a margin from a table of categories and targets, or from a Series with an index of categories."""
    names = frames.list_index_names(margin)
    if names is not None and any(name is not None for name in names):
        wrong = [name for name in names if name not in others]
        if wrong:
            known = validate.format_value(", ".join(map(str, others)), str)
            validate.refuse(f"index of {option}", f"named by the columns {known} of {called.frame}", f"{wrong[0]!r}")
        return read_totals(tuple(names), margin, others, called, option)
    if names is not None:
        wanted = "a DataFrame of pandas or polars, a Table of Arrow, or a Series whose index has a name"
        example = repr(others[0]) if len(names) == 1 else repr(others[: len(names)])
        cure = f"name it by its column of {called.frame}, as by {option}.rename_axis({example})"
        validate.refuse(option, wanted, f"Series whose index has none; {cure}", TypeError)
    if isinstance(margin, list | tuple) and len(margin) == 2:
        wanted = f"a pair (column of {called.frame}, totals)"
        _refuse_position(option, wanted, margin[0], others)
    frames.library_name(option, margin)
    names = frames.column_names(margin)
    sides, rest = [name for name in names if name in others], [name for name in names if name not in others]
    if len(rest) != 1:
        wanted = f"of some columns of {called.frame}, and one more, of targets"
        validate.refuse(option, wanted, f"columns {validate.format_value(', '.join(map(str, names)), str)}")
    columns = {name: frames.get_column(margin, option, name) for name in sides}
    return _Margin(option, columns, f"{rest[0]} of {option}", frames.get_column(margin, option, rest[0]))


def read_totals(key: Any, totals: Any, others: list[Any], called: Arguments, option: str = "") -> _Margin:
    """Return a margin from column names and the totals of their categories; `option` names it in messages."""
    option = option or f"{called.margins}[{validate.format_value(key)}]"
    names = list(key) if isinstance(key, tuple) else [key]
    for name in names:
        if name not in others or names.count(name) > 1:
            wanted = (
                f"for different columns of {called.frame}: {validate.format_value(', '.join(map(str, others)), str)}"
            )
            if isinstance(name, int):
                _refuse_position(called.margins, wanted, key, others)
            validate.refuse(
                called.margins, wanted, f"{validate.format_value(key)}{validate.suggest_name(name, others)}"
            )
    if frames.is_table(totals):
        margin = read_margin_table(option, totals, others, called)
        if set(margin.columns) != set(names):
            wanted = "a table with its columns, and one more, of targets"
            validate.refuse(option, wanted, f"columns {validate.format_value(', '.join(margin.columns), str)}")
        return margin
    if isinstance(totals, Mapping):
        rows = [row if isinstance(row, tuple) else (row,) for row in totals]
        wrong = next((row for row in rows if len(row) != len(names)), None)
        if wrong is not None:
            validate.refuse(f"a category of {option}", f"of {len(names)} columns", validate.format_value(wrong))
        columns: dict[str, Any] = {name: [row[k] for row in rows] for k, name in enumerate(names)}
        return _Margin(option, columns, option, list(totals.values()))
    levels = frames.index_levels(totals, names)
    if levels is None:
        wanted = "a dict {category: total}, a Series of pandas with categories as its index, or a table"
        validate.refuse(option, wanted, type(totals).__name__, TypeError)
    if len(levels) != len(names):
        validate.refuse(f"index of {option}", f"of {len(names)} levels", f"{len(levels)}")
    return _Margin(option, dict(zip(names, levels, strict=True)), option, totals.reset_index(drop=True))


def _refuse_position(option: str, wanted: str, key: Any, others: list[Any]) -> NoReturn:
    """Refuse the position of an axis where the name of a column is wanted, with a pair that has one."""
    column = repr(others[0]) if others else "'column'"
    validate.refuse(
        option, wanted, f"{validate.format_value(key)}; name the column, as in ({column}, totals)", TypeError
    )


def _is_floating(column: Any) -> bool:
    """Return whether a column has a floating point type."""
    return str(getattr(column, "dtype", None) or column.type).lower().startswith(FLOATS)


def find_categories(name: str, column: Any) -> _label_codes.Codes:
    """Return the categories of a column that occur, with their codes: sorted, declared, or text as it first occurs."""
    return _label_codes.encode_column(name, column, _label_codes.OWN_CODE_SPAN, KINDS, "categories").compact()


def encode_categories(name: str, column: Any, known: dict[str, dict[Any, int]]) -> np.ndarray:
    """Return the integer codes of a column, adding new categories to `known`."""
    found = find_categories(name, column)
    places = known.setdefault(name, {})
    table = np.array([places.setdefault(value, len(places)) for value in found.values], np.int64)
    codes: np.ndarray = table[np.asarray(found.codes)]
    return codes


def _read_target(margin: _Margin, known: dict[str, dict[Any, int]]) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """Return the category codes of the rows of a margin, and their targets."""
    places = tuple(encode_categories(name, column, known) for name, column in margin.columns.items())
    numbers = dispatch.adopt_one(margin.number, margin.numbers)
    validate.real(**{margin.number: numbers})
    if len(dispatch.shape_of(numbers)) != 1:
        validate.refuse(margin.number, "one number for each category", f"shape {dispatch.shape_of(numbers)}")
    if not places and len(numbers) != 1:
        validate.refuse(margin.label, "of one row without a column of categories", f"{len(numbers)}")
    return places, np.asarray(numbers)


def _fill_target(
    label: str,
    of: tuple[int, ...],
    places: tuple[np.ndarray, ...],
    numbers: np.ndarray,
    codes: np.ndarray,
    words: AxisLabels,
    frame: str,
) -> np.ndarray:
    """Return the dense target over all combinations; refuse duplicate rows, and cells without a row."""
    shape = tuple(len(words.labels[axis]) for axis in of)
    target = np.zeros(shape, np.float32 if numbers.dtype == np.float32 else np.float64)
    times = np.zeros(shape, np.int64)
    np.add.at(times, places, 1)
    if (times > 1).any():
        validate.fail(f"{label}: {words.place(of, np.argwhere(times > 1)[0].tolist())} occurs twice")
    said = times[tuple(codes[axis] for axis in of)]
    silent = np.flatnonzero(said == 0)
    if of and len(silent):
        where = words.place(of, [int(codes[axis][silent[0]]) for axis in of])
        validate.fail(f"{label} has no row for {where}, which occurs in {frame}; pass NaN to leave it unconstrained")
    target[places] = numbers if of else numbers[0]
    return target
