"""``python -m benchmarks``: one table, and the same as JSON."""

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module, metadata
from pathlib import Path
from statistics import median
from typing import Any, Literal

from benchmarks import (
    agreement,
    balancing,
    comparison,
    conformal,
    counting,
    dask_arrays,
    detection,
    geometry,
    gradients,
    labels,
    latency,
    margins,
    metrics,
    normalizing,
    scaling,
    uncertainty,
    zeros,
)
from benchmarks._job import Job
from benchmarks._measure import interleaved, peak_extra_bytes, timed

# By topic; without --quick both sizes.
PARTS: dict[str, dict[Literal["quick", "full"], Callable[..., Iterable[Job]]]] = {
    "counting": {"quick": counting.jobs, "full": counting.full_jobs},
    "labels": {"quick": labels.jobs},
    "scaling": {"quick": scaling.jobs, "full": scaling.full_jobs},
    "normalizing": {"quick": normalizing.jobs},
    "margins": {"quick": margins.jobs},
    "balancing": {"quick": balancing.jobs},
    "zeros": {"quick": zeros.jobs},
    "comparison": {"quick": comparison.jobs},
    "geometry": {"quick": geometry.jobs, "full": geometry.full_jobs},
    "metrics": {"quick": metrics.jobs},
    "uncertainty": {"quick": uncertainty.jobs},
    "agreement": {"quick": agreement.jobs},
    "detection": {"quick": detection.jobs},
    "conformal": {"quick": conformal.jobs, "full": conformal.full_jobs},
    "gradients": {"quick": gradients.jobs, "full": gradients.full_jobs},
    "dask": {"quick": dask_arrays.jobs, "full": dask_arrays.full_jobs},
    "latency": {"quick": latency.jobs},
}
LIBRARIES = ("numpy", "numba", "scipy", "scikit-learn", "POT", "ipfn", "polars", "pycm", "torchmetrics")
OPTIONAL = ("pandas", "pyarrow", "jax", "ott-jax", "boost-histogram", "fast-histogram")
IMPORTED = (
    *("ipfn", "ot.batch", "polars", "pycm", "scipy.linalg", "scipy.sparse.csgraph"),
    *("sklearn.decomposition", "sklearn.metrics", "torchmetrics.functional.classification"),
)


def measure(job: Job, *, seconds: float) -> dict[str, Any]:
    """Check every result of `job`, then time ours and the limit in turn, then each rival."""
    note = job.check(job.run(None))
    times = interleaved({"limit": job.limit, "one": lambda: job.run(1), "all": lambda: job.run(None)}, seconds=seconds)
    ours, one, limit = median(times["all"]), median(times["one"]), median(times["limit"])
    extra = peak_extra_bytes(lambda: job.run(None))
    return {
        "job": job.name,
        "size": job.size,
        "unit": job.unit,
        "seconds": ours,
        "seconds_best": min(times["all"]),
        "seconds_one_thread": one,
        "rate": job.items / ours,
        "note": note,
        "limit": job.limit_name,
        "limit_seconds": limit,
        "times_limit": ours / limit,
        "extra_bytes_per_item": None if extra is None else extra / job.items,
        "repetitions": len(times["all"]),
        "rivals": [_against(job, rival, ours, seconds / 4) for rival in job.rivals if rival.is_installed],
        "not_installed": [rival.name for rival in job.rivals if not rival.is_installed],
    }


def _against(job: Job, rival: Any, ours: float, seconds: float) -> dict[str, Any]:
    if rival.needs:
        import_module(rival.needs)
    if rival.prepare:
        rival.prepare()
    result, runs = timed(rival.run, seconds=seconds)
    scaled = median(runs) * job.items / rival.items
    return {
        "name": rival.name,
        "items": rival.items,
        "seconds_for_all_items": scaled,
        "ratio": scaled / ours,
        "repetitions": len(runs),
        "note": rival.check(result),
        "extra_bytes": peak_extra_bytes(rival.run) if job.memory else None,
    }


def lines(row: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of one job."""
    extra = row["extra_bytes_per_item"]
    memory = "" if extra is None else f", {extra:.0f} B/item extra"
    yield f"{row['job']}: {row['size']}"
    yield (
        f"  {'cmfast':<20}{_time(row['seconds']):>10}   {_rate(row['rate'])}{row['unit']}/s"
        f"  (one thread {_time(row['seconds_one_thread'])}{memory}; {row['note']})"
    )
    yield f"  {'plain ' + row['limit']:<20}{_time(row['limit_seconds']):>10}   we take {row['times_limit']:.1f} x"
    for rival in row["rivals"]:
        runs = "one run" if rival["repetitions"] == 1 else f"{rival['repetitions']} runs"
        peak = "" if rival["extra_bytes"] is None else f"; {rival['extra_bytes'] / 1e6:,.0f} MB extra"
        yield (
            f"  {rival['name']:<20}{_time(rival['seconds_for_all_items']):>10}   we are {rival['ratio']:,.1f} x faster"
            f"  ({rival['note']}; {runs} of {rival['items']:,}{peak})"
        )
    for name in row["not_installed"]:
        yield f"  {name:<20} left out: not installed (pip install .[rivals])"


def _time(seconds: float) -> str:
    if seconds >= 1000:
        return f"{seconds:,.0f} s"
    factor, unit = next(((f, u) for f, u in ((1, "s"), (1e3, "ms"), (1e6, "us")) if seconds * f >= 1), (1e9, "ns"))
    return f"{seconds * factor:.3g} {unit}"


def _rate(rate: float) -> str:
    factor, unit = next(((f, u) for f, u in ((1e9, "G"), (1e6, "M"), (1e3, "k")) if rate >= f), (1, ""))
    return f"{rate / factor:.3g} {unit}"


def machine() -> dict[str, Any]:
    """Return what a figure means nothing without."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        cpu = next((x.split(":")[1].strip() for x in info.read_text().splitlines() if x.startswith("model name")), cpu)
    installed = {name for found in metadata.packages_distributions().values() for name in found}
    versions = {name: metadata.version(name) for name in (*LIBRARIES, *(n for n in OPTIONAL if n in installed))}
    return {"cpu": cpu, "cores": os.cpu_count(), "python": platform.python_version(), "versions": versions}


def main(argv: list[str] | None = None) -> int:
    """Run the jobs; return 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the smaller jobs, a second per timing: minutes")
    parser.add_argument("--smoke", action="store_true", help="tiny inputs: every line runs, no figure means anything")
    parser.add_argument("--only", choices=PARTS, action="append", help="these jobs alone (may be repeated)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything measured")
    options = parser.parse_args(argv)
    seconds = 0.05 if options.smoke else 1.0 if options.quick else 5.0

    for module in IMPORTED:  # which is no part of a time
        import_module(module)
    about = machine()
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    print(f"{about['cpu']}, {about['cores']} cores, Python {about['python']}, {versions}\n")
    rows = []
    sizes = ("quick",) if options.quick else ("quick", "full")
    chosen = [PARTS[topic][size] for size in sizes for topic in options.only or PARTS if size in PARTS[topic]]
    for jobs in chosen:
        for job in jobs(small=options.smoke):
            row = measure(job, seconds=seconds)
            rows.append(row)
            print(*lines(row), sep="\n", end="\n\n", flush=True)
    delays = {
        "import_over_numpy": latency.import_seconds(),
        "first_call_warm_cache": latency.first_call_seconds(),
    }
    print(
        f"import cmfast {_time(delays['import_over_numpy'])} over NumPy; first bi_normalize of a process"
        f" {_time(delays['first_call_warm_cache'])} (warm cache)"
    )
    if options.json:
        options.json.write_text(json.dumps({"machine": about, "jobs": rows, "latency": delays}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
