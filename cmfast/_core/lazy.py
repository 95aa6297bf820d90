"""Functions of Dask arrays: nothing is computed when they are called, and each block is a call of the same function."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from inspect import Signature, signature
from itertools import chain
from typing import Any, ParamSpec, TypeVar

from cmfast.kernels.loading import load

P = ParamSpec("P")
R = TypeVar("R")

_places: ContextVar[Any] = ContextVar("cmfast_places", default=None)


@contextmanager
def placed(places: Any) -> Iterator[None]:
    """Let a batch be a part of another, in which its elements have these places, shape (...): it draws as there."""
    token = _places.set(places)
    try:
        yield
    finally:
        _places.reset(token)


def by_block(
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
            if "dask.array" in sys.modules and any(map(is_lazy, chain(args, options.values()))):
                bound = known.bind(*args, **options)
                out: R = load("cmfast._core.adapters._dask").batches(called, bound, cores, numbers)
                return out
            if numbers is not None and numbers not in options and (places := _places.get()) is not None:
                options[numbers] = places
            return function(*args, **options)

        return called

    return of


def is_lazy(x: object) -> bool:
    """Whether `x` is an array of Dask's; not while another thread imports it, when there can be none."""
    dask = sys.modules.get("dask.array")
    return dask is not None and isinstance(x, getattr(dask, "Array", ()))


def are_lazy(*arrays: object) -> bool:
    """Whether any of `arrays` is one of Dask's."""
    return "dask.array" in sys.modules and any(map(is_lazy, arrays))


def is_frame(x: object) -> bool:
    """Whether `x` is a DataFrame of Dask's."""
    dask = sys.modules.get("dask.dataframe")
    return dask is not None and isinstance(x, getattr(dask, "DataFrame", ()))


def partitions(frame: Any) -> list[Any]:
    """Return, as Delayed, what a DataFrame of Dask's is made of."""
    return list(frame.to_delayed())


def is_awaited(x: object) -> bool:
    """Whether `x` is what Dask has yet to compute and is no array: a state of points, say."""
    dask = sys.modules.get("dask.delayed")
    return dask is not None and isinstance(x, getattr(dask, "Delayed", ()))


def later(function: Callable[P, R]) -> Callable[P, R]:
    """Have a function of states take states that Dask has yet to compute: it is called when they are there."""

    @wraps(function)
    def called(*args: P.args, **options: P.kwargs) -> R:
        if "dask.delayed" in sys.modules and any(map(is_awaited, _within(chain(args, options.values())))):
            out: R = awaited(called, *args, **options)  # by its name, under which workers find it
            return out
        return function(*args, **options)

    return called


def _within(values: Iterable[object]) -> Iterator[object]:
    """Yield values, and those in lists and dicts of them."""
    for value in values:
        if isinstance(value, list | tuple):
            yield from value
        elif isinstance(value, dict):
            yield from value.values()
        else:
            yield value


def awaited(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Return, as a Delayed, what `function` returns of values of which some are Delayed."""
    return load("cmfast._core.adapters._dask").awaited(function, args, options)


def sums(
    function: Callable[..., Any],
    arrays: dict[str, Any],
    n_samples: int | None,
    cores: "dict[str, int] | None" = None,
    **values: Any,
) -> Any:
    """Return, as Dask arrays, the integers that `function` counts of samples, along the last axes of Dask arrays.

    `cores` says how many axes every array has behind these, by default none.
    """
    return load("cmfast._core.adapters._dask").sums(function, arrays, n_samples, cores, values)


def computed(result: Any, **options: Any) -> Any:
    """Return a result with all its arrays computed, in one pass."""
    return load("cmfast._core.adapters._dask").computed(result, options)


def asarray(x: Any) -> Any:
    """Return an array as one of Dask's."""
    return load("cmfast._core.adapters._dask").lazily(x)


def merged(
    function: Callable[..., Any],
    merge: Any,
    arrays: dict[str, Any],
    cores: dict[str, int],
    *,
    known: "dict[str, tuple[Any, Any]] | None" = None,
    **values: Any,
) -> Any:
    """Return, as a Delayed, what `merge` makes of what `function` returns of all parts of the points.

    `known` has values that are Delayed, each with one of its kind that the arguments can be checked with.
    """
    return load("cmfast._core.adapters._dask").merged(function, arrays, cores, values, merge, known or {})


def dealt(
    function: Callable[..., Any],
    merge: Any,
    arrays: dict[str, Any],
    cores: dict[str, int],
    n: int,
    *,
    known: "dict[str, tuple[Any, Any]] | None" = None,
    **values: Any,
) -> list[Any]:
    """Return `n` Delayed: `function` returns a list of `n` of each part of the points, and each number is merged.

    All else is as for :func:`merged`.
    """
    found: list[Any] = load("cmfast._core.adapters._dask").dealt(function, arrays, cores, values, merge, known or {}, n)
    return found


def blocks(
    function: Callable[..., Any], arrays: dict[str, Any], cores: dict[str, str], known: dict[str, Any], **values: Any
) -> Any:
    """Return, as Dask arrays, what `function` returns of blocks; it gets results of Dask arrays in `known` whole."""
    return load("cmfast._core.adapters._dask").blocks(function, arrays, cores, known, values)


def arrays(found: Any, kinds: "Iterable[tuple[tuple[int, ...], Any]]", like: Any) -> list[Any]:
    """Return what a Delayed has, host arrays of these shapes and types, as Dask arrays of the library of `like`."""
    made: list[Any] = load("cmfast._core.adapters._dask").arrays(found, kinds, like)
    return made


def tree(merge: "Callable[[list[Any]], Any]", parts: list[Any]) -> Any:
    """Return, as a Delayed, what `merge` makes of a list of Delayed, a few at a time."""
    return load("cmfast._core.adapters._dask").tree(merge, parts)


def read_again(arrays: dict[str, Any], after: Any) -> dict[str, Any]:
    """Return the Dask arrays as others, which are computed once more when `after` is known: none is held until then."""
    found: dict[str, Any] = load("cmfast._core.adapters._dask").read_again(arrays, after)
    return found
