"""Stores that zarr reads an array from: checked metadata, and chunks of a folder or through fsspec, as needed."""

import asyncio
from collections.abc import Iterable
from typing import Any

from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import LocalStore, MemoryStore, WrapperStore

from cmfast._files import stores, zarr_metadata
from cmfast._files.stores import Source, Url


async def open_store(path: Source) -> Any:
    """Return a store of a folder or a URL whose metadata are checked; raise FileError for those that are refused."""
    inner = UrlStore(path) if isinstance(path, Url) else LocalStore(path, read_only=True)
    documents: dict[str, bytes] = {}
    for name in zarr_metadata.DOCUMENTS:
        found = await inner.get(name, default_buffer_prototype())
        if found is not None:
            documents[name] = found.to_bytes()
            zarr_metadata.check_document(path, name, documents[name])
    return CheckedStore(inner, documents)


class CheckedStore(WrapperStore[Any]):  # type: ignore[misc]
    """A read-only store with the metadata that were checked, and no others, even if its files change."""

    def __init__(self, store: Any, documents: dict[str, bytes]) -> None:
        super().__init__(store)
        self._documents = documents

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        """Return the checked metadata; of a chunk, the bytes or a range of them; None if there is no such object."""
        if key.rpartition("/")[2].startswith((".z", "zarr.")):
            found = self._documents.get(key)
            return None if found is None else prototype.buffer.from_bytes(found)
        return await self._store.get(key, prototype, byte_range)

    async def get_partial_values(self, prototype: Any, key_ranges: Iterable[tuple[str, Any]]) -> list[Any]:
        """Return the bytes of ranges of objects."""
        return list(await asyncio.gather(*(self.get(key, prototype, each) for key, each in key_ranges)))


class UrlStore(WrapperStore[Any]):  # type: ignore[misc]
    """A read-only zarr store below a URL, several of whose chunks are read at a time; all else is an empty store's."""

    def __init__(self, root: Url) -> None:
        super().__init__(MemoryStore(read_only=True))
        self._root = root

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        """Return the bytes of an object or of a range of it; None if there is no such object."""
        try:
            data = await asyncio.to_thread(stores.read_range, Url(f"{self._root}/{key}"), *_get_bounds(byte_range))
        except FileNotFoundError:
            return None
        return prototype.buffer.from_bytes(data)

    async def get_partial_values(self, prototype: Any, key_ranges: Iterable[tuple[str, Any]]) -> list[Any]:
        """Return the bytes of ranges of objects."""
        return list(await asyncio.gather(*(self.get(key, prototype, each) for key, each in key_ranges)))


def _get_bounds(byte_range: Any) -> tuple[int | None, int | None]:
    """Return where a range of an object begins and ends, as for fsspec."""
    match byte_range:
        case RangeByteRequest(start, end):
            return start, end
        case OffsetByteRequest(offset):
            return offset, None
        case SuffixByteRequest(suffix):
            return -suffix, None
    return None, None
