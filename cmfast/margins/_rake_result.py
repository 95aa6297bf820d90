"""Result type of raking."""

from functools import cache
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np

from cmfast._core import dispatch, plotting, result_frames, result_repr, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import ArrayT, OnFailure
from cmfast.kernels.status import Status
from cmfast.margins import _estimates

R = TypeVar("R", bound="RakeResult[Any]")
EstimateKind = Literal["total", "mean"]
MOST_FACTOR_BINS = 40

MEANING = {
    Status.CONVERGED: "totals recomputed from the result are met; the estimated error of the weights is at most 1e-4",
    Status.MAX_ITER: "not converged; these are the last weights, pass a larger max_iter=",
    Status.LIMIT_ONLY: "no dual solution exists; this is the exact limit, with some weights at zero or at a bound",
    Status.INFEASIBLE: "no weights, nonnegative and within the bounds, have these totals",
    Status.TOTALS: "two targets disagree on the attributes that they share, or on the total",
    Status.INVALID: "a value is infinite or NaN, a weight negative, or a category beyond its target",
    Status.ZERO_LINE: "no record adds anything to a target that is not zero",
    Status.RANGE: "weights leave the range of float64",
    Status.UNDETERMINED: "the digits of the totals do not say what all weights are, and more passes would not either",
}


@result_repr.add_repr
class RakeResult(NamedTuple, Generic[ArrayT]):
    """Result of :func:`rake`.

    Attributes
    ----------
    weights : array, shape (..., n)
        Float32 if design weights were given and they and all targets are float32, else float64.
    multipliers : array of float64, shape (..., K), or list of them
        Lambda of each total, in the shape of the targets: not unique where columns depend on each other. Minus infinity
        where a target of zero leaves no record. NaN with LIMIT_ONLY: none exist.
    achieved : array of float64, shape (..., K), or list of them
        What the weights add up to, before any rounding to float32.
    proof : array of float64, shape (..., K), or list of them
        With INFEASIBLE an infeasibility certificate: multipliers of the totals such that no weights reach the weighted
        sum of the targets; else NaN.
    residual : array of float64, shape (...), or (..., groups) with `groups`, as all that follow
        The largest distance of a total from its target over that, or a thousandth of what the total would be without
        signs, if that is more; "linear", whose weights may be zero: or a millionth of what that was of the design
        weights. With attributes the distances in all categories of a target over the sum of these. Of
        targets that need not be met: from the totals that the multipliers allow.
    weight_error : array of float64, shape (...)
        Estimated largest relative error of a weight ("linear": relative to its design weight), not a bound: the last
        step, and the effect of rounding the targets once. Of 11,925 CONVERGED solutions with known exact weights, 70
        were further off than estimated, by a factor of at most 2.2; with "logit", a low bound of zero and weights near
        it, 40 of 1,267, by a factor of at most 3.6.
    n_iter : array of int64, shape (...)
        Passes over the records.
    status : array of int8, shape (...)
        Codes of :class:`cmfast.Status`.
    """

    weights: ArrayT
    multipliers: Any
    achieved: Any
    proof: Any
    residual: ArrayT
    weight_error: ArrayT
    n_iter: ArrayT
    status: ArrayT

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        batch = dispatch.shape_of(self.status)
        groups, n = self.groups, f"{dispatch.shape_of(self.weights)[-1]:,}"
        if groups is not None:
            batch, n = batch[:-1], f"{n} of {len(groups):,} groups"
        return {
            "records": n + (f", a batch of {' x '.join(map(str, batch))}" if batch else ""),
            "status": result_repr.format_statuses(self.status),
            "residual": result_repr.format_largest(self.residual),
            "estimated weight error": result_repr.format_largest(self.weight_error),
            "passes": result_repr.format_largest(self.n_iter, ","),
        }

    @property
    def groups(self) -> tuple[Any, ...] | None:
        """Labels of the groups that were raked, tuples for several columns; None without `groups`."""
        return getattr(getattr(self, "_records", None), "groups", None)

    def explain(self, index: int | tuple[int, ...] | None = None) -> str:
        """Return a text that explains the status of the weights, or of one element of the batch.

        As :meth:`cmfast.results.ScalingResult.explain`.

        Examples
        --------
        >>> import cmfast
        >>> cmfast.rake([[1.0], [2.0]], [6.0]).explain()
        'CONVERGED: totals recomputed from the result are met; the estimated error of the weights is at most 1e-4'
        """
        return result_repr.explain_statuses(self.status, index, MEANING, "no sets of weights")

    def effective_size(self) -> ArrayT:
        """Return Kish's effective sample size: the square of the sum of the weights, over the sum of their squares.

        So many records with equal weights estimate a mean as precisely as these, if the weights have nothing to do with
        what is measured. The number of records over it is :meth:`design_effect`.

        Returns
        -------
        array of float64, shape (...)
            NaN for weights that are NaN, or whose sum is 0. Does not synchronise a device. Reproducible.

        References
        ----------
        Kish, Survey sampling, 1965.

        Examples
        --------
        >>> import cmfast
        >>> result = cmfast.rake([[0, 0, 0, 1]], [(0, [3.0, 3.0])])
        >>> round(float(result.effective_size()), 6)
        3.0
        """
        bare: Any = adapter(self.weights).unwrap(self.weights)
        with np.errstate(divide="ignore", invalid="ignore"):
            found: ArrayT = adapter(bare).evaluate(_compute_effective_size, bare)
        return found

    def design_effect(self) -> ArrayT:
        """Return Kish's design effect of the weights: one plus their squared coefficient of variation.

        By this factor unequal weights raise the variance of a mean above that of equal weights, if they have nothing to
        do with what is measured. It is the number of records over :meth:`effective_size`, and does not know what raking
        itself gains: :meth:`estimate` does.

        Returns
        -------
        array of float64, shape (...)
            1 for equal weights, at most the number of records; NaN for weights that are NaN, or whose sum is 0. Does
            not synchronise a device. Reproducible.

        References
        ----------
        Kish, Weighting for unequal Pi, 1992.

        Examples
        --------
        >>> import cmfast
        >>> result = cmfast.rake([[0, 0, 0, 1]], [(0, [3.0, 3.0])])
        >>> round(float(result.design_effect()), 6)
        1.333333
        """
        size: Any = self.effective_size()
        with np.errstate(divide="ignore", invalid="ignore"):
            n = dispatch.shape_of(self.weights)[-1]
            found: ArrayT = adapter(size).evaluate(lambda size: n / size, size)
        return found

    def estimate(
        self,
        values: Any,
        /,
        *,
        kind: EstimateKind = "total",
        where: Any = None,
        strata: Any = None,
        clusters: Any = None,
        fpc: Any = None,
        confidence_level: float = 0.95,
        on_failure: OnFailure = None,
    ) -> Any:
        """Estimate the total or mean of a variable from the weights, with its standard error and interval.

        The standard error knows that the weights were raked: a variable that the columns of the design predict well has
        a small one, and a total that was raked to has none. As R's survey package computes it, by linearisation.

        Parameters
        ----------
        values : array, shape (..., n), or str, or list of str
            The variable, a value for each record; 0 and 1, or booleans, for a number or share of records. Leading axes
            broadcast with the batch of the weights. Or, if a table was raked, the name of its column, or a list of
            them.
        kind : {"total", "mean"}
            The weighted sum of the values, or that over the sum of the weights.
        where : array of bool, shape (n,), or str, optional
            Records of a subpopulation, whose total or mean is wanted. Values of other records may be NaN.
        strata, clusters : array, shape (n,), or str, optional
            Labels of the strata within which the sample was drawn, and of the clusters that were drawn as a whole, such
            as households or districts; of several stages, the first. Equal labels in two strata are two
            clusters. Default: records were drawn one by one from everyone.
        fpc : number, array, shape (n,), dict or str, optional
            For the finite population correction: how many units (clusters, else records) each stratum has in the
            population, by record or as a dict by stratum; or, if all are at most 1, the share of them that was sampled.
            Default: samples are small parts of the population, or drawn with replacement.
        confidence_level : float
            Nominal coverage of the interval.
        on_failure : {"warn", "raise", "ignore"}, optional
            What to do about values that are not finite (see Notes). Default: as :func:`cmfast.config` says, first
            "warn".

        Returns
        -------
        Interval, or Intervals
            One interval, of arrays of float64 of shape (...), or several by name for a list of names. In the library of
            the weights.

        Raises
        ------
        TypeError, ValueError
            Shapes that do not agree; Series with the index of the records in another order; a column that is not there;
            a stratum with one unit; a design or weights that were changed in place since. Also for a result that was
            not returned by :func:`rake` itself, such as a changed copy: it does not know its records.

        Warns
        -----
        DiagnosticWarning
            Fewer than six sampled units (clusters, else records) for each independent total: intervals held the truth
            in less than 90 % of samples of docs/raking_coverage.py. Fewer than six with records of `where`. Never if
            `on_failure` is "ignore".

        Notes
        -----
        Each value is replaced by its residual in a regression on the columns of the design (an indicator for each
        category) whose totals were raked to, by least squares with the design weights; these are multiplied by the
        raked weights, and summed by cluster. The variance of their sum is that of clusters drawn with replacement
        within strata, each stratum's variance times the share that was not sampled. Redundant columns change nothing.
        Targets of NaN are left out, and those of finite `importance` shrink the regression as they do the weights.
        The interval is the estimate +- a quantile of Student's t with as many degrees of freedom as there are clusters
        less strata; R's `confint` uses the normal distribution unless it is told so.

        Groups that were drawn apart are strata: name their columns as `strata`, and their variances add up.
        Strata and clusters may also cross groups. An estimate needs the groups of its records alone: others may have
        weights of NaN.

        Design weights and totals must be known without error: the variance is that of the sample alone. The time is
        that of a QR factorisation of the design for each set of design weights; two copies of a block of records and a
        square of the columns are held in memory. The result keeps a reference to the design, and a copy of the weights.

        Bad values: a NaN or infinite value of a record of `where` (INVALID) gives NaN for that estimate, is reported as
        `on_failure` says, and does not affect others; weights of NaN give NaN. A mean over no weight is NaN. Does not
        synchronise a device: arrays on a GPU cannot be raked. Reproducible, where the linear algebra library is the
        same.

        References
        ----------
        Deville and Saerndal, Calibration estimators in survey sampling, 1992. Deville, Saerndal and Sautory,
        Generalized raking procedures in survey sampling, 1993.

        Examples
        --------
        Twelve of 100 persons were asked, and raked to the sexes of all:

        >>> import cmfast
        >>> sex = 4 * [0] + 8 * [1]
        >>> result = cmfast.rake([sex], [(0, [48.0, 52.0])])
        >>> income = [31, 35, 30, 33, 20, 24, 19, 25, 21, 26, 22, 23]
        >>> result.estimate(income, kind="mean", fpc=100)
        <Interval: estimate 27.2, low 25.8, high 28.5, standard_error 0.612>
        """
        records = self._get_records("estimate")
        options = _estimates.EstimateOptions(kind, where, strata, clusters, fpc, confidence_level, on_failure)
        return _estimates.estimate(self.weights, records, values, options)

    def _get_records(self, method: str) -> Any:
        """Return the records that were raked; raise ValueError if this result does not know them."""
        records = getattr(self, "_records", None)
        if records is None:
            validate.fail(f"this result does not know the records that were raked; call {method} of what rake returned")
        return records

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with the weight of each record."""
        return result_frames.make_frame({"weight": self.weights}, ("record",))

    def plot(self, *, ax: Any = None) -> Any:
        """Draw a histogram of the adjustment factors: each weight over its design weight, a line per batch element.

        A long tail marks records that stand for many others, which makes estimates less precise.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        matplotlib axes
            Axes of the plot; the figure is not shown.

        Raises
        ------
        ValueError
            A result that was not returned by :func:`rake` itself, such as a changed copy: it does not know its design
            weights.

        Examples
        --------
        >>> import cmfast
        >>> result = cmfast.rake([[0, 0, 0, 1]], [(0, [3.0, 3.0])])
        >>> ax = result.plot()
        >>> steps = ax.patches[0].get_data()
        >>> int(steps.values[0]), int(steps.values[-1])  # of 1 and of 3
        (3, 1)
        """
        design = _estimates.get_design_weights(self._get_records("plot"))
        weights = np.asarray(result_frames.copy_to_host(self.weights), np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            factors = weights / (1.0 if design is None else design)
        rows = factors.reshape(-1, weights.shape[-1])
        edges = np.histogram_bin_edges(factors[np.isfinite(factors)], MOST_FACTOR_BINS)
        steps = [(edges, np.histogram(row[np.isfinite(row)], edges)[0]) for row in rows]
        names = [f"element {k}" for k in range(len(rows))]
        return plotting.draw_steps(ax, steps, names, ("weight / design weight", "records"))


def _compute_effective_size(weights: Any) -> Any:
    """Return one over the sum of the squared shares of the weights."""
    weights = adapter(weights).cast(weights, np.float64)
    shares = weights / weights.sum(-1)[..., None]
    return 1.0 / (shares * shares).sum(-1)


def attach_records(result: R, records: _estimates.RakedRecords | _estimates.GroupedRecords | None) -> R:
    """Return the result with the records that were raked, for its method `estimate`; itself without records.

    The class of the copy differs in this alone, so that named tuples keep their fields.
    """
    if records is None:
        return result
    cls: Any = type(result)
    kept: Any = _make_class_with_records(cls)(*result)
    kept._records = records
    return kept  # type: ignore[no-any-return]


@cache
def _make_class_with_records(cls: type) -> type:
    """Return the subclass of a named tuple whose instances hold records."""

    def __reduce__(self: Any) -> tuple[Any, ...]:  # noqa: N807
        return attach_records, (cls(*self), getattr(self, "_records", None))

    return type(cls.__name__, (cls,), {"__module__": cls.__module__, "__doc__": cls.__doc__, "__reduce__": __reduce__})
