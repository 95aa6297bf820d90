"""Counts of more groups than memory holds: gathered on disk as they come, then sorted part by part, and merged."""

import heapq
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import groupby, pairwise
from typing import Any, Self

import numpy as np

from cmfast._files import scratch

Group = tuple[Any, ...]  # a value of every column
Key = Callable[[Group], Any]
Found = tuple[Group, np.ndarray]  # a group, and its cells: (places, 3) of truth, prediction, count

GROUPS_AT_A_TIME = 1 << 12  # groups that are taken in at a time
LEAST_READ = 1 << 12  # bytes of a run that are read at a time
EACH_GROUP, EACH_CELL = 400, 128  # bytes of memory on the way to disk, beside what its values take


class SpilledGroups:
    """Counts of groups, of which no more than `room` bytes are in memory at a time.

    Parameters
    ----------
    room : int
        Bytes, as far as they can be told of Python's objects.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._places: dict[Group, int] = {}
        self._cells: list[np.ndarray] = []
        self._bytes = 0
        self._file: Any = None
        self._ends = [0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            scratch.close(self._file)

    def add(self, groups: list[Group], cells: np.ndarray) -> None:
        """Take in counts: rows of place in `groups`, truth, prediction, count, in the order of groups."""
        for start in range(0, len(groups), GROUPS_AT_A_TIME):
            some = groups[start : start + GROUPS_AT_A_TIME]
            first, last = np.searchsorted(cells[:, 0], [start, start + len(some)])
            self._add(some, cells[first:last] - [start, 0, 0, 0])
            if self._bytes > self._room:
                self._spill()

    def _add(self, groups: list[Group], cells: np.ndarray) -> None:
        before = len(self._places)
        where = np.array([self._places.setdefault(group, len(self._places)) for group in groups], np.int64)
        if len(self._places) > before:
            self._bytes += sum(EACH_GROUP + sum(map(sys.getsizeof, group)) for group in groups)
        self._cells.append(np.column_stack([where[cells[:, 0]], cells[:, 1:]]))
        self._bytes += EACH_CELL * len(cells)

    def _spill(self) -> None:
        """Write what is in memory behind what is on disk."""
        if self._file is None:
            self._file = _scratch()
        with scratch.naming():
            for line in self._lines():
                self._file.write(line)
            self._file.flush()
        self._ends.append(self._file.tell())
        self._places, self._cells, self._bytes = {}, [], 0

    def _lines(self) -> Iterator[bytes]:
        """Yield the groups in memory, each as its values and its cells."""
        cells = _summed(np.concatenate(self._cells))
        ends = np.cumsum(np.bincount(cells[:, 0], minlength=len(self._places)))
        start = 0
        for group, stop in zip(self._places, ends.tolist(), strict=True):
            yield f"{json.dumps(group)}\t{json.dumps(cells[start:stop, 1:].ravel().tolist())}\n".encode()
            start = stop

    def groups(self) -> Iterator[Group]:
        """Yield the groups as they came, some of them more than once."""
        yield from self._places
        for start, stop in self._parts():
            yield from (_group(line) for line in _read(self._file, start, stop, self._room))

    def _parts(self) -> Iterator[tuple[int, int]]:
        """Yield where each of the parts on disk begins and ends."""
        return pairwise(self._ends)

    def ordered(self, key: Key) -> Iterator[Found]:
        """Yield every group once, those of a smaller key first; groups of the same key are one."""
        rows = self._merged(key)
        for _, same in groupby(rows, key=lambda row: row[0]):
            lines = [line for _, line in same]
            yield _group(lines[0]), np.concatenate([_cells(line) for line in lines])

    def _merged(self, key: Key) -> Iterator[tuple[Any, bytes]]:
        """Yield lines with their keys, in order."""
        if self._file is None:
            yield from _sorted(self._lines(), key)
            return
        if self._bytes:
            self._spill()
        with ExitStack() as stack:
            file, ends = _scratch(), [0]
            stack.callback(scratch.close, file)
            with scratch.naming():
                for start, stop in self._parts():
                    for _, line in _sorted(_read(self._file, start, stop, self._room), key):
                        file.write(line)
                    ends.append(file.tell())
                file.flush()
            each = self._room // len(ends)
            runs = [_read(file, start, stop, each) for start, stop in pairwise(ends)]
            yield from heapq.merge(*(_keyed(run, key) for run in runs), key=lambda row: row[0])


def _scratch() -> Any:
    from tempfile import TemporaryFile  # see Scratch

    return TemporaryFile()


def _read(file: Any, start: int, stop: int, most: int) -> Iterator[bytes]:
    """Yield the lines between two places of a file, in which others may read in the meantime."""
    rest = b""
    while start < stop:
        file.seek(start)
        part = file.read(min(max(most // 16, LEAST_READ, len(rest)), stop - start))
        start += len(part)
        *lines, rest = (rest + part).split(b"\n")
        yield from (line + b"\n" for line in lines)


def _keyed(lines: Iterator[bytes], key: Key) -> Iterator[tuple[Any, bytes]]:
    return ((key(_group(line)), line) for line in lines)


def _sorted(lines: Iterator[bytes], key: Key) -> list[tuple[Any, bytes]]:
    return sorted(_keyed(lines, key), key=lambda row: row[0])


def _summed(cells: np.ndarray) -> np.ndarray:
    """Return cells in the order of groups, each once."""
    cells = cells[np.lexsort(cells[:, 2::-1].T)]
    first = np.append(True, (cells[1:, :3] != cells[:-1, :3]).any(axis=1))
    out: np.ndarray = cells[first]
    out[:, 3] = np.add.reduceat(cells[:, 3], np.flatnonzero(first))
    return out


def _group(line: bytes) -> Group:
    return tuple(json.loads(line.split(b"\t", 1)[0]))


def _cells(line: bytes) -> np.ndarray:
    return np.array(json.loads(line.split(b"\t", 1)[1]), np.int64).reshape(-1, 3)
