"""Why one table was not scaled, in words; looked at on the host, for that table alone."""

from itertools import combinations
from typing import Any

import numpy as np

from cmfast._core import dispatch, values
from cmfast.kernels.status import Status
from cmfast.margins._result import MEANING, MarginsResult

AGREE = 1e-9  # to which margins must


def unmet(
    index: tuple[int, ...],
    batch: tuple[int, ...],
    arrays: list[Any],
    axes: tuple[tuple[int, ...], ...],
    ndim: int,
    smoothing: float | None,
    result: MarginsResult[Any],
) -> str:
    """Say why the table at `index` of the batch was not scaled; `arrays` are the tables and the targets."""
    cores = (ndim, *map(len, axes))
    M, *targets = (one(array, batch, core, index) for array, core in zip(arrays, cores, strict=True))
    status = Status(int(one(result.status, batch, 0, index)))
    if status is Status.INVALID:
        return _invalid(M, targets)
    if status is Status.TOTALS:
        return disagreement(targets, axes, "margins", "axes") or MEANING[status]
    cells = M + (smoothing or 0.0)
    if status is Status.ZERO_LINE:
        return _empty_line(cells, targets, axes)
    residual = float(one(result.residual, batch, 0, index))
    if status is Status.MAX_ITER:
        return f"not converged after {int(one(result.n_iter, batch, 0, index))} passes: residual {residual:.1e}"
    if status is Status.UNDETERMINED:
        error = float(one(result.cell_error, batch, 0, index))
        return f"margins met to {residual:.1e}, but float64 targets do not fix all cells (estimate {error:.1e})"
    if status is Status.LIMIT_ONLY:
        dead = np.argwhere((one(result.table, batch, ndim, index) == 0.0) & _alive(cells, targets, axes))
        some = f"{len(dead)} cells, first {values.place(dead[0])}," if len(dead) > 1 else _only(dead)
        return f"no factors exist, and this limit takes {some} to zero; smoothing= makes factors exist"
    return MEANING[status] + ("; smoothing= may help" if status is Status.INFEASIBLE and smoothing is None else "")


def _only(dead: np.ndarray) -> str:
    return f"the cell {values.place(dead[0])}" if len(dead) else "cells"


def one(array: Any, batch: tuple[int, ...], core: int, index: tuple[int, ...]) -> np.ndarray:
    host = dispatch.to_host(array)
    found: np.ndarray = np.broadcast_to(host, batch + host.shape[host.ndim - core :])[index]
    return found


def _invalid(M: np.ndarray, targets: list[np.ndarray]) -> str:
    said = values.bad(M=M)
    for k, target in enumerate(targets):
        said = said or values.first(f"target of margins[{k}]", target, (target < 0) | (target == np.inf))
    return said


def disagreement(targets: list[np.ndarray], axes: tuple[tuple[int, ...], ...], name: str, kept: str) -> str:
    """Name the first place where two margins differ, which are those of an argument that calls axes `kept`."""
    for (a, first), (b, other) in combinations(enumerate(targets), 2):
        common = [axis for axis in axes[a] if axis in axes[b]]
        x, y = (_kept(target, axes[k], common) for k, target in ((a, first), (b, other)))
        with np.errstate(invalid="ignore"):
            off = np.argwhere(np.abs(x - y) > AGREE * np.maximum(x, y))
        if len(off):
            at = tuple(off[0])
            where = f"{kept} {tuple(common)} that they share, at {values.place(at)}" if common else "total"
            return f"{name}[{a}] and {name}[{b}] disagree on the {where}: {x[at]:.12g} against {y[at]:.12g}"
    return ""


def _kept(target: np.ndarray, axes: tuple[int, ...], common: list[int]) -> np.ndarray:
    """Return a margin summed over all axes but some, which come in their order."""
    others = tuple(k for k, axis in enumerate(axes) if axis not in common)
    left = [axis for axis in axes if axis in common]
    found: np.ndarray = np.transpose(target.astype(np.float64).sum(others), [left.index(axis) for axis in common])
    return found


def _alive(cells: np.ndarray, targets: list[np.ndarray], axes: tuple[tuple[int, ...], ...]) -> np.ndarray:
    """Return which cells are positive and have no line whose target is zero."""
    alive: np.ndarray = cells > 0.0
    for target, of in zip(targets, axes, strict=True):
        order = np.argsort(np.array(of, np.int64)).tolist()
        shape = [n if axis in of else 1 for axis, n in enumerate(cells.shape)]
        alive = alive & (np.transpose(target, order).reshape(shape) != 0.0)
    return alive


def _empty_line(cells: np.ndarray, targets: list[np.ndarray], axes: tuple[tuple[int, ...], ...]) -> str:
    alive = _alive(cells, targets, axes)
    for k, (target, of) in enumerate(zip(targets, axes, strict=True)):
        used = _kept(alive, tuple(range(alive.ndim)), list(of))
        wrong = np.argwhere((used == 0) & (target > 0))
        if len(wrong):
            at = tuple(wrong[0])
            return f"line {values.place(at)} of margins[{k}] has no positive cell but its target is {target[at]:g}"
    return MEANING[Status.ZERO_LINE]
