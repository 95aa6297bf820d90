"""Whether two classifiers are alike enough: ``equivalence``."""

from typing import Any, NamedTuple

import numpy as np

from cmfast._core import dispatch, result_repr, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Undefined
from cmfast._core.lazy import accept_delayed
from cmfast.metrics import _plan
from cmfast.metrics._names import MetricName
from cmfast.uncertainty._compare import compare, matrices_of, share
from cmfast.uncertainty._hypotheses import check
from cmfast.uncertainty._paired_counts import PairedCounts
from cmfast.uncertainty._paired_replicates import units_of

UNSEEN = 2.0  # more samples (or clusters) of the largest influence that are taken to differ


@result_repr.add_repr
class Equivalence(NamedTuple):
    """Whether a metric of two classifiers differs by less than a margin; arrays have one number per group and class.

    Attributes
    ----------
    name : str
        The metric.
    difference, standard_error : array of float64
        The first less the second, and its error by the delta method.
    margin : float
        What would matter.
    p_value : array of float64
        Chance of a difference so near to 0 where it is the margin, in either direction.
    low, high : array of float64
        Interval of the difference, by the error that p is made of; it lies between ``-margin`` and ``margin`` if p is
        at most ``1 - level``.
    level : float
        Of each of both tests; that of the interval is ``2 * level - 1``.
    """

    name: str
    difference: Any
    standard_error: Any
    margin: float
    p_value: Any
    low: Any
    high: Any
    level: float

    def _parts(self) -> dict[str, str]:
        if np.ndim(self.p_value):
            return {self.name: result_repr.format_shape(self.p_value, 0), "p": result_repr.format_largest(self.p_value)}
        return {self.name: f"{self.difference:+.4f}, margin {self.margin:g}, p {self.p_value:.3g}"}

    def explain(self) -> str:
        """Say in words whether the two are equivalent."""
        p = np.asarray(self.p_value)
        if not p.size or np.isnan(p).all():
            return f"{self.name} has no standard error"
        alike = np.count_nonzero(p <= 1.0 - self.level)
        if p.ndim:
            return f"{self.name} differs by less than {self.margin:g} in {alike} of {p.size:,}"
        said = "differs by less than" if alike else "could differ by more than"
        return f"{self.name} {said} {self.margin:g}: between {self.low:+.4f} and {self.high:+.4f}, p = {p:.3g}"


@accept_delayed
def equivalence(
    T: PairedCounts,
    name: MetricName,
    /,
    margin: float,
    *,
    level: float = 0.95,
    undefined: Undefined = "present",
    positive: int = 1,
) -> Equivalence:
    """Test whether a metric of two classifiers differs by less than a margin: that no difference was found is no proof.

    Parameters
    ----------
    T : PairedCounts
        What both said, in clusters if samples are.
    name : str
        A metric.
    margin : float
        The least difference that would matter.
    level : float
        Of each of both tests.
    undefined : {"present", "nan", "strict", "zero", "one"} or float
        What a 0/0 gives, as for :func:`cmfast.metrics.compute`.
    positive : {1, 0}
        Which class of two is the positive one, for binary names.

    Returns
    -------
    Equivalence
        One number per group, and class where the metric is one per class, of NumPy.

    Raises
    ------
    TypeError, ValueError
        `T` is not from :func:`paired_counts`; an unknown name; a margin that is not above 0.

    Notes
    -----
    Two one-sided tests, that the difference D is above ``-margin`` and below ``margin``: the p-value is the larger of
    ``1 - Phi((D + margin) / e)`` and ``1 - Phi((margin - D) / e)``. That two agreed in few samples is no proof that
    they always do, so e is not the standard error alone, which is 0 then. One sample in which they differ moves D by g
    at most; where the true difference is the margin, at least ``margin / g`` samples differ, and D has a variance of
    ``g * margin`` or more, as in a score test. So ``e**2 = max(se**2, g * margin) + 2 * g**2``, with clusters of mean
    size as units there. Of the accuracy of models as far apart as the margin the size at 5 % is 5.9 % at most, by
    enumeration over 30 to 5,000 samples and margins of .002 to .1; with se alone it is up to 78 %. Sizes of other
    metrics are in docs/paired_sizes.md.

    Bad values: there are none in counts; NaN where the metric has no slope. Synchronises the device. Reproducible.

    References
    ----------
    Schuirmann, A comparison of the two one-sided tests procedure and the power approach for assessing the equivalence
    of average bioavailability, 1987. Tango, Equivalence test and confidence interval for the difference in proportions
    for the paired-sample design, 1998.

    Examples
    --------
    >>> from cmfast import uncertainty
    >>> T = uncertainty.paired_counts([0] * 200 + [1] * 200, [0] * 190 + [1] * 210, [0] * 195 + [1] * 205)
    >>> uncertainty.equivalence(T, "accuracy", margin=0.03).explain()
    'accuracy differs by less than 0.03: between -0.0280 and +0.0030, p = 0.0316'
    """
    from scipy.special import ndtr, ndtri

    check(T)
    given: object = name
    if not isinstance(given, str) or _plan.is_group(given):
        validate.refuse("name", "one metric", validate.format_value(name), TypeError)
    _plan.resolve_names(name, "name")
    margin, level = validate.positive("margin", margin), share("level", level)
    if level <= 0.5:
        validate.refuse("level", "above 0.5", level)
    options: dict[str, Any] = {"undefined": undefined, "positive": positive}
    one = compare(T, name, method="delta", test="interval", level=2.0 * level - 1.0, **options)
    largest = _find_largest_influence(
        T, _plan.make_plan((given,), len(T.labels), undefined, positive, argument="T").plan
    )
    error = np.sqrt(np.maximum(one.standard_error**2, largest * margin) + UNSEEN * largest**2)
    nearest, half = margin - np.abs(one.difference), ndtri(level) * error
    sure = np.where(nearest > 0.0, 0.0, 1.0)
    p = np.where(error > 0.0, ndtr(-nearest / np.where(error > 0.0, error, 1.0)), sure)
    p = np.where(np.isnan(error), np.nan, p)[()]
    low, high = one.difference - half, one.difference + half
    return Equivalence(name, one.difference, one.standard_error, margin, p, low, high, level)


def _find_largest_influence(T: PairedCounts, plan: Any) -> Any:
    """Return by how much one more unit in which the two differ may move the difference, to first order.

    Of every group, and of every class of a metric per class; of clusters those of mean size.
    """
    M, C = matrices_of(T), len(T.labels)
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
        apart = np.maximum(_find_widest(first, second), _find_widest(second, first))
        found.append(np.where(met, apart, 0.0).max(-1, initial=0.0))
    influence = np.stack(found, -1) if plan.tables else found[0]
    if T.n_clusters is not None:
        size = M[0].sum((-1, -2)) / np.maximum(units_of(T._held).totals, 1)
        influence = influence * (size[:, np.newaxis] if plan.tables else size)
    return influence if T.groups is not None else influence[0]


def _find_widest(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return the largest ``A[..., i] - B[..., j]`` over all i != j, shape (...); of one class -inf."""
    if A.shape[-1] < 2:
        return np.full(A.shape[:-1], -np.inf)
    high, low = np.argsort(-A, axis=-1)[..., :2], np.argsort(B, axis=-1)[..., :2]
    a, b = np.take_along_axis(A, high, -1), np.take_along_axis(B, low, -1)
    same = high[..., 0] == low[..., 0]
    widest: np.ndarray = np.where(same, np.maximum(a[..., 0] - b[..., 1], a[..., 1] - b[..., 0]), a[..., 0] - b[..., 0])
    return widest
