"""Read label tables block by block: npy as a memory map, csv by the standard library, Parquet and Arrow by pyarrow."""

import codecs
import csv
import math
import stat
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from cmfast._files.arrow_ipc import read_batch_heads
from cmfast._files.csv_values import NO_LABEL, is_count, is_integer
from cmfast._files.label_columns import PRED_NAMES, TEXT_SUFFIXES, TRUE_NAMES, Wanted, choose_columns
from cmfast._files.output import FileError, describe_os_error
from cmfast._files.stores import RangedFile, Source, Url

TABLE_BLOCK_ROWS = 1 << 18  # table rows per block
LEAST_SORTED_SPAN = 1 << 16  # range from which unique integers are found by sorting instead of a lookup table
PARQUET_BUFFER = 1 << 20  # bytes of a column read at a time; a row group may be the whole file
TEXTS = TEXT_SUFFIXES
DELIMITERS = ",;\t"
MOST_LINE_BYTES = 1 << 26  # of text
MOST_CELL = 1000  # characters of a cell that holds a number
MOST_FIRST_LINE = 1 << 20  # bytes of the first line that tell the delimiter
PARQUET = (".parquet", ".pq")
SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".ods")
KNOWN = "npy, csv, tsv, txt, parquet, arrow, feather"  # kinds of files that hold labels
IPC = (".arrow", ".feather", ".ipc")
MATRIX_BLOCK_BYTES = 32 << 20  # per block: enough work for every thread, small enough to show progress

WHAT = {"io": "format", "maps": "format", "cluster": "address"}  # by the extra that installs the reader

Tick = Callable[[int, int], object]


class Column(NamedTuple):
    """A block of a label column: its distinct labels, and the position of each row's label among them."""

    kind: str  # "booleans", "integers", "strings", or "texts" of csv, whose kind only the whole column tells
    labels: list[Any]
    codes: np.ndarray
    lines: list[int] | None = None
    """For texts: the line where each occurs first."""
    order: tuple[Any, ...] = ()
    """All labels that the file declares as ordered categories; the same in every block."""


def open_npy(path: Path) -> np.ndarray:
    """Open an npy file as a read-only memory map; an empty array is loaded."""
    check_source(path)
    with catch_reader_errors(path, "damaged npy file"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about old headers, and syntax warnings about damaged ones
        with path.open("rb") as file:
            magic = file.read(6)
        if magic[:4] == b"PK\x03\x04":
            raise FileError(path, "is an npz archive, which cannot be memory-mapped; save its array as npy")
        if magic != b"\x93NUMPY":
            raise FileError(path, "is no npy file")
        return _load_npy(path)


def _load_npy(path: Path) -> np.ndarray:
    """Load an npy file as a memory map, with clear errors."""
    try:
        array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        if "mmap" in str(error) and "greater than file size" in str(error):
            raise FileError(path, "the file is shorter than its header says; was it copied whole?") from error
        if "Header info length" in str(error) or "nested" in str(error):
            raise FileError(path, "has a damaged header") from error
        if "object" in str(error) or "pickle" in str(error).lower():
            raise FileError(path, "holds Python objects, not numbers; cmfast never unpickles") from error
        if "empty" not in str(error):
            raise
        # The system refuses memory maps of zero bytes.
        array = np.asarray(np.load(path, allow_pickle=False))
    number = math.prod(array.shape)
    if number and not array.dtype.itemsize:  # a short file may claim any number of them
        raise FileError(path, f"holds {number:,} elements of no bytes")
    return array


def check_source(path: Source) -> None:
    """Raise FileError unless `path` is a readable regular file, which can be read more than once, or a URL."""
    if isinstance(path, Url):
        return
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise FileError(path, "is a directory")
        if not stat.S_ISREG(mode):
            raise FileError(path, "is no regular file; save what comes from it first")
        with path.open("rb"):  # the system's error for an unreadable file is clearer than a reader's
            pass
    except OSError as error:
        raise FileError(path, describe_os_error(error)) from error


@contextmanager
def catch_reader_errors(path: Source | str, otherwise: str) -> Iterator[None]:
    """Turn any error of a reader library into a one-line FileError; damaged files may raise anything."""
    try:
        yield
    except (FileError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise FileError(path, describe_os_error(error)) from error
        said = [text.strip() for text in str(error).splitlines() if text.strip()] or [type(error).__name__]
        raise FileError(path, f"{otherwise} ({said[0]})") from error


class MatrixBlocks:
    """Iterate over an array of matrices ``(..., R, C)`` in blocks ``(b, R, C)``, copied one at a time."""

    def __init__(self, M: np.ndarray, block_bytes: int = MATRIX_BLOCK_BYTES) -> None:
        self._M = M
        self.batch = M.shape[:-2]
        self.total = math.prod(self.batch)
        self.core = M.shape[-2:]
        each = max(1, math.prod(self.core) * max(8, M.itemsize))
        self._step = max(1, block_bytes // each)

    def __iter__(self) -> Iterator[np.ndarray]:
        """Yield the blocks in order; one empty block if there are no matrices."""
        # Reshaping a Fortran-order map would read all of it; indexing copies one block.
        flat = self._M.reshape(self.total, *self.core) if self._M.flags.c_contiguous else None
        for start in range(0, max(self.total, 1), self._step):
            stop = min(start + self._step, self.total)
            if flat is not None:
                yield np.array(flat[start:stop])
            else:
                yield self._M[np.unravel_index(np.arange(start, stop), self.batch)] if self.batch else self._M[None]


def iter_columns(path: Source, wanted: Wanted, *, header: bool | None, tick: Tick) -> Iterator[list[Column]]:
    """Yield blocks of label columns of a table; memory grows with the distinct labels of a block.

    Parameters
    ----------
    path : Path
        npy ``(n, 2)`` or with named fields, csv, tsv, Parquet, Arrow or Feather, recognised by its suffix.
    wanted : tuple of str or None
        Names or numbers of the columns of truth and prediction. None selects the column with a usual name, or the
        remaining columns in order if their number matches; further columns must be named.
    header : bool or None
        Whether the first line of a csv file is a header; None detects it, or raises if that is ambiguous.
    tick : callable
        Progress callback ``(done, total)``: rows, or bytes of a csv file.
    """
    suffix = path.suffix.lower()
    if header is not None and suffix not in TEXTS:
        raise FileError(path, "--header and --no-header belong to csv")
    if suffix in {*PARQUET, *IPC}:
        blocks = _arrow_columns(path, wanted, tick)
    elif isinstance(path, Url):
        raise FileError(path, f"is read as an object if it is Parquet, and not {suffix!r}")
    elif suffix == ".npy":
        blocks = _npy_columns(path, wanted, tick)
    elif suffix in TEXTS:
        blocks = _csv_columns(path, wanted, header, tick)
    else:
        raise unknown_kind(path, KNOWN)
    return (unify_kinds(path, block) for block in blocks)


def unify_kinds(path: Source, block: list[Column]) -> list[Column]:
    """Convert truth and prediction to labels of one kind; raise FileError if one is text and the other is not."""
    kinds = [column.kind for column in block[:2]]
    if kinds[0] == kinds[1]:
        return block
    if "strings" in kinds:
        raise FileError(path, f"the truth holds {kinds[0]}, but the prediction {kinds[1]}")
    both = [column._replace(kind="integers", labels=list(map(int, column.labels))) for column in block[:2]]
    return [*both, *block[2:]]


def _npy_columns(path: Path, wanted: Wanted, tick: Tick) -> Iterator[list[Column]]:
    """Yield the wanted label columns of an npy file as lists of :class:`Column`, a block of rows at a time."""
    table = open_npy(path)
    if table.dtype.names:
        names = list(table.dtype.names)
        columns = [table[names[k]] for k in choose_columns(path, names, wanted)]
    else:
        if table.ndim == 2 and are_matrices(table) and None in wanted[:2]:
            said = f"is of shape {table.shape}: a matrix, which cmfast metrics and normalize read"
            raise FileError(path, f"{said}; to take its columns for labels give --true and --pred")
        if table.ndim != 2 or table.shape[1] < 2:
            raise FileError(path, f"must be of shape (n, 2), truth and prediction, but is {table.shape}")
        if not len(table):
            raise FileError(path, "holds no samples")
        names = [str(k) for k in range(table.shape[1])]
        columns = [table[:, k] for k in choose_columns(path, names, wanted)]
    if any(column.ndim != 1 for column in columns):
        raise FileError(path, "a named field must hold one label per row")
    n = len(columns[0])
    for start in range(0, max(n, 1), TABLE_BLOCK_ROWS):
        stop = min(start + TABLE_BLOCK_ROWS, n)
        yield [encode_column(path, np.array(column[start:stop]), start) for column in columns]
        tick(stop, n)


def are_matrices(array: np.ndarray) -> bool:
    """Whether an array is a batch of square matrices (..., C, C), and not columns of labels."""
    return array.dtype.kind in "biuf" and array.ndim >= 2 and array.shape[-1] == array.shape[-2]


def encode_column(path: Source, values: np.ndarray, start: int) -> Column:
    """Encode a column of integers, bools or strings; whole floats become integers, anything else raises."""
    if values.dtype.kind == "U":
        letters = values.view(np.dtype(np.uint32).newbyteorder(values.dtype.byteorder)) if values.itemsize else values
        if values.itemsize and (letters > sys.maxunicode).any():  # Python would build an invalid string
            raise FileError(path, "damaged npy file (holds letters that Unicode does not have)")
        return _merge_duplicates("strings", values.tolist())
    if values.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            whole = np.isfinite(values) & (values == np.rint(values)) & (np.abs(values) < 2.0**53)
        if not whole.all():
            k = int(np.argmin(whole))
            raise FileError(path, f"row {start + k} holds {values[k]}, {NO_LABEL}")
        values = values.astype(np.int64)
    if values.dtype.kind not in "biu":
        raise FileError(path, f"labels must be integers or strings, not {values.dtype}")
    labels, codes = _find_unique(values)
    return Column("booleans" if values.dtype.kind == "b" else "integers", labels.tolist(), codes)


def _find_unique(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return unique integers and inverse like ``numpy.unique``, without sorting if their range is small."""
    low, high = (int(values.min()), int(values.max())) if values.size else (0, LEAST_SORTED_SPAN)
    if high - low >= LEAST_SORTED_SPAN or high >= 1 << 63:
        return np.unique(values, return_inverse=True)
    places = values.astype(np.int64) - low
    occurring = np.flatnonzero(np.bincount(places))
    rank = np.empty(high - low + 1, np.int64)
    rank[occurring] = np.arange(len(occurring))
    return (occurring + low).astype(values.dtype), rank[places]


def _merge_duplicates(kind: str, labels: Sequence[Any], codes: np.ndarray | None = None) -> Column:
    """Return a column from labels with duplicates, given per row or per code."""
    places: dict[Any, int] = {}
    where = np.array([places.setdefault(label, len(places)) for label in labels], np.int64)
    return Column(kind, list(places), where if codes is None else where[codes])


def _csv_columns(path: Path, wanted: Wanted, header: bool | None, tick: Tick) -> Iterator[list[Column]]:
    """Yield blocks of label columns of a csv or tsv file."""
    check_source(path)
    total = path.stat().st_size
    lines = csv_lines(path)
    _, first, _ = next(lines)
    named, names = _read_csv_names(path, first, wanted, header)
    places = choose_columns(path, names, wanted)
    block = _TextRows(len(places))
    for line, row, done in lines if named else chain([(1, first, 0)], lines):
        labels = [row[k].strip() for k in places]
        if not all(labels):
            empty = names[places[labels.index("")]]
            raise FileError(path, f"line {line} has an empty label in column {empty!r}; fill it in, or remove the line")
        block.append(labels, line)
        if len(block) == TABLE_BLOCK_ROWS:
            yield block.columns()
            block = _TextRows(len(places))
            tick(min(done, total), total)
    yield block.columns()
    tick(total, total)


def _read_csv_names(path: Path, first: list[str], wanted: Wanted, header: bool | None) -> tuple[bool, list[str]]:
    """Return whether the `first` line of a csv file names the columns, and their names, else numbers."""
    if len(first) < 2:
        between = "tabs" if _delimiter(path) == "\t" else "commas, semicolons or tabs"
        raise FileError(path, f"needs two columns separated by {between}, but its first line has {len(first)}")
    if header is None and None in wanted[:2] and is_labelled_matrix(path):
        said = "is a matrix with labels, which cmfast metrics, normalize and merge read"
        raise FileError(path, f"{said}; to take its columns for labels give --header")
    named = _has_header(path, first, wanted, _delimiter(path)) if header is None else header
    return named, [name.strip() for name in first] if named else [str(k) for k in range(len(first))]


def is_labelled_matrix(path: Path) -> bool:
    """Whether the first column of a csv file repeats its first line, and all other cells are numbers from 0.

    So pandas writes a matrix with the labels as its index, under any name or none. Lines are read while they agree.
    """
    lines = csv_lines(path)
    names = next(lines)[1][1:]
    if len(names) < 2 or len(set(names)) < len(names) or not all(names):
        return False
    k = 0
    for k, (_, row, _) in enumerate(lines, 1):
        if k > len(names) or row[0] != names[k - 1] or not all(map(is_count, row[1:])):
            return False
    return k == len(names)


def read_column_names(path: Source, wanted: Wanted, *, header: bool | None) -> list[str]:
    """Return the names of the columns of a table for :func:`iter_columns`; numbers where it names none.

    Columns that are `wanted` by name tell that the first line of a csv file names the columns.
    """
    suffix = path.suffix.lower()
    if suffix in {*PARQUET, *IPC}:
        require_module("pyarrow", path)
        return list(arrow_batches(path)[0])
    if suffix == ".npy" and isinstance(path, Path):
        table = open_npy(path)
        return list(table.dtype.names or map(str, range(table.shape[-1] if table.ndim > 1 else 0)))
    if suffix in TEXTS and isinstance(path, Path):
        _, first, _ = next(csv_lines(path))
        return _read_csv_names(path, first, wanted, header)[1]
    raise unknown_kind(path, KNOWN)


def unknown_kind(path: Source, known: str) -> FileError:
    """Return the error for a file of another kind than the `known` ones, which its suffix tells."""
    suffix = path.suffix.lower()
    if suffix in SPREADSHEETS:
        return FileError(path, f'unknown kind of file {suffix!r}; save the sheet as csv (in Excel as "CSV UTF-8")')
    return FileError(path, f"unknown kind of file {suffix!r} (known: {known})")


def csv_lines(path: Path) -> Iterator[tuple[int, list[str], int]]:
    """Yield the nonempty lines of a csv or tsv file: line number, cells, and bytes read so far."""
    check_source(path)
    number, first = 0, None
    for number, row, n_bytes in _read_rows(path, _delimiter(path)):
        if first is None:
            first = row
        elif not row:
            continue
        elif len(row) != len(first):
            raise FileError(path, f"line {number} has {len(row)} columns, the first line has {len(first)}")
        yield number, row, n_bytes
    if first is None:
        raise FileError(path, "is empty")


def check_cells(path: Path, lines: Sequence[int], columns: Iterable[Sequence[str]]) -> None:
    """Raise FileError for a cell with more characters than a number has; columns have a cell for each line."""
    for column in columns:
        if max(map(len, column), default=0) > MOST_CELL:
            line = next(line for line, cell in zip(lines, column, strict=True) if len(cell) > MOST_CELL)
            raise FileError(path, f"line {line} holds a cell of more than {MOST_CELL:,} characters, which is no number")


def _read_rows(path: Path, delimiter: str) -> Iterator[tuple[int, list[str], int]]:
    """Yield all rows of a csv or tsv file: line number, cells, and bytes read so far."""
    reader: Any = None
    try:
        with path.open("rb") as raw:
            lines = _decode_lines(path, raw)
            # Strict: otherwise an unclosed quote would turn the rest of the file into one label.
            reader = csv.reader(lines, delimiter=delimiter, strict=True)
            for row in reader:
                yield reader.line_num, row, raw.tell()
    except UnicodeDecodeError as error:
        raise FileError(path, f"is no UTF-8 text; {_explain_encoding(path)}") from error
    except csv.Error as error:
        raise FileError(path, f"line {reader.line_num}: {error}") from error
    except OSError as error:
        raise FileError(path, describe_os_error(error)) from error


def _explain_encoding(path: Path) -> str:
    """Return how to save a text that is not UTF-8 as UTF-8, which the byte order mark of UTF-16 tells."""
    with path.open("rb") as file:
        encoding = "utf-16" if file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "latin1"
    return f'save it in Excel as "CSV UTF-8", or convert it by iconv -f {encoding} -t utf-8'


def _decode_lines(path: Path, raw: BinaryIO) -> Iterator[str]:
    """Yield the lines of a text; refuse one that is too long, as a file without line breaks is."""
    for k, line in enumerate(iter(partial(raw.readline, MOST_LINE_BYTES), b"")):
        if len(line) == MOST_LINE_BYTES:
            raise FileError(path, f"line {k + 1} is longer than {MOST_LINE_BYTES >> 20} MB")
        yield line.decode("utf-8-sig" if k == 0 else "utf-8")


def _delimiter(path: Path) -> str:
    """Return the cell delimiter: tab for tsv, else the first of comma, semicolon and tab that splits the first line."""
    if path.suffix.lower() == ".tsv":
        return "\t"
    with path.open("rb") as file:
        first = file.readline(MOST_FIRST_LINE).decode("utf-8", "replace")
    for delimiter in DELIMITERS:
        try:
            if len(next(csv.reader([first], delimiter=delimiter, strict=True), ())) > 1:
                return delimiter
        except csv.Error:  # such as a quoted line break, which the reader of all lines takes
            continue
    return ","


class _TextRows:
    """Rows of texts, storing each distinct text once."""

    def __init__(self, columns: int) -> None:
        self._places: list[dict[str, int]] = [{} for _ in range(columns)]
        self._codes: list[list[int]] = [[] for _ in range(columns)]
        self._lines: list[list[int]] = [[] for _ in range(columns)]

    def __len__(self) -> int:
        return len(self._codes[0])

    def append(self, labels: list[str], line: int) -> None:
        """Add a row of texts, found in `line`."""
        for label, places, codes, lines in zip(labels, self._places, self._codes, self._lines, strict=True):
            codes.append(places.setdefault(label, len(places)))
            if len(places) > len(lines):
                lines.append(line)

    def columns(self) -> list[Column]:
        """Return the rows as columns of codes."""
        parts = zip(self._places, self._codes, self._lines, strict=True)
        return [Column("texts", list(places), np.array(codes, np.int64), lines) for places, codes, lines in parts]


def _has_header(path: Path, first: list[str], wanted: Wanted, delimiter: str) -> bool:
    """Whether the first line of a csv file is a header; raise FileError if that is ambiguous."""
    cells = [cell.strip() for cell in first]
    if any(name is not None and not name.isdecimal() for name in wanted):
        return True
    if any(cell.lower() in (*TRUE_NAMES, *PRED_NAMES) for cell in cells):
        return True
    if all(is_integer(cell) for cell in cells[:2]):
        return False
    told = _compare_with_rows(path, cells, delimiter) if len(cells) == 2 else None
    if told is not None:
        return told
    raise FileError(
        path,
        f"cannot tell whether the first line ({','.join(cells)}) names the columns; "
        "give --header or --no-header, or name them with --true and --pred",
        ["--header"],
    )


def _compare_with_rows(path: Path, first: list[str], delimiter: str) -> bool | None:
    """Whether two texts are a header: True if the rows share labels and these are not among them, False if both are.

    None if the rows do not tell.
    """
    found: tuple[set[str], set[str]] = (set(), set())
    rows = _read_rows(path, delimiter)
    next(rows)
    for _, row, _ in rows:
        for cell, labels in zip(row, found, strict=False):
            labels.add(cell.strip())
    known = [cell in found[0] or cell in found[1] for cell in first]
    if all(known):
        return False
    return None if any(known) or found[0].isdisjoint(found[1]) else True


def _arrow_columns(path: Source, wanted: Wanted, tick: Tick) -> Iterator[list[Column]]:
    """Yield blocks of label columns of a Parquet or Arrow file."""
    require_module("pyarrow", path)
    names, total, parts = arrow_batches(path)
    places = choose_columns(path, names, wanted)
    done = 0
    for columns in parts(places):
        with catch_reader_errors(path, "not readable"):
            chosen = zip(places, columns, strict=True)
            block = [read_arrow_labels(path, names[place], column, done) for place, column in chosen]
        yield block
        done += len(block[0].codes)
        tick(done, total)


def require_module(module: str, path: Source | str, extra: str = "io") -> Any:
    """Import the library that reads this kind of file; raise FileError with the install command if missing."""
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError:
        raise FileError(path, f'reading this {WHAT[extra]} needs {module}: pip install "cmfast[{extra}]"') from None


def arrow_batches(
    path: Source, rows: int | None = None
) -> tuple[list[str], int, Callable[[list[int]], Iterator[list[Any]]]]:
    """Return ``(names, n, parts)`` of a Parquet or Arrow file; ``parts(places)`` yields columns in blocks of `rows`."""
    check_source(path)
    with catch_reader_errors(path, "not readable"):
        names, total, batches = (_open_parquet if path.suffix.lower() in PARQUET else _open_ipc)(
            path, rows or TABLE_BLOCK_ROWS
        )

    def parts(places: list[int]) -> Iterator[list[Any]]:
        """Yield the columns at these positions, block by block."""
        source = batches(places)
        while True:
            with catch_reader_errors(path, "not readable"):
                columns = next(source, None)
            if columns is None:
                return
            yield columns

    return names, total, parts


def _open_parquet(path: Source, rows: int) -> Any:
    """Return column names, number of rows and a batch reader of a Parquet file."""
    import pyarrow.parquet as pq

    # Of an object, the ranges of a group of rows are joined to few requests; of a file, little is read at a time.
    is_object = isinstance(path, Url)
    source = RangedFile(path) if isinstance(path, Url) else path
    file = pq.ParquetFile(source, buffer_size=0 if is_object else PARQUET_BUFFER, pre_buffer=is_object)
    names = file.schema_arrow.names
    together = [[k] for k in range(file.num_row_groups)] if is_object else [list(range(file.num_row_groups))]

    def batches(places: list[int]) -> Iterator[list[Any]]:
        """Yield the columns at these positions of every batch of rows."""
        chosen = list(dict.fromkeys(names[k] for k in places))
        read = [
            k for wanted in chosen for k, name in enumerate(names) if name == wanted
        ]  # columns that share a name are read together
        for batch in chain.from_iterable(file.iter_batches(rows, row_groups, chosen) for row_groups in together):
            if batch.num_columns != len(read):
                raise FileError(path, f"has {batch.num_columns} columns instead of {len(read)} under these names")
            yield [batch.column(read.index(k)) for k in places]

    return names, file.metadata.num_rows, batches


def _open_ipc(path: Source, rows: int) -> Any:
    """Return column names, number of rows and a batch reader of a memory-mapped Arrow file."""
    import pyarrow as pa
    from pyarrow import ipc

    source = pa.memory_map(str(path))
    whole = ipc.open_file(source)
    total, compressed = read_batch_heads(source)

    def batches(places: list[int]) -> Iterator[list[Any]]:
        # Uncompressed columns are mapped pages of the file; selecting some of them would copy.
        """Yield the columns at these positions of every batch of rows."""
        read = sorted(set(places)) if compressed else list(range(len(whole.schema)))
        file = ipc.open_file(source, options=ipc.IpcReadOptions(included_fields=read)) if compressed else whole
        for k in range(file.num_record_batches):
            batch = file.get_batch(k)
            batch.validate(full=True)  # the lengths in a damaged file cannot be trusted
            for start in range(0, max(batch.num_rows, 1), rows):  # the whole file may be one batch
                part = batch.slice(start, rows)
                yield [part.column(read.index(place)) for place in places]

    return whole.schema.names, total, batches


def read_arrow_labels(path: Source, name: str, column: Any, start: int) -> Column:
    """Encode a block of an Arrow label column; its first row has number `start` in the file."""
    found = _encode_arrow(path, name, column, start)
    if not getattr(column.type, "ordered", False):
        return found
    declared = dict.fromkeys(column.dictionary.to_pylist())
    return found._replace(order=tuple(value for value in declared if value is not None))


def _encode_arrow(path: Source, name: str, column: Any, start: int) -> Column:
    """Encode a block of an Arrow label column, without declared order."""
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
        return _merge_duplicates("strings", values.to_pylist(), codes)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise FileError(path, f"column {name!r} must hold integers or strings as labels, but is {kind}")
    found = encode_column(path, values.to_numpy(zero_copy_only=False), start)
    return found if codes is None else Column(found.kind, found.labels, found.codes[codes])
