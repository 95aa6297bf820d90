"""Explain why a matrix has no uncertainty: its cells are not valid counts."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from cmfast._core import bad_values, failures, wording
from cmfast._core.adapters import adapter
from cmfast._core.annotations import OnFailure


def report_invalid(
    status: Any,
    on_failure: OnFailure,
    failed: str,
    M: Any,
    *,
    clustered: bool = False,
    name: Callable[[tuple[int, ...]], str] | None = None,
) -> None:
    """Report failed matrices, with the reason for the first; `clustered` drops the advice to pass `n`.

    `name` returns the name of the matrix at an index; default: the index.
    """
    size = "" if clustered else f"{wording.option('n')}, the number of samples, or "
    helps = f"{size}the counts that they came from"
    failures.report(status, on_failure, failed=failed, why=partial(explain_invalid, helps=helps, M=M), name=name)


def mask_failed(status: Any, axes: int = 0) -> Any:
    """Return 1 for every matrix of status OK, else NaN, with `axes` trailing axes, as a factor of results."""
    good = 1.0 * (status == 0)
    with np.errstate(invalid="ignore"):
        return (good / good)[(..., *[None] * axes)]


def explain_invalid(index: tuple[int, ...], helps: str, **arrays: Any) -> str:
    """Return a text that says why the arrays at `index` are not counts; `helps` names what to pass instead."""
    at = bad_values.format_index(index) if index else ""
    some = ((name, array) for name, array in arrays.items() if array is not None)
    one = {f"{name}{at}": adapter(array).entry(array, index) for name, array in some}
    found = bad_values.describe_bad_value(**one)
    if not found and not any(array.any() for array in one.values()):
        found = f"M{at} has no samples to draw from"
    elif not found and any((array != np.rint(array)).any() for array in one.values()):
        found = f"its cells are fractions; pass {helps}"
    return found or "its cells add up to more than fits"
