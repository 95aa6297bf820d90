"""Two classifiers on the same samples, by any metric: ``compare``."""

from typing import Any, Literal, NamedTuple, TypeAlias, get_args, overload

import numpy as np

from cmfast._core import validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Undefined
from cmfast._core.lazy import accept_delayed
from cmfast.confusion_counts._count_samples import warn_of_order
from cmfast.kernels.shared.uncertainty import acceleration, add_cells
from cmfast.metrics import _evaluate, _plan
from cmfast.metrics._names import MetricName, Names
from cmfast.uncertainty import _paired_replicates, _permutations, _replicated
from cmfast.uncertainty._comparison import Comparison
from cmfast.uncertainty._doubts import warn_of_few_clusters, warn_of_few_swaps
from cmfast.uncertainty._hypotheses import check
from cmfast.uncertainty._paired_counts import PairedCounts

CompareMethod: TypeAlias = Literal["bca", "percentile", "basic", "normal", "delta"]
CompareTest: TypeAlias = Literal["permutation", "interval"]
REPLICATES_BYTES = 2**27  # of the numbers of the replicates of some groups
MOST_JACKKNIFE_BYTES = 2**26  # of the sums without one unit each


class CompareOptions(NamedTuple):
    """What a comparison is asked for by a user."""

    method: str
    test: str
    level: float
    n_replicates: int
    rng: "int | np.random.Generator"
    undefined: Undefined
    positive: int
    num_threads: int | None


class _Asked(NamedTuple):
    """What a comparison is asked for, checked."""

    layout: _plan.PlacedPlan
    method: str
    test: str
    level: float
    n_replicates: int
    seed: int
    seed_of_swaps: int
    num_threads: int | None


@overload
def compare(
    T: PairedCounts,
    names: MetricName,
    /,
    *,
    method: CompareMethod = ...,
    test: CompareTest = ...,
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
    test: CompareTest = ...,
    level: float = ...,
    n_replicates: int = ...,
    rng: "int | np.random.Generator" = ...,
    undefined: Undefined = ...,
    positive: int = ...,
    num_threads: int | None = ...,
) -> dict[str, Comparison]: ...
@accept_delayed
def compare(
    T: PairedCounts,
    names: Any = None,
    /,
    *,
    method: CompareMethod = "bca",
    test: CompareTest = "permutation",
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
        What both said. With clusters, these are drawn and swapped instead of samples.
    names : str or list of str
        As for :func:`cmfast.metrics.compute`.
    method : {"bca", "percentile", "basic", "normal", "delta"}
        Of the interval: bias-corrected and accelerated; quantiles of the replicates; these reflected at the
        difference; the difference and the standard error of the replicates; the same with that of the delta method,
        which draws nothing.
    test : {"permutation", "interval"}
        Where p comes from: a paired permutation test, which swaps both answers of a sample (or of a cluster) wherever
        the two differ; or the interval, whose smallest ``1 - level`` at which it leaves out 0 is then p. The second is
        faster and calls equal models different too often where few samples differ.
    level : float
        Of the interval. The first or the second is said to be higher where p is at most ``1 - level``.
    n_replicates : int
        How often the samples are drawn again, and how often swaps are drawn where they are too many to enumerate.
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
        Fewer than twelve clusters, of which intervals are too narrow; so few samples or clusters in which the two
        differ that p cannot be as small as ``1 - level``, whatever they say; a metric of ordered classes was named, and
        more than two classes are text whose order nobody gave.

    Notes
    -----
    Both classifiers see the same draw: what makes a sample hard makes it hard for both, so the difference scatters less
    than the two metrics would if they came from different samples. The acceleration of BCa needs no draws: leaving out
    any sample of a cell ``T[truth, first, second]`` gives the same. The delta method has the exact slopes of both
    metrics in every cell, and adds them up within clusters; NaN where one of the two has no slope. It runs on the host,
    where the counts are.

    The permutation test asks how often a difference so large comes about where the two are interchangeable: every
    sample in which they differ, or every cluster, is as likely to have had both answers swapped. If that leads to no
    more than 16,384 tables, all are enumerated and p is exact: always with 14 samples that differ, and for two classes
    with a hundred of each. Otherwise `n_replicates` swaps are drawn, p is ``(b + 1) / (n + 1)`` and `p_error` its
    standard error. p is never 0; of the accuracy it is that of the exact test of McNemar. Models that are not
    interchangeable may still have equal metrics; docs/paired_sizes.md has the size of the test there as well.

    p and the interval are made by different means, and may part where few samples differ: p decides, and `explain`
    says so. With ``test="interval"`` they never part: a replicate at 0 counts as one on either side.

    Bad values: there are none in counts. Synchronises the device. Reproducible: random numbers are made of the seed,
    the group, the replicate and the unit that is drawn, so the same `rng` gives the same replicates for any number of
    threads and on every device, and for every name.

    References
    ----------
    Efron, Better bootstrap confidence intervals, 1987. Davison and Hinkley, Bootstrap methods and their application,
    1997, sections 5.2 and 5.3. Edgington, Randomization tests, 1980. Phipson and Smyth, Permutation p-values should
    never be zero, 2010.

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
    <Comparison: accuracy +0.0290 [+0.0200, +0.0410], p 3.73e-09: the first is higher>
    """
    check(T)
    warn_of_order([T._held.axis], names)
    options = CompareOptions(method, test, level, n_replicates, rng, undefined, positive, num_threads)
    wanted = _plan.names_of(names)
    return _plan.as_asked(names, wanted, compare_pair(T, wanted, options))


def compare_pair(T: PairedCounts, wanted: tuple[str, ...], options: CompareOptions) -> list[Comparison]:
    """Return the comparisons of two classifiers in the order of the names, after checking the options."""
    method, test, level, n_replicates, rng, undefined, positive, num_threads = options
    validate.choice("method", method, get_args(CompareMethod))
    validate.choice("test", test, get_args(CompareTest))
    level = share("level", level)
    n_replicates = validate.count("n_replicates", n_replicates, least=2)
    _evaluate.check_options(undefined, positive, "warn")
    num_threads = validate.num_threads(num_threads)
    generator = validate.generator(rng)
    layout = _plan.plan(wanted, len(T.labels), undefined, positive, asked="T")
    seed, seed_of_swaps = (int(generator.integers(2**63)) for _ in range(2))
    asked = _Asked(layout, method, test, level, n_replicates, seed, seed_of_swaps, num_threads)
    return _compared(T, wanted, asked)


def share(name: str, value: Any) -> float:
    """Return `value` as a float between 0 and 1, neither of both."""
    number = validate.number(name, value)
    if not 0.0 < number < 1.0:
        validate.refuse(name, "between 0 and 1", value)
    return number


def _compared(T: PairedCounts, wanted: tuple[str, ...], asked: _Asked) -> list[Comparison]:
    """Return the comparisons in the order of the names."""
    plan, places = asked.layout
    units = _paired_replicates.units_of(T._held)
    both = _values_of(T, units, asked)
    if T.n_clusters is not None:
        totals = units.totals[0] if T.groups is None else units.totals
        warn_of_few_clusters(totals, p_values=asked.test == "interval")
    whole = _of_delta(T, units, both, asked) if asked.method == "delta" else _of_draws(T, units, both, asked)
    swaps = None
    if asked.test == "permutation":
        swaps = _permutations.find_swaps(T._held)
        tested = _permutations.permute(
            swaps, both, T._home, plan, len(T.labels), asked.n_replicates, asked.seed_of_swaps, asked.num_threads
        )
        for fields, one in zip(whole, tested, strict=True):
            fields |= {"p_value": one.p_value, "p_error": one.p_error}
        least = {name: tested[place].least for name, place in zip(wanted, places, strict=True)}
        warn_of_few_swaps(least, asked.level, one=T.groups is None)
    n_differ = _permutations.count_discordant(T._held, swaps)
    for fields in whole:
        shape = fields["difference"].shape
        fields.setdefault("p_error", np.full(shape, np.nan))
        fields["n_discordant"] = np.broadcast_to(n_differ.reshape(-1, *[1] * (len(shape) - 1)), shape).copy()
    return [_comparison(T, name, place, whole[place], asked) for name, place in zip(wanted, places, strict=True)]


def _of_delta(
    T: PairedCounts, units: _paired_replicates.DrawnUnits, both: list[np.ndarray], asked: _Asked
) -> list[dict[str, np.ndarray]]:
    """Return the fields of all comparisons by the delta method."""
    clustered, threads = T.n_clusters is not None, asked.num_threads
    plan = asked.layout.plan
    errors = _paired_replicates.errors(units, T._home, plan, len(T.labels), threads, clustered=clustered)
    return [_of_errors(*pair, asked.level) for pair in zip(both, errors, strict=True)]


def _of_draws(
    T: PairedCounts, units: _paired_replicates.DrawnUnits, both: list[np.ndarray], asked: _Asked
) -> list[dict[str, np.ndarray]]:
    """Return the fields of all comparisons from samples or clusters drawn again."""
    plan, C, G = asked.layout.plan, len(T.labels), len(units.totals)
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
            parts[k].append(_of_replicates(adapter(values).to_host(values), estimates, accelerations, asked))
    return [{key: np.concatenate([part[key] for part in some] or [np.empty(0)]) for key in FIELDS} for some in parts]


def _comparison(T: PairedCounts, name: str, place: int, fields: dict[str, np.ndarray], asked: _Asked) -> Comparison:
    """Return the comparison of one name, of which the plan makes number `place`."""
    if T.groups is None:
        fields = {key: array[0] for key, array in fields.items()}
    axes: dict[str, tuple[Any, ...]] = {} if T.groups is None else {"group": T.groups}
    axes |= {"class": T.labels} if place >= asked.layout.plan.scalars else {}
    return Comparison(name=name, level=asked.level, method=asked.method, test=asked.test, axes=axes, **fields)


FIELDS = ("first", "second", "difference", "low", "high", "p_value", "probability", "standard_error", "n_undefined")


def matrices_of(T: PairedCounts) -> np.ndarray:
    """Return both confusion matrices of every group, shape (2, G, C, C), on the host."""
    M = np.stack([adapter(side).to_host(side) for side in (T.first, T.second)])
    return M.reshape(2, 1 if T.groups is None else len(T.groups), *M.shape[-2:])


def _values_of(T: PairedCounts, units: _paired_replicates.DrawnUnits, asked: _Asked) -> list[np.ndarray]:
    """Return the metrics of both classifiers, shape (2, G) or (2, G, C), on the host; no matrix is made."""
    sums = _sums_of(T, units, asked.layout.plan)
    values = _permutations.evaluate_sums(sums, T._home, plan=asked.layout.plan, num_threads=asked.num_threads)
    return [np.moveaxis(value, 1, 0) for value in values]


def _sums_of(T: PairedCounts, units: _paired_replicates.DrawnUnits, plan: Any) -> np.ndarray:
    """Return the sums of both classifiers' matrices, shape (n_sums, G, 2, C)."""
    sums = np.zeros((5 if plan.ordered else 3, len(units.totals), 2, len(T.labels)), np.int64)
    size = np.diff(units.bounds)
    counts = np.repeat(units.weights, size) * units.counts
    add_cells(sums, tuple(units.cells), np.repeat(units.group, size), counts)
    return sums


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


def _accelerations(
    units: _paired_replicates.DrawnUnits, groups: slice, left_out: np.ndarray, method: str
) -> np.ndarray:
    """Return the acceleration of some groups from the differences without one unit of each kind."""
    if method != "bca":
        return np.zeros(())
    found = []
    for group in range(groups.start, groups.stop):
        some = slice(units.starts[group], units.starts[group + 1])
        found.append(acceleration(np.moveaxis(left_out[some], 0, -1), units.weights[some], [slice(None)]))
    return np.stack(found)


def _left_out(T: PairedCounts, units: _paired_replicates.DrawnUnits, asked: _Asked) -> list[np.ndarray]:
    """Return the difference of every metric where one unit of each kind is left out, shape (u,) or (u, C)."""
    C, plan = len(T.labels), asked.layout.plan
    whole, size = _sums_of(T, units, plan), np.diff(units.bounds)
    step = max(1, MOST_JACKKNIFE_BYTES // max(16 * len(whole) * C, 1))
    found: list[list[np.ndarray]] = [[] for _ in range(plan.scalars + plan.tables)]
    for first in range(0, max(len(size), 1), step):
        last = min(first + step, len(size))
        sums = whole[:, units.group[first:last]]
        cells = slice(units.bounds[first], units.bounds[last])
        row = np.repeat(np.arange(last - first), size[first:last])
        add_cells(sums, tuple(units.cells[:, cells]), row, -units.counts[cells])
        values = _permutations.evaluate_sums(sums, T._home, plan=plan, num_threads=asked.num_threads)
        for part, value in zip(found, values, strict=True):
            part.append(_permutations.difference_of(value))
    return [np.concatenate(part) for part in found]
