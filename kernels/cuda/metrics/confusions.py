"""One-vs-rest tables, row-normalised confusions, the largest confusions, and class sums counted from labels."""

import math
from typing import Any

import numpy as np

from cmfast.kernels.cuda import counting
from cmfast.kernels.cuda._core import batches
from cmfast.kernels.cuda._core.module import NAMES, THREADS, Kernel, library
from cmfast.kernels.cuda.metrics.values import margins, sum_matrices
from cmfast.kernels.status import INVALID

_TABLES = Kernel(
    "metrics/confusions", "cmfast_one_vs_rest_tables", (("i64", "i64"), ("double", "double"), ("double", "float"))
)
_FRACTIONS = Kernel(
    "metrics/confusions",
    "cmfast_confusion_fractions_cells",
    (("i64", "i64", "double"), ("double", "double", "double"), ("float", "double", "float")),
)
_MOST = Kernel(
    "metrics/confusions", "cmfast_most_confused_cells", (("i64", "i64"), ("double", "double"), ("float", "double")), 72
)
_LABELS = Kernel("metrics/confusions", "cmfast_label_margins_count", (("0",), ("1",)))
TABLE_PER_SAMPLE = 16  # cells per label pair up to which the full table is counted first
KERNELS = (_TABLES, _FRACTIONS, _MOST, _LABELS)


def _flatten_cells(M: Any) -> Any:
    """Return `M` as a flat batch of float32, float64 or int64."""
    if M.dtype.kind == "f":
        return batches.flat_batch(batches.as_floating(M), 2)
    return batches.flat_batch(M.view(np.int64) if M.dtype == np.uint64 else M.astype(np.int64, copy=False), 2)


def one_vs_rest(M: Any, *, num_threads: int | None = None) -> tuple[Any, Any]:
    """Return [[tn, fp], [fn, tp]] of every class, and the status."""
    d, t, p, _, _, total, status = sum_matrices(M, ordered=False)
    C, n = M.shape[-1], math.prod(M.shape[:-2])
    out = library(M).empty((*M.shape[:-1], 2, 2), np.float32 if M.dtype == np.float32 else d.dtype)
    if out.size:
        d, t, p = (batches.flat_batch(a, 1) for a in (d, t, p))
        _TABLES.launch(
            (NAMES[d.dtype], NAMES[out.dtype]), batches.item_blocks(n * C),
            d=d, t=t, p=p, totals=total.reshape(n), C=C, n=n, out=out,
        )  # fmt: skip
    return out, status


def confusion_fractions(M: Any, *, fill: float, num_threads: int | None = None) -> tuple[Any, Any]:
    """Return cells divided by their row sum, `fill` in a row without mass, and the status."""
    _, t, _, _, _, _, status = sum_matrices(M, ordered=False)
    C, n = M.shape[-1], math.prod(M.shape[:-2])
    out = library(M).empty(M.shape, batches.result_dtype(M))
    if out.size:
        cells = _flatten_cells(M)
        _FRACTIONS.launch(
            (NAMES[cells.dtype], NAMES[t.dtype], NAMES[out.dtype]), batches.item_blocks(out.size),
            M=cells, t=batches.flat_batch(t, 1), status=status.reshape(n), C=C, n=n, fill=fill, out=out,
        )  # fmt: skip
    return out, status


def most_confused(M: Any, *, k: int, by: str, num_threads: int | None = None) -> tuple[Any, Any, Any, Any]:
    """Return value, row and column of the `k` largest confusions, ties by row, then column; and the status."""
    rate, symmetric = by.endswith("rate"), by.startswith("symmetric")
    C, n, batch = M.shape[-1], math.prod(M.shape[:-2]), M.shape[:-2]
    k = min(k, C * (C - 1) // (2 if symmetric else 1))
    _, t, _, _, _, _, status = sum_matrices(M, ordered=False)
    xp = library(M)
    out, row, col = xp.empty((*batch, k)), xp.empty((*batch, k), np.int64), xp.empty((*batch, k), np.int64)
    if out.size:
        cells = _flatten_cells(M)
        _MOST.launch(
            (NAMES[cells.dtype], NAMES[t.dtype]), batches.item_blocks(n),
            M=cells, t=batches.flat_batch(t, 1), status=status.reshape(n), C=C, n=n,
            rate=rate, symmetric=symmetric, most=k, out=out, out_row=row, out_col=col,
        )  # fmt: skip
    return out, row, col, status


def label_margins(
    y: Any,
    p: Any,
    weight: Any,
    groups: Any,
    *,
    n_classes: int,
    n_groups: int | None,
    ignored: int | None = None,
    ordered: bool = True,
    num_threads: int | None = None,
) -> tuple[Any, ...]:
    """Return the class sums of label pairs, without their matrices; total, status, pairs out of range."""
    del ordered, num_threads  # bands and tops are counted in the same pass
    xp, batch, n = library(y), y.shape[:-1], y.shape[-1]
    rows, tables = math.prod(batch), 1 if n_groups is None else n_groups
    plain = weight is None and groups is None and ignored is None
    if plain and rows and 0 < n_classes**2 <= min(n * TABLE_PER_SAMPLE, counting.MOST_HELD):
        table, outside = counting.count_pairs(y, p, n_classes)
        *sums, total, status = margins(table)
        return *sums, total, status, int(outside.get()[0])  # synchronises
    shape = batch if n_groups is None else (*batch, n_groups)
    out, outside = xp.zeros((5, *shape, n_classes), np.uint64), xp.zeros(1, np.uint64)
    y, p, groups = (None if a is None else batches.flat_batch(a, 1, np.int64) for a in (y, p, groups))
    if rows * n:
        held = groups is None and 0 < 5 * n_classes <= min(n, counting.MOST_HELD)
        copies = min(counting.TABLE_COPIES, counting.MOST_HELD // (5 * n_classes)) if held else 1
        parts = counting.count_parts(rows, n)
        _LABELS.launch(
            (str(int(held)),), rows * parts,
            shared=max(20 * n_classes * copies if held else 0, batches.team_scratch(str(THREADS))),
            y_true=y, y_pred=p, groups=groups, n=n, rows=rows, parts=parts, n_classes=n_classes, n_groups=tables,
            ignores=ignored is not None, ignored=ignored or 0, copies=copies, out=out, out_outside=outside,
        )  # fmt: skip
    number = int(outside.get()[0])  # synchronises
    sums = out.view(np.int64)
    status = xp.zeros(shape, np.int8)
    if weight is None or number:
        return (*(sums[part] for part in range(5)), sums[1].sum(-1), status, number)
    return (*_sum_weights(y, p, weight.reshape(rows, n), groups, ignored, (*shape, n_classes)), number)


def _sum_weights(
    y: Any, p: Any, weight: Any, groups: Any, ignored: int | None, shape: tuple[int, ...]
) -> tuple[Any, ...]:
    """Return class sums of weights (exact, floats rounded once), total and status."""
    xp, C = library(y), shape[-1]
    first = xp.arange(len(y))[:, None] * (math.prod(shape[:-1]) // max(1, len(y)))
    first = (first if groups is None else first + groups) * C
    weight = weight.astype(np.float64) if weight.dtype.kind == "f" else weight
    seen = y == y if ignored is None else y != ignored  # noqa: PLR0124 - all of them
    sums, good = [], xp.zeros(shape[:-1], np.int8) == 0
    for column, inside in (
        (y, seen & (y == p)),
        (y, seen),
        (p, seen),
        (abs(y - p), seen),
        (xp.where(y > p, y, p), seen),
    ):
        part, status = counting.sum_groups(weight[inside], (first + column)[inside], math.prod(shape))
        good = good & (status.reshape(shape) == 0).all(-1)
        sums.append(part.reshape(shape))
    total = sums[1].sum(-1)
    if weight.dtype.kind == "f":
        bad = xp.where(good, 0.0, np.nan)
        return (*(part + bad[..., None] for part in sums), total + bad, ((1 - good) * INVALID).astype(np.int8))
    good = good & (sums[1] >= 0).all(-1) & (total >= 0)
    return (*(part * good[..., None] for part in sums), total * good, ((1 - good) * INVALID).astype(np.int8))
