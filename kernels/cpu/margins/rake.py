"""The op ``rake``: calibrate the weights of records (raking) so that their weighted totals meet known targets.

Newton's method on the dual of the calibration problem, which is convex. For exponential weights the step length is the
damped one proved for tables; for bounded weights a line search finds it on the slope of the dual, which is monotone.
"""

import math
from typing import Any

import numpy as np

from cmfast.kernels.cpu._core import batches, pool
from cmfast.kernels.cpu.margins.records import design as designs
from cmfast.kernels.cpu.margins.records.distances import DISTANCES
from cmfast.kernels.cpu.margins.records.newton import solve_dual
from cmfast.kernels.cpu.margins.records.newton_system import is_large
from cmfast.kernels.cpu.margins.records.passes import DesignProducts
from cmfast.kernels.cpu.margins.records.search import RakingProblem, compute_residual
from cmfast.kernels.shared import margins_layout as _layout
from cmfast.kernels.shared.margins import LEAST_MARGIN_RESIDUAL, MOST_MARGIN_PASSES
from cmfast.kernels.shared.scaling import FLOOR_LINES, last_width
from cmfast.kernels.status import INVALID, LIMIT_ONLY, MAX_ITER, OK, UNDETERMINED


def rake(
    design,
    weights,
    *targets,
    pattern=None,
    axes=None,
    method="raking",
    low=None,
    high=None,
    importance=None,
    tol,
    max_iter=None,
    num_threads=None,
    progress=None,
):
    """Calibrate weights to targets; return weights, multipliers, sums, infeasibility proofs and diagnostics.

    The design may be the values of a sparse matrix whose row starts and columns are in `pattern`. Multipliers, sums and
    proofs come for each target; the diagnostics are residual, error, passes and status.
    """
    n = design.shape[-1] if axes else len(design) if pattern is None else len(pattern[0]) - 1
    weights = np.ones(n) if weights is None else weights
    low = np.zeros(1) if low is None else np.atleast_1d(low)
    high = np.full(1, np.inf) if high is None else np.atleast_1d(high)
    shape: tuple[int, ...] = ()
    layout: Any = None
    if axes:
        shape = designs.count_categories(design, axes, targets)
        records = designs.make_records_from_categories(design, shape, axes, low, high)
        layout = records.layout
        wanted = _layout.concatenate_margins(shape, axes, layout.order, targets)
    else:
        wanted = targets[0].astype(np.float64)
        records = designs.make_records_from_columns(design, pattern, wanted.shape[-1], low, high)
    batch = np.broadcast_shapes(weights.shape[:-1], wanted.shape[:-1])
    _, (q, wanted), steps = batches.broadcast_batches(1, batches.as_floating(weights), wanted)
    K = wanted.shape[-1]
    p = None if records.rows is None else _make_problem(records, K, method, importance, tol, max_iter, num_threads)
    count = math.prod(batch)
    moved = np.empty((count, n), batches.result_dtype(weights, *targets))
    lines = tuple(np.empty((count, K)) for _ in range(3))  # multipliers, sums, proofs
    numbers = (np.empty(count), np.empty(count), np.empty(count, np.int64), np.empty(count, np.int8))

    def move(_, start, stop):
        """Calibrate the sets of weights from `start` to before `stop`."""
        for k in range(start, stop):
            pool.checkpoint()
            with np.errstate(all="ignore"):  # overflows end as RANGE
                _rake_one(p, records, q[k * steps[0]], wanted[k * steps[1]], moved[k], lines, numbers, k)

    pool.run_pieces(move, [(k, k + 1) for k in range(count)], seconds=1.0, num_threads=num_threads, progress=progress)
    found = [a.reshape(*batch, K) for a in lines]
    if axes:
        found = [part for a in found for part in _layout.split_margins(a, shape, axes, layout)]
    return moved.reshape(*batch, n), *found, *(a.reshape(batch)[()] for a in numbers)


def _make_problem(records, K, method, importance, tol, max_iter, num_threads):
    """Return the problem that all elements of a batch share."""
    n, low, high = records.n_rows, records.low, records.high
    if len(low) != len(high):
        low, high = (np.broadcast_to(bound, n).copy() for bound in (low, high))
    distance = DISTANCES[method]
    if distance.clipped and not low.any() and np.isinf(high).all():
        distance = DISTANCES["raking"]
    return RakingProblem(
        records.rows,
        designs.index_margins(records.layout, K),
        low,
        high,
        designs.expand_importances(importance, records.layout, K),
        distance,
        max(tol, LEAST_MARGIN_RESIDUAL * max(1.0, n / FLOOR_LINES)),
        last_width(tol),
        MOST_MARGIN_PASSES if max_iter is None else max_iter,
        records.layout,
        records.lines,
        is_large(records.rows, K),
        num_threads,
    )


def _rake_one(p, records, q, targets, moved, lines, numbers, k):
    """Calibrate one set of weights and write its results at index `k`."""
    multipliers, sums, proofs = (a[k] for a in lines)
    residual, error, n_iter, status = numbers
    moved[:], multipliers[:], sums[:], proofs[:] = np.nan, np.nan, np.nan, np.nan
    residual[k], error[k], n_iter[k] = np.nan, np.nan, 0
    q = q.astype(np.float64, copy=False)
    wrong = np.isinf(targets) | ((targets < 0.0) & (records.layout is not None))
    if p is None or wrong.any() or not (q.min(initial=0.0) >= 0.0 and q.max(initial=0.0) < np.inf):
        status[k] = INVALID
        return
    found = solve_dual(p, records.merge_weights(q).copy(), targets.astype(np.float64))
    status[k], n_iter[k], proofs[:] = found.status, found.n_iter, found.proof
    if found.status not in (OK, MAX_ITER, LIMIT_ONLY, UNDETERMINED):
        return
    out = q * records.expand_to_records(found.ratio)
    sizes = np.empty(len(targets))
    DesignProducts(p.rows, len(targets), p.num_threads).multiply_transposed(records.merge_weights(out), sums, sizes)
    residual[k], error[k] = compute_residual(p, found.goals, sums, sizes, found.least_sums), found.error
    moved[:] = out
    if found.status != LIMIT_ONLY:
        multipliers[:] = found.multipliers
    if found.status in (OK, LIMIT_ONLY) and residual[k] > p.tol:
        status[k] = MAX_ITER if found.n_iter >= p.max_iter else UNDETERMINED
