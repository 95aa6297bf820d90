"""``cmfast gcm``: options, computation in one pass or in parts, printed table."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import cmfast
from cmfast._core.annotations import NORMALIZATIONS
from cmfast._files import points, sources
from cmfast._files.sources import parse_source
from cmfast.cli._calls import bar, compute, select_options, tick
from cmfast.cli._cluster import add_cluster, start_tasks
from cmfast.cli._labels import check_memory
from cmfast.cli._options import add_common, add_output, check_output
from cmfast.cli._parser import Parser, misuse
from cmfast.cli._printing import format_matrix, format_table
from cmfast.cli._result import Result
from cmfast.cli._values import components, normalization
from cmfast.cli._writing import Content
from cmfast.cli.commands._gcm import _parts
from cmfast.geometry._prepare_points import RULES

COLUMNS = ("overlap", "guaranteed", "null_overlap", "null_sd", "pattern", "pattern_null", "missing_mass")


def add_options(parser: Parser) -> None:
    """Add the options of the command."""
    parser.add_argument(
        "input",
        type=parse_source,
        metavar="X",
        help="embeddings (n, m): npy, zarr, or a Parquet, Arrow or Feather table; or a folder, glob or URL of these",
    )
    parser.add_argument("--labels", required=True, metavar="Y", help="true classes 0..C-1: file (n,), or column of X")
    parser.add_argument("--pred", required=True, metavar="P", help="predicted classes: file (n,), or column of X")
    add_common(parser, "--features", help="table columns with the embeddings (default: all other columns)")
    parser.add_argument(
        "--weights",
        type=normalization,
        choices=NORMALIZATIONS,
        nargs="+",
        default=list(NORMALIZATIONS),
        help="default: all four; row is also called true, col pred",
    )
    parser.add_argument(
        "--components",
        dest="n_components",
        type=components,
        default=10,
        metavar="M",
        help="number of principal axes, default 10; none: no PCA",
    )
    parser.add_argument(
        "--grid",
        choices=[rule.replace("_", "-") for rule in RULES],
        default="scott",
        help="rule for the cell widths, default scott",
    )
    add_common(parser, "--seed", help="random seed of the permuted-label null, default 0")
    add_common(parser, "--smoothing", "--threads", "--empty")
    add_output(parser, "npz or json file for matrices and diagnostics")
    add_cluster(parser)


def run(args: argparse.Namespace) -> Result:
    """Compute the matrices; failed if a weighting does not exist."""
    args.tasks = start_tasks(args)
    tables = sources.get_suffix(args.input) in points.TABLES
    args.weights = list(dict.fromkeys(args.weights))
    if args.features and not tables:
        misuse("--features belongs to a table")
    named = [args.input, *(() if tables else map(parse_source, (args.labels, args.pred)))]
    args.target = check_output(args, (".npz", ".json"), *named)
    options = select_options(args, "smoothing", "empty")
    result = (
        _parts.compute_in_parts(args, tables=tables, **options)
        if args.tasks.are_needed(*named)
        else _compute(args, options)
    )
    diagnostics = result.diagnostics
    matrices = {"gcm": result.matrix, "normalized": diagnostics.normalized}
    by_weights: list[dict[str, Any]] = [
        {"status": cmfast.Status(int(code)).name} | {name: float(getattr(diagnostics, name)[k]) for name in COLUMNS}
        for k, code in enumerate(diagnostics.status)
    ]
    metadata = {
        "points": diagnostics.n_points,
        "dropped": diagnostics.n_dropped,
        "cells": diagnostics.n_cells,
        "alone": diagnostics.singleton_fraction,
        "unmixed": diagnostics.unmixed_fraction,
        "options": {"components": args.n_components, "grid": args.grid, "seed": args.seed, **options},
        "weights": dict(zip(args.weights, by_weights, strict=True)),
        "verdict": diagnostics.explain(),
    }
    content = Content({"weights": np.array(args.weights), **matrices}, metadata={**metadata, **matrices})
    failed = not np.isfinite(result.matrix).all()
    return Result({**metadata, **matrices}, _lines(metadata, result.matrix), content, failed)


def _compute(args: argparse.Namespace, options: dict[str, Any]) -> Any:
    """Return the result for points in one file, or in a file per array."""
    show = tick(args, "gcm, reading", "points")
    X, y, p = points.open_points(args.input, args.labels, args.pred, args.features, tick=show)
    for source, ids in ((args.labels, y), (args.pred, p)):
        if ids.dtype.kind in "iu" and ids.size:
            check_memory(Path(source), len(args.weights), int(ids.max()) + 1)
    return compute(
        cmfast.geometric_confusion_matrix,
        X,
        y,
        p,
        weights=args.weights,
        n_components=args.n_components,
        grid=args.grid.replace("-", "_"),
        rng=args.seed,
        num_threads=args.threads,
        progress=bar(args, "gcm", "points"),
        **options,
    )


def _lines(metadata: dict[str, Any], G: np.ndarray) -> Iterator[str]:
    """Yield the printed summary, diagnostics and matrices."""
    dropped = f" ({metadata['dropped']:,} not finite, left out)" if metadata["dropped"] else ""
    size = f"{metadata['points']:,} points{dropped} in {metadata['cells']:,} cells"
    yield f"{size}; {metadata['alone']:.0%} are alone in theirs"
    yield "overlap of each geometric matrix with the normalised matrix of the same weights:"
    rows = {
        name: [f"{round(values[column], 3) + 0.0:.3f}" for column in COLUMNS]
        for name, values in metadata["weights"].items()
    }
    yield from format_table("weights", [name.replace("_", " ") for name in COLUMNS], rows, 15)
    yield metadata["verdict"]
    classes = [str(k) for k in range(G.shape[-1])]
    for name, matrix in zip(metadata["weights"], G, strict=True):
        yield f"\n{name}"
        yield from format_matrix(matrix, classes)
