"""Geometric confusion matrices from runs of (cell, label, prediction)."""

from typing import Any

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu.geometry import _cells
from cmfast.kernels.shared import geometry_weights
from cmfast.kernels.shared.geometry_keys import bits_of
from cmfast.kernels.status import INVALID, OK

SECONDS_PER_MATRIX_WEIGHT = 2e-8
MUCH_MEMORY = 1 << 26  # bytes: four tables for 1000 classes


def gcm(keys, counts, M, *tables, bounded=True, step=None, num_threads=None):
    """Return the geometric confusion matrices for W tables of weights (C, C), with bounds.

    For partitioned cells, with `M` the confusion matrix of all of them, there are two steps: ``"add"`` returns the
    integer sums of one partition, an array per table; ``"round"`` takes the added sums of all partitions after the
    tables and returns the final result, ignoring keys and counts.

    Returns ``(matrix, normalized, upper, error, status)``: (W, C, C) three times, (W,) twice. The matrices are in units
    of the cell volume; ``normalized <= matrix <= upper`` holds exactly, because it does in the integers. These two
    are None unless `bounded`: fresh memory for large matrices takes as long as computing them.
    """
    tables, sums = _split_sums(tables, step)
    n_weights, n_classes = len(tables), M.shape[0]
    half = bits_of(n_classes)
    own = _cells.pair_counts(keys, counts, half, n_classes, num_threads) if step == "add" else M
    each = [(w, w + 1) for w in range(n_weights)]
    options = {"seconds": n_weights * n_classes**2 * SECONDS_PER_MATRIX_WEIGHT, "num_threads": num_threads}
    fixed: list[Any] = [None] * n_weights
    # One pass for all tables, unless that needs much memory and more than the points do.
    together = 16 * n_classes**2 * n_weights <= max(16 * int(counts.sum()), MUCH_MEMORY)
    every = np.empty((*M.shape, n_weights), np.int64) if together else None

    def quantise(w, *_):
        """Convert table `w` to fixed point."""
        target = None if every is None else every[:, :, w]
        fixed[w] = geometry_weights.quantise(np.asarray(tables[w], np.float64), M, target)

    pool.run_pieces(quantise, each, **options)
    status = np.array([INVALID if t is None else OK for t in fixed], np.int8)
    error = np.array([np.nan if t is None else t.error for t in fixed])
    G: list[Any] = list(sums) or [None] * n_weights
    narrow = [w for w in range(n_weights) if fixed[w] is not None and not fixed[w].width and not sums]
    number = len(narrow) if together else 1
    for start in range(0, len(narrow), max(number, 1)):
        some = narrow[start : start + number]
        Q = every if every is not None and len(some) == n_weights else _stack_tables([fixed[w].q for w in some])
        found = _cells.compute_overlaps(keys, counts, half, Q, own, num_threads)
        for k, w in enumerate(some):
            G[w] = found[:, :, k]
    for w in range(n_weights):
        if fixed[w] is not None and fixed[w].width and not sums:
            G[w] = _cells.compute_wide_overlaps(keys, counts, half, fixed[w].q, fixed[w].width, num_threads)
    if step == "add":
        return tuple(np.zeros(M.shape, np.int64) if x is None else np.ascontiguousarray(x) for x in G)
    out = [np.empty((n_weights, *M.shape)) for _ in range(3 if bounded else 1)]

    def bound(w, *_):
        """Write matrix and bounds of table `w`."""
        if fixed[w] is not None:
            geometry_weights.write_bounds(G[w], M, fixed[w], [x[w] for x in out])
        else:
            for x in out:
                x[w] = np.nan

    pool.run_pieces(bound, each, **options)
    return (*out, *[None] * (3 - len(out)), error, status)


def _split_sums(tables, step):
    """Split the arguments into tables and, in the step ``"round"``, the integer sums that follow them."""
    number = len(tables) // 2 if step == "round" else len(tables)
    return tables[:number], tables[number:]


def _stack_tables(tables):
    """Return tables (C, C) stacked as one array (C, C, W), without a copy if there is one table."""
    return np.ascontiguousarray(tables[0][:, :, None] if len(tables) == 1 else np.stack(tables, axis=2))


def cell_excess(keys, counts, share, W, slopes, *, num_threads=None):
    """Sum the excess of cells over their own weighted counts, ``min(L_i, P_j) - w_ij n_ij``, for W tables of weights.

    Returns ``(E, scores)``: summed over cells with weights `share` (D,), (W, C, C); and summed over classes with
    weights `slopes` (W, C, C) for every cell, (D, W). The cell keys are ``0, ..., D - 1``.
    """
    W, slopes = (np.ascontiguousarray(np.moveaxis(x, 0, 2), np.float64) for x in (W, slopes))
    E, scores = _cells.sum_excess(keys, counts, bits_of(W.shape[0]), W, slopes, share, num_threads)
    return np.ascontiguousarray(np.moveaxis(E, 2, 0)), scores
