"""Read the row counts and compression of record batches in an Arrow file, which pyarrow does not expose.

A batch header is a flatbuffer: a table starts with the offset to its list of fields, which are found by number. See
https://arrow.apache.org/docs/format/Columnar.html and Message.fbs there.
"""

import struct
from typing import Any

MAGIC = 8  # bytes before the first message
HEADER = 2  # field of a message
ROWS_FIELD, COMPRESSION_FIELD = 0, 3  # fields of a batch


def read_batch_heads(source: Any) -> tuple[int, bool]:
    """Return the total rows of all batches, and whether any is compressed; reads no column data."""
    from pyarrow import ipc

    rows, compressed = 0, False
    source.seek(MAGIC)
    for message in ipc.MessageReader.open_stream(source):
        if message.type == "record batch":
            head = memoryview(message.metadata)
            batch = _follow_offset(head, _find_field(head, _follow_offset(head, 0), HEADER))
            place = _find_field(head, batch, ROWS_FIELD)  # omitted by the writer if 0
            rows += _unpack_integer("<q", head, place) if place else 0
            compressed = compressed or _find_field(head, batch, COMPRESSION_FIELD) > 0
    return rows, compressed


def _unpack_integer(kind: str, head: memoryview, place: int) -> int:
    """Return the integer of struct format `kind` at position `place`."""
    return int(struct.unpack_from(kind, head, place)[0])


def _follow_offset(head: memoryview, place: int) -> int:
    """Return the position of the table that the offset at `place` points to."""
    return place + _unpack_integer("<I", head, place)


def _find_field(head: memoryview, table: int, number: int) -> int:
    """Return the position of a field of a table; 0 if the field is absent."""
    fields = table - _unpack_integer("<i", head, table)
    entry = 4 + 2 * number
    there = entry < _unpack_integer("<H", head, fields)
    return table + offset if there and (offset := _unpack_integer("<H", head, fields + entry)) else 0
