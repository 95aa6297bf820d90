"""Scale rows and columns of matrices to given sums: iterative proportional fitting (IPF, RAS, Sinkhorn-Knopp)."""

from collections.abc import Callable
from typing import Any, get_args, overload

import numpy as np
from numpy.typing import ArrayLike

from cmfast._core import axis_names, dispatch, failures, sparse, validate
from cmfast._core.annotations import (
    Array,
    BiOptions,
    DeviceT,
    Empty,
    Floats,
    OnFailure,
    Progress,
    Smoothing,
    Solver,
    Sparse,
    Start,
)
from cmfast._core.lazy import accept_dask_arrays
from cmfast._core.progress import make_reporter
from cmfast.scaling import _explain_failure, _sparse_ipf
from cmfast.scaling._result import ScalingResult

SOLVERS, EMPTY = get_args(Solver), get_args(Empty)
NAN, DEFAULT_TOL, AUTO = "nan", 1e-9, "auto"  # defaults
DEFAULT_RULES: dict[str, Any] = {"smoothing": None, "empty": NAN, "tol": DEFAULT_TOL, "max_iter": None, "solver": AUTO}
# Options of ipf other than arrays, on_failure, num_threads and progress.
OPTIONS = frozenset(BiOptions.__annotations__)
FAILED = "matrices not scaled"
FACTORS = ("row_scale of start", "col_scale of start")
VECTORS = ("row_sums", "col_sums", *FACTORS)


@overload
def ipf(
    M: DeviceT,
    /,
    row_sums: DeviceT | None = ...,
    col_sums: DeviceT | None = ...,
    *,
    smoothing: Smoothing = ...,
    empty: Empty = ...,
    tol: float = ...,
    max_iter: int | None = ...,
    solver: Solver = ...,
    start: Start = ...,
    logits: bool = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
    progress: Progress = ...,
) -> ScalingResult[DeviceT, DeviceT]: ...
@overload
def ipf(
    M: ArrayLike,
    /,
    row_sums: ArrayLike | None = ...,
    col_sums: ArrayLike | None = ...,
    *,
    smoothing: Smoothing = ...,
    empty: Empty = ...,
    tol: float = ...,
    max_iter: int | None = ...,
    solver: Solver = ...,
    start: Start = ...,
    logits: bool = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
    progress: Progress = ...,
) -> ScalingResult[Floats, Floats]: ...
@overload
def ipf(
    M: Sparse,
    /,
    row_sums: ArrayLike | None = ...,
    col_sums: ArrayLike | None = ...,
    *,
    smoothing: Smoothing = ...,
    empty: Empty = ...,
    tol: float = ...,
    max_iter: int | None = ...,
    solver: Solver = ...,
    start: Start = ...,
    logits: bool = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
    progress: Progress = ...,
) -> ScalingResult[Any, Floats]: ...
@accept_dask_arrays(M="RC", row_sums="R", col_sums="C")
def ipf(
    M: Array,
    /,
    row_sums: Array = None,
    col_sums: Array = None,
    *,
    smoothing: Smoothing = None,
    empty: Empty = "nan",
    tol: float = 1e-9,
    max_iter: int | None = None,
    solver: Solver = "auto",
    start: Start = None,
    logits: bool = False,
    on_failure: OnFailure = None,
    num_threads: int | None = None,
    progress: Progress = None,
) -> ScalingResult[Any, Any]:
    """Scale rows and columns of nonnegative matrices to given sums (iterative proportional fitting).

    Use it if you know the sums; to remove class frequencies use :func:`bi_normalize`, for factors alone :func:`ras`.
    The result is the matrix closest to `M` in Kullback-Leibler divergence among those with these sums.

    Parameters
    ----------
    M : array, shape (..., R, C), or matrix of scipy.sparse
        Nonnegative. One sparse matrix is scaled without making it dense, and `ScalingResult.matrix` is CSR; without
        `smoothing` and `logits`.
    row_sums, col_sums : array, shape (..., R) and (..., C), optional
        The targets, with equal totals (relative gap at most 1e-9; then `col_sums` is scaled to the total of
        `row_sums`). Give both or neither; without them every row and column of a square `M` sums to one
        (bi-normalisation). The leading axes broadcast with those of `M`.
    smoothing : positive float or "pseudo-bayes", optional
        A number to add to every cell, in the unit of `M`, or the weight of a prior without a free number, the product
        of the marginals of `M` (Bishop, Fienberg and Holland). Never implicit: smoothing changes the result.
    empty : {"nan", "drop"}
        Without targets, treatment of a class that is never true and never predicted: no result for the matrix
        (ZERO_LINE), or zeros for the class while the rest is scaled.
    tol : float
        Bound of the relative error of every row sum and every column sum, below 1, and of `ScalingResult.residual`. The
        epsilon of the paper is ``tol`` times the total of the targets, to which small rows and columns hardly
        contribute. Bounds below rounding are relaxed: `tol` is at least 2e-15, and with more than 32 rows or columns a
        matrix that no longer changes is CONVERGED within 2e-15 times the longer side over 32.
    max_iter : int, optional
        Most passes over the matrix; default: 200 up to 64 classes, else 10,000, which allow for sweeps. Newton's
        method always finishes its initial sweeps (at most five) and a step in progress. From 200 on, a matrix whose
        small rows, columns or cells are not yet accurate may take up to 200 more steps.
    solver : {"auto", "newton", "sinkhorn"}
        ``"sinkhorn"`` is exactly algorithm 1 of the paper; it stops when all row and column sums fit, so CONVERGED
        refers to sums, not to cells: of 3,345 CONVERGED tables with widely spread cells 30 had a cell off by more than
        1e-4, one by a factor of 4.5e8 (docs/scaling_proof.md). ``"newton"`` converges in a few steps where Sinkhorn
        takes thousands of sweeps; ``"auto"`` chooses per matrix. Both also require a small last step, so that small
        cells are accurate too.
    start : ScalingResult or (row_scale, col_scale), optional
        Initial factors, for example of a similar matrix; ignored for matrices with a factor that is not positive and
        finite.
    logits : bool
        `M` holds the natural logarithms of the cells, of any sign and size, -inf for zeros, so that cells beyond
        float64 can be scaled. `row_scale` and `col_scale` are then logarithms, with the mean of `row_scale` zero, and
        ``matrix = exp(row_scale[..., :, None] + M + col_scale[..., None, :])`` up to the rounding of this sum (1e-7 for
        logarithms near 1e9); `matrix` itself is fully accurate. If only cells below 1e-130 connect some rows and
        columns to the others, their factors and cells are not determined. Logarithms that span more than 300 are halved
        repeatedly, and the problem is solved again after each doubling (homotopy): `max_iter` applies to each of them,
        `n_iter` counts all. Without `smoothing` and `start`; only on the CPU.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about matrices that cannot be scaled (see Notes).
        Default: as :func:`cmfast.config` says, first "warn".
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.
    progress : bool or callable, optional
        True shows a bar on stderr; a callable gets ``(done, total)`` in matrices.

    Returns
    -------
    ScalingResult
        In the library and on the device of `M`.

    Raises
    ------
    TypeError, ValueError
        Arrays of two libraries or devices, or not real; shapes that do not agree; a wrong option.

    See Also
    --------
    ras : Only the factors.
    bi_normalize : Only the matrix, without targets.

    Notes
    -----
    Bad values: a matrix that cannot be scaled gets NaN and a code in `status`, is reported as `on_failure` says, and
    does not affect others. INVALID: a cell or target that is NaN, infinite or negative. TOTALS: row and column targets
    of different totals. ZERO_LINE: an empty row or column with a positive target. RANGE: factors beyond float64.
    INFEASIBLE: no matrix with these zeros has these sums. LIMIT_ONLY counts as success but warns: with these zeros only
    the limit of the iteration exists; `matrix` is that limit, the factors are NaN (see :func:`cmfast.support`).
    MAX_ITER keeps the last iterate. CONVERGED means that every row and column sum meets its target to a relative `tol`,
    however small, recomputed from the returned values. UNDETERMINED (only with targets) keeps a matrix whose sums meet
    their targets, but in which rounding the targets may change a cell by more than 1e-4 of its value. Synchronises the
    device unless `on_failure` is "ignore". Reproducible: same input, same bits, for any number of threads and any
    neighbours in the batch.

    Accuracy: CONVERGED by Newton's method, the cells of bi-normalised matrices are accurate to a relative 1e-6 with the
    default `tol`, to 1e-10 with ``tol=1e-12``, however small they are (compared with extended precision); those of
    matrices with targets to 1e-4, if the shorter side is at most 512: if small cells are in question, a bound of the
    effect of rounding the targets decides. The same holds for sparse matrices whose connected components have at most
    16,384 positions each, zeros included; cells of larger components are bounded by the errors of the sums or, if that
    is inconclusive, estimated.

    References
    ----------
    Erbani et al., On the Normalization of Confusion Matrices, section 3.2 and appendix B, algorithms 1 and 2.
    Sinkhorn and Knopp, Concerning nonnegative matrices and doubly stochastic matrices, 1967.

    Examples
    --------
    >>> import cmfast
    >>> result = cmfast.ipf([[1.0, 1.0], [1.0, 1.0]], [52, 48], [87, 13])
    >>> result.matrix.round(9)
    array([[45.24,  6.76],
           [41.76,  6.24]])
    >>> cmfast.Status(result.status), bool(result.residual < 1e-9)
    (<Status.CONVERGED: 0>, True)

    From logarithms:

    >>> result = cmfast.ipf([[0.0, 2000.0], [3000.0, 4998.0]], logits=True)
    >>> result.matrix.round(6), result.row_scale
    (array([[0.268941, 0.731059],
           [0.731059, 0.268941]]), array([ 1499.5, -1499.5]))
    """
    on_failure = validate.on_failure(on_failure)
    validate.flag("logits", logits)
    result, describe = solve(
        "ipf_of_logits" if logits else "ipf",
        M,
        row_sums,
        col_sums,
        rules=validate_rules(smoothing, empty, tol, max_iter, solver),
        start=start,
        num_threads=num_threads,
        progress=progress,
    )
    failures.report(result.status, on_failure, failed=FAILED, describe=describe, limit_is_answer=True)
    return result


@overload
def ras(
    M: DeviceT,
    /,
    row_sums: DeviceT | None = ...,
    col_sums: DeviceT | None = ...,
    *,
    smoothing: Smoothing = ...,
    empty: Empty = ...,
    tol: float = ...,
    max_iter: int | None = ...,
    solver: Solver = ...,
    start: Start = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
    progress: Progress = ...,
) -> ScalingResult[None, DeviceT]: ...
@overload
def ras(
    M: ArrayLike | Sparse,
    /,
    row_sums: ArrayLike | None = ...,
    col_sums: ArrayLike | None = ...,
    *,
    smoothing: Smoothing = ...,
    empty: Empty = ...,
    tol: float = ...,
    max_iter: int | None = ...,
    solver: Solver = ...,
    start: Start = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
    progress: Progress = ...,
) -> ScalingResult[None, Floats]: ...
@accept_dask_arrays(M="RC", row_sums="R", col_sums="C")
def ras(
    M: Array,
    /,
    row_sums: Array = None,
    col_sums: Array = None,
    *,
    smoothing: Smoothing = None,
    empty: Empty = "nan",
    tol: float = 1e-9,
    max_iter: int | None = None,
    solver: Solver = "auto",
    start: Start = None,
    on_failure: OnFailure = None,
    num_threads: int | None = None,
    progress: Progress = None,
) -> ScalingResult[Any, Any]:
    """Compute the row and column factors that scale nonnegative matrices to given sums (RAS).

    Use it if you need the factors alone; :func:`ipf` returns the scaled matrix, too. `ScalingResult.matrix` is None.

    Parameters
    ----------
    M, row_sums, col_sums : array
        See :func:`ipf`.
    smoothing, empty, tol, max_iter, solver, start, on_failure, num_threads, progress
        See :func:`ipf`.

    Returns
    -------
    ScalingResult
        Equal to that of :func:`ipf` except for `matrix`.

    Raises
    ------
    TypeError, ValueError
        As :func:`ipf`.

    Notes
    -----
    Bad values, synchronisation, reproducibility: as :func:`ipf`.

    References
    ----------
    Erbani et al., On the Normalization of Confusion Matrices, appendix B, algorithm 2.

    Examples
    --------
    >>> import cmfast
    >>> result = cmfast.ras([[4.0, 1.0], [1.0, 1.0]])
    >>> result.row_scale.round(6), result.col_scale.round(6)
    (array([0.707107, 1.414214]), array([0.235702, 0.471405]))
    """
    on_failure = validate.on_failure(on_failure)
    result, describe = solve(
        "ras",
        M,
        row_sums,
        col_sums,
        rules=validate_rules(smoothing, empty, tol, max_iter, solver),
        start=start,
        num_threads=num_threads,
        progress=progress,
    )
    # A limit exists as a matrix, but has no factors: a failure of ras.
    failures.report(result.status, on_failure, failed=FAILED, describe=describe)
    return result


def solve(
    kernel: str,
    M: Array,
    row_sums: Array = None,
    col_sums: Array = None,
    *,
    rules: dict[str, Any],
    start: Start = None,
    num_threads: int | None = None,
    progress: Progress = None,
) -> tuple[ScalingResult[Any, Any], Callable[[tuple[int, ...]], str]]:
    """Validate the arrays and run the op `kernel`; return its result and a function that explains a failed matrix."""
    validate.progress(progress)
    num_threads = validate.num_threads(num_threads)
    of_logits = kernel == "ipf_of_logits"
    if of_logits:
        _refuse_with_logits(rules["smoothing"], start)
    if sparse.is_sparse(M):
        if of_logits:
            validate.refuse("logits", "False for a sparse M", "True")
        lines = row_sums, col_sums, *_unpack_start(start)
        return _sparse_ipf.solve_sparse(M, lines, rules, num_threads, progress, matrix=kernel == "ipf")
    if row_sums is col_sums is start is None:
        arrays = [dispatch.adopt_one("M", M, kernel), None, None, None, None]
    else:
        factors = dict(zip(FACTORS, _unpack_start(start), strict=True))
        arrays = dispatch.adopt(optional=VECTORS, op=kernel, M=M, row_sums=row_sums, col_sums=col_sums, **factors)
    batch = _check_shapes(*arrays)
    report = make_reporter(progress, "matrices")
    if of_logits:
        given = {name: value for name, value in rules.items() if name != "smoothing"}
        out = dispatch.call(kernel, *arrays[:3], **given, num_threads=num_threads, progress=report)
    else:
        out = dispatch.call(kernel, *arrays, **rules, num_threads=num_threads, progress=report)
    result: ScalingResult[Any, Any] = ScalingResult(None, *out) if kernel == "ras" else ScalingResult(*out)
    if type(M) is not np.ndarray:
        result = axis_names.name_axes(result, axis_names.get_axes_of_counts(M))
    reason = _explain_failure.explain_unscaled_logits if of_logits else _explain_failure.explain_unscaled
    return result, lambda index: reason(index, batch, arrays[:3], result, rules)


def validate_rules(
    smoothing: Smoothing = None,
    empty: Empty = "nan",
    tol: float = DEFAULT_TOL,
    max_iter: int | None = None,
    solver: Solver = "auto",
) -> dict[str, Any]:
    """Validate the scaling options; return them as the kernels take them."""
    if smoothing is max_iter is None and empty is NAN and solver is AUTO and type(tol) is float and tol == DEFAULT_TOL:
        return DEFAULT_RULES  # fast path: defaults need no validation
    validate.choice("solver", solver, SOLVERS)
    validate.choice("empty", empty, EMPTY)
    return {
        "smoothing": validate_smoothing(smoothing),
        "empty": empty,
        "tol": validate.tolerance(tol),
        "max_iter": validate.max_iter(max_iter),
        "solver": solver,
    }


def _refuse_with_logits(smoothing: Any, start: Any) -> None:
    """Refuse `smoothing` and `start` with logits=True."""
    if smoothing is not None:
        validate.refuse("smoothing", "None with logits=True, as in numpy.logaddexp(M, log(smoothing))", repr(smoothing))
    if start is not None:
        validate.refuse("start", "None with logits=True", type(start).__name__)


def validate_smoothing(smoothing: Any) -> float | str | None:
    """Validate the option `smoothing`: None, a positive number or "pseudo-bayes"."""
    if smoothing is None:
        return None
    if isinstance(smoothing, str):
        if smoothing != "pseudo-bayes":
            validate.refuse("smoothing", "None, a positive number or 'pseudo-bayes'", repr(smoothing))
        return smoothing
    return validate.positive("smoothing", smoothing)


def _unpack_start(start: Any) -> tuple[Any, Any]:
    """Return the row and column factors of the option `start`, or None for both."""
    if start is None:
        return None, None
    if isinstance(start, ScalingResult):
        return start.row_scale, start.col_scale
    if not isinstance(start, tuple | list) or len(start) != 2:
        wanted = "a ScalingResult or a pair (row_scale, col_scale)"
        validate.refuse("start", wanted, type(start).__name__, TypeError)
    row_scale, col_scale = start
    if row_scale is None or col_scale is None:
        validate.refuse("start", "a pair of arrays (row_scale, col_scale)", "None in it", TypeError)
    return row_scale, col_scale


def _check_shapes(M: Any, row_sums: Any, col_sums: Any, start_row: Any, start_col: Any) -> tuple[int, ...]:
    """Check that targets and starting factors fit `M`; return the shape of the batch."""
    bi = row_sums is None and col_sums is None
    R, C = validate.matrices(square=bi, M=M)
    if not bi and (row_sums is None or col_sums is None):
        validate.refuse("row_sums and col_sums", "given both or neither", "only one")
    batch = dispatch.shape_of(M)[:-2]
    if bi and start_row is None:
        return batch
    shapes = {"M": batch}
    lines = (row_sums, col_sums, start_row, start_col)
    for name, line, length in zip(VECTORS, lines, (R, C, R, C), strict=True):
        if line is not None:
            shapes[name] = validate.vectors(name, line, length)
    return validate.batch(**shapes)
