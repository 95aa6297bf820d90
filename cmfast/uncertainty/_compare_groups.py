"""Compare a metric between groups: every pair, and the highest with the lowest (``compare_groups``)."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from inspect import signature
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, get_args, overload

import numpy as np

from cmfast._core import axis_names, dispatch, failures, frames, lazy, table_columns, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import AreaName, Array, Ignored, Label, MultilabelName, OnFailure, Undefined
from cmfast._core.labels import hold_indicators
from cmfast._core.lazy import accept_delayed
from cmfast._core.results_by_name import MOST_NAMED
from cmfast._core.usual_names import FAIRNESS, OF_SCORES
from cmfast._core.usual_options import RENAMED, describe_unknown_option, describe_value, explain_options
from cmfast.confusion_counts import ConfusionCounts
from cmfast.metrics import _evaluate, _plan
from cmfast.metrics._catalogue import GROUPS, find_form, suggest_names
from cmfast.metrics._margins import margins
from cmfast.metrics._names import MetricName, Names
from cmfast.uncertainty import (
    _areas,
    _caveats,
    _group_areas,
    _group_gaps,
    _group_multilabel,
    _group_overall,
    _group_statistics,
    _group_units,
    _multilabel,
    _replicate_statistics,
)
from cmfast.uncertainty._area_influences import AreaOptions
from cmfast.uncertainty._from_labels import gather_named_arrays, list_calls, take_group_columns
from cmfast.uncertainty._group_results import GroupComparison, GroupComparisonsByMetric
from cmfast.uncertainty._intervals import count_share_samples, require_share_base
from cmfast.uncertainty._invalid_counts import report_invalid
from cmfast.uncertainty._results import Interval, normal_interval

R = TypeVar("R")

GroupMethod: TypeAlias = Literal["bootstrap", "delta", "wilson"]
AreaGroupMethod: TypeAlias = Literal["bootstrap", "delta", "logit", "newcombe"]
Fairness: TypeAlias = Literal["selection_rate", "demographic_parity", "equal_opportunity", "equalized_odds"]
SELECTED = "selection_rate"  # share of samples that are predicted positive
CRITERIA = {  # criteria of fairness, with the rates that they compare
    SELECTED: (SELECTED,),
    "demographic_parity": (SELECTED,),
    "equal_opportunity": ("recall_binary",),
    "equalized_odds": ("recall_binary", "fpr_binary"),
}
IN_POOLED = "recall_binary"  # the selection rate, in a matrix in which all samples are positive
_NAMES = f"metrics or criteria of fairness ({', '.join(CRITERIA)})"
SIDES = ("y_true", "y_pred", "groups")
SIDES_OF_AREAS = ("y_true", "y_score", "groups")
MANY = 40  # samples of a class in which a replicate has none with probability exp(-40)
DRAWS_BYTES = 2**27  # of replicates held at a time
OVERALL = "overall"  # reference: all samples
DOUBTED_AS = {"bootstrap": "percentile", "delta": "normal"}  # whose caveats hold for the groups


class _GroupRequest(NamedTuple):
    """Validated options."""

    method: str
    confidence_level: float
    n_resamples: int
    seed: int
    undefined: Undefined
    positive: int
    on_failure: OnFailure
    num_threads: int | None
    to_all: bool = False
    units: _group_units.GroupUnits | None = None
    groups: tuple[Any, ...] = ()
    batch: tuple[int, ...] = ()

    def name_group(self, index: tuple[int, ...]) -> str:
        """Return the name of the group at an index of the batch and of groups."""
        *batch, g = index
        of = f" of batch element {batch[0] if len(batch) == 1 else tuple(batch)}" if batch else ""
        return f"group {validate.format_value(self.groups[g])}{of}"


class _Measured(NamedTuple):
    """One metric of all groups: arrays of shape (N, E, G) for E classes; `overall` (N, E), `draws` (N, E, G, B).

    `together` is what is known of all samples, if groups are compared with them.
    """

    estimate: np.ndarray
    known: np.ndarray
    error: np.ndarray
    overall: np.ndarray
    size: np.ndarray | None
    draws: np.ndarray | None
    per_class: bool
    together: _group_overall.OverallValues | None = None
    ends: _group_gaps.GroupEnds | None = None


def accept_labels_of_groups(function: Callable[..., R]) -> Callable[..., R]:
    """Decorate a function of a stack of matrices so that it also accepts labels and groups, or counts with groups."""

    @wraps(function)
    def wrapper(*given: Any, **options: Any) -> R:
        """Count the labels, if labels are given, and call `function` with the stack and the labels of its axes."""
        for option in RENAMED["groups"]:
            if option in options:
                validate.fail(describe_unknown_option(option, ("groups",)), TypeError)
        wanted = options.pop("multilabel", False)
        validate.flag("multilabel", wanted)
        if wanted:
            several: R = _compare_multilabel(function, given, options)
            return several
        names = options["names"] if "names" in options else given[-1] if len(given) in (2, 4, 5) else None
        if "y_score" in options or _areas.holds_areas(names):
            for option, value in options.items():
                if option not in (*signature(function).parameters, *SIDES_OF_AREAS):
                    validate.fail(describe_unknown_option(option, (*SIDES_OF_AREAS, *_AreaOptions._fields)), TypeError)
                if option not in ("names", *SIDES_OF_AREAS, *_AreaOptions._fields):
                    validate.refuse(option, "left out with areas", describe_value(value))
            found: R = _compare_areas(given, options)
            return found
        max_fpr = options.pop("max_fpr", None)
        if max_fpr is not None:
            validate.refuse("max_fpr", f"left out but for {_areas.AREA!r}", describe_value(max_fpr))
        if not options.keys().isdisjoint((*SIDES, "names")):
            given = gather_named_arrays(given, options, SIDES)
        ignored = options.pop("ignore_index", None)
        if len(given) > 2:
            _refuse_indicators(given[:2], given[2])
        given = take_group_columns(given, options, SIDES, ignored)
        if given and lazy.is_delayed(given[0]):
            return lazy.accept_delayed(wrapper)(*given, **options)
        return function(*given, **options)

    list_calls(wrapper, SIDES, {"y_true": "label", "y_pred": "guess", "groups": "site"})
    return wrapper


def _compare_areas(given: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Return the comparison of one or several areas, from the arguments of a call with scores."""
    call = (given, dict(options))
    if any(lazy.are_lazy(x) for x in (*given, *(options.get(name) for name in (*SIDES_OF_AREAS, "clusters")))):
        return lazy.dask().call_delayed(_compare_areas, *call)
    if given and not isinstance(given[0], list | tuple | np.ndarray):
        given = (frames.collect_table(given[0]), *given[1:])
    if not given or not frames.holds_columns(given[0]):
        given = gather_named_arrays(given, options, SIDES_OF_AREAS)
    found = None
    if given and frames.holds_columns(given[0]):
        others = tuple(name for name in ("sample_weight", "clusters") if isinstance(options.get(name), str))
        found = table_columns.find_columns(given, options, SIDES_OF_AREAS, others, SIDES_OF_AREAS[1:])
    reading: AbstractContextManager[None] = nullcontext()
    if found is not None:
        given, reading = table_columns.read_call(
            found, options, SIDES_OF_AREAS, several=("groups",), blocks=("y_score",)
        )
        if isinstance(found.columns["groups"], str):
            given = (*given[:2], {found.columns["groups"]: given[2]}, *given[3:])
    elif 0 < len(given) < 3 and frames.holds_columns(given[0]) and not frames.is_column(given[0]):
        table_columns.refuse_table_without_columns(SIDES_OF_AREAS, options.get("names", given[-1]))
    if len(given) == 2 and "names" not in options:
        wanted = "given with labels, scores and groups, as counts do not tell the scores of samples"
        validate.refuse("names", f"{wanted}: {', '.join(SIDES_OF_AREAS)}", validate.format_value(given[1]))
    names = options.pop("names", given[3] if len(given) > 3 else None)
    several = names if isinstance(names, list | tuple) else [names]
    for name in several:
        _areas.require_area(name, SIDES_OF_AREAS[:2])
    with reading:
        chosen = _AreaOptions(**options)
        each = {name: _compare_area(name, given[:3], chosen) for name in dict.fromkeys(several)}
    return each[names] if isinstance(names, str) else GroupComparisonsByMetric(each)


def _refuse_indicators(sides: tuple[Any, ...], groups: Any) -> None:
    """Refuse 0/1 arrays, or tables, of shape (n, L) with a group for each row: ``multilabel=True`` takes them."""
    shapes: list[tuple[int, ...]] = [tuple(getattr(side, "shape", ())) for side in sides]
    columns = list(groups.values()) if isinstance(groups, Mapping) else [groups]
    if any(len(shape) != 2 for shape in shapes) or lazy.are_lazy(*sides, *columns):
        return
    n, L = shapes[0]
    own = [(len(one),) if isinstance(one, list | tuple) else tuple(getattr(one, "shape", ())) for one in columns]
    if shapes[1] != (n, L) or L < 2 or any(shape != (n,) for shape in own):
        return
    if hold_indicators(sides):
        said = "y_true and y_pred are 0 or 1 as indicators of several labels are, which multilabel=True takes"
        validate.refuse("groups", f"of shape {(n, L)}, as y_true", f"shape {(n,)}; {said}")


class _MultilabelOptions(NamedTuple):
    """Options of multilabel metrics as the user passed them, and their defaults."""

    method: Any = None
    reference: Any = None
    confidence_level: float = 0.95
    n_resamples: int = 10_000
    rng: Any = 0
    undefined: Undefined = "present"
    on_failure: OnFailure = None
    clusters: Any = None
    num_threads: int | None = None


def _compare_multilabel(function: Any, given: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Return comparisons of multilabel metrics of indicators, from the arguments of a call with ``multilabel=True``."""
    given = gather_named_arrays(given, options, SIDES)
    arrays, rest = given[: len(SIDES)], given[len(SIDES) :]
    if len(arrays) < len(SIDES) or len(rest) > 1 or any(map(_multilabel.are_names, arrays[:2])):
        _multilabel.refuse_missing_indicators(SIDES)
    for name, value in options.items():
        if name not in (*signature(function).parameters, *SIDES):
            validate.fail(describe_unknown_option(name, (*SIDES, *_MultilabelOptions._fields)), TypeError)
        if name not in _MultilabelOptions._fields:
            validate.refuse(name, "left out with multilabel=True", describe_value(value))
    if lazy.are_lazy(*arrays, options.get("clusters")):
        return lazy.dask().call_delayed(_compare_indicators, arrays, *rest, **options)
    return _compare_indicators(arrays, *rest, **options)


def _compare_indicators(arrays: tuple[Any, Any, Any], names: Any = None, **given_options: Any) -> Any:
    """Return comparisons of multilabel metrics; options are those of :class:`_MultilabelOptions`."""
    options = _MultilabelOptions(**given_options)
    validate.choice("method", "bootstrap" if options.method is None else options.method, ("bootstrap",))
    level = validate.confidence_level(options.confidence_level)
    n_resamples = validate.count("n_resamples", options.n_resamples, least=2)
    on_failure, reference = validate.on_failure(options.on_failure), options.reference
    several, forms = _multilabel.parse_names(names)
    seed = int(validate.generator(options.rng).integers(2**63))
    settings = _multilabel.make_options(options.undefined, options.num_threads)
    given = _group_multilabel.prepare(arrays, options.clusters, forms, settings)
    to_all = isinstance(reference, str) and reference == OVERALL and OVERALL not in given.groups
    _check_number_of_groups(len(given.groups), 0, given.groups, "ignore" if to_all else on_failure)
    place = None if to_all else _find_reference(reference, given.groups)
    request = _GroupRequest(
        "bootstrap", level, n_resamples, seed, options.undefined, 1, on_failure, settings["num_threads"], to_all
    )
    found = {}
    for name, one in _group_multilabel.measure(given, several, n_resamples, seed, request.num_threads).items():
        overall, draws = one.overall[np.newaxis], one.overall_draws[np.newaxis]
        measured = _Measured(
            estimate=one.estimate[np.newaxis],
            known=one.known[np.newaxis],
            error=np.full((1, *one.estimate.shape), np.nan),
            overall=overall,
            size=None,
            draws=one.draws[np.newaxis],
            per_class=one.per_label,
            together=_group_overall.OverallValues(overall, None, None, draws) if to_all else None,
        )
        labels = given.labels or tuple(range(given.samples.n_labels))
        found[name] = _compare(name, {name: measured}, request, place, given.groups, labels, ())
    _group_multilabel.warn_of_few_samples(given, several, on_failure)
    return found[names] if isinstance(names, str) else GroupComparisonsByMetric(found)


class _AreaOptions(NamedTuple):
    """Options of areas as the user passed them, and their defaults."""

    method: Any = None
    reference: Any = None
    confidence_level: float = 0.95
    n_resamples: int = 10_000
    rng: Any = 0
    pos_label: Any = None
    on_failure: OnFailure = None
    sample_weight: Any = None
    clusters: Any = None
    max_fpr: float | None = None
    num_threads: int | None = None


def _compare_area(name: str, given: tuple[Any, ...], options: _AreaOptions) -> GroupComparison:
    """Return the comparison of one area, given labels, scores and groups."""
    clusters, reference, pos_label, method = options.clusters, options.reference, options.pos_label, options.method
    if method is not None:
        validate.choice("method", method, get_args(AreaGroupMethod))
    confidence_level = validate.confidence_level(options.confidence_level)
    n_resamples = validate.count("n_resamples", options.n_resamples, least=2)
    on_failure, num_threads = validate.on_failure(options.on_failure), validate.num_threads(options.num_threads)
    seed = int(validate.generator(options.rng).integers(2**63))
    chosen = AreaOptions(
        pos_label=pos_label,
        sample_weight=options.sample_weight,
        clusters=clusters,
        max_fpr=options.max_fpr,
        num_threads=num_threads,
    )
    y_true, y_score, groups = given
    adopted = _group_areas.adopt(name, (y_true, y_score, groups), chosen)
    labels = adopted.labels
    to_all = isinstance(reference, str) and reference == OVERALL and OVERALL not in labels
    _check_number_of_groups(len(labels), 0, labels, "ignore" if to_all else on_failure)
    place = None if to_all else _find_reference(reference, labels)
    method = _resolve_area_method(method, name, clusters, options.max_fpr, to_all=to_all)
    drawn = n_resamples if method == "bootstrap" else None
    found = _group_areas.measure(name, adopted, drawn, seed, on_failure=on_failure, method=method, to_all=to_all)

    def shape(x: np.ndarray) -> np.ndarray:
        """Return an array (G,), or (G, B), with axes of a batch and of classes before."""
        return x[np.newaxis, np.newaxis]

    whole = np.full((1, 1), found.whole)
    errors = None if method == "bootstrap" else (shape(found.errors[0]), shape(found.errors[1]))
    whole_draws = None if found.whole_draws is None else shape(found.whole_draws)
    measured = _Measured(
        estimate=shape(found.area),
        known=shape(~np.isnan(found.area)),
        error=shape(found.error),
        overall=whole,
        size=None,
        draws=None if found.draws is None else shape(found.draws),
        per_class=False,
        together=_group_overall.OverallValues(whole, errors, None, whole_draws) if to_all else None,
        ends=found.make_ends(method) if method in ("logit", "newcombe") else None,
    )
    request = _GroupRequest(method, confidence_level, n_resamples, seed, "nan", 1, on_failure, num_threads, to_all)
    compared = _compare(name, {name: measured}, request, place, labels, (), ())
    named: dict[str, Any] = {} if pos_label in (None, 1, "1") else {"positive": pos_label}
    return axis_names.name_axes(compared, {}, "", named) if named else compared


def _resolve_area_method(method: Any, name: str, clusters: Any, max_fpr: Any, *, to_all: bool) -> str:
    """Return the method for an area, by default the most accurate one; refuse one that the comparison does not have."""
    if to_all:
        if method in ("newcombe", "logit"):
            wanted = f"delta or bootstrap with areas and reference={OVERALL!r}, as a group is part of all samples"
            validate.refuse("method", wanted, method)
        return "delta" if method is None else str(method)
    default = _areas.choose_method(name, clusters, max_fpr)
    if method == "newcombe" and default != method:
        of = _areas.describe_without_newcombe(name, max_fpr)
        validate.refuse("method", f"bootstrap, delta or logit with {of}", method)
    return default if method is None else str(method)


@overload
def compare_groups(
    M: Array,
    /,
    names: MetricName | Fairness,
    *,
    method: GroupMethod | AreaGroupMethod | None = ...,
    reference: Label | None = ...,
    confidence_level: float = ...,
    n_resamples: int = ...,
    rng: "int | np.random.Generator" = ...,
    undefined: Undefined = ...,
    pos_label: Label | None = ...,
    on_failure: OnFailure = ...,
    ignore_index: Ignored = ...,
    multilabel: Literal[False] = ...,
    max_fpr: None = ...,
    sample_weight: None = ...,
    clusters: None = ...,
    num_threads: int | None = ...,
) -> GroupComparison: ...
@overload
def compare_groups(
    M: Array,
    /,
    names: Names = ...,
    *,
    method: GroupMethod | AreaGroupMethod | None = ...,
    reference: Label | None = ...,
    confidence_level: float = ...,
    n_resamples: int = ...,
    rng: "int | np.random.Generator" = ...,
    undefined: Undefined = ...,
    pos_label: Label | None = ...,
    on_failure: OnFailure = ...,
    ignore_index: Ignored = ...,
    multilabel: Literal[False] = ...,
    max_fpr: None = ...,
    sample_weight: None = ...,
    clusters: None = ...,
    num_threads: int | None = ...,
) -> GroupComparisonsByMetric: ...
@overload
def compare_groups(y_true: Array, y_score: Array, groups: Any, names: AreaName, **options: Any) -> GroupComparison: ...
@overload
def compare_groups(
    y_true: Array, y_pred: Array, groups: Any, names: MetricName | Fairness | AreaName | MultilabelName, **options: Any
) -> GroupComparison: ...
@overload
def compare_groups(
    y_true: Array,
    y_pred: Array,
    groups: Any,
    names: Names | list[AreaName] | tuple[AreaName, ...] = ...,
    **options: Any,
) -> GroupComparisonsByMetric: ...
@overload
def compare_groups(
    table: Any, /, names: AreaName, *, y_true: str, y_score: str | Sequence[str], groups: Any, **options: Any
) -> GroupComparison: ...
@overload
def compare_groups(
    table: Any,
    /,
    names: list[AreaName] | tuple[AreaName, ...],
    *,
    y_true: str,
    y_score: str | Sequence[str],
    groups: Any,
    **options: Any,
) -> GroupComparisonsByMetric: ...
@overload
def compare_groups(
    table: Any, /, names: MetricName | Fairness, *, y_true: str, y_pred: str, groups: Any, **options: Any
) -> GroupComparison: ...
@overload
def compare_groups(
    table: Any, /, names: Names = ..., *, y_true: str, y_pred: str, groups: Any, **options: Any
) -> GroupComparisonsByMetric: ...
@accept_labels_of_groups
@explain_options
@accept_delayed
def compare_groups(
    M: Array,
    /,
    names: Any = None,
    *,
    method: GroupMethod | AreaGroupMethod | None = None,
    reference: Label | None = None,
    confidence_level: float = 0.95,
    n_resamples: int = 10_000,
    rng: "int | np.random.Generator" = 0,
    undefined: Undefined = "present",
    pos_label: Label | None = None,
    on_failure: OnFailure = None,
    ignore_index: Ignored = None,
    multilabel: bool = False,
    max_fpr: float | None = None,
    sample_weight: Any = None,
    clusters: Any = None,
    num_threads: int | None = None,
) -> Any:
    """Compare metrics between groups: differences and ratios with intervals and p-values, for example for fairness.

    Parameters
    ----------
    M : array, shape (..., G, C, C), or ConfusionCounts
        Counts of each group, rows are the truth. In its place three arrays of labels may stand:
        ``compare_groups(y_true, y_pred, groups, names)``; or a table, as for :func:`cmfast.by`, and its columns:
        ``compare_groups(table, names, y_true="label", y_pred="guess", groups="site")``. Of both, `groups` may be
        several columns, a dict or a list; their combinations are the groups. For areas, labels and scores of shape (n,)
        or (n, C), as for :func:`interval`: ``compare_groups(y_true, y_score, groups, "roc_auc")``, or columns:
        ``compare_groups(table, "roc_auc", y_true="label", y_score="score", groups="site")``, C of them as a list.
    names : str or list of str, optional
        As for :func:`cmfast.metrics.compute`, or of two classes also criteria of fairness: "selection_rate" or
        "demographic_parity", the share of samples that are predicted positive; "equal_opportunity", the recall of the
        positive class; "equalized_odds", its recall and false positive rate; the larger difference of both counts. Or
        areas alone: "roc_auc", "average_precision", "roc_auc_ovr", "roc_auc_ovo", "roc_auc_ovr_weighted" or
        "roc_auc_ovo_weighted".
    method : {"bootstrap", "delta", "wilson", "logit", "newcombe"}, optional
        Bootstrap of the samples of each group; standard errors by the delta method, without resampling; Wilson's
        intervals of each group combined, for metrics that are shares of samples (accuracy, recall, precision, ...).
        Default: "wilson" for these and for fairness, "bootstrap" for other metrics, and with weights or clusters. Areas
        have "bootstrap", "delta" and "logit", and "roc_auc" without `clusters` and `max_fpr` "newcombe", its default;
        that of others is "logit", and "delta" with `reference` "overall" (see Notes).
    reference : label, optional
        The group that all others are compared with, a position for matrices without labels; or "overall": each group is
        compared with all samples, its own among them (a group of this name comes first). Default: every pair.
    confidence_level : float
        Nominal coverage of the intervals.
    n_resamples : int
        Number of replicates of each group.
    rng : int or numpy.random.Generator
        Seed of the replicates, the same as of :func:`resample`.
    undefined : {"present", "nan", "strict", "zero", "one"} or float
        Value of a 0/0, as for :func:`cmfast.metrics.compute`. A group whose value is itself 0/0 is left out of all
        comparisons, and so are such replicates.
    pos_label : label, optional
        The positive one of two classes, for binary names and fairness; default: the second. Of matrices without labels
        0 or 1.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about matrices with bad values (see Notes).
        Default: as :func:`cmfast.config` says, first "warn".
    ignore_index : int or str, or list of these, optional
        If labels are given: samples with this true label are ignored.
    multilabel : bool
        `y_true` and `y_pred` are indicators, shape (n, L): 1 where the sample of the row has the label of the column.
        Names are those of :func:`cmfast.metrics.multilabel`. Samples, or `clusters`, are drawn with all their labels
        together, by "bootstrap"; `pos_label`, `ignore_index` and `sample_weight` are refused.
    max_fpr : float, optional
        For "roc_auc": areas up to this false positive rate, as for :func:`interval`.
    sample_weight : array, shape (n,), or str, optional
        If labels are given: weights of the samples, such as survey weights, or the name of their column. Their scale
        changes nothing.
    clusters : array, shape (n,), or str, optional
        If labels are given: the cluster of each sample, such as its patient or document, or the name of their column.
        Equal labels in two groups are two clusters.
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Returns
    -------
    GroupComparison, or GroupComparisonsByMetric
        The comparison of one name, or of several by name. NumPy arrays.

    Raises
    ------
    TypeError, ValueError
        Not square or not real matrices; an unknown name; areas together with metrics of counts; "wilson" for a metric
        that is not a share of samples, or with weights or clusters; fairness of more than two classes; a reference that
        is no group; weights that are negative or not finite.

    Warns
    -----
    DiagnosticWarning
        Some groups have so few samples that the interval of their metric covers the true value in less than 90 % of
        cases, as for :func:`interval`; with weights by Kish's effective size. Not for "wilson", for "newcombe" with
        uneven weights only, nor if `on_failure` is "ignore". With clusters: some groups have fewer than twelve. There
        is one group, and no `reference` of all.

    Notes
    -----
    Groups are independent samples; the number of samples of each is fixed.

    - Pairs: "bootstrap" gives percentiles of the difference and of the ratio of replicates, and the p-value that fits
      them. "delta" gives normal intervals, of the ratio on the log scale. "wilson" gives Newcombe's intervals of the
      difference and those of Donner and Zou of the ratio.
    - Areas: "logit" and "newcombe" combine the intervals of both groups, as :func:`interval` makes them, in the same
      way as "wilson"; "delta" has DeLong's variance of each group, or the sum of its squared influences. They take
      `method`, `reference`, `confidence_level`, `n_resamples`, `rng`, `pos_label`, `on_failure`, `max_fpr`,
      `sample_weight`, `clusters` and `num_threads`. The area of a group without a positive or a negative sample is
      undefined.
    - "overall": a group and all samples are not independent. "wilson" gives the interval of the group and the other
      samples, times the share of the latter, as if that share were fixed; "delta" differentiates in the cells of all
      groups; "bootstrap" adds up the replicates of all groups. Areas have these two alone, as the area of all samples
      compares samples of different groups, too; "delta" has the influences of samples on both areas.
    - The largest difference of two groups is above 0 in every sample, even if all groups are alike, so percentiles of
      its replicates do not contain 0. Here its lower end is the largest lower end of a pair, at the level at which the
      intervals of all pairs hold together: by Tukey and Kramer, or with "bootstrap" from the largest studentized
      difference of each replicate. Its upper end is the largest upper end of a pair. The lower end is above 0 if two
      groups differ at this level, and `p_value` says so. docs/groups.md gives the measured coverage.
    - Clusters are drawn as a whole, within each group, by "bootstrap"; "delta" adds up the derivatives by cluster, as
      :func:`interval` does. With weights alone each sample is a cluster of its own. Groups stay independent: clusters
      that cross them make differences more, or less, precise than stated. A group with one cluster has no interval.
      The bootstrap then takes time in proportion to replicates times samples.
    - The ratio is that of the smallest to the largest value, with the interval made in the same way.

    Bad values: a group with a negative, NaN or infinite cell, or a fraction (INVALID), has NaN, is left out of the
    comparisons and is reported as `on_failure` says. Synchronises the device. Reproducible: random numbers are computed
    from the seed, the position of the group in the batch and the replicate (counter-based generator); any number of
    threads gives the same bits.

    References
    ----------
    Newcombe, Interval estimation for the difference between independent proportions, 1998. Donner and Zou, Closed-form
    confidence intervals for functions of the normal mean and standard deviation, 2012. Hayter, A proof of the
    conjecture that the Tukey-Kramer multiple comparisons procedure is conservative, 1984. Hardt, Price and Srebro,
    Equality of opportunity in supervised learning, 2016, of equalized odds. DeLong, DeLong and Clarke-Pearson,
    Comparing the areas under two or more correlated receiver operating characteristic curves, 1988.

    Examples
    --------
    >>> import numpy as np
    >>> from cmfast import uncertainty
    >>> rng = np.random.default_rng(0)
    >>> site = rng.choice(["north", "south", "west"], 900)
    >>> y = rng.integers(0, 2, 900)
    >>> right = rng.random(900) < np.where(site == "west", 0.75, 0.9)
    >>> guess = np.where(right, y, 1 - y)
    >>> found = uncertainty.compare_groups(
    ...     y, guess, site, "accuracy", method="wilson"
    ... )
    >>> found
    <GroupComparison: accuracy of 3 groups differs by 0.2339 [0.1641, 0.2903], p 1.34e-12>
    >>> found.to_pandas(of="pairs")[
    ...     ["first", "second", "difference", "holm"]
    ... ].round(3)
       first second  difference   holm
    0  north  south       0.060  0.015
    1  north   west       0.234  0.000
    2  south   west       0.174  0.000
    >>> found = uncertainty.compare_groups(y, guess, site, "equalized_odds")
    >>> found.verdict()
    'the groups differ'

    Areas under ROC curves of the scores in each group:

    >>> score = y + rng.normal(size=900) * np.where(site == "west", 2, 1)
    >>> uncertainty.compare_groups(y, score, site, "roc_auc").verdict()
    'the groups differ'
    """
    del ignore_index, multilabel, max_fpr  # read before this call
    M, units = _split_units(M, sample_weight, clusters, method)
    if method is not None:
        validate.choice("method", method, get_args(GroupMethod))
    confidence_level = validate.confidence_level(confidence_level)
    n_resamples = validate.count("n_resamples", n_resamples, least=2)
    on_failure = _evaluate.check_options(undefined, on_failure)
    num_threads = validate.num_threads(num_threads)
    seed = int(validate.generator(rng).integers(2**63))
    wanted = _resolve_names(names)
    parts = tuple(dict.fromkeys(part for name in wanted for part in CRITERIA.get(name, (name,))))
    if isinstance(M, ConfusionCounts):
        M, positive, axes = M._take_for([IN_POOLED if part == SELECTED else part for part in parts], pos_label)
        if "group" not in axes:
            validate.refuse("M", "counts with groups, or matrices of shape (..., G, C, C)", "counts without groups")
    else:
        positive, axes = _evaluate.find_positive(pos_label), {}
    (M,) = dispatch.adopt(M=M)
    M = adapter(M).unwrap(M)
    if adapter(M).is_on_host(M):  # results are NumPy arrays for every library
        M = adapter(M).to_host(M)
    C, _ = validate.matrices(square=True, M=M)
    shape = dispatch.shape_of(M)
    if len(shape) < 3:
        validate.refuse("M", "of shape (..., G, C, C), a matrix for each group", f"shape {shape}")
    fair = next((name for name in wanted if name in CRITERIA), None)
    if fair is not None and C != 2:
        validate.refuse("names", f"metrics of {C} classes, as fairness needs two", repr(fair))
    labels = axes.get("group", tuple(range(shape[-3])))
    to_all = isinstance(reference, str) and reference == OVERALL and OVERALL not in labels
    named = "group" in axes  # of counts; an empty stack of matrices has an empty result
    _check_number_of_groups(shape[-3], C if named else 1, labels, "ignore" if to_all else on_failure)
    place = None if to_all else _find_reference(reference, labels)
    request = _GroupRequest(
        "", confidence_level, n_resamples, seed, undefined, positive, on_failure, num_threads, to_all, units,
        groups=labels, batch=tuple(shape[:-3]),
    )  # fmt: skip
    classes = axes.get("class", tuple(range(C)))
    default = None if units is None else "bootstrap"
    methods = {name: method or default or _choose_method(name) for name in wanted}
    found: dict[str, GroupComparison] = {}
    for k, each in enumerate(dict.fromkeys(methods.values())):
        some = [name for name in wanted if methods[name] == each]
        own = request._replace(method=each)
        rates = tuple(dict.fromkeys(rate for name in some for rate in CRITERIA.get(name, (name,))))
        measured = _measure(M, rates, own, report=k == 0)
        found |= {name: _compare(name, measured, own, place, labels, classes, shape[:-3]) for name in some}
    if "class" in axes:
        found = {name: _name_positive(one, classes[positive]) for name, one in found.items()}
    if isinstance(names, str) and names not in GROUPS:
        return found[wanted[0]]
    return GroupComparisonsByMetric({name: found[name] for name in wanted})


def _check_number_of_groups(number: int, C: int, labels: tuple[Any, ...], on_failure: OnFailure) -> None:
    """Raise ValueError without groups and classes, and warn of a single group, which has no other to differ from."""
    if not number and not C:
        validate.refuse("groups", "of at least two groups", "none")
    if number == 1 and validate.on_failure(on_failure) != "ignore":
        only = f"groups has one group, {validate.format_value(labels[0])}"
        failures.warn_diagnostic(f"{only}, which has no other to differ from; differences and p-values are NaN")


def _name_positive(found: GroupComparison, label: Any) -> GroupComparison:
    """Return a comparison by a metric of the positive class with the label of this class, unless that is 1."""
    if not (found.name in (*CRITERIA, SELECTED) or _plan.is_binary((found.name,))) or label in (1, "1"):
        return found
    return axis_names.name_axes(found, {}, "", {"positive": label})


def _split_units(
    M: Any, sample_weight: Any, clusters: Any, method: str | None
) -> tuple[Any, _group_units.GroupUnits | None]:
    """Return counts, and the weighted samples or clusters they were counted from; refuse these options for matrices."""
    for name, given in (("sample_weight", sample_weight), ("clusters", clusters)):
        if given is not None:
            wanted = "None unless labels and groups are given, as counts do not tell samples apart"
            validate.refuse(name, wanted, type(given).__name__, TypeError)
    if not isinstance(M, _group_units.SampledCounts):
        return M, None
    if method == "wilson":
        wanted = '"bootstrap" or "delta" with sample_weight or clusters'
        validate.refuse("method", wanted, repr(method))
    return M


def _compare_with_all(every: list[_Measured], request: _GroupRequest) -> _group_gaps.PairIntervals:
    """Return the comparisons of each group with all samples, for every rate, shape (N, E, K, G)."""
    found = []
    for one in every:
        assert one.together is not None
        value = np.where(one.known, one.estimate, np.nan)
        found.append(
            _group_overall.compare_with_all(value, one.size, one.draws, one.together, request.confidence_level)
        )
    return _group_gaps.PairIntervals(*(np.stack(parts, axis=2) for parts in zip(*found, strict=True)))


def _choose_method(name: str) -> GroupMethod:
    """Return the default method: that of shares of samples, or the one that fits every metric."""
    shares = name in CRITERIA or _caveats.find_share_base(name) is not None
    return "wilson" if shares else "bootstrap"


def _resolve_names(names: Any) -> tuple[str, ...]:
    """Return known names of metrics and criteria of fairness as a tuple; refuse unknown names."""
    for name in names if isinstance(names, list | tuple) else (names,):
        if isinstance(name, str) and name not in CRITERIA:
            _refuse_fairness_elsewhere(name)
    if isinstance(names, str) and names in CRITERIA:
        return (names,)
    if not isinstance(names, list | tuple):
        return _plan.resolve_names(names)
    known = [name for name in names if isinstance(name, str) and name in CRITERIA]
    rest = [name for name in names if not any(name is one for one in known)]
    _plan.resolve_names(rest)
    return tuple(names)


def _refuse_fairness_elsewhere(name: str) -> None:
    """Raise ValueError for a criterion of fairness as other libraries call it, or misspelt."""
    own = FAIRNESS.get(name.lower())
    if own is not None:
        validate.refuse("names", _NAMES, f"{name!r}; here it is called {own!r}, a difference between groups")
    near = validate.suggest_name(name, CRITERIA)
    if near and find_form(name) is None and not suggest_names(name) and name.lower() not in OF_SCORES:
        validate.refuse("names", _NAMES, f"{validate.format_value(name)}{near}")


def _find_reference(reference: Any, groups: tuple[Any, ...]) -> int | None:
    """Return the position of the reference group, or None."""
    if reference is None:
        return None
    if isinstance(reference, list):
        reference = tuple(reference)
    for k, group in enumerate(groups):
        if group == reference and isinstance(group, bool) == isinstance(reference, bool):
            return k
    shown = ", ".join(map(repr, groups[:10])) + (", ..." if len(groups) > 10 else "")
    return validate.refuse("reference", f'one of the groups {shown}, or "{OVERALL}"', validate.format_value(reference))


def _measure(M: Any, parts: tuple[str, ...], request: _GroupRequest, *, report: bool) -> dict[str, _Measured]:
    """Return what is known of each metric of all groups, shape (..., G), flattened to (N, G)."""
    shape = dispatch.shape_of(M)
    flat = M.reshape(int(np.prod(shape[:-3])), *shape[-3:])
    metrics = tuple(part for part in parts if part != SELECTED)
    found = dict(zip(metrics, _measure_metrics(flat, metrics, request, report=report), strict=True)) if metrics else {}
    if SELECTED in parts:
        pooled = adapter(flat).evaluate(lambda M: _pool_rows(M, request.positive), flat)
        if request.units is not None:
            request = request._replace(units=request.units.pool_rows(request.positive))
        (found[SELECTED],) = _measure_metrics(pooled, (IN_POOLED,), request, report=report and not metrics)
    return found


def _pool_rows(M: Any, positive: int) -> Any:
    """Return matrices that take all samples for positive: their recall is the share of positive predictions."""
    predicted = M.sum(-2)
    out = predicted[..., :, None] * 0 + predicted[..., None, :] * 0
    out[..., positive, :] = predicted
    return out


def _measure_metrics(M: Any, names: tuple[str, ...], request: _GroupRequest, *, report: bool) -> list[_Measured]:
    """Return what is known of metrics of matrices of shape (N, G, C, C)."""
    if request.units is not None:
        return _measure_units(M, names, request, request.units)
    own, C = adapter(M), dispatch.shape_of(M)[-1]
    layout = _plan.make_plan(names, C, request.undefined, request.positive, argument="M")
    sizes = _count_shares(M, names, request) if request.method == "wilson" else [None] * len(names)
    *errors, status = dispatch.call(
        "standard_errors", M, plan=layout.plan, rows=False, n=None, num_threads=request.num_threads
    )
    if report:
        whole = (*request.batch, len(request.groups))
        report_invalid(
            adapter(status).reshape(status, whole),
            request.on_failure,
            "groups left out",
            own.reshape(M, (*whole, C, C)),
            clustered=True,
            name=request.name_group,
        )

    def evaluate(M: Any, undefined: Undefined) -> list[np.ndarray]:
        """Return the metrics of matrices on the host."""
        found = _evaluate.evaluate(M, names, undefined, request.positive, "ignore", request.num_threads)
        return [np.asarray(own.to_host(x), np.float64) for x in found]

    def move_classes(x: Any, *, per_class: bool) -> np.ndarray:
        """Return an array (N, G), or (N, G, C), as (N, E, G)."""
        host = np.asarray(adapter(x).to_host(x), np.float64)
        return np.moveaxis(host, -1, 1) if per_class else host[:, np.newaxis]

    bad = np.asarray(own.to_host(status)) != 0
    if bad.any():  # so that sums over groups leave them out
        kept = np.array(own.to_host(M))
        kept[bad] = 0
        M = own.send(kept, M)
    draws = _draw(M, names, layout, request) if request.method == "bootstrap" else None
    together = _Together(M, names, layout, request, move_classes) if request.to_all else None
    values, known = evaluate(M, request.undefined), evaluate(M, "nan")
    overall = evaluate(own.evaluate(lambda M: M.sum(1), M), request.undefined)
    found = []
    for k, (name, place) in enumerate(zip(names, layout.positions, strict=True)):
        form = find_form(name)
        per_class = form is not None and form.per_class
        is_known = move_classes(~np.isnan(known[k]), per_class=per_class) > 0.0
        estimate = np.where(bad[:, np.newaxis], np.nan, move_classes(values[k], per_class=per_class))
        found.append(
            _Measured(
                estimate=estimate,
                known=is_known & ~bad[:, np.newaxis],
                error=move_classes(errors[place], per_class=per_class),
                overall=overall[k] if per_class else overall[k][:, np.newaxis],
                size=None if sizes[k] is None else move_classes(sizes[k], per_class=per_class),
                draws=None if draws is None else draws[place],
                per_class=per_class,
                together=None if together is None else together.measure(k, estimate, per_class=per_class),
            )
        )
    if request.method in DOUBTED_AS and request.on_failure != "ignore":
        _warn_of_few_samples(M, dict(zip(names, found, strict=True)), request)
    return found


def _measure_units(
    M: Any, names: tuple[str, ...], request: _GroupRequest, units: _group_units.GroupUnits
) -> list[_Measured]:
    """Return what is known of metrics of weighted samples, or of clusters, of matrices of shape (1, G, C, C)."""
    M = np.asarray(adapter(M).to_host(M), np.float64)
    layout = _plan.make_plan(names, M.shape[-1], request.undefined, request.positive, argument="M")
    values, known = (
        [
            np.asarray(x)
            for x in _evaluate.evaluate(M, names, undefined, request.positive, "ignore", request.num_threads)
        ]
        for undefined in (request.undefined, "nan")
    )
    whole = M.sum(1)
    overall = _evaluate.evaluate(whole, names, request.undefined, request.positive, "ignore", request.num_threads)
    together = _evaluate_defined(whole, names, request)
    draws = _draw_units(names, request, units) if request.method == "bootstrap" else None
    found = []
    for k, (name, place) in enumerate(zip(names, layout.positions, strict=True)):
        form = find_form(name)
        per_class = form is not None and form.per_class

        def move(x: Any, *, per_class: bool = per_class) -> np.ndarray:
            """Return an array (1, ...), or with classes last, as one with classes second."""
            return np.moveaxis(x, -1, 1) if per_class else x[:, np.newaxis]

        estimate = move(values[k])
        value = together[k] if per_class else together[k][:, np.newaxis]
        slopes = [
            _group_overall.differentiate(M, layout.plan, place, c, request.num_threads)[0]
            for c in range(estimate.shape[1])
        ]
        error = np.sqrt(np.stack([units.compute_variance(slope) for slope in slopes]))[np.newaxis]
        both = None
        if request.to_all:
            errors = None
            if draws is None:
                errors = _group_overall.compute_errors(
                    M, layout.plan, place, estimate, value, request.num_threads, units
                )
            both = _group_overall.OverallValues(value, errors, None, None if draws is None else move(draws[k][1]))
        found.append(
            _Measured(
                estimate=estimate,
                known=move(~np.isnan(known[k])),
                error=error,
                overall=np.asarray(overall[k]) if per_class else np.asarray(overall[k])[:, np.newaxis],
                size=None,
                draws=None if draws is None else np.moveaxis(move(draws[k][0]), 2, -1),
                per_class=per_class,
                together=both,
            )
        )
    if request.on_failure != "ignore":
        if units.clustered:
            _caveats.warn_of_few_clusters(np.array([one.n_units for one in units.units]))
        else:
            _warn_of_few_samples(units.scale_counts()[np.newaxis], dict(zip(names, found, strict=True)), request)
    return found


def _draw_units(
    names: tuple[str, ...], request: _GroupRequest, units: _group_units.GroupUnits
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return replicates of each metric of every group and of all samples; classes last, NaN where they are 0/0.

    Their shapes are (1, B, G) and (1, B), with classes (1, B, G, C) and (1, B, C).
    """
    parts: list[tuple[list[np.ndarray], list[np.ndarray]]] = [([], []) for _ in names]
    for drawn in units.draw(request.n_resamples, request.seed):
        of_groups = _evaluate_defined(drawn, names, request)
        of_all = _evaluate_defined(drawn.sum(1), names, request) if request.to_all else [np.zeros(0)] * len(names)
        for part, own, whole in zip(parts, of_groups, of_all, strict=True):
            part[0].append(own)
            part[1].append(whole)
    return [(np.concatenate(own)[np.newaxis], np.concatenate(whole)[np.newaxis]) for own, whole in parts]


def _evaluate_defined(M: Any, names: tuple[str, ...], request: _GroupRequest) -> list[np.ndarray]:
    """Return metrics of matrices on the host; NaN where they are 0/0."""

    def evaluate(undefined: Undefined) -> list[np.ndarray]:
        """Return the metrics with this value of a 0/0."""
        found = _evaluate.evaluate(M, names, undefined, request.positive, "ignore", request.num_threads)
        return [np.asarray(adapter(M).to_host(x), np.float64) for x in found]

    values, known = evaluate(request.undefined), evaluate("nan")
    return [np.where(np.isnan(y), np.nan, x) for x, y in zip(values, known, strict=True)]


class _Together:
    """What is known of metrics of all samples, where each group is compared with them."""

    def __init__(
        self, M: Any, names: tuple[str, ...], layout: _plan.IndexedPlan, request: _GroupRequest, move_classes: Any
    ) -> None:
        self.M, self.layout, self.request, self.move_classes = M, layout, request, move_classes
        own = adapter(M)
        self.rest, self.sizes, self.draws = None, None, None
        self.values = _evaluate_defined(own.evaluate(lambda M: M.sum(1), M), names, request)
        if request.method == "wilson":
            others = own.evaluate(lambda M: M.sum(1)[:, None] - M, M)
            self.rest, self.sizes = _evaluate_defined(others, names, request), _count_shares(others, names, request)
        elif request.method == "bootstrap":
            self.draws = self._draw(names)

    def _draw(self, names: tuple[str, ...]) -> list[np.ndarray]:
        """Return the metrics of the sums of the replicates of all groups, shape (N, B) or (N, B, C)."""
        (N, G, C, _), request = dispatch.shape_of(self.M), self.request
        found: list[list[np.ndarray]] = [[] for _ in names]
        for n in range(N):
            added = np.zeros((request.n_resamples, C, C), np.int64)
            for g in range(G):
                drawn, _ = dispatch.call(
                    "resample", self.M[n : n + 1, g], None, n_resamples=request.n_resamples, scheme="multinomial",
                    n=None, seed=request.seed, numbers=np.array([n * G + g]), num_threads=request.num_threads,
                )  # fmt: skip
                added += np.asarray(adapter(drawn).to_host(drawn))[0]
            for part, x in zip(found, _evaluate_defined(added, names, request), strict=True):
                part.append(x)
        return [np.stack(part) if part else np.zeros((0, request.n_resamples)) for part in found]

    def measure(self, k: int, estimate: np.ndarray, *, per_class: bool) -> _group_overall.OverallValues:
        """Return what is known of metric `k`, whose values of the groups are `estimate`."""
        value = self.values[k] if per_class else self.values[k][:, np.newaxis]
        errors = rest = draws = None
        if self.rest is not None and self.sizes is not None:
            rest = tuple(self.move_classes(x[k], per_class=per_class) for x in (self.rest, self.sizes))
        elif self.draws is not None:
            drawn = self.draws[k]
            draws = np.moveaxis(drawn, -1, 1) if per_class else drawn[:, np.newaxis]
        else:
            errors = _group_overall.compute_errors(
                self.M, self.layout.plan, self.layout.positions[k], estimate, value, self.request.num_threads, None
            )
        return _group_overall.OverallValues(value, errors, rest, draws)


def _count_shares(M: Any, names: tuple[str, ...], request: _GroupRequest) -> list[np.ndarray]:
    """Return the number of samples that each metric is a share of; refuse metrics that are none."""
    bases = [require_share_base(name) for name in names]
    sums = margins(M, on_failure="ignore", num_threads=request.num_threads)
    host = [np.asarray(adapter(x).to_host(x), np.float64) for x in (sums.total, sums.row_sums, sums.col_sums)]
    sizes = []
    for name, base in zip(names, bases, strict=True):
        size = count_share_samples(name, base, (host[0], host[1], host[2]), request.positive)
        form = find_form(name)
        full = host[1].shape if form is not None and form.per_class else host[0].shape
        sizes.append(np.broadcast_to(size, full))
    return sizes


def _draw(M: Any, names: tuple[str, ...], layout: _plan.IndexedPlan, request: _GroupRequest) -> list[np.ndarray]:
    """Return replicates of every metric of the plan on the host, shape (N, E, G, B); NaN where they are 0/0."""
    found = _draw_replicates(M, layout, request)
    if request.undefined in ("nan", "strict"):
        return found
    sums = margins(M, on_failure="ignore", num_threads=request.num_threads)
    for side in (sums.row_sums, sums.col_sums):
        host = np.asarray(adapter(side).to_host(side))
        if np.any((host < MANY) & (host >= 0)):  # else no replicate lacks a class
            other = _plan.make_plan(names, dispatch.shape_of(M)[-1], "nan", request.positive, argument="M")
            known = _draw_replicates(M, other, request)
            for place, of_known in zip(layout.positions, other.positions, strict=True):
                found[place] = np.where(np.isnan(known[of_known]), np.nan, found[place])
            break
    return found


def _draw_replicates(M: Any, layout: _plan.IndexedPlan, request: _GroupRequest) -> list[np.ndarray]:
    """Return bootstrap replicates of every metric of the plan on the host, shape (N, E, G, B)."""
    N, G, C, _ = dispatch.shape_of(M)
    plan = layout.plan
    step = max(1, DRAWS_BYTES // max(8 * G * request.n_resamples * (plan.scalars + plan.tables * C), 1))
    parts: list[list[np.ndarray]] = [[] for _ in range(plan.scalars + plan.tables)]
    for first in range(0, max(N, 1), step):
        some = slice(first, min(first + step, N))
        numbers = np.arange(some.start * G, some.stop * G).reshape(some.stop - some.start, G)
        *drawn, _ = dispatch.call(
            "metric_draws", M[some], plan=plan, scheme="multinomial", n=None, prior=np.zeros((C, C)),
            n_resamples=request.n_resamples, seed=request.seed, numbers=numbers, num_threads=request.num_threads,
        )  # fmt: skip
        for part, x in zip(parts, drawn, strict=True):
            host = np.asarray(adapter(x).to_host(x))
            part.append(np.moveaxis(host, 2, 1) if host.ndim == 4 else host[:, np.newaxis])
    return [np.concatenate(part) for part in parts]


def _warn_of_few_samples(M: Any, found: dict[str, _Measured], request: _GroupRequest) -> None:
    """Warn of groups that have too few samples for the interval of a metric."""
    method = DOUBTED_AS[request.method]
    intervals = {name: _make_caveat_interval(one, request) for name, one in found.items()}
    given = {"n": None, "positive": request.positive, "num_threads": request.num_threads}
    counted = _caveats.count_caveats(M, intervals, method, request.n_resamples, **given)
    number = max((n for fits in counted.values() for n in fits.values()), default=0)
    if number:
        doubted = list(dict.fromkeys(name for fits in counted.values() for name in fits))
        what = ", ".join(doubted)
        if len(doubted) > MOST_NAMED:
            what = f"{len(doubted)} metrics, first {doubted[0]},"
        cure = _caveats.advise_method([] if request.units else doubted, "groups")  # with weights there is no "wilson"
        failures.warn_diagnostic(
            f"intervals of {what} hold less often than stated: in {number} of {int(np.prod(dispatch.shape_of(M)[:2]))} "
            f"groups too few samples are correct, wrong or of one class; {cure}"
        )


def _make_caveat_interval(one: _Measured, request: _GroupRequest) -> Interval:
    """Return the interval of a metric of every group, with classes last, shape (N, G) or (N, G, C)."""
    low, high, error = _find_group_ends(one, request)
    fields = (one.estimate, low, high, error)
    estimate, low, high, error = (np.moveaxis(x, 1, -1) if one.per_class else x[:, 0] for x in fields)
    return Interval(estimate, low, high, error, np.zeros(estimate.shape, np.int64))


def _find_group_ends(one: _Measured, request: _GroupRequest) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return both ends of the interval of every group, and its standard error."""
    z = _group_statistics.find_normal_quantile(request.confidence_level)
    if one.draws is not None:
        drawn = _replicate_statistics.make_replicates(one.draws, one.estimate, np.zeros(()))
        low, high, error = _replicate_statistics.compute_interval(
            drawn, "percentile", request.confidence_level, request.num_threads
        )
    elif one.ends is not None:
        low, high = one.ends.find_ends(slice(None), np.full(one.estimate.shape, z))
        error = one.error
    elif one.size is not None:
        low, high = _group_statistics.compute_wilson_ends(one.estimate, one.size, np.asarray(z))
        error = one.error
    else:
        low, high = normal_interval(one.estimate, one.error, z)[1:3]
        error = one.error
    return tuple(np.where(one.known, x, np.nan) for x in (low, high, error))  # type: ignore[return-value]


def _compare(
    name: str, measured: dict[str, _Measured], request: _GroupRequest, reference: int | None, groups: tuple[Any, ...],
    classes: tuple[Any, ...], batch: tuple[int, ...],
) -> GroupComparison:  # fmt: skip
    """Return the comparison of one metric or criterion."""
    rates = CRITERIA.get(name, (name,))
    every = [measured[rate] for rate in rates]
    ends = [_find_group_ends(one, request) for one in every]
    G = len(groups)

    def stack(parts: list[Any]) -> np.ndarray:
        """Return arrays of shape (N, E, G) as one of shape (N, E, K, G)."""
        return np.stack(parts, axis=2)

    value = stack([np.where(one.known, one.estimate, np.nan) for one in every])
    values = _group_gaps.GroupValues(
        value=value,
        error=stack([end[2] for end in ends]),
        size=None if every[0].size is None else stack([one.size for one in every]),
        draws=None if every[0].draws is None else stack([one.draws for one in every]),
        ends=every[0].ends,
    )
    pairs, gap = _group_gaps.compare_values(values, request.method, request.confidence_level)
    first, second = _group_statistics.list_pairs(G)
    if reference is not None:
        first, second, pairs = _group_gaps.select_pairs(pairs, G, reference)
    elif request.to_all:
        first, second, pairs = np.arange(G), np.full(G, -1), _compare_with_all(every, request)
    lost = stack([np.zeros(one.estimate.shape, np.int64) if one.draws is None else
                  np.where(one.known, np.isnan(one.draws).sum(-1), 0) for one in every])  # fmt: skip
    per_class, several = every[0].per_class, len(rates) > 1

    def shape_groups(x: np.ndarray) -> np.ndarray:
        """Return an array (N, E, K, G or P) in the shape of the result, with classes or rates last."""
        x = np.moveaxis(x, 2, -1) if several else x[:, :, 0]
        x = x[:, 0] if several else np.moveaxis(x, 1, -1) if per_class else x[:, 0]
        return np.ascontiguousarray(x.reshape((*batch, *x.shape[1:])))

    def shape_gap(x: np.ndarray) -> Any:
        """Return an array (N, E) in the shape of the result."""
        x = x if per_class else x[:, 0]
        return x.reshape((*batch, *x.shape[1:]))[()]

    overall = np.stack([one.overall for one in every], axis=-1)
    overall = overall[:, 0] if several else overall[..., 0] if per_class else overall[:, 0, 0]
    axes: dict[str, tuple[Any, ...]] = {"group": groups}
    axes |= {"rate": rates} if several else {"class": classes} if per_class else {}
    lowest, highest = _group_gaps.find_extremes(value)
    of_pairs = pairs._asdict() | {"holm": _group_gaps.correct_pairs(pairs.p_value)}
    return GroupComparison(
        name=name,
        estimate=shape_groups(stack([one.estimate for one in every])),
        low=shape_groups(stack([end[0] for end in ends])),
        high=shape_groups(stack([end[1] for end in ends])),
        standard_error=shape_groups(values.error),
        n_undefined=shape_groups(lost),
        overall=overall.reshape((*batch, *overall.shape[1:]))[()],
        lowest=shape_gap(lowest),
        highest=shape_gap(highest),
        **{key: shape_gap(x) for key, x in gap._asdict().items()},
        first=tuple(first.tolist()),
        second=tuple(second.tolist()),
        **{f"pair_{key}": shape_groups(x) for key, x in of_pairs.items()},
        confidence_level=request.confidence_level,
        method=request.method,
        axes=axes,
    )
