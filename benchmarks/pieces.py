"""``python -m benchmarks.pieces``: pieces of each job, its serial share, and the speed-up that 64 threads could reach.

Each job runs on one thread. The time of every piece is measured; the rest of the call is serial. The bound is the time
of the call over the serial time plus the longest of 64 queues, if each thread takes piece after piece.
What pieces do under Python's lock is not counted as serial; at about 20 us a piece it matters if pieces are short.
"""

import heapq
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import cmfast
from benchmarks import _data
from cmfast import metrics
from cmfast.kernels.cpu._core import pool

THREADS = 64
ROUNDS = 7


def jobs() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield names and calls on one thread."""
    one = {"num_threads": 1}
    n = 10_000_000
    for dtype, C in ((np.int64, 10), (np.int8, 10), (np.int64, 1000)):
        y, p = (x.astype(dtype) for x in _data.labels(n, C))
        yield (
            f"count 1e7 {np.dtype(dtype).name}, C={C}",
            lambda y=y, p=p, C=C: cmfast.confusion_matrix(y, p, n_classes=C, **one),
        )
    y, p = (np.tile(x.astype(np.int8), 10) for x in _data.labels(n, 10))
    yield "count 1e8 int8, C=10", lambda y=y, p=p: cmfast.confusion_matrix(y, p, n_classes=10, **one)
    for C in (10, 1000, 100_000):
        y, p = _data.labels(n, C)
        yield f"sums of labels 1e7, C={C}", lambda y=y, p=p, C=C: metrics.label_margins(y, p, n_classes=C, **one)
    ids = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, 1000)
    y, p = (ids[x] for x in _data.labels(n, 1000))
    yield "count 1e7 ids far apart, C=1000", lambda: cmfast.confusion_matrix(y, p, **one)
    X, y, p = _data.embeddings(1_000_000, 10, 10)
    grid = cmfast.Grid.scott(X)
    yield "cells 1e6 x 10", lambda: cmfast.cell_counts(X, y, p, grid=grid, **one)
    for C, B in ((10, 100_000), (100, 1000), (1000, 1)):
        M = _data.confusion_matrices(B, C, 0.9, 1e-3)
        yield f"scaling {B} of {C}x{C}", lambda M=M: cmfast.bi_normalize(M, **one)
        whole = np.ceil(M).astype(np.int64)
        yield f"metrics {B} of {C}x{C}", lambda M=whole: metrics.compute(M, **one)


def measure(call: Callable[[], Any]) -> tuple[float, float, list[float]]:
    """Return the time of a call, the serial part, and the times of the pieces."""
    times: list[float] = []
    original = pool.run_pieces

    def run_timed(work, bounds, **options):
        def timed(*piece):
            start = time.thread_time()
            work(*piece)
            times.append(time.thread_time() - start)

        nested = getattr(pool._inside, "run", None) is not None
        original(work if nested else timed, bounds, **options)

    pool.run_pieces = run_timed
    try:
        start = time.thread_time()
        call()
        total = time.thread_time() - start
    finally:
        pool.run_pieces = original
    if len(times) == 1:  # one piece is serial
        return total, total, times
    return total, total - sum(times), times


def bound(total: float, serial: float, times: list[float]) -> float:
    """Return the speed-up of THREADS threads that take piece after piece."""
    queues = [0.0] * THREADS
    for each in times if serial < total else []:
        heapq.heapreplace(queues, queues[0] + each)
    return total / (serial + max(queues))


def main() -> int:
    """Print a line for each job; return 0."""
    wanted = sys.argv[1:]
    sys.stdout.write(f"{'job':<34}{'pieces':>7}{'ms':>9}{'serial':>9}{'64 threads':>12}\n")
    for name, call in jobs():
        if wanted and not any(word in name for word in wanted):
            continue
        call()
        found = sorted((measure(call) for _ in range(ROUNDS)), key=lambda each: each[1] / each[0])[ROUNDS // 2]
        total, serial, times = found
        speed = bound(*found)
        sys.stdout.write(f"{name:<34}{len(times):>7}{1e3 * total:>9.1f}{serial / total:>9.2%}{speed:>10.1f} x\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
