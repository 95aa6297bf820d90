"""Classification of one zero pattern: maximum flow, then strongly connected components of its residual graph.

A matrix can be scaled to its targets if and only if some nonnegative matrix with these margins has exactly the same
zeros. Whether one has at least these zeros is a maximum flow problem (rows send their targets through positive cells to
columns); which positive cells are zero in all of them follows from strong connectivity.
"""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.zeros._bit_sets import AUGMENT, HALL_VIOLATOR
from cmfast.kernels.cpu.zeros._connected_components import find_blocks, find_hall_violator, mark_unsupported
from cmfast.kernels.cpu.zeros._maximum_flow import (
    compute_capacities,
    drop_rounding_flows,
    has_starved_line,
    maximize_flow,
    pack_sets,
    send_greedily,
)
from cmfast.kernels.status import INFEASIBLE, LIMIT_ONLY, OK


@jit(inner=True)
def classify(parts, positive, u, v, dead, blocks, violator):
    """Classify a zero pattern under nonnegative row targets `u` and column targets `v` with one total.

    Return OK (total support: factors exist), LIMIT_ONLY or INFEASIBLE, or below zero the missing part of `parts`. Rows
    and columns with target zero take no part. Fills `dead` (cells that must be zero), the `blocks` of rows and columns,
    and, if infeasible, the Hall `violator`: rows whose targets exceed those of all columns that they reach, and these
    columns.
    """
    (R, C), (row_block, col_block), (rows, cols) = positive.shape, blocks, violator
    dead[:] = False
    row_block[:] = -1
    col_block[:] = -1
    rows[:] = False
    cols[:] = False
    unmet, spare, slack, equal = compute_capacities(u, v)
    reach, users = pack_sets(positive, unmet, spare)
    fed = np.zeros(users.shape, np.int64)
    flow = np.zeros((0, 0) if equal else (C, R), np.int64)  # a flow of equal targets is 0 or 1, which `fed` holds
    row_caps, col_caps = unmet.copy(), spare.copy()
    if send_greedily(positive, unmet, spare, flow, fed) > 0:
        if parts[AUGMENT] == 0:
            return -AUGMENT
        maximize_flow(parts, reach, unmet, spare, flow, fed)
    feeds = drop_rounding_flows(row_caps, col_caps, slack, flow, fed, reach.shape[1])
    left = unmet.sum()
    if left > slack or (left > 0 and (has_starved_line(unmet, row_caps) or has_starved_line(spare, col_caps))):
        if parts[HALL_VIOLATOR] == 0:
            return -HALL_VIOLATOR
        find_hall_violator(parts, unmet, slack, reach, fed, rows, cols)
        return INFEASIBLE
    find_blocks(row_caps, reach, users, feeds, fed, row_block, col_block)
    return LIMIT_ONLY if mark_unsupported(positive, row_block, col_block, dead) else OK
