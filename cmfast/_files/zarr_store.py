"""Read the chunks of a zarr array through fsspec, each as it is needed."""

import asyncio
from collections.abc import Iterable
from typing import Any

from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.storage import MemoryStore, WrapperStore

from cmfast._files import stores
from cmfast._files.stores import Url


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
