"""Metrics of all matrices in one pass (one matrix, groups or a batch), as JSON, a table or a report."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

import cmfast
from cmfast.cli import _screen
from cmfast.cli._calls import compute
from cmfast.cli._counting import CountedLabels
from cmfast.cli._printing import CELL, describe_group, format_table, single
from cmfast.cli._result import Result
from cmfast.cli._writing import Content
from cmfast.cli.commands._metrics import _blocks, _intervals
from cmfast.metrics._report import format_policy
from cmfast.results import Intervals


class Measurement(NamedTuple):
    """Matrices of groups or of a batch, with metrics and intervals."""

    counted: CountedLabels
    values: dict[str, Any]
    status: np.ndarray
    """Status of every matrix."""
    intervals: Intervals | None
    clusters: list[np.ndarray] | None
    """Matrices of the clusters, for every group."""


def deliver_all(
    args: argparse.Namespace, counted: CountedLabels, clusters: list[np.ndarray] | None, names: Sequence[str]
) -> Result:
    """Compute the metrics of all matrices; failed if some have none."""
    M = counted.matrices
    values = compute(cmfast.metrics.compute, M, names, undefined=args.undefined, num_threads=args.threads)
    status = compute(cmfast.metrics.margins, M, on_failure="ignore", num_threads=args.threads).status
    found = Measurement(counted, values, status, _compute_intervals(args, counted, names, clusters), clusters)
    content, lines = None, _lines(args, found)
    if args.target is not None:
        columns = _columns(found)
        content = Content(columns=columns, metadata={"undefined": args.undefined, "labels": counted.labels})
        lines = iter([_blocks.describe_rows(args, len(columns[0][1]), len(columns))])
    return Result(_metadata(args, found) if args.json else {}, lines, content, bool(np.any(status)))


def _compute_intervals(
    args: argparse.Namespace, counted: CountedLabels, names: Sequence[str], clusters: list[np.ndarray] | None
) -> Intervals | None:
    """Return the intervals if requested, else None."""
    if not args.interval:
        return None
    options = {
        "method": args.method,
        "confidence_level": args.confidence_level,
        "undefined": args.undefined,
        "num_threads": args.threads,
    }
    if clusters is None:
        return cast(Intervals, compute(cmfast.uncertainty.interval, counted.matrices, names, **options))
    each = [compute(cmfast.uncertainty.interval, own, names, clusters=True, **options) for own in clusters]
    return each[0] if counted.by is None else _intervals.stack(each)


def _metadata(args: argparse.Namespace, found: Measurement) -> dict[str, Any]:
    """Return the metrics of all matrices, or of every group, as metadata."""
    counted, intervals = found.counted, found.intervals
    metadata: dict[str, Any] = {"labels": counted.labels, "undefined": args.undefined}
    how = {} if intervals is None else {"interval": _intervals.describe_method(intervals, found.clusters)}
    if counted.by is None:
        ends = {} if intervals is None else {"ends": _intervals.select_ends(intervals)}
        return {**metadata, "matrices": int(np.size(found.status)), "metrics": found.values, **how, **ends}
    groups = []
    for g, (group, M) in enumerate(zip(counted.groups, counted.matrices, strict=True)):
        metrics = {name: value[g] for name, value in found.values.items()}
        ends = {} if intervals is None else {"ends": _intervals.select_ends(intervals, g)}
        groups.append({"group": single(group), "samples": M.sum(), "metrics": metrics, **ends})
    return {**metadata, "by": single(counted.by), "groups": groups, **how}


def _columns(found: Measurement) -> list[tuple[str, list[Any]]]:
    """Return a table with a row per group, or per matrix with its flat index."""
    counted = found.counted
    numbers = _blocks.name_numbers(counted.labels, found.values)
    if found.intervals is not None:
        numbers |= _intervals.name_ends(found.intervals, counted.labels)
    numbers = {_blocks.SAMPLES: np.atleast_1d(counted.matrices.sum(axis=(-2, -1)).ravel()), **numbers}
    heads = _blocks.name_groups(counted.by or ["matrix"], numbers)
    keys = zip(*counted.groups, strict=True) if counted.by else [range(len(numbers[_blocks.SAMPLES]))]
    columns = [(head, list(values)) for head, values in zip(heads, keys, strict=True)]
    return columns + [(name, values.tolist()) for name, values in numbers.items()]


def _lines(args: argparse.Namespace, found: Measurement) -> Iterator[str]:
    """Return a report of every matrix or, if metrics were named, their values."""
    counted, head = found.counted, format_policy(args.undefined)
    if found.intervals is not None:
        names = [describe_group(counted.by or (), group) for group in counted.groups]
        n = int(np.prod(counted.matrices.shape[:-2]))
        names = [""] if n == 1 else names or [f"matrix {k}" for k in range(n)]
        return _intervals.format_intervals(found.intervals, found.clusters, counted.labels, head, names)
    if args.only and counted.by is not None:
        return _format_groups(counted, _blocks.name_numbers(counted.labels, found.values), head)
    if args.only or np.any(found.status) or not (counted.by is not None or counted.matrices.ndim == 2):
        return _format_numbers(_blocks.name_numbers(counted.labels, found.values), head)
    return _format_reports(args, counted)


def _format_reports(args: argparse.Namespace, counted: CountedLabels) -> Iterator[str]:
    """Yield the report of every matrix."""
    options = {"display_labels": _screen.names(counted.labels), "undefined": args.undefined}
    if counted.by is None:
        yield str(compute(cmfast.metrics.classification_report, counted.matrices, **options))
        return
    for k, (group, matrix) in enumerate(zip(counted.groups, counted.matrices, strict=True)):
        yield f"{chr(10) if k else ''}{describe_group(counted.by, group)}: {matrix.sum():,} samples"
        yield str(compute(cmfast.metrics.classification_report, matrix, **options))


def _format_groups(counted: CountedLabels, numbers: _blocks.Numbers, head: str) -> Iterator[str]:
    """Yield a line per group with a column per number."""
    yield head
    keys = [_name_values(values) for values in zip(*counted.groups, strict=True)]
    heads = [_screen.shown(name) for name in counted.by or ()]
    widths = [max(map(len, (name, *texts))) for name, texts in zip(heads, keys, strict=True)]
    first, *rest = (_pad(row, widths) for row in (heads, *zip(*keys, strict=True)))
    yield first + "".join(f"{name:>{max(CELL, len(name) + 2)}}" for name in numbers)
    for g, text in enumerate(rest):
        cells = (f"{part[g]:>{max(CELL, len(name) + 2)}.4f}" for name, part in numbers.items())
        yield text + "".join(cells)


def _name_values(values: Sequence[Any]) -> list[str]:
    """Return values as texts that are distinct where the values are."""
    different = list(dict.fromkeys(values))
    known = dict(zip(different, _screen.names(different), strict=True))
    return [known[value] for value in values]


def _pad(row: Sequence[str], widths: list[int]) -> str:
    """Join texts padded to column widths."""
    return "  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True))


def _format_numbers(numbers: _blocks.Numbers, head: str) -> Iterator[str]:
    """Yield a line per number; for a batch its mean, minimum, maximum and number of undefined values."""
    if all(part.size == 1 for part in numbers.values()):
        return format_table(head, (), {name: [f"{part[0]:.4f}"] for name, part in numbers.items()})
    summary = _blocks.MatrixSummary()
    summary.add(numbers)
    return summary.lines(head)
