"""The order of classes and groups: as a file or --order gives it, else sorted."""

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

import cmfast
from cmfast._core import labels as _labels
from cmfast._files import csv_values, tables
from cmfast._files.output import FileError
from cmfast._files.sources import Source
from cmfast.cli._parser import misuse
from cmfast.metrics._evaluate import get_ordered_sums


class Orders:
    """The orders of categories that a file declares: of the labels, which several columns have, and of others."""

    def __init__(self, source: Source, n_labels: int, known: dict[int, tuple[Any, ...]] | None = None) -> None:
        self._source, self._n_labels = source, n_labels
        self._known = known or {}

    def add(self, columns: list[tables.Column]) -> None:
        """Take what the columns of a block declare; orders must not contradict each other."""
        for k, column in enumerate(columns):
            place = max(k - self._n_labels, -1)  # of all labels together, of every other column by itself
            known = self._known.get(place, ())
            if not column.order or column.order == known:
                continue
            try:
                self._known[place] = _labels.merge_orders("labels", known, column.order)
            except ValueError as error:
                raise FileError(str(self._source), str(error)) from None

    @property
    def label_order(self) -> tuple[Any, ...]:
        """Labels in their order, empty where none is declared."""
        return self._known.get(-1, ())

    def group_order(self, k: int) -> tuple[Any, ...]:
        """Return the values of the column `k` after those of labels in their order, empty where none is declared."""
        return self._known.get(k, ())


def sort_labels(labels: list[Any], known: tuple[Any, ...] = ()) -> tuple[list[Any], list[int]]:
    """Return labels in order, and the index that each had: those that are `known` in that order, then others, sorted.

    They are integers where one type of 64 bits holds them all, else strings.
    """
    names, order = _sort(labels)
    indices = {label: k for k, label in enumerate(known)}
    ranks = [indices.get(labels[k], len(indices)) for k in order]
    turned = sorted(range(len(order)), key=ranks.__getitem__)
    return [names[k] for k in turned], [order[k] for k in turned]


def resolve_order(requested: list[str] | None, labels: Iterable[Any], declared: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the labels in the order that --order gives, which has to have all of them; else as they are declared."""
    if requested is None:
        return declared
    twice = [name for k, name in enumerate(requested) if name in requested[:k]]
    if twice:
        misuse(f"--order: {twice[0]!r} is there twice")
    named = {str(label): label for label in labels}
    lacking = [name for name in named if name not in requested]
    if lacking:
        also = f", and {len(lacking) - 1} others" if len(lacking) > 1 else ""
        misuse(f"--order: name all classes; it lacks {lacking[0]!r}{also}")
    return tuple(named[name] for name in requested if name in named)


def warn_of_order(names: Iterable[str], labels: Sequence[Any]) -> None:
    """Warn where metrics depend on the order of text, for labels that neither --order nor the file orders."""
    ordered = [name for name in names if get_ordered_sums(name)]
    if ordered and _labels.are_unordered_text(labels):
        verb = "depends" if len(ordered) == 1 else "depend"
        what = f"{', '.join(ordered)} {verb} on the order of the classes, which are text and were sorted alphabetically"
        warnings.warn(f"{what}; give it by --order", cmfast.DiagnosticWarning, stacklevel=2)


class Names:
    """What the values of a column are called in order: integers where one type of 64 bits holds them all, else strings.

    They may come part by part.
    """

    def __init__(self) -> None:
        self._strings = False
        self.numbers = True
        """Whether strings are integers, as far as is known, which are sorted as such."""
        self.plain = True
        """Whether these are written in one way alone, not as 01 and 1."""
        self._least: Any = None
        self._most: Any = None

    def add(self, values: Iterable[Any]) -> None:
        """Take in values of one kind."""
        for value in values:
            if isinstance(value, str):
                self._strings = True
                is_short = len(value) <= csv_values.MOST_INTEGER_DIGITS
                self.numbers = self.numbers and csv_values.is_integer(value) and is_short
                if not self.numbers:
                    continue
                self.plain = self.plain and str(int(value)) == value
            number = self.key(value)
            self._least = number if self._least is None else min(self._least, number)
            self._most = number if self._most is None else max(self._most, number)

    def key(self, value: Any) -> Any:
        """Return what stands for a value where it is sorted."""
        return int(value) if self._strings and self.numbers else value

    def name(self, value: Any) -> Any:
        """Return what a value is called, when all are known."""
        return self.key(value) if self.fit else str(value)

    @property
    def fit(self) -> bool:
        """Whether all are numbers that one type holds."""
        if self._strings and not self.numbers:
            return False
        least, most = self._least, self._most
        return bool((least >= 0 or most < 1 << 63) and least >= -(1 << 63) and most < 1 << 64)

    @property
    def dtype(self) -> Any:
        """The type of an array of names."""
        if not self.fit:
            return object
        return np.uint64 if isinstance(self._most, int) and self._most >= 1 << 63 else None


def _sort(labels: list[Any]) -> tuple[list[Any], list[int]]:
    names = Names()
    names.add(labels)
    # "01" and "1" stay two strings.
    names.numbers = names.numbers and (names.plain or len(set(map(names.key, labels))) == len(labels))
    order = sorted(range(len(labels)), key=lambda k: names.key(labels[k]))
    return [names.name(labels[k]) for k in order], order
