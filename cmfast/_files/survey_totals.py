"""Read population totals for raking from a tidy table: a row per category, or per sum of a numeric column."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cmfast._files import label_columns, tables
from cmfast._files.output import FileError
from cmfast._files.points import TABLES

NUMBERS = ("target", "total", "count", "population")  # accepted names of the column of totals
OF, IMPORTANCE = "of", "importance"  # names of the columns for the summed column and the penalty weight
Key = tuple[str, ...]


def describe_key(columns: Key, key: Key) -> str:
    """Return a combination of categories as text: "sex = f, age = 30-39"."""
    return ", ".join(f"{column} = {category}" for column, category in zip(columns, key, strict=True))


class Target(NamedTuple):
    """Known totals of the categories of one column, of combinations of several, or of all respondents."""

    of: str  # numeric column that is summed; "": respondents are counted
    columns: Key
    totals: dict[Key, dict[str, float]]  # by area; NaN for an unconstrained total
    importance: dict[Key, float]  # penalty weights, where given

    def describe(self, key: Key) -> str:
        """Return the name of a total for messages."""
        where = describe_key(self.columns, key)
        return f"{self.of} where {where}" if self.of and where else self.of or where


class Totals(NamedTuple):
    """All known totals."""

    targets: list[Target]
    areas: list[str]  # areas of each total; one empty name without areas

    @property
    def are_counts(self) -> bool:
        """Whether all totals are counts of respondents without penalty weights."""
        return not any(target.of or target.importance for target in self.targets)


class _Header(NamedTuple):
    """Positions of the columns of a table of totals."""

    number: int
    of: int | None
    importance: int | None
    area: int | None
    categories: list[int]


def read_totals(path: Path, by: str | None, value: str | None = None) -> Totals:
    """Read totals from a tidy table; a row leaves the columns empty that it does not constrain.

    The totals may be in a column named `value` if no column has a usual name.
    """
    lines = _read_rows(path)
    _, names = next(lines)
    header = _find_columns(path, names, by, value)
    found: dict[tuple[str, Key], Target] = {}
    areas: dict[str, None] = {}
    for line, cells in lines:
        filled = [k for k in header.categories if cells[k]]
        of = "" if header.of is None else cells[header.of]
        columns, key = tuple(names[k] for k in filled), tuple(cells[k] for k in filled)
        if not (of or columns):
            raise FileError(path, f"line {line} names no category")
        area = "" if header.area is None else cells[header.area]
        if header.area is not None and not area:
            raise FileError(path, f"line {line} has an empty cell in column {by!r}")
        areas[area] = None
        target = found.setdefault((of, columns), Target(of, columns, {}, {}))
        of_areas = target.totals.setdefault(key, {})
        if area in of_areas:
            raise FileError(path, f"line {line}: {_describe_total(target.describe(key), by, area)} is there twice")
        of_areas[area] = parse_number(path, line, cells[header.number], least=None if of else 0.0)
        if header.importance is not None and cells[header.importance]:
            importance = parse_number(path, line, cells[header.importance])
            if target.importance.setdefault(key, importance) != importance:
                raise FileError(
                    path, f"line {line}: the importance of {target.describe(key)} is another one than before"
                )
    if not found:
        raise FileError(path, "holds no targets")
    totals = Totals(list(found.values()), list(areas))
    _check_areas(path, totals, by)
    return totals


def _find_columns(path: Path, names: list[str], by: str | None, value: str | None) -> _Header:
    """Return the positions of the columns of a table of totals; raise FileError if they are ambiguous."""
    small = [name.lower() for name in names]
    numbers = [k for k, name in enumerate(small) if name in NUMBERS]
    numbers = numbers or [k for k, name in enumerate(names) if name == value]
    area = None if by is None else label_columns.find_column(path, names, by)
    of, importance = (small.index(name) if name in small else None for name in (OF, IMPORTANCE))
    taken = {*numbers, of, importance, area}
    categories = [k for k in range(len(names)) if k not in taken]
    if len(numbers) != 1 or not (categories or of is not None):
        known = NUMBERS if value is None else (*NUMBERS, value)
        wanted = f"needs columns of categories, and one of numbers named {' or '.join(known)}"
        raise FileError(path, f"{wanted} (has: {', '.join(names)})")
    return _Header(numbers[0], of, importance, area, categories)


def _check_areas(path: Path, known: Totals, by: str | None) -> None:
    """Raise FileError for totals that are given for some areas only."""
    for target in known.targets:
        for key, of_areas in target.totals.items():
            missing = next((area for area in known.areas if area not in of_areas), None)
            if missing is not None:
                raise FileError(
                    path, f"has no row for {_describe_total(target.describe(key), by, missing)}, but for other areas"
                )


def _describe_total(name: str, by: str | None, area: str) -> str:
    """Return the name of a total, with its area if there are areas."""
    return name if by is None else f"{name}, {by} = {area}"


def parse_number(path: Path, line: int, text: str, *, least: float | None = 0.0) -> float:
    """Parse the number in a cell; NaN for an empty one. Raise FileError below `least`."""
    try:
        value = float(text) if text else math.nan
    except ValueError:
        value = math.inf
    if math.isinf(value) or (least is not None and value < least):
        wanted = "no number" if least is None else f"no number of at least {least:g}"
        raise FileError(path, f"line {line} holds {text!r}, which is {wanted}")
    return value


def _read_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a small table as texts, its header first."""
    suffix = path.suffix.lower()
    if suffix in tables.TEXTS:
        yield from ((line, [cell.strip() for cell in row]) for line, row, _ in tables.csv_lines(path))
    elif suffix in TABLES:
        tables.require_module("pyarrow", path)
        names, _, parts = tables.arrow_batches(path)
        yield 0, names
        line = 0
        for columns in parts(list(range(len(names)))):
            for row in zip(*(column.to_pylist() for column in columns), strict=True):
                line += 1
                yield line, ["" if cell is None or cell != cell else str(cell) for cell in row]  # noqa: PLR0124
    else:
        raise tables.unknown_kind(path, "csv, tsv, txt, parquet, arrow, feather")


def collect_areas(target: Target, key: Key, areas: list[str]) -> np.ndarray:
    """Return a total as an array over areas."""
    return np.array([target.totals[key][area] for area in areas])
