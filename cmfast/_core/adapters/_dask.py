"""Adapter of Dask arrays: one task per block, each calling the public function; kernels are those of the blocks."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from inspect import BoundArguments, Parameter, signature
from itertools import chain, count
from math import isnan, prod
from typing import Any, NamedTuple, NoReturn

import dask.array as da  # noqa: TID251
import numpy as np
from dask.array.core import unify_chunks  # noqa: TID251
from dask.base import tokenize  # noqa: TID251
from dask.delayed import delayed  # noqa: TID251
from dask.graph_manipulation import bind  # noqa: TID251
from dask.layers import ArrayBlockIdDep  # noqa: TID251

from cmfast._core import caller, dispatch, validate
from cmfast._core.adapters import Adapter, adapter
from cmfast._core.lazy import are_lazy
from cmfast._core.source_digest import require_same_version, version_and_digest
from cmfast.kernels.shared import halves

MERGED_STATES = 8  # states merged per task: the fan-in of reduction trees


class Dask(Adapter):
    """Adapter that refuses Dask arrays in functions without block support and evaluates expressions of lazy results."""

    def adopt(self, name: str, x: Any, op: str | None) -> NoReturn:
        """Raise TypeError: the function does not accept Dask arrays."""
        del op
        column = "give a column as .to_dask_array(lengths=True), or " if hasattr(x, "to_dask_array") else ""
        msg = f"{name} is a lazy {type(x).__module__}.{type(x).__qualname__}, which this does not take; {column}"
        raise TypeError(msg + "call .compute() first")

    def to_host(self, x: Any) -> NoReturn:
        """Raise TypeError: values are computed only on request."""
        msg = f"a lazy {type(x).__module__}.{type(x).__qualname__} has no values yet; call dask.compute first"
        raise TypeError(caller.prefix_name(msg))

    def device(self, x: Any) -> str:
        """Return "dask": blocks get a device when they are computed."""
        del x
        return "dask"

    def evaluate(self, function: Callable[..., Any], *arrays: Any) -> Any:
        """Apply `function` to Dask arrays as they are."""
        return function(*arrays)


ADAPTER = Dask()


@dataclass(frozen=True, eq=False)
class Block:
    """Task of one block: calls a function with the block's arrays and names the block in its messages."""

    function: Callable[..., Any]
    name: str
    positional: tuple[str, ...]
    values: dict[str, Any]
    arrays: tuple[str, ...]
    sizes: tuple[tuple[float, ...], ...]
    known: tuple[str, ...] = ()
    numbers: str | None = None
    is_part: bool = False
    made_by: str = field(default_factory=version_and_digest)

    def __call__(self, place: tuple[int, ...], *blocks: Any) -> Any:
        """Return a one-element list of the function's result; `blocks` are the arrays, then the `known` values."""
        n = len(self.arrays)
        given = dict(zip(self.arrays, map(_unpack_block, blocks[:n]), strict=True))
        given |= zip(self.known, blocks[n:], strict=True)
        if self.numbers is not None:
            given[self.numbers] = self._element_indices(place)
        with caller.set_task(self.name, self._where(place), is_part=self.is_part):
            require_same_version(self.made_by)
            return [
                call(self.function, self.positional, self.values | given)
            ]  # a list, because Dask would inspect an array

    def _where(self, place: tuple[int, ...]) -> str:
        """Return the end of a message: the chunk and the index at which it begins."""
        if not place:
            return ""
        first = tuple(sum(sizes[:k]) for sizes, k in zip(self.sizes, place, strict=True))
        from_ = "" if any(map(isnan, first)) else f", which begins at index {tuple(map(int, first))}"
        return f", in chunk {tuple(map(int, place))}{from_}"

    def _element_indices(self, place: tuple[int, ...]) -> np.ndarray:
        """Return the flat indices, in the whole batch, of the elements of the block at `place`."""
        whole = np.zeros((1,) * len(place), np.int64)
        for axis, (sizes, k) in enumerate(zip(self.sizes, place, strict=True)):
            first, n_after = int(sum(sizes[:k])), len(place) - 1 - axis
            own = np.arange(first, first + int(sizes[k])).reshape(-1, *(1,) * n_after)
            whole = whole + own * int(prod(map(sum, self.sizes[axis + 1 :])))
        return whole


@dataclass(frozen=True)
class WorkerTask:
    """Task outside block loops: calls a function of this module on a worker that has the same cmfast."""

    function: Callable[..., Any]
    made_by: str = field(default_factory=version_and_digest)

    @property
    def __name__(self) -> str:  # Dask names its keys after this
        return self.function.__name__

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Check the version of cmfast and return the function's result."""
        require_same_version(self.made_by)
        return self.function(*args, **options)


def call(function: Callable[..., Any], positional: tuple[str, ...], values: dict[str, Any]) -> Any:
    """Call `function` with `values` by parameter name; those in `positional` are passed by position."""
    return function(*(values[name] for name in positional), **{k: x for k, x in values.items() if k not in positional})


def _unpack_block(block: Any) -> Any:
    """Return the array inside the nested one-element lists that Dask builds for contracted axes."""
    while isinstance(block, list):
        (block,) = block
    return block


class BlockCalls(NamedTuple):
    """Calls of a function for every block of a loop over leading axes: name, lazy results, loop axes, sample result."""

    name: str
    every: Any
    loop: tuple[int, ...]
    sample: Any


def make_block_tasks(
    function: Callable[..., Any],
    positional: tuple[str, ...],
    values: dict[str, Any],
    cores: dict[str, int],
    like: Callable[[Any, int], Any],
    *,
    known: dict[str, tuple[Any, Any]] | None = None,
    numbers: str | None = None,
    is_part: bool = False,
) -> BlockCalls:
    """Make a task for every block of the arrays in `cores`, which gives the number of core axes after the loop axes.

    A call on arrays made by `like` validates the arguments and gives the shapes and types of results; a value that is
    not computed yet is replaced there by the example next to it in `known`. `numbers` names an option that receives the
    flat indices of the block's elements in the whole loop.
    """
    name = caller.name()
    arrays = _select_lazy(values, cores)
    for key, x in arrays.items():
        if any(map(isnan, x.shape[0 if numbers else max(x.ndim - cores[key], 0) :])):
            validate.refuse(key, f"of known size; call {key}.compute_chunk_sizes()", f"shape {x.shape}")
    known = known or {}
    alike = values | {key: one for key, (_, one) in known.items()}
    sample = _call_on_empty(
        function, positional, alike, arrays, {key: like(x, cores[key]) for key, x in arrays.items()}
    )
    shapes = {key: x.shape[: x.ndim - cores[key]] for key, x in arrays.items()}
    if not any(isnan(n) for shape in shapes.values() for n in shape):
        validate.batch(**shapes)

    n_loop = max(map(len, shapes.values()))
    fresh = count(n_loop)
    pairs: list[Any] = []
    for key, x in arrays.items():
        _check_chunks(key, x, cores[key])
        pairs += [x, (*range(n_loop - len(shapes[key]), n_loop), *(next(fresh) for _ in range(cores[key])))]
    chunks, pairs[::2] = unify_chunks(*pairs)
    loop = tuple(range(n_loop))
    sizes = tuple(chunks[k] for k in loop)
    options = values | dict.fromkeys(arrays)
    if options.get("num_threads") is None and _takes_threads(function):
        options["num_threads"] = 1
    block = Block(function, name, positional, options, tuple(arrays), sizes, tuple(known), numbers, is_part)
    first = chain.from_iterable((value, None) for value, _ in known.values())
    every = da.blockwise(
        block, loop, ArrayBlockIdDep(sizes), loop, *pairs, *first,
        token=name, dtype=object, meta=np.empty((0,) * n_loop, object), align_arrays=False, concatenate=None,
    )  # fmt: skip
    return BlockCalls(name, every, loop, sample)


def _takes_threads(function: Callable[..., Any]) -> bool:
    """Whether a function has the option ``num_threads=``."""
    parameters = signature(function).parameters
    return "num_threads" in parameters or any(x.kind is Parameter.VAR_KEYWORD for x in parameters.values())


def _select_lazy(values: dict[str, Any], cores: dict[str, int]) -> dict[str, Any]:
    """Return the arrays by name; raise for arrays of other libraries, lazy options, Generators and progress bars."""
    arrays = {name: x for name, x in values.items() if name in cores and x is not None}
    if not all(map(are_lazy, arrays.values())):
        what = ", ".join(f"{name} from {dispatch.library_name(x)}" for name, x in arrays.items())
        validate.fail(f"arrays must come from one library, got {what}", TypeError)
    for name, value in values.items():
        if isinstance(value, np.random.Generator):
            validate.refuse(
                name, "a seed with Dask arrays, whose blocks would all draw the same", "a Generator", TypeError
            )
        if name not in arrays and are_lazy(*iterate_arrays(value)):
            validate.refuse(name, "without Dask arrays", "some; call dask.compute first", TypeError)
    if values.get("progress"):
        bar = "None with Dask arrays, which have dask.diagnostics.ProgressBar"
        validate.refuse("progress", bar, values["progress"])
    return arrays


def _call_on_empty(
    function: Callable[..., Any],
    positional: tuple[str, ...],
    values: dict[str, Any],
    arrays: dict[str, Any],
    like: dict[str, Any],
) -> Any:
    """Return the result of `function` on empty arrays; error messages show the shapes of the real arrays."""
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
    """Validate that the core axes of a Dask array are in one chunk."""
    if any(len(sizes) > 1 for sizes in x.chunks[x.ndim - n_core :]):
        last = ", ".join(f"{k}: -1" for k in range(-n_core, 0))
        axes = "axis" if n_core == 1 else f"{n_core} axes"
        wanted = f"in one chunk along the last {axes}; give {name}.rechunk({{{last}}})"
        validate.refuse(name, wanted, f"chunks {x.chunks[x.ndim - n_core :]}")


def map_batches(
    function: Callable[..., Any], bound: BoundArguments, cores: dict[str, Any], numbers: str | None = None
) -> Any:
    """Map `function` over the blocks of a batch; return its result with a Dask array for each array."""
    with caller.set_task(caller.name() or caller.public_name(function)):
        positional, values = _split_arguments(bound)
        known = {key: len(core if isinstance(core, str) else core(values)) for key, core in cores.items()}
        return _split_results(make_block_tasks(function, positional, values, known, _make_empty_batch, numbers=numbers))


def map_blocks(
    function: Callable[..., Any],
    arrays: dict[str, Any],
    cores: dict[str, str],
    known: dict[str, Any],
    **values: Any,
) -> Any:
    """Map `function` over blocks; results of Dask arrays in `known` are computed first and passed as a whole."""
    later = {}
    for name, one in known.items():
        like = replace_arrays(one, (np.zeros_like(x._meta, shape=x.shape) for x in iterate_arrays(one)))
        later[name] = call_delayed(type(one), *one), like
    sizes = {key: len(core) for key, core in cores.items()}
    return _split_results(make_block_tasks(function, (), arrays | values, sizes, _make_empty_batch, known=later))


def delayed_to_arrays(found: Any, kinds: Iterable[tuple[tuple[int, ...], Any]], like: Any) -> list[Any]:
    """Return the arrays of a Delayed tuple as Dask arrays of these shapes and types, in the library of `like`."""
    take = delayed(WorkerTask(_send_result), pure=True)
    made = []
    for k, (shape, dtype) in enumerate(kinds):
        meta = np.empty_like(like._meta, shape=(0,) * len(shape), dtype=dtype)
        made.append(da.from_delayed(take(found, k, like._meta), shape, dtype, meta=meta))
    return made


def _send_result(found: Any, k: int, like: Any) -> Any:
    """Return element `k` of a result, moved to the library and device of `like`."""
    return adapter(like).send(found[k], like)


def _split_results(found: BlockCalls) -> Any:
    """Return the results of block tasks, each array as one Dask array."""
    lazy = (_result_array(found, k, leaf, leaf.shape[1:]) for k, leaf in enumerate(iterate_arrays(found.sample)))
    return replace_arrays(found.sample, lazy)


def _split_arguments(bound: BoundArguments) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return the names of positional-only arguments, and all given values by name."""
    parameters = bound.signature.parameters
    values: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        values |= value if parameters[name].kind is Parameter.VAR_KEYWORD else {name: value}
    kinds = {name: parameter.kind for name, parameter in parameters.items()}
    return tuple(name for name in values if kinds.get(name) is Parameter.POSITIONAL_ONLY), values


def _make_empty_batch(x: Any, n_core: int) -> Any:
    """Return an array like the blocks of `x` with an empty batch axis; of the full shape if `x` has no batch axes."""
    if x.ndim < n_core:
        return np.broadcast_to(np.zeros((), x.dtype), x.shape)
    return np.zeros_like(x._meta, shape=(0, *x.shape[x.ndim - n_core :]))


def _result_array(found: BlockCalls, k: int, leaf: Any, core: tuple[int, ...], n_samples: int = 0) -> Any:
    """Return result number `k` of all blocks as a Dask array of dtype `leaf`, with core shape `core` after the batch.

    The last `n_samples` axes of the loop are reduced by each task and get size 1.
    """
    # Axis numbers below 0 are not used by any array of the call.
    fresh = {-1 - axis: n for axis, n in enumerate(core)}
    meta = np.empty_like(leaf, shape=(0,) * (len(found.loop) + len(core)))
    used = found.loop[len(found.loop) - n_samples :]
    return da.blockwise(
        _take_result, (*found.loop, *fresh), found.every, found.loop, k, None, len(found.loop), None, len(used), None,
        new_axes=fresh, adjust_chunks={axis: (1,) * found.every.numblocks[axis] for axis in used}, meta=meta,
        token=found.name,
    )  # fmt: skip


def _take_result(found: list[Any], k: int, n_loop: int, n_samples: int) -> Any:
    """Return array number `k` of a task's result, with a size-1 axis for each reduced axis."""
    x = list(iterate_arrays(found[0]))[k]
    if not n_samples:
        return x
    n_batch = n_loop - n_samples
    return x.reshape(x.shape[:n_batch] + (1,) * n_samples + x.shape[n_batch:])


def sum_blocks(
    function: Callable[..., Any],
    arrays: dict[str, Any],
    n_samples: int | None,
    cores: dict[str, int] | None = None,
    **values: Any,
) -> Any:
    """Sum the integer results of `function` over all chunks; samples are the last axes of the arrays.

    `cores` gives the number of core axes after the sample axes, by default 0. Results must be integers, so that the
    order of addition does not matter; of int8 statuses the maximum is taken. Computing raises OverflowError where a sum
    overflows int64.
    """
    cores = cores or dict.fromkeys(arrays, 0)
    loops = {name: x.shape[: x.ndim - cores[name]] for name, x in _select_lazy(arrays, cores).items()}
    _check_samples({name: loop[-(n_samples or len(loop)) :] for name, loop in loops.items()})
    found = make_block_tasks(function, (), arrays | values, cores, _make_no_samples, is_part=True)
    n_loop = len(found.loop)
    used = n_loop if n_samples is None else n_samples
    lazy = []
    for k, leaf in enumerate(iterate_arrays(found.sample)):
        part = _result_array(found, k, leaf, leaf.shape[n_loop - used :], used)
        axes = tuple(range(n_loop - used, n_loop))
        options = {"axis": axes, "dtype": leaf.dtype, "split_every": MERGED_STATES}
        reduce = WorkerTask(_take_largest if leaf.dtype == np.int8 else _sum_integers)
        lazy.append(da.reduction(part, reduce, reduce, **options))
    return replace_arrays(found.sample, iter(lazy))


def _check_samples(sizes: dict[str, tuple[float, ...]]) -> None:
    """Validate that all arrays have the same sample sizes, as far as known; broadcasting would repeat samples."""
    first = next(iter(sizes.values()))
    for name, size in sizes.items():
        if len(size) != len(first) or any(n != m for n, m in zip(size, first, strict=True) if not isnan(n + m)):
            wanted, given = (" x ".join(map(str, some)) for some in (first, size))
            validate.refuse(name, f"of {wanted} samples as {next(iter(sizes))}", given)


def _sum_integers(x: Any, axis: Any, keepdims: bool) -> Any:
    """Sum integers along axes; raise OverflowError where int64 overflows."""
    if x.size and not halves.fits(int(x.min()), int(x.max()), x.size):
        low, high = (half.sum(axis=axis, keepdims=True) for half in halves.split_halves(x))
        if not bool(halves.join_halves(low, high)[1].all()):
            validate.fail("the counts of all chunks add up to more than int64 holds", OverflowError)
    return x.sum(axis=axis, keepdims=keepdims)


def _take_largest(x: Any, axis: Any, keepdims: bool) -> Any:
    """Take the maximum along axes; zero-size arrays give zero-size results."""
    return x.max(axis=axis, keepdims=keepdims) if x.size else x.sum(axis=axis, keepdims=keepdims, dtype=x.dtype)


def _make_no_samples(x: Any, n_core: int) -> Any:
    """Return an array like the blocks of `x` with as many axes, all loop axes of size 0."""
    n_loop = max(x.ndim - n_core, 0)
    return np.zeros_like(x._meta, shape=((0,) * n_loop + x.shape[n_loop:]))


def merge_parts(
    function: Callable[..., Any],
    merge: Any,
    arrays: dict[str, Any],
    cores: dict[str, int],
    *,
    known: dict[str, tuple[Any, Any]] | None = None,
    **values: Any,
) -> Any:
    """Merge the results of `function` on all parts of the points by `merge`, in a tree; return a Delayed.

    `known` maps names to Delayed values, each with an example of its type for validating the arguments.
    """
    parts = _delay_parts(function, arrays, cores, values, known or {})
    once = delayed(WorkerTask(_merge_lists), pure=True)
    return delayed(WorkerTask(_unwrap_single), pure=True)(_reduce_tree(lambda some: once(merge, some), parts))


def merge_shards(
    function: Callable[..., Any],
    merge: Any,
    arrays: dict[str, Any],
    cores: dict[str, int],
    n: int,
    *,
    known: dict[str, tuple[Any, Any]] | None = None,
    **values: Any,
) -> list[Any]:
    """Merge the k-th results of `function` on all parts, for k < n; return `n` Delayed.

    `function` returns a list of `n` results per part of the points. All else as for :func:`merge_parts`.
    """
    parts = _delay_parts(function, arrays, cores, values, known or {})
    take = delayed(WorkerTask(_take_shard), pure=True)
    return [merge_tree(merge, [take(part, k) for part in parts]) for k in range(n)]


def merge_tree(merge: Callable[[list[Any]], Any], parts: list[Any]) -> Any:
    """Merge a list of Delayed by a reduction tree of fan-in MERGED_STATES; return a Delayed."""
    return _reduce_tree(lambda some: call_delayed(merge, some), parts)


def _reduce_tree(once: Callable[[list[Any]], Any], parts: list[Any]) -> Any:
    """Apply `once` to groups of MERGED_STATES parts until one part is left."""
    while len(parts) > 1:
        several = (parts[k : k + MERGED_STATES] for k in range(0, len(parts), MERGED_STATES))
        parts = [once(some) if len(some) > 1 else some[0] for some in several]
    return parts[0]


def _delay_parts(
    function: Callable[..., Any],
    arrays: dict[str, Any],
    cores: dict[str, int],
    values: dict[str, Any],
    known: dict[str, tuple[Any, Any]],
) -> list[Any]:
    """Return a Delayed per part of the points, of a one-element list of the result of `function`."""
    _check_samples({name: x.shape[:1] for name, x in _select_lazy(arrays, cores).items()})
    found = make_block_tasks(function, (), arrays | values, cores, _make_no_samples, known=known, is_part=True)
    return list(found.every.to_delayed().ravel())


def _merge_lists(merge: Callable[[list[Any]], Any], parts: list[list[Any]]) -> list[Any]:
    """Merge one-element lists into one."""
    return [merge([part for (part,) in parts])]


def _unwrap_single(found: list[Any]) -> Any:
    """Return the element of a one-element list."""
    return found[0]


def _take_shard(found: list[list[Any]], k: int) -> Any:
    """Return element `k` of the only result of a part."""
    return found[0][k]


def call_delayed(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Return a Delayed of a call whose arguments may be Delayed, keyed by the public function's name."""
    name = caller.name() or caller.public_name(function)
    key = f"{name}-{tokenize(function, name, args, options)}"
    return delayed(WorkerTask(_run_named_task), pure=True)(function, name, list(args), options, dask_key_name=key)


def _run_named_task(function: Callable[..., Any], name: str, args: list[Any], options: dict[str, Any]) -> Any:
    """Call `function` under the public function's name, for messages."""
    with caller.set_task(name):
        return function(*args, **options)


def recompute_after(arrays: dict[str, Any], after: Any) -> dict[str, Any]:
    """Return Dask arrays that are computed again after `after`, so that no chunk stays in memory until then."""
    given = [x for x in arrays.values() if x is not None]
    found = iter(bind(given, after, seed=tokenize(after)))
    return {name: None if x is None else next(found) for name, x in arrays.items()}


def iterate_arrays(found: Any) -> Iterator[Any]:
    """Yield the arrays of a nested result, in the order that :func:`replace_arrays` uses."""
    if hasattr(found, "shape"):
        yield found
    elif isinstance(found, dict | tuple | list):
        for part in found.values() if isinstance(found, dict) else found:
            yield from iterate_arrays(part)


def replace_arrays(found: Any, arrays: Iterator[Any]) -> Any:
    """Rebuild a nested result with its arrays replaced by those of an iterator."""
    if hasattr(found, "shape"):
        return next(arrays)
    if isinstance(found, dict):
        return {key: replace_arrays(part, arrays) for key, part in found.items()}
    if isinstance(found, tuple | list):
        parts = [replace_arrays(part, arrays) for part in found]
        return type(found)(*parts) if hasattr(found, "_fields") else type(found)(parts)
    return found
