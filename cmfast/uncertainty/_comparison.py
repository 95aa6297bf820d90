"""Result type of a comparison of two classifiers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cmfast._core import result_repr, validate
from cmfast._core.libraries import load_pandas
from cmfast._core.markup import isolate
from cmfast._core.results_by_name import ResultsByName
from cmfast._core.usual_options import explain_options_of_methods
from cmfast.kernels.loading import load
from cmfast.uncertainty import _models, _replicate_statistics

OPTIONS = ("confidence_level", "method", "test", "axes")  # the last fields, which are not arrays
DECIDES = "the test decides"  # appended if the interval and the test contradict each other
FIELDS = ("first", "second", "difference", "low", "high", "p_value", "probability", "standard_error", "n_undefined")
PLURALS = {"group": "groups", "class": "classes"}  # batches of scores have other axes


@result_repr.add_repr
class Comparison(NamedTuple):
    """Comparison of two classifiers by one metric: the difference, first minus second, its interval and p-value.

    NumPy arrays of shape (...): one value per group, or per problem of a batch of scores; (..., C) for a metric per
    class.

    Attributes
    ----------
    name : str
        The metric.
    first, second : array of float64
        The metric of each classifier.
    difference : array of float64
        First minus second.
    low, high : array of float64
        Interval of the difference.
    p_value : array of float64
        Probability of a difference at least as large between interchangeable classifiers, by the permutation test; with
        ``test="interval"`` the smallest ``1 - confidence_level`` at which the interval excludes 0.
    p_error : array of float64
        Standard error of the p-value by Monte Carlo; 0 where all swaps were enumerated, NaN with ``test="interval"``.
    probability : array of float64
        Probability that the first is above the second: the share of replicates, or that of a normal distribution with
        the delta method.
    standard_error : array of float64
        Standard error of the difference.
    n_undefined : array of int64
        Replicates left out because the metric of one classifier is undefined.
    n_discordant : array of int64
        Samples in which the two differ; or clusters, except those whose differences cancel, which no swap changes. For
        areas: samples that the two rank differently.
    confidence_level : float
        Level of the interval.
    method : str
        Method of the interval.
    test : str
        Source of p, "permutation" or "interval".
    axes : dict of str to tuple
        Axes of the arrays, "group" and "class", with their labels; of a batch of scores "batch", or "batch_0", ...
    """

    name: str
    first: Any
    second: Any
    difference: Any
    low: Any
    high: Any
    p_value: Any
    p_error: Any
    probability: Any
    standard_error: Any
    n_undefined: Any
    n_discordant: Any
    confidence_level: float
    method: str
    test: str
    axes: dict[str, tuple[Any, ...]]

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        return self._named_parts(str)

    def _named_parts(self, name: Callable[[object], str]) -> dict[str, str]:
        """Return the parts, with the models rendered by `name`."""
        if np.ndim(self.difference):
            each = f"{np.size(self.difference)} problems"
            if self.axes.keys() <= PLURALS.keys():
                each = " of ".join(f"{len(labels)} {PLURALS[axis]}" for axis, labels in reversed(self.axes.items()))
            return {f"{self.name} of": each, "p": result_repr.format_largest(self.p_value)}
        between = f"{self.difference:+.4f} [{self.low:+.4f}, {self.high:+.4f}]"
        return {self.name: f"{between}, p {self.p_value:.3g}: {self._decide((), name)}{self.parting()}"}

    def verdict(self, index: Any = ()) -> str:
        """Return which classifier is higher, or that no significant difference exists (p > ``1 - confidence_level``).

        The classifiers have the names of the columns or Series that :func:`compare` was given.

        Parameters
        ----------
        index : int or tuple of int
            Index of the group, and of the class.

        Examples
        --------
        >>> from cmfast import uncertainty
        >>> T = uncertainty.paired_counts(
        ...     [1] * 9 + [0] * 9, [1] * 9 + [0] * 9, [0, 1, 0] * 6
        ... )
        >>> uncertainty.compare(T, "accuracy").verdict()
        'the first is higher'
        """
        return self._decide(index, str)

    def _decide(self, index: Any, name: Callable[[object], str]) -> str:
        """Return the text of `verdict`, with the models rendered by `name`."""
        p, difference = (
            np.asarray(a)[validate.batch_index(index, np.shape(a))] for a in (self.p_value, self.difference)
        )
        if np.isnan(p):
            return "undefined"
        if p > 1.0 - self.confidence_level or difference == 0:
            return "no significant difference"
        first, second = _models.get_models(self, name)
        return f"{first if difference > 0 else second} is higher"

    def parting(self, index: Any = ()) -> str:
        """Return a note if the interval and the test disagree about a difference of 0, else an empty text.

        Parameters
        ----------
        index : int or tuple of int
            Index of the group, and of the class.

        Examples
        --------
        >>> from cmfast import uncertainty
        >>> T = uncertainty.paired_counts([1] * 60, [1] * 60, [1] * 54 + [0] * 6)
        >>> uncertainty.compare(T, "accuracy").parting()
        ''
        """
        index = validate.batch_index(index, np.shape(self.difference))
        low, high, p = (float(np.asarray(a)[index]) for a in (self.low, self.high, self.p_value))
        if np.isnan([low, high, p]).any():
            return ""
        outside = low > 0 or high < 0
        if outside == (p <= 1.0 - self.confidence_level):
            return ""
        return f"; the interval {'excludes' if outside else 'contains'} 0, {DECIDES}"

    def explain(self) -> str:
        """Return a text with the difference, interval and p-value; for arrays, of the entry with the smallest p."""
        return self._explain(str)

    def _explain(self, name: Callable[[object], str]) -> str:
        """Return the text of `explain`, with the models rendered by `name`."""
        p = np.asarray(self.p_value)
        if not p.size:
            return f"{self.name}: no groups"
        if np.isnan(p).all():
            return f"{self.name} is undefined"
        at = tuple(int(k) for k in np.unravel_index(np.nanargmin(p), p.shape))
        first, second, low, high = (float(np.asarray(a)[at]) for a in (self.first, self.second, self.low, self.high))
        places = [f"{axis} {labels[k]!r}" for (axis, labels), k in zip(self.axes.items(), at, strict=True)]
        where = f" of {', '.join(places)}, the smallest p of {p.size:,}" if at else ""
        models = [f"{model} " for model in _models.get_models(self, name)] if _models.has_models(self) else ["", ""]
        said = f"{self.name}{where}: {models[0]}{first:.4f} and {models[1]}{second:.4f}"
        said += f", the difference is {first - second:+.4f}"
        said += f", {100 * self.confidence_level:g} % interval {low:+.4f} to {high:+.4f}"
        undefined = int(np.asarray(self.n_undefined)[at])
        left_out = f"; {undefined:,} undefined resamples left out" if undefined else ""
        error = float(np.asarray(self.p_error)[at])
        by_draws = f" (+- {error:.2g})" if error > 0 else ""
        return f"{said}; p = {p[at]:.3g}{by_draws}: {self._decide(at, name)}{self.parting(at)}{left_out}"

    def to_pandas(self) -> Any:
        """Return a DataFrame of all fields with a row per group and class.

        Names of both classifiers, if they have some, are in the columns first_name and second_name.

        Examples
        --------
        >>> from cmfast import uncertainty
        >>> T = uncertainty.paired_counts(
        ...     [0, 0, 1, 1] * 5, [0, 1, 1, 1] * 5, [0, 0, 1, 0] * 5
        ... )
        >>> uncertainty.compare(T, "accuracy").to_pandas()["difference"].item()
        0.0
        """
        pd = load_pandas()
        columns: dict[str, Any] = {"name": self.name} | _models.list_columns(self)
        for (axis, labels), places in zip(self.axes.items(), np.indices(np.shape(self.difference)), strict=True):
            columns[axis] = [labels[k] for k in places.ravel().tolist()]
        columns |= {name: np.ravel(getattr(self, name)) for name in self._fields[1 : -len(OPTIONS)]}
        return pd.DataFrame(
            columns | {"confidence_level": self.confidence_level, "method": self.method, "test": self.test}
        )

    def _rows(self, name: Callable[[object], str] = str) -> list[list[Any]]:
        """Return a name, the difference, its interval and p, per group and class, rendered by `name`."""
        labels, rows = list(self.axes.values()), []
        for place in np.ndindex(np.shape(self.difference)):
            parts = [name(own[k]) for own, k in zip(labels, place, strict=True)]
            numbers = [np.asarray(x)[place].item() for x in (self.difference, self.low, self.high, self.p_value)]
            rows.append([", ".join([self.name, *parts]), *numbers])
        return rows

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the difference and its interval, a row per group and class.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        cmfast.display.ComparisonDisplay
            The display, drawn. The figure is not shown.
        """
        return load("cmfast.display").ComparisonDisplay.from_comparisons(self).plot(ax=ax)


@explain_options_of_methods
@result_repr.add_compute
@dataclass(eq=False, repr=False)
class ComparisonsByMetric(ResultsByName[Comparison]):
    """Comparisons of two classifiers by several metrics: a mapping from the name of a metric to :class:`Comparison`."""

    _heads = ("difference", "low", "high", "p")
    _are_named = True

    def _describe(self) -> str:
        return f"p of {self._describe_each(lambda one: result_repr.format_largest(one.p_value))}"

    def _write_caption(self) -> str:
        return _models.describe_order(next(iter(self.values()), None), isolate)

    def _list_cells(self) -> list[list[Any]]:
        return [row for one in self.values() for row in one._rows(isolate)]

    def explain(self) -> str:
        """Return the texts of all comparisons, a line each."""
        return super().explain()

    def to_pandas(self) -> Any:
        """Return a DataFrame of all fields with a row per metric, group and class."""
        return super().to_pandas()

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the differences and their intervals, a row per metric, group and class.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        cmfast.display.ComparisonDisplay
            The display, drawn. The figure is not shown.
        """
        return load("cmfast.display").ComparisonDisplay.from_comparisons(self).plot(ax=ax)


def summarize_errors(both: np.ndarray, error: np.ndarray, confidence_level: float) -> dict[str, np.ndarray]:
    """Return the fields of a comparison from standard errors, by a normal distribution."""
    from scipy.special import ndtr

    with np.errstate(invalid="ignore"):
        estimate = both[0] - both[1]
    low, high, p = compute_normal_interval(estimate, error, confidence_level)
    above = np.where(error > 0.0, ndtr(estimate / np.where(error > 0.0, error, 1.0)), (np.sign(estimate) + 1.0) / 2.0)
    above = np.where(np.isnan(error), np.nan, above)
    fields = (*both, estimate, low, high, p, above, error, np.zeros(estimate.shape, np.int64))
    return dict(zip(FIELDS, fields, strict=True))


def summarize_replicates(
    replicates: _replicate_statistics.Replicates,
    both: np.ndarray,
    method: str,
    confidence_level: float,
    num_threads: int | None,
) -> dict[str, np.ndarray]:
    """Return the fields of a comparison from replicates of the difference of the metrics `both`, shape (2, ...)."""
    estimate = replicates.estimate
    low, high, error = _replicate_statistics.compute_interval(replicates, method, confidence_level, num_threads)
    if method == "normal":
        low, high, p = compute_normal_interval(estimate, error, confidence_level)
    else:
        p = _replicate_statistics.compute_p_value(replicates, method)
    above = 1.0 - _replicate_statistics.compute_share_below(replicates, 0.0)
    undefined = replicates.values.shape[-1] - replicates.n
    fields = (*both, estimate, low, high, p, above, error, undefined)
    return dict(zip(FIELDS, fields, strict=True))


def compute_normal_interval(
    estimate: np.ndarray, error: np.ndarray, confidence_level: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return low end, high end and two-sided p-value of a normal approximation."""
    from scipy.special import ndtr, ndtri

    half = ndtri((1.0 + confidence_level) / 2.0) * error
    still = np.where(estimate == 0.0, 1.0, 0.0)
    with np.errstate(invalid="ignore"):
        p = np.where(error > 0.0, 2.0 * ndtr(-np.abs(estimate) / np.where(error > 0.0, error, 1.0)), still)
        return estimate - half, estimate + half, np.where(np.isnan(error), np.nan, p)
