"""Scale rows and columns of matrices to given sums: iterative proportional fitting (IPF, RAS, Sinkhorn-Knopp)."""

from collections.abc import Callable
from typing import Any, get_args, overload

from numpy.typing import ArrayLike

from cmfast._core import dispatch, failures, sparse, validate
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
from cmfast.scaling import _reasons, _sparse
from cmfast.scaling._result import ScalingResult

SOLVERS, EMPTY = get_args(Solver), get_args(Empty)
NAN, USUAL_TOL, AUTO = "nan", 1e-9, "auto"  # what is usual
USUAL: dict[str, Any] = {"smoothing": None, "empty": NAN, "tol": USUAL_TOL, "max_iter": None, "solver": AUTO}
# What ipf takes beside its arrays and on_failure, num_threads, progress.
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
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
    progress: Progress = None,
) -> ScalingResult[Any, Any]:
    """Scale rows and columns of nonnegative matrices until they have the wanted sums.

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
        of the margins of `M` (Bishop, Fienberg and Holland). Never implicit: another smoothing is another answer.
    empty : {"nan", "drop"}
        Without targets, what becomes of a class that is never true and never predicted: no answer for the matrix
        (ZERO_LINE), or zeros for the class while the rest is scaled.
    tol : float
        Bound of the relative error of every row sum and every column sum, below 1, and of `ScalingResult.residual`. The
        epsilon of the paper is ``tol`` times the total of the targets, which small rows and columns are not seen in.
        Nothing is demanded of what rounding leaves: less than 2e-15 means that, and of more than 32 lines on the longer
        side a matrix that no longer moves is CONVERGED within 2e-15 times that side over 32.
    max_iter : int, optional
        Most passes over the matrix; default: 200 where these are Newton steps alone (up to 64 classes), else 10,000.
        With Newton's method the sweeps it starts from (five at most) and a step under way are finished in any case.
        From 200 on, a matrix that small rows, columns or cells are in doubt of may take as many as 200 steps more.
    solver : {"auto", "newton", "sinkhorn"}
        ``"sinkhorn"`` is algorithm 1 of the paper and nothing else; it ends where every row and column fits, and
        CONVERGED is said of these alone, not of cells: of 3,345 CONVERGED tables with widely spread cells 30 had a
        cell off by more than 1e-4, one by a factor of 4.5e8 (docs/scaling_proof.md).
        ``"newton"`` converges in a few steps where that takes thousands of sweeps; ``"auto"`` picks per matrix. These
        two also demand that the last step was small, so that small cells are right and not only the sums.
    start : ScalingResult or (row_scale, col_scale), optional
        Factors to start from, for instance those of a similar matrix; ignored where one is not positive and finite.
    logits : bool
        `M` holds the natural logarithms of the cells, of any sign and size, -inf for zeros: cells that no float64 holds
        are scaled too. `row_scale` and `col_scale` are logarithms then, with the mean of `row_scale` at zero, and
        ``matrix = exp(row_scale[..., :, None] + M + col_scale[..., None, :])`` up to the rounding of this sum, which of
        logarithms near 1e9 is 1e-7; `matrix` itself is as accurate as ever. Of a result in which cells of less than
        1e-130 alone connect some lines to the others, these factors and cells are not determined. Logarithms that span
        more than 300 are halved until they do not, and scaled again whenever they are doubled: `max_iter` is of each of
        these problems, `n_iter` of all. Without `smoothing` and `start`; on the CPU.
    on_failure : {"warn", "raise", "ignore"}
        What to do about matrices that have no answer (see Notes).
    num_threads : int, optional
        Most threads to use; default: what the process may use.
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
    ras : The factors alone.
    bi_normalize : The matrix alone, without targets.

    Notes
    -----
    Bad values: a matrix that cannot be scaled gets NaN and a code in `status`, is reported as `on_failure` says, and
    touches no other. INVALID: a cell or target that is NaN, infinite or negative. TOTALS: row and column targets of
    different totals. ZERO_LINE: an empty row or column with a positive target. RANGE: factors beyond float64.
    INFEASIBLE: zeros that leave no matrix with these sums. LIMIT_ONLY counts as success and still warns: zeros for
    which only the limit of the iteration exists; `matrix` is that limit, the factors are NaN (see
    :func:`cmfast.support`). MAX_ITER keeps its last iterate. CONVERGED means that every row and every column has its
    target to a relative `tol`, however small it is, measured again on what is returned. UNDETERMINED, of matrices with
    targets, keeps one whose rows and columns have their targets, while rounding these once may move a cell by more than
    1e-4 of itself.
    Synchronises the device unless `on_failure` is "ignore". Reproducible: same input, same bits, for any number of
    threads and any neighbours in the batch.

    Accuracy: CONVERGED by Newton's method, the cells of bi-normalised matrices are right to a relative 1e-6 with the
    default `tol`, to 1e-10 with ``tol=1e-12``, however small they are (compared with extended precision); those of
    matrices with targets to 1e-4, of at most 512 lines on the shorter side: a bound of what rounding the targets may do
    decides, wherever small cells leave any doubt. So it does for sparse matrices whose connected components have at
    most 16,384 places each, zeros included; cells of larger components are bounded by what the sums miss, and where
    that is too little to say, estimated.

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

    Of logarithms:

    >>> result = cmfast.ipf([[0.0, 2000.0], [3000.0, 4998.0]], logits=True)
    >>> result.matrix.round(6), result.row_scale
    (array([[0.268941, 0.731059],
           [0.731059, 0.268941]]), array([ 1499.5, -1499.5]))
    """
    validate.on_failure(on_failure)
    validate.flag("logits", logits)
    result, describe = solve(
        "ipf_of_logits" if logits else "ipf",
        M,
        row_sums,
        col_sums,
        rules=check_rules(smoothing, empty, tol, max_iter, solver),
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
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
    progress: Progress = None,
) -> ScalingResult[Any, Any]:
    """Factors of rows and columns that give nonnegative matrices the wanted sums.

    As :func:`ipf`, but no scaled matrix is written: `ScalingResult.matrix` is None.

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
    validate.on_failure(on_failure)
    result, describe = solve(
        "ras",
        M,
        row_sums,
        col_sums,
        rules=check_rules(smoothing, empty, tol, max_iter, solver),
        start=start,
        num_threads=num_threads,
        progress=progress,
    )
    # The limit is a matrix; factors that lead to it do not exist.
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
    """Check the arrays and run `kernel`; also return what says in words why one matrix of the batch failed."""
    validate.progress(progress)
    num_threads = validate.num_threads(num_threads)
    of_logits = kernel == "ipf_of_logits"
    if of_logits:
        _refuse_with_logits(rules["smoothing"], start)
    if sparse.is_sparse(M):
        if of_logits:
            validate.refuse("logits", "False for a sparse M", "True")
        lines = row_sums, col_sums, *_pair(start)
        return _sparse.solve(M, lines, rules, num_threads, progress, matrix=kernel == "ipf")
    if row_sums is col_sums is start is None:
        arrays = [dispatch.adopt_one("M", M, kernel), None, None, None, None]
    else:
        factors = dict(zip(FACTORS, _pair(start), strict=True))
        arrays = dispatch.adopt(optional=VECTORS, op=kernel, M=M, row_sums=row_sums, col_sums=col_sums, **factors)
    batch = _shapes(*arrays)
    report = make_reporter(progress, "matrices")
    if of_logits:
        given = {name: value for name, value in rules.items() if name != "smoothing"}
        out = dispatch.call(kernel, *arrays[:3], **given, num_threads=num_threads, progress=report)
    else:
        out = dispatch.call(kernel, *arrays, **rules, num_threads=num_threads, progress=report)
    result: ScalingResult[Any, Any] = ScalingResult(None, *out) if kernel == "ras" else ScalingResult(*out)
    reason = _reasons.unscaled_logits if of_logits else _reasons.unscaled
    return result, lambda index: reason(index, batch, arrays[:3], result, rules)


def check_rules(
    smoothing: Smoothing = None,
    empty: Empty = "nan",
    tol: float = USUAL_TOL,
    max_iter: int | None = None,
    solver: Solver = "auto",
) -> dict[str, Any]:
    """Return how matrices are scaled, as the kernels take it."""
    if smoothing is max_iter is None and empty is NAN and solver is AUTO and type(tol) is float and tol == USUAL_TOL:
        return USUAL  # as most often: nothing to check
    validate.choice("solver", solver, SOLVERS)
    validate.choice("empty", empty, EMPTY)
    return {
        "smoothing": checked_smoothing(smoothing),
        "empty": empty,
        "tol": validate.tolerance(tol),
        "max_iter": validate.max_iter(max_iter),
        "solver": solver,
    }


def _refuse_with_logits(smoothing: Any, start: Any) -> None:
    if smoothing is not None:
        validate.refuse("smoothing", "None with logits=True, as in numpy.logaddexp(M, log(smoothing))", repr(smoothing))
    if start is not None:
        validate.refuse("start", "None with logits=True", type(start).__name__)


def checked_smoothing(smoothing: Any) -> float | str | None:
    """Return the option as the kernels take it."""
    if smoothing is None:
        return None
    if isinstance(smoothing, str):
        if smoothing != "pseudo-bayes":
            validate.refuse("smoothing", "None, a positive number or 'pseudo-bayes'", repr(smoothing))
        return smoothing
    return validate.positive("smoothing", smoothing)


def _pair(start: Any) -> tuple[Any, Any]:
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


def _shapes(M: Any, row_sums: Any, col_sums: Any, start_row: Any, start_col: Any) -> tuple[int, ...]:
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
