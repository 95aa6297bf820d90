"""``cmfast gcm``: the geometric confusion matrix of embeddings in files."""

import argparse
from pathlib import Path
from typing import Any, get_args

import numpy as np

import cmfast
from cmfast._core.annotations import NORMALIZATIONS, Empty
from cmfast._files import points, sources
from cmfast._files.output import replacing, to_json, write_npz
from cmfast._files.sources import located
from cmfast.cli._cluster import cluster_options, in_parts
from cmfast.cli._counting import check_room
from cmfast.cli._options import (
    Parser,
    bar,
    components,
    compute,
    given,
    misuse,
    output_options,
    scaling_options,
    table_target,
    whole_number,
)
from cmfast.cli._printing import print_json, print_matrix
from cmfast.cli.commands._gcm import _parts
from cmfast.geometry._embedding import RULES

COLUMNS = ("overlap", "guaranteed", "null_overlap", "null_sd", "pattern", "pattern_null", "missing_mass")


def add_options(parser: Parser) -> None:
    """Add what the command takes."""
    parser.add_argument(
        "input",
        type=located,
        metavar="X",
        help="embeddings (n, m): npy, zarr, or a Parquet, Arrow or Feather table; a folder, a glob or a URL of such",
    )
    parser.add_argument("--labels", required=True, metavar="Y", help="true classes 0..C-1: file (n,), or column of X")
    parser.add_argument("--pred", required=True, metavar="P", help="predicted classes: file (n,), or column of X")
    parser.add_argument(
        "--features", nargs="+", metavar="COLUMN", help="columns of a table with the embeddings (default: all others)"
    )
    parser.add_argument(
        "--weights", choices=NORMALIZATIONS, nargs="+", default=list(NORMALIZATIONS), help="default: all four"
    )
    parser.add_argument(
        "--components",
        dest="n_components",
        type=components,
        default=10,
        metavar="M",
        help="axes of the PCA, default 10; none: no PCA",
    )
    parser.add_argument(
        "--grid",
        choices=[rule.replace("_", "-") for rule in RULES],
        default="scott",
        help="rule of the cell widths, default scott",
    )
    parser.add_argument(
        "--seed", type=whole_number, default=0, metavar="N", help="of the permuted-label null, default 0"
    )
    scaling_options(parser)
    parser.add_argument("--empty", choices=get_args(Empty), help="bi: a class never true nor predicted, default nan")
    output_options(parser, "npz or json file for matrices and diagnostics")
    cluster_options(parser)


@in_parts
def run(args: argparse.Namespace) -> int:
    """Compute the matrices; 1 if a weighting has no answer."""
    tables = sources.kind(args.input) in points.TABLES
    args.weights = list(dict.fromkeys(args.weights))
    if args.features and not tables:
        misuse("--features belongs to a table")
    named = [args.input, *(() if tables else map(located, (args.labels, args.pred)))]
    target = table_target(args, (".npz", ".json"), *named)
    options = given(args, "smoothing", "empty")
    result = _parts.of_parts(args, tables=tables, **options) if args.tasks.wanted(*named) else _of_all(args, options)
    diagnostics = result.diagnostics
    matrices = {"gcm": result.matrix, "normalized": diagnostics.normalized}
    by_weights: list[dict[str, Any]] = [
        {"status": cmfast.Status(int(code)).name} | {name: float(getattr(diagnostics, name)[k]) for name in COLUMNS}
        for k, code in enumerate(diagnostics.status)
    ]
    facts = {
        "points": diagnostics.n_points,
        "dropped": diagnostics.n_dropped,
        "cells": diagnostics.n_cells,
        "alone": diagnostics.singleton_fraction,
        "unmixed": diagnostics.unmixed_fraction,
        "options": {"components": args.n_components, "grid": args.grid, "seed": args.seed, **options},
        "weights": dict(zip(args.weights, by_weights, strict=True)),
        "verdict": diagnostics.explain(),
    }
    if target is not None:
        with replacing(target, force=args.force) as file:
            if target.suffix.lower() == ".npz":
                write_npz(file, {"weights": np.array(args.weights), **matrices})
            else:
                file.write(to_json({**facts, **matrices}).encode())
    if args.json:
        print_json({**facts, **matrices})
    else:
        _print_gcm(facts, result.matrix)
    return 0 if np.isfinite(result.matrix).all() else 1


def _of_all(args: argparse.Namespace, options: dict[str, Any]) -> Any:
    """Return the result of points in one file, or one for each array."""
    tick = bar(args, "gcm, reading", "points") or (lambda done, total: None)
    X, y, p = points.open_points(args.input, args.labels, args.pred, args.features, tick=tick)
    for source, ids in ((args.labels, y), (args.pred, p)):
        if ids.dtype.kind in "iu" and ids.size:
            check_room(Path(source), len(args.weights), int(ids.max()) + 1)
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


def _print_gcm(facts: dict[str, Any], G: np.ndarray) -> None:
    dropped = f" ({facts['dropped']:,} not finite, left out)" if facts["dropped"] else ""
    print(f"{facts['points']:,} points{dropped} in {facts['cells']:,} cells; {facts['alone']:.0%} are alone in theirs")
    print("overlap of each geometric matrix with the normalised matrix of the same weights:")
    print("weights" + "".join(name.replace("_", " ").rjust(15) for name in COLUMNS))
    for name, values in facts["weights"].items():
        print(name.ljust(7) + "".join(f"{round(values[column], 3) + 0.0:15.3f}" for column in COLUMNS))
    print(facts["verdict"])
    classes = [str(k) for k in range(G.shape[-1])]
    for name, matrix in zip(facts["weights"], G, strict=True):
        print(f"\n{name}")
        print_matrix(matrix, classes)
