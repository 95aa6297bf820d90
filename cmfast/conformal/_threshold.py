"""Thresholds: the score that a label of a new row may have at most."""

import math
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike

from cmfast._core import dispatch, failures, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, DeviceT, Floats, OnFailure
from cmfast._core.labels import check_known
from cmfast._core.lazy import accept_dask_arrays, are_lazy
from cmfast.conformal import _reasons
from cmfast.kernels.shared.conformal import quantile_rank

Alpha: TypeAlias = Any  # a number, Decimal or Fraction, or several
OF = {"y": "classes", "groups": "groups"}
REAL = (float, np.floating, Decimal, Fraction)


def levels(alpha: Any) -> list[Fraction]:
    """Return each alpha as the fraction that its shortest decimal is."""
    several = isinstance(alpha, list | tuple) or (isinstance(alpha, np.ndarray) and alpha.ndim == 1)
    found = [_level(one) for one in (alpha if several else [alpha])]
    if not found:
        validate.refuse("alpha", "one number or several", "none")
    return found


def _level(one: Any) -> Fraction:
    one = one[()] if isinstance(one, np.ndarray) and not one.ndim else one
    wanted = "a number above 0 and below 1, or a list of such"
    if isinstance(one, int | np.integer) and not isinstance(one, bool):
        validate.refuse("alpha", wanted, one)
    if not isinstance(one, REAL):
        validate.refuse("alpha", wanted, f"{type(one).__name__} {validate.format_value(one)}", TypeError)
    try:
        found = Fraction(str(one) if isinstance(one, float | np.floating) else one)
    except (ValueError, OverflowError):  # NaN and infinity
        validate.refuse("alpha", wanted, validate.format_value(one))
    if not 0 < found < 1:
        validate.refuse("alpha", wanted, validate.format_value(one))
    return found


def ranks(alphas: list[Fraction], sizes: range) -> np.ndarray:
    """Return which of n sorted scores is the threshold, for every alpha and every n of `sizes`; beyond n none is."""
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


def turn(alphas: list[Fraction]) -> np.ndarray:
    """Return the order in which ranks rise, whatever the number of scores."""
    return np.array(sorted(range(len(alphas)), key=lambda a: -alphas[a]), np.int64)


@overload
def threshold(
    s: DeviceT,
    alpha: Alpha,
    /,
    *,
    y: DeviceT | None = ...,
    n_classes: int | None = ...,
    groups: DeviceT | None = ...,
    n_groups: int | None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> DeviceT: ...
@overload
def threshold(
    s: ArrayLike,
    alpha: Alpha,
    /,
    *,
    y: ArrayLike | None = ...,
    n_classes: int | None = ...,
    groups: ArrayLike | None = ...,
    n_groups: int | None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> Floats: ...
def threshold(
    s: Array,
    alpha: Alpha,
    /,
    *,
    y: Array | None = None,
    n_classes: int | None = None,
    groups: Array | None = None,
    n_groups: int | None = None,
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
) -> Any:
    """Return the score that a label may have at most, so that the true one is left out with probability `alpha`.

    The k-th smallest of n calibration scores, ``k = n + 1 - floor((n + 1) alpha)``, counted in integers. Where k is
    larger than n it is infinity: the set is all classes.

    Parameters
    ----------
    s : array, shape (..., n)
        Scores of the true labels of a calibration, of :func:`scores` or others; NaN counts as infinity.
    alpha : float, Decimal or Fraction, or several
        Above 0 and below 1. A float is read as the decimal that was written: 0.1 is one tenth.
    y : array of int, shape (..., n), optional
        Class of every score: a threshold of its own for every class.
    n_classes : int, optional
        Classes; default: as many as `y` has, which synchronises the device.
    groups, n_groups : array of int, shape (..., n), and int, optional
        The same for groups that are known of new rows too (Mondrian). Not together with `y`.
    on_failure : {"warn", "raise", "ignore"}
        What to do about classes and groups without scores, and labels that are none (see Notes).
    num_threads : int, optional
        Most threads to use; default: what the process may use.

    Returns
    -------
    array of float64, shape (..., A), with `y` (..., A, C), with `groups` (..., A, G)
        One for every alpha, of which one number is one; never lower for a smaller alpha. Library and device of `s`.

    Raises
    ------
    TypeError, ValueError
        Arrays of two libraries or devices, or not real; shapes that do not agree; an alpha that is no number above 0
        and below 1; `y` together with `groups`.

    See Also
    --------
    score_histogram : for thresholds of clients that keep their scores to themselves.

    Notes
    -----
    ``1 - alpha <= P(label in its set) <= 1 - alpha + 1 / (n + 1)`` where calibration and new rows are exchangeable; the
    upper bound also needs scores without ties, as randomised ones are. ``ceil((n + 1) * (1 - alpha))`` in floating
    point is one rank too high for some n, at 27 of the 99 alphas of two decimals (0.7 and n = 9 is one).

    A class or group needs ``1 / alpha - 1`` scores, rounded up, for a threshold below infinity.

    Bad values: the score of a label that is no class, or of a group that is none (INVALID), is left out; a class or
    group without scores (ZERO_LINE) has threshold infinity, so that it is in every set; both are reported as
    `on_failure` says. Synchronises the device unless `on_failure` is "ignore" and the number of classes is given.
    Reproducible: same input, same bits, for any number of threads. Of a Dask array, whose scores of one element are in
    one chunk, it is one.

    References
    ----------
    Vovk, Gammerman, Shafer, Algorithmic learning in a random world, 2005.

    Examples
    --------
    >>> from cmfast import conformal
    >>> s = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    >>> conformal.threshold(s, [0.05, 0.1, 0.7])
    array([inf, 0.9, 0.3])
    >>> conformal.threshold(s, 0.5, y=[0, 0, 0, 0, 0, 1, 1, 1, 1])
    array([[0.3, 0.8]])
    """
    if are_lazy(s, y, groups):
        check_known(n_classes=0 if y is None else n_classes, groups=groups, n_groups=n_groups)
    return _thresholds(
        s, alpha=alpha, y=y, n_classes=n_classes, groups=groups, n_groups=n_groups, on_failure=on_failure,
        num_threads=num_threads,
    )  # fmt: skip


@accept_dask_arrays(s="n", y="n", groups="n")
def _thresholds(
    s: Array,
    *,
    alpha: Alpha,
    y: Array | None,
    n_classes: int | None,
    groups: Array | None,
    n_groups: int | None,
    on_failure: OnFailure,
    num_threads: int | None,
) -> Any:
    alphas = levels(alpha)
    validate.on_failure(on_failure)
    num_threads = validate.num_threads(num_threads)
    n_classes = None if n_classes is None else validate.count("n_classes", n_classes)
    n_groups = None if n_groups is None else validate.count("n_groups", n_groups)
    s, y, groups = dispatch.adopt(
        optional=("y", "groups"), s=s, y=validate.type_empty_labels(y), groups=validate.type_empty_labels(groups)
    )
    shape = _checked(s, y=y, groups=groups)
    if y is not None and groups is not None:
        validate.refuse("groups", "None where y is given", "an array")
    _unused(y, "n_classes", n_classes, "y")
    _unused(groups, "n_groups", n_groups, "groups")
    labels, asked, name = (groups, n_groups, "groups") if y is None else (y, n_classes, "y")
    n = shape[-1]
    number = 1 if labels is None else _number(name, labels, asked)
    wanted = ranks(alphas, range(n, n + 1) if labels is None else range(n + 1))
    options = {"ranks": wanted, "turn": turn(alphas), "num_threads": num_threads}
    asking = {"n_classes" if name == "y" else "n_groups": number}
    with validate.explain_memory_error(8 * number * len(alphas) * math.prod(shape[:-1]), **asking):
        found, status, scored = dispatch.call("threshold", s, labels, n_groups=number, **options)
    if labels is None:
        return found[..., 0]
    unlabelled, unscored = partial(_reasons.unlabelled, name, labels, number), partial(_reasons.unscored_kind, name)
    failures.report(scored, on_failure, failed="scores left out", why=unlabelled)
    failures.report(status, on_failure, failed=f"{OF[name]} without a threshold of their own", why=unscored)
    return found


def _checked(s: Any, **labels: Any) -> tuple[int, ...]:
    """Check that scores are real with one axis at least, and labels have their shape; return it."""
    validate.real(s=s)
    shape = dispatch.shape_of(s)
    if not shape:
        validate.refuse("s", "of shape (..., n)", f"shape {shape}")
    validate.integer(**labels)
    for name, array in labels.items():
        if array is not None and dispatch.shape_of(array) != shape:
            validate.refuse(name, f"of shape {shape}, one entry per score", f"shape {dispatch.shape_of(array)}")
    return shape


def _unused(labels: Any, name: str, value: int | None, of: str) -> None:
    if labels is None and value is not None:
        validate.refuse(name, f"None where {of} is not given", value)


def _number(name: str, labels: Any, asked: int | None) -> int:
    """Return how many classes or groups there are."""
    if asked is not None:
        return asked
    return 1 + max(adapter(labels).extent(labels)[1], -1) if 0 not in dispatch.shape_of(labels) else 0
