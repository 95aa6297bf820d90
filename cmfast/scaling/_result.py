"""What scaling returns."""

from typing import Any, NamedTuple


class ScalingResult(NamedTuple):
    """What :func:`ipf` and :func:`ras` return; ``matrix = row_scale[..., :, None] * M * col_scale[..., None, :]``.

    Attributes
    ----------
    matrix : array, shape (..., R, C), or None
        The scaled matrices, float32 if `M` (and the targets given) are float32, else float64. None from :func:`ras`.
    row_scale, col_scale : array of float64, shape (..., R) and (..., C)
        The factors, gauged so that the geometric mean of `row_scale` is one.
    residual : array of float64, shape (...)
        L1 distance of the row sums and column sums from their targets over the total of the targets, recomputed from
        `M` and the factors before any rounding to float32.
    n_iter : array of int64, shape (...)
        Passes over the matrix: sweeps, Newton steps and products.
    status : array of int8, shape (...)
        Codes of :class:`cmfast.Status`.
    smoothing : array of float64, shape (...)
        What was added to the cells: the number given, the weight k of the pseudo-Bayes prior, or 0.
    """

    matrix: Any
    row_scale: Any
    col_scale: Any
    residual: Any
    n_iter: Any
    status: Any
    smoothing: Any
