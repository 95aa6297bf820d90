"""Columns of a table whose rows are kept: labels of several models, and groups."""

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

from cmfast._files import tables, texts
from cmfast._files.output import FileError
from cmfast.cli._options import bar
from cmfast.cli._ordering import Orders, in_order


def in_names(values: list[Any], known: tuple[Any, ...]) -> tuple[list[Any], list[Any]]:
    """Return what values are called, and themselves, in order."""
    names, order = in_order(values, known)
    return names, [values[k] for k in order]


def ranked(values: list[Any], order: list[Any], codes: np.ndarray) -> np.ndarray:
    """Return codes of values as places in `order`."""
    places = {value: k for k, value in enumerate(order)}
    ranked: np.ndarray = np.array([places[value] for value in values], np.int32)[codes]
    return ranked


def read(args: argparse.Namespace, wanted: Sequence[str], n_labels: int) -> tuple[list[list[Any]], np.ndarray, Orders]:
    """Return the different values of every column, which of them every row has, and what orders the file declares.

    The first of the `wanted` columns are `n_labels` of labels: the truth and predictions.
    """
    known: list[dict[Any, int]] = [{} for _ in wanted]
    lines: list[dict[str, int]] = [{} for _ in wanted]
    parts = [np.empty((len(wanted), 0), np.int32)]
    of_csv, orders = False, Orders(args.input, n_labels=n_labels)
    tick = bar(args, args.command) or (lambda done, total: None)
    for block in tables.iter_columns(args.input, tuple(wanted), header=args.header, tick=tick):
        ids = []
        orders.add(block)
        for column, places, first in zip(block, known, lines, strict=True):
            of_csv = of_csv or column.lines is not None
            for text, line in zip(column.labels, column.lines or (), strict=False):
                first.setdefault(text, line)
            own = [places.setdefault(label, len(places)) for label in column.labels]
            ids.append(np.array(own, np.int32)[column.codes])
        parts.append(np.stack(ids))
    codes = np.concatenate(parts, axis=1)
    if not codes.shape[1]:
        raise FileError(args.input, "holds no samples")
    if of_csv:
        y, *others = lines[:n_labels]
        truths, guesses = texts.labels(
            args.input, y, {text: line for one in reversed(others) for text, line in one.items()}
        )
        said = [truths, *(guesses for _ in others), *(texts.groups(args.input, own) for own in lines[n_labels:])]
        return [[means[text] for text in own] for means, own in zip(said, known, strict=True)], codes, orders
    return [list(own) for own in known], codes, orders
