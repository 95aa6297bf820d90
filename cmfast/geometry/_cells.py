"""Sparse tables over the cells of a grid: joint counts of cells and classes, and weighted histograms.

Both hold one sorted 64-bit key per entry, ``cell << bits | tag``; how a cell is a number is said in
``kernels.shared.geometry_keys`` and hidden here: what is read are index rows.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np

from cmfast._core import dispatch, result_repr, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, ArrayT, Empty, Method, OnFailure, Smoothing, Table
from cmfast._files.archive import Parts
from cmfast._files.states import State, of_class
from cmfast.geometry import _dealing
from cmfast.geometry._grid import Grid
from cmfast.geometry._limits import check_total, overflow_of, room_for_matrix
from cmfast.geometry._weights import is_list, options_of_bi, report, statuses, tables
from cmfast.kernels.shared.geometry_keys import KeyLayout, Ranges, bits_of

CountsT = TypeVar("CountsT", bound="CellCounts")

CELL_PARTS: Parts = {  # types and dimensions of what is written
    "origin": (("<f8",), 1),
    "width": (("<f8",), 1),
    "n_classes": (("<i8",), 0),
    "n_dropped": (("<i8",), 0),
    "low": (("<i8",), 1),
    "extent": (("<i8",), 1),
    "keys": (("<i8",), 1),
    "counts": (("<i8",), 1),
    "table": (("|i1", "<i2", "<i4", "<i8"), 2),
}


@result_repr.add_repr
@dataclass(frozen=True, eq=False, repr=False)
class SparseHistogram(Generic[ArrayT]):
    """Heights per cell and group, of the occupied cells only. Made by :func:`cmfast.sparse_histogram`.

    Attributes
    ----------
    grid : Grid
        The cells.
    n_groups : int
        Groups are ``0, ..., n_groups - 1``.
    values : array, shape (K,)
        Height of every entry: the sum of the weights in it. int64 for counts and integer weights.
    n_dropped : int
        Points left out because a coordinate is not finite.

    Notes
    -----
    Entries are sorted by cell (lexicographically by index row), then by group.
    """

    grid: Grid
    n_groups: int
    values: ArrayT
    n_dropped: int
    _keys: Array = field(repr=False)
    _table: Array = field(repr=False)
    _ranges: Ranges = field(repr=False)

    @property
    def cells(self) -> ArrayT:
        """Index row of the cell of every entry: int64, shape (K, m)."""
        return self._decoded()[0]

    @property
    def groups(self) -> ArrayT:
        """Group of every entry: int64, shape (K,)."""
        return self._decoded()[1]

    def _decoded(self) -> tuple[ArrayT, ArrayT]:
        options = {"ranges": self._ranges, "bits": bits_of(self.n_groups)}
        index, tags = dispatch.call("decode_cells", self._keys, self._table, **options)
        return index, tags

    def __len__(self) -> int:
        return int(dispatch.shape_of(self._keys)[0])

    def _parts(self) -> dict[str, str]:
        parts = {"entries": f"{len(self):,}", "axes": str(self.grid.n_axes), "groups": str(self.n_groups)}
        return parts | {"left out": f"{self.n_dropped:,}"}

    def explain(self) -> str:
        """Say in words what is counted."""
        return f"heights of {len(self):,} pairs of an occupied cell and a group; all others are zero"


@result_repr.add_repr
@dataclass(frozen=True, eq=False, repr=False)
class CellCounts(State, Generic[ArrayT]):
    """How many points have each (cell, label, prediction). Made by :func:`cmfast.cell_counts`.

    Weights depend on label and prediction alone, so these counts are all that the geometric confusion matrix of any
    weighting needs. ``a + b`` merges the counts of two parts of the points exactly, in any order; ``sum(parts)`` works.
    2**61 points or more are an OverflowError. Two are equal if grid, classes, triples, counts and `n_dropped` are.

    Attributes
    ----------
    grid : Grid
        The cells.
    n_classes : int
        Classes are ``0, ..., n_classes - 1``.
    counts : array of int64, shape (K,)
        Points of every distinct triple.
    n_dropped : int
        Points left out because a coordinate is not finite.

    Notes
    -----
    Triples are sorted by cell (lexicographically by index row), then label, then prediction.

    Examples
    --------
    >>> import cmfast
    >>> grid = cmfast.Grid([0.0], [1.0])
    >>> a = cmfast.cell_counts([[0.5], [0.6]], [0, 0], [0, 1], grid=grid, n_classes=2)
    >>> b = cmfast.cell_counts([[0.7], [3.0]], [0, 1], [1, 1], grid=grid, n_classes=2)
    >>> both = a + b
    >>> both.cells.tolist(), both.counts.tolist()
    ([[0], [0], [3]], [1, 2, 1])
    >>> both.confusion_matrix()
    array([[1, 2],
           [0, 1]])
    """

    grid: Grid
    n_classes: int
    counts: ArrayT
    n_dropped: int
    _keys: Array = field(repr=False)
    _table: Array = field(repr=False)
    _ranges: Ranges = field(repr=False)

    _STORED: ClassVar[Parts] = CELL_PARTS
    _OPTIONAL: ClassVar[tuple[str, ...]] = ("table",)

    @property
    def cells(self) -> ArrayT:
        """Index row of the cell of every triple: int64, shape (K, m)."""
        return self._decoded()[0]

    @property
    def labels(self) -> ArrayT:
        """Label of every triple: int64, shape (K,)."""
        tags: Any = self._decoded()[1]
        found: ArrayT = adapter(tags).evaluate(lambda tags: tags >> bits_of(self.n_classes), tags)
        return found

    @property
    def predictions(self) -> ArrayT:
        """Prediction of every triple: int64, shape (K,)."""
        tags: Any = self._decoded()[1]
        found: ArrayT = adapter(tags).evaluate(lambda tags: tags & ((1 << bits_of(self.n_classes)) - 1), tags)
        return found

    @property
    def n_points(self) -> int:
        """Points that were counted, without those left out."""
        counts: Any = self.counts
        return int(adapter(counts).evaluate(lambda counts: counts.sum(), counts))

    @property
    def key_bits(self) -> int:
        """Bits that a cell with label and prediction takes in a key."""
        return KeyLayout.create(self._ranges, self._table).key_bits(2 * bits_of(self.n_classes))

    @property
    def bins(self) -> tuple[int, ...]:
        """Cells between the first and the last occupied one, both included, per axis."""
        return self._ranges[1]

    def _decoded(self) -> tuple[ArrayT, ArrayT]:
        options = {"ranges": self._ranges, "bits": 2 * bits_of(self.n_classes)}
        index, tags = dispatch.call("decode_cells", self._keys, self._table, **options)
        return index, tags

    def __len__(self) -> int:
        return int(dispatch.shape_of(self._keys)[0])

    def _parts(self) -> dict[str, str]:
        parts = {"points": f"{self.n_points:,}", "left out": f"{self.n_dropped:,}", "triples": f"{len(self):,}"}
        return parts | {"axes": str(self.grid.n_axes), "classes": str(self.n_classes)}

    def explain(self) -> str:
        """Say in words what is counted."""
        return f"{self.n_points:,} points in {len(self):,} different triples of cell, label and prediction"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CellCounts):
            return NotImplemented
        same = (self.grid, self.n_classes, self.n_dropped) == (other.grid, other.n_classes, other.n_dropped)
        if not same or len(self) != len(other):
            return False
        # Keys depend on the room that they were made with, what they stand for does not.
        pairs = zip((self.counts, *self._decoded()), (other.counts, *other._decoded()), strict=True)
        return all(np.array_equal(adapter(a).to_host(a), adapter(b).to_host(b)) for a, b in pairs)

    def __hash__(self) -> int:
        msg = "CellCounts are unhashable, as arrays are"
        raise TypeError(msg)

    def __add__(self, other: object) -> Self:
        if isinstance(other, int) and other == 0:  # where sum() starts
            return self
        if not isinstance(other, CellCounts):
            return NotImplemented
        return self._plus(other)

    def _plus(self, other: "CellCounts") -> Self:
        """Return the sum."""
        if self.grid != other.grid:
            validate.refuse("grid", f"the same in both, {self.grid}", other.grid)
        if self.n_classes != other.n_classes:
            validate.refuse("n_classes", f"the same in both, {self.n_classes}", other.n_classes)
        found = merged(self._runs(), other._runs(), 2 * bits_of(self.n_classes))
        n_dropped = self.n_dropped + other.n_dropped
        (counts,) = found.columns
        out = type(self)(self.grid, self.n_classes, counts, n_dropped, found.keys, found.table, found.ranges)
        check_total(out.n_points, n_dropped)  # int64 holds twice as many: neither counts nor sum have wrapped
        return out

    def __radd__(self, other: object) -> Self:
        return self.__add__(other)

    def _runs(self) -> "KeyedSums":
        return KeyedSums(self._keys, (self.counts,), self._table, self._ranges)

    def __sizeof__(self) -> int:
        """Return the bytes in memory, by which Dask knows what to spill."""
        arrays: list[Any] = [self._keys, self.counts, self._table]
        return super().__sizeof__() + int(sum(x.nbytes for x in arrays if x is not None))

    @of_class
    @classmethod
    def merge(cls, parts: Iterable[CountsT], /) -> CountsT:
        """Merge the counts of any number of parts: as ``sum(parts)``, but no count is walked over more than log times.

        Parameters
        ----------
        parts : iterable of CellCounts
            On one grid, with one number of classes; read one by one, so a generator may make them as they are needed.

        Raises
        ------
        TypeError, ValueError
            A part that is no CellCounts, or parts of two libraries or devices; no part at all; parts of different grids
            or numbers of classes.
        OverflowError
            2**61 points or more.
        """
        if not isinstance(parts, Iterable):
            validate.refuse("parts", "an iterable of CellCounts", type(parts).__name__, TypeError)
        stack: list[CountsT] = []
        for k, part in enumerate(parts):
            if not isinstance(part, CellCounts):
                validate.refuse(f"parts[{k}]", "CellCounts", type(part).__name__, TypeError)
            push(stack, part)
        if not stack:
            validate.refuse("parts", "at least one", "none")
        while len(stack) > 1:
            last = stack.pop()
            stack[-1] = stack[-1]._plus(last)
        return stack[0]

    def deal(self, n_parts: int) -> list[Self]:
        """Deal the cells to `n_parts` counts, no two of which have a cell in common.

        Which of them has a cell follows from its index row alone, so the parts with one number, dealt from the counts
        of any points, merge to that part of all of them: ``CellCounts.merge`` of the counts of a partition is all that
        a worker needs in memory. :func:`cmfast.gcm` takes the list.

        Parameters
        ----------
        n_parts : int
            At most 65,536.

        Returns
        -------
        list of CellCounts
            Their sum is equal to these counts; the first has all of `n_dropped`.

        Raises
        ------
        TypeError, ValueError
            `n_parts` is no whole number from 1 to 65,536.

        Notes
        -----
        The cells are dealt on the host: counts of a device come there and go back.

        Examples
        --------
        >>> import cmfast
        >>> grid = cmfast.Grid([0.0], [1.0])
        >>> cells = cmfast.cell_counts([[0.5], [0.6], [3.0]], [0, 1, 1], [1, 0, 1], grid=grid)
        >>> parts = cells.deal(4)
        >>> len(parts), sum(parts) == cells
        (4, True)
        """
        return _dealing.deal(self, n_parts)

    def confusion_matrix(self) -> ArrayT:
        """Return the confusion matrix of the points that were counted.

        Returns
        -------
        array of int64, shape (C, C)
            Rows are the labels, columns the predictions. Exact; does not synchronise the device.
        """
        return self._matrix()

    def _matrix(self) -> ArrayT:
        with room_for_matrix(self.n_classes):
            found: ArrayT = dispatch.call("pair_counts", self._keys, self.counts, n_classes=self.n_classes)
        return found

    def label_histogram(
        self,
        weights: Method | Table | None = None,
        *,
        smoothing: Smoothing = None,
        empty: Empty = "nan",
        on_failure: OnFailure = "warn",
    ) -> SparseHistogram[ArrayT]:
        """Return the histogram of the points of each label.

        Parameters
        ----------
        weights : {"all", "row", "col", "bi"} or array, shape (C, C), optional
            Weight of a point by label and prediction, see :func:`cmfast.gcm`. Default: counts.
        smoothing, empty
            Of the weights ``"bi"``; see :func:`cmfast.ipf`.
        on_failure : {"warn", "raise", "ignore"}
            What to do about weights that do not exist; then all values are NaN.

        Returns
        -------
        SparseHistogram
            Groups are the labels.

        Raises
        ------
        TypeError, ValueError
            Weights that are no name and no real (C, C) table, or a list of them.

        Notes
        -----
        Bad values: weights that do not exist, or with a sum beyond float64, give NaN throughout, and that is reported
        as `on_failure` says, as :func:`cmfast.gcm` does. Synchronises the device. Reproducible: the values do not
        depend on the order of the points.

        Examples
        --------
        >>> import cmfast
        >>> grid = cmfast.Grid([0.0], [1.0])
        >>> cells = cmfast.cell_counts([[0.1], [0.2], [0.3], [3.0]], [0, 0, 1, 1], [0, 1, 1, 1], grid=grid)
        >>> h = cells.label_histogram()
        >>> h.cells.tolist(), h.groups.tolist(), h.values.tolist()
        ([[0], [0], [3]], [0, 1, 1], [2, 1, 1])
        """
        return self._histogram(weights, options_of_bi(smoothing, empty), on_failure, 0)

    def prediction_histogram(
        self,
        weights: Method | Table | None = None,
        *,
        smoothing: Smoothing = None,
        empty: Empty = "nan",
        on_failure: OnFailure = "warn",
    ) -> SparseHistogram[ArrayT]:
        """Return the histogram of the points of each prediction.

        Parameters
        ----------
        weights : {"all", "row", "col", "bi"} or array, shape (C, C), optional
        smoothing, empty
        on_failure : {"warn", "raise", "ignore"}
            See :meth:`label_histogram`.

        Returns
        -------
        SparseHistogram
            Groups are the predictions.

        See Also
        --------
        label_histogram : of the labels; errors and bad values are the same.

        Examples
        --------
        >>> import cmfast
        >>> grid = cmfast.Grid([0.0], [1.0])
        >>> cells = cmfast.cell_counts([[0.1], [0.2], [0.3], [3.0]], [0, 0, 1, 1], [0, 1, 1, 1], grid=grid)
        >>> h = cells.prediction_histogram()
        >>> h.cells.tolist(), h.groups.tolist(), h.values.tolist()
        ([[0], [0], [3]], [0, 1, 1], [1, 2, 1])
        """
        return self._histogram(weights, options_of_bi(smoothing, empty), on_failure, 1)

    def _histogram(self, weights: Any, bi: dict[str, Any], on_failure: OnFailure, axis: int) -> SparseHistogram[ArrayT]:
        validate.on_failure(on_failure)
        M = self._matrix()
        if is_list(weights):
            validate.refuse("weights", "one name or one table", "a list", TypeError)
        found = [] if weights is None else tables(M, weights, bi)
        options = {"n_classes": self.n_classes, "axis": axis}
        table = found[0].table if found else None
        keys, values, status = dispatch.call("marginal_histogram", self._keys, self.counts, M, table, **options)
        if found:
            codes, sums = statuses(found), adapter(status).to_host(status)
            report(found, np.where(codes == 0, sums, codes), on_failure, "weights do not exist")
        return SparseHistogram(self.grid, self.n_classes, values, self.n_dropped, keys, self._table, self._ranges)

    def _stored(self) -> dict[str, Any]:
        from cmfast.geometry import _cells_file  # for files alone

        return _cells_file.parts_of(self)

    @classmethod
    def _of_stored(cls, parts: dict[str, Any]) -> Self:
        from cmfast.geometry import _cells_file  # for files alone

        return cls(*_cells_file.checked(parts))


class KeyedSums(NamedTuple):
    """Sorted unique keys, and columns of integers that are added up by key; table and ranges as in ``KeyLayout``."""

    keys: Any
    columns: tuple[Any, ...]
    table: Any
    ranges: Ranges


def merged(a: KeyedSums, b: KeyedSums, bits: int) -> KeyedSums:
    """Return the runs of both, whose keys have `bits` bits below the cell."""
    options = {"ranges_a": a.ranges, "ranges_b": b.ranges, "bits": bits}
    found = []
    for one, other in zip(a.columns, b.columns, strict=True):
        arrays = {"keys_a": a.keys, "counts_a": one, "table_a": a.table}
        arrays |= {"keys_b": b.keys, "counts_b": other, "table_b": b.table}
        adopted = dispatch.adopt(optional=("table_a", "table_b"), **arrays)
        with overflow_of("the cells of both"):
            found.append(dispatch.call("merge_cells", *adopted, **options))
    keys, _, table, ranges = found[0]  # all have the same
    return KeyedSums(keys, tuple(column for _, column, _, _ in found), table, ranges)


def push(stack: list[Any], cells: CellCounts) -> None:
    """Put `cells` on a stack where each entry is more than twice as long as the next; merge until that is so."""
    stack.append(cells)
    while len(stack) > 1 and len(stack[-2]) <= 2 * len(stack[-1]):
        last = stack.pop()
        stack[-1] = stack[-1]._plus(last)
