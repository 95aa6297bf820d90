"""Cell counts of a stream of points, in memory while few, spilled to unnamed files when many."""

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from cmfast._core import dispatch, result_repr, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, OnFailure, Progress
from cmfast._core.locking import ObjectLock
from cmfast._core.progress import make_reporter
from cmfast._core.usual_options import explain_options_of_methods
from cmfast._files.scratch import Scratch
from cmfast.geometry import _binning
from cmfast.geometry._cells import CellCounts, push_and_merge
from cmfast.geometry._grid import Grid
from cmfast.geometry._limits import check_total
from cmfast.geometry._points import AdoptedPoints, adopt_labelled_points
from cmfast.kernels.shared.geometry_keys import Ranges, bits_of, merge_ranges

TRIPLE_BYTES = 16  # memory of a distinct triple: 8 bytes for the key, 8 for the count
MOST_PART_POINTS = 1 << 25  # points counted at a time, which needs about half a gigabyte
MERGED_TRIPLES = 1 << 20  # approximate number of triples merged from files at a time


@explain_options_of_methods
class CellAccumulator:
    """Count the points of a stream part by part, with the same result, bit for bit, as counting all in one call.

    Parameters
    ----------
    grid : Grid
        The cells, chosen beforehand from a sample or a first pass; it cannot change.
    n_classes : int
        Classes are ``0, ..., n_classes - 1``.
    max_bytes : int
        Memory for counts, at least 1 MiB. Larger counts are spilled to files and the result is a memory map, read-only
        if it is a NumPy array. Counts on a GPU always stay there.
    directory : path, optional
        Folder for these files; default: the system's temporary folder. The files have no name, so that they vanish
        however the process ends.

    Attributes
    ----------
    n_points, n_dropped : int
        Points counted so far, and points left out because a coordinate is not finite.

    Raises
    ------
    TypeError, ValueError
        `grid` is not a Grid; `n_classes` below 1; `max_bytes` below 1 MiB; `directory` is not a folder.
    OverflowError
        2**30 classes or more.

    See Also
    --------
    CellCounts.merge : for counts made elsewhere.

    Notes
    -----
    Bad values: as :func:`cmfast.cell_counts`. Synchronises the device. Reproducible: the counts do not depend on the
    partition of the points, their order, or the number of threads. If cells and classes need more than 63 bits, all
    counts stay in memory. Several threads may update one accumulator: they count concurrently and add their counts one
    after the other, and no update is lost.

    Examples
    --------
    >>> import cmfast
    >>> stream = cmfast.CellAccumulator(
    ...     cmfast.Grid([0.0], [1.0]), n_classes=2
    ... )
    >>> for X, y, p in (
    ...     ([[0.5], [0.6]], [0, 0], [0, 1]),
    ...     ([[0.7]], [0], [1]),
    ... ):
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
        if not isinstance(grid, Grid):
            validate.refuse("grid", "a cmfast.Grid", type(grid).__name__, TypeError)
        self._grid = grid
        self._n_classes = _binning.validate_n_classes(n_classes, least=1)
        self.max_bytes = validate.count("max_bytes", max_bytes, least=1 << 20, most=None)
        if directory is not None and not Path(validate.path_name("directory", directory)).is_dir():
            validate.refuse("directory", "a folder that exists", repr(directory))
        self.directory = directory
        self._tag = 2 * bits_of(self.n_classes)
        self._held = _AccumulatorState(0, 0, None, (), ())
        self._guard = ObjectLock()

    @property
    def grid(self) -> Grid:
        """The cells."""
        return self._grid

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self._n_classes

    @property
    def n_points(self) -> int:
        """Points counted so far."""
        return self._held.n_points

    @property
    def n_dropped(self) -> int:
        """Points left out so far, because a coordinate is not finite."""
        return self._held.n_dropped

    def __repr__(self) -> str:
        where = f", {len(self._held.spilled)} parts on disk" if self._held.spilled else ""
        return f"<CellAccumulator: {self.n_points:,} points, {self.grid.n_axes} axes, {self.n_classes} classes{where}>"

    def _repr_html_(self) -> str:
        """Return what was counted so far as HTML for notebooks."""
        parts = {"points": f"{self.n_points:,}", "left out": f"{self.n_dropped:,}", "classes": str(self.n_classes)}
        parts |= {"axes": str(self.grid.n_axes), "parts on disk": str(len(self._held.spilled))}
        return result_repr.render_html("CellAccumulator", parts, "counts() joins the parts; more points may follow")

    def update(
        self,
        X: Array,
        y_true: Array,
        y_pred: Array,
        *,
        on_failure: OnFailure = None,
        num_threads: int | None = None,
    ) -> Self:
        """Count some points; arguments as for :func:`cmfast.cell_counts`. An update that raises counts no points."""
        # With keys wide enough for all cells so far, the keys of all parts agree and merging is linear.
        options: dict[str, Any] = {"on_failure": on_failure, "num_threads": num_threads, "ranges": self._held.ranges}
        points = adopt_labelled_points(X, y_true, y_pred)
        return self._add(_binning.count(points, self.grid, n_classes=self.n_classes, **options))

    def add(self, cells: CellCounts, /) -> Self:
        """Add counts made elsewhere, on the same grid with the same number of classes; if it raises, none are added.

        Raises
        ------
        TypeError, ValueError
            Not CellCounts, or counts of another grid, number of classes, library or device.
        OverflowError
            2**61 points or more.
        """
        if not isinstance(cells, CellCounts):
            validate.refuse("cells", "CellCounts", type(cells).__name__, TypeError)
        if cells.grid != self.grid:
            validate.refuse("grid", f"that of the accumulator, {self.grid}", cells.grid)
        if cells.n_classes != self.n_classes:
            validate.refuse("n_classes", f"that of the accumulator, {self.n_classes}", cells.n_classes)
        return self._add(cells)

    def _add(self, cells: CellCounts) -> Self:
        """Add counts under the lock."""
        with self._guard.lock:
            self._held = self._include(self._held, cells)
        return self

    def _include(self, held: "_AccumulatorState", cells: CellCounts) -> "_AccumulatorState":
        """Return state `held` with some counts added, without changing `held`."""
        for other in (*held.parts[:1], *held.spilled[:1]):
            dispatch.adopt(cells=cells.counts, before=other.counts)
        n_points, n_dropped = held.n_points + cells.n_points, held.n_dropped + cells.n_dropped
        check_total(n_points, n_dropped)
        ranges = cells._ranges if held.ranges is None else merge_ranges(held.ranges, cells._ranges)
        parts, spilled = list(held.parts), held.spilled
        push_and_merge(parts, cells)
        # Half of the memory is for the result of a merge.
        if 2 * TRIPLE_BYTES * sum(map(len, parts)) > self.max_bytes and self._can_spill([*spilled, *parts], ranges):
            spilled = (*spilled, _spill([CellCounts.merge(parts)], ranges, self.directory))
            parts = []
        return _AccumulatorState(n_points, n_dropped, ranges, tuple(parts), spilled)

    def counts(self) -> CellCounts:
        """Return the counts of all points so far; updates may follow."""
        with self._guard.lock:
            return self._counts()

    def _counts(self) -> CellCounts:
        """Merge all parts, on disk if any was spilled, and return the counts."""
        held = self._held
        every = [*held.spilled, *held.parts]
        if held.spilled and self._can_spill(every, held.ranges):
            if len(every) > 1:
                self._held = held._replace(parts=(), spilled=(_spill(every, held.ranges, self.directory),))
            return self._held.spilled[0]
        if not every:
            X, y = np.empty((0, self.grid.n_axes)), np.empty(0, np.int64)
            options: dict[str, Any] = {"n_classes": self.n_classes, "on_failure": "warn", "num_threads": 1}
            return _binning.count(adopt_labelled_points(X, y, y), self.grid, **options)
        self._held = held._replace(parts=(CellCounts.merge(every),), spilled=())
        return self._held.parts[0]

    def _can_spill(self, parts: Sequence[CellCounts], ranges: Ranges | None) -> bool:
        """Whether the parts are on the host and their keys comparable: mixed-radix numbers and not ranks."""
        _, extent = ranges or ((), ())
        here = all(adapter(part.counts).is_on_host(part.counts) and part._table is None for part in parts)
        return here and math.prod(extent) << self._tag < 2**63 - 1


class _AccumulatorState(NamedTuple):
    """Immutable state of an accumulator, replaced as a whole so that updates are atomic."""

    n_points: int
    n_dropped: int
    ranges: Ranges | None
    parts: tuple[CellCounts, ...]
    spilled: tuple[CellCounts, ...]


def _spill(parts: Sequence[CellCounts], ranges: Ranges | None, directory: Any) -> CellCounts:
    """Merge counts into unnamed files and return them as memory maps."""
    assert ranges is not None, "something was added"
    given = parts[0].counts
    to_host, from_host = adapter(given).to_host, adapter(given).from_host
    n_dropped = sum(part.n_dropped for part in parts)
    parts = [replace(part, counts=to_host(part.counts), _keys=to_host(part._keys)) for part in parts]
    like = replace(parts[0], n_dropped=n_dropped, _ranges=ranges)
    parts = [
        part if part._ranges == ranges else _write_blocks(_recode(part, ranges), like, directory) for part in parts
    ]
    out = _write_blocks(_merge_sorted(parts), like, directory)
    return replace(out, counts=from_host(out.counts, given), _keys=from_host(out._keys, given))


def _copy_slice(part: CellCounts, start: int, stop: int) -> CellCounts:
    """Return a copy of the triples ``start:stop`` of `part`."""
    return replace(part, counts=np.array(part.counts[start:stop]), _keys=np.array(part._keys[start:stop]), n_dropped=0)


def _recode(part: CellCounts, ranges: Ranges) -> Iterator[CellCounts]:
    """Yield the triples of `part` in order, with keys recoded for `ranges`."""
    empty = replace(_copy_slice(part, 0, 0), _ranges=ranges)
    for start in range(0, max(len(part), 1), MERGED_TRIPLES):
        yield empty + _copy_slice(part, start, min(start + MERGED_TRIPLES, len(part)))


def _merge_sorted(parts: Sequence[CellCounts]) -> Iterator[CellCounts]:
    """Yield the merged triples of all parts, whose keys agree, in order (k-way merge by blocks)."""
    step = max(MERGED_TRIPLES // len(parts), 1)
    # Between two neighbours among every step-th key of all parts, each part has fewer than `step` keys.
    some = np.unique(np.concatenate([part._keys[::step] for part in parts]))
    cuts = [[*np.searchsorted(part._keys, some).tolist(), len(part)] for part in parts]
    for i in range(max(len(some), 1)):
        yield CellCounts.merge(_copy_slice(part, *cut[i : i + 2]) for part, cut in zip(parts, cuts, strict=True))


def _write_blocks(blocks: Iterator[CellCounts], like: CellCounts, directory: Any) -> CellCounts:
    """Write counts block by block to unnamed files; return them as memory maps, with other fields as in `like`."""
    with Scratch(directory) as keys, Scratch(directory) as counts:
        for block in blocks:
            keys.append(block._keys)
            counts.append(block.counts)
        return replace(like, counts=counts.mapped(), _keys=keys.mapped())


def count_in_parts(
    points: AdoptedPoints,
    grid: Grid,
    *,
    n_classes: int | None,
    num_threads: int | None,
    progress: Progress = None,
) -> CellCounts:
    """Count points in parts of bounded memory; dropped points are counted but not reported."""
    options: dict[str, Any] = {"on_failure": "ignore", "num_threads": num_threads}
    if points.n <= MOST_PART_POINTS:
        return _binning.count_points(points, grid, n_classes=n_classes, progress=progress, **options)
    n_classes = _binning.infer_n_classes(points, n_classes=n_classes, num_threads=num_threads)
    found = CellAccumulator(grid, max(n_classes, 1))
    report = make_reporter(progress, "points")
    spread = points.spread
    for start in range(0, points.n, MOST_PART_POINTS):
        part = points.part(slice(start, min(start + MOST_PART_POINTS, points.n)))
        if spread is not None and spread.n == points.n:  # the ranges of all points hold for each part, as for their sum
            part = part._replace(spread=spread._replace(n=part.n, n_rows=part.n))
        ranges = found._held.ranges
        found._add(_binning.count_points(part, grid, n_classes=n_classes, ranges=ranges, first=start, **options))
        if report is not None:
            report(start + part.n, points.n)
    return found.counts()
