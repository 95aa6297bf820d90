"""What the zeros of one matrix allow: a flow, and what is connected by it.

A matrix can be scaled to its targets if and only if some nonnegative matrix with these margins has exactly the same
zeros. Whether any has zeros at least there is a question of flow (rows send their targets through positive cells to
columns); which positive cells are zero in all of them is a question of connectivity.
"""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.zeros._components import cut, find_blocks, mark_dead
from cmfast.kernels.cpu.zeros._flow import augment, capacities, greedy, pack, starved, weigh
from cmfast.kernels.cpu.zeros._sets import AUGMENT, CUT
from cmfast.kernels.status import INFEASIBLE, LIMIT_ONLY, OK


@jit(inner=True)
def classify(parts, positive, u, v, dead, blocks, violator):
    """Classify a zero pattern under nonnegative row targets `u` and column targets `v` with one total.

    Returns CONVERGED (total support: factors exist), LIMIT_ONLY or INFEASIBLE. Lines with target zero take no part.
    Fills `dead`, the `blocks` of rows and of columns, and, if infeasible, the `violator`: rows that want too much and
    the columns that they reach. Below zero is what of `parts` is needed for that and not compiled yet.
    """
    (R, C), (row_block, col_block), (rows, cols) = positive.shape, blocks, violator
    dead[:] = False
    row_block[:] = -1
    col_block[:] = -1
    rows[:] = False
    cols[:] = False
    unmet, spare, slack, equal = capacities(u, v)
    reach, users = pack(positive, unmet, spare)
    fed = np.zeros(users.shape, np.int64)
    flow = np.zeros((0, 0) if equal else (C, R), np.int64)  # of equal targets a flow is 0 or 1: `fed` says it
    row_caps, col_caps = unmet.copy(), spare.copy()
    if greedy(positive, unmet, spare, flow, fed) > 0:
        if parts[AUGMENT] == 0:
            return -AUGMENT
        augment(parts, reach, unmet, spare, flow, fed)
    feeds = weigh(row_caps, col_caps, slack, flow, fed, reach.shape[1])
    left = unmet.sum()
    if left > slack or (left > 0 and (starved(unmet, row_caps) or starved(spare, col_caps))):
        if parts[CUT] == 0:
            return -CUT
        cut(parts, unmet, slack, reach, fed, rows, cols)
        return INFEASIBLE
    find_blocks(row_caps, reach, users, feeds, fed, row_block, col_block)
    return LIMIT_ONLY if mark_dead(positive, row_block, col_block, dead) else OK
