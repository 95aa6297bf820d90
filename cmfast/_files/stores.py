"""Read objects of stores, such as S3, by fsspec: range by range, each with a time limit and repeated if it fails."""

import io
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias, TypeVar

from cmfast._files.output import FileError

ATTEMPTS = 4
FIRST_WAIT = 1.0  # seconds before the second attempt, doubled before each further one
PATIENCE = 60.0  # seconds that any read may take
LEAST_RATE = 1 << 18  # bytes per second that a read of many bytes must reach
SMALL_BYTES = 1 << 22  # objects up to this size are read by one request: it takes about as long as its latency
RANGE_BYTES = 1 << 24  # bytes per request of a larger object that is read from its beginning to its end
BUCKETS = ("s3", "s3a", "gs", "gcs", "oss", "oci")  # protocols whose names begin with a bucket
PERMANENT = (
    FileNotFoundError,
    PermissionError,
    IsADirectoryError,
    NotADirectoryError,
    NotImplementedError,
    ImportError,
    MemoryError,
    TypeError,
    ValueError,
)

T = TypeVar("T")


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


def open_store(url: Url) -> tuple[Any, str]:
    """Return the fsspec file system of a URL, and the name in it."""
    try:
        import fsspec
    except ImportError:
        raise FileError(url, 'reading this address needs fsspec: pip install "cmfast[cluster]"') from None
    store, name = fsspec.core.url_to_fs(url.text)
    return store, name


def find_missing_bucket(url: Url) -> str | None:
    """Return the name of the bucket of a URL if the store has no such bucket."""
    store, name = open_store(url)
    bucket = name.lstrip("/").partition("/")[0]
    return None if url.text.partition("://")[0] not in BUCKETS or store.exists(bucket) else bucket


def read_range(url: Url, start: int | None = None, stop: int | None = None) -> bytes:
    """Read the bytes of an object from `start` to `stop`; None: its beginning or end; negative: from the end."""
    store, name = open_store(url)
    wanted = stop - start if start is not None and stop is not None else 0
    place = "" if start is None else f" from byte {start:,}"

    def fetch() -> bytes:
        data: bytes = store.cat_file(name, start=start, end=stop)
        if wanted and len(data) != wanted:
            msg = f"{len(data):,} of {wanted:,} bytes came"
            raise OSError(msg)
        return data

    return repeat(url, f"reading{place}", fetch, PATIENCE + wanted / LEAST_RATE)


def repeat(url: Url, what: str, call: Callable[[], T], seconds: float | None = None) -> T:
    """Return the result of a call, repeated while it fails or takes longer than `seconds` (None: no limit).

    Errors that repetition cannot repair, such as a missing object, are raised immediately.
    """
    said = ""
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(FIRST_WAIT * 2 ** (attempt - 1))
        try:
            return call() if seconds is None else _limit_time(call, seconds)
        except (FileError, *PERMANENT):
            raise
        except Exception as error:  # noqa: BLE001  (each store has its own kinds of errors)
            said = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
    raise FileError(url, f"{what} failed {ATTEMPTS} times, at last with: {said}")


def _limit_time(call: Callable[[], T], seconds: float) -> T:
    """Return the result of a call in another thread, which is left alone after this time."""
    answer: SimpleQueue[tuple[Any, Exception | None]] = SimpleQueue()

    def run() -> None:
        try:
            answer.put((call(), None))
        except Exception as error:  # noqa: BLE001  (raised again below)
            answer.put((None, error))

    threading.Thread(target=run, daemon=True, name="cmfast-store").start()
    try:
        found, error = answer.get(timeout=seconds)
    except Empty:
        msg = f"no answer within {seconds:,.0f} s"
        raise TimeoutError(msg) from None
    if error is not None:
        raise error
    return found  # type: ignore[no-any-return]


class RangedFile(io.RawIOBase):
    """An object as a file: ranges are requested when they are read, and a small object by one request."""

    def __init__(self, url: Url) -> None:
        self.url = url
        store, name = open_store(url)
        self.size = int(repeat(url, "reading its size", lambda: store.info(name))["size"])
        self._place = 0
        self._whole: bytes | None = None

    def readable(self) -> bool:
        """Whether it can be read: True."""
        return True

    def seekable(self) -> bool:
        """Whether it can be read from any position: True."""
        return True

    def tell(self) -> int:
        """Return the position of the next byte."""
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position."""
        self._place = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self.size}[whence]
        return self._place

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer with the next bytes, as far as there are any, and return their number."""
        view = memoryview(buffer).cast("B")
        start = min(self._place, self.size)
        stop = min(start + len(view), self.size)
        if start == stop:
            return 0
        if self.size > SMALL_BYTES:
            view[: stop - start] = read_range(self.url, start, stop)
        else:
            if self._whole is None:
                self._whole = read_range(self.url, 0, self.size)
            view[: stop - start] = self._whole[start:stop]
        self._place = stop
        return stop - start


def copy_object(url: Url, path: Path) -> None:
    """Copy an object to a new local file."""
    source = RangedFile(url)
    with path.open("wb") as file:
        while data := source.read(RANGE_BYTES):
            file.write(data)
