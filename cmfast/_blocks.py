"""Files read block by block: npy as a memory map, csv with the standard library, Parquet and Arrow with pyarrow."""

import csv
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from cmfast._output import FileError

ROWS = 1 << 18  # of a table, per block
BLOCK_BYTES = 32 << 20  # of matrices, per block: long enough to keep every thread busy, short enough for progress
TRUE_NAMES = ("y_true", "true", "truth", "label", "labels", "target", "actual", "y")
PRED_NAMES = ("y_pred", "pred", "predicted", "prediction", "predictions", "y_hat")

Wanted = tuple[str | None, ...]  # names or numbers of columns: truth, prediction, and maybe one more
Tick = Callable[[int, int], object]


def open_npy(path: Path) -> np.ndarray:
    """Return the array in an npy file as a read-only memory map (loaded where it is too small to be mapped)."""
    try:
        with path.open("rb") as file:
            magic = file.read(6)
        if magic[:4] == b"PK\x03\x04":
            raise FileError(path, "is an npz archive, which cannot be memory-mapped; save its array as npy")
        if magic != b"\x93NUMPY":
            raise FileError(path, "is no npy file")
        return _load(path)
    except OSError as error:
        raise FileError(path, reason(error)) from error


def _load(path: Path) -> np.ndarray:
    try:
        array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        if "mmap" in str(error) and "greater than file size" in str(error):
            raise FileError(path, "the file is shorter than its header says; was it copied whole?") from error
        if "empty" in str(error):  # a map of zero bytes is refused by the system; there is nothing to map
            return np.asarray(np.load(path, allow_pickle=False))
        if "object" in str(error) or "pickle" in str(error).lower():
            raise FileError(path, "holds Python objects, not numbers; cmfast never unpickles") from error
        raise FileError(path, f"damaged npy file ({error})") from error
    except (EOFError, SyntaxError) as error:
        raise FileError(path, f"damaged npy file ({error})") from error
    return array


def reason(error: OSError) -> str:
    """Return what the system said, without the number and the name of the file."""
    return (error.strerror or str(error)).lower()


class MatrixBlocks:
    """The matrices of an array ``(..., R, C)`` as blocks ``(b, R, C)``, copied from the file one block at a time."""

    def __init__(self, M: np.ndarray, block_bytes: int = BLOCK_BYTES) -> None:
        self._M = M
        self.batch = M.shape[:-2]
        self.total = int(np.prod(self.batch, dtype=np.int64))
        self.core = M.shape[-2:]
        each = max(1, int(np.prod(self.core, dtype=np.int64)) * max(8, M.itemsize))
        self._step = max(1, block_bytes // each)

    def __iter__(self) -> Iterator[np.ndarray]:
        """Yield the blocks in order; one empty block where there is no matrix at all."""
        # Reshaping a map in Fortran order would read all of it; picking by index copies one block.
        flat = self._M.reshape(self.total, *self.core) if self._M.flags.c_contiguous else None
        for start in range(0, max(self.total, 1), self._step):
            stop = min(start + self._step, self.total)
            if flat is not None:
                yield np.array(flat[start:stop])
            else:
                yield self._M[np.unravel_index(np.arange(start, stop), self.batch)] if self.batch else self._M[None]


def iter_columns(path: Path, wanted: Wanted, *, header: bool | None, tick: Tick) -> Iterator[tuple[np.ndarray, ...]]:
    """Yield blocks of columns of a table, one array for each that is wanted; labels are integers or strings.

    Parameters
    ----------
    path : Path
        npy ``(n, 2)`` or with named fields, csv, tsv, Parquet, Arrow or Feather, told by the suffix.
    wanted : tuple of str or None
        Names or numbers of the columns of the truth and the prediction, where None takes the first that is not named
        otherwise; a third one must be named.
    header : bool or None
        Whether the first line of a csv file holds names; None tells it from the line, or refuses.
    tick : callable
        Called with ``(done, total)``: rows, or bytes of a csv file.
    """
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return _npy_columns(path, wanted, tick)
    if suffix in {".parquet", ".pq"}:
        return _arrow_columns(path, wanted, tick, _parquet_batches)
    if suffix in {".arrow", ".feather", ".ipc"}:
        return _arrow_columns(path, wanted, tick, _ipc_batches)
    if suffix in {".csv", ".tsv", ".txt"}:
        return _csv_columns(path, wanted, header, tick)
    raise FileError(path, f"unknown kind of file {suffix!r} (known: npy, csv, tsv, txt, parquet, arrow, feather)")


def _npy_columns(path: Path, wanted: Wanted, tick: Tick) -> Iterator[tuple[np.ndarray, ...]]:
    table = open_npy(path)
    if table.dtype.names:
        names = list(table.dtype.names)
        columns = [table[names[k]] for k in _columns(path, names, wanted)]
    else:
        if table.ndim != 2 or table.shape[1] < 2:
            raise FileError(path, f"must be of shape (n, 2), truth and prediction, but is {table.shape}")
        names = [str(k) for k in range(table.shape[1])]
        columns = [table[:, k] for k in _columns(path, names, wanted)]
    if any(column.ndim != 1 for column in columns):
        raise FileError(path, "a named field must hold one label per row")
    n = len(columns[0])
    for start in range(0, max(n, 1), ROWS):
        stop = min(start + ROWS, n)
        yield tuple(_labels(path, np.array(column[start:stop]), start) for column in columns)
        tick(stop, n)


def _labels(path: Path, values: np.ndarray, start: int) -> np.ndarray:
    """Return labels as integers or strings; whole floats are integers, anything else is refused with its row."""
    if values.dtype.kind in "biuU":
        return values
    if values.dtype.kind == "f":
        whole = np.isfinite(values) & (values == np.rint(values)) & (np.abs(values) < 2.0**53)
        if not whole.all():
            k = int(np.argmin(whole))
            raise FileError(path, f"row {start + k} holds {values[k]}, which is no class label")
        return values.astype(np.int64)
    raise FileError(path, f"labels must be integers or strings, not {values.dtype}")


def _columns(path: Path, names: list[str], wanted: Wanted) -> list[int]:
    """Return the places of the columns: by name, by number, or the first ones that are not named otherwise."""
    given = [None if name is None else _column(path, names, name) for name in wanted]
    if len(names) < len(wanted):
        what = ("two columns, truth and prediction", "a column for each: truth, prediction, group")[len(wanted) - 2]
        raise FileError(path, f"needs {what}, but has {len(names)}")
    third = given[2:]
    free = [k for k in range(len(names)) if k not in third]
    places = [free[k] if place is None else place for k, place in enumerate(given)]
    if places[0] == places[1]:
        raise FileError(path, f"truth and prediction are both column {names[places[0]]!r}; give --true and --pred")
    if len(set(places)) < len(places):
        raise FileError(path, f"column {names[places[2]]!r} cannot be --by and --true or --pred")
    return places


def _column(path: Path, names: list[str], wanted: str) -> int:
    if wanted in names:
        return names.index(wanted)
    if wanted.isdecimal() and int(wanted) < len(names):
        return int(wanted)
    raise FileError(path, f"has no column {wanted!r} (has: {', '.join(names)})")


def _csv_columns(path: Path, wanted: Wanted, header: bool | None, tick: Tick) -> Iterator[tuple[np.ndarray, ...]]:
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    try:
        total = path.stat().st_size
        with path.open("rb") as raw:
            lines = (line.decode("utf-8-sig" if number == 0 else "utf-8") for number, line in enumerate(raw))
            reader = csv.reader(lines, delimiter=delimiter)
            first = next(reader, None)
            if first is None:
                raise FileError(path, "is empty")
            if len(first) < 2:
                between = "tabs" if delimiter == "\t" else "commas"
                raise FileError(path, f"needs two columns separated by {between}, but its first line has {len(first)}")
            named = _has_header(path, first, wanted) if header is None else header
            names = [name.strip() for name in first] if named else [str(k) for k in range(len(first))]
            places = _columns(path, names, wanted)
            block: list[list[str]] = []
            for row in reader if named else chain([first], reader):
                if not row:
                    continue
                if len(row) != len(first):
                    raise FileError(
                        path, f"line {reader.line_num} has {len(row)} columns, the first line has {len(first)}"
                    )
                block.append([row[k].strip() for k in places])
                if not all(block[-1]):
                    raise FileError(path, f"line {reader.line_num} has an empty label")
                if len(block) == ROWS:
                    yield _strings(block, len(places))
                    block = []
                    tick(min(raw.tell(), total), total)
            yield _strings(block, len(places))
            tick(total, total)
    except UnicodeDecodeError as error:
        raise FileError(path, "is no UTF-8 text") from error
    except csv.Error as error:
        # The error comes from the reader, so there is one.
        line = reader.line_num  # pyright: ignore[reportPossiblyUnboundVariable]
        raise FileError(path, f"line {line}: {error}") from error
    except OSError as error:
        raise FileError(path, reason(error)) from error


def _strings(block: list[list[str]], columns: int) -> tuple[np.ndarray, ...]:
    return tuple(np.array(block, dtype=np.str_).reshape(-1, columns).T)


def _has_header(path: Path, first: list[str], wanted: Wanted) -> bool:
    """Return whether the first line holds names. A wrong guess would lose a sample or invent a class: so no guess."""
    cells = [cell.strip() for cell in first]
    if any(name is not None and not name.isdecimal() for name in wanted):
        return True
    if len(cells) >= 2 and cells[0].lower() in TRUE_NAMES and cells[1].lower() in PRED_NAMES:
        return True
    if all(is_integer(cell) for cell in cells[:2]):
        return False
    raise FileError(
        path,
        f"cannot tell whether the first line ({','.join(cells[:2])}) names the columns; "
        "give --header or --no-header, or name them with --true and --pred",
    )


def is_integer(text: str) -> bool:
    """Return whether `text` is an integer as people write it."""
    return text.isascii() and text.removeprefix("-").isdecimal()


def _arrow_columns(
    path: Path, wanted: Wanted, tick: Tick, batches: Callable[[Path], Any]
) -> Iterator[tuple[np.ndarray, ...]]:
    try:
        import pyarrow as pa
    except ImportError:
        raise FileError(path, 'reading this format needs pyarrow: pip install "cmfast[io]"') from None
    try:
        names, total, parts = batches(path)
        chosen = [names[k] for k in _columns(path, names, wanted)]
        done = 0
        for batch in parts(chosen):
            yield tuple(_arrow_labels(path, batch.column(name)) for name in chosen)
            done += batch.num_rows
            tick(done, total)
    except pa.ArrowInvalid as error:
        raise FileError(path, f"not readable ({str(error).splitlines()[0]})") from error
    except OSError as error:
        raise FileError(path, reason(error)) from error


def arrow_batches(path: Path) -> Any:
    """Return ``(names, rows, batches)`` of a Parquet or Arrow file; ``batches(columns)`` reads them one by one."""
    try:
        with path.open("rb"):  # whether it can be read at all is told better by the system
            pass
        return (_parquet_batches if path.suffix.lower() in {".parquet", ".pq"} else _ipc_batches)(path)
    except OSError as error:
        raise FileError(path, reason(error)) from error


def _parquet_batches(path: Path) -> Any:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    return file.schema_arrow.names, file.metadata.num_rows, lambda two: file.iter_batches(ROWS, columns=two)


def _ipc_batches(path: Path) -> Any:
    import pyarrow as pa

    file = pa.ipc.open_file(pa.memory_map(str(path)))
    parts = [file.get_batch(k) for k in range(file.num_record_batches)]  # views of the map, nothing is read yet
    return file.schema.names, sum(part.num_rows for part in parts), lambda two: (part.select(two) for part in parts)


def _arrow_labels(path: Path, column: Any) -> np.ndarray:
    import pyarrow as pa

    if column.null_count:
        raise FileError(path, "a label is missing (null)")
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    values = column.to_numpy(zero_copy_only=False)
    return _labels(path, values.astype(np.str_) if values.dtype == object else values, 0)
