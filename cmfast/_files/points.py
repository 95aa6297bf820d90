"""Open embeddings with labels and predictions from files larger than memory: npy, zarr, Parquet and Arrow.

Data that cannot be memory-mapped directly is copied once, block by block, to an unnamed file, because the points are
read in several passes.
"""

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from cmfast._files import label_columns, npy_objects, tables
from cmfast._files.output import FileError
from cmfast._files.scratch import Scratch, check_free_bytes
from cmfast._files.stores import Source, Url

TABLES = (*tables.PARQUET, *tables.IPC)
ZARR = ".zarr"
ARRAYS = (".npy", ZARR)
POINT_BLOCK_ROWS = 1 << 16  # table rows per block
ZARR_BLOCK_BYTES = 1 << 24  # bytes of a zarr array per block

Points = tuple[np.ndarray, np.ndarray, np.ndarray]
Tick = Callable[[int, int], object]


class NoRowsError(FileError):
    """A table has no rows, and so no points."""


def open_points(path: Source, true: str, pred: str, features: list[str] | None, *, tick: Tick) -> Points:
    """Return ``(X, y_true, y_pred)`` as arrays read from disk on access.

    Parameters
    ----------
    path : Path
        Embeddings (n, m) as npy or zarr; or a Parquet, Arrow or Feather table, recognised by its suffix.
    true, pred : str
        Files of labels and predictions; for a table, its columns.
    features : list of str, optional
        Columns of the table with numbers or equally long lists of numbers; default: all other columns.
    tick : callable
        Progress callback ``(done, total)`` in rows to copy.
    """
    if path.suffix.lower() in TABLES:
        _, X, (y, p) = _read_table(path, [true, pred], features, tick)
        return X, y, p
    X, y, p = (open_array(each, tick=tick) for each in (path, Path(true), Path(pred)))
    return X, y, p


def open_labels(path: Source, true: str, pred: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the class ids in two columns of a table, without reading the points."""
    names, _, parts = tables.arrow_batches(path)
    places = [label_columns.find_column(path, names, name) for name in (true, pred)]
    blocks = [np.empty((2, 0), np.int64)]
    done = 0
    for columns in parts(places):
        with tables.catch_reader_errors(path, "not readable"):
            pairs = zip((true, pred), columns, strict=True)
            blocks.append(np.stack([_column_to_classes(path, name, column, done, None) for name, column in pairs]))
        done += len(columns[0])
    y, p = np.concatenate(blocks, axis=1)
    return y, p


def open_rows(
    path: Source, label: str | None, features: list[str] | None, *, tick: Tick
) -> tuple[list[str] | None, np.ndarray, np.ndarray | None]:
    """Return column names, rows and labels of a file; names are None unless it is a table.

    Parameters
    ----------
    path, features, tick
        As for :func:`open_points`.
    label : str, optional
        File of the labels; for a table a column, whose text labels must be names of feature columns.
    """
    if path.suffix.lower() in TABLES:
        names, X, labels = _read_table(path, [] if label is None else [label], features, tick, by_name=True)
        return names, X, labels[0] if labels else None
    return None, open_array(path, tick=tick), None if label is None else open_array(Path(label), tick=tick)


def iter_labels(
    paths: Sequence[Source], *, tick: Tick, rows: tuple[int, int] | None = None
) -> Iterator[list[tables.Column]]:
    """Yield blocks of labels from separate npy or zarr files: truth, prediction, and groups if given.

    `rows` is the range (start, stop) to read; None: all rows.
    """
    arrays = [open_array(path, tick=lambda done, total: None, rows=rows) for path in paths]
    n = _check_lengths(paths, [array.shape for array in arrays])
    for start in range(0, max(n, 1), tables.TABLE_BLOCK_ROWS):
        stop = min(start + tables.TABLE_BLOCK_ROWS, n)
        parts = [np.array(array[start:stop]) for array in arrays]
        first = start + (rows[0] if rows else 0)
        block = [tables.encode_column(path, part, first) for path, part in zip(paths, parts, strict=True)]
        yield tables.unify_kinds(paths[1], block)
        tick(stop, n)


def _check_lengths(paths: Sequence[Source], shapes: Sequence[tuple[int, ...]]) -> int:
    """Return the common number of labels of one-dimensional arrays; raise FileError if they differ."""
    n = shapes[0][0] if shapes[0] else 0
    for path, shape in zip(paths, shapes, strict=True):
        if len(shape) != 1:
            raise FileError(path, f"must be of shape (n,), a label per sample, but is {shape}")
        if shape != (n,):
            raise FileError(path, f"holds {shape[0]:,} labels, but {paths[0]} {n:,}")
    return n


def count_labels(paths: Sequence[Source], most: int) -> tuple[int, int]:
    """Return the number of labels in files that belong together, and a block size of about `most` in whole chunks."""
    shapes, _, chunks = zip(*map(read_layout, paths), strict=True)
    return _check_lengths(paths, shapes), round_to_chunks(most, chunks[0])


def round_to_chunks(rows: int, chunk: int) -> int:
    """Round a number of rows down to whole chunks, at least one."""
    return max(rows // chunk, 1) * chunk


def open_array(path: Source, *, tick: Tick, rows: tuple[int, int] | None = None) -> np.ndarray:
    """Return an npy or zarr array as a memory map; `rows` is the range (start, stop) to read."""
    if path.suffix.lower() != ZARR:
        if isinstance(path, Url):
            return npy_objects.read_rows(path, rows)
        array = tables.open_npy(path)
        return array if rows is None or not array.ndim else array[slice(*rows)]
    with _open_zarr(path) as (loop, array), Scratch() as out:
        first, last = (0, array.shape[0]) if rows is None else rows
        shape, done = (last - first, *array.shape[1:]), 0
        check_free_bytes(path, math.prod(shape) * array.dtype.itemsize)
        for part in _iterate_blocks(shape, array.chunks, array.dtype.itemsize):
            place = (slice(first + part[0].start, min(first + part[0].stop, last)), *part[1:])
            with tables.catch_reader_errors(path, "damaged zarr array"):
                block = np.asarray(loop.run(array.getitem(place)))
            out.append(block.ravel())
            done += block.size
            tick(done * shape[0] // max(math.prod(shape), 1), shape[0])
        return out.mapped().reshape(shape)


def _iterate_blocks(shape: tuple[int, ...], chunks: tuple[int, ...], itemsize: int) -> Iterator[tuple[slice, ...]]:
    """Yield slices that tile an array in C order, whole chunks if they fit, because each chunk is read as a whole."""
    each = math.prod(shape[1:]) * itemsize
    if each > ZARR_BLOCK_BYTES and shape[0] and shape[1:]:
        for k in range(shape[0]):
            yield from ((slice(k, k + 1), *rest) for rest in _iterate_blocks(shape[1:], chunks[1:], itemsize))
        return
    step = round_to_chunks(ZARR_BLOCK_BYTES // max(each, 1), chunks[0])
    yield from ((slice(start, start + step),) for start in range(0, max(shape[0], 1), step))


@contextmanager
def _open_zarr(path: Source) -> Iterator[tuple[Any, Any]]:
    """Yield an event loop and a numeric zarr array that is read in it."""
    tables.require_module("zarr", path)
    if isinstance(path, Path):
        for folder, _, names in os.walk(path):
            for name in names:
                tables.check_source(Path(folder, name))  # reading a pipe would block forever
    import asyncio

    from zarr.api import asynchronous

    from cmfast._files.zarr_store import open_store

    # An own event loop, which waits for pending reads when a chunk is damaged.
    with asyncio.Runner() as loop:
        with tables.catch_reader_errors(path, "is no zarr array"):
            array = loop.run(asynchronous.open_array(store=loop.run(open_store(path)), mode="r"))
            if array.ndim == 0 or array.dtype.kind not in "biuf":
                raise FileError(
                    path, f"must hold numbers in rows, but is of shape {array.shape} and dtype {array.dtype}"
                )
            if array.chunks[0] < 1:
                raise FileError(path, "is no zarr array (it has chunks without rows)")
        yield loop, array


def read_layout(path: Source) -> tuple[tuple[int, ...], np.dtype, int]:
    """Return shape, dtype and rows per chunk of an npy (1) or zarr array."""
    if path.suffix.lower() != ZARR:
        if isinstance(path, Url):
            return npy_objects.read_layout(path)
        array = tables.open_npy(path)
        return array.shape, array.dtype, 1
    with _open_zarr(path) as (_, array):
        return array.shape, array.dtype, array.chunks[0]


def _read_table(
    path: Source, of_labels: list[str], features: list[str] | None, tick: Tick, *, by_name: bool = False
) -> tuple[list[str], np.ndarray, list[np.ndarray]]:
    """Read feature columns and label columns of a table; with `by_name` text labels are names of feature columns."""
    tables.require_module("pyarrow", path)
    names, total, parts = tables.arrow_batches(path, POINT_BLOCK_ROWS)
    labels = [label_columns.find_column(path, names, name) for name in of_labels]
    if features:
        wanted = [label_columns.find_column(path, names, name) for name in features]
    else:
        wanted = [k for k in range(len(names)) if k not in labels]
    if not wanted:
        raise FileError(path, "has no columns but the labels")
    classes = [names[k] for k in wanted]
    with Scratch() as X, ExitStack() as stack:
        ids = [stack.enter_context(Scratch()) for _ in labels]
        done = 0
        for columns in parts([*wanted, *labels]):
            rows = len(columns[0])
            if not rows:
                continue
            named = [(names[k], column) for k, column in zip([*wanted, *labels], columns, strict=True)]
            with tables.catch_reader_errors(path, "not readable"):
                points = np.concatenate([_column_to_numbers(path, *each) for each in named[: len(wanted)]], axis=1)
                known = classes if by_name and points.shape[1] == len(classes) else None
                found = [_column_to_classes(path, name, column, done, known) for name, column in named[len(wanted) :]]
            X.append(points)
            for one, block in zip(ids, found, strict=True):
                one.append(block)
            done += rows
            tick(done, total)
        if not done:
            raise NoRowsError(path, "has no rows")
        return classes, X.mapped(), [one.mapped() for one in ids]


def are_lists(kind: Any) -> bool:
    """Whether an Arrow type is a list type."""
    import pyarrow as pa

    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def flatten_lists(path: Source, name: str, column: Any) -> tuple[Any, int]:
    """Return the concatenated values of a column of lists, and their common length."""
    import pyarrow as pa

    values = column.flatten()
    length, rest = divmod(len(values), len(column))
    same = column.null_count == 0 and not rest
    if same and not pa.types.is_fixed_size_list(column.type):
        same = bool((column.value_lengths().to_numpy(zero_copy_only=False) == length).all())
    if not same:
        raise FileError(path, f"the lists of column {name!r} are not all of one length")
    return values, length


def _column_to_numbers(path: Source, name: str, column: Any) -> np.ndarray:
    """Return a column as (rows, 1), or a column of lists as (rows, length); missing values become NaN."""
    import pyarrow as pa

    values, length = flatten_lists(path, name, column) if are_lists(column.type) else (column, 1)
    kind = values.type
    if pa.types.is_boolean(kind):
        values = values.cast(pa.int8())  # integers with nulls convert to floats with NaN, bools would not
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise FileError(path, f"column {name!r} must hold numbers, but is {kind}; name the features with --features")
    numbers: np.ndarray = values.to_numpy(zero_copy_only=False)
    narrow = pa.types.is_floating(kind) and kind.bit_width <= 32
    return numbers.astype(np.float32 if narrow else np.float64, copy=False).reshape(-1, length)


def _column_to_classes(path: Source, name: str, column: Any, start: int, known: list[str] | None) -> np.ndarray:
    """Return class ids of a column; text labels become positions in `known`."""
    import pyarrow as pa

    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise FileError(path, f"row {start + row}: a label is missing in column {name!r}")
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if known is not None and (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return _match_names(path, name, column, start, known)
    if not pa.types.is_integer(column.type):
        raise FileError(path, f"column {name!r} must hold class ids 0, 1, ..., but is {column.type}")
    ids: np.ndarray = column.to_numpy(zero_copy_only=False)
    if ids.dtype == np.uint64 and (large := np.flatnonzero(ids >> 63)).size:
        row = int(large[0])
        raise FileError(path, f"row {start + row} of column {name!r} holds {ids[row]}, which is no class id")
    return ids.astype(np.int64)


def _match_names(path: Source, name: str, column: Any, start: int, known: list[str]) -> np.ndarray:
    """Return the position of each text label in the `known` names; raise FileError for unknown ones."""
    import pyarrow as pa
    import pyarrow.compute as pc

    options = pc.SetLookupOptions(pa.array(known, column.type))
    places = pc.call_function("index_in", [column], options)
    if places.null_count:
        row = int(np.argmax(places.is_null().to_numpy(zero_copy_only=False)))
        label, names = column[row].as_py(), ", ".join(known)
        raise FileError(path, f"row {start + row}: label {label!r} of column {name!r} names no other column ({names})")
    ids: np.ndarray = places.to_numpy(zero_copy_only=False)
    return ids.astype(np.int64)
