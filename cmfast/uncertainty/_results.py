"""Result types of intervals and posteriors of metrics."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cmfast._core import axis_names, dispatch, result_repr, validate
from cmfast._core.adapters import adapter
from cmfast._core.libraries import load_pandas
from cmfast._core.results_by_name import ResultsByName, draw_forest
from cmfast._core.usual_options import explain_options_of_methods

MOST_SHOWN_GROUPS = 6  # as many values as a repr shows


@result_repr.add_repr
class Interval(NamedTuple):
    """An interval of one metric, with estimate and standard error.

    Attributes
    ----------
    estimate : array, shape (...) or (..., C)
        The metric of the matrix itself.
    low, high : array
        Ends of the interval; NaN where the metric is undefined.
    standard_error : array
        Standard deviation of the replicates; without replicates, by the delta method or of the share.
    n_undefined : array of int64
        Number of resamples in which the metric was undefined, left out of all other fields.
    """

    estimate: Any
    low: Any
    high: Any
    standard_error: Any
    n_undefined: Any

    @property
    def axes(self) -> dict[str, tuple[Any, ...]]:
        """Axes of the arrays, "group" and "class", with their labels; {} if a matrix without names was given."""
        return axis_names.get_axes(self)

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        return self._named_parts(str)

    def _named_parts(self, name: Callable[[object], str]) -> dict[str, str]:
        """Return the parts, with the metric and the groups rendered by `name`."""
        groups = {}
        if (labels := self.axes.get(axis_names.GROUP)) is not None and len(labels) <= MOST_SHOWN_GROUPS:
            keys = axis_names.get_settings(self).get("group_names", (axis_names.GROUP,))
            texts = [name(label) if len(keys) == 1 else f"({', '.join(map(name, label))})" for label in labels]
            groups = {", ".join(map(name, keys)): ", ".join(texts)}
        metric = axis_names.get_metric(self)
        parts = groups | {name(metric) if metric else "estimate": result_repr.format_values(self.estimate)}
        parts |= {part: result_repr.format_values(getattr(self, part)) for part in ("low", "high", "standard_error")}
        if np.any(adapter(self.n_undefined).to_host(self.n_undefined)):
            parts["n_undefined"] = result_repr.format_values(self.n_undefined, ",")
        return parts

    def explain(self) -> str:
        """Return a text with the metric, the estimate, the level, the ends and the method of the interval."""
        return self._explain(str)

    def _explain(self, name: Callable[[object], str]) -> str:
        """Return the text of `explain`, with the metric rendered by `name`."""
        estimate, low, high = (np.asarray(adapter(x).to_host(x), np.float64) for x in self[:3])
        metric, settings = axis_names.get_metric(self), axis_names.get_settings(self)
        level = f"{100 * settings['confidence_level']:g} %" if "confidence_level" in settings else ""
        by = f" by {settings['method']}" if "method" in settings else ""
        text = f"{name(metric)}: " if metric else ""
        if estimate.ndim == 0:
            level = f"{level} " if level else ""
            text += f"{float(estimate):.4g}, {level}interval {float(low):.4g} to {float(high):.4g}{by}"
        else:
            text += f"{estimate.size:,} intervals" + (f", {level}{by}" if level else "")
        lost = int(np.max(adapter(self.n_undefined).to_host(self.n_undefined), initial=0))
        return f"{text}; undefined in up to {lost:,} resamples, which are left out" if lost else text

    def _rows(self) -> list[dict[str, Any]]:
        """Return a dict per value: its names, its index and the fields of its interval."""
        parts = [adapter(part).to_host(part) for part in self]
        return [
            axis_names.name_row(self.axes, index, axis_names.get_columns(self))
            | {key: part[index].item() for key, part in zip(self._fields, parts, strict=True)}
            for index in np.ndindex(parts[0].shape)
        ]

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a row per value, after its metric, group and class where these are known.

        Groups have a column for each key. The method, the level and n_resamples, if known, are in its ``attrs``.
        """
        pd = load_pandas()
        metric = axis_names.get_metric(self)
        rows = [{axis_names.METRIC: metric, **row} for row in self._rows()]
        head = [axis_names.METRIC] if metric else []
        index = [] if metric and not np.ndim(adapter(self.estimate).to_host(self.estimate)) else ["index"]
        frame = pd.DataFrame(rows, columns=[*head, *axis_names.get_columns(self), *index, *self._fields])
        frame.attrs |= {key: x for key, x in axis_names.get_settings(self).items() if key != "group_names"}
        return frame

    def plot(self, *, ax: Any = None) -> Any:
        """Draw a forest plot with a row per value.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        matplotlib axes
            Axes of the plot; the figure is not shown.
        """
        return draw_forest(ax, [{axis_names.METRIC: axis_names.get_metric(self), **row} for row in self._rows()])


def normal_interval(estimate: Any, error: Any, z: float) -> Interval:
    """Return the interval estimate +- `z` standard errors, with 0 undefined resamples."""

    def ends(estimate: Any, error: Any) -> tuple[Any, ...]:
        """Return both ends, and an array of False."""
        none = (error != error) & (error == error)  # noqa: PLR0124
        return estimate - z * error, estimate + z * error, none

    low, high, none = adapter(estimate).evaluate(ends, estimate, error)
    return Interval(estimate, low, high, error, none)


@explain_options_of_methods
@result_repr.add_compute
@dataclass(eq=False, repr=False)
class Intervals(ResultsByName[Interval]):
    """Intervals of several metrics, by name.

    Attributes
    ----------
    method : str
        Method of the intervals.
    confidence_level : float
        Nominal coverage of the intervals.
    n_resamples : int
        Number of replicates; 0 for methods without resampling.
    """

    method: str
    confidence_level: float
    n_resamples: int

    def _describe(self) -> str:
        drawn = f", {self.n_resamples:,} resamples" if self.n_resamples else ""
        return f"{self._count_names()}, {self.confidence_level:.0%} by {self.method}{drawn}"

    def explain(self) -> str:
        """Return the texts of all intervals, a line each."""
        return super().explain()

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a row per value; method, level and n_resamples are in its ``attrs``."""
        pd = load_pandas()
        axes = dict.fromkeys(axis for one in self.values() for axis in axis_names.get_columns(one))
        frame = pd.DataFrame(self._rows(), columns=["metric", *axes, "index", *Interval._fields])
        frame.attrs |= {
            "method": self.method,
            "confidence_level": self.confidence_level,
            "n_resamples": self.n_resamples,
        }
        return frame

    def plot(self, *, ax: Any = None) -> Any:
        """Draw a forest plot with a row per value.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        matplotlib axes
            Axes of the plot; the figure is not shown.
        """
        ax = super().plot(ax=ax)
        ax.set_xlabel(f"{self.confidence_level:.0%} by {self.method}")
        return ax


@result_repr.add_repr
class Posterior(NamedTuple):
    """Draws of one metric from its posterior.

    Attributes
    ----------
    draws : array, shape (..., n_resamples) or (..., C, n_resamples)
        The metric of every draw; NaN where it is undefined.
    """

    draws: Any

    @property
    def axes(self) -> dict[str, tuple[Any, ...]]:
        """Axes of the metric, "group" and "class", with their labels; {} if a matrix without names was given."""
        return axis_names.get_axes(self)

    @property
    def mean(self) -> Any:
        """Mean of the draws."""
        return adapter(self.draws).evaluate(lambda draws: draws.mean(-1), self.draws)

    @property
    def standard_deviation(self) -> Any:
        """Standard deviation of the draws."""
        return adapter(self.draws).evaluate(lambda draws: draws.std(-1), self.draws)

    def probability(self, above: float) -> Any:
        """Return the posterior probability that the metric is greater than `above`."""
        above = validate.finite("above", above)
        size = max(1, self.draws.shape[-1])
        return adapter(self.draws).evaluate(lambda draws: (draws > above).sum(-1) / size, self.draws)

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        metric = axis_names.get_metric(self)
        mean = result_repr.format_values(self.mean)
        parts = {metric: f"mean {mean}"} if metric else {"mean": mean}
        return parts | {"draws": result_repr.format_shape(self.draws, 1)}

    def explain(self) -> str:
        """Return a text with the metric, the mean, the standard deviation and the middle 95 % of the draws."""
        metric, settings = axis_names.get_metric(self), axis_names.get_settings(self)
        text = f"{metric}: " if metric else ""
        if 0 in dispatch.shape_of(self.draws):
            return f"{text}no draws"
        mean, deviation = map(result_repr.format_values, (self.mean, self.standard_deviation))
        text += f"mean {mean}, standard deviation {deviation}"
        if len(dispatch.shape_of(self.draws)) == 1:
            (row,) = self._rows()
            text += f", 95 % of the draws {row['low']:.4g} to {row['high']:.4g}"
        return f"{text}, prior {settings['prior']}" if "prior" in settings else text

    def _rows(self) -> list[dict[str, Any]]:
        """Return a dict per value: names, index, mean, standard deviation, and the middle 95 % of its draws."""
        draws = adapter(self.draws).to_host(self.draws)
        none = np.asarray(np.isnan(draws).all(axis=-1))  # NumPy would warn
        ends = np.nanquantile(np.where(none[..., np.newaxis], 0.0, draws), (0.025, 0.975), axis=-1)
        low, high = np.where(none, np.nan, ends)
        mean, deviation = (np.asarray(adapter(x).to_host(x)) for x in (self.mean, self.standard_deviation))
        columns = {"estimate": mean, "standard_deviation": deviation, "low": low, "high": high}
        return [
            axis_names.name_row(self.axes, index, axis_names.get_columns(self))
            | {name: x[index].item() for name, x in columns.items()}
            for index in np.ndindex(mean.shape)
        ]

    def to_pandas(self) -> Any:
        """Return a DataFrame with a row per value: mean, standard deviation, and the middle 95 % of the draws.

        The metric, group and class come first where these are known. The prior and n_resamples, if known, are in its
        ``attrs``.
        """
        pd = load_pandas()
        metric = axis_names.get_metric(self)
        head = [axis_names.METRIC] if metric else []
        index = [] if metric and len(dispatch.shape_of(self.draws)) == 1 else ["index"]
        columns = [*head, *axis_names.get_columns(self), *index, "mean", "standard_deviation", "low", "high"]
        rows = [{axis_names.METRIC: metric, **row} for row in self._rows()]
        frame = pd.DataFrame(rows).rename(columns={"estimate": "mean"}).reindex(columns=columns)
        frame.attrs |= {key: x for key, x in axis_names.get_settings(self).items() if key != "group_names"}
        return frame

    def plot(self, *, ax: Any = None) -> Any:
        """Draw a row per value: the mean, and the middle 95 % of the draws.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        matplotlib axes
            Axes of the plot; the figure is not shown.
        """
        return draw_forest(ax, [{axis_names.METRIC: axis_names.get_metric(self), **row} for row in self._rows()])


@explain_options_of_methods
@result_repr.add_compute
@dataclass(eq=False, repr=False)
class PosteriorsByMetric(ResultsByName[Posterior]):
    """Posteriors of several metrics: a mapping from the name of a metric to its :class:`Posterior`."""

    def explain(self) -> str:
        """Return the texts of all posteriors, a line each."""
        return super().explain()

    def to_pandas(self) -> Any:
        """Return a DataFrame with a row per value: mean, standard deviation, and the middle 95 % of the draws."""
        pd = load_pandas()
        axes = dict.fromkeys(axis for one in self.values() for axis in axis_names.get_columns(one))
        columns = ["metric", *axes, "index", "mean", "standard_deviation", "low", "high"]
        frame = pd.DataFrame(self._rows()).rename(columns={"estimate": "mean"}).reindex(columns=columns)
        settings = (axis_names.get_settings(one) for one in self.values())
        frame.attrs |= {key: x for each in settings for key, x in each.items() if key != "group_names"}
        return frame

    def plot(self, *, ax: Any = None) -> Any:
        """Draw a row per value: the mean, and the middle 95 % of the draws.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        matplotlib axes
            Axes of the plot; the figure is not shown.
        """
        return super().plot(ax=ax)
