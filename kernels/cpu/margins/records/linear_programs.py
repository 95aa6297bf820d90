"""Linear programs that decide which weights the totals allow, where Newton's method ended without an answer.

Newton steps follow diverging multipliers only until rounding stops them. One program minimises the violation of the
totals, the other maximises the number of records away from their bounds. Their duals are proposals: floating-point
bounds of the sums of weights decide.
"""

import numpy as np
import scipy.sparse

from cmfast.kernels.cpu.margins.records.search import SUM_ROUNDING
from cmfast.kernels.cpu.margins.records.sparse_rows import bound_sum
from cmfast.kernels.shared.margins import LEAST_PROOF_GAP
from cmfast.kernels.status import INFEASIBLE, OK

SUMMATION_ROUNDING = 1e-13  # a sum below this share of its terms' magnitudes counts as zero
SOLVER = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def _solve_program(*args, **options):
    """Solve a linear program by SciPy, which is imported here: that takes longer than most first calls of ``rake``."""
    from scipy.optimize import linprog

    return linprog(*args, **options)


def resolve_by_linear_programs(s):
    """Fix the weights of records that have one possible value, at a bound.

    Return OK, or INFEASIBLE with a certificate.
    """
    program = _RakingPrograms(s)
    if program.prove_infeasible():
        return INFEASIBLE
    program.fix_weights()
    return OK


class _RakingPrograms:
    """Linear programs in the weights of records that may be positive, scaled by their largest terms.

    A soft target keeps its sign: its goal is a nonnegative variable.
    """

    def __init__(self, s):
        self.s, p = s, s.p
        self.alive = np.flatnonzero(s.q > 0.0)
        self.asked = np.flatnonzero(s.asked & (s.hard | s.may_turn))
        rows, n = p.rows, len(s.q)
        values = np.broadcast_to(rows.values, len(rows.columns))
        shape = (n, len(s.targets))
        A = scipy.sparse.csr_array((values, rows.columns.astype(np.int64), rows.first), shape).tocsc()[:, self.asked]
        self.A, self.every = A.tocsr()[self.alive].tocsc(), A
        self.q = s.q[self.alive]
        self.low = np.broadcast_to(p.low, n)[self.alive]
        self.high = np.broadcast_to(p.high, n)[self.alive]
        hard = s.hard[self.asked]
        targets = s.targets[self.asked]
        self.m = np.where(hard, targets, 0.0)
        parts = self.A.multiply(self.q[:, None]).tocsc()
        most = abs(parts).max(axis=0).toarray().ravel() if parts.nnz else np.zeros(len(self.m))
        total = abs(parts).sum(axis=0)
        typical = (np.abs(targets) / np.where(total > 0.0, total, 1.0)).max(initial=0.0)
        self.unit = typical if typical > 0.0 and np.isinf(self.high).all() and not self.low.any() else 1.0
        self.size = np.maximum(np.abs(self.m), most * self.unit)
        self.size[self.size == 0.0] = 1.0
        scale = scipy.sparse.diags_array(1.0 / self.size)
        self.parts = scale @ (parts * self.unit).T
        sign = np.sign(targets[~hard])
        self.signs = scipy.sparse.csc_array(
            (-sign, (np.flatnonzero(~hard), np.arange(len(sign)))), (len(hard), len(sign))
        )
        self.hard = scipy.sparse.eye_array(len(hard), format="csc")[:, np.flatnonzero(hard)]

    def prove_infeasible(self):
        """Test whether the totals must be violated, by a program that minimises violations; stores the certificate."""
        n, k, soft = len(self.q), self.hard.shape[1], self.signs.shape[1]
        equal = scipy.sparse.hstack([self.parts, self.hard, -self.hard, self.signs])
        cost = np.concatenate([np.zeros(n), np.ones(2 * k), np.zeros(soft)])
        least, most = np.zeros(n + 2 * k + soft), np.full(n + 2 * k + soft, np.inf)
        least[:n], most[:n] = self.low / self.unit, self.high / self.unit
        found = _solve_program(
            cost, A_eq=equal, b_eq=self.m / self.size, bounds=np.column_stack([least, most]), method="highs",
            options=SOLVER,
        )  # fmt: skip
        if found.status:
            return False
        y = found.eqlin.marginals / self.size
        room, size, _ = self._compute_slack(y)
        room += self.s.bound_removed_weights(self.every @ y)
        reached = self.q * np.where(self.high < np.inf, self.high, np.maximum(self.low, 1.0))
        if not -room > max(LEAST_PROOF_GAP * size, SUMMATION_ROUNDING * float(reached @ (abs(self.A) @ np.abs(y)))):
            return False
        self.s.proof[:] = 0.0
        self.s.proof[self.asked] = y
        return True

    def _compute_slack(self, y):
        """Return by how much the weights can exceed the targets under multipliers `y`, the scale of that, and z = A y.

        Goals of soft targets have the sign of their multipliers, so they are left out.
        """
        z = self.A @ y
        z[np.abs(z) <= SUMMATION_ROUNDING * (abs(self.A) @ np.abs(y))] = 0.0
        products = self.m * y
        return bound_sum(z, self.q, self.low, self.high)[0] - float(products.sum()), float(np.abs(products).sum()), z

    def fix_weights(self):
        """Fix the weights of records at bounds that they provably cannot leave.

        Weights times z fall short of their maximum by the distances of all records from the bound that z drives them
        to; so each distance is at most the whole shortfall over its z.
        """
        s, n = self.s, len(self.q)
        is_logit = s.p.distance.reaches_no_bound
        below = np.flatnonzero(is_logit | (self.low == 0.0))
        above = np.flatnonzero(np.full(n, is_logit))
        if not len(below) + len(above):
            return
        z = self._find_fixed_records(below, above)
        if z is None:
            return
        z, short = z
        apart = np.where(z != 0.0, short / np.where(z != 0.0, np.abs(z), 1.0), np.inf)
        sure = apart <= self._bound_negligible_distance(is_logit)
        sure &= np.where(z < 0.0, np.isin(np.arange(n), below), np.isin(np.arange(n), above))
        if sure.any():
            s.fix_weights(self.alive[sure], (self.q * np.where(z < 0.0, self.low, self.high))[sure])

    def _find_fixed_records(self, below, above):
        """Return z of a certificate that some records cannot leave their bounds, and its shortfall; None without one.

        Weights are multiplied by a free factor of at least 1, so that a record away from its bounds is at least 1 away.
        """
        n, soft = len(self.q), self.signs.shape[1]
        eye = scipy.sparse.eye_array(n, format="csr")
        limited, b, a = np.flatnonzero(self.high < np.inf), len(below), len(above)
        own = scipy.sparse.hstack(
            [-eye, eye[:, below], _make_zeros(n, a), (self.low / self.unit)[:, None], _make_zeros(n, soft)]
        )
        high = scipy.sparse.hstack(
            [eye, _make_zeros(n, b), eye[:, above], -np.where(self.high < np.inf, self.high, 0.0)[:, None] / self.unit,
             _make_zeros(n, soft)]
        ).tocsr()[limited]  # fmt: skip
        K = len(self.m)
        equal = scipy.sparse.hstack([self.parts, _make_zeros(K, b + a), (-self.m / self.size)[:, None], self.signs])
        cost = np.concatenate([np.zeros(n), -np.ones(b + a), np.zeros(1 + soft)])
        least, most = np.zeros(len(cost)), np.full(len(cost), np.inf)
        most[n : n + b + a], least[n + b + a] = 1.0, 1.0
        found = _solve_program(
            cost, scipy.sparse.vstack([own, high]), np.zeros(n + len(limited)), equal, np.zeros(K),
            np.column_stack([least, most]), method="highs", options=SOLVER,
        )  # fmt: skip
        if found.status or not (found.x[n : n + b + a] < 0.5).any():
            return None
        room, size, z = self._compute_slack(found.eqlin.marginals / self.size)
        return z, max(room, 0.0) + SUM_ROUNDING * size

    def _bound_negligible_distance(self, is_logit):
        """Return the distance from its bound at which a record counts as being there."""
        if is_logit:
            return LEAST_PROOF_GAP * self.q * (self.high - self.low)
        s, A = self.s, abs(self.A).tocoo()
        small = np.full(len(self.q), np.inf)
        of_one = s.of_one_sign[self.asked][A.col]
        np.minimum.at(small, A.row[of_one], np.abs(self.m)[A.col[of_one]] / A.data[of_one])
        return LEAST_PROOF_GAP * np.where(small < np.inf, small, self.q)


def _make_zeros(n, k):
    """Return an empty sparse matrix of n rows and k columns."""
    return scipy.sparse.csr_array((n, k))
