"""Caveats of intervals: warn when an interval covers less often than stated, by rules measured in docs/coverage.md."""

from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np

from cmfast._core import dispatch, failures, sparse, wording
from cmfast._core.adapters import adapter
from cmfast.kernels.shared.metric_formulas import Value
from cmfast.kernels.shared.metrics import Over, Total
from cmfast.metrics import _plan
from cmfast.metrics._catalogue import Form, find_form
from cmfast.metrics._margins import margins
from cmfast.uncertainty._results import Interval

FEW = {"bca": 5, "percentile": 5, "basic": 10, "normal": 10, "posterior": 5}  # samples
FEW_IF_VARIANCE_COUNTED = {
    "bca": 2,
    "percentile": 2,
    "basic": 2,
    "normal": 5,
}  # if the samples that carry the variance are counted too
MOST_CLASSES_IF_COUNTED = 20  # most classes for these limits: averages over many small classes are biased too
FEW_VARIANCE_CARRIERS = {"bca": 4, "percentile": 5, "basic": 9, "normal": 5}  # samples that carry the variance
MANY_CLASSES = 4  # from this number on the prior has little weight in a class
CLOSE_RECALLS = 3.0  # standard errors between the two smallest recalls that separate them in every test set
OFF_CENTER, OFF_CENTER_POSTERIOR = 0.5, 1.0  # standard errors between the middle of an interval and the estimate
CENTER_NOISE = 5.0  # divided by sqrt(n_resamples): Monte Carlo error of that middle, in standard errors
FEW_CLUSTERS = 12  # with fewer, 95 % intervals cover less than 90 %, by every method
FEWEST_WEIGHTED = 20  # effective size of a class by uneven weights for coverage of 90 %, see docs/uncertainty.md
FEWEST_WEIGHTED_IN_AVERAGES = 8  # the same for averages of areas over classes, and for Newcombe's intervals
FEWEST_WRONG_RANKS = 1.0  # size of the smaller class times the distance of an area from 0 or 1, for coverage of 90 %
FEWEST_IN_PAIRS = 8  # samples of a class for which differences of two areas are covered in 90 % by standard errors
FEWEST_IN_SURE_PAIRS = 20  # the same if too few samples are ranked wrongly by a model
FEWEST_BY_LOGITS = 8  # samples of a class from which areas have the logit interval by default
FEWEST_WRONG_BY_LOGITS = 2.0  # the same of the size of the smaller class times the distance of an area from 0 or 1
UNEVEN = 0.75  # effective size of a class, as a share of its samples, from which weights are as good as equal
BIASED = 1.0  # bias of `tau` in standard errors
AVERAGES = (Over.MEAN, Over.ADJUSTED, Over.GEOMETRIC, Over.TAU, Over.TAU_WEIGHTED, Over.MIN)

# Metrics that are shares of samples: of all, of a class (row), of its predictions (col), or of all others.
SHARE_OF = {
    Value.RECALL: "row", Value.FALSE_NEGATIVE: "row", Value.PRECISION: "col", Value.FALSE_DISCOVERY: "col",
    Value.SPECIFICITY: "not row", Value.FALSE_POSITIVE: "not row", Value.NPV: "not col",
    Value.FALSE_OMISSION: "not col", Value.ACCURACY: "all",
}  # fmt: skip
# Rates whose mean weighted by class counts is the share over all samples.
AVERAGES_TO_ACCURACY = {Value.RECALL, Value.FALSE_NEGATIVE}

TEXTS = {
    "few": "too few samples are correct, wrong or of one class; {cure}",
    "carried": "fewer than {carried} samples carry the variance, as when errors, or errors far from the diagonal, are "
    "rare; {cure}",
    "close": "several recalls are about equally small, so their minimum is biased low; look at recall instead",
    "aside": "resamples are not centred on the estimate; only more samples of each class help",
}


class ClassTotals(NamedTuple):
    """Sums of matrices, float64: diagonal, rows and columns, shape (..., C), and totals, shape (...)."""

    d: np.ndarray
    t: np.ndarray
    p: np.ndarray
    n: np.ndarray


def find_share_base(name: str) -> str | None:
    """Return the samples that a metric is a share of: all, row, col or their complements; None for other metrics."""
    form: Form | None = find_form(name)
    if form is not None:
        metric = form.metric
        if metric.total in (Total.ACCURACY, Total.ERROR) and metric.value is None:
            return "all"
        if form.average == "micro" and metric.micro is Total.ACCURACY:
            return "all"
        if (
            form.average in (None, "binary")
            and metric.over is None
            and metric.value is not None
            and metric.value in SHARE_OF
        ):
            return SHARE_OF[metric.value]
    return None


def warn_of_caveats(
    M: Any, found: Mapping[str, Interval], method: str, n_resamples: int, options: dict[str, Any]
) -> None:
    """Warn of intervals that cover the true value in less than 90 % of cases, judged by counts and ends."""
    if method not in FEW or options["on_failure"] == "ignore":
        return
    given = {"positive": options["pos_label"], **{key: options[key] for key in ("n", "num_threads")}}
    shape = dispatch.shape_of(M)[:-2]
    warn_of_counted_caveats(
        count_caveats(M, found, method, n_resamples, **given), method, prod(shape) if shape else None
    )


def count_caveats(
    M: Any, found: Mapping[str, Interval], method: str, n_resamples: int, **options: Any
) -> dict[str, dict[str, int]]:
    """Return by reason, then by metric, the number of matrices with an unreliable interval; counts of parts add."""
    doubts = find_caveats(M, found, method, n_resamples, **options)
    return {reason: {name: int(mask.sum()) for name, mask in fits.items()} for reason, fits in doubts.items()}


def warn_of_counted_caveats(number: Mapping[str, Mapping[str, int]], method: str, size: int | None) -> None:
    """Warn of unreliable intervals among `size` matrices; None for a single matrix."""
    for reason, fits in number.items():
        where = "" if size is None else f" in {max(fits.values())} of {size} matrices"
        text = TEXTS[reason].format(carried=FEW_VARIANCE_CARRIERS.get(method), cure=advise_method(list(fits), method))
        warn_of_unreliable(list(fits), method, text, where)


def advise_method(names: list[str], method: str) -> str:
    """Return the end of a message: what else than `method` makes intervals of metrics of few samples that cover.

    `method` is one of intervals of a matrix, or "groups" for comparisons of groups, which have no posterior.
    """
    shares = [name for name in names if find_share_base(name) is not None]
    which = f" for shares of samples, such as {shares[0]}" if 0 < len(shares) < len(names) else ""
    if method in ("posterior", "groups"):
        rest = "; for others only more samples help" if which else ""
        return f"use {wording.option('method', 'wilson')}{which}{rest}" if shares else "only more samples help"
    other = f", or {wording.option('method', 'wilson')}{which}" if shares else ""
    return f"use {wording.option('method', 'posterior')}{other}"


def warn_of_unreliable(names: list[str], method: str, text: str, where: str = "") -> None:
    """Warn that intervals of some metrics cover the true value too rarely, for the reason in `text`."""
    others = len(names) - 1
    what = names[0] if not others else f"{names[0]} and {others} other metric{'s' if others > 1 else ''}"
    failures.warn_diagnostic(
        f"intervals of {what} by {method} cover the true value less often than stated{where}: {text}"
    )


def warn_of_few_clusters(clusters: Any, *, p_values: bool = False, parts: str = "groups") -> None:
    """Warn when the number of clusters is too small for nominal coverage; an integer or one per group.

    `p_values` says whether p-values come from the intervals too; the message calls the groups `parts`.
    """
    number = np.asarray(clusters)
    alone, few = number == 1, (number > 1) & (number < FEW_CLUSTERS)
    what = "intervals and p-values" if p_values else "intervals"
    one, several = (f" in {np.count_nonzero(x)} of {x.size} {parts}" if number.ndim else "" for x in (alone, few))
    if alone.any():
        failures.warn_diagnostic(f"clusters has one cluster{one}, so nothing varies: {what} mean nothing")
    if few.any():
        text = f"fewer than {FEW_CLUSTERS} clusters{several}: {what} are overconfident"
        failures.warn_diagnostic(f"{text}; only more clusters help, not more samples per cluster")


def warn_of_uneven_weights(
    codes: np.ndarray,
    weight: np.ndarray,
    *,
    averages: bool = False,
    p_values: bool = False,
    method: str | None = None,
) -> None:
    """Warn of areas of weighted samples if weights leave a class too small an effective size (Kish 1965).

    `codes` are class indices, shape (..., n), and `weight` the weights of samples. Classes without weight, and problems
    with bad weights, do not count. `averages` says whether areas are averages over classes, and `p_values` whether
    p-values come from the intervals too. `method` is that of the interval of an area of two classes.
    """
    limit = FEWEST_WEIGHTED_IN_AVERAGES if averages or method == "newcombe" else FEWEST_WEIGHTED
    cure = "only more samples help" if method in (None, "newcombe") else f"use {wording.option('method', 'newcombe')}"
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        scaled = weight / weight.max(-1, keepdims=True, initial=0.0)
        smallest = np.full(codes.shape[:-1], np.inf)
        for k in np.unique(codes):
            own = np.where(codes == k, scaled, 0.0)
            size = own.sum(-1) ** 2 / (own * own).sum(-1)
            uneven = size < UNEVEN * np.count_nonzero(own, axis=-1)
            smallest = np.where(uneven & (weight >= 0.0).all(-1), np.fmin(smallest, size), smallest)
    few = smallest < limit
    if few.any():
        where = f" in {np.count_nonzero(few)} of {few.size} problems" if few.ndim else ""
        what = "intervals and p-values" if p_values else "intervals"
        text = f"uneven weights leave a class an effective size of {smallest[few].min():.3g} samples{where}, below"
        failures.warn_diagnostic(f"{text} {limit}: {what} are overconfident; {cure}")


def find_few_wrong_ranks(area: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return a mask of areas whose interval by standard error is too narrow, given the size of the smaller class.

    Its samples lose ``size * min(area, 1 - area)`` of their comparisons, each counted as a share; docs/uncertainty.md
    gives the coverage by this number.
    """
    with np.errstate(invalid="ignore"):
        return np.asarray(size * np.minimum(area, 1.0 - area) < FEWEST_WRONG_RANKS)


def find_small_areas(area: np.ndarray, size: np.ndarray, *, weighted: bool) -> np.ndarray:
    """Return a mask of areas that have Newcombe's interval by default, given the size of the smaller class.

    docs/uncertainty.md gives the coverage of both, also by effective sizes of `weighted` samples.
    """
    fewest = FEWEST_WEIGHTED if weighted else FEWEST_BY_LOGITS
    with np.errstate(invalid="ignore"):
        return np.asarray((size < fewest) | (size * np.minimum(area, 1.0 - area) < FEWEST_WRONG_BY_LOGITS))


def warn_of_few_wrong_ranks(area: np.ndarray, error: np.ndarray, sizes: tuple[np.ndarray, np.ndarray]) -> None:
    """Warn of intervals of areas of two classes that are too narrow, as the smaller class is almost never misranked.

    Not of those with a standard error of 0, for which there is another warning.
    """
    smaller = np.minimum(*sizes)
    few = find_few_wrong_ranks(area, smaller) & (error > 0.0)
    if few.any():
        first = np.unravel_index(np.flatnonzero(few)[0], few.shape)
        where = f"areas of {np.count_nonzero(few)} of {few.size} problems, first" if few.ndim else "an area of"
        text = f"{area[first]:.3g} with {smaller[first]:.3g} samples in the smaller class"
        cure = wording.option("method", "newcombe")
        failures.warn_diagnostic(
            f"{where} {text}: too few are ranked wrongly, and the interval is too narrow; use {cure}"
        )


def warn_of_undefined_areas(
    codes: np.ndarray, weight: np.ndarray | None, areas: np.ndarray, errors: np.ndarray, *, averages: bool = False
) -> None:
    """Warn of areas, and of standard errors, that are NaN because a class has no sample, or one.

    `codes` are class indices, shape (..., n), 1 for positive samples of two classes, and `weight` the weights of
    samples, if these have some. `areas` and `errors` have the shape (...), or (..., K) of K models. `averages` says
    whether areas are averages over classes.
    """
    counted = np.ones(codes.shape, np.bool_) if weight is None else weight > 0.0
    judged = True if weight is None else (weight >= 0.0).all(-1) & np.isfinite(weight.sum(-1))  # others are INVALID
    classes = {1: "positive", 0: "negative"}
    if averages:
        classes = dict.fromkeys(np.unique(codes).tolist(), "")
    batch = codes.shape[:-1]
    sizes = np.array([np.count_nonzero((codes == k) & counted, axis=-1) for k in classes]).reshape(len(classes), *batch)
    no_area, no_error = (np.isnan(x).any(tuple(range(len(batch), np.ndim(x)))) for x in (areas, errors))
    for size, (mask, what) in enumerate(((no_area, "areas"), (no_error & ~no_area, "standard errors and intervals"))):
        lacking = (sizes == size) & mask & judged
        problems = lacking.any(0)
        if not problems.any():
            continue
        first = np.unravel_index(np.flatnonzero(problems)[0], problems.shape)
        number = ("no", "one")[size]
        which = list(classes.values())[int(np.argmax(lacking[(slice(None), *first)]))]
        text = f"a class has {number} sample" if averages else f"y_true has {number} {which} sample"
        text += " with a weight above 0" if weight is not None else ""
        if weight is not None and codes.shape[-1] and not counted[first].any():
            text = "sample_weight is 0 for all samples"
        where = f" in {np.count_nonzero(problems)} of {problems.size} problems" if batch else ""
        needed = ("a sample", "two samples")[size]
        failures.warn_diagnostic(f"{what} are NaN{where}: {text}, and they need {needed} of each class")


def warn_of_small_pairs(areas: np.ndarray, sizes: tuple[np.ndarray, np.ndarray]) -> None:
    """Warn of differences of two areas, shape (2, ...), whose interval by standard errors is too narrow.

    docs/uncertainty.md gives the coverage by the size of the smaller class.
    """
    smaller = np.minimum(*sizes)
    few = find_few_wrong_ranks(areas, smaller).any(0) & (smaller < FEWEST_IN_SURE_PAIRS)
    few = (few | (smaller < FEWEST_IN_PAIRS)) & ~np.isnan(areas.sum(0)) & (smaller > 1.0)
    if few.any():
        where = f" in {np.count_nonzero(few)} of {few.size} problems" if few.ndim else ""
        text = f"the smaller class has {smaller[few].min():.3g} samples{where}"
        cure = wording.option("method", "newcombe")
        failures.warn_diagnostic(f"{text}: the interval of the difference may be too narrow; use {cure}")


def warn_of_small_classes(codes: np.ndarray) -> None:
    """Warn of intervals of averages of areas if a class has too few samples, given class indices (..., n)."""
    sizes = [np.count_nonzero(codes == k, axis=-1) for k in np.unique(codes)]
    smallest = np.min(sizes, axis=0) if sizes else np.zeros(codes.shape[:-1], np.int64)
    few = (smallest > 0) & (smallest < FEWEST_WEIGHTED_IN_AVERAGES)
    if few.any():
        where = f" in {np.count_nonzero(few)} of {few.size} problems" if few.ndim else ""
        text = f"a class has {smallest[few].min()} samples{where}, below {FEWEST_WEIGHTED_IN_AVERAGES}"
        failures.warn_diagnostic(f"{text}: intervals are too narrow; only more samples help")


def warn_of_few_swaps(least: Mapping[str, np.ndarray], confidence_level: float, *, one: bool) -> None:
    """Warn of metrics whose p-value cannot reach ``1 - confidence_level`` because too few samples or clusters differ.

    `least` holds the smallest possible p-values; `one` says whether there is one group.
    """
    few = {name: p > 1.0 - confidence_level for name, p in least.items() if (p > 1.0 - confidence_level).any()}
    if not few:
        return
    first, mask = next(iter(few.items()))
    others = f" and {len(few) - 1} other metric{'s' * (len(few) > 2)}" if len(few) > 1 else ""
    where = f" in {np.count_nonzero(mask)} of {mask.size} {'classes' if one else 'groups and classes'}"
    text = f"too few samples or clusters differ in {first}{others}{where * (mask.size > 1)}"
    found = f"the smallest possible p is {np.min(least[first][mask]):.3g}, above {1.0 - confidence_level:.3g}"
    failures.warn_diagnostic(f"{text}: {found}; only more samples help")


def find_caveats(
    M: Any,
    found: Mapping[str, Interval],
    method: str,
    n_resamples: int,
    *,
    n: int | None,
    positive: int,
    num_threads: int | None,
) -> dict[str, dict[str, np.ndarray]]:
    """Return by reason, then by metric, a mask of the matrices whose interval is unreliable, shape (...)."""
    sums = margins(M, on_failure="ignore", num_threads=num_threads)
    d, t, p, whole = (np.asarray(adapter(x).to_host(x), np.float64) for x in (*sums[:3], sums.total))
    counts = ClassTotals(d, t, p, whole)
    out: dict[str, dict[str, np.ndarray]] = {}
    if method not in FEW or not counts.d.size:
        return out
    are_counts = (whole > 0) & ((t == np.rint(t)).all(-1) | (n is not None))  # other matrices have no intervals
    if n is not None:
        factor = np.asarray(n / np.where(counts.n > 0, counts.n, np.inf))
        counts = ClassTotals(d * factor[..., None], t * factor[..., None], p * factor[..., None], whole * factor)
    carrying = _count_carrying_samples(M, found, method, n, are_counts, num_threads)
    for name, one in found.items():
        rest = are_counts
        samples = carrying.get(name, np.full(counts.n.shape, np.nan))
        beside = (
            FEW_IF_VARIANCE_COUNTED.get(method, FEW[method]) if d.shape[-1] <= MOST_CLASSES_IF_COUNTED else FEW[method]
        )
        few = np.where(np.isnan(samples), FEW[method], beside)
        for reason, mask in (
            ("few", _has_few_samples(name, counts, method, positive, few)),
            ("carried", samples < FEW_VARIANCE_CARRIERS.get(method, 0)),
            ("close", _has_close_recalls(name, counts)),
            ("aside", _is_interval_off_center(name, one, method, n_resamples) | _is_tau_biased(name, counts)),
        ):
            if (mask & rest).any():
                out.setdefault(reason, {})[name] = mask & rest
            rest = rest & ~mask
    return out


def _has_few_samples(name: str, counts: ClassTotals, method: str, positive: int, few: np.ndarray) -> np.ndarray:
    """Return where fewer than `few` samples are correct, or wrong, or of one class."""
    kind = _classify_samples(name)
    if method == "posterior" and (counts.d.shape[-1] < MANY_CLASSES or kind == "all"):
        return np.zeros(counts.n.shape, np.bool_)
    return np.asarray(_count_fewest_samples(kind, counts, positive) < few)


def _count_carrying_samples(
    M: Any,
    found: Mapping[str, Interval],
    method: str,
    n: int | None,
    are_counts: np.ndarray,
    num_threads: int | None,
) -> dict[str, np.ndarray]:
    """Return by name the number of samples that carry the variance of a scalar metric; NaN if unknown.

    Only for dense matrices on the host: the kernel is a CPU kernel, and a GPU process need not load it. With quadratic
    weights three errors far from the diagonal may count as much as a hundred near it.
    """
    names = tuple(name for name in found if (form := find_form(name)) is not None and not form.per_class)
    if method not in FEW_VARIANCE_CARRIERS or not names or not are_counts.any() or sparse.is_sparse(M):
        return {}
    if not adapter(M).is_on_host(M):
        return {}
    host = np.where(are_counts[..., None, None], np.asarray(adapter(M).to_host(M), np.float64), 0.0)
    layout = _plan.make_plan(names, host.shape[-1], "present", 1, argument="M")
    (host,) = dispatch.adopt(M=host)
    samples = dispatch.call("carrying_samples", host, plan=layout.plan, n=n, num_threads=num_threads)
    return {name: np.asarray(samples[place]) for name, place in zip(names, layout.positions, strict=True)}


def _has_close_recalls(name: str, counts: ClassTotals) -> np.ndarray:
    """Return where a minimum recall may be that of another class in the next test set."""
    form = find_form(name)
    if form is None or form.metric.over is not Over.MIN or counts.d.shape[-1] < 2:
        return np.zeros(counts.n.shape, np.bool_)
    recall = (counts.d + 1.0) / (counts.t + 2.0)  # smoothed, so never 0 or 1
    recall, spread = np.where(counts.t > 0, recall, np.inf), recall * (1.0 - recall) / (counts.t + 3.0)
    places = np.argsort(recall, axis=-1)[..., :2]
    low, high = np.moveaxis(np.take_along_axis(recall, places, -1), -1, 0)
    return np.asarray(high - low < CLOSE_RECALLS * np.sqrt(np.take_along_axis(spread, places, -1).sum(-1)))


def _is_interval_off_center(name: str, one: Interval, method: str, n_resamples: int) -> np.ndarray:
    """Return where the middle of an interval is far from the estimate; never for unbounded ratios."""
    estimate, low, high, error = (np.asarray(adapter(x).to_host(x), np.float64) for x in one[:4])
    form = find_form(name)
    far = (OFF_CENTER_POSTERIOR if method == "posterior" else OFF_CENTER) + CENTER_NOISE / np.sqrt(max(n_resamples, 1))
    with np.errstate(invalid="ignore"):
        mask = np.abs(0.5 * (low + high) - estimate) > far * error
    if form is None or np.isinf(form.metric.high):
        mask &= False
    return np.asarray(mask.any(-1) if form is not None and form.per_class else mask)


def _is_tau_biased(name: str, counts: ClassTotals) -> np.ndarray:
    """Return where `tau` is biased low: chance adds to the squared error rates of every class."""
    form = find_form(name)
    if form is None or form.metric.over not in (Over.TAU, Over.TAU_WEIGHTED):
        return np.zeros(counts.n.shape, np.bool_)
    t = np.where(counts.t > 0, counts.t, np.inf)
    miss = (1.0 - counts.d / t) * (counts.t > 0)
    own = np.array(form.weights or 1.0)
    spread = own * miss * (1.0 - miss) / t
    return np.asarray(spread.sum(-1) > BIASED * np.sqrt((4.0 * own * miss * miss * spread).sum(-1)))


def _classify_samples(name: str) -> str:
    """Return which samples a metric depends on: all, classes averaged alike, or those of each class."""
    form = find_form(name)
    if form is None:
        return "all"
    metric = form.metric
    if form.average in (None, "binary") and metric.over is None and metric.value is not None:
        own = SHARE_OF.get(metric.value, "both")
        return f"{own} of positive" if form.average == "binary" or not form.per_class else own
    of_classes = (
        form.average == "macro"
        or (form.average == "weighted" and metric.value not in AVERAGES_TO_ACCURACY)
        or metric.over in AVERAGES
        or (metric.value is None and metric.total in (Total.PEIRCE, Total.GERRITY))
        or any(part.endswith("_macro") for part in metric.of)
    )
    return "classes" if of_classes else "all"


def _count_fewest_samples(kind: str, counts: ClassTotals, positive: int) -> np.ndarray:
    """Return the smaller of the numbers of correct and wrong samples, or the size of the smallest class."""
    d, t, p, n = counts
    whole = np.asarray(np.minimum(d.sum(-1), n - d.sum(-1)))
    if kind == "all":
        return whole
    if kind == "classes":
        smallest = np.where(t + p > 0, t, np.inf).min(
            -1
        )  # a class that is predicted but never true counts as 0 samples
        return np.asarray(
            np.minimum.reduce([whole, smallest, _compute_effective_size(d, t), _compute_effective_size(t - d, t)])
        )
    rest = n[..., None] - t - p + d
    right, wrong = {
        "row": (d, t - d), "col": (d, p - d), "not row": (rest, p - d), "not col": (rest, t - d),
        "both": (d, t + p - 2 * d), "all": (d + rest, t + p - 2 * d),
    }[kind.removesuffix(" of positive")]  # fmt: skip
    fewer = np.where(t + p > 0, np.minimum(right, wrong), np.inf)
    return np.asarray(fewer[..., positive] if kind.endswith("positive") else fewer.min(-1))


def _compute_effective_size(k: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Return the effective sample size of `k` samples per class with weights 1 / t (Kish 1965).

    Half a sample is added to each class, since none seen does not mean none exist.
    """
    weight = np.where(t > 0, 1.0 / np.where(t > 0, t, 1.0), 0.0)
    k = k + 0.5
    squares = (k * weight**2).sum(-1)
    return np.asarray(np.where(squares > 0.0, (k * weight).sum(-1) ** 2 / np.where(squares > 0.0, squares, 1.0), 0.0))
