"""Explain why one table was not scaled to its margins; computed on the host, for that table alone."""

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from cmfast._core import bad_values, wording
from cmfast._core.adapters import adapter
from cmfast.kernels.status import Status
from cmfast.margins._labels import AxisLabels
from cmfast.margins._result import MEANING, MarginsResult

MOST_RELATIVE_GAP = 1e-9  # relative gap up to which margins agree
NO_LABELS = AxisLabels()


class TableProblem(NamedTuple):
    """Tables and margins of a scaling problem, with names for messages."""

    name: str  # name of the argument with the cells
    cells: Any  # (..., *table), or (..., n) for listed cells
    coords: Any  # coordinates of listed cells, (axes, n); None for dense tables
    targets: list[Any]
    axes: tuple[tuple[int, ...], ...]
    core: int  # number of axes of `cells` after the batch
    batch: tuple[int, ...]
    importance: list[float] | None
    smoothing: float | None
    words: AxisLabels = NO_LABELS

    def where(self, cells: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the coordinates of the cells of one table, flattened."""
        if self.coords is None:
            return np.unravel_index(np.arange(cells.size), cells.shape) if cells.shape else ()
        return tuple(adapter(self.coords).to_host(self.coords))


def explain_table_failure(index: tuple[int, ...], problem: TableProblem, result: MarginsResult[Any]) -> str:
    """Return the reason why the table at `index` of the batch was not scaled, with advice."""
    batch, axes, words = problem.batch, problem.axes, problem.words
    given = read_element(problem.cells, batch, problem.core, index)
    targets = [read_element(target, batch, len(of), index) for target, of in zip(problem.targets, axes, strict=True)]
    status = Status(int(read_element(result.status, batch, 0, index)))
    where = problem.where(given)
    if status is Status.INVALID:
        return _explain_invalid(given, targets, problem, where)
    musts = [
        t if p == np.inf else np.full(t.shape, np.nan) for t, p in zip(targets, _list_importance(problem), strict=True)
    ]
    if status is Status.TOTALS:
        said = explain_disagreement(musts, axes, "margins", "axes", words)
        return f"{said}; {_advise_importance()}" if said else MEANING[status]
    alive = _find_usable_cells(given.ravel() + (problem.smoothing or 0.0), targets, axes, where)
    if status is Status.ZERO_LINE:
        return _explain_empty_line(alive, musts, axes, where, words)
    residual = float(read_element(result.residual, batch, 0, index))
    if status is Status.MAX_ITER:
        return (
            f"not converged after {int(read_element(result.n_iter, batch, 0, index))} passes: residual {residual:.1e}"
        )
    if status is Status.UNDETERMINED:
        error = float(read_element(result.cell_error, batch, 0, index))
        return f"margins met to {residual:.1e}, but rounded targets leave cells undetermined (estimate {error:.1e})"
    if status is Status.LIMIT_ONLY:
        dead = np.flatnonzero((read_element(result.table, batch, problem.core, index).ravel() == 0.0) & alive)
        first = words.place(range(len(where)), [int(c[dead[0]]) for c in where]) if len(dead) else ""
        some = f"{len(dead)} cells, first {first}," if len(dead) > 1 else f"the cell {first}" if first else "cells"
        return f"no factors exist, and the limit sets {some} to zero; {wording.option('smoothing')} makes factors exist"
    if status is not Status.INFEASIBLE:
        return MEANING[status]
    helps = f", {wording.option('smoothing')} may help" if problem.smoothing is None else ""
    return f"{MEANING[status]}; {_advise_importance()}{helps}"


def _advise_importance() -> str:
    """Return the advice to use soft constraints."""
    return f"{wording.option('importance')} allows margins to be missed"


def _list_importance(problem: TableProblem) -> list[float]:
    """Return the penalty weight of each margin; infinite for hard constraints."""
    return problem.importance or [np.inf] * len(problem.targets)


def read_element(array: Any, batch: tuple[int, ...], core: int, index: tuple[int, ...]) -> np.ndarray:
    """Return one batch element of an array, on the host, after broadcasting to the batch."""
    host = adapter(array).to_host(array)
    found: np.ndarray = np.broadcast_to(host, batch + host.shape[host.ndim - core :])[index]
    return found


def _explain_invalid(
    given: np.ndarray, targets: list[np.ndarray], problem: TableProblem, where: tuple[np.ndarray, ...]
) -> str:
    """Return a text that names the first invalid cell or target."""
    words = problem.words
    said = bad_values.describe_bad_value(**{problem.name: given})
    if said and words.columns:
        k = np.flatnonzero(~(given >= 0) | (given == np.inf))[0]
        return f"{said}, which is {words.place(range(len(where)), [int(c[k]) for c in where])}"
    for k, (target, of) in enumerate(zip(targets, problem.axes, strict=True)):
        said = said or explain_bad_target("margins", k, target, of, words)
    return said


def explain_bad_target(name: str, k: int, target: np.ndarray, of: tuple[int, ...], words: AxisLabels) -> str:
    """Return a text that names the first negative or infinite value of a target, or an empty text."""
    wrong = (target < 0) | (target == np.inf)
    said = bad_values.describe_first(wording.element(name, k, "target of "), target, wrong)
    if not said or not words.columns:
        return said
    return f"{said.partition(' at ')[0]} in {words.margins[k]} at {words.place(of, np.argwhere(wrong)[0].tolist())}"


def explain_disagreement(
    targets: list[np.ndarray], axes: tuple[tuple[int, ...], ...], name: str, kept: str, words: AxisLabels = NO_LABELS
) -> str:
    """Return a text that names the first position where two margins differ, or an empty text."""
    for (a, first), (b, other) in combinations(enumerate(targets), 2):
        common = [axis for axis in axes[a] if axis in axes[b]]
        x, y = (_sum_to_axes(target, axes[k], common) for k, target in ((a, first), (b, other)))
        with np.errstate(invalid="ignore"):
            off = np.argwhere(np.abs(x - y) > MOST_RELATIVE_GAP * np.maximum(x, y))
        if len(off):
            at = tuple(off[0].tolist())
            where = words.shared(kept, common, at)
            of = "" if common and words.columns else "the "
            both = " and ".join(words.margin(name, k, axes[k]) for k in (a, b))
            said = f"{both} disagree on {of}{where}: {x[at]:.12g} against {y[at]:.12g}"
            if common or y[at] == 0:
                return said
            return f"{said}; multiply {words.margin(name, b, axes[b])} by {x[at]:.12g}/{y[at]:.12g} to make them agree"
    return ""


def _sum_to_axes(target: np.ndarray, axes: tuple[int, ...], common: list[int]) -> np.ndarray:
    """Return a margin summed to the axes `common`, in their order."""
    others = tuple(k for k, axis in enumerate(axes) if axis not in common)
    left = [axis for axis in axes if axis in common]
    found: np.ndarray = np.transpose(target.astype(np.float64).sum(others), [left.index(axis) for axis in common])
    return found


def _find_usable_cells(
    cells: np.ndarray,
    targets: list[np.ndarray],
    axes: tuple[tuple[int, ...], ...],
    where: tuple[np.ndarray, ...],
) -> np.ndarray:
    """Return a mask of positive cells whose targets are all nonzero."""
    alive: np.ndarray = cells > 0.0
    for target, of in zip(targets, axes, strict=True):
        alive = alive & (target[tuple(where[axis] for axis in of)] != 0.0)
    return alive


def _explain_empty_line(
    alive: np.ndarray,
    targets: list[np.ndarray],
    axes: tuple[tuple[int, ...], ...],
    where: tuple[np.ndarray, ...],
    words: AxisLabels,
) -> str:
    """Return a text that names a margin entry with a positive target but no positive cell."""
    for k, (target, of) in enumerate(zip(targets, axes, strict=True)):
        used = np.zeros(target.shape, np.bool_)
        if alive.any():
            used[tuple(where[axis][alive] for axis in of)] = True
        wrong = np.argwhere(~used & (target > 0))
        if len(wrong):
            at = tuple(wrong[0].tolist())
            return f"{words.line(k, of, at)} has no positive cell but its target is {target[at]:g}"
    return MEANING[Status.ZERO_LINE]
