"""Print results to standard output: JSON for programs, aligned tables for people."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, cast

import numpy as np

from cmfast._core.result_repr import MOST_SHOWN_CLASSES
from cmfast._files.output import to_json
from cmfast._files.states import State
from cmfast.cli import _screen

CELL = 12  # width of a table column in characters


def print_json(metadata: Mapping[str, Any] | State) -> None:
    """Print metadata as JSON, with ASCII escapes if standard output cannot encode a character."""
    if isinstance(metadata, State):
        text = metadata.to_json()
    else:
        text = to_json(dict(metadata))
        if not cast("_screen.Stream", sys.stdout).takes(text):
            text = to_json(dict(metadata), ascii_only=True)
    sys.stdout.write(text)


def single(values: Sequence[Any] | None) -> Any:
    """Return the only value of one column, or a list of the values of several; None for None."""
    return None if values is None else values[0] if len(values) == 1 else list(values)


def describe_group(names: Sequence[str], group: Sequence[Any]) -> str:
    """Return a group as text: the value of each column."""
    pairs = zip(names, group, strict=True)
    return ", ".join(f"{_screen.shown(name)} = {_screen.shown(value)}" for name, value in pairs)


def format_matrix(M: np.ndarray, labels: list[str]) -> Iterator[str]:
    """Yield the lines of a labelled matrix, or one line if it is too large to read."""
    if len(labels) > MOST_SHOWN_CLASSES:
        yield f"{len(labels)} x {len(labels)} matrix; --output or --json gives all of it"
        return
    cells = [[f"{x:,}" if isinstance(x, int) else f"{x:.4f}" for x in row] for row in M.tolist()]
    width = max((len(text) for text in [*labels, *(cell for row in cells for cell in row)]), default=0) + 2
    yield from format_table("true \\ pred", labels, dict(zip(labels, cells, strict=True)), width)


def format_table(
    title: str, heads: Sequence[str], rows: Mapping[str, Sequence[str]], width: int | Sequence[int] = CELL
) -> Iterator[str]:
    """Yield the title with column heads, if any, then a line per row with its name; `width` may differ by column."""
    first = max(map(len, (title, *rows)))
    widths = repeat(width) if isinstance(width, int) else width  # rows may have more cells than heads
    for name, cells in ((title, heads), *rows.items()):
        texts = (cell.rjust(n) for cell, n in zip(cells, widths, strict=False)) if cells else ()
        yield name.ljust(first) + "".join(texts) if cells else name


def fit_widths(heads: Sequence[str], rows: Mapping[str, Sequence[str]]) -> list[int]:
    """Return the width of each column: its longest text and two spaces."""
    return [max(map(len, column)) + 2 for column in zip(heads, *rows.values(), strict=True)]
