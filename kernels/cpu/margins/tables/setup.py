"""Set-up of one table: validate targets and cells, number the unknowns, list the cells that may be positive."""

import numpy as np

from cmfast.kernels.cpu._core.copies import copy_vector
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.margins._consistency import reconcile
from cmfast.kernels.cpu.margins.tables.workspace import (
    BOUNDED,
    CELL_ERROR,
    CELLS,
    CONVERGED_BY_SWEEPS,
    FIXED_CELLS,
    HAS_MINIMUM_NORM,
    LEVENBERG,
    PASSES,
    PREVIOUS_STEP_NORM,
    RESIDUAL,
    SLACK,
    SOFT,
    STEP_NORM,
    STEPS,
    TOTAL,
    UNKNOWNS,
)
from cmfast.kernels.shared.margins import NUDGE
from cmfast.kernels.status import INVALID, OK, RANGE, ZERO_LINE


@jit(inner=True)
def set_up_table(t, cells, layout, targets, slack, smoothing):
    """Fill the workspace of a table; return OK or the status of a failure. Reconciles `targets` in place.

    `slack` is one over the importance of each margin, zero for hard ones.
    """
    t.counts[PASSES], t.counts[STEPS], t.counts[FIXED_CELLS], t.counts[CONVERGED_BY_SWEEPS] = 0, 0, 0, 0
    status = _check_values(cells, targets)
    if status == OK:
        status = reconcile(layout, targets)
    if status != OK:
        return status
    t.counts[SOFT] = 0
    for b in range(len(slack)):
        t.counts[SOFT] |= slack[b] > 0.0
    _number_unknowns(t, cells, layout, targets, slack, smoothing)
    _list_cells(t, cells, layout, targets, smoothing)
    t.multipliers[:] = 0.0
    t.step[:] = 0.0
    t.counts[HAS_MINIMUM_NORM] = 0
    t.state[RESIDUAL], t.state[STEP_NORM], t.state[PREVIOUS_STEP_NORM] = np.inf, np.inf, np.inf
    t.state[CELL_ERROR], t.state[LEVENBERG] = 0.0, NUDGE
    return _check_empty_marginals(t)


@jit(inner=True, borrows=True)
def _check_values(cells, targets):
    """Return INVALID for invalid cells or targets, RANGE where the targets' sum overflows, else OK."""
    for x in cells:
        if not 0.0 <= x < np.inf:
            return INVALID
    total = 0.0
    for m in targets:
        if m < 0.0 or m == np.inf:
            return INVALID
        if m > 0.0:
            total += m
    return OK if total < np.inf else RANGE


@jit(inner=True)
def _number_unknowns(t, cells, layout, targets, slack, smoothing):
    """Assign numbers to the marginals whose multipliers are unknowns, and sum the targets of every margin.

    A marginal with a soft target and no cell is left out: it misses all of its target.
    """
    n = 0
    used = np.ones(len(targets), np.bool_)
    if t.counts[SOFT]:
        used[:] = False
        for k in range(len(layout.places)):
            if _may_be_positive(cells, layout, targets, smoothing, k):
                for b in range(layout.lines.shape[1]):
                    used[layout.lines[k, b]] = True
    least, all_asked = np.inf, 0.0
    known = np.ones(len(t.totals), np.bool_)
    for b in range(len(t.totals)):
        t.totals[b] = 0.0
        for k in range(layout.offsets[b], layout.offsets[b + 1]):
            if targets[k] >= 0.0:
                t.totals[b] += targets[k]
            else:
                known[b] = False
        if known[b] and slack[b] == 0.0:
            least = min(least, t.totals[b])
        elif slack[b] == 0.0:
            all_asked += t.totals[b]
    # If no total is known, the cells that any target counts sum to at most all targets.
    t.state[BOUNDED] = 1.0 if least == np.inf else 0.0
    t.state[TOTAL] = all_asked if least == np.inf else least
    n_closed = layout.offsets[1]
    for b in range(1, len(t.totals)):
        implied = False  # by an earlier margin that has all of its axes
        for a in range(b):
            implied |= layout.within[b] == a and known[a] and known[b]
        for k in range(layout.offsets[b], layout.offsets[b + 1]):
            t.numbers[k] = -1
            if targets[k] > 0.0 and not implied and (slack[b] == 0.0 or used[k]):
                t.wanted[n], t.margin[n], t.slack[n], t.numbers[k] = targets[k], b, slack[b], n
                n += 1
    for k in range(n_closed):
        t.numbers[k], t.closed[k], t.closed_goal[k] = -1, targets[k], targets[k]
    t.state[SLACK] = slack[0]
    t.wanted[n], t.margin[n], t.slack[n] = 0.0, 0, 0.0
    copy_vector(t.wanted[: n + 1], t.goal)
    t.counts[UNKNOWNS] = n
    for k in range(n_closed, len(t.numbers)):
        if t.numbers[k] < 0:
            t.numbers[k] = n


@jit(inner=True, borrows=True)
def _list_cells(t, cells, layout, targets, smoothing):
    """List the cells that may be positive, sorted by eliminated marginal: no marginal of theirs has the target zero."""
    n, line = 0, -1
    for k in range(len(layout.places)):
        at = layout.places[k]
        while line < layout.lines[k, 0]:
            line += 1
            t.first[line] = n
        if not _may_be_positive(cells, layout, targets, smoothing, k):
            continue
        t.q[n], t.places[n], t.codes[n, 0] = cells[at] + smoothing, at, layout.lines[k, 0]
        for b in range(1, layout.lines.shape[1]):
            t.codes[n, b] = t.numbers[layout.lines[k, b]]
        n += 1
    while line < len(t.closed):
        line += 1
        t.first[line] = n
    t.counts[CELLS] = n


@jit(inner=True, inline=True)
def _may_be_positive(cells, layout, targets, smoothing, k):
    """Test whether cell `k` of the layout is positive with no marginal of target zero."""
    alive = cells[layout.places[k]] + smoothing > 0.0
    for b in range(layout.lines.shape[1]):
        alive &= targets[layout.lines[k, b]] != 0.0
    return alive


@jit(inner=True)
def _check_empty_marginals(t):
    """Return ZERO_LINE where a marginal with a hard positive target has no cell, else OK."""
    used = np.zeros(len(t.wanted), np.bool_)
    for c in range(t.counts[CELLS]):
        for b in range(1, t.codes.shape[1]):
            used[t.codes[c, b]] = True
    for k in range(t.counts[UNKNOWNS]):
        if not used[k]:
            return ZERO_LINE
    for line in range(len(t.closed)):
        if t.state[SLACK] == 0.0 and t.closed[line] > 0.0 and t.first[line + 1] == t.first[line]:
            return ZERO_LINE
    return OK
