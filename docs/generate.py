"""Write what is made from the tables of the code: ``python docs/generate.py``; ``--check`` only says whether it is.

That is two pages, and the functions of the metrics.
"""

import argparse
import sys
from pathlib import Path

import metric_functions

from cmfast.kernels.ops import OPS
from cmfast.metrics import METRICS, Metric

ROOT = Path(__file__).parent.parent
MERGE = {None: "batch axes are independent", "sum": "integer tables add", "cells": "sorted cells merge"}


def support() -> str:
    """Return the support table of the ops."""
    rows = [
        "# What runs where",
        "",
        "Generated from `kernels/ops.py` by `python docs/generate.py`. CPU: NumPy arrays (and whatever `numpy.asarray`",
        "takes) and torch tensors. CUDA: CuPy arrays, and torch tensors on a device where CuPy is installed; an op",
        "without a CUDA kernel raises `NotImplementedError`, nothing falls back or moves to the host.",
        "",
        "What the CUDA kernels have run on: the tests compile them for sm_80 and sm_90 and run them, with the code",
        "that launches them, on an emulation of CUDA on the host. They have not run on a GPU yet ([more](cuda.md)).",
        "",
        "| op | core axes | CPU | CUDA | parts of the samples | tolerance against the oracle (float32, float64) |",
        "|---|---|---|---|---|---|",
    ]
    for name, op in sorted(OPS.items()):
        cpu, cuda = ("yes" if target in op.targets else "no" for target in ("cpu", "cuda"))
        tolerance = ", ".join(f"{r:.0e}" if r else "exact" for r in op.rtol)
        rows.append(f"| `{name}` | `{op.signature}` | {cpu} | {cuda} | {MERGE[op.merge]} | {tolerance} |")
    return "\n".join(rows) + "\n"


def metrics_table() -> str:
    """Return the table of the metrics."""
    rows = [
        "# Every metric",
        "",
        "Generated from `cmfast/metrics/_catalogue.py` by `python docs/generate.py`. Per matrix: `d`, `t`, `p` are",
        "diagonal, row sums (truth) and column sums (prediction), `n` the total, `a` the sum of `d`, `e` the sum of",
        "`t p`. One class against the rest has `tp = d`, `fn = t - d`, `fp = p - d`, `tn = n - t - p + d`.",
        "",
        "A metric per class also has the averages named in the last column, as `recall_macro`. `fbeta` is written with",
        "its beta: `fbeta_2`, `fbeta_0.5_macro`. `fbeta_0` is `precision`, `fbeta_inf` is `recall`.",
        "",
        "| name | also | one number per | formula | range | 0/0 when | averages |",
        "|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*rows, *map(_metric, METRICS)]) + "\n"


def _metric(metric: Metric) -> str:
    per = {"matrix": "matrix", "class": "class", "binary": "2x2 matrix"}[metric.kind]
    low, high = (f"{x:.3g}" for x in (metric.low, metric.high))
    bounds = f"{'(' if low == '-inf' else '['}{low}, {high}]"
    averages = "" if metric.kind != "class" else "macro" if metric.micro is None else "macro, weighted, micro, binary"
    also = ", ".join(f"`{name}`" for name in metric.aliases)
    return f"| `{metric.name}` | {also} | {per} | {metric.formula} | {bounds} | {metric.undefined} | {averages} |"


FILES = {
    "docs/support.md": support,
    "docs/metrics_table.md": metrics_table,
    "cmfast/metrics/_functions.py": metric_functions.module,
}


def main(argv: list[str] | None = None) -> int:
    """Write or check every file; return 1 if a check fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 if a file is out of date")
    check = parser.parse_args(argv).check
    stale = [name for name, made in FILES.items() if not _same(ROOT / name, made())]
    for name in stale:
        if check:
            print(f"{name} is out of date: run python docs/generate.py", file=sys.stderr)
        else:
            (ROOT / name).write_text(FILES[name]())
    return int(check and bool(stale))


def _same(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


if __name__ == "__main__":
    sys.exit(main())
