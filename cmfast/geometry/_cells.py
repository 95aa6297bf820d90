"""Sparse tables over the cells of a grid: counts per (cell, label, prediction), and weighted histograms.

Both store one sorted 64-bit key per entry, ``cell << bits | tag``. ``kernels.shared.geometry_keys`` defines how a cell
becomes a number; users of these classes see index rows only.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np

from cmfast._core import dispatch, plotting, result_frames, result_repr, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, ArrayT, Empty, Method, OnFailure, Smoothing, Table
from cmfast._files.archive import Parts
from cmfast._files.states import State, class_only
from cmfast.geometry import _cell_partition
from cmfast.geometry._grid import Grid
from cmfast.geometry._limits import check_total, explain_matrix_memory, explain_overflow
from cmfast.geometry._weights import get_statuses, is_list, make_weightings, report_weightings, validate_bi_options
from cmfast.kernels.shared.geometry_keys import KeyLayout, Ranges, bits_of

CountsT = TypeVar("CountsT", bound="CellCounts")

CELL_PARTS: Parts = {  # dtypes and dimensions of the saved arrays
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
    """Histogram over occupied cells only: a height per cell and group. Made by :func:`cmfast.sparse_histogram`.

    Attributes
    ----------
    grid : Grid
        The cells.
    n_groups : int
        Groups are ``0, ..., n_groups - 1``.
    values : array, shape (K,)
        Height of each entry: the sum of its weights. int64 for counts and integer weights.
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
        """Index row of the cell of each entry: int64, shape (K, m)."""
        return self._decode()[0]

    @property
    def groups(self) -> ArrayT:
        """Group of each entry: int64, shape (K,)."""
        return self._decode()[1]

    def _decode(self) -> tuple[ArrayT, ArrayT]:
        """Return index rows and groups of all entries."""
        options = {"ranges": self._ranges, "bits": bits_of(self.n_groups)}
        index, tags = dispatch.call("decode_cells", self._keys, self._table, **options)
        return index, tags

    def __len__(self) -> int:
        return int(dispatch.shape_of(self._keys)[0])

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        parts = {"entries": f"{len(self):,}", "axes": str(self.grid.n_axes), "groups": str(self.n_groups)}
        return parts | {"left out": f"{self.n_dropped:,}"}

    def explain(self) -> str:
        """Return a sentence on what the histogram holds."""
        return f"heights of {len(self):,} pairs of an occupied cell and a group; all others are zero"

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a row per entry: the index of its cell on each axis, its group and height."""
        index, groups = map(result_frames.copy_to_host, self._decode())
        columns = {f"axis_{k}": axis for k, axis in enumerate(index.T)}
        return result_frames.make_frame(columns | {"group": groups, "value": self.values}, ("entry",))

    def plot(self, *, axis: int = 0, ax: Any = None) -> Any:
        """Draw the histogram along one axis of the grid, summed over all others: a line for each group.

        Of more than eight groups the eight of largest mass are drawn, and the title says so.

        Parameters
        ----------
        axis : int
            Axis of the grid; -1 is the last.
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        matplotlib axes
            Axes of the plot; the figure is not shown.

        Raises
        ------
        TypeError, ValueError
            An axis that the grid does not have.

        Examples
        --------
        >>> import cmfast
        >>> h = cmfast.sparse_histogram(
        ...     [[0.1], [0.2], [7.0]], grid=cmfast.Grid([0.0], [1.0])
        ... )
        >>> steps = h.plot().patches[0].get_data()
        >>> steps.edges.tolist(), steps.values.tolist()
        ([0.0, 1.0, 7.0, 8.0], [2.0, 0.0, 1.0])
        """
        axis = _validate_axis(axis, self.grid)
        index, groups = map(result_frames.copy_to_host, self._decode())
        values = np.asarray(result_frames.copy_to_host(self.values), np.float64)
        masses = np.bincount(groups, np.abs(np.nan_to_num(values)), self.n_groups)
        known = np.flatnonzero(np.bincount(groups, minlength=self.n_groups))
        drawn = np.sort(known[np.argsort(-masses[known], kind="stable")[: plotting.MOST_LEGEND_LINES]])
        origin, width = float(self.grid.origin[axis]), float(self.grid.width[axis])
        steps = [_sum_along(index[groups == k, axis], values[groups == k]) for k in drawn]
        steps = [(origin + width * edges, heights) for edges, heights in steps]
        ax = plotting.draw_steps(ax, steps, [f"group {k}" for k in drawn], (f"axis {axis}", "height"))
        if len(drawn) < len(known):
            ax.set_title(f"the largest {len(drawn)} of {len(known):,} groups", fontsize="medium")
        return ax


def _validate_axis(axis: Any, grid: Grid) -> int:
    """Validate an axis of a grid, which may count from the last; return it as a nonnegative index."""
    return validate.count("axis", axis, least=-grid.n_axes, most=grid.n_axes - 1) % grid.n_axes


def _sum_along(index: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return edges and heights of the histogram of indices of one axis; each gap of it is one bin of height 0."""
    places, inverse = np.unique(index, return_inverse=True)
    edges = np.union1d(places, places + 1)
    heights = np.zeros(max(len(edges) - 1, 0))
    heights[np.searchsorted(edges, places)] = np.bincount(inverse, values, len(places))
    return edges, heights


@result_repr.add_repr
@dataclass(frozen=True, eq=False, repr=False)
class CellCounts(State, Generic[ArrayT]):
    """Number of points per (cell, label, prediction). Made by :func:`cmfast.cell_counts`.

    Weights depend only on label and prediction, so these counts suffice for the geometric confusion matrix of any
    weighting. ``a + b`` merges the counts of two parts of the points exactly, in any order; ``sum(parts)`` works. 2**61
    points or more raise OverflowError. Two are equal if grid, classes, triples, counts and `n_dropped` are.

    Attributes
    ----------
    grid : Grid
        The cells.
    n_classes : int
        Classes are ``0, ..., n_classes - 1``.
    counts : array of int64, shape (K,)
        Number of points of each distinct triple.
    n_dropped : int
        Points left out because a coordinate is not finite.

    Notes
    -----
    Triples are sorted by cell (lexicographically by index row), then label, then prediction.

    Examples
    --------
    >>> import cmfast
    >>> grid = cmfast.Grid([0.0], [1.0])
    >>> a = cmfast.cell_counts(
    ...     [[0.5], [0.6]], [0, 0], [0, 1], grid=grid, n_classes=2
    ... )
    >>> b = cmfast.cell_counts(
    ...     [[0.7], [3.0]], [0, 1], [1, 1], grid=grid, n_classes=2
    ... )
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
        """Index row of the cell of each triple: int64, shape (K, m)."""
        return self._decode()[0]

    @property
    def labels(self) -> ArrayT:
        """Label of each triple: int64, shape (K,)."""
        tags: Any = self._decode()[1]
        found: ArrayT = adapter(tags).evaluate(lambda tags: tags >> bits_of(self.n_classes), tags)
        return found

    @property
    def predictions(self) -> ArrayT:
        """Prediction of each triple: int64, shape (K,)."""
        tags: Any = self._decode()[1]
        found: ArrayT = adapter(tags).evaluate(lambda tags: tags & ((1 << bits_of(self.n_classes)) - 1), tags)
        return found

    @property
    def n_points(self) -> int:
        """Number of counted points, without those left out."""
        counts: Any = self.counts
        return int(adapter(counts).evaluate(lambda counts: counts.sum(), counts))

    @property
    def key_bits(self) -> int:
        """Bits of a key: cell, label and prediction."""
        return KeyLayout.create(self._ranges, self._table).key_bits(2 * bits_of(self.n_classes))

    @property
    def bins(self) -> tuple[int, ...]:
        """Number of cells from the first to the last occupied one, per axis."""
        return self._ranges[1]

    def _decode(self) -> tuple[ArrayT, ArrayT]:
        """Return index rows and tags (label and prediction) of all triples."""
        options = {"ranges": self._ranges, "bits": 2 * bits_of(self.n_classes)}
        index, tags = dispatch.call("decode_cells", self._keys, self._table, **options)
        return index, tags

    def __len__(self) -> int:
        return int(dispatch.shape_of(self._keys)[0])

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        parts = {"points": f"{self.n_points:,}", "left out": f"{self.n_dropped:,}", "triples": f"{len(self):,}"}
        return parts | {"axes": str(self.grid.n_axes), "classes": str(self.n_classes)}

    def explain(self) -> str:
        """Return a sentence on the number of points and triples."""
        return f"{self.n_points:,} points in {len(self):,} different triples of cell, label and prediction"

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a row per triple: the index of its cell on each axis, its labels and count."""
        columns = {f"axis_{k}": axis for k, axis in enumerate(result_frames.copy_to_host(self.cells).T)}
        columns |= {"label": self.labels, "prediction": self.predictions, "count": self.counts}
        return result_frames.make_frame(columns, ("triple",))

    def plot(self, *, axis: int = 0, ax: Any = None) -> Any:
        """Draw the points of each label along one axis of the grid, as ``label_histogram().plot()`` does.

        Parameters
        ----------
        axis : int
            Axis of the grid; -1 is the last.
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        matplotlib axes
            Axes of the plot; the figure is not shown.

        Examples
        --------
        >>> import cmfast
        >>> cells = cmfast.cell_counts(
        ...     [[0.5], [3.0]], [0, 1], [1, 1], grid=cmfast.Grid([0.0], [1.0])
        ... )
        >>> [line.get_label() for line in cells.plot().patches]
        ['group 0', 'group 1']
        """
        axis = _validate_axis(axis, self.grid)
        return self.label_histogram().plot(axis=axis, ax=ax)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CellCounts):
            return NotImplemented
        same = (self.grid, self.n_classes, self.n_dropped) == (other.grid, other.n_classes, other.n_dropped)
        if not same or len(self) != len(other):
            return False
        # Keys depend on the ranges that they were made for, decoded cells do not.
        pairs = zip((self.counts, *self._decode()), (other.counts, *other._decode()), strict=True)
        return all(np.array_equal(adapter(a).to_host(a), adapter(b).to_host(b)) for a, b in pairs)

    def __hash__(self) -> int:
        msg = "CellCounts are unhashable, as arrays are"
        raise TypeError(msg)

    def __add__(self, other: object) -> Self:
        if isinstance(other, int) and other == 0:  # where sum() starts
            return self
        if not isinstance(other, CellCounts):
            return NotImplemented
        return self._add_counts(other)

    def _add_counts(self, other: "CellCounts") -> Self:
        """Return the merged counts of two parts of the points."""
        if self.grid != other.grid:
            validate.refuse("grid", f"the same in both, {self.grid}", other.grid)
        if self.n_classes != other.n_classes:
            validate.refuse("n_classes", f"the same in both, {self.n_classes}", other.n_classes)
        found = merge_keyed_sums(self._get_sums(), other._get_sums(), 2 * bits_of(self.n_classes))
        n_dropped = self.n_dropped + other.n_dropped
        (counts,) = found.columns
        out = type(self)(self.grid, self.n_classes, counts, n_dropped, found.keys, found.table, found.ranges)
        check_total(out.n_points, n_dropped)  # int64 holds twice as many: neither counts nor sum have overflowed
        return out

    def __radd__(self, other: object) -> Self:
        return self.__add__(other)

    def _get_sums(self) -> "KeyedSums":
        """Return keys and counts as keyed sums."""
        return KeyedSums(self._keys, (self.counts,), self._table, self._ranges)

    def __sizeof__(self) -> int:
        """Return the size in memory in bytes, by which Dask decides what to spill."""
        arrays: list[Any] = [self._keys, self.counts, self._table]
        return super().__sizeof__() + int(sum(x.nbytes for x in arrays if x is not None))

    @class_only
    @classmethod
    def merge(cls, parts: Iterable[CountsT], /) -> CountsT:
        """Merge any number of parts, as ``sum(parts)`` but with each count copied only O(log(parts)) times.

        Parameters
        ----------
        parts : iterable of CellCounts
            On one grid, with one number of classes; iterated lazily, so a generator may make them on demand.

        Raises
        ------
        TypeError, ValueError
            A part that is not CellCounts; parts of two libraries or devices; no parts; parts of different grids or
            numbers of classes.
        OverflowError
            2**61 points or more.
        """
        if not isinstance(parts, Iterable):
            validate.refuse("parts", "an iterable of CellCounts", type(parts).__name__, TypeError)
        stack: list[CountsT] = []
        for k, part in enumerate(parts):
            if not isinstance(part, CellCounts):
                validate.refuse(f"parts[{k}]", "CellCounts", type(part).__name__, TypeError)
            push_and_merge(stack, part)
        if not stack:
            validate.refuse("parts", "at least one", "none")
        while len(stack) > 1:
            last = stack.pop()
            stack[-1] = stack[-1]._add_counts(last)
        return stack[0]

    def deal(self, n_parts: int) -> list[Self]:
        """Partition the cells by a hash into `n_parts` counts without common cells.

        The part of a cell depends on its index row alone, so the k-th parts of the counts of any points merge into the
        k-th part of all points: a worker needs only ``CellCounts.merge`` of its own part in memory. :func:`cmfast.gcm`
        accepts the list.

        Parameters
        ----------
        n_parts : int
            At most 65,536.

        Returns
        -------
        list of CellCounts
            Their sum equals these counts; the first part holds all of `n_dropped`.

        Raises
        ------
        TypeError, ValueError
            `n_parts` is not an integer from 1 to 65,536.

        Notes
        -----
        The partition is computed on the host: counts of a device are copied there and back.

        Examples
        --------
        >>> import cmfast
        >>> grid = cmfast.Grid([0.0], [1.0])
        >>> cells = cmfast.cell_counts(
        ...     [[0.5], [0.6], [3.0]], [0, 1, 1], [1, 0, 1], grid=grid
        ... )
        >>> parts = cells.deal(4)
        >>> len(parts), sum(parts) == cells
        (4, True)
        """
        return _cell_partition.partition_cells(self, n_parts)

    def confusion_matrix(self) -> ArrayT:
        """Return the confusion matrix of the counted points.

        Returns
        -------
        array of int64, shape (C, C)
            Rows are the labels, columns the predictions. Exact; does not synchronise the device.
        """
        return self._matrix()

    def _matrix(self) -> ArrayT:
        """Return the confusion matrix of the counted points."""
        with explain_matrix_memory(self.n_classes):
            found: ArrayT = dispatch.call("pair_counts", self._keys, self.counts, n_classes=self.n_classes)
        return found

    def label_histogram(
        self,
        weights: Method | Table | None = None,
        *,
        smoothing: Smoothing = None,
        empty: Empty = "nan",
        on_failure: OnFailure = None,
    ) -> SparseHistogram[ArrayT]:
        """Return the weighted histogram of the points of each label over the cells.

        Parameters
        ----------
        weights : {"all", "row", "col", "bi"} or array, shape (C, C), optional
            Weight of a point by label and prediction, see :func:`cmfast.gcm`. Default: weight 1 (counts).
        smoothing, empty
            Options of the weights ``"bi"``; see :func:`cmfast.ipf`.
        on_failure : {"warn", "raise", "ignore"}, optional
            What to do if the weights do not exist; all values are then NaN.
            Default: as :func:`cmfast.config` says, first "warn".

        Returns
        -------
        SparseHistogram
            Groups are the labels.

        Raises
        ------
        TypeError, ValueError
            Weights that are neither a name nor a real (C, C) table, or a list of weights.

        Notes
        -----
        Bad values: weights that do not exist, or whose sum overflows float64, give NaN throughout and are reported as
        `on_failure` says, as by :func:`cmfast.gcm`. Synchronises the device. Reproducible: the values do not depend on
        the order of the points.

        Examples
        --------
        >>> import cmfast
        >>> grid = cmfast.Grid([0.0], [1.0])
        >>> cells = cmfast.cell_counts(
        ...     [[0.1], [0.2], [0.3], [3.0]],
        ...     [0, 0, 1, 1],
        ...     [0, 1, 1, 1],
        ...     grid=grid,
        ... )
        >>> h = cells.label_histogram()
        >>> h.cells.tolist(), h.groups.tolist(), h.values.tolist()
        ([[0], [0], [3]], [0, 1, 1], [2, 1, 1])
        """
        return self._histogram(weights, validate_bi_options(smoothing, empty), on_failure, 0)

    def prediction_histogram(
        self,
        weights: Method | Table | None = None,
        *,
        smoothing: Smoothing = None,
        empty: Empty = "nan",
        on_failure: OnFailure = None,
    ) -> SparseHistogram[ArrayT]:
        """Return the weighted histogram of the points of each prediction over the cells.

        Parameters
        ----------
        weights : {"all", "row", "col", "bi"} or array, shape (C, C), optional
        smoothing, empty
        on_failure : {"warn", "raise", "ignore"}, optional
            See :meth:`label_histogram`.
            Default: as :func:`cmfast.config` says, first "warn".

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
        >>> cells = cmfast.cell_counts(
        ...     [[0.1], [0.2], [0.3], [3.0]],
        ...     [0, 0, 1, 1],
        ...     [0, 1, 1, 1],
        ...     grid=grid,
        ... )
        >>> h = cells.prediction_histogram()
        >>> h.cells.tolist(), h.groups.tolist(), h.values.tolist()
        ([[0], [0], [3]], [0, 1, 1], [1, 2, 1])
        """
        return self._histogram(weights, validate_bi_options(smoothing, empty), on_failure, 1)

    def _histogram(self, weights: Any, bi: dict[str, Any], on_failure: OnFailure, axis: int) -> SparseHistogram[ArrayT]:
        """Return the weighted histogram of labels (`axis` 0) or predictions (1)."""
        on_failure = validate.on_failure(on_failure)
        M = self._matrix()
        if is_list(weights):
            validate.refuse("weights", "one name or one table", "a list", TypeError)
        found = [] if weights is None else make_weightings(M, weights, bi)
        options = {"n_classes": self.n_classes, "axis": axis}
        table = found[0].table if found else None
        keys, values, status = dispatch.call("marginal_histogram", self._keys, self.counts, M, table, **options)
        if found:
            codes, sums = get_statuses(found), adapter(status).to_host(status)
            report_weightings(found, np.where(codes == 0, sums, codes), on_failure, "weights do not exist")
        return SparseHistogram(self.grid, self.n_classes, values, self.n_dropped, keys, self._table, self._ranges)

    def _get_parts(self) -> dict[str, Any]:
        """Return the parts to save."""
        from cmfast.geometry import _cells_file  # for files alone

        return _cells_file.get_parts(self)

    @classmethod
    def _restore(cls, parts: dict[str, Any]) -> Self:
        """Return counts made of validated saved parts."""
        from cmfast.geometry import _cells_file  # for files alone

        return cls(*_cells_file.check_parts(parts))


class KeyedSums(NamedTuple):
    """Columns of integers summed by sorted unique key; table and ranges as in ``KeyLayout``."""

    keys: Any
    columns: tuple[Any, ...]
    table: Any
    ranges: Ranges


def merge_keyed_sums(a: KeyedSums, b: KeyedSums, bits: int) -> KeyedSums:
    """Merge two sets of keyed sums, adding equal keys; keys have `bits` tag bits below the cell."""
    options = {"ranges_a": a.ranges, "ranges_b": b.ranges, "bits": bits}
    found = []
    for one, other in zip(a.columns, b.columns, strict=True):
        arrays = {"keys_a": a.keys, "counts_a": one, "table_a": a.table}
        arrays |= {"keys_b": b.keys, "counts_b": other, "table_b": b.table}
        adopted = dispatch.adopt(optional=("table_a", "table_b"), **arrays)
        with explain_overflow("the cells of both"):
            found.append(dispatch.call("merge_cells", *adopted, **options))
    keys, _, table, ranges = found[0]  # all have the same
    return KeyedSums(keys, tuple(column for _, column, _, _ in found), table, ranges)


def push_and_merge(stack: list[Any], cells: CellCounts) -> None:
    """Push `cells` on a stack and merge entries until each is more than twice as long as the next."""
    stack.append(cells)
    while len(stack) > 1 and len(stack[-2]) <= 2 * len(stack[-1]):
        last = stack.pop()
        stack[-1] = stack[-1]._add_counts(last)
