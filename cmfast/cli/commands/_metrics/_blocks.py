"""Metrics of many matrices, possibly larger than memory, block by block: a table row per matrix."""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

import cmfast
from cmfast._core import failures
from cmfast._core.annotations import Undefined
from cmfast._files import tables
from cmfast.cli import _screen
from cmfast.cli._calls import bar, compute
from cmfast.cli._printing import format_table
from cmfast.cli._result import Result
from cmfast.cli._writing import Columns, write_rows
from cmfast.cli.commands._metrics import _intervals
from cmfast.metrics._evaluate import FAILED
from cmfast.metrics._report import format_policy

Numbers = dict[str, np.ndarray]
SAMPLES = "samples"
EACH = 8  # memory of a number on its way to a text table, relative to that of a matrix cell


def name_numbers(labels: Sequence[Any], values: dict[str, Any]) -> Numbers:
    """Return one array per number of a matrix; a metric per class gives one array per class."""
    names = _screen.names(labels)
    rows: Numbers = {}
    for name, value in values.items():
        per_class = name not in cmfast.metrics.SCALARS and np.ndim(value) > 0 and np.shape(value)[-1] == len(names)
        parts = {f"{name} {label}": value[..., k] for k, label in enumerate(names)} if per_class else {name: value}
        rows |= {key: np.ravel(part) for key, part in parts.items()}
    return rows


def name_groups(by: Sequence[str], taken: Iterable[str]) -> list[str]:
    """Return names for group columns, quoted where they are `taken`."""
    found: list[str] = []
    for name in by:
        head = name
        while head in {*taken, *found}:
            head = f"'{head}'"
        found.append(head)
    return found


def describe_rows(args: argparse.Namespace, n_rows: int, n_columns: int) -> str:
    """Return a text on what was written to --output."""
    rows = "1 row" if n_rows == 1 else f"{n_rows:,} rows"
    return f"{_screen.shown(args.output)}: {rows}, {n_columns} columns; {format_policy(args.undefined)}"


class Measured(NamedTuple):
    """Metrics of some matrices, their statuses, and the caveats of intervals."""

    rows: Numbers
    status: np.ndarray
    caveats: _intervals.Caveats | None


class Request(NamedTuple):
    """Metrics and intervals requested for every matrix."""

    names: list[str]
    undefined: Undefined
    intervals: _intervals.Method | None

    def block_bytes(self, block_mb: float, n_classes: int) -> int:
        """Return the size of a block of matrices in bytes, reduced if the metrics need more memory than the matrix."""
        numbers = len(self.names) * (1 if self.intervals is None else 1 + len(_intervals.ENDS))
        return int(block_mb * 2**20 * n_classes**2 / (n_classes**2 + EACH * numbers))

    def measure(self, M: np.ndarray, first: int, labels: Sequence[Any], threads: int | None) -> Measured:
        """Compute the metrics of matrices (b, C, C), which start at element `first` of the batch."""
        options: dict[str, Any] = {"on_failure": "ignore", "num_threads": threads}
        values = compute(cmfast.metrics.compute, M, self.names, undefined=self.undefined, **options)
        status = compute(cmfast.metrics.margins, M, **options).status
        rows = {SAMPLES: M.sum(axis=(-2, -1)), **name_numbers(labels, values)}
        if self.intervals is None:
            return Measured(rows, status, None)
        found, caveats = _intervals.compute_part(M, first, self.names, self.intervals, self.undefined, threads)
        return Measured({**rows, **_intervals.name_ends(found, list(labels))}, status, caveats)


class MatrixSummary:
    """Running mean, minimum, maximum and number of undefined values of every metric."""

    def __init__(self) -> None:
        self._rows: dict[str, list[float]] = {}

    def add(self, rows: Numbers) -> None:
        """Add the metrics of a block."""
        for name, values in rows.items():
            some = values[~np.isnan(values)]
            total, least, largest, defined, undefined = self._rows.get(name, (0.0, np.inf, -np.inf, 0, 0))
            self._rows[name] = [
                total + float(some.sum()),
                min(least, float(some.min(initial=np.inf))),
                max(largest, float(some.max(initial=-np.inf))),
                defined + some.size,
                undefined + values.size - some.size,
            ]

    def lines(self, head: str) -> Iterator[str]:
        """Yield a line per metric."""
        texts = {}
        for name, (total, least, largest, defined, undefined) in self._rows.items():
            numbers = [f"{x:.4f}" for x in (total / defined, least, largest)] if defined else ["-"] * 3
            texts[name] = [*numbers, str(undefined)]
        return format_table(head, ("mean", "least", "largest", "undefined"), texts)


def deliver_blocks(
    args: argparse.Namespace,
    request: Request,
    blocks: Iterable[tuple[Numbers, Measured]],
    labels: Sequence[Any],
    batch: tuple[int, ...] | None = None,
) -> Result:
    """Write a row per matrix, or summarise all without --output; warn of failed matrices.

    A block has columns that name its matrices, and their metrics. `batch` is the batch shape, by default one axis.
    """
    summary, status, caveats = MatrixSummary(), [], []

    def columns() -> Iterator[Columns]:
        """Yield the table columns of every block, collecting statuses and caveats."""
        for names, measured in blocks:
            status.append(measured.status)
            if measured.caveats is not None:
                caveats.append(measured.caveats)
            if args.target is None:
                summary.add({name: values for name, values in measured.rows.items() if name != SAMPLES})
            yield [*names.items(), *measured.rows.items()]

    if args.target is None:
        for _ in columns():
            continue
        lines = summary.lines(format_policy(args.undefined))
    else:
        metadata = {"undefined": args.undefined, "labels": labels}
        size = write_rows(args.target, columns(), metadata, force=args.force)
        lines = iter([describe_rows(args, *size)])
    codes = np.concatenate(status)
    codes = codes if batch is None else codes.reshape(batch)
    failures.report(codes, "warn", failed=FAILED)
    if request.intervals is not None:
        _intervals.warn_of_caveats(caveats, codes.shape, request.names, request.intervals)
    return Result({}, lines, failed=bool(codes.any()))


def measure_matrices(
    args: argparse.Namespace, request: Request, blocks: tables.MatrixBlocks
) -> Iterator[tuple[Numbers, Measured]]:
    """Yield the metrics of the matrices of a file, block by block."""
    show, done, labels = bar(args, "metrics", "matrices"), 0, range(blocks.core[-1])
    for M in blocks:
        stop = done + len(M)
        yield {"matrix": np.arange(done, stop)}, request.measure(M, done, labels, args.threads)
        done = stop
        if show is not None:
            show(done, blocks.total)
