"""Confusion matrices of groups that may be more than memory holds: in order, block by block."""

import argparse
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from cmfast._files import tables, texts
from cmfast._files.output import FileError
from cmfast._files.runs import Found, Group, Runs
from cmfast.cli import _counting, _ordering, _screen
from cmfast.cli._options import sources
from cmfast.cli._ordering import Names, Orders
from cmfast.cli._writing import rows_written
from cmfast.cli.commands._metrics import _blocks
from cmfast.metrics._report import in_head

ROOM = 256  # MiB of counts in memory; further ones go to disk


class _Column:
    """What is known of the values of a column of groups."""

    def __init__(self) -> None:
        self._told: texts.Told | None = None
        self.names = Names()

    def add(self, column: tables.Column) -> None:
        """Take in a block."""
        if column.lines is None:
            self.names.add(column.labels)
            return
        self._told = self._told or texts.Told()
        self._told.add(dict(zip(column.labels, column.lines, strict=True)))

    def check(self, source: Path) -> None:
        """Refuse what stands for no group."""
        if self._told is not None:
            self._told.check(source)

    def value(self, label: Any) -> Any:
        """Return what a label of the file stands for."""
        return label if self._told is None else self._told.value(label)


class Counts(NamedTuple):
    """Labels, and the counts of all groups, in memory or on disk."""

    labels: list[Any]
    columns: list[_Column]
    orders: list[dict[Any, int]]  # of the values that a file declares to have one
    runs: Runs
    axes: list[np.ndarray]  # the class of every place of truth and of prediction

    def key(self, group: Group) -> list[tuple[int, Any]]:
        """Return what groups are sorted by."""
        values = [column.value(label) for column, label in zip(self.columns, group, strict=True)]
        known = zip(self.columns, self.orders, values, strict=True)
        return [(order.get(value, len(order)), column.names.key(value)) for column, order, value in known]

    def blocks(self, size: int) -> Iterator[tuple[list[np.ndarray], np.ndarray]]:
        """Yield the columns of at most `size` groups, and their matrices (b, C, C)."""
        C = len(self.labels)
        block: list[Found] = []
        for found in self.runs.ordered(self.key):
            block.append(found)
            if len(block) == size:
                yield self._names(block), self._matrices(block, C)
                block = []
        if block:
            yield self._names(block), self._matrices(block, C)

    def _names(self, block: list[Found]) -> list[np.ndarray]:
        columns = zip(self.columns, zip(*(group for group, _ in block), strict=True), strict=True)
        return [
            np.array([column.names.name(column.value(label)) for label in labels], column.names.dtype)
            for column, labels in columns
        ]

    def _matrices(self, block: list[Found], C: int) -> np.ndarray:
        M = np.zeros((len(block), C, C), np.int64)
        which = np.repeat(np.arange(len(block)), [len(cells) for _, cells in block])
        y, p, counts = np.concatenate([cells for _, cells in block]).T
        np.add.at(M, (which, self.axes[0][y], self.axes[1][p]), counts)
        return M


def run(args: argparse.Namespace, asked: Callable[[list[Any]], _blocks.Asked], target: Path) -> int:
    """Write what is `asked` of labels, a row for each group; 1 if some have no metrics."""
    with Runs(int(args.group_mb * 2**20)) as runs:
        counts = count(args, runs)
        return _write(args, counts, asked(counts.labels), target)


def count(args: argparse.Namespace, runs: Runs) -> Counts:
    """Count the labels of every group into `runs`; the file is read once, in blocks."""
    paths = cast("list[Path]", sources(args))
    source = paths[0]
    orders = Orders(source, n_labels=2)
    known = [_Column() for _ in args.by]
    places: dict[Any, int] = {}
    written: list[dict[str, int]] = []
    seen: list[set[int]] = [set(), set()]  # places of truth and of prediction
    for y_true, y_pred, *others in _counting.blocks(args, paths):
        if not len(y_true.codes):
            continue
        orders.add([y_true, y_pred, *others])
        written = _counting.texts_of([y_true, y_pred], written)
        for column, block in zip(known, others, strict=True):
            column.add(block)
        y, p = (_counting.places_of(column, places) for column in (y_true, y_pred))
        _counting.check_room(source, 1, C := len(places))
        groups, codes = _counting.groups_of(others, len(y))
        cells, counts = np.unique((codes * C + y) * C + p, return_counts=True)
        rows, p = np.divmod(cells, C)
        which, y = np.divmod(rows, C)
        runs.add(groups, np.column_stack([which, y, p, counts]))
        for places_seen, found in zip(seen, (y, p), strict=True):
            places_seen.update(np.unique(found).tolist())
    if not places:
        raise FileError(source, "holds no samples")
    classes, axes = _counting.classes_of(source, written, places)
    args.has_order = bool(orders.of_labels)
    labels, order = _ordering.in_order(list(classes), _ordering.wanted_order(args, classes, orders.of_labels))
    to_class = [np.argsort(order)[np.array(axis, np.int64)] for axis in axes]
    occur = [np.isin(np.arange(len(labels)), axis[list(one)]) for axis, one in zip(to_class, seen, strict=True)]
    _counting.warn_of_strangers(np.logical_and.outer(*occur)[None])
    for column in known:
        column.check(source)
    if written:  # texts of csv, of which only all together say what they are
        for group in runs.groups():
            for column, text in zip(known, group, strict=True):
                column.names.add([column.value(text)])
    for k, column in enumerate(known):
        if column.names.numbers and not column.names.plain:
            column.names.numbers = not _twice(column.names, runs, k)
    ranks = [{value: k for k, value in enumerate(orders.of_group(k))} for k in range(len(known))]
    return Counts(labels, known, ranks, runs, to_class)


def _twice(names: Names, runs: Runs, k: int) -> bool:
    """Return whether two texts of column `k` are the same number."""
    texts_in_order = (group[k] for group, _ in runs.ordered(lambda group: (names.key(group[k]), group[k])))
    return any(names.key(one) == names.key(other) for one, other in pairwise(texts_in_order))


def _write(args: argparse.Namespace, counts: Counts, asked: _blocks.Asked, target: Path) -> int:
    said = _blocks.Said(asked)
    found = _rows(args, counts, asked, said)
    facts = {"undefined": args.undefined, "labels": counts.labels}
    n_rows, n_columns = rows_written(target, found, facts, force=args.force)
    number = "1 row" if n_rows == 1 else f"{n_rows:,} rows"
    print(f"{_screen.shown(args.output)}: {number}, {n_columns} columns; {in_head(args.undefined)}")
    return said.end((n_rows,))


def _rows(
    args: argparse.Namespace, counts: Counts, asked: _blocks.Asked, said: _blocks.Said
) -> Iterator[dict[str, np.ndarray]]:
    """Yield the columns of every block, and note what there is to be said."""
    C, done = len(counts.labels), 0
    size = max(1, asked.bytes_of_block(args.block_mb, C) // (8 * C**2))
    for groups, M in counts.blocks(size):
        answer = asked.answered(M, done, counts.labels, args.threads)
        said.add(answer)
        done += len(M)
        yield dict(zip(_blocks.heads(args.by, answer.rows), groups, strict=True)) | answer.rows
