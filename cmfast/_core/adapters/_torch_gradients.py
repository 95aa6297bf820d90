"""Gradients of tensors: an autograd function for every op whose table entry names a gradient op.

Autograd records a call only if a tensor requires a gradient. The saved tensors are inputs and results, which the caller
keeps anyway. The backward pass is itself an op and has no gradient of its own.
"""

from typing import Any

import torch  # noqa: TID251

from cmfast._core import caller
from cmfast._core.adapters._gradient_rules import (
    BACKWARDS,
    DIFFERENTIABLE,
    SAVED_RESULTS,
    RecordedCall,
    Run,
    refuse_options,
)
from cmfast.kernels.ops import OPS
from cmfast.kernels.shared.metrics import Over, Step


def explain_refusal(x: Any, op: str | None) -> str | None:
    """Return why `op` (None: not an op) does not propagate the gradient that `x` requires; None if it does."""
    gradient = None if op is None else OPS[op].gradient
    if gradient is None:
        return "requires gradients, which cmfast does not propagate"
    if x.device.type not in {"cpu", *OPS[gradient].targets}:
        return f"requires gradients, which cmfast does not propagate on {x.device.type}"
    return None


def needs_gradient(arrays: tuple[Any, ...], options: dict[str, Any]) -> bool:
    """Whether autograd must record this call; raise TypeError for options without a gradient."""
    if not (torch.is_grad_enabled() and any(array is not None and array.requires_grad for array in arrays)):
        return False
    refuse_options(options)
    plan = options.get("plan")
    if plan is not None and arrays[0].device.type != "cpu" and _needs_cpu(plan):
        msg = "M requires gradients, of which a GPU has those of v=1.0 and normalize=False alone; give M.cpu()"
        raise TypeError(caller.prefix_name(msg))
    return True


def _needs_cpu(plan: Any) -> bool:
    """Whether a step of the plan has no CUDA gradient: a normalised tau, or a weighted tau with v other than 1."""
    return any(
        kind == Step.REDUCE and (code == Over.TAU_NORMALIZED or (code == Over.TAU_WEIGHTED and parameter != 1.0))
        for (kind, code), (_, parameter) in zip(plan.steps[:, :2].tolist(), plan.params.tolist(), strict=True)
    )


def call_with_gradient(run: Run, op: str, arrays: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Run the op and record it for the backward pass."""
    function: Any = _OpWithGradient
    out = function.apply(run, op, options, *arrays)
    return out[0] if len(out) == 1 else out


class _OpWithGradient(torch.autograd.Function):  # type: ignore[misc]  # torch is untyped for mypy
    """Autograd function of an op: forward and backward pass."""

    @staticmethod
    def forward(run: Run, op: str, options: dict[str, Any], *arrays: Any) -> Any:
        """Run the op."""
        out = run(op, arrays, options)
        return out if isinstance(out, tuple) else (out,)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Save tensors for the backward pass."""
        run, op, options, *arrays = inputs
        kept = SAVED_RESULTS.get(op, ())
        ctx.call = RecordedCall(run, op, options, len(arrays), torch)
        ctx.save_for_backward(*arrays, *(output[k] for k in kept))
        numbers = DIFFERENTIABLE.get(op)
        if numbers is not None:
            ctx.mark_non_differentiable(*output[numbers:])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Return the gradients with respect to the arrays of the op."""
        known: RecordedCall = ctx.call
        saved = ctx.saved_tensors  # read once: activation checkpointing recomputes them on every access
        arrays, kept = saved[: known.arrays], saved[known.arrays :]
        needed = ctx.needs_input_grad[3:]
        places = [k for k, need in enumerate(needed) if need]
        found: list[Any] = [None] * known.arrays
        if any(grad is not None for grad in grads):
            once: Any = _Backward
            made = once.apply(known, tuple(places), *grads, *arrays, *kept)
            for place, one in zip(places, made, strict=True):
                found[place] = one
        return None, None, None, *found

    @staticmethod
    def vmap(info: Any, in_dims: Any, *given: Any) -> Any:
        """Raise TypeError: inside a functorch transform the adapter cannot see that the matrix is one of a batch."""
        del info, in_dims
        msg = f"{given[1]}: inside torch.vmap, which shows one matrix of many; give cmfast the whole batch instead"
        raise TypeError(msg)


class _Backward(torch.autograd.Function):  # type: ignore[misc]
    """Backward pass as an autograd function of its own, which raises if it is differentiated again."""

    @staticmethod
    def forward(known: RecordedCall, places: tuple[int, ...], *tensors: Any) -> Any:
        """Return the gradients with respect to the arrays at these positions."""
        n = len(tensors) - known.arrays - len(SAVED_RESULTS.get(known.op, ()))
        grads, arrays, kept = tensors[:n], tensors[n : n + known.arrays], tensors[n + known.arrays :]
        needed = [k in places for k in range(known.arrays)]
        found = BACKWARDS[known.op](known, arrays, kept, grads, needed)
        return tuple(_match_array(found[place], arrays[place]) for place in places)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Save the name of the op."""
        del output
        ctx.op = inputs[0].op

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Raise NotImplementedError: there are no second derivatives."""
        del grads
        msg = f"{ctx.op}: cmfast has gradients, but no gradients of gradients"
        raise NotImplementedError(msg)

    @staticmethod
    def vmap(info: Any, in_dims: Any, *given: Any) -> Any:
        """Raise TypeError, as the forward pass does."""
        del info, in_dims
        msg = f"{given[0].op}: its backward pass is inside torch.vmap; torch.autograd.functional.jacobian does without"
        raise TypeError(msg)


def _match_array(grad: Any, array: Any) -> Any:
    """Sum a gradient over broadcast axes to the shape of its array and cast it to its dtype; zeros for None."""
    return torch.zeros_like(array) if grad is None else grad.sum_to_size(array.shape).to(array.dtype)
