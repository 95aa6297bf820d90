"""Tables of weights by label and prediction, from their names or as they are given; checked before any point is."""

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
    """A table of weights (C, C), what it is called, and what became of it."""

    name: str
    table: Any
    status: Status
    why: Callable[[], str]
    """Says in words why there is none, or only that of a limit."""
    mass: float = 0.0
    """Of the weights "bi": total of the matrix that they are of, with what smoothing puts where there are no points."""


def is_list(weights: Any) -> bool:
    """Whether several weightings are asked for: a list of names and tables, not the rows of one table."""
    if isinstance(weights, list | tuple):
        return all(isinstance(w, str) or _count_axes(w) == 2 for w in weights)
    return not isinstance(weights, str) and _count_axes(weights) == 3


def _count_axes(w: Any) -> int:
    return int(w.ndim) if hasattr(w, "ndim") else np.ndim(w)


def validate_bi_options(smoothing: Smoothing, empty: Empty) -> dict[str, Any]:
    """Return the options that the weights "bi" have, checked."""
    validate.choice("empty", empty, EMPTY)
    return {"smoothing": validate_smoothing(smoothing), "empty": empty}


def make_weightings(M: Any, weights: Any, options: dict[str, Any]) -> list[Weighting]:
    """Return the `weights` for the confusion matrix `M`, in its library; `options` are those of the weights "bi"."""
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
    """Return a table of the caller's, in which a weight is bad only where there are points."""
    n_classes = dispatch.shape_of(M)[0]
    M, table = dispatch.adopt(cells=M, weights=w)
    validate.real(weights=table)
    if dispatch.shape_of(table) != (n_classes, n_classes):
        shape = dispatch.shape_of(table)
        validate.refuse("weights", f"a name or of shape ({n_classes}, {n_classes})", f"shape {shape}")
    bad = adapter(table).evaluate(_has_bad_weights, table, M)
    return Weighting(name, table, Status.INVALID if bad else Status.CONVERGED, lambda: f"{name}: {USED}")


def _has_bad_weights(table: Any, M: Any) -> bool:
    """Return whether a weight of a cell that holds samples is none; synchronises the device."""
    return not bool((((table >= 0) & (table < float("inf"))) | (M == 0)).all())


def _compute_named_weights(M: Any, method: Method, options: dict[str, Any]) -> Weighting:
    """Return the weights of a normalisation, NaN throughout where they do not exist.

    Factors that a solver stopped at are finite, but they are not the weights; their status says so.
    """
    if method != "bi":
        return Weighting(method, importance_weights(M, method), Status.CONVERGED, lambda: f"{method}: {USED}")
    table, code, why = compute_bi_weights(M, **options)
    status = Status(int(code))
    # After a number was added to every cell no class is empty, and none is dropped.
    dropped = options.get("empty") == "drop" and not isinstance(options.get("smoothing"), float)
    if not adapter(M).any(M):  # nothing is weighed
        status = Status.CONVERGED
    if not status.ok:
        table = adapter(table).evaluate(lambda table: table * float("nan"), table)
    mass = float(dispatch.shape_of(M)[0])
    if dropped:
        mass = adapter(M).evaluate(lambda M: float((M.any(0) | M.any(1)).sum()), M)
    return Weighting(method, table, status, lambda: why(()) if status else f"{method}: {USED}", mass)


def report_weightings(found: list[Weighting], codes: np.ndarray, on_failure: OnFailure, failed: str = FAILED) -> None:
    """Do what `on_failure` asks about weightings; `codes` are their statuses, but for what was said already."""
    failures.report(
        codes, on_failure, failed=failed, describe=lambda index: found[index[0]].why(), limit_is_answer=True
    )


def merge_statuses(found: list[Weighting], out: Any) -> np.ndarray:
    """Return what became of weightings of which `out` is all that the kernel returns: it may find sums too large."""
    codes = get_statuses(found)
    return np.where(codes == 0, adapter(out[-1]).to_host(out[-1]), codes).astype(np.int8)


def get_statuses(found: list[Weighting]) -> np.ndarray:
    """Return the statuses of weightings, as codes."""
    return np.array([w.status for w in found], np.int8)
