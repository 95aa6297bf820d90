"""Explain why one matrix was not scaled or normalised; computed on the host, for that matrix alone."""

import math
from typing import Any

import numpy as np

from cmfast._core import bad_values, wording
from cmfast._core.adapters import adapter
from cmfast.kernels.shared.scaling import pseudo_bayes
from cmfast.kernels.status import Status
from cmfast.scaling._result import ScalingResult
from cmfast.zeros import support

MOST_LOG_SPREAD = 600.0  # largest range of log cells that is kept to find a reason
OUT_OF_RANGE = "a weight leaves the range of the result"


def explain_unnormalised(M: np.ndarray) -> str:
    """Return the reason why :func:`normalize` or :func:`importance_weights` returned NaN for a matrix."""
    return bad_values.describe_bad_value(M=M) or OUT_OF_RANGE


def explain_unscaled(
    index: tuple[int, ...],
    batch: tuple[int, ...],
    arrays: list[Any],
    result: ScalingResult[Any, Any],
    options: dict[str, Any],
) -> str:
    """Return the reason why the matrix at `index` of the batch was not scaled, with advice.

    `arrays` are M, row_sums and col_sums as the kernel got them, None for absent ones.
    """
    M, u, v = (
        None if array is None else _read_element(array, batch, core, index)
        for array, core in zip(arrays, (2, 1, 1), strict=True)
    )
    status = Status(int(_read_element(result.status, batch, 0, index)))
    if status is Status.INVALID:
        return bad_values.describe_bad_value(M=M, row_sums=u, col_sums=v)
    assert M is not None
    u, v = (np.ones(n) if line is None else line for n, line in zip(M.shape, (u, v), strict=True))
    if status is Status.TOTALS:
        return _explain_totals(u, v)
    if status is Status.RANGE:
        return "scale factors leave the float64 range"
    if status is Status.UNDETERMINED:
        return (
            "rows and columns have the wanted sums, but rounding the sums may change a cell by more than 1e-4 of itself"
        )
    with np.errstate(all="ignore"):
        A = add_smoothing(M, options["smoothing"])
    if options["empty"] == "drop" and arrays[1] is None:
        used = A.any(0) | A.any(1)
        u, v = u * used, v * used
    if status is Status.ZERO_LINE:
        return _explain_empty_line(A, u, v, ones=arrays[1] is None, smooth=options["smoothing"] is None)
    if status is Status.MAX_ITER:
        y = _read_element(result.col_scale, batch, 1, index)
        numbers = result.residual, result.line_error, result.n_iter
        residual, line_error, n_iter = (_read_element(a, batch, 0, index).item() for a in numbers)
        missed = {"residual": residual, "line_error": line_error}
        return _explain_max_iter(A, u, v, y, **missed, n_iter=n_iter, options=options)
    allowed = support(A, u, v)
    dead = np.argwhere(allowed.dead_cells)  # not the zeros of the result: float32 rounds small cells to zero
    if status is Status.LIMIT_ONLY and result.matrix is not None and len(dead):
        where = bad_values.format_index(dead[0])
        cells = f"1 positive cell, {where}," if len(dead) == 1 else f"{len(dead)} positive cells, first {where},"
        return f"no scaling exists, and the limit sets {cells} to zero; {_advise_smoothing()}"
    return f"{allowed.explain()}; {_advise_smoothing()}"


def explain_unscaled_logits(
    index: tuple[int, ...],
    batch: tuple[int, ...],
    arrays: list[Any],
    result: ScalingResult[Any, Any],
    options: dict[str, Any],
) -> str:
    """Return the reason why a matrix given by the logarithms of its cells was not scaled."""
    L = _read_element(arrays[0], batch, 2, index).astype(np.float64)
    bad = np.isnan(L) | np.isposinf(L)
    valid = np.where(bad, -np.inf, L)
    with np.errstate(all="ignore"):
        cells = np.exp(np.maximum(valid - valid.max(-1, keepdims=True, initial=-np.inf), -MOST_LOG_SPREAD))
        known = result._replace(col_scale=np.exp(adapter(result.col_scale).to_host(result.col_scale)))
    cells[np.isneginf(L)] = 0.0
    said = explain_unscaled(index, batch, [np.where(bad, L, cells), *arrays[1:]], known, options)
    reason, _, advice = said.rpartition("; ")
    return reason if wording.option("smoothing") in advice else said  # logits=True has no smoothing


def _advise_smoothing() -> str:
    """Return the advice to use smoothing."""
    return f"{wording.option('smoothing')} makes a scaling exist"


def add_smoothing(M: np.ndarray, smoothing: float | str | None) -> np.ndarray:
    """Return `M` in float64 with its smoothing added, as the kernels do."""
    A: np.ndarray = M.astype(np.float64)
    if smoothing == "pseudo-bayes":
        A, _ = pseudo_bayes(A, float(A.max(initial=0.0)))
    elif smoothing is not None:
        A = A + float(smoothing)
    return A


def _read_element(array: Any, batch: tuple[int, ...], core: int, index: tuple[int, ...]) -> np.ndarray:
    """Return one batch element of an array, on the host, after broadcasting to the batch."""
    host = adapter(array).to_host(array)
    found: np.ndarray = np.broadcast_to(host, batch + host.shape[host.ndim - core :])[index]
    return found


def _explain_totals(u: np.ndarray, v: np.ndarray) -> str:
    """Return a text that compares the totals of row and column targets."""
    a, b = float(u.sum()), float(v.sum())
    gap = abs(a - b) / max(a, b)
    text = f"row targets add up to {a:.12g}, column targets to {b:.12g} (relative gap {gap:.1e}; 1e-9 allowed)"
    return f"{text}; multiply the column targets by {a:.12g}/{b:.12g} to make them agree" if a > 0 and b > 0 else text


def _explain_empty_line(A: np.ndarray, u: np.ndarray, v: np.ndarray, *, ones: bool, smooth: bool) -> str:
    """Return a text that names the empty row or column with a positive target, with advice."""
    used = (A > 0) & (u > 0)[:, None] & (v > 0)
    rows, cols = ~used.any(1) & (u > 0), ~used.any(0) & (v > 0)
    name, line, target, cells = ("row", rows, u, A) if rows.any() else ("column", cols, v, A.T)
    if not line.any():  # smoothed cells near the smallest float64 may underflow in the kernel but not here
        smoothing = wording.option("smoothing")
        return f"a row or column is empty after smoothing but its target is not; pass a number as {smoothing}"
    i = int(np.flatnonzero(line)[0])
    what = "has positive cells only where the target is zero" if cells[i].any() else "is empty"
    # empty="drop" helps only without targets, for a class whose row and column are both empty.
    drop = "drop it or pass"
    if ones:
        both = np.array_equal(rows, cols)
        drop = f"pass {wording.option('empty', 'drop')} or" if both else f"leave class {i} out or pass"
    # The pseudo-Bayes prior has the marginals of the matrix: empty rows and columns stay empty.
    cure = f"{drop} {wording.option('smoothing')}{'' if smooth else ' a number'}"
    return f"{name} {i} {what} but its target is {target[i]:g}; {cure}"


def _explain_max_iter(
    A: np.ndarray,
    u: np.ndarray,
    v: np.ndarray,
    y: np.ndarray,
    *,
    residual: float,
    line_error: float,
    n_iter: int,
    options: dict[str, Any],
) -> str:
    """Return a text with the remaining error, the convergence rate and advice."""
    tol = options["tol"]
    fits = "the sums fit, but cells still change"
    if residual > tol:
        fits = f"residual {residual:.1e}, wanted {tol:.1e}"
    elif line_error > tol:
        fits = f"a row or column is off by {line_error:.1e} of its target, wanted {tol:.1e}"
    text = f"not converged after {n_iter} passes: {fits}"
    ratio, left = _estimate_sweeps_left(A[np.ix_(u > 0, v > 0)], u[u > 0], v[v > 0], y[v > 0], tol)
    if ratio < 1:
        text += f"; error ratio {ratio:.4f}, about {left:.0f} sweeps left"
    cures = []
    if options["solver"] == "sinkhorn":
        cures.append(f"try {wording.option('solver', 'auto')}")
    # The other solvers have already checked the zero pattern.
    if options["solver"] == "sinkhorn" and not (A > 0)[(u > 0)[:, None] & (v > 0)].all():
        cures.append(f"its zeros may allow no scaling: {_advise_smoothing()}")
    elif options["max_iter"] is not None:
        cures.append(f"pass a larger {wording.option('max_iter')}")
    return "; ".join([text, *cures])


def _estimate_sweeps_left(
    A: np.ndarray, u: np.ndarray, v: np.ndarray, y: np.ndarray, tol: float
) -> tuple[float, float]:
    """Return the factor by which one more sweep shrinks the residual, and the number of sweeps still needed."""
    with np.errstate(all="ignore"):
        errors = []
        for _ in range(3):
            x = u / (A @ y)
            y = v / (x @ A)
            errors.append(np.abs(x * (A @ y) - u).sum() / u.sum())
        ratio = errors[2] / errors[1]
        if not (0 < ratio < 1 and errors[2] > tol):
            return math.nan, math.nan
        return float(ratio), math.ceil((math.log(tol) - math.log(errors[2])) / math.log(ratio))
