"""``python -m benchmarks.dask_memory``: cells that no worker holds, on two workers with the memory limits of Dask.

Counts 5e7 points on ten axes, nearly all alone in their cell, in 64 parts on two workers of 600 MB, which Dask kills at
95 % of that. ``--kill`` kills a worker amid the work. The result is compared with that of this process.
"""

import argparse
import os
import signal
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import cmfast

AXES, CELLS, C = 10, 32, 10
GRID = cmfast.Grid([0.0] * AXES, [1.0] * AXES)
TARGET = 0.15  # share of the memory that results may take before they go to disk: half is the process itself
KILLED_AFTER_S = 20


def make_rows(block: np.ndarray, n: int) -> np.ndarray:
    """Return the rows of a chunk: coordinates, label and prediction, all whole numbers."""
    return np.random.default_rng(int(block.flat[0])).integers(0, (CELLS,) * AXES + (C, C), (n, AXES + 2), np.uint8)


def count_lazily(n: int, n_chunks: int, n_parts: int) -> Any:
    """Return the lazy cell counts of chunks, in parts."""
    import dask.array as da

    shape = {"chunks": ((n,) * n_chunks, (AXES + 2,)), "new_axis": 1, "dtype": np.uint8, "meta": np.empty((0, 0), "u1")}
    rows = da.arange(n_chunks, chunks=1).map_blocks(make_rows, n=n, **shape)
    X, y, p = rows[:, :AXES].astype(np.float32), rows[:, AXES], rows[:, AXES + 1]
    return cmfast.cell_counts(X, y, p, grid=GRID, n_classes=C, n_parts=n_parts)


def count_here(n: int, n_chunks: int) -> cmfast.CellCounts:
    """Return the cell counts of all chunks, counted in this process."""
    cells = cmfast.CellAccumulator(GRID, n_classes=C)
    for k in range(n_chunks):
        rows = make_rows(np.array([k]), n)
        cells.update(rows[:, :AXES].astype(np.float32), rows[:, AXES], rows[:, AXES + 1])
    return cells.counts()


def read_peak() -> int:
    """Return the largest resident memory of this process so far, in bytes."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def read_spilled(dask_worker: Any) -> float:
    """Return the bytes of results that a worker wrote to disk."""
    return float(dask_worker.data.cumulative_metrics["disk-write", "bytes"])


def main() -> None:
    """Count on two workers, and print what they used."""
    import dask
    import distributed

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=50_000_000)
    parser.add_argument("--chunks", type=int, default=100)
    parser.add_argument("--parts", type=int, default=64)
    parser.add_argument("--memory", default="600MB")
    parser.add_argument("--kill", action="store_true", help=f"kill a worker after {KILLED_AFTER_S} s")
    args = parser.parse_args()
    n, rest = divmod(args.points, args.chunks)
    if rest:
        parser.error(f"--points must be a multiple of --chunks, got {args.points} and {args.chunks}")
    limits = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": args.memory, "dashboard_address": "127.0.0.1:0"}
    with (
        tempfile.TemporaryDirectory() as folder,
        dask.config.set({"temporary-directory": folder, "distributed.worker.memory.target": TARGET}),
        distributed.LocalCluster(**limits, silence_logs="ERROR") as cluster,
        distributed.Client(cluster) as client,
    ):
        client.compute(cmfast.gcm(count_lazily(10, 2, 2), "row")).result()  # compiles
        before = client.run(os.getpid)
        idle = client.run(read_peak)
        start = time.perf_counter()
        future = client.compute(cmfast.gcm(count_lazily(n, args.chunks, args.parts), ["row", "bi"]))
        killer = threading.Timer(KILLED_AFTER_S, os.kill, (next(iter(before.values())), signal.SIGKILL))
        if args.kill:
            killer.start()
        found = future.result()
        killer.cancel()
        seconds = time.perf_counter() - start
        died = len(set(before.values()) - set(client.run(os.getpid).values()))
        print(f"{args.points:,} points on {AXES} axes in {args.parts} parts, {args.chunks} chunks: {seconds:.0f} s")
        print(f"workers before: {max(idle.values()) / 1e6:.0f} MB; workers that ended: {died}")
        print(f"peak of a worker that lives: {max(client.run(read_peak).values()) / 1e6:.0f} MB of {args.memory}")
        print(f"written to disk: {sum(client.run(read_spilled).values()) / 1e6:,.0f} MB")
    assert died or not args.kill, f"the work took less than {KILLED_AFTER_S} s: give more points"
    cells = count_here(n, args.chunks)
    assert found.tobytes() == cmfast.gcm(cells, ["row", "bi"]).tobytes()
    print(f"the bits of one process, whose cells take {16 * len(cells.counts) / 1e6:,.0f} MB")


if __name__ == "__main__":
    main()
