"""Why nothing can be said of a matrix: in words, once it has failed."""

from functools import partial
from typing import Any

import numpy as np

from cmfast._core import bad_values, failures, wording
from cmfast._core.adapters import adapter
from cmfast._core.annotations import OnFailure


def report(status: Any, on_failure: OnFailure, failed: str, M: Any, *, clustered: bool = False) -> None:
    """Report the matrices of which nothing can be said, and why, of the first; `n` is no help with clusters."""
    size = "" if clustered else f"{wording.option('n')}, the number of samples, or "
    helps = f"{size}the counts that they came from"
    failures.report(status, on_failure, failed=failed, why=partial(unfit, helps=helps, M=M))


def fit(status: Any, axes: int = 0) -> Any:
    """Return 1 for every matrix of status OK, else NaN: to be multiplied by, with so many axes more."""
    good = 1.0 * (status == 0)
    with np.errstate(invalid="ignore"):
        return (good / good)[(..., *[None] * axes)]


def unfit(index: tuple[int, ...], helps: str, **arrays: Any) -> str:
    """Say what keeps the arrays at `index` from being counts; `helps` says what to give in place of fractions."""
    at = bad_values.format_index(index) if index else ""
    some = ((name, array) for name, array in arrays.items() if array is not None)
    one = {f"{name}{at}": adapter(array).entry(array, index) for name, array in some}
    found = bad_values.describe_bad_value(**one)
    if not found and not any(array.any() for array in one.values()):
        found = f"M{at} holds no samples to draw from"
    elif not found and any((array != np.rint(array)).any() for array in one.values()):
        found = f"its cells are fractions; give {helps}"
    return found or "its cells add up to more than fits"
