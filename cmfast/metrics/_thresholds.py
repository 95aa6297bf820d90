"""Confusion matrices along the thresholds of a score."""

from typing import Any, NamedTuple

from cmfast._core import dispatch, failures, validate
from cmfast._core.annotations import Array, OnFailure


class ThresholdMatrices(NamedTuple):
    """Every confusion matrix that a threshold on a score can give.

    Attributes
    ----------
    thresholds : array, shape (..., n + 1)
        Descending, the first infinite: a sample is called positive if its score is at least the threshold.
    matrices : array of int64, shape (..., n + 1, 2, 2)
        The confusion matrix at each; the positive class is 1.
    """

    thresholds: Any
    matrices: Any


def threshold_matrices(scores: Array, y_true: Array, /, *, on_failure: OnFailure = "warn") -> ThresholdMatrices:
    """All confusion matrices of a score array along its thresholds, from one sort.

    For several classes give one row per class: ``threshold_matrices(S.T, y == numpy.arange(C)[:, None])``.

    Parameters
    ----------
    scores : array, shape (..., n)
        Higher means more likely positive.
    y_true : array of int or bool, shape (..., n)
        1 for positive samples, 0 for the others.
    on_failure : {"warn", "raise", "ignore"}
        What to do about rows with bad values (see Notes).

    Returns
    -------
    ThresholdMatrices
        Any metric along the thresholds is that metric of ``matrices``. Samples with equal scores give equal rows.

    Raises
    ------
    TypeError, ValueError
        Arrays that are not real, labels that are no integers, missing labels, tables instead of columns, shapes that
        differ.

    Warns
    -----
    DiagnosticWarning
        Both arrays have shape (n, 1), which is n rows of one sample.

    Notes
    -----
    Bad values: a row with a NaN score or a label other than 0 and 1 (INVALID) gives NaN thresholds and empty matrices
    and is reported as `on_failure` says. Synchronises the device unless `on_failure` is "ignore". Reproducible: same
    input, same bits.

    Examples
    --------
    >>> from cmfast import metrics
    >>> thresholds, matrices = metrics.threshold_matrices([0.9, 0.2, 0.6], [1, 0, 1])
    >>> thresholds.tolist(), metrics.youden_j(matrices).tolist()
    ([inf, 0.9, 0.6, 0.2], [0.0, 0.5, 1.0, 0.0])
    """
    validate.on_failure(on_failure)
    validate.columns(y_true=y_true)
    scores, y_true = dispatch.adopt(scores=scores, y_true=validate.labelled(y_true))
    validate.real(scores=scores)
    validate.integer(y_true=y_true)
    if not validate.same_shape(scores=scores, y_true=y_true):
        validate.refuse("scores", "of shape (..., n)", "shape ()")
    doubt = validate.samples_last(sized=True, scores=scores, y_true=y_true)
    if doubt is not None:
        failures.diagnose(doubt)
    *found, status = dispatch.call("threshold_matrices", scores, y_true)
    failures.report(status, on_failure, failed="rows of scores left out")
    return ThresholdMatrices(*found)
