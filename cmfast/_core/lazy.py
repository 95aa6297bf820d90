"""Functions of Dask arrays: nothing is computed when they are called, and each block is a call of the same function."""

import sys
from collections.abc import Callable
from functools import wraps
from inspect import Signature, signature
from itertools import chain
from typing import Any, ParamSpec, TypeVar

from cmfast.kernels.loading import load

P = ParamSpec("P")
R = TypeVar("R")


def by_block(**cores: "str | Callable[[dict[str, Any]], str]") -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Have a function whose leading axes are a batch take Dask arrays.

    `cores` names its arrays, with a letter for each axis behind the batch, or what tells these from the arguments. Dask
    is asked for only where it is loaded.
    """

    def of(function: Callable[P, R]) -> Callable[P, R]:
        known: Signature = signature(function)

        @wraps(function)
        def called(*args: P.args, **options: P.kwargs) -> R:
            if "dask.array" in sys.modules and any(map(is_lazy, chain(args, options.values()))):
                bound = known.bind(*args, **options)
                out: R = load("cmfast._core.adapters._dask").batches(called, bound, cores)
                return out
            return function(*args, **options)

        return called

    return of


def is_lazy(x: object) -> bool:
    """Whether `x` is an array of Dask's."""
    dask = sys.modules.get("dask.array")
    return dask is not None and isinstance(x, dask.Array)


def are_lazy(*arrays: object) -> bool:
    """Whether any of `arrays` is one of Dask's."""
    return "dask.array" in sys.modules and any(map(is_lazy, arrays))


def sums(function: Callable[..., Any], arrays: dict[str, Any], n_samples: int | None, **values: Any) -> Any:
    """Return, as Dask arrays, the integers that `function` counts of samples, along the last axes of Dask arrays."""
    return load("cmfast._core.adapters._dask").sums(function, arrays, n_samples, values)


def merged(
    function: Callable[..., Any], merge: Any, arrays: dict[str, Any], cores: dict[str, int], **values: Any
) -> Any:
    """Return, as a Delayed, what `merge` makes of what `function` returns of all parts of the points."""
    return load("cmfast._core.adapters._dask").merged(function, arrays, cores, values, merge)
