"""Loop over the cells of sorted runs of (cell, label, prediction): geometric confusion matrices and cell statistics.

A cell with one label or one prediction adds exactly its own weighted counts to the matrix: with one label i, the
prediction histogram at j is W[i, j] and the label histogram is the sum of them. Only a cell with two of both is *mixed*
and needs the minimum of two histograms.
"""

import numpy as np

from cmfast.kernels.cpu._core import accumulators, pool
from cmfast.kernels.cpu._core.batches import freeze
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.geometry import _run_length
from cmfast.kernels.shared import geometry_weights

SECONDS_PER_RUN = 1e-8
BEGIN = np.int64(0)  # int64: a literal 0 has its own Numba type, for which all callees would be compiled again
SMALL_CELL = 1 << 12  # cells with fewer points are counted in a table by size, larger ones are listed


@jit(borrows=True)
def _count_pairs(keys, counts, half, out_M):
    """Add the counts of all runs to the confusion matrix of their label and prediction."""
    mask = (1 << half) - 1
    for i in range(keys.shape[0]):
        out_M[(keys[i] >> half) & mask, keys[i] & mask] += counts[i]


@jit(inner=True, inline=True, borrows=True)
def _find_cell_end(keys, bits, i):
    """Return the index after the last run of the cell of run `i`."""
    limit = ((keys[i] >> bits) + 1) << bits
    j = i + 1
    while j < keys.shape[0] and keys[j] < limit:
        j += 1
    return j


@jit(inner=True, inline=True, borrows=True)
def _has_one_prediction(keys, mask, i, j):
    """Return whether the runs `i` to `j` have a single prediction."""
    t = i + 1
    while t < j and keys[t] & mask == keys[i] & mask:
        t += 1
    return t == j


def _new_cell_workspace(W):
    """Allocate the workspace ``(slots, sums)`` for gathering a cell, for tables `W` (C, C, W).

    `slots` (3, C): slot of each prediction in the cell, -1 between cells; labels and predictions of the cell. `sums`
    (2, C, W): weighted counts per label and per prediction.
    """
    slots = np.empty((3, W.shape[0]), np.int64)
    slots[0] = -1
    return slots, np.empty((2, *W.shape[1:]), W.dtype)


@jit(inner=True, inline=True, borrows=True)
def _gather_cell(keys, counts, half, W, i, j, workspace):
    """Sum the weighted counts of the runs `i` to `j`, one cell, per label and per prediction.

    Return the numbers of labels and predictions, which fill the first slots of the workspace.
    """
    slots, sums = workspace
    mask = (1 << half) - 1
    a = b = 0
    label = -1
    for t in range(i, j):
        y, p = (keys[t] >> half) & mask, keys[t] & mask
        if y != label:
            label = y
            slots[1, a] = y
            for w in range(W.shape[2]):
                sums[0, a, w] = 0
            a += 1
        s = slots[0, p]
        if s < 0:
            s = b
            slots[0, p] = b
            slots[2, b] = p
            for w in range(W.shape[2]):
                sums[1, b, w] = 0
            b += 1
        for w in range(W.shape[2]):
            mass = W[y, p, w] * counts[t]
            sums[0, a - 1, w] += mass
            sums[1, s, w] += mass
    for s in range(b):
        slots[0, slots[2, s]] = -1
    return a, b


@jit(borrows=True)
def _add_excess(keys, counts, half, Q, workspace, out_E):
    """Add to `out_E` the excess of mixed cells over their own weighted counts: ``min(L_i, P_j) - q_ij n_ij``."""
    mask = (1 << half) - 1
    n_weights = Q.shape[2]
    slots, sums = workspace
    i = BEGIN
    while i < keys.shape[0]:
        j = _find_cell_end(keys, 2 * half, i)
        first, last = (keys[i] >> half) & mask, (keys[j - 1] >> half) & mask
        if first == last or _has_one_prediction(keys, mask, i, j):
            i = j
            continue
        a, b = _gather_cell(keys, counts, half, Q, i, j, workspace)
        for u in range(a):
            y = slots[1, u]  # indexed: a row view takes longer to compile than the loop
            for s in range(b):
                p = slots[2, s]
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
    """Propagate carries: bring all limbs but the highest below ``2**width``, in place."""
    for k in range(x.shape[0] - 1):
        x[k + 1] += x[k] >> width
        x[k] &= (1 << width) - 1


@jit(borrows=True)
def _is_less(x, y):
    """Return whether x < y for multi-limb integers, comparing from the highest limb."""
    for t in range(x.shape[0]):
        k = x.shape[0] - 1 - t
        if x[k] != y[k]:
            return x[k] < y[k]
    return False


@jit(borrows=True)
def _add_wide_minima(keys, counts, half, Q, width, workspace, out_G):
    """Add the minima of all cells for one table of multi-limb weights (``geometry_weights``) to `out_G`."""
    n_limbs = Q.shape[2]
    slots, sums = workspace
    labels, predictions, L, P = slots[1], slots[2], sums[0], sums[1]
    i = BEGIN
    while i < keys.shape[0]:
        j = _find_cell_end(keys, 2 * half, i)
        a, b = _gather_cell(keys, counts, half, Q, i, j, workspace)
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


def _sum_over_cells(kernel, keys, bits, seconds, shapes, num_threads):
    """Run ``kernel(range, *accumulators)`` over slices of whole cells in parallel; return the sums."""
    sums = accumulators.Accumulators(*shapes)

    def work(_, start, stop):
        """Run the kernel on one piece with its own accumulators."""
        mine = sums.take()
        kernel(slice(start, stop), *mine)
        sums.give_back(mine)

    bounds = _run_length.cut_at_cells(keys, bits, seconds)
    pool.run_pieces(work, bounds, seconds=seconds, num_threads=num_threads)
    return sums.totals()


def pair_counts(keys, counts, half, n_classes, num_threads=None):
    """Return the confusion matrix of the runs."""

    def kernel(some, M):
        """Count the pairs of a range of runs."""
        _count_pairs(keys[some], counts[some], half, M)

    # Adding a matrix per thread must not cost more than the runs themselves.
    threads = num_threads if len(keys) > 8 * n_classes**2 else 1
    (M,) = _sum_over_cells(kernel, keys, 0, len(keys) * 1e-9, [(n_classes, n_classes)], threads)
    return M


def compute_overlaps(keys, counts, half, Q, M, num_threads=None):
    """Return the integer geometric matrices (C, C, W) for integer weights `Q` (C, C, W) and pair counts `M`."""

    def kernel(some, E):
        """Add the excess of the cells of a range of runs."""
        _add_excess(keys[some], counts[some], half, Q, _new_cell_workspace(Q), E)

    # Adding the threads' matrices must cost less than a thread saves; a run costs about 30 additions.
    threads = num_threads if 8 * len(keys) > Q.size else 1
    seconds = len(keys) * SECONDS_PER_RUN
    (E,) = _sum_over_cells(kernel, keys, 2 * half, seconds, [Q.shape], threads)
    for rows in geometry_weights.row_blocks(M):
        E[rows] += Q[rows] * M[rows, :, None]
    return E


def compute_wide_overlaps(keys, counts, half, Q, width, num_threads=None):
    """Return the limbs (C, C, K) of the geometric matrix for one table of multi-limb weights."""

    def kernel(some, G):
        """Add the multi-limb minima of the cells of a range of runs."""
        _add_wide_minima(keys[some], counts[some], half, Q, width, _new_cell_workspace(Q), G)

    (G,) = _sum_over_cells(kernel, keys, 2 * half, len(keys) * 20 * SECONDS_PER_RUN, [Q.shape], num_threads)
    return G


@jit(borrows=True)
def _count_cells_by_size(keys, counts, half, seen, small, out, large):
    """Count cells by size; `out` gets cells, points in pure and in unmixed cells, pairs, entries of `large`.

    `seen` holds for every prediction the first run of the last cell with it, -1 initially.
    """
    mask = (1 << half) - 1
    i = BEGIN
    while i < keys.shape[0]:
        j = _find_cell_end(keys, 2 * half, i)
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


def count_cells_by_size(keys, counts, half, n_classes, n_points):
    """Return ``(sizes, number, totals)``: the cells of each size; totals as in `_count_cells_by_size`."""
    small, out = np.zeros(SMALL_CELL, np.int64), np.zeros(5, np.int64)
    large = np.empty(n_points // SMALL_CELL + 1, np.int64)
    _count_cells_by_size(keys, counts, half, np.full(n_classes, -1, np.int64), small, out, large)
    sizes, number = np.unique(large[: out[4]], return_counts=True)
    few = np.flatnonzero(small)
    return np.concatenate([few, sizes]), np.concatenate([small[few], number]).astype(np.int64), out[:4]


@jit(borrows=True)
def add_common_heights(cells_a, groups_a, heights_a, cells_b, groups_b, heights_b, total, rest):
    """Add the smaller height of every pair of groups in every common cell to `total`, its rounding error to `rest`."""
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
def _sum_excess(keys, counts, half, tables, share, workspace, out_E, out_scores):
    """Sum the excess of cells over their own weighted counts, ``min(L_i, P_j) - W_ij n_ij``.

    `tables` are the weights and slopes (C, C, W). `out_E` (C, C, W) gets the excess times the `share` of the cell,
    `out_scores` (D, W) the excess times the slopes.
    """
    W, slopes = tables
    mask = (1 << half) - 1
    n_weights = W.shape[2]
    slots, sums = workspace
    i = BEGIN
    while i < keys.shape[0]:
        j = _find_cell_end(keys, 2 * half, i)
        cell = keys[i] >> (2 * half)
        first, last = (keys[i] >> half) & mask, (keys[j - 1] >> half) & mask
        if first == last or _has_one_prediction(keys, mask, i, j):
            i = j
            continue
        a, b = _gather_cell(keys, counts, half, W, i, j, workspace)
        for t in range(i, j):
            y, p = (keys[t] >> half) & mask, keys[t] & mask
            for w in range(n_weights):
                mass = W[y, p, w] * counts[t]
                out_E[y, p, w] -= share[cell] * mass
                out_scores[cell, w] -= slopes[y, p, w] * mass
        for u in range(a):
            for s in range(b):
                y, p = slots[1, u], slots[2, s]
                for w in range(n_weights):
                    less = min(sums[0, u, w], sums[1, s, w])
                    out_E[y, p, w] += share[cell] * less
                    out_scores[cell, w] += slopes[y, p, w] * less
        i = j


def sum_excess(keys, counts, half, W, slopes, share, num_threads=None):
    """Return the excess matrices and cell scores in float64, summed in a fixed order."""
    keys, counts, W, slopes, share = map(freeze, (keys, counts, W, slopes, share))
    seconds = len(keys) * 4 * SECONDS_PER_RUN
    bounds = _run_length.cut_at_cells(keys, 2 * half, seconds, most=max(1, min(16, (1 << 20) // max(W.size, 1))))
    E, scores = np.zeros((len(bounds), *W.shape)), np.zeros((len(share), W.shape[2]))

    def work(i, start, stop):
        """Sum the excess of the cells of one piece."""
        some = slice(start, stop)
        _sum_excess(keys[some], counts[some], half, (W, slopes), share, _new_cell_workspace(W), E[i], scores)

    pool.run_pieces(work, bounds, seconds=seconds, num_threads=num_threads)
    total = np.zeros(W.shape)
    for part in E:
        total += part
    return total, scores
