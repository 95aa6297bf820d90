"""Write results to files: arrays as npy and npz, columns as csv, Parquet and JSON, whole or block by block."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np

from cmfast._files.output import (
    FileError,
    convert_to_plain,
    replace_file,
    to_json,
    write_block,
    write_npy_header,
    write_npz,
)
from cmfast._files.states import State
from cmfast._files.tables import require_module

Columns: TypeAlias = Sequence[tuple[str, Sequence[Any] | np.ndarray]]  # names and equally long values


class Content(NamedTuple):
    """Content of an output file in several forms; its suffix selects one."""

    arrays: Mapping[str, np.ndarray] | None = None
    """For npz; npy stores the first array."""
    columns: Columns | None = None
    """For csv, Parquet and JSON."""
    metadata: Mapping[str, Any] | None = None
    """For JSON, and for Parquet with the columns."""
    data: bytes | None = None
    """Bytes, for any suffix."""


def content_of_state(state: State, target: Path | None) -> Content | None:
    """Return a state as `Content` of its output file: JSON by the suffix, else npz; None without a file."""
    if target is None:
        return None
    return Content(data=state.to_json().encode() if target.suffix.lower() == ".json" else state.to_bytes())


def write(target: Path, content: Content, *, force: bool) -> None:
    """Write an output file atomically."""
    kind = target.suffix.lower()
    if content.columns is not None and kind in (".csv", ".parquet"):
        write_rows(target, [content.columns], content.metadata or {}, force=force)
        return
    data = _json(content).encode() if content.data is None and kind == ".json" else content.data
    with replace_file(target, force=force) as file:
        if data is not None:
            file.write(data)
        elif kind == ".npz":
            write_npz(file, content.arrays or {})
        else:
            array = next(iter((content.arrays or {}).values()))
            write_npy(file, array.shape, [array])


def _json(content: Content) -> str:
    """Return metadata as JSON, with columns as rows."""
    rows = {}
    if content.columns is not None:
        names, values = zip(*content.columns, strict=True)
        rows = {"rows": [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]}
    return to_json({**(content.metadata or {}), **rows})


def write_npy(file: BinaryIO, shape: tuple[int, ...], blocks: Iterable[np.ndarray]) -> np.dtype[Any]:
    """Write an array of the given shape from its blocks, at least one; return its dtype."""
    dtype = None
    for block in blocks:
        if dtype is None:
            dtype = block.dtype
            write_npy_header(file, shape, dtype)
        write_block(file, block)
    assert dtype is not None
    return dtype


def write_rows(target: Path, blocks: Iterable[Columns], metadata: Mapping[str, Any], *, force: bool) -> tuple[int, int]:
    """Write blocks of rows as csv or Parquet; return the numbers of rows and columns."""
    with replace_file(target, force=force) as file:
        if target.suffix.lower() == ".parquet":
            return _write_parquet(target, file, blocks, metadata)
        return _write_csv(target, file, blocks)


def _write_csv(target: Path, file: BinaryIO, blocks: Iterable[Columns]) -> tuple[int, int]:
    """Write blocks of columns as csv; return the numbers of rows and columns."""
    n_rows = n_columns = 0
    for k, block in enumerate(blocks):
        columns = [values.tolist() if isinstance(values, np.ndarray) else values for _, values in block]
        head = [] if k else [[name for name, _ in block]]
        file.write(_csv(target, [*head, *zip(*columns, strict=True)]))
        n_rows, n_columns = n_rows + len(columns[0]), len(columns)
    return n_rows, n_columns


def _csv(target: Path, rows: Iterable[Sequence[Any]]) -> bytes:
    """Return rows as csv; NaN becomes an empty cell."""
    try:
        return "".join(",".join(map(_cell, row)) + "\n" for row in rows).encode()
    except UnicodeEncodeError as error:
        label = error.object[error.start]
        raise FileError(target, f"a label holds {label!r}, which UTF-8 cannot write; write npz or json") from error


def _cell(value: Any) -> str:
    """Return a value as a csv cell, quoted where needed."""
    if isinstance(value, float) and value != value:  # noqa: PLR0124 - NaN alone differs from itself
        return ""
    text = str(value)
    special = any(c in ',"\r\n' for c in text) or text != text.strip()
    return '"' + text.replace('"', '""') + '"' if special else text


def _write_parquet(
    target: Path, file: BinaryIO, blocks: Iterable[Columns], metadata: Mapping[str, Any]
) -> tuple[int, int]:
    """Write blocks of columns as Parquet; return the numbers of rows and columns."""
    pa = require_module("pyarrow", target)
    from pyarrow import parquet

    about = {"cmfast": json.dumps(convert_to_plain(dict(metadata)))}
    n_rows = n_columns = 0
    writer = None
    for block in blocks:
        table = pa.table({name: pa.array(values) for name, values in block})
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), **about})
        writer = writer or parquet.ParquetWriter(file, table.schema)
        writer.write_table(table)
        n_rows, n_columns = n_rows + table.num_rows, table.num_columns
    if writer is not None:
        writer.close()
    return n_rows, n_columns
