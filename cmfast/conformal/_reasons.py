"""What is wrong with the first row or label that failed, in words: looked at on the host, for that row alone."""

from typing import Any

import numpy as np

from cmfast._core import bad_values, dispatch
from cmfast._core.adapters import adapter
from cmfast.kernels.shared.conformal import OUTSIDE

CURE = "of logits the softmax is meant"


def unscored(P: Any, y: Any, u: Any, groups: Any, n_groups: int, index: tuple[int, ...]) -> str:
    """Say why the row at `index` has no scores; what is None was not given."""
    n_classes = dispatch.shape_of(P)[-1]
    return (
        _no_probability(adapter(P).entry(P, index), index)
        or ("" if u is None else _no_share(adapter(u).entry(u, index), index))
        or ("" if y is None else unlabelled("y", y, n_classes, index))
        or ("" if groups is None else unlabelled("groups", groups, n_groups, index))
        or f"probabilities of P{bad_values.format_index(index)} add up to more than fits"
    )


def unlabelled(name: str, labels: Any, number: int, index: tuple[int, ...]) -> str:
    """Say which label at `index` is no class or group, of which there are `number`; "" if it is one."""
    label, kinds = adapter(labels).entry(labels, index), "classes" if name == "y" else "groups"
    if 0 <= label < number:
        return ""
    which = f"none of the {number} {kinds}, 0 to {number - 1}" if number else f"none, as there are no {kinds}"
    return f"{label} at {name}{bad_values.format_index(index)} is {which}"


def unscored_kind(name: str, index: tuple[int, ...]) -> str:
    """Say which class or group has no scores."""
    kind = "class" if name == "y" else "group"
    return f"no score is of {kind} {index[-1]}, so its threshold is infinity"


def _no_probability(row: np.ndarray, index: tuple[int, ...]) -> str:
    """Name the first entry of a row that is no probability; "" if there is none."""
    wrong = ~((row >= -OUTSIDE) & (row <= 1.0 + OUTSIDE))
    if not wrong.any():
        return ""
    j = int(np.argmax(wrong))
    if not np.isfinite(row[j]):
        return bad_values.describe_first("P", row, wrong, index)
    return f"{row[j]:.6g} at P{bad_values.format_index((*index, j))} is no probability; {CURE}"


def _no_share(u: Any, index: tuple[int, ...]) -> str:
    if np.isnan(u):
        return f"NaN value at u{bad_values.format_index(index)}"
    return "" if 0.0 <= u <= 1.0 else f"{u:.6g} at u{bad_values.format_index(index)} is not from 0 to 1"
