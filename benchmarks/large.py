"""``python -m benchmarks.large``: points on disk, counted within a limit of memory; time and peak.

Private memory is limited by RLIMIT_DATA, so a run that needs more fails. Pages of the file in the system's page cache
are not private memory; they are reported separately.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks import _data

CHUNK = 1_000_000
CAPPED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_DATA, ({limit}, {limit}))
from cmfast.cli import main
sys.exit(main())
"""


def write_points(folder: Path, n: int, m: int, C: int) -> None:
    """Write `n` points as ``X.npy`` (float32), ``y.npy`` and ``p.npy`` (int16), a chunk at a time."""
    shapes = {"X": ((n, m), np.float32), "y": ((n,), np.int16), "p": ((n,), np.int16)}
    for name, (shape, dtype) in shapes.items():
        np.lib.format.open_memmap(folder / f"{name}.npy", "w+", dtype, shape).flush()
    maps = {name: np.lib.format.open_memmap(folder / f"{name}.npy", "r+") for name in shapes}
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(C, m)) * 1.5
    for start in range(0, n, CHUNK):
        stop = min(start + CHUNK, n)
        X, y, p = _data.around(centres, stop - start, rng)
        maps["X"][start:stop], maps["y"][start:stop], maps["p"][start:stop] = X, y, p


def run(folder: Path, limit: float) -> dict[str, float]:
    """Run ``cmfast gcm`` on the files with `limit` bytes of private memory; return seconds and peaks in bytes."""
    argv = ["gcm", "X.npy", "--labels", "y.npy", "--pred", "p.npy", "--components", "none"]
    argv += ["--smoothing", "0.001", "--json"]
    command = [sys.executable, "-c", CAPPED.format(limit=int(limit)), *argv]
    started = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    private = 0
    status = Path(f"/proc/{process.pid}/status")
    while process.poll() is None:
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        private = max(private, int(fields.get("RssAnon", "0 kB").split()[0]) * 1024)
        time.sleep(0.02)
    out = process.communicate()[0]
    if process.returncode:
        raise SystemExit(process.returncode)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    return {
        "seconds": time.perf_counter() - started,
        "peak_private": private,
        "peak_with_file_pages": peak,
        "cells": json.loads(out)["cells"],
    }


def main() -> None:
    """Measure, and print one line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large", description=__doc__)
    parser.add_argument("--points", type=float, default=1e8)
    parser.add_argument("--axes", type=int, default=10)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--gigabytes", type=float, default=4.0, help="of private memory")
    parser.add_argument("--folder", type=Path, help="where the points are written, and kept for the next run")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch)
        if not (folder / "p.npy").exists():
            folder.mkdir(parents=True, exist_ok=True)
            write_points(folder, int(options.points), options.axes, options.classes)
        found = run(folder.resolve(), options.gigabytes * 1e9)
    print(
        f"{options.points:,.0f} points, m={options.axes} float32, C={options.classes}: {found['seconds']:.1f} s,"
        f" {found['cells']:,} cells, peak {found['peak_private'] / 1e9:.2f} GB private"
        f" ({found['peak_with_file_pages'] / 1e9:.2f} GB with pages of the file), limit {options.gigabytes:g} GB"
    )


if __name__ == "__main__":
    main()
