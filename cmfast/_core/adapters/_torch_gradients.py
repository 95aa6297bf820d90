"""Gradients of tensors: an autograd function for every op whose table entry names a gradient op.

Autograd records a call only if a tensor requires a gradient. The saved tensors are inputs and results, which the caller
keeps anyway. The backward pass is itself an op and has no gradient of its own.
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
    if options.get("smoothing") == "pseudo-bayes":
        msg = "smoothing='pseudo-bayes' has no gradient: its weight is a function of the data; give a number"
        raise TypeError(caller.prefix_name(msg))
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
        ctx.call = _Call(run, op, options, len(arrays))
        ctx.save_for_backward(*arrays, *(output[k] for k in kept))
        numbers = DIFFERENTIABLE.get(op)
        if numbers is not None:
            ctx.mark_non_differentiable(*output[numbers:])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Return the gradients with respect to the arrays of the op."""
        known: _Call = ctx.call
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
    def forward(known: "_Call", places: tuple[int, ...], *tensors: Any) -> Any:
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


class _Call(NamedTuple):
    """Arguments of the recorded op call."""

    run: Run
    op: str
    options: dict[str, Any]
    arrays: int

    def gradient(self, *arrays: Any, **options: Any) -> Any:
        """Run the gradient op of the table, on as many threads as the op itself."""
        op: Any = OPS[self.op].gradient
        return self.run(op, arrays, {**options, "num_threads": self.options.get("num_threads")})

    def scaling_gradient(self, *arrays: Any, targets: bool) -> Any:
        """Run the gradient op of scaling, to the same tolerance as the forward scaling."""
        return self.gradient(*arrays, targets=targets, tol=self.options.get("tol", 0.0))


def _ipf_backward(known: _Call, arrays: Any, kept: Any, grads: Any, needed: Any) -> Any:
    """Return the gradients of ``ipf`` with respect to matrix and targets."""
    matrix, *factors, status, smoothing = kept
    targets = bool(needed[1] or needed[2])
    given = (arrays[0], *grads[:3], *factors, matrix, status, smoothing)
    found = known.scaling_gradient(*given, targets=targets)
    return (*(found if targets else (*found, None, None)), None, None)


def _ras_backward(known: _Call, arrays: Any, kept: Any, grads: Any, needed: Any) -> Any:
    """Return the gradients of ``ras`` with respect to matrix and targets; zero if no factors were computed or used."""
    *factors, status, smoothing = kept
    targets = bool(needed[1] or needed[2])
    given = (arrays[0], None, *grads[:2], *factors, None, status, smoothing)
    idle = status == int(Status.LIMIT_ONLY)  # no factors exist; the loss may not have used them
    for grad in grads[:2]:
        if grad is not None:
            idle = idle & (grad == 0.0).all(-1)
    found = [part.masked_fill(idle.reshape(idle.shape + (1,) * (part.ndim - idle.ndim)), 0.0)
             for part in known.scaling_gradient(*given, targets=targets)]  # fmt: skip
    return (*(found if targets else (*found, None, None)), None, None)


def _logits_backward(known: _Call, arrays: Any, kept: Any, grads: Any, needed: Any) -> Any:
    """Return the gradients of ``ipf_of_logits``, through the cells of the scaled matrix with unit factors.

    A row or column with target 0 has no cells there: its cells are recomputed with a finite factor, so that the largest
    is near one.
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
    found = known.scaling_gradient(cells, *grads[:3], *factors, matrix, status, nothing, targets=targets)
    return (found[0] * cells, *(found[1:] if targets else (None, None)))


def _comparison_backward(known: _Call, arrays: Any, kept: Any, grads: Any, needed: Any) -> Any:
    """Return the gradients of a comparison of two matrices (overlap, L1 distance, KL divergence)."""
    del kept, needed
    return known.gradient(*arrays, grads[0], of=known.op)


def _normalize_backward(known: _Call, arrays: Any, kept: Any, grads: Any, needed: Any) -> Any:
    """Return the gradient of ``normalize`` with respect to the matrix."""
    del kept, needed
    return (known.gradient(arrays[0], grads[0], method=known.options["method"]),)


def _weights_backward(known: _Call, arrays: Any, kept: Any, grads: Any, needed: Any) -> Any:
    """Return the gradients of ``importance_weights`` with respect to the matrix, or to the factors for "bi"."""
    del kept, needed
    method, (M, row, col, _), G = known.options["method"], arrays, grads[0]
    if method != "bi":
        return known.gradient(M, G, method=method, of_weights=True), None, None, None
    G = G.double()
    there = G != 0.0  # where G is 0 the loss does not depend on the weights, which may be NaN
    zero = G.new_zeros(())
    of_row = torch.where(there, G * col[..., None, :], zero).sum(-1)
    of_col = torch.where(there, G * row[..., :, None], zero).sum(-2)
    return None, of_row, of_col, None


def _metrics_backward(known: _Call, arrays: Any, kept: Any, grads: Any, needed: Any) -> Any:
    """Return the gradient of ``metrics_of_matrices`` with respect to the matrices."""
    del kept, needed
    (M,), plan = arrays, known.options["plan"]
    batch, C = M.shape[:-2], M.shape[-1]
    scalars = _stack_gradients(grads[: plan.scalars], batch, -1, M)
    tables = _stack_gradients(grads[plan.scalars : plan.scalars + plan.tables], (*batch, C), -2, M)
    return (known.gradient(M, scalars, tables, plan=plan),)


def _stack_gradients(grads: Any, shape: Any, axis: int, like: Any) -> Any:
    """Stack gradients into one float64 tensor along `axis`, zeros for missing ones."""
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
SAVED_RESULTS = {
    "ipf": (0, 1, 2, 5, 6),
    "ras": (0, 1, 4, 5),
    "ipf_of_logits": (0, 1, 2, 5),
}  # op -> positions of the results to save
DIFFERENTIABLE = {
    "ipf": 3,
    "ras": 2,
    "ipf_of_logits": 3,
}  # op -> number of leading differentiable results, if other float results follow
