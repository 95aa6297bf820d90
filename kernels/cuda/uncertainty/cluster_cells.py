"""Bootstrap replicates and standard errors of normalised cells for clustered or stratified samples."""

from typing import Any

import numpy as np

from cmfast.kernels.cuda._core import batches
from cmfast.kernels.cuda._core.module import Kernel, library
from cmfast.kernels.cuda.uncertainty import cell_errors, resample
from cmfast.kernels.cuda.uncertainty.cell_errors import choose_block_size, plan_workspaces
from cmfast.kernels.cuda.uncertainty.clusters import prepare_matrices
from cmfast.kernels.cuda.uncertainty.resample import copy_numbers
from cmfast.kernels.shared.uncertainty import CODES_OF_NORMALIZATIONS

_REPLICATES = Kernel("uncertainty/cluster_cells", "cmfast_cluster_replicates_cells", registers=104)
_MATRICES = Kernel("uncertainty/cluster_cells", "cmfast_cluster_cell_errors_matrices", registers=128)
KERNELS = (_REPLICATES, _MATRICES)
DEFINES = cell_errors.DEFINES | resample.DEFINES


def cluster_replicates(
    M: Any, *, strata: np.ndarray, clustered: bool, n: int | None, n_resamples: int, seed: int,
    numbers: np.ndarray | None = None, num_threads: int | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Return replicates ``(..., n_resamples, C, C)`` of sums of matrices of clusters or strata, and the status."""
    del num_threads
    xp, C, batch = library(M), M.shape[-1], M.shape[:-3]
    parts = prepare_matrices(M, strata, n, clustered=clustered, draws=True)
    size = len(parts.status)
    out = xp.zeros((*batch, n_resamples, C, C), np.int64)
    if out.size:
        _REPLICATES.launch(
            (), batches.item_blocks(size * n_resamples), **parts.given, status=parts.status, n=size,
            n_strata=parts.n_strata, wanted=-1 if n is None else n, n_resamples=n_resamples,
            numbers=copy_numbers(xp, numbers), seed=seed, out=out,
        )  # fmt: skip
    return out, parts.status.reshape(batch)


def cluster_cell_errors(
    M: Any, P: Any, *, of: str, strata: np.ndarray, clustered: bool, n: int | None, num_threads: int | None = None
) -> tuple[Any, ...]:
    """Return standard errors of the normalised cells of the sum of ``(..., k, C, C)``; accelerations; status.

    INVALID are those that are no counts; others that were not normalised are NaN alone.
    """
    del num_threads
    xp, C, batch = library(M), M.shape[-1], M.shape[:-3]
    parts = prepare_matrices(M, strata, n, clustered=clustered, draws=False)
    size, scaled = len(parts.status), batches.flat_batch(P, 2, np.float64)
    errors, bends = xp.empty((size, C, C)), xp.empty((size, C, C))
    if size:
        words = 9 * C + C * C * (7 if of == "bi" else 2)
        blocks, shared, memory = plan_workspaces(xp, size, words)
        _MATRICES.launch(
            (), blocks, shared=shared, threads=choose_block_size(C), **parts.given, totals=parts.total,
            normalized=scaled, n=size, n_strata=parts.n_strata, of=CODES_OF_NORMALIZATIONS[of],
            wanted=-1 if n is None else n, memory=memory, words=words, out=errors, out_bends=bends,
            out_status=parts.status,
        )  # fmt: skip
    return errors.reshape(P.shape), bends.reshape(P.shape), parts.status.reshape(batch)
