"""Evaluate many metrics in one pass over the matrices, or from their diagonals and margins."""

from collections.abc import Sequence
from typing import Any, overload

from numpy.typing import ArrayLike

from cmfast._core import validate
from cmfast._core.annotations import Array, DeviceT, Flags, Floats, Label, OnFailure, Sparse, Undefined
from cmfast._core.lazy import are_lazy
from cmfast._core.usual_options import explain_options
from cmfast.metrics import _plan
from cmfast.metrics._evaluate import evaluate, evaluate_lazy_sums, find_positive, get_ordered_sums
from cmfast.metrics._names import MetricName, Names
from cmfast.metrics._outputs import label_outputs


@overload
def compute(
    M: DeviceT,
    /,
    names: MetricName,
    *,
    undefined: Undefined = ...,
    pos_label: Label | None = ...,
    average_over: Sequence[int] | None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
    out: DeviceT | None = ...,
) -> DeviceT: ...
@overload
def compute(
    M: DeviceT,
    /,
    names: Names = ...,
    *,
    undefined: Undefined = ...,
    pos_label: Label | None = ...,
    average_over: Sequence[int] | None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
    out: dict[str, DeviceT] | None = ...,
) -> dict[str, DeviceT]: ...
@overload
def compute(
    M: ArrayLike | Sparse,
    /,
    names: MetricName,
    *,
    undefined: Undefined = ...,
    pos_label: Label | None = ...,
    average_over: Sequence[int] | None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
    out: Floats | None = ...,
) -> Floats: ...
@overload
def compute(
    M: ArrayLike | Sparse,
    /,
    names: Names = ...,
    *,
    undefined: Undefined = ...,
    pos_label: Label | None = ...,
    average_over: Sequence[int] | None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
    out: dict[str, Floats] | None = ...,
) -> dict[str, Floats]: ...
@explain_options
def compute(
    M: Array,
    /,
    names: str | Sequence[str] | None = None,
    *,
    undefined: Undefined = "present",
    pos_label: Label | None = None,
    average_over: Sequence[int] | None = None,
    on_failure: OnFailure = None,
    num_threads: int | None = None,
    out: Any = None,
) -> Any:
    """Compute any number of metrics of confusion matrices, in one pass over the cells.

    Parameters
    ----------
    M : array, shape (..., C, C)
        Rows are the truth. Counts or any normalisation of them; or one matrix of scipy.sparse.
    names : str or list of str, optional
        Names out of ``metrics.SCALARS``, ``metrics.PER_CLASS``, ``metrics.BINARY`` (two classes only), their aliases,
        ``fbeta_<beta>``, and ``tau_weighted_<weight>_<weight>...`` with a weight for each class. See the table in the
        documentation. Or ``"scalars"``, the default, or ``"per_class"``: all with one number per matrix, or per class.
    undefined : {"present", "nan", "strict", "zero", "one"} or float
        What a 0/0 gives, and which classes enter an average (see Notes).
    pos_label : label, optional
        The positive one of two classes, for binary names: 0 or 1, or a label of labelled counts; default: 1.
    average_over : sequence of int, optional
        Classes to average over and to return values of; all other classes remain negatives. Metrics of
        the whole matrix do not change. Default: all.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about matrices with bad values (see Notes).
        Default: as :func:`cmfast.config` says, first "warn".
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.
    out : array, or dict of str to array, optional
        Where to write the results: what an earlier call with these names returned for a batch of this shape, or other
        C-contiguous arrays of these shapes and this dtype, apart from `M` and from each other in memory. Saves the time
        in which the system clears new memory, a fifth of that of small matrices. Written also where `on_failure` is
        "raise" and a matrix fails. Not for sparse matrices, Dask and xarray, nor for tensors that require gradients.

    Returns
    -------
    array, or dict of str to array
        The array of one name, or one per name of several: shape (...), or (..., C) for a metric per class. float32 if
        `M` is, else float64. With `average_over` a metric per class has those alone, in their order. Library and
        device of `M`. `out`, if given.

    Raises
    ------
    TypeError, ValueError
        `M` is not real, or not square; an unknown name; a binary name for other than two classes; an array of `out`
        of another shape, dtype, library or device, that is read-only or strided, or overlaps another.

    Notes
    -----
    A 0/0 is a property of the data and never warns. ``"nan"``: NaN, averages run over the classes where the metric is
    defined. ``"strict"``: NaN, also for an average with one undefined class. ``"present"``: 0, averages run over the
    classes that are true or predicted at least once. A number from 0 to 1: the same with that number instead of 0
    (1 is the ``zero_division=1`` of torchmetrics). ``"zero"``, ``"one"``: 0 or 1, averages run over all classes.
    Averages weighted by the class counts leave classes of weight 0 out, under ``"strict"`` too. Scores that are
    corrected for chance get 0 instead of a number; but ``balanced_accuracy_adjusted`` is an average that is corrected
    afterwards: a recall is filled in as in the balanced accuracy, and it is 0 only of fewer than two classes.
    :func:`defined` tells where something was filled in.

    Bad values: a negative, NaN or infinite cell, or a total beyond int64 (INVALID), gives NaN for that matrix and is
    reported as `on_failure` says. Synchronises the device unless `on_failure` is "ignore". Reproducible: same input,
    same bits, for any number of threads. For integers every difference is exact: a coefficient near zero keeps its
    digits, and totals up to 2**63 do not overflow.

    Examples
    --------
    >>> from cmfast import metrics
    >>> M = [[420, 15, 15], [10, 280, 10], [30, 20, 200]]
    >>> found = metrics.compute(M, ["accuracy", "mcc", "recall"])
    >>> round(float(found["mcc"]), 6), found["recall"].round(3).tolist()
    (0.844933, [0.933, 0.933, 0.8])

    A series of batches of one shape, in the memory of the first results:

    >>> import numpy as np
    >>> batches = np.random.default_rng(0).integers(1, 100, (3, 1000, 4, 4))
    >>> found = metrics.compute(batches[0])
    >>> for batch in batches[1:]:
    ...     found = metrics.compute(batch, out=found)
    """
    wanted = _plan.resolve_names(names, pos_label=pos_label)
    if out is None:
        found = evaluate(M, wanted, undefined, pos_label, on_failure, num_threads, average_over)
        return _plan.match_requested_type(names, wanted, found)
    if are_lazy(M):
        validate.refuse("out", "None for a Dask array, which is computed later", type(out).__name__, TypeError)
    given = label_outputs(out, names, wanted)
    evaluate(M, wanted, undefined, pos_label, on_failure, num_threads, average_over, given)
    return out


@overload
def from_sums(
    d: DeviceT,
    t: DeviceT,
    p: DeviceT,
    names: MetricName,
    *,
    bands: DeviceT | None = ...,
    tops: DeviceT | None = ...,
    undefined: Undefined = ...,
    pos_label: Label | None = ...,
    average_over: Sequence[int] | None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> DeviceT: ...
@overload
def from_sums(
    d: DeviceT,
    t: DeviceT,
    p: DeviceT,
    names: Names = ...,
    *,
    bands: DeviceT | None = ...,
    tops: DeviceT | None = ...,
    undefined: Undefined = ...,
    pos_label: Label | None = ...,
    average_over: Sequence[int] | None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> dict[str, DeviceT]: ...
@overload
def from_sums(
    d: ArrayLike,
    t: ArrayLike,
    p: ArrayLike,
    names: MetricName,
    *,
    bands: ArrayLike | None = ...,
    tops: ArrayLike | None = ...,
    undefined: Undefined = ...,
    pos_label: Label | None = ...,
    average_over: Sequence[int] | None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> Floats: ...
@overload
def from_sums(
    d: ArrayLike,
    t: ArrayLike,
    p: ArrayLike,
    names: Names = ...,
    *,
    bands: ArrayLike | None = ...,
    tops: ArrayLike | None = ...,
    undefined: Undefined = ...,
    pos_label: Label | None = ...,
    average_over: Sequence[int] | None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> dict[str, Floats]: ...
@explain_options
def from_sums(
    d: Array,
    t: Array,
    p: Array,
    names: str | Sequence[str] | None = None,
    *,
    bands: Array | None = None,
    tops: Array | None = None,
    undefined: Undefined = "present",
    pos_label: Label | None = None,
    average_over: Sequence[int] | None = None,
    on_failure: OnFailure = None,
    num_threads: int | None = None,
) -> Any:
    """Compute any number of metrics from the diagonal and the margins alone, without a matrix.

    With tens of thousands of classes a matrix does not fit into memory, but three histograms do: of the correctly
    predicted labels, of the true labels and of the predicted labels (:func:`from_labels` computes them).

    Parameters
    ----------
    d, t, p : array, shape (..., C)
        Diagonal, row sums (truth), column sums (prediction).
    names : str or list of str, optional
        As for :func:`compute`; ``"scalars"``, the default, means those that can be computed from the given sums.
    bands, tops : array, shape (..., C), optional
        The two sums of :class:`Margins` that metrics of ordered classes need: the linear and the quadratic kappa need
        `bands`, ``gerrity`` needs both.
    undefined : {"present", "nan", "strict", "zero", "one"} or float
        What a 0/0 gives, as for :func:`compute`.
    pos_label : label, optional
        The positive one of two classes, for binary names: 0 or 1, or a label of labelled counts; default: 1.
    average_over : sequence of int, optional
        Classes to average over and to return values of; all other classes remain negatives. Metrics of
        the whole matrix do not change. Default: all.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about sums that no matrix has (see Notes).
        Default: as :func:`cmfast.config` says, first "warn".
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Returns
    -------
    array, or dict of str to array
        Bitwise equal to what :func:`compute` gives for a matrix with these sums.

    Raises
    ------
    TypeError, ValueError
        Shapes that differ, arrays that are not real, an unknown name, a name that needs sums that were not given.

    Notes
    -----
    Bad values: sums that no matrix can have (INVALID: negative, NaN, infinite, a diagonal above a margin, margins
    with two totals) give NaN for that element and are reported as `on_failure` says. Synchronises the device unless
    `on_failure` is "ignore". Reproducible: same input, same bits, for any number of threads.

    Examples
    --------
    >>> from cmfast import metrics
    >>> value = metrics.from_sums(
    ...     [420, 280, 200], [450, 300, 250], [460, 315, 225], "mcc"
    ... )
    >>> round(float(value), 6)
    0.844933
    """
    sums = {"d": d, "t": t, "p": p, "bands": bands, "tops": tops}
    wanted = _plan.resolve_names(names, pos_label=pos_label)
    if _plan.is_group(names):
        there = {name for name in ("bands", "tops") if sums[name] is not None}
        wanted = tuple(name for name in wanted if there.issuperset(get_ordered_sums(name)))
    positive = find_positive(pos_label)
    found = evaluate_lazy_sums(wanted, undefined, positive, on_failure, num_threads, average_over, **sums)
    return _plan.match_requested_type(names, wanted, found)


@overload
def defined(
    M: DeviceT,
    /,
    name: MetricName,
    *,
    num_threads: int | None = ...,
) -> DeviceT: ...
@overload
def defined(
    M: ArrayLike | Sparse,
    /,
    name: MetricName,
    *,
    num_threads: int | None = ...,
) -> Flags: ...
@explain_options
def defined(M: Array, /, name: str, *, num_threads: int | None = None) -> Any:
    """Return whether a metric is defined: True where no 0/0 was filled in or left out of an average.

    Parameters
    ----------
    M : array, shape (..., C, C)
        Rows are the truth. Counts or any normalisation of them.
    name : str
        As for :func:`compute`.
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Returns
    -------
    array of bool, shape (...) or (..., C)
        True where the policy ``"strict"`` gives a number; False also where the matrix has a bad value.

    Notes
    -----
    Bad values: False, never reported. Does not synchronise the device. Reproducible: same input, same bits.

    Examples
    --------
    >>> from cmfast import metrics
    >>> # class 1 is never predicted
    >>> found = metrics.defined([[9500, 0], [500, 0]], "precision")
    >>> found.tolist()
    [True, False]
    """
    if not isinstance(name, str):
        validate.refuse("name", "one name", validate.format_value(name), TypeError)
    value = evaluate(M, _plan.resolve_names([name], "name"), "strict", 1, "ignore", num_threads)[0]
    return value == value  # noqa: PLR0124 - NaN alone differs from itself, in every array library
