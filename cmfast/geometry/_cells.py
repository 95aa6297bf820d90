"""Sparse tables over the cells of a grid: joint counts of cells and classes, and weighted histograms.

Both hold one sorted 64-bit key per entry, ``cell << bits | tag``; how a cell is a number is said in
``kernels.layouts`` and hidden here: what is read are index rows.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike, fsdecode
from pathlib import Path
from typing import Any, Self

import numpy as np

from cmfast._core import caller, dispatch, failures, validate
from cmfast._core.annotations import Array, Method, OnFailure
from cmfast.geometry._grid import Grid
from cmfast.geometry._weights import is_list, tables
from cmfast.kernels.shared.geometry_keys import DROPPED, MOST_INDEX, Layout, Ranges, bits_of, fits, volume
from cmfast.scaling._functions import checked_smoothing

FORMAT = 1  # of the files
BEYOND_KEYS = "do not fit into 63 bits"  # how `kernels.layouts.require` ends
MOST_POINTS = 2**61 - 1  # the limbs of weights in fixed point (kernels.fixed_point) need two bits above the counts
MOST_CLASSES = 2**30 - 1  # the confusion matrix of more could not even be addressed


@dataclass(frozen=True, eq=False, repr=False)
class SparseHistogram:
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
    values: Array
    n_dropped: int
    _keys: Array = field(repr=False)
    _table: Array = field(repr=False)
    _ranges: Ranges = field(repr=False)

    @property
    def cells(self) -> Array:
        """Index row of the cell of every entry: int64, shape (K, m)."""
        return self._decoded()[0]

    @property
    def groups(self) -> Array:
        """Group of every entry: int64, shape (K,)."""
        return self._decoded()[1]

    def _decoded(self) -> tuple[Array, Array]:
        options = {"ranges": self._ranges, "bits": bits_of(self.n_groups)}
        index, tags = dispatch.call("decode_cells", self._keys, self._table, **options)
        return index, tags

    def __len__(self) -> int:
        return int(dispatch.meta(self._keys).shape[0])

    def __repr__(self) -> str:
        return f"<SparseHistogram: {len(self)} entries, {self.grid.n_axes} axes, {self.n_groups} groups>"


@dataclass(frozen=True, eq=False, repr=False)
class CellCounts:
    """How many points have each (cell, label, prediction). Made by :func:`cmfast.cell_counts`.

    Weights depend on label and prediction alone, so these counts are all that the geometric confusion matrix of any
    weighting needs. ``a + b`` merges the counts of two parts of the points exactly, in any order; ``sum(parts)`` works.
    2**61 points or more are an OverflowError.

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
    counts: Array
    n_dropped: int
    _keys: Array = field(repr=False)
    _table: Array = field(repr=False)
    _ranges: Ranges = field(repr=False)

    @property
    def cells(self) -> Array:
        """Index row of the cell of every triple: int64, shape (K, m)."""
        return self._decoded()[0]

    @property
    def labels(self) -> Array:
        """Label of every triple: int64, shape (K,)."""
        tags = self._decoded()[1]
        with dispatch.chosen(tags):
            return tags >> bits_of(self.n_classes)

    @property
    def predictions(self) -> Array:
        """Prediction of every triple: int64, shape (K,)."""
        tags = self._decoded()[1]
        with dispatch.chosen(tags):
            return tags & ((1 << bits_of(self.n_classes)) - 1)

    @property
    def n_points(self) -> int:
        """Points that were counted, without those left out."""
        with dispatch.chosen(self.counts):
            return int(self.counts.sum())

    @property
    def key_bits(self) -> int:
        """Bits that a cell with label and prediction takes in a key."""
        return Layout.of(self._ranges, self._table).key_bits(2 * bits_of(self.n_classes))

    @property
    def bins(self) -> tuple[int, ...]:
        """Cells between the first and the last occupied one, both included, per axis."""
        return self._ranges[1]

    def _decoded(self) -> tuple[Array, Array]:
        options = {"ranges": self._ranges, "bits": 2 * bits_of(self.n_classes)}
        index, tags = dispatch.call("decode_cells", self._keys, self._table, **options)
        return index, tags

    def __len__(self) -> int:
        return int(dispatch.meta(self._keys).shape[0])

    def __repr__(self) -> str:
        what = f"{self.n_points} points, {len(self)} triples, {self.grid.n_axes} axes, {self.n_classes} classes"
        return f"<CellCounts: {what}>"

    def __add__(self, other: object) -> Self:
        if isinstance(other, int) and other == 0:  # where sum() starts
            return self
        if not isinstance(other, CellCounts):
            return NotImplemented
        return self._plus(other, "CellCounts")

    def _plus(self, other: "CellCounts", op: str) -> Self:
        """Return the sum, for the public function `op`."""
        if self.grid != other.grid:
            validate.refuse(op, "grid", f"the same in both, {self.grid}", other.grid)
        if self.n_classes != other.n_classes:
            validate.refuse(op, "n_classes", f"the same in both, {self.n_classes}", other.n_classes)
        arrays = {"keys_a": self._keys, "counts_a": self.counts, "table_a": self._table}
        arrays |= {"keys_b": other._keys, "counts_b": other.counts, "table_b": other._table}
        adopted = dispatch.adopt(op, optional=("table_a", "table_b"), **arrays)
        options = {"ranges_a": self._ranges, "ranges_b": other._ranges, "bits": 2 * bits_of(self.n_classes)}
        with overflow_of(op, "the cells of both"):
            keys, counts, table, ranges = dispatch.call("merge_cells", *adopted, **options)
        n_dropped = self.n_dropped + other.n_dropped
        out = type(self)(self.grid, self.n_classes, counts, n_dropped, keys, table, ranges)
        check_total(op, out.n_points, n_dropped)  # int64 holds twice as many: neither counts nor sum have wrapped
        return out

    def __radd__(self, other: object) -> Self:
        return self.__add__(other)

    @classmethod
    def merge(cls, parts: Iterable[Self], /) -> Self:
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
        op = "CellCounts.merge"
        if not isinstance(parts, Iterable):
            validate.refuse(op, "parts", "an iterable of CellCounts", type(parts).__name__, TypeError)
        stack: list[Self] = []
        for k, part in enumerate(parts):
            if not isinstance(part, CellCounts):
                validate.refuse(op, f"parts[{k}]", "CellCounts", type(part).__name__, TypeError)
            push(stack, part, op)
        if not stack:
            validate.refuse(op, "parts", "at least one", "none")
        while len(stack) > 1:
            last = stack.pop()
            stack[-1] = stack[-1]._plus(last, op)
        return stack[0]

    def confusion_matrix(self) -> Array:
        """Return the confusion matrix of the points that were counted.

        Returns
        -------
        array of int64, shape (C, C)
            Rows are the labels, columns the predictions. Exact; does not synchronise the device.
        """
        return self._matrix("CellCounts.confusion_matrix")

    def _matrix(self, op: str) -> Array:
        try:
            return dispatch.call("pair_counts", self._keys, self.counts, n_classes=self.n_classes)
        except MemoryError as error:
            C = self.n_classes
            msg = f"{op}: no memory for the confusion matrix of n_classes={C}, {8 * C * C / 2**30:.0f} GiB"
            raise MemoryError(msg) from error

    def label_histogram(
        self, weights: Method | Array | None = None, *, smoothing: Any = None, on_failure: OnFailure = "warn"
    ) -> SparseHistogram:
        """Return the histogram of the points of each label.

        Parameters
        ----------
        weights : {"all", "row", "col", "bi"} or array, shape (C, C), optional
            Weight of a point by label and prediction, see :func:`cmfast.gcm`. Default: counts.
        smoothing : optional
            Of the weights ``"bi"``; see :func:`cmfast.importance_weights`.
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
        Bad values: weights that do not exist, or with a sum beyond float64, give NaN throughout (INVALID), and that is
        reported as `on_failure` says. Synchronises the device unless `on_failure` is "ignore". Reproducible: the values
        do not depend on the order of the points.

        Examples
        --------
        >>> import cmfast
        >>> grid = cmfast.Grid([0.0], [1.0])
        >>> cells = cmfast.cell_counts([[0.1], [0.2], [0.3], [3.0]], [0, 0, 1, 1], [0, 1, 1, 1], grid=grid)
        >>> h = cells.label_histogram()
        >>> h.cells.tolist(), h.groups.tolist(), h.values.tolist()
        ([[0], [0], [3]], [0, 1, 1], [2, 1, 1])
        """
        return self._histogram("CellCounts.label_histogram", weights, smoothing, on_failure, 0)

    def prediction_histogram(
        self, weights: Method | Array | None = None, *, smoothing: Any = None, on_failure: OnFailure = "warn"
    ) -> SparseHistogram:
        """Return the histogram of the points of each prediction.

        Parameters
        ----------
        weights : {"all", "row", "col", "bi"} or array, shape (C, C), optional
            Weight of a point by label and prediction, see :func:`cmfast.gcm`. Default: counts.
        smoothing : optional
            Of the weights ``"bi"``; see :func:`cmfast.importance_weights`.
        on_failure : {"warn", "raise", "ignore"}
            What to do about weights that do not exist; then all values are NaN.

        Returns
        -------
        SparseHistogram
            Groups are the predictions.

        Raises
        ------
        TypeError, ValueError
            Weights that are no name and no real (C, C) table, or a list of them.

        Notes
        -----
        Bad values: weights that do not exist, or with a sum beyond float64, give NaN throughout (INVALID), and that is
        reported as `on_failure` says. Synchronises the device unless `on_failure` is "ignore". Reproducible: the values
        do not depend on the order of the points.

        Examples
        --------
        >>> import cmfast
        >>> grid = cmfast.Grid([0.0], [1.0])
        >>> cells = cmfast.cell_counts([[0.1], [0.2], [0.3], [3.0]], [0, 0, 1, 1], [0, 1, 1, 1], grid=grid)
        >>> h = cells.prediction_histogram()
        >>> h.cells.tolist(), h.groups.tolist(), h.values.tolist()
        ([[0], [0], [3]], [0, 1, 1], [1, 2, 1])
        """
        return self._histogram("CellCounts.prediction_histogram", weights, smoothing, on_failure, 1)

    def _histogram(self, op: str, weights: Any, smoothing: Any, on_failure: OnFailure, axis: int) -> SparseHistogram:
        validate.on_failure(op, on_failure)
        M = self._matrix(op)
        if is_list(weights):
            validate.refuse(op, "weights", "one name or one table", "a list", TypeError)
        checked_smoothing(op, smoothing)
        W = None if weights is None else tables(op, M, weights, smoothing)[0][0]
        options = {"n_classes": self.n_classes, "axis": axis}
        keys, values, status = dispatch.call("marginal_histogram", self._keys, self.counts, M, W, **options)
        failures.report(op, status, on_failure, failed="weights do not exist")
        return SparseHistogram(self.grid, self.n_classes, values, self.n_dropped, keys, self._table, self._ranges)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the counts to a file in the format of ``.npz``, without pickle; :meth:`load` reads it.

        Parameters
        ----------
        path : str or path
            Taken as it is: no suffix is added, and a file that exists is replaced when the new one is whole.

        Raises
        ------
        OSError
            The file cannot be written.
        ValueError
            A folder or a device has that name.
        TypeError
            `path` is no path.

        Notes
        -----
        The arrays are little-endian, so the file can be read on any machine. Synchronises the device.

        Examples
        --------
        >>> import cmfast, os, tempfile
        >>> cells = cmfast.cell_counts([[0.1], [3.0]], [0, 1], [0, 1], grid=cmfast.Grid([0.0], [1.0]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     cells.save(os.path.join(folder, "cells.npz"))
        ...     cmfast.CellCounts.load(os.path.join(folder, "cells.npz"))
        <CellCounts: 2 points, 2 triples, 1 axes, 2 classes>
        """
        target = Path(checked_path("CellCounts.save", "path", path)).resolve()
        if target.exists() and not target.is_file():  # whoever may replace a device would have a file in its place
            validate.refuse("CellCounts.save", "path", "the name of a file", f"a folder or device, {str(path)!r}")
        arrays: dict[str, Any] = {
            "format": np.array(FORMAT, "<i8"),
            "origin": self.grid.origin.astype("<f8"),
            "width": self.grid.width.astype("<f8"),
            "n_classes": np.array(self.n_classes, "<i8"),
            "n_dropped": np.array(self.n_dropped, "<i8"),
            "low": np.array(self._ranges[0], "<i8"),
            "extent": np.array(self._ranges[1], "<i8"),
            "keys": dispatch.to_host(self._keys).astype("<i8", copy=False),
            "counts": dispatch.to_host(self.counts).astype("<i8", copy=False),
        }
        if self._table is not None:
            table = dispatch.to_host(self._table)
            arrays["table"] = table.astype(table.dtype.newbyteorder("<"), copy=False)
        from cmfast._files import output  # what the command alone needs otherwise

        with output.replacing(target) as file:  # open: numpy.savez would append .npz to a name
            output.write_npz(file, arrays)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read what :meth:`save` wrote.

        Parameters
        ----------
        path : str or path
            The file; it need not be trusted, nothing in it is run.

        Returns
        -------
        CellCounts
            Its arrays are NumPy's, whatever library was saved.

        Raises
        ------
        OSError
            The file cannot be read.
        TypeError
            `path` is no path.
        ValueError
            The file is no such file, of another format, or damaged: whatever the algorithms rely on is checked.
        """
        from cmfast._files import archive  # for files alone

        op = "CellCounts.load"
        name = checked_path(op, "path", path)
        try:
            with open(name, "rb") as file:  # noqa: PTH123  (a name that need not be a Path)
                parts = archive.read(file, PARTS, optional=("table",))
            return cls._from_parts(parts)
        except archive.DamagedError as error:
            msg = f"{op}: {name} is not a file of cell counts, or damaged: {error}"
            raise ValueError(msg) from None

    @classmethod
    def _from_parts(cls, parts: dict[str, np.ndarray]) -> Self:
        """Check everything that the algorithms rely on; a file is never trusted."""
        from cmfast._files.archive import DamagedError, demand

        number = {name: int(parts[name]) for name in ("format", "n_classes", "n_dropped")}
        demand(number["format"] == FORMAT, f"it has format {number['format']}, this version reads {FORMAT}")
        keys, counts, table = parts["keys"], parts["counts"], parts.get("table")
        low, extent = (tuple(map(int, parts[name])) for name in ("low", "extent"))
        n_classes, n_dropped = number["n_classes"], number["n_dropped"]
        try:
            grid = Grid(parts["origin"], parts["width"])
        except ValueError as error:
            raise DamagedError(str(error)) from None
        demand(0 <= n_classes <= MOST_CLASSES and 0 <= n_dropped <= MOST_POINTS, "its n_classes or n_dropped cannot be")
        demand(len(low) == len(extent) == grid.n_axes, "its origin, low and extent differ in length")
        demand(all(n > 0 for n in extent) or not any(extent), "its extent cannot be")
        far = int(MOST_INDEX)
        demand(all(-far <= a and a + n - 1 <= far for a, n in zip(low, extent, strict=True)), "its low cannot be")
        demand(len(keys) == len(counts), "its keys and counts differ in number")
        half = bits_of(n_classes)
        # Keys are ranks exactly where the ranges leave no other choice: merging decides by the ranges.
        demand((table is None) == fits(extent, 2 * half), "its extent cannot be, with or without a table")
        if table is not None:
            _check_table(table, low, extent)
        n_cells = volume(extent) if table is None else len(table)
        demand(n_cells << (2 * half) < DROPPED, "its extent cannot be")
        demand(bool((keys[1:] > keys[:-1]).all()), "its keys are not in order")
        demand(not len(keys) or (keys[0] >= 0 and int(keys[-1]) >> (2 * half) < n_cells), "its keys cannot be")
        for tags in (keys >> half, keys):
            demand(not len(keys) or int((tags & ((1 << half) - 1)).max()) < n_classes, "its keys have other classes")
        demand(bool((counts > 0).all()), "its counts are not all above 0")
        # In halves, so that sums cannot wrap.
        total = (int((counts >> 32).sum()) << 32) + int((counts & 0xFFFFFFFF).sum())
        demand(total <= MOST_POINTS, "its counts add up to 2**61 or more")
        return cls(grid, n_classes, counts, n_dropped, keys, table, (low, extent))


PARTS = {  # of a file: types and dimensions of its arrays
    "format": (("<i8",), 0),
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


def checked_path(op: str, name: str, path: Any) -> str:
    """Return a path as a str."""
    try:
        found = fsdecode(path)
    except TypeError:
        validate.refuse(op, name, "a str or path", type(path).__name__, TypeError)
    if "\0" in found:
        validate.refuse(op, name, "without NUL", repr(found))
    return found


def _check_table(table: np.ndarray, low: tuple[int, ...], extent: tuple[int, ...]) -> None:
    """Check that `table` has different rows, in order, inside the ranges."""
    from cmfast._files.archive import demand

    demand(table.shape[1] == len(low), "its table has another number of axes")
    last = [a + n - 1 for a, n in zip(low, extent, strict=True)]
    inside = all(int(x.min()) >= a and int(x.max()) <= b for x, a, b in zip(table.T, low, last, strict=True) if len(x))
    demand(inside, "its table leaves its ranges")
    differs = table[1:] != table[:-1]
    first = differs.argmax(axis=1)[:, None]  # the first axis on which a row differs from the one before
    above = np.take_along_axis(table[1:] > table[:-1], first, axis=1)
    demand(bool(above.all()), "its table is not in order")


def push(stack: list[Any], cells: CellCounts, op: str) -> None:
    """Put `cells` on a stack where each entry is more than twice as long as the next; merge until that is so."""
    stack.append(cells)
    while len(stack) > 1 and len(stack[-2]) <= 2 * len(stack[-1]):
        last = stack.pop()
        stack[-1] = stack[-1]._plus(last, op)


@contextmanager
def overflow_of(op: str, asked: str) -> Iterator[None]:
    """Say which arguments, `asked`, have more cells and classes than keys can tell apart."""
    try:
        yield
    except OverflowError as error:
        text = str(error)
        if not text.endswith(BEYOND_KEYS):
            raise
        given = text.removeprefix(f"{caller.name(op)}: ")
        validate.fail(op, f"{asked} ask for more cells than can be told apart: {given}", OverflowError)


def check_total(op: str, n_points: int, n_dropped: int) -> None:
    """Refuse what would not stay exact: every sum of counts is at most the number of points."""
    for what, number in (("points", n_points), ("points left out", n_dropped)):
        if number > MOST_POINTS:
            msg = f"{op}: {number} {what} are more than the 2**61 - 1 that CellCounts can hold"
            raise OverflowError(msg)
