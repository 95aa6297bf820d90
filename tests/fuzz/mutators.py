"""Change bytes at random, knowing JSON, zip, npy and csv, so that a change gets past checksums and headers."""

import ast
import io
import json
import random
import struct
import warnings
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

MOST = 1 << 16  # bytes of an input

INTEGERS = (0, 1, -1, 2, 3, 7, 8, 100, 127, 128, 255, 256, 2**15, 2**16, 2**31 - 1, 2**31, -(2**31), 2**32, 2**53)
INTEGERS += (2**61 - 1, 2**61, 2**62, 2**63 - 1, 2**63, -(2**63), 2**64 - 1, 2**64, 10**20, 10**40)
TEXTS = (
    "",
    " ",
    "x",
    "a",
    "NaN",
    "nan",
    "Infinity",
    "-Infinity",
    "inf",
    "NaT",
    "now",
    "today",
    "2020-01-01",
    "1",
    "01",
)
TEXTS += ("1.0", "1e5", "1e400", "-0", "0.5", "true", "TRUE", "None", "NULL", "\ud800", "\u0663", "\ufeff", "\0", "\n")
TEXTS += (
    "2020-01-01T00:00:00Z",
    "2020-01-01T00:00:00.000000001",
    "1_000",
    "0x10",
    "<NA>",
    "\x1b[1m",
    "\u202e",
    "9" * 700,
)
WORDS = (
    "found",
    "categories",
    "ordered",
    "labels",
    "ids",
    "booleans",
    "integers",
    "floats",
    "strings",
    "bytes",
    "times",
)
WORDS += ("<i8", "<f8", "|u1", "|b1", "<u8", ">i8", "|O", "classes", "columns", "groups", "matrix", "matrices", "name")
WORDS += (
    "y_true",
    "y_pred",
    "by",
    "target",
    "of",
    "importance",
    "count",
    "bin1_id",
    "bin2_id",
    "row",
    "column",
    "value",
)
VALUES = (*INTEGERS, *TEXTS, *WORDS, 0.5, -0.0, 1.5, 1e308, -1e308, 5e-324, True, False, None)
TYPES = (
    "<i8",
    "<f8",
    "|u1",
    "|b1",
    "<u8",
    "<i4",
    "<f4",
    "<f2",
    ">i8",
    "<U3",
    "|S3",
    "|O",
    "<M8[s]",
    "<c16",
    "|V8",
    "<U0",
)
TOKENS = (
    b'"',
    b"''",
    b",",
    b"\t",
    b"\r",
    b"\r\n",
    b"\n",
    b"\0",
    b"\xef\xbb\xbf",
    b"\xff",
    b"\xc3",
    b";",
    b"{",
    b"[",
    b"PK",
)
PARENTHESES = b"(" * 200 + b")" * 200


def mutate(rng: random.Random, data: bytes, kind: str, pool: Sequence[bytes]) -> bytes:
    """Return `data` with a few changes; `kind` says what it is, `pool` holds other inputs to take parts of."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 5))):
        by_kind = KINDS.get(kind)
        changed = by_kind(rng, data, pool) if by_kind is not None and rng.random() < 0.75 else None
        data = change_bytes(rng, data, pool) if changed is None else changed
    return data[:MOST]


def change_bytes(rng: random.Random, data: bytes, pool: Sequence[bytes]) -> bytes:
    """Flip, set, cut, repeat, insert or splice bytes; most of what is worth breaking is at both ends."""
    out = bytearray(data)
    at = rng.randrange(len(out) + 1)
    if len(out) > 300 and rng.random() < 0.6:
        at = rng.choice((rng.randrange(200), len(out) - rng.randrange(200)))
    length = rng.choice((1, 1, 2, 4, 8, 32, 200))
    match rng.randrange(10):
        case 0 if out:
            out[min(at, len(out) - 1)] ^= 1 << rng.randrange(8)
        case 1 if out:
            out[min(at, len(out) - 1)] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
        case 2:
            del out[at:]
        case 3:
            del out[at : at + length]
        case 4:
            out[at:at] = rng.randbytes(length)
        case 5:
            out[at:at] = out[max(at - length, 0) : at]
        case 6:
            size, order = rng.choice((1, 2, 4, 8)), rng.choice(("little", "big"))
            out[at : at + size] = (rng.choice(INTEGERS) % 256**size).to_bytes(size, order)  # type: ignore[arg-type]
        case 7 if pool:
            other = rng.choice(pool)
            start = rng.randrange(len(other) + 1)
            out[at : at + rng.choice((0, length))] = other[start : start + rng.choice((length, 4 * length))]
        case 8:
            out[at : at + rng.choice((0, 1))] = rng.choice(TOKENS)
        case _:
            digits = [k for k, byte in enumerate(out) if 48 <= byte < 58]
            if digits:
                place = rng.choice(digits)
                out[place : place + 1] = str(rng.choice(INTEGERS)).encode()
    return bytes(out)


def _nodes(value: Any) -> list[tuple[Any, Any]]:
    """Return all places in nested lists and dicts, as container and key."""
    found: list[tuple[Any, Any]] = []
    stack = [value]
    while stack and len(found) < 5000:
        one = stack.pop()
        keys = one.keys() if isinstance(one, dict) else range(len(one)) if isinstance(one, list) else ()
        for key in keys:
            found.append((one, key))
            stack.append(one[key])
    return found


def _value(rng: random.Random) -> Any:
    match rng.randrange(8):
        case 0:
            return rng.choice(([], {}, [[]], [1], [1, 1], {"a": 1}, [[1, 2], [3]]))
        case 1:
            return [rng.choice(VALUES) for _ in range(rng.randrange(4))]
        case _:
            return rng.choice(VALUES)


def _loaded(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def change_json(rng: random.Random, data: bytes, pool: Sequence[bytes]) -> bytes | None:
    """Change a value, a key or the length of a list in JSON; None of what is none."""
    value = _loaded(data)
    if value is None:
        return None
    places = _nodes(value)
    if not places:
        return json.dumps(_value(rng)).encode("utf-8", "surrogatepass")
    box, key = rng.choice(places)
    one = box[key]
    match rng.randrange(11):
        case 0 | 1 | 2:
            box[key] = _value(rng)
        case 3 if type(one) in (int, float):
            box[key] = rng.choice((one + 1, one - 1, -one, 2 * one, float(one) if abs(one) < 2**60 else one))
        case 4 if isinstance(one, str):
            box[key] = rng.choice((one[:-1], one + one, one.upper(), rng.choice(TEXTS) + one, rng.choice(WORDS)))
        case 5:
            del box[key]
        case 6 if isinstance(box, list):
            box.insert(key, rng.choice((one, _value(rng))))
        case 6:
            box[rng.choice((*WORDS, "more", ""))] = one
        case 7 if isinstance(box, list):
            rng.shuffle(box)
        case 7:
            other = rng.choice(list(box))
            box[key], box[other] = box[other], box[key]
        case 8:
            given = _nodes(_loaded(rng.choice(pool))) if pool else []
            if given:
                there, where = rng.choice(given)
                box[key] = there[where]
        case 9:
            box[key] = [one]
        case _ if isinstance(one, list) and one:
            box[key] = one[rng.randrange(len(one))]
    if isinstance(value, dict) and rng.random() < 0.9:
        value.pop("digest", None)
    try:
        text = json.dumps(value)
    except (ValueError, RecursionError):
        return None
    if rng.random() < 0.02:
        depth = rng.choice((50, 300, 900, 3000))
        text = text.replace(str(rng.choice((0, 1, 2))), "[" * depth + "]" * depth, 1)
    if rng.random() < 0.5:
        text = text.replace("Infinity", "1e999").replace("NaN", "1e999")
    return text.encode()


def npy(descr: Any, order: Any, shape: Any, raw: bytes, version: int = 1) -> bytes:
    """Return an npy file of these parts, right or not."""
    text = f"{{'descr': {descr!r}, 'fortran_order': {order}, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    size = len(text).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + size + text + raw


def _parsed_npy(data: bytes) -> tuple[Any, Any, Any, bytes] | None:
    if data[:6] != b"\x93NUMPY" or len(data) < 12:
        return None
    wide = data[6] > 1
    length = int.from_bytes(data[8 : 12 if wide else 10], "little")
    start = 12 if wide else 10
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            head = ast.literal_eval(data[start : start + length].decode("latin-1").strip())
        return head["descr"], head["fortran_order"], head["shape"], data[start + length :]
    except (ValueError, SyntaxError, TypeError, KeyError, MemoryError, RecursionError):
        return None


def change_npy(rng: random.Random, data: bytes, pool: Sequence[bytes]) -> bytes | None:
    """Change the type, the shape or elements of an npy file; None of what is none."""
    parts = _parsed_npy(data)
    if parts is None:
        return None
    descr, order, shape, raw = parts
    text = raw if descr == "|u1" else None
    match rng.randrange(9):
        case 0:
            descr = rng.choice(
                (*TYPES, [("a", "<i8"), ("b", "<i8")], [("a", "<i8", (2,))], [("y_true", "<U3"), ("y_pred", "<U3")])
            )
        case 1:
            order = rng.choice((not order, "None", "1"))
        case 2:
            values = list(shape) if isinstance(shape, tuple) else []
            change = rng.randrange(5)
            if change == 0 and values:
                values[rng.randrange(len(values))] = rng.choice((*INTEGERS, True))
            elif change == 1:
                values.insert(rng.randrange(len(values) + 1), rng.choice((0, 1, 1, *INTEGERS)))
            elif change == 2 and values:
                del values[rng.randrange(len(values))]
            elif change == 3:
                values = [0, rng.choice(INTEGERS)] if rng.random() < 0.5 else [1] * rng.choice((33, 65)) + values
            else:
                rng.shuffle(values)
            shape = tuple(values)
        case 3 if text is not None and (changed := change_json(rng, text, pool)) is not None:
            raw, shape = changed, (len(changed),)
        case 4 if len(raw) >= 8:  # one row more, or less
            values = list(shape) if isinstance(shape, tuple) and shape else [1]
            size = max(len(raw) // max(values[0], 1), 1) if isinstance(values[0], int) else 8
            at = rng.randrange(max(len(raw) // size, 1)) * size
            raw, values[0] = rng.choice(
                (
                    (raw[:at] + raw[at : at + size] + raw[at:], values[0] + 1),
                    (raw[:at] + raw[at + size :], values[0] - 1),
                )
            )
            shape = tuple(values)
        case 5:
            return npy(
                descr,
                order,
                rng.choice((shape, "(", "()", "None", PARENTHESES.decode(), "[1]")),
                raw,
                rng.choice((1, 2, 3)),
            )
        case _ if len(raw) >= 8:
            out = bytearray(raw)
            at = 8 * rng.randrange(len(out) // 8)
            number = rng.choice(
                (
                    rng.choice(INTEGERS),
                    rng.randrange(20),
                    int.from_bytes(out[at : at + 8], "little") + rng.choice((1, -1)),
                )
            )
            if "f8" in str(descr) and rng.random() < 0.7:
                out[at : at + 8] = struct.pack(
                    "<d", rng.choice((0.0, -0.0, 1.0, -1.0, 0.5, 1e308, 5e-324, float("nan"), float("inf")))
                )
            else:
                out[at : at + 8] = (number % 2**64).to_bytes(8, "little")
            raw = bytes(out)
    return npy(descr, order, shape, raw)


def unzipped(data: bytes) -> list[tuple[str, bytes]] | None:
    """Return names and contents of an archive; None of what cannot be read."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return [(entry.filename, archive.read(entry)) for entry in archive.infolist()]
    except Exception:  # noqa: BLE001  (of damaged archives anything)
        return None


def zipped(entries: Sequence[tuple[str, bytes]], method: int = zipfile.ZIP_STORED) -> bytes:
    """Return an archive of these entries, of the same bytes always."""
    file = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w", method) as archive:
        warnings.simplefilter("ignore")  # about names that are there twice
        for name, content in entries:
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return file.getvalue()


def change_zip(rng: random.Random, data: bytes, pool: Sequence[bytes]) -> bytes | None:
    """Change an entry of an archive, with its checksum, or which entries there are; None of what is none."""
    entries = unzipped(data)
    if not entries:
        return None
    k = rng.randrange(len(entries))
    name, content = entries[k]
    method = zipfile.ZIP_STORED
    match rng.randrange(14):
        case 0:
            entries[k] = (
                rng.choice([*(other for other, _ in entries), "more.npy", "x", "", "a/b.npy", *WORDS]),
                content,
            )
        case 1:
            del entries[k]
        case 2:
            entries.append(entries[k])
        case 3:
            j = rng.randrange(len(entries))
            entries[k], entries[j] = (name, entries[j][1]), (entries[j][0], content)
        case 4:
            others = unzipped(rng.choice(pool)) if pool else None
            if others:
                other = rng.choice(others)
                entries.append(other) if rng.random() < 0.5 else entries.__setitem__(k, (name, other[1]))
        case 5:
            method = zipfile.ZIP_DEFLATED
        case 6:
            entries[k] = (name, change_bytes(rng, content, ()))
        case _:
            inner = change_npy if content[:6] == b"\x93NUMPY" else change_json
            changed = inner(rng, content, ())
            entries[k] = (name, change_bytes(rng, content, ()) if changed is None else changed)
    try:
        return zipped(entries, method)
    except (ValueError, OSError, struct.error, zipfile.LargeZipFile, UnicodeError):
        return None


def change_csv(rng: random.Random, data: bytes, pool: Sequence[bytes]) -> bytes | None:
    """Change cells, lines, quotes or ends of lines of a csv file; None of what is no text."""
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError:
        return None
    at = rng.randrange(len(lines))
    cells = lines[at].split(",")
    k = rng.randrange(len(cells))
    match rng.randrange(12):
        case 0 | 1 | 2:
            cells[k] = str(rng.choice(VALUES))
        case 3:
            row = rng.choice(lines).split(",")
            cells[k] = row[k % len(row)]
        case 4:
            del cells[k]
        case 5:
            cells.insert(k, rng.choice((cells[k], str(rng.choice(VALUES)))))
        case 6:
            cells[k] = (
                f'"{cells[k]}"'
                if rng.random() < 0.6
                else cells[k] + rng.choice(('"', "\r", "\0", " ", "\u2028", "\x1c"))
            )
    lines[at] = ",".join(cells)
    match rng.randrange(12):
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, lines[rng.randrange(len(lines))] if lines else "")
        case 2:
            lines[at : at + 1] = [""]
        case 3:
            rng.shuffle(lines)
        case 4:  # one column of all rows
            value = rng.choice((None, str(rng.choice(VALUES))))
            rows = [line.split(",") for line in lines]
            for number, row in enumerate(rows):
                if k < len(row) and (value is None or number):
                    row[k : k + 1] = [] if value is None else [value]
            lines = [",".join(row) for row in rows]
        case 5 if pool:
            other = rng.choice(pool).decode("utf-8", "replace").split("\n")
            lines = [*lines[:at], *other[rng.randrange(len(other)) :]]
    end = rng.choice(("\n", "\n", "\n", "\r\n", "\r"))
    return end.join(lines).encode("utf-8", "surrogatepass")


Change = Callable[[random.Random, bytes, Sequence[bytes]], bytes | None]
KINDS: dict[str, Change] = {"json": change_json, "npy": change_npy, "zip": change_zip, "csv": change_csv}
