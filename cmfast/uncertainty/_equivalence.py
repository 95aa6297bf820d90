"""Equivalence test of two classifiers: two one-sided tests that a metric differs by less than a margin."""

from typing import Any, NamedTuple, overload

import numpy as np

from cmfast._core import dispatch, result_frames, result_repr, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, Ignored, Label, Undefined
from cmfast._core.lazy import accept_delayed
from cmfast.kernels.loading import load
from cmfast.metrics import _plan
from cmfast.metrics._names import MetricName
from cmfast.uncertainty import _models
from cmfast.uncertainty._compare import compare, find_positive, stack_matrices
from cmfast.uncertainty._from_labels import accept_pairs_of_labels
from cmfast.uncertainty._models import accept_names_of_models
from cmfast.uncertainty._paired_counts import PairedCounts
from cmfast.uncertainty._paired_replicates import list_units
from cmfast.uncertainty._symmetry_tests import check_paired

UNSEEN_UNITS = 2.0  # unseen discordant samples (or clusters) of the largest influence, added to the variance


@result_repr.add_repr
class Equivalence(NamedTuple):
    """Result of an equivalence test of two classifiers; arrays have one value per group and class.

    Attributes
    ----------
    name : str
        The metric.
    difference, standard_error : array of float64
        First minus second, and its standard error by the delta method.
    margin : float
        Smallest difference that matters.
    p_value : array of float64
        Probability of a difference this close to 0 or closer if the true one is the margin, in either direction.
    low, high : array of float64
        Interval of the difference, with the standard error of the test; it is within ``-margin`` and ``margin`` if p
        is at most ``1 - confidence_level``.
    confidence_level : float
        Level of each one-sided test; that of the interval is ``2 * confidence_level - 1``.
    """

    name: str
    difference: Any
    standard_error: Any
    margin: float
    p_value: Any
    low: Any
    high: Any
    confidence_level: float

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        if np.ndim(self.p_value):
            return {self.name: result_repr.format_shape(self.p_value, 0), "p": result_repr.format_largest(self.p_value)}
        return {self.name: f"{self.difference:+.4f}, margin {self.margin:g}, p {self.p_value:.3g}"}

    def explain(self) -> str:
        """Return a text that says whether the two are equivalent."""
        p = np.asarray(self.p_value)
        if not p.size or np.isnan(p).all():
            return f"{self.name} has no standard error"
        alike = np.count_nonzero(p <= 1.0 - self.confidence_level)
        if p.ndim:
            return f"{self.name} differs by less than {self.margin:g} in {alike} of {p.size:,}"
        said = "differs by less than" if alike else "could differ by more than"
        if self.low > self.margin or self.high < -self.margin:
            said = "differs by more than"
        between = f"between {self.low:+.4f} and {self.high:+.4f} ({200 * self.confidence_level - 100:g} % interval)"
        return f"{self.name} {said} {self.margin:g}: {between}, p = {p:.3g}"

    def to_pandas(self) -> Any:
        """Return a DataFrame with one row, or a row per group and class."""
        columns = {name: getattr(self, name) for name in self._fields if name not in ("name", "confidence_level")}
        frame = result_frames.make_frame(columns).assign(name=self.name, confidence_level=self.confidence_level)
        return frame.assign(**_models.list_columns(self))

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the difference and its interval, and the margin in both directions.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        cmfast.display.ComparisonDisplay
            The display, drawn. The figure is not shown.
        """
        display = load("cmfast.display").ComparisonDisplay
        places = [", ".join(map(str, place)) for place in np.ndindex(np.shape(self.difference))]
        fields = {name: np.ravel(getattr(self, name)) for name in ("difference", "low", "high")}
        names = [f"{self.name} [{place}]" if place else self.name for place in places]
        shown = display(names, **fields, confidence_level=2 * self.confidence_level - 1)
        shown._order = _models.describe_order(self)
        drawn = shown.plot(ax=ax)
        for margin in (-self.margin, self.margin):
            drawn.ax_.axvline(margin, color="0.6", linestyle="--", linewidth=1)
        return drawn


@overload
def equivalence(
    T: PairedCounts,
    /,
    name: MetricName,
    margin: float,
    *,
    confidence_level: float = ...,
    undefined: Undefined = ...,
    pos_label: Label | None = ...,
    ignore_index: Ignored = ...,
) -> Equivalence: ...
@overload
def equivalence(
    y_true: Array,
    y_a: Array,
    y_b: Array,
    name: MetricName,
    margin: float,
    **options: Any,
) -> Equivalence: ...
@overload
def equivalence(
    table: Any,
    /,
    name: MetricName,
    margin: float,
    *,
    y_true: str,
    y_a: str,
    y_b: str,
    **options: Any,
) -> Equivalence: ...
@accept_names_of_models
@accept_pairs_of_labels(clusters=True)
@accept_delayed
def equivalence(
    T: PairedCounts,
    /,
    name: MetricName,
    margin: float,
    *,
    confidence_level: float = 0.95,
    undefined: Undefined = "present",
    pos_label: Label | None = None,
    ignore_index: Ignored = None,
) -> Equivalence:
    """Test whether a metric of two classifiers differs by less than a margin, by two one-sided tests.

    Parameters
    ----------
    T : PairedCounts
        Paired predictions of both, with clusters if samples are clustered. Or, in its place, three arrays of labels:
        ``equivalence(y_true, y_a, y_b, name, margin)``; or a table and its columns, and clusters, as for
        :func:`compare`.
    name : str
        Name of a metric.
    margin : float
        Smallest difference that matters.
    confidence_level : float
        Level of each one-sided test.
    undefined : {"present", "nan", "strict", "zero", "one"} or float
        Value of a 0/0, as for :func:`cmfast.metrics.compute`.
    pos_label : {1, 0}, optional
        The positive one of two classes, for binary names; default: 1.
    ignore_index : int or str, or list of these, optional
        If labels are given: samples with this true label are ignored.

    Returns
    -------
    Equivalence
        One value per group, and class where the metric is one per class, of NumPy.

    Raises
    ------
    TypeError, ValueError
        `T` is not from :func:`paired_counts`; an unknown name; a margin that is not above 0.

    Notes
    -----
    Two one-sided tests that the difference D is above ``-margin`` and below ``margin``: the p-value is the larger of
    ``1 - Phi((D + margin) / e)`` and ``1 - Phi((margin - D) / e)``. Agreement in a few samples does not prove general
    agreement, so e is not the standard error alone, which is 0 then. One discordant sample changes D by at most g; if
    the true difference is the margin, at least ``margin / g`` samples differ, and D has a variance of ``g * margin`` or
    more, as in a score test. Hence ``e**2 = max(se**2, g * margin) + 2 * g**2``, with clusters of mean size as units.
    For the accuracy of models that differ by the margin the size at 5 % is at most 5.9 %, by enumeration over 30 to
    5,000 samples and margins of .002 to .1; with se alone it is up to 78 %. docs/paired_sizes.md gives the sizes of
    other metrics.

    Bad values: counts have none; NaN where the metric has no derivative. Synchronises the device. Reproducible.

    References
    ----------
    Schuirmann, A comparison of the two one-sided tests procedure and the power approach for assessing the equivalence
    of average bioavailability, 1987. Tango, Equivalence test and confidence interval for the difference in proportions
    for the paired-sample design, 1998.

    Examples
    --------
    >>> from cmfast import uncertainty
    >>> T = uncertainty.paired_counts(
    ...     [0] * 200 + [1] * 200,
    ...     [0] * 190 + [1] * 210,
    ...     [0] * 195 + [1] * 205,
    ... )
    >>> uncertainty.equivalence(T, "accuracy", margin=0.03).explain()
    'accuracy differs by less than 0.03: between -0.0280 and +0.0030 (90 % interval), p = 0.0316'
    """
    del ignore_index  # read where labels are counted, before this call
    from scipy.special import ndtr, ndtri

    check_paired(T)
    given: object = name
    if not isinstance(given, str) or _plan.is_group(given):
        validate.refuse("name", "one metric", validate.format_value(name), TypeError)
    _plan.resolve_names(name, "name", pos_label)
    margin, confidence_level = validate.positive("margin", margin), validate.share("confidence_level", confidence_level)
    if confidence_level <= 0.5:
        validate.refuse("confidence_level", "above 0.5", confidence_level)
    options: dict[str, Any] = {"undefined": undefined, "pos_label": pos_label}
    one = compare(T, name, method="delta", test="interval", confidence_level=2.0 * confidence_level - 1.0, **options)
    largest = _find_largest_influence(
        T, _plan.make_plan((given,), len(T.labels), undefined, find_positive(T, pos_label), argument="T").plan
    )
    error = np.sqrt(np.maximum(np.square(one.standard_error), largest * margin) + UNSEEN_UNITS * np.square(largest))
    nearest, half = margin - np.abs(one.difference), ndtri(confidence_level) * error
    sure = np.where(nearest > 0.0, 0.0, 1.0)
    p = np.where(error > 0.0, ndtr(-nearest / np.where(error > 0.0, error, 1.0)), sure)
    p = np.where(np.isnan(error), np.nan, p)[()]
    low, high = one.difference - half, one.difference + half
    return Equivalence(name, one.difference, one.standard_error, margin, p, low, high, confidence_level)


def _find_largest_influence(T: PairedCounts, plan: Any) -> Any:
    """Return the most that one more discordant unit can change the difference, to first order.

    Shape (G,), or (G, C) for a metric per class; with clusters, for units of mean cluster size.
    """
    M, C = stack_matrices(T), len(T.labels)
    met = M[0].sum(-1) > 0  # classes that occur
    (sent,) = dispatch.adopt(T=adapter(T._home).send(M, T._home))
    found = []
    for k in range(C if plan.tables else 1):
        scalars, tables = np.ones((*M.shape[:2], plan.scalars)), np.zeros((*M.shape[:2], plan.tables, C))
        tables[..., k : k + 1] = 1.0
        home = adapter(T._home)
        given = dispatch.adopt(scalars=home.send(scalars, T._home), tables=home.send(tables, T._home))
        slopes = dispatch.call("metrics_gradient", sent, *given, plan=plan)
        first, second = adapter(slopes).to_host(slopes)
        apart = np.maximum(_find_largest_difference(first, second), _find_largest_difference(second, first))
        found.append(np.where(met, apart, 0.0).max(-1, initial=0.0))
    influence = np.stack(found, -1) if plan.tables else found[0]
    if T.n_clusters is not None:
        size = M[0].sum((-1, -2)) / np.maximum(list_units(T._held).totals, 1)
        influence = influence * (size[:, np.newaxis] if plan.tables else size)
    return influence if T.groups is not None else influence[0]


def _find_largest_difference(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return the largest ``A[..., i] - B[..., j]`` over all i != j, shape (...); -inf for one class."""
    if A.shape[-1] < 2:
        return np.full(A.shape[:-1], -np.inf)
    high, low = np.argsort(-A, axis=-1)[..., :2], np.argsort(B, axis=-1)[..., :2]
    a, b = np.take_along_axis(A, high, -1), np.take_along_axis(B, low, -1)
    same = high[..., 0] == low[..., 0]
    widest: np.ndarray = np.where(same, np.maximum(a[..., 0] - b[..., 1], a[..., 1] - b[..., 0]), a[..., 0] - b[..., 0])
    return widest
