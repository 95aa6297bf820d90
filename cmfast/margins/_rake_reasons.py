"""Why records have no weights with the totals that are wanted, in words; looked at on the host, for one element."""

from typing import Any, NamedTuple

import numpy as np

from cmfast._core import bad_values, wording
from cmfast._core.adapters import adapter
from cmfast.kernels.status import Status
from cmfast.margins._rake_result import MEANING, RakeResult
from cmfast.margins._reasons import bad_target, disagreement, one
from cmfast.margins._sparse_rows import CsrMatrix
from cmfast.margins._words import Words

MOST_NAMED_TOTALS = 4  # totals
LEAST_PROOF_SHARE = 1e-6  # part of the largest number of a proof that is none


class RakeProblem(NamedTuple):
    """Records, and the totals that they are to add up to."""

    batch: tuple[int, ...]
    design: Any
    weights: Any
    targets: list[Any]
    axes: tuple[tuple[int, ...], ...] | None
    names: list[str] | None
    words: Words


def unmet(index: tuple[int, ...], problem: RakeProblem, result: RakeResult[Any]) -> str:
    """Say why the element at `index` of the batch has no weights."""
    batch, design, weights, targets, axes, names, words = problem
    status = Status(int(one(result.status, batch, 0, index)))
    cores = (1,) if axes is None else tuple(map(len, axes))
    wanted = [one(target, batch, core, index) for target, core in zip(targets, cores, strict=True)]
    names = names or _names(wanted, axes, words)
    if status is Status.INVALID:
        q = None if weights is None else one(weights, batch, 1, index)
        return _invalid(_on_host(design), q, wanted, axes, words)
    if status is Status.TOTALS and axes is not None:
        return disagreement(wanted, axes, "targets", "attributes", words) or MEANING[status]
    if status is Status.ZERO_LINE:
        return _unreached(_on_host(design), wanted, axes, names)
    residual = float(one(result.residual, batch, 0, index))
    if status is Status.MAX_ITER:
        return f"not converged after {int(one(result.n_iter, batch, 0, index))} passes: residual {residual:.1e}"
    if status is Status.UNDETERMINED:
        error = float(one(result.weight_error, batch, 0, index))
        return f"totals met to {residual:.1e}, but their digits do not fix all weights (estimate {error:.1e})"
    if status is Status.LIMIT_ONLY:
        gone = int((one(result.weights, batch, 1, index) == 0.0).sum())
        where = f"{gone} records have a weight of zero" if gone else "some weights are at their bounds"
        return f"no multipliers exist; in this limit {where}"
    if status is Status.INFEASIBLE:
        proofs = [result.proof] if axes is None else result.proof
        y = np.concatenate([one(proof, batch, core, index).ravel() for proof, core in zip(proofs, cores, strict=True)])
        totals = np.concatenate([t.ravel() for t in wanted])
        return f"{MEANING[status]}; these contradict each other: {_named(y, totals, names)}"
    return MEANING[status]


def _on_host(design: Any) -> Any:
    return design if isinstance(design, CsrMatrix) else adapter(design).to_host(design)


def _names(targets: list[np.ndarray], axes: tuple[tuple[int, ...], ...] | None, words: Words) -> list[str]:
    """Return what targets are called that have no names."""
    if axes is None:
        return [f"column {k}" for k in range(targets[0].size)]
    if words.columns:
        return [
            words.place(of, at) for of, target in zip(axes, targets, strict=True) for at in np.ndindex(target.shape)
        ]
    return [
        f"{wording.element('targets', k)}{bad_values.format_index(at)}"
        for k, target in enumerate(targets)
        for at in np.ndindex(target.shape)
    ]


def _named(y: np.ndarray, targets: np.ndarray, names: list[str]) -> str:
    """Name the targets that weigh the most in a proof."""
    sizes = np.abs(np.where(np.isfinite(y), y, 0.0) * np.where(np.isfinite(targets) & (targets != 0.0), targets, 1.0))
    order = [int(k) for k in np.argsort(-sizes, kind="stable") if sizes[k] > LEAST_PROOF_SHARE * sizes.max()]
    said = ", ".join(f"{names[k]} = {targets[k]:.12g}" for k in order[:MOST_NAMED_TOTALS])
    return said + (f" and {len(order) - MOST_NAMED_TOTALS} more" if len(order) > MOST_NAMED_TOTALS else "")


def _invalid(
    design: Any,
    weights: np.ndarray | None,
    targets: list[np.ndarray],
    axes: tuple[tuple[int, ...], ...] | None,
    words: Words,
) -> str:
    """Name the first number that is none."""
    if axes is not None:
        said = _beyond(design, targets, axes)
    else:
        is_sparse = isinstance(design, CsrMatrix)
        said = design.bad("design") if is_sparse else bad_values.describe_first("design", design, ~np.isfinite(design))
    said = said or bad_values.describe_bad_value(weights=weights)
    for k, target in enumerate(targets):
        if axes is None:
            said = said or bad_values.describe_first("targets", target, np.isinf(target))
        else:
            said = said or bad_target("targets", k, target, axes[k], words)
    return said


def _beyond(codes: np.ndarray, targets: list[np.ndarray], axes: tuple[tuple[int, ...], ...]) -> str:
    for target, of in zip(targets, axes, strict=True):
        for axis, size in zip(of, target.shape, strict=True):
            wrong = np.flatnonzero((codes[axis] < 0) | (codes[axis] >= size))
            if len(wrong):
                record = int(wrong[0])
                return f"record {record} has category {codes[axis, record]} of attribute {axis}, which has {size}"
    return ""


def _unreached(
    design: Any, targets: list[np.ndarray], axes: tuple[tuple[int, ...], ...] | None, names: list[str]
) -> str:
    """Name a target that no record adds to."""
    start = 0
    for k, target in enumerate(targets):
        if axes is None:
            used = design.used() if isinstance(design, CsrMatrix) else (design != 0).any(0)
        else:
            used = np.zeros(target.shape, np.bool_)
            used[tuple(design[axis] for axis in axes[k])] = True
        wrong = np.flatnonzero(~used.ravel() & (target.ravel() != 0.0) & ~np.isnan(target.ravel()))
        if len(wrong):
            return f"no record adds to {names[start + int(wrong[0])]}, which should be {target.flat[wrong[0]]:.12g}"
        start += target.size
    return MEANING[Status.ZERO_LINE]
