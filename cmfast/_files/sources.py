"""Resolve input files given by a folder, glob or URL into a sorted list, and copy remote ones locally."""

import glob
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from cmfast._files import stores, tables
from cmfast._files.output import FileError
from cmfast._files.stores import Source, Url

ARRAY = ".zarr"  # suffix of a folder that is a single array
LOCAL = "file://"


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
        missing = stores.find_missing_bucket(source) if isinstance(source, Url) else None
        if missing is not None:
            raise FileError(str(source), f"there is no bucket {missing!r}, or it cannot be seen from here")
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
    return stores.repeat(url, "listing", lambda: _list_objects(url))


def _list_objects(url: Url) -> list[Source]:
    """Return the visible objects of a URL, folder or glob, by one attempt."""
    store, head = stores.open_store(url)
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
            store, name = stores.open_store(source)
            is_array = source.suffix.lower() == ARRAY
            names = stores.repeat(source, "listing", lambda: store.find(name)) if is_array else [name]
            return [str(source), *(stores.repeat(source, "reading its key", partial(store.ukey, one)) for one in names)]
        inside = sorted(source.rglob("*")) if source.is_dir() else [source]
        known = [(one.relative_to(source).as_posix(), one.stat()) for one in inside if not one.is_dir()]
        return [str(source.resolve()), *([name, stat.st_size, stat.st_mtime_ns] for name, stat in known)]


@contextmanager
def open_sources(sources: Sequence[Source], ranged: tuple[str, ...]) -> Iterator[list[Any]]:
    """Yield sources that readers take: a URL if its suffix is in `ranged`, otherwise the path of a local copy.

    Copies exist for the duration of the block; errors about them name the remote object.
    """
    names: dict[str, str] = {}
    with ExitStack() as stack:
        found = [
            _copy(one, stack, names) if isinstance(one, Url) and one.suffix.lower() not in ranged else one
            for one in sources
        ]
        try:
            yield found
        except FileError as error:
            where, what = map(str, error.args)
            for path, name in names.items():
                where, what = where.replace(path, name), what.replace(path, name)
            raise type(error)(where, what) from error


@contextmanager
def open_locally(sources: Sequence[Source]) -> Iterator[list[Path]]:
    """Yield a local path for each source; all remote objects are copied for the duration of the block."""
    with open_sources(sources, ranged=()) as paths:
        yield paths


def _copy(url: Url, stack: ExitStack, names: dict[str, str]) -> Path:
    """Copy a remote object, or all objects of an array, to a temporary folder that lives as long as `stack`."""
    from tempfile import TemporaryDirectory

    folder = stack.enter_context(TemporaryDirectory(prefix="cmfast-"))
    with tables.catch_reader_errors(str(url), "cannot be read"):
        store, name = stores.open_store(url)
        path = Path(folder, PurePosixPath(name).name)
        inside = [name]
        if url.suffix.lower() == ARRAY:
            inside = stores.repeat(url, "listing", lambda: store.find(name))
        for one in inside:
            target = path / PurePosixPath(one).relative_to(name)
            target.parent.mkdir(parents=True, exist_ok=True)
            stores.copy_object(Url(store.unstrip_protocol(one)), target)
    names[str(path)] = str(url)
    return path
