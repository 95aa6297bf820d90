"""Gradients of tensors: one function of autograd for every op that the table says has one.

Nothing is recorded where no tensor requires a gradient. What is kept for the way back are inputs and results, which the
caller has anyway; the way back is an op itself, and has no gradient of its own.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch  # noqa: TID251

from cmfast._core import caller
from cmfast.kernels.ops import OPS
from cmfast.kernels.shared.metrics import Over, Step
from cmfast.kernels.status import Status

Run = Callable[[str, tuple[Any, ...], dict[str, Any]], Any]


def explain_refusal(x: Any, op: str | None) -> str | None:
    """Return why the gradient that `x` requires is not propagated by `op`, or by what is no op; None where it is."""
    gradient = None if op is None else OPS[op].gradient
    if gradient is None:
        return "requires gradients, which cmfast does not propagate"
    if x.device.type not in {"cpu", *OPS[gradient].targets}:
        return f"requires gradients, which cmfast does not propagate on {x.device.type}"
    return None


def needs_gradient(arrays: tuple[Any, ...], options: dict[str, Any]) -> bool:
    """Return whether what is computed of the arrays is to be recorded; refuse what has no gradient."""
    if not (torch.is_grad_enabled() and any(array is not None and array.requires_grad for array in arrays)):
        return False
    if options.get("smoothing") == "pseudo-bayes":
        msg = "smoothing='pseudo-bayes' has no gradient: its weight is a function of the data; give a number"
        raise TypeError(caller.prefix_name(msg))
    plan = options.get("plan")
    if plan is not None and arrays[0].device.type != "cpu" and _needs_cpu(plan):
        msg = "M requires gradients, of which a GPU has those of v=1.0 and normalize=False alone; give M.cpu()"
        raise TypeError(caller.prefix_name(msg))
    return True


def _needs_cpu(plan: Any) -> bool:
    """Whether a step is a weighted tau that was normalised, or has a factor."""
    return any(
        kind == Step.REDUCE and (code == Over.TAU_NORMALIZED or (code == Over.TAU_WEIGHTED and parameter != 1.0))
        for (kind, code), (_, parameter) in zip(plan.steps[:, :2].tolist(), plan.params.tolist(), strict=True)
    )


def call_with_gradient(run: Run, op: str, arrays: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Run the op so that gradients find their way back."""
    function: Any = _OpWithGradient
    out = function.apply(run, op, options, *arrays)
    return out[0] if len(out) == 1 else out


class _OpWithGradient(torch.autograd.Function):  # type: ignore[misc]  # torch is not looked at
    """An op, and its way back."""

    @staticmethod
    def forward(run: Run, op: str, options: dict[str, Any], *arrays: Any) -> Any:
        """Run the op."""
        out = run(op, arrays, options)
        return out if isinstance(out, tuple) else (out,)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Keep what the way back needs."""
        run, op, options, *arrays = inputs
        kept = SAVED_RESULTS.get(op, ())
        ctx.call = _Call(run, op, options, len(arrays))
        ctx.save_for_backward(*arrays, *(output[k] for k in kept))
        numbers = DIFFERENTIABLE.get(op)
        if numbers is not None:
            ctx.mark_non_differentiable(*output[numbers:])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Return the gradients in the arrays of the op."""
        known: _Call = ctx.call
        saved = ctx.saved_tensors  # once: a checkpoint computes them again when they are asked for
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
        """Refuse: under a transform within, the adapter does not see that it is one of many."""
        del info, in_dims
        msg = f"{given[1]}: inside torch.vmap, which shows one matrix of many; give cmfast the whole batch instead"
        raise TypeError(msg)


class _Backward(torch.autograd.Function):  # type: ignore[misc]
    """The way back, which has none, and says so to whoever asks for it."""

    @staticmethod
    def forward(known: "_Call", places: tuple[int, ...], *tensors: Any) -> Any:
        """Return the gradients in the arrays at these places."""
        n = len(tensors) - known.arrays - len(SAVED_RESULTS.get(known.op, ()))
        grads, arrays, kept = tensors[:n], tensors[n : n + known.arrays], tensors[n + known.arrays :]
        needed = [k in places for k in range(known.arrays)]
        found = BACKWARDS[known.op](known, arrays, kept, grads, needed)
        return tuple(_match_array(found[place], arrays[place]) for place in places)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Keep the name of the op."""
        del output
        ctx.op = inputs[0].op

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Refuse."""
        del grads
        msg = f"{ctx.op}: cmfast has gradients, but no gradients of gradients"
        raise NotImplementedError(msg)

    @staticmethod
    def vmap(info: Any, in_dims: Any, *given: Any) -> Any:
        """Refuse, as the way forth does."""
        del info, in_dims
        msg = f"{given[0].op}: its way back is inside torch.vmap; torch.autograd.functional.jacobian does without"
        raise TypeError(msg)


def _match_array(grad: Any, array: Any) -> Any:
    """Return a gradient in the shape and the type of its array, which may have been shared by a batch."""
    return torch.zeros_like(array) if grad is None else grad.sum_to_size(array.shape).to(array.dtype)


class _Call(NamedTuple):
    """What was called."""

    run: Run
    op: str
    options: dict[str, Any]
    arrays: int

    def gradient(self, *arrays: Any, **options: Any) -> Any:
        """Run the op that the table names, on as many threads as the op itself."""
        op: Any = OPS[self.op].gradient
        return self.run(op, arrays, {**options, "num_threads": self.options.get("num_threads")})

    def of_scaling(self, *arrays: Any, targets: bool) -> Any:
        """Run that of scaling, as near to it as the result is."""
        return self.gradient(*arrays, targets=targets, tol=self.options.get("tol", 0.0))


def _ipf_backward(known: _Call, arrays: Any, kept: Any, grads: Any, needed: Any) -> Any:
    matrix, *factors, status, smoothing = kept
    targets = bool(needed[1] or needed[2])
    given = (arrays[0], *grads[:3], *factors, matrix, status, smoothing)
    found = known.of_scaling(*given, targets=targets)
    return (*(found if targets else (*found, None, None)), None, None)


def _ras_backward(known: _Call, arrays: Any, kept: Any, grads: Any, needed: Any) -> Any:
    *factors, status, smoothing = kept
    targets = bool(needed[1] or needed[2])
    given = (arrays[0], None, *grads[:2], *factors, None, status, smoothing)
    idle = status == int(Status.LIMIT_ONLY)  # no factors: nothing may have been made of them
    for grad in grads[:2]:
        if grad is not None:
            idle = idle & (grad == 0.0).all(-1)
    found = [part.masked_fill(idle.reshape(idle.shape + (1,) * (part.ndim - idle.ndim)), 0.0)
             for part in known.of_scaling(*given, targets=targets)]  # fmt: skip
    return (*(found if targets else (*found, None, None)), None, None)


def _logits_backward(known: _Call, arrays: Any, kept: Any, grads: Any, needed: Any) -> Any:
    """Return the gradients by those in the cells of the scaled matrix, whose own factors are ones.

    A line with a target of zero has no cells there: its own are taken, near one.
    """
    matrix, row, col, status = kept
    targets = bool(needed[1] or needed[2])
    cells, no_row, no_col = matrix, row == -math.inf, col == -math.inf
    if targets and bool((no_row.any() | no_col.any()).item()):
        L, there = arrays[0].double(), no_row[..., :, None] | no_col[..., None, :]
        row, col = row.masked_fill(no_row, 0.0), col.masked_fill(no_col, 0.0)
        row = row - torch.where(no_row, (L + col[..., None, :]).amax(-1), 0.0)
        col = col - torch.where(no_col, (L + row[..., :, None]).amax(-2), 0.0)
        cells = torch.where(there, (L + row[..., :, None] + col[..., None, :]).exp(), matrix.double())
    factors = (~no_row).double(), (~no_col).double()
    nothing = torch.zeros_like(status, dtype=torch.float64)
    found = known.of_scaling(cells, *grads[:3], *factors, matrix, status, nothing, targets=targets)
    return (found[0] * cells, *(found[1:] if targets else (None, None)))


def _comparison_backward(known: _Call, arrays: Any, kept: Any, grads: Any, needed: Any) -> Any:
    del kept, needed
    return known.gradient(*arrays, grads[0], of=known.op)


def _normalize_backward(known: _Call, arrays: Any, kept: Any, grads: Any, needed: Any) -> Any:
    del kept, needed
    return (known.gradient(arrays[0], grads[0], method=known.options["method"]),)


def _weights_backward(known: _Call, arrays: Any, kept: Any, grads: Any, needed: Any) -> Any:
    del kept, needed
    method, (M, row, col, _), G = known.options["method"], arrays, grads[0]
    if method != "bi":
        return known.gradient(M, G, method=method, of_weights=True), None, None, None
    G = G.double()
    there = G != 0.0  # elsewhere nothing was made of the weights, which may be NaN
    zero = G.new_zeros(())
    of_row = torch.where(there, G * col[..., None, :], zero).sum(-1)
    of_col = torch.where(there, G * row[..., :, None], zero).sum(-2)
    return None, of_row, of_col, None


def _metrics_backward(known: _Call, arrays: Any, kept: Any, grads: Any, needed: Any) -> Any:
    del kept, needed
    (M,), plan = arrays, known.options["plan"]
    batch, C = M.shape[:-2], M.shape[-1]
    scalars = _stack_gradients(grads[: plan.scalars], batch, -1, M)
    tables = _stack_gradients(grads[plan.scalars : plan.scalars + plan.tables], (*batch, C), -2, M)
    return (known.gradient(M, scalars, tables, plan=plan),)


def _stack_gradients(grads: Any, shape: Any, axis: int, like: Any) -> Any:
    """Return gradients side by side in one tensor of float64, zeros where there are none."""
    zeros = torch.zeros(shape, dtype=torch.float64, device=like.device)
    if not grads:
        return zeros.unsqueeze(axis).narrow(axis, 0, 0)
    return torch.stack([zeros if grad is None else grad.double() for grad in grads], axis)


BACKWARDS: dict[str, Callable[..., Any]] = {
    "ipf": _ipf_backward,
    "ras": _ras_backward,
    "ipf_of_logits": _logits_backward,
    "overlap": _comparison_backward,
    "l1_distance": _comparison_backward,
    "kl_divergence": _comparison_backward,
    "normalize": _normalize_backward,
    "importance_weights": _weights_backward,
    "metrics_of_matrices": _metrics_backward,
}
SAVED_RESULTS = {"ipf": (0, 1, 2, 5, 6), "ras": (0, 1, 4, 5), "ipf_of_logits": (0, 1, 2, 5)}  # results by their places
DIFFERENTIABLE = {
    "ipf": 3,
    "ras": 2,
    "ipf_of_logits": 3,
}  # the first results of those that have others, which are not integers
