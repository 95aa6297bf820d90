"""A disk of which one operation fails: the k-th that opens for writing, writes, truncates, syncs, renames or makes."""

import errno
import io
import os
import tempfile
from contextlib import contextmanager
from pathlib import Path

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Faults:
    """Count operations below a folder; the one of number `at` raises OSError as the system words it."""

    def __init__(self, folder, at, number):
        self.folder, self.at, self.number = os.path.realpath(folder), at, number
        self.done = 0

    def step(self, name=None):
        """Count one operation, of a path where the system would name it."""
        self.done += 1
        if self.done == self.at:
            raise OSError(self.number, os.strerror(self.number), *([] if name is None else [os.fspath(name)]))

    def is_below(self, path):
        """Return whether a path is in the folder."""
        if isinstance(path, int):
            path = Path(f"/proc/self/fd/{path}").readlink()
        return os.path.realpath(os.fsdecode(path)).startswith(self.folder + os.sep)


def _file_class(faults):
    class Raw(io.FileIO):
        def write(self, data):
            faults.step()
            return super().write(data)

        def truncate(self, size=None):
            faults.step()
            return super().truncate(size)

    return Raw


@contextmanager
def failing(patch, folder, at, number=errno.ENOSPC):
    """Let operation `at` below `folder` fail within the block; `patch` is pytest's monkeypatch; yield the count."""
    faults = Faults(folder, at, number)
    raw, real = _file_class(faults), {name: getattr(os, name) for name in ("fsync", "mkdir", "replace", "chmod")}
    open_file = io.open

    def opened(file, mode="r", buffering=-1, *args, **options):
        if not set(mode) & set("wxa+") or "b" not in mode or not faults.is_below(file):
            return open_file(file, mode, buffering, *args, **options)
        if not isinstance(file, int):
            faults.step(file)
        made = raw(file, mode.replace("b", ""), **{k: v for k, v in options.items() if k in {"closefd", "opener"}})
        if buffering == 0:
            return made
        return io.BufferedRandom(made) if "+" in mode else io.BufferedWriter(made)

    def counted(name):
        def called(path, *args, **options):
            if faults.is_below(path):
                faults.step(None if name == "fsync" else path)
            return real[name](path, *args, **options)

        return called

    with patch.context() as own:
        own.setattr(io, "open", opened)
        own.setattr("builtins.open", opened)
        for name in real:
            own.setattr(os, name, counted(name))
        yield faults


def files_of(folder):
    """Return the bytes of every file below a folder, by name."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(Path(folder).rglob("*")) if p.is_file()}


def fail_each(patch, folder, call, check, number=errno.ENOSPC, most=200):
    """Call with operation 1, 2, 3, ... failing until none fails, and check each; return how many failed.

    `call()` returns what `check(result, files)` looks at; after each failure all files are as they were before.
    """
    folder = Path(folder)
    patch.setattr(tempfile, "tempdir", str(folder / "tmp"))
    (folder / "tmp").mkdir(exist_ok=True)
    before = files_of(folder)
    for at in range(1, most):
        with failing(patch, folder, at, number) as faults:
            result = call()
        if faults.done < at:
            return at - 1
        check(result, at)
        assert files_of(folder) == before, (at, sorted(files_of(folder)))
    raise AssertionError(most)
