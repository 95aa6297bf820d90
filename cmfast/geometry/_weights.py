"""Tables of weights by label and prediction, from their names or as they are given."""

from typing import Any, cast

import numpy as np

from cmfast._core import dispatch, validate
from cmfast._core.annotations import METHODS, Method
from cmfast._core.failures import FailureError
from cmfast.normalizing import importance_weights
from cmfast.scaling._functions import checked_smoothing


def is_list(weights: Any) -> bool:
    """Whether several weightings are asked for: a list of names and tables, not the rows of one table."""
    if isinstance(weights, list | tuple):
        return all(isinstance(w, str) or _ndim(w) == 2 for w in weights)
    return not isinstance(weights, str) and _ndim(weights) == 3


def _ndim(w: Any) -> int:
    return int(w.ndim) if hasattr(w, "ndim") else np.ndim(w)


def tables(M: Any, weights: Any, smoothing: Any) -> tuple[Any, list[str]]:
    """Return the tables (W, C, C) of `weights` for the confusion matrix `M`, in its library, and a name of each."""
    several = list(weights) if is_list(weights) else [weights]
    smoothing = checked_smoothing(smoothing)
    n_classes = dispatch.shape_of(M)[0]
    found, names = [], []
    for k, w in enumerate(several):
        if isinstance(w, str):
            validate.choice("weights", w, METHODS)
            names.append(w)
            found.append(_named(M, cast(Method, w), smoothing))
            continue
        names.append("weights" if len(several) == 1 else f"weights[{k}]")
        _, table = dispatch.adopt(cells=M, weights=w)
        validate.real(weights=table)
        if dispatch.shape_of(table) != (n_classes, n_classes):
            shape = dispatch.shape_of(table)
            validate.refuse("weights", f"a name or of shape ({n_classes}, {n_classes})", f"shape {shape}")
        found.append(table)
    return found, names


def _named(M: Any, method: Method, smoothing: Any) -> Any:
    """Return the weights of a normalisation, NaN throughout where they do not exist.

    Factors that a solver stopped at are finite, but they are not the weights; their status says so.
    """
    if method != "bi":
        return importance_weights(M, method)
    try:
        return importance_weights(M, method, smoothing=smoothing, on_failure="raise")
    except FailureError:
        W = importance_weights(M, "all")
        with dispatch.chosen(W):
            return W * float("nan")
