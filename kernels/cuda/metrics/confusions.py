"""Which classes are taken for which: one class against the rest, shares of the rows, the largest confusions."""

import math
from typing import Any

import numpy as np

from cmfast.kernels.cuda import counting
from cmfast.kernels.cuda._core import batches
from cmfast.kernels.cuda._core.module import NAMES, THREADS, Kernel, library
from cmfast.kernels.cuda.metrics.values import margins

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
TABLE_PER_SAMPLE = 16  # cells per pair of labels up to which a whole table is counted, of which margins are made
KERNELS = (_TABLES, _FRACTIONS, _MOST, _LABELS)


def _cells(M: Any) -> Any:
    """Return `M` as a flat batch of float32, float64 or int64."""
    if M.dtype.kind == "f":
        return batches.flat_batch(batches.as_floating(M), 2)
    return batches.flat_batch(M.view(np.int64) if M.dtype == np.uint64 else M.astype(np.int64, copy=False), 2)


def one_vs_rest(M: Any, *, num_threads: int | None = None) -> tuple[Any, Any]:
    """[[tn, fp], [fn, tp]] of every class; and the status."""
    d, t, p, _, _, total, status = margins(M, num_threads=num_threads)
    C, n = M.shape[-1], math.prod(M.shape[:-2])
    out = library(M).empty((*M.shape[:-1], 2, 2), np.float32 if M.dtype == np.float32 else d.dtype)
    if out.size:
        d, t, p = (batches.flat_batch(a, 1) for a in (d, t, p))
        _TABLES.launch(
            (NAMES[d.dtype], NAMES[out.dtype]), batches.per_item(n * C),
            d=d, t=t, p=p, totals=total.reshape(n), C=C, n=n, out=out,
        )  # fmt: skip
    return out, status


def confusion_fractions(M: Any, *, fill: float, num_threads: int | None = None) -> tuple[Any, Any]:
    """Cells divided by the sum of their row, `fill` in a row without mass; and the status."""
    _, t, _, _, _, _, status = margins(M, num_threads=num_threads)
    C, n = M.shape[-1], math.prod(M.shape[:-2])
    out = library(M).empty(M.shape, batches.result_dtype(M))
    if out.size:
        cells = _cells(M)
        _FRACTIONS.launch(
            (NAMES[cells.dtype], NAMES[t.dtype], NAMES[out.dtype]), batches.per_item(out.size),
            M=cells, t=batches.flat_batch(t, 1), status=status.reshape(n), C=C, n=n, fill=fill, out=out,
        )  # fmt: skip
    return out, status


def most_confused(M: Any, *, k: int, by: str, num_threads: int | None = None) -> tuple[Any, Any, Any, Any]:
    """Value, row and column of the `k` largest confusions, ties by row, then column; and the status."""
    rate, symmetric = by.endswith("rate"), by.startswith("symmetric")
    C, n, batch = M.shape[-1], math.prod(M.shape[:-2]), M.shape[:-2]
    k = min(k, C * (C - 1) // (2 if symmetric else 1))
    _, t, _, _, _, _, status = margins(M, num_threads=num_threads)
    xp = library(M)
    out, row, col = xp.empty((*batch, k)), xp.empty((*batch, k), np.int64), xp.empty((*batch, k), np.int64)
    if out.size:
        cells = _cells(M)
        _MOST.launch(
            (NAMES[cells.dtype], NAMES[t.dtype]), batches.per_item(n),
            M=cells, t=batches.flat_batch(t, 1), status=status.reshape(n), C=C, n=n,
            rate=rate, symmetric=symmetric, most=k, out=out, out_row=row, out_col=col,
        )  # fmt: skip
    return out, row, col, status


def label_margins(y: Any, p: Any, *, n_classes: int, num_threads: int | None = None) -> tuple[Any, ...]:
    """Return the margins of the matrices of labels; status; how many labels are outside."""
    del num_threads
    xp, batch, n = library(y), y.shape[:-1], y.shape[-1]
    rows = math.prod(batch)
    if rows and 0 < n_classes**2 <= min(n * TABLE_PER_SAMPLE, counting.MOST_HELD):
        table, outside = counting.count_pairs(y, p, n_classes)
        *sums, total, status = margins(table)
        return *sums, total, status, int(outside.get()[0])  # synchronises
    out, outside = xp.zeros((5, *batch, n_classes), np.uint64), xp.zeros(1, np.uint64)
    if rows * n:
        y, p = (batches.flat_batch(a.astype(np.int64, copy=False), 1) for a in (y, p))
        held = 0 < 5 * n_classes <= min(n, counting.MOST_HELD)
        copies = min(counting.TABLE_COPIES, counting.MOST_HELD // (5 * n_classes)) if held else 1
        parts = counting.parts_of(rows, n)
        _LABELS.launch(
            (str(int(held)),), rows * parts,
            shared=max(20 * n_classes * copies if held else 0, batches.team_scratch(str(THREADS))),
            y_true=y, y_pred=p, n=n, rows=rows, parts=parts, n_classes=n_classes, copies=copies,
            out=out, out_outside=outside,
        )  # fmt: skip
    sums = out.view(np.int64)
    total = xp.zeros(batch, np.int64) + n
    return (*(sums[part] for part in range(5)), total, xp.zeros(batch, np.int8), int(outside.get()[0]))  # synchronises
