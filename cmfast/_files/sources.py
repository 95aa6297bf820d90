"""Resolve input files given by a folder, glob or URL into a sorted list, and copy remote ones locally."""

import glob
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

from cmfast._files import tables
from cmfast._files.output import FileError

ARRAY = ".zarr"  # suffix of a folder that is a single array
LOCAL = "file://"


@dataclass(frozen=True)
class Url:
    """A URL read by fsspec: an object in a store, or a folder of objects."""

    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def suffix(self) -> str:
        """The suffix of the name, as for a path."""
        return PurePosixPath(self.text).suffix

    def exists(self) -> bool:
        """Whether it is a local file: False."""
        return False


Source: TypeAlias = Path | Url


def parse_source(text: str) -> Source:
    """Return the path or URL that a text names; texts with a scheme such as ``s3://`` are URLs."""
    if text.startswith(LOCAL):
        return Path(text.removeprefix(LOCAL))
    return Url(text) if "://" in text else Path(text)


def is_several(source: Source) -> bool:
    """Whether a source must be expanded before reading: a folder, a glob or a URL."""
    if isinstance(source, Url):
        return True
    return (source.is_dir() and source.suffix.lower() != ARRAY) or _is_glob(source)


def _is_glob(path: Path) -> bool:
    """Whether a path is a glob pattern and no file or folder has that name."""
    return glob.has_magic(str(path)) and not path.exists()


def expand_source(source: Source) -> list[Source]:
    """Return the visible files that a source names, as absolute paths in natural order (numbers by value).

    As for Spark and Arrow, names that begin with a dot or an underscore are hidden.
    """
    with tables.catch_reader_errors(str(source), "cannot be reached"):
        found = _list_store(source) if isinstance(source, Url) else _list_disk(source)
    if not found:
        is_folder = isinstance(source, Path) and source.is_dir()
        raise FileError(str(source), "is a directory without files" if is_folder else "stands for no files")
    return sorted(found, key=_get_natural_key)


def get_suffix(source: Source) -> str:
    """Return the lower-case suffix of a file, or of the first of several."""
    return (expand_source(source)[0] if is_several(source) else source).suffix.lower()


def _list_disk(path: Path) -> list[Source]:
    """Return the visible files of a local file, folder or glob."""
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
            if (kept := _get_visible_parts(below)) is not None:
                found[head.joinpath(*kept)] = None
    return list(found)


def _list_store(url: Url) -> list[Source]:
    """Return the visible objects of a URL, folder or glob in a store."""
    store, head = _open_store(url)
    heads = store.glob(head) if glob.has_magic(head) else [head]
    found: dict[Source, None] = {}
    for one in heads:
        if PurePosixPath(one).suffix.lower() == ARRAY or not store.isdir(one):
            inside = [one] if store.exists(one) else []
        else:
            inside = store.find(one)
        for name in inside:
            kept = _get_visible_parts(PurePosixPath(name).relative_to(one).parts)
            if kept is not None:
                found[Url(store.unstrip_protocol("/".join((one.rstrip("/"), *kept))))] = None
    return list(found)


def _get_visible_parts(below: Sequence[str]) -> tuple[str, ...] | None:
    """Return the parts of a relative name, up to an array folder; None if a part is hidden."""
    for k, part in enumerate(below):
        if part.startswith((".", "_")):
            return None
        if part.lower().endswith(ARRAY):
            return tuple(below[: k + 1])
    return tuple(below)


def _get_natural_key(source: Source) -> list[Any]:
    """Return a sort key that orders numbers in names by value."""
    parts = re.split(r"(\d+)", str(source))
    return [(int(part), part) if k % 2 else (-1, part) for k, part in enumerate(parts)]


def fingerprint(source: Source) -> list[Any]:
    """Return values that change when a file changes: name, sizes and times, or the store's own key."""
    with tables.catch_reader_errors(str(source), "cannot be reached"):
        if isinstance(source, Url):
            store, name = _open_store(source)
            names = store.find(name) if source.suffix.lower() == ARRAY else [name]
            return [str(source), *(store.ukey(one) for one in sorted(names))]
        inside = sorted(source.rglob("*")) if source.is_dir() else [source]
        known = [(one.relative_to(source).as_posix(), one.stat()) for one in inside if not one.is_dir()]
        return [str(source.resolve()), *([name, stat.st_size, stat.st_mtime_ns] for name, stat in known)]


@contextmanager
def open_locally(sources: Sequence[Source]) -> Iterator[list[Path]]:
    """Yield a local path for each source; remote objects are copied for the duration of the block.

    Errors about a copy name the remote object.
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
    """Copy a remote object to a temporary folder that lives as long as `stack`."""
    from tempfile import TemporaryDirectory

    folder = stack.enter_context(TemporaryDirectory(prefix="cmfast-"))
    with tables.catch_reader_errors(str(url), "cannot be read"):
        store, name = _open_store(url)
        path = Path(folder, PurePosixPath(name).name)
        store.get(name, str(path), recursive=url.suffix.lower() == ARRAY)
    names[str(path)] = str(url)
    return path


def _open_store(url: Url) -> tuple[Any, str]:
    """Return the fsspec file system of a URL, and the name in it."""
    fsspec = tables.require_module("fsspec", str(url), "cluster")
    store, name = fsspec.core.url_to_fs(url.text)
    return store, name
