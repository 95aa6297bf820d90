"""Write what is made from the tables of the code: ``python docs/generate.py``; ``--check`` only says whether it is.

That is three pages, and the type of the names of metrics.
"""

import argparse
import sys
from pathlib import Path

import sizes

from cmfast.kernels.ops import OPS, Op
from cmfast.metrics import METRICS
from cmfast.metrics._catalogue import FORMS
from cmfast.results import Metric

ROOT = Path(__file__).parent.parent
STANDARD = "[array API standard](https://data-apis.org/array-api/latest/)"
ARRAYS = {
    "NumPy, and all that `numpy.asarray` accepts: lists, pandas, polars, Arrow, memory maps": ("CPU", "NumPy"),
    "torch tensors on the CPU": ("CPU, on their memory", "tensors"),
    "JAX arrays on the CPU, with 64-bit types": (
        "CPU, on their memory, or by callbacks",
        "JAX arrays ([more](jax.md))",
    ),
    f"any library that follows the {STANDARD}, on the CPU": (
        "CPU, on their memory by DLPack",
        "arrays of that library, on the same device",
    ),
    "CuPy": ("CUDA, on their device and the current stream", "CuPy"),
    "torch tensors on a GPU, if CuPy is installed": ("CUDA, on their memory", "tensors"),
    "xarray": ("those of the arrays inside", "with dimensions and coordinates"),
    "Dask": ("those of the blocks", "lazy ([more](dask.md))"),
}
MERGE = {None: "batch axes are independent", "sum": "integer tables add", "cells": "sorted cells merge"}


def support() -> str:
    """Return the support table of the ops."""
    rows = [
        "# Find out what runs where",
        "",
        "Generated from `kernels/ops.py` by `python docs/generate.py`.",
        "",
        "| arrays | kernels | results |",
        "|---|---|---|",
        *(f"| {arrays} | {kernels} | {results} |" for arrays, (kernels, results) in ARRAYS.items()),
        "",
        "An op without a CUDA kernel raises `NotImplementedError`; nothing falls back or moves to the host. Arrays on",
        "other devices raise an error that names the device.",
        "",
        "The tests compile the CUDA kernels for sm_80 and sm_90 and run them and their launchers on an emulation of",
        "CUDA on the host. They have not run on a GPU yet ([more](cuda.md)).",
        "",
        "Gradient: the op that computes the gradients of torch tensors and JAX arrays, on the CPU if it has no CUDA",
        "kernel. If an op has none, arrays that require gradients raise an error ([more](gradients.md)).",
        "",
        "| op | core axes | CPU | CUDA | parts of the samples | tolerance (float32, float64) | gradient |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, op in sorted(OPS.items()):
        cpu, cuda = ("yes" if target in op.targets else "no" for target in ("cpu", "cuda"))
        tolerance = ", ".join(f"{r:.0e}" if r else "exact" for r in op.rtol)
        rows.append(
            f"| `{name}` | `{op.signature}` | {cpu} | {cuda} | {MERGE[op.merge]} | {tolerance} | {_gradient(op)} |"
        )
    return "\n".join(rows) + "\n"


def _gradient(op: Op) -> str:
    return f"`{op.gradient}`" if op.gradient else "no"


def metrics_table() -> str:
    """Return the table of the metrics: names first, by what they are a number of, then the notation."""
    lines = ["# Look up a metric", "", "[Notation](#notation) is below the tables."]
    for kind, title in KINDS.items():
        lines += ["", f"## {title}", "", "| name | formula | range | 0/0 when |", "|---|---|---|---|"]
        lines += [_metric(metric) for metric in METRICS if metric.kind == kind]
    return "\n".join(lines) + "\n" + NOTATION


KINDS = {
    "matrix": "One number per matrix",
    "class": "One number per class",
    "binary": "One number per 2x2 matrix",
}
NOTATION = """
## Notation

Per matrix: `d`, `t`, `p` are diagonal, row sums (truth) and column sums (prediction), `n` the total, `a` the sum of
`d`, `e` the sum of `t p`. One class against the rest has `tp = d`, `fn = t - d`, `fp = p - d`, `tn = n - t - p + d`.

A metric per class also has averages: `recall_macro`, `recall_weighted`, `recall_micro` and `recall_binary`; those
marked with a star have the macro average only. `fbeta` is written with its beta: `fbeta_2`, `fbeta_0.5_macro`.
`fbeta_0` is `precision`, `fbeta_inf` is `recall`. `tau_weighted` is written with a weight for each class, in their
order: `tau_weighted_1_5` counts misses of class 1 five times as much as false alarms. It is 1 at best and has no lower
bound; with weights of mean 1 it is in [0, 1].

Generated from `cmfast/metrics/_functions.py` by `python docs/generate.py`.
"""


def _metric(metric: Metric) -> str:
    low, high = (f"{x:.3g}" for x in (metric.low, metric.high))
    bounds = f"{'(' if low == '-inf' else '['}{low}, {high}]"
    star = "*" if metric.kind == "class" and metric.micro is None else ""
    names = ", ".join(f"`{name}`" for name in (metric.name, *metric.aliases))
    return f"| {names}{star} | {metric.formula} | {bounds} | {metric.undefined} |"


def metric_names() -> str:
    """Return the source of the type of the names of metrics."""
    often = [f"fbeta_{beta}{end}" for beta in ("0.5", "2") for end in ("", "_macro", "_weighted", "_micro", "_binary")]
    often += [f"tau_weighted_{weights}" for weights in ("1_2", "1_5", "1_10", "2_1", "5_1", "10_1")]
    names = "".join(f'    "{name}",\n' for name in [*FORMS, *often])
    head = '"""The names of the metrics, for type checkers.\n\nGenerated by ``python docs/generate.py``.\n"""\n\n'
    head += "from typing import Literal, TypeAlias\n\n"
    return f"""{head}MetricName: TypeAlias = Literal[
{names}]
Names: TypeAlias = list[MetricName] | tuple[MetricName, ...] | Literal["scalars", "per_class"] | None
"""


FILES = {
    "cmfast/metrics/_names.py": metric_names,
    "docs/support.md": support,
    "docs/metrics_table.md": metrics_table,
    "docs/sizes.md": sizes.page,
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
