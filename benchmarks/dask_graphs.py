"""``python -m benchmarks.dask_graphs``: what graphs of Dask cost besides the work: bytes, tasks, seconds, memory.

Public functions that take Dask arrays are called with 100 to 100,000 small chunks: all that count or sum, and of those
that go block by block some of one array and those of most arrays. Each call builds its graph in a process of its own,
which reports the seconds of CPU time of building and of optimising, the peak of memory over what was loaded before, the
tasks per chunk and the pickled bytes of the largest task. With ``--cpu`` graphs are also run on a cluster of one
worker, with client and scheduler in this process, whose CPU time per chunk is compared with those of a sum by Dask
alone, and of the call by Dask alone that reads the same arrays as often.
"""

import argparse
import json
import multiprocessing
import resource
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import cmfast
from benchmarks.__main__ import machine
from cmfast import conformal, metrics, uncertainty

C, AXES = 3, 2
SIZES = (100, 1_000, 10_000, 100_000)
PICKLED_TASKS = 2_000  # of larger graphs every so many tasks are pickled, and all of small layers
GRID = cmfast.Grid([0.0] * AXES, [1.0] * AXES)
QUIET = {"on_failure": "ignore"}


def labels(n: int, dtype: Any = np.int64) -> Any:
    """Return n labels, each in its own chunk."""
    import dask.array as da

    return da.zeros(n, chunks=1, dtype=dtype)


def guesses(n: int) -> Any:
    """Return n predictions, each in its own chunk."""
    import dask.array as da

    return da.ones(n, chunks=1, dtype=np.int64)


def points(n: int) -> Any:
    """Return n points, each in its own chunk."""
    import dask.array as da

    return da.ones((n, AXES), chunks=(1, AXES))


def matrices(n: int) -> Any:
    """Return n matrices, each in its own chunk."""
    import dask.array as da

    return da.ones((n, C, C), chunks=(1, C, C), dtype=np.int64)


def indicators(n: int) -> Any:
    """Return which of C labels each of n samples has, each in its own chunk."""
    import dask.array as da

    return da.ones((n, C), chunks=(1, C), dtype=np.int64)


def probabilities(n: int) -> Any:
    """Return the probabilities of C classes of n samples, each in its own chunk."""
    import dask.array as da

    return da.full((n, C), 1 / C, chunks=(1, C))


def make_partition(k: int) -> Any:
    """Return a partition of one row."""
    import pandas as pd

    return pd.DataFrame({"site": [0], "label": [k * 0], "guess": [0]})


def frame(n: int) -> Any:
    """Return a Dask DataFrame of n partitions, which tasks make."""
    import dask.dataframe as dd

    return dd.from_map(make_partition, range(n), meta=make_partition(0))


def make_sets(n: int) -> Any:
    """Return prediction sets of n samples."""
    return conformal.prediction_sets(probabilities(n), [0.9], randomised=False)


def count_labelled_points(n: int, **options: Any) -> Any:
    """Return the cell counts of n points."""
    return cmfast.cell_counts(points(n), labels(n), guesses(n), grid=GRID, n_classes=C, **options)


def add_frame(n: int) -> Any:
    """Return a sum of two columns of a Dask DataFrame."""
    rows = frame(n)
    return (rows["label"] * 3 + rows["guess"]).sum()


def add_in_two_passes(n: int) -> Any:
    """Return the sums of points minus their minima."""
    X = points(n)
    return (X - X.min(axis=0)).sum(axis=0)


def make_matrix(every: Any, k: int) -> Any:
    """Return a matrix instead of the k-th part of a block's result."""
    del every
    return np.full((1, C, C), k)


def map_several(n: int, n_arrays: int) -> Any:
    """Return arrays that are each a part of what one call gives for every block of matrices."""
    every = matrices(n).map_blocks(list, dtype=object, meta=np.empty((0, 0, 0), object))
    options = {"dtype": np.int64, "meta": np.empty((0, 0, 0), np.int64)}
    return [every.map_blocks(partial(make_matrix, k=k), **options) for k in range(n_arrays)]


# By name: a function of the number of chunks that returns lazy results, of Dask alone.
BASE = "(y * 3 + p).sum()"
PLAIN: dict[str, Callable[[int], Any]] = {
    BASE: lambda n: (labels(n) * 3 + guesses(n)).sum(),
    "(y * 3 + p + w).sum()": lambda n: (labels(n) * 3 + guesses(n) + labels(n, np.float64)).sum(),
    "(X.sum(1) + y * 3 + p).sum()": lambda n: (points(n).sum(axis=1) + labels(n) * 3 + guesses(n)).sum(),
    "(X - X.min(0)).sum(0)": add_in_two_passes,
    "M * (M + 1)": lambda n: matrices(n) * (matrices(n) + 1),
    "three maps of M": partial(map_several, n_arrays=3),
    "five maps of M": partial(map_several, n_arrays=5),
    "eight maps of M": partial(map_several, n_arrays=8),
    "(frame.y * 3 + frame.p).sum()": add_frame,
}
# The plain call that reads the same arrays as often.
LIKE = {
    "confusion_matrix, float weights": "(y * 3 + p + w).sum()",
    "by": "(frame.y * 3 + frame.p).sum()",
    "ipf": "eight maps of M",
    "support": "eight maps of M",
    "uncertainty.interval": "five maps of M",
    "uncertainty.bowker": "three maps of M",
    "overlap": "M * (M + 1)",
    "Grid.scott": "(X - X.min(0)).sum(0)",
    "cell_counts": "(X.sum(1) + y * 3 + p).sum()",
}
# The same, of cmfast.
CALLS: dict[str, Callable[[int], Any]] = {
    "confusion_matrix": lambda n: cmfast.confusion_matrix(labels(n), guesses(n), n_classes=C),
    "confusion_matrix, integer weights": lambda n: cmfast.confusion_matrix(
        labels(n), guesses(n), sample_weight=guesses(n) * 2, n_classes=C
    ),
    "confusion_matrix, float weights": lambda n: cmfast.confusion_matrix(
        labels(n), guesses(n), sample_weight=labels(n, np.float64), n_classes=C
    ),
    "confusion_matrix, groups": lambda n: cmfast.confusion_matrix(
        labels(n), guesses(n), groups=guesses(n) * 0, n_classes=C, n_groups=2
    ),
    "by": lambda n: cmfast.by(frame(n), "site", y_true="label", y_pred="guess"),
    "metrics.label_margins": lambda n: metrics.label_margins(labels(n), guesses(n), n_classes=C),
    "metrics.from_labels": lambda n: metrics.from_labels(labels(n), guesses(n), ["mcc", "recall"], n_classes=C),
    "metrics.multilabel_tables": lambda n: metrics.multilabel_tables(indicators(n), indicators(n)),
    "metrics.compute": lambda n: metrics.compute(matrices(n), ["mcc", "recall"]),
    "metrics.mcc": lambda n: metrics.mcc(matrices(n)),
    "metrics.margins": lambda n: metrics.margins(matrices(n)),
    "metrics.roc": lambda n: metrics.roc(indicators(n), probabilities(n)),
    "metrics.roc_auc": lambda n: metrics.roc_auc(indicators(n), probabilities(n)),
    "normalize": lambda n: cmfast.normalize(matrices(n), "row"),
    "bi_normalize": lambda n: cmfast.bi_normalize(matrices(n)),
    "ipf": lambda n: cmfast.ipf(matrices(n)),
    "ras": lambda n: cmfast.ras(matrices(n), indicators(n), indicators(n)),
    "support": lambda n: cmfast.support(matrices(n)),
    "overlap": lambda n: cmfast.overlap(matrices(n), matrices(n) + 1),
    "uncertainty.interval": lambda n: uncertainty.interval(matrices(n), "mcc", n_resamples=9, **QUIET),
    "uncertainty.bowker": lambda n: uncertainty.bowker(matrices(n)),
    "uncertainty.resample": lambda n: uncertainty.resample(matrices(n), n_resamples=2),
    "uncertainty.standard_error": lambda n: uncertainty.standard_error(matrices(n), "accuracy"),
    "uncertainty.paired_counts": lambda n: uncertainty.paired_counts(
        labels(n), guesses(n), guesses(n) * 2, n_classes=C
    ),
    "conformal.scores": lambda n: conformal.scores(probabilities(n), labels(n), method="lac"),
    "conformal.prediction_sets": lambda n: make_sets(n).packed,
    "conformal.score_histogram": lambda n: conformal.score_histogram(labels(n, np.float64)),
    "conformal.ccm": lambda n: conformal.ccm(make_sets(n)),
    "conformal.coverage_confusion": lambda n: conformal.coverage_confusion(make_sets(n), labels(n)),
    "Grid.regular": lambda n: cmfast.Grid.regular(points(n), bins=2, **QUIET),
    "Grid.scott": lambda n: cmfast.Grid.scott(points(n), **QUIET),
    "pca": lambda n: list(cmfast.pca(points(n), 1, **QUIET)),
    "Projection.transform": lambda n: cmfast.pca([[0.0, 0.0], [1.0, 1.0]], 1).transform(points(n)),
    "cell_counts": count_labelled_points,
    "cell_counts of Grid.scott": lambda n: cmfast.cell_counts(
        points(n), labels(n), guesses(n), grid=cmfast.Grid.scott(points(n)), n_classes=C
    ),
    "cell_counts in 4 parts, gcm": lambda n: cmfast.gcm(count_labelled_points(n, n_parts=4), "row"),
    "sparse_histogram": lambda n: cmfast.sparse_histogram(points(n), grid=GRID),
    "sparse_histogram, float weights": lambda n: cmfast.sparse_histogram(
        points(n), grid=GRID, weights=labels(n, np.float64)
    ),
    "geometric_confusion_matrix": lambda n: cmfast.geometric_confusion_matrix(
        points(n), labels(n), guesses(n), n_components=None, n_classes=C, **QUIET
    ),
}


def build(name: str, n: int) -> dict[str, Any]:
    """Build and optimise the graph of one call; return what it costs."""
    from distributed.protocol.pickle import dumps

    call = (PLAIN | CALLS)[name]
    call(2)  # loads what it needs
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    found = call(n)
    built = time.process_time()
    graph = optimise(found)
    optimised = time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tasks = list(graph.values())
    step = max(1, len(tasks) // PICKLED_TASKS)
    some = tasks[::step] + tasks[:50] + tasks[-50:]
    return {
        "call": name,
        "chunks": n,
        "build_s": built - started,
        "optimise_s": optimised - built,
        "peak_MB": (peak - before) / 1024,
        "tasks_per_chunk": sum(not is_link(task) for task in tasks) / n,
        "task_bytes": max(len(dumps(task)) for task in some),
    }


class GraphError(Exception):
    """Carries the graph that a scheduler would have run."""


def optimise(found: Any) -> dict[Any, Any]:
    """Return the tasks that a scheduler gets from ``dask.persist(found)``."""
    import dask

    def refuse(graph: Any, keys: Any, **options: Any) -> Any:
        del keys, options
        raise GraphError(graph.__dask_graph__() if hasattr(graph, "__dask_graph__") else graph)

    try:
        dask.persist(found, scheduler=refuse)
    except GraphError as given:
        return dict(given.args[0])
    raise AssertionError("nothing is lazy")  # noqa: EM101


def is_link(task: Any) -> bool:
    """Whether a node of a graph is another name of a task, or data, which take no worker's time."""
    return type(task).__name__ in {"Alias", "DataNode"}


def list_collections(found: Any) -> list[Any]:
    """Return the lazy objects of a nested result."""
    import dask

    return dask.base.unpack_collections(found)[0]


def run_apart(name: str, n: int, limit_s: int) -> dict[str, Any] | None:
    """Build one graph in a process of its own; return what it cost, None if that took more CPU time than `limit_s`."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def send() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s + 1))
        sender.send(build(name, n))

    child = context.Process(target=send)
    child.start()
    sender.close()
    try:
        return receiver.recv()  # type: ignore[no-any-return]
    except EOFError:
        child.join()
        if child.exitcode in {-signal.SIGXCPU, -signal.SIGKILL}:
            return None
        msg = f"{name} with {n} chunks ended with status {child.exitcode}"
        raise RuntimeError(msg) from None
    finally:
        child.kill()
        child.join()


def time_clusters(names: list[str], n: int, rounds: int) -> list[dict[str, Any]]:
    """Return the CPU time per chunk of client and scheduler for every call, in turn with those of Dask alone."""
    from distributed import Client, LocalCluster

    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    plain = dict.fromkeys([BASE, *(LIKE.get(name, BASE) for name in names)])
    times: dict[str, list[float]] = {name: [] for name in (*plain, *names)}
    calls = PLAIN | CALLS
    with LocalCluster(**options, silence_logs="ERROR") as cluster, Client(cluster) as client:
        for name in times:  # compiles, in the worker
            client.gather(client.compute(list_collections(calls[name](4))))
        for _ in range(rounds):
            for name, own in times.items():
                started = time.process_time()
                client.gather(client.compute(list_collections(calls[name](n))))
                own.append(time.process_time() - started)

    def divide(name: str, other: str) -> float:
        """Return how many times as long one call takes as another, in the median of the rounds."""
        return median(mine / its for mine, its in zip(times[name], times[other], strict=True))

    return [
        {
            "call": name,
            "chunks": n,
            "ms_per_chunk": 1e3 * median(times[name]) / n,
            "ratio": divide(name, BASE),
            "like": LIKE.get(name, BASE),
            "like_ratio": divide(name, LIKE.get(name, BASE)),
        }
        for name in names
    ]


def main(argv: list[str] | None = None) -> int:
    """Build the graphs, print what they cost, and optionally write it as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dask_graphs", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="few chunks, in seconds")
    parser.add_argument("--calls", nargs="+", choices=[*PLAIN, *CALLS], metavar="CALL", help="these calls only")
    parser.add_argument("--chunks", nargs="+", type=int, default=SIZES, metavar="N")
    what = "seconds of CPU time after which a graph is given up"
    parser.add_argument("--limit", type=int, default=120, metavar="S", help=what)
    parser.add_argument("--cpu", type=int, metavar="N", help="also run each on a cluster, with N chunks")
    parser.add_argument("--rounds", type=int, default=7, help="runs of each on the cluster")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args(argv)
    names = args.calls or [*PLAIN, *CALLS]
    found: dict[str, Any] = {"machine": machine(), "graphs": [], "given_up": []}
    print(f"{'call':34} {'chunks':>7} {'build':>8} {'optimise':>8} {'peak':>8} {'tasks':>6} {'largest':>8}")
    for name in names:
        for n in (20,) if args.smoke else args.chunks:
            cost = run_apart(name, n, args.limit)
            if cost is None:
                print(f"{name:34} {n:7} given up", flush=True)
                found["given_up"].append({"call": name, "chunks": n})
                break
            found["graphs"].append(cost)
            print(
                f"{name:34} {n:7} {cost['build_s']:6.2f} s {cost['optimise_s']:6.2f} s {cost['peak_MB']:5.0f} MB"
                f" {cost['tasks_per_chunk']:6.2f} {cost['task_bytes']:6} B",
                flush=True,
            )
    if args.cpu or args.smoke:
        n, rounds = (20, 1) if args.smoke else (args.cpu, args.rounds)
        found["cluster"] = time_clusters([name for name in names if name in CALLS], n, rounds)
        for cost in found["cluster"]:
            like = "" if cost["like"] == BASE else f", {cost['like_ratio']:5.2f} times {cost['like']}"
            print(f"{cost['call']:34} {cost['ms_per_chunk']:6.2f} ms a chunk, {cost['ratio']:5.2f} times {BASE}{like}")
    if args.json:
        Path(args.json).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 1 if found["given_up"] else 0


if __name__ == "__main__":
    sys.exit(main())
