"""Files that are named together, by a folder, a glob or a URL: which they are, in order, and each as a local file."""

import glob
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

from cmfast._files import tables
from cmfast._files.output import FileError

ARRAY = ".zarr"  # a folder that is one array
LOCAL = "file://"


@dataclass(frozen=True)
class Url:
    """What fsspec reads: an object of a store, or a folder of such."""

    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def suffix(self) -> str:
        """The end of the name, as a path has it."""
        return PurePosixPath(self.text).suffix

    def exists(self) -> bool:
        """Whether it is a file of this machine."""
        return False


Source: TypeAlias = Path | Url


def located(text: str) -> Source:
    """Return the file, folder or glob that a text names; what has a scheme as ``s3://`` is a URL."""
    if text.startswith(LOCAL):
        return Path(text.removeprefix(LOCAL))
    return Url(text) if "://" in text else Path(text)


def is_several(source: Source) -> bool:
    """Whether a source has to be looked into before it is read: a folder, a glob or a URL."""
    if isinstance(source, Url):
        return True
    return (source.is_dir() and source.suffix.lower() != ARRAY) or _is_glob(source)


def _is_glob(path: Path) -> bool:
    return glob.has_magic(str(path)) and not path.exists()


def expanded(source: Source) -> list[Source]:
    """Return the files that a source names by their whole paths, numbers in names in order; without those hidden.

    Hidden is, as for Spark and Arrow, what begins with a dot or an underscore.
    """
    with tables.understood(str(source), "cannot be reached"):
        found = _of_store(source) if isinstance(source, Url) else _of_disk(source)
    if not found:
        is_folder = isinstance(source, Path) and source.is_dir()
        raise FileError(str(source), "is a directory without files" if is_folder else "stands for no files")
    return sorted(found, key=_in_order)


def kind(source: Source) -> str:
    """Return the suffix of a file, or that of the first one of several, in small letters."""
    return (expanded(source)[0] if is_several(source) else source).suffix.lower()


def _of_disk(path: Path) -> list[Source]:
    if not is_several(path):
        return [path.absolute()]
    heads = [path.absolute()]
    if _is_glob(path):
        heads = [Path(name).absolute() for name in glob.glob(str(path), recursive=True)]  # noqa: PTH207  (Path's are relative)
    found: dict[Source, None] = {}
    for head in heads:
        inside = head.rglob("*") if is_several(head) else [head]
        for one in inside:
            below = one.relative_to(head).parts
            if one.is_dir() and one.suffix.lower() != ARRAY:
                continue
            if (kept := _kept(below)) is not None:
                found[head.joinpath(*kept)] = None
    return list(found)


def _of_store(url: Url) -> list[Source]:
    store, head = _store(url)
    heads = store.glob(head) if glob.has_magic(head) else [head]
    found: dict[Source, None] = {}
    for one in heads:
        if PurePosixPath(one).suffix.lower() == ARRAY or not store.isdir(one):
            inside = [one] if store.exists(one) else []
        else:
            inside = store.find(one)
        for name in inside:
            kept = _kept(PurePosixPath(name).relative_to(one).parts)
            if kept is not None:
                found[Url(store.unstrip_protocol("/".join((one.rstrip("/"), *kept))))] = None
    return list(found)


def _kept(below: Sequence[str]) -> tuple[str, ...] | None:
    """Return the parts of a name below a folder up to an array, None where they are hidden."""
    for k, part in enumerate(below):
        if part.startswith((".", "_")):
            return None
        if part.lower().endswith(ARRAY):
            return tuple(below[: k + 1])
    return tuple(below)


def _in_order(source: Source) -> list[Any]:
    parts = re.split(r"(\d+)", str(source))
    return [(int(part), part) if k % 2 else (-1, part) for k, part in enumerate(parts)]


def identity(source: Source) -> list[Any]:
    """Return what tells a file from what it was before it changed: its name, sizes and times, or what its store has."""
    with tables.understood(str(source), "cannot be reached"):
        if isinstance(source, Url):
            store, name = _store(source)
            names = store.find(name) if source.suffix.lower() == ARRAY else [name]
            return [str(source), *(store.ukey(one) for one in sorted(names))]
        inside = sorted(source.rglob("*")) if source.is_dir() else [source]
        known = [(one.relative_to(source).as_posix(), one.stat()) for one in inside if not one.is_dir()]
        return [str(source.resolve()), *([name, stat.st_size, stat.st_mtime_ns] for name, stat in known)]


@contextmanager
def reached(sources: Sequence[Source]) -> Iterator[list[Path]]:
    """Yield a local path for each source; what is in a store is copied, for as long as the block takes.

    Messages about a copy name the object.
    """
    names: dict[str, str] = {}
    with ExitStack() as stack:
        paths = [one if isinstance(one, Path) else _copy(one, stack, names) for one in sources]
        try:
            yield paths
        except FileError as error:
            where, what = map(str, error.args)
            for path, name in names.items():
                where, what = where.replace(path, name), what.replace(path, name)
            raise FileError(where, what) from error


def _copy(url: Url, stack: ExitStack, names: dict[str, str]) -> Path:
    from tempfile import TemporaryDirectory

    folder = stack.enter_context(TemporaryDirectory(prefix="cmfast-"))
    with tables.understood(str(url), "cannot be read"):
        store, name = _store(url)
        path = Path(folder, PurePosixPath(name).name)
        store.get(name, str(path), recursive=url.suffix.lower() == ARRAY)
    names[str(path)] = str(url)
    return path


def _store(url: Url) -> tuple[Any, str]:
    fsspec = tables.needs("fsspec", str(url), "cluster")
    store, name = fsspec.core.url_to_fs(url.text)
    return store, name
