"""Histograms as entries sorted by cell and tag (label, prediction or group), and overlaps of two histograms."""

from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cuda._core import batches
from cmfast.kernels.cuda._core.module import SHARED, THREADS, Kernel, library, processors
from cmfast.kernels.cuda.geometry import _run_length

SMALL_CELL_KEYS = 32  # keys of a cell up to which each has a thread; with more a block takes the cell
KEY_TILES_PER_BLOCK = 8  # tiles of keys of a block whose sums are in shared memory
MOST_PAIRS = 1 << 10  # pairs of entries of a cell that a warp handles; with more a block does

_OVERLAPS = Kernel("geometry/counts", "cmfast_gcm_overlaps", (("32", "0"), ("32", "1"), ("256", "0"), ("256", "1")))
_SUMS = Kernel("geometry/counts", "cmfast_gcm_sums", tuple((words, held) for words in "12" for held in "012"))
_WIDE = Kernel("geometry/counts", "cmfast_gcm_wide", (("32",),), 80)
_PAIRS = Kernel("geometry/counts", "cmfast_min_overlap_pairs")
KERNELS = (_OVERLAPS, _SUMS, _WIDE, _PAIRS)


class Entries(NamedTuple):
    """Keys of the entries of a histogram; their heights are separate arrays.

    Attributes
    ----------
    order : array or None
        Order of the runs that the entries are summed from; None: unchanged.
    runs : array
        First run of each entry, in that order.
    keys : array
        ``cell << bits | tag`` of each entry.
    tags : array
        Tag of each entry.
    first : array
        First entry of each cell, then the number of entries.
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
        """Return the integer sums over the runs of each entry, modulo 2**64."""
        return _run_length.sum_segments(values if self.order is None else values[self.order], self.runs)

    @property
    def sizes(self) -> Any:
        """Return the number of entries of every cell."""
        return self.first[1:] - self.first[:-1]


def make_entries(keys: Any, bits: int, order: Any = None) -> Entries:
    """Return the entries of runs with `keys`, ``cell << bits   tag``, sorted or in `order`; synchronises.

    The keys need not be distinct.
    """
    keys = keys if order is None else keys[order]
    runs, keys = _run_length.find_starts_and_keys(keys)
    xp = library(keys)
    first, cells = _run_length.find_starts_and_keys(keys >> bits)
    end = xp.zeros(1, np.int64) + len(keys)
    return Entries(order, runs, keys, keys & ((1 << bits) - 1), xp.concatenate([first, end]), cells)


def make_side(keys: Any, half: int, axis: int) -> Entries:
    """Return the label (axis 0) or prediction histogram of runs with `keys`, ``cell, label, prediction``; synchronises.

    Runs are in the order of labels, so only that of predictions takes a sort.
    """
    if axis == 0:
        return make_entries(keys >> half, half)
    cells, prediction = keys >> (2 * half), keys & ((1 << half) - 1)
    first = _run_length.find_starts(cells)
    number = _run_length.number_runs(first, len(keys))
    # The cell's index takes fewer bits to sort than its key.
    order = _run_length.argsort(number << half | prediction, len(first) << half)
    return make_entries(cells << half | prediction, half, order)


def make_sides(keys: Any, half: int) -> tuple[Entries, Entries]:
    """Return the label and the prediction histogram of runs; synchronises."""
    return make_side(keys, half, 0), make_side(keys, half, 1)


class CommonEntries(NamedTuple):
    """Cells that two histograms share, as indices in each."""

    one: Any
    other: Any

    def some(self, where: Any) -> "CommonEntries":
        """Return the cells at the given indices."""
        return CommonEntries(self.one[where], self.other[where])


def find_common_cells(one: Entries, other: Entries) -> CommonEntries:
    """Return the cells that both histograms have; synchronises."""
    xp = library(one.cells)
    if not (len(one.cells) and len(other.cells)):
        return CommonEntries(xp.zeros(0, np.int64), xp.zeros(0, np.int64))
    position = xp.searchsorted(other.cells, one.cells)
    position = xp.where(position < len(other.cells), position, 0)
    here = xp.flatnonzero(other.cells[position] == one.cells)
    return CommonEntries(here, position[here])


def split_by_work(one: Entries, other: Entries, cells: CommonEntries) -> list[tuple[str, CommonEntries]]:
    """Split cells into those for a warp and those for a block, by their number of pairs; synchronises."""
    few = one.sizes[cells.one] * other.sizes[cells.other] <= MOST_PAIRS
    flatnonzero = library(few).flatnonzero
    return [("32", cells.some(flatnonzero(few))), ("256", cells.some(flatnonzero(few == 0)))]


def sum_minima(
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


def sum_cell_minima(keys: Any, counts: Any, q: Any, half: int) -> Any:
    """Return sums over cells of the smaller of the heights of a label and a prediction, per pair.

    Keys ``cell, label, prediction`` are sorted; a height is a sum of counts times fixed-point weights `q`. These and
    the sums are (C, C) modulo 2**64, or (C, C, 2) modulo 2**128, the lower word first.
    """
    xp, n, C, number = library(keys), len(keys), len(q), q.shape[2] if q.ndim == 3 else 1
    out = xp.zeros(q.shape, np.uint64)
    if n:
        each = 8 * number  # bytes of a height
        space = 2 * C + -(-12 * C // each)  # of a cell: two heights and three int32 per class, in heights
        tile = (8 + each) * THREADS + 4 * (THREADS // SMALL_CELL_KEYS + 4)
        sizes = tile, tile + each * space, tile + each * (space + C * C)
        held = max(k for k, size in enumerate(sizes) if size <= SHARED)
        tiles = -(-n // (THREADS - SMALL_CELL_KEYS))
        blocks = (
            -(-tiles // KEY_TILES_PER_BLOCK) if held == 2 else min(tiles, KEY_TILES_PER_BLOCK * processors(keys.device))
        )
        scratch = None if held else xp.zeros(blocks * space * number, np.uint64)
        _SUMS.launch(
            (str(number), str(held)), blocks, shared=sizes[held], keys=keys, counts=counts, n=n, half=half, n_classes=C,
            q=q, space=space, scratch=scratch, out=out,
        )  # fmt: skip
    return out.view(np.int64)


def sum_wide_minima(one: Entries, L: Any, other: Entries, P: Any, n_classes: int) -> Any:
    """Return sums of minima over all cells for multi-limb heights (K, entries), as limbs (K, C, C)."""
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


def list_pairs(
    one: Entries, A: Any, other: Entries, B: Any, cells: CommonEntries, columns: int
) -> tuple[Any, Any, Any]:
    """Return ``(pair, height, cell)`` of all pairs of entries in the same cell; synchronises.

    `pair` is the tag of one times `columns` plus the tag of the other, `height` the smaller height, `cell` the index in
    `cells`.
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
    return pair, height, _run_length.number_runs(offset, total)
