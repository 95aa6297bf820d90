"""Bootstrap, normal and Wilson intervals of metrics (``interval``), and Dirichlet posteriors (``posterior``)."""

from collections.abc import Sequence
from functools import partial
from statistics import NormalDist
from typing import Any, Literal, NamedTuple, TypeAlias, get_args, overload

import numpy as np

from cmfast._core import dispatch, failures, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import AreaMethod, Array, Ignored, IntervalMethod, Label, OnFailure, Undefined
from cmfast._core.axis_names import name_axes
from cmfast._core.lazy import accept_dask_arrays
from cmfast._core.powers import compute_sqrt
from cmfast._core.usual_options import explain_options
from cmfast.metrics import _evaluate, _plan
from cmfast.metrics._catalogue import GROUPS, find_form
from cmfast.metrics._margins import margins
from cmfast.uncertainty import _area_influences, _clusters, _multilabel, _normalized_cells
from cmfast.uncertainty._areas import accept_scores, collect_areas, compute_interval
from cmfast.uncertainty._caveats import find_share_base, warn_of_caveats, warn_of_few_clusters
from cmfast.uncertainty._from_labels import accept_labels
from cmfast.uncertainty._invalid_counts import mask_failed, report_invalid
from cmfast.uncertainty._multilabel import accept_indicators
from cmfast.uncertainty._normalized_cells import CellsOf
from cmfast.uncertainty._results import Interval, Intervals, Posterior, PosteriorsByMetric, normal_interval
from cmfast.uncertainty._standard_error import Of, standard_error

IntervalScheme: TypeAlias = Literal["multinomial", "rows", "dirichlet"]
Prior: TypeAlias = Any
PRIORS = {"haldane": 0.0, "jeffreys": 0.5, "laplace": 1.0}  # pseudo-counts of every cell
NAMES_OF_PRIORS = ("unit", "perks", *PRIORS)
OFS = ("metrics", *get_args(CellsOf))
SCHEMES = {"multinomial": "multinomial", "rows": "row_multinomial", "dirichlet": "dirichlet"}
FAILED = "matrices without intervals"
_OF_SHARES = "'wilson' is the interval of a share of samples here"
ELSEWHERE = {
    "bootstrap": "'bca', the default, 'percentile' and 'basic' are bootstrap methods",
    "bayes": "it is called 'posterior'",
    "bayesian": "it is called 'posterior'",
    "delta": "it is called 'normal'",
    "wald": "it is called 'normal'",
    **dict.fromkeys(("clopper-pearson", "clopper_pearson", "exact", "agresti-coull", "beta", "binomial"), _OF_SHARES),
}


@overload
def interval(
    M: Array,
    /,
    names: Any = ...,
    *,
    of: Of = ...,
    method: IntervalMethod | AreaMethod | None = ...,
    confidence_level: float = ...,
    scheme: IntervalScheme = ...,
    clusters: Any = ...,
    strata: Any = ...,
    prior: Prior = ...,
    n: int | None = ...,
    n_resamples: int = ...,
    rng: "int | np.random.Generator" = ...,
    undefined: Undefined = ...,
    pos_label: Label | None = ...,
    on_failure: OnFailure = ...,
    ignore_index: Ignored = ...,
    multilabel: bool = ...,
    max_fpr: float | None = ...,
    sample_weight: Any = ...,
    num_threads: int | None = ...,
) -> Any: ...
@overload
def interval(y_true: Array, y_pred: Array, names: Any = ..., **options: Any) -> Any: ...
@overload
def interval(table: Any, /, names: Any = ..., *, y_true: str, y_pred: str, **options: Any) -> Any: ...
@overload
def interval(table: Any, /, names: Any = ..., *, y_true: str, y_score: str | Sequence[str], **options: Any) -> Any: ...
@accept_scores(
    compute_interval,
    _area_influences.compute_interval,
    ("y_true", "y_score"),
    ("method", "confidence_level", "sample_weight", "pos_label", "clusters", "max_fpr", "on_failure", "num_threads"),
    collect_areas,
)
@accept_indicators(
    _multilabel.compute_interval,
    ("y_true", "y_pred"),
    ("method", "confidence_level", "clusters", "n_resamples", "rng", "undefined", "on_failure", "num_threads"),
)
@accept_labels
@explain_options
def interval(
    M: Array,
    /,
    names: Any = None,
    *,
    of: Of = "metrics",
    method: IntervalMethod | AreaMethod | None = None,
    confidence_level: float = 0.95,
    scheme: IntervalScheme = "multinomial",
    clusters: Any = False,
    strata: Any = None,
    prior: Prior = "unit",
    n: int | None = None,
    n_resamples: int = 10_000,
    rng: "int | np.random.Generator" = 0,
    undefined: Undefined = "present",
    pos_label: Label | None = None,
    on_failure: OnFailure = None,
    ignore_index: Ignored = None,
    multilabel: bool = False,
    max_fpr: float | None = None,
    sample_weight: Any = None,
    num_threads: int | None = None,
) -> Any:
    """Compute confidence or credible intervals of metrics, or of normalised cells.

    Parameters
    ----------
    M : array, shape (..., C, C), or ConfusionCounts
        Rows are the truth. Counts; or any shares of them if `n` is given. In its place two arrays of labels may stand,
        as for :meth:`cmfast.ConfusionCounts.update`: ``interval(y_true, y_pred, names)``; or a table, as for
        :func:`cmfast.by`, and its columns: ``interval(table, names, y_true="label", y_pred="guess")``. Labels of
        Dask, and its DataFrame, give a Delayed. For areas, labels and scores, as for :func:`cmfast.metrics.roc_auc`:
        ``interval(y_true, y_score, "roc_auc")``, or ``interval(table, "roc_auc", y_true="label", y_score="score")``;
        averages over classes take scores of shape (..., n, C), or a list of C columns, and each problem of a batch has
        an interval. With `multilabel` two arrays of 0 and 1, shape (n, L).
    names : str or list of str, optional
        As for :func:`cmfast.metrics.compute`; with `multilabel` as for :func:`cmfast.metrics.multilabel`. Or areas
        alone: "roc_auc", "average_precision", or averages over classes: "roc_auc_ovr", "roc_auc_ovo",
        "roc_auc_ovr_weighted", "roc_auc_ovo_weighted".
    of : {"metrics", "all", "row", "true", "col", "pred", "bi"}
        Target: metrics, or the cells of the matrix that :func:`cmfast.normalize` returns; then leave `names` out.
    method : {"bca", "percentile", "basic", "normal", "wilson", "posterior", "logit", "newcombe"}
        Method (see Notes); default: "bca", or "percentile" with "dirichlet" and for cells, which have neither "wilson"
        nor "posterior". Areas have "logit", the default, and "normal"; "roc_auc" without `clusters` and `max_fpr` also
        "newcombe", its default if a class is small.
    confidence_level : float
        Nominal coverage of the intervals.
    scheme : {"multinomial", "rows", "dirichlet"}
        Random model: one multinomial over all cells; one multinomial per row, for class counts fixed by design; cell
        probabilities given the counts (always for "posterior").
    clusters : bool, or array, shape (..., n)
        True: `M` has shape (..., k, C, C), a matrix for each of k clusters (patients, documents), as
        :func:`cmfast.confusion_matrix` counts them with ``groups=``. If labels or scores are given: the cluster of
        each sample, or the name of a column.
        The metric, or the normalised matrix, is that of their sum; clusters are resampled, not samples.
    strata : array, shape (k,) or (n,), optional
        The stratum of every matrix along the axis before the last two; each stratum is resampled with its own number
        of clusters (samples without `clusters`). The metric is that of the sum. If labels are given: the stratum of
        each sample, the same for all samples of a cluster; or the names of one or several columns.
    prior : {"unit", "perks", "jeffreys", "laplace", "haldane"}, float or array, shape (C, C)
        Prior pseudo-counts of the cells, for Dirichlet draws (see :func:`posterior`).
    n : int, optional
        Number of samples of a test set, or of clusters; default: that of `M`.
    n_resamples : int
        Number of replicates of each matrix.
    rng : int or numpy.random.Generator
        Seed of the replicates, the same as of :func:`resample`.
    undefined : {"present", "nan", "strict", "zero", "one"} or float
        Value of a 0/0 in every replicate, as for :func:`cmfast.metrics.compute`.
    pos_label : {1, 0}, optional
        The positive one of two classes, for binary names; default: 1. For "roc_auc" and "average_precision" any label.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about matrices with bad values (see Notes).
        Default: as :func:`cmfast.config` says, first "warn".
    ignore_index : int or str, or list of these, optional
        If labels are given: samples with this true label are ignored.
    multilabel : bool
        The arrays are indicators: 1 where the sample of the row has the label of the column. Samples are drawn with all
        their labels together.
    max_fpr : float, optional
        For "roc_auc": the area up to this false positive rate, standardised by McClish's formula as scikit-learn does.
    sample_weight : array, shape (..., n), or str, optional
        For areas: the weight of each sample, as for :func:`auc_covariance`, or the name of a column.
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Returns
    -------
    Interval, or Intervals
        One interval, or several by name. Arrays of shape (...), (..., C) for a metric per class, or (..., C, C) for
        cells; float64. Library and device of `M`.

    Raises
    ------
    TypeError, ValueError
        `M` is not square or not real; an unknown name; "wilson" for a metric that is not a share of samples; "bca" or
        "wilson" or "normal" with "dirichlet"; a cluster in two strata.

    Warns
    -----
    DiagnosticWarning
        Intervals that cover the true value in less than 90 % of cases, as measured in docs/coverage.md: fewer than
        five samples carry the variance of a metric (four for "bca", nine for "basic"), as when errors, or errors far
        from the diagonal, are rare; few samples are correct, wrong or of a class in an average; `min_recall` of classes
        with similar recalls; replicates that are not centred on the estimate, as for an average over many small
        classes. The message names a better method. With clusters: only fewer than twelve clusters. Strata with one
        cluster, or one sample. For areas: a class without a sample, or with one; uneven weights, as for
        :func:`auc_covariance`; by "logit" and "normal" a standard error of 0, and an area of two classes whose smaller
        class is so rarely ranked wrongly that its size times the distance of the area from 0 or 1 is below 1; averages
        over classes if a class has fewer than eight samples. A matrix without samples. Never if `on_failure` is
        "ignore". And labels of shape (n, L) that are 0 or 1, as of `multilabel`, without this option.

    Notes
    -----
    - "percentile": quantiles of the metric over replicates.
    - "basic": twice the estimate minus these quantiles, in reverse order.
    - "bca": bias-corrected and accelerated percentiles (Efron 1987): corrected for the share of replicates below the
      estimate and for the skewness of the leave-one-out (jackknife) values, which are exact.
    - "normal": the estimate +- a multiple of :func:`standard_error`, without resampling.
    - "wilson": score interval, only for shares of samples (accuracy, recall, precision, specificity, their
      complements). Accurate with few samples and near 0 and 1 too, unlike a bootstrap: with 5 of 5 correct, no
      replicate is below 1.
    - "posterior": quantiles of the metric over draws of the cell probabilities from their Dirichlet posterior.
    - "logit": for areas, the logarithm of the odds ``auc / (1 - auc)`` +- a multiple of its standard error, turned
      back into an area. It stays between 0 and 1. "normal" does not; it is the area +- a multiple of the standard
      error. Both rest on DeLong's variance (:func:`auc_covariance`), for the other areas on the same sum of squared
      influences of samples (infinitesimal jackknife), or of clusters.
    - "newcombe": for "roc_auc" of two classes, without `clusters` and `max_fpr`: the areas that are not farther from
      the estimate than a multiple of the standard error that they would have themselves, by Newcombe's formula for
      classes of these sizes, or by DeLong where that is larger at the estimate. With weights by Kish's effective sizes.
      For small classes and areas near 0 and 1: it has a width where all samples are ranked rightly, too. By default it
      is for areas whose smaller class has fewer than eight samples (with weights an effective size below twenty), or
      whose size times the distance of the area from 0 or 1 is below 2; each problem of a batch has its own.

    One-vs-rest averages are means of the areas of each class against all others, one-vs-one averages of those of all
    pairs of classes (Hand and Till); "weighted" ones by the shares of the classes, which count as random. The columns
    of scores are those of the sorted labels of all problems, and every column needs samples of its class; the area of a
    problem of a batch without samples of a class is NaN. Columns of a table that are named after the labels, such as
    ``p_cat`` and ``p_dog``, are matched by these names; it is an error if only some are.

    Areas take `method`, `confidence_level`, `sample_weight`, `pos_label`, `clusters`, `max_fpr`, `on_failure` and
    `num_threads`. With `multilabel` the methods are "bca", "percentile" and "basic", and there are besides
    `confidence_level`, `clusters` (of each sample), `n_resamples`, `rng`, `undefined`, `on_failure` and `num_threads`;
    arrays are on the CPU.

    With clusters "bca" leaves out one cluster at a time (for cells: uses the influence of each cluster), and "normal"
    uses :func:`standard_error` with `clusters`; "wilson" and "posterior" assume independent samples and are refused.
    A few clusters give little information, however many samples they have.

    The interval of a matrix without samples is NaN, by "wilson" from 0 to 1, by "posterior" that of the prior.

    Quantiles are interpolated linearly. Replicates of metrics are drawn, summed and evaluated in the kernel and never
    stored; replicates of cells are stored, with their normalised matrices. Replicates in which the metric is undefined
    are left out and counted.

    Bad values: a negative, NaN or infinite cell, or a fraction without `n` (INVALID), gives NaN for that matrix and is
    reported as `on_failure` says. Synchronises the device unless `on_failure` is "ignore". Reproducible: random
    numbers are computed from the seed, the position in the batch and the replicate (counter-based generator); any
    number of threads, and any chunks of a Dask array, give the same bits.

    References
    ----------
    Efron, Better bootstrap confidence intervals, 1987. Wilson, Probable inference, the law of succession, and
    statistical inference, 1927. Brown, Cai and DasGupta, Interval estimation for a binomial proportion, 2001. Jaeckel,
    The infinitesimal jackknife, 1972. Hand and Till, A simple generalisation of the area under the ROC curve for
    multiple class classification problems, 2001. Obuchowski, Nonparametric analysis of clustered ROC curve data, 1997.
    McClish, Analyzing a portion of the ROC curve, 1989. Newcombe, Confidence intervals for an effect size measure based
    on the Mann-Whitney statistic, part 2: asymptotic methods and evaluation, 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from cmfast import uncertainty
    >>> M = [[420, 15, 15], [10, 280, 10], [30, 20, 200]]
    >>> found = uncertainty.interval(M, "mcc")
    >>> (
    ...     round(float(found.estimate), 3),
    ...     round(float(found.low), 2),
    ...     round(float(found.high), 2),
    ... )
    (0.845, 0.81, 0.87)
    >>> found = uncertainty.interval(
    ...     M, ["accuracy", "recall"], method="wilson"
    ... )
    >>> found["recall"].low.round(3).tolist()
    [0.906, 0.899, 0.746]

    Twelve patients, with errors that repeat within a patient; by samples, and by patients:

    >>> patients = 3 * [
    ...     [[9, 0], [0, 6]],
    ...     [[2, 7], [0, 6]],
    ...     [[8, 1], [1, 5]],
    ...     [[9, 0], [3, 2]],
    ... ]
    >>> by_sample = uncertainty.interval(
    ...     sum(map(np.array, patients)), "accuracy", method="normal"
    ... )
    >>> round(float(by_sample.low), 2), round(float(by_sample.high), 2)
    (0.74, 0.86)
    >>> by_patient = uncertainty.interval(
    ...     patients, "accuracy", method="normal", clusters=True
    ... )
    >>> round(float(by_patient.low), 2), round(float(by_patient.high), 2)
    (0.69, 0.9)

    The area under the ROC curve, from scores:

    >>> truth, scores = [1, 1, 1, 0, 0, 0], [0.9, 0.8, 0.3, 0.5, 0.2, 0.1]
    >>> uncertainty.interval(truth, scores, "roc_auc", method="newcombe")
    <Interval: roc_auc 0.889, low 0.391, high 0.989, standard_error 0.157>

    The mean F1 of samples with several labels each:

    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, (300, 4))
    >>> guess = np.where(rng.random((300, 4)) < 0.1, 1 - y, y)
    >>> uncertainty.interval(y, guess, "f1_samples", multilabel=True)
    <Interval: f1_samples 0.857, low 0.823, high 0.883, standard_error 0.0151>
    """
    del ignore_index, multilabel, max_fpr, sample_weight  # read before this call
    validate.choice("of", of, OFS)
    if of != "metrics" and names is not None:
        validate.refuse("names", f"left out with of={of!r}", validate.format_value(names))
    if isinstance(method, str) and method.lower() in ELSEWHERE:
        known = ", ".join(map(repr, get_args(IntervalMethod)))
        validate.refuse("method", f"one of {known}", f"{method!r}; {ELSEWHERE[method.lower()]}")
    method = _resolve_method(method, of, scheme, n)
    confidence_level = validate.confidence_level(confidence_level)
    wanted = _plan.resolve_names(names, pos_label=pos_label)
    n_resamples = validate.count("n_resamples", n_resamples)
    generator = validate.generator(rng)
    options = _validate_options(n, undefined, pos_label, on_failure, num_threads)
    if method in ("normal", "wilson"):
        n_resamples = 0
    draws = {"n_resamples": n_resamples, "seed": int(generator.integers(2**63)) if n_resamples else 0}
    kind = IntervalKind(of, method, confidence_level, scheme, prior)
    found = _compute_intervals(M, wanted=wanted, kind=kind, clustered=clusters, strata=strata, draws=draws, **options)
    settings = {"method": method, "confidence_level": confidence_level, "n_resamples": n_resamples}
    found = [name_axes(one, {}, "", settings) for one in found]
    if of != "metrics" or (isinstance(names, str) and names not in GROUPS):
        return found[0]
    each = dict(zip(wanted, found, strict=True))
    return Intervals(each, method=method, confidence_level=confidence_level, n_resamples=n_resamples)


class IntervalKind(NamedTuple):
    """Target, method, level, resampling scheme and prior of an interval."""

    of: Of
    method: IntervalMethod
    confidence_level: float
    scheme: IntervalScheme
    prior: Prior


def _get_core_axes(values: dict[str, Any]) -> str:
    """Return the letters of the axes of `M` that must be in one chunk."""
    return "CC" if values["clustered"] is False and values["strata"] is None else "kCC"


@accept_dask_arrays("numbers", M=_get_core_axes)
def _compute_intervals(
    M: Array,
    *,
    wanted: tuple[str, ...],
    kind: IntervalKind,
    clustered: bool,
    strata: Any,
    draws: dict[str, int],
    numbers: np.ndarray | None = None,
    **options: Any,
) -> list[Interval]:
    """Return the interval of every name, or of the cells; `numbers` are the stream numbers of the matrices."""
    of, method, confidence_level, scheme, prior = kind
    (M,) = dispatch.adopt(M=M)
    C, _ = validate.matrices(square=True, M=M)
    mass = _resolve_prior(prior, C)
    axis = _parse_cluster_axis(M, clustered, strata, options["n"], method, scheme)
    given: dict[str, Any] = {**draws, "numbers": numbers}
    if axis is not None and numbers is None:  # warn once, not for each chunk
        _warn_of_few_units(M, axis, options["n"], options["on_failure"])
    if of != "metrics":
        if scheme == "dirichlet":
            validate.refuse("scheme", f"multinomial or rows with of={of!r}", scheme)
        found = [_normalized_cells.compute_intervals(M, of, method, confidence_level, scheme, axis, given, options)]
    else:
        layout = _plan.make_plan(wanted, C, options["undefined"], options["pos_label"], argument="M")
        found = (
            _compute_intervals_of_samples(M, wanted, layout, kind, mass, given, options)
            if axis is None
            else _clusters.compute_intervals(M, axis, layout, method, confidence_level, options | given)
        )
    if method not in ("wilson", "posterior") and scheme != "dirichlet":
        warn = numbers is None and options["on_failure"] != "ignore"
        found = _mask_without_samples(M, found, (-2, -1) if axis is None else (-3, -2, -1), warn=warn)
    if of == "metrics" and axis is None:
        judged = dict(zip(wanted, found, strict=True))
        if _plan.is_group(wanted):  # nobody asked for the one metric that is biased for any matrix of similar recalls
            judged.pop("min_recall", None)
        warn_of_caveats(M, judged, method, draws["n_resamples"], options)
    return found


def _compute_intervals_of_samples(
    M: Array,
    wanted: tuple[str, ...],
    layout: _plan.IndexedPlan,
    kind: IntervalKind,
    mass: np.ndarray,
    given: dict[str, Any],
    options: dict[str, Any],
) -> list[Interval]:
    """Return the interval of every name, with samples drawn one by one; `mass` holds the pseudo-counts of the prior."""
    _, method, confidence_level, scheme, _ = kind
    if method in ("normal", "wilson"):
        compute = _compute_normal_intervals if method == "normal" else _compute_wilson_intervals
        return compute(M, wanted, confidence_level, "rows" if scheme == "rows" else "total", options)
    posterior = method == "posterior"
    *parts, status = dispatch.call(
        "metric_intervals", M, plan=layout.plan, method="percentile" if posterior else method,
        confidence_level=confidence_level, scheme="dirichlet" if posterior else SCHEMES[scheme], n=options["n"],
        prior=mass, num_threads=options["num_threads"], **given,
    )  # fmt: skip
    report_invalid(status, options["on_failure"], FAILED, M)
    return [Interval(*parts[5 * place : 5 * place + 5]) for place in layout.positions]


def _mask_without_samples(M: Array, found: list[Interval], axes: tuple[int, ...], *, warn: bool) -> list[Interval]:
    """Return intervals that are NaN for matrices without samples, all of whose replicates are the matrix itself.

    `axes` are those of a matrix, or of all clusters of one.
    """
    own = adapter(M)
    empty = own.evaluate(lambda M: (M != 0).sum(axes) == 0, M)  # a sum may wrap to 0
    if (warn or own.is_on_host(M)) and not own.any(empty):  # else nobody waits for the device
        return found
    if warn:
        which = "some matrices have" if dispatch.shape_of(empty) else "the matrix has"
        failures.warn_diagnostic(f"{which} no samples; the interval is NaN, and the estimate what undefined= says")

    def mask(empty: Any, *ends: Any) -> tuple[Any, ...]:
        """Return the ends, NaN for matrices without samples."""
        return tuple(x * mask_failed(empty, x.ndim - empty.ndim) for x in ends)

    out = []
    for one in found:
        low, high, error = own.evaluate(mask, empty, one.low, one.high, one.standard_error)
        out.append(one._replace(low=low, high=high, standard_error=error))
    return out


@overload
def posterior(
    M: Array,
    /,
    names: Any = ...,
    *,
    prior: Prior = ...,
    n: int | None = ...,
    n_resamples: int = ...,
    rng: "int | np.random.Generator" = ...,
    undefined: Undefined = ...,
    pos_label: Label | None = ...,
    on_failure: OnFailure = ...,
    ignore_index: Ignored = ...,
    num_threads: int | None = ...,
) -> Any: ...
@overload
def posterior(y_true: Array, y_pred: Array, names: Any = ..., **options: Any) -> Any: ...
@accept_labels
@explain_options
def posterior(
    M: Array,
    /,
    names: Any = None,
    *,
    prior: Prior = "unit",
    n: int | None = None,
    n_resamples: int = 10_000,
    rng: "int | np.random.Generator" = 0,
    undefined: Undefined = "present",
    pos_label: Label | None = None,
    on_failure: OnFailure = None,
    ignore_index: Ignored = None,
    num_threads: int | None = None,
) -> Any:
    """Draw metrics from their posterior: a Dirichlet distribution of the cells, given counts and a prior.

    Parameters
    ----------
    M : array, shape (..., C, C), or ConfusionCounts
        Rows are the truth. Counts; or any shares of them if `n` is given. In its place two arrays of labels may stand,
        as for :meth:`cmfast.ConfusionCounts.update`: ``posterior(y_true, y_pred, names)``; or a table, as for
        :func:`cmfast.by`, and its columns: ``posterior(table, names, y_true="label", y_pred="guess")``. Labels of
        Dask, and its DataFrame, give a Delayed.
    names : str or list of str, optional
        As for :func:`cmfast.metrics.compute`.
    prior : {"unit", "perks", "jeffreys", "laplace", "haldane"}, float or array, shape (C, C)
        Prior pseudo-counts of the cells. "unit": one in total, half of it spread over the diagonal and half over the
        off-diagonal cells; "perks": one in total, spread evenly; "jeffreys", "laplace", "haldane": 1/2, 1, 0 in each
        cell. With 0 an empty cell stays empty.
    n : int, optional
        Number of samples; default: that of `M`.
    n_resamples : int
        Number of draws per matrix.
    rng : int or numpy.random.Generator
        Seed of the draws.
    undefined : {"present", "nan", "strict", "zero", "one"} or float
        Value of a 0/0, as for :func:`cmfast.metrics.compute`.
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
    Posterior, or PosteriorsByMetric: a mapping from str to Posterior
        The draws, float64, in the library and on the device of `M`; their mean and standard deviation; and the
        probability that the metric exceeds a number.

    Raises
    ------
    TypeError, ValueError
        `M` is not square or not real; an unknown name; a prior that is negative or of another shape.

    Notes
    -----
    The cell probabilities have a Dirichlet distribution with parameters counts + `prior`, so both prevalence and rows
    are random. A constant prior per cell has a weight that grows as the square of the number of classes and pulls every
    metric towards chance; "unit" has the weight of one sample for any number of classes, and gives the accuracy
    Jeffreys' prior for a share, beta(1/2, 1/2). docs/coverage.md gives the measured coverage of each prior.

    Bad values: a negative, NaN or infinite cell, or a fraction without `n` (INVALID), gives NaN for that matrix and is
    reported as `on_failure` says. Synchronises the device unless `on_failure` is "ignore". Reproducible: random
    numbers are computed from the seed, the position in the batch, the draw and the row (counter-based generator); any
    number of threads, and any chunks of a Dask array, give the same bits.

    References
    ----------
    Caelen, A Bayesian interpretation of the confusion matrix, 2017. Perks, Some observations on inverse probability
    including a new indifference rule, 1947. Berger, Bernardo and Sun, Overall objective priors, 2015. Marsaglia and
    Tsang, A simple method for generating gamma variables, 2000.

    Examples
    --------
    >>> from cmfast import uncertainty
    >>> found = uncertainty.posterior([[18, 2], [1, 9]], "accuracy")
    >>> (
    ...     round(float(found.mean), 2),
    ...     round(float(found.probability(above=0.8)), 2),
    ... )
    (0.89, 0.92)
    """
    del ignore_index  # read where labels are counted, before this call
    wanted = _plan.resolve_names(names, pos_label=pos_label)
    n_resamples = validate.count("n_resamples", n_resamples)
    generator = validate.generator(rng)
    options = _validate_options(n, undefined, pos_label, on_failure, num_threads)
    draws = {"n_resamples": n_resamples, "seed": int(generator.integers(2**63))}
    drawn = _draw_posteriors(M, wanted=wanted, prior=prior, draws=draws, **options)
    settings = {"prior": "of each cell" if np.ndim(prior) else prior, "n_resamples": n_resamples}
    found = _plan.match_requested_type(names, wanted, [name_axes(one, {}, "", settings) for one in drawn])
    return PosteriorsByMetric(found) if isinstance(found, dict) else found


@accept_dask_arrays("numbers", M="CC")
def _draw_posteriors(
    M: Array,
    *,
    wanted: tuple[str, ...],
    prior: Prior,
    draws: dict[str, int],
    numbers: np.ndarray | None = None,
    **options: Any,
) -> list[Posterior]:
    """Return the posterior draws of every name; `numbers` are the stream numbers of the matrices."""
    (M,) = dispatch.adopt(M=M)
    C, _ = validate.matrices(square=True, M=M)
    mass = _resolve_prior(prior, C)
    layout = _plan.make_plan(wanted, C, options["undefined"], options["pos_label"], argument="M")
    *found, status = dispatch.call(
        "metric_draws", M, plan=layout.plan, scheme="dirichlet", n=options["n"], prior=mass, numbers=numbers,
        num_threads=options["num_threads"], **draws,
    )  # fmt: skip
    report_invalid(status, options["on_failure"], "matrices without a posterior", M)
    return [Posterior(found[place]) for place in layout.positions]


def _validate_options(n: Any, undefined: Any, pos_label: Any, on_failure: Any, num_threads: Any) -> dict[str, Any]:
    """Validate the options common to all methods; return them as a dict."""
    on_failure = _evaluate.check_options(undefined, on_failure)
    count = None if n is None else validate.count("n", n)
    options = {"n": count, "undefined": undefined, "on_failure": on_failure}
    options["pos_label"] = _evaluate.find_positive(pos_label)
    return options | {"num_threads": validate.num_threads(num_threads)}


def _resolve_method(method: Any, of: str, scheme: Any, n: object) -> IntervalMethod:
    """Return the interval method, by default "bca" or "percentile"; refuse options that do not combine."""
    validate.choice("scheme", scheme, get_args(IntervalScheme))
    if method is not None:
        validate.choice("method", method, get_args(IntervalMethod))
    usual: IntervalMethod = "bca" if of == "metrics" and scheme != "dirichlet" else "percentile"
    found: IntervalMethod = usual if method is None else method
    if of != "metrics" and found not in ("bca", "percentile", "basic", "normal"):
        validate.refuse("method", f"bca, percentile, basic or normal with of={of!r}", found)
    if found in ("bca", "wilson", "normal") and scheme == "dirichlet":
        validate.refuse("method", 'percentile, basic or posterior with scheme="dirichlet"', found)
    if n is not None and scheme == "rows" and found in ("bca", "percentile", "basic"):
        validate.refuse("n", 'None with scheme="rows"', n)
    return found


def _parse_cluster_axis(
    M: Any, clustered: Any, strata: Any, n: int | None, method: str, scheme: str
) -> _clusters.ClusterAxis | None:
    """Return the cluster axis, or None; refuse methods and schemes without clusters or strata."""
    parts = _clusters.parse_cluster_axis(M, clustered, strata, n)
    if parts is not None:
        for name, value, fits in (
            ("method", method, ("bca", "percentile", "basic", "normal")),
            ("scheme", scheme, ("multinomial",)),
        ):
            if value not in fits:
                validate.refuse(name, f"{', '.join(fits)} with clusters or strata", value)
    return parts


def _warn_of_few_units(M: Any, parts: _clusters.ClusterAxis, n: int | None, on_failure: str) -> None:
    """Warn if the number of clusters, or of samples in a stratum, is too small for nominal coverage."""
    if on_failure == "ignore":
        return
    if not _clusters.warn_of_lonely_units(parts, M) and parts.clustered:
        warn_of_few_clusters(_clusters.count_effective_clusters(parts, n))


def _resolve_prior(prior: Any, C: int) -> np.ndarray:
    """Return the prior pseudo-counts of the cells, shape (C, C)."""
    if isinstance(prior, str):
        validate.choice("prior", prior, NAMES_OF_PRIORS, "a number, an array, or ")
        if prior in PRIORS:
            return np.full((C, C), PRIORS[prior])
        wrong = 0.5 / max(C * (C - 1), 1)
        return (
            np.where(np.eye(C, dtype=np.bool_), 0.5 / max(C, 1), wrong)
            if prior == "unit"
            else np.full((C, C), max(C, 1) ** -2.0)
        )
    if np.ndim(prior) == 0:
        return np.full((C, C), validate.nonnegative("prior", prior))
    table = np.asarray(prior)
    if table.dtype.kind not in "buif" or table.shape != (C, C):
        validate.refuse("prior", f"a name, a number or an array of shape {(C, C)}", validate.format_value(prior))
    table = table.astype(np.float64)
    if not (np.isfinite(table).all() and (table >= 0).all()):
        validate.refuse("prior", "finite and not negative", validate.format_value(prior))
    return table


def _compute_normal_intervals(
    M: Any, names: tuple[str, ...], confidence_level: float, fixed: str, options: dict[str, Any]
) -> list[Interval]:
    """Return estimate +- z standard errors of each metric."""
    values = _evaluate_metrics(M, names, {**options, "on_failure": "ignore"})
    given = options if _plan.is_binary(names) else {**options, "pos_label": None}
    errors = standard_error(M, names, fixed=fixed, **given)  # type: ignore[call-overload]
    z = NormalDist().inv_cdf(0.5 + confidence_level / 2)
    return [normal_interval(values[name], errors[name], z) for name in names]


def _evaluate_metrics(M: Any, names: tuple[str, ...], options: dict[str, Any]) -> dict[str, Any]:
    """Return the metrics by name."""
    given = (options[key] for key in ("undefined", "pos_label", "on_failure", "num_threads"))
    return dict(zip(names, _evaluate.evaluate(M, names, *given), strict=True))


def _compute_wilson_intervals(
    M: Any, names: tuple[str, ...], confidence_level: float, fixed: str, options: dict[str, Any]
) -> list[Interval]:
    """Return Wilson score intervals of metrics that are shares of samples."""
    del fixed
    of = [require_share_base(name) for name in names]  # refuses unsuitable metrics before anything is computed
    values = _evaluate_metrics(M, names, {**options, "on_failure": "ignore"})
    given = {"n": options["n"], "num_threads": options["num_threads"]}
    nothing = _plan.make_plan((), dispatch.shape_of(M)[-1], "present", 1, argument="M").plan
    (status,) = dispatch.call(
        "standard_errors", M, plan=nothing, rows=False, **given
    )  # only for its status: are these counts?
    report_invalid(status, options["on_failure"], FAILED, M)
    sums = margins(M, on_failure="ignore", num_threads=options["num_threads"])
    z = NormalDist().inv_cdf(0.5 + confidence_level / 2)

    def ends(
        name: str, which: str, value: Any, total: Any, row_sums: Any, col_sums: Any, status: Any
    ) -> tuple[Any, ...]:
        """Return both ends, the standard error and 0 undefined resamples, by Wilson's formula."""
        whole = total[..., None]
        size = count_share_samples(name, which, (total, row_sums, col_sums), options["pos_label"])
        if options["n"] is not None:
            size = size * (options["n"] / (whole if size.ndim == whole.ndim else total))
        middle, spread = value * size + z * z / 2, value * (1.0 - value) * size
        reach = z * compute_sqrt(spread + z * z / 4)
        own = mask_failed(status, len(value.shape) - len(status.shape))
        low, high = (own * (middle + end) / (size + z * z) for end in (-reach, reach))
        error = own * (compute_sqrt(spread) / (size + (size == 0.0)))
        return low.clip(0.0, 1.0), high.clip(0.0, 1.0), error, (value != value) & (value == value)  # noqa: PLR0124

    own = adapter(M)
    arrays = [own.unwrap(x) for x in (sums.total, sums.row_sums, sums.col_sums, status)]
    found = []
    for name, which in zip(names, of, strict=True):
        value = own.unwrap(values[name])
        made = adapter(value).evaluate(partial(ends, name, which), value, *arrays)
        found.append(Interval(values[name], *(own.rewrap(x, values[name]) for x in made)))
    return found


def count_share_samples(name: str, base: str, sums: tuple[Any, Any, Any], positive: int) -> Any:
    """Return the number of samples that the metric `name` is a share of, given its base and the sums of matrices.

    `base` is that of :func:`find_share_base`, and `sums` are totals, shape (...), row and column sums, shape (..., C).
    """
    total, row_sums, col_sums = sums
    whole = total[..., None]
    size = {"row": row_sums, "col": col_sums}.get(base.removeprefix("not "), whole)
    size = 1.0 * (whole - size if base.startswith("not") else size)
    form = find_form(name)
    if base == "all" and not (form and form.per_class):
        return 1.0 * total
    return size[..., positive] if form and form.average == "binary" else size


def require_share_base(name: str) -> str:
    """Return the samples that a metric is a share of, as :func:`find_share_base`; refuse other metrics."""
    found = find_share_base(name)
    if found is None:
        validate.refuse("method", f"another method for {name}, which is not a share of samples", "wilson")
    return found
