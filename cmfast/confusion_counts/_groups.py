"""Keys of groups: rows of labels, one label per column, sorted."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from cmfast._core import dispatch, validate
from cmfast._core.adapters import _columns, adapter
from cmfast._core.annotations import Array
from cmfast._files.archive import demand
from cmfast.confusion_counts import _label_codes
from cmfast.confusion_counts._label_axis import Axis

GROUP_CODE_SPAN = 1 << 20  # range up to which integer group labels serve as their own codes
KINDS = "biufM"


class Keys(NamedTuple):
    """Group keys: for each group a row of positions in the labels of each column; rows are sorted."""

    names: tuple[str, ...]
    axes: tuple[Axis, ...]
    rows: np.ndarray

    @property
    def labels(self) -> tuple[Any, ...]:
        """The group keys: a label per group, or a tuple of labels for several columns."""
        columns = [[axis.labels[k] for k in self.rows[:, c].tolist()] for c, axis in enumerate(self.axes)]
        return tuple(columns[0]) if len(columns) == 1 else tuple(zip(*columns, strict=True))

    def union(self, other: "Keys") -> "Keys":
        """Return the union of both sets of groups."""
        if self.names != other.names:
            validate.refuse("groups", f"by {', '.join(self.names)}, as before", ", ".join(other.names))
        if self.axes == other.axes and np.array_equal(self.rows, other.rows):
            return self
        axes = tuple(a.union(b, "groups") for a, b in zip(self.axes, other.axes, strict=True))
        both = np.concatenate([_recode(keys, axes) for keys in (self, other)])
        return Keys(self.names, axes, np.unique(both, axis=0))

    def find_positions_in(self, other: "Keys") -> list[int]:
        """Return the position of each group in `other`, which contains all of them."""
        places = {row: k for k, row in enumerate(map(tuple, other.rows.tolist()))}
        return [places[row] for row in map(tuple, _recode(self, other.axes).tolist())]

    def to_json_dict(self) -> list[dict[str, Any]]:
        """Return names and labels of the columns as dicts that JSON can represent."""
        return [{"name": name, **axis.to_json_dict()} for name, axis in zip(self.names, self.axes, strict=True)]

    @classmethod
    def from_json_dict(cls, facts: Any, rows: np.ndarray) -> Self:
        """Return the groups described by dicts from JSON, validated because the file is untrusted."""
        listed = isinstance(facts, list) and len(facts) > 0 and all(isinstance(one, dict) for one in facts)
        demand(listed, "the columns of its groups are not described")
        names = tuple(one.get("name") for one in facts)
        named = all(isinstance(name, str) for name in names) and len(set(names)) == len(names)
        demand(named, "the columns of its groups have no names")
        axes = tuple(Axis.from_json_dict({key: one[key] for key in one if key != "name"}) for one in facts)
        demand(rows.shape[1] == len(axes), "its groups have other columns")
        inside = all(((x >= 0) & (x < len(axis.labels))).all() for x, axis in zip(rows.T, axes, strict=True))
        demand(inside, "its groups leave their labels")
        demand(np.array_equal(rows, np.unique(rows, axis=0)), "its groups are not in order")
        return cls(names, axes, rows.astype(np.int64))


def _recode(keys: Keys, axes: tuple[Axis, ...]) -> np.ndarray:
    """Return the rows of `keys` as positions in other axes."""
    pairs = enumerate(zip(keys.axes, axes, strict=True))
    return np.stack([np.array(a.find_positions_in(b), np.int64)[keys.rows[:, c]] for c, (a, b) in pairs], axis=1)


def number_groups(groups: Any, y: Array, shape: tuple[int, ...]) -> tuple[Keys, Array, np.ndarray]:
    """Return the group keys of samples, the group number of each sample, and the order that sorts the numbers.

    `shape` is the shape of the labels before flattening; `y` gives the library and device.
    """
    named = _name_columns(groups)
    columns = [_label_codes.encode_column(name, x, GROUP_CODE_SPAN, KINDS, "labels") for name, x in named.items()]
    for name, column in zip(named, columns, strict=True):
        given = dispatch.shape_of(column.codes)
        if given != shape:
            validate.refuse(name, f"of shape {shape}, as y_true", f"shape {given}")
    sizes = [max(len(column.values), 1) for column in columns]
    if math.prod(sizes) >= 2**62:
        validate.fail("groups: there are more combinations of their labels than int64 holds", OverflowError)
    number, *others = (adapter(y).send(adapter(column.codes).flatten(column.codes, 0), y) for column in columns)
    for size, codes in zip(sizes[1:], others, strict=True):
        number = adapter(number).cast(number, np.int64)
        number = adapter(number).evaluate(lambda number, codes, size=size: number * size + codes, number, codes)
    found, number = _compact_numbers(number, math.prod(sizes))
    labelled = [_sort_column_labels(*pair) for pair in zip(columns, np.unravel_index(found, sizes), strict=True)]
    rows = np.stack([places for _, places in labelled], axis=1)
    order = np.lexsort(rows.T[::-1])
    return Keys(tuple(named), tuple(axis for axis, _ in labelled), rows[order]), number, order


def _sort_column_labels(column: _label_codes.Codes, codes: np.ndarray) -> tuple[Axis, np.ndarray]:
    """Return the sorted labels of a column among which `codes` occur, and the position of each code's label."""
    occurs = np.zeros(len(column.values), np.bool_)
    occurs[codes] = True
    axis = column.axis(occurs)
    places = axis.positions
    return axis, np.array([places.get(label, -1) for label in column.values], np.int64)[codes]


def _name_columns(groups: Any) -> dict[str, Any]:
    """Return the group columns as a dict by name; a single column is called "groups"."""
    if isinstance(groups, Mapping):
        named = {str(name): column for name, column in groups.items()}
        if not named:
            validate.refuse("groups", "an array", "dict without columns", TypeError)
        return named
    names = _columns.list_names(groups)
    if len(names) > 1:
        what = f"{type(groups).__module__.partition('.')[0]} {type(groups).__name__}"
        some = ", ".join(f"{name!r}: groups[{name!r}]" for name in names[:2])
        cure = f"give a dict of its columns: groups={{{some}{', ...' if len(names) > 2 else ''}}}"
        validate.refuse("groups", "an array of labels", f"a {what}; {cure}", TypeError)
    validate.refuse_tables(groups=groups)
    return {"groups": groups}


def _compact_numbers(number: Array, n_possible: int) -> tuple[np.ndarray, Array]:
    """Return the numbers that occur, and the position among them of each entry."""
    if not isinstance(number, np.ndarray) or n_possible > 4 * len(number) + 2**16:
        return adapter(number).unique(number)
    number = number.astype(np.uint8) if number.dtype.kind == "b" else number  # as an index a bool would be a mask
    found = np.flatnonzero(np.bincount(number, minlength=n_possible))
    if len(found) == n_possible:
        return found, number
    table = np.zeros(n_possible, np.int64)
    table[found] = np.arange(len(found))
    return found, table[number]
