"""Tables in long form, and tidy margins, read by the names of their columns and categories."""

from typing import Any, NamedTuple

import numpy as np

from cmfast._core import dispatch, frames, validate
from cmfast.confusion_counts import _codes
from cmfast.confusion_counts._keys import KINDS
from cmfast.margins._words import Words

FLOATS = ("float", "double", "half")  # how types of columns that no margin names begin, which are no categories


class Long(NamedTuple):
    """A table as numbers: values, where they stand, and targets of all combinations of categories."""

    values: Any
    coords: np.ndarray  # (axes, n)
    margins: list[tuple[tuple[int, ...], np.ndarray]]  # 0 where a margin has no row, for there is no cell
    shape: tuple[int, ...]
    rows: list[tuple[np.ndarray, ...]]  # where those of each margin stand in its target
    words: Words


def read(values: Any, frame: Any, margins: Any) -> Long:
    """Return a long table; `values` is the name of a column of it, or an array."""
    frames.library("coords", frame)
    own, others = values, frames.names(frame)
    if isinstance(values, str):
        own = frames.column(frame, "values", values)
        others.remove(values)
    if not isinstance(margins, list | tuple) or not margins:
        validate.refuse("margins", "a list of tables, as coords is one", type(margins).__name__, TypeError)
    sides = [_sides(f"margins[{k}]", margin, others) for k, margin in enumerate(margins)]
    columns = list(dict.fromkeys(name for names, _ in sides for name in names))
    columns += [name for name in others if name not in columns and not _is_floating(frame[name])]
    known: dict[str, dict[Any, int]] = {}
    codes = np.stack([_coded(name, frames.column(frame, "coords", name), known) for name in columns])
    found = [_target(k, margin, *side, known) for k, (margin, side) in enumerate(zip(margins, sides, strict=True))]
    words = Words(tuple(columns), tuple(list(known[name]) for name in columns))
    wanted, rows = [], []
    for k, ((names, _), (places, numbers)) in enumerate(zip(sides, found, strict=True)):
        of = tuple(columns.index(name) for name in names)
        wanted.append((of, _spread(k, of, places, numbers, codes, words)))
        rows.append(places)
    return Long(own, codes, wanted, tuple(map(len, words.labels)), rows, words)


def _sides(option: str, margin: Any, others: list[Any]) -> tuple[list[str], str]:
    """Return the columns of categories of a margin, and that of its targets."""
    frames.library(option, margin)
    names = frames.names(margin)
    sides, rest = [name for name in names if name in others], [name for name in names if name not in others]
    if len(rest) != 1:
        wanted = "of some columns of coords, and one more, of targets"
        validate.refuse(option, wanted, f"columns {validate.shown(', '.join(map(str, names)), str)}")
    return sides, rest[0]


def _is_floating(column: Any) -> bool:
    return str(getattr(column, "dtype", None) or column.type).lower().startswith(FLOATS)


def _coded(name: str, column: Any, known: dict[str, dict[Any, int]]) -> np.ndarray:
    """Return categories by their places in what is known of their column, which learns those that are new."""
    found = _codes.coded(name, column, _codes.SPAN, KINDS, "categories").compact()
    places = known.setdefault(name, {})
    table = np.array([places.setdefault(value, len(places)) for value in found.values], np.int64)
    codes: np.ndarray = table[np.asarray(found.codes)]
    return codes


def _target(
    k: int, margin: Any, names: list[str], number: str, known: dict[str, dict[Any, int]]
) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """Return where the rows of a margin stand among the categories of its columns, and their targets."""
    option = f"margins[{k}]"
    places = tuple(_coded(name, frames.column(margin, option, name), known) for name in names)
    numbers = dispatch.adopt_one(f"{number} of {option}", frames.column(margin, option, number))
    validate.real(**{f"{number} of {option}": numbers})
    if not names and len(numbers) != 1:
        validate.refuse(option, "of one row, where it has no column of categories", f"{len(numbers)}")
    return places, np.asarray(numbers)


def _spread(
    k: int, of: tuple[int, ...], places: tuple[np.ndarray, ...], numbers: np.ndarray, codes: np.ndarray, words: Words
) -> np.ndarray:
    """Return the targets of all combinations; refuse rows that are there twice, and cells of which none speaks."""
    shape = tuple(len(words.labels[axis]) for axis in of)
    target = np.zeros(shape, np.float32 if numbers.dtype == np.float32 else np.float64)
    times = np.zeros(shape, np.int64)
    np.add.at(times, places, 1)
    if (times > 1).any():
        validate.fail(f"margins[{k}]: {words.place(of, np.argwhere(times > 1)[0].tolist())} is there twice")
    said = times[tuple(codes[axis] for axis in of)]
    silent = np.flatnonzero(said == 0)
    if of and len(silent):
        where = words.place(of, [int(codes[axis][silent[0]]) for axis in of])
        validate.fail(f"margins[{k}] says nothing of {where}, which is in coords; NaN asks nothing of it")
    target[places] = numbers if of else numbers[0]
    return target
