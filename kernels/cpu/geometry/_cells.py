"""Walks over sorted runs of (cell, label, prediction), cell by cell.

A cell with one label or one prediction adds exactly its own weighted counts to the geometric confusion matrix: with one
label i, the prediction histogram at j is W[i, j] and the label histogram is the sum of them. Only a cell with two of
both is *mixed* and needs the minimum.
"""

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.geometry import _runs
from cmfast.kernels.shared import geometry_weights

SECONDS_PER_RUN = 1e-8
BEGIN = np.int64(0)  # a plain 0 is of a type of its own, for which what a walk calls would be compiled as well
SMALL_CELL = 1 << 12  # points; cells with fewer are counted by size in a table, larger ones listed


@jit(borrows=True)
def _pairs(keys, counts, half, out_M):
    mask = (1 << half) - 1
    for i in range(keys.shape[0]):
        out_M[(keys[i] >> half) & mask, keys[i] & mask] += counts[i]


@jit(inner=True, inline=True, borrows=True)
def _end_of_cell(keys, bits, i):
    limit = ((keys[i] >> bits) + 1) << bits
    j = i + 1
    while j < keys.shape[0] and keys[j] < limit:
        j += 1
    return j


@jit(inner=True, inline=True, borrows=True)
def _one_prediction(keys, mask, i, j):
    t = i + 1
    while t < j and keys[t] & mask == keys[i] & mask:
        t += 1
    return t == j


def _held(W):
    """Return what a kernel gathers a cell in for tables `W` (C, C, W), ``(places, sums)``.

    Places (3, C): of the predictions among those of the cell, -1 between two cells; its labels; its predictions. Sums
    of weights (2, C, W): per label, per prediction.
    """
    places = np.empty((3, W.shape[0]), np.int64)
    places[0] = -1
    return places, np.empty((2, *W.shape[1:]), W.dtype)


@jit(inner=True, inline=True, borrows=True)
def _gather_cell(keys, counts, half, W, i, j, held):
    """Sum the weights `W` (C, C, W) of the runs `i` to `j`, which are one cell, per label and per prediction.

    Return how many labels and predictions there are: the first of those in `held`, see `_held`.
    """
    places, sums = held
    mask = (1 << half) - 1
    a = b = 0
    label = -1
    for t in range(i, j):
        y, p = (keys[t] >> half) & mask, keys[t] & mask
        if y != label:
            label = y
            places[1, a] = y
            for w in range(W.shape[2]):
                sums[0, a, w] = 0
            a += 1
        s = places[0, p]
        if s < 0:
            s = b
            places[0, p] = b
            places[2, b] = p
            for w in range(W.shape[2]):
                sums[1, b, w] = 0
            b += 1
        for w in range(W.shape[2]):
            mass = W[y, p, w] * counts[t]
            sums[0, a - 1, w] += mass
            sums[1, s, w] += mass
    for s in range(b):
        places[0, places[2, s]] = -1
    return a, b


@jit(borrows=True)
def _overlaps(keys, counts, half, Q, held, out_E):
    """Add to `out_E` what mixed cells have above their own weighted counts: ``min(L_i, P_j) - q_ij n_ij``."""
    mask = (1 << half) - 1
    n_weights = Q.shape[2]
    places, sums = held
    i = BEGIN
    while i < keys.shape[0]:
        j = _end_of_cell(keys, 2 * half, i)
        first, last = (keys[i] >> half) & mask, (keys[j - 1] >> half) & mask
        if first == last or _one_prediction(keys, mask, i, j):
            i = j
            continue
        a, b = _gather_cell(keys, counts, half, Q, i, j, held)
        for u in range(a):
            y = places[1, u]  # indices, as an array of a row takes longer to compile than all of this
            for s in range(b):
                p = places[2, s]
                for w in range(n_weights):
                    own, other = sums[0, u, w], sums[1, s, w]
                    out_E[y, p, w] += own if own < other else other
        for t in range(i, j):
            y, p = (keys[t] >> half) & mask, keys[t] & mask
            for w in range(n_weights):
                out_E[y, p, w] -= Q[y, p, w] * counts[t]
        i = j


@jit(borrows=True)
def _carry(x, width):
    """Bring limbs below ``2**width``, but for the highest."""
    for k in range(x.shape[0] - 1):
        x[k + 1] += x[k] >> width
        x[k] &= (1 << width) - 1


@jit(borrows=True)
def _is_less(x, y):
    """Compare two numbers in limbs, from the highest."""
    for t in range(x.shape[0]):
        k = x.shape[0] - 1 - t
        if x[k] != y[k]:
            return x[k] < y[k]
    return False


@jit(borrows=True)
def _wide_overlaps(keys, counts, half, Q, width, held, out_G):
    """As `_overlaps`, for one table of weights in limbs (see ``geometry_weights``); every cell is treated as mixed."""
    n_limbs = Q.shape[2]
    places, sums = held
    labels, predictions, L, P = places[1], places[2], sums[0], sums[1]
    i = BEGIN
    while i < keys.shape[0]:
        j = _end_of_cell(keys, 2 * half, i)
        a, b = _gather_cell(keys, counts, half, Q, i, j, held)
        for u in range(a):
            _carry(L[u], width)
        for s in range(b):
            _carry(P[s], width)
        for u in range(a):
            for s in range(b):
                less = L[u] if _is_less(L[u], P[s]) else P[s]
                for k in range(n_limbs):
                    out_G[labels[u], predictions[s], k] += less[k]
        i = j


def _summed_over_cells(kernel, keys, bits, seconds, shapes, num_threads):
    """Run ``kernel(some, *accumulators)`` over slices of whole cells; return the sums."""
    sums = _runs.Accumulators(*shapes)

    def work(_, start, stop):
        mine = sums.take()
        kernel(slice(start, stop), *mine)
        sums.give_back(mine)

    bounds = _runs.cut(keys, bits, seconds)
    pool.run_pieces(work, bounds, seconds=seconds, num_threads=num_threads)
    return sums.totals()


def pair_counts(keys, counts, half, n_classes, num_threads=None):
    """Return the confusion matrix of the runs."""

    def kernel(some, M):
        _pairs(keys[some], counts[some], half, M)

    # Adding up a matrix per thread must not cost more than the runs themselves.
    threads = num_threads if len(keys) > 8 * n_classes**2 else 1
    (M,) = _summed_over_cells(kernel, keys, 0, len(keys) * 1e-9, [(n_classes, n_classes)], threads)
    return M


def overlaps(keys, counts, half, Q, M, num_threads=None):
    """Return the integer matrices (C, C, W) of one pass with the integer tables `Q` (C, C, W), for counts `M`."""

    def kernel(some, E):
        _overlaps(keys[some], counts[some], half, Q, _held(Q), E)

    # Adding up the matrices of the threads must cost less than a thread saves; a run costs about 30 additions.
    threads = num_threads if 8 * len(keys) > Q.size else 1
    seconds = len(keys) * SECONDS_PER_RUN
    (E,) = _summed_over_cells(kernel, keys, 2 * half, seconds, [Q.shape], threads)
    for rows in geometry_weights.row_blocks(M):
        E[rows] += Q[rows] * M[rows, :, None]
    return E


def wide_overlaps(keys, counts, half, Q, width, num_threads=None):
    """Return the limbs (C, C, K) of the matrix for one table of limbs."""

    def kernel(some, G):
        _wide_overlaps(keys[some], counts[some], half, Q, width, _held(Q), G)

    (G,) = _summed_over_cells(kernel, keys, 2 * half, len(keys) * 20 * SECONDS_PER_RUN, [Q.shape], num_threads)
    return G


@jit(borrows=True)
def _shape_of_cells(keys, counts, half, seen, small, out, large):
    """Count cells by size; `out` gets cells, points in pure and in unmixed cells, pairs, entries of `large`.

    `seen` holds for every prediction where the last cell with it begins, -1 before there is one.
    """
    mask = (1 << half) - 1
    i = BEGIN
    while i < keys.shape[0]:
        j = _end_of_cell(keys, 2 * half, i)
        size = 0
        a = b = 0
        label = -1
        for t in range(i, j):
            size += counts[t]
            y, p = (keys[t] >> half) & mask, keys[t] & mask
            a += y != label
            label = y
            b += seen[p] != i
            seen[p] = i
        out[0] += 1
        out[1] += size if j == i + 1 else 0
        if a < 2 or b < 2:
            out[2] += size
        else:
            out[3] += a * b
        if size < small.shape[0]:
            small[size] += 1
        else:
            large[out[4]] = size
            out[4] += 1
        i = j


def shape_of_cells(keys, counts, half, n_classes, n_points):
    """Return ``(sizes, number, totals)``: how many cells of each size there are; and see `_shape_of_cells`."""
    small, out = np.zeros(SMALL_CELL, np.int64), np.zeros(5, np.int64)
    large = np.empty(n_points // SMALL_CELL + 1, np.int64)
    _shape_of_cells(keys, counts, half, np.full(n_classes, -1, np.int64), small, out, large)
    sizes, number = np.unique(large[: out[4]], return_counts=True)
    few = np.flatnonzero(small)
    return np.concatenate([few, sizes]), np.concatenate([small[few], number]).astype(np.int64), out[:4]


@jit(borrows=True)
def common_cells(cells_a, groups_a, heights_a, cells_b, groups_b, heights_b, total, rest):
    """Add the smaller height of every pair of groups in every common cell to `total`, what it rounds off to `rest`."""
    i = j = 0
    while i < cells_a.shape[0] and j < cells_b.shape[0]:
        if cells_a[i] < cells_b[j]:
            i += 1
            continue
        if cells_a[i] > cells_b[j]:
            j += 1
            continue
        u, v = i, j
        while u < cells_a.shape[0] and cells_a[u] == cells_a[i]:
            u += 1
        while v < cells_b.shape[0] and cells_b[v] == cells_b[j]:
            v += 1
        for s in range(i, u):
            for t in range(j, v):
                x, old = min(heights_a[s], heights_b[t]), total[groups_a[s], groups_b[t]]
                new = old + x
                total[groups_a[s], groups_b[t]] = new
                rest[groups_a[s], groups_b[t]] += (old - new) + x if old >= x else (x - new) + old
        i, j = u, v


@jit(borrows=True)
def _excess(keys, counts, half, tables, share, held, out_E, out_scores):
    """Sum what cells have above their own weighted counts: ``min(L_i, P_j) - W_ij n_ij``.

    Of `tables`, the weights and slopes (C, C, W). Times the `share` of the cell into `out_E` (C, C, W); times the
    slopes into `out_scores` (D, W).
    """
    W, slopes = tables
    mask = (1 << half) - 1
    n_weights = W.shape[2]
    places, sums = held
    i = BEGIN
    while i < keys.shape[0]:
        j = _end_of_cell(keys, 2 * half, i)
        cell = keys[i] >> (2 * half)
        first, last = (keys[i] >> half) & mask, (keys[j - 1] >> half) & mask
        if first == last or _one_prediction(keys, mask, i, j):
            i = j
            continue
        a, b = _gather_cell(keys, counts, half, W, i, j, held)
        for t in range(i, j):
            y, p = (keys[t] >> half) & mask, keys[t] & mask
            for w in range(n_weights):
                mass = W[y, p, w] * counts[t]
                out_E[y, p, w] -= share[cell] * mass
                out_scores[cell, w] -= slopes[y, p, w] * mass
        for u in range(a):
            for s in range(b):
                y, p = places[1, u], places[2, s]
                for w in range(n_weights):
                    less = min(sums[0, u, w], sums[1, s, w])
                    out_E[y, p, w] += share[cell] * less
                    out_scores[cell, w] += slopes[y, p, w] * less
        i = j


def excess(keys, counts, half, W, slopes, share, num_threads=None):
    """Return ``(E, scores)`` in float64, summed in the order of the cells within pieces and of these; see `_excess`."""
    seconds = len(keys) * 4 * SECONDS_PER_RUN
    bounds = _runs.cut(keys, 2 * half, seconds, most=max(1, min(16, (1 << 20) // max(W.size, 1))))
    E, scores = np.zeros((len(bounds), *W.shape)), np.zeros((len(share), W.shape[2]))

    def work(i, start, stop):
        some = slice(start, stop)
        _excess(keys[some], counts[some], half, (W, slopes), share, _held(W), E[i], scores)

    pool.run_pieces(work, bounds, seconds=seconds, num_threads=num_threads)
    total = np.zeros(W.shape)
    for part in E:
        total += part
    return total, scores
