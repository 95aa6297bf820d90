"""Explain the first invalid row or label of a failed call; only that row is read on the host."""

from typing import Any

import numpy as np

from cmfast._core import bad_values, dispatch, validate
from cmfast._core.adapters import adapter
from cmfast.kernels.shared.conformal import OUTSIDE

SOFTMAX_HINT = "pass softmax probabilities, not logits"


def explain_unscored_row(
    P: Any, y: Any, u: Any, groups: Any, n_groups: int, index: tuple[int, ...], *, group_names: tuple[Any, ...] = ()
) -> str:
    """Return a text that says why the row at `index` has no scores; arguments that were not given are None."""
    n_classes = dispatch.shape_of(P)[-1]
    return (
        _find_invalid_probability(adapter(P).entry(P, index), index)
        or ("" if u is None else _explain_invalid_u(adapter(u).entry(u, index), index))
        or ("" if y is None else explain_invalid_label("y", y, n_classes, index))
        or ("" if groups is None else _explain_invalid_group(groups, n_groups, group_names, index))
        or f"probabilities of P{bad_values.format_index(index)} add up to more than fits"
    )


def explain_invalid_label(name: str, labels: Any, number: int, index: tuple[int, ...]) -> str:
    """Return a text if the label at `index` is not one of `number` classes or groups, else ""."""
    label, kinds = adapter(labels).entry(labels, index), "classes" if name == "y" else "groups"
    if 0 <= label < number:
        return ""
    which = f"not one of the {number} {kinds}, 0 to {number - 1}" if number else f"invalid, as there are no {kinds}"
    return f"{label} at {name}{bad_values.format_index(index)} is {which}"


def _explain_invalid_group(groups: Any, n_groups: int, names: tuple[Any, ...], index: tuple[int, ...]) -> str:
    """Return a text if the group at `index` is not one of `n_groups` groups, or of those with `names`, else "".

    Names of groups without thresholds follow, as in ``NamedGroups`` of new rows.
    """
    if not names:
        return explain_invalid_label("groups", groups, n_groups, index)
    group = int(adapter(groups).entry(groups, index))
    if group >= 0:
        return ""
    known = validate.format_value(", ".join(map(repr, names[:n_groups])), str)
    which = f"the group {validate.format_value(names[group])} at groups{bad_values.format_index(index)}"
    return f"{which} is not one of those with thresholds: {known}"


def explain_invalid_labels(given: list[tuple[str, Any, int]], index: tuple[int, ...]) -> str:
    """Return the text of :func:`explain_invalid_label` for the first invalid one of several arrays of labels."""
    found = (explain_invalid_label(name, labels, number, index) for name, labels, number in given)
    return next(filter(None, found), "")


def explain_missing_scores(sizes: list[str], group_names: tuple[Any, ...] | None, index: tuple[int, ...]) -> str:
    """Return a text that names the class, the group or both without scores."""
    places = dict(zip(sizes, index[-len(sizes) :], strict=True))
    each = [f"class {places['n_classes']}"] if "n_classes" in places else []
    if "n_groups" in places:
        group = places["n_groups"]
        each.append(f"group {group if group_names is None else validate.format_value(group_names[group])}")
    which = " of ".join(each)
    return f"{which} has no scores, so its threshold is infinity"


def explain_invalid_weight(weight: Any, new_weight: Any, index: tuple[int, ...]) -> str:
    """Return a text that names the first invalid weight for the new row at `index`."""
    for name, array, place in (("new_weight", new_weight, index), ("sample_weight", weight, index[:-1])):
        row = np.atleast_1d(adapter(array).entry(array, place))
        wrong = ~((row >= 0) & (row < np.inf))
        if wrong.any():
            at = place if name == "new_weight" else (*place, int(np.argmax(wrong)))
            return f"{row[wrong][0]:.6g} at {name}{bad_values.format_index(at)} is not a weight"
    return ""


def _find_invalid_probability(row: np.ndarray, index: tuple[int, ...]) -> str:
    """Return a text that names the first entry of a row that is not a probability, or ""."""
    wrong = ~((row >= -OUTSIDE) & (row <= 1.0 + OUTSIDE))
    if not wrong.any():
        return ""
    j = int(np.argmax(wrong))
    if not np.isfinite(row[j]):
        return bad_values.describe_first("P", row, wrong, index)
    return f"{row[j]:.6g} at P{bad_values.format_index((*index, j))} is not a probability; {SOFTMAX_HINT}"


def _explain_invalid_u(u: Any, index: tuple[int, ...]) -> str:
    """Return a text if `u` is NaN or outside [0, 1], else ""."""
    if np.isnan(u):
        return f"NaN value at u{bad_values.format_index(index)}"
    return "" if 0.0 <= u <= 1.0 else f"{u:.6g} at u{bad_values.format_index(index)} is not in [0, 1]"
