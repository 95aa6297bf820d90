"""Write the pages that are made from the code: ``python docs/generate.py``; ``--check`` only says whether they are."""

import argparse
import sys
from pathlib import Path

from cmfast.kernels.ops import OPS

HERE = Path(__file__).parent
MERGE = {None: "batch axes are independent", "sum": "integer tables add", "cells": "sorted cells merge"}


def support() -> str:
    """Return the support table of the ops."""
    rows = [
        "# What runs where",
        "",
        "Generated from `kernels/ops.py` by `python docs/generate.py`. CPU: NumPy arrays (and whatever `numpy.asarray`",
        "takes) and torch tensors. CUDA: no op has a CUDA kernel yet; a call with a CUDA tensor raises",
        "`NotImplementedError`, nothing falls back.",
        "",
        "| op | core axes | CPU | CUDA | parts of the samples | tolerance against the oracle (float32, float64) |",
        "|---|---|---|---|---|---|",
    ]
    for name, op in sorted(OPS.items()):
        cpu, cuda = ("yes" if target in op.targets else "no" for target in ("cpu", "cuda"))
        tolerance = ", ".join(f"{r:.0e}" if r else "exact" for r in op.rtol)
        rows.append(f"| `{name}` | `{op.signature}` | {cpu} | {cuda} | {MERGE[op.merge]} | {tolerance} |")
    return "\n".join(rows) + "\n"


PAGES = {"support.md": support}


def main(argv: list[str] | None = None) -> int:
    """Write or check every page; return 1 if a check fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 if a page is out of date")
    check = parser.parse_args(argv).check
    stale = [name for name, page in PAGES.items() if not _same(HERE / name, page())]
    for name in stale:
        if check:
            print(f"docs/{name} is out of date: run python docs/generate.py", file=sys.stderr)
        else:
            (HERE / name).write_text(PAGES[name]())
    return int(check and bool(stale))


def _same(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


if __name__ == "__main__":
    sys.exit(main())
