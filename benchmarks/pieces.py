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
    """Yield names and calls."""
    many = {"num_threads": THREADS}  # which decides what has pieces; `measure` runs them on one thread
    n = 10_000_000
    for dtype, C in ((np.int64, 10), (np.int8, 10), (np.int64, 1000)):
        y, p = (x.astype(dtype) for x in _data.labels(n, C))
        yield (
            f"count 1e7 {np.dtype(dtype).name}, C={C}",
            lambda y=y, p=p, C=C: cmfast.confusion_matrix(y, p, n_classes=C, **many),
        )
    for dtype in (np.int64, np.int8):
        y, p = (np.tile(x.astype(dtype), 10) for x in _data.labels(n, 10))
        yield (
            f"count 1e8 {np.dtype(dtype).name}, C=10",
            lambda y=y, p=p: cmfast.confusion_matrix(y, p, n_classes=10, **many),
        )
    for C in (10, 1000, 100_000):
        y, p = _data.labels(n, C)
        yield f"sums of labels 1e7, C={C}", lambda y=y, p=p, C=C: metrics.label_margins(y, p, n_classes=C, **many)
    ids = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, 1000)
    y, p = (ids[x] for x in _data.labels(n, 1000))
    yield "count 1e7 ids far apart, C=1000", lambda: cmfast.confusion_matrix(y, p, **many)
    for size, text in ((1_000_000, "1e6"), (n, "1e7")):
        X, y, p = _data.embeddings(size, 10, 10)
        grid = cmfast.Grid.scott(X)
        yield f"cells {text} x 10", lambda X=X, y=y, p=p, grid=grid: cmfast.cell_counts(X, y, p, grid=grid, **many)
    for C, B in ((10, 100_000), (10, 500_000), (100, 1000), (100, 5000), (1000, 1), (5000, 1)):
        M = _data.confusion_matrices(B, C, 0.9, 1e-3)
        yield f"scaling {B} of {C}x{C}", lambda M=M: cmfast.bi_normalize(M, **many)
        whole = np.ceil(M).astype(np.int64)
        out = metrics.compute(whole)  # fresh memory is cleared by the system, mostly for the first pieces
        yield f"metrics {B} of {C}x{C}", lambda M=whole, out=out: metrics.compute(M, out=out, **many)


def measure_clock(repeats: int = 2000) -> float:
    """Return the seconds that reading the clock of this thread takes, microseconds where the system must be asked."""
    start = time.thread_time()
    for _ in range(repeats):
        time.thread_time()
    return (time.thread_time() - start) / repeats


def measure(call: Callable[[], Any]) -> tuple[float, float, list[float], int]:
    """Return the time of a call, the serial part, and the times of the pieces, without that of reading the clock.

    Also the most threads that the call would use.
    """
    times: list[float] = []
    threads = THREADS
    clock = measure_clock()
    original = pool.run_pieces

    def run_timed(work, bounds, **options):
        nonlocal threads

        def timed(*piece):
            start = time.thread_time()
            work(*piece)
            times.append(time.thread_time() - start - clock)

        # Of a call with one range, as of one large matrix, the pieces are those of the calls inside.
        nested = getattr(pool._inside, "run", None) is not None or len(bounds) == 1
        threads = min(threads, options.get("num_threads") or THREADS)
        original(work if nested else timed, bounds, **(options | {"num_threads": 1}))

    pool.run_pieces = run_timed
    try:
        start = time.thread_time()
        kept = call()  # giving the memory of results back is no part of the call
        total = time.thread_time() - start - clock - 2 * clock * len(times)
        del kept
    finally:
        pool.run_pieces = original
    return total, total - sum(times), times, threads


def bound(total: float, serial: float, times: list[float], threads: int) -> float:
    """Return the speed-up of threads that take piece after piece."""
    queues = [0.0] * threads
    for each in times:
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
        total, serial, times, _ = found
        speed = bound(*found)
        sys.stdout.write(f"{name:<34}{len(times):>7}{1e3 * total:>9.1f}{serial / total:>9.2%}{speed:>10.1f} x\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
