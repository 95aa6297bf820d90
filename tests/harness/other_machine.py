r"""Compare results of two kinds of machine: ``other_machine.py OUT.json`` on each, then with both files.

The first writes results of a fixed set of calls, with their bits, after each call: under emulation compiling takes
minutes. The second prints which results have the same bits, and by how much the others differ. For arm64 on x86-64,
with Debian's packages (the wheels of numpy, numba, llvmlite, scipy and platformdirs for aarch64 unpacked in WHEELS)::

    apt-get install qemu-user-static debootstrap
    debootstrap --arch=arm64 --foreign --variant=minbase --include=python3 bookworm ROOT
    for each in ROOT/var/cache/apt/archives/*.deb; do dpkg-deb -x $each ROOT; done
    PYTHONPATH=.:WHEELS QEMU_LD_PREFIX=ROOT NUMBA_CACHE_DIR=CACHE \
        qemu-aarch64-static -cpu max ROOT/usr/bin/python3.11 tests/harness/other_machine.py arm64.json
"""

import json
import math
import platform
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np


def compute_results() -> Iterator[tuple[str, list[np.ndarray]]]:
    """Yield names and arrays of results, those that compile quickly first; inputs come from integers alone."""
    import cmfast
    from cmfast import metrics

    rng = np.random.default_rng(0)  # integers: what NumPy computes of floats may differ between machines
    y, p = rng.integers(0, 10, (2, 5000))
    p = np.where(rng.integers(0, 10, 5000) < 7, y, p)
    X = (rng.integers(0, 1 << 20, (5000, 3)) + (y << 18)[:, None]) / (1 << 20)
    M = (rng.integers(0, 1000, (16, 10, 10)) + 5000 * np.eye(10, dtype=int)) / 1024
    K = rng.integers(0, 50, (8, 5, 5)) + 20 * np.eye(5, dtype=int)
    yield "confusion_matrix", [cmfast.confusion_matrix(y, p)]
    yield "normalize", [cmfast.normalize(M, method) for method in ("all", "row", "col")]
    small = cmfast.ipf(M[:, :3, :3])
    yield "ipf of 3 classes", [small.matrix, small.row_scale, small.col_scale, small.n_iter]
    cells = cmfast.cell_counts(X, y, p, grid=cmfast.Grid([0.0] * 3, [0.25] * 3))
    yield "cell_counts", [cells.confusion_matrix()]
    yield "gcm", [cmfast.gcm(cells, method) for method in ("all", "row", "col")]
    found = metrics.compute(K, ["accuracy", "balanced_accuracy", "f1_macro", "kappa", "mcc"])
    yield "metrics", [found[name] for name in sorted(found)]
    large = cmfast.ipf(M)
    yield "ipf of 10 classes", [large.matrix, large.row_scale, large.col_scale, large.n_iter]


def write(out: Path) -> None:
    """Write results as hexadecimal numbers, after each call."""
    kept: dict[str, Any] = {"machine": platform.machine(), "results": {}}
    start = time.perf_counter()
    for name, arrays in compute_results():
        kept["results"][name] = [[float(value).hex() for value in np.ravel(array)] for array in arrays]
        out.write_text(json.dumps(kept), encoding="utf-8")
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)


def compare(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Return a line for each result that both have."""
    lines = [f"{one['machine']} and {other['machine']}"]
    for name in one["results"]:
        if name not in other["results"]:
            continue
        pairs = [
            (float.fromhex(a), float.fromhex(b))
            for left, right in zip(one["results"][name], other["results"][name], strict=True)
            for a, b in zip(left, right, strict=True)
        ]
        off = [abs(a - b) / max(abs(a), abs(b)) for a, b in pairs if a != b and not math.isnan(a + b)]
        said = f"{len(off)} of {len(pairs)} differ, at most {max(off):.0e} of the value" if off else "the same bits"
        lines.append(f"{name}: {said}")
    return lines


if __name__ == "__main__":
    if len(sys.argv) == 2:
        write(Path(sys.argv[1]))
    else:
        lines = compare(*(json.loads(Path(name).read_text(encoding="utf-8")) for name in sys.argv[1:]))
        print(*lines, sep="\n")
