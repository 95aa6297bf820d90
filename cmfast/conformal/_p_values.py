"""Conformal p-values of new scores."""

import math
from functools import partial
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from cmfast._core import dispatch, failures, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, DeviceT, Floats, OnFailure
from cmfast._core.lazy import accept_dask_arrays
from cmfast.conformal import _explain_invalid, _options


def _name_new_axes(given: dict[str, Any]) -> str:
    """Return a letter for each axis of the new scores after the batch of the calibration scores."""
    n_batch = max(len(np.shape(given["s"])) - 1, 0)
    return "mCKLNQR"[: len(np.shape(given["new_scores"])) - n_batch]


@overload
def p_values(
    s: DeviceT,
    /,
    new_scores: DeviceT,
    *,
    y: DeviceT | None = ...,
    on_failure: OnFailure = ...,
) -> DeviceT: ...
@overload
def p_values(
    s: ArrayLike,
    /,
    new_scores: ArrayLike,
    *,
    y: ArrayLike | None = ...,
    on_failure: OnFailure = ...,
) -> Floats: ...
@accept_dask_arrays(s="n", new_scores=_name_new_axes, y="n")
def p_values(
    s: Array,
    /,
    new_scores: Array,
    *,
    y: Array | None = None,
    on_failure: OnFailure = None,
) -> Any:
    """Compute conformal p-values: how many calibration scores are at least as large as a new score.

    ``(1 + number of calibration scores >= new score) / (n + 1)``. A label is in the set of :func:`prediction_sets` at
    `alpha` exactly if its p-value exceeds `alpha`.

    Parameters
    ----------
    s : array, shape (..., n)
        Calibration scores of the true labels, from :func:`scores` or elsewhere; NaN counts as infinity.
    new_scores : array, shape (..., m, C), or (..., m)
        Scores of the labels of new rows, as ``scores(P)`` returns them. The batch axes of `s` come first.
    y : array of int, shape (..., n), optional
        Class of every calibration score: the p-values of a class then use the scores of this class alone (Mondrian).
        `new_scores` must have shape (..., m, C).
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about classes without scores and invalid labels (see Notes).
        Default: as :func:`cmfast.config` says, first "warn".

    Returns
    -------
    array of float64, shape of `new_scores`
        Between ``1 / (n + 1)`` and 1. In the library of `s`, on the host.

    Raises
    ------
    TypeError, ValueError
        Arrays of two libraries, or not real; shapes that do not agree.
    NotImplementedError
        Arrays on a GPU.

    See Also
    --------
    threshold : The threshold of all scores with a p-value above `alpha`.

    Notes
    -----
    If calibration and new rows are exchangeable, the p-value of the true label is at most `alpha` with probability at
    most `alpha`, for every `alpha`. The largest p-value of a row measures how well it conforms to any class
    (credibility); one minus the second largest is its confidence.

    Bad values: a NaN among the new scores, as of an invalid row, gives 1. The score of an invalid label (INVALID) is
    left out; a class without scores (ZERO_LINE) has only p-values of 1; both are reported as `on_failure` says. Does
    not synchronise a device: arrays are on the host. Reproducible: same input, same bits.

    References
    ----------
    Vovk, Gammerman, Shafer, Algorithmic learning in a random world, 2005.

    Examples
    --------
    >>> from cmfast import conformal
    >>> s = [0.1, 0.2, 0.3, 0.4]
    >>> conformal.p_values(s, [[0.05, 0.3, 0.9]])
    array([[1. , 0.6, 0.2]])
    >>> conformal.p_values(s, [[0.05, 0.3]], y=[0, 0, 1, 1])
    array([[1., 1.]])
    """
    on_failure = validate.on_failure(on_failure)
    s, new, y = dispatch.adopt(optional=("y",), s=s, new_scores=new_scores, y=validate.type_empty_labels(y))
    validate.real(s=s, new_scores=new)
    _options.refuse_text(y)
    validate.integer(y=y)
    shape, whole = dispatch.shape_of(s), dispatch.shape_of(new)
    if not shape:
        validate.refuse("s", "of shape (..., n)", f"shape {shape}")
    _options.warn_of_probabilities(s)
    if len(whole) == 2 and whole[-1] > 2:  # scores of two classes may add up to 1
        _options.warn_of_probabilities(new, "new_scores", "conformal.scores(P) makes scores of all labels of each")
    if y is not None and dispatch.shape_of(y) != shape:
        validate.refuse("y", f"of shape {shape}, one entry per score", f"shape {dispatch.shape_of(y)}")
    batch, core = shape[:-1], whole[len(shape) - 1 :]
    if whole[: len(batch)] != batch or (y is not None and len(core) != 2):
        wanted = "(..., m, C) with y" if y is not None else "(..., m, C) or (..., m)"
        validate.refuse("new_scores", f"of shape {wanted}, with the batch axes {batch} of s", f"shape {whole}")
    number = 1 if y is None else core[-1]
    bare = [None if x is None else adapter(x).unwrap(x) for x in (s, y)]
    rows = adapter(new).unwrap(new)
    rows = adapter(rows).reshape(rows, (*batch, math.prod(core) // number if number else core[0], number))
    found, status, scored = dispatch.call("p_values", *bare, rows, n_groups=number)
    if y is not None:
        wrong = partial(_explain_invalid.explain_invalid_label, "y", y, number)
        failures.report(scored, on_failure, failed="scores left out", why=wrong)
        failures.report(status, on_failure, failed="classes without scores, whose p-values are 1")
    return adapter(new).rewrap(adapter(found).reshape(found, whole), new)
