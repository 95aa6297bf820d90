"""Tables that go to files: csv as spreadsheets read it, columns as csv, Parquet or JSON."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from cmfast._files.output import FileError, plain, replacing, to_json
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


def _parquet(target: Path, columns: dict[str, list[Any]], facts: dict[str, Any]) -> bytes:
    pa = needs("pyarrow", target)
    import io
    import json

    from pyarrow import parquet

    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    about = {"cmfast": json.dumps(plain(facts))}
    out = io.BytesIO()
    parquet.write_table(table.replace_schema_metadata({**(table.schema.metadata or {}), **about}), out)
    return out.getvalue()
