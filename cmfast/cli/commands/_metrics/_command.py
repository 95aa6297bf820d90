"""``cmfast metrics``: metrics of a table of labels, or of a file of matrices."""

import argparse
import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast, get_args

import numpy as np

import cmfast
from cmfast._files import tables
from cmfast._files.output import FileError
from cmfast._files.sources import is_several, reached
from cmfast.cli import _matrix_parts, _screen
from cmfast.cli._cluster import cluster_options, in_parts
from cmfast.cli._counting import count
from cmfast.cli._matrices import stored
from cmfast.cli._options import (
    CELLS,
    POLICIES,
    Parser,
    compute,
    label_options,
    metric_names,
    misuse,
    natural_number,
    output_options,
    policy,
    positive_number,
    sources,
    table_target,
)
from cmfast.cli._ordering import wanted_order, warn_of_order
from cmfast.cli._printing import described, print_json, single
from cmfast.cli._stored import read_counts
from cmfast.cli._writing import write_columns
from cmfast.cli.commands._metrics import _blocks, _groups, _intervals, _parts
from cmfast.metrics._plan import is_binary
from cmfast.metrics._report import in_head
from cmfast.uncertainty import Intervals
from cmfast.uncertainty._intervals import IntervalMethod

METHODS = get_args(IntervalMethod)
COUNTS = (".json", ".npz")


def add_options(parser: Parser) -> None:
    """Add what the command takes."""
    label_options(parser, "labels as for confusion; matrices (..., C, C), npy or zarr; counts as merge writes them")
    parser.add_argument("--cells", nargs="+", metavar="COLUMN", help=f"FILE has a matrix in each row: {CELLS}")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these metrics (default: all, one number per matrix)")
    parser.add_argument(
        "--undefined",
        type=policy,
        default="present",
        metavar="POLICY",
        help=f"a 0/0: {', '.join(POLICIES)}, or a number",
    )
    parser.add_argument("--interval", action="store_true", help="each with an interval; of counts")
    what = "column of what samples have in common, as a patient: these are drawn again for intervals, not samples"
    parser.add_argument("--cluster", metavar="COLUMN", help=what)
    parser.add_argument("--method", choices=METHODS, help="how intervals are made (default: bca)")
    parser.add_argument("--level", type=float, default=0.95, metavar="SHARE", help="of intervals (default: .95)")
    parser.add_argument("--group-mb", type=positive_number, default=_groups.ROOM, help=argparse.SUPPRESS)
    parser.add_argument("--block-mb", type=positive_number, default=tables.BLOCK_BYTES / 2**20, help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=natural_number, metavar="N", help="most threads to use, default: all")
    output_options(parser, "csv, parquet or json file: a row per group or matrix")
    cluster_options(parser)


class Answer(NamedTuple):
    """What was asked for, of every matrix."""

    labels: list[Any]
    groups: list[tuple[Any, ...]]
    """Values of the columns --by, in order: a matrix for each."""
    M: np.ndarray
    values: dict[str, Any]
    failed: np.ndarray
    """Status of every matrix."""
    intervals: Intervals | None = None
    clusters: list[np.ndarray] | None = None
    """Matrices of the clusters of every group."""


@in_parts
def run(args: argparse.Namespace) -> int:
    """Compute the metrics; 1 if some matrices hold what has none."""
    target = table_target(args, (".csv", ".parquet", ".json"), *sources(args))
    if args.cluster is not None and not args.interval:
        misuse("--cluster belongs to --interval")
    if args.method is not None and not args.interval:
        misuse("--method belongs to --interval")
    in_parts_of = _matrices_of_parts(args)
    if in_parts_of is not None:
        return _parts.run(args, in_parts_of, _of_each(args, list(range(in_parts_of.shape[-1]))), target)
    matrices = _stored_matrices(args)
    if matrices is not None and _is_batch(args, matrices):
        return _blocks.run(args, matrices, _of_each(args, list(range(matrices.shape[-1]))), target)
    if target is not None and _many_groups(args):
        return _groups.run(args, partial(_of_each, args), target)
    labels, groups, M = _labelled(args, matrices)
    if args.only:
        warn_of_order(args, metric_names(args.only), labels)
    clusters = None
    if args.cluster is not None:
        groups, M, clusters = _clusters(args, groups, M)
    names = _asked(args, labels)
    values = compute(cmfast.metrics.compute, M, names, undefined=args.undefined, num_threads=args.threads)
    failed = compute(cmfast.metrics.margins, M, on_failure="ignore", num_threads=args.threads).status
    answer = Answer(labels, groups, M, values, failed, _with_ends(args, M, names, clusters), clusters)
    if target is not None:
        _write_rows(target, args, answer)
    if target is None or args.json:
        _printer(args, answer)(args, answer)
    return int(np.any(failed))


def _asked(args: argparse.Namespace, labels: list[Any]) -> Sequence[str]:
    """Return the names of metrics; refuse those of two classes where nobody knows which integer is the positive one."""
    names = metric_names(args.only) if args.only else list(cmfast.metrics.SCALARS)
    binary = next((name for name in names if is_binary((name,))), None)
    integers = len(labels) == 2 and all(isinstance(label, int | np.integer) for label in labels)
    if binary is not None and integers and list(labels) not in ([0, 1], [-1, 1]):
        each = f"; for each class ask for {binary.removesuffix('_binary')}"
        misuse(f"--only {binary}: of the labels {labels[0]} and {labels[1]} none is known to be the positive one{each}")
    return names


def _of_each(args: argparse.Namespace, labels: list[Any]) -> _blocks.Asked:
    """Return what is asked of every matrix of many."""
    if args.only and labels:
        warn_of_order(args, metric_names(args.only), labels)
    made = _intervals.Made(args.method or "bca", args.level) if args.interval else None
    return _blocks.Asked(list(_asked(args, labels)), args.undefined, made)


def _clusters(
    args: argparse.Namespace, groups: list[tuple[Any, ...]], M: np.ndarray
) -> tuple[list[tuple[Any, ...]], np.ndarray, list[np.ndarray]]:
    """Return groups, a matrix of each, and those of its clusters, from matrices of every cluster in every group."""
    rows: dict[tuple[Any, ...], list[int]] = {}
    for k, group in enumerate(groups):
        rows.setdefault(group[:-1], []).append(k)
    clusters = [M[own] for own in rows.values()]
    total = np.stack([own.sum(0) for own in clusters])
    return (list(rows), total, clusters) if args.by is not None else ([], total[0], clusters)


def _with_ends(
    args: argparse.Namespace, M: np.ndarray, names: Sequence[str], clusters: list[np.ndarray] | None
) -> Intervals | None:
    """Return intervals where they were asked for."""
    if not args.interval:
        return None
    options = {"method": args.method, "level": args.level, "undefined": args.undefined, "num_threads": args.threads}
    if clusters is None:
        return cast(Intervals, compute(cmfast.uncertainty.interval, M, names, **options))
    each = [compute(cmfast.uncertainty.interval, own, names, clustered=True, **options) for own in clusters]
    return each[0] if args.by is None else _intervals.stacked(each)


def _labelled(args: argparse.Namespace, matrices: np.ndarray | None) -> tuple[list[Any], list[Any], np.ndarray]:
    """Return labels, groups and matrices: counted from labels, with or without groups, or as a file holds them."""
    if getattr(args.input, "suffix", "").lower() in COUNTS:
        args.has_order = True  # files of counts say nothing of it
        labels, groups, M = _counted(args, of_labels=_are_labels(args))
        names = list(wanted_order(args, labels, tuple(labels)))
        order = [labels.index(name) for name in names]
        return names, groups, M[..., order, :][..., order]
    args.has_order = True
    if matrices is not None:
        if args.order is not None:
            misuse("--order belongs to labels, not to matrices, whose classes have no names")
        return list(range(matrices.shape[-1])), [], matrices
    if args.cluster is not None:
        by = args.by
        args.by = [*(by or ()), args.cluster]
        try:
            return count(args)
        finally:
            args.by = by
    labels, groups, M = count(args)
    return (labels, groups, M) if args.by is not None else (labels, [], M[0])


def _is_batch(args: argparse.Namespace, M: np.ndarray) -> bool:
    """Return whether matrices are many, of which a table is wanted or a summary."""
    return not _is_whole(args) and math.prod(M.shape[:-2]) != 1


def _is_whole(args: argparse.Namespace) -> bool:
    """Return whether something is wanted that is made of all at once."""
    suffix = "" if args.output is None else args.output.suffix.lower()
    return bool(args.json or suffix == ".json" or args.cluster is not None or (args.interval and not suffix))


def _many_groups(args: argparse.Namespace) -> bool:
    """Return whether a table of groups is wanted, which may be written block by block."""
    counts = getattr(args.input, "suffix", "").lower() in COUNTS
    one = not args.tasks.wanted(*sources(args))
    return args.by is not None and one and not counts and not _is_whole(args)


def _matrices_of_parts(args: argparse.Namespace) -> _matrix_parts.Batch | None:
    """Return the matrices of several files, or those that a cluster is to measure."""
    if _are_labels(args) or args.cells is not None:
        return None
    return _parts.matrices_of_parts(args, _of_each(args, []), whole=_is_whole(args))


def _are_labels(args: argparse.Namespace) -> bool:
    return (args.true, args.pred, args.header, args.labels, args.by, args.cluster) != (None,) * 6


def _counted(args: argparse.Namespace, *, of_labels: bool) -> tuple[list[Any], list[Any], np.ndarray]:
    """Return labels, groups and matrices of counts that were saved; their groups are those that --by gives."""
    if of_labels:
        misuse("--labels, --true, --pred, --by, --cluster and --header belong to labels, not to counts")
    with reached([args.input]) as (path,):
        counts = read_counts(path, cmfast.ConfusionCounts)
    if counts.groups is None:
        return list(counts.labels), [], counts.matrix
    args.by = list(counts.group_names)
    groups = [(group,) for group in counts.groups] if len(args.by) == 1 else list(counts.groups)
    return list(counts.labels), groups, counts.matrix


def _printer(args: argparse.Namespace, answer: Answer) -> Callable[[argparse.Namespace, Answer], None]:
    """Return what prints the answer: JSON, a report of every matrix, or, if metrics were named, their numbers."""
    by_group = args.by is not None
    if args.json:
        return _print_json_of_groups if by_group else _print_json_of_all
    if answer.intervals is not None:
        return _print_intervals
    if args.only and by_group:
        return _print_groups
    if args.only or np.any(answer.failed) or not (by_group or answer.M.ndim == 2):
        return _print_numbers
    return _print_group_reports if by_group else _print_report


def _print_json_of_all(args: argparse.Namespace, answer: Answer) -> None:
    number = int(np.size(answer.failed))
    facts = {"labels": answer.labels, "undefined": args.undefined, "matrices": number, "metrics": answer.values}
    if answer.intervals is not None:
        facts |= {
            "interval": _intervals.facts(answer.intervals, answer.clusters),
            "ends": _intervals.ends(answer.intervals),
        }
    print_json(facts)


def _print_json_of_groups(args: argparse.Namespace, answer: Answer) -> None:
    samples = answer.M.sum((1, 2)).tolist()
    groups = [
        {"group": single(group), "samples": n, "metrics": {name: value[g] for name, value in answer.values.items()}}
        for g, (group, n) in enumerate(zip(answer.groups, samples, strict=True))
    ]
    facts = {"labels": answer.labels, "undefined": args.undefined, "by": single(args.by), "groups": groups}
    if answer.intervals is not None:
        facts["interval"] = _intervals.facts(answer.intervals, answer.clusters)
        for g, group in enumerate(groups):
            group["ends"] = _intervals.ends(answer.intervals, g)
    print_json(facts)


def _write_rows(target: Path, args: argparse.Namespace, answer: Answer) -> None:
    """Write one row per group, or per matrix of a batch by its flat index, and say so."""
    numbers = {name: part.tolist() for name, part in _blocks.numbers_of(answer.labels, answer.values).items()}
    if answer.intervals is not None:
        numbers |= {name: part.tolist() for name, part in _intervals.columns(answer.intervals, answer.labels).items()}
    samples = np.atleast_1d(answer.M.sum(axis=(-2, -1)).ravel()).tolist()
    rows = answer.groups if args.by is not None else [(k,) for k in range(len(samples))]
    heads = _blocks.heads(args.by or ["matrix"], (_blocks.SAMPLES, *numbers))
    columns = {head: list(values) for head, values in zip(heads, zip(*rows, strict=True), strict=True)}
    columns |= {_blocks.SAMPLES: samples, **numbers}
    facts = {"undefined": args.undefined, "labels": answer.labels}
    write_columns(target, columns, facts, force=args.force)
    if not args.json:
        number = "1 row" if len(rows) == 1 else f"{len(rows):,} rows"
        print(f"{_screen.shown(args.output)}: {number}, {len(columns)} columns; {in_head(args.undefined)}")


def _print_intervals(args: argparse.Namespace, answer: Answer) -> None:
    if answer.intervals is not None:
        count = int(np.prod(answer.M.shape[:-2]))
        head = in_head(args.undefined)
        print(_intervals.head(answer.intervals, answer.clusters, head))
        _intervals.show(answer.intervals, answer.labels, args.by, answer.groups, count)


def _print_report(args: argparse.Namespace, answer: Answer) -> None:
    print(_report(args, answer.labels, answer.M))


def _print_group_reports(args: argparse.Namespace, answer: Answer) -> None:
    for k, (group, matrix) in enumerate(zip(answer.groups, answer.M, strict=True)):
        print(f"{chr(10) if k else ''}{described(args.by, group)}: {matrix.sum():,} samples")
        print(_report(args, answer.labels, matrix))


def _report(args: argparse.Namespace, labels: list[Any], M: np.ndarray) -> Any:
    return compute(cmfast.metrics.report, M, class_names=_screen.names(labels), undefined=args.undefined)


def _stored_matrices(args: argparse.Namespace) -> np.ndarray | None:
    """Return the matrices of a file, None where it holds labels."""
    of_labels = _are_labels(args)
    if args.cells is not None:
        if of_labels:
            misuse("--cells belongs to matrices, --labels, --true, --pred, --by, --cluster and --header to labels")
        if args.tasks.wanted(args.input):
            misuse("--cells belongs to one table, read without --scheduler")
    elif of_labels or is_several(args.input) or args.input.suffix.lower() not in (".npy", ".zarr"):
        return None
    M = stored(args)
    if tables.are_matrices(M):
        return M
    if args.cells is not None:
        raise FileError(args.input, f"must hold square matrices, but they are of shape {M.shape[-2:]}")
    return None


def _print_groups(args: argparse.Namespace, answer: Answer) -> None:
    """Print one line per group, one column per number."""
    columns = _blocks.numbers_of(answer.labels, answer.values)
    print(in_head(args.undefined))
    keys = [_texts(values) for values in zip(*answer.groups, strict=True)]
    heads = [_screen.shown(name) for name in args.by]
    widths = [max(map(len, (head, *texts))) for head, texts in zip(heads, keys, strict=True)]
    head, *texts = (_padded(row, widths) for row in (heads, *zip(*keys, strict=True)))
    print(head + "".join(f"{name:>{max(12, len(name) + 2)}}" for name in columns))
    for g, text in enumerate(texts):
        cells = (f"{part[g]:>{max(12, len(name) + 2)}.4f}" for name, part in columns.items())
        print(text + "".join(cells))


def _texts(values: Sequence[Any]) -> list[str]:
    """Return values as texts, which differ where they do."""
    different = list(dict.fromkeys(values))
    known = dict(zip(different, _screen.names(different), strict=True))
    return [known[value] for value in values]


def _padded(row: Sequence[str], widths: list[int]) -> str:
    return "  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True))


def _print_numbers(args: argparse.Namespace, answer: Answer) -> None:
    """Print one line per number; of a batch its mean, least and largest, and how many are undefined."""
    rows, head = _blocks.numbers_of(answer.labels, answer.values), in_head(args.undefined)
    if any(part.size != 1 for part in rows.values()):
        summary = _blocks.Summary()
        summary.add(rows)
        summary.show(head)
        return
    print(head)
    width = max(map(len, (head, *rows)))
    for name, part in rows.items():
        print(f"{name:<{width}}{part[0]:>12.4f}")
