"""Intervals and comparisons of multilabel metrics: whole samples are drawn, so that the labels of one stay together.

Every metric is a function of sums over samples: per label the true positives, the labels and the predictions, and per
sample whether all labels are correct and the rates of its own 2x2 table. So a replicate is the product of how often
each kind of sample was drawn and what one such sample adds. Rates of samples are rounded to integer multiples of a
power of two, so that all sums are exact: the bits do not depend on the order of addition, and equal replicates are
equal.
"""

import math
from collections.abc import Callable, Iterator
from functools import wraps
from inspect import signature
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np

from cmfast._core import axis_names, caller, dispatch, failures, lazy, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, OnFailure, Undefined
from cmfast._core.usual_options import describe_unknown_option, describe_value
from cmfast.confusion_counts import _groups
from cmfast.kernels.shared.uncertainty import compute_acceleration
from cmfast.metrics import _multilabel, _plan
from cmfast.metrics._compute import compute
from cmfast.uncertainty import _permutations, _replicate_statistics
from cmfast.uncertainty._caveats import FEW, warn_of_few_clusters, warn_of_few_swaps, warn_of_unreliable
from cmfast.uncertainty._comparison import Comparison, ComparisonsByMetric, summarize_replicates
from cmfast.uncertainty._from_labels import gather_named_arrays
from cmfast.uncertainty._results import Interval, Intervals

R = TypeVar("R")

METHODS = ("bca", "percentile", "basic")
DRAWN_BYTES = 2**24  # of counts drawn at a time; part of the random stream, so not to be changed
MOST_BYTES = 2**26  # of tables evaluated at a time
EXACT_BITS = 52  # of integers that float64 adds exactly, with one bit to spare for halves


def accept_indicators(
    compute: Callable[..., Any], sides: tuple[str, ...], allowed: tuple[str, ...]
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Decorate a function of counts or labels: with ``multilabel=True`` it calls `compute` of the arrays `sides`."""

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        """Return the function that also accepts indicators of labels."""

        @wraps(function)
        def wrapper(*given: Any, **options: Any) -> Any:
            """Call `compute` if `multilabel` is True, else `function`."""
            wanted = options.get("multilabel", False)
            validate.flag("multilabel", wanted)
            if not wanted:
                _refuse_multilabel_names(options.get("names", given[-1] if len(given) > 1 else None))
                return function(*given, **options)
            del options["multilabel"]
            given = gather_named_arrays(given, options, sides)
            arrays, names = given[: len(sides)], given[len(sides) :]
            if len(arrays) < len(sides) or len(names) > 1 or any(map(are_names, arrays)):
                refuse_missing_indicators(sides)
            for name, value in options.items():
                if name not in (*signature(function).parameters, *sides, *allowed):
                    validate.fail(describe_unknown_option(name, (*sides, *allowed)), TypeError)
                if name not in allowed:
                    validate.refuse(name, "left out with multilabel=True", describe_value(value))
            if lazy.are_lazy(*arrays, options.get("clusters")):
                return lazy.dask().call_delayed(compute, *given, **options)
            return compute(*given, **options)

        return wrapper

    return decorate


def refuse_missing_indicators(sides: tuple[str, ...]) -> NoReturn:
    """Refuse ``multilabel=True`` without the arrays `sides`, with the call that takes columns of a table."""
    columns = {"y_true": "truth_columns", "y_pred": "guess_columns", "y_a": "columns_of_a", "y_b": "columns_of_b"}
    arrays = ", ".join(f"table[{columns.get(side, repr('site'))}]" for side in sides)
    several = [side for side in sides if side in columns]
    wanted = (
        f"False, or the arrays given: {', '.join(sides)}; {', '.join(several[:-1])} and {several[-1]} are DataFrames "
    )
    wanted += f"or arrays of shape (n, L), as in {caller.name()}({arrays}, names, multilabel=True)"
    validate.refuse("multilabel", wanted, "True without them")


def are_names(given: object) -> bool:
    """Whether an argument is a name of a metric, or a list of names."""
    several = given if isinstance(given, list | tuple) else [given]
    return all(isinstance(name, str) for name in several)


def _refuse_multilabel_names(names: Any) -> None:
    """Refuse metrics that only multilabel samples have."""
    for name in names if isinstance(names, list | tuple) else [names]:
        if (
            isinstance(name, str)
            and name in _multilabel.ALL
            and name.endswith(("_samples", *_multilabel.SAMPLE_METRICS))
        ):
            wanted = "metrics of counts; of indicators, shape (n, L), with multilabel=True, others too"
            validate.refuse("names", wanted, validate.format_value(name))


class Samples(NamedTuple):
    """Kinds of resampling units, with what one unit of each kind adds to the sums of every model.

    Attributes
    ----------
    sizes : array of int64, shape (u,)
        Number of units of each kind: equal samples, or clusters.
    sums : list of array of float64, shape (u, K)
        Integers, for each model. True positives, labels and predictions of every label; samples with all labels right;
        samples; and for each rate averaged over samples how many have the rate, the sum of these rates in units of
        `unit`, and how many of the samples in the average lack the rate.
    n_labels : int
        Number of labels.
    unit : float
        Unit of the rates of samples, a power of two.
    forms : list of (str, str)
        Metrics with their averages.
    rates : list of str
        The rates averaged over samples, in the order of their sums.
    options : dict
        Options of :func:`cmfast.metrics.compute`.
    """

    sizes: np.ndarray
    sums: list[np.ndarray]
    n_labels: int
    unit: float
    forms: list[tuple[str, str]]
    rates: list[str]
    options: dict[str, Any]

    def evaluate(self, sums: np.ndarray) -> list[np.ndarray]:
        """Return every metric of sums, shape (B, K): arrays (B,), or (B, L) for a metric per label."""
        step = max(1, MOST_BYTES // (32 * max(self.n_labels, 1)))
        parts = [self._evaluate_block(sums[k : k + step]) for k in range(0, max(len(sums), 1), step)]
        return [np.concatenate(part) for part in zip(*parts, strict=True)]

    def _evaluate_block(self, sums: np.ndarray) -> list[np.ndarray]:
        """Return every metric of some sums."""
        L, options = self.n_labels, self.options
        tp, t, p = (sums[:, k * L : (k + 1) * L] for k in range(3))
        right, size = sums[:, 3 * L], sums[:, 3 * L + 1]
        tables = np.stack([size[:, np.newaxis] - t - p + tp, p - tp, t - tp, tp], -1)
        tables = np.rint(tables).astype(np.int64).reshape(*tp.shape, 2, 2)
        found: list[Any] = []
        for metric, average in self.forms:
            if metric == "subset_accuracy":
                none = np.zeros(len(sums))
                whole = np.stack([none, none, size - right, right], -1).astype(np.int64).reshape(-1, 2, 2)
                found.append(compute(whole, "recall_binary", **options))
            elif metric == "hamming_loss":
                found.append(compute(tables.sum(-3), "zero_one_loss", **options))
            elif average == "samples":
                at = 3 * L + 2 + 3 * self.rates.index(metric)
                known, value, unknown = sums[:, at], sums[:, at + 1] * self.unit, sums[:, at + 2]
                undefined = options["undefined"]
                value = value + unknown * _plan.get_fill_value(undefined)
                found.append(_multilabel.divide_sums(known + unknown, value, unknown, undefined))
            else:
                found.append(_multilabel.average_labels(tables, metric, average, options))
        return [np.asarray(one) for one in found]

    def sum_up(self) -> np.ndarray:
        """Return the sums of all units for each model, shape (S, K)."""
        return np.stack([self.sizes @ side for side in self.sums])

    def draw_counts(self, n_resamples: int, seed: int, num_threads: int | None) -> Iterator[np.ndarray]:
        """Yield how often units of every kind are drawn, shape (b, u), for one block of replicates after another."""
        return _draw_counts(self.sizes, n_resamples, seed, num_threads)

    def draw(self, n_resamples: int, seed: int, num_threads: int | None) -> list[list[np.ndarray]]:
        """Return every metric of the bootstrap replicates of each model: arrays (B,) or (B, L)."""
        parts: list[list[list[np.ndarray]]] = [[] for _ in self.sums]
        for counts in self.draw_counts(n_resamples, seed, num_threads):
            for part, side in zip(parts, self.sums, strict=True):
                part.append(self.evaluate(counts @ side))
        return [[np.concatenate(one) for one in zip(*part, strict=True)] for part in parts]

    def leave_one_out(self) -> list[list[np.ndarray]]:
        """Return every metric of each model with one unit of each kind left out: arrays (u,) or (u, L)."""
        return [self.evaluate(whole - side) for whole, side in zip(self.sum_up(), self.sums, strict=True)]


def _draw_counts(sizes: np.ndarray, n_resamples: int, seed: int, num_threads: int | None) -> Iterator[np.ndarray]:
    """Yield how often every kind of unit is drawn, float64, shape (b, u), for one block of replicates after another.

    These are the draws of ``resample`` with the sizes as cells of a square matrix. A block has a random stream of its
    own, and its length depends on the number of kinds alone, so replicate k does not depend on `n_resamples`.
    """
    C = math.isqrt(max(len(sizes) - 1, 0)) + 1
    cells = np.zeros(C * C, np.int64)
    cells[: len(sizes)] = sizes
    step = max(1, DRAWN_BYTES // (8 * C * C))
    for block, first in enumerate(range(0, n_resamples, step)):
        number, stream = min(step, n_resamples - first), np.array([block])
        found, _ = dispatch.call(
            "resample", cells.reshape(1, C, C), None, n_resamples=number, scheme="multinomial", n=None, seed=seed,
            numbers=stream, num_threads=num_threads,
        )  # fmt: skip
        yield found.reshape(number, C * C)[:, : len(sizes)].astype(np.float64)


def prepare_samples(
    given: dict[str, Array], clusters: Any, forms: list[tuple[str, str]], options: dict[str, Any]
) -> tuple[Samples, list[np.ndarray], Any]:
    """Validate indicators; return the resampling units, the indicators on the host, and the first array as given."""
    dispatch.check_row_order(**given, clusters=clusters)
    home, *_ = adopted = dispatch.adopt(**given)
    validate.integer(**dict(zip(given, adopted, strict=True)))
    shape = validate.same_shape(**dict(zip(given, adopted, strict=True)))
    if len(shape) != 2:
        validate.refuse("y_true", "of shape (n, L), a column per label", f"shape {shape}")
    hosts = []
    for name, array in zip(given, adopted, strict=True):
        inner = adapter(array).unwrap(array)
        if not adapter(inner).is_on_host(inner):
            validate.refuse(name, "on the CPU with multilabel=True", adapter(inner).device(inner), NotImplementedError)
        host = np.asarray(adapter(inner).to_host(inner))
        bad = host[(host != 0) & (host != 1)]
        if bad.size:
            validate.refuse(name, "0 or 1, whether the sample has the label", bad.flat[0].item())
        hosts.append(host.astype(np.int8))
    L = shape[1]
    unit_of, sizes, kept = _number_units(hosts, clusters)
    most = max(1, int(sizes.sum()) * int(np.bincount(unit_of).max(initial=1)))
    unit = math.ldexp(1.0, most.bit_length() - EXACT_BITS)
    rates = list(dict.fromkeys(metric for metric, average in forms if average == "samples"))
    truth, sums = hosts[0][kept], []
    for host in hosts[1:]:
        guess = host[kept]
        columns = [truth & guess, truth, guess, (truth == guess).all(1)[:, np.newaxis], np.ones((len(kept), 1))]
        tables = np.zeros((len(kept), 2, 2), np.int64)
        for k in range(4):
            tables[:, k // 2, k % 2] = ((truth == k // 2) & (guess == k % 2)).sum(1)
        for rate in rates:
            values, inside, defined = _multilabel.rate_tables(tables, rate, options)
            counted = inside & defined
            parts = [counted, np.where(counted, np.rint(np.where(counted, values, 0.0) / unit), 0.0), inside & ~defined]
            columns.append(np.stack(parts, 1))
        each = np.concatenate([np.asarray(column, np.float64) for column in columns], 1)
        whole = np.zeros((len(sizes), each.shape[1]))
        np.add.at(whole, unit_of, each)
        sums.append(whole)
    return Samples(sizes, sums, L, unit, forms, rates, options), hosts, home


def _number_units(hosts: list[np.ndarray], clusters: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the unit of every kept sample, the number of units of each kind, and the indices of the kept samples.

    Of equal samples one is kept; of clusters all are.
    """
    n = len(hosts[0])
    if clusters is not None and clusters is not False:
        if isinstance(clusters, bool):
            validate.refuse("clusters", "the cluster of each sample with multilabel=True", clusters)
        validate.refuse_tables(clusters=clusters)
        _, number, order = _groups.number_groups({"clusters": clusters}, np.zeros(n, np.int64), (n,))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        unit_of = place[np.asarray(number)]
        return unit_of, np.ones(len(order), np.int64), np.arange(n)
    bits = np.packbits(np.concatenate(hosts, 1), axis=1)
    _, kept, sizes = np.unique(bits, axis=0, return_index=True, return_counts=True)
    return np.arange(len(kept)), sizes.astype(np.int64), kept


def parse_names(names: Any) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the names of metrics, by default all with one value, and each as metric and average."""
    several = list(_multilabel.ALL) if names is None else [names] if isinstance(names, str) else names
    if not isinstance(several, list | tuple) or not all(isinstance(name, str) for name in several):
        validate.refuse("names", "a name or a list of names", validate.format_value(names), TypeError)
    return list(several), [_multilabel.parse_name(name) for name in several]


def make_options(undefined: Undefined, num_threads: int | None) -> dict[str, Any]:
    """Validate and return the options of ``metrics.compute``."""
    _plan.check_undefined(undefined)
    return {"undefined": undefined, "on_failure": "ignore", "num_threads": validate.num_threads(num_threads)}


def get_label_names(y_true: Any) -> tuple[Any, ...] | None:
    """Return the names of the columns of a table of indicators; None for arrays."""
    columns = getattr(y_true, "columns", None)
    return None if columns is None else tuple(columns)


class BootstrapOptions(NamedTuple):
    """Options of intervals and comparisons of multilabel metrics as the user passed them, and their defaults."""

    method: str | None = None
    test: str = "permutation"
    confidence_level: float = 0.95
    clusters: Any = None
    n_resamples: int = 10_000
    rng: "int | np.random.Generator" = 0
    undefined: Undefined = "present"
    on_failure: OnFailure = None
    num_threads: int | None = None


def compute_interval(y_true: Array, y_pred: Array, names: Any = None, **given_options: Any) -> Any:
    """Return intervals of multilabel metrics by a bootstrap of whole samples, or of clusters.

    Options are :class:`BootstrapOptions`.
    """
    chosen = BootstrapOptions(**given_options)
    clusters, num_threads = chosen.clusters, chosen.num_threads
    method = "bca" if chosen.method is None else chosen.method
    validate.choice("method", method, METHODS)
    level = validate.confidence_level(chosen.confidence_level)
    several, forms = parse_names(names)
    n_resamples = validate.count("n_resamples", chosen.n_resamples)
    generator = validate.generator(chosen.rng)
    options = make_options(chosen.undefined, num_threads)
    quiet = validate.on_failure(chosen.on_failure) == "ignore"
    given = {"y_true": y_true, "y_pred": y_pred}
    samples, hosts, home = prepare_samples(given, clusters, forms, options)
    if not quiet and clusters is not None and clusters is not False:
        warn_of_few_clusters(len(samples.sizes))
    elif not quiet:
        _warn_of_few_samples(hosts, dict(zip(several, forms, strict=True)), method)
    (values,) = samples.draw(n_resamples, int(generator.integers(2**63)), num_threads)
    estimates = samples.evaluate(samples.sum_up())
    jackknife = samples.leave_one_out()[0] if method == "bca" else estimates
    exact = _multilabel.multilabel(hosts[0], hosts[1], several, **options)
    labels, inner = get_label_names(y_true), adapter(home).unwrap(home)
    found = {}
    for k, (name, form) in enumerate(zip(several, forms, strict=True)):
        replicates = _make_replicates(samples, values[k], estimates[k][0], jackknife[k], method)
        ends = _replicate_statistics.compute_interval(replicates, method, level, num_threads)
        parts = (exact[name], *ends, n_resamples - replicates.n)
        one = Interval(*(adapter(inner).send(np.asarray(part), inner)[()] for part in parts))
        axes: axis_names.Axes = {"class": labels} if labels is not None and is_per_label(form) else {}
        settings = {"method": method, "confidence_level": level, "n_resamples": n_resamples}
        found[name] = axis_names.name_axes(one, axes, name, settings)
    if isinstance(names, str):
        return found[names]
    return Intervals(found, method=method, confidence_level=level, n_resamples=n_resamples)


def _warn_of_few_samples(hosts: list[np.ndarray], forms: dict[str, tuple[str, str]], method: str) -> None:
    """Warn of intervals that cover the true value in less than 90 % of cases, by the rules measured on the page."""
    doubted, text = find_few_samples(hosts, forms, method)
    if doubted:
        warn_of_unreliable(doubted, method, text)


def find_few_samples(hosts: list[np.ndarray], forms: dict[str, tuple[str, str]], method: str) -> tuple[list[str], str]:
    """Return the metrics whose intervals cover the true value in less than 90 % of cases, and a text that says why."""
    truth, guess = hosts
    few = FEW[method]
    rare = int(np.count_nonzero(truth.sum(0) < few))
    wrong = int(np.count_nonzero((truth != guess).any(1)))
    by_label = [name for name, form in forms.items() if form[1] == "macro" or is_per_label(form)]
    if wrong < few:
        return list(forms), f"fewer than {few} samples have a wrong label; only more samples help"
    text = f"{rare} of {truth.shape[1]} labels are true of fewer than {few} samples; only more samples help"
    return (by_label if rare else []), text


def is_per_label(form: tuple[str, str]) -> bool:
    """Whether a metric has a value per label."""
    return form[1] == "" and form[0] not in _multilabel.SAMPLE_METRICS


def _make_replicates(
    samples: Samples, values: np.ndarray, estimate: np.ndarray, left_out: np.ndarray, method: str
) -> _replicate_statistics.Replicates:
    """Return the replicates (B,) or (B, L) of a metric, with their estimate and, for "bca", the acceleration."""
    if not len(samples.sizes):
        values = np.full(values.shape, np.nan)
    bend = np.zeros(())
    if method == "bca":
        bend = compute_acceleration(np.moveaxis(left_out, 0, -1), samples.sizes, [slice(None)])
    return _replicate_statistics.make_replicates(np.moveaxis(values, 0, -1), np.asarray(estimate), bend)


def compare(y_true: Array, y_a: Array, y_b: Array, names: Any = None, **given_options: Any) -> Any:
    """Return comparisons of two models by multilabel metrics: paired bootstrap and permutation test of samples.

    Options are :class:`BootstrapOptions`.
    """
    chosen = BootstrapOptions(**given_options)
    clusters, test, num_threads = chosen.clusters, chosen.test, chosen.num_threads
    method = "bca" if chosen.method is None else chosen.method
    validate.choice("method", method, (*METHODS, "normal"))
    validate.choice("test", test, ("permutation", "interval"))
    level = validate.confidence_level(chosen.confidence_level)
    several, forms = parse_names(names)
    n_resamples = validate.count("n_resamples", chosen.n_resamples, least=2)
    generator = validate.generator(chosen.rng)
    options = make_options(chosen.undefined, num_threads)
    given = {"y_true": y_true, "y_a": y_a, "y_b": y_b}
    samples, (truth, *guesses), _ = prepare_samples(given, clusters, forms, options)
    if clusters is not None and clusters is not False:
        warn_of_few_clusters(len(samples.sizes), p_values=test == "interval")
    seed, seed_of_swaps = (int(generator.integers(2**63)) for _ in range(2))
    drawn = samples.draw(n_resamples, seed, num_threads)
    estimates = samples.evaluate(samples.sum_up())  # of both models
    jackknife = samples.leave_one_out() if method == "bca" else [estimates, estimates]
    exact = [_multilabel.multilabel(truth, guess, several, **options) for guess in guesses]
    sizes, differences = _find_swaps(samples)
    tested = None
    if test == "permutation":
        tested = _test_by_swaps(samples, sizes, differences, estimates, n_resamples, seed_of_swaps)
        least = {name: one.least for name, one in zip(several, tested, strict=True)}
        warn_of_few_swaps(least, level, one=True)
    if not len(samples.sizes):
        failures.warn_diagnostic("there are no samples, so the interval and p are NaN")
    labels = get_label_names(y_true) or tuple(range(samples.n_labels))
    found = {}
    for k, (name, form) in enumerate(zip(several, forms, strict=True)):
        apart, left = drawn[0][k] - drawn[1][k], jackknife[0][k] - jackknife[1][k]
        replicates = _make_replicates(samples, apart, estimates[k][0] - estimates[k][1], left, method)
        fields: dict[str, Any] = summarize_replicates(replicates, estimates[k], method, level, num_threads)
        fields |= {"first": exact[0][name], "second": exact[1][name], "difference": exact[0][name] - exact[1][name]}
        shape = np.shape(fields["difference"])
        fields["p_error"] = np.full(shape, np.nan)
        if tested is not None:
            fields |= {"p_value": tested[k].p_value, "p_error": tested[k].p_error}
        if not len(samples.sizes):
            fields |= {"p_value": np.full(shape, np.nan), "p_error": np.full(shape, np.nan)}
        fields["n_discordant"] = np.full(shape, sizes.sum())
        fields = {key: np.asarray(value)[()] for key, value in fields.items()}
        axes: dict[str, tuple[Any, ...]] = {"class": labels} if is_per_label(form) else {}
        found[name] = Comparison(name=name, confidence_level=level, method=method, test=test, axes=axes, **fields)
    return found[names] if isinstance(names, str) else ComparisonsByMetric(found)


def _find_swaps(samples: Samples) -> tuple[np.ndarray, np.ndarray]:
    """Return the kinds of units in which two models differ: the number of units, and first minus second, shape (k, K).

    Swapping exchanges a difference and its negative, so both are one kind.
    """
    apart = samples.sums[0] - samples.sums[1]
    differ = (apart != 0).any(1)
    apart, sizes = apart[differ], samples.sizes[differ]
    if not len(apart):
        return sizes, apart
    lead = np.take_along_axis(apart, (apart != 0).argmax(1)[:, np.newaxis], 1)
    kinds, which = np.unique(apart * np.sign(lead), axis=0, return_inverse=True)
    return np.bincount(which.reshape(-1), sizes).astype(np.int64), kinds


def _test_by_swaps(
    samples: Samples,
    sizes: np.ndarray,
    differences: np.ndarray,
    estimates: list[np.ndarray],
    n_resamples: int,
    seed: int,
) -> list[_permutations.PermutationResult]:
    """Test every metric by swapping both predictions of the units in which two models differ.

    `sizes` and `differences` are those of :func:`_find_swaps`, and `estimates` the metrics of both models.
    """
    n_states = math.prod(int(size) + 1 for size in sizes)
    middle = samples.sum_up().sum(0) / 2.0  # halves of integers are exact
    weights = _permutations.weigh_states(sizes) if n_states <= _permutations.MOST_STATES else None
    kept = _list_states(sizes, n_states) if weights is not None else _draw_swaps(sizes, n_resamples, seed)
    parts: list[list[np.ndarray]] = [[] for _ in samples.forms]
    for some in kept:
        moved = (some - sizes / 2.0) @ differences
        first, second = (samples.evaluate(middle + sign * moved) for sign in (1.0, -1.0))
        for part, one, other in zip(parts, first, second, strict=True):
            part.append(one - other)
    apart = [np.concatenate(part) for part in parts]
    return [_permutations.count_extremes(one, both, weights) for one, both in zip(apart, estimates, strict=True)]


def _list_states(sizes: np.ndarray, n_states: int) -> Iterator[np.ndarray]:
    """Yield how many units of each kind are not swapped, in every possible table, float64, shape (S, k)."""
    rest, kept = np.arange(n_states), np.empty((n_states, len(sizes)))
    for k, size in enumerate(sizes.tolist()):
        rest, kept[:, k] = np.divmod(rest, size + 1)
    yield kept


def _draw_swaps(sizes: np.ndarray, n_resamples: int, seed: int) -> Iterator[np.ndarray]:
    """Yield how many units of each kind are not swapped in random tables, shape (b, k): a bit for each unit."""
    stream = np.random.Philox(seed)
    words = -(-int(sizes.sum()) // 64)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    step = max(1, DRAWN_BYTES // (512 * words))
    for first in range(0, n_resamples, step):
        number = min(step, n_resamples - first)
        bits = np.unpackbits(stream.random_raw(number * words).astype("<u8").view(np.uint8)).reshape(number, -1)
        yield np.add.reduceat(bits[:, : int(sizes.sum())], starts, axis=1, dtype=np.float64)
