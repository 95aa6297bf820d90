"""Normalise matrices by totals, row sums or column sums; importance weights of samples; their gradients."""

import math
from itertools import product
from typing import Any

import numpy as np

from cmfast.kernels.cuda._core import batches, workspace
from cmfast.kernels.cuda._core.module import NAMES, Kernel, library
from cmfast.kernels.shared.normalizing import ALL_CELLS, CODES_OF_LINES, COL, ROW, SHRINK

DEFINES = {"ALL_CELLS": ALL_CELLS, "ROW": ROW, "COL": COL, "SHRINK": SHRINK}

_TYPES = (("float", "float"), ("double", "double"), ("i64", "double"))
_BY_LINE = tuple((*types, width) for types, width in product(_TYPES, batches.WIDTHS))
_NORMALIZE = Kernel("normalizing", "cmfast_normalize_lines", _BY_LINE, registers=72)
_WEIGHTS = Kernel("normalizing", "cmfast_importance_weights_lines", _BY_LINE, registers=72)
_FACTORS = Kernel(
    "normalizing", "cmfast_importance_weights_factors", tuple(product(("float", "double"), batches.WIDTHS))
)
_GRADIENT = Kernel(
    "normalizing",
    "cmfast_normalizing_gradient_lines",
    tuple(product(("float", "double"), batches.WIDTHS)),
    registers=72,
)
KERNELS = (_NORMALIZE, _WEIGHTS, _FACTORS, _GRADIENT)


def _run_normalization(kernel: Kernel, M: Any, method: str, given: tuple[Any, ...] | None = None) -> tuple[Any, Any]:
    """Launch a normalising kernel on a batch; return results and status."""
    xp, dtype = library(M), batches.result_dtype(M)
    R, C = M.shape[-2:]
    n = math.prod(M.shape[:-2])
    out, status = workspace.prepare_results(xp, given, (M.shape, dtype), (M.shape[:-2], np.int8))
    status[...] = 0
    if out.size:
        cells = batches.flat_batch(M if M.dtype == np.int64 else batches.as_floating(M), 2)
        width = batches.width(R * C if method == "all" else C)
        kernel.launch(
            (NAMES[cells.dtype], NAMES[dtype], width), batches.blocks(n, width), shared=batches.team_scratch(width),
            M=cells, R=R, C=C, lines=CODES_OF_LINES[method], n=n, out=out, out_status=status,
        )  # fmt: skip
    return out, status


def normalize(
    M: Any,
    *,
    method: str,
    num_threads: int | None = None,
    progress: Any = None,
    out: tuple[Any, ...] | None = None,
) -> tuple[Any, Any]:
    """Return matrices divided by their total, row or column sums (Erbani et al., equation (1)); zero sums stay zero."""
    del num_threads
    return _report_done(progress, M, _run_normalization(_NORMALIZE, M, method, out))


def importance_weights(
    M: Any,
    row_scale: Any,
    col_scale: Any,
    scaled: Any,
    *,
    method: str,
    num_threads: int | None = None,
    progress: Any = None,
) -> tuple[Any, Any]:
    """Return sample weights w_a, w_r, w_c of `M` (Erbani et al., appendix F), or w_b from scaling factors; status."""
    del num_threads
    if method != "bi":
        return _report_done(progress, M, _run_normalization(_WEIGHTS, M, method))
    xp, dtype = library(M), batches.result_dtype(M)
    R, C = M.shape[-2:]
    n = math.prod(M.shape[:-2])
    out, status = xp.empty((n, R * C), dtype), scaled.reshape(n).astype(np.int8)
    if out.size:
        width = batches.width(R * C)
        _FACTORS.launch(
            (NAMES[dtype], width), batches.blocks(n, width), shared=batches.team_scratch(width),
            row_scale=batches.flat_batch(row_scale, 1), col_scale=batches.flat_batch(col_scale, 1),
            R=R, C=C, n=n, out=out, out_status=status,
        )  # fmt: skip
    return _report_done(progress, M, (out.reshape(M.shape), status.reshape(M.shape[:-2])))


def normalizing_gradient(
    M: Any, G: Any, *, method: str, of_weights: bool = False, num_threads: int | None = None
) -> Any:
    """Return the gradient in the cells, given that in the normalised matrix or the weights; 0 without mass."""
    del num_threads
    R, C = M.shape[-2:]
    n, dtype = math.prod(M.shape[:-2]), batches.result_dtype(M)
    out = library(M).empty(M.shape, dtype)
    if out.size:
        width = batches.width(R * C if method == "all" else C)
        _GRADIENT.launch(
            (NAMES[dtype], width), batches.blocks(n, width), shared=batches.team_scratch(width),
            M=batches.flat_batch(batches.as_floating(M), 2), G=batches.flat_batch(G, 2, dtype),
            R=R, C=C, lines=CODES_OF_LINES[method], of_weights=of_weights, n=n, out=out,
        )  # fmt: skip
    return out


def _report_done(progress: Any, M: Any, result: tuple[Any, Any]) -> tuple[Any, Any]:
    """Report that all is done, because one launch has no parts; return the result."""
    if progress is not None:
        n = math.prod(M.shape[:-2])
        progress(n, n)
    return result
