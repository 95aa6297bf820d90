"""Rows of a batch where they lie: every element of it as many rows behind the one before, which a slice leaves so."""

import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from cmfast.kernels.cpu._core import batches
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH

NO_DRAWS, NO_LABELS = np.empty(0), np.empty(0, np.int64)  # in place of a number for every row
NO_DRAWS.setflags(write=False)
NO_LABELS.setflags(write=False)


class ProbabilityRows(NamedTuple):
    """Rows of probabilities where they are stored, and what belongs to each of them."""

    P: Any  # float32 or float64, shape (k, C)
    labels: Any  # int64, shape (k,): the labels that are scored; (0,): none is given
    draws: Any  # float64, shape (k,): share of its own probability that a label counts; (0,): all of it
    groups: Any  # int64, shape (k,): whose thresholds hold; (0,): there is one group
    n: Any  # rows of an element of the batch
    step: Any  # rows from the first one of an element to that of the next


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


def adopt_rows(P, *, labels=None, draws=None, groups=None):
    """Return the parts of :class:`ProbabilityRows` of a batch; nothing is copied where all arrays have one layout.

    They are a plain tuple, because Numba looks up the class of a named one at every call of a kernel, in 1 us.
    """
    n, given = P.shape[-2], [(batches.as_floating(P), 1)]
    for x, dtype in ((labels, np.int64), (draws, np.float64), (groups, np.int64)):
        if x is not None:
            given.append((x.astype(dtype, copy=False), 0))
    steps = {None} if P.flags.c_contiguous else {_step(x, core) for x, core in given}
    step = steps.pop() if len(steps) == 1 else None
    turn = iter([_flat(x, core, n, step) for x, core in given])
    flat, absent = next(turn), ((labels, NO_LABELS), (draws, NO_DRAWS), (groups, NO_LABELS))
    return flat, *[empty if x is None else next(turn) for x, empty in absent], n, n if step is None else step


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
