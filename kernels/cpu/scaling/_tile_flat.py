"""Sinkhorn sweeps before any pairing, in lanes whose rows have no dominant cell: most need only a few.

Newton's method starts from pairs of a row and a column whose cells dominate. Such matrices have none, and the search
for them takes longer than the sweeps.
"""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import load, some, splat, store, where
from cmfast.kernels.cpu.scaling import _tile_scalars as line
from cmfast.kernels.cpu.scaling._tile_sinkhorn import sweep
from cmfast.kernels.shared.scaling import FLAT_SHARE, MOST_FLAT_SWEEPS


@jit(inner=True, borrows=True)
def sweep_flat_lanes(t, target, unit):
    """Run Sinkhorn sweeps in active lanes whose rows have no dominant cell; return the lanes that converged.

    `target` is the residual that counts as converged; `unit` says that targets and factors are one, but not written.
    Lanes that converge too slowly for this get back factors of one.
    """
    S = t.S
    cold = (load(S, line.WARM) == 0.0) & (load(S, line.EQUILIBRATED) == 0.0)
    sweeping, settled = (load(S, line.ACTIVE) != 0.0) & cold & _find_flat_lanes(t), splat(0.0) != 0.0
    if not some(sweeping):
        return settled
    if unit:
        for j in range(t.C):
            store(S, t.u + j, splat(1.0))
            store(S, t.v + j, splat(1.0))
            store(S, t.y + j, splat(1.0))
    swept, width, passes = sweeping, splat(np.inf), splat(0.0)
    for k in range(MOST_FLAT_SWEEPS):
        before = width
        width = sweep(t, sweeping)
        passes = passes + where(sweeping, 1.0, splat(0.0))
        if k < 2:  # the first change is that from factors that were not set
            continue
        rate = width / before
        settled = settled | (sweeping & (width * rate <= target))
        last = width  # what the changes are expected to be after all sweeps
        for _ in range(k + 1, MOST_FLAT_SWEEPS):
            last = last * rate
        sweeping = sweeping & ~settled & (last * rate <= target)
        if not some(sweeping):
            break
    for j in range(t.C):
        store(S, t.y + j, where(swept & ~settled, 1.0, load(S, t.y + j)))
    store(S, line.N_ITER, load(S, line.N_ITER) + passes)
    return settled


@jit(inner=True, borrows=True)
def _find_flat_lanes(t):
    """Return the lanes in which no cell exceeds a share of its row."""
    S, flat = t.S, splat(0.0) == 0.0
    for i in range(t.R):
        highest, a, b = splat(0.0), splat(0.0), splat(0.0)
        for k in range(t.M + i * t.C, t.M + (i + 1) * t.C - 1, 2):
            m, other = load(S, k), load(S, k + 1)
            highest = where(m > highest, m, highest)
            highest = where(other > highest, other, highest)
            a, b = a + m, b + other
        if t.C % 2:
            m = load(S, t.M + (i + 1) * t.C - 1)
            highest, a = where(m > highest, m, highest), a + m
        flat = flat & (highest <= FLAT_SHARE * (a + b))
        if not some(flat):
            break
    return flat
