"""Grades of agreement in words, by Landis and Koch, with the warning that their limits are arbitrary."""

from typing import Any

import numpy as np

from cmfast._core import dispatch, failures, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array
from cmfast._core.usual_options import explain_options
from cmfast.agreement._results import Agreement

LIMITS = 0.0, 0.2, 0.4, 0.6, 0.8
GRADES = "poor", "slight", "fair", "moderate", "substantial", "almost perfect", "undefined"


@explain_options
def grade(values: "Agreement[Any] | Array", /) -> Any:
    """Grade agreement in words from "poor" to "almost perfect", by the limits of Landis and Koch.

    The limits are arbitrary, as their authors say, and a coefficient also depends on the number of categories and on
    how frequent they are: compare coefficients only of the same categories and similar items.

    Parameters
    ----------
    values : Agreement or array, shape (...)
        Result of :func:`compute` or :func:`from_counts`, or coefficients.

    Returns
    -------
    str, or nested list of str
        "poor" below 0, "slight" up to .2, "fair" up to .4, "moderate" up to .6, "substantial" up to .8, else "almost
        perfect"; "undefined" for NaN.

    Raises
    ------
    TypeError, ValueError
        Values that are no numbers.

    Warns
    -----
    DiagnosticWarning
        The interval of an `Agreement` reaches into other grades than that of the estimate.

    Notes
    -----
    Bad values: infinite ones are graded by their sign. Synchronises the device. Reproducible.

    References
    ----------
    Landis and Koch, The measurement of observer agreement for categorical data, 1977, table 2.

    Examples
    --------
    >>> from cmfast import agreement
    >>> agreement.grade(0.43), agreement.grade([0.2, 0.7])
    ('moderate', ['slight', 'substantial'])
    """
    ends = (values.low, values.high) if isinstance(values, Agreement) else ()
    given = dispatch.adopt_one("values", values.estimate if isinstance(values, Agreement) else values)
    validate.real(values=given)
    codes = _find_grades(given)
    if ends:
        low, high = map(_find_grades, ends)
        unsure = ((low < codes) | (high > codes)) & (low < len(LIMITS) + 1)
        if unsure.any():
            k = int(np.flatnonzero(unsure)[0])
            reach = f"from {GRADES[low.ravel()[k]]!r} to {GRADES[high.ravel()[k]]!r}"
            which = "its interval reaches" if codes.size == 1 else f"{unsure.sum():,} intervals reach, the first"
            failures.warn_diagnostic(
                f"the grade is uncertain: {which} {reach}; the limits of the grades are arbitrary, so report the "
                "coefficient and its interval"
            )
    return np.array(GRADES)[codes].tolist()


def _find_grades(values: Any) -> np.ndarray:
    """Return the index in GRADES of each value."""
    host = np.asarray(adapter(values).to_host(values), np.float64)
    codes = np.searchsorted(LIMITS, host, side="left")
    return np.where(np.isnan(host), len(GRADES) - 1, np.where(host == 0.0, 1, codes))
