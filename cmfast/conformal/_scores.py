"""Nonconformity scores of labels: APS, RAPS, LAC, SAPS and top-k."""

from collections.abc import Sequence
from functools import partial
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from cmfast._core import dispatch, failures, lazy, validate
from cmfast._core.annotations import Array, DeviceT, Floats, Label, OnFailure
from cmfast.conformal import _explain_invalid, _options
from cmfast.conformal._options import ScoreMethod


@overload
def scores(
    P: DeviceT,
    /,
    y: DeviceT | None = ...,
    *,
    labels: Sequence[Label] | None = ...,
    method: ScoreMethod = ...,
    randomised: bool = ...,
    u: DeviceT | None = ...,
    rng: "int | np.random.Generator | None" = ...,
    lam: float | None = ...,
    k_reg: int = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> DeviceT: ...
@overload
def scores(
    P: ArrayLike,
    /,
    y: ArrayLike | None = ...,
    *,
    labels: Sequence[Label] | None = ...,
    method: ScoreMethod = ...,
    randomised: bool = ...,
    u: ArrayLike | None = ...,
    rng: "int | np.random.Generator | None" = ...,
    lam: float | None = ...,
    k_reg: int = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> Floats: ...
@lazy.accept_dask_arrays(P="C", y="", u="")
def scores(
    P: Array,
    /,
    y: Array | None = None,
    *,
    labels: Sequence[Label] | None = None,
    method: ScoreMethod = "aps",
    randomised: bool = True,
    u: Array | None = None,
    rng: "int | np.random.Generator | None" = None,
    lam: float | None = None,
    k_reg: int = 0,
    on_failure: OnFailure = None,
    num_threads: int | None = None,
) -> Any:
    """Compute nonconformity scores: how unusual each label is for its row of probabilities.

    The labels of a row are ranked by decreasing probability, ties by class. ``sum(y)`` is the sum of the probabilities
    down to and including label y; U is one random number per row, shared by all its labels, as in MAPIE and TorchCP:

    - "aps": ``sum(y) - U p_y``, at most 1;
    - "raps": the same ``+ lam * max(0, rank(y) - k_reg)``, ranks counted from 1;
    - "lac": ``1 - p_y``; never randomised;
    - "saps": ``(1 - U) p_y`` for rank 1, ``max(p) + lam * (rank(y) - 1 - U)`` for others, so that small probabilities,
      which models estimate badly, do not count;
    - "top_k": ``rank(y) - U``; all sets are of one size, or of two neighbouring ones.

    The same function scores calibration labels and all labels of new rows. A label is in the set of a row exactly if
    its score is at most the threshold.

    Parameters
    ----------
    P : array, shape (..., n, C)
        Probabilities as the model returns them; rows are not normalised.
    y : array of int, or of the `labels`, shape (..., n), optional
        The label of every row to score; default: all labels.
    labels : sequence of C labels, optional
        The class of each column of `P`, such as ``model.classes_``, if `y` holds text or other labels than
        ``0, ..., C - 1``. Default for text: the names of the columns, if `P` is a table.
    method : {"aps", "raps", "lac", "saps", "top_k"}
        The score.
    randomised : bool
        False: U is 0, so that the score is the sum down to and including the label. Scores of "top_k" are then ranks,
        with so many ties that sets cover more than asked for.
    u : array, shape (..., n), optional
        The U of every row, from 0 to 1.
    rng : int or numpy.random.Generator, optional
        Source of U if `u` is not given. With a seed (default 0), U is a hash of the seed and the probabilities of the
        row, so that calibration and new rows follow one rule in any chunks and on any device. Equal rows share one U,
        which can only raise coverage; if many rows are equal, as with saturated probabilities, pass a Generator, which
        draws a number for every row, on the host.
    lam, k_reg : float, int
        Penalty per rank beyond `k_reg`, for "raps"; for "saps", `lam` is the weight of a rank. Both need it, and it
        must be below ``1000 / C``. "raps" with 0 is "aps".
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about rows that cannot be scored (see Notes).
        Default: as :func:`cmfast.config` says, first "warn".
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Returns
    -------
    array of float64, shape (..., n) with `y`, else (..., n, C)
        float64 even for float32 probabilities, so that scores and thresholds are rounded alike. Library and device of
        `P`.

    Raises
    ------
    TypeError, ValueError
        Arrays of two libraries or devices, or not real; shapes that do not agree; both `u` and `rng`; `lam` too large,
        or `lam` or `k_reg` for another method.

    See Also
    --------
    threshold : Threshold of calibration scores.
    prediction_sets : Sets without storing the scores of all labels.

    Notes
    -----
    Sums are exact: probabilities and (1 - U) p are rounded to 2^-52 and added as integers, so every order of them,
    every device and every chunk gives the same bits. A score is within ``C 2^-51`` of the real sum.

    Scores of "top_k" are rounded once. Sums of "aps" are capped at 1 regardless of rounding, so a threshold of 1
    excludes no label. With U = 0 all labels of probability 0 have the score of the whole row, often exactly 1: if the
    threshold is 1 too, as for saturated probabilities, sets contain all classes. Randomised scores avoid that.

    Bad values: an entry up to 2^-20 below 0 or above 1 (rounding) counts as 0 or 1. A row with an entry that is NaN or
    farther outside, a U outside [0, 1], or a label that is not a class (INVALID) gives NaN for that row alone and is
    reported as `on_failure` says. :func:`threshold` takes NaN as infinity, :func:`prediction_sets` gives such a row all
    classes: both can only raise coverage. Synchronises the device unless `on_failure` is "ignore". Reproducible: same
    input, same bits, for any number of threads, and for any chunks of Dask arrays, for which `rng` must be a seed.

    References
    ----------
    Romano, Sesia, Candes, Classification with valid and adaptive coverage, 2020. Angelopoulos, Bates, Malik, Jordan,
    Uncertainty sets for image classifiers using conformal prediction, 2021. Huang, Xi, Zhang, Yao, Qiu, Wei, Conformal
    prediction for deep classifier via label ranking, 2024 ("saps").

    Examples
    --------
    >>> from cmfast import conformal
    >>> P = [[0.5, 0.375, 0.125], [0.25, 0.25, 0.5]]
    >>> conformal.scores(P, [0, 1], u=[0.5, 0.5])
    array([0.25 , 0.875])
    >>> conformal.scores(P, randomised=False)
    array([[0.5  , 0.875, 1.   ],
           [0.75 , 1.   , 0.5  ]])
    >>> conformal.scores(P, u=[0.5, 0.5], method="saps", lam=0.25)
    array([[0.25 , 0.625, 0.875],
           [0.625, 0.875, 0.25 ]])
    >>> conformal.scores(P, u=[0.5, 0.5], method="top_k")
    array([[0.5, 1.5, 2.5],
           [1.5, 2.5, 0.5]])
    """
    rule = _options.validate_rule(method, randomised, lam, k_reg)
    on_failure = validate.on_failure(on_failure)
    num_threads = validate.num_threads(num_threads)
    names = _options.find_column_names(P)
    if labels is not None or names is not None:
        dispatch.check_row_order(P=P, y=y, u=u)
        y = _options.find_class_ids(P, y, labels, _options.count_classes(P), names)
    P, y, u = dispatch.adopt(optional=("y", "u"), P=P, y=validate.type_empty_labels(y), u=u)
    rows = _options.check_probabilities(P, rule)
    _options.check_ids(y)
    _options.check_per_row("y", y, rows)
    shares = _options.make_row_shares(u, rng, rule, P, rows, num_threads)
    found, status = dispatch.call("scores", P, y, shares, num_threads=num_threads, **rule.options())
    failures.report(
        status,
        on_failure,
        failed="rows not scored",
        why=partial(_explain_invalid.explain_unscored_row, P, y, u, None, 0),
    )
    return found
