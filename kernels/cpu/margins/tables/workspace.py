"""The workspace of one table: its positive cells, the targets of its marginals, and the state of the iteration."""

from typing import NamedTuple

import numpy as np

from cmfast.kernels.cpu._core.jit import jit

# Indices in `TableWorkspace.counts`.
CELLS, UNKNOWNS, PASSES, STEPS, FIXED_CELLS, CONVERGED_BY_SWEEPS, SOFT, HAS_MINIMUM_NORM = range(8)
# Indices in `TableWorkspace.state`.
RESIDUAL, STEP_NORM, PREVIOUS_STEP_NORM, TOTAL, BOUNDED, CELL_ERROR, LEVENBERG, SLACK = range(8)


class TableWorkspace(NamedTuple):
    """Cells that may be positive, sorted by marginal of the eliminated margin; marginals of other margins are unknowns.

    One more unknown stands for all free marginals; its multiplier stays zero. A soft target m becomes the goal ``m
    exp(-slack multiplier)``, with slack one over its importance; that of the eliminated margin is in `state`.
    """

    q: np.ndarray  # (cells,) given cells, smoothed
    places: np.ndarray  # (cells,) int64: their index among all cells
    codes: np.ndarray  # (cells, margins) int32: eliminated marginal, then unknowns
    first: np.ndarray  # (eliminated marginals + 1,) int64: first cell of each
    closed: np.ndarray  # (eliminated marginals,) their targets; NaN if free
    closed_goal: np.ndarray  # (eliminated marginals,) their goals if soft
    wanted: np.ndarray  # (unknowns + 1,) targets
    goal: np.ndarray  # (unknowns + 1,)
    slack: np.ndarray  # (unknowns + 1,)
    margin: np.ndarray  # (unknowns + 1,) int64: margin of each unknown
    numbers: np.ndarray  # (all marginals,) int64: unknown of each, -1 for the eliminated margin
    totals: np.ndarray  # (margins,) sums of the goals
    x: np.ndarray  # (cells,) scaled cells
    z: np.ndarray  # (cells,) log-scale changes of the cells
    lift: np.ndarray  # (eliminated marginals,) their multipliers
    multipliers: np.ndarray  # (unknowns + 1,)
    sums: np.ndarray  # (unknowns + 1,)
    step: np.ndarray  # (unknowns + 1,)
    step_lift: np.ndarray  # (eliminated marginals,) their part of the step
    proof: np.ndarray  # (eliminated marginals + unknowns + 1,) infeasibility certificate
    curvature: np.ndarray  # (unknowns, unknowns) Hessian, scaled to a unit diagonal; upper triangle
    scale: np.ndarray  # (unknowns + 1,)
    counts: np.ndarray  # int64
    state: np.ndarray  # float64


@jit(inner=True)
def allocate_table(n_cells, n_margins, n_closed, n_lines, n_unknowns):
    """Allocate the workspace of a table, with a dense Hessian of `n_unknowns` (0 for none)."""
    others = n_lines - n_closed + 1
    return TableWorkspace(
        q=np.empty(n_cells),
        places=np.empty(n_cells, np.int64),
        codes=np.empty((n_cells, n_margins), np.int32),
        first=np.empty(n_closed + 1, np.int64),
        closed=np.empty(n_closed),
        closed_goal=np.empty(n_closed),
        wanted=np.empty(others),
        goal=np.empty(others),
        slack=np.empty(others),
        margin=np.empty(others, np.int64),
        numbers=np.empty(n_lines, np.int64),
        totals=np.empty(n_margins),
        x=np.empty(n_cells),
        z=np.empty(n_cells),
        lift=np.empty(n_closed),
        multipliers=np.empty(others),
        sums=np.empty(others),
        step=np.empty(others),
        step_lift=np.empty(n_closed),
        proof=np.empty(n_closed + others),
        curvature=np.empty((n_unknowns, n_unknowns)),
        scale=np.empty(others),
        counts=np.zeros(8, np.int64),
        state=np.zeros(8),
    )
