"""Metrics of matrices in many files, or on a cluster: a task for each part, a row of a table for each matrix."""

import argparse
import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from cmfast._files import sources
from cmfast.cli import _matrix_parts, _screen
from cmfast.cli._cluster import Part
from cmfast.cli._options import misuse
from cmfast.cli._writing import rows_written
from cmfast.cli.commands._metrics import _blocks, _intervals
from cmfast.metrics._report import in_head

STATUS, TOLD = "status", ("status of intervals", "doubts")  # which are no names of metrics


def matrices_of_parts(args: argparse.Namespace, asked: _blocks.Asked, *, whole: bool) -> _matrix_parts.Batch | None:
    """Return the matrices that are to be measured in parts, None where files hold labels; refuse `whole` results."""
    if not args.tasks.wanted(args.input) or sources.kind(args.input) not in _matrix_parts.KINDS:
        return None
    found = _matrix_parts.batch(args, partial(asked.bytes_of_block, args.block_mb), placed=asked.made is not None)
    *several, rows, columns = found.shape
    if rows != columns or found.dtype.kind not in "biuf":
        return None
    if math.prod(several) == 1 and not sources.is_several(args.input):
        return None
    if whole:
        summary = "a summary, or " if asked.made is None else ""
        misuse(f"of matrices in parts there is {summary}a table by --output that ends in .csv or .parquet")
    return found


def run(args: argparse.Namespace, found: _matrix_parts.Batch, asked: _blocks.Asked, target: Path | None) -> int:
    """Do what is done of one file of many matrices."""
    summary, said = _blocks.Summary(), _blocks.Said(asked)

    def columns() -> Iterator[_blocks.Numbers]:
        done = 0
        for one in _matrix_parts.made(args, "metrics", _part_measured, found, asked):
            status, *told = (one.pop(key) for key in (STATUS, *TOLD) if key in one)
            said.add(_blocks.Answer(one, status, _intervals.Told(*told) if told else None))
            summary.add({name: values for name, values in one.items() if name != _blocks.SAMPLES})
            yield {"matrix": np.arange(done, done + len(status)), **one}
            done += len(status)

    head = in_head(args.undefined)
    if target is not None:
        facts = {"undefined": args.undefined, "labels": list(range(found.shape[-1]))}
        size = rows_written(target, columns(), facts, force=args.force)
        print(f"{_screen.shown(args.output)}: {size[0]:,} rows, {size[1]} columns; {head}")
    else:
        for _ in columns():
            continue
        summary.show(head)
    return said.end(found.shape[:-2])


def _part_measured(part: Part, asked: _blocks.Asked, *, threads: int | None) -> bytes:
    """Return the numbers of every matrix of a part, its status, and what is known of intervals."""
    M = _matrix_parts.matrices(part)
    rows, status, told = asked.answered(M, part.place, range(M.shape[-1]), threads)
    return _matrix_parts.stored(**rows, **{STATUS: status}, **dict(zip(TOLD, told or (), strict=told is not None)))
