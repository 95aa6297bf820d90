"""Metrics of a file of many matrices, which may be larger than memory: block by block, a row of a table for each."""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import cmfast
from cmfast._core import failures
from cmfast._core.annotations import Undefined
from cmfast._files import tables
from cmfast.cli import _screen
from cmfast.cli._options import bar, compute
from cmfast.cli._writing import rows_written
from cmfast.cli.commands._metrics import _intervals
from cmfast.metrics._evaluate import FAILED
from cmfast.metrics._report import in_head

Numbers = dict[str, np.ndarray]
SAMPLES = "samples"
EACH = 8  # times as much memory as a cell takes a number on its way to a table, as text


def numbers_of(labels: Sequence[Any], values: dict[str, Any]) -> Numbers:
    """Return one array per number of a matrix: a metric per class has a name for every class."""
    names = _screen.names(labels)
    rows: Numbers = {}
    for name, value in values.items():
        per_class = name not in cmfast.metrics.SCALARS and np.ndim(value) > 0 and np.shape(value)[-1] == len(names)
        parts = {f"{name} {label}": value[..., k] for k, label in enumerate(names)} if per_class else {name: value}
        rows |= {key: np.ravel(part) for key, part in parts.items()}
    return rows


class _Known(NamedTuple):
    """What is kept of the values of one number."""

    total: float = 0.0
    least: float = np.inf
    largest: float = -np.inf
    known: int = 0
    undefined: int = 0

    def and_also(self, values: np.ndarray) -> "_Known":
        """Return the same of more values."""
        some = values[~np.isnan(values)]
        if not some.size:
            return self._replace(undefined=self.undefined + values.size)
        return _Known(
            self.total + float(some.sum()),
            min(self.least, float(some.min())),
            max(self.largest, float(some.max())),
            self.known + some.size,
            self.undefined + values.size - some.size,
        )

    def shown(self) -> list[str]:
        """Return mean, least, largest, and how many are undefined, as texts."""
        if not self.known:
            return ["-", "-", "-", str(self.undefined)]
        return [f"{x:.4f}" for x in (self.total / self.known, self.least, self.largest)] + [str(self.undefined)]


class Summary:
    """Mean, least and largest of every number of many matrices, and how many are undefined."""

    def __init__(self) -> None:
        self._rows: dict[str, _Known] = {}

    def add(self, rows: Numbers) -> None:
        """Take in the numbers of a block."""
        for name, values in rows.items():
            self._rows[name] = self._rows.get(name, _Known()).and_also(values)

    def show(self, head: str) -> None:
        """Print one line per number."""
        width = max(map(len, (head, *self._rows)))
        print(f"{head:<{width}}" + "".join(f"{name:>12}" for name in ("mean", "least", "largest", "undefined")))
        for name, row in self._rows.items():
            print(f"{name:<{width}}" + "".join(f"{cell:>12}" for cell in row.shown()))


class Asked(NamedTuple):
    """What is asked of every matrix."""

    names: list[str]
    undefined: Undefined
    made: _intervals.Made | None
    """How intervals are made, if they are wanted."""

    def bytes_of_block(self, block_mb: float, n_classes: int) -> int:
        """Return how large blocks of matrices may be; what is made of a matrix takes more memory than a small one."""
        numbers = len(self.names) * (1 if self.made is None else 1 + len(_intervals.ENDS))
        return int(block_mb * 2**20 * n_classes**2 / (n_classes**2 + EACH * numbers))

    def answered(self, M: np.ndarray, first: int, labels: Sequence[Any], threads: int | None) -> "Answer":
        """Return what is asked of matrices (b, C, C), which all together have from `first` on."""
        options: dict[str, Any] = {"on_failure": "ignore", "num_threads": threads}
        values = compute(cmfast.metrics.compute, M, self.names, undefined=self.undefined, **options)
        status = compute(cmfast.metrics.margins, M, **options).status
        rows = {SAMPLES: M.sum(axis=(-2, -1)), **numbers_of(labels, values)}
        if self.made is None:
            return Answer(rows, status, None)
        found, told = _intervals.of_part(M, first, self.names, self.made, self.undefined, threads)
        return Answer({**rows, **_intervals.columns(found, list(labels))}, status, told)


class Answer(NamedTuple):
    """What was asked for of some matrices."""

    rows: Numbers
    status: np.ndarray
    told: _intervals.Told | None


class Said:
    """What is said of matrices that come in blocks, once all have come."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._status: list[np.ndarray] = []
        self._told: list[_intervals.Told] = []

    def add(self, answer: Answer) -> None:
        """Take in a block."""
        self._status.append(answer.status)
        if answer.told is not None:
            self._told.append(answer.told)

    def end(self, shape: tuple[int, ...]) -> int:
        """Warn of what is known of matrices that are a batch of a shape; return 1 if some hold what has no metrics."""
        status = np.concatenate(self._status).reshape(shape)
        failures.report(status, "warn", failed=FAILED)
        if self._asked.made is not None:
            _intervals.tell(self._told, shape, self._asked.names, self._asked.made)
        return int(status.any())


def run(args: argparse.Namespace, M: np.ndarray, asked: Asked, target: Path | None) -> int:
    """Write the metrics of every matrix, or show what they are of all; 1 if some matrices hold what has none."""
    C = M.shape[-1]
    blocks = tables.MatrixBlocks(M, asked.bytes_of_block(args.block_mb, C))
    said, summary = Said(asked), Summary()
    found = _evaluated(args, blocks, asked, said, summary)
    if target is None:
        for _ in found:
            continue
        summary.show(in_head(args.undefined))
    else:
        facts = {"undefined": args.undefined, "labels": list(range(C))}
        n_rows, n_columns = rows_written(target, found, facts, force=args.force)
        print(f"{_screen.shown(args.output)}: {n_rows:,} rows, {n_columns} columns; {in_head(args.undefined)}")
    return said.end(blocks.batch)


def _evaluated(
    args: argparse.Namespace, blocks: tables.MatrixBlocks, asked: Asked, said: Said, summary: Summary
) -> Iterator[Numbers]:
    """Yield the columns of every block, and note what there is to be said."""
    shown, done, labels = bar(args, "metrics", "matrices"), 0, range(blocks.core[-1])
    for M in blocks:
        answer = asked.answered(M, done, labels, args.threads)
        said.add(answer)
        summary.add({name: values for name, values in answer.rows.items() if name != SAMPLES})
        stop = done + len(M)
        yield {"matrix": np.arange(done, stop), **answer.rows}
        done = stop
        if shown is not None:
            shown(done, blocks.total)


def heads(by: Sequence[str], taken: Iterable[str]) -> list[str]:
    """Return what the columns of groups are called beside others that are `taken`."""
    found: list[str] = []
    for name in by:
        head = name
        while head in {*taken, *found}:
            head = f"'{head}'"
        found.append(head)
    return found
