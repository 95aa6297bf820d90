"""One function per metric; each is a row of the table in ``_table.py``, and all take the same options."""

from typing import Any, Literal, TypeAlias

import numpy as np

from cmfast._core import dispatch, failures, validate
from cmfast._core.annotations import Array, OnFailure, Undefined
from cmfast.metrics import _plan
from cmfast.metrics._catalogue import FORMS
from cmfast.metrics._compute import FAILED, evaluate

Average: TypeAlias = Literal["macro", "weighted", "micro"] | None

# Every docstring below ends where its metric does: what the options mean, bad values, synchronisation and
# reproducibility are those of `compute`, and said there once.


def _one(name: str, M: Array, undefined: Undefined, on_failure: OnFailure, num_threads: int | None) -> Any:
    return evaluate(f"metrics.{name}", M, (name,), undefined, 1, on_failure, num_threads)[0]


def _averaged(
    name: str,
    M: Array,
    average: Average,
    undefined: Undefined,
    on_failure: OnFailure,
    num_threads: int | None,
    *,
    op: str | None = None,
) -> Any:
    op = op or f"metrics.{name}"
    if average is not None:
        validate.choice(op, "average", average, ("macro", "weighted", "micro"))
    wanted = name if average is None else f"{name}_{average}"
    return evaluate(op, M, (wanted,), undefined, 1, on_failure, num_threads)[0]


def _positive(
    name: str, M: Array, positive: int, undefined: Undefined, on_failure: OnFailure, num_threads: int | None
) -> Any:
    return evaluate(f"metrics.{name}", M, (name,), undefined, positive, on_failure, num_threads)[0]


def accuracy(
    M: Array,
    /,
    *,
    undefined: Undefined = "present",
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
) -> Any:
    """Share of samples that were predicted right: ``a / n``.

    Shape (...). Options as for :func:`compute`.
    """
    return _one("accuracy", M, undefined, on_failure, num_threads)


def recall(
    M: Array,
    /,
    *,
    average: Average = None,
    undefined: Undefined = "present",
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
) -> Any:
    """Share of each class that was found: ``d / t`` (paper 001 calls it per-class accuracy).

    Shape (..., C); with `average` shape (...). Options as for :func:`compute`.
    """
    return _averaged("recall", M, average, undefined, on_failure, num_threads)


def precision(
    M: Array,
    /,
    *,
    average: Average = None,
    undefined: Undefined = "present",
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
) -> Any:
    """Share of the predictions of each class that were right: ``d / p``.

    Shape (..., C); with `average` shape (...). Options as for :func:`compute`.
    """
    return _averaged("precision", M, average, undefined, on_failure, num_threads)


def f1(
    M: Array,
    /,
    *,
    average: Average = None,
    undefined: Undefined = "present",
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
) -> Any:
    """Harmonic mean of precision and recall of each class: ``2 d / (t + p)``.

    Shape (..., C); with `average` shape (...). Options as for :func:`compute`.

    ``average="macro"`` is the mean of the F1 of the classes (Opitz & Burst 2019);
    :func:`f1_of_macro` is the other macro F1.
    """
    return _averaged("f1", M, average, undefined, on_failure, num_threads)


def jaccard(
    M: Array,
    /,
    *,
    average: Average = None,
    undefined: Undefined = "present",
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
) -> Any:
    """Intersection over union of each class: ``d / (t + p - d)``.

    Shape (..., C); with `average` shape (...). Options as for :func:`compute`.
    """
    return _averaged("jaccard", M, average, undefined, on_failure, num_threads)


def specificity(
    M: Array,
    /,
    *,
    average: Average = None,
    undefined: Undefined = "present",
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
) -> Any:
    """Share of the other classes that was not taken for the class: ``tn / (n - t)``.

    Shape (..., C); with `average` shape (...). Options as for :func:`compute`.
    """
    return _averaged("specificity", M, average, undefined, on_failure, num_threads)


def npv(
    M: Array,
    /,
    *,
    average: Average = None,
    undefined: Undefined = "present",
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
) -> Any:
    """Share of the predictions of other classes that were other classes: ``tn / (n - p)``.

    Shape (..., C); with `average` shape (...). Options as for :func:`compute`.
    """
    return _averaged("npv", M, average, undefined, on_failure, num_threads)


def balanced_accuracy(
    M: Array,
    /,
    *,
    undefined: Undefined = "present",
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
) -> Any:
    """Mean of the recalls.

    Shape (...). Options as for :func:`compute`.

    scikit-learn's ``balanced_accuracy_score`` is ``undefined="nan"``.
    """
    return _one("balanced_accuracy", M, undefined, on_failure, num_threads)


def balanced_accuracy_adjusted(
    M: Array,
    /,
    *,
    undefined: Undefined = "present",
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
) -> Any:
    """Mean of the recalls, moved and scaled so that chance gives 0 and perfection 1.

    Shape (...). Options as for :func:`compute`.
    """
    return _one("balanced_accuracy_adjusted", M, undefined, on_failure, num_threads)


def min_recall(
    M: Array,
    /,
    *,
    undefined: Undefined = "present",
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
) -> Any:
    """Smallest of the recalls.

    Shape (...). Options as for :func:`compute`.
    """
    return _one("min_recall", M, undefined, on_failure, num_threads)


def geometric_mean(
    M: Array,
    /,
    *,
    undefined: Undefined = "present",
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
) -> Any:
    """Geometric mean of the recalls (papers 003, 004).

    Shape (...). Options as for :func:`compute`.
    """
    return _one("geometric_mean", M, undefined, on_failure, num_threads)


def tau(
    M: Array,
    /,
    *,
    undefined: Undefined = "present",
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
) -> Any:
    """One minus the root mean square distance of the recalls from one (paper 004).

    Shape (...). Options as for :func:`compute`.

    For two classes ``1 - sqrt((fnr^2 + fpr^2) / 2)``: the distance to the perfect model in the contingency space.
    """
    return _one("tau", M, undefined, on_failure, num_threads)


def f1_of_macro(
    M: Array,
    /,
    *,
    undefined: Undefined = "present",
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
) -> Any:
    """Harmonic mean of macro precision and macro recall; 0 when both are 0.

    Shape (...). Options as for :func:`compute`.

    Sokolova & Lapalme 2009; called hF1 in paper 003. Never below ``f1(average="macro")``.
    """
    return _one("f1_of_macro", M, undefined, on_failure, num_threads)


def mcc(
    M: Array,
    /,
    *,
    undefined: Undefined = "present",
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
) -> Any:
    """Matthews correlation coefficient, for any number of classes (Gorodkin 2004).

    Shape (...). Options as for :func:`compute`.

    With one degenerate margin (a constant predictor, or one true class) the value is 0, its limit from every direction;
    with two it is undefined. A zero diagonal does not mean -1: that needs two classes exactly swapped.
    """
    return _one("mcc", M, undefined, on_failure, num_threads)


def kappa_linear(
    M: Array,
    /,
    *,
    undefined: Undefined = "present",
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
) -> Any:
    """Cohen's kappa with disagreement ``abs(i - j)``, for ordered classes.

    Shape (...). Options as for :func:`compute`.
    """
    return _one("kappa_linear", M, undefined, on_failure, num_threads)


def kappa_quadratic(
    M: Array,
    /,
    *,
    undefined: Undefined = "present",
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
) -> Any:
    """Cohen's kappa with disagreement ``(i - j)^2``, for ordered classes: Lin's concordance of the class numbers.

    Shape (...). Options as for :func:`compute`.
    """
    return _one("kappa_quadratic", M, undefined, on_failure, num_threads)


def mcc_01(
    M: Array,
    /,
    *,
    undefined: Undefined = "present",
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
) -> Any:
    """Matthews correlation coefficient mapped to [0, 1] (MCCn of paper 003).

    Shape (...). Options as for :func:`compute`.
    """
    return _one("mcc_01", M, undefined, on_failure, num_threads)


def kappa_01(
    M: Array,
    /,
    *,
    undefined: Undefined = "present",
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
) -> Any:
    """Cohen's kappa mapped to [0, 1] (kUn of paper 003).

    Shape (...). Options as for :func:`compute`.
    """
    return _one("kappa_01", M, undefined, on_failure, num_threads)


def peirce(
    M: Array,
    /,
    *,
    undefined: Undefined = "present",
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
) -> Any:
    """Peirce skill score (Hanssen-Kuipers): ``(n a - e) / sum t (n - t)``.

    Shape (...). Options as for :func:`compute`.
    """
    return _one("peirce", M, undefined, on_failure, num_threads)


def gerrity(
    M: Array,
    /,
    *,
    undefined: Undefined = "present",
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
) -> Any:
    """Gerrity skill score, for ordered classes: a constant or random forecast gives 0, a perfect one 1.

    Shape (...). Options as for :func:`compute`.
    """
    return _one("gerrity", M, undefined, on_failure, num_threads)


def tss(
    M: Array,
    /,
    *,
    positive: int = 1,
    undefined: Undefined = "present",
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
) -> Any:
    """Skill of two classes (true skill statistic, Youden's J): true positive rate minus false positive rate.

    Shape (...); `M` has two classes. Options as for :func:`compute`.
    """
    return _positive("tss", M, positive, undefined, on_failure, num_threads)


def gilbert(
    M: Array,
    /,
    *,
    positive: int = 1,
    undefined: Undefined = "present",
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
) -> Any:
    """Gilbert skill score of two classes (GSS): the hits beyond chance.

    Shape (...); `M` has two classes. Options as for :func:`compute`.

    Paper 004 prints it with an undefined ``r`` in place of the chance hits ``h = (tp + fp)(tp + fn) / n``.
    """
    return _positive("gilbert", M, positive, undefined, on_failure, num_threads)


def doolittle(
    M: Array,
    /,
    *,
    positive: int = 1,
    undefined: Undefined = "present",
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
) -> Any:
    """Doolittle skill score of two classes (DSS): the square of :func:`mcc`.

    Shape (...); `M` has two classes. Options as for :func:`compute`.

    Paper 004 prints one factor of the denominator twice.
    """
    return _positive("doolittle", M, positive, undefined, on_failure, num_threads)


def fbeta(
    M: Array,
    /,
    beta: float,
    *,
    average: Average = None,
    undefined: Undefined = "present",
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
) -> Any:
    """F-beta of each class: ``(1 + beta^2) d / (beta^2 t + p)``; recall counts `beta` times as much as precision.

    Shape (..., C); with `average` shape (...). Options as for :func:`compute`. `beta` may be 0, which gives
    :func:`precision`, and infinite, which gives :func:`recall`.
    """
    op = "metrics.fbeta"
    beta = validate.nonnegative(op, "beta", beta)
    return _averaged(f"fbeta_{beta!r}", M, average, undefined, on_failure, num_threads, op=op)


def kappa(
    M: Array,
    /,
    *,
    weights: Literal["linear", "quadratic"] | Array | None = None,
    undefined: Undefined = "present",
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
) -> Any:
    """Cohen's kappa: agreement beyond chance, ``(n a - e) / sum t (n - p)``; the Heidke skill score is the same.

    Shape (...). Options as for :func:`compute`, and:

    Parameters
    ----------
    M : array, shape (..., C, C)
        Rows are the truth. Counts or any normalisation of them.
    weights : {None, "linear", "quadratic"} or array of shape (C, C)
        Disagreement of every pair of classes: one for all, ``abs(i - j)``, ``(i - j)^2``, or a table of one's own,
        nonnegative with a zero diagonal; a common factor cancels. Agreement weights v are ``1 - v``.
    undefined : {"present", "nan", "strict", "zero", "one"}
        What a 0/0 gives: NaN or 0.
    on_failure : {"warn", "raise", "ignore"}
        What to do about matrices with bad values; a table with bad values spoils every matrix.
    num_threads : int, optional
        Most threads to use; default: what the process may use.

    Examples
    --------
    >>> from cmfast import metrics
    >>> M = [[420, 15, 15], [10, 280, 10], [30, 20, 200]]
    >>> round(float(metrics.kappa(M)), 6), round(float(metrics.kappa(M, weights="linear")), 6)
    (0.844297, 0.831101)
    >>> round(float(metrics.kappa(M, weights=[[0, 1, 2], [1, 0, 1], [4, 2, 0]])), 6)
    0.807239
    """
    op = "metrics.kappa"
    if weights is None:
        return _one("kappa", M, undefined, on_failure, num_threads)
    if isinstance(weights, str):
        validate.choice(op, "weights", weights, ("linear", "quadratic"))
        return _one(f"kappa_{weights}", M, undefined, on_failure, num_threads)
    _plan.undefined_of(op, undefined)
    validate.on_failure(op, on_failure)
    num_threads = validate.num_threads(op, num_threads)
    M, weights = dispatch.adopt(op, M=M, weights=weights)
    C, _ = validate.matrices(op, square=True, M=M)
    validate.real(op, weights=weights)
    if dispatch.meta(weights).shape != (C, C):
        validate.refuse(op, "weights", f"of shape {(C, C)}", f"shape {dispatch.meta(weights).shape}")
    filling = _plan.fill(FORMS["kappa"].metric, undefined)
    out, status = dispatch.call("weighted_kappa", M, weights, fill=filling, num_threads=num_threads)
    failures.report(op, status, on_failure, failed=FAILED)
    return out


def tau_weighted(
    M: Array,
    weights: Array,
    /,
    *,
    v: float = 1.0,
    normalize: bool = False,
    undefined: Undefined = "present",
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
) -> Any:
    """Tau with a weight per class (paper 004, definitions 5.5 and 5.8).

    Shape (...). Options as for :func:`compute`, and:

    Parameters
    ----------
    M : array, shape (..., C, C)
        Rows are the truth. Counts or any normalisation of them.
    weights : array, shape (C,)
        Nonnegative weights of the recalls, in the order of the classes, on the host (the authors' code takes them as
        (tpr, tnr), that is positive class first).
    v : float
        Exponent of the normalised form, factor of the other.
    normalize : bool
        False: ``v - v sqrt(q / K)`` with ``q = sum w (1 - recall)^2`` over K classes, the paper's: at most v, without a
        lower bound (weights above one make it negative). True: ``(1 - sqrt(q / sum w))^v``, in [0, 1].
    undefined : {"present", "nan", "strict", "zero", "one"}
        What a recall that is 0/0 gives, and which classes enter.
    on_failure : {"warn", "raise", "ignore"}
        What to do about matrices with bad values.
    num_threads : int, optional
        Most threads to use; default: what the process may use.

    Examples
    --------
    >>> from cmfast import metrics
    >>> M = [[0, 5], [5, 0]]
    >>> round(float(metrics.tau_weighted(M, [10, 10])), 2), float(metrics.tau_weighted(M, [10, 10], normalize=True))
    (-2.16, 0.0)
    """
    op = "metrics.tau_weighted"
    _plan.undefined_of(op, undefined)
    validate.on_failure(op, on_failure)
    num_threads = validate.num_threads(op, num_threads)
    v = validate.positive(op, "v", v)
    validate.flag(op, "normalize", normalize)
    (M,) = dispatch.adopt(op, M=M)
    C, _ = validate.matrices(op, square=True, M=M)
    table = _class_weights(op, weights, C)
    plan = _plan.plan_tau_weighted(table, v, normalize=normalize, undefined=undefined)
    out, status = dispatch.call("metrics_of_matrices", M, plan=plan, num_threads=num_threads)
    failures.report(op, status, on_failure, failed=FAILED)
    return out


def _class_weights(op: str, weights: Array, C: int) -> Any:
    (adopted,) = dispatch.adopt(op, weights=weights)
    validate.real(op, weights=adopted)
    table = np.ascontiguousarray(dispatch.to_host(adopted), np.float64)
    if table.shape != (C,):
        validate.refuse(op, "weights", f"of shape {(C,)}", f"shape {table.shape}")
    if not (np.isfinite(table).all() and (table >= 0).all()):
        validate.refuse(op, "weights", "finite and nonnegative", table.tolist())
    return table


sensitivity = recall
iou = jaccard
gm = geometric_mean
heidke = hss = kappa
youden_j = tss
gss = gilbert
dss = doolittle
