"""Measure what files of several kinds take, for a page: ``python docs/sizes.py`` writes sizes.json, in some minutes.

``python docs/generate.py`` then writes the page.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
FOUND = HERE / "sizes.json"
TEMPLATE = HERE / "_templates" / "sizes.md"
# A small file first: what is compiled and imported is no part of the figures.
PROGRAM = """
import json, sys, threading, time
from pathlib import Path
from cmfast.cli import main

def private():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))

few, many, *options = sys.argv[1:]
assert main([option.replace("@", few) for option in options]) == 0
before, peak, done = private(), 0, threading.Event()

def watch():
    global peak
    while not done.wait(0.01):
        peak = max(peak, private())

watcher = threading.Thread(target=watch)
watcher.start()
cpu, wall = time.process_time(), time.perf_counter()
assert main([option.replace("@", many) for option in options]) == 0
found = {"cpu_seconds": time.process_time() - cpu, "seconds": time.perf_counter() - wall}
done.set()
watcher.join()
Path("found.json").write_text(json.dumps(found | {"extra_bytes": max(peak - before, 0), "base_bytes": before}))
"""
FEW = 300_000
ROWS, LINES, MATRICES, USERS = 20_000_000, 2_000_000, 200_000, 300_000


def labels(folder: Path, name: str, n: int) -> None:
    """Write labels as npy, Parquet and Arrow."""
    import pyarrow as pa
    from pyarrow import feather, parquet

    y, p = np.random.default_rng(n).integers(0, 10, (2, n), np.int8)
    np.save(folder / f"{name}.npy", np.stack([y, p], axis=1))
    table = pa.table({"y_true": y, "y_pred": p})
    parquet.write_table(table, folder / f"{name}.parquet")
    feather.write_feather(table, str(folder / f"{name}.arrow"), "uncompressed")


def lines(folder: Path, name: str, n: int) -> None:
    """Write labels as csv."""
    y, p = np.random.default_rng(n).integers(0, 10, (2, n))
    with (folder / f"{name}.csv").open("w", encoding="ascii") as file:
        file.write("y_true,y_pred\n")
        file.writelines(f"{a},{b}\n" for a, b in zip(y.tolist(), p.tolist(), strict=True))


def users(folder: Path, name: str, n: int) -> None:
    """Write three labels of each of `n` / 3 users."""
    import pyarrow as pa
    from pyarrow import parquet

    y, p = np.random.default_rng(n).integers(0, 10, (2, n), np.int8)
    user = pa.array([f"user {k % (n // 3)}" for k in range(n)])
    parquet.write_table(pa.table({"y_true": y, "y_pred": p, "user": user}), folder / f"{name}.parquet")


def matrices(folder: Path, name: str, n: int) -> None:
    """Write matrices of ten classes."""
    M = np.random.default_rng(n).integers(1, 100, (n, 10, 10), np.int32)
    np.save(folder / f"{name}.npy", M)


ROWS_OF = ("confusion", "@", "--true", "0", "--pred", "1")
BY = ("metrics", "@", "--by", "user", "--only", "accuracy", "-o", "@.csv", "--force")
JOBS: dict[str, tuple[Any, int, str, tuple[str, ...]]] = {
    "labels, npy": (labels, ROWS, ".npy", ROWS_OF),
    "labels, Parquet": (labels, ROWS, ".parquet", ("confusion", "@")),
    "labels, Arrow": (labels, ROWS, ".arrow", ("confusion", "@")),
    "labels, Parquet in a store": (labels, ROWS, ".parquet", ("confusion", "file://@")),
    "labels, csv": (lines, LINES, ".csv", ("confusion", "@")),
    "labels of users, three of each, `metrics --by user`, Parquet": (users, 3 * USERS, ".parquet", BY),
    "matrices 10x10, `normalize`": (matrices, MATRICES, ".npy", ("normalize", "@", "-o", "@.out.npy", "--force")),
    "matrices 10x10, `metrics`": (matrices, MATRICES, ".npy", ("metrics", "@", "-o", "@.out.parquet", "--force")),
}


def measured() -> dict[str, Any]:
    """Return what every job takes."""
    found = {}
    for job, (write, n, suffix, options) in JOBS.items():
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            few = min(FEW, n // 5)
            write(folder, "few", few)
            write(folder, "many", n)
            files = (str(folder / f"{name}{suffix}") for name in ("few", "many"))
            command = [sys.executable, "-c", PROGRAM, *files, *options, "--quiet"]
            path = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
            subprocess.run(
                command, cwd=folder, env=os.environ | {"PYTHONPATH": path}, check=True, stdout=subprocess.DEVNULL
            )
            size = (folder / f"many{suffix}").stat().st_size
            one = json.loads((folder / "found.json").read_text(encoding="utf-8"))
        found[job] = {"items": n, "file_bytes": size, **one}
        print(job, found[job], flush=True)
    return found


def page() -> str:
    """Return the page, with the table of what was measured."""
    rows = [
        "| what | bytes in the file | CPU time | memory besides the process itself |",
        "|---|---|---|---|",
    ]
    for job, one in json.loads(FOUND.read_text(encoding="utf-8")).items():
        n = one["items"]
        each = one["cpu_seconds"] / n
        time = f"{each * 1e9:.0f} ns" if each < 1e-6 else f"{each * 1e6:.1f} us"
        rows.append(f"| {job} ({n:,}) | {one['file_bytes'] / n:.1f} | {time} | {one['extra_bytes'] / 1e6:.0f} MB |")
    return TEMPLATE.read_text(encoding="utf-8").replace("TABLE", "\n".join(rows))


if __name__ == "__main__":
    FOUND.write_text(json.dumps(measured(), indent=1) + "\n", encoding="utf-8")
