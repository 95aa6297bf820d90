"""Cells of a contact map validated, sorted and counted by NumPy: for small maps, and for maps on a device."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.shared.symmetric_packing import MOST_ASYMMETRY


class SortedContactMap(NamedTuple):
    """Positive cells on and above the diagonal, sorted by row and column; ``to_passes(i, j, a, n)`` packs them."""

    rows: Any
    columns: Any
    values: Any
    to_passes: Callable[[Any, Any, Any, int], Any]

    def where(self, keep: Any) -> "SortedContactMap":
        """Return the cells selected by the mask `keep`."""
        if keep.all():
            return self
        return SortedContactMap(self.rows[keep], self.columns[keep], self.values[keep], self.to_passes)

    def sum_by_bin(self, place: Any, weigh: bool = False) -> Any:
        """Return for each bin with a position the number, or the sum if `weigh`, of its cells with such bins."""
        left, n = self.where((place[self.rows] >= 0) & (place[self.columns] >= 0)), len(place)
        values = left.values if weigh else np.ones(len(left.rows))
        off = left.rows < left.columns
        return np.bincount(left.rows, values, n) + np.bincount(left.columns[off], values[off], n)

    def _block(self, low: int, high: int, place: Any, base: int) -> tuple[Any, Any, Any]:
        """Return the positions and values of the cells of a block."""
        part = slice(*np.searchsorted(self.rows, (low, high)))
        i, j = (place[bins[part]].astype(np.int64) for bins in self[:2])
        on = (i >= 0) & (j >= 0)
        return i[on] - base, j[on] - base, self.values[part][on]

    def passes(self, low: int, high: int, place: Any, base: int, n: int) -> Any:
        """Return the passes over the cells of a block."""
        return self.to_passes(*self._block(low, high, place, base), n)

    def list_bins(self, low: int, high: int, place: Any, base: int) -> tuple[Any, Any]:
        """Return the bins of the cells of a block, as positions in it."""
        return self._block(low, high, place, base)[:2]


def read_contact_map(
    rows: Any, columns: Any, values: Any, *, n: int, upper: bool, cuts: Any, nearest: int, to_passes: Any
) -> SortedContactMap | None:
    """Return the contact map of the cells; None if one is invalid or the two triangles differ."""
    found = _sort_pixels(rows, columns, values, n, upper)
    if found is None:
        return None
    pixels, block = SortedContactMap(*found, to_passes), np.searchsorted(cuts, np.arange(n), side="right")
    if len(cuts) > 2:
        pixels = pixels.where(block[pixels.rows] == block[pixels.columns])
    return pixels.where(pixels.columns - pixels.rows >= nearest)


def _sort_pixels(rows: Any, columns: Any, values: Any, n: int, upper: bool) -> tuple[Any, Any, Any] | None:
    """Return the upper triangle, sorted and without duplicates; None if a cell is invalid or the triangles differ."""
    i, j = rows.astype(np.int64, copy=False), columns.astype(np.int64, copy=False)
    a = values.astype(np.float64, copy=False)
    if not ((a >= 0.0) & (a < np.inf)).all() or any(((k < 0) | (k >= n)).any() for k in (i, j)):
        return None
    if upper and (i > j).any():
        return None
    i, j, a = _sum_duplicates(i, j, a)
    if not upper:
        below, above = i > j, i <= j
        other = _sum_duplicates(j[below], i[below], a[below])
        i, j, a = i[above], j[above], a[above]
        off = i < j
        pairs = tuple(zip((i[off], j[off], a[off]), other, strict=True))
        if len(other[0]) != off.sum() or any((one != two).any() for one, two in pairs[:2]):
            return None
        if not np.allclose(*pairs[2], rtol=MOST_ASYMMETRY, atol=0.0):
            return None
    return i, j, a


def _sum_duplicates(i: Any, j: Any, a: Any) -> tuple[Any, Any, Any]:
    """Sort cells by row and column, sum duplicates, and leave out zeros."""
    if a.size and not a.all():
        i, j, a = i[a > 0.0], j[a > 0.0], a[a > 0.0]
    if len(i) < 2 or (((i[1:] == i[:-1]) & (j[1:] > j[:-1])) | (i[1:] > i[:-1])).all():
        return i, j, a
    order = np.lexsort((j, i))
    i, j, a = i[order], j[order], a[order]
    starts = np.flatnonzero(np.concatenate([[True], (i[1:] != i[:-1]) | (j[1:] != j[:-1])]))
    return i[starts], j[starts], np.add.reduceat(a, starts)
