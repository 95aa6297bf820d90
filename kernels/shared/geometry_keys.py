"""Layout of cell keys, the same for every target.

A cell key is a mixed-radix number, axis 0 most significant, so that keys sort as index rows do lexicographically. If
the key and the tag (label and prediction) below it exceed 63 bits, the key of a cell is its rank among the occupied
cells, and a table of their index rows is stored. The choice depends on the exact index ranges alone, not on chunks,
threads or hints.
"""

from collections.abc import Callable, Iterable
from math import prod
from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.shared import counting

Ranges = tuple[tuple[int, ...], tuple[int, ...]]

MOST_INDEX = 2.0**53  # from here on float64 cannot distinguish neighbouring cells
NAMED_POSITIONS = 3  # indices that a message names
DROPPED = np.iinfo(np.int64).max  # key of a point without a cell: sorts after all others


class KeyLayout(NamedTuple):
    """How a cell key encodes its grid index row.

    `low` and `extent` are the smallest index and the number of indices per axis, over all points that have a cell
    (extent 0 on every axis: no point has one). Without `table` the key is in mixed radix ``index - low`` with these
    extents; else it is the row of the cell in `table`, an (n_cells, m) array of sorted index rows of `find_table_type`.
    """

    low: tuple[int, ...]
    extent: tuple[int, ...]
    table: Any

    @classmethod
    def create(cls, ranges: Ranges, table: Any) -> "KeyLayout":
        """Return the layout of ``(low, extent)`` and a table."""
        return cls(*ranges, table)

    @property
    def ranges(self) -> Ranges:
        """Return ``(low, extent)``."""
        return self.low, self.extent

    @property
    def n_cells(self) -> int:
        """Return the number of possible cell numbers, used or not."""
        return volume(self.extent) if self.table is None else len(self.table)

    def n_keys(self, bits: int) -> int:
        """Return the number of possible keys with `bits` tag bits below the cell."""
        return self.n_cells << bits

    def key_bits(self, bits: int) -> int:
        """Return the bit length of the largest key with `bits` tag bits below the cell."""
        return bits_of(self.n_cells) + bits


class Outside(NamedTuple):
    """Labels out of range, for a message.

    Attributes
    ----------
    name : str
        Name of the argument.
    limit : int or None
        Upper limit (exclusive); None if only negative labels are refused.
    number : int
        Number of labels out of range.
    first : list of (int, int)
        Index and value of the first few.
    """

    name: str
    limit: int | None
    number: int
    first: list[tuple[int, int]]


class Binned(NamedTuple):
    """Metadata of binned points besides the cell counts.

    Attributes
    ----------
    low, extent : tuple of int
        As in :class:`KeyLayout`.
    n_classes : int
        Number of classes; in a histogram, of groups.
    n_dropped : int
        Number of points without a cell.
    first_dropped : tuple of int
        Indices of the first few of them.
    """

    low: tuple[int, ...]
    extent: tuple[int, ...]
    n_classes: int
    n_dropped: int
    first_dropped: tuple[int, ...]


class CountedCells(NamedTuple):
    """Points counted per cell, label and prediction; if labels are `outside`, all else is None.

    Attributes
    ----------
    keys, counts : array of int64
        Distinct sorted keys, and the number of points of each.
    table : array or None
        As in :class:`KeyLayout`.
    binned : Binned
        Metadata of the points.
    outside : Outside or None
        Labels out of range.
    """

    keys: Any
    counts: Any
    table: Any
    binned: Any
    outside: Any


def find_outside(xp: Any, limit: int | None, **labels: Any) -> Outside:
    """Return the out-of-range labels of the first of these arrays of `xp` that has some; synchronises the device."""
    name, _, number, first = counting.find_outside(xp, limit, **labels)
    return Outside(name, limit, number, [(index[0], value) for index, value in first])


def bits_of(n: int) -> int:
    """Return the bits needed for numbers below `n`."""
    return max(n - 1, 0).bit_length()


def volume(extent: tuple[int, ...]) -> int:
    """Return the number of mixed-radix keys, the product of the extents, as a Python integer."""
    return prod(map(int, extent))


def fits(extent: tuple[int, ...], bits: int) -> bool:
    """Return whether mixed-radix keys with `bits` tag bits stay below ``DROPPED``."""
    return volume(extent) << bits < int(DROPPED)


def require_rank_bits(n_cells: int, bits: int) -> None:
    """Raise OverflowError if not even ranks of `n_cells` cells with `bits` tag bits fit in 63 bits."""
    if n_cells << bits >= int(DROPPED):
        msg = f"{n_cells} cells times 2**{bits} pairs of classes (or groups) do not fit into 63 bits"
        raise OverflowError(msg)


def find_table_type(layout: KeyLayout) -> Any:
    """Return the narrowest integer type for the grid indices of a layout."""
    low, high = min(layout.low), max(a + n for a, n in zip(layout.low, layout.extent, strict=True))
    return next(
        t for t in (np.int8, np.int16, np.int32, np.int64) if np.iinfo(t).min <= low and high <= np.iinfo(t).max
    )


def merge_ranges(one: Ranges, other: Ranges) -> Ranges:
    """Return the smallest ranges ``(low, extent)`` that contain two; extent 0 on every axis means no cell."""
    if not any(one[1]):
        return other
    if not any(other[1]):
        return one
    low = tuple(map(min, one[0], other[0]))
    ends = [[a + n for a, n in zip(*ranges, strict=True)] for ranges in (one, other)]
    return low, tuple(max(a, b) - c for a, b, c in zip(*ends, low, strict=True))


def merge_layouts(one: KeyLayout, other: KeyLayout, bits: int) -> KeyLayout:
    """Return a common layout of two sets of cells, with an empty `table` if cells must be ranked."""
    if not any(one.extent):
        return other
    if not any(other.extent):
        return one
    low, extent = merge_ranges(one.ranges, other.ranges)
    return KeyLayout(low, extent, None if fits(extent, bits) else np.empty((0, len(low)), np.int64))


def widen(layout: KeyLayout, ranges: Ranges | None, bits: int) -> KeyLayout:
    """Return a mixed-radix layout that also covers the cells of `ranges`, or `layout` if such keys do not fit."""
    wider = layout if ranges is None else merge_layouts(layout, KeyLayout.create(ranges, None), bits)
    return wider if wider.table is None else layout


def rank_rows(columns: Iterable[Any], extents: Iterable[int], rank: Callable[[Any], tuple[Any, Any]]) -> Any:
    """Return the lexicographic rank of every index row, and the index of one representative of each distinct row.

    ``rank(values)`` returns both for single integers. Axes are folded into one number while it fits; if the next axis
    does not fit, its indices are replaced by ranks, and if needed the number too. Ranks preserve order and identity, so
    this is exact.
    """
    key, size = None, 1
    for column, extent in zip(columns, extents, strict=True):
        index, n = column, extent
        if key is not None and size * n >= 2**63:
            key, some = rank(key)
            size = len(some)
        if size * n >= 2**63:
            index, some = rank(column)
            n = len(some)
        key = index if key is None else key * n + index
        size *= n
    return rank(key)
