"""Whether two classifiers are alike enough: ``equivalence``."""

from typing import Any, NamedTuple

import numpy as np

from cmfast._core import reading, validate
from cmfast._core.annotations import Undefined
from cmfast._core.lazy import later
from cmfast.metrics import _plan
from cmfast.metrics._names import MetricName
from cmfast.uncertainty._compare import compare, share
from cmfast.uncertainty._hypotheses import check
from cmfast.uncertainty._paired_counts import PairedCounts


@reading.readable
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
        Interval of the difference, which lies between ``-margin`` and ``margin`` if p is at most ``1 - level``.
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
            return {self.name: reading.shape(self.p_value, 0), "p": reading.most(self.p_value)}
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


@later
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
    ``1 - Phi((D + margin) / se)`` and ``1 - Phi((margin - D) / se)``. Bad values: there are none in counts; NaN where
    the metric has no slope. Synchronises nothing. Reproducible.

    References
    ----------
    Schuirmann, A comparison of the two one-sided tests procedure and the power approach for assessing the equivalence
    of average bioavailability, 1987.

    Examples
    --------
    >>> from cmfast import uncertainty
    >>> T = uncertainty.paired_counts([0] * 200 + [1] * 200, [0] * 190 + [1] * 210, [0] * 195 + [1] * 205)
    >>> uncertainty.equivalence(T, "accuracy", margin=0.03).explain()
    'accuracy differs by less than 0.03: between -0.0216 and -0.0034, p = 0.000816'
    """
    from scipy.special import ndtr

    check(T)
    given: object = name
    if not isinstance(given, str) or _plan.is_group(given):
        validate.refuse("name", "one metric", validate.shown(name), TypeError)
    _plan.names_of(name, "name")
    margin, level = validate.positive("margin", margin), share("level", level)
    if level <= 0.5:
        validate.refuse("level", "above 0.5", level)
    options: dict[str, Any] = {"level": 2.0 * level - 1.0, "undefined": undefined, "positive": positive}
    one = compare(T, name, method="delta", test="interval", **options)
    nearest, error = margin - np.abs(one.difference), one.standard_error
    sure = np.where(nearest > 0.0, 0.0, 1.0)
    p = np.where(error > 0.0, ndtr(-nearest / np.where(error > 0.0, error, 1.0)), sure)
    p = np.where(np.isnan(error), np.nan, p)[()]
    return Equivalence(name, one.difference, error, margin, p, one.low, one.high, level)
