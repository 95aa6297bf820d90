"""What is known of the totals of records, from a tidy table: a row for each category, or for the sum of a column."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cmfast._files import tables
from cmfast._files.output import FileError
from cmfast._files.points import TABLES

NUMBERS = ("target", "total", "count", "population")  # names of the column of numbers
OF, IMPORTANCE = "of", "importance"  # names of the columns that say what is added up, and what it costs to miss it
Key = tuple[str, ...]


def named(columns: Key, key: Key) -> str:
    """Return what a combination of categories is called."""
    return ", ".join(f"{column} = {category}" for column, category in zip(columns, key, strict=True))


class Target(NamedTuple):
    """What is known of the categories of one column, or of the combinations of several, or of all records."""

    of: str  # column of numbers that is added up; "": records are counted
    columns: Key
    totals: dict[Key, dict[str, float]]  # of each area, NaN where nothing is asked
    importance: dict[Key, float]  # of what has one

    def named(self, key: Key) -> str:
        """Return what a total is called."""
        where = named(self.columns, key)
        return f"{self.of} where {where}" if self.of and where else self.of or where


class Totals(NamedTuple):
    """All that is known."""

    targets: list[Target]
    areas: list[str]  # that each total is of; one without a name, if there are none

    @property
    def are_counts(self) -> bool:
        """Whether records are counted only, and nothing has an importance of its own."""
        return not any(target.of or target.importance for target in self.targets)


class _Header(NamedTuple):
    """Which columns of a table of totals hold what."""

    number: int
    of: int | None
    importance: int | None
    area: int | None
    categories: list[int]


def read_totals(path: Path, by: str | None, value: str | None = None) -> Totals:
    """Return what a tidy table says: empty cells in the columns that a row is not of.

    The numbers may stand in a column that is named `value`, where none has a name that says so.
    """
    lines = _texts(path)
    _, names = next(lines)
    header = _header(path, names, by, value)
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
            raise FileError(path, f"line {line}: {_placed(target.named(key), by, area)} is there twice")
        of_areas[area] = number(path, line, cells[header.number], least=None if of else 0.0)
        if header.importance is not None and cells[header.importance]:
            importance = number(path, line, cells[header.importance])
            if target.importance.setdefault(key, importance) != importance:
                raise FileError(path, f"line {line}: the importance of {target.named(key)} is another one than before")
    if not found:
        raise FileError(path, "holds no targets")
    totals = Totals(list(found.values()), list(areas))
    _check(path, totals, by)
    return totals


def _header(path: Path, names: list[str], by: str | None, value: str | None) -> _Header:
    small = [name.lower() for name in names]
    numbers = [k for k, name in enumerate(small) if name in NUMBERS]
    numbers = numbers or [k for k, name in enumerate(names) if name == value]
    area = None if by is None else tables.column_named(path, names, by)
    of, importance = (small.index(name) if name in small else None for name in (OF, IMPORTANCE))
    taken = {*numbers, of, importance, area}
    categories = [k for k in range(len(names)) if k not in taken]
    if len(numbers) != 1 or not (categories or of is not None):
        known = NUMBERS if value is None else (*NUMBERS, value)
        wanted = f"needs columns of categories, and one of numbers named {' or '.join(known)}"
        raise FileError(path, f"{wanted} (has: {', '.join(names)})")
    return _Header(numbers[0], of, importance, area, categories)


def _check(path: Path, known: Totals, by: str | None) -> None:
    """Refuse totals that some areas have and others do not."""
    for target in known.targets:
        for key, of_areas in target.totals.items():
            missing = next((area for area in known.areas if area not in of_areas), None)
            if missing is not None:
                raise FileError(path, f"has no row for {_placed(target.named(key), by, missing)}, but for other areas")


def _placed(name: str, by: str | None, area: str) -> str:
    return name if by is None else f"{name}, {by} = {area}"


def number(path: Path, line: int, text: str, *, least: float | None = 0.0) -> float:
    """Return the number in a cell; NaN of an empty one."""
    try:
        value = float(text) if text else math.nan
    except ValueError:
        value = math.inf
    if math.isinf(value) or (least is not None and value < least):
        wanted = "no number" if least is None else f"no number of at least {least:g}"
        raise FileError(path, f"line {line} holds {text!r}, which is {wanted}")
    return value


def _texts(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a small table as texts, its names first."""
    suffix = path.suffix.lower()
    if suffix in tables.TEXTS:
        yield from ((line, [cell.strip() for cell in row]) for line, row, _ in tables.csv_lines(path))
    elif suffix in TABLES:
        tables.needs("pyarrow", path)
        names, _, parts = tables.arrow_batches(path)
        yield 0, names
        line = 0
        for columns in parts(list(range(len(names)))):
            for row in zip(*(column.to_pylist() for column in columns), strict=True):
                line += 1
                yield line, ["" if cell is None or cell != cell else str(cell) for cell in row]  # noqa: PLR0124
    else:
        raise FileError(path, f"unknown kind of file {suffix!r} (known: csv, tsv, txt, parquet, arrow, feather)")


def by_area(target: Target, key: Key, areas: list[str]) -> np.ndarray:
    """Return a total of each area."""
    return np.array([target.totals[key][area] for area in areas])
