"""The op ``support_nd``: classify the zeros of tables for any number of margins, with integer certificates.

A table of ones is scaled: where it is infeasible its dual iterates diverge, and they identify cells that must be zero.
A linear program then finds a sparse certificate, which is rounded to small integers and verified.
"""

import math

import numpy as np
import scipy.optimize
import scipy.sparse

from cmfast.kernels.cpu._core import batches, pool
from cmfast.kernels.cpu.margins.launch import iterate, make_large_workspace
from cmfast.kernels.cpu.margins.tables.newton import SOLVE
from cmfast.kernels.cpu.margins.tables.separate_steps import start_table
from cmfast.kernels.cpu.margins.tables.workspace import CELL_ERROR, CELLS, FIXED_CELLS
from cmfast.kernels.shared import margins_layout as _layout
from cmfast.kernels.shared.margins import LEAST_PROOF_GAP, MOST_MARGIN_PASSES
from cmfast.kernels.shared.scaling import MOST_CELL_ERROR, last_width
from cmfast.kernels.status import INFEASIBLE, LIMIT_ONLY, MAX_ITER, OK, RANGE, ZERO_LINE

SUPPORT_TOL = 1e-9
MOST_PROGRAM_CELLS = 100_000  # cells of a linear program
LEAST_CELL_SHARE = 1e-6  # a cell below this share of its smallest target is checked by a linear program
MOST_PROOF_MULTIPLE = 60  # multiples of the smallest entry of a certificate that are tried to make all integers
MOST_INTEGER_ERROR = 1e-6  # distance from an integer that is rounded


def support_nd(M, *targets, axes, ndim, num_threads=None):
    """Classify the zeros of tables: statuses, cells that must be zero, certificates, and the sums these compare."""
    batch, shape = M.shape[: M.ndim - ndim], M.shape[M.ndim - ndim :]
    layout = _layout.make_dense_layout(shape, axes)
    wanted = _layout.concatenate_margins(shape, axes, layout.order, targets)
    cells = batches.as_floating(M).astype(np.float64).reshape(*batch, math.prod(shape))
    cells[(cells > 0.0) & (cells < np.inf)] = 1.0
    batch, (cells, wanted), steps = batches.broadcast_batches(1, cells, wanted)
    n = math.prod(batch)
    least = _layout.compute_tolerance(layout, SUPPORT_TOL, len(layout.places))
    rules = _layout.TableRules(0.0, np.zeros(len(axes)), least, last_width(SUPPORT_TOL), MOST_MARGIN_PASSES, -1)
    status, dead = np.empty(n, np.int8), np.zeros((n, math.prod(shape)), np.bool_)
    proof, sums = np.full((n, int(layout.offsets[-1])), np.nan), np.full((n, 2), np.nan)

    def classify(_, start, stop):
        """Classify the tables from `start` to before `stop` and write their results."""
        for k in range(start, stop):
            pool.checkpoint()
            with np.errstate(all="ignore"):
                found = _classify_table(cells[k * steps[0]], wanted[k * steps[1]], layout, rules, dead[k])
            status[k] = found[0]
            if found[1] is not None:
                asked = np.nan_to_num(wanted[k * steps[1]])
                proof[k] = found[1]
                sums[k] = [float(asked @ np.maximum(side, 0.0)) for side in (proof[k], -proof[k])]

    pool.run_pieces(classify, [(k, k + 1) for k in range(n)], seconds=1.0, num_threads=num_threads)
    lines = _layout.split_margins(proof.reshape(*batch, proof.shape[-1]), shape, axes, layout)
    numbers = (sums[:, side].reshape(batch)[()] for side in range(2))
    return status.reshape(batch)[()], dead.reshape(*batch, *shape), *lines, *numbers


def _classify_table(cells, wanted, layout, rules, dead):
    """Return the status of one table and its certificate, None without one.

    Mark the cells that must be zero in `dead`.
    """
    t = make_large_workspace(layout)
    targets = wanted.copy()
    status = start_table(t, cells, layout, targets, rules)
    if status not in (SOLVE, OK, MAX_ITER, ZERO_LINE):
        return status, None
    alive = np.sort(t.places[: t.counts[CELLS]])
    problem = _LinearPrograms(layout, wanted, alive)
    if status == ZERO_LINE:
        return status, problem.find_empty_marginal()
    begun = status == SOLVE
    status, equations = iterate(t, status, rules)
    if status == OK and equations is None and begun and not t.state[CELL_ERROR] <= MOST_CELL_ERROR:
        status = MAX_ITER
    if status == OK and t.counts[FIXED_CELLS]:
        status = LIMIT_ONLY
        dead[np.setdiff1d(alive, t.places[: t.counts[CELLS]])] = True
    if len(alive) <= MOST_PROGRAM_CELLS and begun:
        if status in (MAX_ITER, RANGE):
            status, gone = problem.classify_cells(status)
            dead[alive[gone]] = True
        elif status in (OK, LIMIT_ONLY) and problem.has_negligible_cell(t):
            other, gone = problem.classify_cells(status)
            numbers = problem.find_integer_proof(gone) if other != OK else None
            if numbers is None and other != status:
                dead[:] = False
                return MAX_ITER, None
            if numbers is not None:
                dead[alive] = gone
                return other, numbers
    if status not in (INFEASIBLE, LIMIT_ONLY):
        return status, None
    numbers = problem.find_integer_proof(dead[alive]) if len(alive) <= MOST_PROGRAM_CELLS else None
    if numbers is None and status == INFEASIBLE and t.counts[CELLS] == len(alive):
        numbers = problem.use_multipliers(t.proof, t.numbers)
    return status, numbers


class _LinearPrograms:
    """Linear programs over the marginals with positive targets of one table."""

    def __init__(self, layout, wanted, alive):
        self.layout, self.wanted, self.alive = layout, wanted, alive
        at = np.empty(len(layout.places), np.int64)
        at[layout.places] = np.arange(len(layout.places))
        self.lines = layout.lines[at[alive]].astype(np.int64)  # (cells, margins)
        self.asked = np.flatnonzero(wanted > 0.0)
        number = np.full(len(wanted), -1)
        number[self.asked] = np.arange(len(self.asked))
        own = number[self.lines]
        rows, columns = np.nonzero(own >= 0)
        entries = (np.ones(len(rows)), (rows, own[rows, columns]))
        self.A = scipy.sparse.csr_matrix(entries, (len(alive), len(self.asked)))
        self.m = wanted[self.asked] / max(wanted[self.asked].max(initial=0.0), np.finfo(float).tiny)

    def find_empty_marginal(self):
        """Return the certificate of a marginal without cells: one for that marginal, zero elsewhere."""
        found = np.zeros(len(self.wanted))
        used = np.zeros(len(self.asked), np.bool_)
        used[self.A.indices] = True
        found[self.asked[~used][:1]] = 1.0
        return found

    def has_negligible_cell(self, t):
        """Test whether any cell is such a small share of its smallest target that its limit may be zero."""
        found = np.zeros(len(self.layout.places))
        found[t.places[: t.counts[CELLS]]] = t.x[: t.counts[CELLS]]
        x = found[self.alive]
        targets = self.wanted[self.lines]
        least = np.where(targets > 0.0, targets, np.inf).min(1)
        return bool(((x > 0.0) & (least < np.inf) & (x < LEAST_CELL_SHARE * least)).any())

    def classify_cells(self, undecided):
        """Return the status and the cells that must be zero, by a linear program that maximises the positive cells.

        `undecided` is the status where the program fails.
        """
        n, K = self.A.shape
        equal = scipy.sparse.hstack([self.A.T, scipy.sparse.csr_matrix((K, n)), -self.m[:, None]])
        above = scipy.sparse.hstack([-scipy.sparse.eye(n), scipy.sparse.eye(n), scipy.sparse.csr_matrix((n, 1))])
        bounds = [(0, None)] * n + [(0, 1)] * n + [(1, None)]
        cost = np.concatenate([np.zeros(n), -np.ones(n), [0.0]])
        found = scipy.optimize.linprog(cost, above, np.zeros(n), equal, np.zeros(K), bounds, method="highs")
        if found.status:
            return (INFEASIBLE if found.status == 2 else undecided), np.zeros(n, np.bool_)
        gone = found.x[n : 2 * n] < 0.5
        return (LIMIT_ONLY if gone.any() else OK), gone

    def find_integer_proof(self, dead):
        """Return a sparse certificate of small integers that proves which cells must be zero; None if none is found.

        The sum of a cell's entries is at most zero, and at most -1 for cells that must be zero, while the targets
        weighted by the entries sum to zero. For an infeasible table, without such cells, they sum to more than zero
        (Farkas).
        """
        K, short = len(self.asked), dead.any()
        cells = scipy.sparse.hstack([self.A, -self.A])
        sums = np.concatenate([self.m, -self.m])[None]
        most, least = np.where(dead, -1.0, 0.0), 0.0 if short else 1.0
        given = scipy.optimize.linprog(np.ones(2 * K), cells, most, sums, [least], method="highs")
        if given.status:
            return None
        y = given.x[:K] - given.x[K:]
        y[np.abs(y) < MOST_INTEGER_ERROR * np.abs(y).max(initial=0.0)] = 0.0
        y /= np.abs(y[y != 0.0]).min(initial=np.inf)
        for parts in range(1, MOST_PROOF_MULTIPLE + 1):
            whole = np.rint(parts * y)
            if (np.abs(parts * y - whole) <= MOST_INTEGER_ERROR * parts).all():
                return self._verify_proof(whole, dead)
        return None

    def _verify_proof(self, whole, dead):
        """Return the integers for all marginals if they are a valid certificate, else None."""
        z = self.A @ whole
        gap = math.fsum(self.wanted[self.asked] * whole)
        size = LEAST_PROOF_GAP * math.fsum(np.abs(self.wanted[self.asked] * whole))
        right = abs(gap) <= size if dead.any() else gap > size
        if not right or (z > 0.0).any() or (z[dead] >= 0.0).any():
            return None
        found = np.zeros(len(self.wanted))
        found[self.asked] = whole
        return found

    def use_multipliers(self, proof, numbers):
        """Return the last dual iterate, shifted so that no cell has a positive sum; None if that proves nothing."""
        offsets = self.layout.offsets
        y = np.concatenate([proof[: offsets[1]], proof[offsets[1] + numbers[offsets[1] :]]])
        y[~(self.wanted > 0.0)] = 0.0
        top = y[self.lines].sum(1).max()
        known = [b for b in range(len(offsets) - 1) if (self.wanted[offsets[b] : offsets[b + 1]] >= 0.0).all()]
        if top > 0.0 and known:
            y[offsets[known[0]] : offsets[known[0] + 1]] -= top
        terms = np.nan_to_num(self.wanted) * y
        proved = math.fsum(terms) > LEAST_PROOF_GAP * np.abs(terms).sum() and (top <= 0.0 or known)
        return y if proved else None
