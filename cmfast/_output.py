"""Files that appear whole or not at all."""

import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np


class FileError(Exception):
    """A file that cannot be read, written or understood; the text is one line for the person who named it."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"{path}: {what}")


def check_target(path: Path, *, force: bool, sources: tuple[Path, ...] = ()) -> Path:
    """Return where to write for `path` (links resolved); refuse before any work is done what would fail after it."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise FileError(path, "is a folder, give the name of a file")
    if not target.parent.is_dir():
        raise FileError(path, f"there is no folder {target.parent}")
    if not os.access(target.parent, os.W_OK):
        raise FileError(path, f"no permission to write into {target.parent}")
    if target.exists():
        if not target.is_file():
            raise FileError(path, "is no regular file")
        if any(source.exists() and target.samefile(source) for source in sources):
            raise FileError(path, "is the input itself, choose another output")
        if not force:
            raise FileError(path, "exists already, give --force to replace it")
    return target


@contextmanager
def replacing(target: Path) -> Iterator[BinaryIO]:
    """Open a new file beside `target` that takes its place when the block ends well, and vanishes otherwise.

    Not a memory map of the output: on a full disk a store into one kills the process, a write raises OSError.
    """
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as file:  # the permissions that the user's mask grants, unlike tempfile's
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, part)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def write_npy_header(file: BinaryIO, shape: tuple[int, ...], dtype: np.dtype) -> None:
    """Write the head of an npy file in C order; the bytes of the array follow, in as many writes as one likes."""
    descr = np.lib.format.dtype_to_descr(dtype)
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})


def write_block(file: BinaryIO, block: np.ndarray) -> None:
    """Write the bytes of `block` in C order."""
    file.write(np.ascontiguousarray(block).data.cast("B") if block.size else b"")


def to_json(facts: dict[str, Any]) -> str:
    """Return `facts` as strict JSON: NumPy's numbers as Python's, what is not finite as null."""
    return json.dumps(plain(facts), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def plain(value: Any) -> Any:
    """Return `value` made of dicts, lists, strings and Python's own numbers."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
