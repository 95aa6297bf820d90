"""Geometric confusion matrices from runs of (cell, label, prediction)."""

from typing import Any

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu.geometry import _cells
from cmfast.kernels.shared import geometry_weights
from cmfast.kernels.shared.geometry_keys import bits_of
from cmfast.kernels.status import INVALID, OK

SECONDS_PER_WEIGHT = 2e-8


def gcm(keys, counts, M, *tables, num_threads=None):
    """Geometric confusion matrices for W tables of weights (C, C), and what bounds them.

    Returns ``(matrix, normalized, upper, error, status)``: (W, C, C) three times, (W,) twice. The matrices are in units
    of the cell volume; ``normalized <= matrix <= upper`` holds exactly, because it does in the integers.
    """
    n_weights, n_classes = len(tables), M.shape[0]
    half = bits_of(n_classes)
    each = [(w, w + 1) for w in range(n_weights)]
    options = {"seconds": n_weights * n_classes**2 * SECONDS_PER_WEIGHT, "num_threads": num_threads}
    fixed: list[Any] = [None] * n_weights

    def quantise(w, *_):
        fixed[w] = geometry_weights.quantise(np.asarray(tables[w], np.float64), M)

    pool.run_pieces(quantise, each, **options)
    status = np.array([INVALID if t is None else OK for t in fixed], np.int8)
    error = np.array([np.nan if t is None else t.error for t in fixed])
    G: list[Any] = [None] * n_weights
    narrow = [w for w in range(n_weights) if fixed[w] is not None and not fixed[w].width]
    # One pass for all, unless their matrices would need more memory than the points have.
    step = len(narrow) if 16 * n_classes**2 * len(narrow) <= max(16 * int(counts.sum()), 1 << 24) else 1
    for start in range(0, len(narrow), max(step, 1)):
        some = narrow[start : start + step]
        Q = np.ascontiguousarray(np.stack([fixed[w].q for w in some], axis=2))
        found = _cells.overlaps(keys, counts, half, Q, M, num_threads)
        for k, w in enumerate(some):
            G[w] = found[:, :, k]
    for w in range(n_weights):
        if fixed[w] is not None and fixed[w].width:
            G[w] = _cells.wide_overlaps(keys, counts, half, fixed[w].q, fixed[w].width, num_threads)
    out = [np.full((n_weights, *M.shape), np.nan) for _ in range(3)]

    def bound(w, *_):
        if fixed[w] is not None:
            _bound(G[w], M, fixed[w], [x[w] for x in out])

    pool.run_pieces(bound, each, **options)
    return (*out, error, status)


def _bound(G, M, fixed, out):
    """Write the matrix, the normalised counts and the upper bound of one table of weights."""
    for to, x in zip(out, geometry_weights.bounds(G, M, fixed), strict=True):
        to[...] = x


def cell_excess(keys, counts, share, W, slopes, *, num_threads=None):
    """Sum what cells have above their own weighted counts, ``min(L_i, P_j) - w_ij n_ij``, for tables `W` (W, C, C).

    Returns ``(E, scores)``: summed over cells with weights `share` (D,), (W, C, C); and summed over classes with
    weights `slopes` (W, C, C) for every cell, (D, W). The cell keys are ``0, ..., D - 1``.
    """
    W, slopes = (np.ascontiguousarray(np.moveaxis(x, 0, 2), np.float64) for x in (W, slopes))
    E, scores = _cells.excess(keys, counts, bits_of(W.shape[0]), W, slopes, share, num_threads)
    return np.ascontiguousarray(np.moveaxis(E, 2, 0)), scores
