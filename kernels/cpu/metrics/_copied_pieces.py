"""Flatten matrices, or copy views of many of them in pieces: each to the same memory, which stays in the caches."""

import math
from typing import Any

import numpy as np

from cmfast.kernels.cpu._core import batches
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, load, load_block, new_lines, prefetch, store_row
from cmfast.kernels.shared.metrics import as_counts_or_floats

LEAST_COPIED_BYTES = 2**18  # of views that are copied in pieces; less fits into a level-2 cache as a whole
PREFETCHED_ROWS = 8  # how far ahead of its use a row is prefetched
COPIED_BYTES = 2**17  # copied at a time
# Where the cells of a matrix are far apart, each in a page of its own, as many are copied at a time as this.
MOST_TOGETHER, MOST_COPIED_BYTES = 64, 2**23
MOST_COPIED_CLASSES = 1000  # eight matrices of more fill a level-3 cache


def flatten_matrices(M):
    """Return `M` as (n, C * C) in a type that kernels are compiled for: int64, int32, float64 or float32."""
    char = M.dtype.char
    if char in "lifd" and M.ndim == 2:
        flags = M.flags
        if flags.c_contiguous and not flags.writeable:
            return M.reshape(1, M.size)  # fast path
    if char not in "lifd":
        M = as_counts_or_floats(M)
    n, cells = math.prod(M.shape[:-2]), M.shape[-1] ** 2
    if M.flags.c_contiguous and not M.flags.writeable:
        return M.reshape(n, cells)
    return batches.flat_batch(M, 2).reshape(n, cells)


def view_matrices(M):
    """Return `M` as :func:`flatten_matrices` does, or as a view (n, C, C) that is to be copied in pieces.

    Memory that is written for the first time takes longer than the copy: views that are not contiguous, and integers
    that need a conversion, are copied to the same memory again and again.
    """
    is_usable, is_contiguous = M.dtype.char in "lifdLQ", M.flags.c_contiguous
    few = M.nbytes < LEAST_COPIED_BYTES or M.shape[-1] > MOST_COPIED_CLASSES
    if few or (is_usable and is_contiguous) or not (M.ndim == 3 or is_contiguous):
        return flatten_matrices(M)
    M = M.view("i8") if M.dtype.char in "LQ" else M
    return M.reshape(-1, *M.shape[-2:])


def sum_in_pieces(make, M, size):
    """Return ``fill(sums, scratch, start, stop)``, which copies matrices of a view, some at a time, and sums them.

    ``make(cells)`` returns such a function of flat matrices, whose tiles have `size` lines.
    """
    C = M.shape[-1]
    idle: list[Any] = []  # memory that no thread uses
    step = COPIED_BYTES // (8 * C * C)
    if M.strides[0] == M.itemsize:
        step = max(step, min(MOST_TOGETHER, MOST_COPIED_BYTES // (8 * C * C)))
    step = min(max(WIDTH, step // WIDTH * WIDTH), len(M))

    def allocate():
        """Return memory for copies, as matrices and as a workspace, and the function that sums the first."""
        copy = np.empty((step, C, C), as_counts_or_floats(M[:0]).dtype)
        spare = np.empty_like(copy) if M.flags.f_contiguous else copy
        return copy, spare, make(batches.freeze(copy.reshape(step, C * C)))

    def fill(sums, scratch, start, stop):
        """Copy and sum matrices `start` to `stop`; return whether a total is unusual."""
        memory, unusual = idle.pop() if idle else allocate(), False
        copy, spare, sum_cells = memory
        for first in range(start, stop, step):
            count, tile = min(step, stop - first), (first - start) // WIDTH
            _copy_matrices(M, first, copy[:count], spare)
            part = sums[tile * size : (tile + -(-count // WIDTH)) * size]
            unusual = sum_cells(part, scratch, 0, count) or unusual
        idle.append(memory)
        return unusual

    return fill


def _copy_matrices(M, first, out, spare):
    """Copy matrices of a view from `first` on; transposed ones in blocks, which NumPy does not.

    `spare` has as much memory as `out` for arrays in Fortran order.
    """
    (n, C, _), count = M.shape, len(out)
    if M.itemsize == 8 and C >= WIDTH:
        numbers, copied = M.view("f8"), out.view("f8")  # bits alone are moved
        if numbers.transpose(0, 2, 1).flags.c_contiguous:
            given = batches.freeze(numbers.transpose(0, 2, 1).reshape(n * C, C))
            _transpose_matrices(given, (first, count), C, copied.reshape(count * C, C))
            return
        if count >= WIDTH and numbers.transpose(1, 2, 0).flags.c_contiguous:
            given = batches.freeze(numbers.transpose(1, 2, 0).reshape(C * C, n))
            _transpose_block(given, (0, C * C), (first, count), copied.reshape(count, C * C), 0)
            return
        if count >= WIDTH and numbers.flags.f_contiguous:
            given, turned = batches.freeze(numbers.T.reshape(C * C, n)), spare[:count].view("f8").reshape(count, C * C)
            _transpose_block(given, (0, C * C), (first, count), turned, 0)
            tables = batches.freeze(turned.reshape(count * C, C))
            _transpose_matrices(tables, (0, count), C, copied.reshape(count * C, C))
            return
    np.copyto(out, M[first : first + count])


@jit()
def _transpose_matrices(given, part, C, out):
    """Transpose some of the matrices that follow each other in `given`; `part` is the first and the number."""
    first, count = part
    for b in range(count):
        _transpose_block(given, ((first + b) * C, C), (0, C), out, b * C)


@jit()
def _transpose_block(given, rows, columns, out, start):
    """Transpose a block of at least eight rows and columns, given as first and number; write from row `start` on."""
    (top, height), (left, width), lines = rows, columns, new_lines(WIDTH)
    for i in range(0, height, WIDTH):
        row = min(i, height - WIDTH)  # the last block overlaps the one before
        r = top + row
        at = (r, r + 1, r + 2, r + 3, r + 4, r + 5, r + 6, r + 7)
        for j in range(0, width, WIDTH):
            column = min(j, width - WIDTH)
            load_block(lines, 0, given, at, left + column)
            for w in range(WIDTH):
                prefetch(given, r + PREFETCHED_ROWS + w, left + column)
                store_row(out, start + column + w, row, load(lines, w))
