"""Files half written: locked while a process writes them, removed by a later run of the same output when none does.

A process that is killed cannot clean up; its lock, however, ends with it.
"""

import os
import secrets
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows, where nothing can be told about the holder of a file: abandoned parts stay there
    fcntl = None

LOCKS = fcntl is not None
SUFFIX = ".part"


def create(target: Path) -> tuple[Path, BinaryIO]:
    """Open a new file beside `target`, locked, and remove what killed runs have left of the same output."""
    _remove_abandoned(target.parent, _stem(target))
    while True:
        part = fresh_name(target)
        file = part.open("xb")  # the permissions that the user's mask grants, unlike tempfile's
        if _locked(file) and _still(part, file):
            return part, file
        file.close()  # another run took it for abandoned between the two calls, and removes it


def fresh_name(target: Path) -> Path:
    """Return a name beside `target` that no file has."""
    return target.with_name(f"{_stem(target)}{secrets.token_hex(4)}{SUFFIX}")


def is_part(path: str | bytes, target: Path) -> bool:
    """Return whether a file of that name is written beside `target`, to take its place."""
    name = Path(os.fsdecode(path)).name
    return name.startswith(_stem(target)) and name.endswith(SUFFIX)


def _stem(target: Path) -> str:
    # The name of the output may be as long as the file system takes, so a checksum stands for it.
    return f".cmfast-{zlib.crc32(os.fsencode(target.name)):08x}-"


def _locked(file: BinaryIO) -> bool:
    if LOCKS:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks, where nobody else can take it for abandoned either
            pass
    return True


def _still(part: Path, file: BinaryIO) -> bool:
    try:
        return os.path.samestat(part.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _remove_abandoned(folder: Path, stem: str) -> None:
    if not LOCKS:
        return
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(stem) and entry.name.endswith(SUFFIX) and entry.is_file(follow_symlinks=False):
                # Whoever writes it holds the lock until the file has its final name.
                with suppress(OSError), Path(entry.path).open("r+b") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    Path(entry.path).unlink()
