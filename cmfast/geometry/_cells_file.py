"""Saved parts of cell counts, and their validation when a file is read."""

from typing import Any, NamedTuple

import numpy as np

from cmfast._core.adapters import adapter
from cmfast._files.archive import demand
from cmfast.geometry._grid import Grid
from cmfast.geometry._limits import MOST_MATRIX_CLASSES, MOST_POINTS
from cmfast.kernels.shared.geometry_keys import DROPPED, MOST_INDEX, Ranges, bits_of, fits, volume


class Fields(NamedTuple):
    """Constructor arguments of :class:`cmfast.CellCounts`, in order."""

    grid: Grid
    n_classes: int
    counts: Any
    n_dropped: int
    keys: Any
    table: Any
    ranges: Ranges


def get_parts(cells: Any) -> dict[str, Any]:
    """Return the arrays and numbers of `cells` that are saved, by name, on the host."""
    return {
        "origin": cells.grid.origin,
        "width": cells.grid.width,
        "n_classes": cells.n_classes,
        "n_dropped": cells.n_dropped,
        "low": np.array(cells._ranges[0], np.int64),
        "extent": np.array(cells._ranges[1], np.int64),
        "keys": adapter(cells._keys).to_host(cells._keys),
        "counts": adapter(cells.counts).to_host(cells.counts),
        "table": None if cells._table is None else adapter(cells._table).to_host(cells._table),
    }


def check_parts(parts: dict[str, np.ndarray]) -> Fields:
    """Validate the parts of an untrusted file against everything that the algorithms rely on; return the fields."""
    n_classes, n_dropped = int(parts["n_classes"]), int(parts["n_dropped"])
    keys, counts, table = parts["keys"], parts["counts"], parts.get("table")
    low, extent = (tuple(map(int, parts[name])) for name in ("low", "extent"))
    grid = Grid._restore({name: parts[name] for name in ("origin", "width")})
    demand(
        0 <= n_classes <= MOST_MATRIX_CLASSES and 0 <= n_dropped <= MOST_POINTS, "its n_classes or n_dropped cannot be"
    )
    demand(len(low) == len(extent) == grid.n_axes, "its origin, low and extent differ in length")
    demand(all(n > 0 for n in extent) or not any(extent), "its extent cannot be")
    far = int(MOST_INDEX)
    demand(all(-far <= a and a + n - 1 <= far for a, n in zip(low, extent, strict=True)), "its low cannot be")
    demand(len(keys) == len(counts), "its keys and counts differ in number")
    half = bits_of(n_classes)
    # Keys are ranks if and only if the ranges exceed 63 bits, because merging decides by the ranges.
    demand((table is None) == fits(extent, 2 * half), "its extent cannot be, with or without a table")
    if table is not None:
        _check_table(table, low, extent)
    n_cells = volume(extent) if table is None else len(table)
    demand(n_cells << (2 * half) < DROPPED, "its extent cannot be")
    demand(bool((keys[1:] > keys[:-1]).all()), "its keys are not in order")
    demand(not len(keys) or (keys[0] >= 0 and int(keys[-1]) >> (2 * half) < n_cells), "its keys cannot be")
    for tags in (keys >> half, keys):
        demand(not len(keys) or int((tags & ((1 << half) - 1)).max()) < n_classes, "its keys have other classes")
    demand(bool((counts > 0).all()), "its counts are not all above 0")
    # Summed in 32-bit halves, which cannot overflow.
    total = (int((counts >> 32).sum()) << 32) + int((counts & 0xFFFFFFFF).sum())
    demand(total <= MOST_POINTS, "its counts add up to 2**61 or more")
    return Fields(grid, n_classes, counts, n_dropped, keys, table, (low, extent))


def _check_table(table: np.ndarray, low: tuple[int, ...], extent: tuple[int, ...]) -> None:
    """Validate that the rows of `table` are distinct, sorted and inside the ranges."""
    demand(table.shape[1] == len(low), "its table has another number of axes")
    last = [a + n - 1 for a, n in zip(low, extent, strict=True)]
    inside = all(int(x.min()) >= a and int(x.max()) <= b for x, a, b in zip(table.T, low, last, strict=True) if len(x))
    demand(inside, "its table leaves its ranges")
    differs = table[1:] != table[:-1]
    first = differs.argmax(axis=1)[:, None]  # the first axis on which a row differs from its predecessor
    above = np.take_along_axis(table[1:] > table[:-1], first, axis=1)
    demand(bool(above.all()), "its table is not in order")
