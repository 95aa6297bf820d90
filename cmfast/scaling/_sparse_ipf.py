"""Scale one sparse matrix to given sums without making it dense."""

from collections.abc import Callable
from typing import Any

import numpy as np

from cmfast._core import bad_values, dispatch, sparse, validate
from cmfast._core.progress import make_reporter
from cmfast.kernels.status import Status
from cmfast.scaling._result import MEANING, ScalingResult

MOST_NAMED_LINES = 4  # most rows or columns listed in a message
VECTORS = ("row_sums", "col_sums", "row_scale of start", "col_scale of start")


def solve_sparse(
    M: Any, lines: tuple[Any, ...], options: dict[str, Any], num_threads: int | None, progress: Any, *, matrix: bool
) -> tuple[ScalingResult[Any, Any], Callable[[tuple[int, ...]], str]]:
    """Validate the arguments and scale one scipy.sparse matrix; also return a function that explains a failure."""
    if options["smoothing"] is not None:
        validate.refuse(
            "smoothing",
            "None for a sparse M, which smoothing would make dense",
            validate.format_value(options["smoothing"]),
        )
    if len(M.shape) != 2:
        validate.refuse("M", "of shape (R, C)", f"shape {tuple(M.shape)}")
    if M.dtype.kind not in "buif" or M.dtype.itemsize > 8:
        validate.refuse("M", "real numbers of at most 64 bits", f"dtype {M.dtype}", TypeError)
    R, C = M.shape
    cells = M.tocsr(copy=True)
    cells.sum_duplicates()
    given = dict(zip(VECTORS, lines, strict=True))
    u, v, start_row, start_col = dispatch.adopt(optional=VECTORS, values=cells.data, **given)[1:]
    if (u is None) != (v is None):
        validate.refuse("row_sums and col_sums", "given both or neither", "only one")
    if u is None and R != C:
        validate.refuse("M", "square, of shape (C, C)", f"shape {tuple(M.shape)}")
    for name, line, n in zip(VECTORS, (u, v, start_row, start_col), (R, C, R, C), strict=True):
        if line is not None and validate.vectors(name, line, n):
            validate.refuse(name, f"of shape ({n},) for a sparse M", f"shape {dispatch.shape_of(line)}")
    rules = {name: value for name, value in options.items() if name != "smoothing"}
    arrays = cells.indptr.astype(np.int64), cells.indices, cells.data, u, v, start_row, start_col
    report = make_reporter(progress, "matrices")
    found = dispatch.call("ipf_sparse", *arrays, n_columns=C, **rules, num_threads=num_threads, progress=report)
    out, x, y, residual, n_iter, status, line_error, rows, columns = found
    scaled = type(cells)((out, cells.indices, cells.indptr), shape=(R, C)) if matrix else None
    result: ScalingResult[Any, Any] = ScalingResult(scaled, x, y, residual, n_iter, status, np.float64(0.0), line_error)

    def describe(index: tuple[int, ...]) -> str:
        """Return the reason why the matrix was not scaled; there is only one, so `index` is ignored."""
        del index
        return _explain_failure(cells, u, v, result, rows, columns)

    return result, describe


def _explain_failure(
    cells: Any, u: Any, v: Any, result: ScalingResult[Any, Any], rows: np.ndarray, columns: np.ndarray
) -> str:
    """Return the reason why a sparse matrix was not scaled."""
    status = Status(int(result.status))
    if status is Status.INVALID:
        return sparse.explain_bad_cells(cells) or bad_values.describe_bad_value(row_sums=u, col_sums=v)
    u, v = (np.ones(n) if line is None else line for n, line in zip(cells.shape, (u, v), strict=True))
    if status is Status.TOTALS:
        return f"row targets add up to {u.sum():.12g}, column targets to {v.sum():.12g} (relative gap 1e-9 allowed)"
    if status is Status.INFEASIBLE:
        wanted, there = f"{u[rows].sum():.12g}", f"{v[columns].sum():.12g}"
        reach = f"reach only {_name_lines('column', columns)}, which sum to {there}"
        return f"{_name_lines('row', rows)} must sum to {wanted} but {reach}"
    if status is Status.MAX_ITER:
        return f"not converged after {int(result.n_iter)} passes: residual {float(result.residual):.1e}"
    return MEANING[status]


def _name_lines(line: str, marked: np.ndarray) -> str:
    """Return a text that lists the first marked rows or columns."""
    at = np.flatnonzero(marked)
    more = f" and {len(at) - MOST_NAMED_LINES} more" if len(at) > MOST_NAMED_LINES else ""
    return f"{line}{'s' * (len(at) != 1)} {', '.join(map(str, at[:MOST_NAMED_LINES].tolist()))}{more}"
