"""Let functions accept Dask arrays: the call builds a graph, and each block later calls the same function."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from inspect import BoundArguments, Signature, signature
from itertools import chain
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

from cmfast._core import settings
from cmfast._core.usual_options import refuse_wrong_call
from cmfast.kernels.loading import load

P = ParamSpec("P")
R = TypeVar("R")

_element_indices: ContextVar[Any] = ContextVar("cmfast_places", default=None)


@contextmanager
def set_element_indices(places: Any) -> Iterator[None]:
    """In this block, treat a batch as part of a larger one whose elements have these flat indices, shape (...).

    Random draws then equal those of the whole batch.
    """
    token = _element_indices.set(places)
    try:
        yield
    finally:
        _element_indices.reset(token)


def accept_dask_arrays(
    numbers: str | None = None, /, **cores: "str | Callable[[dict[str, Any]], str]"
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function of a batch so that it also accepts Dask arrays, mapping the call over their blocks.

    `cores` maps array arguments to one letter per core axis (the axes after the batch), or to a function that returns
    these letters given the arguments. `numbers` names the option that receives the flat indices of a block's elements
    in the whole batch. Dask is used only if the program has imported it.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        """Return the function that maps over blocks of Dask arrays and calls `function` for other arrays."""
        known: Signature = signature(function)

        @wraps(function)
        def wrapper(*args: P.args, **options: P.kwargs) -> R:
            """Map the call over the blocks of Dask arrays; for other arrays call `function`."""
            try:
                if "dask.array" in sys.modules and are_lazy(*args, *options.values()):
                    bound = known.bind(*args, **options)
                    _keep_settings(bound)
                    out: R = dask().map_batches(find_importable(wrapper), bound, cores, numbers)
                    return out
                if numbers is not None and numbers not in options and (places := _element_indices.get()) is not None:
                    options[numbers] = places
                return function(*args, **options)
            except TypeError:
                refuse_wrong_call(function, args, options)
                raise

        return wrapper

    return decorate


def _keep_settings(bound: BoundArguments) -> None:
    """Give a call the options that `cmfast.config` sets here, because its tasks run elsewhere and later."""
    for name, value in settings.current.get()._asdict().items():
        if name in bound.signature.parameters and bound.arguments.get(name) is None:
            bound.arguments[name] = value


def are_lazy(*arrays: object) -> bool:
    """Whether any of `arrays` is a Dask array; False while another thread is still importing Dask."""
    dask = sys.modules.get("dask.array")
    return dask is not None and any(isinstance(x, getattr(dask, "Array", ())) for x in arrays)


def is_dask_frame(x: object) -> bool:
    """Whether `x` is a Dask DataFrame."""
    return isinstance(x, getattr(sys.modules.get("dask.dataframe"), "DataFrame", ()))


def is_delayed(x: object) -> bool:
    """Whether `x` is a Dask Delayed, for example a lazy state of points."""
    return isinstance(x, getattr(sys.modules.get("dask.delayed"), "Delayed", ()))


def accept_delayed(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function so that it accepts Delayed arguments: the call is delayed until they are computed."""

    @wraps(function)
    def wrapper(*args: P.args, **options: P.kwargs) -> R:
        """Delay the call if an argument is, or directly holds, a Dask Delayed; else call `function`."""
        if "dask.delayed" in sys.modules and any(map(is_delayed, _flatten(chain(args, options.values())))):
            out: R = dask().call_delayed(find_importable(wrapper), *args, **options)
            return out
        try:
            return function(*args, **options)
        except TypeError:
            refuse_wrong_call(function, args, options)
            raise

    return wrapper


def find_importable(function: Callable[P, R]) -> Callable[P, R]:
    """Return what a module has under the name of a function, with all its decorators: workers import it by name."""
    found: Callable[P, R] = getattr(sys.modules[function.__module__], function.__qualname__, function)
    return found


def _flatten(values: Iterable[object]) -> Iterator[object]:
    """Yield the values, and the elements of lists, tuples and dicts among them."""
    for value in values:
        if isinstance(value, list | tuple):
            yield from value
        elif isinstance(value, dict):
            yield from value.values()
        else:
            yield value


def dask() -> ModuleType:
    """Import and return the module that builds Dask graphs, when the first Dask array is passed."""
    return load("cmfast._core.adapters._dask")
