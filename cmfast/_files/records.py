"""Records of a survey from a table, and what is known of their totals from another one, by the names of categories."""

import math
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cmfast._files import tables
from cmfast._files.output import FileError
from cmfast._files.points import TABLES

TOTALS = ("target", "total", "count", "population")  # names of the column of numbers in a table of targets


class Target(NamedTuple):
    """What is known of the categories of one column, or of the combinations of several."""

    columns: tuple[str, ...]
    totals: dict[tuple[str, ...], float]  # NaN where nothing is asked


class Records(NamedTuple):
    """Categories of records, in columns."""

    categories: list[list[str]]
    codes: np.ndarray  # (columns, records) int64
    weights: np.ndarray | None


def read_targets(path: Path) -> list[Target]:
    """Return what a tidy table asks: a row for each category, empty cells in the columns that it is not of."""
    lines = _texts(path)
    _, names = next(lines)
    numbers = [k for k, name in enumerate(names) if name.lower() in TOTALS]
    if len(numbers) != 1 or len(names) < 2:
        wanted = f"needs columns of categories, and one of numbers named {' or '.join(TOTALS)}"
        raise FileError(path, f"{wanted} (has: {', '.join(names)})")
    found: dict[tuple[str, ...], Target] = {}
    for line, cells in lines:
        of = [k for k, cell in enumerate(cells) if cell and k != numbers[0]]
        columns, key = tuple(names[k] for k in of), tuple(cells[k] for k in of)
        totals = found.setdefault(columns, Target(columns, {})).totals
        if not of:
            raise FileError(path, f"line {line} names no category")
        if key in totals:
            raise FileError(path, f"line {line}: {named(columns, key)} is there twice")
        totals[key] = _number(path, line, cells[numbers[0]])
    if not found:
        raise FileError(path, "holds no targets")
    return list(found.values())


def named(columns: tuple[str, ...], key: tuple[str, ...]) -> str:
    """Return what a combination of categories is called."""
    return ", ".join(f"{column} = {category}" for column, category in zip(columns, key, strict=True))


def _number(path: Path, line: int, text: str) -> float:
    try:
        value = float(text) if text else math.nan
    except ValueError:
        value = math.inf
    if math.isinf(value) or value < 0.0:
        raise FileError(path, f"line {line} holds {text!r}, which is no number of at least 0")
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


def read_records(path: Path, columns: list[str], weight: str | None, tick: Callable[[int, int], object]) -> Records:
    """Return the categories and the design weights of all records."""
    suffix = path.suffix.lower()
    if suffix not in {*tables.TEXTS, *TABLES}:
        raise FileError(path, f"unknown kind of file {suffix!r} (known: csv, tsv, txt, parquet, arrow, feather)")
    known: list[dict[str, int]] = [{} for _ in columns]
    read = _of_arrow if suffix in TABLES else _of_csv
    blocks, weights = [np.empty((len(columns), 0), np.int64)], [np.empty(0)]
    for labels, codes, numbers in read(path, columns, weight, tick):
        blocks.append(
            np.stack(
                [
                    np.array([places.setdefault(label, len(places)) for label in own], np.int64)[code]
                    for places, own, code in zip(known, labels, codes, strict=True)
                ]
            )
        )
        weights.append(numbers)
    every = np.concatenate(blocks, axis=1)
    if not every.shape[1]:
        raise FileError(path, "holds no records")
    return Records([list(own) for own in known], every, None if weight is None else np.concatenate(weights))


Block = tuple[list[list[str]], list[np.ndarray], np.ndarray]


def _of_arrow(
    path: Path, columns: list[str], weight: str | None, tick: Callable[[int, int], object]
) -> Iterator[Block]:
    tables.needs("pyarrow", path)
    names, total, parts = tables.arrow_batches(path)
    places = [tables.column_named(path, names, name) for name in [*columns, *([weight] if weight is not None else [])]]
    done = 0
    for arrays in parts(places):
        with tables.understood(path, "not readable"):
            found = [tables.arrow_labels(path, name, one, done) for name, one in zip(columns, arrays, strict=False)]
            numbers = np.empty(0) if weight is None else _weights(path, weight, arrays[-1])
        yield [[str(label) for label in one.labels] for one in found], [one.codes for one in found], numbers
        done += len(arrays[0])
        tick(done, total)


def _weights(path: Path, name: str, column: Any) -> np.ndarray:
    """Return a column of numbers; what is missing is NaN, which raking refuses by its row."""
    numbers = column.to_numpy(zero_copy_only=False)
    if numbers.dtype.kind not in "uif":
        raise FileError(path, f"column {name!r} must hold numbers, but is {column.type}")
    return np.asarray(numbers, np.float64)


def _of_csv(path: Path, columns: list[str], weight: str | None, tick: Callable[[int, int], object]) -> Iterator[Block]:
    lines = tables.csv_lines(path)
    total = path.stat().st_size
    _, first, done = next(lines)
    names = [name.strip() for name in first]
    places = [tables.column_named(path, names, name) for name in columns]
    at = None if weight is None else tables.column_named(path, names, weight)
    labels: list[dict[str, int]] = [{} for _ in columns]
    codes: list[list[int]] = [[] for _ in columns]
    numbers = []
    for line, row, read in lines:
        for name, place, known, code in zip(columns, places, labels, codes, strict=True):
            cell = row[place].strip()
            if not cell:
                raise FileError(path, f"line {line} has an empty cell in column {name!r}")
            code.append(known.setdefault(cell, len(known)))
        if at is not None:
            numbers.append(_number(path, line, row[at].strip()))
        if read - done > tables.BLOCK_BYTES:
            done = read
            tick(done, total)
    tick(total, total)
    yield [list(own) for own in labels], [np.array(code, np.int64) for code in codes], np.array(numbers)


def matched(
    source: Path, targets: list[Target], records: Records, columns: list[str]
) -> tuple[np.ndarray, list[tuple[tuple[int, ...], np.ndarray]], list[str]]:
    """Return codes, the targets of each margin as an array, and what all of their lines are called.

    Categories that targets name and no record has come behind the others. Refuses records of which no target says
    anything: an empty cell in the table of targets says that nothing is asked of them.
    """
    known = [{label: k for k, label in enumerate(own)} for own in records.categories]
    for target in targets:
        for key in target.totals:
            for column, label in zip(target.columns, key, strict=True):
                places = known[columns.index(column)]
                places.setdefault(label, len(places))
    margins, words = [], []
    for target in targets:
        of = tuple(columns.index(column) for column in target.columns)
        labels = [list(known[axis]) for axis in of]
        shape = tuple(map(len, labels))
        totals = np.full(shape, np.nan)
        for key, total in target.totals.items():
            totals[tuple(known[axis][label] for axis, label in zip(of, key, strict=True))] = total
        seen = np.zeros(shape, np.bool_)
        seen[tuple(records.codes[axis] for axis in of)] = True
        names = [named(target.columns, key) for key in product(*labels)]
        for k in np.flatnonzero(seen & np.isnan(totals)):
            key = tuple(own[i] for own, i in zip(labels, np.unravel_index(k, shape), strict=True))
            if key not in target.totals:
                raise FileError(source, f"holds records of {names[k]}, of which no target says anything")
        margins.append((of, totals))
        words += names
    return records.codes, margins, words
