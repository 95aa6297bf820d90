"""Delta-method standard errors of normalised cells, and their jackknife accelerations for BCa."""

import math
from typing import Any

import numpy as np

from cmfast.kernels.cuda._core import batches
from cmfast.kernels.cuda._core.module import SHARED, THREADS, Kernel, library
from cmfast.kernels.shared import uncertainty
from cmfast.kernels.shared.uncertainty import CODES_OF_NORMALIZATIONS

_SHARED = ("OF_ALL", "OF_ROW", "OF_COL", "OF_BI", "LEAST_LAPLACIAN_PIVOT", "MOST_ROUNDING_VARIANCE")
DEFINES = {name: getattr(uncertainty, name) for name in _SHARED}
_MATRICES = Kernel("uncertainty/cell_errors", "cmfast_cell_errors_matrices", registers=128)
KERNELS = (_MATRICES,)
_FEW = 64  # threads of a block for small matrices


def choose_block_size(C: int) -> int:
    """Return the block size for loops over all pairs of rows and columns of a C x C matrix."""
    return _FEW if 4 * C * C <= _FEW else THREADS


def plan_workspaces(xp: Any, size: int, words: int) -> tuple[int, int, Any]:
    """Return the number of blocks for `size` matrices, and their shared or else global workspace."""
    if 8 * words <= SHARED:
        return size, 8 * words, None
    blocks = min(size, max(1, batches.MOST_SCRATCH_BYTES // (8 * words)))
    return blocks, 0, xp.empty((blocks, words))


def cell_errors(
    M: Any, P: Any, *, of: str, rows: bool, n: int | None, bent: bool = False, num_threads: int | None = None
) -> tuple[Any, ...]:
    """Return standard errors of the cells `P` that `M` is normalised to, their accelerations if `bent`, the status."""
    del num_threads
    xp, C, size = library(M), M.shape[-1], math.prod(M.shape[:-2])
    cells, scaled = (batches.flat_batch(a, 2, np.float64) for a in (M, P))
    out, bends, status = xp.empty((size, C, C)), xp.zeros((size, C, C)), xp.empty(size, np.int8)
    if size:
        words = 6 * C + 2 + (13 * C * C if of == "bi" else 0)
        blocks, shared, memory = plan_workspaces(xp, size, words)
        _MATRICES.launch(
            (), blocks, shared=shared, threads=choose_block_size(C),
            M=cells, normalized=scaled, C=C, n=size, of=CODES_OF_NORMALIZATIONS[of], rows=rows, bent=bent,
            wanted=-1.0 if n is None else n, memory=memory, words=words, out=out, out_bends=bends, out_status=status,
        )  # fmt: skip
    return out.reshape(M.shape), bends.reshape(M.shape), status.reshape(M.shape[:-2])
