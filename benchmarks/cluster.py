"""``python -m benchmarks.cluster``: one and two workers of Dask on this machine, and what 64 would take, by arithmetic.

Chunks are made where they are counted, as they are read from a store where each worker has its own part. Seconds,
tasks, bytes and messages between workers are measured; what 64 workers take follows from these and from three numbers
that are no measurements: the bandwidth and the delay between two machines, and what a task costs the scheduler.
"""

import argparse
import json
import math
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import cmfast
from benchmarks.__main__ import machine

C, AXES = 10, 3
GRID = cmfast.Grid([0.0] * AXES, [0.5] * AXES)
BANDWIDTH = 1e9  # bytes per second between two machines
DELAY = 1e-3  # seconds of a message between two machines, with what Dask does about it
SCHEDULING = 1e-3  # seconds of the scheduler for a task
WORKERS = 64
SPLIT = 8  # states that one task merges


def made(block: np.ndarray, n: int) -> np.ndarray:
    """Return rows of a chunk: coordinates, label, prediction."""
    rng = np.random.default_rng(int(block.flat[0]))
    y, p = rng.integers(0, C, (2, n))
    X = rng.normal(size=(n, AXES)) + y[:, None] / C
    return np.column_stack([X, y, p])


def lazy(job: str, n: int, n_chunks: int) -> Any:
    """Return a job over `n_chunks` chunks of `n` rows each."""
    import dask.array as da

    numbers = da.arange(n_chunks, chunks=1)
    chunks, meta = ((n,) * n_chunks, (AXES + 2,)), np.empty((0, 0))
    rows = numbers.map_blocks(made, n=n, chunks=chunks, new_axis=1, dtype=np.float64, meta=meta)
    X, y, p = rows[:, :AXES], rows[:, AXES].astype(np.int8), rows[:, AXES + 1].astype(np.int8)
    if job == "labels":
        return cmfast.confusion_matrix(y, p, n_classes=C)
    return cmfast.cell_counts(X, y, p, grid=GRID, n_classes=C)


def count_sent_bytes(dask_worker: Any) -> tuple[int, int]:
    """Return the bytes and the messages that a worker has sent to others."""
    return dask_worker.transfer_outgoing_bytes_total, dask_worker.transfer_outgoing_count_total


def measure(job: str, n: int, n_chunks: int, *, repetitions: int) -> dict[str, Any]:
    """Run a job on one worker and on two; check that both give the same integers."""
    import dask
    from distributed import Client, LocalCluster

    found: dict[str, Any] = {"job": job, "rows_per_chunk": n, "chunks": n_chunks}
    results = []
    for n_workers in (1, 2):
        options = {"n_workers": n_workers, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
        with LocalCluster(**options, silence_logs="ERROR") as cluster, Client(cluster) as client:
            client.run(lazy(job, 1000, 2).compute, scheduler="sync")  # compiles, in every worker
            times = []
            before = client.run(count_sent_bytes)
            for _ in range(repetitions):
                started = time.perf_counter()
                results.append(client.compute(lazy(job, n, n_chunks)).result())
                times.append(time.perf_counter() - started)
            after = client.run(count_sent_bytes)
        found[f"seconds_{n_workers}"] = median(times)
        parts = [np.subtract(after[worker], before[worker]) for worker in after]
        found[f"bytes_{n_workers}"], found[f"messages_{n_workers}"] = (np.sum(parts, axis=0) / repetitions).tolist()
    for result in results[1:]:
        assert np.array_equal(result, results[0]) if job == "labels" else result == results[0]
    found["state_bytes"] = len(results[0].to_bytes()) if job == "points" else results[0].nbytes
    (planned,) = dask.optimize(lazy(job, n, n_chunks))
    found["tasks"] = len(dict(planned.__dask_graph__()))
    return found


def projected(found: dict[str, Any]) -> dict[str, float]:
    """Return what `WORKERS` workers take for as many times the chunks, each worker with those of one here."""
    tasks = found["tasks"] * WORKERS
    depth = math.ceil(math.log(found["chunks"] * WORKERS, SPLIT))
    # The states are merged in a tree whose levels wait for each other; at most SPLIT states come to one worker at each.
    merging = depth * (SPLIT * found["state_bytes"] / BANDWIDTH + DELAY)
    seconds = max(found["seconds_1"], tasks * SCHEDULING) + merging
    return {
        "workers": WORKERS,
        "tasks": tasks,
        "scheduling": tasks * SCHEDULING,
        "merging": merging,
        "seconds": seconds,
        "efficiency": found["seconds_1"] / seconds,
        "bytes": found["state_bytes"] * WORKERS * SPLIT / (SPLIT - 1),
    }


def show(found: dict[str, Any]) -> None:
    """Print one job."""
    there = found["projected"]
    print(f"{found['job']}: {found['chunks']} chunks of {found['rows_per_chunk']:,}, {found['tasks']} tasks")
    print(
        f"  one worker {found['seconds_1']:.2f} s, two {found['seconds_2']:.2f} s: {found['strong']:.2f} times as fast;"
        f" {found['bytes_2']:,.0f} bytes in {found['messages_2']:.0f} messages between two;"
        f" a state has {found['state_bytes']:,} bytes"
    )
    print(
        f"  {WORKERS} workers with as many chunks each, by arithmetic: {there['seconds']:.2f} s,"
        f" of which merging {there['merging']:.2f} s; the scheduler has {there['scheduling']:.1f} s to do meanwhile;"
        f" {there['efficiency']:.0%} of what one does, each"
    )


def main(argv: list[str] | None = None) -> int:
    """Measure, print, and write what was found; return 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few chunks: a minute")
    parser.add_argument("--smoke", action="store_true", help="tiny chunks: every line runs, no figure means anything")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything measured")
    options = parser.parse_args(argv)
    if find_spec("distributed") is None:
        print('needs distributed: pip install "cmfast[dask]" distributed', file=sys.stderr)
        return 2
    n, n_chunks = (1000, 4) if options.smoke else (1_000_000, 8) if options.quick else (4_000_000, 24)
    repetitions = 1 if options.smoke else 3
    rows = []
    for job in ("labels", "points"):
        found = measure(job, n, n_chunks, repetitions=repetitions)
        found |= {"strong": found["seconds_1"] / found["seconds_2"], "projected": projected(found)}
        show(found)
        rows.append(found)
    if options.json:
        about = {"machine": machine(), "bandwidth": BANDWIDTH, "delay": DELAY, "scheduling": SCHEDULING, "jobs": rows}
        options.json.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
