"""Two classifiers on the same samples, by any metric: ``compare``."""

from typing import Any, Literal, NamedTuple, TypeAlias, get_args, overload

import numpy as np

from cmfast._core import dispatch, validate
from cmfast._core.annotations import Undefined
from cmfast._core.lazy import later
from cmfast.kernels.shared.uncertainty import acceleration
from cmfast.metrics import _evaluate, _plan
from cmfast.metrics._names import MetricName, Names
from cmfast.uncertainty import _paired_replicates, _replicated
from cmfast.uncertainty._comparison import Comparison
from cmfast.uncertainty._doubts import warn_of_few_clusters
from cmfast.uncertainty._hypotheses import check
from cmfast.uncertainty._paired_counts import PairedCounts

CompareMethod: TypeAlias = Literal["bca", "percentile", "basic", "normal", "delta"]
REPLICATES_BYTES = 2**27  # of the numbers of the replicates of some groups
SUMS_BYTES = 2**26  # of the sums without one unit each


class _Asked(NamedTuple):
    """What a comparison is asked for, checked."""

    layout: _plan.PlacedPlan
    method: str
    level: float
    n_replicates: int
    seed: int
    num_threads: int | None


@overload
def compare(
    T: PairedCounts,
    names: MetricName,
    /,
    *,
    method: CompareMethod = ...,
    level: float = ...,
    n_replicates: int = ...,
    rng: "int | np.random.Generator" = ...,
    undefined: Undefined = ...,
    positive: int = ...,
    num_threads: int | None = ...,
) -> Comparison: ...
@overload
def compare(
    T: PairedCounts,
    names: Names = ...,
    /,
    *,
    method: CompareMethod = ...,
    level: float = ...,
    n_replicates: int = ...,
    rng: "int | np.random.Generator" = ...,
    undefined: Undefined = ...,
    positive: int = ...,
    num_threads: int | None = ...,
) -> dict[str, Comparison]: ...
@later
def compare(
    T: PairedCounts,
    names: Any = None,
    /,
    *,
    method: CompareMethod = "bca",
    level: float = 0.95,
    n_replicates: int = 10_000,
    rng: "int | np.random.Generator" = 0,
    undefined: Undefined = "present",
    positive: int = 1,
    num_threads: int | None = None,
) -> Any:
    """Compare two classifiers on the same samples by any metrics: the difference, how sure, and which is higher.

    Parameters
    ----------
    T : PairedCounts
        What both said. With clusters, these are drawn instead of samples.
    names : str or list of str
        As for :func:`cmfast.metrics.compute`.
    method : {"bca", "percentile", "basic", "normal", "delta"}
        Of the interval: bias-corrected and accelerated; quantiles of the replicates; these reflected at the
        difference; the difference and the standard error of the replicates; the same with that of the delta method,
        which draws nothing.
    level : float
        Of the interval.
    n_replicates : int
        How often the samples are drawn again.
    rng : int or numpy.random.Generator
        Seed of the draws.
    undefined : {"present", "nan", "strict", "zero", "one"} or float
        What a 0/0 gives, as for :func:`cmfast.metrics.compute`. With "nan" or "strict" replicates without a value are
        left out, and counted.
    positive : {1, 0}
        Which class of two is the positive one, for binary names.
    num_threads : int, optional
        Most threads to use; default: what the process may use.

    Returns
    -------
    Comparison, or dict of str to Comparison
        That of one name, or one per name of several. Arrays of NumPy, one number per group, and class where the metric
        is one per class.

    Raises
    ------
    TypeError, ValueError
        `T` is not from :func:`paired_counts`; an unknown name; a binary name for other than two classes.
    OverflowError
        More samples than float64 counts exactly.

    Warns
    -----
    DiagnosticWarning
        Fewer than twelve clusters: of two that are alike one in ten or more is then said to be higher.

    Notes
    -----
    Both classifiers see the same draw: what makes a sample hard makes it hard for both, so the difference scatters less
    than the two metrics would if they came from different samples. The acceleration of BCa needs no draws: leaving out
    any sample of a cell ``T[truth, first, second]`` gives the same. The delta method has the exact slopes of both
    metrics in every cell, and adds them up within clusters; NaN where one of the two has no slope. It runs on the host,
    where the counts are.

    Bad values: there are none in counts. Synchronises the device. Reproducible: random numbers are made of the seed,
    the group, the replicate and the unit that is drawn, so the same `rng` gives the same replicates for any number of
    threads and on every device, and for every name.

    References
    ----------
    Efron, Better bootstrap confidence intervals, 1987. Davison and Hinkley, Bootstrap methods and their application,
    1997, sections 5.2 and 5.3.

    Examples
    --------
    >>> import numpy as np
    >>> from cmfast import uncertainty
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, 1000)
    >>> hard = rng.random(1000) < 0.3  # for both
    >>> a = np.where(hard, 0, y)
    >>> b = np.where(hard | (rng.random(1000) < 0.05), 0, y)
    >>> uncertainty.compare(uncertainty.paired_counts(y, a, b), "accuracy")
    <Comparison: accuracy +0.0290 [+0.0200, +0.0410], p 0.0002: the first is higher>
    """
    check(T)
    wanted = _plan.names_of(names)
    validate.choice("method", method, get_args(CompareMethod))
    level = share("level", level)
    n_replicates = validate.count("n_replicates", n_replicates, least=2)
    _evaluate.check_options(undefined, positive, "warn")
    num_threads = validate.num_threads(num_threads)
    generator = validate.generator(rng)
    layout = _plan.plan(wanted, len(T.labels), undefined, positive, asked="T")
    seed = int(generator.integers(2**63))
    found = _compared(T, wanted, _Asked(layout, method, level, n_replicates, seed, num_threads))
    return _plan.as_asked(names, wanted, found)


def share(name: str, value: Any) -> float:
    """Return `value` as a float between 0 and 1, neither of both."""
    number = validate.number(name, value)
    if not 0.0 < number < 1.0:
        validate.refuse(name, "between 0 and 1", value)
    return number


def _compared(T: PairedCounts, wanted: tuple[str, ...], asked: _Asked) -> list[Comparison]:
    """Return the comparisons in the order of the names."""
    plan, places = asked.layout
    both = values_of(T, asked.layout.plan, asked.num_threads)
    units = _paired_replicates.units_of(T._held)
    C, G = len(T.labels), len(units.totals)
    if T.n_clusters is not None:
        warn_of_few_clusters(units.totals[0] if T.groups is None else units.totals, paired=True)
    if asked.method == "delta":
        clustered, threads = T.n_clusters is not None, asked.num_threads
        errors = _paired_replicates.errors(units, T._home, plan, C, threads, clustered=clustered)
        found = [_of_errors(*pair, asked.level) for pair in zip(both, errors, strict=True)]
        return [_comparison(T, name, place, found[place], asked) for name, place in zip(wanted, places, strict=True)]
    jackknife = _left_out(T, units, asked) if asked.method == "bca" else [np.zeros((2, 0))] * len(both)
    arrays = _paired_replicates.sent(units, T._home)
    per_group = 16 * asked.n_replicates * (plan.scalars + plan.tables * C)
    step = max(1, REPLICATES_BYTES // max(per_group, 1))
    parts: list[list[dict[str, np.ndarray]]] = [[] for _ in both]
    for first in range(0, G, step):
        some = slice(first, min(first + step, G))
        drawn = _paired_replicates.drawn(arrays, some, plan, C, asked.n_replicates, asked.seed, asked.num_threads)
        for k, values in enumerate(drawn):
            estimates = both[k][:, some]
            accelerations = _accelerations(units, some, jackknife[k], asked.method)
            parts[k].append(_of_replicates(np.asarray(dispatch.to_host(values)), estimates, accelerations, asked))
    whole = [{key: np.concatenate([part[key] for part in some] or [np.empty(0)]) for key in FIELDS} for some in parts]
    return [_comparison(T, name, place, whole[place], asked) for name, place in zip(wanted, places, strict=True)]


def _comparison(T: PairedCounts, name: str, place: int, fields: dict[str, np.ndarray], asked: _Asked) -> Comparison:
    """Return the comparison of one name, of which the plan makes number `place`."""
    if T.groups is None:
        fields = {key: array[0] for key, array in fields.items()}
    axes: dict[str, tuple[Any, ...]] = {} if T.groups is None else {"group": T.groups}
    axes |= {"class": T.labels} if place >= asked.layout.plan.scalars else {}
    return Comparison(name=name, level=asked.level, method=asked.method, axes=axes, **fields)


FIELDS = ("first", "second", "difference", "low", "high", "p_value", "probability", "standard_error", "n_undefined")


def values_of(T: PairedCounts, plan: Any, num_threads: int | None) -> list[np.ndarray]:
    """Return what `plan` makes of both matrices, shape (2, G) or (2, G, C), on the host."""
    M = np.stack([np.asarray(dispatch.to_host(side)) for side in (T.first, T.second)])
    M = M.reshape(2, 1 if T.groups is None else len(T.groups), *M.shape[-2:])
    (sent,) = dispatch.adopt(T=dispatch.sent(M, T._home))
    *found, _ = dispatch.call("metrics_of_matrices", sent, plan=plan, num_threads=num_threads)
    return [np.asarray(dispatch.to_host(array)) for array in found]


def _of_replicates(
    drawn: np.ndarray, both: np.ndarray, acceleration: np.ndarray, asked: _Asked
) -> dict[str, np.ndarray]:
    """Return the fields of a comparison from both numbers of every replicate, shape (G, B, 2) or (G, B, 2, C)."""
    with np.errstate(invalid="ignore"):  # a ratio may be without end in both
        estimate, apart = both[0] - both[1], drawn[:, :, 0] - drawn[:, :, 1]
    of = _replicated.replicated(np.moveaxis(apart, 1, -1), estimate, acceleration)
    low, high, error = _replicated.interval(of, asked.method, asked.level, asked.num_threads)
    if asked.method == "normal":
        low, high, p = _normal(estimate, error, asked.level)
    else:
        p = _replicated.p_value(of, asked.method)
    fields = (*both, estimate, low, high, p, 1.0 - _replicated.share_below(of, 0.0), error, asked.n_replicates - of.n)
    return dict(zip(FIELDS, fields, strict=True))


def _of_errors(both: np.ndarray, error: np.ndarray, level: float) -> dict[str, np.ndarray]:
    """Return the fields of a comparison from standard errors."""
    from scipy.special import ndtr

    with np.errstate(invalid="ignore"):
        estimate = both[0] - both[1]
    low, high, p = _normal(estimate, error, level)
    above = np.where(error > 0.0, ndtr(estimate / np.where(error > 0.0, error, 1.0)), (np.sign(estimate) + 1.0) / 2.0)
    above = np.where(np.isnan(error), np.nan, above)
    fields = (*both, estimate, low, high, p, above, error, np.zeros(estimate.shape, np.int64))
    return dict(zip(FIELDS, fields, strict=True))


def _normal(estimate: np.ndarray, error: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return both ends of an interval, and the p-value, of a normal distribution."""
    from scipy.special import ndtr, ndtri

    half = ndtri((1.0 + level) / 2.0) * error
    still = np.where(estimate == 0.0, 1.0, 0.0)
    with np.errstate(invalid="ignore"):
        p = np.where(error > 0.0, 2.0 * ndtr(-np.abs(estimate) / np.where(error > 0.0, error, 1.0)), still)
        return estimate - half, estimate + half, np.where(np.isnan(error), np.nan, p)


def _accelerations(units: _paired_replicates.Units, groups: slice, left_out: np.ndarray, method: str) -> np.ndarray:
    """Return the acceleration of some groups from the differences without one unit of each kind."""
    if method != "bca":
        return np.zeros(())
    found = []
    for group in range(groups.start, groups.stop):
        some = slice(units.starts[group], units.starts[group + 1])
        found.append(acceleration(np.moveaxis(left_out[some], 0, -1), units.weights[some], [slice(None)]))
    return np.stack(found)


def _left_out(T: PairedCounts, units: _paired_replicates.Units, asked: _Asked) -> list[np.ndarray]:
    """Return the difference of every metric where one unit of each kind is left out, shape (u,) or (u, C)."""
    C, plan = len(T.labels), asked.layout.plan
    n_sums = 5 if plan.ordered else 3
    whole = np.zeros((n_sums, len(units.totals), 2, C), np.int64)
    size = np.diff(units.bounds)
    _add(
        whole,
        units,
        slice(0, len(units.counts)),
        np.repeat(units.group, size),
        np.repeat(units.weights, size) * units.counts,
    )
    step = max(1, SUMS_BYTES // max(16 * n_sums * C, 1))
    found: list[list[np.ndarray]] = [[] for _ in range(plan.scalars + plan.tables)]
    for first in range(0, max(len(size), 1), step):
        last = min(first + step, len(size))
        sums = whole[:, units.group[first:last]]
        cells = slice(units.bounds[first], units.bounds[last])
        _add(sums, units, cells, np.repeat(np.arange(last - first), size[first:last]), -units.counts[cells])
        arrays = dispatch.adopt(**{f"sums{k}": dispatch.sent(a, T._home) for k, a in enumerate(sums)})
        given = [*arrays, *[None] * (5 - n_sums)]
        *values, _ = dispatch.call("metrics_of_sums", *given, plan=plan, num_threads=asked.num_threads)
        for part, value in zip(found, values, strict=True):
            host = np.asarray(dispatch.to_host(value))
            with np.errstate(invalid="ignore"):
                part.append(host[:, 0] - host[:, 1])
    return [np.concatenate(part) for part in found]


def _add(sums: np.ndarray, units: _paired_replicates.Units, cells: slice, row: np.ndarray, counts: np.ndarray) -> None:
    """Add the counts of some cells to the sums of their rows: diagonal, rows, columns, and bands and tops."""
    y, *both = units.cells[:, cells]
    for side, guess in enumerate(both):
        right = y == guess
        places = [(row[right], y[right], counts[right]), (row, y, counts), (row, guess, counts)]
        if len(sums) == 5:
            places += [(row, np.abs(y - guess), counts), (row, np.maximum(y, guess), counts)]
        for part, (rows, at, more) in zip(sums, places, strict=True):
            np.add.at(part[:, side], (rows, at), more)
