"""Matrices in files of every kind: npy as a map; zarr, and tables with a matrix in each row, copied once to disk.

A row has a column of lists, (C lists of C numbers or C * C of them), or a column for each cell, row by row.
"""

from collections.abc import Callable, Iterator
from itertools import chain, islice
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np

from cmfast._files import points, tables
from cmfast._files.output import FileError
from cmfast._files.scratch import Scratch

MATRIX_BLOCK_ROWS = 1 << 13  # of a table, per block
TABLES = (*points.TABLES, *tables.TEXTS)

Tick = Callable[[int, int], object]


def open_matrices(path: Path, cells: list[str] | None, *, tick: Tick) -> np.ndarray:
    """Return the array of a file (..., R, C), which is read from disk where it is touched.

    Parameters
    ----------
    path : Path
        npy, zarr, csv, tsv, Parquet, Arrow or Feather, told by the suffix.
    cells : list of str, optional
        Columns of a table; default: all.
    tick : callable
        Called with ``(done, total)``: rows of what has to be copied, or bytes of a csv file.
    """
    suffix = path.suffix.lower()
    if suffix in points.TABLES:
        tables.needs("pyarrow", path)
        return _shaped(path, _gathered(_of_arrow(path, cells, tick)))
    if suffix in tables.TEXTS:
        return _shaped(path, _gathered(_of_text(path, cells, tick)))
    return points.open_array(path, tick=tick)


def _gathered(blocks: Iterator[np.ndarray]) -> np.ndarray:
    """Return blocks of rows as one array on disk: of integers as long as all are."""
    with Scratch() as out:
        kind: np.dtype | None = None
        for block in blocks:
            if kind is not None and kind.kind != "f" and block.dtype.kind == "f":
                return _as_floats(out.mapped(), chain([block], blocks))
            kind = block.dtype if kind is None else kind
            out.append(block.astype(kind, copy=False))
        return out.mapped()


def _as_floats(before: np.ndarray, blocks: Iterator[np.ndarray]) -> np.ndarray:
    with Scratch() as out:
        for start in range(0, len(before), MATRIX_BLOCK_ROWS):
            out.append(before[start : start + MATRIX_BLOCK_ROWS].astype(np.float64))
        for block in blocks:
            out.append(block.astype(np.float64))
        return out.mapped()


def _shaped(path: Path, M: np.ndarray) -> np.ndarray:
    """Return rows of cells as matrices."""
    if M.ndim == 3:
        return M
    C = isqrt(M.shape[-1])
    if not C:
        raise FileError(path, "holds no cells")
    if M.shape[-1] != C * C:
        raise FileError(path, f"has {M.shape[-1]} cells in a row, which are no square matrix; name them with --cells")
    return M.reshape(-1, C, C)


def _of_arrow(path: Path, cells: list[str] | None, tick: Tick) -> Iterator[np.ndarray]:
    names, total, parts = tables.arrow_batches(path, MATRIX_BLOCK_ROWS)
    places = [tables.column_named(path, names, name) for name in cells] if cells else list(range(len(names)))
    done, core = 0, None
    for columns in parts(places):
        if not len(columns[0]):
            continue
        with tables.understood(path, "not readable"):
            chosen = zip(places, columns, strict=True)
            found = [_cells(path, names[place], column, done) for place, column in chosen]
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


def _cells(path: Path, name: str, column: Any, start: int) -> np.ndarray:
    """Return a column of numbers, of lists of them, or of lists of lists of them."""
    import pyarrow as pa

    values = column.storage if isinstance(column.type, pa.BaseExtensionType) else column
    if tuple(order := getattr(column.type, "permutation", None) or ()) != tuple(range(len(order))):
        raise FileError(path, f"column {name!r} holds tensors whose axes are in another order than their numbers")
    shape = [len(values)]
    while len(shape) < 4 and points.are_lists(values.type):
        values, length = points.flattened(path, name, values)
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


def _of_text(path: Path, cells: list[str] | None, tick: Tick) -> Iterator[np.ndarray]:
    lines = tables.csv_lines(path)
    total = path.stat().st_size
    first = next(lines)
    names = [name.strip() for name in first[1]]
    places = [tables.column_named(path, names, name) for name in cells] if cells else list(range(len(names)))
    if cells is None and all(map(_is_number, names)):
        lines = chain([first], lines)
    done = 0
    while rows := list(islice(lines, MATRIX_BLOCK_ROWS)):
        yield _numbers(path, [(line, [row[k].strip() for k in places]) for line, row, _ in rows])
        done += len(rows)
        tick(min(rows[-1][2], total), total)
    if not done:
        raise FileError(path, "has no rows")


def _numbers(path: Path, rows: list[tuple[int, list[str]]]) -> np.ndarray:
    """Return rows of numbers: integers if all of them are."""
    texts = np.array([row for _, row in rows])
    for kind in (np.int64, np.float64):
        try:
            return texts.astype(kind)
        except (ValueError, OverflowError):
            continue
    line, cell = next((line, cell) for line, row in rows for cell in row if not _is_number(cell))
    raise FileError(path, f"line {line} holds {cell!r}, which is no number")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
