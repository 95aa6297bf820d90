"""Read survey respondents from a table and match their categories with the known population totals."""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cmfast._files import label_columns, survey_totals, tables
from cmfast._files.output import FileError
from cmfast._files.points import TABLES
from cmfast._files.survey_totals import Target, Totals

Tick = Callable[[int, int], object]
Margin = tuple[tuple[int, ...], np.ndarray]


class SurveyRecords(NamedTuple):
    """Survey respondents: categories per column as codes, numeric columns and design weights."""

    columns: list[str]
    categories: list[list[str]]
    codes: np.ndarray  # (columns, records) int64
    numbers: dict[str, np.ndarray]
    weights: np.ndarray | None


class WantedColumns(NamedTuple):
    """Columns of the table to read."""

    categories: list[str]
    numbers: list[str]
    weight: str | None

    @property
    def number_columns(self) -> list[str]:
        """The numeric columns, weights last."""
        return [*self.numbers, *([] if self.weight is None else [self.weight])]


def read_records(
    path: Path, known: Totals, weight: str | None, by: str | None, tick: Tick, more: Sequence[str] = ()
) -> SurveyRecords:
    """Read categories, numbers and design weights of all respondents, for the columns that the totals need.

    `more` names further numeric columns.
    """
    suffix = path.suffix.lower()
    if suffix not in {*tables.TEXTS, *TABLES}:
        raise tables.unknown_kind(path, "csv, tsv, txt, parquet, arrow, feather")
    columns = list(dict.fromkeys(column for target in known.targets for column in target.columns))
    numbers_of = [*(target.of for target in known.targets if target.of), *more]
    wanted = WantedColumns(columns, list(dict.fromkeys(numbers_of)), weight)
    labels: list[dict[str, int]] = [{} for _ in columns]
    read = _read_arrow_blocks if suffix in TABLES else _read_csv_blocks
    blocks, numbers = [np.empty((len(columns), 0), np.int64)], [np.empty((len(wanted.number_columns), 0))]
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


def _refuse_area_column(path: Path, names: list[str], by: str | None) -> None:
    """Raise FileError if the respondents' table has the area column `by`: each respondent belongs to all areas."""
    if by in names:
        raise FileError(path, f"has a column {by!r}, too; totals of its categories need no --by")


def _read_arrow_blocks(path: Path, wanted: WantedColumns, by: str | None, tick: Tick) -> Iterator[Block]:
    """Yield blocks of categories, codes and numbers from a Parquet or Arrow file."""
    tables.require_module("pyarrow", path)
    names, total, parts = tables.arrow_batches(path)
    _refuse_area_column(path, names, by)
    places = [label_columns.find_column(path, names, name) for name in (*wanted.categories, *wanted.number_columns)]
    done, n = 0, len(wanted.categories)
    for arrays in parts(places):
        with tables.catch_reader_errors(path, "not readable"):
            pairs = zip(wanted.categories, arrays[:n], strict=False)
            found = [tables.read_arrow_labels(path, name, one, done) for name, one in pairs]
            values = [
                _column_to_numbers(path, name, one) for name, one in zip(wanted.number_columns, arrays[n:], strict=True)
            ]
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


def _column_to_numbers(path: Path, name: str, column: Any) -> np.ndarray:
    """Return a numeric column as float64; missing values become NaN."""
    numbers = column.to_numpy(zero_copy_only=False)
    if numbers.dtype.kind not in "uifb":
        raise FileError(path, f"column {name!r} must hold numbers, but is {column.type}")
    return np.asarray(numbers, np.float64)


def _read_csv_blocks(path: Path, wanted: WantedColumns, by: str | None, tick: Tick) -> Iterator[Block]:
    """Yield one block of categories, codes and numbers from a csv or tsv file."""
    lines = tables.csv_lines(path)
    total = path.stat().st_size
    _, first, done = next(lines)
    names = [name.strip() for name in first]
    _refuse_area_column(path, names, by)
    places = [label_columns.find_column(path, names, name) for name in wanted.categories]
    at = [label_columns.find_column(path, names, name) for name in wanted.number_columns]
    labels: list[dict[str, int]] = [{} for _ in places]
    codes: list[list[int]] = [[] for _ in places]
    numbers: list[list[float]] = [[] for _ in at]
    for line, row, read in lines:
        for k in (*places, *at[: len(wanted.numbers)]):
            if not row[k].strip():
                raise FileError(path, f"line {line} has an empty cell in column {names[k]!r}")
        for place, known, code in zip(places, labels, codes, strict=True):
            code.append(known.setdefault(row[place].strip(), len(known)))
        for name, place, own in zip(wanted.number_columns, at, numbers, strict=True):
            least = None if name in wanted.numbers else 0.0
            own.append(survey_totals.parse_number(path, line, row[place].strip(), least=least))
        if read - done > tables.MATRIX_BLOCK_BYTES:
            done = read
            tick(done, total)
    tick(total, total)
    n = max([*map(len, codes), *map(len, numbers)])
    columns = [np.array(code, np.int64) for code in codes]
    yield [list(own) for own in labels], columns, np.array(numbers, np.float64).reshape(len(numbers), n)


class MatchedTotals(NamedTuple):
    """Totals as arrays over the categories' codes."""

    margins: list[Margin]  # columns, and totals of shape ([areas,] *categories)
    names: list[str]  # of all totals of all margins
    importance: np.ndarray  # penalty weight of each total; NaN if not given


def match_totals(source: Path, known: Totals, records: SurveyRecords, *, by_area: bool) -> MatchedTotals:
    """Match totals with respondents: return totals as arrays, their names and their penalty weights.

    Categories without respondents come last. Raises FileError for respondents in a category without a row in the table
    of totals; an empty total there leaves the category unconstrained.
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
            wanted[at] = survey_totals.collect_areas(target, key, known.areas)
            importance[at] = target.importance.get(key, np.nan)
        _check_coverage(source, target, records, labels, of)
        margins.append((of, np.moveaxis(wanted, -1, 0) if by_area else wanted[..., 0]))
        words += [target.describe(key) for key in product(*labels)]
        importances.append(importance.ravel())
    return MatchedTotals(margins, words, np.concatenate(importances))


def _check_coverage(
    source: Path, target: Target, records: SurveyRecords, labels: list[list[str]], of: tuple[int, ...]
) -> None:
    """Raise FileError for respondents in categories that no row of the totals names."""
    if not of:
        return
    seen = np.zeros(tuple(map(len, labels)), np.bool_)
    seen[tuple(records.codes[axis] for axis in of)] = True
    for at in np.argwhere(seen):
        key = tuple(own[k] for own, k in zip(labels, at, strict=True))
        if key not in target.totals:
            raise FileError(source, f"holds records of {target.describe(key)}, of which no target says anything")


def make_design_matrix(records: SurveyRecords, known: Totals, found: MatchedTotals) -> Any:
    """Return the sparse design matrix: the contribution of each respondent to each total."""
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
