"""Compare two confusion matrices independently of their totals: overlap, L1 distance, Kullback-Leibler divergence."""

from typing import Any, overload

from numpy.typing import ArrayLike

from cmfast._core import dispatch, failures, validate
from cmfast._core.annotations import Array, DeviceT, Floats, OnFailure
from cmfast._core.lazy import accept_dask_arrays

__all__ = ["kl_divergence", "l1_distance", "overlap"]


@accept_dask_arrays(S="RC", T="RC", P="RC", Q="RC")
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
    S: DeviceT,
    T: DeviceT,
    /,
    *,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> DeviceT: ...
@overload
def overlap(
    S: ArrayLike,
    T: ArrayLike,
    /,
    *,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> Floats: ...
def overlap(S: Array, T: Array, /, *, on_failure: OnFailure = None, num_threads: int | None = None) -> Any:
    """Compute the share of mass that two matrices have in common, after dividing each by its total.

    Parameters
    ----------
    S, T : array, shape (..., R, C)
        Nonnegative; counts or any normalisation of them. The leading axes broadcast.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about pairs without a valid result (see Notes).
        Default: as :func:`cmfast.config` says, first "warn".
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Returns
    -------
    array, shape (...), float32 if both are float32, else float64
        ``sum(minimum(S / S.sum(), T / T.sum()))``, in [0, 1]: 1 if and only if the matrices are proportional. Library
        and device of `S`.

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
    return _compare("overlap", on_failure, num_threads, S=S, T=T)


@overload
def l1_distance(
    S: DeviceT,
    T: DeviceT,
    /,
    *,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> DeviceT: ...
@overload
def l1_distance(
    S: ArrayLike,
    T: ArrayLike,
    /,
    *,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> Floats: ...
def l1_distance(S: Array, T: Array, /, *, on_failure: OnFailure = None, num_threads: int | None = None) -> Any:
    """Compute the L1 distance of two matrices, after dividing each by its total.

    Parameters
    ----------
    S, T : array, shape (..., R, C)
        Nonnegative; counts or any normalisation of them. The leading axes broadcast.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about pairs without a valid result (see Notes).
        Default: as :func:`cmfast.config` says, first "warn".
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Returns
    -------
    array, shape (...), float32 if both are float32, else float64
        ``sum(abs(S / S.sum() - T / T.sum()))``, in [0, 2]. Library and device of `S`.

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
    >>> round(float(cmfast.l1_distance([[9, 1], [2, 8]], [[8, 2], [2, 8]])), 12)
    0.1
    """
    return _compare("l1_distance", on_failure, num_threads, S=S, T=T)


@overload
def kl_divergence(
    P: DeviceT,
    Q: DeviceT,
    /,
    *,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> DeviceT: ...
@overload
def kl_divergence(
    P: ArrayLike,
    Q: ArrayLike,
    /,
    *,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> Floats: ...
def kl_divergence(P: Array, Q: Array, /, *, on_failure: OnFailure = None, num_threads: int | None = None) -> Any:
    """Compute the Kullback-Leibler divergence from `Q` to `P` in nats, after dividing each by its total.

    Parameters
    ----------
    P, Q : array, shape (..., R, C)
        Nonnegative; counts or any normalisation of them. The leading axes broadcast.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about pairs without a valid result (see Notes).
        Default: as :func:`cmfast.config` says, first "warn".
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Returns
    -------
    array, shape (...), float32 if both are float32, else float64
        ``sum(p * log(p / q))`` with ``p = P / P.sum()``, ``q = Q / Q.sum()``; a cell with ``p = 0`` adds 0, a
        cell with ``q = 0 < p`` infinity. Library and device of `P`.

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
    return _compare("kl_divergence", on_failure, num_threads, P=P, Q=Q)
