"""One metric by its name: the body of every function that is a metric."""

from collections.abc import Sequence
from typing import Any, TypeAlias, get_args

from cmfast._core import validate
from cmfast._core.annotations import Array, OnFailure, Undefined
from cmfast.metrics._catalogue import Averaging
from cmfast.metrics._compute import evaluate

Average: TypeAlias = Averaging | None


def one(
    name: str, M: Array, undefined: Undefined, on_failure: OnFailure, num_threads: int | None, positive: int = 1
) -> Any:
    """Return the metric `name` of every matrix."""
    return evaluate(M, (name,), undefined, positive, on_failure, num_threads)[0]


def averaged(
    name: str,
    M: Array,
    average: Average,
    undefined: Undefined,
    on_failure: OnFailure,
    num_threads: int | None,
    positive: int = 1,
    labels: Sequence[int] | None = None,
) -> Any:
    """Return the metric `name` of every class, or its average over them."""
    if average is not None:
        validate.choice("average", average, get_args(Averaging))
    wanted = name if average is None else f"{name}_{average}"
    return evaluate(M, (wanted,), undefined, positive, on_failure, num_threads, labels)[0]
