"""Temporary files of unfinished outputs: locked while being written, removed by a later run if abandoned.

A killed process cannot clean up, but its lock ends with it.
"""

import os
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows has no flock to detect abandoned files, so they stay
    fcntl = None

LOCKS = fcntl is not None
SUFFIX = ".part"


def create_part(target: Path) -> tuple[Path, BinaryIO]:
    """Create and lock a new file next to `target`; remove abandoned files of earlier runs with the same output."""
    _remove_abandoned(target.parent, _stem(target))
    while True:
        part = make_fresh_name(target)
        file = part.open("xb")  # permissions by the user's umask, unlike tempfile's
        if _try_lock(file) and _is_same_file(part, file):
            return part, file
        file.close()  # another run removed it as abandoned between the two calls


def make_fresh_name(target: Path) -> Path:
    """Return an unused path next to `target`."""
    return target.with_name(f"{_stem(target)}{os.urandom(4).hex()}{SUFFIX}")


def is_part(path: str | bytes, target: Path) -> bool:
    """Whether `path` is a temporary file of the output `target`."""
    name = Path(os.fsdecode(path)).name
    return name.startswith(_stem(target)) and name.endswith(SUFFIX)


def _stem(target: Path) -> str:
    # A checksum replaces the output's name, which may already have the maximum length.
    """Return the common prefix of the temporary files of an output."""
    return f".cmfast-{zlib.crc32(os.fsencode(target.name)):08x}-"


def _try_lock(file: BinaryIO) -> bool:
    """Lock a file without waiting; return False if another process holds the lock."""
    if LOCKS:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks: other runs cannot take it for abandoned either
            pass
    return True


def _is_same_file(part: Path, file: BinaryIO) -> bool:
    """Whether the path still refers to the open file."""
    try:
        return os.path.samestat(part.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _remove_abandoned(folder: Path, stem: str) -> None:
    """Remove unlocked temporary files with this prefix from a folder."""
    if not LOCKS:
        return
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(stem) and entry.name.endswith(SUFFIX) and entry.is_file(follow_symlinks=False):
                # A running writer holds the lock until the file has its final name.
                with suppress(OSError), Path(entry.path).open("r+b") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    Path(entry.path).unlink()
