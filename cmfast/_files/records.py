"""Records of a survey from a table, and their categories matched with those of which totals are known."""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cmfast._files import tables, tidy_totals
from cmfast._files.output import FileError
from cmfast._files.points import TABLES
from cmfast._files.tidy_totals import Target, Totals

Tick = Callable[[int, int], object]
Margin = tuple[tuple[int, ...], np.ndarray]


class SurveyRecords(NamedTuple):
    """Categories of records, in columns, and the numbers that they have."""

    columns: list[str]
    categories: list[list[str]]
    codes: np.ndarray  # (columns, records) int64
    numbers: dict[str, np.ndarray]
    weights: np.ndarray | None


class Wanted(NamedTuple):
    """Which columns of a table are read."""

    categories: list[str]
    numbers: list[str]
    weight: str | None

    @property
    def of_numbers(self) -> list[str]:
        """The columns of numbers, weights last."""
        return [*self.numbers, *([] if self.weight is None else [self.weight])]


def read_records(
    path: Path, known: Totals, weight: str | None, by: str | None, tick: Tick, more: Sequence[str] = ()
) -> SurveyRecords:
    """Return the categories, numbers and design weights of all records, as far as totals ask for them.

    And the numbers of `more` columns.
    """
    suffix = path.suffix.lower()
    if suffix not in {*tables.TEXTS, *TABLES}:
        raise FileError(path, f"unknown kind of file {suffix!r} (known: csv, tsv, txt, parquet, arrow, feather)")
    columns = list(dict.fromkeys(column for target in known.targets for column in target.columns))
    numbers_of = [*(target.of for target in known.targets if target.of), *more]
    wanted = Wanted(columns, list(dict.fromkeys(numbers_of)), weight)
    labels: list[dict[str, int]] = [{} for _ in columns]
    read = _of_arrow if suffix in TABLES else _of_csv
    blocks, numbers = [np.empty((len(columns), 0), np.int64)], [np.empty((len(wanted.of_numbers), 0))]
    for own, codes, values in read(path, wanted, by, tick):
        blocks.append(np.empty((len(columns), values.shape[1]), np.int64))
        for line, places, of_block, code in zip(blocks[-1], labels, own, codes, strict=True):
            line[:] = np.array([places.setdefault(label, len(places)) for label in of_block], np.int64)[code]
        numbers.append(values)
    every, values = np.concatenate(blocks, axis=1), np.concatenate(numbers, axis=1)
    if not every.shape[1]:
        raise FileError(path, "holds no records")
    named = dict(zip(wanted.numbers, values, strict=False))
    return SurveyRecords(columns, [list(own) for own in labels], every, named, None if weight is None else values[-1])


Block = tuple[list[list[str]], list[np.ndarray], np.ndarray]


def _without(path: Path, names: list[str], by: str | None) -> None:
    """Refuse a column that has areas in the table of records, too: all records are of each."""
    if by in names:
        raise FileError(path, f"has a column {by!r}, too; totals of its categories need no --by")


def _of_arrow(path: Path, wanted: Wanted, by: str | None, tick: Tick) -> Iterator[Block]:
    tables.needs("pyarrow", path)
    names, total, parts = tables.arrow_batches(path)
    _without(path, names, by)
    places = [tables.column_named(path, names, name) for name in (*wanted.categories, *wanted.of_numbers)]
    done, n = 0, len(wanted.categories)
    for arrays in parts(places):
        with tables.understood(path, "not readable"):
            found = [tables.arrow_labels(path, name, one, done) for name, one in zip(wanted.categories, arrays[:n])]  # noqa: B905
            values = [_numbers(path, name, one) for name, one in zip(wanted.of_numbers, arrays[n:], strict=True)]
        for name, line in zip(wanted.numbers, values, strict=False):
            for row in np.flatnonzero(~np.isfinite(line))[:1]:
                raise FileError(path, f"row {done + row} has no number in column {name!r}")
        size = len(arrays[0])
        yield (
            [[str(label) for label in one.labels] for one in found],
            [one.codes for one in found],
            np.array(values, np.float64).reshape(len(values), size),
        )
        done += size
        tick(done, total)


def _numbers(path: Path, name: str, column: Any) -> np.ndarray:
    """Return a column of numbers; what is missing is NaN."""
    numbers = column.to_numpy(zero_copy_only=False)
    if numbers.dtype.kind not in "uifb":
        raise FileError(path, f"column {name!r} must hold numbers, but is {column.type}")
    return np.asarray(numbers, np.float64)


def _of_csv(path: Path, wanted: Wanted, by: str | None, tick: Tick) -> Iterator[Block]:
    lines = tables.csv_lines(path)
    total = path.stat().st_size
    _, first, done = next(lines)
    names = [name.strip() for name in first]
    _without(path, names, by)
    places = [tables.column_named(path, names, name) for name in wanted.categories]
    at = [tables.column_named(path, names, name) for name in wanted.of_numbers]
    labels: list[dict[str, int]] = [{} for _ in places]
    codes: list[list[int]] = [[] for _ in places]
    numbers: list[list[float]] = [[] for _ in at]
    for line, row, read in lines:
        for k in (*places, *at[: len(wanted.numbers)]):
            if not row[k].strip():
                raise FileError(path, f"line {line} has an empty cell in column {names[k]!r}")
        for place, known, code in zip(places, labels, codes, strict=True):
            code.append(known.setdefault(row[place].strip(), len(known)))
        for name, place, own in zip(wanted.of_numbers, at, numbers, strict=True):
            least = None if name in wanted.numbers else 0.0
            own.append(tidy_totals.number(path, line, row[place].strip(), least=least))
        if read - done > tables.MATRIX_BLOCK_BYTES:
            done = read
            tick(done, total)
    tick(total, total)
    n = max([*map(len, codes), *map(len, numbers)])
    columns = [np.array(code, np.int64) for code in codes]
    yield [list(own) for own in labels], columns, np.array(numbers, np.float64).reshape(len(numbers), n)


class Matched(NamedTuple):
    """Categories and totals by their numbers."""

    margins: list[Margin]  # attributes, and totals of shape ([areas,] *categories)
    names: list[str]  # of all lines of all margins
    importance: np.ndarray  # of each line; NaN where none is given


def matched(source: Path, known: Totals, records: SurveyRecords, *, by_area: bool) -> Matched:
    """Return the totals of each target as an array, what all of their lines are called, and how important they are.

    Categories that totals name and no record has come behind the others. Refuses records of which no target says
    anything: an empty cell in the table of targets says that nothing is asked of them.
    """
    places = [{label: k for k, label in enumerate(own)} for own in records.categories]
    for target in known.targets:
        for key in target.totals:
            for column, label in zip(target.columns, key, strict=True):
                own = places[records.columns.index(column)]
                own.setdefault(label, len(own))
    margins, words, importances = [], [], []
    for target in known.targets:
        of = tuple(records.columns.index(column) for column in target.columns)
        labels = [list(places[axis]) for axis in of]
        shape = tuple(map(len, labels))
        wanted, importance = np.full((*shape, len(known.areas)), np.nan), np.full(shape, np.nan)
        for key in target.totals:
            at = tuple(places[axis][label] for axis, label in zip(of, key, strict=True))
            wanted[at] = tidy_totals.by_area(target, key, known.areas)
            importance[at] = target.importance.get(key, np.nan)
        _check_seen(source, target, records, labels, of)
        margins.append((of, np.moveaxis(wanted, -1, 0) if by_area else wanted[..., 0]))
        words += [target.named(key) for key in product(*labels)]
        importances.append(importance.ravel())
    return Matched(margins, words, np.concatenate(importances))


def _check_seen(
    source: Path, target: Target, records: SurveyRecords, labels: list[list[str]], of: tuple[int, ...]
) -> None:
    """Refuse records of categories that no row names."""
    if not of:
        return
    seen = np.zeros(tuple(map(len, labels)), np.bool_)
    seen[tuple(records.codes[axis] for axis in of)] = True
    for at in np.argwhere(seen):
        key = tuple(own[k] for own, k in zip(labels, at, strict=True))
        if key not in target.totals:
            raise FileError(source, f"holds records of {target.named(key)}, of which no target says anything")


def design(records: SurveyRecords, known: Totals, found: Matched) -> Any:
    """Return what each record adds to each line of all margins, as a sparse matrix."""
    from scipy.sparse import csr_array

    n, start = records.codes.shape[1], 0
    columns, numbers = np.empty((n, len(found.margins)), np.int64), np.ones((n, len(found.margins)))
    for k, (target, (of, wanted)) in enumerate(zip(known.targets, found.margins, strict=True)):
        shape = wanted.shape[wanted.ndim - len(of) :]
        codes = tuple(records.codes[axis] for axis in of)
        columns[:, k] = start + (np.ravel_multi_index(codes, shape) if of else 0)
        if target.of:
            numbers[:, k] = records.numbers[target.of]
        start += int(np.prod(shape))
    first = np.arange(0, columns.size + 1, len(found.margins))
    return csr_array((numbers.ravel(), columns.ravel(), first), shape=(n, start))
