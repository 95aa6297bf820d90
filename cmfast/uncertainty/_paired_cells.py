"""Storage of paired counts as sorted keys of nonempty cells: encoding, merging, saved parts."""

from typing import Any, NamedTuple

import numpy as np

from cmfast._core import overflow_checks, validate
from cmfast._files.archive import Parts, demand
from cmfast._files.states import TEXT
from cmfast.confusion_counts._groups import Keys
from cmfast.confusion_counts._label_axis import FOUND, Axis

PARTS: Parts = {
    "classes": TEXT,
    "columns": TEXT,  # of the groups, then of the clusters
    "units": (("<i8",), 2),  # a row per unit: index of its label in each column
    "clustered": (("<i8",), 0),
    "keys": (("<i8",), 1),
    "counts": (("<i8",), 1),
}
OPTIONAL = ("columns", "units")


class PairedCells(NamedTuple):
    """Nonempty cells in order, by key ``((unit * C + truth) * C + first) * C + second``, and their counts.

    A unit is a group, a cluster within a group, or 0 without both.
    """

    axis: Axis
    units: Keys | None
    clustered: bool
    keys: np.ndarray
    counts: np.ndarray

    @property
    def n_units(self) -> int:
        """Number of units: groups, clusters (within each group), or 1 for all samples together."""
        return 1 if self.units is None else len(self.units.rows)

    def decode(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return unit, truth and both predictions of every cell."""
        return decode_keys(self.keys, len(self.axis.labels))

    def groups(self) -> tuple[Keys | None, np.ndarray]:
        """Return the groups, or None, and the group index of every unit."""
        if self.units is None or not self.clustered:
            return self.units, np.arange(self.n_units)
        names, axes, rows = self.units
        if len(names) == 1:
            return None, np.zeros(len(rows), np.int64)
        found, number = np.unique(rows[:, :-1], axis=0, return_inverse=True)
        return Keys(names[:-1], axes[:-1], found), number.reshape(-1)


def decode_keys(keys: np.ndarray, C: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Split keys of `C` classes into unit, truth and both predictions."""
    C = max(C, 1)
    rest, b = np.divmod(keys, C)
    rest, a = np.divmod(rest, C)
    unit, y = np.divmod(rest, C)
    return unit, y, a, b


def check_key_range(n_units: int, C: int) -> None:
    """Raise OverflowError if the number of cells exceeds int64."""
    if n_units * C**3 > validate.LARGEST_INT64:
        validate.fail(f"{n_units} groups and clusters of {C} classes have more cells than int64 numbers", OverflowError)


def sort_cells(keys: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct keys in order and the summed counts of each."""
    found, which = np.unique(keys, return_inverse=True)
    total = np.zeros(len(found), np.int64)
    np.add.at(total, which.reshape(-1), counts)
    return found, total


def recode_cells(held: PairedCells, axis: Axis, units: Keys | None) -> tuple[np.ndarray, np.ndarray]:
    """Return keys and counts of `held` in the numbering of larger sets of classes and units, unsorted."""
    C = len(axis.labels)
    places = np.array(held.axis.find_positions_in(axis), np.int64)
    unit, *sides = held.decode()
    if held.units is not None and units is not None:
        unit = np.array(held.units.find_positions_in(units), np.int64)[unit]
    y, a, b = (places[side] for side in sides) if len(places) else sides
    return ((unit * C + y) * C + a) * C + b, held.counts


def merge_cells(one: PairedCells, other: PairedCells) -> PairedCells:
    """Return the sum of two sets of cells over the union of their classes and units."""
    if (one.units is None) != (other.units is None) or one.clustered != other.clustered:
        validate.refuse("groups and clusters", "given for all counts or for none", "counts with and without")
    axis = one.axis.union(other.axis, "labels")
    units = one.units if one.units is None or other.units is None else one.units.union(other.units)
    check_key_range(1 if units is None else len(units.rows), len(axis.labels))
    most = overflow_checks.sum_counts(one.counts) + overflow_checks.sum_counts(other.counts)
    if most > validate.LARGEST_INT64:
        validate.refuse("counts", "at most 2**63 - 1 samples in all", f"{most:,}", OverflowError)
    parts = [recode_cells(held, axis, units) for held in (one, other)]
    keys, counts = (np.concatenate(both) for both in zip(*parts, strict=True))
    return PairedCells(axis, units, one.clustered, *sort_cells(keys, counts))


def pack_parts(held: PairedCells) -> dict[str, Any]:
    """Return the parts of a saved state."""
    parts: dict[str, Any] = {"classes": held.axis.to_json_dict(), "clustered": int(held.clustered)}
    if held.units is not None:
        parts |= {"columns": held.units.to_json_dict(), "units": held.units.rows}
    return parts | {"keys": held.keys, "counts": held.counts}


def unpack_parts(parts: dict[str, Any]) -> PairedCells:
    """Rebuild the cells from the parts of a saved state; refuse inconsistent parts."""
    axis, units = Axis.from_json_dict(parts["classes"]), None
    demand(("columns" in parts) == ("units" in parts), "its groups are not whole")
    if "units" in parts:
        units = Keys.from_json_dict(parts["columns"], np.asarray(parts["units"]))
    clustered = int(parts["clustered"])
    demand(clustered in (0, 1) and not (clustered and units is None), "its clusters are not there")
    keys, counts = (np.asarray(parts[name]).astype(np.int64) for name in ("keys", "counts"))
    n = (1 if units is None else len(units.rows)) * len(axis.labels) ** 3
    demand(n <= validate.LARGEST_INT64 and keys.shape == counts.shape, "its cells have no counts")
    ordered = not keys.size or (keys[0] >= 0 and keys[-1] < n and bool((np.diff(keys) > 0).all()))
    demand(ordered, "its cells are not in order")
    demand(
        bool((counts > 0).all()) and overflow_checks.sum_counts(counts) <= validate.LARGEST_INT64,
        "its counts are no counts",
    )
    return PairedCells(axis, units, bool(clustered), keys, counts)


def make_empty_cells() -> PairedCells:
    """Return cells of no samples."""
    return PairedCells(Axis((), FOUND), None, False, np.empty(0, np.int64), np.empty(0, np.int64))
