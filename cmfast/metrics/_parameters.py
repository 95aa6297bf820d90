"""Metrics that take a parameter: F-beta, weighted kappa, weighted tau."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, TypeAlias, get_args, overload

import numpy as np
from numpy.typing import ArrayLike

from cmfast._core import bad_values, dispatch, failures, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, DeviceT, Floats, Label, OnFailure, Sparse, Undefined
from cmfast._core.lazy import accept_dask_arrays
from cmfast.metrics import _plan
from cmfast.metrics._catalogue import FORMS
from cmfast.metrics._evaluate import FAILED
from cmfast.metrics._single import Average, evaluate_average, evaluate_one, explain_label_calls

Weighting: TypeAlias = Literal["linear", "quadratic"]


@overload
def fbeta(
    M: DeviceT,
    /,
    beta: float,
    *,
    average: Average = ...,
    pos_label: Label | None = ...,
    average_over: Sequence[int] | None = ...,
    undefined: Undefined = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> DeviceT: ...
@overload
def fbeta(
    M: ArrayLike | Sparse,
    /,
    beta: float,
    *,
    average: Average = ...,
    pos_label: Label | None = ...,
    average_over: Sequence[int] | None = ...,
    undefined: Undefined = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> Floats: ...
@explain_label_calls
def fbeta(
    M: Array,
    /,
    beta: float,
    *,
    average: Average = None,
    pos_label: Label | None = None,
    average_over: Sequence[int] | None = None,
    undefined: Undefined = "present",
    on_failure: OnFailure = None,
    num_threads: int | None = None,
) -> Any:
    """Compute F-beta per class: ``(1 + beta^2) d / (beta^2 t + p)``; recall has `beta` times the weight of precision.

    Shape (..., C); with `average` shape (...). Options as for :func:`compute`. `beta` may be 0, which gives
    :func:`precision`, and infinite, which gives :func:`recall`.
    """
    beta = validate.nonnegative("beta", beta)
    return evaluate_average(f"fbeta_{beta!r}", M, average, undefined, on_failure, num_threads, pos_label, average_over)


@overload
def kappa(
    M: DeviceT,
    /,
    *,
    weights: Weighting | Array | None = ...,
    undefined: Undefined = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> DeviceT: ...
@overload
def kappa(
    M: ArrayLike | Sparse,
    /,
    *,
    weights: Weighting | ArrayLike | None = ...,
    undefined: Undefined = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> Floats: ...
@explain_label_calls
@accept_dask_arrays(M="CC")
def kappa(
    M: Array,
    /,
    *,
    weights: Weighting | Array | None = None,
    undefined: Undefined = "present",
    on_failure: OnFailure = None,
    num_threads: int | None = None,
) -> Any:
    """Compute Cohen's kappa: agreement beyond chance, ``(n a - e) / sum t (n - p)``; also the Heidke skill score.

    Shape (...). Options as for :func:`compute`, and:

    Parameters
    ----------
    M : array, shape (..., C, C)
        Rows are the truth. Counts or any normalisation of them.
    weights : {None, "linear", "quadratic"} or array of shape (C, C)
        Disagreement of every pair of classes: 1 for all, ``abs(i - j)``, ``(i - j)^2``, or a custom table,
        nonnegative with a zero diagonal; a common factor cancels. Agreement weights v are ``1 - v``.
    undefined : {"present", "nan", "strict", "zero", "one"} or float
        Value of a 0/0: NaN or 0.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about matrices with bad values; bad values in `weights` make every matrix fail.
        Default: as :func:`cmfast.config` says, first "warn".
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Examples
    --------
    >>> from cmfast import metrics
    >>> M = [[420, 15, 15], [10, 280, 10], [30, 20, 200]]
    >>> (
    ...     round(float(metrics.kappa(M)), 6),
    ...     round(float(metrics.kappa(M, weights="linear")), 6),
    ... )
    (0.844297, 0.831101)
    >>> value = metrics.kappa(M, weights=[[0, 1, 2], [1, 0, 1], [4, 2, 0]])
    >>> round(float(value), 6)
    0.807239
    """
    if weights is None:
        return evaluate_one("kappa", M, undefined, on_failure, num_threads)
    if isinstance(weights, str):
        validate.choice("weights", weights, get_args(Weighting))
        return evaluate_one(f"kappa_{weights}", M, undefined, on_failure, num_threads)
    _plan.check_undefined(undefined)
    on_failure = validate.on_failure(on_failure)
    num_threads = validate.num_threads(num_threads)
    M, weights = dispatch.adopt(M=M, weights=weights)
    C, _ = validate.matrices(square=True, M=M)
    validate.real(weights=weights)
    if dispatch.shape_of(weights) != (C, C):
        validate.refuse("weights", f"of shape {(C, C)}", f"shape {dispatch.shape_of(weights)}")
    filling = _plan.get_undefined_value(FORMS["kappa"].metric, undefined)
    out, status = dispatch.call("weighted_kappa", M, weights, fill=filling, num_threads=num_threads)
    failures.report(status, on_failure, failed=FAILED, why=partial(_explain_missing_kappa, M, weights))
    return out


def _explain_missing_kappa(M: Array, weights: Array, index: tuple[int, ...]) -> str:
    """Return a text that says why the matrix at `index` has no kappa: bad weights or bad cells."""
    table = adapter(weights).to_host(weights)
    on = np.flatnonzero(np.diagonal(table))
    return bad_values.describe_bad_value(weights=table) or (
        f"weights{bad_values.format_index((on[0], on[0]))} is not 0" if on.size else bad_values.explain_sum(M, index)
    )


@overload
def tau_weighted(
    M: DeviceT,
    /,
    weights: DeviceT,
    *,
    v: float = ...,
    normalize: bool = ...,
    undefined: Undefined = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> DeviceT: ...
@overload
def tau_weighted(
    M: ArrayLike,
    /,
    weights: ArrayLike,
    *,
    v: float = ...,
    normalize: bool = ...,
    undefined: Undefined = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> Floats: ...
@accept_dask_arrays(M="CC")
def tau_weighted(
    M: Array,
    /,
    weights: Array,
    *,
    v: float = 1.0,
    normalize: bool = False,
    undefined: Undefined = "present",
    on_failure: OnFailure = None,
    num_threads: int | None = None,
) -> Any:
    """Compute tau with class weights (Ahmadzadeh et al., Contingency Space, definitions 5.5 and 5.8).

    Shape (...). Options as for :func:`compute`, and:

    Parameters
    ----------
    M : array, shape (..., C, C)
        Rows are the truth. Counts or any normalisation of them.
    weights : array, shape (C,)
        Nonnegative weights of the recalls, in the order of the classes, on the host (the authors' code takes them as
        (tpr, tnr), that is positive class first).
    v : float
        Exponent of the normalised form, factor of the unnormalised form.
    normalize : bool
        False: ``v - v sqrt(q / K)`` with ``q = sum w (1 - recall)^2`` over K classes, as in the paper: at most v,
        without a lower bound (weights above one make it negative). True: ``(1 - sqrt(q / sum w))^v``, in [0, 1].
    undefined : {"present", "nan", "strict", "zero", "one"} or float
        Value of a recall that is 0/0, and which classes count.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about matrices with bad values.
        Default: as :func:`cmfast.config` says, first "warn".
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Examples
    --------
    >>> from cmfast import metrics
    >>> M = [[0, 5], [5, 0]]
    >>> (
    ...     round(float(metrics.tau_weighted(M, [10, 10])), 2),
    ...     float(metrics.tau_weighted(M, [10, 10], normalize=True)),
    ... )
    (-2.16, 0.0)
    """
    _plan.check_undefined(undefined)
    on_failure = validate.on_failure(on_failure)
    num_threads = validate.num_threads(num_threads)
    v = validate.positive("v", v)
    validate.flag("normalize", normalize)
    M = dispatch.adopt_one("M", M, "metrics_of_matrices")
    C, _ = validate.matrices(square=True, M=M)
    table = _validate_class_weights(weights, C)
    plan = _plan.make_tau_plan(table, v, normalize=normalize, undefined=undefined)
    out, status = dispatch.call("metrics_of_matrices", M, plan=plan, num_threads=num_threads)
    failures.report(status, on_failure, failed=FAILED, why=partial(bad_values.explain_sum, M))
    return out


def _validate_class_weights(weights: Array, C: int) -> Any:
    """Validate the class weights of tau and return them as a float64 array on the host."""
    (adopted,) = dispatch.adopt(weights=weights)
    validate.real(weights=adopted)
    table = np.array(adapter(adopted).to_host(adopted), np.float64, order="C")  # writable, as all parts of plans
    if table.shape != (C,):
        validate.refuse("weights", f"of shape {(C,)}", f"shape {table.shape}")
    if not (np.isfinite(table).all() and (table >= 0).all()):
        validate.refuse("weights", "finite and nonnegative", table.tolist())
    return table
