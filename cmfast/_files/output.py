"""Files that appear whole or not at all."""

import errno
import json
import math
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn, Self

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
def removing_empty(folder: Path) -> Iterator[None]:
    """Remove `folder` where the block fails, if it was not there before and nothing is in it."""
    is_new = not folder.exists()
    try:
        yield
    except BaseException:
        if is_new:
            with suppress(OSError):
                folder.rmdir()
        raise


@contextmanager
def naming(target: Path) -> Iterator[None]:
    """Have an error of writing name the output: the system names the new file, or none where a disk is full."""
    try:
        yield
    except OSError as error:
        nameless = error.filename is None and error.errno in FULL
        if nameless or (error.filename is not None and parts.is_part(error.filename, target)):
            raise OSError(error.errno, error.strerror, str(target)) from error
        raise


class _New(NamedTuple):
    """A file that is written beside the output whose place it takes."""

    target: Path
    part: Path
    file: BinaryIO
    force: bool

    def take_place(self) -> None:
        if self.target.exists():
            if not self.force:
                self._refuse()
            shutil.copymode(self.target, self.part)
        if not parts.LOCKS:
            self.file.close()  # Windows renames no open file
        if not self.force:  # a link replaces nothing, not even what appears between two system calls
            try:
                os.link(self.part, self.target)
            except FileExistsError:
                self._refuse()
            except OSError:  # a file system without links
                pass
            else:
                return  # the other name goes when the block ends
        self.part.replace(self.target)

    def _refuse(self) -> NoReturn:
        raise FileError(self.target, "has appeared in the meantime, give --force to replace it") from None


class Outputs:
    """Files that take their places together when the block ends well; where it fails, all stays as it was.

    A process that is killed between the first and the last of them leaves some of both.
    """

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._written: list[_New] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, *error: object) -> None:
        with self._stack:
            if kind is None:
                self._take_places()

    @contextmanager
    def replacing(self, target: Path, *, force: bool = True) -> Iterator[BinaryIO]:
        """Open a new file beside `target`, which is one of the outputs when the block ends well."""
        with naming(target):
            part, file = parts.create(target)
            self._stack.callback(part.unlink, missing_ok=True)
            self._stack.enter_context(file)  # locked until it has its place
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
            except BaseException:
                with suppress(OSError):
                    file.close()  # which would write what is buffered still
                raise
        self._written.append(_New(target, part, file, force))

    def _take_places(self) -> None:
        replaced: list[tuple[Path, Path | None]] = []
        try:
            for new in self._written:
                with naming(new.target):
                    earlier = self._kept(new.target) if new is not self._written[-1] else None
                    new.take_place()
                replaced.append((new.target, earlier))
        except BaseException:
            for target, earlier in replaced:
                target.unlink() if earlier is None else earlier.replace(target)
            raise

    def _kept(self, target: Path) -> Path | None:
        """Return where else the file at `target` is until the block ends, None where there is none."""
        if not target.exists():
            return None
        kept = parts.fresh_name(target)
        self._stack.callback(kept.unlink, missing_ok=True)
        try:
            os.link(target, kept)
        except OSError:  # a file system without links
            shutil.copy2(target, kept)
        return kept


@contextmanager
def replacing(target: Path, *, force: bool = True) -> Iterator[BinaryIO]:
    """Open a new file beside `target` that takes its place when the block ends well, and vanishes otherwise.

    Not a memory map of the output: on a full disk a store into one kills the process, a write raises OSError. Without
    `force`, a file that another run has put there in the meantime stays.
    """
    with Outputs() as outputs, outputs.replacing(target, force=force) as file:
        yield file


def write_npy_header(file: BinaryIO, shape: tuple[int, ...], dtype: np.dtype) -> None:
    """Write the head of an npy file in C order; the bytes of the array follow, in as many writes as one likes."""
    descr = np.lib.format.dtype_to_descr(dtype)
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})


def write_block(file: BinaryIO, block: np.ndarray) -> None:
    """Write the bytes of `block` in C order.

    Not by NumPy's `tofile` or `save`: on a full disk they lose the last 4 KiB of a file without an error.
    """
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
