"""Adapter of Dask arrays: one task per block, each calling the public function; kernels are those of the blocks."""

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import BoundArguments, Parameter, signature
from itertools import accumulate, chain, count, product
from math import isnan, prod
from threading import Lock
from typing import Any, NamedTuple, NoReturn

import dask.array as da  # noqa: TID251
import numpy as np
from cloudpickle import dumps
from dask.array.core import unify_chunks  # noqa: TID251
from dask.base import tokenize  # noqa: TID251
from dask.blockwise import Blockwise  # noqa: TID251
from dask.delayed import Delayed, delayed  # noqa: TID251
from dask.graph_manipulation import bind  # noqa: TID251
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer  # noqa: TID251
from dask.layers import ArrayBlockwiseDep  # noqa: TID251
from dask.task_spec import DataNode, List, Task, TaskRef  # noqa: TID251

from cmfast._core import caller, dispatch, validate
from cmfast._core.adapters import Adapter, adapter
from cmfast._core.lazy import are_lazy
from cmfast._core.results_by_name import ResultsByName
from cmfast._core.source_digest import require_same_version, version_and_digest
from cmfast.kernels.shared import halves

MERGED_STATES = 8  # states merged per task: the fan-in of reduction trees
SMALL = (bool, int, float, type(None))
MOST_OPTION_BYTES = 500  # pickled size of an option up to which every task holds it


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


class Places(ArrayBlockwiseDep):  # type: ignore[misc]
    """Argument of block tasks: the number of the block along every axis, and the indices where it begins and ends.

    A task gets these integers rather than the sizes of all chunks, so that its size does not depend on their number.
    """

    def __init__(self, chunks: Any) -> None:
        super().__init__(chunks)
        self.bounds = [tuple(accumulate(sizes, initial=0)) for sizes in chunks]

    def __getitem__(self, idx: tuple[int, ...]) -> Any:
        place = tuple((k, some[k], some[k + 1]) for k, some in zip(idx, self.bounds, strict=True))
        return DataNode(None, place)  # Dask would look for tasks in a tuple

    def __dask_tokenize__(self) -> tuple[str, Any]:
        return type(self).__name__, self.chunks


@dataclass(frozen=True, eq=False)
class Block:
    """Task of one block: calls a function with the block's arrays and names the block in its messages."""

    function: Callable[..., Any]
    name: str
    positional: tuple[str, ...]
    values: dict[str, Any]
    arrays: tuple[str, ...]
    known: tuple[str, ...] = ()
    numbers: str | None = None
    shape: tuple[int, ...] = ()
    is_part: bool = False
    made_by: str = field(default_factory=version_and_digest)

    def __call__(self, place: tuple[tuple[float, ...], ...], *blocks: Any) -> Any:
        """Return the function's result in a list; `blocks` are the arrays, then the `known` values."""
        with caller.set_task(self.name):
            require_same_version(self.made_by)  # first, because another version may lack what follows
        given = dict(zip((*self.arrays, *self.known), blocks, strict=True))
        if self.numbers is not None:
            given[self.numbers] = self._element_indices(place)
        with caller.set_task(self.name, _describe_place(place), is_part=self.is_part):
            # a list, because Dask would inspect an array
            return [call(self.function, self.positional, self.values | given)]

    def _element_indices(self, place: tuple[tuple[float, ...], ...]) -> np.ndarray:
        """Return the flat indices, in the whole batch of `shape`, of the elements of the block at `place`."""
        whole = np.zeros((1,) * len(place), np.int64)
        for axis, (_, first, last) in enumerate(place):
            own = np.arange(first, last, dtype=np.int64).reshape(-1, *(1,) * (len(place) - 1 - axis))
            whole = whole + own * prod(self.shape[axis + 1 :])
        return whole


def _describe_place(place: tuple[tuple[float, ...], ...]) -> str:
    """Return the end of a message: the chunk and the index at which it begins."""
    if not place:
        return ""
    first = [first for _, first, _ in place]
    from_ = "" if any(map(isnan, first)) else f", which begins at index {tuple(map(int, first))}"
    return f", in chunk {tuple(int(k) for k, _, _ in place)}{from_}"


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


class BlockCalls(NamedTuple):
    """Calls of a function for every block of a loop over leading axes.

    `every` has the lazy results, on the `n_loop` loop axes and, if arrays have core axes, one more of one block;
    `sample` is a result on arrays of size 0.
    """

    name: str
    every: Any
    n_loop: int
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
    known = (known or {}) | _share_large_options(values, {*arrays, *(known or {})})
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
    # One axis stands for all core axes, which are in one block: Dask builds lists of blocks for every axis left out.
    pairs[1::2] = (tuple(min(k, n_loop) for k in own) for own in pairs[1::2])
    sizes = tuple(chunks[k] for k in range(n_loop))
    options = values | dict.fromkeys([*arrays, *known])
    if options.get("num_threads") is None and _takes_threads(function):
        options["num_threads"] = 1
    shape = tuple(map(sum, sizes)) if numbers else ()
    block = Block(function, name, positional, options, tuple(arrays), tuple(known), numbers, shape, is_part)
    first = chain.from_iterable((value, None) for value, _ in known.values())
    # The result keeps that axis, because Dask fuses no inputs into a task that contracts axes.
    axes = tuple(range(min(next(fresh), n_loop + 1)))
    every = da.blockwise(
        block, axes, Places(sizes), axes[:n_loop], *pairs, *first,
        token=name, dtype=object, meta=np.empty((0,) * len(axes), object), align_arrays=False, concatenate=None,
    )  # fmt: skip
    return BlockCalls(name, every, n_loop, sample)


def _share_large_options(values: dict[str, Any], others: set[str]) -> dict[str, tuple[Any, Any]]:
    """Return the options that take many bytes, but `others`: a Delayed of each for all tasks, and the option itself.

    In every task, a list of a thousand names would make gigabytes of a graph of many chunks.
    """
    shared = {}
    for name, value in values.items():
        if name not in others and not isinstance(value, SMALL) and len(dumps(value)) > MOST_OPTION_BYTES:
            key = f"{name}-{tokenize(value)}"
            layer = MaterializedLayer({key: DataNode(key, value)})
            shared[name] = Delayed(key, HighLevelGraph({key: layer}, {key: set()}), layer=key), value
    return shared


def _takes_threads(function: Callable[..., Any]) -> bool:
    """Whether a function has the option ``num_threads=``."""
    parameters = signature(function).parameters
    return "num_threads" in parameters or any(x.kind is Parameter.VAR_KEYWORD for x in parameters.values())


def _select_lazy(values: dict[str, Any], cores: dict[str, int]) -> dict[str, Any]:
    """Return the arrays by name; raise for arrays of other libraries, lazy options, Generators and progress bars."""
    arrays = {name: x for name, x in values.items() if name in cores and x is not None}
    if not all(map(are_lazy, arrays.values())):
        dispatch.refuse_libraries(arrays)
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


def _split_results(found: BlockCalls, n_batch: int = 1) -> Any:
    """Return the results of block tasks, each array as one Dask array; the sample result has `n_batch` batch axes."""
    lazy = (_result_array(found, k, leaf, leaf.shape[n_batch:]) for k, leaf in enumerate(iterate_arrays(found.sample)))
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


def _result_array(found: BlockCalls, k: int, leaf: Any, core: tuple[int, ...]) -> Any:
    """Return result number `k` of all blocks as a Dask array with dtype of `leaf` and shape `core` after the batch."""
    loop, axes = tuple(range(found.n_loop)), tuple(range(found.every.ndim))
    sizes = {len(loop) + axis: n for axis, n in enumerate(core)}
    own = tuple(sizes)
    is_kept = bool(core) and len(loop) in axes  # the first core axis of the result, instead of that of the calls
    options: dict[str, Any] = {"adjust_chunks": {len(loop): sizes.pop(len(loop))}} if is_kept else {}
    meta = np.empty_like(leaf, shape=(0,) * (len(loop) + len(core)))
    # literals would be substituted in every task
    take = partial(_take_result, k=k, depth=0 if is_kept else len(axes) - len(loop))
    array = da.blockwise(take, (*loop, *own), found.every, axes, new_axes=sizes, meta=meta, token=found.name, **options)
    layers = dict(array.dask.layers)
    layers[array.name] = ResultLayer(layers[array.name], partial(take, depth=0), found)
    return type(array)(HighLevelGraph(layers, array.dask.dependencies), array.name, array.chunks, meta=meta)


class ResultLayer(Blockwise):  # type: ignore[misc]
    """Layer of one array of the results of all blocks: a task per block, unless Dask fuses it with the layer of calls.

    Where several arrays are computed, it is not fused. Dask would then make each task by substitution in a template,
    which takes longer than all else that it does with them, so the tasks are made here.
    """

    def __init__(self, layer: Any, take: Callable[[list[Any]], Any], found: BlockCalls) -> None:
        super().__init__(
            layer.output, layer.output_indices, layer.task, layer.indices, layer.numblocks,
            layer.concatenate, layer.new_axes, annotations=layer.annotations,
        )  # fmt: skip
        self.take, self.source, self.n_loop = take, found.every.name, found.n_loop
        self.after_loop = (0,) * (found.every.ndim - found.n_loop)

    def cull(self, keys: set[Any], all_hlg_keys: Any) -> tuple[Any, dict[Any, Any]]:
        """Return the layer of the tasks of `keys`, and the keys that each task needs."""
        del all_hlg_keys
        tasks = {
            key: Task(key, self.take, TaskRef((self.source, *key[1 : self.n_loop + 1], *self.after_loop)))
            for key in keys
            if key[0] == self.output
        }
        return MaterializedLayer(tasks, self.annotations), {key: task.dependencies for key, task in tasks.items()}


def _take_result(found: list[Any], k: int, depth: int) -> Any:
    """Return array number `k` of a task's result, which is in `depth` lists more than the task's own."""
    for _ in range(depth + 1):
        (found,) = found
    return list(iterate_arrays(found))[k]


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
    return merge_blocks(function, _sum_results, None, arrays, n_samples, cores, **values)


def merge_blocks(
    function: Callable[..., Any],
    merge: Callable[[list[Any]], Any],
    finish: Callable[[Any], Any] | None,
    arrays: dict[str, Any],
    n_samples: int | None,
    cores: dict[str, int] | None = None,
    **values: Any,
) -> Any:
    """Merge the results of `function` over all chunks, and return the arrays that `finish` makes of them.

    All else as for :func:`sum_blocks`.
    """
    cores = cores or dict.fromkeys(arrays, 0)
    loops = {name: x.shape[: x.ndim - cores[name]] for name, x in _select_lazy(arrays, cores).items()}
    _check_samples({name: loop[-(n_samples or len(loop)) :] for name, loop in loops.items()})
    found = make_block_tasks(function, (), arrays | values, cores, _make_no_samples, is_part=True)
    n_batch = 0 if n_samples is None else found.n_loop - n_samples
    every, sample = _merge_blocks(found, merge, n_batch), found.sample
    if finish is not None:
        loop, sample = tuple(range(n_batch)), finish(sample)
        step = partial(_finish_block, finish, found.name)
        every = da.blockwise(
            step, loop, Places(every.chunks), loop, every, loop,
            token=found.name, dtype=object, meta=every._meta, align_arrays=False,
        )  # fmt: skip
    return _split_results(found._replace(every=every, n_loop=n_batch, sample=sample), n_batch)


def _finish_block(
    finish: Callable[[Any], Any], name: str, place: tuple[tuple[float, ...], ...], found: list[Any]
) -> list[Any]:
    """Return the result of `finish` for the merged result at an index of the batch, in a list."""
    with caller.set_task(name, _describe_place(place)):
        return [finish(*found)]


def _check_samples(sizes: dict[str, tuple[float, ...]]) -> None:
    """Validate that all arrays have the same sample sizes, as far as known; broadcasting would repeat samples."""
    first = next(iter(sizes.values()))
    for name, size in sizes.items():
        if len(size) != len(first) or any(n != m for n, m in zip(size, first, strict=True) if not isnan(n + m)):
            wanted, given = (" x ".join(map(str, some)) for some in (first, size))
            validate.refuse(name, f"of {wanted} samples as {next(iter(sizes))}", given)


def _sum_results(parts: list[Any]) -> Any:
    """Add up results of blocks, array by array; of int8 statuses take the maximum."""
    return replace_arrays(parts[0], map(add_arrays, zip(*map(iterate_arrays, parts), strict=True)))


def add_arrays(arrays: Iterable[Any]) -> Any:
    """Add up arrays of integers; take the maximum of int8 statuses."""
    x = np.stack(list(arrays))
    return (_take_largest if x.dtype == np.int8 else _sum_integers)(x, axis=0, keepdims=False)


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
    with COLLECTION_PAUSE:
        found = _call_parts(function, arrays, cores, values, known or {})
        (merged,) = _delay_results(_merge_blocks(found, merge, 0), known or {})
    return merged


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
    with COLLECTION_PAUSE:
        found = _call_parts(function, arrays, cores, values, known or {})
        return _delay_results(_merge_blocks(found, merge, 0, n), known or {})


class CollectionPause:
    """Context without the search for reference cycles, which among the objects of a large graph takes half of the time.

    It holds for all threads until the last one in it leaves. It sets thresholds, so that ``gc.disable`` and
    ``gc.enable`` of other threads, meanwhile, keep their effect.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._n_inside = 0
        self._thresholds = gc.get_threshold()

    def __enter__(self) -> None:
        with self._lock:
            if not self._n_inside:
                self._thresholds = gc.get_threshold()
                gc.set_threshold(0)
            self._n_inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._n_inside -= 1
            if not self._n_inside:
                gc.set_threshold(*self._thresholds)


COLLECTION_PAUSE = CollectionPause()


def _delay_results(merged: Any, known: dict[str, tuple[Any, Any]]) -> list[Any]:
    """Return the elements of an array of merged results as a list of Delayed.

    The graphs of `known` values are left as they are: those of earlier passes have been optimised already.
    """
    earlier = [value for value, _ in known.values()]
    done = {layer for value in earlier for layer in value.dask.layers}
    layers = {layer: tasks for layer, tasks in merged.dask.layers.items() if layer not in done}
    graph = HighLevelGraph(layers, {layer: merged.dask.dependencies[layer] - done for layer in layers})
    keys = [(merged.name, *place) for place in product(*map(range, merged.numblocks))]
    tasks = dict(da.optimize(graph, keys))
    name, unwrap = f"{merged.name}-delayed", WorkerTask(_unwrap_single)
    made = [(name, k) for k in range(len(keys))]
    tasks |= {own: Task(own, unwrap, TaskRef(key)) for own, key in zip(made, keys, strict=True)}
    graph = HighLevelGraph.from_collections(name, tasks, dependencies=earlier)
    return [Delayed(key, graph, layer=name) for key in made]


def _call_parts(
    function: Callable[..., Any],
    arrays: dict[str, Any],
    cores: dict[str, int],
    values: dict[str, Any],
    known: dict[str, tuple[Any, Any]],
) -> BlockCalls:
    """Return the calls of `function` for all parts of the points."""
    _check_samples({name: x.shape[:1] for name, x in _select_lazy(arrays, cores).items()})
    return make_block_tasks(function, (), arrays | values, cores, _make_no_samples, known=known, is_part=True)


def _merge_blocks(
    found: BlockCalls, merge: Callable[[list[Any]], Any], n_batch: int, n_shards: int | None = None
) -> Any:
    """Merge the results of all blocks with the same place in the first `n_batch` axes; return an array of results.

    All tasks are in one layer of the graph. With `n_shards` every block has a list of so many results; the first are
    merged, the second, and so on, and these are the blocks of the array.
    """
    every = found.every
    name = f"{found.name}-merge-{tokenize(merge, every.name, n_batch, n_shards)}"
    step, take = WorkerTask(partial(_merge_lists, merge, found.name)), WorkerTask(_take_shard)
    tasks: dict[Any, Any] = {}
    for batch in product(*map(range, every.numblocks[:n_batch])):
        places = product(*map(range, every.numblocks[n_batch:]))
        parts = [(every.name, *batch, *place) for place in places]
        if n_shards is None:
            _add_tree(tasks, step, parts, (name, *batch))
        for shard in range(n_shards or 0):
            taken = [(name, "part", shard, k) for k in range(len(parts))]
            tasks |= {key: Task(key, take, TaskRef(part), shard) for key, part in zip(taken, parts, strict=True)}
            _add_tree(tasks, step, taken, (name, shard))
    chunks = every.chunks[:n_batch] if n_shards is None else ((1,) * n_shards,)
    graph = HighLevelGraph.from_collections(name, tasks, dependencies=[every])
    array: Any = da.Array
    return array(graph, name, chunks, meta=np.empty((0,) * len(chunks), object))


def merge_tree(merge: Callable[[list[Any]], Any], parts: list[Any]) -> Any:
    """Merge a list of Delayed by a reduction tree of fan-in MERGED_STATES; return a Delayed."""
    name = caller.name()
    key = f"{name}-merge-{tokenize(merge, name, [part.key for part in parts])}"
    tasks: dict[Any, Any] = {}
    _add_tree(tasks, WorkerTask(partial(_merge_values, merge, name)), [part.key for part in parts], (key,))
    return Delayed((key,), HighLevelGraph.from_collections(key, tasks, dependencies=parts), layer=key)


def merge_partitions(function: Callable[..., Any], merge: Callable[[list[Any]], Any], frame: Any, *args: Any) -> Any:
    """Merge the results of ``function(partition, k, *args)`` on all partitions of a Dask DataFrame in a tree.

    A partition is read, or taken out of the graph, by the task that calls the function.
    """
    with COLLECTION_PAUSE:
        parts, name = frame.to_delayed(), caller.name()
        layer = f"{name}-{tokenize(function, name, [part.key for part in parts], args)}"
        step = WorkerTask(partial(_call_partition, function, args))
        tasks: dict[Any, Any] = {
            (layer, k): Task((layer, k), step, TaskRef(part.key), k) for k, part in enumerate(parts)
        }
        # one graph for all partitions, which Dask would merge again and again
        graphs = {id(part.dask): part for part in parts}
        graph = HighLevelGraph.from_collections(layer, tasks, dependencies=list(graphs.values()))
        merged = merge_tree(merge, [Delayed(key, graph, layer=layer) for key in tasks])
        tasks = dict(da.optimize(merged.dask, [merged.key]))
        return Delayed(merged.key, HighLevelGraph.from_collections(merged.key, tasks, dependencies=()))


def _call_partition(function: Callable[..., Any], args: tuple[Any, ...], part: Any, k: int) -> Any:
    """Call a function with a partition, its number and arguments."""
    return function(part, k, *args)


def _add_tree(tasks: dict[Any, Any], step: Any, parts: list[Any], root: tuple[Any, ...]) -> None:
    """Add tasks that apply `step` to lists of at most MERGED_STATES parts until one is left, with the key `root`."""
    level = 0
    while len(parts) > MERGED_STATES:
        groups = [parts[k : k + MERGED_STATES] for k in range(0, len(parts), MERGED_STATES)]
        parts, level = [(*root, level, k) for k in range(len(groups))], level + 1
        tasks |= {key: _make_task(key, step, group) for key, group in zip(parts, groups, strict=True)}
    tasks[root] = _make_task(root, step, parts)


def _make_task(key: Any, step: Callable[[list[Any]], Any], parts: list[Any]) -> Any:
    """Return the task that applies `step` to the list of the results with the keys `parts`."""
    return Task(key, step, List(*map(TaskRef, parts)))


def _merge_lists(merge: Callable[[list[Any]], Any], name: str, parts: list[list[Any]]) -> list[Any]:
    """Merge the elements of one-element lists under the public function's name, for messages."""
    return [_merge_values(merge, name, [part for (part,) in parts])]


def _merge_values(merge: Callable[[list[Any]], Any], name: str, parts: list[Any]) -> Any:
    """Merge values under the public function's name, for messages."""
    with caller.set_task(name):
        return merge(parts) if len(parts) > 1 else parts[0]


def _unwrap_single(found: list[Any]) -> Any:
    """Return the element of a one-element list."""
    return found[0]


def _take_shard(found: list[list[Any]], k: int) -> Any:
    """Return element `k` of the only result of a part, in a list."""
    return [found[0][k]]


@dataclass(frozen=True)
class _Later:
    """Stands for the argument of a delayed call that is not computed yet, by its number among these."""

    number: int


def call_delayed(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Return a Delayed of a call whose arguments may be or hold Delayed and Dask arrays, keyed by the public name."""
    name = caller.name() or caller.public_name(function)
    key = f"{name}-{tokenize(function, name, args, options)}"
    later: list[Any] = []

    def set_aside(value: Any) -> Any:
        """Keep a lazy argument for later, and return its number."""
        if not isinstance(value, Delayed | da.Array):
            return value
        later.append(value)
        return _Later(len(later) - 1)

    step = WorkerTask(partial(_run_named_task, function, name, _map_leaves(set_aside, (args, options))))
    later = _delay_arrays(later)
    # Dask's own calls would walk through the graphs of all arguments, for every call.
    tasks: dict[Any, Any] = {key: _make_task(key, step, [each.key for each in later])}
    return Delayed(key, HighLevelGraph.from_collections(key, tasks, dependencies=later))


def _delay_arrays(values: list[Any]) -> list[Any]:
    """Return Delayed values with each Dask array among them replaced by a Delayed of the whole array.

    Arrays of one block, as merged results are, are optimised together, because they share all tasks but the last.
    """
    keys = {
        k: (x.name, *(0,) * x.ndim) for k, x in enumerate(values) if isinstance(x, da.Array) and set(x.numblocks) <= {1}
    }
    if keys:
        tasks = da.optimize(HighLevelGraph.merge(*(values[k].dask for k in keys)), list(keys.values()))
        layer = f"delayed-{tokenize(*keys.values())}"
        graph = HighLevelGraph.from_collections(layer, tasks, dependencies=())
        values = [Delayed(keys[k], graph, layer=layer) if k in keys else x for k, x in enumerate(values)]
    return [x if isinstance(x, Delayed) else delayed(x) for x in values]


def _run_named_task(function: Callable[..., Any], name: str, given: tuple[Any, Any], later: list[Any]) -> Any:
    """Call `function` with arguments and options under the public function's name, for messages."""
    args, options = _map_leaves(lambda x: later[x.number] if isinstance(x, _Later) else x, given)
    with caller.set_task(name):
        return function(*args, **options)


def _map_leaves(change: Callable[[Any], Any], value: Any) -> Any:
    """Apply a function to a value, or to the elements of nested lists, tuples and dicts."""
    if isinstance(value, dict):
        return {key: _map_leaves(change, each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        parts = [_map_leaves(change, each) for each in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return change(value)


def recompute_after(arrays: dict[str, Any], after: Any) -> dict[str, Any]:
    """Return Dask arrays that are computed again after `after`, so that no chunk stays in memory until then."""
    given = [x for x in arrays.values() if x is not None]
    found = iter(bind(given, after, seed=tokenize(after)))
    return {name: None if x is None else next(found) for name, x in arrays.items()}


def iterate_arrays(found: Any) -> Iterator[Any]:
    """Yield the arrays of a nested result, in the order that :func:`replace_arrays` uses."""
    if hasattr(found, "shape"):
        yield found
    elif isinstance(found, Mapping | tuple | list):
        for part in found.values() if isinstance(found, Mapping) else found:
            yield from iterate_arrays(part)


def replace_arrays(found: Any, arrays: Iterator[Any]) -> Any:
    """Rebuild a nested result with its arrays replaced by those of an iterator."""
    if hasattr(found, "shape"):
        return next(arrays)
    if isinstance(found, Mapping):
        named = {key: replace_arrays(part, arrays) for key, part in found.items()}
        return replace(found, _found=named) if isinstance(found, ResultsByName) else named
    if isinstance(found, tuple | list):
        parts = [replace_arrays(part, arrays) for part in found]
        return type(found)(*parts) if hasattr(found, "_fields") else type(found)(parts)
    return found
