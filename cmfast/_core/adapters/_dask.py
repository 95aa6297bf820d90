"""Dask arrays: a task per block, which calls the function that was called with them. Kernels: those of the blocks."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from inspect import BoundArguments, Parameter
from itertools import accumulate, count
from math import isnan
from typing import Any, NoReturn

import dask.array as da  # noqa: TID251
import numpy as np
from dask.layers import ArrayBlockIdDep  # noqa: TID251

from cmfast._core import caller, dispatch, validate
from cmfast._core.lazy import is_lazy

HAS_DEVICES = False


def asarray(name: str, x: Any) -> NoReturn:
    """Refuse what a function without blocks was given."""
    msg = f"{name} is a lazy {type(x).__module__}.{type(x).__qualname__}, which this does not take; "
    raise TypeError(msg + "call .compute() first")


def to_host(x: Any) -> NoReturn:
    """Refuse to compute what was not asked for."""
    msg = f"a lazy {type(x).__module__}.{type(x).__qualname__} has no values yet; call dask.compute first"
    raise TypeError(caller.named(msg))


def device(x: Any) -> str:
    """Return the name of no device: blocks live where they are computed."""
    del x
    return "dask"


def chosen(x: Any) -> AbstractContextManager[Any]:
    """Return a context that does nothing."""
    del x
    return nullcontext()


@dataclass(frozen=True, eq=False)
class Block:
    """The task of one block: call a function with its arrays, and say in messages which block it was."""

    function: Callable[..., Any]
    name: str
    positional: tuple[str, ...]
    values: dict[str, Any]
    arrays: tuple[str, ...]
    starts: tuple[tuple[float, ...], ...]

    def __call__(self, place: tuple[int, ...], *blocks: Any) -> Any:
        """Return the one array of what the function returns, or a tuple of all."""
        given = dict(zip(self.arrays, map(_unpacked, blocks), strict=True))
        with caller.inside(self.name, self._where(place)):
            found = list(_leaves(call(self.function, self.positional, self.values | given)))
        return found[0] if len(found) == 1 else tuple(found)

    def _where(self, place: tuple[int, ...]) -> str:
        first = tuple(at[k] for at, k in zip(self.starts, place, strict=True))
        from_ = "" if any(map(isnan, first)) else f", which begins at index {tuple(map(int, first))}"
        return f", in chunk {tuple(map(int, place))}{from_}"


def call(function: Callable[..., Any], positional: tuple[str, ...], values: dict[str, Any]) -> Any:
    """Call `function` with values by the names of its parameters, some of which have to be given by position."""
    return function(*(values[name] for name in positional), **{k: x for k, x in values.items() if k not in positional})


def _unpacked(block: Any) -> Any:
    """Return the one array in the lists that Dask makes of axes that a result does not have."""
    while isinstance(block, list):
        (block,) = block
    return block


def batches(function: Callable[..., Any], bound: BoundArguments, cores: dict[str, Any]) -> Any:
    """Return what `function` returns, with a Dask array in the place of each of its arrays.

    What that is, and which shapes and types it has, a call with a batch of none tells, which also checks the arguments.
    """
    name = caller.name() or caller.public(function)
    with caller.inside(name):
        positional, values = _arguments(bound)
        known = {key: core(values) if callable(core) else core for key, core in cores.items()}
        return _batches(function, name, positional, values, known)


def _batches(
    function: Callable[..., Any], name: str, positional: tuple[str, ...], values: dict[str, Any], cores: dict[str, str]
) -> Any:
    arrays = _arrays(values, cores)
    for key, x in arrays.items():
        if any(map(isnan, x.shape[max(x.ndim - len(cores[key]), 0) :])):
            validate.refuse(key, f"of known size; call {key}.compute_chunk_sizes()", f"shape {x.shape}")
    like = {key: _none_of(x, len(cores[key])) for key, x in arrays.items()}
    sample = _checked(function, positional, values, arrays, like)
    for key, x in arrays.items():
        _check_chunks(key, x, len(cores[key]))

    shapes = {key: x.shape[: x.ndim - len(cores[key])] for key, x in arrays.items()}
    if not any(isnan(n) for shape in shapes.values() for n in shape):
        validate.batch(**shapes)

    n_batch = max(x.ndim - len(cores[key]) for key, x in arrays.items())
    numbers = count(n_batch)
    pairs: list[Any] = []
    for key, x in arrays.items():
        own = x.ndim - len(cores[key])
        pairs += [x, (*range(n_batch - own, n_batch), *(next(numbers) for _ in cores[key]))]
    loop = tuple(range(n_batch))
    chunks, aligned = da.core.unify_chunks(*pairs)
    pairs[::2] = aligned
    batch = tuple(chunks[k] for k in loop)
    starts = tuple(tuple(accumulate(sizes, initial=0))[:-1] for sizes in batch)
    block = Block(function, name, positional, _for_blocks(values, arrays), tuple(arrays), starts)

    leaves = list(_leaves(sample))
    place = (ArrayBlockIdDep(batch), loop)
    options = {"align_arrays": False, "concatenate": None}
    if len(leaves) == 1:
        lazy = [_blocks(block, n_batch, leaves[0], *place, *pairs, token=name, **options)]
    else:
        meta = np.empty((0,) * n_batch, object)
        every = da.blockwise(block, loop, *place, *pairs, token=name, dtype=object, meta=meta, **options)
        lazy = [_blocks(_part, n_batch, leaf, every, loop, k, None, token=name) for k, leaf in enumerate(leaves)]
    return _rebuilt(sample, iter(lazy))


def _arguments(bound: BoundArguments) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return the names of what has to be given by position, and the values of all that was given, by name."""
    parameters = bound.signature.parameters
    values: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        values |= value if parameters[name].kind is Parameter.VAR_KEYWORD else {name: value}
    kinds = {name: parameter.kind for name, parameter in parameters.items()}
    return tuple(name for name in values if kinds.get(name) is Parameter.POSITIONAL_ONLY), values


def _arrays(values: dict[str, Any], cores: dict[str, str]) -> dict[str, Any]:
    """Return the arrays by name; refuse other libraries, Dask arrays in place of options, and what workers cannot."""
    arrays = {name: x for name, x in values.items() if name in cores and x is not None}
    if not all(map(is_lazy, arrays.values())):
        what = ", ".join(f"{name} from {dispatch.library(x)}" for name, x in arrays.items())
        validate.fail(f"arrays must come from one library, got {what}", TypeError)
    for name, value in values.items():
        if name not in arrays and any(map(is_lazy, _leaves(value))):
            validate.refuse(name, "without Dask arrays", "some; call dask.compute first", TypeError)
    if values.get("progress"):
        validate.refuse(
            "progress", "None with Dask arrays, which have dask.diagnostics.ProgressBar", values["progress"]
        )
    return arrays


def _none_of(x: Any, n_core: int) -> Any:
    """Return an array in the library of the blocks of `x`, with a batch of none; if it is no batch, as large as it."""
    if x.ndim < n_core:
        return np.broadcast_to(np.zeros((), x.dtype), x.shape)
    return np.zeros_like(x._meta, shape=(0, *x.shape[x.ndim - n_core :]))


def _checked(
    function: Callable[..., Any],
    positional: tuple[str, ...],
    values: dict[str, Any],
    arrays: dict[str, Any],
    like: dict[str, Any],
) -> Any:
    """Return what `function` returns of batches of none; what it refuses has the shape that was given."""
    try:
        return call(function, positional, values | like)
    except (TypeError, ValueError) as error:
        if type(error) not in (TypeError, ValueError):
            raise
        text = str(error)
        for name, x in like.items():
            text = text.replace(f"shape {x.shape}", f"shape {arrays[name].shape}")
        raise type(error)(text) from None


def _check_chunks(name: str, x: Any, n_core: int) -> None:
    """Check that every matrix of `x` is in one chunk."""
    if any(len(sizes) > 1 for sizes in x.chunks[x.ndim - n_core :]):
        last = ", ".join(f"{k}: -1" for k in range(-n_core, 0))
        axes = "axis" if n_core == 1 else f"{n_core} axes"
        wanted = f"in one chunk along the last {axes}; give {name}.rechunk({{{last}}})"
        validate.refuse(name, wanted, f"chunks {x.chunks[x.ndim - n_core :]}")


def _for_blocks(values: dict[str, Any], arrays: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a task: one thread, for Dask runs as many tasks as there are cores."""
    threads = values.get("num_threads")
    return values | dict.fromkeys(arrays) | {"num_threads": 1 if threads is None else threads}


def _blocks(function: Callable[..., Any], n_batch: int, leaf: Any, *pairs: Any, **options: Any) -> Any:
    """Return the Dask array of what is like `leaf`, which has a batch of none."""
    core = leaf.shape[1:]
    axes = dict(zip(range(n_batch, n_batch + len(core)), core, strict=True))
    # Its axes must not be those of the arrays that are used up.
    fresh = {-1 - k: n for k, n in axes.items()}
    meta = np.empty_like(leaf, shape=(0,) * (n_batch + len(core)))
    return da.blockwise(function, (*range(n_batch), *fresh), *pairs, new_axes=fresh, meta=meta, **options)


def _part(parts: tuple[Any, ...], k: int) -> Any:
    return parts[k]


def _leaves(found: Any) -> Iterator[Any]:
    """Yield the arrays of a result, in the order in which :func:`_rebuilt` takes them."""
    if hasattr(found, "shape"):
        yield found
    elif isinstance(found, dict | tuple | list):
        for part in found.values() if isinstance(found, dict) else found:
            yield from _leaves(part)


def _rebuilt(found: Any, arrays: Iterator[Any]) -> Any:
    """Return a result with others in the place of its arrays."""
    if hasattr(found, "shape"):
        return next(arrays)
    if isinstance(found, dict):
        return {key: _rebuilt(part, arrays) for key, part in found.items()}
    if isinstance(found, tuple | list):
        parts = [_rebuilt(part, arrays) for part in found]
        return type(found)(*parts) if hasattr(found, "_fields") else type(found)(parts)
    return found
