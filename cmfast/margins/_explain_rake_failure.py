"""Explain why respondents have no weights with the wanted totals; computed on the host, for one batch element."""

from typing import Any, NamedTuple

import numpy as np

from cmfast._core import bad_values, wording
from cmfast._core.adapters import adapter
from cmfast.kernels.status import Status
from cmfast.margins._csr_matrix import CsrMatrix
from cmfast.margins._explain_failure import explain_bad_target, explain_disagreement, read_element
from cmfast.margins._labels import AxisLabels
from cmfast.margins._rake_result import MEANING, RakeResult

MOST_NAMED_TOTALS = 4  # most totals listed in a message
LEAST_PROOF_SHARE = 1e-6  # share of the largest term below which a term of a certificate is not listed


class RakeProblem(NamedTuple):
    """Design, weights and targets of a raking problem, with names for messages."""

    batch: tuple[int, ...]
    design: Any
    weights: Any
    targets: list[Any]
    axes: tuple[tuple[int, ...], ...] | None
    names: list[str] | None
    words: AxisLabels


def explain_rake_failure(index: tuple[int, ...], problem: RakeProblem, result: RakeResult[Any]) -> str:
    """Return the reason why the element at `index` of the batch has no weights."""
    batch, design, weights, targets, axes, names, words = problem
    status = Status(int(read_element(result.status, batch, 0, index)))
    cores = (1,) if axes is None else tuple(map(len, axes))
    wanted = [read_element(target, batch, core, index) for target, core in zip(targets, cores, strict=True)]
    names = names or _name_targets(wanted, axes, words)
    if status is Status.INVALID:
        q = None if weights is None else read_element(weights, batch, 1, index)
        return _explain_invalid(_read_design(design), q, wanted, axes, words)
    if status is Status.TOTALS and axes is not None:
        return explain_disagreement(wanted, axes, "targets", "attributes", words) or MEANING[status]
    if status is Status.ZERO_LINE:
        return _explain_unreached(_read_design(design), wanted, axes, names)
    residual = float(read_element(result.residual, batch, 0, index))
    if status is Status.MAX_ITER:
        return (
            f"not converged after {int(read_element(result.n_iter, batch, 0, index))} passes: residual {residual:.1e}"
        )
    if status is Status.UNDETERMINED:
        error = float(read_element(result.weight_error, batch, 0, index))
        return (
            f"totals met to {residual:.1e}, but their rounding leaves some weights undetermined (estimate {error:.1e})"
        )
    if status is Status.LIMIT_ONLY:
        gone = int((read_element(result.weights, batch, 1, index) == 0.0).sum())
        where = f"{gone} records have a weight of zero" if gone else "some weights are at their bounds"
        return f"no dual solution exists; in this limit {where}"
    if status is Status.INFEASIBLE:
        proofs = [result.proof] if axes is None else result.proof
        y = np.concatenate(
            [read_element(proof, batch, core, index).ravel() for proof, core in zip(proofs, cores, strict=True)]
        )
        totals = np.concatenate([t.ravel() for t in wanted])
        return f"{MEANING[status]}; these totals contradict each other: {_list_certificate(y, totals, names)}"
    return MEANING[status]


def _read_design(design: Any) -> Any:
    """Return the design on the host; a CSR matrix is there already."""
    return design if isinstance(design, CsrMatrix) else adapter(design).to_host(design)


def _name_targets(targets: list[np.ndarray], axes: tuple[tuple[int, ...], ...] | None, words: AxisLabels) -> list[str]:
    """Return names of the targets for messages: columns, categories or indices."""
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


def _list_certificate(y: np.ndarray, targets: np.ndarray, names: list[str]) -> str:
    """Return a text that lists the targets with the largest terms in an infeasibility certificate."""
    sizes = np.abs(np.where(np.isfinite(y), y, 0.0) * np.where(np.isfinite(targets) & (targets != 0.0), targets, 1.0))
    order = [int(k) for k in np.argsort(-sizes, kind="stable") if sizes[k] > LEAST_PROOF_SHARE * sizes.max()]
    said = ", ".join(f"{names[k]} = {targets[k]:.12g}" for k in order[:MOST_NAMED_TOTALS])
    return said + (f" and {len(order) - MOST_NAMED_TOTALS} more" if len(order) > MOST_NAMED_TOTALS else "")


def _explain_invalid(
    design: Any,
    weights: np.ndarray | None,
    targets: list[np.ndarray],
    axes: tuple[tuple[int, ...], ...] | None,
    words: AxisLabels,
) -> str:
    """Return a text that names the first invalid value."""
    if axes is not None:
        said = _explain_category(design, targets, axes)
    else:
        is_sparse = isinstance(design, CsrMatrix)
        said = design.bad("design") if is_sparse else bad_values.describe_first("design", design, ~np.isfinite(design))
    said = said or bad_values.describe_bad_value(weights=weights)
    for k, target in enumerate(targets):
        if axes is None:
            said = said or bad_values.describe_first("targets", target, np.isinf(target))
        else:
            said = said or explain_bad_target("targets", k, target, axes[k], words)
    return said


def _explain_category(codes: np.ndarray, targets: list[np.ndarray], axes: tuple[tuple[int, ...], ...]) -> str:
    """Return a text that names the first category beyond its target, or an empty text."""
    for target, of in zip(targets, axes, strict=True):
        for axis, size in zip(of, target.shape, strict=True):
            wrong = np.flatnonzero((codes[axis] < 0) | (codes[axis] >= size))
            if len(wrong):
                record = int(wrong[0])
                return f"record {record} has category {codes[axis, record]} of attribute {axis}, which has {size}"
    return ""


def _explain_unreached(
    design: Any, targets: list[np.ndarray], axes: tuple[tuple[int, ...], ...] | None, names: list[str]
) -> str:
    """Return a text that names a nonzero target to which no record contributes."""
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
