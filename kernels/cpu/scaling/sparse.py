"""The op ``ipf_sparse``: scale one sparse matrix (CSR) by Newton's method or by Sinkhorn sweeps."""

from typing import Any, NamedTuple

import numpy as np

from cmfast.kernels.cpu._core import batches, pool
from cmfast.kernels.cpu.scaling import launch
from cmfast.kernels.cpu.scaling._preprocessing import check_targets
from cmfast.kernels.cpu.solver.margin_totals import compare_totals
from cmfast.kernels.cpu.solver.sparse_support import SparseSupport, classify_sparse_cells
from cmfast.kernels.cpu.solver.symmetric_packing import pack
from cmfast.kernels.cpu.solver.symmetric_passes import SymmetricProducts
from cmfast.kernels.cpu.zeros.support import support
from cmfast.kernels.shared import symmetric_newton
from cmfast.kernels.shared.scaling import MOST_CELL_ERROR, MOST_SWEEPS, SMALL_CELLS, goals, line_bound
from cmfast.kernels.status import INFEASIBLE, INVALID, LIMIT_ONLY, MAX_ITER, OK, RANGE, UNDETERMINED, ZERO_LINE

LEAST_TARGET_SHARE = 1e-6  # smallest target over the total below which zeros are classified by component
REVISABLE = (OK, UNDETERMINED, MAX_ITER, RANGE)  # best to worst; scaling components as dense tables may revise them


class _PositiveCells(NamedTuple):
    """Positive cells in rows and columns with a target, sorted by row and column, and their positions in the input."""

    rows: Any
    columns: Any
    values: Any
    at: Any

    def where(self, keep):
        """Return the cells selected by the mask `keep`."""
        return _PositiveCells(*(a[keep] for a in self))


class _Problem(NamedTuple):
    """Targets, all positive, and the options."""

    u: Any
    v: Any
    tol: float
    max_iter: int | None
    num_threads: int | None

    @property
    def total(self):
        """Total of the targets."""
        return float(self.u.sum())


def ipf_sparse(
    first,
    column,
    values,
    row_sums,
    col_sums,
    start_row,
    start_col,
    *,
    n_columns,
    empty="nan",
    tol=1e-9,
    max_iter=None,
    solver="auto",
    num_threads=None,
    progress=None,
):
    """Scale a sparse matrix; return cells, factors, residual, passes, status, line error and an infeasibility proof.

    The proof marks rows whose targets exceed those of all columns they reach, and these columns.
    """
    R, C = len(first) - 1, n_columns
    given = [one for one in (values, row_sums, col_sums) if one is not None]
    out = np.full(len(values), np.nan, batches.result_dtype(*given))
    x, y = np.full(R, np.nan), np.full(C, np.nan)
    proof = np.zeros(R, np.bool_), np.zeros(C, np.bool_)
    a = values.astype(np.float64)
    u, v = (np.ones(n) if t is None else t.astype(np.float64) for n, t in ((R, row_sums), (C, col_sums)))
    if not ((a >= 0.0) & (a < np.inf)).all():
        return out, x, y, np.float64(np.nan), np.int64(0), np.int8(INVALID), np.float64(np.nan), *proof
    rows = np.repeat(np.arange(R), np.diff(first))
    cells = _PositiveCells(rows, column.astype(np.int64), a, np.arange(len(a))).where(a > 0.0)
    if empty == "drop" and row_sums is None:
        unused = (np.bincount(cells.rows, minlength=R) == 0) & (np.bincount(cells.columns, minlength=C) == 0)
        u[unused], v[unused] = 0.0, 0.0
    status, u, v = check_targets(None, u, v, False, False)
    cells = cells.where((u[cells.rows] > 0.0) & (v[cells.columns] > 0.0))
    kept = u > 0.0, v > 0.0
    if status == OK and any(
        (np.bincount(at, minlength=len(k)) == 0)[k].any() for at, k in zip(cells[:2], kept, strict=True)
    ):
        status = ZERO_LINE
    if status != OK:
        return out, x, y, np.float64(np.nan), np.int64(0), np.int8(status), np.float64(np.nan), *proof
    places = [np.cumsum(k) - 1 for k in kept]
    inner = cells._replace(rows=places[0][cells.rows], columns=places[1][cells.columns])
    p = _Problem(u[kept[0]], v[kept[1]], tol, max_iter, num_threads)
    begin = [None if t is None else t.astype(np.float64)[k] for t, k in zip((start_row, start_col), kept, strict=True)]
    with np.errstate(all="ignore"):  # overflows end as RANGE
        found = (_run_sinkhorn if solver == "sinkhorn" else _run_newton)(p, inner, begin)
        if progress is not None:
            progress(1, 1)
        for marks, k, one in zip(proof, kept, found.proof, strict=True):
            marks[k] = one
        if found.status not in (OK, MAX_ITER, LIMIT_ONLY, UNDETERMINED):
            return (
                out,
                x,
                y,
                np.float64(np.nan),
                np.int64(found.n_iter),
                np.int8(found.status),
                np.float64(np.nan),
                *proof,
            )
        middle = np.exp(np.log(found.x).mean()) if len(found.x) else 1.0
        inner_x, inner_y = found.x / middle, found.y * middle
        scaled = inner_x[found.cells.rows] * found.cells.values * inner_y[found.cells.columns]
        residual, worst = _compute_residual(p, found.cells, scaled)
    status = found.status
    if not residual < np.inf:
        return out, x, y, np.float64(np.nan), np.int64(found.n_iter), np.int8(RANGE), np.float64(np.nan), *proof
    if status in (OK, LIMIT_ONLY, UNDETERMINED) and not (
        residual <= (bound := max(tol, goals(tol, R, C)[2])) and worst <= line_bound(bound)
    ):
        status = MAX_ITER
    out[:] = 0.0
    out[found.cells.at] = scaled
    if status != LIMIT_ONLY:
        x[:], y[:] = 0.0, 0.0
        x[kept[0]], y[kept[1]] = inner_x, inner_y
    return out, x, y, np.float64(residual), np.int64(found.n_iter), np.int8(status), np.float64(worst), *proof


class _SparseResult(NamedTuple):
    """Factors, cells and status of the rows and columns with positive targets."""

    status: int
    x: Any
    y: Any
    cells: Any
    n_iter: int
    proof: Any


def _compute_residual(p, cells, scaled):
    """Return the row and column errors of scaled cells over the total, and the largest relative error of one."""
    if not len(p.u):
        return 0.0, 0.0
    rows = np.abs(np.bincount(cells.rows, scaled, len(p.u)) - p.u)
    columns = np.abs(np.bincount(cells.columns, scaled, len(p.v)) - p.v)
    return float(rows.sum() + columns.sum()) / p.total, float(max((rows / p.u).max(), (columns / p.v).max()))


def _make_empty_proof(p):
    """Return an infeasibility proof that marks no rows and no columns."""
    return np.zeros(len(p.u), np.bool_), np.zeros(len(p.v), np.bool_)


def _run_newton(p, cells, begin):
    """Scale by Newton's method without unsupported cells; rescale uncertain components as dense tables."""
    R, C = len(p.u), len(p.v)
    if R == 0:
        return _SparseResult(OK, p.u, p.v, cells, 1, _make_empty_proof(p))
    good = all(one is not None and bool(((one > 0.0) & (one < np.inf)).all()) for one in begin)
    start = np.concatenate(begin) if good else None
    kept, n_iter, limit, is_judged = [cells], 0, OK, [False]
    proof = _make_empty_proof(p)

    def classify_zeros():
        """Classify the zeros, drop unsupported cells from `kept`, fill the proof; return the status."""
        is_judged[0] = True
        found = _classify_zeros(p, cells)
        kept[0] = cells.where(~found.dead)
        for marks, one in zip(proof, (found.rows, found.columns), strict=True):
            marks[:] = one
        return found.status

    while True:
        now = kept[0]
        packed = pack(now.rows, now.columns + R, now.values, R + C, R)
        longest = max(int(np.bincount(now.rows).max()), int(np.bincount(now.columns).max()))
        task = symmetric_newton.SymmetricProblem(
            SymmetricProducts(packed, p.num_threads),
            np.concatenate([p.u, p.v]),
            R,
            0.5 * p.tol,
            p.max_iter,
            classify_zeros if limit == OK else lambda: OK,
        )
        found = symmetric_newton.solve(task, longest, start)
        n_iter += found.n_iter
        status, x, y = found.status, found.x[:R], found.x[R:]
        if status in REVISABLE and not found.certain and (p.max_iter is None or n_iter < p.max_iter):
            components = _find_uncertain_components(p, now, status, x, y)
            if not is_judged[0] and any(map(_is_small, components)):
                status = classify_zeros() or status
            if status in REVISABLE:
                status, more = _scale_components(p, now, components, status, x, y, n_iter)
                n_iter += more
        if status == LIMIT_ONLY:
            limit = LIMIT_ONLY
            continue
        status = LIMIT_ONLY if status == OK and limit == LIMIT_ONLY else status
        return _SparseResult(status, x, y, now, n_iter, proof)


def _label_components(p, cells):
    """Return the number of connected components, and the labels of each row, column and cell."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    R, C = len(p.u), len(p.v)
    edges = csr_array((np.ones(len(cells.rows), np.int8), (cells.rows, cells.columns + R)), shape=(R + C, R + C))
    count, label = connected_components(edges, directed=False)
    return count, (label[:R], label[R:], label[cells.rows])


def _iterate_components(count, labels):
    """Yield the indices of the rows, columns and cells of each component."""
    return zip(*(_group_indices(label, count) for label in labels), strict=True)


def _is_small(component):
    """Test whether a component is small enough to be made dense."""
    rows, columns, _ = component
    return len(rows) * len(columns) <= SMALL_CELLS


def _group_indices(labels, count):
    """Return for each label the indices of its elements."""
    return np.split(np.argsort(labels, kind="stable"), np.cumsum(np.bincount(labels, minlength=count))[:-1])


def _classify_zeros(p, cells):
    """Classify the zeros by maximum flow: a status, unsupported cells and an infeasibility proof (Hall violator).

    Where targets differ by orders of magnitude each component is classified alone, since a slack relative to the whole
    total would hide small ones.
    """
    R, C = len(p.u), len(p.v)
    if min(p.u.min(), p.v.min()) >= LEAST_TARGET_SHARE * p.total:
        first = np.concatenate([[0], np.cumsum(np.bincount(cells.rows, minlength=R))]).astype(np.int64)
        return classify_sparse_cells(first, cells.columns, p.u, p.v)
    status, dead = OK, np.zeros(len(cells.rows), np.bool_)
    for rows, columns, at in _iterate_components(*_label_components(p, cells)):
        u, v = p.u[rows], p.v[columns]
        U, V = float(u.sum()), float(v.sum())
        marks = np.zeros(R, np.bool_), np.zeros(C, np.bool_)
        marks[0][rows], marks[1][columns] = True, True
        if compare_totals(U, V) != OK:  # too small a total here is too large a total of the other components
            return SparseSupport(INFEASIBLE, dead, *(marks if U > V else (~marks[0], ~marks[1])))
        if len(at) == len(rows) * len(columns):
            continue
        i, j = np.searchsorted(rows, cells.rows[at]), np.searchsorted(columns, cells.columns[at])
        if _is_small((rows, columns, at)):
            M = np.zeros((len(rows), len(columns)))
            M[i, j] = 1.0
            found, gone, _, _, *proof = support(M, u, v)[:6]
            gone = gone[i, j]
        else:
            first = np.concatenate([[0], np.cumsum(np.bincount(i, minlength=len(rows)))]).astype(np.int64)
            found, gone, *proof = classify_sparse_cells(first, j, u, v * (U / V))
        if found == INFEASIBLE:
            for mark, of, one in zip(marks, (rows, columns), proof, strict=True):
                mark[of] = one
            return SparseSupport(INFEASIBLE, dead, *marks)
        dead[at] = gone
        status = max(status, int(found))
    return SparseSupport(status, dead, np.zeros(R, np.bool_), np.zeros(C, np.bool_))


def _find_uncertain_components(p, cells, status, x, y):
    """Return the components that may have a cell with a relative error above MOST_CELL_ERROR.

    The error of a cell is at most the errors of its component's sums, and what their rounding hides, over the cell.
    """
    count, labels = _label_components(p, cells)
    row, col, of = labels
    if status != OK:
        return list(_iterate_components(count, labels))
    scaled = cells.values * x[cells.rows] * y[cells.columns]
    rows, columns = (np.bincount(at, scaled, len(k)) for at, k in ((cells.rows, p.u), (cells.columns, p.v)))
    longest = max(int(np.bincount(cells.rows).max()), int(np.bincount(cells.columns).max()))
    missed = np.bincount(row, np.abs(rows - p.u), count) + np.bincount(col, np.abs(columns - p.v), count)
    total = np.bincount(row, p.u, count) + np.bincount(col, p.v, count)
    least = np.full(count, np.inf)
    np.minimum.at(least, of, scaled)
    sure = missed + symmetric_newton.compute_rounding(longest) * total <= MOST_CELL_ERROR * least
    return [one for one, is_sure in zip(_iterate_components(count, labels), sure, strict=True) if not is_sure]


def _scale_components(p, cells, components, status, x, y, n_iter):
    """Scale small uncertain components as dense tables; write their factors, return the status and passes.

    Sums do not show errors of cells between weakly coupled rows and columns, and the estimate by conjugate gradients
    may miss them; the dense solver bounds them.
    """
    worst, passes = OK, 0
    for component in components:
        if not _is_small(component):
            worst = max(worst, status, key=REVISABLE.index)
            continue
        rows, columns, at = component
        M = np.zeros((len(rows), len(columns)))
        M[np.searchsorted(rows, cells.rows[at]), np.searchsorted(columns, cells.columns[at])] = cells.values[at]
        most = None if p.max_iter is None else p.max_iter - n_iter
        options = {"tol": 0.5 * p.tol, "max_iter": most, "num_threads": p.num_threads}
        _, row, col, _, n, found, *_ = launch.ipf(M, p.u[rows], p.v[columns], None, None, **options)
        passes = max(passes, int(n))
        if found not in (OK, UNDETERMINED, MAX_ITER):  # rounding changes the classification of its zeros
            return (RANGE if status == RANGE else UNDETERMINED), passes
        x[rows], y[columns] = row, col
        worst = max(worst, int(found), key=REVISABLE.index)
    return worst, passes


def _run_sinkhorn(p, cells, begin):
    """Run Sinkhorn sweeps by sparse products (Erbani et al., algorithm 2)."""
    from scipy.sparse import csr_array

    R, C = len(p.u), len(p.v)
    if R == 0:
        return _SparseResult(OK, p.u, p.v, cells, 1, _make_empty_proof(p))
    M = csr_array((cells.values, (cells.rows, cells.columns)), shape=(R, C))
    across, y = M.T.tocsr(), np.ones(C) if begin[1] is None else begin[1]
    if begin[1] is None and begin[0] is not None:
        y = p.v / (across @ begin[0])
    s, k, missed, most = M @ y, 0, np.inf, MOST_SWEEPS if p.max_iter is None else p.max_iter
    while k < most and missed > p.tol:
        pool.checkpoint()
        k += 1
        x = p.u / s
        y = p.v / (across @ x)
        s = M @ y
        gaps = np.abs(x * s - p.u)
        missed = max(float(gaps.sum()) / p.total, float((gaps / p.u).max()))
        if not missed < np.inf:
            return _SparseResult(RANGE, x, y, cells, k, _make_empty_proof(p))
    return _SparseResult(OK if missed <= p.tol else MAX_ITER, x, y, cells, k, _make_empty_proof(p))
