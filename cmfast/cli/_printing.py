"""Results on standard output: JSON for programs, a matrix for people."""

import sys
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from cmfast._files.output import to_json
from cmfast.cli import _screen

WIDEST = 20  # classes of a matrix that is printed


def print_json(facts: dict[str, Any]) -> None:
    """Print facts, with escapes where standard output lacks a letter."""
    text = to_json(facts)
    if not cast("_screen.Stream", sys.stdout).takes(text):
        text = to_json(facts, ascii_only=True)
    sys.stdout.write(text)


def single(values: Sequence[Any] | None) -> Any:
    """Return names or values of columns as JSON has them: of one column as they are, of several as a list."""
    return None if values is None else values[0] if len(values) == 1 else list(values)


def described(names: Sequence[str], group: Sequence[Any]) -> str:
    """Return what a group is, in words: the value of every column."""
    pairs = zip(names, group, strict=True)
    return ", ".join(f"{_screen.shown(name)} = {_screen.shown(value)}" for name, value in pairs)


def print_matrix(M: np.ndarray, labels: list[str]) -> None:
    """Print a matrix below and beside its labels, where it is small enough to be read."""
    if len(labels) > WIDEST:
        print(f"{len(labels)} x {len(labels)} matrix; --output or --json gives all of it")
        return
    cells = [[f"{x:,}" if isinstance(x, int) else f"{x:.4f}" for x in row] for row in M.tolist()]
    width = max(len(text) for text in [*labels, *(cell for row in cells for cell in row)]) + 2
    head = max(len("true \\ pred"), *(len(label) for label in labels))
    print("true \\ pred".ljust(head) + "".join(label.rjust(width) for label in labels))
    for label, row in zip(labels, cells, strict=True):
        print(label.ljust(head) + "".join(cell.rjust(width) for cell in row))
