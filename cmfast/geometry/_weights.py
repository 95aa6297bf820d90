"""Weight tables by label and prediction, computed from names or given, and validated before any point is read."""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np

from cmfast._core import dispatch, failures, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import METHODS, Empty, Method, OnFailure, Smoothing
from cmfast.kernels.status import Status
from cmfast.normalizing import importance_weights
from cmfast.normalizing._normalize import compute_bi_weights
from cmfast.scaling._ipf import EMPTY, validate_smoothing

FAILED = "weightings not computed"
USED = "a weight that is used is negative, not finite or too large"


class Weighting(NamedTuple):
    """A weight table (C, C) with its name, status and the reason for a failure."""

    name: str
    table: Any
    status: Status
    why: Callable[[], str]
    """Return the reason why the weights do not exist, or exist only as a limit."""
    mass: float = 0.0
    """For "bi": total of the bi-normalised matrix, including the mass that smoothing puts on empty cells."""


def is_list(weights: Any) -> bool:
    """Whether `weights` is a list of weightings (names or tables), and not one table given as rows."""
    if isinstance(weights, list | tuple):
        return all(isinstance(w, str) or _count_axes(w) == 2 for w in weights)
    return not isinstance(weights, str) and _count_axes(weights) == 3


def _count_axes(w: Any) -> int:
    """Return the number of axes of an array or nested list."""
    return int(w.ndim) if hasattr(w, "ndim") else np.ndim(w)


def validate_bi_options(smoothing: Smoothing, empty: Empty) -> dict[str, Any]:
    """Validate the options of the weights "bi" and return them as a dict."""
    validate.choice("empty", empty, EMPTY)
    return {"smoothing": validate_smoothing(smoothing), "empty": empty}


def make_weightings(M: Any, weights: Any, options: dict[str, Any]) -> list[Weighting]:
    """Return the weightings for the confusion matrix `M`, in its library; `options` are those of "bi"."""
    several = list(weights) if is_list(weights) else [weights]
    found = []
    for k, w in enumerate(several):
        if isinstance(w, str):
            validate.choice("weights", w, METHODS)
            found.append(_compute_named_weights(M, cast(Method, w), options))
        else:
            found.append(_validate_table("weights" if len(several) == 1 else f"weights[{k}]", M, w))
    return found


def _validate_table(name: str, M: Any, w: Any) -> Weighting:
    """Return a given table as a weighting; a bad weight is INVALID only where `M` is nonzero."""
    n_classes = dispatch.shape_of(M)[0]
    M, table = dispatch.adopt(cells=M, weights=w)
    validate.real(weights=table)
    if dispatch.shape_of(table) != (n_classes, n_classes):
        shape = dispatch.shape_of(table)
        validate.refuse("weights", f"a name or of shape ({n_classes}, {n_classes})", f"shape {shape}")
    bad = adapter(table).evaluate(_has_bad_weights, table, M)
    return Weighting(name, table, Status.INVALID if bad else Status.CONVERGED, lambda: f"{name}: {USED}")


def _has_bad_weights(table: Any, M: Any) -> bool:
    """Whether a weight at a nonzero count is negative or not finite; synchronises the device."""
    return not bool((((table >= 0) & (table < float("inf"))) | (M == 0)).all())


def _compute_named_weights(M: Any, method: Method, options: dict[str, Any]) -> Weighting:
    """Return the weights of a normalisation; NaN throughout if they do not exist.

    Factors of a solver that did not converge are finite but are not the weights; the status tells.
    """
    if method != "bi":
        table = importance_weights(M, method, on_failure="ignore")  # NaN weights are reported with the sums
        return Weighting(method, table, Status.CONVERGED, lambda: f"{method}: {USED}")
    table, code, why = compute_bi_weights(M, **options)
    status = Status(int(code))
    # Smoothing by a number makes every cell positive, so that no class is empty or dropped.
    dropped = options.get("empty") == "drop" and not isinstance(options.get("smoothing"), float)
    if not adapter(M).any(M):  # no point is weighted
        status = Status.CONVERGED
    if not status.ok:
        table = adapter(table).evaluate(lambda table: table * float("nan"), table)
    mass = float(dispatch.shape_of(M)[0])
    if dropped:
        mass = adapter(M).evaluate(lambda M: float((M.any(0) | M.any(1)).sum()), M)
    return Weighting(method, table, status, lambda: why(()) if status else f"{method}: {USED}", mass)


def report_weightings(found: list[Weighting], codes: np.ndarray, on_failure: OnFailure, failed: str = FAILED) -> None:
    """Warn or raise, as `on_failure` says, about weightings that failed; `codes` are 0 for those already reported."""
    failures.report(
        codes, on_failure, failed=failed, describe=lambda index: found[index[0]].why(), limit_is_answer=True
    )


def merge_statuses(found: list[Weighting], out: Any) -> np.ndarray:
    """Return the status of each weighting: its own, or the kernel's (the last of `out`) if its own is 0."""
    codes = get_statuses(found)
    return np.where(codes == 0, adapter(out[-1]).to_host(out[-1]), codes).astype(np.int8)


def get_statuses(found: list[Weighting]) -> np.ndarray:
    """Return the status codes of weightings."""
    return np.array([w.status for w in found], np.int8)
