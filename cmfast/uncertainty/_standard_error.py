"""Standard errors of metrics and of normalised cells by the delta method: ``standard_error``."""

from typing import Any, Literal, TypeAlias, get_args, overload

from numpy.typing import ArrayLike

from cmfast._core import dispatch, validate
from cmfast._core.annotations import Array, DeviceT, Floats, Ignored, Label, OnFailure, Undefined
from cmfast._core.lazy import accept_dask_arrays
from cmfast._core.usual_options import explain_options
from cmfast.metrics import _plan
from cmfast.metrics._evaluate import check_options, find_positive
from cmfast.metrics._names import MetricName, Names
from cmfast.uncertainty import _normalized_cells
from cmfast.uncertainty._clusters import compute_standard_errors, parse_cluster_axis, warn_of_lonely_units
from cmfast.uncertainty._from_labels import accept_labels
from cmfast.uncertainty._invalid_counts import report_invalid
from cmfast.uncertainty._normalized_cells import CellsOf

Fixed: TypeAlias = Literal["total", "rows"]
Of: TypeAlias = Literal["metrics"] | CellsOf


def _get_core_axes(values: dict[str, Any]) -> str:
    """Return the letters of the axes of `M` that must be in one chunk."""
    return "kCC" if values.get("clusters") or values.get("strata") is not None else "CC"


@overload
def standard_error(
    M: DeviceT,
    /,
    names: None = ...,
    *,
    of: CellsOf,
    fixed: Fixed = ...,
    clusters: Any = ...,
    strata: Any = ...,
    n: int | None = ...,
    undefined: Undefined = ...,
    pos_label: Label | None = ...,
    on_failure: OnFailure = ...,
    ignore_index: Ignored = ...,
    num_threads: int | None = ...,
) -> DeviceT: ...
@overload
def standard_error(
    M: DeviceT,
    /,
    names: MetricName,
    *,
    of: Literal["metrics"] = ...,
    fixed: Fixed = ...,
    clusters: Any = ...,
    strata: Any = ...,
    n: int | None = ...,
    undefined: Undefined = ...,
    pos_label: Label | None = ...,
    on_failure: OnFailure = ...,
    ignore_index: Ignored = ...,
    num_threads: int | None = ...,
) -> DeviceT: ...
@overload
def standard_error(
    M: DeviceT,
    /,
    names: Names = ...,
    *,
    of: Literal["metrics"] = ...,
    fixed: Fixed = ...,
    clusters: Any = ...,
    strata: Any = ...,
    n: int | None = ...,
    undefined: Undefined = ...,
    pos_label: Label | None = ...,
    on_failure: OnFailure = ...,
    ignore_index: Ignored = ...,
    num_threads: int | None = ...,
) -> dict[str, DeviceT]: ...
@overload
def standard_error(
    M: ArrayLike,
    /,
    names: None = ...,
    *,
    of: CellsOf,
    fixed: Fixed = ...,
    clusters: Any = ...,
    strata: Any = ...,
    n: int | None = ...,
    undefined: Undefined = ...,
    pos_label: Label | None = ...,
    on_failure: OnFailure = ...,
    ignore_index: Ignored = ...,
    num_threads: int | None = ...,
) -> Floats: ...
@overload
def standard_error(
    M: ArrayLike,
    /,
    names: MetricName,
    *,
    of: Literal["metrics"] = ...,
    fixed: Fixed = ...,
    clusters: Any = ...,
    strata: Any = ...,
    n: int | None = ...,
    undefined: Undefined = ...,
    pos_label: Label | None = ...,
    on_failure: OnFailure = ...,
    ignore_index: Ignored = ...,
    num_threads: int | None = ...,
) -> Floats: ...
@overload
def standard_error(
    M: ArrayLike,
    /,
    names: Names = ...,
    *,
    of: Literal["metrics"] = ...,
    fixed: Fixed = ...,
    clusters: Any = ...,
    strata: Any = ...,
    n: int | None = ...,
    undefined: Undefined = ...,
    pos_label: Label | None = ...,
    on_failure: OnFailure = ...,
    ignore_index: Ignored = ...,
    num_threads: int | None = ...,
) -> dict[str, Floats]: ...
@accept_labels
@explain_options
@accept_dask_arrays(M=_get_core_axes)
def standard_error(
    M: Array,
    /,
    names: Any = None,
    *,
    of: Of = "metrics",
    fixed: Fixed = "total",
    clusters: Any = False,
    strata: Any = None,
    n: int | None = None,
    undefined: Undefined = "present",
    pos_label: Label | None = None,
    on_failure: OnFailure = None,
    ignore_index: Ignored = None,
    num_threads: int | None = None,
) -> Any:
    """Compute the standard errors of metrics, or of normalised cells, by the delta method, without resampling.

    Parameters
    ----------
    M : array, shape (..., C, C), or ConfusionCounts
        Rows are the truth. Counts; or any shares of them if `n` is given. In its place two arrays of labels may stand,
        as for :meth:`cmfast.ConfusionCounts.update`: ``standard_error(y_true, y_pred, names)``; or a table, as for
        :func:`cmfast.by`, and its columns: ``standard_error(table, names, y_true="label", y_pred="guess")``. Labels of
        Dask, and its DataFrame, give a Delayed.
    names : str or list of str, optional
        As for :func:`cmfast.metrics.compute`.
    of : {"metrics", "all", "row", "true", "col", "pred", "bi"}
        Target: metrics, or the cells of the matrix that :func:`cmfast.normalize` returns; then leave `names` out.
    fixed : {"total", "rows"}
        What is fixed across test sets: the total (all cells are one multinomial draw), or the number of samples of
        each class (each row is a multinomial draw).
    clusters : bool, or array, shape (n,)
        True: `M` has shape (..., k, C, C), a matrix for each of k clusters (patients, documents), as
        :func:`cmfast.confusion_matrix` counts them with ``groups=``. If labels are given: the cluster of each
        sample, or the name of a column.
        The metric, or the normalised matrix, is that of their sum; clusters are the sampling units, not samples.
    strata : array, shape (k,) or (n,), optional
        The stratum of every matrix along the axis before the last two; the number of clusters (samples without
        `clusters`) per stratum is fixed. The metric is that of the sum. If labels are given: the stratum of each
        sample, the same for all samples of a cluster; or the names of one or several columns.
    n : int, optional
        Number of samples of a test set, or of clusters; default: that of `M`.
    undefined : {"present", "nan", "strict", "zero", "one"} or float
        Value of a 0/0, as for :func:`cmfast.metrics.compute`: a class whose value is filled in enters an average as
        a constant.
    pos_label : {1, 0}, optional
        The positive one of two classes, for binary names; default: 1.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about matrices with bad values (see Notes).
        Default: as :func:`cmfast.config` says, first "warn".
    ignore_index : int or str, or list of these, optional
        If labels are given: samples with this true label are ignored.
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Returns
    -------
    array, or dict of str to array
        Shape (...), or (..., C) for a metric per class; float64, or float32 for float32. Cells: shape (..., C, C),
        float64. Library and device of `M`. NaN where the metric is undefined or has no derivative, for instance with a
        recall of 0 in the geometric mean, every recall 1 in tau, tied smallest recalls in `min_recall`, one true or one
        predicted class in a correlation, also where one class against the rest is such a matrix; and for an `n` of 0.

    Raises
    ------
    TypeError, ValueError
        `M` is not square or not real; an unknown name; a binary name for more than two classes.

    Notes
    -----
    With the gradient ``g`` of a metric by the cells the variance is the sum of ``M (g - mean)**2``; `mean` is the mean
    of g over all samples, or over those of the row. Gradients are exact, by the chain rule through the margins that
    every metric is a function of. With clusters the variance is that of the sums of g over the samples of a cluster,
    times ``k / (k - 1)``. For cells of a bi-normalised matrix g is the derivative of the scaling: one linear system per
    matrix, that of Newton's last step. An empty cell stays empty and has error 0.

    The error is first order: near the ends of the range, or with few samples in a class, use an interval instead. From
    2**53 samples on, sums are rounded to float64, and errors that rest on a small difference of two of them are not
    exact; that of the accuracy is.

    Bad values: a negative, NaN or infinite cell, or a fraction without `n` (INVALID), gives NaN for that matrix and is
    reported as `on_failure` says. Synchronises the device unless `on_failure` is "ignore". Reproducible: same input,
    same bits, for any number of threads.

    References
    ----------
    Agresti, Categorical Data Analysis, 3rd edition, 2013, sections 16.1 and 16.2. Liang and Zeger, Longitudinal data
    analysis using generalized linear models, 1986, of clusters.

    Examples
    --------
    >>> import numpy as np
    >>> from cmfast import uncertainty
    >>> M = [[420, 15, 15], [10, 280, 10], [30, 20, 200]]
    >>> # sqrt(0.9 * 0.1 / 1000)
    >>> value = uncertainty.standard_error(M, "accuracy")
    >>> round(float(value), 6)
    0.009487
    >>> found = uncertainty.standard_error(
    ...     M, ["mcc", "f1_macro", "kappa"], fixed="rows"
    ... )
    >>> {name: round(float(error), 6) for name, error in found.items()}
    {'mcc': 0.014459, 'f1_macro': 0.01024, 'kappa': 0.014542}

    Cells of a normalised matrix:

    >>> uncertainty.standard_error(M, of="bi")[0].round(4).tolist()
    [0.0116, 0.0082, 0.0116]

    Four patients, with errors that repeat within a patient:

    >>> patients = [
    ...     [[9, 0], [0, 6]],
    ...     [[2, 7], [0, 6]],
    ...     [[8, 1], [1, 5]],
    ...     [[9, 0], [3, 2]],
    ... ]
    >>> value = uncertainty.standard_error(
    ...     patients, "accuracy", clusters=True
    ... )
    >>> round(float(value), 3)
    0.1
    >>> value = uncertainty.standard_error(
    ...     sum(map(np.array, patients)), "accuracy"
    ... )
    >>> round(float(value), 3)
    0.052
    """
    del ignore_index  # read where labels are counted, before this call
    validate.choice("fixed", fixed, get_args(Fixed))
    validate.choice("of", of, ("metrics", *get_args(CellsOf)))
    if of != "metrics" and names is not None:
        validate.refuse("names", f"left out with of={of!r}", validate.format_value(names))
    wanted = _plan.resolve_names(names, pos_label=pos_label)
    on_failure = check_options(undefined, on_failure)
    positive = find_positive(pos_label)
    num_threads = validate.num_threads(num_threads)
    if n is not None:
        n = validate.count("n", n)
    (M,) = dispatch.adopt(M=M)
    C, _ = validate.matrices(square=True, M=M)
    parts = parse_cluster_axis(M, clusters, strata, n)
    if parts is not None and validate.on_failure(on_failure) != "ignore":
        warn_of_lonely_units(parts, M)
    given = {"n": n, "on_failure": on_failure, "num_threads": num_threads}
    if parts is not None and fixed == "rows":
        validate.refuse("fixed", "total with clusters or strata", fixed)
    if of != "metrics":
        return _normalized_cells.compute_standard_errors(M, of, parts, rows=fixed == "rows", options=given)
    layout = _plan.make_plan(wanted, C, undefined, positive, argument="M")
    if parts is not None:
        return _plan.match_requested_type(names, wanted, compute_standard_errors(M, parts, layout, given))
    options = {"plan": layout.plan, "rows": fixed == "rows", "n": n}
    *found, status = dispatch.call("standard_errors", M, **options, num_threads=num_threads)
    report_invalid(status, on_failure, "matrices without standard errors", M)
    return _plan.match_requested_type(names, wanted, [found[place] for place in layout.positions])
