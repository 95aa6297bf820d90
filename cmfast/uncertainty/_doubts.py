"""Which intervals hold the truth less often than they say: rules from what docs/coverage.md measures."""

from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np

from cmfast._core import dispatch, failures, sparse
from cmfast._core.adapters import adapter
from cmfast.kernels.shared.metrics import Over, Total, Value
from cmfast.metrics import _plan
from cmfast.metrics._catalogue import find_form
from cmfast.metrics._margins import margins
from cmfast.uncertainty._results import Interval

FEW = {"bca": 5, "percentile": 5, "basic": 10, "normal": 10, "posterior": 5}  # samples
FEW_BESIDE = {"bca": 2, "percentile": 2, "basic": 2, "normal": 5}  # where those that carry the variance are counted
MOST_BESIDE = 20  # classes up to which that is enough: averages over many small ones are biased besides
CARRIED = {"bca": 4, "percentile": 5, "basic": 9, "normal": 5}  # samples that carry the variance
MANY_CLASSES = 4  # from which on the prior of the posterior says little of a class
APART = 3.0  # standard errors between the two smallest recalls, such that one is the smallest in every test set
ASIDE, ASIDE_OF_PRIOR = 0.5, 1.0  # standard errors of the middle of an interval from the estimate
CENTRE_NOISE = 5.0  # divided by the root of the number of replicates: standard errors of that middle by chance
FEW_CLUSTERS = 12  # of fewer, 95 % intervals hold the truth in less than 90 %, by every method
BENT = 1.0  # standard errors that `tau` lies too low in a sample
AVERAGES = (Over.MEAN, Over.ADJUSTED, Over.GEOMETRIC, Over.TAU, Over.TAU_WEIGHTED, Over.MIN)

# Metrics that are shares of samples: of all, of a class, of its predictions, of all others.
OF_CLASS = {
    Value.RECALL: "row", Value.FALSE_NEGATIVE: "row", Value.PRECISION: "col", Value.FALSE_DISCOVERY: "col",
    Value.SPECIFICITY: "not row", Value.FALSE_POSITIVE: "not row", Value.NPV: "not col",
    Value.FALSE_OMISSION: "not col", Value.ACCURACY: "all",
}  # fmt: skip
# Whose mean, weighted by the class counts, is that of all samples.
OF_ALL = {Value.RECALL, Value.FALSE_NEGATIVE}

TEXTS = {
    "few": "too few samples that they are of are right, or wrong, or of a class; use {other}",
    "carried": "their variance is carried by fewer than {carried} samples, as where few are wrong, or where errors far "
    "from the diagonal are rare; use {other}",
    "close": "the smallest of several recalls that are about as small is below the true ones; look at recall instead",
    "aside": "replicates lie to one side of the estimate; only more samples of each class help",
}


class ClassTotals(NamedTuple):
    """Sums of some matrices, float64: right ones, rows and columns, shape (..., C), and all samples, shape (...)."""

    d: np.ndarray
    t: np.ndarray
    p: np.ndarray
    n: np.ndarray


def warn_of_doubts(
    M: Any, found: Mapping[str, Interval], method: str, n_replicates: int, options: dict[str, Any]
) -> None:
    """Warn of intervals that hold the truth in less than nine of ten cases, as far as counts and ends tell."""
    if method not in FEW or options["on_failure"] == "ignore":
        return
    given = {key: options[key] for key in ("n", "positive", "num_threads")}
    shape = dispatch.shape_of(M)[:-2]
    tell_doubts(number_of_doubts(M, found, method, n_replicates, **given), method, prod(shape) if shape else None)


def number_of_doubts(
    M: Any, found: Mapping[str, Interval], method: str, n_replicates: int, **options: Any
) -> dict[str, dict[str, int]]:
    """Return by reason, then by metric, of how many matrices an interval is doubtful; those of parts add up."""
    doubts = doubtful(M, found, method, n_replicates, **options)
    return {reason: {name: int(mask.sum()) for name, mask in fits.items()} for reason, fits in doubts.items()}


def tell_doubts(number: Mapping[str, Mapping[str, int]], method: str, size: int | None) -> None:
    """Warn of doubts, in how many of `size` matrices; None: of one alone."""
    other = 'method="posterior", or "wilson" for shares of samples' if method != "posterior" else 'method="wilson"'
    for reason, fits in number.items():
        first, others = next(iter(fits)), len(fits) - 1
        what = first if not others else f"{first} and {others} other metric{'s' if others > 1 else ''}"
        where = "" if size is None else f" in {max(fits.values())} of {size} matrices"
        text = TEXTS[reason].format(carried=CARRIED.get(method), other=other)
        failures.warn_diagnostic(
            f"intervals of {what} by {method} hold the truth less often than they say{where}: {text}"
        )


def warn_of_few_clusters(clusters: Any, *, p_values: bool = False) -> None:
    """Warn where intervals of so many clusters, an integer or one for each group, hold less often than they say.

    `p_values` says that there are some which come from the intervals.
    """
    number = np.asarray(clusters)
    few = (number > 0) & (number < FEW_CLUSTERS)
    if few.any():
        where = f" in {np.count_nonzero(few)} of {few.size} groups" if number.ndim else ""
        what = "intervals and p-values" if p_values else "intervals"
        text = f"there are fewer than {FEW_CLUSTERS} clusters{where}, of which {what} are surer than they can be"
        failures.warn_diagnostic(f"{text}; only more clusters help, not more samples of each")


def warn_of_few_swaps(least: Mapping[str, np.ndarray], level: float, *, one: bool) -> None:
    """Warn of differences whose p-value cannot reach ``1 - level``: too few samples or clusters differ in them.

    `least` are the smallest p-values possible; `one` says that there is one group.
    """
    few = {name: p > 1.0 - level for name, p in least.items() if (p > 1.0 - level).any()}
    if not few:
        return
    first, mask = next(iter(few.items()))
    others = f" and {len(few) - 1} other metric{'s' * (len(few) > 2)}" if len(few) > 1 else ""
    where = f" in {np.count_nonzero(mask)} of {mask.size} {'classes' if one else 'groups and classes'}"
    text = f"too few samples or clusters differ in {first}{others}{where * (mask.size > 1)}"
    found = f"the smallest p possible is {np.min(least[first][mask]):.3g}, above {1.0 - level:.3g}"
    failures.warn_diagnostic(f"{text}: {found}; only more samples help")


def doubtful(
    M: Any,
    found: Mapping[str, Interval],
    method: str,
    n_replicates: int,
    *,
    n: int | None,
    positive: int,
    num_threads: int | None,
) -> dict[str, dict[str, np.ndarray]]:
    """Return by reason, then by metric, of which matrices, shape (...), an interval is doubtful."""
    sums = margins(M, on_failure="ignore", num_threads=num_threads)
    d, t, p, whole = (np.asarray(adapter(x).to_host(x), np.float64) for x in (*sums[:3], sums.total))
    counts = ClassTotals(d, t, p, whole)
    out: dict[str, dict[str, np.ndarray]] = {}
    if method not in FEW or not counts.d.size:
        return out
    are_counts = (whole > 0) & ((t == np.rint(t)).all(-1) | (n is not None))  # else there are no intervals
    if n is not None:
        factor = np.asarray(n / np.where(counts.n > 0, counts.n, np.inf))
        counts = ClassTotals(d * factor[..., None], t * factor[..., None], p * factor[..., None], whole * factor)
    carrying = _count_carrying_samples(M, found, method, n, are_counts, num_threads)
    for name, one in found.items():
        rest = are_counts
        samples = carrying.get(name, np.full(counts.n.shape, np.nan))
        beside = FEW_BESIDE.get(method, FEW[method]) if d.shape[-1] <= MOST_BESIDE else FEW[method]
        few = np.where(np.isnan(samples), FEW[method], beside)
        for reason, mask in (
            ("few", _are_few(name, counts, method, positive, few)),
            ("carried", samples < CARRIED.get(method, 0)),
            ("close", _are_close(name, counts)),
            ("aside", _is_aside(name, one, method, n_replicates) | _is_bent(name, counts)),
        ):
            if (mask & rest).any():
                out.setdefault(reason, {})[name] = mask & rest
            rest = rest & ~mask
    return out


def _are_few(name: str, counts: ClassTotals, method: str, positive: int, few: np.ndarray) -> np.ndarray:
    """Return where fewer than `few` samples are right, or wrong, or of a class."""
    kind = _kind(name)
    if method == "posterior" and (counts.d.shape[-1] < MANY_CLASSES or kind == "all"):
        return np.zeros(counts.n.shape, np.bool_)
    return np.asarray(_least(kind, counts, positive) < few)


def _count_carrying_samples(
    M: Any,
    found: Mapping[str, Interval],
    method: str,
    n: int | None,
    are_counts: np.ndarray,
    num_threads: int | None,
) -> dict[str, np.ndarray]:
    """Return by name how many samples carry the variance of a metric that is one number of a matrix; NaN if unknown.

    The kernel is one of the CPU's, of dense matrices: those on a GPU are not looked at, whose processes need not load
    it, nor sparse ones, which it would fill.
    Of a quadratic weight three errors far from the diagonal may count as much as a hundred near it.
    """
    names = tuple(name for name in found if (form := find_form(name)) is not None and not form.per_class)
    if method not in CARRIED or not names or not are_counts.any() or sparse.is_sparse(M):
        return {}
    if not adapter(M).is_on_host(M):
        return {}
    host = np.where(are_counts[..., None, None], np.asarray(adapter(M).to_host(M), np.float64), 0.0)
    layout = _plan.make_plan(names, host.shape[-1], "present", 1, argument="M")
    (host,) = dispatch.adopt(M=host)
    samples = dispatch.call("carrying_samples", host, plan=layout.plan, n=n, num_threads=num_threads)
    return {name: np.asarray(samples[place]) for name, place in zip(names, layout.positions, strict=True)}


def _are_close(name: str, counts: ClassTotals) -> np.ndarray:
    """Return where another recall may be the smallest in the next test set, of a metric that is the smallest."""
    form = find_form(name)
    if form is None or form.metric.over is not Over.MIN or counts.d.shape[-1] < 2:
        return np.zeros(counts.n.shape, np.bool_)
    recall = (counts.d + 1.0) / (counts.t + 2.0)  # which is never 0 or 1
    recall, spread = np.where(counts.t > 0, recall, np.inf), recall * (1.0 - recall) / (counts.t + 3.0)
    places = np.argsort(recall, axis=-1)[..., :2]
    low, high = np.moveaxis(np.take_along_axis(recall, places, -1), -1, 0)
    return np.asarray(high - low < APART * np.sqrt(np.take_along_axis(spread, places, -1).sum(-1)))


def _is_aside(name: str, one: Interval, method: str, n_replicates: int) -> np.ndarray:
    """Return where an interval has its middle far from the estimate; ratios without end always have."""
    estimate, low, high, error = (np.asarray(adapter(x).to_host(x), np.float64) for x in one[:4])
    form = find_form(name)
    far = (ASIDE_OF_PRIOR if method == "posterior" else ASIDE) + CENTRE_NOISE / np.sqrt(max(n_replicates, 1))
    with np.errstate(invalid="ignore"):
        mask = np.abs(0.5 * (low + high) - estimate) > far * error
    if form is None or np.isinf(form.metric.high):
        mask &= False
    return np.asarray(mask.any(-1) if form is not None and form.per_class else mask)


def _is_bent(name: str, counts: ClassTotals) -> np.ndarray:
    """Return where `tau` is too low: it is made of squares of what is wrong, which chance adds to in every class."""
    form = find_form(name)
    if form is None or form.metric.over not in (Over.TAU, Over.TAU_WEIGHTED):
        return np.zeros(counts.n.shape, np.bool_)
    t = np.where(counts.t > 0, counts.t, np.inf)
    miss = (1.0 - counts.d / t) * (counts.t > 0)
    own = np.array(form.weights or 1.0)
    spread = own * miss * (1.0 - miss) / t
    return np.asarray(spread.sum(-1) > BENT * np.sqrt((4.0 * own * miss * miss * spread).sum(-1)))


def _kind(name: str) -> str:
    """Return of which samples a metric is made: of all, of all classes alike, or of those of each class."""
    form = find_form(name)
    if form is None:
        return "all"
    metric = form.metric
    if form.average in (None, "binary") and metric.over is None and metric.value is not None:
        own = OF_CLASS.get(metric.value, "both")
        return f"{own} of positive" if form.average == "binary" or not form.per_class else own
    of_classes = (
        form.average == "macro"
        or (form.average == "weighted" and metric.value not in OF_ALL)
        or metric.over in AVERAGES
        or (metric.value is None and metric.total in (Total.PEIRCE, Total.GERRITY))
        or any(part.endswith("_macro") for part in metric.of)
    )
    return "classes" if of_classes else "all"


def _least(kind: str, counts: ClassTotals, positive: int) -> np.ndarray:
    """Return how many samples are right, or wrong, whichever are fewer; or how many the smallest class has."""
    d, t, p, n = counts
    whole = np.asarray(np.minimum(d.sum(-1), n - d.sum(-1)))
    if kind == "all":
        return whole
    if kind == "classes":
        smallest = np.where(t + p > 0, t, np.inf).min(-1)  # none of a class that is predicted is few
        return np.asarray(np.minimum.reduce([whole, smallest, _effective(d, t), _effective(t - d, t)]))
    rest = n[..., None] - t - p + d
    right, wrong = {
        "row": (d, t - d), "col": (d, p - d), "not row": (rest, p - d), "not col": (rest, t - d),
        "both": (d, t + p - 2 * d), "all": (d + rest, t + p - 2 * d),
    }[kind.removesuffix(" of positive")]  # fmt: skip
    fewer = np.where(t + p > 0, np.minimum(right, wrong), np.inf)
    return np.asarray(fewer[..., positive] if kind.endswith("positive") else fewer.min(-1))


def _effective(k: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Return how many samples of one weight say as much as `k` of each class, which weigh 1 / t (Kish 1965).

    Half a sample is added to each class: that none was seen does not say that there is none.
    """
    weight = np.where(t > 0, 1.0 / np.where(t > 0, t, 1.0), 0.0)
    k = k + 0.5
    squares = (k * weight**2).sum(-1)
    return np.asarray(np.where(squares > 0.0, (k * weight).sum(-1) ** 2 / np.where(squares > 0.0, squares, 1.0), 0.0))
