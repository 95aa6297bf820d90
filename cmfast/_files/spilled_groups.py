"""External sort of group counts that exceed memory: spill to disk, sort run by run, merge."""

import heapq
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import groupby, pairwise
from typing import Any, Self

import numpy as np

from cmfast._files import scratch

Group = tuple[Any, ...]  # one value per column
Key = Callable[[Group], Any]
Found = tuple[Group, np.ndarray]  # a group and its cells, shape (k, 3): truth, prediction, count

GROUPS_AT_A_TIME = 1 << 12  # groups added at a time
LEAST_READ = 1 << 12  # smallest read of a sorted run, in bytes
EACH_GROUP, EACH_CELL = 400, 128  # estimated bytes of memory per group and per cell, without the values


class SpilledGroups:
    """Counts per group that keep at most `room` bytes in memory and spill the rest to disk.

    Parameters
    ----------
    room : int
        Bytes, estimated from the sizes of Python objects.
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
        """Add counts: rows of position in `groups`, truth, prediction, count, sorted by group."""
        for start in range(0, len(groups), GROUPS_AT_A_TIME):
            some = groups[start : start + GROUPS_AT_A_TIME]
            first, last = np.searchsorted(cells[:, 0], [start, start + len(some)])
            self._add(some, cells[first:last] - [start, 0, 0, 0])
            if self._bytes > self._room:
                self._spill()

    def _add(self, groups: list[Group], cells: np.ndarray) -> None:
        """Add counts of a few groups to those in memory."""
        before = len(self._places)
        where = np.array([self._places.setdefault(group, len(self._places)) for group in groups], np.int64)
        if len(self._places) > before:
            self._bytes += sum(EACH_GROUP + sum(map(sys.getsizeof, group)) for group in groups)
        self._cells.append(np.column_stack([where[cells[:, 0]], cells[:, 1:]]))
        self._bytes += EACH_CELL * len(cells)

    def _spill(self) -> None:
        """Append the groups in memory to the file and clear them."""
        if self._file is None:
            self._file = _open_scratch()
        with scratch.name_folder_in_errors():
            for line in self._lines():
                self._file.write(line)
            self._file.flush()
        self._ends.append(self._file.tell())
        self._places, self._cells, self._bytes = {}, [], 0

    def _lines(self) -> Iterator[bytes]:
        """Yield the groups in memory as lines of JSON: values and cells."""
        cells = _sum_cells(np.concatenate(self._cells))
        ends = np.cumsum(np.bincount(cells[:, 0], minlength=len(self._places)))
        start = 0
        for group, stop in zip(self._places, ends.tolist(), strict=True):
            yield f"{json.dumps(group)}\t{json.dumps(cells[start:stop, 1:].ravel().tolist())}\n".encode()
            start = stop

    def groups(self) -> Iterator[Group]:
        """Yield the groups in order of arrival, possibly more than once."""
        yield from self._places
        for start, stop in self._parts():
            yield from (_parse_group(line) for line in _read_lines(self._file, start, stop, self._room))

    def _parts(self) -> Iterator[tuple[int, int]]:
        """Yield start and end of each run on disk."""
        return pairwise(self._ends)

    def iterate_sorted(self, key: Key) -> Iterator[Found]:
        """Yield each group once with its cells, sorted by `key`; groups with equal keys are merged."""
        rows = self._merge_runs(key)
        for _, same in groupby(rows, key=lambda row: row[0]):
            lines = [line for _, line in same]
            yield _parse_group(lines[0]), np.concatenate([_parse_cells(line) for line in lines])

    def _merge_runs(self, key: Key) -> Iterator[tuple[Any, bytes]]:
        """Yield (key, line) sorted by key: a k-way merge of sorted runs."""
        if self._file is None:
            yield from _sort_lines(self._lines(), key)
            return
        if self._bytes:
            self._spill()
        with ExitStack() as stack:
            file, ends = _open_scratch(), [0]
            stack.callback(scratch.close, file)
            with scratch.name_folder_in_errors():
                for start, stop in self._parts():
                    for _, line in _sort_lines(_read_lines(self._file, start, stop, self._room), key):
                        file.write(line)
                    ends.append(file.tell())
                file.flush()
            each = self._room // len(ends)
            runs = [_read_lines(file, start, stop, each) for start, stop in pairwise(ends)]
            yield from heapq.merge(*(_add_keys(run, key) for run in runs), key=lambda row: row[0])


def _open_scratch() -> Any:
    """Open an unnamed temporary file."""
    from tempfile import TemporaryFile  # see Scratch

    return TemporaryFile()


def _read_lines(file: Any, start: int, stop: int, most: int) -> Iterator[bytes]:
    """Yield the lines between two positions of a file that is shared with other readers."""
    rest = b""
    while start < stop:
        file.seek(start)
        part = file.read(min(max(most // 16, LEAST_READ, len(rest)), stop - start))
        start += len(part)
        *lines, rest = (rest + part).split(b"\n")
        yield from (line + b"\n" for line in lines)


def _add_keys(lines: Iterator[bytes], key: Key) -> Iterator[tuple[Any, bytes]]:
    """Yield lines with their sort keys."""
    return ((key(_parse_group(line)), line) for line in lines)


def _sort_lines(lines: Iterator[bytes], key: Key) -> list[tuple[Any, bytes]]:
    """Return lines with their keys, sorted by key."""
    return sorted(_add_keys(lines, key), key=lambda row: row[0])


def _sum_cells(cells: np.ndarray) -> np.ndarray:
    """Sum duplicate cells; return them sorted by group, truth and prediction."""
    cells = cells[np.lexsort(cells[:, 2::-1].T)]
    first = np.append(True, (cells[1:, :3] != cells[:-1, :3]).any(axis=1))
    out: np.ndarray = cells[first]
    out[:, 3] = np.add.reduceat(cells[:, 3], np.flatnonzero(first))
    return out


def _parse_group(line: bytes) -> Group:
    """Return the group values of a line."""
    return tuple(json.loads(line.split(b"\t", 1)[0]))


def _parse_cells(line: bytes) -> np.ndarray:
    """Return the cells of a line, shape (k, 3)."""
    return np.array(json.loads(line.split(b"\t", 1)[1]), np.int64).reshape(-1, 3)
