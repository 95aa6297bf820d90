"""Order of classes and groups: as --order or the file gives it, else sorted."""

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

import cmfast
from cmfast._core import labels as _labels
from cmfast._files import csv_values, tables
from cmfast._files.output import FileError
from cmfast._files.stores import Source
from cmfast.cli._parser import misuse
from cmfast.metrics._evaluate import get_ordered_sums


class Orders:
    """Category orders that a file declares: one for all label columns, one per other column."""

    def __init__(self, source: Source, n_labels: int, known: dict[int, tuple[Any, ...]] | None = None) -> None:
        self._source, self._n_labels = source, n_labels
        self._known = known or {}

    def add(self, columns: list[tables.Column]) -> None:
        """Add the orders declared by the columns of a block; raise FileError if two contradict."""
        for k, column in enumerate(columns):
            place = max(k - self._n_labels, -1)  # -1 for all label columns together, k for other columns
            known = self._known.get(place, ())
            if not column.order or column.order == known:
                continue
            try:
                self._known[place] = _labels.merge_orders("labels", known, column.order)
            except ValueError as error:
                raise FileError(str(self._source), str(error)) from None

    @property
    def label_order(self) -> tuple[Any, ...]:
        """The labels in declared order; empty if none is declared."""
        return self._known.get(-1, ())

    def group_order(self, k: int) -> tuple[Any, ...]:
        """Return the values of group column `k` in declared order; empty if none is declared."""
        return self._known.get(k, ())


def sort_labels(labels: list[Any], known: tuple[Any, ...] = ()) -> tuple[list[Any], list[int]]:
    """Return sorted labels and their previous positions: `known` ones in that order, then the others.

    Labels become integers if one 64-bit type holds them all, else strings.
    """
    names, order = _sort(labels)
    indices = {label: k for k, label in enumerate(known)}
    ranks = [indices.get(labels[k], len(indices)) for k in order]
    turned = sorted(range(len(order)), key=ranks.__getitem__)
    return [names[k] for k in turned], [order[k] for k in turned]


def resolve_order(requested: list[str] | None, labels: Iterable[Any], declared: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the labels in the order of --order, which must name all of them; without it as declared."""
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
    """Warn if metrics depend on the order of text labels that neither --order nor the file gives."""
    ordered = [name for name in names if get_ordered_sums(name)]
    if ordered and _labels.are_unordered_text(labels):
        verb = "depends" if len(ordered) == 1 else "depend"
        what = f"{', '.join(ordered)} {verb} on the order of the classes, which are text and were sorted alphabetically"
        warnings.warn(f"{what}; give it by --order", cmfast.DiagnosticWarning, stacklevel=2)


class Names:
    """Names of the values of a column: integers if one 64-bit type holds all, else strings.

    Values may be added in parts.
    """

    def __init__(self) -> None:
        self._strings = False
        self.numbers = True
        """Whether all strings so far are integers, so that they are sorted as numbers."""
        self.plain = True
        """Whether every integer has its canonical spelling (1, not 01)."""
        self._least: Any = None
        self._most: Any = None

    def add(self, values: Iterable[Any]) -> None:
        """Add values of one kind."""
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
        """Return the sort key of a value."""
        return int(value) if self._strings and self.numbers else value

    def name(self, value: Any) -> Any:
        """Return the name of a value, once all values were added."""
        return self.key(value) if self.fit else str(value)

    @property
    def fit(self) -> bool:
        """Whether all values are integers that one 64-bit type holds."""
        if self._strings and not self.numbers:
            return False
        least, most = self._least, self._most
        return bool((least >= 0 or most < 1 << 63) and least >= -(1 << 63) and most < 1 << 64)

    @property
    def dtype(self) -> Any:
        """The dtype of an array of names."""
        if not self.fit:
            return object
        return np.uint64 if isinstance(self._most, int) and self._most >= 1 << 63 else None


def _sort(labels: list[Any]) -> tuple[list[Any], list[int]]:
    """Return labels as sorted names, and their previous positions."""
    names = Names()
    names.add(labels)
    # Distinct strings such as "01" and "1" stay strings.
    names.numbers = names.numbers and (names.plain or len(set(map(names.key, labels))) == len(labels))
    order = sorted(range(len(labels)), key=lambda k: names.key(labels[k]))
    return [names.name(labels[k]) for k in order], order
