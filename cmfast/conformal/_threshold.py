"""Conformal thresholds: exact order statistics of calibration scores, overall, per class or per group (Mondrian)."""

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmfast._core import dispatch, failures, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, DeviceT, Floats, OnFailure
from cmfast._core.labels import check_known
from cmfast._core.lazy import accept_dask_arrays, are_lazy
from cmfast._core.usual_options import explain_options
from cmfast.conformal import _explain_invalid, _options
from cmfast.conformal._named_groups import encode_groups, keep_columns, refuse_names_of_columns
from cmfast.kernels.shared.conformal import quantile_rank

Alpha: TypeAlias = Any  # a number, Decimal or Fraction, or several
SIZES = ("n_groups", "n_classes")
REAL = (float, np.floating, Decimal, Fraction)


def parse_alphas(alpha: Any) -> list[Fraction]:
    """Return each alpha as an exact fraction; a float counts as its shortest decimal."""
    several = isinstance(alpha, list | tuple) or (isinstance(alpha, np.ndarray) and alpha.ndim == 1)
    found = [_parse_alpha(one) for one in (alpha if several else [alpha])]
    if not found:
        validate.refuse("alpha", "one number or several", "none")
    return found


def _parse_alpha(one: Any) -> Fraction:
    """Return one alpha as an exact fraction strictly between 0 and 1."""
    one = one[()] if isinstance(one, np.ndarray) and not one.ndim else one
    wanted = "a number above 0 and below 1, or a list of them"
    if isinstance(one, int | np.integer) and not isinstance(one, bool):
        validate.refuse("alpha", wanted, one)
    if not isinstance(one, REAL):
        validate.refuse("alpha", wanted, f"{type(one).__name__} {validate.format_value(one)}", TypeError)
    try:
        found = _parse_decimal(str(one)) if isinstance(one, float | np.floating) else Fraction(one)
    except (ValueError, OverflowError):  # NaN and infinity
        validate.refuse("alpha", wanted, validate.format_value(one))
    if not 0 < found < 1:
        validate.refuse("alpha", wanted, validate.format_value(one))
    return found


@lru_cache(256)
def _parse_decimal(text: str) -> Fraction:
    """Return a decimal as an exact fraction; cached, as parsing takes an eighth of the time of a thousand scores."""
    return Fraction(text)


def compute_ranks(alphas: list[Fraction], sizes: range) -> np.ndarray:
    """Return the rank of the threshold among n sorted scores, per alpha and n in `sizes`; above n is infinity."""
    out = np.empty((len(alphas), len(sizes)), np.int64)
    most = sizes[-1] + 1
    for a, alpha in enumerate(alphas):
        numerator, denominator = alpha.as_integer_ratio()
        if most * numerator < 2**63 and denominator < 2**63:
            n = np.arange(sizes.start, sizes.stop, dtype=np.int64)
            out[a] = quantile_rank(n, numerator, denominator)
        else:
            out[a] = [quantile_rank(n, numerator, denominator) for n in sizes]
    return out


def order_alphas(alphas: list[Fraction]) -> np.ndarray:
    """Return the order of the alphas in which their ranks increase."""
    return np.array(sorted(range(len(alphas)), key=lambda a: -alphas[a]), np.int64)


@overload
def threshold(
    s: DeviceT,
    /,
    alpha: Alpha,
    *,
    y: DeviceT | None = ...,
    n_classes: int | None = ...,
    groups: DeviceT | None = ...,
    n_groups: int | None = ...,
    sample_weight: DeviceT | None = ...,
    new_weight: DeviceT | None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> DeviceT: ...
@overload
def threshold(
    s: ArrayLike,
    /,
    alpha: Alpha,
    *,
    y: ArrayLike | None = ...,
    n_classes: int | None = ...,
    groups: "NDArray[np.integer[Any]] | Sequence[int] | None" = ...,
    n_groups: int | None = ...,
    sample_weight: ArrayLike | None = ...,
    new_weight: ArrayLike | None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> Floats: ...
@overload
def threshold(
    s: ArrayLike,
    /,
    alpha: Alpha,
    *,
    y: ArrayLike | None = ...,
    n_classes: int | None = ...,
    groups: Any = ...,
    n_groups: int | None = ...,
    sample_weight: ArrayLike | None = ...,
    new_weight: ArrayLike | None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> Any: ...
@explain_options
def threshold(
    s: Array,
    /,
    alpha: Alpha,
    *,
    y: Array | None = None,
    n_classes: int | None = None,
    groups: Array | None = None,
    n_groups: int | None = None,
    sample_weight: Array | None = None,
    new_weight: Array | None = None,
    on_failure: OnFailure = None,
    num_threads: int | None = None,
) -> Any:
    """Compute the conformal threshold of scores, above which the true label is left out with probability `alpha`.

    The k-th smallest of n calibration scores, ``k = n + 1 - floor((n + 1) alpha)`` in exact integers. If k exceeds n,
    the threshold is infinity: the set has all classes.

    Parameters
    ----------
    s : array, shape (..., n)
        Calibration scores of the true labels, from :func:`scores` or elsewhere; NaN counts as infinity.
    alpha : float, Decimal or Fraction, or several
        Error rate, above 0 and below 1. A float counts as its shortest decimal: 0.1 is one tenth.
    y : array of int, shape (..., n), optional
        Class of every score, for one threshold per class.
    n_classes : int, optional
        Number of classes; default: the largest in `y` plus one, which synchronises the device.
    groups, n_groups : array of int or text, shape (..., n), or table, and int, optional
        The same for groups that are known for new rows too (Mondrian). With `y`, one threshold per group and class.
        Groups of text, categories or dates give a dict of thresholds by group, and so do those of several columns, a
        table or a dict: ``groups=table[["site", "device"]]``, whose combinations are the groups; this dict knows their
        names.
    sample_weight, new_weight : array, shape (..., n) and (..., m), optional
        Weights of the calibration rows and of m new rows, for new rows of another distribution (covariate shift): the
        ratio of its density to that of the calibration rows, up to a factor. Gives one threshold per new row, for
        ``prediction_sets(P, q, groups=numpy.arange(m))``. On the host; not together with `y` or `groups`.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about classes and groups without scores, and invalid labels or weights (see Notes).
        Default: as :func:`cmfast.config` says, first "warn".
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Returns
    -------
    array of float64, shape (..., A), with `y` (..., A, C), with `groups` (..., A, G), with both (..., A, G, C)
        With weights (..., A, m). One threshold per alpha (A = 1 for a single number); never lower for a smaller alpha.
        Library and device of `s`. For named groups a dict of such arrays without the axis of groups.

    Raises
    ------
    TypeError, ValueError
        Arrays of two libraries or devices, or not real; shapes that do not agree; an alpha that is not a number above 0
        and below 1; only one of the two kinds of weights, or weights together with `y` or `groups`.
    NotImplementedError
        Weights on a GPU.

    See Also
    --------
    score_histogram : Thresholds of clients that do not share their scores.

    Notes
    -----
    ``1 - alpha <= P(label in its set) <= 1 - alpha + 1 / (n + 1)`` if calibration and new rows are exchangeable; the
    upper bound also needs scores without ties, such as randomised ones. ``ceil((n + 1) * (1 - alpha))`` in floating
    point is one rank too high for some n, at 27 of the 99 alphas of two decimals (for example 0.7 and n = 9).

    A class or group needs at least ``1 / alpha - 1`` scores, rounded up, for a finite threshold.

    With weights, a new row of weight v has the smallest threshold above which scores have, with v, at most the share
    `alpha` of all weights and v. Coverage then holds under the shifted distribution if the weights are the true ratios.
    Weights are rounded to 2^-36 of the largest calibration weight, sums of them are exact; equal weights give the
    threshold without weights. A new weight of 2^25 times the largest or more has the threshold infinity.

    Bad values: a weight that is negative, NaN or infinite (INVALID) gives the threshold infinity, to all new rows if it
    is a calibration weight, as do calibration weights that are all 0. The score of an invalid label or group (INVALID)
    is left out; a class or group without scores (ZERO_LINE) has the threshold infinity, so that it is in every set.
    All are reported as `on_failure` says. Synchronises the device unless `on_failure` is "ignore" and the number of
    classes is given. Reproducible: same input, same bits, for any number of threads. A Dask array with the scores of
    each element in one chunk gives a Dask array.

    References
    ----------
    Vovk, Gammerman, Shafer, Algorithmic learning in a random world, 2005. Tibshirani, Barber, Candes, Ramdas, Conformal
    prediction under covariate shift, 2019 (weights).

    Examples
    --------
    >>> from cmfast import conformal
    >>> s = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    >>> conformal.threshold(s, [0.05, 0.1, 0.7])
    array([inf, 0.9, 0.3])
    >>> y = [0, 0, 0, 0, 0, 1, 1, 1, 1]
    >>> conformal.threshold(s, 0.5, y=y)
    array([[0.3, 0.8]])
    >>> conformal.threshold(s, 0.5, y=y, groups=[0, 1, 0, 1, 0, 1, 0, 1, 0])
    array([[[0.3, 0.9],
            [0.4, 0.8]]])
    >>> sex = ["f", "m", "f", "m", "f", "m", "f", "m", "f"]
    >>> conformal.threshold(s, 0.5, groups=sex)
    {'f': array([0.5]), 'm': array([0.6])}
    >>> conformal.threshold(
    ...     s,
    ...     0.3,
    ...     sample_weight=[9, 8, 7, 6, 5, 4, 3, 2, 1],
    ...     new_weight=[1, 9],
    ... )
    array([[0.5, 0.6]])
    """
    refuse_names_of_columns(groups, s, -1)
    named = encode_groups(groups)
    if named is not None:
        if n_groups is not None:
            validate.refuse("n_groups", "None if groups have names", n_groups)
        if are_lazy(s, y):
            cure = "number them, as by names, groups = np.unique(groups, return_inverse=True)"
            validate.refuse("groups", "integers with Dask arrays", f"text; {cure}", TypeError)
        dispatch.check_row_order(s=s, y=y, groups=groups)
        s = dispatch.adopt_one("s", s)
        groups = adapter(s).send(named.codes, s)
    if are_lazy(s, y, groups):
        check_known(n_classes=0 if y is None else n_classes, groups=groups, n_groups=n_groups)
    if not sample_weight is new_weight is None:
        if not y is groups is None:
            validate.refuse("sample_weight", "None with y or groups", "an array")
        _refuse_unused(y, "n_classes", n_classes, "y")
        _refuse_unused(groups, "n_groups", n_groups, "groups")
        validate.num_threads(num_threads)
        return _compute_weighted_thresholds(
            s, alpha=alpha, sample_weight=sample_weight, new_weight=new_weight, on_failure=on_failure
        )
    found = _compute_thresholds(
        s, alpha=alpha, y=y, n_classes=n_classes, groups=groups, n_groups=n_groups if named is None else named.names,
        on_failure=on_failure, num_threads=num_threads,
    )  # fmt: skip
    if named is None:
        return found
    end = () if y is None else (slice(None),)
    of_groups = {name: found[(..., k, *end)] for k, name in enumerate(named.names)}
    return of_groups if named.columns is None else keep_columns(of_groups, named.columns)


@accept_dask_arrays(s="n", y="n", groups="n")
def _compute_thresholds(
    s: Array,
    *,
    alpha: Alpha,
    y: Array | None,
    n_classes: int | None,
    groups: Array | None,
    n_groups: int | tuple[Any, ...] | None,
    on_failure: OnFailure,
    num_threads: int | None,
) -> Any:
    """Validate the arrays, compute the thresholds and report classes or groups without scores.

    `n_groups` is the number of groups or their names; None if it is not known.
    """
    group_names = n_groups if isinstance(n_groups, tuple) else None
    n_groups = len(n_groups) if isinstance(n_groups, tuple) else n_groups
    alphas = parse_alphas(alpha)
    on_failure = validate.on_failure(on_failure)
    num_threads = validate.num_threads(num_threads)
    n_classes = None if n_classes is None else validate.count("n_classes", n_classes)
    n_groups = None if n_groups is None else validate.count("n_groups", n_groups)
    s, y, groups = dispatch.adopt(
        optional=("y", "groups"), s=s, y=validate.type_empty_labels(y), groups=validate.type_empty_labels(groups)
    )
    shape = _validate_scores(s, y=y, groups=groups)
    _refuse_unused(y, "n_classes", n_classes, "y")
    _refuse_unused(groups, "n_groups", n_groups, "groups")
    sizes: dict[str, int] = {}
    if groups is not None:
        sizes["n_groups"] = _count_labels("groups", groups, n_groups)
    if y is not None:
        sizes["n_classes"] = _count_labels("y", y, n_classes)
    number, n = math.prod(sizes.values()), shape[-1]
    wanted = compute_ranks(alphas, range(n + 1) if sizes else range(n, n + 1))
    options = {"ranks": wanted, "turn": order_alphas(alphas), "num_threads": num_threads}
    with validate.explain_memory_error(8 * number * len(alphas) * math.prod(shape[:-1]), **sizes):
        labels = y if groups is None else groups
        if len(sizes) == 2:
            one = adapter(adapter(y).unwrap(y))
            labels = one.evaluate(partial(_number_cells, **sizes), *(one.unwrap(x) for x in (groups, y)))
        found, status, scored = dispatch.call("threshold", s, labels, n_groups=number, **options)
    if not sizes:
        return found[..., 0]
    given = {"groups": groups, "y": y}
    wrong = [(name, x, sizes[size]) for (name, x), size in zip(given.items(), SIZES, strict=True) if x is not None]
    unscored = partial(_explain_invalid.explain_missing_scores, list(sizes), group_names)
    if len(sizes) == 2:
        found, status = (adapter(x).reshape(x, (*dispatch.shape_of(x)[:-1], *sizes.values())) for x in (found, status))
    kinds = "cells of group and class" if len(sizes) == 2 else "groups" if y is None else "classes"
    failures.report(
        scored, on_failure, failed="scores left out", why=partial(_explain_invalid.explain_invalid_labels, wrong)
    )
    failures.report(status, on_failure, failed=f"{kinds} without a threshold of their own", why=unscored)
    return found


@accept_dask_arrays(s="n", sample_weight="n", new_weight="m")
def _compute_weighted_thresholds(
    s: Array, *, alpha: Alpha, sample_weight: Array | None, new_weight: Array | None, on_failure: OnFailure
) -> Any:
    """Validate weights, compute one threshold per new row and report rows without one."""
    alphas = parse_alphas(alpha)
    on_failure = validate.on_failure(on_failure)
    given = {"sample_weight": sample_weight, "new_weight": new_weight}
    missing = next((name for name, x in given.items() if x is None), None)
    if missing is not None:
        other = next(name for name in given if name != missing)
        validate.refuse(missing, f"given with {other}, as a new row has a weight, too", "None")
    s, weight, new_weight = dispatch.adopt(s=s, sample_weight=sample_weight, new_weight=new_weight)
    given = {"sample_weight": weight, "new_weight": new_weight}
    shape = _validate_scores(s)
    validate.real(**given)
    if dispatch.shape_of(weight) != shape:
        validate.refuse("sample_weight", f"of shape {shape}, one per score", f"shape {dispatch.shape_of(weight)}")
    rows = dispatch.shape_of(new_weight)
    if len(rows) != len(shape) or rows[:-1] != shape[:-1]:
        validate.refuse("new_weight", f"of shape (..., m), with the batch axes {shape[:-1]} of s", f"shape {rows}")
    bare = [adapter(x).unwrap(x) for x in (s, weight, new_weight)]
    pairs = [alpha.as_integer_ratio() for alpha in alphas]
    found, status = dispatch.call("weighted_threshold", *bare, alphas=pairs)
    why = partial(_explain_invalid.explain_invalid_weight, weight, new_weight)
    failures.report(status, on_failure, failed="new rows without a threshold", why=why)
    return found


def _number_cells(groups: Any, y: Any, *, n_groups: int, n_classes: int) -> Any:
    """Return the position of each pair in a table of groups by classes, -1 if one of them is invalid."""
    g, c = (adapter(x).cast(x, np.int64) for x in (groups, y))
    is_valid = (g >= 0) & (g < n_groups) & (c >= 0) & (c < n_classes)
    return (g * n_classes + c + 1) * is_valid - 1


def _validate_scores(s: Any, **labels: Any) -> tuple[int, ...]:
    """Check that scores are real with at least one axis, and that labels have their shape; return the shape."""
    validate.real(s=s)
    shape = dispatch.shape_of(s)
    if not shape:
        validate.refuse("s", "of shape (..., n)", f"shape {shape}")
    _options.warn_of_probabilities(s)
    _options.refuse_text(labels.get("y"))
    validate.integer(**labels)
    for name, array in labels.items():
        if array is not None and dispatch.shape_of(array) != shape:
            validate.refuse(name, f"of shape {shape}, one entry per score", f"shape {dispatch.shape_of(array)}")
    return shape


def _refuse_unused(labels: Any, name: str, value: int | None, of: str) -> None:
    """Refuse a number of classes or groups without the labels that it belongs to."""
    if labels is None and value is not None:
        validate.refuse(name, f"None without {of}", value)


def _count_labels(name: str, labels: Any, requested: int | None) -> int:
    """Return the number of classes or groups: the requested one, or the largest label plus one."""
    if requested is not None:
        return requested
    return 1 + max(adapter(labels).extent(labels)[1], -1) if 0 not in dispatch.shape_of(labels) else 0
