"""The workspace of one table: its positive cells, the targets of its marginals, and the state of the iteration."""

from typing import NamedTuple

import numpy as np

from cmfast.kernels.cpu._core.jit import jit

# Numbers of `Table.counts`.
CELLS, UNKNOWNS, PASSES, STEPS, FIXED_CELLS, CONVERGED_BY_SWEEPS, SOFT, HAS_MINIMUM_NORM = range(8)
# Numbers of `Table.state`.
RESIDUAL, STEP_NORM, PREVIOUS_STEP_NORM, TOTAL, BOUNDED, CELL_ERROR, LEVENBERG, SLACK = range(8)


class TableWorkspace(NamedTuple):
    """Cells that may be positive, sorted by the line of the margin that is closed; the lines of others are unknowns.

    An unknown more stands for every line that nothing is asked of, whose multiplier stays zero. A target m that need
    not be met becomes the goal ``m exp(-slack multiplier)``; slack is one over how important it is, and that of the
    closed margin in `state`.
    """

    q: np.ndarray  # (cells,) what the cells are scaled from
    places: np.ndarray  # (cells,) int64: which of all cells they are
    codes: np.ndarray  # (cells, margins) int32: line of the closed margin, then unknowns
    first: np.ndarray  # (lines + 1,) int64: first cell of each closed line
    closed: np.ndarray  # (lines,) their targets; NaN where nothing is asked
    closed_goal: np.ndarray  # (lines,) what is left of them where they need not be met
    wanted: np.ndarray  # (unknowns + 1,) targets
    goal: np.ndarray  # (unknowns + 1,)
    slack: np.ndarray  # (unknowns + 1,)
    margin: np.ndarray  # (unknowns + 1,) int64: of which margin they are
    numbers: np.ndarray  # (all lines,) int64: which unknown each is, -1 for those of the closed margin
    totals: np.ndarray  # (margins,) sums of their goals
    x: np.ndarray  # (cells,) scaled
    z: np.ndarray  # (cells,) a change of theirs, as logarithms
    lift: np.ndarray  # (lines,) multipliers of the closed margin
    multipliers: np.ndarray  # (unknowns + 1,)
    sums: np.ndarray  # (unknowns + 1,)
    step: np.ndarray  # (unknowns + 1,)
    step_lift: np.ndarray  # (lines,)
    proof: np.ndarray  # (lines + unknowns + 1,) why there is no answer
    curvature: np.ndarray  # (unknowns, unknowns) second derivatives, scaled to a unit diagonal; upper triangle
    scale: np.ndarray  # (unknowns + 1,)
    counts: np.ndarray  # int64
    state: np.ndarray  # float64


@jit()
def allocate_table(n_cells, n_margins, n_closed, n_lines, n_unknowns):
    """Return room for a table, with as many unknowns as its curvature is to have."""
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
