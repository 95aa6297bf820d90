"""Contact maps on the CPU: passes over their pixels, and what their zeros allow."""

from functools import partial
from typing import Any

import numpy as np

from cmfast.kernels.cpu.balancing import _maps
from cmfast.kernels.cpu.solver.sparse_support import classify_sparse_cells
from cmfast.kernels.shared import balancing_maps
from cmfast.kernels.status import LIMIT_ONLY


def balance(rows, columns, values, sums, keep, *, num_threads=None, **options):
    """Weights, reason and proof of every bin; residual, worst row, passes and status of every block."""
    read = partial(_maps.read, num_threads=num_threads)
    return balancing_maps.balance(rows, columns, values, sums, keep, read=read, **options)


def allowed(i: Any, j: Any, n: int, s: Any) -> Any:
    """Say what the zeros of a symmetric matrix allow; of cells that vanish note the bins."""
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
