"""What the heads of batches in an Arrow file say, which pyarrow does not: their rows, and whether they are compressed.

A head is a flatbuffer: a table begins with the distance back to its list of fields, which are found by their number.
See https://arrow.apache.org/docs/format/Columnar.html and the schema Message.fbs there.
"""

import struct
from typing import Any

MAGIC = 8  # bytes before the first message
HEADER = 2  # field of a message
ROWS_FIELD, COMPRESSION_FIELD = 0, 3  # fields of a batch


def described(source: Any) -> tuple[int, bool]:
    """Return the rows of all batches, and whether any is compressed; the bytes of the columns are not touched."""
    from pyarrow import ipc

    rows, compressed = 0, False
    source.seek(MAGIC)
    for message in ipc.MessageReader.open_stream(source):
        if message.type == "record batch":
            head = memoryview(message.metadata)
            batch = _followed(head, _field(head, _followed(head, 0), HEADER))
            place = _field(head, batch, ROWS_FIELD)  # left out where it is 0
            rows += _integer("<q", head, place) if place else 0
            compressed = compressed or _field(head, batch, COMPRESSION_FIELD) > 0
    return rows, compressed


def _integer(kind: str, head: memoryview, place: int) -> int:
    return int(struct.unpack_from(kind, head, place)[0])


def _followed(head: memoryview, place: int) -> int:
    """Return where the table begins to which `place` points."""
    return place + _integer("<I", head, place)


def _field(head: memoryview, table: int, number: int) -> int:
    """Return where a field of a table is; 0 where it has none."""
    fields = table - _integer("<i", head, table)
    entry = 4 + 2 * number
    there = entry < _integer("<H", head, fields)
    return table + offset if there and (offset := _integer("<H", head, fields + entry)) else 0
