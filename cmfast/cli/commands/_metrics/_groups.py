"""Metrics of more groups than memory holds: count with spilling to disk, then measure sorted blocks."""

import argparse
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from cmfast._files import csv_values, tables
from cmfast._files.output import FileError
from cmfast._files.spilled_groups import Found, Group, SpilledGroups
from cmfast.cli._calls import tick
from cmfast.cli._labels import (
    LabelColumns,
    check_memory,
    collect_texts,
    encode_groups,
    encode_labels,
    resolve_classes,
    warn_of_disjoint_labels,
)
from cmfast.cli._options import find_label_files
from cmfast.cli._ordering import Names, Orders, resolve_order, sort_labels
from cmfast.cli._result import Result
from cmfast.cli.commands._metrics._blocks import Measured, Numbers, Request, deliver_blocks, name_groups

MEMORY = 256  # MiB of counts in memory; more are spilled to disk


class _Column:
    """Type and names of the values of a group column."""

    def __init__(self) -> None:
        self._told: csv_values.ColumnKind | None = None
        self.names = Names()

    def add(self, column: tables.Column) -> None:
        """Add a block of the column."""
        if column.lines is None:
            self.names.add(column.labels)
            return
        self._told = self._told or csv_values.ColumnKind()
        self._told.add(dict(zip(column.labels, column.lines, strict=True)))

    def check(self, source: Path) -> None:
        """Raise FileError for texts that mark a missing group."""
        if self._told is not None:
            self._told.check(source)

    def value(self, label: Any) -> Any:
        """Return the value that a label of the file represents."""
        return label if self._told is None else self._told.value(label)


class GroupCounts(NamedTuple):
    """Labels, and the counts of all groups, in memory or on disk."""

    labels: list[Any]
    has_order: bool
    columns: list[_Column]
    orders: list[dict[Any, int]]  # declared order of the values of each column
    runs: SpilledGroups
    axes: list[np.ndarray]  # class of each label index, for truth and for prediction

    def key(self, group: Group) -> list[tuple[int, Any]]:
        """Return the sort key of a group."""
        values = [column.value(label) for column, label in zip(self.columns, group, strict=True)]
        known = zip(self.columns, self.orders, values, strict=True)
        return [(order.get(value, len(order)), column.names.key(value)) for column, order, value in known]

    def blocks(self, size: int) -> Iterator[tuple[list[np.ndarray], np.ndarray]]:
        """Yield the columns of up to `size` groups, and their matrices (b, C, C)."""
        C = len(self.labels)
        block: list[Found] = []
        for found in self.runs.iterate_sorted(self.key):
            block.append(found)
            if len(block) == size:
                yield self._names(block), self._matrices(block, C)
                block = []
        if block:
            yield self._names(block), self._matrices(block, C)

    def _names(self, block: list[Found]) -> list[np.ndarray]:
        """Return the group columns of a block as arrays."""
        columns = zip(self.columns, zip(*(group for group, _ in block), strict=True), strict=True)
        return [
            np.array([column.names.name(column.value(label)) for label in labels], column.names.dtype)
            for column, labels in columns
        ]

    def _matrices(self, block: list[Found], C: int) -> np.ndarray:
        """Return the matrices of a block of groups, shape (b, C, C)."""
        M = np.zeros((len(block), C, C), np.int64)
        which = np.repeat(np.arange(len(block)), [len(cells) for _, cells in block])
        y, p, counts = np.concatenate([cells for _, cells in block]).T
        np.add.at(M, (which, self.axes[0][y], self.axes[1][p]), counts)
        return M


def deliver_groups(args: argparse.Namespace, choose: Callable[..., Request]) -> Result:
    """Write a row per group; `choose` selects the metrics once the labels are known."""
    with SpilledGroups(int(args.group_mb * 2**20)) as runs:
        counts = _count(args, runs)
        request = choose(counts.labels, has_order=counts.has_order)
        return deliver_blocks(args, request, _measure_groups(args, request, counts), counts.labels)


def _count(args: argparse.Namespace, runs: SpilledGroups) -> GroupCounts:
    """Count the labels of every group into `runs`, in one pass over the file."""
    paths = cast("list[Path]", find_label_files(args))
    source = paths[0]
    orders = Orders(source, n_labels=2)
    known = [_Column() for _ in args.by]
    indices: dict[Any, int] = {}
    written: list[dict[str, int]] = []
    seen: list[set[int]] = [set(), set()]  # indices of truth and of prediction
    for block in LabelColumns.requested(args, args.by).blocks(paths, tick(args, args.command)):
        y_true, y_pred, *others = block
        orders.add(block)
        written = collect_texts([y_true, y_pred], written)
        for column, values in zip(known, others, strict=True):
            column.add(values)
        y, p = (encode_labels(column, indices) for column in (y_true, y_pred))
        check_memory(source, 1, C := len(indices))
        groups, codes = encode_groups(others, len(y))
        cells, counts = np.unique((codes * C + y) * C + p, return_counts=True)
        rows, p = np.divmod(cells, C)
        which, y = np.divmod(rows, C)
        runs.add(groups, np.column_stack([which, y, p, counts]))
        for indices_seen, found in zip(seen, (y, p), strict=True):
            indices_seen.update(np.unique(found).tolist())
    if not indices:
        raise FileError(source, "holds no samples")
    classes, axes = resolve_classes(source, written, indices)
    declared = resolve_order(args.order, classes, orders.label_order)
    labels, order = sort_labels(list(classes), declared)
    to_class = [np.argsort(order)[np.array(axis, np.int64)] for axis in axes]
    occur = [np.isin(np.arange(len(labels)), axis[list(one)]) for axis, one in zip(to_class, seen, strict=True)]
    warn_of_disjoint_labels(np.logical_and.outer(*occur)[None])
    for column in known:
        column.check(source)
    if written:  # the type of csv texts is known only after all were read
        for group in runs.groups():
            for column, text in zip(known, group, strict=True):
                column.names.add([column.value(text)])
    for k, column in enumerate(known):
        if column.names.numbers and not column.names.plain:
            column.names.numbers = not _has_equal_texts(column.names, runs, k)
    ranks = [{value: k for k, value in enumerate(orders.group_order(k))} for k in range(len(known))]
    return GroupCounts(labels, bool(declared), known, ranks, runs, to_class)


def _has_equal_texts(names: Names, runs: SpilledGroups, k: int) -> bool:
    """Whether two texts of column `k` are the same number."""
    texts_in_order = (group[k] for group, _ in runs.iterate_sorted(lambda group: (names.key(group[k]), group[k])))
    return any(names.key(one) == names.key(other) for one, other in pairwise(texts_in_order))


def _measure_groups(
    args: argparse.Namespace, request: Request, counts: GroupCounts
) -> Iterator[tuple[Numbers, Measured]]:
    """Yield the metrics of blocks of groups, in order."""
    C, done = len(counts.labels), 0
    size = max(1, request.block_bytes(args.block_mb, C) // (8 * C**2))
    for groups, M in counts.blocks(size):
        measured = request.measure(M, done, counts.labels, args.threads)
        done += len(M)
        yield dict(zip(name_groups(args.by, measured.rows), groups, strict=True)), measured
