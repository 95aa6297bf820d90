"""Standard errors of the cells of normalised matrices, and how single samples bend them: the delta method."""

import math
from typing import Any

import numpy as np

from cmfast.kernels.cuda._core import batches
from cmfast.kernels.cuda._core.module import SHARED, THREADS, Kernel, library

CODES = {"all": 0, "row": 1, "true": 1, "col": 2, "pred": 2, "bi": 3}
DEFINES = {
    "OF_ALL": 0, "OF_ROW": 1, "OF_COL": 2, "OF_BI": 3,
    "NO_PIVOT": 1e-12,  # what rounding leaves of the last column of a block
    "UNMOVED": 1e-28,  # of the variance of a cell that no sample changes
}  # fmt: skip
_MATRICES = Kernel("uncertainty/cell_errors", "cmfast_cell_errors_matrices", registers=128)
KERNELS = (_MATRICES,)
_FEW = 64  # threads of a block for matrices of which twice as many classes have no more cells


def threads_of(C: int) -> int:
    """Return the threads of a block that goes over all pairs of lines of a matrix."""
    return _FEW if 4 * C * C <= _FEW else THREADS


def cell_errors(
    M: Any, P: Any, *, of: str, rows: bool, n: int | None, bent: bool = False, num_threads: int | None = None
) -> tuple[Any, ...]:
    """Errors of the cells `P` that `M` is normalised to; their accelerations of BCa, if `bent`; the status."""
    del num_threads
    xp, C, size = library(M), M.shape[-1], math.prod(M.shape[:-2])
    cells, scaled = (batches.flat_batch(a, 2, np.float64) for a in (M, P))
    out, bends, status = xp.empty((size, C, C)), xp.zeros((size, C, C)), xp.empty(size, np.int8)
    if size:
        words = 6 * C + 2 + (13 * C * C if of == "bi" else 0)
        held, blocks, memory = 8 * words <= SHARED, size, None
        if not held:
            blocks = min(size, max(1, batches.MOST_SCRATCH_BYTES // (8 * words)))
            memory = xp.empty((blocks, words))
        _MATRICES.launch(
            (), blocks, shared=8 * words if held else 0, threads=threads_of(C),
            M=cells, normalized=scaled, C=C, n=size, of=CODES[of], rows=rows, bent=bent,
            wanted=-1.0 if n is None else n, memory=memory, words=words, out=out, out_bends=bends, out_status=status,
        )  # fmt: skip
    return out.reshape(M.shape), bends.reshape(M.shape), status.reshape(M.shape[:-2])
