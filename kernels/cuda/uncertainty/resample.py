"""Multinomial replicates of confusion matrices, by binomial draws with counter-based random streams."""

import math
from typing import Any

import numpy as np

from cmfast.kernels.cuda._core import batches
from cmfast.kernels.cuda._core.module import NAMES, Kernel, library
from cmfast.kernels.shared import uncertainty
from cmfast.kernels.shared.uncertainty import Shares

_ROWS = Kernel("uncertainty/resample", "cmfast_resample_rows", (("float",), ("double",)))
_MATRICES = Kernel("uncertainty/resample", "cmfast_resample_matrices")
_TOTALS = Kernel("uncertainty/resample", "cmfast_resample_totals", registers=88)
_CELLS = Kernel("uncertainty/resample", "cmfast_resample_cells", registers=88)
_ROUNDED = Kernel("uncertainty/resample", "cmfast_resample_rounded")
KERNELS = (_ROWS, _MATRICES, _TOTALS, _CELLS, _ROUNDED)
DEFINES = {name: getattr(uncertainty, name) for name in ("LEAST_REJECTION_MEAN", "MOST_INVERTED")}


def copy_numbers(xp: Any, numbers: np.ndarray | None) -> Any:
    """Return the stream numbers of matrices on the device; None means their indices."""
    return None if numbers is None else xp.asarray(np.ascontiguousarray(numbers, np.int64))


def compute_shares(M: Any, missed: Any, *, n: int | None, rounded: bool, numbers: np.ndarray | None) -> Shares:
    """Return the :class:`Shares` of a batch of matrices."""
    xp, batch, C = library(M), M.shape[:-2], M.shape[-1]
    size = math.prod(batch)
    matrices = batches.flat_batch(batches.as_floating(M), 2)
    lost = None if missed is None else batches.flat_batch(missed, 1, np.float64)
    shares, support, rates, rows = (xp.empty(shape) for shape in (matrices.shape, *3 * [(size, C)]))
    flags, total, status = xp.zeros(size, np.int32), xp.empty(size, np.int64), xp.empty(size, np.int8)
    if matrices.size:
        _ROWS.launch(
            (NAMES[matrices.dtype],), batches.item_blocks(size * C),
            M=matrices, missed=lost, C=C, n=size, rounded=rounded,
            out_cells=shares, out_support=support, out_rates=rates, out_flags=flags,
        )  # fmt: skip
    if size:
        _MATRICES.launch(
            (), batches.item_blocks(size),
            support=support, flags=flags, C=C, n=size, wanted=-1 if n is None else n,
            out_rows=rows, out_total=total, out_status=status,
        )  # fmt: skip
    return Shares(shares, rows, support, rates, total, copy_numbers(xp, numbers), status)


def resample(
    M: Any, missed: Any, *, n_resamples: int, scheme: str, n: int | None, seed: int,
    numbers: np.ndarray | None = None, num_threads: int | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Return bootstrap replicates (int64) of every matrix, as an axis before the last two; and the status."""
    del num_threads
    xp, batch, C = library(M), M.shape[:-2], M.shape[-1]
    size, rounded = math.prod(batch), scheme == "expected_rounded"
    places, shares = size * n_resamples, compute_shares(M, missed, n=n, rounded=rounded, numbers=numbers)
    streams = {"numbers": shares.numbers, "seed": seed}
    out = xp.empty((*batch, n_resamples, C, C), np.int64)
    if out.size:
        common, drawn = {"status": shares.status, "C": C, "n": size, "n_resamples": n_resamples}, None
        if scheme != "row_multinomial":
            drawn = xp.empty((places, C), np.int64)
            _TOTALS.launch(
                (),
                batches.item_blocks(places),
                rows=shares.rows,
                total=shares.total,
                **common,
                **streams,
                out=drawn,
            )
        common |= {"cells": shares.cells, "drawn": drawn, "out": out}
        if rounded:
            _ROUNDED.launch((), batches.item_blocks(out.size), rates=shares.rates, **common)
        else:
            _CELLS.launch((), batches.item_blocks(places * C), support=shares.support, **streams, **common)
    return out, shares.status.reshape(batch)
