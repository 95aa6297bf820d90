"""``cmfast metrics``: options, and the choice between all matrices in one pass and blocks."""

import argparse
import math
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np

import cmfast
from cmfast._core.annotations import IntervalMethod
from cmfast._files import tables
from cmfast._files.matrices import is_square_table
from cmfast._files.output import FileError
from cmfast._files.sources import is_several, open_locally
from cmfast._files.stores import Source
from cmfast.cli._cluster import add_cluster, start_tasks
from cmfast.cli._counting import CountedLabels, count
from cmfast.cli._matrices import open_matrices
from cmfast.cli._options import (
    CELLS,
    COMMON,
    TABLES,
    add_common,
    add_labels,
    add_output,
    check_output,
    find_label_files,
    parse_metric_names,
)
from cmfast.cli._ordering import resolve_order, warn_of_order
from cmfast.cli._parser import Parser, misuse
from cmfast.cli._result import Result
from cmfast.cli._saved_counts import are_counts, read_counts
from cmfast.cli._values import POLICIES, positive_number
from cmfast.cli.commands._metrics import _blocks, _groups, _intervals, _parts, _whole
from cmfast.metrics._plan import is_binary

METHODS = get_args(IntervalMethod)


def add_options(parser: Parser) -> None:
    """Add the options of the command."""
    add_labels(
        parser,
        "labels as for confusion; or matrices (..., C, C) as npy or zarr; or one as csv, with its labels in the "
        "first line and column or without; or counts written by merge",
    )
    add_common(parser, "--cells", help=f"FILE has a matrix per row: {CELLS}")
    add_common(parser, "--only", help="compute only these metrics (default: all with one value per matrix)")
    add_common(parser, "--undefined", help=f"value of 0/0: {', '.join(POLICIES)}, or a number")
    parser.add_argument("--interval", action="store_true", help="add confidence intervals (counts only)")
    what = "column of clusters, such as patients: intervals resample clusters instead of samples"
    add_common(parser, "--cluster", help=what)
    parser.add_argument("--method", choices=METHODS, help="interval method (default: bca)")
    add_common(parser, "--confidence-level", default=None, metavar="SHARE")
    parser.add_argument("--group-mb", type=positive_number, default=_groups.MEMORY, help=argparse.SUPPRESS)
    add_common(parser, "--block-mb", "--threads")
    add_output(parser, "csv, parquet or json file: a row per group or matrix")
    add_cluster(parser)


def run(args: argparse.Namespace) -> Result:
    """Compute the metrics; failed if some matrices have none."""
    args.tasks = start_tasks(args)
    args.target = check_output(args, TABLES, *find_label_files(args))
    for option in ("--cluster", "--method", "--confidence-level"):
        if getattr(args, option[2:].replace("-", "_")) is not None and not args.interval:
            misuse(f"{option} belongs to --interval")
    args.confidence_level = args.confidence_level or COMMON["--confidence-level"]["default"]
    if not _are_labels(args) and args.cells is None:
        batch = _parts.open_parts(args, _request(args, []), whole=_needs_all(args))
        if batch is not None:
            classes = list(range(batch.shape[-1]))
            request = _request(args, classes)
            measured = _parts.measure_parts(args, request, batch)
            return _blocks.deliver_blocks(args, request, measured, classes, batch.shape[:-2])
    matrices = _open_matrices(args)
    if matrices is not None and not _needs_all(args) and math.prod(matrices.shape[:-2]) != 1:
        classes = list(range(matrices.shape[-1]))
        request = _request(args, classes)
        blocks = tables.MatrixBlocks(matrices, request.block_bytes(args.block_mb, len(classes)))
        measured = _blocks.measure_matrices(args, request, blocks)
        return _blocks.deliver_blocks(args, request, measured, classes, blocks.batch)
    if _are_many_groups(args):
        return _groups.deliver_groups(args, partial(_request, args))
    counted, clusters = _count(args, matrices)
    names = _choose_metrics(args, counted.labels, has_order=counted.has_order)
    return _whole.deliver_all(args, counted, clusters, names)


def _are_labels(args: argparse.Namespace) -> bool:
    """Whether an option says that the input holds labels."""
    return (args.true, args.pred, args.header, args.labels, args.by, args.cluster) != (None,) * 6


def _are_counts(args: argparse.Namespace) -> bool:
    """Whether the input is a file of saved counts."""
    return are_counts(args.input)


def _needs_all(args: argparse.Namespace) -> bool:
    """Whether the output needs all matrices at the same time."""
    suffix = "" if args.output is None else args.output.suffix.lower()
    return bool(args.json or suffix == ".json" or args.cluster is not None or (args.interval and not suffix))


def _are_many_groups(args: argparse.Namespace) -> bool:
    """Whether the output is a table of groups that can be written block by block."""
    if args.target is None or args.by is None or _are_counts(args) or _needs_all(args):
        return False
    return not args.tasks.are_needed(*find_label_files(args))


def _open_matrices(args: argparse.Namespace) -> np.ndarray | None:
    """Return the matrices of a file; None if it holds labels."""
    of_labels = _are_labels(args)
    if args.cells is not None:
        if of_labels:
            misuse("--cells belongs to matrices, --labels, --true, --pred, --by, --cluster and --header to labels")
        if args.tasks.are_needed(args.input):
            misuse("--cells belongs to one table, read without --scheduler")
    elif of_labels or is_several(args.input) or not _holds_matrices(args.input):
        return None
    M = open_matrices(args)
    if tables.are_matrices(M):
        return M
    if args.cells is not None:
        raise FileError(args.input, f"must hold square matrices, but they are of shape {M.shape[-2:]}")
    return None


def _holds_matrices(source: Source) -> bool:
    """Whether a file is of a kind that holds matrices, or a csv file with one matrix without labels."""
    suffix = source.suffix.lower()
    if suffix in (".npy", ".zarr"):
        return True
    return suffix in tables.TEXTS and isinstance(source, Path) and not are_counts(source) and is_square_table(source)


def _request(args: argparse.Namespace, labels: list[Any], *, has_order: bool = True) -> _blocks.Request:
    """Return the metrics and intervals requested for every matrix."""
    how = _intervals.Method(args.method or "bca", args.confidence_level) if args.interval else None
    return _blocks.Request(_choose_metrics(args, labels, has_order=has_order), args.undefined, how)


def _choose_metrics(args: argparse.Namespace, labels: list[Any], *, has_order: bool) -> list[str]:
    """Return the metric names; raise UsageError for binary metrics of two integers without a known positive class."""
    if args.only and not has_order:
        warn_of_order(parse_metric_names(args.only), labels)
    names: list[str] = parse_metric_names(args.only) if args.only else [*cmfast.metrics.SCALARS]
    binary = next((name for name in names if is_binary((name,))), None)
    integers = len(labels) == 2 and all(isinstance(label, int | np.integer) for label in labels)
    if binary is not None and integers and list(labels) not in ([0, 1], [-1, 1]):
        each = f"; for each class ask for {binary.removesuffix('_binary')}"
        misuse(f"--only {binary}: of the labels {labels[0]} and {labels[1]} none is known to be the positive one{each}")
    return names


def _count(args: argparse.Namespace, matrices: np.ndarray | None) -> tuple[CountedLabels, list[np.ndarray] | None]:
    """Return the matrices (counted from labels, or read) and, with --cluster, those of the clusters."""
    if _are_counts(args):
        return _read_counts(args), None
    if matrices is not None:
        if args.order is not None:
            misuse("--order belongs to labels, not to matrices, whose classes have no names")
        return CountedLabels(list(range(matrices.shape[-1])), None, [], matrices, True), None
    if args.cluster is not None:
        return _split_clusters(count(args, [*(args.by or ()), args.cluster]), args.by)
    counted = count(args, args.by)
    return (counted, None) if args.by is not None else (counted._replace(groups=[], matrices=counted.matrices[0]), None)


def _read_counts(args: argparse.Namespace) -> CountedLabels:
    """Return saved counts, with classes in the order of --order or as saved."""
    if _are_labels(args):
        misuse("--labels, --true, --pred, --by, --cluster and --header belong to labels, not to counts")
    with open_locally([args.input]) as (path,):
        counts = read_counts(path, cmfast.ConfusionCounts)
    labels, by, groups = list(counts.labels), None, []
    if counts.groups is not None:
        by = list(counts.group_names)
        groups = [(group,) for group in counts.groups] if len(by) == 1 else list(counts.groups)
    names = list(resolve_order(args.order, labels, tuple(labels)))
    order = [labels.index(name) for name in names]
    return CountedLabels(names, by, groups, counts.matrix[..., order, :][..., order], True)


def _split_clusters(counted: CountedLabels, by: list[str] | None) -> tuple[CountedLabels, list[np.ndarray]]:
    """Split matrices per group and cluster into one matrix per group and the matrices of its clusters."""
    rows: dict[tuple[Any, ...], list[int]] = {}
    for k, group in enumerate(counted.groups):
        rows.setdefault(group[:-1], []).append(k)
    clusters = [counted.matrices[own] for own in rows.values()]
    total = np.stack([own.sum(0) for own in clusters])
    groups, M = (list(rows), total) if by is not None else ([], total[0])
    return counted._replace(by=by, groups=groups, matrices=M), clusters
