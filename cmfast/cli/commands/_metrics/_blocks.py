"""Metrics of many matrices, which may be more than memory holds: block by block, a row of a table for each matrix."""

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
EACH = 8  # times as much memory as a cell takes a number on its way to a table, as text


def name_numbers(labels: Sequence[Any], values: dict[str, Any]) -> Numbers:
    """Return one array per number of a matrix: a metric per class has a name for every class."""
    names = _screen.names(labels)
    rows: Numbers = {}
    for name, value in values.items():
        per_class = name not in cmfast.metrics.SCALARS and np.ndim(value) > 0 and np.shape(value)[-1] == len(names)
        parts = {f"{name} {label}": value[..., k] for k, label in enumerate(names)} if per_class else {name: value}
        rows |= {key: np.ravel(part) for key, part in parts.items()}
    return rows


def name_groups(by: Sequence[str], taken: Iterable[str]) -> list[str]:
    """Return names for columns of groups, in quotes where they are `taken`."""
    found: list[str] = []
    for name in by:
        head = name
        while head in {*taken, *found}:
            head = f"'{head}'"
        found.append(head)
    return found


def describe_rows(args: argparse.Namespace, n_rows: int, n_columns: int) -> str:
    """Return what was written to --output, in words."""
    rows = "1 row" if n_rows == 1 else f"{n_rows:,} rows"
    return f"{_screen.shown(args.output)}: {rows}, {n_columns} columns; {format_policy(args.undefined)}"


class Measured(NamedTuple):
    """The numbers of some matrices, the status of each, and what intervals have to warn of."""

    rows: Numbers
    status: np.ndarray
    caveats: _intervals.Caveats | None


class Request(NamedTuple):
    """What is requested of every matrix."""

    names: list[str]
    undefined: Undefined
    intervals: _intervals.Method | None

    def block_bytes(self, block_mb: float, n_classes: int) -> int:
        """Return the bytes of a block of matrices; the numbers of a small matrix take more memory than itself."""
        numbers = len(self.names) * (1 if self.intervals is None else 1 + len(_intervals.ENDS))
        return int(block_mb * 2**20 * n_classes**2 / (n_classes**2 + EACH * numbers))

    def measure(self, M: np.ndarray, first: int, labels: Sequence[Any], threads: int | None) -> Measured:
        """Compute the numbers of matrices (b, C, C), which a batch has from its element `first` on."""
        options: dict[str, Any] = {"on_failure": "ignore", "num_threads": threads}
        values = compute(cmfast.metrics.compute, M, self.names, undefined=self.undefined, **options)
        status = compute(cmfast.metrics.margins, M, **options).status
        rows = {SAMPLES: M.sum(axis=(-2, -1)), **name_numbers(labels, values)}
        if self.intervals is None:
            return Measured(rows, status, None)
        found, caveats = _intervals.compute_part(M, first, self.names, self.intervals, self.undefined, threads)
        return Measured({**rows, **_intervals.name_ends(found, list(labels))}, status, caveats)


class MatrixSummary:
    """Mean, least and largest of every number of many matrices, and how many are undefined."""

    def __init__(self) -> None:
        self._rows: dict[str, list[float]] = {}

    def add(self, rows: Numbers) -> None:
        """Take in the numbers of a block."""
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
        """Yield a line for each number."""
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
    """Write a row for every matrix, or summarise all if there is no output; warn of the matrices that failed.

    A block has columns that name its matrices, and their numbers. The matrices are a batch, by default of one axis.
    """
    summary, status, caveats = MatrixSummary(), [], []

    def columns() -> Iterator[Columns]:
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
    """Yield the numbers of the matrices of a file, block by block."""
    show, done, labels = bar(args, "metrics", "matrices"), 0, range(blocks.core[-1])
    for M in blocks:
        stop = done + len(M)
        yield {"matrix": np.arange(done, stop)}, request.measure(M, done, labels, args.threads)
        done = stop
        if show is not None:
            show(done, blocks.total)
