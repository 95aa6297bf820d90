"""Metrics of matrices in many files, or on a cluster: a task per part, a table row per matrix."""

import argparse
import math
from collections.abc import Iterator
from functools import partial

import numpy as np

from cmfast._files import points, sources
from cmfast.cli import _matrix_parts
from cmfast.cli._cluster import Part
from cmfast.cli._parser import misuse
from cmfast.cli.commands._metrics._blocks import Measured, Numbers, Request
from cmfast.cli.commands._metrics._intervals import Caveats

STATUS, CAVEATS = "status", ("status of intervals", "doubts")  # keys that are not metric names


def open_parts(args: argparse.Namespace, request: Request, *, whole: bool) -> _matrix_parts.Batch | None:
    """Return the planned parts of matrix files, None if the files hold labels; raise for `whole` results."""
    if not args.tasks.are_needed(args.input) or sources.get_suffix(args.input) not in points.ARRAYS:
        return None
    has_intervals = request.intervals is not None
    found = _matrix_parts.plan_parts(args, partial(request.block_bytes, args.block_mb), placed=has_intervals)
    *several, rows, columns = found.shape
    if rows != columns or found.dtype.kind not in "biuf":
        return None
    if math.prod(several) == 1 and not sources.is_several(args.input):
        return None
    if whole:
        summary = "" if has_intervals else "a summary, or "
        misuse(f"of matrices in parts there is {summary}a table by --output that ends in .csv or .parquet")
    return found


def measure_parts(
    args: argparse.Namespace, request: Request, batch: _matrix_parts.Batch
) -> Iterator[tuple[Numbers, Measured]]:
    """Yield the metrics of every part."""
    done = 0
    for rows in _matrix_parts.compute_parts(args, "metrics", _measure_part, batch, request):
        status, *caveats = (rows.pop(key) for key in (STATUS, *CAVEATS) if key in rows)
        yield (
            {"matrix": np.arange(done, done + len(status))},
            Measured(rows, status, Caveats(*caveats) if caveats else None),
        )
        done += len(status)


def _measure_part(part: Part, request: Request, *, threads: int | None) -> bytes:
    """Return metrics, statuses and interval caveats of the matrices of a part, as npz bytes."""
    M = _matrix_parts.read_part(part)
    rows, status, caveats = request.measure(M, part.place, range(M.shape[-1]), threads)
    more = {} if caveats is None else dict(zip(CAVEATS, caveats, strict=True))
    return _matrix_parts.pack_arrays(**rows, **{STATUS: status}, **more)
