"""A disk that fails once, at a chosen operation: every write of an output is made to fail, one after another.

`failing_at` counts what touches files below a folder through Python (`OPERATIONS`) and lets the `k`-th raise ENOSPC; a
write leaves half of its bytes first, as a full disk does. What C writes by itself is reached in two ways: NumPy's
`tofile` through `os.dup`, which gives it `/dev/full`; HDF5 through `files_up_to`, a limit of the kernel's on the size
of files. Not counted are `unlink`, which a full disk allows, and `close`, before which the outputs have been synced.
"""

import builtins
import errno
import io
import os
import re
import resource
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

OPERATIONS = ("open", "write", "truncate", "fsync", "replace", "rename", "link", "mkdir", "chmod", "dup")
NEED_SPACE = ("open", "write", "truncate", "fsync", "link", "mkdir", "dup")
MOST = 400  # operations of one run
FULL = "/dev/full"


class Disk:
    """Count operations below `root` and let the `k`-th fail; if `lasting`, also later ones that need space."""

    def __init__(self, root: Path, k: int, *, lasting: bool) -> None:
        self._root, self._k, self._lasting = root.resolve(), k, lasting
        self.seen: list[str] = []
        self.failed: str | None = None

    def holds(self, path: Any) -> bool:
        """Return whether a path or an open file is below the folder, or was before it lost its name."""
        if isinstance(path, int):
            try:
                path = Path(f"/proc/self/fd/{path}").readlink()
            except OSError:
                return False
        return Path(os.fsdecode(path)).absolute().is_relative_to(self._root)

    def fails(self, kind: str) -> bool:
        """Note an operation and return whether it is to fail."""
        self.seen.append(kind)
        if len(self.seen) == self._k:
            self.failed = kind
        return len(self.seen) == self._k or (self.failed is not None and self._lasting and kind in NEED_SPACE)

    def check(self, kind: str, path: Any, *names: Any) -> None:
        """Raise what the system would if an operation on `path` is to fail; it names what it was given names of."""
        if self.holds(path) and self.fails(kind):
            raise full(*names)


def full(*names: Any) -> OSError:
    """Return the error of a full disk, with the name of one file, or of two."""
    known: list[str | None] = [os.fsdecode(name) for name in names]
    known[1:1] = [None] * (len(known) - 1)  # replaces the error number of Windows
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), *known)


class _Raw(io.FileIO):
    """A file open for writing, whose writes and truncations may fail."""

    disk: Disk

    def write(self, data: Any, /) -> int:
        if self.disk.fails("write"):
            view = memoryview(data).cast("B")
            super().write(view[: len(view) // 2])
            raise full()
        return super().write(data)

    def truncate(self, size: int | None = None, /) -> int:
        if self.disk.fails("truncate"):
            raise full()
        return super().truncate(size)


def _opener(disk: Disk, real: Callable[..., Any]) -> Callable[..., Any]:
    """Return a replacement of `open`."""

    def patched(
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Any = None,
    ) -> Any:
        if not set(mode) & set("wxa+") or not disk.holds(file):
            return real(file, mode, buffering, encoding, errors, newline, closefd, opener)
        if opener is None and not isinstance(file, int):  # an opener calls os.open, where it is counted
            disk.check("open", file, file)
        raw = _Raw(file, mode.replace("b", "").replace("t", ""), closefd, opener)
        raw.disk = disk
        if buffering == 0:
            return raw
        inner = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return inner if "b" in mode else io.TextIOWrapper(inner, encoding, errors, newline)

    return patched


@contextmanager
def failing_at(root: Path, k: int, *, lasting: bool = False) -> Iterator[Disk]:
    """Let the `k`-th operation below `root` fail (from 1), once or for good; yield what was seen."""
    disk = Disk(root, k, lasting=lasting)

    def patch_named(kind: str, function: Callable[..., Any], n_names: int = 1) -> Callable[..., Any]:
        def patched(*args: Any, **options: Any) -> Any:
            disk.check(kind, args[n_names - 1], *args[:n_names])
            return function(*args, **options)

        return patched

    def os_open(path: Any, flags: int, *args: Any, **options: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR):
            disk.check("open", path, path)
        return os_real["open"](path, flags, *args, **options)

    def os_fsync(file: Any) -> None:
        disk.check("fsync", file if isinstance(file, int) else file.fileno())
        os_real["fsync"](file)

    def os_dup(file: int) -> int:  # NumPy writes to the copy by means of C
        if disk.holds(file) and disk.fails("dup"):
            return os_real["open"](FULL, os.O_WRONLY)
        return os_real["dup"](file)

    os_real = {name: getattr(os, name) for name in ("open", "fsync", "dup")}
    patches: dict[str, Any] = {"open": os_open, "fsync": os_fsync, "dup": os_dup}
    patches |= {name: patch_named(name, getattr(os, name), 2) for name in ("replace", "rename", "link")}
    patches |= {name: patch_named(name, getattr(os, name)) for name in ("mkdir", "chmod", "truncate")}
    with ExitStack() as stack:
        opened = _opener(disk, open)
        for module in (io, builtins):
            stack.enter_context(mock.patch.object(module, "open", opened))
        for name, function in patches.items():
            stack.enter_context(mock.patch.object(os, name, function))
        yield disk


@contextmanager
def files_up_to(n_bytes: int) -> Iterator[None]:
    """Let the kernel refuse to write any file beyond `n_bytes` (EFBIG), in this process and its children."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


class Job(NamedTuple):
    """Something that writes files, in the current folder."""

    run: Callable[[], str | None]
    """Do it; return the complaint, None if it went well."""
    outputs: dict[str, bytes]
    """What stands under the names of the outputs before, where something does."""
    resumes: tuple[str, ...] = ()
    """Folders that may stay after a failure, because a later run goes on from them."""
    folders: tuple[str, ...] = ()
    """Folders of the outputs, which a complaint may name."""


def faults(job: Job, folder: Path, *, lasting: Iterable[bool] = (False, True)) -> tuple[int, list[str]]:
    """Let every operation of a job fail in turn; return how many failed, and what was wrong after which.

    The current folder and the one for temporary files are below `folder`. The job runs where outputs are new, and where
    they replace others. After a failure the complaint names an output, or the folder of temporary files; no file is
    new, none changed, none gone; and the same job run again gives what it gives undisturbed.
    """
    given = contents(folder)
    assert job.run() is None
    wanted = contents(folder)
    assert set(job.outputs) <= {Path(name).name for name in set(wanted)}, "the outputs are there"
    number, wrong = 0, []
    for earlier in (False, True):
        before = given | {
            name: job.outputs[Path(name).name] for name in wanted if earlier and Path(name).name in job.outputs
        }
        for stays in lasting:
            for k in range(1, MOST):
                _restore(folder, before)
                there = folders(folder)
                with failing_at(folder, k, lasting=stays) as disk:
                    said = job.run()
                if disk.failed is None:
                    break
                number += 1
                about = f"{disk.failed}, operation {k} of a run {'over earlier outputs' if earlier else 'from nothing'}"
                about += ", and all later ones" if stays else ""
                wrong += [f"{about}: {each}" for each in _after(job, folder, said, before, wanted, there)]
            else:
                wrong.append(f"more than {MOST} operations")
            if said is not None or contents(folder) != wanted:
                wrong.append(f"without a fault: {said}")
    _restore(folder, given)
    return number, wrong


def _after(
    job: Job, folder: Path, said: str | None, before: dict[str, bytes], wanted: dict[str, bytes], there: set[str]
) -> Iterator[str]:
    """Yield what is wrong after a failure."""
    now = contents(folder)
    if said is None:  # it found another way
        if now != wanted:
            yield f"ended well with {_differences(now, wanted)}"
        return
    kept = {name for name in now if any(part in job.resumes for part in Path(name).parts)}
    if any(name.endswith(".part") for name in now) or {k: v for k, v in now.items() if k not in kept} != before:
        yield f"left {_differences({k: v for k, v in now.items() if k not in kept or k.endswith('.part')}, before)}"
    if new := folders(folder) - there - set(job.resumes) - {f"work/{name}" for name in job.resumes}:
        yield f"left the folder {', '.join(sorted(new))}"
    known = [*job.outputs, *job.resumes, *job.folders, "temporary"]
    if "\n" in said or re.search(r"\.part\b", said) or not any(name in said for name in known):
        yield f"said {said!r}"
    again = job.run()
    if again is not None:
        yield f"another run said {again!r}"
    elif contents(folder) != wanted:
        yield f"another run gave {_differences(contents(folder), wanted)}"


def _restore(folder: Path, files: dict[str, bytes]) -> None:
    """Let a folder hold these files and no others, and folders that have none but stood there."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_file() and str(path.relative_to(folder)) not in files:
            path.unlink()
        elif path.is_dir() and path.parent != folder and not any(path.iterdir()):
            path.rmdir()
    for name, content in files.items():
        if not (folder / name).exists() or (folder / name).read_bytes() != content:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)


def _differences(found: dict[str, bytes], wanted: dict[str, bytes]) -> str:
    """Name the files that are missing, new or different."""
    names = sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))
    return ", ".join(
        f"{name} ({'gone' if name not in found else 'new' if name not in wanted else 'changed'})" for name in names
    )


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files of a folder, also in those inside."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def folders(folder: Path) -> set[str]:
    """Return the folders inside a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_dir()}
