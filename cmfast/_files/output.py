"""Write output files atomically: they appear whole or not at all."""

import errno
import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn, Self

import numpy as np

from cmfast._files import partial_files

FULL = {getattr(errno, name) for name in ("EFBIG", "ENOSPC", "EDQUOT", "EIO") if hasattr(errno, name)}


class FileError(Exception):
    """A file cannot be read, written or understood; the message is one line for the user.

    `more` are words to append to the command, which then probably succeeds.
    """

    def __init__(self, path: object, what: str, more: Sequence[str] = ()) -> None:
        super().__init__(path, what)  # as two arguments, so that the error can be pickled
        self.more = tuple(more)

    def __str__(self) -> str:
        path, what = self.args
        return f"{path}: {what}"


def describe_os_error(error: OSError) -> str:
    """Return the system's message of an OSError, without number and file name."""
    return (error.strerror or str(error)).lower()


def make_folder(out: Path) -> None:
    """Create an output folder; raise FileError if it cannot hold files."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise FileError(out, "is a file, give the name of a folder") from None
    except OSError as error:
        raise FileError(out, f"cannot be made ({error.strerror})") from error
    if not os.access(out, os.W_OK):
        raise FileError(out, "no permission to write into this folder")


def check_target(path: Path, *, force: bool, sources: tuple[Path, ...] = ()) -> Path:
    """Resolve links of an output path and raise FileError if writing would fail; called before any work."""
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
            raise FileError(path, "exists already, give --force to replace it", ["--force"])
    return target


@contextmanager
def remove_folder_on_error(folder: Path) -> Iterator[None]:
    """Remove `folder` if the block fails, provided the block created it and it is empty."""
    is_new = not folder.exists()
    try:
        yield
    except BaseException:
        if is_new:
            with suppress(OSError):
                folder.rmdir()
        raise


@contextmanager
def name_output_in_errors(target: Path) -> Iterator[None]:
    """Make errors of writing name the output `target` instead of the temporary file."""
    try:
        yield
    except OSError as error:
        nameless = error.filename is None and error.errno in FULL
        if nameless or (error.filename is not None and partial_files.is_part(error.filename, target)):
            raise OSError(error.errno, error.strerror, str(target)) from error
        raise


class _NewFile(NamedTuple):
    """A file written next to the output that it will replace."""

    target: Path
    part: Path
    file: BinaryIO
    force: bool

    def commit(self) -> None:
        """Replace the output by the new file; without `force` raise FileError if it exists."""
        if self.target.exists():
            from shutil import copymode

            if not self.force:
                self._refuse()
            copymode(self.target, self.part)
        if not partial_files.LOCKS:
            self.file.close()  # Windows cannot rename an open file
        if not self.force:  # linking never replaces a file, not even one created between two system calls
            try:
                os.link(self.part, self.target)
            except FileExistsError:
                self._refuse()
            except OSError:  # a file system without links
                pass
            else:
                return  # the temporary name is removed at the end of the block
        self.part.replace(self.target)

    def _refuse(self) -> NoReturn:
        """Raise FileError because the output appeared during the run."""
        raise FileError(self.target, "has appeared in the meantime, give --force to replace it") from None


class Outputs:
    """Several output files that are replaced together if the block succeeds; if it fails, all stay unchanged.

    A process killed while replacing leaves some new and some old files.
    """

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._written: list[_NewFile] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, *error: object) -> None:
        with self._stack:
            if kind is None:
                self._commit_all()

    @contextmanager
    def replace_file(self, target: Path, *, force: bool = True) -> Iterator[BinaryIO]:
        """Open a new file that replaces `target` if the block succeeds."""
        with name_output_in_errors(target):
            part, file = partial_files.create_part(target)
            self._stack.callback(part.unlink, missing_ok=True)
            self._stack.enter_context(file)  # locked until it is renamed
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
            except BaseException:
                with suppress(OSError):
                    file.close()  # closing flushes the buffer, which may fail again
                raise
        self._written.append(_NewFile(target, part, file, force))

    def _commit_all(self) -> None:
        """Replace all outputs; if one fails, restore those already replaced."""
        replaced: list[tuple[Path, Path | None]] = []
        try:
            for new in self._written:
                with name_output_in_errors(new.target):
                    earlier = self._keep_old_file(new.target) if new is not self._written[-1] else None
                    new.commit()
                replaced.append((new.target, earlier))
        except BaseException:
            for target, earlier in replaced:
                target.unlink() if earlier is None else earlier.replace(target)
            raise

    def _keep_old_file(self, target: Path) -> Path | None:
        """Keep the file at `target` under another name until the block ends; return that path, None without a file."""
        if not target.exists():
            return None
        kept = partial_files.make_fresh_name(target)
        self._stack.callback(kept.unlink, missing_ok=True)
        try:
            os.link(target, kept)
        except OSError:  # a file system without links
            from shutil import copy2

            copy2(target, kept)
        return kept


@contextmanager
def replace_file(target: Path, *, force: bool = True) -> Iterator[BinaryIO]:
    """Open a new file that replaces `target` if the block succeeds and is removed otherwise.

    Not a memory map of the output: storing to one on a full disk kills the process, while a write raises OSError.
    Without
    `force`, a file that another run has created in the meantime stays.
    """
    with Outputs() as outputs, outputs.replace_file(target, force=force) as file:
        yield file


def write_npy_header(file: BinaryIO, shape: tuple[int, ...], dtype: np.dtype) -> None:
    """Write the header of an npy file in C order; the caller then writes the array's bytes."""
    descr = np.lib.format.dtype_to_descr(dtype)
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})


def write_block(file: BinaryIO, block: np.ndarray) -> None:
    """Write the bytes of an array in C order.

    NumPy's `tofile` and `save` silently lose the last 4 KiB of a file on a full disk.
    """
    file.write(np.ascontiguousarray(block).data.cast("B") if block.size else b"")


def write_npz(file: BinaryIO, arrays: Mapping[str, np.ndarray], *, compressed: bool = False) -> None:
    """Write an npz archive like ``numpy.savez``, but raise instead of pickling objects."""
    from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

    with ZipFile(file, "w", ZIP_DEFLATED if compressed else ZIP_STORED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def to_json(facts: dict[str, Any], *, ascii_only: bool = False) -> str:
    """Return `facts` as strict JSON: NumPy numbers become Python's, infinity a string and NaN null.

    ``float()`` of Python and ``Number()`` of JavaScript parse the strings "Infinity" and "-Infinity". Characters that a
    terminal could interpret are escaped.
    """
    text = json.dumps(convert_to_plain(facts), indent=2, ensure_ascii=ascii_only, allow_nan=False) + "\n"
    return re.sub(r"[^\n -~]", lambda found: found[0] if found[0].isprintable() else _escape(found[0]), text)


def _escape(character: str) -> str:
    """Return the JSON escape of a character."""
    return json.dumps(character)[1:-1]


def convert_to_plain(value: Any) -> Any:
    """Convert `value` to dicts, lists, strings and Python numbers; infinity becomes a string, NaN None."""
    if isinstance(value, dict):
        return {str(key): convert_to_plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return convert_to_plain(value.tolist())
    if isinstance(value, list | tuple):
        return [convert_to_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else json.dumps(value)
    return value
