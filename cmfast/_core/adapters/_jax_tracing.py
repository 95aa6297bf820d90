"""Run ops inside JAX's transformations: a callback for jit and vmap, a custom_vjp for gradients.

A callback needs the shapes of its results before there are values: they come from a run on an
empty batch. All transformations end in the same kernels on the host, so that
results have the bits of a call with values.
"""

from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax  # noqa: TID251
import numpy as np
from jax import custom_batching  # noqa: TID251
from jax import numpy as jnp  # noqa: TID251
from jax.core import Tracer  # noqa: TID251

from cmfast._core import caller
from cmfast._core.adapters import read_only
from cmfast._core.adapters._gradient_rules import (
    BACKWARDS,
    DIFFERENTIABLE,
    SAVED_RESULTS,
    RecordedCall,
    Run,
    refuse_options,
)
from cmfast._core.kernel_lookup import get_kernel
from cmfast.kernels.loading import load
from cmfast.kernels.ops import OPS

UNKNOWN_VALUES = (
    "needs values, which jax.jit, vmap and grad do not show while they trace; call it outside of them (in jax.grad on "
    "jax.lax.stop_gradient of the array), or give what makes the shape of the result known, as n_classes does"
)
# Ops whose leading axes are a batch, so that vmap adds one, and whose results have shapes that follow from those of
# their arrays and from options.
TRACEABLE = frozenset(
    {
        "confusion_matrix",
        "label_margins",
        "overlap",
        "l1_distance",
        "kl_divergence",
        "normalize",
        "importance_weights",
        "ipf",
        "ras",
        "ipf_of_logits",
        "margins",
        "metrics_of_matrices",
        "metrics_of_sums",
        "weighted_kappa",
        "one_vs_rest",
        "confusion_fractions",
    }
)


LABEL_OPS = frozenset({"confusion_matrix", "label_margins"})  # their last result tells of labels outside the classes


def is_traced(x: Any) -> bool:
    """Whether `x` is a tracer, which stands for an array inside a transformation."""
    return isinstance(x, Tracer)


def find_values(x: Any, *, ignore_gradient: bool = False) -> Any:
    """Return the array of the tracer `x`, or `x` if it is an array; None if it is unknown or has a gradient.

    Eager ``jax.grad`` knows values, and integers have no gradient.
    """
    if is_traced(x) and (ignore_gradient or x.dtype.kind not in "fc"):
        x = jax.lax.stop_gradient(x)
    return None if is_traced(x) else x


def call(run: Run, op: str, arrays: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Run an op with a tracer among its arrays; record it for gradients, if it has one."""
    if op not in TRACEABLE or _needs_labels(op, arrays, options):
        raise TypeError(caller.prefix_name(UNKNOWN_VALUES))
    name = caller.name()

    def forward(*arrays: Any) -> Any:
        """Run the op by a callback, or on memory where eager ``jax.grad`` knows all values."""
        traced = any(is_traced(x) for x in arrays)
        if traced:
            return _run_by_callback(op, arrays, options, name)
        return _refuse_outside(op, run(op, arrays, options), options)

    def forward_and_save(*primals: Any) -> Any:
        """Run the op; return what the backward pass needs, too. Primals are None, or have a value and `perturbed`."""
        given = tuple(None if p is None else p.value for p in primals)
        if OPS[op].gradient is None:
            what = "got an array whose gradient is requested, which it does not have; give jax.lax.stop_gradient of it"
            raise TypeError(_prefix(name, what))
        with caller.set_task(name):
            refuse_options(options)
        out = recorded(*given)  # not forward: a derivative of the derivative has to end in the backward pass
        parts = out if isinstance(out, tuple) else (out,)
        kept = tuple(parts[k] for k in SAVED_RESULTS.get(op, ()))
        return out, (given, kept, Needed(tuple(p is not None and bool(p.perturbed) for p in primals)))

    def backward(saved: Any, grads: Any) -> Any:
        """Return the gradients with respect to the arrays."""
        given, kept, needed = saved
        used = tuple(map(_drop_zeros, grads if isinstance(grads, tuple) else (grads,)))[: DIFFERENTIABLE.get(op)]
        known = RecordedCall(_run_kernel, op, options, len(given), np)
        return _refuse_second(partial(_run_backward, known, needed.flags, name), name)(given, kept, used)

    recorded = jax.custom_vjp(forward)
    recorded.defvjp(forward_and_save, backward, symbolic_zeros=True)
    out = recorded(*arrays)
    return (*out, None) if op in LABEL_OPS else out


def call_later(function: Callable[[Any], None], x: Any) -> None:
    """Call `function` with the values of the tracer `x` when they are known; with those of a batch of vmap once."""
    on_host = _enter_context(function, caller.name())

    def later(x: Any) -> Any:
        """Record the call."""
        jax.debug.callback(lambda x: on_host(np.asarray(x)), x)
        return x

    batched = custom_batching.custom_vmap(later)
    batched.def_vmap(lambda _, is_batched, x: (batched(x), is_batched[0]))
    batched(x)


@jax.tree_util.register_static
@dataclass(frozen=True)
class Needed:
    """For each array of a call, whether its gradient is requested; part of a residual that is no array."""

    flags: tuple[bool, ...]


def _needs_labels(op: str, arrays: tuple[Any, ...], options: dict[str, Any]) -> bool:
    """Whether the number of classes or of groups, and so the shape of the result, follows from values."""
    if op not in LABEL_OPS:
        return False
    return (options.get("n_classes") is None and options.get("labels") is None) or (
        arrays[3] is not None and options.get("n_groups") is None
    )


def _refuse_outside(op: str, out: Any, options: dict[str, Any]) -> Any:
    """Return the arrays that an op returned; raise ValueError if it found labels outside the classes."""
    if op not in LABEL_OPS:
        return out
    *parts, outside = out
    labels = load("cmfast._core.labels")
    if op == "label_margins" and outside:
        labels.refuse_outside_pairs(outside, options["n_classes"])
    if op == "confusion_matrix" and outside is not None:
        labels.refuse_outside(*outside)
    return tuple(parts)


def _drop_zeros(grad: Any) -> Any:
    """Return None for the gradient of a result that the loss does not use, or that is an integer."""
    none = isinstance(grad, jax.custom_derivatives.SymbolicZero) or grad.dtype == jax.dtypes.float0
    return None if none else grad


def _prefix(name: str, text: str) -> str:
    """Put the name of a public function in front of a message."""
    return f"{name}: {text}" if name else text


def _run_kernel(op: str, arrays: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Run an op on ndarrays."""
    return get_kernel(op, "cpu")(*(None if x is None else read_only(x) for x in arrays), **options)


def _enter_context(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return `function` with the configuration of now and as part of the public function `name`, in any thread."""
    context = copy_context()

    def call_as_task(*args: Any) -> Any:
        """Call the function, as a task of the public function."""
        with caller.set_task(name):
            return function(*args)

    return lambda *args: context.copy().run(call_as_task, *args)


def _list_core_ranks(op: str, n: int) -> list[int]:
    """Return the number of core axes of the first `n` arrays of an op, by its signature."""
    cores = OPS[op].signature.partition("->")[0].removeprefix("(").removesuffix(")").split("),(")
    ranks = [len(core.split(",")) if core else 0 for core in cores]
    return (ranks + ranks[-1:] * n)[:n]


def _pad_batches(op: str, arrays: tuple[Any, ...]) -> tuple[list[Any], int]:
    """Give all arrays as many batch axes, of length 1, so that an axis of vmap can go in front.

    Returns the arrays and the number of batch axes.
    """
    ranks = _list_core_ranks(op, len(arrays))
    most = max(x.ndim - rank for x, rank in zip(arrays, ranks, strict=True) if x is not None)
    padded = [
        None if x is None else x.reshape((1,) * (most - x.ndim + rank) + x.shape)
        for x, rank in zip(arrays, ranks, strict=True)
    ]
    return padded, most


def _run_by_callback(op: str, arrays: tuple[Any, ...], options: dict[str, Any], name: str) -> Any:
    """Run an op by a callback; the shapes of its results come from a run on an empty batch."""
    padded, n_axes = _pad_batches(op, arrays)
    present = [x is not None for x in padded]

    def run_on_host(*given: Any) -> Any:
        """Run the op on the arrays that are not None; return its arrays."""
        values = iter(given)
        out = _run_kernel(op, tuple(np.asarray(next(values)) if there else None for there in present), options)
        parts = _refuse_outside(op, out, options)
        return tuple(map(np.asarray, parts if isinstance(parts, tuple) else (parts,)))

    batch = np.broadcast_shapes(*(x.shape[:n_axes] for x in padded if x is not None))
    dummies = [
        np.ones((0,) * n_axes + x.shape[n_axes:], np.dtype(x.dtype)) if n_axes else np.zeros(x.shape, np.dtype(x.dtype))
        for x in padded
        if x is not None
    ]
    made = run_on_host(*dummies)
    specs = tuple(jax.ShapeDtypeStruct(batch + part.shape[n_axes:], part.dtype) for part in made)
    out = jax.pure_callback(
        _enter_context(run_on_host, name), specs, *(x for x in padded if x is not None), vmap_method="broadcast_all"
    )
    return tuple(out) if len(out) > 1 else out[0]


def _run_backward(known: RecordedCall, needed: tuple[bool, ...], name: str, given: Any, kept: Any, grads: Any) -> Any:
    """Return the gradients with respect to the arrays `given`, None where none is requested."""
    padded, _ = _pad_batches(known.op, given)
    places = [k for k, need in enumerate(needed) if need]
    leaves, tree = jax.tree_util.tree_flatten((tuple(padded), kept, grads))

    def run_on_host(*leaves: Any) -> Any:
        """Return the requested gradients, each with shape and dtype of its array."""
        arrays, kept, grads = jax.tree_util.tree_unflatten(tree, [np.asarray(x) for x in leaves])
        found = BACKWARDS[known.op](known, arrays, kept, grads, needed)
        return tuple(_match_array(found[k], arrays[k]) for k in places)

    on_host = _enter_context(run_on_host, name)
    if any(is_traced(x) for x in leaves):
        specs = tuple(jax.ShapeDtypeStruct(padded[k].shape, padded[k].dtype) for k in places)
        made = jax.pure_callback(on_host, specs, *leaves, vmap_method="broadcast_all")
    else:
        made = tuple(jnp.asarray(x) for x in on_host(*leaves))
    found: list[Any] = [None] * len(given)
    for k, x in zip(places, made, strict=True):
        found[k] = x.reshape(given[k].shape)
    return tuple(found)


def _match_array(grad: Any, array: np.ndarray) -> np.ndarray:
    """Sum a gradient over broadcast axes to the shape of its array and cast it to its dtype; zeros for None."""
    if grad is None:
        return np.zeros_like(array)
    extra = grad.ndim - array.ndim
    axes = tuple(k for k, n in enumerate(array.shape, extra) if n == 1 != grad.shape[k])
    summed: np.ndarray = np.asarray(grad.sum((*range(extra), *axes), keepdims=True)).reshape(array.shape)
    return summed.astype(array.dtype, copy=False)


def _refuse_second(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a backward pass that raises NotImplementedError if it is differentiated again."""

    def refuse(*primals: Any) -> Any:
        """Raise NotImplementedError."""
        del primals
        raise NotImplementedError(_prefix(name, "cmfast has gradients, but no gradients of gradients"))

    once: Any = jax.custom_vjp(function)
    once.defvjp(refuse, refuse)
    wrapped: Callable[..., Any] = once
    return wrapped
