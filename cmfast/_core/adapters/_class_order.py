"""What the rows and the columns of a matrix are called, where its library says so: a confusion matrix has one order."""

from collections.abc import Sequence
from typing import Any

from cmfast._core import caller

MATRICES = frozenset({"M", "S", "T"})  # arguments that are matrices of a truth and a prediction
TABLES = frozenset({"ipf", "ras", "support"})  # whose rows may be something else than their columns
TOTALS = "All"  # what pandas.crosstab calls them
MOST_SHOWN_LABELS = 4  # labels in a message


def check_class_order(name: str, rows: Sequence[Any], columns: Sequence[Any]) -> None:
    """Raise ValueError where a square matrix has the same classes in two orders, other ones too, or totals.

    Names that have nothing in common, as "true a" and "predicted a", say nothing.
    """
    if name not in MATRICES or len(rows) != len(columns):
        return
    rows, columns = list(rows), list(columns)
    if rows != columns and not set(rows).isdisjoint(columns) and caller.name() not in TABLES:
        msg = (
            f"{name} must have the same classes in rows and columns, in one order, got {_format_labels(rows)} and "
            f"{_format_labels(columns)}; reindex both"
        )
        raise ValueError(msg)
    if rows == columns and len(rows) > 1 and isinstance(rows[-1], str) and rows[-1] == TOTALS:
        msg = f"{name} must be without totals, got a last row and column {TOTALS!r}; leave them out, margins=False"
        raise ValueError(msg)


def _format_labels(labels: list[Any]) -> str:
    return f"({', '.join(map(repr, labels[:MOST_SHOWN_LABELS]))}{', ...' if len(labels) > MOST_SHOWN_LABELS else ''})"
