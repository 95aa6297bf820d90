"""Thread pool that runs range kernels without the GIL and survives fork().

Not Numba's ``parallel=True``: its default layer on Linux kills forked children, another aborts when two Python threads
call it, and all of them ignore control-group quotas.

The bounds of the pieces depend on the shapes alone, so the same input gives the same bits for any number of threads.
"""

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

INLINE_SECONDS = 3e-4  # estimated work below which starting threads (30 to 100 us) does not pay
PIECE_SECONDS = 5e-5  # least estimated work of a piece
MOMENT_SECONDS = 0.05  # of kernel time, about, between two checks for interruption
MAX_PIECES = 64
MOST_FREE_PIECES, FREE_PIECE_SECONDS = 256, 4e-4  # where bits do not depend on the bounds; beyond MAX_PIECES
MAX_THREADS = 256

Progress = Callable[[int, int], object]
Bounds = Sequence[tuple[int, int]]


class _Run:
    """State of one outermost call, shared by the threads that work on it."""

    given_up = False

    def __init__(self) -> None:
        self.thread = threading.get_ident()  # the caller's thread


class _GivenUp(BaseException):
    """Raised in a piece of a call that another thread has given up; never leaves the pool."""


_pool: ThreadPoolExecutor | None = None
_lock = threading.RLock()  # re-entrant: a signal handler may run kernels too
_inside = threading.local()


def _reset_after_fork() -> None:
    """Reset the pool, its lock and the thread-local state in a forked child."""
    # The child has no worker threads, and perhaps a lock that is held for ever.
    global _pool, _lock, _inside
    _pool, _lock, _inside = None, threading.RLock(), threading.local()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


def read_cpu_quota(process: Path = Path("/proc/self/cgroup"), mount: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Return the CPUs granted by the control groups (v1 or v2) of this process, rounded down; None without a limit."""
    try:
        groups = [line.split(":", 2) for line in process.read_text().splitlines()]
    except OSError:
        return None
    limits = []
    for _, controllers, path in groups:
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = mount / "cpu" if controllers else mount
        parts = Path(path).parts[1:]
        for depth in range(
            len(parts) + 1
        ):  # a parent's limit binds its children; a container sees its own group as topmost
            limit = _read_group_quota(root.joinpath(*parts[:depth]))
            if limit is not None:
                limits.append(max(1, limit))
    return min(limits, default=None)


def _read_group_quota(group: Path) -> int | None:
    """Return the CPU quota in a control group's folder, in whole CPUs; None without one."""
    for files in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        try:
            time, period = " ".join((group / name).read_text() for name in files).split()
        except (OSError, ValueError):
            continue
        if time.isdecimal() and period.isdecimal() and int(period) > 0:  # neither "max" nor -1
            return int(time) // int(period)
    return None


_cached_cpu_quota = cache(read_cpu_quota)


def cpu_count() -> int:
    """Return the CPUs this process may use: least of affinity, quota, CMFAST_NUM_THREADS, OMP_NUM_THREADS."""
    n = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    n = min(n, _cached_cpu_quota() or n)
    for name in ("CMFAST_NUM_THREADS", "OMP_NUM_THREADS"):
        value = os.environ.get(name, "").partition(",")[0].strip()  # OpenMP takes a list, one entry per level
        if value.isdecimal() and int(value) > 0:
            n = min(n, int(value))
    return n


def pieces(n: int, seconds: float, *, tile: int = 1, most: int = MAX_PIECES) -> list[tuple[int, int]]:
    """Cut ``[0, n)`` into ranges whose bounds depend on `n`, `seconds` and `tile` alone.

    `seconds` is the estimated time of all of it on one thread (a formula of the shapes, never a measurement).
    Bounds are multiples of `tile`.
    """
    if n <= tile:
        return [(0, n)]
    tiles = -(-n // tile)
    count = max(1, min(tiles, most, int(seconds / PIECE_SECONDS)))
    cuts = [tile * (tiles * i // count) for i in range(count)] + [n]
    return list(pairwise(cuts))


def free_pieces(n: int, seconds: float, *, tile: int = 1, most: int = MOST_FREE_PIECES) -> list[tuple[int, int]]:
    """Cut ``[0, n)`` as :func:`pieces`, but long work into more, so that many threads end at nearly the same time.

    Only for work whose bits do not depend on the bounds. Above MAX_PIECES the number is a multiple of it: of 110 pieces
    most of 64 threads would take two and the others wait for them.
    """
    rounds = -(-int(seconds / FREE_PIECE_SECONDS) // MAX_PIECES)
    return pieces(n, seconds, tile=tile, most=min(most, MAX_PIECES * max(1, rounds)))


def checkpoint() -> None:
    """Raise `_GivenUp` if the call that this piece belongs to was interrupted or failed in another thread.

    Python handles signals in the main thread between two bytecodes, so long kernels return every few tens of
    milliseconds and then call this.
    """
    run = getattr(_inside, "run", None)
    if run is not None and run.given_up:
        raise _GivenUp


def find_calling_frame() -> FrameType | None:
    """Return the current frame of the thread that made the call which this thread works on."""
    run = getattr(_inside, "run", None)
    return sys._getframe(1) if run is None else sys._current_frames().get(run.thread)


def run_pieces(
    work: Callable[[int, int, int], object],
    bounds: Bounds,
    *,
    seconds: float,
    num_threads: int | None = None,
    progress: Progress | None = None,
) -> None:
    """Call ``work(index, start, stop)`` once for every range of `bounds`, in any order, on several threads.

    The calling thread works too. An exception in a piece is raised here after the other threads have stopped at their
    next :func:`checkpoint`. A call from inside a piece runs inline, so nesting can neither deadlock nor oversubscribe.
    `progress` is called from this thread only, at most about ten times a second, with the finished and total length.
    """
    if len(bounds) == 1 and progress is None:
        work(0, *bounds[0])  # fast path: a single matrix takes microseconds
        return
    total = bounds[-1][1] if bounds else 0
    outer = getattr(_inside, "run", None)
    run = outer or _Run()
    serial = len(bounds) < 2 or seconds < INLINE_SECONDS or outer is not None
    threads = 1 if serial else min(num_threads or cpu_count(), len(bounds), MAX_THREADS)
    todo = deque((i, start, stop) for i, (start, stop) in enumerate(bounds))
    done = [0] * len(bounds)
    last_report = 0.0

    def drain(report: Progress | None) -> None:
        """Work on pieces of the queue until it is empty, the call is given up or a piece raises."""
        nonlocal last_report
        _inside.run = run
        try:
            while True:
                checkpoint()
                try:
                    i, start, stop = todo.popleft()
                except IndexError:
                    return
                work(i, start, stop)
                done[i] = stop - start
                if report is not None and time.monotonic() - last_report > 0.1:
                    last_report = time.monotonic()
                    report(sum(done), total)
        except _GivenUp:
            if outer is not None:
                raise
        except BaseException:
            if outer is None:
                run.given_up = True
            raise
        finally:
            todo.clear()  # empty already, unless a piece raised: then no other piece is started
            _inside.run = outer

    if threads == 1:
        drain(progress)
    else:
        _run_in_threads(drain, threads, progress, run)
    if progress is not None:
        progress(total, total)


def _run_in_threads(
    drain: Callable[[Progress | None], None], threads: int, progress: Progress | None, run: _Run
) -> None:
    """Run `drain` in `threads` threads including this one, wait for all of them, and raise the first exception."""
    others: list[Future[None]] = []
    try:
        _submit_workers(drain, threads - 1, others)
        drain(progress)
    except BaseException:
        run.given_up = True
        raise
    finally:
        _wait_for_workers(others, run)
    for future in others:
        if not future.cancelled():
            future.result()


def _submit_workers(drain: Callable[[Progress | None], None], number: int, others: list[Future[None]]) -> None:
    """Submit `drain` to the pool `number` times, appending the futures to `others`."""
    global _pool  # noqa: PLW0603
    with _lock:
        if _pool is None:  # starts worker threads one by one, on demand
            _pool = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="cmfast")
        try:
            for _ in range(number):
                others.append(_pool.submit(drain, None))  # noqa: PERF401  # those before an exception are waited for
        except RuntimeError as error:
            if "shutdown" not in str(error):
                raise  # else at interpreter exit no thread can be started: the caller does all the work


def _wait_for_workers(others: list[Future[None]], run: _Run) -> None:
    """Wait for the threads that have begun, so that none writes to the outputs after the call has ended."""
    late = [future for future in others if not future.cancel()]
    interrupt = None
    while late:
        try:
            late = list(wait(late, timeout=1.0).not_done)  # an uninterruptible wait ends every second
        except BaseException as error:  # noqa: BLE001  # raised after they have ended
            run.given_up = True
            interrupt = error
    if interrupt is not None:
        raise interrupt


def run(
    kernel: Callable[..., Any],
    args: tuple[Any, ...],
    n: int,
    *,
    seconds: float,
    tile: int = 1,
    num_threads: int | None = None,
    progress: Progress | None = None,
) -> None:
    """Call ``kernel(*args, start, stop)`` over pieces of ``[0, n)`` in several threads.

    See :func:`pieces` and :func:`run_pieces`. What the kernel does to an element must not depend on the range, because
    a long piece is cut further so that the call can be interrupted.
    """
    if seconds < INLINE_SECONDS and progress is None:
        kernel(*args, 0, n)  # fast path: a single matrix takes microseconds
        return

    # Depends on the shapes alone, as the pieces do; a kernel may take ten times its estimate.
    step = tile * max(1, int(n * MOMENT_SECONDS / (tile * seconds))) if seconds > 0.0 else max(n, 1)

    def work(_: int, start: int, stop: int) -> None:
        """Run the kernel on a piece, in steps of about 50 ms with a check for interruption before each."""
        for first in range(start, stop, step):
            checkpoint()
            kernel(*args, first, min(first + step, stop))

    run_pieces(work, free_pieces(n, seconds, tile=tile), seconds=seconds, num_threads=num_threads, progress=progress)
