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
