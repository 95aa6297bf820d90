"""Result types of a comparison between groups."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from cmfast._core import axis_names, plotting, result_repr, validate
from cmfast._core.libraries import load_pandas
from cmfast._core.markup import isolate
from cmfast._core.results_by_name import ResultsByName
from cmfast._core.usual_options import explain_options_of_methods

TableOf: TypeAlias = Literal["groups", "pairs", "gap"]
OF_GROUPS = ("estimate", "low", "high", "standard_error", "n_undefined")
OF_PAIRS = (
    "pair_difference",
    "pair_low",
    "pair_high",
    "pair_p_value",
    "pair_holm",
    "pair_ratio",
    "pair_ratio_low",
    "pair_ratio_high",
)
OF_GAP = (
    "difference",
    "difference_low",
    "difference_high",
    "p_value",
    "ratio",
    "ratio_low",
    "ratio_high",
)


@result_repr.add_repr
class GroupComparison(NamedTuple):
    """Comparison of one metric between groups: of each group, of every pair, and of the highest with the lowest.

    NumPy arrays. "..." are the axes before the groups; a metric per class has an axis of classes at the end, and
    "equalized_odds" an axis of its two rates.

    Attributes
    ----------
    name : str
        The metric, or the criterion of fairness.
    estimate : array of float64, shape (..., G)
        The metric of each group.
    low, high : array of float64, shape (..., G)
        Its interval; NaN where the metric is 0/0.
    standard_error : array of float64, shape (..., G)
        Standard deviation of the replicates of each group, or the standard error by the delta method.
    n_undefined : array of int64, shape (..., G)
        Replicates in which the metric is undefined, left out.
    overall : array of float64, shape (...)
        The metric of all groups together.
    lowest, highest : array of int64, shape (...)
        Positions of the groups with the smallest and the largest value; -1 if the metric is defined in fewer than two.
        Of two rates: in the rate that differs more.
    difference : array of float64, shape (...)
        The largest value minus the smallest. Of two rates the larger of both differences.
    difference_low, difference_high : array of float64, shape (...)
        Its interval, which holds for the choice of the groups, too. From 0 on unless two groups differ significantly.
    p_value : array of float64, shape (...)
        p of the hypothesis that no two groups differ, corrected for the number of pairs.
    ratio, ratio_low, ratio_high : array of float64, shape (...)
        The smallest value divided by the largest, and its interval; NaN for metrics below 0.
    first, second : tuple of int
        Positions of the groups of each pair; the second is the reference, if there is one, and -1 for all samples.
    pair_difference, pair_low, pair_high : array of float64, shape (..., P)
        First minus second, and its interval, not corrected for the number of pairs.
    pair_p_value, pair_holm : array of float64, shape (..., P)
        p of no difference, and p corrected by Holm for the number of pairs, of a class or of both rates.
    pair_ratio, pair_ratio_low, pair_ratio_high : array of float64, shape (..., P)
        First divided by second, and its interval; NaN for metrics below 0.
    confidence_level : float
        Level of all intervals.
    method : str
        Method of the intervals and p-values.
    axes : dict of str to tuple
        "group", and "class" or "rate", with their labels.
    """

    name: str
    estimate: Any
    low: Any
    high: Any
    standard_error: Any
    n_undefined: Any
    overall: Any
    lowest: Any
    highest: Any
    difference: Any
    difference_low: Any
    difference_high: Any
    p_value: Any
    ratio: Any
    ratio_low: Any
    ratio_high: Any
    first: tuple[int, ...]
    second: tuple[int, ...]
    pair_difference: Any
    pair_low: Any
    pair_high: Any
    pair_p_value: Any
    pair_holm: Any
    pair_ratio: Any
    pair_ratio_low: Any
    pair_ratio_high: Any
    confidence_level: float
    method: str
    axes: dict[str, tuple[Any, ...]]

    def _name_metric(self, name: Callable[[object], str] = str) -> str:
        """Return the name of the metric, with the label of the positive class if it is not 1."""
        positive = axis_names.get_settings(self).get("positive")
        return self.name if positive is None else f"{self.name} (positive: {name(positive)})"

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        n = len(self.axes["group"])
        if np.ndim(self.difference):
            text = f"{np.size(self.difference):,} comparisons of {n} groups"
            return {self._name_metric(): text, "p": result_repr.format_largest(self.p_value)}
        ends = f"{self.difference:.4f} [{self.difference_low:.4f}, {self.difference_high:.4f}]"
        return {self._name_metric(): f"of {n} group{'s' * (n != 1)} differs by {ends}, p {self.p_value:.3g}"}

    def verdict(self, index: Any = ()) -> str:
        """Return whether two groups differ significantly (p of at most ``1 - confidence_level``).

        Parameters
        ----------
        index : int or tuple of int
            Index of the batch element, and of the class.

        Examples
        --------
        >>> from cmfast import uncertainty
        >>> M = [[[40, 10], [10, 40]], [[45, 5], [25, 25]]]
        >>> uncertainty.compare_groups(M, "recall_binary").verdict()
        'the groups differ'
        """
        p = np.asarray(self.p_value)[validate.batch_index(index, np.shape(self.p_value))]
        if np.isnan(p):
            return "undefined"
        return "the groups differ" if p <= 1.0 - self.confidence_level else "no significant difference"

    def explain(self) -> str:
        """Return a text with the lowest and the highest group, and their difference; for arrays, of the smallest p."""
        return self._explain(str)

    def _explain(self, name: Callable[[object], str]) -> str:
        """Return the text of :meth:`explain`, with groups and classes rendered by `name`."""
        p = np.asarray(self.p_value)
        if not p.size or np.isnan(p).all():
            return f"{self.name}: defined in fewer than two groups"
        at = tuple(int(k) for k in np.unravel_index(np.nanargmin(p), p.shape))
        where = f" of {self._name_place(at, name)}, the smallest p of {p.size:,}" if at else ""
        groups = self.axes["group"]
        lowest, highest = (name(groups[int(np.asarray(k)[at])]) for k in (self.lowest, self.highest))
        fields = ("difference", "difference_low", "difference_high", "ratio")
        value, low, high, ratio = (float(np.asarray(getattr(self, field))[at]) for field in fields)
        ends = f"{100 * self.confidence_level:g} % interval {low:.4f} to {high:.4f}"
        text = f"{self._name_metric(name)}{where}: lowest in {lowest}, highest in {highest}"
        text += f"; the difference is {value:.4f}, {ends}"
        share = "" if np.isnan(ratio) else f", the ratio {ratio:.3f}"
        unknown = np.isnan(np.moveaxis(np.asarray(self.low), -len(self.axes), 0))
        missing = np.count_nonzero(unknown.any(tuple(range(1, unknown.ndim))))
        undefined = f"; undefined in {missing} of {len(groups)} groups" if missing else ""
        return f"{text}{share}; p = {p[at]:.3g}: {self.verdict(at)}{undefined}"

    def _name_place(self, at: tuple[int, ...], name: Callable[[object], str]) -> str:
        """Return the text of an index of :attr:`p_value`: that of the batch, and the class, rendered by `name`."""
        labels = self.axes.get("class")
        batch, own = (at, ()) if labels is None else (at[:-1], at[-1:])
        places = [f"batch element {batch[0] if len(batch) == 1 else batch}"] if batch else []
        places += [f"class {name(labels[k])}" for k in own if labels is not None]
        return ", ".join(places)

    def to_pandas(self, *, of: TableOf = "groups") -> Any:
        """Return a pandas DataFrame.

        Parameters
        ----------
        of : {"groups", "pairs", "gap"}
            A row for each group, for each pair of groups, or for the highest and the lowest group.

        Returns
        -------
        pandas.DataFrame
            The fields of this result, with the labels of groups, and of classes or rates.

        Examples
        --------
        >>> from cmfast import uncertainty
        >>> M = [[[40, 10], [10, 40]], [[45, 5], [25, 25]]]
        >>> found = uncertainty.compare_groups(M, "recall_binary")
        >>> found.to_pandas(of="pairs")[["first", "second", "difference"]]
           first  second  difference
        0      0       1         0.3
        """
        pd = load_pandas()
        return pd.DataFrame(self._rows(of))

    def _rows(self, of: TableOf) -> list[dict[str, Any]]:
        """Return a dict per row of the table of groups, of pairs or of the gap."""
        validate.choice("of", of, get_args(TableOf))
        groups, (others, labels) = self.axes["group"], (list(self.axes.items())[1:] or [("", ())])[0]
        core = "" if of == "gap" and others == "rate" else others
        fields = {"groups": OF_GROUPS, "pairs": OF_PAIRS, "gap": OF_GAP}[of]
        shape = np.shape(getattr(self, fields[0]))
        n_batch = len(shape) - (of != "gap") - bool(core)
        rows = []
        for index in np.ndindex(shape):
            row: dict[str, Any] = {"name": self.name}
            row |= {f"batch_{k}" if n_batch > 1 else "batch": index[k] for k in range(n_batch)}
            rest = index[n_batch:]
            if of == "groups":
                row["group"] = groups[rest[0]]
            elif of == "pairs":
                row["first"], row["second"] = (
                    "overall" if side[rest[0]] < 0 else groups[side[rest[0]]] for side in (self.first, self.second)
                )
            else:
                for side in ("lowest", "highest"):
                    place = int(np.asarray(getattr(self, side))[index])
                    row[side] = groups[place] if place >= 0 else None
            if core:
                row[core] = labels[rest[-1]]
            row |= {field.removeprefix("pair_"): np.asarray(getattr(self, field))[index].item() for field in fields}
            rows.append(row)
        return rows

    def plot(self, *, of: TableOf = "groups", ax: Any = None) -> Any:
        """Draw a forest plot.

        Parameters
        ----------
        of : {"groups", "pairs", "gap"}
            A row for each group, for the difference of each pair, or for the largest difference.
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        matplotlib axes
            Axes of the plot; the figure is not shown.
        """
        return draw_rows(self._rows(of), of, self.confidence_level, ax)


@explain_options_of_methods
@result_repr.add_compute
@dataclass(eq=False, repr=False)
class GroupComparisonsByMetric(ResultsByName[GroupComparison]):
    """Comparisons between groups by several metrics: a mapping from metric to :class:`GroupComparison`."""

    _heads = ("lowest", "highest", *OF_GAP[:5])
    _are_named = True

    def _describe(self) -> str:
        return f"p of {self._describe_each(lambda one: result_repr.format_largest(one.p_value))}"

    def _write_caption(self) -> str:
        return "differences between groups"

    def _list_cells(self) -> list[list[Any]]:
        cells = []
        for row in (row for one in self.values() for row in one._rows("gap")):
            places = [isolate(x) for key, x in row.items() if key in ("class", "rate") or key.startswith("batch")]
            sides = ["" if row[side] is None else isolate(row[side]) for side in ("lowest", "highest")]
            cells.append([", ".join([row["name"], *places]), *sides, *(row[field] for field in OF_GAP[:5])])
        return cells

    def explain(self) -> str:
        """Return the texts of all comparisons, a line each."""
        return super().explain()

    def to_pandas(self, *, of: TableOf = "gap") -> Any:
        """Return a pandas DataFrame of all metrics.

        Parameters
        ----------
        of : {"groups", "pairs", "gap"}
            As for :meth:`GroupComparison.to_pandas`.

        Returns
        -------
        pandas.DataFrame
            The rows of all metrics, one below the other.
        """
        pd = load_pandas()
        return pd.DataFrame([row for one in self.values() for row in one._rows(of)])

    def plot(self, *, of: TableOf = "gap", ax: Any = None) -> Any:
        """Draw a forest plot of all metrics.

        Parameters
        ----------
        of : {"groups", "pairs", "gap"}
            As for :meth:`GroupComparison.plot`.
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        matplotlib axes
            Axes of the plot; the figure is not shown.
        """
        level = next((one.confidence_level for one in self.values()), 0.95)
        return draw_rows([row for one in self.values() for row in one._rows(of)], of, level, ax)


def draw_rows(rows: list[dict[str, Any]], of: TableOf, confidence_level: float, ax: Any) -> Any:
    """Draw a forest plot of rows of groups, pairs or gaps; return its axes."""
    keys = ("estimate", "low", "high") if of == "groups" else ("difference", "low", "high")
    if of == "gap":
        keys = ("difference", "difference_low", "difference_high")
    several = len({row["name"] for row in rows}) > 1
    names = []
    for row in rows:
        labels = [f"{row['first']} minus {row['second']}"] if of == "pairs" else []
        labels += [str(x) for key, x in row.items() if key in ("group", "class", "rate") or key.startswith("batch")]
        names.append(", ".join([row["name"]] * (several or not labels) + labels))
    ax = plotting.make_forest_axes(ax, len(rows))
    values, low, high = (np.array([row[key] for row in rows], np.float64) for key in keys)
    if of != "groups":
        ax.axvline(0.0, color="0.6", linewidth=1)
    plotting.draw_forest(ax, names, values, low, high)
    what = {"groups": "", "pairs": "first minus second, ", "gap": "highest minus lowest, "}[of]
    single = "" if several or not rows else f"{rows[0]['name']}: "
    ax.set_xlabel(f"{single}{what}{100 * confidence_level:g} % intervals")
    return ax
