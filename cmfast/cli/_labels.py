"""Read blocks of labels and groups: columns, codes, csv texts, memory check."""

import argparse
import os
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

import cmfast
from cmfast._files import csv_values, points, tables
from cmfast._files.output import FileError
from cmfast._files.stores import Source


class LabelColumns(NamedTuple):
    """Columns of a table that hold the labels, or separate label files."""

    names: tuple[Any, ...]
    """Truth, prediction and groups; None for the first two selects usual names."""
    header: bool | None
    are_files: bool = False

    @classmethod
    def requested(cls, args: argparse.Namespace, by: Sequence[str] | None) -> "LabelColumns":
        """Return the columns that the options name."""
        return cls((args.true, args.pred, *(by or ())), args.header, args.labels is not None)

    def blocks(
        self, paths: Sequence[Source], tick: points.Tick, rows: tuple[int, int] | None = None
    ) -> Iterator[list[tables.Column]]:
        """Yield nonempty blocks of truth, prediction and groups."""
        if self.are_files:
            found = points.iter_labels(paths, tick=tick, rows=rows)
        else:
            found = tables.iter_columns(paths[0], self.names, header=self.header, tick=tick)
        return (block for block in found if len(block[0].codes))


def collect_texts(columns: list[tables.Column], known: list[dict[str, int]]) -> list[dict[str, int]]:
    """Collect the distinct texts of each csv column with their first line; an empty list for other files.

    Adds to `known`, the texts of earlier blocks, in place.
    """
    if columns[0].lines is None:
        return []
    known = known or [{} for _ in columns]
    for column, lines in zip(columns, known, strict=True):
        for text, line in zip(column.labels, column.lines or (), strict=True):
            lines.setdefault(text, line)
    return known


def resolve_classes(
    source: Source, written: list[dict[str, int]], indices: dict[Any, int]
) -> tuple[dict[Any, int], list[list[int]]]:
    """Return the classes, and for each label index its class index, for truth and for prediction.

    The type of csv texts is known only from all of them; two texts may be one class.
    """
    if not written:
        return indices, [list(range(len(indices)))] * 2
    y_true, y_pred = csv_values.parse_labels(source, written[0], written[1])
    labels = {label: k for k, label in enumerate(dict.fromkeys([*y_true.values(), *y_pred.values()]))}
    # A text that truth or prediction lacks has counts 0, which may be added to any class.
    return labels, [[labels[known[text]] if text in known else 0 for text in indices] for known in (y_true, y_pred)]


def encode_labels(column: tables.Column, indices: dict[Any, int]) -> np.ndarray:
    """Return the index of each row's label; adds new labels to `indices` in place."""
    ids = np.array([indices.setdefault(label, len(indices)) for label in column.labels], np.int64)
    codes: np.ndarray = ids[column.codes]
    return codes


def encode_groups(columns: list[tables.Column], n: int) -> tuple[list[tuple[Any, ...]], np.ndarray]:
    """Return the groups of `n` rows (a value per column), and the group index of each row."""
    if not columns:
        return [()], np.zeros(n, np.int64)
    sizes = [len(column.labels) for column in columns]
    found, codes = columns[0].labels, columns[0].codes
    if len(columns) == 1:
        return [(label,) for label in found], codes
    numbers, codes = np.unique(np.ravel_multi_index([c.codes for c in columns], sizes), return_inverse=True)
    indices = np.unravel_index(numbers, sizes)
    values = ([c.labels[k] for k in at.tolist()] for c, at in zip(columns, indices, strict=True))
    return list(zip(*values, strict=True)), codes


def warn_of_disjoint_labels(total: np.ndarray) -> None:
    """Warn if truth and prediction, with several labels each, have none in common."""
    occurs = [total.any(axis=axes) for axes in ((0, 2), (0, 1))]
    if min(found.sum() for found in occurs) > 1 and not (occurs[0] & occurs[1]).any():
        numbers = " and ".join(str(int(found.sum())) for found in occurs)
        what = f"y_true and y_pred have no label in common, of {numbers}; are they of the same classes?"
        warnings.warn(what, cmfast.DiagnosticWarning, stacklevel=2)


def check_memory(path: Source, n_matrices: int, n_classes: int) -> None:
    """Raise FileError for matrices larger than this machine's memory, instead of being killed."""
    if 8 * n_matrices * n_classes**2 > _memory():
        matrices = "a matrix" if n_matrices == 1 else f"{n_matrices:,} matrices"
        raise FileError(
            str(path), f"holds {n_classes:,} classes, too many for {matrices} in memory; are these the labels?"
        )


def _memory() -> int:
    """Return the memory of this machine in bytes."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 40  # unknown: rely on the allocation to fail
