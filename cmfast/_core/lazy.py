"""Functions of Dask arrays: nothing is computed when they are called, and each block is a call of the same function."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from inspect import Signature, signature
from itertools import chain
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

from cmfast.kernels.loading import load

P = ParamSpec("P")
R = TypeVar("R")

_element_indices: ContextVar[Any] = ContextVar("cmfast_places", default=None)


@contextmanager
def set_element_indices(places: Any) -> Iterator[None]:
    """Let a batch be a part of another, in which its elements have these places, shape (...): it draws as there."""
    token = _element_indices.set(places)
    try:
        yield
    finally:
        _element_indices.reset(token)


def accept_dask_arrays(
    numbers: str | None = None, /, **cores: "str | Callable[[dict[str, Any]], str]"
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Have a function whose leading axes are a batch take Dask arrays.

    `cores` names its arrays, with a letter for each axis behind the batch, or what tells these from the arguments.
    `numbers` names an option that gets, with a block, the places that its elements have in the whole batch. Dask is
    asked for only where it is loaded.
    """

    def of(function: Callable[P, R]) -> Callable[P, R]:
        known: Signature = signature(function)

        @wraps(function)
        def called(*args: P.args, **options: P.kwargs) -> R:
            if "dask.array" in sys.modules and are_lazy(*args, *options.values()):
                bound = known.bind(*args, **options)
                out: R = dask().map_batches(called, bound, cores, numbers)
                return out
            if numbers is not None and numbers not in options and (places := _element_indices.get()) is not None:
                options[numbers] = places
            return function(*args, **options)

        return called

    return of


def are_lazy(*arrays: object) -> bool:
    """Whether any of `arrays` is one of Dask's; not while another thread imports it, when there can be none."""
    dask = sys.modules.get("dask.array")
    return dask is not None and any(isinstance(x, getattr(dask, "Array", ())) for x in arrays)


def is_dask_frame(x: object) -> bool:
    """Whether `x` is a DataFrame of Dask's."""
    return isinstance(x, getattr(sys.modules.get("dask.dataframe"), "DataFrame", ()))


def is_delayed(x: object) -> bool:
    """Whether `x` is what Dask has yet to compute and is no array: a state of points, say."""
    return isinstance(x, getattr(sys.modules.get("dask.delayed"), "Delayed", ()))


def accept_delayed(function: Callable[P, R]) -> Callable[P, R]:
    """Have a function of states take states that Dask has yet to compute: it is called when they are there."""

    @wraps(function)
    def called(*args: P.args, **options: P.kwargs) -> R:
        if "dask.delayed" in sys.modules and any(map(is_delayed, _flatten(chain(args, options.values())))):
            out: R = dask().call_delayed(called, *args, **options)  # by its name, under which workers find it
            return out
        return function(*args, **options)

    return called


def _flatten(values: Iterable[object]) -> Iterator[object]:
    """Yield values, and those in lists and dicts of them."""
    for value in values:
        if isinstance(value, list | tuple):
            yield from value
        elif isinstance(value, dict):
            yield from value.values()
        else:
            yield value


def dask() -> ModuleType:
    """Return what builds the graphs of Dask, which is imported when the first of its arrays comes."""
    return load("cmfast._core.adapters._dask")
