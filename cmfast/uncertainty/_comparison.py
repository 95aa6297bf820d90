"""What a comparison of two classifiers came to."""

from typing import Any, NamedTuple

import numpy as np

from cmfast._core import result_repr, validate

OPTIONS = ("level", "method", "test", "axes")  # fields that are no arrays, the last ones
DECIDES = "the test decides"  # where the interval and the test contradict each other
PLURALS = {"group": "groups", "class": "classes"}


@result_repr.add_repr
class Comparison(NamedTuple):
    """One metric of two classifiers on the same samples: the first less the second.

    Arrays are of NumPy, shape (...): one number per group; of a metric per class (..., C).

    Attributes
    ----------
    name : str
        The metric.
    first, second : array of float64
        The metric of each.
    difference : array of float64
        The first less the second.
    low, high : array of float64
        Interval of the difference.
    p_value : array of float64
        How often two interchangeable classifiers differ by at least as much: by the permutation test; with
        ``test="interval"`` the smallest ``1 - level`` at which the interval leaves out 0.
    p_error : array of float64
        Standard error of the p-value by Monte Carlo; 0 where all swaps were enumerated, NaN with ``test="interval"``.
    probability : array of float64
        That the first is above the second: the share of replicates; by the delta method of a normal distribution.
    standard_error : array of float64
        Of the difference.
    n_undefined : array of int64
        Replicates in which one of the two is undefined, which are left out.
    n_discordant : array of int64
        Samples in which the two differ; or clusters, but for those whose differences cancel each other, which no swap
        changes.
    level : float
        Of the interval.
    method : str
        Of the interval.
    test : str
        Where p comes from, "permutation" or "interval".
    axes : dict of str to tuple
        What the axes of the arrays are, "group" and "class", with their labels.
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
    level: float
    method: str
    test: str
    axes: dict[str, tuple[Any, ...]]

    def _parts(self) -> dict[str, str]:
        if np.ndim(self.difference):
            each = " of ".join(f"{len(labels)} {PLURALS[axis]}" for axis, labels in reversed(self.axes.items()))
            return {f"{self.name} of": each, "p": result_repr.format_largest(self.p_value)}
        between = f"{self.difference:+.4f} [{self.low:+.4f}, {self.high:+.4f}]"
        return {self.name: f"{between}, p {self.p_value:.3g}: {self.verdict()}{self.parting()}"}

    def verdict(self, index: Any = ()) -> str:
        """Return in a few words which of the two is higher, if that can be told: if p is at most ``1 - level``.

        Parameters
        ----------
        index : int or tuple of int
            Which group, and which class.

        Examples
        --------
        >>> from cmfast import uncertainty
        >>> T = uncertainty.paired_counts([1] * 9 + [0] * 9, [1] * 9 + [0] * 9, [0, 1, 0] * 6)
        >>> uncertainty.compare(T, "accuracy").verdict()
        'the first is higher'
        """
        p, difference = (
            np.asarray(a)[validate.batch_index(index, np.shape(a))] for a in (self.p_value, self.difference)
        )
        if np.isnan(p):
            return "undefined"
        if p > 1.0 - self.level or difference == 0:
            return "no difference that could not be chance"
        return "the first is higher" if difference > 0 else "the second is higher"

    def parting(self, index: Any = ()) -> str:
        """Return a note, as "; the interval leaves out 0, the test decides", where the two part; else nothing.

        Parameters
        ----------
        index : int or tuple of int
            Which group, and which class.

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
        if outside == (p <= 1.0 - self.level):
            return ""
        return f"; the interval {'leaves out' if outside else 'holds'} 0, {DECIDES}"

    def explain(self) -> str:
        """Say in words what was found; of many the most certain one."""
        p = np.asarray(self.p_value)
        if not p.size:
            return f"{self.name} of no groups"
        if np.isnan(p).all():
            return f"{self.name} is undefined"
        at = tuple(int(k) for k in np.unravel_index(np.nanargmin(p), p.shape))
        first, second, low, high = (float(np.asarray(a)[at]) for a in (self.first, self.second, self.low, self.high))
        places = [f"{axis} {labels[k]!r}" for (axis, labels), k in zip(self.axes.items(), at, strict=True)]
        where = f" of {', '.join(places)}, of {p.size:,} the most certain" if at else ""
        said = f"{self.name}{where}: {first:.4f} and {second:.4f}, the difference is {first - second:+.4f}"
        said += f", {100 * self.level:g} % of it between {low:+.4f} and {high:+.4f}"
        undefined = int(np.asarray(self.n_undefined)[at])
        left_out = f"; {undefined:,} undefined replicates left out" if undefined else ""
        error = float(np.asarray(self.p_error)[at])
        by_draws = f" (give or take {error:.2g})" if error > 0 else ""
        return f"{said}; p = {p[at]:.3g}{by_draws}: {self.verdict(at)}{self.parting(at)}{left_out}"

    def to_pandas(self) -> Any:
        """Return a DataFrame of everything: a row per group and class.

        Examples
        --------
        >>> from cmfast import uncertainty
        >>> T = uncertainty.paired_counts([0, 0, 1, 1] * 5, [0, 1, 1, 1] * 5, [0, 0, 1, 0] * 5)
        >>> uncertainty.compare(T, "accuracy").to_pandas()["difference"].item()
        0.0
        """
        import pandas as pd

        columns: dict[str, Any] = {"name": self.name}
        for (axis, labels), places in zip(self.axes.items(), np.indices(np.shape(self.difference)), strict=True):
            columns[axis] = [labels[k] for k in places.ravel().tolist()]
        columns |= {name: np.ravel(getattr(self, name)) for name in self._fields[1 : -len(OPTIONS)]}
        return pd.DataFrame(columns | {"level": self.level, "method": self.method, "test": self.test})
