"""Controlled rounding of tables: cells and margins are rounded together, to integers next to their values.

Matrices by minimum-cost flow (shortest augmenting paths) or, randomly, by cycles; tables of more axes by greedy
exchange.
"""

import math

import numpy as np

from cmfast.kernels.cpu._core import batches, pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.shared.limits import MOST_EXACT_INTEGER
from cmfast.kernels.status import INVALID, MAX_ITER, OK, RANGE

MOST_WHOLE_SUM_ERROR = 1e-9  # relative error within which a sum counts as an integer; at least 1e-6
LEAST_FRACTION = 1e-9  # distance from an integer that counts as rounding error
CELLS_PER_CHECK = 2_000_000  # cells read between two checks for interrupts
SECONDS_PER_LOOK = 2e-9


def round_to_margins(table, *, axes, ndim, seed=None, num_threads=None, progress=None):
    """Round tables and their sums over `axes`.

    Return tables, largest error of a sum and status. A `seed` makes it random.
    """
    batch, shape = table.shape[: table.ndim - ndim], table.shape[table.ndim - ndim :]
    n, n_cells = math.prod(batch), math.prod(shape)
    cells = np.ascontiguousarray(table, np.float64).reshape(n, n_cells)
    out, miss, status = np.empty((n, n_cells)), np.empty(n), np.empty(n, np.int8)
    lines = _index_marginals(shape, axes)
    flows = ndim == 2 and sorted(axes) == [(0,), (1,)]

    def work(_, start, stop):
        """Round the tables from `start` to before `stop`."""
        for k in range(start, stop):
            pool.checkpoint()
            status[k] = _check_cells(cells[k])
            if status[k] != OK:
                out[k], miss[k] = np.nan, np.nan
                continue
            low = np.floor(cells[k])
            # As many draws as there may be cycles: each removes a fraction, also of the slack row and column.
            drawn = None if seed is None else np.random.default_rng((seed, k)).random(n_cells + sum(shape) + 1)
            ups = _round_matrix(cells[k].reshape(shape), drawn) if flows else _round_table(cells[k], lines, drawn)
            out[k] = low + ups
            miss[k] = _measure_error(cells[k], low, ups, lines)
            if miss[k] > 0.0:
                status[k] = MAX_ITER

    seconds = n * n_cells**1.5 * SECONDS_PER_LOOK
    bounds = pool.pieces(n, seconds)
    pool.run_pieces(work, bounds, seconds=seconds, num_threads=num_threads, progress=progress)
    out = out.reshape(table.shape).astype(batches.result_dtype(table), copy=False)
    return out, miss.reshape(batch)[()], status.reshape(batch)[()]


def _check_cells(cells):
    """Return INVALID for negative or non-finite cells, RANGE where integers would not be exact, else OK."""
    if not (np.isfinite(cells) & (cells >= 0.0)).all():
        return INVALID
    return OK if (cells < MOST_EXACT_INTEGER).all() and cells.sum() < MOST_EXACT_INTEGER else RANGE


def _index_marginals(shape, axes):
    """Return the marginal of every cell for each margin, (margins, cells), and the number of marginals."""
    places = np.indices(shape).reshape(len(shape), -1)
    sizes = [tuple(shape[axis] for axis in of) for of in axes]
    found = [
        np.ravel_multi_index(places[list(of)], size) if of else np.zeros(places.shape[1], np.int64)
        for of, size in zip(axes, sizes, strict=True)
    ]
    starts = np.cumsum([0, *map(math.prod, sizes)])
    return np.stack([line + start for line, start in zip(found, starts[:-1], strict=True)]), int(starts[-1])


def _count_required(cells, low, lines):
    """Return the least and largest number of cells to round up in each marginal."""
    of, n = lines
    sums, base = np.zeros(n), np.zeros(n)
    for line in of:
        sums += np.bincount(line, cells, n)
        base += np.bincount(line, low, n)
    return _bound_sums(sums, base)


def _bound_sums(sums, base):
    """Return floor and ceiling of sums, less `base`; sums within rounding of an integer get that integer for both."""
    near = np.rint(sums)
    whole = np.abs(sums - near) <= np.clip(MOST_WHOLE_SUM_ERROR * sums, 1e-6, 0.25)
    return np.where(whole, near, np.floor(sums)) - base, np.where(whole, near, np.ceil(sums)) - base


def _measure_error(cells, low, ups, lines):
    """Return the largest distance of a rounded sum from the interval between floor and ceiling of the exact sum."""
    least, most = _count_required(cells, low, lines)
    counts = sum(np.bincount(line, ups, lines[1]) for line in lines[0])
    return float(np.maximum(counts - most, least - counts).max(initial=0.0))


def _round_matrix(M, draws):
    """Return which cells of a matrix are rounded up; a slack row and column make all sums integers."""
    R, C = M.shape
    low = np.floor(M)
    F, free = np.zeros((R + 1, C + 1)), np.zeros((R + 1, C + 1), np.bool_)
    F[:R, :C] = M - low
    free[:R, :C] = F[:R, :C] > 0.0
    needs = []
    for sums, base, slack, shut in (
        (M.sum(1), low.sum(1), F[:R, C], free[:R, C]),
        (M.sum(0), low.sum(0), F[R, :C], free[R, :C]),
    ):
        least, most = _bound_sums(sums, base)
        shut[:] = least < most
        slack[:] = np.where(least < most, most + base - sums, 0.0)
        needs.append(most)
    least, most = _bound_sums(M.sum(keepdims=True)[0], low.sum())
    free[R, C] = least[0] < most[0]
    F[R, C] = M.sum() - low.sum() - least[0] if least[0] < most[0] else 0.0
    rows, cols = (np.append(own, other.sum() - least[0]).astype(np.int64) for own, other in (needs, needs[::-1]))
    if draws is None:
        return _round_nearest(F, free, rows, cols)[:R, :C].ravel()
    state = np.zeros(2, np.int64)
    while not _round_randomly(F, draws, state, CELLS_PER_CHECK):
        pool.checkpoint()
    return (F[:R, :C] > 0.5).ravel().astype(np.float64)


def _round_nearest(F, free, rows, cols):
    """Return the cells rounded up in the nearest controlled rounding, of minimum cost."""
    R, C = F.shape
    cost = np.zeros((R, C))  # of rounding a cell up; slack costs nothing
    cost[: R - 1, : C - 1] = 1.0 - 2.0 * F[: R - 1, : C - 1]
    Y = (F >= 0.5) & free
    over = np.concatenate([Y.sum(1) - rows, cols - Y.sum(0)]).astype(np.int64)
    potential = np.zeros(R + C)
    while not _augment_flow(cost, free, Y, over, potential, CELLS_PER_CHECK):
        pool.checkpoint()
    return Y.astype(np.float64)


@jit()
def _augment_flow(cost, free, Y, over, potential, budget):
    """Augment a flow along shortest paths until rows and columns round up as required; return whether done.

    It ends early when `budget` steps are used up. Nodes are rows, then columns. Where a cell may be rounded up an arc
    leads from its row to its column, where it may be rounded down one leads back. A path starts at a node with negative
    `over`, a row with too few or a column with too many, and ends at a positive one. Reduced costs stay nonnegative, so
    the result has minimum cost.
    """
    R, C = cost.shape
    n = R + C
    distance, before, done = np.empty(n), np.empty(n, np.int64), np.empty(n, np.bool_)
    first = 0
    while budget > 0:
        while first < n and over[first] >= 0:
            first += 1
        if first == n:
            return True
        distance[:], before[:], done[:] = np.inf, -1, False
        distance[first] = 0.0
        end = -1
        while end < 0:
            u, least = -1, np.inf
            for v in range(n):
                if not done[v] and distance[v] < least:
                    u, least = v, distance[v]
            if u < 0:
                break
            done[u] = True
            if over[u] > 0:
                end = u
            budget -= n
            for other in range(R, n) if u < R else range(R):
                i, j = (u, other - R) if u < R else (other, u - R)
                if free[i, j] and Y[i, j] == (u >= R) and not done[other]:
                    by = cost[i, j] if u < R else -cost[i, j]
                    far = least + max(0.0, by + potential[u] - potential[other])
                    if far < distance[other]:
                        distance[other], before[other] = far, u
        if end < 0:
            over[first] = 0  # the required numbers contradict each other by more than rounding
            continue
        for v in range(n):
            potential[v] += min(distance[v], distance[end])
        over[first] += 1
        over[end] -= 1
        while before[end] >= 0:
            u = before[end]
            if u < R:
                Y[u, end - R] = True
            else:
                Y[end, u - R] = False
            end = u
    return False


@jit()
def _round_randomly(F, draws, state, budget):
    """Round fractions randomly and without bias by shifting them along cycles, in place; return whether done.

    `state` is the first row with fractions and the number of draws used.
    """
    R, C = F.shape
    nodes, at = np.empty(R + C + 1, np.int64), np.empty(R + C, np.int64)
    while budget > 0:
        while state[0] < R and _find_fraction(F, state[0], -1) < 0:
            state[0] += 1
        if state[0] == R:
            return True
        at[:] = -1
        nodes[0], at[state[0]] = state[0], 0
        t, begin = 0, -1
        while begin < 0:
            came = nodes[t - 1] if t > 0 else -1
            then = _find_fraction(F, nodes[t], came)
            budget -= R + C
            if then < 0:  # rounding errors left a single fraction
                i, j = _get_cell(nodes[t], came, R)
                F[i, j] = np.rint(F[i, j])
                break
            begin = at[then]
            t += 1
            nodes[t] = then
            at[then] = t
        if begin < 0:
            continue
        up, down = np.inf, np.inf
        for s in range(begin, t):
            i, j = _get_cell(nodes[s], nodes[s + 1], R)
            one, other = (1.0 - F[i, j], F[i, j]) if (s - begin) % 2 == 0 else (F[i, j], 1.0 - F[i, j])
            up, down = min(up, one), min(down, other)
        step = up if draws[state[1] % len(draws)] * (up + down) < down else -down
        state[1] += 1
        for s in range(begin, t):
            i, j = _get_cell(nodes[s], nodes[s + 1], R)
            moved = F[i, j] + (step if (s - begin) % 2 == 0 else -step)
            F[i, j] = np.rint(moved) if abs(moved - np.rint(moved)) <= LEAST_FRACTION else moved
    return False


@jit(inner=True)
def _find_fraction(F, node, came):
    """Return the first neighbour of a node by a fractional cell, other than node `came`; -1 if all are integers."""
    R, C = F.shape
    if node < R:
        for j in range(C):
            if 0.0 < F[node, j] < 1.0 and R + j != came:
                return R + j
    else:
        for i in range(R):
            if 0.0 < F[i, node - R] < 1.0 and i != came:
                return i
    return -1


@jit(inner=True)
def _get_cell(one, other, R):
    """Return the row and column of the cell between two nodes."""
    return min(one, other), max(one, other) - R


def _round_table(cells, lines, draws):
    """Return which cells of a table with any number of axes are rounded up, with small errors of the sums (greedy)."""
    low = np.floor(cells)
    F = cells - low
    ups = F >= 0.5 if draws is None else draws[: len(F)] < F
    least, most = _count_required(cells, low, lines)
    counts = sum(np.bincount(line, ups, lines[1]) for line in lines[0])
    state = np.zeros(1, np.int64)
    while not _improve_cells(lines[0], F, ups, counts, least, most, state, CELLS_PER_CHECK):
        pool.checkpoint()
    return ups.astype(np.float64)


@jit()
def _improve_cells(lines, F, ups, counts, least, most, state, budget):
    """Flip the cell, or pair of cells, that most reduces the errors of sums, repeatedly; return whether none helps.

    `state` is the next first cell of a pair.
    """
    n = lines.shape[1]
    while budget > 0:
        if state[0] == 0:
            best, _ = _find_best_change(lines, F, ups, counts, least, most)
            budget -= lines.size
            if best >= 0:
                _flip_cell(lines, ups, counts, best)
                continue
        while budget > 0 and state[0] < n:
            c = state[0]
            state[0] += 1
            gain, helps = _compute_gain(lines, ups, counts, least, most, c)
            if F[c] == 0.0 or not helps:
                continue
            _flip_cell(lines, ups, counts, c)
            other, more = _find_best_change(lines, F, ups, counts, least, most)
            budget -= lines.size
            if other >= 0 and other != c and gain + more > 0.0:
                _flip_cell(lines, ups, counts, other)
                state[0] = 0
                break
            _flip_cell(lines, ups, counts, c)
        if state[0] >= n:
            return True
    return False


@jit(inner=True)
def _find_best_change(lines, F, ups, counts, least, most):
    """Return the cell whose flip reduces the errors most (ties: least cost) and the reduction; -1 if none helps."""
    best, most_gain, cost = -1, 0.0, np.inf
    for c in range(lines.shape[1]):
        if F[c] > 0.0:
            gain, _ = _compute_gain(lines, ups, counts, least, most, c)
            own = 2.0 * F[c] - 1.0 if ups[c] else 1.0 - 2.0 * F[c]
            if gain > most_gain or (gain == most_gain and gain > 0.0 and own < cost):
                best, most_gain, cost = c, gain, own
    return best, most_gain


@jit(inner=True)
def _compute_gain(lines, ups, counts, least, most, c):
    """Return by how much flipping cell `c` reduces the errors of its sums, and whether it reduces any."""
    gain, helps = 0.0, False
    by = -1.0 if ups[c] else 1.0
    for b in range(lines.shape[0]):
        k = lines[b, c]
        now = max(counts[k] - most[k], least[k] - counts[k], 0.0)
        then = max(counts[k] + by - most[k], least[k] - counts[k] - by, 0.0)
        gain += now - then
        helps = helps or then < now
    return gain, helps


@jit(inner=True)
def _flip_cell(lines, ups, counts, c):
    """Flip the rounding of cell `c` and update the counts, in place."""
    by = -1.0 if ups[c] else 1.0
    for b in range(lines.shape[0]):
        counts[lines[b, c]] += by
    ups[c] = not ups[c]
