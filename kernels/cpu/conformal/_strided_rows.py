"""View the rows of a batch without copying: strided batches whose elements are a constant number of rows apart."""

import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from cmfast.kernels.cpu._core import batches
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH

NO_DRAWS, NO_LABELS = np.empty(0), np.empty(0, np.int64)  # stand for absent per-row arrays
NO_DRAWS.setflags(write=False)
NO_LABELS.setflags(write=False)


class ProbabilityRows(NamedTuple):
    """Probability rows in their storage, with label, draw and group of each."""

    P: Any  # float32 or float64, shape (k, C)
    labels: Any  # int64, shape (k,): labels to score; (0,): none
    draws: Any  # float64, shape (k,): fraction of a label's own probability that counts; (0,): all of it
    groups: Any  # int64, shape (k,): group whose thresholds apply; (0,): one group
    n: Any  # rows of a batch element
    step: Any  # stride between batch elements, in rows


def _find_row_stride(x, core):
    """Return the stride between batch elements in rows; None if the layout has none."""
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
    """Return the fields of :class:`ProbabilityRows` of a batch, without copying probabilities that have a row stride.

    A plain tuple, because Numba looks up the class of a named one at every kernel call, which takes 1 us.
    """
    n, P = P.shape[-2], batches.as_floating(P)
    step = None if P.flags.c_contiguous else _find_row_stride(P, 1)
    flat = [
        empty if x is None else _flatten_rows(x.astype(empty.dtype, copy=False), 0, n, step)
        for x, empty in ((labels, NO_LABELS), (draws, NO_DRAWS), (groups, NO_LABELS))
    ]
    return _flatten_rows(P, 1, n, step), *flat, n, n if step is None else step


def _flatten_rows(x, core, n, step):
    """Return an array as (rows, ...), read-only: contiguous if `step` is None, else with that row stride.

    Copied only if it does not lie so: a copy with a stride leaves the rows between two batch elements unwritten.
    """
    cut, inner = x.ndim - core, x.shape[x.ndim - core :]
    size, width = math.prod(x.shape[: cut - 1]), x.itemsize * math.prod(inner)
    if step is None:
        flat = np.ascontiguousarray(x).reshape(size * n, *inner)
        flat.setflags(write=False)
        return flat
    if _find_row_stride(x, core) != step:
        storage = np.empty(size * step, x.dtype)
        storage.reshape(size, step)[:, :n] = x.reshape(size, n)
        x = storage
    return as_strided(x, ((size - 1) * step + n, *inner), (width, *[x.itemsize] * core), writeable=False)


@jit(inner=True, inline=True, borrows=True)
def locate_row(r, n, step):
    """Return the storage index of row `r`, with `n` rows per batch element and a stride of `step` rows."""
    return r // n * step + r % n


@jit(inner=True, inline=True, borrows=True)
def locate_eight_rows(first, count, n, step, out):
    """Write the storage indices of eight rows from `first` on; after `count` rows the last is repeated."""
    at, left = locate_row(first, n, step), n - first % n
    for w in range(WIDTH):
        out[w] = at
        if w + 1 < count:
            at += 1
            left -= 1
            if left == 0:
                at, left = at + step - n, n
