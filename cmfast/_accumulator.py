"""Counts of points that come in parts: in memory while they are few, in files without a name where they are many."""

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from cmfast import _binning, _dispatch, _validate
from cmfast._cells import CellCounts, push
from cmfast._grid import Grid
from cmfast._progress import reporter
from cmfast._scratch import Scratch
from cmfast._typing import Array, OnFailure, Progress
from cmfast.kernels.layouts import Ranges, bits_of, union

BYTES = 16  # of a distinct triple in memory: key and count
PART = 1 << 25  # points that are counted at a time: about half a gigabyte
BLOCK = 1 << 20  # triples that are merged from files at a time, about


class CellAccumulator:
    """Counts the points of a stream, part by part: the result is that of all points at once, bit for bit.

    Parameters
    ----------
    grid : Grid
        The cells. Choose it first, from a sample or a first pass; it cannot change.
    n_classes : int
        Classes are ``0, ..., n_classes - 1``.
    max_bytes : int
        Memory for counts, at least 1 MiB. Beyond it they go to files and the result is a read-only memory map.
    directory : path, optional
        Folder for these files; default: the system's for temporary files. They have no name, so nothing is left of
        them however the process ends.

    Attributes
    ----------
    n_points, n_dropped : int
        Points counted so far, and left out because a coordinate is not finite.

    Raises
    ------
    TypeError, ValueError
        `grid` is no Grid; `n_classes` below 1; `max_bytes` below 1 MiB.

    See Also
    --------
    CellCounts.merge : for counts made elsewhere.

    Notes
    -----
    Bad values: as :func:`cmfast.cell_counts`. Synchronises the device. Reproducible: the counts do not depend on how
    the points are cut, on their order, or on threads. Where cells and classes together need more than 63 bits all
    counts stay in memory.

    Examples
    --------
    >>> import cmfast
    >>> stream = cmfast.CellAccumulator(cmfast.Grid([0.0], [1.0]), n_classes=2)
    >>> for X, y, p in (([[0.5], [0.6]], [0, 0], [0, 1]), ([[0.7]], [0], [1])):
    ...     _ = stream.update(X, y, p)
    >>> stream.counts().counts.tolist()
    [1, 2]
    """

    def __init__(
        self,
        grid: Grid,
        n_classes: int,
        *,
        max_bytes: int = 1 << 30,
        directory: str | os.PathLike[str] | None = None,
    ) -> None:
        op = "CellAccumulator"
        if not isinstance(grid, Grid):
            _validate.refuse(op, "grid", "a cmfast.Grid", type(grid).__name__, TypeError)
        self.grid = grid
        self.n_classes = _validate.count(op, "n_classes", n_classes, least=1)
        self.max_bytes = _validate.count(op, "max_bytes", max_bytes, least=1 << 20)
        self.directory = directory
        self.n_points = self.n_dropped = 0
        self._tag = 2 * bits_of(self.n_classes)
        self._ranges: Ranges | None = None
        self._parts: list[CellCounts] = []
        self._spilled: list[CellCounts] = []

    def __repr__(self) -> str:
        where = f", {len(self._spilled)} parts on disk" if self._spilled else ""
        return f"<CellAccumulator: {self.n_points} points, {self.grid.n_axes} axes, {self.n_classes} classes{where}>"

    def update(
        self,
        X: Array,
        y_true: Array,
        y_pred: Array,
        /,
        *,
        on_failure: OnFailure = "warn",
        num_threads: int | None = None,
    ) -> Self:
        """Count some points; all arguments as for :func:`cmfast.cell_counts`."""
        # With room for all cells so far, the keys of all parts agree and merging is a walk over both.
        options: dict[str, Any] = {"on_failure": on_failure, "num_threads": num_threads, "ranges": self._ranges}
        op = "CellAccumulator.update"
        return self.add(_binning.count(op, X, y_true, y_pred, self.grid, n_classes=self.n_classes, **options))

    def add(self, cells: CellCounts, /) -> Self:
        """Add counts made elsewhere, on the same grid with the same number of classes."""
        op = "CellAccumulator.add"
        if not isinstance(cells, CellCounts):
            _validate.refuse(op, "cells", "CellCounts", type(cells).__name__, TypeError)
        if cells.grid != self.grid:
            _validate.refuse(op, "grid", f"that of the accumulator, {self.grid}", cells.grid)
        if cells.n_classes != self.n_classes:
            _validate.refuse(op, "n_classes", f"that of the accumulator, {self.n_classes}", cells.n_classes)
        self.n_points += cells.n_points
        self.n_dropped += cells.n_dropped
        self._ranges = cells._ranges if self._ranges is None else union(self._ranges, cells._ranges)
        push(self._parts, cells)
        # The other half is for the result of a merge.
        if 2 * BYTES * sum(map(len, self._parts)) > self.max_bytes and self._storable():
            self._spilled.append(_stored([CellCounts.merge(self._parts)], self._ranges, self.directory))
            self._parts = []
        return self

    def counts(self) -> CellCounts:
        """Return the counts of all points so far; more can be added afterwards."""
        if self._spilled and self._storable():
            if len(self._spilled) > 1 or self._parts:
                self._spilled = [_stored([*self._spilled, *self._parts], self._ranges, self.directory)]
                self._parts = []
            return self._spilled[0]
        self._parts, self._spilled = [*self._spilled, *self._parts], []
        if not self._parts:
            X, y = np.empty((0, self.grid.n_axes)), np.empty(0, np.int64)
            options: dict[str, Any] = {"n_classes": self.n_classes, "on_failure": "warn", "num_threads": 1}
            return _binning.count("CellAccumulator", X, y, y, self.grid, **options)
        self._parts = [CellCounts.merge(self._parts)]
        return self._parts[0]

    def _storable(self) -> bool:
        """Whether the keys of all parts can be compared: they are in mixed radix, and not ranks."""
        parts = [*self._spilled, *self._parts]
        _, extent = self._ranges or ((), ())
        return all(part._table is None for part in parts) and math.prod(extent) << self._tag < 2**63 - 1


def _stored(parts: Sequence[CellCounts], ranges: Ranges | None, directory: Any) -> CellCounts:
    """Merge counts into files without a name and return them as memory maps."""
    assert ranges is not None, "something was added"
    n_dropped = sum(part.n_dropped for part in parts)
    parts = [
        replace(part, counts=_dispatch.to_host(part.counts), _keys=_dispatch.to_host(part._keys)) for part in parts
    ]
    like = replace(parts[0], n_dropped=n_dropped, _ranges=ranges)
    parts = [part if part._ranges == ranges else _written(_recoded(part, ranges), like, directory) for part in parts]
    return _written(_merged(parts), like, directory)


def _slice(part: CellCounts, start: int, stop: int) -> CellCounts:
    """Return some triples of `part`, copied from where they are."""
    return replace(part, counts=np.array(part.counts[start:stop]), _keys=np.array(part._keys[start:stop]), n_dropped=0)


def _recoded(part: CellCounts, ranges: Ranges) -> Iterator[CellCounts]:
    """Yield the triples of `part` with keys that have room for `ranges`, in order."""
    room = replace(_slice(part, 0, 0), _ranges=ranges)
    for start in range(0, max(len(part), 1), BLOCK):
        yield room + _slice(part, start, min(start + BLOCK, len(part)))


def _merged(parts: Sequence[CellCounts]) -> Iterator[CellCounts]:
    """Yield the triples of all parts, whose keys agree, in order."""
    step = max(BLOCK // len(parts), 1)
    # Between two neighbours of every step-th key of all parts lie fewer than `step` keys of each.
    some = np.unique(np.concatenate([part._keys[::step] for part in parts]))
    cuts = [[*np.searchsorted(part._keys, some).tolist(), len(part)] for part in parts]
    for i in range(max(len(some), 1)):
        yield CellCounts.merge(_slice(part, *cut[i : i + 2]) for part, cut in zip(parts, cuts, strict=True))


def _written(blocks: Iterator[CellCounts], like: CellCounts, directory: Any) -> CellCounts:
    """Write counts block by block and return them as memory maps, all else as in `like`."""
    with Scratch(directory) as keys, Scratch(directory) as counts:
        for block in blocks:
            keys.append(block._keys)
            counts.append(block.counts)
        return replace(like, counts=counts.mapped(), _keys=keys.mapped())


def count_in_parts(
    op: str,
    X: Array,
    y_true: Array,
    y_pred: Array,
    grid: Grid,
    *,
    n_classes: int | None,
    num_threads: int | None,
    progress: Progress = None,
) -> CellCounts:
    """Count points for the public function `op`, so many at a time that memory is bounded; report nothing dropped."""
    n = _dispatch.meta(X).shape[0]
    options: dict[str, Any] = {"on_failure": "ignore", "num_threads": num_threads}
    if n <= PART:
        return _binning.count(op, X, y_true, y_pred, grid, n_classes=n_classes, progress=progress, **options)
    if n_classes is None:
        with _dispatch.chosen(y_true):
            n_classes = 1 + max(int(y.max()) for y in (y_true, y_pred))
    found = CellAccumulator(grid, max(n_classes, 1))
    report = reporter(progress, op, "points")
    for start in range(0, n, PART):
        part = slice(start, min(start + PART, n))
        ranges = found._ranges
        points = X[part], y_true[part], y_pred[part]
        found.add(_binning.count(op, *points, grid, n_classes=n_classes, ranges=ranges, first=start, **options))
        if report is not None:
            report(part.stop, n)
    return found.counts()
