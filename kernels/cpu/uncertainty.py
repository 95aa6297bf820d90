"""What a confusion matrix could have been with other samples: replicates drawn from its shares.

Every matrix has a stream of its own, Philox with the key (seed, place in the batch), so threads change nothing.
"""

import math

import numpy as np

from cmfast.kernels.cpu import _pool
from cmfast.kernels.status import Status

SECONDS_PER_DRAW = 1e-7
SECONDS_PER_STREAM = 2e-5


def resample(M, missed, *, n_replicates, scheme, n, seed, num_threads=None):
    """Replicates of every matrix, int64, one axis before the last two; and the status."""
    batch, C = M.shape[:-2], M.shape[-1]
    size = math.prod(batch)
    cells = np.zeros((size, C, C + 1))
    cells[..., :C] = M.reshape(size, C, C)
    if missed is not None:
        cells[..., C] = missed.reshape(size, C)
    out = np.zeros((size, n_replicates, C, C), np.int64)
    status = np.zeros(size, np.int8)
    draw = SCHEMES[scheme]

    def work(_, start, stop):
        for b in range(start, stop):
            status[b] = _status(cells[b], n)
            if status[b] == Status.CONVERGED:
                stream = np.random.Generator(np.random.Philox(key=np.array([seed, b], np.uint64)))
                total = int(cells[b].sum()) if n is None else n
                out[b] = draw(cells[b], total, n_replicates, stream)

    seconds = size * (SECONDS_PER_STREAM + n_replicates * C * (C + 1) * SECONDS_PER_DRAW)
    _pool.run_pieces(work, _pool.pieces(size, seconds), seconds=seconds, num_threads=num_threads)
    return out.reshape(*batch, n_replicates, C, C), status.reshape(batch)


def _status(cells, n):
    """Whether shares can be had from `cells`; they must be counts where nothing says how many samples there are."""
    if not ((cells >= 0) & (cells < np.inf)).all():
        return Status.INVALID
    total = cells.sum()
    if n is None:
        return Status.CONVERGED if total < 2.0**63 and (cells == np.floor(cells)).all() else Status.INVALID
    if total == 0.0 and n > 0:
        return Status.ZERO_LINE
    return Status.CONVERGED if total < np.inf else Status.INVALID


def _draw(weights, total, n_replicates, stream):
    """Multinomial counts, shape (n_replicates, number of weights). Empty cells stay empty and take no draw."""
    out = np.zeros((n_replicates, weights.size), np.int64)
    (filled,) = np.nonzero(weights)
    if filled.size:
        share = weights[filled] / weights.sum()
        out[:, filled] = stream.multinomial(total, share / share.sum(), n_replicates)
    return out


def _multinomial(cells, total, n_replicates, stream):
    return _draw(cells.ravel(), total, n_replicates, stream).reshape(n_replicates, *cells.shape)[..., :-1]


def _row_multinomial(cells, _, n_replicates, stream):
    rows = [_draw(row, int(row.sum()), n_replicates, stream)[:, :-1] for row in cells]
    return np.stack(rows, 1) if rows else np.zeros((n_replicates, 0, 0), np.int64)


def _expected_rounded(cells, total, n_replicates, stream):
    support, found = cells.sum(1), cells[:, :-1].sum(1)
    drawn = _draw(support, total, n_replicates, stream)
    rate = np.divide(found, support, out=np.zeros_like(support), where=support > 0)
    share = np.divide(cells[:, :-1], found[:, None], out=np.zeros_like(cells[:, :-1]), where=found[:, None] > 0)
    detected = np.rint(drawn * rate)
    return np.rint(detected[:, :, None] * share).astype(np.int64)


SCHEMES = {
    "multinomial": _multinomial,
    "row_multinomial": _row_multinomial,
    "expected_rounded": _expected_rounded,
}
