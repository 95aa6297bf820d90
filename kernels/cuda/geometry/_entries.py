"""Histograms as entries, sorted by cell and then by tag (label, prediction, group), and their overlaps."""

from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cuda._core import batches
from cmfast.kernels.cuda._core.module import SHARED, Kernel, library
from cmfast.kernels.cuda.geometry import _runs

MOST_PAIRS = 1 << 10  # of one cell that a warp works through; more are for a block

_OVERLAPS = Kernel("geometry/counts", "cmfast_gcm_overlaps", (("32", "0"), ("32", "1"), ("256", "0"), ("256", "1")))
_WIDE = Kernel("geometry/counts", "cmfast_gcm_wide", (("32",),), 80)
_PAIRS = Kernel("geometry/counts", "cmfast_min_overlap_pairs")
KERNELS = (_OVERLAPS, _WIDE, _PAIRS)


class Entries(NamedTuple):
    """Which entries a histogram has; their heights are arrays of their own.

    Attributes
    ----------
    order : array or None
        The runs that entries are made of, in their order; None: as they are.
    runs : array
        Where the runs of each entry begin in that order.
    keys : array
        ``cell << bits | tag`` of each entry.
    tags : array
        Tag of each entry.
    first : array
        First entry of each cell, and how many entries there are.
    cells : array
        Keys of the cells.
    """

    order: Any
    runs: Any
    keys: Any
    tags: Any
    first: Any
    cells: Any

    def heights(self, values: Any) -> Any:
        """Return the sums of integers, one per run, modulo 2**64."""
        return _runs.sums(values if self.order is None else values[self.order], self.runs)

    @property
    def sizes(self) -> Any:
        """Number of entries of every cell."""
        return self.first[1:] - self.first[:-1]


def entries(keys: Any, bits: int, order: Any = None) -> Entries:
    """Return the entries of runs with `keys`, ``cell << bits | tag``, sorted or in `order`. Synchronises.

    The keys need not be distinct.
    """
    keys = keys if order is None else keys[order]
    runs, keys = _runs.starts_and_keys(keys)
    xp = library(keys)
    first, cells = _runs.starts_and_keys(keys >> bits)
    end = xp.zeros(1, np.int64) + len(keys)
    return Entries(order, runs, keys, keys & ((1 << bits) - 1), xp.concatenate([first, end]), cells)


class Sides(NamedTuple):
    """Both histograms of runs of (cell, label, prediction), and which run begins a cell, which cell each run is in."""

    labels: Entries
    predictions: Entries
    first: Any
    cell: Any

    @property
    def mixed(self) -> Any:
        """Which cells have two labels and two predictions."""
        return (self.labels.sizes > 1) & (self.predictions.sizes > 1)


def sides(keys: Any, half: int) -> Sides:
    """Return the sides of runs with `keys`, ``(cell << half | label) << half | prediction``. Synchronises."""
    cells, prediction = keys >> (2 * half), keys & ((1 << half) - 1)
    first = _runs.starts(cells)
    number = _runs.numbers(first, len(keys))
    # Sorted by the number of the cell, which takes fewer bits than its key.
    order = _runs.order(number << half | prediction, len(first) << half)
    return Sides(entries(keys >> half, half), entries(cells << half | prediction, half, order), first, number)


class CommonEntries(NamedTuple):
    """Cells that two histograms have, as positions in each."""

    one: Any
    other: Any

    def some(self, where: Any) -> "CommonEntries":
        """Return those at the given places."""
        return CommonEntries(self.one[where], self.other[where])


def common(one: Entries, other: Entries) -> CommonEntries:
    """Return the cells that both have. Synchronises."""
    xp = library(one.cells)
    if not (len(one.cells) and len(other.cells)):
        return CommonEntries(xp.zeros(0, np.int64), xp.zeros(0, np.int64))
    place = xp.searchsorted(other.cells, one.cells)
    place = xp.where(place < len(other.cells), place, 0)
    here = xp.flatnonzero(other.cells[place] == one.cells)
    return CommonEntries(here, place[here])


def by_work(one: Entries, other: Entries, cells: CommonEntries) -> list[tuple[str, CommonEntries]]:
    """Return cells for a warp and cells for a block, with the number of threads of each. Synchronises."""
    few = one.sizes[cells.one] * other.sizes[cells.other] <= MOST_PAIRS
    flatnonzero = library(few).flatnonzero
    return [("32", cells.some(flatnonzero(few))), ("256", cells.some(flatnonzero(few == 0)))]


def overlaps(
    one: Entries, L: Any, other: Entries, P: Any, cells: list[tuple[str, CommonEntries]], shape: tuple[int, int]
) -> Any:
    """Return sums over `cells` of the smaller of two integer heights, per pair of tags, modulo 2**64."""
    out = library(L).zeros(shape, np.uint64)
    size = 8 * shape[0] * shape[1]
    held = str(int(size <= SHARED))
    for width, some in cells:
        n = len(some.one)
        if n:
            blocks = -(-batches.blocks(n, width) // (8 if held == "1" else 1))
            _OVERLAPS.launch(
                (width, held), blocks, shared=size if held == "1" else 0,
                l_cells=some.one, l_first=one.first, l_tags=one.tags, L=L,
                p_cells=some.other, p_first=other.first, p_tags=other.tags, P=P,
                n=n, rows=shape[0], columns=shape[1], out=out,
            )  # fmt: skip
    return out.view(np.int64)


def wide_overlaps(one: Entries, L: Any, other: Entries, P: Any, n_classes: int) -> Any:
    """Return the same over all cells, which both have, for heights in limbs (K, entries): (K, C, C)."""
    xp, n = library(L), len(one.cells)
    out = xp.zeros((len(L), n_classes, n_classes), np.uint64)
    if n:
        _WIDE.launch(
            ("32",), batches.blocks(n, "32"),
            l_first=one.first, l_tags=one.tags, L=L, l_size=L.shape[1],
            p_first=other.first, p_tags=other.tags, P=P, p_size=P.shape[1],
            n=n, limbs=len(L), n_classes=n_classes, out=out,
        )  # fmt: skip
    return out.view(np.int64)


def pairs(one: Entries, A: Any, other: Entries, B: Any, cells: CommonEntries, columns: int) -> tuple[Any, Any, Any]:
    """Return ``(pair, height, cell)`` of all pairs of entries in the same cell. Synchronises.

    That is the tag of one times `columns` plus the tag of the other, the smaller height, and the place in `cells`.
    """
    xp, n = library(A), len(cells.one)
    ends = xp.cumsum(one.sizes[cells.one] * other.sizes[cells.other], dtype=np.int64)
    total = int(ends[-1]) if n else 0
    pair, height = xp.empty(total, np.int64), xp.empty(total, np.float64)
    offset = xp.concatenate([xp.zeros(1, np.int64), ends])[:-1]
    if n:
        _PAIRS.launch(
            (), batches.blocks(n, "32"),
            a_cells=cells.one, a_first=one.first, a_groups=one.tags, A=A,
            b_cells=cells.other, b_first=other.first, b_groups=other.tags, B=B,
            offset=offset, n=n, columns=columns, out_pair=pair, out=height,
        )  # fmt: skip
    return pair, height, _runs.numbers(offset, total)
