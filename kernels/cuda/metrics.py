"""The sums of confusion matrices, in one pass over the cells."""

import math
from itertools import product
from typing import Any

import numpy as np

from cmfast.kernels.cuda import _arrays
from cmfast.kernels.cuda._module import NAMES, Kernel, library

_TYPES = (("i64", "i64"), ("int", "i64"), ("float", "double"), ("double", "double"))
_MARGINS = Kernel("metrics", "cmfast_margins_sums", tuple((*t, w) for t, w in product(_TYPES, _arrays.WIDTHS)))
KERNELS = (_MARGINS,)


def _cells(M: Any) -> Any:
    """Return `M` in a type that the kernels are compiled for: int64, int32, float64 or float32."""
    if M.dtype in (np.int64, np.int32, np.float64, np.float32):
        return M
    if M.dtype.kind == "f":
        return M.astype(np.float64)
    if M.dtype == np.uint64:
        return M.view(np.int64)  # what int64 cannot hold looks negative, which is refused as well
    return M.astype(np.int64 if M.dtype == np.uint32 else np.int32)


def margins(M: Any, *, num_threads: int | None = None) -> tuple[Any, ...]:
    """Diagonal, row sums, column sums, sums by distance from the diagonal and by larger class; total; status."""
    del num_threads
    xp, C, batch = library(M), M.shape[-1], M.shape[:-2]
    cells = _arrays.flat_batch(_cells(M), 2)
    n = math.prod(batch)
    dtype = np.dtype(np.float64 if M.dtype.kind == "f" else np.int64)
    out, total, status = xp.empty((5, n, C), dtype), xp.empty(n, dtype), xp.empty(n, np.int8)
    if n:
        width = _arrays.width(C)
        instance = (NAMES[cells.dtype], NAMES[dtype], width)
        arguments = (cells, C, n, out, total, status)
        _MARGINS.launch(instance, _arrays.blocks(n, width), arguments, shared=_arrays.team_scratch(width))
    return (*(out[part].reshape(*batch, C) for part in range(5)), total.reshape(batch), status.reshape(batch))
