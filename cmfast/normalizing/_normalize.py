"""Normalise matrices by total, row sums, column sums or both, and the equivalent importance weights of samples."""

import math
from collections.abc import Callable
from typing import Any, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike

from cmfast._core import bad_values, dispatch, failures, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import (
    METHODS,
    SYNONYMS,
    Array,
    BiOptions,
    DeviceT,
    Empty,
    Floats,
    Method,
    OnFailure,
    Progress,
    Smoothing,
    Solver,
    Sparse,
    Start,
)
from cmfast._core.lazy import accept_dask_arrays
from cmfast._core.progress import make_reporter
from cmfast._core.usual_options import (
    describe_unknown_option,
    explain_options,
    refuse_labels_of_samples,
    suggest_option,
)
from cmfast.kernels.status import Status
from cmfast.scaling._explain_failure import OUT_OF_RANGE, explain_unnormalised
from cmfast.scaling._ipf import OPTIONS, ipf, solve, validate_rules

__all__ = ["bi_normalize", "importance_weights", "normalize"]

COMMON_OPTIONS = ("on_failure", "num_threads", "progress")  # of every method
FAILED = "matrices not normalised"


@overload
def normalize(
    M: DeviceT,
    /,
    method: Method,
    *,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
    progress: Progress = ...,
    **options: Unpack[BiOptions],
) -> DeviceT: ...
@overload
def normalize(
    M: ArrayLike,
    /,
    method: Method,
    *,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
    progress: Progress = ...,
    **options: Unpack[BiOptions],
) -> Floats: ...
@explain_options
def normalize(
    M: Array,
    /,
    method: Method,
    *,
    on_failure: OnFailure = None,
    num_threads: int | None = None,
    progress: Progress = None,
    **options: Unpack[BiOptions],
) -> Any:
    """Normalise confusion matrices by total, row sums, column sums, or both (bi-normalisation).

    Use it to choose a normalisation by its name; for known row and column sums use :func:`ipf`.

    Parameters
    ----------
    M : array, shape (..., R, C)
        Nonnegative; square for ``"bi"``.
    method : {"all", "row", "true", "col", "pred", "bi"}
        Divide by the total, by the row sums (``"row"`` or ``"true"``: shares of each true class), by the column sums
        (``"col"`` or ``"pred"``: shares of each predicted class), or make every row and every column sum to one
        (``"bi"``, see :func:`bi_normalize`).
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about matrices that fail (see Notes).
        Default: as :func:`cmfast.config` says, first "warn".
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.
    progress : bool or callable, optional
        True shows a bar on stderr; a callable gets ``(done, total)`` in matrices.
    **options
        Options of :func:`bi_normalize` with ``"bi"``; otherwise none.

    Returns
    -------
    array, shape (..., R, C), float32 if `M` is float32, else float64
        Library and device of `M`. An empty row or column (an empty matrix with ``"all"``) stays zero.

    Raises
    ------
    TypeError, ValueError
        `M` is not real or not a matrix; a wrong option.

    See Also
    --------
    importance_weights : The equivalent weights of samples.

    Notes
    -----
    Bad values: a matrix with a NaN, an infinite or a negative cell (INVALID) is NaN throughout, other matrices are not
    affected, and it is reported as `on_failure` says. Synchronises the device unless `on_failure` is "ignore".
    Reproducible: same input, same bits, for any number of threads.

    References
    ----------
    Erbani et al., On the Normalization of Confusion Matrices, section 3 and appendix E.1.

    Examples
    --------
    >>> import cmfast
    >>> cmfast.normalize([[8, 2], [1, 3]], "row")
    array([[0.8 , 0.2 ],
           [0.25, 0.75]])
    """
    given: Any = method
    if not isinstance(given, str):
        refuse_labels_of_samples(M, given)
    by = _resolve_method(method, dict(options))
    if by == "bi":
        return ipf(M, on_failure=on_failure, num_threads=num_threads, progress=progress, **options).matrix
    return _run_by_sums("normalize", M, by, on_failure, num_threads, progress)


@overload
def importance_weights(
    M: DeviceT,
    /,
    method: Method | None = ...,
    *,
    target: DeviceT | None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
    progress: Progress = ...,
    **options: Unpack[BiOptions],
) -> DeviceT: ...
@overload
def importance_weights(
    M: ArrayLike,
    /,
    method: Method | None = ...,
    *,
    target: ArrayLike | None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
    progress: Progress = ...,
    **options: Unpack[BiOptions],
) -> Floats: ...
@explain_options
def importance_weights(
    M: Array,
    /,
    method: Method | None = None,
    *,
    target: Array = None,
    on_failure: OnFailure = None,
    num_threads: int | None = None,
    progress: Progress = None,
    **options: Unpack[BiOptions],
) -> Any:
    """Compute the importance weight of a sample, by true and predicted class, that gives the normalised matrix.

    Counting each sample with the weight ``w[y_true, y_pred]`` gives ``normalize(M, method)``, or another `target`.

    Parameters
    ----------
    M : array, shape (..., R, C)
        Confusion matrix of the samples; square for ``"bi"``.
    method : {"all", "row", "true", "col", "pred", "bi"}, optional
        As in :func:`normalize`.
    target : array, shape (..., R, C), optional
        Instead of `method`: the weighted matrix to reach, nonnegative, with any total. For shares of the true classes
        pass ``shares[:, None] * normalize(M, "row")``, for row and column sums
        ``ipf(M, row_sums, col_sums).matrix``. The leading axes broadcast with those of `M`.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about matrices that fail (see Notes).
        Default: as :func:`cmfast.config` says, first "warn".
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.
    progress : bool or callable, optional
        True shows a bar on stderr; a callable gets ``(done, total)`` in matrices.
    **options
        Options of :func:`ras` with ``"bi"``; otherwise none.

    Returns
    -------
    array, shape (..., R, C), float32 if all arrays are float32, else float64
        The table ``w``: ``w * M`` equals ``normalize(M, method)`` up to rounding (with `smoothing`, ``w`` times the
        smoothed matrix), or `target`; then ``w`` is zero where both are. Zero where the sum to divide by is zero. With
        ``"bi"`` a matrix that has only a limit gets the weights of that limit: zero where `M` or the limit is zero.
        Library and device of `M`.

    Raises
    ------
    TypeError, ValueError
        `M` is not real or not a matrix; a wrong option.

    See Also
    --------
    estimate_for_target : The weighted estimate, with its effective sample size.

    Notes
    -----
    Bad values: a matrix with a NaN, an infinite or a negative cell (INVALID), or so small that a weight leaves the
    range of the result (RANGE), gets a table of NaN, other matrices are not affected, and it is reported as
    `on_failure` says; with ``"bi"`` the failures and limits of :func:`ipf` are reported too; with `target` also a
    matrix that is zero where the target is not (INFEASIBLE). Synchronises the device unless `on_failure` is "ignore"
    and `method` uses sums only. Reproducible: same input, same bits, for any number of threads.

    References
    ----------
    Erbani et al., On the Normalization of Confusion Matrices, section 4.1 and appendix F.

    Examples
    --------
    >>> import cmfast
    >>> cmfast.importance_weights([[8, 2], [1, 4]], "row")
    array([[0.1, 0.1],
           [0.2, 0.2]])
    >>> cmfast.importance_weights(
    ...     [[8, 2], [1, 4]], target=[[0.6, 0.1], [0.1, 0.2]]
    ... )
    array([[0.075, 0.05 ],
           [0.1  , 0.05 ]])
    """
    if target is not None:
        _refuse_options_with_target(method, options)
        return _weigh_by_target(M, target, on_failure=on_failure, num_threads=num_threads, progress=progress)
    if method is None:
        unknown = next((name for name in options if name not in OPTIONS), None)
        if unknown is not None:
            validate.fail(describe_unknown_option(unknown, ("method", "target", *COMMON_OPTIONS, *OPTIONS)), TypeError)
        cure = 'importance_weights(M, "row"), or importance_weights(M, target=...)'
        validate.fail(f"method or target must be given: {cure}", TypeError)
    by = _resolve_method(method, dict(options))
    if by != "bi":
        return _run_by_sums("importance_weights", M, by, on_failure, num_threads, progress)
    return _weigh_by_factors(M, on_failure=on_failure, num_threads=num_threads, progress=progress, **options)


def _refuse_options_with_target(method: str | None, options: BiOptions) -> None:
    """Refuse `method` and its options together with `target`."""
    if method is not None:
        validate.fail(f"pass method or target, not both, got method {method!r}", TypeError)
    for name in options:
        validate.fail(f"target has no option {name!r}", TypeError)


@accept_dask_arrays(M="RC", target="RC")
def _weigh_by_target(
    M: Array, target: Array, *, on_failure: OnFailure, num_threads: int | None, progress: Progress
) -> Any:
    """Return the weights ``target / M``, with failures reported."""
    on_failure = validate.on_failure(on_failure)
    validate.num_threads(num_threads)
    validate.progress(progress)
    given = dispatch.adopt(op="importance_weights", M=M, target=target)
    validate.matrices(M=given[0], target=given[1])
    M_shape, target_shape = map(dispatch.shape_of, given)
    batch = validate.batch(M=M_shape[:-2], target=target_shape[:-2])
    cells, wanted = map(adapter(given[0]).unwrap, given)
    with np.errstate(all="ignore"):
        out, status = adapter(cells).evaluate(_weigh_samples, cells, wanted)

    def describe(index: tuple[int, ...]) -> str:
        """Return the reason why the matrix at `index` cannot be weighted to its target."""
        arrays = [np.broadcast_to(adapter(array).to_host(array), (*batch, *M_shape[-2:]))[index] for array in given]
        return explain_unreachable_target(*arrays)

    failures.report(status, on_failure, failed="matrices without weights", describe=describe)
    if tick := make_reporter(progress, "matrices"):
        tick(math.prod(batch), math.prod(batch))
    return adapter(given[0]).name_dimensions("(R,C),(R,C)->(R,C)", tuple(given), out)


def _weigh_samples(cells: Any, target: Any) -> tuple[Any, Any]:
    """Return ``target / cells``, NaN for matrices without such weights, and the statuses."""
    out, invalid, lacking, beyond = divide_by_samples(*match_types(cells, target))
    lacking = lacking & ~invalid
    beyond = beyond & ~invalid & ~lacking
    status = invalid * int(Status.INVALID) + lacking * int(Status.INFEASIBLE) + beyond * int(Status.RANGE)
    out[status != 0] = math.nan
    return out, status


def match_types(*arrays: Any) -> list[Any]:
    """Return float32 arrays unchanged if all are float32, else all as float64."""
    if all(adapter(array).dtype(array) == np.float32 for array in arrays):
        return list(arrays)
    return [adapter(array).cast(array, np.float64) for array in arrays]


def divide_by_samples(cells: Any, target: Any) -> tuple[Any, Any, Any, Any]:
    """Return ``target / cells``, zero where both are, and batch masks: invalid, without samples, out of range.

    The three masks may overlap.
    """
    sound = (cells >= 0) & (cells < math.inf) & (target >= 0) & (target < math.inf)
    out = target / (cells + (cells == 0))
    wrong = (~sound, (cells == 0) & (target > 0), out == math.inf)
    invalid, lacking, beyond = (mask.any(-1).any(-1) for mask in wrong)
    return out, invalid, lacking, beyond


def explain_unreachable_target(M: np.ndarray, target: np.ndarray) -> str:
    """Return the reason why no weights turn a matrix into the target."""
    lacking = np.argwhere((M == 0) & (target > 0))
    said = (
        f"the target is positive where M has no samples, at M{bad_values.format_index(lacking[0])}"
        if len(lacking)
        else ""
    )
    return bad_values.describe_bad_value(M=M, target=target) or said or OUT_OF_RANGE


@accept_dask_arrays(M="RC")
def _weigh_by_factors(M: Array, *, on_failure: OnFailure, **options: Any) -> Any:
    """Return the bi-normalisation weights, with failures reported."""
    on_failure = validate.on_failure(on_failure)
    out, status, why = compute_bi_weights(M, **options)
    failures.report(status, on_failure, failed=FAILED, describe=why, limit_is_answer=True)
    return out


def compute_bi_weights(
    M: Array, *, start: Start = None, num_threads: int | None = None, progress: Progress = None, **options: Any
) -> tuple[Any, Any, Callable[[tuple[int, ...]], str]]:
    """Return the bi-normalisation weights of a batch, their statuses, and a function that explains a failure."""
    rules = validate_rules(**options)
    result, describe = solve("ras", M, rules=rules, start=start, num_threads=num_threads, progress=progress)
    (M,) = dispatch.adopt(op="importance_weights", M=M)
    factors = (result.row_scale, result.col_scale, result.status)
    out, status = dispatch.call("importance_weights", M, *factors, method="bi", num_threads=num_threads)
    limits = adapter(out).evaluate(lambda codes: codes == Status.LIMIT_ONLY, result.status)
    if adapter(limits).any(limits):
        limit, describe = solve("ipf", M, rules=rules, start=start, num_threads=num_threads)
        out, status = adapter(out).evaluate(_insert_limit_weights, M, limit.matrix, limits, out, status)

    def why(index: tuple[int, ...]) -> str:
        """Return the reason why the matrix at `index` failed."""
        code, scaled = (adapter(codes).to_host(codes)[index] for codes in (status, result.status))
        return OUT_OF_RANGE if code != scaled else describe(index)

    return out, status, why


def _insert_limit_weights(M: Any, limit: Any, limits: Any, out: Any, status: Any) -> tuple[Any, Any]:
    """Return weights and statuses with those of the limits inserted: a limit has no factors, but has weights."""
    with np.errstate(over="ignore"):
        found = limit / (M + (M == 0))
    beyond = limits & (found == float("inf")).any(-1).any(-1)
    if bool(beyond.any()):
        found[beyond] = float("nan")
    if limits.ndim == 0:
        return found, status if not bool(beyond) else status * 0 + int(Status.RANGE)
    found[~limits] = out[~limits]
    return found, status + beyond * (int(Status.RANGE) - status)


@overload
def bi_normalize(
    M: DeviceT,
    /,
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
) -> DeviceT: ...
@overload
def bi_normalize(
    M: ArrayLike,
    /,
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
) -> Floats: ...
@overload
def bi_normalize(
    M: Sparse,
    /,
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
) -> Any: ...
@explain_options
def bi_normalize(
    M: Array,
    /,
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
) -> Any:
    """Scale confusion matrices so that every row and every column sums to one (bi-normalisation, doubly stochastic).

    Use it if classes differ in frequency; for other sums use :func:`ipf`.
    Returns the matrix of :func:`ipf` without targets. It answers: which confusion matrix would the classifier have if
    all classes were equally frequent and equally often predicted? It is the doubly stochastic matrix closest to `M` in
    Kullback-Leibler divergence.

    Parameters
    ----------
    M : array, shape (..., C, C)
        Nonnegative; with `logits` the logarithms of the cells, of any size. A matrix of scipy.sparse stays sparse.
    smoothing, empty, tol, max_iter, solver, start, logits, on_failure, num_threads, progress
        See :func:`ipf`.

    Returns
    -------
    array, shape (..., C, C), float32 if `M` is float32, else float64
        Library and device of `M`; CSR of a sparse one.

    Raises
    ------
    TypeError, ValueError
        `M` is not real or not square; a wrong option.

    Notes
    -----
    Bad values, synchronisation, reproducibility: as :func:`ipf`.

    References
    ----------
    Erbani et al., On the Normalization of Confusion Matrices, definition 1 and proposition 2.

    Examples
    --------
    >>> import cmfast
    >>> cmfast.bi_normalize([[80, 20], [1, 1]]).round(6)
    array([[0.666667, 0.333333],
           [0.333333, 0.666667]])
    """
    return ipf(
        M,
        smoothing=smoothing,
        empty=empty,
        tol=tol,
        max_iter=max_iter,
        solver=solver,
        start=start,
        logits=logits,
        on_failure=on_failure,
        num_threads=num_threads,
        progress=progress,
    ).matrix


@accept_dask_arrays(M="RC")
def _run_by_sums(
    op: str, M: Array, method: str, on_failure: OnFailure, num_threads: int | None, progress: Progress
) -> Any:
    """Run the op `op` with a normalisation by total, row or column sums, with failures reported."""
    on_failure = validate.on_failure(on_failure)
    validate.progress(progress)
    options = {"num_threads": validate.num_threads(num_threads), "progress": make_reporter(progress, "matrices")}
    M = dispatch.adopt_one("M", M, op)
    validate.matrices(M=M)
    factors = () if op == "normalize" else (None, None, None)
    out, status = dispatch.call(op, M, *factors, method=method, **options)
    failures.report(
        status, on_failure, failed=FAILED, describe=lambda index: explain_unnormalised(adapter(M).entry(M, index))
    )
    return out


def _resolve_method(method: Any, options: dict[str, Any]) -> str:
    """Return the canonical name of `method`; refuse options that it does not have."""
    validate.choice("method", method, METHODS)
    one = str(SYNONYMS.get(method, method))
    for name in options:
        if one != "bi" or name not in OPTIONS:
            near = suggest_option(name, (*COMMON_OPTIONS, *(OPTIONS if one == "bi" else ())))
            validate.fail(f"method {method!r} has no option {name!r}{near}", TypeError)
    return one
