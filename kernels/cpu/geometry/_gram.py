"""Gram matrix of many centred rows: products of columns in tiles of registers, summed over short blocks of rows.

Like ``syrk`` of a BLAS for tall matrices. For 128 columns OpenBLAS took 1.6 times as long on one thread, and on several
its threads wait for each other where other programs run. Each sum of products runs over the rows in their order, with
one fused multiply-add per row, so that neither the width of vectors nor the size of tiles changes a bit.
"""

from itertools import pairwise

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.panels import multiply_panels, subtract_row
from cmfast.kernels.cpu._core.vector import WIDTH, absolute, largest, load, load_row, maximum, splat, store

PACKED_ROWS = 256  # rows whose products are summed in their own type before they are added in float64
FEWEST_PANELS = 4  # on average in a range: each range packs the rows again
COLUMN_SUM_ROWS = 64  # rows whose columns are summed panel by panel while they are in the level-1 cache


@jit(inner=True, inline=True, borrows=True)
def _pack_centred(block, first, near, packed):
    """Write the rows of a block from `first` on, minus `near`, to panels; return their number."""
    rows, n = min(len(block) - first, PACKED_ROWS), block.shape[1]
    for k in range(rows):
        if n >= packed.shape[2]:
            subtract_row(block, first + k, near, packed, k)
        else:
            for j in range(n):
                packed[0, k, j] = block[first + k, j] - near[j]
    return rows


@jit(borrows=True)
def add_products(block, near, packed, start, out):
    """Add the products of the columns of a block, minus `near`, summed over rows, to the upper triangle of `out`.

    The right factors are the columns of the panels from `start` on, the left ones all before them and themselves;
    `find_places` says where columns are in `out`.
    """
    for first in range(0, len(block), PACKED_ROWS):
        rows = _pack_centred(block, first, near, packed)
        for q in range(start, len(packed)):
            for p in range(q + 1):
                multiply_panels(packed, p, q, rows, out)


@jit(borrows=True)
def sum_columns(block, sums):
    """Add the rows of a block to lines of eight `sums`, one row after the other; return the largest magnitude.

    `find_places` says where columns are in `sums`.
    """
    n, most = block.shape[1], 0.0
    if n < WIDTH:
        for r in range(len(block)):
            for j in range(n):
                x = np.float64(block[r, j])
                sums[0, j] += x
                most = max(most, abs(x))
        return most
    peak = splat(0.0)
    for first in range(0, len(block), COLUMN_SUM_ROWS):
        for k in range(0, len(sums), 2):
            following = min(k + 1, len(sums) - 1)
            p, q = min(k * WIDTH, n - WIDTH), min(following * WIDTH, n - WIDTH)
            a, b = load(sums, k), load(sums, following)
            for r in range(first, min(first + COLUMN_SUM_ROWS, len(block))):
                x, y = load_row(block, r, p), load_row(block, r, q)
                a, b = a + x, b + y
                peak = maximum(peak, maximum(absolute(x), absolute(y)))
            store(sums, k, a)
            store(sums, following, b)
    return largest(peak)


def find_places(n, width):
    """Return where each of `n` columns is in panels of `width`; the last panel has the last columns."""
    places = np.arange(n)
    if n > width:
        places[(n - 1) // width * width :] += -n % width
    return places


def cut_panels(panels, count):
    """Cut panels into `count` ranges or fewer, (first, end), with about as many products of columns up to theirs."""
    count = max(1, min(count, panels // FEWEST_PANELS))
    cuts = [round(panels * (k / count) ** 0.5) for k in range(count + 1)]
    return list(pairwise(cuts))
