"""What the keys of cells mean, the same for every target.

The cell key is a number in mixed radix, axis 0 most significant, so that the order of keys is the lexicographic order
of the index rows. Where 63 bits are too few for it and the tag (label and prediction) below it, the key of a cell is
its rank among the occupied cells, and a table of their index rows is kept beside. Which of the two it is follows from
the exact range of the indices, so it does not depend on chunks, threads or hints.
"""

from collections.abc import Callable, Iterable
from math import prod
from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.shared import counting

Ranges = tuple[tuple[int, ...], tuple[int, ...]]

MOST_INDEX = 2.0**53  # from here on neighbouring cells cannot be told apart in float64
NAMED_POSITIONS = 3  # that a message names
DROPPED = np.iinfo(np.int64).max  # the key of a point without a cell: sorts behind every other


class KeyLayout(NamedTuple):
    """How the key of a cell encodes its index row.

    `low` and `extent` are the smallest index and the number of indices per axis, over all points that have a cell
    (extent 0 on every axis: there is none). Without `table` the key is in mixed radix ``index - low`` with these
    extents; else it is the row of the cell in `table`, an (n_cells, m) array of sorted index rows of `table_type`.
    """

    low: tuple[int, ...]
    extent: tuple[int, ...]
    table: Any

    @classmethod
    def of(cls, ranges: Ranges, table: Any) -> "KeyLayout":
        """Return the layout of ``(low, extent)`` and a table."""
        return cls(*ranges, table)

    @property
    def ranges(self) -> Ranges:
        """Return ``(low, extent)``."""
        return self.low, self.extent

    @property
    def n_cells(self) -> int:
        """Return how many numbers of cells there are, used or not."""
        return volume(self.extent) if self.table is None else len(self.table)

    def n_keys(self, bits: int) -> int:
        """Return how many keys there are with `bits` bits of tag below the cell: what all of them are below."""
        return self.n_cells << bits

    def key_bits(self, bits: int) -> int:
        """Return the bits of the largest key with `bits` bits of tag below the cell."""
        return bits_of(self.n_cells) + bits


class Outside(NamedTuple):
    """Labels that are no class.

    Attributes
    ----------
    name : str
        Argument that they are in.
    limit : int or None
        What all must be below; None where only negative ones are refused.
    number : int
        How many there are.
    first : list of (int, int)
        Index and value of the first few.
    """

    name: str
    limit: int | None
    number: int
    first: list[tuple[int, int]]


class Binned(NamedTuple):
    """What is known of binned points besides the counts of their cells.

    Attributes
    ----------
    low, extent : tuple of int
        As in :class:`KeyLayout`.
    n_classes : int
        Number of classes; in a histogram, of groups.
    n_dropped : int
        How many points have no cell.
    first_dropped : tuple of int
        Indices of the first few of them.
    """

    low: tuple[int, ...]
    extent: tuple[int, ...]
    n_classes: int
    n_dropped: int
    first_dropped: tuple[int, ...]


class CountedCells(NamedTuple):
    """Points counted per cell, label and prediction; where some labels are `outside`, there is nothing else.

    Attributes
    ----------
    keys, counts : array of int64
        Sorted keys, each once, and how many points have it.
    table : array or None
        As in :class:`KeyLayout`.
    binned : Binned
        What else is known of the points.
    outside : Outside or None
        Labels that are no class.
    """

    keys: Any
    counts: Any
    table: Any
    binned: Any
    outside: Any


def find_outside(xp: Any, limit: int | None, **labels: Any) -> Outside:
    """Return the labels that are no class, in the first of these arrays of `xp` that has some. Synchronises."""
    name, _, number, first = counting.find_outside(xp, limit, **labels)
    return Outside(name, limit, number, [(index[0], value) for index, value in first])


def bits_of(n: int) -> int:
    """Return the bits of a number below `n`."""
    return max(n - 1, 0).bit_length()


def volume(extent: tuple[int, ...]) -> int:
    """Return the number of keys that mixed radix needs; a Python integer, which cannot overflow."""
    return prod(map(int, extent))


def fits(extent: tuple[int, ...], bits: int) -> bool:
    """Whether keys in mixed radix with `bits` bits of tag below stay under ``DROPPED``."""
    return volume(extent) << bits < int(DROPPED)


def require(n_cells: int, bits: int) -> None:
    """Refuse what not even ranks can hold."""
    if n_cells << bits >= int(DROPPED):
        msg = f"{n_cells} cells times 2**{bits} pairs of classes (or groups) do not fit into 63 bits"
        raise OverflowError(msg)


def table_type(layout: KeyLayout) -> Any:
    """Return the narrowest type of integers that holds the indices; it follows from the ranges alone."""
    low, high = min(layout.low), max(a + n for a, n in zip(layout.low, layout.extent, strict=True))
    return next(
        t for t in (np.int8, np.int16, np.int32, np.int64) if np.iinfo(t).min <= low and high <= np.iinfo(t).max
    )


def union(one: Ranges, other: Ranges) -> Ranges:
    """Return the smallest ranges ``(low, extent)`` that hold two; extent 0 on every axis: there is no cell."""
    if not any(one[1]):
        return other
    if not any(other[1]):
        return one
    low = tuple(map(min, one[0], other[0]))
    ends = [[a + n for a, n in zip(*ranges, strict=True)] for ranges in (one, other)]
    return low, tuple(max(a, b) - c for a, b, c in zip(*ends, low, strict=True))


def joined(one: KeyLayout, other: KeyLayout, bits: int) -> KeyLayout:
    """Return the layout of two sets of cells together, its `table` empty if cells must be ranked."""
    if not any(one.extent):
        return other
    if not any(other.extent):
        return one
    low, extent = union(one.ranges, other.ranges)
    return KeyLayout(low, extent, None if fits(extent, bits) else np.empty((0, len(low)), np.int64))


def widen(layout: KeyLayout, ranges: Ranges | None, bits: int) -> KeyLayout:
    """Return a layout in mixed radix that also holds the cells of `ranges`, where such keys fit."""
    wider = layout if ranges is None else joined(layout, KeyLayout.of(ranges, None), bits)
    return wider if wider.table is None else layout


def rank_rows(columns: Iterable[Any], extents: Iterable[int], rank: Callable[[Any], tuple[Any, Any]]) -> Any:
    """Return the rank of every index row in lexicographic order, and where one of each distinct row stands.

    ``rank(values)`` does so for single integers. Axes (or groups of them) are folded into one number while it fits;
    when the next would not, it is replaced by ranks, and if that is not enough the number as well. Ranks keep order and
    identity, so this is exact.
    """
    key, size = None, 1
    for column, extent in zip(columns, extents, strict=True):
        index, n = column, extent
        if size * n >= 2**63:
            index, some = rank(column)
            n = len(some)
        if key is not None and size * n >= 2**63:
            key, some = rank(key)
            size = len(some)
        key = index if key is None else key * n + index
        size *= n
    return rank(key)
