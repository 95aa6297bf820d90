"""Areas under ROC curves of several models on the same samples, and their covariances (``auc_covariance``)."""

from collections.abc import Mapping, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmfast._core import axis_names, dispatch, lazy, table_columns, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import AreaName, Array, DeviceT, OnFailure
from cmfast._core.lazy import accept_dask_arrays
from cmfast._core.usual_options import explain_options
from cmfast.metrics._thresholds import adopt_scores
from cmfast.uncertainty import _area_influences
from cmfast.uncertainty._areas import AREA, AVERAGES, ELSEWHERE, SCORES, SIZES, WEIGHTED, AucCovariance, compute_areas
from cmfast.uncertainty._newcombe import count_class_sizes

MODEL = "model"  # the axis of models


@overload
def auc_covariance(
    table: Any, /, *, y_true: str, y_score: str | Sequence[str] | Mapping[str, Any], **options: Any
) -> AucCovariance[NDArray[Any]]: ...
@overload
def auc_covariance(
    y_true: DeviceT,
    y_score: DeviceT,
    *,
    name: AreaName = ...,
    sample_weight: DeviceT | None = ...,
    clusters: Any = ...,
    max_fpr: float | None = ...,
    pos_label: int | str | None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> AucCovariance[DeviceT]: ...
@overload
def auc_covariance(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    name: AreaName = ...,
    sample_weight: ArrayLike | None = ...,
    clusters: Any = ...,
    max_fpr: float | None = ...,
    pos_label: int | str | None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> AucCovariance[NDArray[Any]]: ...
@table_columns.accept_table(
    ("y_true", "y_score"), ("sample_weight", "clusters"), several=("y_score",), blocks=("y_score",)
)
@explain_options
def auc_covariance(
    y_true: Array,
    y_score: Array,
    *,
    name: AreaName = "roc_auc",
    sample_weight: Array | None = None,
    clusters: Any = None,
    max_fpr: float | None = None,
    pos_label: int | str | None = None,
    on_failure: OnFailure = None,
    num_threads: int | None = None,
) -> AucCovariance[Any]:
    """Compute the areas under the ROC curves of several models on the same samples, and their covariances.

    Parameters
    ----------
    y_true : array of int, bool or str, shape (..., n)
        1 for positive samples, 0 or -1 for the others; with `pos_label` any labels. For averages over classes any
        labels. Or a table, and names of its columns:
        ``auc_covariance(table, y_true="label", y_score=["new", "old"])``, as `sample_weight` and `clusters`, too. Of
        averages over classes `y_score` is a dict with the list of the columns of each model.
    y_score : array, shape (..., K, n), or dict of str to array
        A row of scores for each of K models; higher means more likely positive. For averages over classes shape
        (..., K, n, C), with a column for each of the sorted labels of all problems of the batch. Of a dict the result
        knows the names of the models.
    name : str
        Area, as for :func:`interval`: "roc_auc", "average_precision", "roc_auc_ovr", "roc_auc_ovo",
        "roc_auc_ovr_weighted" or "roc_auc_ovo_weighted".
    sample_weight : array, shape (..., n), optional
        Weight of each sample, such as the inverse of its probability to be sampled; default 1. A sample of weight 2
        counts twice in the areas and is still one observation; repeat samples that were observed twice. A common factor
        changes nothing.
    clusters : array, shape (..., n), optional
        The cluster of each sample, such as its patient: samples of one cluster may depend on each other.
    max_fpr : float, optional
        For "roc_auc": areas up to this false positive rate, as for :func:`interval`.
    pos_label : int or str, optional
        The label of positive samples, all others being negative. Default: 1 among 0 and 1, or -1 and 1.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about elements of the batch with bad values (see Notes).
        Default: as :func:`cmfast.config` says, first "warn".
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Returns
    -------
    AucCovariance
        Areas, covariances and standard errors. Library and device of `y_score`. Lazy for Dask arrays: a Delayed for
        other areas than "roc_auc", with `clusters` or with `max_fpr`.

    Raises
    ------
    TypeError, ValueError
        As for :func:`cmfast.metrics.threshold_matrices`; a `y_score` without an axis of models; an option that the
        area does not have.
    OverflowError
        2**30 samples or more.
    NotImplementedError
        Arrays on a GPU: only the CPU has a kernel.

    Warns
    -----
    DiagnosticWarning
        An area, or a standard error, that is NaN because a class has no sample, or one. Standard errors that are too
        small: those of fewer than twelve clusters; and those of uneven weights that leave a class an effective size
        (Kish) below 20 samples and below 75 % of its number, for averages over classes below 8, as measured in
        docs/uncertainty.md. Never if `on_failure` is "ignore".

    Notes
    -----
    The area is the probability that a positive sample scores higher than a negative one, ties counting half. The
    placement of a positive sample is the share of negative ones below it, that of a negative sample the share of
    positive ones above it. The covariance of two areas is the covariance of their placements over the positive samples,
    divided by their number, plus the same over the negative samples. Both numbers count as fixed. Placements follow
    from one sort, so a model takes O(n log n). With weights the shares are weighted, and the covariance is that of two
    weighted means, by linearisation.

    A difference, or another linear function ``L @ auc`` of the areas, has the covariance ``L @ covariance @ L.T``.

    All other areas, and clusters, have the covariance of the sums of influences of samples (infinitesimal jackknife).
    DeLong's covariance is a special case. The influence of a sample is the derivative of the area by its weight, times
    this weight. With clusters the influences of their samples are added first, and numbers of samples are random.

    A batch of "roc_auc" of two classes runs in one kernel. All other areas, and those with clusters, are computed one
    problem after another by NumPy, in a Python loop: a thousand problems of a thousand scores take 0.4 s for average
    precision and 2 s for one-vs-one averages of three classes, where scikit-learn takes 3 and 12 s for areas alone.

    An area is NaN without a positive or a negative sample, and a covariance with fewer than two of either. If a model
    ranks all positive samples above all others, its variance is 0, which says little about other samples.

    Bad values: an element with a NaN score, a label other than 0, 1 and -1, or a weight that is negative or not finite
    (INVALID) gives NaN for all its models and is reported as `on_failure` says. Synchronises the device. Reproducible:
    the same bits for any number of threads.

    References
    ----------
    DeLong, DeLong and Clarke-Pearson, Comparing the areas under two or more correlated receiver operating
    characteristic curves: a nonparametric approach, 1988. Sun and Xu, Fast implementation of DeLong's algorithm for
    comparing the areas under correlated receiver operating characteristic curves, 2014.

    Examples
    --------
    >>> from cmfast import uncertainty
    >>> y = [1, 1, 1, 0, 0, 0]
    >>> found = uncertainty.auc_covariance(
    ...     y,
    ...     [[0.9, 0.8, 0.3, 0.5, 0.2, 0.1], [0.7, 0.9, 0.4, 0.6, 0.5, 0.2]],
    ... )
    >>> found.auc.round(3).tolist(), found.standard_error.round(3).tolist()
    ([0.889, 0.778], [0.157, 0.248])

    Scores in columns of a table:

    >>> import pandas as pd
    >>> table = pd.DataFrame(
    ...     {
    ...         "label": y,
    ...         "new": [0.9, 0.8, 0.3, 0.5, 0.2, 0.1],
    ...         "old": [0.7, 0.9, 0.4, 0.6, 0.5, 0.2],
    ...     }
    ... )
    >>> found = uncertainty.auc_covariance(
    ...     table, y_true="label", y_score=["new", "old"]
    ... )
    >>> found.to_pandas().round(3)
      model    auc  standard_error
    0   new  0.889           0.157
    1   old  0.778           0.248
    """
    called = ELSEWHERE.get(str(name).lower())
    if called is not None:
        validate.refuse("name", "the name of an area", f"{name!r}; it is called {called!r}")
    validate.choice("name", name, SCORES)
    models = None
    if isinstance(y_score, Mapping):
        dispatch.check_row_order(y_true=y_true, y_score=y_score, sample_weight=sample_weight, clusters=clusters)
        models = tuple(y_score)
        if name in AVERAGES:
            y_score = _area_influences.order_models(y_true, dict(y_score))
        y_score = _stack_models(y_score, name in AVERAGES)
    options: dict[str, Any] = {
        "sample_weight": sample_weight,
        "pos_label": pos_label,
        "on_failure": on_failure,
        "num_threads": num_threads,
        "models": models,
    }
    if name == AREA and max_fpr is None and (clusters is None or clusters is False):
        of_two = _compute_by_delong(y_true, y_score, **options)
        if lazy.are_lazy(y_true, y_score, sample_weight):
            of_two = AucCovariance(*of_two)
        return _name_models(of_two, models)
    options |= {"clusters": clusters, "max_fpr": max_fpr}
    if lazy.are_lazy(y_true, y_score, sample_weight, clusters):
        found: AucCovariance[Any] = lazy.dask().call_delayed(_compute_by_influences, y_true, y_score, name, **options)
        return found
    return _name_models(_compute_by_influences(y_true, y_score, name, **options), models)


@accept_dask_arrays(y_true="n", y_score="kn", sample_weight="n")
def _compute_by_delong(
    y_true: Array,
    y_score: Array,
    *,
    sample_weight: Array | None,
    pos_label: int | str | None,
    on_failure: OnFailure,
    num_threads: int | None,
    models: tuple[Any, ...] | None,
) -> AucCovariance[Any]:
    """Return areas of two classes, by the kernel."""
    arrays = adopt_scores(y_true, y_score, sample_weight, pos_label, on_failure, models=True)
    found = AucCovariance(*compute_areas(arrays, on_failure, validate.num_threads(num_threads), models=models))
    y, weight = (None if x is None else np.asarray(adapter(x).to_host(x)) for x in arrays[1:])
    assert y is not None
    return axis_names.name_axes(found, {}, "", {SIZES: count_class_sizes(y, weight), WEIGHTED: weight is not None})


def _name_models(found: AucCovariance[Any], models: tuple[Any, ...] | None) -> AucCovariance[Any]:
    """Return areas that know the names of their models, if these have some."""
    return found if models is None else axis_names.name_axes(found, {MODEL: models}, axis_names.get_metric(found))


def _stack_models(scores: Mapping[Any, Any], per_class: bool) -> Any:
    """Return the scores of models by name as an array, shape (..., K, n), or (..., K, n, C) if they are `per_class`."""
    if not scores:
        validate.refuse("y_score", "an array", "dict without models", TypeError)
    if lazy.are_lazy(*scores.values()):
        validate.refuse("y_score", "an array of Dask, a row for each model", "a dict", TypeError)
    given = {f"y_score[{validate.format_value(name)}]": one for name, one in scores.items()}
    arrays = [dispatch.adopt_one(name, one) for name, one in given.items()]
    shape = validate.same_shape(**dict(zip(given, arrays, strict=True)))
    if len(shape) < 1 + per_class:
        wanted = f"of shape {'(..., n, C)' if per_class else '(..., n)'} for each model"
        validate.refuse("y_score", wanted, f"shape {shape}")
    host = np.stack([np.asarray(adapter(one).to_host(one)) for one in arrays], axis=len(shape) - 1 - per_class)
    return adapter(arrays[0]).send(host, arrays[0])


def _compute_by_influences(y_true: Array, y_score: Array, name: str, **options: Any) -> AucCovariance[Any]:
    """Return any areas, on the host."""
    found = AucCovariance(*_area_influences.compute_covariance(y_true, y_score, name, **options))
    return axis_names.name_axes(found, {}, "" if name == AREA else name)
