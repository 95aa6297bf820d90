"""Tables that go to files: csv as spreadsheets read it, columns as csv, Parquet or JSON."""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from cmfast._files.output import FileError, plain, replacing, to_json
from cmfast._files.states import State
from cmfast._files.tables import needs


def csv_text(target: Path, rows: Iterable[Sequence[Any]]) -> bytes:
    """Return rows as csv; a number that is not there is an empty cell."""
    try:
        return "".join(",".join(map(_cell, row)) + "\n" for row in rows).encode()
    except UnicodeEncodeError as error:
        label = error.object[error.start]
        raise FileError(target, f"a label holds {label!r}, which UTF-8 cannot write; write npz or json") from error


def _cell(value: Any) -> str:
    """Return a value as a cell; in quotes where a reader would break it, or shave it, without."""
    if isinstance(value, float) and value != value:  # noqa: PLR0124 - NaN alone differs from itself
        return ""
    text = str(value)
    special = any(c in ',"\r\n' for c in text) or text != text.strip()
    return '"' + text.replace('"', '""') + '"' if special else text


def write_state(target: Path, state: State, *, force: bool) -> None:
    """Write counts as JSON or npz, told by the suffix."""
    content = state.to_json().encode() if target.suffix.lower() == ".json" else state.to_bytes()
    with replacing(target, force=force) as file:
        file.write(content)


def write_columns(target: Path, columns: dict[str, list[Any]], facts: dict[str, Any], *, force: bool) -> None:
    """Write columns of one length as csv, Parquet or JSON, told by the suffix; the last two keep the `facts`."""
    kind = target.suffix.lower()
    rows = zip(*columns.values(), strict=True)
    if kind == ".parquet":
        text = _parquet(target, columns, facts)
    elif kind == ".csv":
        text = csv_text(target, [list(columns), *rows])
    else:
        text = to_json({**facts, "rows": [dict(zip(columns, row, strict=True)) for row in rows]}).encode()
    with replacing(target, force=force) as file:
        file.write(text)


def rows_written(
    target: Path, blocks: Iterator[dict[str, np.ndarray]], facts: dict[str, Any], *, force: bool
) -> tuple[int, int]:
    """Write columns that come in blocks of rows as csv or Parquet; return the numbers of rows and of columns."""
    first = next(blocks)
    write = _parquet_in_blocks if target.suffix.lower() == ".parquet" else _csv_in_blocks
    with replacing(target, force=force) as file:
        return write(target, file, chain([first], blocks), facts), len(first)


def _csv_in_blocks(target: Path, file: BinaryIO, blocks: Iterable[dict[str, np.ndarray]], _: dict[str, Any]) -> int:
    n_rows = 0
    for block in blocks:
        columns = [values.tolist() for values in block.values()]
        head = [] if n_rows else [list(block)]
        file.write(csv_text(target, [*head, *zip(*columns, strict=True)]))
        n_rows += len(columns[0])
    return n_rows


def _parquet_in_blocks(
    target: Path, file: BinaryIO, blocks: Iterable[dict[str, np.ndarray]], facts: dict[str, Any]
) -> int:
    needs("pyarrow", target)
    from pyarrow import parquet

    n_rows, writer = 0, None
    for block in blocks:
        table = _table(target, block, facts)
        if writer is None:
            writer = parquet.ParquetWriter(file, table.schema)
        writer.write_table(table)
        n_rows += table.num_rows
    if writer is not None:
        writer.close()
    return n_rows


def _table(target: Path, columns: dict[str, Any], facts: dict[str, Any]) -> Any:
    pa = needs("pyarrow", target)
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    about = {"cmfast": json.dumps(plain(facts))}
    return table.replace_schema_metadata({**(table.schema.metadata or {}), **about})


def _parquet(target: Path, columns: dict[str, list[Any]], facts: dict[str, Any]) -> bytes:
    table = _table(target, columns, facts)
    import io

    from pyarrow import parquet

    out = io.BytesIO()
    parquet.write_table(table, out)
    return out.getvalue()
