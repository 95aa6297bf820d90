"""Compare two classifiers on the same samples by any metric: paired bootstrap or delta method, permutation test."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, get_args, overload

import numpy as np

from cmfast._core import failures, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import AreaName, Array, Ignored, Label, MultilabelName, Undefined
from cmfast._core.lazy import accept_delayed
from cmfast._core.usual_options import explain_options
from cmfast.confusion_counts._count_samples import warn_of_order
from cmfast.kernels.shared.uncertainty import add_cells, compute_acceleration
from cmfast.metrics import _evaluate, _plan
from cmfast.metrics._names import MetricName, Names
from cmfast.uncertainty import _multilabel, _paired_replicates, _permutations, _replicate_statistics
from cmfast.uncertainty._areas import accept_scores
from cmfast.uncertainty._caveats import warn_of_few_clusters, warn_of_few_swaps
from cmfast.uncertainty._compare_areas import compare_areas
from cmfast.uncertainty._comparison import (
    FIELDS,
    Comparison,
    ComparisonsByMetric,
    summarize_errors,
    summarize_replicates,
)
from cmfast.uncertainty._from_labels import accept_pairs_of_labels
from cmfast.uncertainty._models import accept_names_of_models
from cmfast.uncertainty._multilabel import accept_indicators
from cmfast.uncertainty._paired_counts import PairedCounts
from cmfast.uncertainty._symmetry_tests import check_paired

CompareMethod: TypeAlias = Literal["bca", "percentile", "basic", "normal", "delta"]
AreaCompareMethod: TypeAlias = Literal["delta", "newcombe"]
CompareTest: TypeAlias = Literal["permutation", "interval"]
REPLICATES_BYTES = 2**27  # of replicated metrics held at a time
MOST_JACKKNIFE_BYTES = 2**26  # of leave-one-out sums held at a time


class CompareOptions(NamedTuple):
    """Options of a comparison as the user passed them."""

    method: str
    test: str
    confidence_level: float
    n_resamples: int
    rng: "int | np.random.Generator"
    undefined: Undefined
    pos_label: Label | None
    num_threads: int | None


class _Request(NamedTuple):
    """Validated options of a comparison, with the execution plan of the metrics and the seeds."""

    layout: _plan.IndexedPlan
    method: str
    test: str
    confidence_level: float
    n_resamples: int
    seed: int
    seed_of_swaps: int
    num_threads: int | None


@overload
def compare(
    T: PairedCounts,
    /,
    names: MetricName,
    *,
    method: CompareMethod = ...,
    test: CompareTest = ...,
    confidence_level: float = ...,
    n_resamples: int = ...,
    rng: "int | np.random.Generator" = ...,
    undefined: Undefined = ...,
    pos_label: Label | None = ...,
    ignore_index: Ignored = ...,
    multilabel: Literal[False] = ...,
    max_fpr: float | None = ...,
    sample_weight: Any = ...,
    num_threads: int | None = ...,
) -> Comparison: ...
@overload
def compare(
    T: PairedCounts,
    /,
    names: Names = ...,
    *,
    method: CompareMethod = ...,
    test: CompareTest = ...,
    confidence_level: float = ...,
    n_resamples: int = ...,
    rng: "int | np.random.Generator" = ...,
    undefined: Undefined = ...,
    pos_label: Label | None = ...,
    ignore_index: Ignored = ...,
    multilabel: Literal[False] = ...,
    max_fpr: float | None = ...,
    sample_weight: Any = ...,
    num_threads: int | None = ...,
) -> ComparisonsByMetric: ...
@overload
def compare(
    y_true: Array,
    y_a: Array,
    y_b: Array,
    names: MetricName | AreaName | MultilabelName,
    **options: Any,
) -> Comparison: ...
@overload
def compare(
    y_true: Array,
    y_a: Array,
    y_b: Array,
    names: Names | list[AreaName] | tuple[AreaName, ...] = ...,
    **options: Any,
) -> ComparisonsByMetric: ...
@overload
def compare(
    table: Any,
    /,
    names: MetricName | AreaName,
    *,
    y_true: str,
    y_a: str | Sequence[str],
    y_b: str | Sequence[str],
    **options: Any,
) -> Comparison: ...
@overload
def compare(
    table: Any,
    /,
    names: Names | list[AreaName] | tuple[AreaName, ...] = ...,
    *,
    y_true: str,
    y_a: str | Sequence[str],
    y_b: str | Sequence[str],
    **options: Any,
) -> ComparisonsByMetric: ...
@accept_names_of_models
@accept_scores(
    compare_areas,
    compare_areas,
    ("y_true", "y_a", "y_b"),
    ("method", "test", "confidence_level", "sample_weight", "pos_label", "clusters", "max_fpr", "num_threads"),
    lambda found, options: ComparisonsByMetric(found),
)
@accept_indicators(
    _multilabel.compare,
    ("y_true", "y_a", "y_b"),
    ("method", "test", "confidence_level", "clusters", "n_resamples", "rng", "undefined", "num_threads"),
)
@accept_pairs_of_labels(clusters=True)
@explain_options
@accept_delayed
def compare(
    T: PairedCounts,
    /,
    names: Any = None,
    *,
    method: CompareMethod | AreaCompareMethod = "bca",
    test: CompareTest = "permutation",
    confidence_level: float = 0.95,
    n_resamples: int = 10_000,
    rng: "int | np.random.Generator" = 0,
    undefined: Undefined = "present",
    pos_label: Label | None = None,
    ignore_index: Ignored = None,
    multilabel: bool = False,
    max_fpr: float | None = None,
    sample_weight: Any = None,
    num_threads: int | None = None,
) -> Any:
    """Compare two classifiers on the same samples: difference of any metric, its interval and a paired test.

    Parameters
    ----------
    T : PairedCounts
        Paired predictions of both. With clusters, clusters are resampled and swapped instead of samples. Or, in its
        place, three arrays of labels: ``compare(y_true, y_a, y_b, names)``, as for :func:`paired_counts`; or a table,
        as for :func:`cmfast.by`, and its columns: ``compare(table, names, y_true="label", y_a="new", y_b="old")``. Of
        both, `clusters` is the cluster of each sample, an array or a column. Lazy columns give a Delayed. For
        areas under ROC curves, labels and two arrays of scores, shape (..., n) or (..., n, C):
        ``compare(y_true, s_a, s_b, "roc_auc")``; C columns of a table are a list.
        With `multilabel` three arrays of 0 and 1, shape (n, L).
    names : str or list of str
        As for :func:`cmfast.metrics.compute`; with `multilabel` as for :func:`cmfast.metrics.multilabel`. Or areas
        alone, as for :func:`interval`: "roc_auc", "average_precision", "roc_auc_ovr", "roc_auc_ovo", ...
    method : {"bca", "percentile", "basic", "normal", "delta", "newcombe"}
        Method of the interval: bias-corrected and accelerated bootstrap; quantiles of the replicates; the quantiles
        reflected at the difference; normal interval with the standard error of the replicates; normal interval with
        the standard error of the delta method, without resampling. Areas have "delta", by the standard error of
        :func:`interval`, and "roc_auc" without `clusters` and `max_fpr` also "newcombe", for small classes; both with
        the test "interval". They take besides `confidence_level`, `sample_weight`, `pos_label`, `clusters`, `max_fpr`
        and `num_threads`.
    test : {"permutation", "interval"}
        Source of the p-value: a paired permutation test, which swaps both predictions of a sample (or cluster) in
        which they differ; or the interval, where p is the smallest significance level that excludes 0. The second is
        faster, but calls equal models different too often if they differ in few samples.
    confidence_level : float
        Level of the interval. One classifier is reported as higher if p is at most ``1 - confidence_level``.
    n_resamples : int
        Number of bootstrap resamples, and of random swaps if there are too many to enumerate.
    rng : int or numpy.random.Generator
        Seed of the random numbers.
    undefined : {"present", "nan", "strict", "zero", "one"} or float
        Value of a 0/0, as for :func:`cmfast.metrics.compute`. With "nan" or "strict" undefined resamples are left
        out and counted.
    pos_label : {1, 0}, optional
        The positive one of two classes, for binary names; default: 1. For "roc_auc" and "average_precision" any label.
    ignore_index : int or str, or list of these, optional
        If labels are given: samples with this true label are ignored.
    multilabel : bool
        The arrays are indicators: 1 where the sample of the row has the label of the column. Samples are drawn, and
        swapped, with all their labels together. Any `method` but "delta"; `pos_label` and `ignore_index` are refused.
    max_fpr : float, optional
        For "roc_auc": areas up to this false positive rate, as for :func:`interval`.
    sample_weight : array, shape (..., n), or str, optional
        For areas: the weight of each sample, as for :func:`auc_covariance`, or the name of a column.
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Returns
    -------
    Comparison, or ComparisonsByMetric: a mapping from str to Comparison
        One comparison, or one per name of several. NumPy arrays, one value per group, and per class for a metric per
        class; for areas one per problem of the batch.

    Raises
    ------
    TypeError, ValueError
        `T` is not from :func:`paired_counts`; an unknown name; a binary name for other than two classes.
    OverflowError
        More samples than float64 counts exactly.

    Warns
    -----
    DiagnosticWarning
        No samples at all; fewer than twelve clusters, for which intervals are too narrow; the classifiers differ in so
        few samples or clusters that p cannot be ``1 - confidence_level``; a metric of ordered classes is requested for
        more than two text classes without a declared order; areas with uneven weights, as for :func:`auc_covariance`;
        differences of "roc_auc" by "delta" if a class has fewer than eight samples, or fewer than twenty and
        hardly any of them is ranked wrongly; labels of shape (n, L) that are 0 or 1, as of `multilabel`, without this
        option; an area, or a standard error, that is NaN because a class has no sample, or one.

    Notes
    -----
    Both classifiers are evaluated on the same replicates: a sample that is hard for one tends to be hard for the other,
    so the difference varies less than between independent test sets. The acceleration of BCa is exact: leaving out any
    sample of a cell ``T[truth, first, second]`` gives the same value. The delta method uses the exact derivatives of
    both metrics by the cells, summed within clusters; NaN where one of them has no derivative. It runs on the host,
    where the counts are.

    "newcombe" combines the intervals of both areas that :func:`interval` makes to that of the difference, with their
    correlation, as standard errors combine. p is that of the interval that just excludes 0.

    The permutation test gives the probability of a difference at least as large if the classifiers are interchangeable:
    in every sample (or cluster) in which they differ, both predictions are swapped with probability 1/2. If this leads
    to at most 16,384 tables, all are enumerated and p is exact: always for 14 differing samples, and for two classes
    with a hundred of each kind. Otherwise `n_resamples` swaps are drawn, p is ``(b + 1) / (n + 1)`` and `p_error` its
    standard error. p is never 0; for the accuracy it equals McNemar's exact test. Models that are not interchangeable
    may still have equal metrics; docs/paired_sizes.md gives the size of the test in that case too.

    p and the interval come from different methods and may disagree if few samples differ: p decides, and `explain`
    says so. With ``test="interval"`` they always agree: a replicate equal to 0 counts on both sides.

    Bad values: counts have none; for areas as for :func:`auc_covariance`, reported as :func:`cmfast.config` says.
    Synchronises the device. Reproducible: random numbers are computed from the seed, the group, the replicate and the
    unit (counter-based generator), so the same `rng` gives the same replicates for any number of threads, on every
    device and for every name.

    References
    ----------
    Efron, Better bootstrap confidence intervals, 1987. Davison and Hinkley, Bootstrap methods and their application,
    1997, sections 5.2 and 5.3. Edgington, Randomization tests, 1980. Phipson and Smyth, Permutation p-values should
    never be zero, 2010. Zou, Toward using confidence intervals to compare correlations, 2007, of "newcombe".

    Examples
    --------
    >>> import numpy as np
    >>> from cmfast import uncertainty
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, 1000)
    >>> hard = rng.random(1000) < 0.3  # for both
    >>> a = np.where(hard, 0, y)
    >>> b = np.where(hard | (rng.random(1000) < 0.05), 0, y)
    >>> uncertainty.compare(y, a, b, "accuracy")
    <Comparison: accuracy +0.0290 [+0.0200, +0.0410], p 3.73e-09: the first is higher>

    Areas under the ROC curves of two scores, DeLong's test:

    >>> truth = rng.integers(0, 2, 500)
    >>> good, noisy = (
    ...     truth + spread * rng.normal(size=500) for spread in (1, 2)
    ... )
    >>> uncertainty.compare(truth, good, noisy, "roc_auc").verdict()
    'the first is higher'

    Two models of samples with several labels each:

    >>> y = rng.integers(0, 2, (300, 4))
    >>> a, b = (
    ...     np.where(rng.random(y.shape) < wrong, 1 - y, y)
    ...     for wrong in (0.1, 0.2)
    ... )
    >>> uncertainty.compare(y, a, b, "f1_macro", multilabel=True).verdict()
    'the first is higher'
    """
    del ignore_index, multilabel, max_fpr, sample_weight  # read before this call
    check_paired(T)
    warn_of_order([T._held.axis], names)
    options = CompareOptions(method, test, confidence_level, n_resamples, rng, undefined, pos_label, num_threads)
    wanted = _plan.resolve_names(names, pos_label=pos_label)
    found = _plan.match_requested_type(names, wanted, compare_pair(T, wanted, options))
    return ComparisonsByMetric(found) if isinstance(found, dict) else found


def find_positive(T: PairedCounts, pos_label: Label | None) -> int:
    """Return the position of the positive class among the classes of paired counts, by default 1."""
    return 1 if pos_label is None else T._held.axis.find_position("pos_label", pos_label)


def compare_pair(T: PairedCounts, wanted: tuple[str, ...], options: CompareOptions) -> list[Comparison]:
    """Validate the options and return the comparisons of two classifiers in the order of the names."""
    method, test, confidence_level, n_resamples, rng, undefined, pos_label, num_threads = options
    validate.choice("method", method, get_args(CompareMethod))
    validate.choice("test", test, get_args(CompareTest))
    confidence_level = validate.confidence_level(confidence_level)
    n_resamples = validate.count("n_resamples", n_resamples, least=2)
    _evaluate.check_options(undefined, "warn")
    num_threads = validate.num_threads(num_threads)
    generator = validate.generator(rng)
    layout = _plan.make_plan(wanted, len(T.labels), undefined, find_positive(T, pos_label), argument="T")
    seed, seed_of_swaps = (int(generator.integers(2**63)) for _ in range(2))
    request = _Request(layout, method, test, confidence_level, n_resamples, seed, seed_of_swaps, num_threads)
    return _compare_units(T, wanted, request)


def _compare_units(T: PairedCounts, wanted: tuple[str, ...], request: _Request) -> list[Comparison]:
    """Return the comparisons in the order of the names: intervals first, then p-values."""
    plan, places = request.layout
    units = _paired_replicates.list_units(T._held)
    both = _evaluate_both(T, units, request)
    if T.n_clusters is not None:
        totals = units.totals[0] if T.groups is None else units.totals
        warn_of_few_clusters(totals, p_values=request.test == "interval")
    whole = (
        _compare_by_delta(T, units, both, request)
        if request.method == "delta"
        else _compare_by_bootstrap(T, units, both, request)
    )
    swaps = None
    if request.test == "permutation":
        swaps = _permutations.find_swaps(T._held)
        tested = _permutations.test_differences(
            swaps, both, T._home, plan, len(T.labels), request.n_resamples, request.seed_of_swaps, request.num_threads
        )
        for fields, one in zip(whole, tested, strict=True):
            fields |= {"p_value": one.p_value, "p_error": one.p_error}
        least = {name: tested[place].least for name, place in zip(wanted, places, strict=True)}
        warn_of_few_swaps(least, request.confidence_level, one=T.groups is None)
    n_differ = _permutations.count_discordant(T._held, swaps)
    empty = units.totals == 0
    if empty.any():
        failures.warn_diagnostic("there are no samples, so the interval and p are NaN")
    for fields in whole:
        shape = fields["difference"].shape
        fields.setdefault("p_error", np.full(shape, np.nan))
        for key in ("low", "high", "standard_error", "p_value", "p_error"):
            fields[key][empty] = np.nan
        fields["n_discordant"] = np.broadcast_to(n_differ.reshape(-1, *[1] * (len(shape) - 1)), shape).copy()
    return [
        _build_comparison(T, name, place, whole[place], request) for name, place in zip(wanted, places, strict=True)
    ]


def _compare_by_delta(
    T: PairedCounts, units: _paired_replicates.DrawnUnits, both: list[np.ndarray], request: _Request
) -> list[dict[str, np.ndarray]]:
    """Return the fields of all comparisons by the delta method."""
    clustered, threads = T.n_clusters is not None, request.num_threads
    plan = request.layout.plan
    errors = _paired_replicates.compute_delta_errors(units, T._home, plan, len(T.labels), threads, clustered=clustered)
    return [summarize_errors(*pair, request.confidence_level) for pair in zip(both, errors, strict=True)]


def _compare_by_bootstrap(
    T: PairedCounts, units: _paired_replicates.DrawnUnits, both: list[np.ndarray], request: _Request
) -> list[dict[str, np.ndarray]]:
    """Return the fields of all comparisons by the paired bootstrap of samples or clusters."""
    plan, C, G = request.layout.plan, len(T.labels), len(units.totals)
    jackknife = _compute_jackknife(T, units, request) if request.method == "bca" else [np.zeros((2, 0))] * len(both)
    arrays = _paired_replicates.send_units(units, T._home)
    per_group = 16 * request.n_resamples * (plan.scalars + plan.tables * C)
    step = max(1, REPLICATES_BYTES // max(per_group, 1))
    parts: list[list[dict[str, np.ndarray]]] = [[] for _ in both]
    for first in range(0, G, step):
        some = slice(first, min(first + step, G))
        drawn = _paired_replicates.draw_replicates(
            arrays, some, plan, C, request.n_resamples, request.seed, request.num_threads
        )
        for k, values in enumerate(drawn):
            estimates = both[k][:, some]
            accelerations = _compute_accelerations(units, some, jackknife[k], request.method)
            parts[k].append(_summarize_replicates(adapter(values).to_host(values), estimates, accelerations, request))
    return [{key: np.concatenate([part[key] for part in some] or [np.empty(0)]) for key in FIELDS} for some in parts]


def _build_comparison(
    T: PairedCounts, name: str, place: int, fields: dict[str, np.ndarray], request: _Request
) -> Comparison:
    """Return the comparison of the metric at position `place` of the plan."""
    if T.groups is None:
        fields = {key: array[0] for key, array in fields.items()}
    axes: dict[str, tuple[Any, ...]] = {} if T.groups is None else {"group": T.groups}
    axes |= {"class": T.labels} if place >= request.layout.plan.scalars else {}
    return Comparison(
        name=name,
        confidence_level=request.confidence_level,
        method=request.method,
        test=request.test,
        axes=axes,
        **fields,
    )


def stack_matrices(T: PairedCounts) -> np.ndarray:
    """Return both confusion matrices of every group, shape (2, G, C, C), on the host."""
    M = np.stack([adapter(side).to_host(side) for side in (T.first, T.second)])
    return M.reshape(2, 1 if T.groups is None else len(T.groups), *M.shape[-2:])


def _evaluate_both(T: PairedCounts, units: _paired_replicates.DrawnUnits, request: _Request) -> list[np.ndarray]:
    """Return the metrics of both classifiers, shape (2, G) or (2, G, C), on the host, without building matrices."""
    sums = _sum_cells(T, units, request.layout.plan)
    values = _permutations.evaluate_sums(sums, T._home, plan=request.layout.plan, num_threads=request.num_threads)
    return [np.moveaxis(value, 1, 0) for value in values]


def _sum_cells(T: PairedCounts, units: _paired_replicates.DrawnUnits, plan: Any) -> np.ndarray:
    """Return diagonals, margins and distance sums of both classifiers' matrices, shape (n_sums, G, 2, C)."""
    sums = np.zeros((5 if plan.ordered else 3, len(units.totals), 2, len(T.labels)), np.int64)
    size = np.diff(units.bounds)
    counts = np.repeat(units.weights, size) * units.counts
    add_cells(sums, tuple(units.cells), np.repeat(units.group, size), counts)
    return sums


def _summarize_replicates(
    drawn: np.ndarray, both: np.ndarray, acceleration: np.ndarray, request: _Request
) -> dict[str, np.ndarray]:
    """Return the fields of a comparison from the replicates of both metrics, shape (G, B, 2) or (G, B, 2, C)."""
    with np.errstate(invalid="ignore"):  # inf - inf for ratios that are infinite in both
        estimate, apart = both[0] - both[1], drawn[:, :, 0] - drawn[:, :, 1]
    replicates = _replicate_statistics.make_replicates(np.moveaxis(apart, 1, -1), estimate, acceleration)
    return summarize_replicates(replicates, both, request.method, request.confidence_level, request.num_threads)


def _compute_accelerations(
    units: _paired_replicates.DrawnUnits, groups: slice, left_out: np.ndarray, method: str
) -> np.ndarray:
    """Return the BCa acceleration of each group from leave-one-out differences; 0 for other methods."""
    if method != "bca":
        return np.zeros(())
    found = []
    for group in range(groups.start, groups.stop):
        some = slice(units.starts[group], units.starts[group + 1])
        found.append(compute_acceleration(np.moveaxis(left_out[some], 0, -1), units.weights[some], [slice(None)]))
    return np.stack(found)


def _compute_jackknife(T: PairedCounts, units: _paired_replicates.DrawnUnits, request: _Request) -> list[np.ndarray]:
    """Return the leave-one-out (jackknife) differences of every metric, one per kind of unit, shape (u,) or (u, C)."""
    C, plan = len(T.labels), request.layout.plan
    whole, size = _sum_cells(T, units, plan), np.diff(units.bounds)
    step = max(1, MOST_JACKKNIFE_BYTES // max(16 * len(whole) * C, 1))
    found: list[list[np.ndarray]] = [[] for _ in range(plan.scalars + plan.tables)]
    for first in range(0, max(len(size), 1), step):
        last = min(first + step, len(size))
        sums = whole[:, units.group[first:last]]
        cells = slice(units.bounds[first], units.bounds[last])
        row = np.repeat(np.arange(last - first), size[first:last])
        add_cells(sums, tuple(units.cells[:, cells]), row, -units.counts[cells])
        values = _permutations.evaluate_sums(sums, T._home, plan=plan, num_threads=request.num_threads)
        for part, value in zip(found, values, strict=True):
            part.append(_permutations.subtract_second(value))
    return [np.concatenate(part) for part in found]
