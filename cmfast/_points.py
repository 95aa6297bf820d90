"""Embeddings with labels and predictions from files larger than memory: npy, zarr, Parquet and Arrow.

What cannot be mapped as it is, is copied once, block by block, to a file without a name: every pass over the points
(there are several) then reads plain numbers.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cmfast import _blocks
from cmfast._output import FileError
from cmfast._scratch import Scratch

TABLES = (".parquet", ".pq", ".arrow", ".feather", ".ipc")
ROWS = 1 << 16  # of a table, per block
BYTES = 1 << 26  # of a zarr array, per block

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
        return _table(path, true, pred, features, tick)
    X, y, p = (open_array(Path(name), tick=tick) for name in (path, true, pred))
    return X, y, p


def open_array(path: Path, *, tick: Tick) -> np.ndarray:
    """Return an npy or zarr array as a map."""
    if path.suffix.lower() != ".zarr":
        return _blocks.open_npy(path)
    zarr = _needs("zarr", path)
    try:
        array = zarr.open_array(str(path), mode="r")
    except (OSError, ValueError, KeyError) as error:
        raise FileError(path, f"is no zarr array ({str(error).splitlines()[0]})") from error
    each = max(int(np.prod(array.shape[1:], dtype=np.int64)) * array.dtype.itemsize, 1)
    # Whole chunks, or each would be read more than once.
    step = max(BYTES // each // array.chunks[0], 1) * array.chunks[0] if array.ndim else 1
    n = array.shape[0] if array.ndim else 0
    with Scratch() as out:
        for start in range(0, max(n, 1), step):
            out.append(np.asarray(array[start : start + step]))
            tick(min(start + step, n), n)
        return out.mapped()


def _needs(module: str, path: Path) -> Any:
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError:
        raise FileError(path, f'reading this format needs {module}: pip install "cmfast[io]"') from None


def _table(path: Path, true: str, pred: str, features: list[str] | None, tick: Tick) -> Points:
    pa = _needs("pyarrow", path)
    try:
        names, total, parts = _blocks.arrow_batches(path)
        wanted = features or [name for name in names if name not in {true, pred}]
        missing = [name for name in (true, pred, *wanted) if name not in names]
        if missing:
            raise FileError(path, f"has no column {missing[0]!r} (has: {', '.join(names)})")
        if not wanted:
            raise FileError(path, "has no columns but the labels and the predictions")
        with Scratch() as X, Scratch() as y, Scratch() as p:
            done = 0
            for batch in parts([*wanted, true, pred]):
                if not batch.num_rows:
                    continue
                X.append(np.concatenate([_numbers(path, name, batch.column(name)) for name in wanted], axis=1))
                for out, name in ((y, true), (p, pred)):
                    out.append(_classes(path, name, batch.column(name)))
                done += batch.num_rows
                tick(done, total)
            if not done:
                raise FileError(path, "has no rows")
            return X.mapped(), y.mapped(), p.mapped()
    except pa.ArrowInvalid as error:
        raise FileError(path, f"not readable ({str(error).splitlines()[0]})") from error


def _numbers(path: Path, name: str, column: Any) -> np.ndarray:
    """Return a column as (rows, 1), or a column of lists as (rows, length); what is missing is NaN."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        values = column.flatten()
        length, rest = divmod(len(values), len(column))
        same = column.null_count == 0 and not rest
        if same and not pa.types.is_fixed_size_list(kind):
            same = bool((column.value_lengths().to_numpy(zero_copy_only=False) == length).all())
        if not same:
            raise FileError(path, f"the lists of column {name!r} are not all of one length")
    else:
        values, length = column, 1
    kind = values.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise FileError(path, f"column {name!r} must hold numbers, but is {kind}; name the features with --features")
    numbers: np.ndarray = values.to_numpy(zero_copy_only=False)
    narrow = pa.types.is_floating(kind) and kind.bit_width <= 32
    return numbers.astype(np.float32 if narrow else np.float64, copy=False).reshape(-1, length)


def _classes(path: Path, name: str, column: Any) -> np.ndarray:
    import pyarrow as pa

    if column.null_count:
        raise FileError(path, f"a label is missing in column {name!r}")
    if not pa.types.is_integer(column.type):
        raise FileError(path, f"column {name!r} must hold class ids 0, 1, ..., but is {column.type}")
    ids: np.ndarray = column.to_numpy(zero_copy_only=False)
    return ids.astype(np.int64)
