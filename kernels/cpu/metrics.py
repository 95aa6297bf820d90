"""The sums of confusion matrices, and every metric as a function of them, in one pass over the cells."""

import math

import numpy as np

from cmfast.kernels.cpu import _arrays, _formulas, _margins, _pool
from cmfast.kernels.cpu._jit import jit

SECONDS_PER_CELL = 1.2e-9
SECONDS_PER_VALUE = 2e-9  # one step of a plan, for one class
BLOCK_BYTES = 400_000  # sums of one block: half of a second cache


def _cells(M):
    """Return `M` in a type that the kernels are compiled for: int64, int32, float64 or float32."""
    if M.dtype in (np.int64, np.int32, np.float64, np.float32):
        return M
    if M.dtype.kind == "f":
        return M.astype(np.float64)
    if M.dtype == np.uint64:
        return M.view(np.int64)  # what int64 cannot hold looks negative, which is refused as well
    return M.astype(np.int64 if M.dtype == np.uint32 else np.int32)


@jit()
def _margins_of(M, zero, blank, exact, size, out, out_total, out_status, start, stop):
    C = M.shape[1]
    tile = np.empty((5, C, size), zero.dtype)
    total, col, band = np.empty(size, zero.dtype), np.empty(C, zero.dtype), np.empty(2 * C + 1, zero.dtype)
    status = np.empty(size, np.int8)
    for first in range(start, stop, size):
        count = min(size, stop - first)
        _margins.load(M, first, count, exact, True, tile, total, status, col, band)
        for w in range(count):
            out_status[first + w] = status[w]
            valid = status[w] == 0
            out_total[first + w] = total[w] if valid else blank
            for part in range(5):
                for k in range(C):
                    out[part, first + w, k] = tile[part, k, w] if valid else blank


@jit()
def _load(M, exact, size, ordered, tiles, total, status, start, stop):
    """Fill tiles (tile, sum, class, lane) with the sums of ``M[start:stop]``."""
    dtype = tiles.dtype
    col, band = np.empty(M.shape[1], dtype), np.empty(2 * M.shape[1] + 1, dtype)
    for i in range(tiles.shape[0]):
        first = start + i * size
        count = max(0, min(size, stop - first))
        _margins.load(M, first, count, exact, ordered, tiles[i], total[i], status[i], col, band)


@jit()
def _load_sums(d, t, p, band, top, exact, size, tiles, total, status, start, stop):
    for i in range(tiles.shape[0]):
        first = start + i * size
        count = max(0, min(size, stop - first))
        _margins.load_sums(d, t, p, band, top, first, count, exact, tiles[i], total[i], status[i])


@jit()
def _evaluate(tiles, totals, status, exact, limit, steps, params, weights, mode, registers, products, ordered, scalars,
              tables, out_status, start, stop):  # fmt: skip
    C, size = tiles.shape[2], tiles.shape[3]
    scratch = np.empty((8, size), tiles.dtype)
    cov, values, filled, entering = np.empty((4, C, size))
    sums, members, spare = np.empty((8, size)), np.empty(size), np.empty(size)
    made = np.empty((registers, size))
    for i in range(tiles.shape[0]):
        first = start + i * size
        tile, total, count = tiles[i], totals[i], max(0, min(size, stop - first))
        if not exact:
            _formulas.rescale_tile(tile, total, count)
        if products:
            _formulas.make_products(tile, total, count, limit, ordered, cov, sums, scratch)
        _formulas.run(steps, params, weights, mode, tile, total, count, cov, sums, values, filled, entering, members,
                      spare, made, tables, first)  # fmt: skip
        for w in range(count):
            code = status[i, w]
            out_status[first + w] = code
            for scalar in range(scalars.shape[0]):
                scalars[scalar, first + w] = made[scalar, w] if code == 0 else np.nan
            if code != 0:
                for table in range(tables.shape[0]):
                    for k in range(C):
                        tables[table, first + w, k] = np.nan


def margins(M, *, num_threads=None):
    """Diagonal, row sums, column sums, sums by distance from the diagonal and by larger class; total; status."""
    C, batch = M.shape[-1], M.shape[:-2]
    flat = _arrays.flat_batch(_cells(M), 2)
    n, zero = len(flat), _zero(M)
    out = np.empty((5, n, C), zero.dtype)
    total, status = np.empty(n, zero.dtype), np.empty(n, np.int8)
    size = _margins.lanes(C, n)
    exact = zero.dtype.kind == "i"
    blank = np.int64(0) if exact else np.nan  # what a bad matrix gets
    args = (flat, zero, blank, exact, size, out, total, status)
    seconds = n * C * C * SECONDS_PER_CELL
    _pool.run(_margins_of, args, n, seconds=seconds, tile=size, num_threads=num_threads)
    return (*(part.reshape(*batch, C) for part in out), total.reshape(batch), status.reshape(batch))


def metrics_of_matrices(M, *, plan, num_threads=None):
    """Run `plan` on every matrix; its scalars, its per-class results, the status."""
    C, batch = M.shape[-1], M.shape[:-2]
    flat = _arrays.flat_batch(_cells(M), 2)

    def load(exact, size, tiles, total, status, start, stop):
        _load(flat, exact, size, plan.ordered, tiles, total, status, start, stop)

    return _run(load, (M,), C, batch, C * C, plan, num_threads)


def metrics_of_sums(d, t, p, bands, tops, *, plan, num_threads=None):
    """Run `plan` on sums alone; `bands` and `tops` may be None where no step needs them."""
    C, batch = t.shape[-1], t.shape[:-1]
    given = (d, t, p, bands, tops)
    zero = _zero(*given)
    absent = np.empty((0, C), zero.dtype)
    d, t, p, bands, tops = (_arrays.flat_batch(absent if a is None else _sums(a, zero.dtype), 1) for a in given)

    def load(exact, size, tiles, total, status, start, stop):
        _load_sums(d, t, p, bands, tops, exact, size, tiles, total, status, start, stop)

    return _run(load, given, C, batch, 5 * C, plan, num_threads)


def _zero(*arrays):
    """Return an empty array of the type that sums are made in: int64 of integers, float64 of fractions."""
    fractions = any(a is not None and a.dtype.kind == "f" for a in arrays)
    return np.empty(0, np.float64 if fractions else np.int64)


def _sums(a, dtype):
    return a.view(np.int64) if a.dtype == np.uint64 and dtype == np.int64 else a.astype(dtype, copy=False)


def _run(load, given, C, batch, cells, plan, num_threads):
    """Load and evaluate block by block: two kernels, so that each is compiled for few types, over sums in the cache."""
    n, dtype = math.prod(batch), _zero(*given).dtype
    exact = dtype.kind == "i"
    kind = _arrays.result_dtype(*(a for a in given if a is not None))
    scalars, tables = np.empty((plan.scalars, n), kind), np.empty((plan.tables, n, C), kind)
    out_status = np.empty(n, np.int8)
    size = _margins.lanes(C, n)
    limit = _formulas.largest_total(C, plan.ordered)
    block = size * max(1, BLOCK_BYTES // (40 * size * max(1, C)))
    settings = (
        exact, limit, plan.steps, plan.params, plan.weights, int(plan.mode), plan.registers, plan.products,
        plan.ordered, scalars, tables, out_status,
    )  # fmt: skip

    def work(_, start, stop):
        for first in range(start, stop, block):
            last = min(first + block, stop)
            count = -(-(last - first) // size)
            tiles, total = np.empty((count, 5, C, size), dtype), np.empty((count, size), dtype)
            status = np.empty((count, size), np.int8)
            load(exact, size, tiles, total, status, first, last)
            _evaluate(tiles, total, status, *settings, first, last)

    seconds = n * (cells * SECONDS_PER_CELL + len(plan.steps) * C * SECONDS_PER_VALUE)
    if n:
        _pool.run_pieces(work, _pool.pieces(n, seconds, tile=block), seconds=seconds, num_threads=num_threads)
    each = (*(row.reshape(batch) for row in scalars), *(table.reshape(*batch, C) for table in tables))
    return (*each, out_status.reshape(batch))


@jit()
def _weighted_kappa(M, W, fill, zero, exact, size, out, out_status, start, stop):
    C = M.shape[1]
    tile = np.empty((5, C, size), zero.dtype)
    total, col, band = np.empty(size, zero.dtype), np.empty(C, zero.dtype), np.empty(2 * C + 1, zero.dtype)
    for b in range(start, stop):
        _margins.load(M, b, 1, exact, False, tile, total, out_status[b : b + 1], col, band)
        n = np.float64(total[0])
        bad = out_status[b] != 0
        met, expected = 0.0, 0.0
        for i in range(C):
            truth, row = tile[1, i, 0] / n, 0.0
            for j in range(C):
                w = W[i, j]
                bad = bad or not 0.0 <= w < np.inf or (i == j and w != 0.0)
                met += w * (M[b, i, j] / n)
                row += w * (tile[2, j, 0] / n)
            expected += truth * row
        if bad:
            out[b] = np.nan
            out_status[b] = _margins.INVALID
        else:
            out[b] = (expected - met) / expected if expected > 0.0 else fill


def weighted_kappa(M, W, *, fill, num_threads=None):
    """Cohen 1968: one minus weighted disagreement over that expected from the margins; and the status."""
    C, batch = M.shape[-1], M.shape[:-2]
    flat = _arrays.flat_batch(_cells(M), 2)
    n, zero = len(flat), _zero(M)
    out = np.empty(n, _arrays.result_dtype(M))
    status = np.empty(n, np.int8)
    table = np.array(W, np.float64, order="C")
    args = (flat, table, fill, zero, zero.dtype.kind == "i", 1, out, status)
    _pool.run(_weighted_kappa, args, n, seconds=4 * n * C * C * SECONDS_PER_CELL, num_threads=num_threads)
    return out.reshape(batch), status.reshape(batch)
