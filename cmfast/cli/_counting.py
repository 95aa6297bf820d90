"""Count confusion matrices of label files in blocks, directly or in a task per part."""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

import cmfast
from cmfast._files import csv_values, points, tables
from cmfast._files.output import FileError
from cmfast._files.sources import open_sources
from cmfast._files.stores import Source
from cmfast.cli._calls import compute, tick
from cmfast.cli._cluster import Part, parts_of_arrays, parts_of_tables
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
from cmfast.cli._ordering import Orders, resolve_order, sort_labels
from cmfast.cli._saved_counts import read_counts
from cmfast.confusion_counts._groups import Keys
from cmfast.confusion_counts._label_axis import FOUND, ORDERED, Axis
from cmfast.confusion_counts._state import CountsState, get_parts

MOST_TASK_LABELS = 1 << 24  # labels of arrays per task


class CountedLabels(NamedTuple):
    """Confusion matrices of all groups of the columns `by`, or a single one."""

    labels: list[Any]
    by: list[str] | None
    groups: list[tuple[Any, ...]]
    """A value per column; without columns one empty group."""
    matrices: np.ndarray
    """Matrix of each group, shape (G, C, C)."""
    has_order: bool
    """Whether --order or the file gives the order of the classes."""


def count(args: argparse.Namespace, by: list[str] | None) -> CountedLabels:
    """Count the labels of every group, reading the files once in blocks."""
    named = find_label_files(args)
    columns = LabelColumns.requested(args, by)
    if args.tasks.are_needed(*named):
        found = _count_parts(args, named, columns)
    else:
        found = _count_blocks(cast("list[Path]", named), columns, args.threads, tick(args, args.command))
    labels, groups, total, orders = found
    if not labels:
        raise FileError(str(named[0]), "holds no samples")
    warn_of_disjoint_labels(total)
    known = resolve_order(args.order, labels, orders.label_order)
    names, label_order = sort_labels(labels, known)
    group_names, group_order = _sort_groups(groups, orders)
    return CountedLabels(names, by, group_names, total[np.ix_(group_order, label_order, label_order)], bool(known))


class _FoundLabels(NamedTuple):
    """Distinct labels and groups, the matrix of every group, and the orders that files declare."""

    labels: list[Any]
    groups: list[tuple[Any, ...]]
    total: np.ndarray
    orders: Orders


def _count_blocks(
    paths: Sequence[Source],
    columns: LabelColumns,
    threads: int | None,
    tick: points.Tick,
    rows: tuple[int, int] | None = None,
) -> _FoundLabels:
    """Count a table or label files block by block; the result is empty without samples."""
    total = np.zeros((0, 0, 0), np.int64)
    indices: dict[Any, int] = {}
    groups: dict[tuple[Any, ...], int] = {}
    written: list[dict[str, int]] = []
    orders = Orders(paths[0], n_labels=2)
    for block in columns.blocks(paths, tick, rows):
        y_true, y_pred, *others = block
        orders.add(block)
        written = collect_texts(block, written)
        found: dict[Any, int] = {}  # indices within this block, which may have few of the classes
        ids = [encode_labels(column, found) for column in (y_true, y_pred)]
        names, codes = encode_groups(others, len(y_true.codes))
        where = [indices.setdefault(label, len(indices)) for label in found]
        which = [groups.setdefault(name, len(groups)) for name in names]
        check_memory(paths[0], len(groups), len(indices))
        options = {"n_classes": len(found), "groups": codes, "n_groups": len(which), "num_threads": threads}
        part = compute(cmfast.confusion_matrix, *ids, **options)
        more, new = len(groups) - len(total), len(indices) - total.shape[1]
        if more or new:
            total = np.pad(total, ((0, more), (0, new), (0, new)))
        total[np.ix_(which, where, where)] += part
    if written:
        indices, groups, total = _merge_texts(paths[0], written, indices, groups, total)
    return _FoundLabels(list(indices), list(groups), total, orders)


def _merge_texts(
    source: Source,
    written: list[dict[str, int]],
    indices: dict[Any, int],
    groups: dict[tuple[Any, ...], int],
    total: np.ndarray,
) -> tuple[dict[Any, int], dict[tuple[Any, ...], int], np.ndarray]:
    """Merge labels and groups of a csv file whose texts have equal values."""
    labels, axes = resolve_classes(source, written, indices)
    columns = [csv_values.parse_groups(source, lines) for lines in written[2:]]
    values = [tuple(column[text] for column, text in zip(columns, group, strict=True)) for group in groups]
    named = {group: k for k, group in enumerate(dict.fromkeys(values))}
    out = np.zeros((len(named), len(labels), len(labels)), np.int64)
    np.add.at(out, np.ix_([named[group] for group in values], *axes), total)
    return labels, named, out


def _count_parts(args: argparse.Namespace, named: Sequence[Source], columns: LabelColumns) -> _FoundLabels:
    """Count tables or label files in a task per part and merge the counts."""
    if columns.are_files:
        parts = parts_of_arrays(named, lambda paths: points.count_labels(paths, MOST_TASK_LABELS))
    else:
        parts = parts_of_tables(named[0])
    total = cmfast.ConfusionCounts()
    for part, path in zip(parts, args.tasks.states("labels", _count_part, parts, columns), strict=True):
        counts = read_counts(path, cmfast.ConfusionCounts)
        try:
            total += counts
        except (TypeError, ValueError) as error:
            raise FileError(str(part), str(error)) from error
    return _from_counts(total, named[0])


def _count_part(part: Part, columns: LabelColumns, *, threads: int | None) -> bytes:
    """Count one part and return the counts as the bytes of a state."""
    with open_sources(part.sources, points.ARRAYS if columns.are_files else tables.PARQUET) as paths:
        found = _count_blocks(paths, columns, threads, lambda done, total: None, part.rows)
        return _to_counts(found, columns.names[2:]).to_bytes()


def _to_counts(found: _FoundLabels, by: Sequence[str]) -> cmfast.ConfusionCounts:
    """Convert labels, groups and matrices to ConfusionCounts."""
    axis = _axis(found.labels, found.orders.label_order)
    indices = [axis.positions[label] for label in found.labels]
    M = np.zeros((len(found.groups), len(axis.labels), len(axis.labels)), np.int64)
    M[np.ix_(range(len(M)), indices, indices)] = found.total
    if not found.labels:
        return cmfast.ConfusionCounts()
    if not by:
        held = CountsState(axis, None, M[0])
    else:
        columns = list(zip(*found.groups, strict=True))
        axes = tuple(_axis(dict.fromkeys(column), found.orders.group_order(k)) for k, column in enumerate(columns))
        rows = np.array(
            [[one.positions[label] for label in column] for one, column in zip(axes, columns, strict=True)]
        ).T
        order = np.lexsort(rows.T[::-1])
        held = CountsState(axis, Keys(tuple(by), axes, rows[order]), M[order])
    return cmfast.ConfusionCounts._restore(get_parts(held, on_host=True))


def _axis(labels: Iterable[Any], known: tuple[Any, ...]) -> Axis:
    """Return an axis of labels: declared ones in order, then the others, sorted."""
    return Axis((*known, *sorted(set(labels) - set(known))), ORDERED if known else FOUND)


def _from_counts(counts: cmfast.ConfusionCounts[Any], source: Source) -> _FoundLabels:
    """Return labels, groups and matrices of ConfusionCounts, without labels that do not occur."""
    held = counts._held
    M: Any = held.whole()
    M = M.reshape(-1, *held.shape()[-2:])
    occur = np.flatnonzero(M.any(axis=(0, 1)) | M.any(axis=(0, 2)))
    labels = [held.axis.labels[k] for k in occur]
    if len({type(label) for label in labels}) > 1:  # booleans of one file and integers of another
        labels = list(map(int, labels))
    groups: list[tuple[Any, ...]] = [()]
    axes = {-1: held.axis}
    if held.keys is not None:
        groups = [name if len(held.keys.names) > 1 else (name,) for name in held.keys.labels]
        axes |= dict(enumerate(held.keys.axes))
    known = {k: axis.labels for k, axis in axes.items() if axis.source == ORDERED}
    return _FoundLabels(labels, groups, M[:, occur][:, :, occur], Orders(source, 2, known))


def _sort_groups(groups: list[tuple[Any, ...]], orders: Orders) -> tuple[list[tuple[Any, ...]], list[int]]:
    """Return the groups sorted by columns, and their previous positions."""
    named: list[list[Any]] = []
    ranked: list[list[int]] = []
    for k, column in enumerate(zip(*groups, strict=True)):
        values = list(dict.fromkeys(column))
        names, order = sort_labels(values, orders.group_order(k))
        rank = {values[k]: place for place, k in enumerate(order)}
        ranked.append([rank[value] for value in column])
        named.append([names[place] for place in ranked[-1]])
    order = sorted(range(len(groups)), key=lambda g: [ranks[g] for ranks in ranked])
    return [tuple(names[g] for names in named) for g in order], order
