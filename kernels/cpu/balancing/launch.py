"""The op ``balance`` on the CPU: weights of contact maps, and the classification of their zeros."""

from functools import partial
from typing import Any

import numpy as np

from cmfast.kernels.cpu.balancing import _contact_maps
from cmfast.kernels.cpu.solver.sparse_support import classify_sparse_cells
from cmfast.kernels.shared import balancing_maps
from cmfast.kernels.status import LIMIT_ONLY


def balance(rows, columns, values, sums, keep, *, num_threads=None, **options):
    """Balance a contact map; return weights, reasons and proofs of all bins, and diagnostics of every block.

    The diagnostics are residual, worst row, passes and status.
    """
    read = partial(_contact_maps.read_contact_map, num_threads=num_threads)
    return balancing_maps.balance(rows, columns, values, sums, keep, read=read, **options)


def classify_zeros(i: Any, j: Any, n: int, s: Any) -> Any:
    """Classify the zeros of a symmetric matrix for row sums `s`.

    `rows` are the bins of cells that vanish, if any do.
    """
    off = i < j
    rows, columns = np.concatenate([i, j[off]]), np.concatenate([j, i[off]])
    order = np.argsort(rows, kind="stable")
    rows, columns = rows[order], columns[order]
    first = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))]).astype(np.int64)
    found = classify_sparse_cells(first, columns, s, s)
    if found.status == LIMIT_ONLY:
        vanish = np.zeros(n, np.bool_)
        vanish[rows[found.dead]] = True
        return found._replace(rows=vanish)
    return found
