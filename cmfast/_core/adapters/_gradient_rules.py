"""Backward pass of every op with a gradient, for NumPy arrays and tensors alike: the exact derivatives.

A rule gets the arrays of the call, the results that were saved, and the gradients of the loss with respect to the
results, None for those that the loss does not use. It runs the gradient op of the table.
"""

import math
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

from cmfast._core import caller
from cmfast.kernels.ops import OPS
from cmfast.kernels.status import Status

Run = Callable[[str, tuple[Any, ...], dict[str, Any]], Any]


class RecordedCall(NamedTuple):
    """Arguments of the recorded op call, and the module (NumPy or torch) whose functions its arrays take."""

    run: Run
    op: str
    options: dict[str, Any]
    arrays: int
    xp: ModuleType

    def gradient(self, *arrays: Any, **options: Any) -> Any:
        """Run the gradient op of the table, on as many threads as the op itself."""
        op: Any = OPS[self.op].gradient
        return self.run(op, arrays, {**options, "num_threads": self.options.get("num_threads")})

    def scaling_gradient(self, *arrays: Any, targets: bool) -> Any:
        """Run the gradient op of scaling, to the same tolerance as the forward scaling."""
        return self.gradient(*arrays, targets=targets, tol=self.options.get("tol", 0.0))

    def widen(self, x: Any) -> Any:
        """Return `x` as float64."""
        return x.double() if hasattr(x, "double") else self.xp.asarray(x, dtype=self.xp.float64)


def refuse_options(options: dict[str, Any]) -> None:
    """Raise TypeError for options without a gradient."""
    if options.get("smoothing") == "pseudo-bayes":
        msg = "smoothing='pseudo-bayes' has no gradient: its weight is a function of the data; give a number"
        raise TypeError(caller.prefix_name(msg))


def _ipf_backward(known: RecordedCall, arrays: Any, kept: Any, grads: Any, needed: Any) -> Any:
    """Return the gradients of ``ipf`` with respect to matrix and targets."""
    matrix, *factors, status, smoothing = kept
    targets = bool(needed[1] or needed[2])
    given = (arrays[0], *grads[:3], *factors, matrix, status, smoothing)
    found = known.scaling_gradient(*given, targets=targets)
    return (*(found if targets else (*found, None, None)), None, None)


def _ras_backward(known: RecordedCall, arrays: Any, kept: Any, grads: Any, needed: Any) -> Any:
    """Return the gradients of ``ras`` with respect to matrix and targets; zero if no factors were computed or used."""
    xp = known.xp
    *factors, status, smoothing = kept
    targets = bool(needed[1] or needed[2])
    given = (arrays[0], None, *grads[:2], *factors, None, status, smoothing)
    idle = status == int(Status.LIMIT_ONLY)  # no factors exist; the loss may not have used them
    for grad in grads[:2]:
        if grad is not None:
            idle = idle & (grad == 0.0).all(-1)
    found = [xp.where(idle.reshape(idle.shape + (1,) * (part.ndim - idle.ndim)), 0.0, part)
             for part in known.scaling_gradient(*given, targets=targets)]  # fmt: skip
    return (*(found if targets else (*found, None, None)), None, None)


def _logits_backward(known: RecordedCall, arrays: Any, kept: Any, grads: Any, needed: Any) -> Any:
    """Return the gradients of ``ipf_of_logits``, through the cells of the scaled matrix with unit factors.

    A row or column with target 0 has no cells there: its cells are recomputed with a finite factor, so that the largest
    is near one.
    """
    xp, widen = known.xp, known.widen
    matrix, row, col, status = kept
    targets = bool(needed[1] or needed[2])
    cells, no_row, no_col = matrix, row == -math.inf, col == -math.inf
    if targets and bool(no_row.any() | no_col.any()):
        L, there = widen(arrays[0]), no_row[..., :, None] | no_col[..., None, :]
        row, col = xp.where(no_row, 0.0, row), xp.where(no_col, 0.0, col)
        row = row - xp.where(no_row, xp.amax(L + col[..., None, :], -1), 0.0)
        col = col - xp.where(no_col, xp.amax(L + row[..., :, None], -2), 0.0)
        cells = xp.where(there, xp.exp(L + row[..., :, None] + col[..., None, :]), widen(matrix))
    factors = widen(~no_row), widen(~no_col)
    nothing = xp.zeros_like(status, dtype=xp.float64)
    found = known.scaling_gradient(cells, *grads[:3], *factors, matrix, status, nothing, targets=targets)
    return (found[0] * cells, *(found[1:] if targets else (None, None)))


def _comparison_backward(known: RecordedCall, arrays: Any, kept: Any, grads: Any, needed: Any) -> Any:
    """Return the gradients of a comparison of two matrices (overlap, L1 distance, KL divergence)."""
    del kept, needed
    return known.gradient(*arrays, grads[0], of=known.op)


def _normalize_backward(known: RecordedCall, arrays: Any, kept: Any, grads: Any, needed: Any) -> Any:
    """Return the gradient of ``normalize`` with respect to the matrix."""
    del kept, needed
    return (known.gradient(arrays[0], grads[0], method=known.options["method"]),)


def _weights_backward(known: RecordedCall, arrays: Any, kept: Any, grads: Any, needed: Any) -> Any:
    """Return the gradients of ``importance_weights`` with respect to the matrix, or to the factors for "bi"."""
    del kept, needed
    method, (M, row, col, _), G, where = known.options["method"], arrays, grads[0], known.xp.where
    if method != "bi":
        return known.gradient(M, G, method=method, of_weights=True), None, None, None
    G = known.widen(G)
    there = G != 0.0  # where G is 0 the loss does not depend on the weights, which may be NaN
    of_row = where(there, G * col[..., None, :], 0.0).sum(-1)
    of_col = where(there, G * row[..., :, None], 0.0).sum(-2)
    return None, of_row, of_col, None


def _metrics_backward(known: RecordedCall, arrays: Any, kept: Any, grads: Any, needed: Any) -> Any:
    """Return the gradient of ``metrics_of_matrices`` with respect to the matrices."""
    del kept, needed
    (M,), plan = arrays, known.options["plan"]
    batch, C, n = M.shape[:-2], M.shape[-1], plan.scalars
    zeros = partial(known.xp.zeros, dtype=known.xp.float64, device=M.device)
    scalars, tables = zeros((*batch, n)), zeros((*batch, plan.tables, C))
    for k, grad in enumerate(grads[: n + plan.tables]):
        if grad is not None:
            (scalars if k < n else tables.swapaxes(-1, -2))[..., k if k < n else k - n] = grad
    return (known.gradient(M, scalars, tables, plan=plan),)


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
