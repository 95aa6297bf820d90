"""Check the metadata of a zarr array before zarr reads them: numbers only, by codecs that run no code of a file.

A codec such as pickle runs what its chunks say, and the metadata, which anyone may have written, choose the codec.
"""

import json
import re
from typing import Any

from cmfast._files.output import FileError
from cmfast._files.stores import Source

FORMATS = {"zarr.json": 3, ".zarray": 2}  # by the name of the document
DOCUMENTS = (*FORMATS, ".zattrs")  # all that zarr asks for to open an array
CODECS = frozenset((
    "adler32", "astype", "bitround", "blosc", "bytes", "bz2", "crc32", "crc32c", "delta", "endian", "fixedscaleoffset",
    "fletcher32", "gzip", "jenkins_lookup3", "lz4", "lzma", "packbits", "pcodec", "quantize", "sharding_indexed",
    "shuffle", "transpose", "zfpy", "zlib", "zstd",
))  # fmt: skip
TYPES = frozenset(("astype", "data_type", "decode_dtype", "dtype", "encode_dtype"))  # options of codecs that are types
_NUMBERS = re.compile(r"[<>|=]?(b1|[iu][1248]|f[248])|bool|u?int(8|16|32|64)|float(16|32|64)")


def check_document(path: Source, name: str, text: bytes) -> None:
    """Raise FileError unless a document of metadata is of an array of numbers that known codecs decode."""
    if name not in FORMATS:
        return
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise FileError(path, f"is no zarr array ({name} is no JSON)") from None
    if not isinstance(found, dict):
        raise FileError(path, f"is no zarr array ({name} holds no metadata)")
    # zarr goes by the number, not by the name of the document.
    if type(found.get("zarr_format")) is not int or found["zarr_format"] != FORMATS[name]:
        raise FileError(path, f"is no zarr array ({name} must be of format {FORMATS[name]})")
    if found["zarr_format"] == 3:
        _check_type(path, found.get("data_type"))
        _check_codecs(path, found.get("codecs"))
    else:
        _check_type(path, found.get("dtype"))
        compressor, filters = found.get("compressor"), found.get("filters")
        _check_codecs(path, [] if filters is None else filters)
        _check_codecs(path, [] if compressor is None else [compressor])


def _check_type(path: Source, kind: Any) -> None:
    """Raise FileError unless a data type is one of numbers."""
    if not (isinstance(kind, str) and _NUMBERS.fullmatch(kind)):
        raise FileError(path, f"must hold numbers in rows, but its data type is {_shorten(kind)}")


def _check_codecs(path: Source, codecs: Any) -> None:
    """Raise FileError unless all codecs of a list, and those that they contain, are known and decode to numbers."""
    if not isinstance(codecs, list):
        raise FileError(path, f"is no zarr array (its codecs are no list, but {_shorten(codecs)})")
    for codec in codecs:
        if isinstance(codec, dict):
            inner = codec.get("configuration")
            options = {**codec, **inner} if isinstance(inner, dict) else codec
            names = [each[key] for each in (codec, options) for key in ("name", "id") if key in each]
        else:
            options, names = {}, [codec]
        for name in names or [codec]:
            if not isinstance(name, str) or name.removeprefix("numcodecs.") not in CODECS:
                known = ", ".join(sorted(CODECS))
                raise FileError(path, f"has chunks of the codec {_shorten(name)}, which is not read; {known} are")
        for key in TYPES & options.keys():
            _check_type(path, options[key])
        for key in ("codecs", "index_codecs"):
            if key in options:
                _check_codecs(path, options[key])


def _shorten(value: Any) -> str:
    """Return a value of the metadata as text for a message."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
