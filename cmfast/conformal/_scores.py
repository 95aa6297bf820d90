"""Scores: how unusual a label is for a row of probabilities."""

from functools import partial
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from cmfast._core import dispatch, failures, lazy, validate
from cmfast._core.annotations import Array, DeviceT, Floats, OnFailure
from cmfast.conformal import _options, _reasons
from cmfast.conformal._options import ScoreMethod


@overload
def scores(
    P: DeviceT,
    y: DeviceT | None = ...,
    /,
    *,
    method: ScoreMethod = ...,
    randomised: bool = ...,
    u: DeviceT | None = ...,
    rng: "int | np.random.Generator | None" = ...,
    lam: float = ...,
    k_reg: int = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> DeviceT: ...
@overload
def scores(
    P: ArrayLike,
    y: ArrayLike | None = ...,
    /,
    *,
    method: ScoreMethod = ...,
    randomised: bool = ...,
    u: ArrayLike | None = ...,
    rng: "int | np.random.Generator | None" = ...,
    lam: float = ...,
    k_reg: int = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> Floats: ...
@lazy.accept_dask_arrays(P="C", y="", u="")
def scores(
    P: Array,
    y: Array | None = None,
    /,
    *,
    method: ScoreMethod = "aps",
    randomised: bool = True,
    u: Array | None = None,
    rng: "int | np.random.Generator | None" = None,
    lam: float = 0.0,
    k_reg: int = 0,
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
) -> Any:
    """Score labels by how unusual they are for their row of probabilities.

    The labels of a row are ranked by probability, the largest first, equal ones by class. ``sum(y)`` is the sum of the
    probabilities down to label y and with it, at most 1; U one number per row that all its labels share, with the
    meaning that it has in MAPIE and TorchCP:

    - "aps": ``sum(y) - U p_y``;
    - "raps": the same ``+ lam * max(0, rank(y) - k_reg)``, ranks counted from 1;
    - "lac": ``1 - p_y``; nothing is random.

    The same function gives the scores of calibration labels and those of all labels of new rows. A label is in the set
    of a row exactly when its score is at most the threshold.

    Parameters
    ----------
    P : array, shape (..., n, C)
        Probabilities, as the model gives them: rows are never normalised.
    y : array of int, shape (..., n), optional
        The label of every row to score; default: all labels.
    method : {"aps", "raps", "lac"}
        The score.
    randomised : bool
        False: U is 0, so that the score is the sum down to the label and with it.
    u : array, shape (..., n), optional
        The U of every row, from 0 to 1.
    rng : int or numpy.random.Generator, optional
        Where `u` is not given. A seed (default 0) and the probabilities of a row make its U: one function of the row,
        so that calibration and new rows, in any parts, on any device, have scores by one rule. Rows that are equal have
        one U, which can only raise coverage; for many of those, as where probabilities are saturated, give a Generator,
        which draws a number for every row, on the host.
    lam, k_reg : float, int
        Penalty of a rank beyond `k_reg`, for "raps". `lam` is below ``1000 / C``.
    on_failure : {"warn", "raise", "ignore"}
        What to do about rows without scores (see Notes).
    num_threads : int, optional
        Most threads to use; default: what the process may use.

    Returns
    -------
    array of float64, shape (..., n) with `y`, else (..., n, C)
        float64 also for float32 probabilities: rounding one side alone would break ties. Library and device of `P`.

    Raises
    ------
    TypeError, ValueError
        Arrays of two libraries or devices, or not real; shapes that do not agree; both `u` and `rng`; `lam` too large,
        or for another method.

    See Also
    --------
    threshold : of the scores of a calibration.
    prediction_sets : without the scores of all labels in between.

    Notes
    -----
    Sums are exact: probabilities and (1 - U) p are rounded to 2^-52 and added as integers, so every order of them,
    every device and every chunk gives the same bits. A score is within ``C 2^-51`` of the real sum.

    Sums end at 1, however a row was rounded: a threshold of 1 leaves no label out. With U = 0 all labels of probability
    0 have the score of the whole row, often exactly 1: where the threshold is 1 too, as for probabilities that are
    saturated, sets hold all classes. Randomised scores do not suffer from that.

    Bad values: an entry that is up to 2^-20 below 0 or above 1, as rounding leaves it, is taken for 0 or 1. A row with
    an entry that is NaN or farther outside, a U that is not from 0 to 1, or a label that is no
    class (INVALID) gives NaN there and nowhere else, and is reported as `on_failure` says. :func:`threshold` takes NaN
    for infinity, :func:`prediction_sets` gives such a row all classes: both can only raise coverage. Synchronises the
    device unless `on_failure` is "ignore". Reproducible: same input, same bits, for any number of threads, and for any
    chunks of Dask arrays, with which `rng` is a seed.

    References
    ----------
    Romano, Sesia, Candes, Classification with valid and adaptive coverage, 2020. Angelopoulos, Bates, Malik, Jordan,
    Uncertainty sets for image classifiers using conformal prediction, 2021.

    Examples
    --------
    >>> from cmfast import conformal
    >>> P = [[0.5, 0.375, 0.125], [0.25, 0.25, 0.5]]
    >>> conformal.scores(P, [0, 1], u=[0.5, 0.5])
    array([0.25 , 0.875])
    >>> conformal.scores(P, randomised=False)
    array([[0.5  , 0.875, 1.   ],
           [0.75 , 1.   , 0.5  ]])
    """
    rule = _options.rule(method, randomised, lam, k_reg)
    validate.on_failure(on_failure)
    num_threads = validate.num_threads(num_threads)
    P, y, u = dispatch.adopt(optional=("y", "u"), P=P, y=validate.type_empty_labels(y), u=u)
    rows = _options.probabilities(P, rule)
    validate.integer(y=y)
    _options.per_row("y", y, rows)
    shares = _options.draws(u, rng, rule, P, rows, num_threads)
    found, status = dispatch.call("scores", P, y, shares, num_threads=num_threads, **rule.options())
    failures.report(status, on_failure, failed="rows not scored", why=partial(_reasons.unscored, P, y, u, None, 0))
    return found
