"""Open batches of matrices in files: npy as a memory map; zarr and tables are copied once to a scratch file.

A table row has a matrix: a column of lists (C lists of C numbers, or C * C numbers), or a column per cell, row by row.
C rows of C cells are one matrix, unless C is a square number.
"""

from collections.abc import Callable, Iterator
from itertools import chain, islice
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np

from cmfast._files import label_columns, points, tables
from cmfast._files.csv_values import is_count, is_number
from cmfast._files.output import FileError
from cmfast._files.scratch import Scratch

TRUE_BY_PREDICTED = "true \\ predicted"  # names the first column of a matrix in a csv file
MATRIX_BLOCK_ROWS = 1 << 13  # table rows per block
TABLES = (*points.TABLES, *tables.TEXTS)

Tick = Callable[[int, int], object]


def open_matrices(path: Path, cells: list[str] | None, *, tick: Tick) -> np.ndarray:
    """Return the matrices of a file, shape (..., R, C), as an array read from disk on access.

    Parameters
    ----------
    path : Path
        npy, zarr, csv, tsv, Parquet, Arrow or Feather file, recognised by its suffix.
    cells : list of str, optional
        Columns of a table; default: all.
    tick : callable
        Progress callback ``(done, total)``: rows to copy, or bytes of a csv file.
    """
    suffix = path.suffix.lower()
    if suffix in points.TABLES:
        tables.require_module("pyarrow", path)
        return _reshape_to_matrices(path, _collect_blocks(_read_arrow_blocks(path, cells, tick)))
    if suffix in tables.TEXTS:
        if not cells and (counted := read_counted_table(path)) is not None:
            return counted[1]
        return _reshape_to_matrices(path, _collect_blocks(_read_text_blocks(path, cells, tick)))
    return points.open_array(path, tick=tick)


def is_square_table(path: Path) -> bool:
    """Whether a csv file holds one matrix of counts without labels: as many rows as columns, of numbers from 0.

    Not if the number of columns is a square number, as each row may then be a matrix itself.
    """
    lines = tables.csv_lines(path)
    first = next(lines)[1]
    C = len(first)
    if C < 2 or isqrt(C) ** 2 == C or not all(map(is_count, first)):
        return False
    rows = [row for _, row, _ in islice(lines, C)]
    return len(rows) == C - 1 and all(is_count(text) for row in rows for text in row)


def is_counted_table(path: Path) -> bool:
    """Whether a csv file holds a matrix with labels, as :func:`read_counted_table` reads it."""
    with path.open("rb") as file:
        start = file.readline(len(TRUE_BY_PREDICTED) + 8).strip(b'\xef\xbb\xbf"')
    if start.startswith(TRUE_BY_PREDICTED.encode()):
        return True
    try:
        return tables.is_labelled_matrix(path)
    except FileError:  # the reader of tables refuses the file with the same message
        return False


def read_counted_table(path: Path) -> tuple[list[str], np.ndarray] | None:
    """Return labels and matrix of a csv file that ``cmfast confusion`` or pandas wrote; None for any other file.

    It has a row per true class and a column per predicted class, after a first column of the true labels.
    """
    lines = tables.csv_lines(path)
    mark, *names = next(lines)[1] or [""]
    if mark != TRUE_BY_PREDICTED and not tables.is_labelled_matrix(path):
        return None
    rows = [(line, row) for line, row, _ in lines]
    if [row[0] for _, row in rows] != names:
        raise FileError(path, "has other classes in its rows than in its columns, or another order")
    if not names:
        raise FileError(path, "holds no cells")
    M = _parse_rows(path, [(line, row[1:]) for line, row in rows])
    if mark != TRUE_BY_PREDICTED and _has_totals(M):
        raise FileError(path, f"has sums in its last row and column, {names[-1]!r}; remove them")
    return names, M


def _has_totals(M: np.ndarray) -> bool:
    """Whether the last row and the last column of a matrix are the sums of all others, as with pandas' margins."""
    inner = M[:-1, :-1]
    sums = np.array_equal(M[-1, :-1], inner.sum(0)) and np.array_equal(M[:-1, -1], inner.sum(1))
    return bool(sums and M[-1, -1] == inner.sum() and inner.any())


def _collect_blocks(blocks: Iterator[np.ndarray]) -> np.ndarray:
    """Write blocks of rows to one scratch array: integers if all blocks are, else float64."""
    with Scratch() as out:
        kind: np.dtype | None = None
        for block in blocks:
            if kind is not None and kind.kind != "f" and block.dtype.kind == "f":
                return _convert_to_floats(out.mapped(), chain([block], blocks))
            kind = block.dtype if kind is None else kind
            out.append(block.astype(kind, copy=False))
        return out.mapped()


def _convert_to_floats(before: np.ndarray, blocks: Iterator[np.ndarray]) -> np.ndarray:
    """Rewrite integer rows as float64 and append the remaining blocks."""
    with Scratch() as out:
        for start in range(0, len(before), MATRIX_BLOCK_ROWS):
            out.append(before[start : start + MATRIX_BLOCK_ROWS].astype(np.float64))
        for block in blocks:
            out.append(block.astype(np.float64))
        return out.mapped()


def _reshape_to_matrices(path: Path, M: np.ndarray) -> np.ndarray:
    """Reshape rows of C * C cells to (n, C, C); C rows of C cells are one matrix if C is no square number."""
    if M.ndim == 3:
        return M
    C = isqrt(M.shape[-1])
    if not C:
        raise FileError(path, "holds no cells")
    if M.shape[-1] != C * C and M.shape[0] == M.shape[-1]:
        return M
    if M.shape[-1] != C * C:
        raise FileError(path, f"has {M.shape[-1]} cells in a row, which is not a square number; name them with --cells")
    return M.reshape(-1, C, C)


def _read_arrow_blocks(path: Path, cells: list[str] | None, tick: Tick) -> Iterator[np.ndarray]:
    """Yield blocks of matrices from a Parquet or Arrow file."""
    names, total, parts = tables.arrow_batches(path, MATRIX_BLOCK_ROWS)
    places = [label_columns.find_column(path, names, name) for name in cells] if cells else list(range(len(names)))
    done, core = 0, None
    for columns in parts(places):
        if not len(columns[0]):
            continue
        with tables.catch_reader_errors(path, "not readable"):
            chosen = zip(places, columns, strict=True)
            found = [_column_to_array(path, names[place], column, done) for place, column in chosen]
            flat = [one.reshape(len(one), -1) for one in found]
            M = found[0] if len(found) == 1 else np.concatenate(flat, axis=1)
        if core not in (None, M.shape[1:]):
            raise FileError(path, f"row {done} and further ones hold matrices of another shape than those before")
        yield M
        core = M.shape[1:]
        done += len(M)
        tick(done, total)
    if not done:
        raise FileError(path, "has no rows")


def _column_to_array(path: Path, name: str, column: Any, start: int) -> np.ndarray:
    """Convert an Arrow column of numbers, or of nested lists of numbers, to an array; raise for missing cells."""
    import pyarrow as pa

    values = column.storage if isinstance(column.type, pa.BaseExtensionType) else column
    if tuple(order := getattr(column.type, "permutation", None) or ()) != tuple(range(len(order))):
        raise FileError(path, f"column {name!r} holds tensors whose axes are in another order than their numbers")
    shape = [len(values)]
    while len(shape) < 4 and points.are_lists(values.type):
        values, length = points.flatten_lists(path, name, values)
        shape.append(length)
    kind = values.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise FileError(path, f"column {name!r} must hold numbers, but is {column.type}; name the cells with --cells")
    if values.null_count:
        row = int(np.argmax(values.is_null().to_numpy(zero_copy_only=False))) * shape[0] // len(values)
        raise FileError(path, f"row {start + row} of column {name!r}: a cell is missing (null)")
    numbers: np.ndarray = values.to_numpy(zero_copy_only=False)
    tensor = getattr(column.type, "shape", None)
    return numbers.reshape((-1, *tensor) if tensor else shape if len(shape) > 1 else (-1, 1))


def _read_text_blocks(path: Path, cells: list[str] | None, tick: Tick) -> Iterator[np.ndarray]:
    """Yield blocks of rows from a csv or tsv file; a first line of numbers is data unless `cells` are named."""
    lines = tables.csv_lines(path)
    total = path.stat().st_size
    first = next(lines)
    names = [name.strip() for name in first[1]]
    places = [label_columns.find_column(path, names, name) for name in cells] if cells else list(range(len(names)))
    if cells is None and all(map(is_number, names)):
        lines = chain([first], lines)
    done = 0
    while rows := list(islice(lines, MATRIX_BLOCK_ROWS)):
        yield _parse_rows(path, [(line, [row[k].strip() for k in places]) for line, row, _ in rows])
        done += len(rows)
        tick(min(rows[-1][2], total), total)
    if not done:
        raise FileError(path, "has no rows")


def _parse_rows(path: Path, rows: list[tuple[int, list[str]]]) -> np.ndarray:
    """Parse rows of texts as numbers: int64 if all are integers, else float64."""
    # One by one: an array of texts would pad each of them to the longest.
    for line, row in rows:
        tables.check_cells(path, [line] * len(row), [row])
    for parse, kind in ((int, np.int64), (float, np.float64)):
        try:
            return np.array([list(map(parse, row)) for _, row in rows], kind)
        except (ValueError, OverflowError):
            continue
    line, cell = next((line, cell) for line, row in rows for cell in row if not is_number(cell))
    raise FileError(path, f"line {line} holds {cell!r}, which is no number")
