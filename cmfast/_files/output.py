"""Files that appear whole or not at all."""

import errno
import json
import math
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from cmfast._files import parts

FULL = {getattr(errno, name) for name in ("EFBIG", "ENOSPC", "EDQUOT", "EIO") if hasattr(errno, name)}


class FileError(Exception):
    """A file that cannot be read, written or understood; the text is one line for the person who named it."""

    def __init__(self, path: Path | str, what: str) -> None:
        super().__init__(path, what)  # as they are, so that it can go from one process to another

    def __str__(self) -> str:
        path, what = self.args
        return f"{path}: {what}"


def reason(error: OSError) -> str:
    """Return what the system said, without the number and the name of the file."""
    return (error.strerror or str(error)).lower()


def make_folder(out: Path) -> None:
    """Make a folder for files that are yet to be made; refuse one that cannot hold them."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise FileError(out, "is a file, give the name of a folder") from None
    except OSError as error:
        raise FileError(out, f"cannot be made ({error.strerror})") from error
    if not os.access(out, os.W_OK):
        raise FileError(out, "no permission to write into this folder")


def check_target(path: Path, *, force: bool, sources: tuple[Path, ...] = ()) -> Path:
    """Return where to write for `path` (links resolved); refuse before any work is done what would fail after it."""
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise FileError(path, "is a link that leads back to itself")
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
def naming(target: Path, *, always: bool = False) -> Iterator[None]:
    """Have an error of writing name `target`: the system names files that it opens, but no file that is full.

    `always`: also in place of a name that nobody knows, as that of a file that is yet to be renamed.
    """
    try:
        yield
    except OSError as error:
        if always or (error.errno in FULL and error.filename is None):
            error.filename, error.filename2 = str(target), None
        raise


@contextmanager
def replacing(target: Path, *, force: bool = True) -> Iterator[BinaryIO]:
    """Open a new file in the folder of `target` that takes its place when the block ends well, and vanishes otherwise.

    Not a memory map of the output: on a full disk a store into one kills the process, a write raises OSError. Without
    `force`, a file that another run has put there in the meantime stays.
    """
    with replacing_all([target], force=force) as (file,):
        yield file


@contextmanager
def replacing_all(targets: Sequence[Path], *, force: bool = True) -> Iterator[list[BinaryIO]]:
    """Open a new file for each of `targets`; when the block ends well all take their places, otherwise none does.

    Each is on disk before the first is renamed, and what was there is put back if a later one cannot be renamed.
    """
    with ExitStack() as stack:
        opened: list[tuple[Path, Path, BinaryIO]] = []
        for target in targets:
            with naming(target, always=True):
                part, file = parts.create(target)
            stack.callback(part.unlink, missing_ok=True)
            stack.enter_context(naming(target))
            stack.enter_context(file)
            opened.append((target, part, file))
        files = [file for _, _, file in opened]
        yield files
        for target, part, file in opened:
            with naming(target, always=True):
                file.flush()
                os.fsync(file.fileno())
                if target.exists():
                    if not force:
                        raise FileError(target, "has appeared in the meantime, give --force to replace it")
                    shutil.copymode(target, part)
                if not parts.LOCKS:
                    file.close()  # Windows renames no open file
        _rename_all([(target, part) for target, part, _ in opened])


def _rename_all(pairs: list[tuple[Path, Path]]) -> None:
    """Rename new files to their targets; put back what was there before if one of them cannot be."""
    with ExitStack() as undo:
        for target, part in pairs:
            with naming(target, always=True):
                if len(pairs) > 1:
                    _remember(target, part, undo)
                part.replace(target)
        undo.pop_all()
        for _, part in pairs:
            _former(part).unlink(missing_ok=True)


def _remember(target: Path, part: Path, undo: ExitStack) -> None:
    """Note how `target` gets back what it is now."""
    if target.exists():
        target.replace(_former(part))
        undo.callback(_former(part).replace, target)
    else:
        undo.callback(target.unlink, missing_ok=True)


def _former(part: Path) -> Path:
    """Return the name under which what was there before is kept until all files have been renamed."""
    return part.with_name(f"{part.stem}-former.part")


def write_npy_header(file: BinaryIO, shape: tuple[int, ...], dtype: np.dtype) -> None:
    """Write the head of an npy file in C order; the bytes of the array follow, in as many writes as one likes."""
    descr = np.lib.format.dtype_to_descr(dtype)
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})


def write_block(file: BinaryIO, block: np.ndarray) -> None:
    """Write the bytes of `block` in C order."""
    file.write(np.ascontiguousarray(block).data.cast("B") if block.size else b"")


def write_npz(file: BinaryIO, arrays: Mapping[str, np.ndarray], *, compressed: bool = False) -> None:
    """Write what ``numpy.savez`` would, which turns into a pickle what it finds no type for; here that raises."""
    from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

    with ZipFile(file, "w", ZIP_DEFLATED if compressed else ZIP_STORED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def to_json(facts: dict[str, Any], *, ascii_only: bool = False) -> str:
    """Return `facts` as strict JSON: NumPy's numbers as Python's, infinity as a string and NaN as null.

    The strings "Infinity" and "-Infinity" are what ``float()`` of Python and ``Number()`` of JavaScript read back. What
    a terminal would act on is escaped, which is the same text to a program.
    """
    text = json.dumps(plain(facts), indent=2, ensure_ascii=ascii_only, allow_nan=False) + "\n"
    return re.sub(r"[^\n -~]", lambda found: found[0] if found[0].isprintable() else _escaped(found[0]), text)


def _escaped(character: str) -> str:
    return json.dumps(character)[1:-1]


def plain(value: Any) -> Any:
    """Return `value` made of dicts, lists, strings and Python's own numbers."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else json.dumps(value)
    return value
