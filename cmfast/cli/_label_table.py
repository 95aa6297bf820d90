"""Read columns of a table row by row: labels of several models, and groups."""

import argparse
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cmfast._files import csv_values, tables
from cmfast._files.label_columns import choose_columns, choose_models, parse_column
from cmfast._files.output import FileError
from cmfast.cli._calls import tick
from cmfast.cli._labels import collect_texts, encode_labels
from cmfast.cli._ordering import Orders, resolve_order, sort_labels


class LabelTable(NamedTuple):
    """Class codes of every row for each label column, and further columns with their values."""

    labels: list[Any]
    """The classes in order."""
    codes: list[np.ndarray]
    """The class of every row, for each column of labels."""
    others: list[tuple[list[Any], np.ndarray]]
    """For each further column its sorted values, and the code of each row."""
    has_order: bool
    """Whether --order or the file gives the order of the classes."""


def complete_columns(args: argparse.Namespace, n_models: int) -> None:
    """Set --true and --pred, where they are not given, to columns with usual names, or the only ones left.

    Raises FileError that lists the columns, and proposes some, if there are others.
    """
    args.pred = args.pred or []
    if args.true is None or len(args.pred) < n_models or any("," in name for name in args.pred):
        names = tables.read_column_names(args.input, (args.true, *args.pred), header=args.header)
        args.true, *args.pred = choose_models(args.input, names, args.true, args.pred, n_models)


def check_columns(args: argparse.Namespace, labels: Sequence[str], others: Sequence[str]) -> None:
    """Raise FileError if the table lacks one of the columns, before any row is read."""
    wanted = (*labels, *others)
    choose_columns(args.input, tables.read_column_names(args.input, wanted, header=args.header), wanted)


def check_names(args: argparse.Namespace, columns: Sequence[str]) -> None:
    """Raise FileError if the table lacks one of the columns, for any purpose."""
    names = tables.read_column_names(args.input, tuple(columns), header=getattr(args, "header", None))
    for column in columns:
        parse_column(args.input, names, column)


def read_columns(args: argparse.Namespace, labels: Sequence[str], others: Sequence[str]) -> LabelTable:
    """Read label columns (truth, predictions; common classes) and others as codes, in one pass over the file."""
    n = len(labels)
    values, codes, orders = _read_codes(args, (*labels, *others), n)
    classes = list(dict.fromkeys(label for own in values[:n] for label in own))
    known = resolve_order(getattr(args, "order", None), classes, orders.label_order)
    names, order = _sort(classes, known)
    ranked = [_rank(own, order, code) for own, code in zip(values[:n], codes[:n], strict=True)]
    rest = []
    for k, (own, code) in enumerate(zip(values[n:], codes[n:], strict=True)):
        group, group_order = _sort(list(dict.fromkeys(own)), orders.group_order(k))
        rest.append((group, _rank(own, group_order, code)))
    return LabelTable(names, ranked, rest, bool(known))


def _sort(values: list[Any], known: tuple[Any, ...]) -> tuple[list[Any], list[Any]]:
    """Return the names of values and the values, both sorted."""
    names, order = sort_labels(values, known)
    return names, [values[k] for k in order]


def _rank(values: list[Any], order: list[Any], codes: np.ndarray) -> np.ndarray:
    """Recode values as positions in `order`."""
    indices = {value: k for k, value in enumerate(order)}
    ranked: np.ndarray = np.array([indices[value] for value in values], np.int32)[codes]
    return ranked


def _read_codes(
    args: argparse.Namespace, wanted: Sequence[str], n_labels: int
) -> tuple[list[list[Any]], np.ndarray, Orders]:
    """Read columns as codes; return distinct values, codes (columns, rows) and declared orders.

    The first `n_labels` of the `wanted` columns are truth and predictions.
    """
    known: list[dict[Any, int]] = [{} for _ in wanted]
    written: list[dict[str, int]] = []
    parts = [np.empty((len(wanted), 0), np.int32)]
    orders = Orders(args.input, n_labels=n_labels)
    for block in tables.iter_columns(args.input, tuple(wanted), header=args.header, tick=tick(args, args.command)):
        orders.add(block)
        written = collect_texts(block, written)
        ids = [encode_labels(column, indices) for column, indices in zip(block, known, strict=True)]
        parts.append(np.stack(ids).astype(np.int32))
    codes = np.concatenate(parts, axis=1)
    if not codes.shape[1]:
        raise FileError(args.input, "holds no samples")
    if not written:
        return [list(own) for own in known], codes, orders
    y, *others = written[:n_labels]
    predicted = {text: line for one in reversed(others) for text, line in one.items()}
    truths, guesses = csv_values.parse_labels(args.input, y, predicted)
    parsed_groups = (csv_values.parse_groups(args.input, own) for own in written[n_labels:])
    values = [truths, *(guesses for _ in others), *parsed_groups]
    return [[means[text] for text in own] for means, own in zip(values, known, strict=True)], codes, orders
