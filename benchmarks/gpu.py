"""``python -m benchmarks.gpu``: every CUDA operation on data that is on the device, beside a copy there.

Times are those of CUDA events. The bytes of a job are what it must read and write at least; its share is what of the
measured speed of a copy on that device it reaches with them. Every result is compared with the CPU's on a part.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any

import cupy
import numpy as np

import cmfast
from benchmarks import data

PART = 1000  # items that are compared with the CPU
REPEAT = 10
NAMES = ["accuracy", "mcc", "kappa", "f1_macro", "f1_weighted", "recall_macro", "precision_macro", "jaccard_macro",
         "balanced_accuracy", "geometric_mean"]  # fmt: skip


@dataclass(frozen=True)
class Job:
    """One row of the table: what it is, what it must move, how it is called on the whole and on a part."""

    name: str
    size: str
    bytes: int
    run: Callable[[Any], Any]
    whole: tuple[Any, ...]
    per_item: bool = True

    def check(self) -> None:
        """Raise if the result is not that of the CPU."""
        part = tuple(a[:PART] for a in self.whole)
        want = self.run(*(a.get() for a in part))
        got = self.run(*self.whole) if self.per_item else self.run(*part)
        for one, other in zip(_parts(got), _parts(want), strict=True):
            found = (one[:PART] if self.per_item else one).get()
            np.testing.assert_allclose(found, other, rtol=1e-9 if other.dtype == np.float64 else 0)


def _parts(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def _support(M: Any) -> tuple[Any, ...]:
    found = cmfast.support(M)
    return found.status, found.dead_cells, found.row_block, found.col_block


def jobs(*, small: bool) -> list[Job]:
    """Return the jobs; `small` ones are over in a moment."""
    n, samples = (2_000, 20_000) if small else (4_000_000, 400_000_000)
    base = data.confusion_matrices(1000, 10, 0.9, 1e-3)
    M = cupy.asarray(np.resize(base, (n, 10, 10)))
    counts = M.astype(np.int64)
    other = cupy.ascontiguousarray(M[::-1])
    y, p = (cupy.asarray(np.resize(a, samples)) for a in data.labels(100_003, 10))
    weight = cupy.random.random(samples // 4)
    points = (20_000 if small else 10_000_000, 10, 10)
    X, *classes = (cupy.asarray(a) for a in data.embeddings(*points))
    embedded = X, *(c.astype(np.uint8) for c in classes)
    grid = cmfast.Grid.scott(X)
    each, scattered = X.itemsize * points[1] + 2, f"{points[0]:,} points, m=10, C=10"
    gaps, some = counts.astype(np.float64), counts[:10_000]
    scores, hits = weight[: samples // 40], y[: samples // 40] % 2
    cells, size, labels = M.nbytes, f"{n:,} 10x10", f"{samples:,} labels, C=10"
    return [
        Job("overlap", size, 2 * cells + 9 * n, cmfast.overlap, (M, other)),
        Job("l1_distance", size, 2 * cells + 9 * n, cmfast.l1_distance, (M, other)),
        Job("kl_divergence", size, 2 * cells + 9 * n, cmfast.kl_divergence, (M, other)),
        Job("normalize all", size, 2 * cells + n, lambda M: cmfast.normalize(M, "all"), (M,)),
        Job("normalize row", size, 2 * cells + n, lambda M: cmfast.normalize(M, "row"), (M,)),
        Job("normalize col", size, 2 * cells + n, lambda M: cmfast.normalize(M, "col"), (M,)),
        Job("importance_weights", size, 2 * cells + n, lambda M: cmfast.importance_weights(M, "row"), (M,)),
        Job("ipf", size, 2 * cells + n * 194, lambda M: cmfast.ipf(M).matrix, (M,)),
        Job("ras", size, cells + n * 194, lambda M: cmfast.ras(M)[1:3], (M,)),
        Job("support", size, cells + 297 * n, _support, (M,)),
        Job("support, zeros", size, cells + 297 * n, _support, (gaps,)),
        Job(
            "resample", f"{len(some):,} 10x10, 100 replicates", 101 * some.nbytes,
            lambda M: cmfast.uncertainty.resample(M, n_replicates=100), (some,),
        ),
        Job(
            "threshold_matrices", f"{len(scores):,} scores", 56 * len(scores),
            lambda s, y: tuple(cmfast.metrics.threshold_matrices(s, y)), (scores, hits), per_item=False,
        ),
        Job(
            "metrics.compute, 10 names", size, cells + n * 81,
            lambda M: tuple(cmfast.metrics.compute(M, NAMES).values()), (counts,),
        ),
        Job("margins", size, cells + n * (5 * 80 + 9), cmfast.metrics.margins, (counts,)),
        Job(
            "confusion_matrix int64", labels, 16 * samples,
            lambda y, p: cmfast.confusion_matrix(y, p, n_classes=10), (y, p), per_item=False,
        ),
        Job(
            "confusion_matrix uint8", labels, 2 * samples,
            lambda y, p: cmfast.confusion_matrix(y, p, n_classes=10), (y.astype(np.uint8), p.astype(np.uint8)),
            per_item=False,
        ),
        Job(
            "cell_counts", scattered, each * points[0],
            lambda *points: cmfast.cell_counts(*points, grid=grid).counts, embedded, per_item=False,
        ),
        Job(
            "cell_counts, gcm", scattered, each * points[0],
            lambda *points: cmfast.gcm(cmfast.cell_counts(*points, grid=grid), "row"), embedded, per_item=False,
        ),
        Job(
            "confusion_matrix weights", f"{samples // 4:,} labels, C=10", 24 * (samples // 4),
            lambda y, p, w: cmfast.confusion_matrix(y, p, n_classes=10, sample_weight=w),
            (y[: samples // 4], p[: samples // 4], weight), per_item=False,
        ),
    ]  # fmt: skip


def seconds(call: Callable[[], Any]) -> float:
    """Return the median time of `call` on the device, after one call that compiles."""
    call()
    times = []
    for _ in range(REPEAT):
        start, stop = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        call()
        stop.record()
        stop.synchronize()
        times.append(cupy.cuda.get_elapsed_time(start, stop) / 1e3)
    return median(times)


def copy_speed(*, small: bool) -> float:
    """Return the bytes per second that a copy on the device reads and writes."""
    source = cupy.zeros(1 << (20 if small else 30), np.uint8)
    target = cupy.empty_like(source)
    return 2 * source.nbytes / seconds(lambda: cupy.copyto(target, source))


def main(argv: list[str] | None = None) -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="tiny inputs: no figure means anything")
    parser.add_argument("--results", type=Path, metavar="FOLDER", help="write <device>.json there")
    options = parser.parse_args(argv)
    properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
    device = properties["name"].decode()
    speed = copy_speed(small=options.smoke)
    print(f"{device}, copy {speed / 1e9:,.0f} GB/s")
    rows = []
    for job in jobs(small=options.smoke):
        job.check()
        time = seconds(lambda job=job: job.run(*job.whole))
        rows.append({
            "job": job.name, "size": job.size, "bytes": job.bytes, "seconds": time,
            "share_of_copy": job.bytes / time / speed,
        })  # fmt: skip
        print(f"  {job.name:<26}{time * 1e3:9.3f} ms   {rows[-1]['share_of_copy']:6.1%} of copy speed   {job.size}")
    if options.results:
        versions = {name: metadata.version(name) for name in ("numpy", "numba", "torch")}
        about = {
            "device": device, "driver": cupy.cuda.runtime.driverGetVersion(), "cupy": cupy.__version__,
            "cmfast": cmfast.__version__, **versions,
        }  # fmt: skip
        options.results.mkdir(parents=True, exist_ok=True)
        file = options.results / f"{device.replace(' ', '-')}.json"
        file.write_text(json.dumps({"machine": about, "copy_bytes_per_second": speed, "jobs": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
