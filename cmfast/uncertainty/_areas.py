"""Areas under ROC curves: their result with covariances, intervals, and how functions of labels take scores."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial, wraps
from inspect import signature
from statistics import NormalDist
from typing import Any, Generic, Literal, NamedTuple, TypeVar, get_args

import numpy as np

from cmfast._core import (
    axis_names,
    bad_values,
    dispatch,
    failures,
    frames,
    result_frames,
    result_repr,
    table_columns,
    validate,
    wording,
)
from cmfast._core.adapters import adapter
from cmfast._core.annotations import AreaMethod, Array, ArrayT, OnFailure
from cmfast._core.lazy import accept_dask_arrays, are_lazy, dask
from cmfast._core.powers import compute_exp
from cmfast._core.usual_options import describe_unknown_option, describe_value
from cmfast.metrics._thresholds import adopt_scores, explain_bad_row
from cmfast.uncertainty._caveats import (
    find_small_areas,
    warn_of_few_wrong_ranks,
    warn_of_undefined_areas,
    warn_of_uneven_weights,
)
from cmfast.uncertainty._from_labels import gather_named_arrays
from cmfast.uncertainty._newcombe import compute_newcombe_ends, count_class_sizes
from cmfast.uncertainty._results import Interval, Intervals, normal_interval

R = TypeVar("R")
AREA = "roc_auc"  # the name of the area among metrics
AVERAGE_PRECISION = "average_precision"
AVERAGES = ("roc_auc_ovr", "roc_auc_ovr_weighted", "roc_auc_ovo", "roc_auc_ovo_weighted")  # over classes
SCORES = (AREA, *AVERAGES, AVERAGE_PRECISION)  # metrics of labels and scores
ELSEWHERE: dict[str, str] = dict.fromkeys(
    ("auc", "auroc", "roc_auc_score"), AREA
)  # by the name elsewhere, in small letters
ELSEWHERE |= dict.fromkeys(("ap", "auprc", "pr_auc", "average_precision_score"), AVERAGE_PRECISION)
FAILED = "elements without areas"
METHODS_OF_ERRORS = ("logit", "normal")  # intervals that follow from areas and their standard errors
PLOTTED_LEVEL = 0.95  # of the intervals that a plot of areas shows
SIZES = "sizes"  # what a result knows of the classes of each problem: their numbers of samples, or effective sizes
WEIGHTED = "weighted"  # whether these are effective sizes
LEAST_INFLUENCE = 1e-12  # of a sample, times their number: less is the rounding of sums of weights
EXACT_DIGITS = 12  # of an area without variance, whose sums of weights may be rounded, too
BOTH = "newcombe and logit"  # method of a batch, in which some classes are small


@result_repr.add_repr
class AucCovariance(NamedTuple, Generic[ArrayT]):
    """Areas under the ROC curves of K models on the same samples, with their covariances.

    Attributes
    ----------
    auc : array of float64, shape (..., K)
        Area of each model.
    covariance : array of float64, shape (..., K, K)
        Covariances of the areas by DeLong's method.
    standard_error : array of float64, shape (..., K)
        Standard error of each area, from its variance.
    """

    auc: ArrayT
    covariance: ArrayT
    standard_error: ArrayT

    def interval(self, *, method: AreaMethod | None = None, confidence_level: float = 0.95) -> Interval:
        """Compute a confidence interval of the area of each model.

        Parameters
        ----------
        method : {"logit", "normal", "newcombe"}, optional
            As for :func:`cmfast.uncertainty.interval` of scores, also its default: for "roc_auc" without clusters and
            `max_fpr` the one that fits the sizes of the classes. Results of Dask arrays do not know these, and have
            "logit".
        confidence_level : float
            Nominal coverage of the intervals.

        Returns
        -------
        Interval
            Arrays of shape (..., K).

        Warns
        -----
        DiagnosticWarning
            Unless by "newcombe": a standard error of 0, so that the interval has no width; areas of "roc_auc" whose
            smaller class is almost never ranked wrongly.

        Examples
        --------
        >>> from cmfast import uncertainty
        >>> y, a, b = (
        ...     [1, 1, 1, 0, 0, 0],
        ...     [0.9, 0.8, 0.3, 0.5, 0.2, 0.1],
        ...     [0.7, 0.9, 0.4, 0.6, 0.5, 0.2],
        ... )
        >>> uncertainty.auc_covariance(y, [a, b]).interval().low.round(2).tolist()
        [0.39, 0.26]
        """
        sizes = axis_names.get_settings(self).get(SIZES)
        chosen: Any = "logit" if method is None and sizes is None else method
        if chosen is not None:
            validate.choice("method", chosen, get_args(AreaMethod))
        if chosen == "newcombe" and sizes is None:
            wanted = 'logit or normal unless for "roc_auc" of two classes, without clusters, max_fpr and Dask arrays'
            validate.refuse("method", wanted, method)
        level = validate.confidence_level(confidence_level)
        if not result_repr.is_lazy_result(self) and chosen in METHODS_OF_ERRORS:
            cure = "" if sizes is None else f"; use {wording.option('method', 'newcombe')}"
            warn_of_no_width(self.standard_error, cure)
            if sizes is not None:
                areas, errors = (np.asarray(adapter(x).to_host(x)) for x in (self.auc, self.standard_error))
                warn_of_few_wrong_ranks(areas, errors, repeat_sizes(sizes, areas.shape))
        found = self._find_interval(chosen, level)
        settings = {"method": axis_names.get_settings(found).get("method", chosen), "confidence_level": level}
        metric = axis_names.get_metric(self) or (AREA if sizes is not None else "")
        return axis_names.name_axes(found, axis_names.get_axes(self), metric, settings)

    def _find_interval(self, method: str | None, confidence_level: float) -> Interval:
        """Return the intervals of the areas; without a method those that fit the sizes of the classes."""
        if method in METHODS_OF_ERRORS:
            return compute_area_interval(self.auc, self.standard_error, str(method), confidence_level)
        known = axis_names.get_settings(self)
        sizes = repeat_sizes(known[SIZES], dispatch.shape_of(self.auc))
        given = (self.auc, self.standard_error, sizes, confidence_level)
        if method is None:
            return _compute_fitting_interval(*given, weighted=known[WEIGHTED])
        return _compute_newcombe_interval(*given)

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a row per model, by its name if it has one: its area and standard error."""
        columns = {"auc": self.auc, "standard_error": self.standard_error}
        frame = result_frames.make_frame(columns, ("model",))
        for axis, names in axis_names.get_axes(self).items():
            frame[axis] = [names[k] for k in frame[axis]]
        return frame

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the area of each model with its 95 % interval, as ``interval().plot()``.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        matplotlib axes
            Axes of the plot; the figure is not shown.
        """
        method = None if SIZES in axis_names.get_settings(self) else "logit"
        found = self._find_interval(method, PLOTTED_LEVEL)
        ax = axis_names.name_axes(found, axis_names.get_axes(self)).plot(ax=ax)
        ax.set_xlabel(f"{axis_names.get_metric(self) or 'area under the ROC curve'}, 95 % intervals")
        return ax

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        return self._named_parts(str)

    def _named_parts(self, name: Callable[[str], str]) -> dict[str, str]:
        """Return the parts; `name` renders names that users gave."""
        parts = {field: result_repr.format_values(getattr(self, field)) for field in ("auc", "standard_error")}
        models = axis_names.get_axes(self).get("model")
        metric = axis_names.get_metric(self)
        named = {"metric": metric} if metric else {}
        if models is not None:
            named["of"] = name(validate.format_value(", ".join(map(str, models)), str))
        return named | parts

    def explain(self) -> str:
        """Return a text with the number of models and the range of their areas."""
        auc = np.asarray(adapter(self.auc).to_host(self.auc))
        if not auc.size or np.isnan(auc).all():
            return "no areas"
        metric, models = axis_names.get_metric(self), axis_names.get_axes(self).get("model", ())
        text = f"{auc.shape[-1]:,} models, {metric or 'areas'} from {np.nanmin(auc):.4g} to {np.nanmax(auc):.4g}"
        if auc.ndim != 1 or len(models) != len(auc) or np.isnan(auc).any():
            return text
        low, high = (models[int(place)] for place in (auc.argmin(), auc.argmax()))
        return f"{text}: lowest of {low}, highest of {high}"


def repeat_sizes(sizes: tuple[np.ndarray, np.ndarray], shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return the sizes of both classes of each problem, repeated for each model."""
    m, n = (np.broadcast_to(np.asarray(size)[..., np.newaxis], shape) for size in sizes)
    return m, n


def warn_of_no_width(error: Any, cure: str = "") -> None:
    """Warn if the interval of an area has no width, though other samples would give another area; with the `cure`."""
    if adapter(error).any(adapter(error).evaluate(lambda x: x == 0.0, error)):
        failures.warn_diagnostic(
            "a standard error is 0, because the scores separate the classes, or are equal in one of them; the interval "
            f"has no width and is too narrow{cure}"
        )


def choose_method(name: str, clusters: Any, max_fpr: Any) -> Literal["logit", "newcombe"]:
    """Return "newcombe" for areas of two classes that have this interval, else "logit"."""
    return "newcombe" if name == AREA and max_fpr is None and (clusters is None or clusters is False) else "logit"


def describe_without_newcombe(name: str, max_fpr: Any) -> str:
    """Return which argument makes an area one that has no interval by "newcombe"."""
    return repr(name) if name != AREA else "clusters" if max_fpr is None else "max_fpr"


def compute_area_interval(auc: Any, error: Any, method: str, confidence_level: float) -> Interval:
    """Return the interval of areas, as wide as their standard errors say."""
    z = NormalDist().inv_cdf((1.0 + confidence_level) / 2.0)
    found = normal_interval(auc, error, z)
    if method == "normal":
        return found

    def find_ends(auc: Any, error: Any) -> tuple[Any, Any]:
        """Return both ends, symmetric on the scale of log odds; without an error both are the area."""
        reach = compute_exp(z * error / (auc * (1.0 - auc) + (error == 0.0)))
        return auc / (auc + (1.0 - auc) * reach), auc / (auc + (1.0 - auc) / reach)

    low, high = adapter(auc).evaluate(find_ends, auc, error)
    return found._replace(low=low, high=high)


def compute_areas(
    arrays: list[Any],
    on_failure: OnFailure,
    num_threads: int | None,
    method: AreaMethod | None = None,
    models: tuple[Any, ...] | None = None,
    *,
    single: bool = False,
) -> list[Any]:
    """Return areas, covariances and standard errors of adopted scores (..., K, n), labels and weights.

    `method` is that of an interval, if one follows: the warning of uneven weights depends on it. `models` are the names
    of the models, if these have some. If `single`, the caller added the axis of models, and messages leave it out.
    """
    found: list[Any]
    *found, status = dispatch.call("auc_covariance", *arrays, num_threads=num_threads)
    given = [adapter(arrays[0]).evaluate(lambda x: x[..., 0, :], arrays[0]), *arrays[1:]] if single else arrays
    failures.report(status, on_failure, failed=FAILED, why=partial(_explain_bad_element, given, models=models))
    y, weight = (None if x is None else np.asarray(adapter(x).to_host(x)) for x in arrays[1:])
    codes = np.asarray(y == 1).astype(np.int64)
    found[1:] = mask_single_samples(codes, weight, *found[1:])
    if weight is not None:
        found = drop_rounding(*found)
    if validate.on_failure(on_failure) != "ignore":
        if weight is not None:
            warn_of_uneven_weights(codes, weight, method=method)
        warn_of_undefined_areas(codes, weight, *(np.asarray(adapter(x).to_host(x)) for x in (found[0], found[2])))
    return found


def drop_rounding(auc: Any, covariance: Any, error: Any) -> list[Any]:
    """Return weighted areas (..., K), covariances and standard errors, without variance where it is rounding.

    Sums of weights are rounded, so that areas of scores that separate the classes may differ in their last digits.
    """
    own = adapter(auc)
    area, spread = (np.asarray(own.to_host(x)) for x in (auc, error))
    exact = spread < LEAST_INFLUENCE
    if not exact.any():
        return [auc, covariance, error]
    kept = np.where(exact, 0.0, 1.0).astype(area.dtype)
    factors = [own.send(x, auc) for x in (kept[..., np.newaxis] * kept[..., np.newaxis, :], kept)]
    covariance, error = (
        own.evaluate(lambda x, f: x * f, x, f) for x, f in zip((covariance, error), factors, strict=True)
    )
    return [own.send(np.where(exact, area.round(EXACT_DIGITS), area), auc), covariance, error]


def mask_single_samples(codes: np.ndarray, weight: np.ndarray | None, *arrays: Any) -> list[Any]:
    """Return covariances of areas, and standard errors, NaN where a class has one sample, whose placement has none.

    Rounding of the placements may leave an infinite covariance. `codes` are 1 for positive samples, shape (..., n).
    """
    counted = np.ones(codes.shape, np.bool_) if weight is None else weight > 0.0
    single = np.zeros(codes.shape[:-1], np.bool_)
    for k in (0, 1):
        single |= np.count_nonzero((codes == k) & counted, axis=-1) == 1
    if not single.any():
        return list(arrays)
    factor = np.where(single, np.nan, 1.0)
    out = []
    for array in arrays:
        own = adapter(array)
        shaped = own.send(factor.reshape(*factor.shape, *[1] * (len(array.shape) - factor.ndim)), array)
        out.append(own.evaluate(lambda x, f: x * f, array, shaped))
    return out


def _explain_bad_element(arrays: list[Any], index: tuple[int, ...], models: tuple[Any, ...] | None) -> str:
    """Return a text that says why the element of the batch at `index` has no areas."""
    weight = arrays[2]
    if weight is not None:
        values = adapter(weight).entry(weight, index)
        said = bad_values.describe_first("sample_weight", values, values < 0, index)
        if said:
            return said
    return explain_bad_row(arrays, index, models)


def accept_scores(
    compute: Callable[..., Any],
    compute_others: Callable[..., Any],
    sides: tuple[str, ...],
    allowed: tuple[str, ...],
    collect: Callable[..., Any],
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Decorate a function of counts or labels: for names of areas it calls a function of the arrays `sides`.

    `compute` is for "roc_auc" of two classes; `compute_others` takes the name too, and options for clusters and partial
    areas. `collect` makes the result for a list of names of a dict of results and the options.
    """

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        """Return the function that also accepts scores."""

        @wraps(function)
        def wrapper(*given: Any, **options: Any) -> Any:
            """Call a function of scores if the name is that of an area, else `function`."""
            given, reading = _read_columns(given, options, sides)
            if holds_areas(options.get("names")):
                given = gather_named_arrays(given, options, sides)
            names = given[-1] if len(given) > 1 else None
            if isinstance(names, list | tuple) and (
                any(isinstance(name, str) and name in SCORES for name in names)
                or (len(given) == len(sides) + 1 and holds_areas(names))  # else these may be labels
            ):
                arrays = given[:-1]
                for name in names:
                    require_area(name, sides)
                if are_lazy(*arrays, options.get("clusters"), options.get("sample_weight")):
                    return dask().call_delayed(wrapper, *given, **options)
                return collect({name: wrapper(*arrays, name, **options) for name in dict.fromkeys(names)}, options)
            if isinstance(names, str) and len(given) == len(sides) + 1 and names.lower() in ELSEWHERE:
                called = ELSEWHERE[names.lower()]
                validate.refuse("names", "the names of metrics", f"{names!r}; it is called {called!r}")
            if not isinstance(names, str) or names not in SCORES:
                for option, use in (("max_fpr", repr(AREA)), ("sample_weight", "areas of scores")):
                    if options.get(option) is not None:
                        validate.refuse(option, f"left out but for {use}", describe_value(options[option]))
                return function(*given, **options)
            if given and frames.holds_columns(given[0]) and not frames.is_column(given[0]):
                table_columns.refuse_table_without_columns(sides, names)
            if len(given) != len(sides) + 1:
                wanted = f"a metric of counts; {names!r} needs labels and scores, {len(sides)} arrays in all"
                came = f"{', '.join(sides)}, before the name, got {len(given) - 1}"
                validate.fail(f"names must be {wanted}: {came}")
            for name, value in options.items():
                if name not in (*signature(function).parameters, *allowed):
                    validate.fail(describe_unknown_option(name, (*sides, *allowed)), TypeError)
                if name not in allowed:
                    validate.refuse(name, f"left out with {names!r}", describe_value(value))
            clusters, max_fpr = options.pop("clusters", None), options.pop("max_fpr", None)
            with reading:
                default = choose_method(names, clusters, max_fpr)
                if default == "newcombe":  # an area of two classes, of samples
                    return _name_interval(compute(*given[:-1], **options), names, BOTH, options)
                options |= {"clusters": clusters, "max_fpr": max_fpr}
                if are_lazy(*given[:-1], clusters, options.get("sample_weight")):
                    return dask().call_delayed(compute_others, *given, **options)
                return _name_interval(compute_others(*given, **options), names, default, options)

        return wrapper

    return decorate


def holds_areas(names: object) -> bool:
    """Return whether an argument is the name of an area, here or elsewhere, or a list with one."""
    several = names if isinstance(names, list | tuple) else [names]
    return any(isinstance(name, str) and (name in SCORES or name.lower() in ELSEWHERE) for name in several)


def require_area(name: object, sides: tuple[str, ...]) -> None:
    """Refuse an element of a list of names that is not the name of an area; `sides` are the arrays of areas."""
    if isinstance(name, str) and name.lower() in ELSEWHERE and name not in SCORES:
        called = ELSEWHERE[name.lower()]
        validate.refuse("names", "the names of metrics", f"{name!r}; it is called {called!r}")
    if not isinstance(name, str) or name not in SCORES:
        wanted = f"areas alone if one is an area, as they take scores for {' and '.join(sides[1:])}"
        validate.refuse("names", wanted, validate.format_value(name))


def collect_areas(found: dict[str, Interval], options: dict[str, Any]) -> Intervals:
    """Return intervals of several areas with their method and level."""
    level = validate.confidence_level(options.get("confidence_level", 0.95))
    methods = dict.fromkeys(axis_names.get_settings(one)["method"] for one in found.values())
    return Intervals(found, method=" and ".join(methods), confidence_level=level, n_resamples=0)


def _name_interval(found: Any, area: str, default: str, options: dict[str, Any]) -> Any:
    """Return an interval that knows its area, its method and its level; other results as they are."""
    if not isinstance(found, Interval):
        return found
    level = validate.share("confidence_level", options.get("confidence_level", 0.95))
    method = options.get("method") or axis_names.get_settings(found).get("method", default)
    settings = {"method": method, "confidence_level": level}
    return axis_names.name_axes(found, {}, area, settings)


def _read_columns(
    given: tuple[Any, ...], options: dict[str, Any], sides: tuple[str, ...]
) -> tuple[tuple[Any, ...], AbstractContextManager[None]]:
    """Return the arguments with the columns that a call names of a table, if it is for a metric of scores.

    Clusters and weights that are named become columns in `options`. In the context that is returned, messages name all
    columns with missing values.
    """
    name = options.get("names", given[-1] if given else None)
    if not given or not frames.holds_columns(given[0]) or not holds_areas(name):
        return given, nullcontext()
    others = tuple(name for name in ("clusters", "sample_weight") if isinstance(options.get(name), str))
    found = table_columns.find_columns(given, options, sides, others, sides[1:])
    if found is None:
        return given, nullcontext()
    return table_columns.read_call(found, options, sides, blocks=sides[1:])


@accept_dask_arrays(y_true="n", y_score="n", sample_weight="n")
def compute_interval(
    y_true: Array,
    y_score: Array,
    *,
    sample_weight: Array | None = None,
    method: AreaMethod | None = None,
    confidence_level: float = 0.95,
    pos_label: int | str | None = None,
    on_failure: OnFailure = None,
    num_threads: int | None = None,
) -> Interval:
    """Return the interval of the area of each row of scores."""
    if method is not None:
        validate.choice("method", method, get_args(AreaMethod))
    level = validate.confidence_level(confidence_level)
    arrays = adopt_scores(y_true, y_score, sample_weight, pos_label, on_failure)
    arrays[0] = adapter(arrays[0]).evaluate(lambda scores: scores[..., np.newaxis, :], arrays[0])
    num_threads = validate.num_threads(num_threads)
    auc, _, error = compute_areas(arrays, on_failure, num_threads, method or "newcombe", single=True)
    one = adapter(auc)
    auc, error = (one.evaluate(lambda x: x[..., 0][()], x) for x in (auc, error))
    y, weight = (None if x is None else np.asarray(adapter(x).to_host(x)) for x in arrays[1:])
    assert y is not None
    sizes = count_class_sizes(y, weight)
    if method is None:
        return _compute_fitting_interval(auc, error, sizes, level, weighted=weight is not None)
    if method == "newcombe":
        return _compute_newcombe_interval(auc, error, sizes, level)
    if validate.on_failure(on_failure) != "ignore":
        warn_of_no_width(error, f"; use {wording.option('method', 'newcombe')}")
        area, spread = (np.asarray(one.to_host(x)) for x in (auc, error))
        warn_of_few_wrong_ranks(area, spread, sizes)
    return compute_area_interval(auc, error, method, level)


def _compute_fitting_interval(
    auc: Any, error: Any, sizes: tuple[np.ndarray, np.ndarray], confidence_level: float, *, weighted: bool
) -> Interval:
    """Return the interval of areas that holds well: Newcombe's for small classes, else the logit interval.

    The result knows its method.
    """
    area, spread = (np.asarray(adapter(auc).to_host(x), np.float64) for x in (auc, error))
    small = find_small_areas(area, np.minimum(*sizes), weighted=weighted) | (spread == 0.0)
    if small.any() != small.all():
        found = [
            _compute_newcombe_interval(auc, error, sizes, confidence_level),
            compute_area_interval(auc, error, "logit", confidence_level),
        ]
        share = adapter(auc).send(small.astype(np.float64), auc)
        evaluate = adapter(auc).evaluate
        low, high = (
            evaluate(lambda share, x, y: x * share + y * (1.0 - share), share, *ends)
            for ends in ((one.low for one in found), (one.high for one in found))
        )
        return axis_names.name_axes(found[0]._replace(low=low, high=high), {}, "", {"method": BOTH})
    method = "newcombe" if small.any() else "logit"
    one = (
        _compute_newcombe_interval(auc, error, sizes, confidence_level)
        if method == "newcombe"
        else compute_area_interval(auc, error, method, confidence_level)
    )
    return axis_names.name_axes(one, {}, "", {"method": method})


def _compute_newcombe_interval(
    auc: Any, error: Any, sizes: tuple[np.ndarray, np.ndarray], confidence_level: float
) -> Interval:
    """Return Newcombe's interval of areas, given their standard errors and the sizes of both classes."""
    own, z = adapter(auc), NormalDist().inv_cdf((1.0 + confidence_level) / 2.0)
    area, spread = (np.asarray(own.to_host(x), np.float64) for x in (auc, error))
    ends = compute_newcombe_ends(area, np.square(spread), sizes, np.asarray(z))
    low, high = (own.send(x, auc) for x in ends)
    if not dispatch.shape_of(low):
        low, high = low[()], high[()]
    return normal_interval(auc, error, z)._replace(low=low, high=high)
