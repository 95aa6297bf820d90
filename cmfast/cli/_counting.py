"""Confusion matrices of a table of labels, of one kind or another, read in blocks."""

import argparse
import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

import cmfast
from cmfast._files import points, tables, texts
from cmfast._files.output import FileError
from cmfast._files.sources import Source, reached
from cmfast.cli._cluster import Part, parts_of_arrays, parts_of_tables
from cmfast.cli._options import bar, compute, sources
from cmfast.cli._ordering import Orders, in_order, wanted_order
from cmfast.cli._stored import read_counts
from cmfast.confusion_counts._axis import FOUND, ORDERED, Axis
from cmfast.confusion_counts._held import Held, parts_of
from cmfast.confusion_counts._keys import Keys

PART = 1 << 24  # labels of arrays that are counted by one task


def count(args: argparse.Namespace) -> tuple[list[Any], list[tuple[Any, ...]], np.ndarray]:
    """Return labels, groups (a value of every column --by) and a matrix for each; files are read once, in blocks."""
    named = sources(args)
    found = _together(args, named) if args.tasks.wanted(*named) else _gathered(args, cast("list[Path]", named))
    labels, groups, total, orders = found
    if not labels:
        raise FileError(str(named[0]), "holds no samples")
    warn_of_strangers(total)
    args.has_order = bool(orders.of_labels)
    names, label_order = in_order(labels, wanted_order(args, labels, orders.of_labels))
    group_names, group_order = _groups_in_order(groups, orders)
    return names, group_names, total[np.ix_(group_order, label_order, label_order)]


class Found(NamedTuple):
    """Labels and groups, none of them twice, with a matrix for every group, and the orders that files declare."""

    labels: list[Any]
    groups: list[tuple[Any, ...]]
    total: np.ndarray
    orders: Orders


def _gathered(args: argparse.Namespace, paths: Sequence[Path], rows: tuple[int, int] | None = None) -> Found:
    """Return what a table holds, or files of labels; nothing at all where there are no samples."""
    total = np.zeros((0, 0, 0), np.int64)
    places: dict[Any, int] = {}
    groups: dict[tuple[Any, ...], int] = {}
    written: list[dict[str, int]] = []  # of csv: the texts of every column, and the line of each
    source = paths[0]
    orders = Orders(source, n_labels=2)
    for y_true, y_pred, *others in blocks(args, paths, rows):
        n = len(y_true.codes)
        if n == 0:
            continue
        orders.add([y_true, y_pred, *others])
        written = texts_of([y_true, y_pred, *others], written)
        found: dict[Any, int] = {}  # places in this block, which may hold few of all classes
        ids = [places_of(column, found) for column in (y_true, y_pred)]
        names, codes = groups_of(others, n)
        where = [places.setdefault(label, len(places)) for label in found]
        which = [groups.setdefault(name, len(groups)) for name in names]
        check_room(source, len(groups), len(places))
        options = {
            "n_classes": len(found),
            "groups": codes,
            "n_groups": len(which),
            "num_threads": args.threads,
        }
        part = compute(cmfast.confusion_matrix, *ids, **options)
        more, new = len(groups) - len(total), len(places) - total.shape[1]
        if more or new:
            total = np.pad(total, ((0, more), (0, new), (0, new)))
        total[np.ix_(which, where, where)] += part
    if written:
        places, groups, total = _read(source, written, places, groups, total)
    return Found(list(places), list(groups), total, orders)


def _together(args: argparse.Namespace, named: Sequence[Source]) -> Found:
    """Return what tables or files of labels hold together, each counted by a task of its own."""
    if args.labels is None:
        parts = parts_of_tables(named[0])
        options = {name: getattr(args, name) for name in ("true", "pred", "by", "header")}
    else:
        parts = parts_of_arrays(named, lambda paths: points.labels_in(paths, PART))
        options = {"by": args.by}
    total = cmfast.ConfusionCounts()
    for part, path in zip(parts, args.tasks.states("labels", _part_counted, parts, options), strict=True):
        counts = read_counts(path, cmfast.ConfusionCounts)
        try:
            total += counts
        except (TypeError, ValueError) as error:
            raise FileError(str(part), str(error)) from error
    return _found(total, named[0])


def _part_counted(part: Part, options: dict[str, Any], *, threads: int | None) -> bytes:
    """Return the counts of a table, or of some rows of labels, as a state."""
    files = {"labels": None if "true" in options else ""}
    args = argparse.Namespace(**files, **options, threads=threads, quiet=True, command="")
    with reached(part.sources) as paths:
        found = _gathered(args, paths, part.rows)
        return _state(found, options["by"]).to_bytes()


def _state(found: Found, by: list[str] | None) -> cmfast.ConfusionCounts:
    """Return what was found as counts that know their labels and groups."""
    axis = _axis(found.labels, found.orders.of_labels)
    places = [axis.places[label] for label in found.labels]
    M = np.zeros((len(found.groups), len(axis.labels), len(axis.labels)), np.int64)
    M[np.ix_(range(len(M)), places, places)] = found.total
    if not found.labels:
        return cmfast.ConfusionCounts()
    if by is None:
        held = Held(axis, None, M[0])
    else:
        columns = list(zip(*found.groups, strict=True))
        axes = tuple(_axis(dict.fromkeys(column), found.orders.of_group(k)) for k, column in enumerate(columns))
        rows = np.array([[one.places[label] for label in column] for one, column in zip(axes, columns, strict=True)]).T
        order = np.lexsort(rows.T[::-1])
        held = Held(axis, Keys(tuple(by), axes, rows[order]), M[order])
    return cmfast.ConfusionCounts._of_stored(parts_of(held, on_host=True))


def _axis(labels: Iterable[Any], known: tuple[Any, ...]) -> Axis:
    """Return labels in the order that a file declares, others behind those, sorted."""
    return Axis((*known, *sorted(set(labels) - set(known))), ORDERED if known else FOUND)


def _found(counts: cmfast.ConfusionCounts[Any], source: Source) -> Found:
    """Return what counts hold; labels that are declared and do not occur are none."""
    held = counts._held
    M: Any = held.whole()
    M = M.reshape(-1, *held.shape()[-2:])
    occur = np.flatnonzero(M.any(axis=(0, 1)) | M.any(axis=(0, 2)))
    labels = [held.axis.labels[k] for k in occur]
    if len({type(label) for label in labels}) > 1:  # truths of one file among the numbers of another
        labels = list(map(int, labels))
    groups: list[tuple[Any, ...]] = [()]
    axes = {-1: held.axis}
    if held.keys is not None:
        groups = [name if len(held.keys.names) > 1 else (name,) for name in held.keys.labels]
        axes |= dict(enumerate(held.keys.axes))
    known = {k: axis.labels for k, axis in axes.items() if axis.source == ORDERED}
    return Found(labels, groups, M[:, occur][:, :, occur], Orders(source, 2, known))


def blocks(
    args: argparse.Namespace, paths: Sequence[Path], rows: tuple[int, int] | None = None
) -> Iterator[list[tables.Column]]:
    """Yield truth, prediction and, where --by is given, groups, in blocks."""
    tick = bar(args, args.command) or (lambda done, total: None)
    if args.labels is not None:
        return points.iter_labels(paths, tick=tick, rows=rows)
    wanted = (args.true, args.pred, *(args.by or ()))
    return tables.iter_columns(paths[0], wanted, header=args.header, tick=tick)


def texts_of(columns: list[tables.Column], before: list[dict[str, int]]) -> list[dict[str, int]]:
    """Return the texts of every column with the line where each stands first; none of a file that is no csv.

    Those of a block, and what was known before it.
    """
    if columns[0].lines is None:
        return []
    new = [dict(zip(column.labels, column.lines or (), strict=True)) for column in columns]
    return [one | old for one, old in zip(new, before or [{} for _ in new], strict=True)]


def _read(
    source: Path,
    written: list[dict[str, int]],
    places: dict[Any, int],
    groups: dict[tuple[Any, ...], int],
    total: np.ndarray,
) -> tuple[dict[Any, int], dict[tuple[Any, ...], int], np.ndarray]:
    """Return labels, groups and counts by what the texts of a csv file stand for, of which some may be the same."""
    labels, axes = classes_of(source, written, places)
    columns = [texts.groups(source, lines) for lines in written[2:]]
    values = [tuple(column[text] for column, text in zip(columns, group, strict=True)) for group in groups]
    named = {group: k for k, group in enumerate(dict.fromkeys(values))}
    out = np.zeros((len(named), len(labels), len(labels)), np.int64)
    np.add.at(out, np.ix_([named[group] for group in values], *axes), total)
    return labels, named, out


def classes_of(
    source: Path, written: list[dict[str, int]], places: dict[Any, int]
) -> tuple[dict[Any, int], list[list[int]]]:
    """Return labels, and which of them stands at each place of truth and prediction."""
    if not written:
        return places, [list(range(len(places)))] * 2
    y_true, y_pred = texts.labels(source, written[0], written[1])
    labels = {label: k for k, label in enumerate(dict.fromkeys([*y_true.values(), *y_pred.values()]))}
    # The counts of a text that truth or prediction lacks are 0, and may go anywhere.
    return labels, [[labels[known[text]] if text in known else 0 for text in places] for known in (y_true, y_pred)]


def warn_of_strangers(total: np.ndarray) -> None:
    """Warn where no label is both a truth and a prediction, of several each: nothing can be right."""
    occurs = [total.any(axis=axes) for axes in ((0, 2), (0, 1))]
    if min(found.sum() for found in occurs) > 1 and not (occurs[0] & occurs[1]).any():
        numbers = " and ".join(str(int(found.sum())) for found in occurs)
        what = f"truth and prediction have no label in common, of {numbers}; are they of the same classes?"
        warnings.warn(what, cmfast.DiagnosticWarning, stacklevel=2)


def groups_of(columns: list[tables.Column], n: int) -> tuple[list[tuple[Any, ...]], np.ndarray]:
    """Return what the groups of `n` rows are called, by a value of every column, and the group of each row."""
    if not columns:
        return [()], np.zeros(n, np.int64)
    sizes = [len(column.labels) for column in columns]
    found, codes = columns[0].labels, columns[0].codes
    if len(columns) == 1:
        return [(label,) for label in found], codes
    numbers, codes = np.unique(np.ravel_multi_index([c.codes for c in columns], sizes), return_inverse=True)
    places = np.unravel_index(numbers, sizes)
    values = ([c.labels[k] for k in at.tolist()] for c, at in zip(columns, places, strict=True))
    return list(zip(*values, strict=True)), codes


def _groups_in_order(groups: list[tuple[Any, ...]], orders: Orders) -> tuple[list[tuple[Any, ...]], list[int]]:
    """Return groups sorted by their columns, and where each stood."""
    named: list[list[Any]] = []
    ranked: list[list[int]] = []
    for k, column in enumerate(zip(*groups, strict=True)):
        values = list(dict.fromkeys(column))
        names, order = in_order(values, orders.of_group(k))
        rank = {values[k]: place for place, k in enumerate(order)}
        ranked.append([rank[value] for value in column])
        named.append([names[place] for place in ranked[-1]])
    order = sorted(range(len(groups)), key=lambda g: [ranks[g] for ranks in ranked])
    return [tuple(names[g] for names in named) for g in order], order


def places_of(column: tables.Column, found: dict[Any, int]) -> np.ndarray:
    """Return the place in `found` of every row's label; what is new is added to it."""
    ids: np.ndarray = np.array([found.setdefault(label, len(found)) for label in column.labels], np.int64)[column.codes]
    return ids


def check_room(path: Source, n_matrices: int, n_classes: int) -> None:
    """Refuse a matrix that this machine cannot hold, before the system ends the process for trying."""
    if 8 * n_matrices * n_classes**2 > _memory():
        matrices = "a matrix" if n_matrices == 1 else f"{n_matrices:,} matrices"
        raise FileError(
            str(path), f"holds {n_classes:,} classes, too many for {matrices} in memory; are these the labels?"
        )


def _memory() -> int:
    """Return the bytes of this machine's memory."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 40  # not told: the allocation will
