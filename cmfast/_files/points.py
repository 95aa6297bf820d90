"""Embeddings with labels and predictions from files larger than memory: npy, zarr, Parquet and Arrow.

What cannot be mapped as it is, is copied once, block by block, to a file without a name: every pass over the points
(there are several) then reads plain numbers.
"""

import math
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from cmfast._files import tables
from cmfast._files.output import FileError
from cmfast._files.scratch import Scratch

TABLES = (*tables.PARQUET, *tables.IPC)
ZARR = ".zarr"
POINT_BLOCK_ROWS = 1 << 16  # of a table, per block
ZARR_BLOCK_BYTES = 1 << 24  # of a zarr array, per block

Points = tuple[np.ndarray, np.ndarray, np.ndarray]
Tick = Callable[[int, int], object]


def open_points(path: Path, true: str, pred: str, features: list[str] | None, *, tick: Tick) -> Points:
    """Return ``(X, y_true, y_pred)`` as arrays that are read from disk where they are touched.

    Parameters
    ----------
    path : Path
        Embeddings (n, m) as npy or zarr; or a Parquet, Arrow or Feather table, told by the suffix.
    true, pred : str
        Files of the labels and the predictions; columns of the table.
    features : list of str, optional
        Columns of the table, numbers or lists of numbers of one length; default: all others.
    tick : callable
        Called with ``(done, total)`` rows of what has to be copied.
    """
    if path.suffix.lower() in TABLES:
        _, X, (y, p) = _table(path, [true, pred], features, tick)
        return X, y, p
    X, y, p = (open_array(Path(name), tick=tick) for name in (path, true, pred))
    return X, y, p


def open_labels(path: Path, true: str, pred: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the class ids in two columns of a table, without the points."""
    names, _, parts = tables.arrow_batches(path)
    places = [tables.column_named(path, names, name) for name in (true, pred)]
    blocks = [np.empty((2, 0), np.int64)]
    done = 0
    for columns in parts(places):
        with tables.understood(path, "not readable"):
            pairs = zip((true, pred), columns, strict=True)
            blocks.append(np.stack([_classes(path, name, column, done, None) for name, column in pairs]))
        done += len(columns[0])
    y, p = np.concatenate(blocks, axis=1)
    return y, p


def open_rows(
    path: Path, label: str | None, features: list[str] | None, *, tick: Tick
) -> tuple[list[str] | None, np.ndarray, np.ndarray | None]:
    """Return the names of the columns, the rows and their labels; without names where it is no table.

    Parameters
    ----------
    path, features, tick
        As for :func:`open_points`.
    label : str, optional
        File of the labels; a column of the table, where text names one of the columns that are rows.
    """
    if path.suffix.lower() in TABLES:
        names, X, labels = _table(path, [] if label is None else [label], features, tick, by_name=True)
        return names, X, labels[0] if labels else None
    return None, open_array(path, tick=tick), None if label is None else open_array(Path(label), tick=tick)


def iter_labels(
    paths: Sequence[Path], *, tick: Tick, rows: tuple[int, int] | None = None
) -> Iterator[list[tables.Column]]:
    """Yield blocks of labels that stand in files of their own, npy or zarr: truth, prediction, and maybe groups.

    `rows` are the first and the last but one that are wanted; None: all.
    """
    arrays = [open_array(path, tick=lambda done, total: None, rows=rows) for path in paths]
    n = _labels_in(paths, [array.shape for array in arrays])
    for start in range(0, max(n, 1), tables.TABLE_BLOCK_ROWS):
        stop = min(start + tables.TABLE_BLOCK_ROWS, n)
        parts = [np.array(array[start:stop]) for array in arrays]
        first = start + (rows[0] if rows else 0)
        block = [tables.coded(path, part, first) for path, part in zip(paths, parts, strict=True)]
        yield tables.comparable(paths[1], block)
        tick(stop, n)


def _labels_in(paths: Sequence[Path], shapes: Sequence[tuple[int, ...]]) -> int:
    """Return how many labels there are in every one of the arrays."""
    n = shapes[0][0] if shapes[0] else 0
    for path, shape in zip(paths, shapes, strict=True):
        if len(shape) != 1:
            raise FileError(path, f"must be of shape (n,), a label per sample, but is {shape}")
        if shape != (n,):
            raise FileError(path, f"holds {shape[0]:,} labels, but {paths[0]} {n:,}")
    return n


def labels_in(paths: Sequence[Path], most: int) -> tuple[int, int]:
    """Return how many labels there are in arrays that belong together, and how many to read at a time, about `most`."""
    shapes, _, chunks = zip(*map(layout, paths), strict=True)
    return _labels_in(paths, shapes), whole_chunks(most, chunks[0])


def whole_chunks(rows: int, chunk: int) -> int:
    """Return about as many rows as are wanted, of whole chunks of an array."""
    return max(rows // chunk, 1) * chunk


def open_array(path: Path, *, tick: Tick, rows: tuple[int, int] | None = None) -> np.ndarray:
    """Return an npy or zarr array as a map; `rows` are the first and the last but one that are wanted."""
    if path.suffix.lower() != ZARR:
        array = tables.open_npy(path)
        return array if rows is None or not array.ndim else array[slice(*rows)]
    with _opened_zarr(path) as (loop, array), Scratch() as out:
        first, last = (0, array.shape[0]) if rows is None else rows
        shape, done = (last - first, *array.shape[1:]), 0
        if (size := math.prod(shape) * array.dtype.itemsize) > (room := free_bytes()):
            raise FileError(
                path,
                f"needs {size / 2**30:,.1f} GiB in the folder for temporary files, "
                f"which has {room / 2**30:,.1f}; name another by TMPDIR",
            )
        for part in _parts(shape, array.chunks, array.dtype.itemsize):
            place = (slice(first + part[0].start, min(first + part[0].stop, last)), *part[1:])
            with tables.understood(path, "damaged zarr array"):
                block = np.asarray(loop.run(array.getitem(place)))
            out.append(block.ravel())
            done += block.size
            tick(done * shape[0] // max(math.prod(shape), 1), shape[0])
        return out.mapped().reshape(shape)


def _parts(shape: tuple[int, ...], chunks: tuple[int, ...], itemsize: int) -> Iterator[tuple[slice, ...]]:
    """Yield the parts of an array in C order, at least one: whole chunks where they fit, as each is read anew."""
    each = math.prod(shape[1:]) * itemsize
    if each > ZARR_BLOCK_BYTES and shape[0] and shape[1:]:
        for k in range(shape[0]):
            yield from ((slice(k, k + 1), *rest) for rest in _parts(shape[1:], chunks[1:], itemsize))
        return
    step = whole_chunks(ZARR_BLOCK_BYTES // max(each, 1), chunks[0])
    yield from ((slice(start, start + step),) for start in range(0, max(shape[0], 1), step))


@contextmanager
def _opened_zarr(path: Path) -> Iterator[tuple[Any, Any]]:
    """Yield a loop and a zarr array that is read in it, of numbers in rows."""
    tables.needs("zarr", path)
    for folder, _, names in os.walk(path):
        for name in names:
            tables.check_source(Path(folder, name))  # zarr would wait for a pipe for ever
    import asyncio

    from zarr.api import asynchronous

    # In a loop of its own: it waits for what is still being read when one of many chunks turns out to be damaged.
    with asyncio.Runner() as loop:
        with tables.understood(path, "is no zarr array"):
            array = loop.run(asynchronous.open_array(store=str(path), mode="r"))
            if array.ndim == 0 or array.dtype.kind not in "biuf":
                raise FileError(
                    path, f"must hold numbers in rows, but is of shape {array.shape} and dtype {array.dtype}"
                )
            if array.chunks[0] < 1:
                raise FileError(path, "is no zarr array (it has chunks without rows)")
        yield loop, array


def layout(path: Path) -> tuple[tuple[int, ...], np.dtype, int]:
    """Return the shape and the type of an npy or zarr array, and how many rows should be read together."""
    if path.suffix.lower() != ZARR:
        array = tables.open_npy(path)
        return array.shape, array.dtype, 1
    with _opened_zarr(path) as (_, array):
        return array.shape, array.dtype, array.chunks[0]


def free_bytes() -> int:
    """Return how much fits into the folder for temporary files."""
    import tempfile  # see Scratch

    return shutil.disk_usage(tempfile.gettempdir()).free


def _table(
    path: Path, of_labels: list[str], features: list[str] | None, tick: Tick, *, by_name: bool = False
) -> tuple[list[str], np.ndarray, list[np.ndarray]]:
    """Return the names of the columns with features, these, and those of labels, `by_name` of the former."""
    tables.needs("pyarrow", path)
    names, total, parts = tables.arrow_batches(path, POINT_BLOCK_ROWS)
    labels = [tables.column_named(path, names, name) for name in of_labels]
    if features:
        wanted = [tables.column_named(path, names, name) for name in features]
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
            with tables.understood(path, "not readable"):
                points = np.concatenate([_numbers(path, *each) for each in named[: len(wanted)]], axis=1)
                known = classes if by_name and points.shape[1] == len(classes) else None
                found = [_classes(path, name, column, done, known) for name, column in named[len(wanted) :]]
            X.append(points)
            for one, block in zip(ids, found, strict=True):
                one.append(block)
            done += rows
            tick(done, total)
        if not done:
            raise FileError(path, "has no rows")
        return classes, X.mapped(), [one.mapped() for one in ids]


def are_lists(kind: Any) -> bool:
    """Return whether a type of Arrow's is one of lists."""
    import pyarrow as pa

    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def flattened(path: Path, name: str, column: Any) -> tuple[Any, int]:
    """Return what the lists of a column hold, one after another, and their length."""
    import pyarrow as pa

    values = column.flatten()
    length, rest = divmod(len(values), len(column))
    same = column.null_count == 0 and not rest
    if same and not pa.types.is_fixed_size_list(column.type):
        same = bool((column.value_lengths().to_numpy(zero_copy_only=False) == length).all())
    if not same:
        raise FileError(path, f"the lists of column {name!r} are not all of one length")
    return values, length


def _numbers(path: Path, name: str, column: Any) -> np.ndarray:
    """Return a column as (rows, 1), or a column of lists as (rows, length); what is missing is NaN."""
    import pyarrow as pa

    values, length = flattened(path, name, column) if are_lists(column.type) else (column, 1)
    kind = values.type
    if pa.types.is_boolean(kind):
        values = values.cast(pa.int8())  # which NumPy has a missing value for, as it has for any number
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise FileError(path, f"column {name!r} must hold numbers, but is {kind}; name the features with --features")
    numbers: np.ndarray = values.to_numpy(zero_copy_only=False)
    narrow = pa.types.is_floating(kind) and kind.bit_width <= 32
    return numbers.astype(np.float32 if narrow else np.float64, copy=False).reshape(-1, length)


def _classes(path: Path, name: str, column: Any, start: int, known: list[str] | None) -> np.ndarray:
    """Return class ids; of text the places among the `known` names."""
    import pyarrow as pa

    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise FileError(path, f"row {start + row}: a label is missing in column {name!r}")
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if known is not None and (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return _places(path, name, column, start, known)
    if not pa.types.is_integer(column.type):
        raise FileError(path, f"column {name!r} must hold class ids 0, 1, ..., but is {column.type}")
    ids: np.ndarray = column.to_numpy(zero_copy_only=False)
    if ids.dtype == np.uint64 and (large := np.flatnonzero(ids >> 63)).size:
        row = int(large[0])
        raise FileError(path, f"row {start + row} of column {name!r} holds {ids[row]}, which is no class id")
    return ids.astype(np.int64)


def _places(path: Path, name: str, column: Any, start: int, known: list[str]) -> np.ndarray:
    """Return where every label of a column stands among the `known` names."""
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
