"""Compare two confusion matrices independently of their totals: overlap, L1 distance, Kullback-Leibler divergence."""

from typing import Any, overload

from numpy.typing import ArrayLike

from cmfast._core import dispatch, failures, validate
from cmfast._core.annotations import Array, DeviceT, Floats, OnFailure
from cmfast._core.lazy import accept_dask_arrays
from cmfast._core.usual_options import explain_options

__all__ = ["kl_divergence", "l1_distance", "overlap"]


@accept_dask_arrays(A="RC", B="RC")
def _compare(op: str, on_failure: OnFailure, num_threads: int | None, **pair: Array) -> Any:
    """Validate two arguments and run comparison `op` on their batch."""
    on_failure = validate.on_failure(on_failure)
    num_threads = validate.num_threads(num_threads)
    first, second = dispatch.adopt(op=op, **pair)
    adopted = dict(zip(pair, (first, second), strict=True))
    validate.matrices(**adopted)
    validate.batch(**{name: dispatch.shape_of(a)[:-2] for name, a in adopted.items()})
    out, status = dispatch.call(op, first, second, num_threads=num_threads)
    failures.report(status, on_failure, failed="pairs of matrices not compared")
    return out


@overload
def overlap(
    A: DeviceT,
    B: DeviceT,
    /,
    *,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> DeviceT: ...
@overload
def overlap(
    A: ArrayLike,
    B: ArrayLike,
    /,
    *,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> Floats: ...
@explain_options
def overlap(A: Array, B: Array, /, *, on_failure: OnFailure = None, num_threads: int | None = None) -> Any:
    """Compute the share of mass that two matrices have in common, after dividing each by its total.

    Parameters
    ----------
    A, B : array, shape (..., R, C)
        Nonnegative; counts or any normalisation of them. The leading axes broadcast.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about pairs without a valid result (see Notes).
        Default: as :func:`cmfast.config` says, first "warn".
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Returns
    -------
    array, shape (...), float32 if both are float32, else float64
        ``sum(minimum(A / A.sum(), B / B.sum()))``, in [0, 1]: 1 if and only if the matrices are proportional. Library
        and device of `A`.

    Raises
    ------
    TypeError, ValueError
        Arrays of two libraries or devices, or not real; shapes that do not agree.

    See Also
    --------
    l1_distance : ``2 - 2 * overlap``, accurate for nearly equal matrices.

    Notes
    -----
    Bad values: a pair with a NaN, infinite or negative cell or a total that overflows float64 (INVALID), or with an
    all-zero matrix (ZERO_LINE), gives NaN for this pair only and is reported as `on_failure` says. Synchronises the
    device unless `on_failure` is "ignore". Reproducible: same input, same bits, for any number of threads.

    References
    ----------
    Erbani et al., On the Normalization of Confusion Matrices, section 5.3.

    Examples
    --------
    >>> import cmfast
    >>> round(float(cmfast.overlap([[9, 1], [2, 8]], [[8, 2], [2, 8]])), 12)
    0.95
    """
    return _compare("overlap", on_failure, num_threads, A=A, B=B)


@overload
def l1_distance(
    A: DeviceT,
    B: DeviceT,
    /,
    *,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> DeviceT: ...
@overload
def l1_distance(
    A: ArrayLike,
    B: ArrayLike,
    /,
    *,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> Floats: ...
@explain_options
def l1_distance(A: Array, B: Array, /, *, on_failure: OnFailure = None, num_threads: int | None = None) -> Any:
    """Compute the L1 distance of two matrices, after dividing each by its total.

    Parameters
    ----------
    A, B : array, shape (..., R, C)
        Nonnegative; counts or any normalisation of them. The leading axes broadcast.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about pairs without a valid result (see Notes).
        Default: as :func:`cmfast.config` says, first "warn".
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Returns
    -------
    array, shape (...), float32 if both are float32, else float64
        ``sum(abs(A / A.sum() - B / B.sum()))``, in [0, 2]. Library and device of `A`.

    Raises
    ------
    TypeError, ValueError
        Arrays of two libraries or devices, or not real; shapes that do not agree.

    See Also
    --------
    overlap : ``1 - l1_distance / 2``.

    Notes
    -----
    Bad values: a pair with a NaN, infinite or negative cell or a total that overflows float64 (INVALID), or with an
    all-zero matrix (ZERO_LINE), gives NaN for this pair only and is reported as `on_failure` says. Synchronises the
    device unless `on_failure` is "ignore". Reproducible: same input, same bits, for any number of threads.

    References
    ----------
    Erbani et al., On the Normalization of Confusion Matrices, appendix C.2.

    Examples
    --------
    >>> import cmfast
    >>> value = cmfast.l1_distance([[9, 1], [2, 8]], [[8, 2], [2, 8]])
    >>> round(float(value), 12)
    0.1
    """
    return _compare("l1_distance", on_failure, num_threads, A=A, B=B)


@overload
def kl_divergence(
    A: DeviceT,
    B: DeviceT,
    /,
    *,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> DeviceT: ...
@overload
def kl_divergence(
    A: ArrayLike,
    B: ArrayLike,
    /,
    *,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> Floats: ...
@explain_options
def kl_divergence(A: Array, B: Array, /, *, on_failure: OnFailure = None, num_threads: int | None = None) -> Any:
    """Compute the Kullback-Leibler divergence from `B` to `A` in nats, after dividing each by its total.

    Parameters
    ----------
    A, B : array, shape (..., R, C)
        Nonnegative; counts or any normalisation of them. The leading axes broadcast.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about pairs without a valid result (see Notes).
        Default: as :func:`cmfast.config` says, first "warn".
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Returns
    -------
    array, shape (...), float32 if both are float32, else float64
        ``sum(p * log(p / q))`` with ``p = A / A.sum()``, ``q = B / B.sum()``; a cell with ``p = 0`` adds 0, a
        cell with ``q = 0 < p`` infinity. Library and device of `A`.

    Raises
    ------
    TypeError, ValueError
        Arrays of two libraries or devices, or not real; shapes that do not agree.

    Notes
    -----
    Bad values: a pair with a NaN, infinite or negative cell or a total that overflows float64 (INVALID), or with an
    all-zero matrix (ZERO_LINE), gives NaN for this pair only and is reported as `on_failure` says. Synchronises the
    device unless `on_failure` is "ignore". Reproducible: same input, same bits, for any number of threads.

    References
    ----------
    Erbani et al., On the Normalization of Confusion Matrices, sections 3.1 and 6 (figure 6).

    Examples
    --------
    >>> import cmfast
    >>> round(float(cmfast.kl_divergence([[1, 1]], [[1, 3]])), 12)
    0.143841036226
    """
    return _compare("kl_divergence", on_failure, num_threads, A=A, B=B)
