"""Check that rows and columns of a labelled confusion matrix list the same classes in the same order."""

from collections.abc import Sequence
from typing import Any

from cmfast._core import caller

MATRICES = frozenset({"A", "B", "M", "T"})  # arguments that are confusion matrices
TABLES = frozenset({"ipf", "ras", "support"})  # functions of contingency tables, with different rows and columns
TOTALS = "All"  # the name that pandas.crosstab gives to totals
MOST_SHOWN_LABELS = 4  # labels shown in a message


def check_class_order(name: str, rows: Sequence[Any], columns: Sequence[Any]) -> None:
    """Raise ValueError if the rows and columns of a square matrix overlap but differ in order or set, or end in totals.

    Names without any in common, such as "true a" and "predicted a", are accepted.
    """
    if name not in MATRICES or len(rows) != len(columns):
        return
    rows, columns = list(rows), list(columns)
    if rows != columns and not set(rows).isdisjoint(columns) and caller.name() not in TABLES:
        msg = (
            f"{name} must have the same classes in rows and columns, in one order, got {format_labels(rows)} and "
            f"{format_labels(columns)}; reindex both"
        )
        raise ValueError(msg)
    if rows == columns and len(rows) > 1 and isinstance(rows[-1], str) and rows[-1] == TOTALS:
        msg = f"{name} must be without totals, got a last row and column {TOTALS!r}; leave them out, margins=False"
        raise ValueError(msg)


def format_labels(labels: list[Any]) -> str:
    """Format the first labels for a message."""
    return f"({', '.join(map(repr, labels[:MOST_SHOWN_LABELS]))}{', ...' if len(labels) > MOST_SHOWN_LABELS else ''})"
