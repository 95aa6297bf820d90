"""Files read block by block: npy as a memory map, csv with the standard library, Parquet and Arrow with pyarrow."""

import csv
import math
import stat
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cmfast._files.ipc import described
from cmfast._files.output import FileError, reason
from cmfast._files.texts import is_integer

TABLE_BLOCK_ROWS = 1 << 18  # of a table, per block
LEAST_SORTED_SPAN = 1 << 16  # integers that lie so close together are told apart by a table
PARQUET_BUFFER = 1 << 20  # bytes of a column that are read at a time; a group of rows may be the whole file
TEXTS = (".csv", ".tsv", ".txt")
PARQUET = (".parquet", ".pq")
IPC = (".arrow", ".feather", ".ipc")
MATRIX_BLOCK_BYTES = 32 << 20  # per block: enough to keep every thread busy, few enough to show progress
TRUE_NAMES = ("y_true", "true", "truth", "label", "labels", "target", "actual", "y")
PRED_NAMES = ("y_pred", "pred", "predicted", "prediction", "predictions", "y_hat")

WHAT = {"io": "format", "maps": "format", "cluster": "address"}  # by the extra that brings what reads it

Wanted = tuple[str | None, ...]  # names or numbers of columns: truth, prediction, and maybe groups
Tick = Callable[[int, int], object]


class Column(NamedTuple):
    """A block of a column of labels: the different ones, and for each row the place of its label among them."""

    kind: str  # "booleans", "integers", "strings", or "texts" of csv, of which the whole column says what they are
    labels: list[Any]
    codes: np.ndarray
    lines: list[int] | None = None
    """Of texts: where each stands first."""
    order: tuple[Any, ...] = ()
    """All labels that a file declares, in an order that means something; the same in every block."""


def open_npy(path: Path) -> np.ndarray:
    """Return the array in an npy file as a read-only memory map (loaded where it is too small to be mapped)."""
    check_source(path)
    with understood(path, "damaged npy file"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about old headers, and about what a damaged one looks like as Python
        with path.open("rb") as file:
            magic = file.read(6)
        if magic[:4] == b"PK\x03\x04":
            raise FileError(path, "is an npz archive, which cannot be memory-mapped; save its array as npy")
        if magic != b"\x93NUMPY":
            raise FileError(path, "is no npy file")
        return _load(path)


def _load(path: Path) -> np.ndarray:
    try:
        array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        if "mmap" in str(error) and "greater than file size" in str(error):
            raise FileError(path, "the file is shorter than its header says; was it copied whole?") from error
        if "object" in str(error) or "pickle" in str(error).lower():
            raise FileError(path, "holds Python objects, not numbers; cmfast never unpickles") from error
        if "empty" not in str(error):
            raise
        # A map of zero bytes is refused by the system; there is nothing to map.
        array = np.asarray(np.load(path, allow_pickle=False))
    number = math.prod(array.shape)
    if number and not array.dtype.itemsize:  # of which a short file may hold any number
        raise FileError(path, f"holds {number:,} elements of no bytes")
    return array


def check_source(path: Path) -> None:
    """Refuse what is no file that can be read more than once: a folder, a pipe, a device."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise FileError(path, "is a directory")
        if not stat.S_ISREG(mode):
            raise FileError(path, "is no regular file; save what comes from it first")
        with path.open("rb"):  # whether it can be read at all is told better by the system than by a reader
            pass
    except OSError as error:
        raise FileError(path, reason(error)) from error


@contextmanager
def understood(path: Path | str, otherwise: str) -> Iterator[None]:
    """Turn whatever a reader raises over a file into one line; a damaged file may raise anything in any of them."""
    try:
        yield
    except (FileError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise FileError(path, reason(error)) from error
        said = [text.strip() for text in str(error).splitlines() if text.strip()] or [type(error).__name__]
        raise FileError(path, f"{otherwise} ({said[0]})") from error


class MatrixBlocks:
    """The matrices of an array ``(..., R, C)`` as blocks ``(b, R, C)``, copied from the file one block at a time."""

    def __init__(self, M: np.ndarray, block_bytes: int = MATRIX_BLOCK_BYTES) -> None:
        self._M = M
        self.batch = M.shape[:-2]
        self.total = math.prod(self.batch)
        self.core = M.shape[-2:]
        each = max(1, math.prod(self.core) * max(8, M.itemsize))
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


def iter_columns(path: Path, wanted: Wanted, *, header: bool | None, tick: Tick) -> Iterator[list[Column]]:
    """Yield blocks of columns of a table; memory follows the different labels of a block, however long one of them is.

    Parameters
    ----------
    path : Path
        npy ``(n, 2)`` or with named fields, csv, tsv, Parquet, Arrow or Feather, told by the suffix.
    wanted : tuple of str or None
        Names or numbers of the columns of the truth and the prediction, where None takes the one with a usual name, or
        what is left, in order, if no more is left than is wanted; a third one must be named.
    header : bool or None
        Whether the first line of a csv file holds names; None tells it from the line, or refuses.
    tick : callable
        Called with ``(done, total)``: rows, or bytes of a csv file.
    """
    suffix = path.suffix.lower()
    if header is not None and suffix not in TEXTS:
        raise FileError(path, "--header and --no-header belong to csv")
    if suffix == ".npy":
        blocks = _npy_columns(path, wanted, tick)
    elif suffix in {*PARQUET, *IPC}:
        blocks = _arrow_columns(path, wanted, tick)
    elif suffix in TEXTS:
        blocks = _csv_columns(path, wanted, header, tick)
    else:
        raise FileError(path, f"unknown kind of file {suffix!r} (known: npy, csv, tsv, txt, parquet, arrow, feather)")
    return (comparable(path, block) for block in blocks)


def comparable(path: Path, block: list[Column]) -> list[Column]:
    """Return truth and prediction as labels of one kind, and the third column as it is."""
    kinds = [column.kind for column in block[:2]]
    if kinds[0] == kinds[1]:
        return block
    if "strings" in kinds:
        raise FileError(path, f"the truth holds {kinds[0]}, but the prediction {kinds[1]}")
    both = [column._replace(kind="integers", labels=list(map(int, column.labels))) for column in block[:2]]
    return [*both, *block[2:]]


def _npy_columns(path: Path, wanted: Wanted, tick: Tick) -> Iterator[list[Column]]:
    table = open_npy(path)
    if table.dtype.names:
        names = list(table.dtype.names)
        columns = [table[names[k]] for k in _columns(path, names, wanted)]
    else:
        if table.ndim == 2 and are_matrices(table) and None in wanted[:2]:
            said = f"is of shape {table.shape}: a matrix, which cmfast metrics and normalize read"
            raise FileError(path, f"{said}; to take its columns for labels give --true and --pred")
        if table.ndim != 2 or table.shape[1] < 2:
            raise FileError(path, f"must be of shape (n, 2), truth and prediction, but is {table.shape}")
        if not len(table):
            raise FileError(path, "holds no samples")
        names = [str(k) for k in range(table.shape[1])]
        columns = [table[:, k] for k in _columns(path, names, wanted)]
    if any(column.ndim != 1 for column in columns):
        raise FileError(path, "a named field must hold one label per row")
    n = len(columns[0])
    for start in range(0, max(n, 1), TABLE_BLOCK_ROWS):
        stop = min(start + TABLE_BLOCK_ROWS, n)
        yield [coded(path, np.array(column[start:stop]), start) for column in columns]
        tick(stop, n)


def are_matrices(array: np.ndarray) -> bool:
    """Return whether an array is one of matrices (..., C, C), if no columns of it are named: never of labels."""
    return array.dtype.kind in "biuf" and array.ndim >= 2 and array.shape[-1] == array.shape[-2]


def coded(path: Path, values: np.ndarray, start: int) -> Column:
    """Return a column of integers or strings; whole floats are integers, anything else is refused with its row."""
    if values.dtype.kind == "U":
        letters = values.view(np.dtype(np.uint32).newbyteorder(values.dtype.byteorder)) if values.itemsize else values
        if values.itemsize and (letters > sys.maxunicode).any():  # Python would make a string of them that breaks later
            raise FileError(path, "damaged npy file (holds letters that Unicode does not have)")
        return _merged("strings", values.tolist())
    if values.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            whole = np.isfinite(values) & (values == np.rint(values)) & (np.abs(values) < 2.0**53)
        if not whole.all():
            k = int(np.argmin(whole))
            raise FileError(path, f"row {start + k} holds {values[k]}, which is no class label")
        values = values.astype(np.int64)
    if values.dtype.kind not in "biu":
        raise FileError(path, f"labels must be integers or strings, not {values.dtype}")
    labels, codes = _distinct(values)
    return Column("booleans" if values.dtype.kind == "b" else "integers", labels.tolist(), codes)


def _distinct(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what ``numpy.unique`` does with its inverse, of integers; without a sort where they lie close together."""
    low, high = (int(values.min()), int(values.max())) if values.size else (0, LEAST_SORTED_SPAN)
    if high - low >= LEAST_SORTED_SPAN or high >= 1 << 63:
        return np.unique(values, return_inverse=True)
    places = values.astype(np.int64) - low
    occurring = np.flatnonzero(np.bincount(places))
    rank = np.empty(high - low + 1, np.int64)
    rank[occurring] = np.arange(len(occurring))
    return (occurring + low).astype(values.dtype), rank[places]


def _merged(kind: str, labels: Sequence[Any], codes: np.ndarray | None = None) -> Column:
    """Return a column whose labels are not all different, as one per row, or one for each of `codes`."""
    places: dict[Any, int] = {}
    where = np.array([places.setdefault(label, len(places)) for label in labels], np.int64)
    return Column(kind, list(places), where if codes is None else where[codes])


def _columns(path: Path, names: list[str], wanted: Wanted) -> list[int]:
    """Return the places of the columns: as named, else told by a usual name, else what is left where that is plain."""
    given = [None if name is None else _column(path, names, name) for name in wanted]
    if len(names) < len(wanted):
        what = (
            "two columns, truth and prediction" if len(wanted) == 2 else "a column for each: truth, prediction, group"
        )
        raise FileError(path, f"needs {what}, but has {len(names)}")
    if given[0] is not None and given[0] == given[1]:
        raise FileError(path, f"truth and prediction are both column {names[given[0]]!r}; give --true and --pred")
    for k, place in enumerate(given[2:]):
        if place is not None and place in given[:2]:
            raise FileError(path, f"column {names[place]!r} cannot be --by and --true or --pred")
        if place is not None and place in given[2 : 2 + k]:
            raise FileError(path, f"column {names[place]!r} is given to --by twice")
    free = [k for k in range(len(names)) if k not in given]
    doubts = []
    for which, usual in enumerate((TRUE_NAMES, PRED_NAMES)):
        alike = [k for k in free if names[k].lower() in usual]
        if given[which] is None and len(alike) == 1:
            given[which] = alike[0]
            free.remove(alike[0])
        elif given[which] is None and alike:
            several = " and ".join(names[k] for k in alike)
            doubts.append(f", of which {several} may be the {('truth', 'prediction')[which]}")
    if given.count(None) < len(free) and None in given:
        options = " and ".join(name for name, place in zip(("--true", "--pred"), given, strict=False) if place is None)
        raise FileError(path, f"has {len(names)} columns{''.join(doubts)}; give {options} (has: {', '.join(names)})")
    return [free.pop(0) if place is None else place for place in given]


def _column(path: Path, names: list[str], wanted: str) -> int:
    if wanted in names:
        return column_named(path, names, wanted)
    if wanted.isdecimal() and len(wanted) < 10 and int(wanted) < len(names):
        return int(wanted)
    raise FileError(path, f"has no column {wanted!r} (has: {', '.join(names)})")


def column_named(path: Path, names: list[str], wanted: str) -> int:
    """Return the place of the only column of that name."""
    if wanted not in names:
        raise FileError(path, f"has no column {wanted!r} (has: {', '.join(names)})")
    if names.count(wanted) > 1:
        raise FileError(path, f"has {names.count(wanted)} columns named {wanted!r}; give their numbers, from 0")
    return names.index(wanted)


def _csv_columns(path: Path, wanted: Wanted, header: bool | None, tick: Tick) -> Iterator[list[Column]]:
    check_source(path)
    total = path.stat().st_size
    lines = csv_lines(path)
    _, first, _ = next(lines)
    if len(first) < 2:
        between = "tabs" if _delimiter(path) == "\t" else "commas"
        raise FileError(path, f"needs two columns separated by {between}, but its first line has {len(first)}")
    named = _has_header(path, first, wanted, _delimiter(path)) if header is None else header
    names = [name.strip() for name in first] if named else [str(k) for k in range(len(first))]
    places = _columns(path, names, wanted)
    block = _Rows(len(places))
    for line, row, done in lines if named else chain([(1, first, 0)], lines):
        labels = [row[k].strip() for k in places]
        if not all(labels):
            empty = names[places[labels.index("")]]
            raise FileError(path, f"line {line} has an empty label in column {empty!r}")
        block.append(labels, line)
        if len(block) == TABLE_BLOCK_ROWS:
            yield block.columns()
            block = _Rows(len(places))
            tick(min(done, total), total)
    yield block.columns()
    tick(total, total)


def csv_lines(path: Path) -> Iterator[tuple[int, list[str], int]]:
    """Yield the lines of a csv or tsv file that are not empty: number, cells, and how many bytes were read so far."""
    check_source(path)
    number, first = 0, None
    for number, row, n_bytes in _rows_of(path, _delimiter(path)):
        if first is None:
            first = row
        elif not row:
            continue
        elif len(row) != len(first):
            raise FileError(path, f"line {number} has {len(row)} columns, the first line has {len(first)}")
        yield number, row, n_bytes
    if first is None:
        raise FileError(path, "is empty")


def _rows_of(path: Path, delimiter: str) -> Iterator[tuple[int, list[str], int]]:
    """Yield all rows of a text: number of the line, cells, and how many bytes were read so far."""
    reader: Any = None
    try:
        with path.open("rb") as raw:
            lines = (line.decode("utf-8-sig" if k == 0 else "utf-8") for k, line in enumerate(raw))
            # Strict: a quote that nobody closes would swallow the rest of the file, and be taken for one label.
            reader = csv.reader(lines, delimiter=delimiter, strict=True)
            for row in reader:
                yield reader.line_num, row, raw.tell()
    except UnicodeDecodeError as error:
        raise FileError(path, "is no UTF-8 text") from error
    except csv.Error as error:
        raise FileError(path, f"line {reader.line_num}: {error}") from error
    except OSError as error:
        raise FileError(path, reason(error)) from error


def _delimiter(path: Path) -> str:
    return "\t" if path.suffix.lower() == ".tsv" else ","


class _Rows:
    """Rows of texts, of which every different one is kept once."""

    def __init__(self, columns: int) -> None:
        self._places: list[dict[str, int]] = [{} for _ in range(columns)]
        self._codes: list[list[int]] = [[] for _ in range(columns)]
        self._lines: list[list[int]] = [[] for _ in range(columns)]

    def __len__(self) -> int:
        return len(self._codes[0])

    def append(self, labels: list[str], line: int) -> None:
        for label, places, codes, lines in zip(labels, self._places, self._codes, self._lines, strict=True):
            codes.append(places.setdefault(label, len(places)))
            if len(places) > len(lines):
                lines.append(line)

    def columns(self) -> list[Column]:
        parts = zip(self._places, self._codes, self._lines, strict=True)
        return [Column("texts", list(places), np.array(codes, np.int64), lines) for places, codes, lines in parts]


def _has_header(path: Path, first: list[str], wanted: Wanted, delimiter: str) -> bool:
    """Return whether the first line holds names. A wrong guess would lose a sample or invent a class: so no guess."""
    cells = [cell.strip() for cell in first]
    if any(name is not None and not name.isdecimal() for name in wanted):
        return True
    if any(cell.lower() in (*TRUE_NAMES, *PRED_NAMES) for cell in cells):
        return True
    if all(is_integer(cell) for cell in cells[:2]):
        return False
    told = _told_by_rows(path, cells, delimiter) if len(cells) == 2 else None
    if told is not None:
        return told
    raise FileError(
        path,
        f"cannot tell whether the first line ({','.join(cells)}) names the columns; "
        "give --header or --no-header, or name them with --true and --pred",
    )


def _told_by_rows(path: Path, first: list[str], delimiter: str) -> bool | None:
    """Return whether two texts are no labels, as the rows below have labels in common, and these are not among them.

    False where both are labels there; None where it stays open.
    """
    found: tuple[set[str], set[str]] = (set(), set())
    rows = _rows_of(path, delimiter)
    next(rows)
    for _, row, _ in rows:
        for cell, labels in zip(row, found, strict=False):
            labels.add(cell.strip())
    known = [cell in found[0] or cell in found[1] for cell in first]
    if all(known):
        return False
    return None if any(known) or found[0].isdisjoint(found[1]) else True


def _arrow_columns(path: Path, wanted: Wanted, tick: Tick) -> Iterator[list[Column]]:
    needs("pyarrow", path)
    names, total, parts = arrow_batches(path)
    places = _columns(path, names, wanted)
    done = 0
    for columns in parts(places):
        with understood(path, "not readable"):
            chosen = zip(places, columns, strict=True)
            block = [arrow_labels(path, names[place], column, done) for place, column in chosen]
        yield block
        done += len(block[0].codes)
        tick(done, total)


def needs(module: str, path: Path | str, extra: str = "io") -> Any:
    """Import what reads this kind of file, or name what has to be installed."""
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError:
        raise FileError(path, f'reading this {WHAT[extra]} needs {module}: pip install "cmfast[{extra}]"') from None


def arrow_batches(
    path: Path, rows: int | None = None
) -> tuple[list[str], int, Callable[[list[int]], Iterator[list[Any]]]]:
    """Return ``(names, n, parts)`` of a Parquet or Arrow file; ``parts(places)`` yields columns in blocks of `rows`."""
    check_source(path)
    with understood(path, "not readable"):
        names, total, batches = (_parquet if path.suffix.lower() in PARQUET else _ipc)(path, rows or TABLE_BLOCK_ROWS)

    def parts(places: list[int]) -> Iterator[list[Any]]:
        source = batches(places)
        while True:
            with understood(path, "not readable"):
                columns = next(source, None)
            if columns is None:
                return
            yield columns

    return names, total, parts


def _parquet(path: Path, rows: int) -> Any:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path, buffer_size=PARQUET_BUFFER, pre_buffer=False)
    names = file.schema_arrow.names

    def batches(places: list[int]) -> Iterator[list[Any]]:
        chosen = list(dict.fromkeys(names[k] for k in places))
        read = [k for wanted in chosen for k, name in enumerate(names) if name == wanted]  # all that share it come
        for batch in file.iter_batches(rows, columns=chosen):
            if batch.num_columns != len(read):
                raise FileError(path, f"has {batch.num_columns} columns instead of {len(read)} under these names")
            yield [batch.column(read.index(k)) for k in places]

    return names, file.metadata.num_rows, batches


def _ipc(path: Path, rows: int) -> Any:
    import pyarrow as pa
    from pyarrow import ipc

    source = pa.memory_map(str(path))
    whole = ipc.open_file(source)
    total, compressed = described(source)

    def batches(places: list[int]) -> Iterator[list[Any]]:
        # All columns of what is not compressed are pages of the file, some of them would be a copy.
        read = sorted(set(places)) if compressed else list(range(len(whole.schema)))
        file = ipc.open_file(source, options=ipc.IpcReadOptions(included_fields=read)) if compressed else whole
        for k in range(file.num_record_batches):
            batch = file.get_batch(k)
            batch.validate(full=True)  # what a damaged file says of its own lengths is not to be trusted
            for start in range(0, max(batch.num_rows, 1), rows):  # the whole file may be one batch
                part = batch.slice(start, rows)
                yield [part.column(read.index(place)) for place in places]

    return whole.schema.names, total, batches


def arrow_labels(path: Path, name: str, column: Any, start: int) -> Column:
    """Return a block of a column of labels, whose first row is `start` in the file."""
    found = _arrow_values(path, name, column, start)
    if not getattr(column.type, "ordered", False):
        return found
    declared = dict.fromkeys(column.dictionary.to_pylist())
    return found._replace(order=tuple(value for value in declared if value is not None))


def _arrow_values(path: Path, name: str, column: Any, start: int) -> Column:
    import pyarrow as pa

    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise FileError(path, f"row {start + row} of column {name!r}: a label is missing (null)")
    if pa.types.is_dictionary(column.type):
        used, codes = np.unique(column.indices.to_numpy(), return_inverse=True)
        values = column.dictionary.take(pa.array(used))
        if values.null_count:
            raise FileError(path, f"column {name!r}: a label is missing (null)")
    else:
        values, codes = column, None
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        if codes is None:
            values, codes = (encoded := values.dictionary_encode()).dictionary, encoded.indices.to_numpy()
        return _merged("strings", values.to_pylist(), codes)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise FileError(path, f"column {name!r} must hold integers or strings as labels, but is {kind}")
    found = coded(path, values.to_numpy(zero_copy_only=False), start)
    return found if codes is None else Column(found.kind, found.labels, found.codes[codes])
