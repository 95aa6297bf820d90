"""Metrics of matrices in many files, or on a cluster: a task for each part, a row of a table for each matrix."""

import argparse
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from cmfast._core import failures
from cmfast._core.annotations import Undefined
from cmfast._files import sources
from cmfast.cli import _many, _matrix_parts, _screen
from cmfast.cli._cluster import Part
from cmfast.cli._options import misuse
from cmfast.cli._writing import rows_written
from cmfast.metrics._evaluate import FAILED
from cmfast.metrics._report import in_head


def matrices_of_parts(args: argparse.Namespace, n_names: int, *, whole: bool) -> _matrix_parts.Batch | None:
    """Return the matrices that are to be measured in parts, None where files hold labels; refuse `whole` results."""
    if not args.tasks.wanted(args.input) or sources.kind(args.input) not in _matrix_parts.KINDS:
        return None
    found = _matrix_parts.batch(args, lambda C: _many.block_bytes(args.block_mb, C, n_names))
    *several, rows, columns = found.shape
    if rows != columns or found.dtype.kind not in "biuf":
        return None
    if math.prod(several) == 1 and not sources.is_several(args.input):
        return None
    if whole:
        misuse("of matrices in parts there is a summary, or a table by --output that ends in .csv or .parquet")
    return found


def run(args: argparse.Namespace, found: _matrix_parts.Batch, names: Sequence[str], target: Path | None) -> int:
    """Do what is done of one file of many matrices."""
    summary, codes = _many.Summary(), []

    def columns() -> Iterator[_many.Numbers]:
        done = 0
        for one in _matrix_parts.made(args, "metrics", _part_measured, found, list(names), args.undefined):
            codes.append(one.pop("status"))
            summary.add({name: values for name, values in one.items() if name != _many.SAMPLES})
            yield {"matrix": np.arange(done, done + len(codes[-1])), **one}
            done += len(codes[-1])

    said = in_head(args.undefined)
    if target is not None:
        facts = {"undefined": args.undefined, "labels": list(range(found.shape[-1]))}
        size = rows_written(target, columns(), facts, force=args.force)
        print(f"{_screen.shown(args.output)}: {size[0]:,} rows, {size[1]} columns; {said}")
    else:
        for _ in columns():
            continue
        summary.show(said)
    status = np.concatenate(codes).reshape(found.shape[:-2])
    failures.report(status, "warn", failed=FAILED)
    return int(status.any())


def _part_measured(part: Part, names: list[str], undefined: Undefined, *, threads: int | None) -> bytes:
    """Return the numbers of every matrix of a part, and its status."""
    M = _matrix_parts.matrices(part)
    numbers, codes = _many.answered(M, range(M.shape[-1]), names, undefined, threads)
    return _matrix_parts.stored(**numbers, status=codes)
