"""Rows of a batch where they lie: every element of it as many rows behind the one before, which a slice leaves so."""

import math
from itertools import pairwise

import numpy as np
from numpy.lib.stride_tricks import as_strided

from cmfast.kernels.cpu._core import batches
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH

NONE = np.empty(0)  # in place of the number of every row
NONE.setflags(write=False)


def int64(x):
    """Return `x` as int64, without a copy where it is that."""
    return x.astype(np.int64, copy=False)


def float64(x):
    """Return `x` as float64, without a copy where it is that."""
    return x.astype(np.float64, copy=False)


def _step(x, core):
    """Return how many rows lie from one element of the batch to the next; None where that is no number of rows."""
    cut = x.ndim - core
    (*batch, n), size = x.shape[:cut], x.itemsize * math.prod(x.shape[cut:])
    if not x.size or not x.flags.aligned or (core and x.shape[-1] > 1 and x.strides[-1] != x.itemsize):
        return None
    outer = [(k, step) for k, step in zip(batch, x.strides, strict=False) if k > 1]
    if n > 1 and x.strides[cut - 1] != size:
        return None
    if any(step != k * following for (_, step), (k, following) in pairwise(outer)):
        return None
    step, rest = divmod(outer[-1][1], size) if outer else (n, 0)
    return step if step >= n and not rest else None


def rows(P, *others):
    """Return probabilities and what has a number for each row as kernels take them, the shape of rows, and their step.

    Nothing is copied where all of them lie in the same way.
    """
    shape, given = P.shape[:-1], [(batches.as_floating(P), 1), *((x, 0) for x in others if x is not None)]
    steps = {None} if P.flags.c_contiguous else {_step(x, core) for x, core in given}
    step = steps.pop() if len(steps) == 1 else None
    flats = [_flat(x, core, shape[-1], step) for x, core in given]
    turn = iter(flats[1:])
    return flats[0], *(None if x is None else next(turn) for x in others), shape, shape[-1] if step is None else step


def _flat(x, core, n, step):
    cut, inner = x.ndim - core, x.shape[x.ndim - core :]
    size = math.prod(x.shape[: cut - 1])
    if step is None:
        flat = np.ascontiguousarray(x).reshape(size * n, *inner)
        flat.setflags(write=False)
        return flat
    width = x.itemsize * math.prod(inner)
    return as_strided(x, ((size - 1) * step + n, *inner), (width, *[x.itemsize] * core), writeable=False)


@jit(inner=True, inline=True, borrows=True)
def place(r, n, step):
    """Return where row `r` lies, of `n` to an element of the batch."""
    return r // n * step + r % n


@jit(inner=True, inline=True, borrows=True)
def places(first, count, n, step, out):
    """Write where eight rows from `first` on lie; the last of them again where there are fewer."""
    at, left = place(first, n, step), n - first % n
    for w in range(WIDTH):
        out[w] = at
        if w + 1 < count:
            at += 1
            left -= 1
            if left == 0:
                at, left = at + step - n, n
