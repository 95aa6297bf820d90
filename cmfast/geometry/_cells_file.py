"""Files of cell counts: npz without pickle, of which nothing is believed when they are read."""

from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cmfast._core import dispatch, validate
from cmfast._files import archive, output
from cmfast._files.archive import DamagedError, demand
from cmfast.geometry._grid import Grid
from cmfast.geometry._limits import MOST_CLASSES, MOST_POINTS
from cmfast.kernels.shared.geometry_keys import DROPPED, MOST_INDEX, Ranges, bits_of, fits, volume

FORMAT = 1
PARTS = {  # types and dimensions of the arrays
    "format": (("<i8",), 0),
    "origin": (("<f8",), 1),
    "width": (("<f8",), 1),
    "n_classes": (("<i8",), 0),
    "n_dropped": (("<i8",), 0),
    "low": (("<i8",), 1),
    "extent": (("<i8",), 1),
    "keys": (("<i8",), 1),
    "counts": (("<i8",), 1),
    "table": (("|i1", "<i2", "<i4", "<i8"), 2),
}


class Fields(NamedTuple):
    """What :class:`cmfast.CellCounts` is made of, in its order."""

    grid: Grid
    n_classes: int
    counts: Any
    n_dropped: int
    keys: Any
    table: Any
    ranges: Ranges


def write(path: str | PathLike[str], cells: Fields) -> None:
    """Write `cells`; a file that exists is replaced when the new one is whole."""
    target = Path(validate.path_name("path", path)).resolve()
    if target.exists() and not target.is_file():  # whoever may replace a device would have a file in its place
        validate.refuse("path", "the name of a file", f"a folder or device, {str(path)!r}")
    arrays: dict[str, Any] = {
        "format": np.array(FORMAT, "<i8"),
        "origin": cells.grid.origin.astype("<f8"),
        "width": cells.grid.width.astype("<f8"),
        "n_classes": np.array(cells.n_classes, "<i8"),
        "n_dropped": np.array(cells.n_dropped, "<i8"),
        "low": np.array(cells.ranges[0], "<i8"),
        "extent": np.array(cells.ranges[1], "<i8"),
        "keys": dispatch.to_host(cells.keys).astype("<i8", copy=False),
        "counts": dispatch.to_host(cells.counts).astype("<i8", copy=False),
    }
    if cells.table is not None:
        table = dispatch.to_host(cells.table)
        arrays["table"] = table.astype(table.dtype.newbyteorder("<"), copy=False)
    with output.replacing(target) as file:  # open: numpy.savez would append .npz to a name
        output.write_npz(file, arrays)


def read(path: str | PathLike[str]) -> Fields:
    """Return what :func:`write` wrote."""
    name = validate.path_name("path", path)
    try:
        with open(name, "rb") as file:  # noqa: PTH123  (a name that need not be a Path)
            parts = archive.read(file, PARTS, optional=("table",))
        return _checked(parts)
    except DamagedError as error:
        validate.fail(f"{name} is not a file of cell counts, or damaged: {error}")


def _checked(parts: dict[str, np.ndarray]) -> Fields:
    """Check everything that the algorithms rely on; a file is never trusted."""
    number = {name: int(parts[name]) for name in ("format", "n_classes", "n_dropped")}
    demand(number["format"] == FORMAT, f"it has format {number['format']}, this version reads {FORMAT}")
    keys, counts, table = parts["keys"], parts["counts"], parts.get("table")
    low, extent = (tuple(map(int, parts[name])) for name in ("low", "extent"))
    n_classes, n_dropped = number["n_classes"], number["n_dropped"]
    try:
        grid = Grid(parts["origin"], parts["width"])
    except ValueError as error:
        raise DamagedError(str(error)) from None
    demand(0 <= n_classes <= MOST_CLASSES and 0 <= n_dropped <= MOST_POINTS, "its n_classes or n_dropped cannot be")
    demand(len(low) == len(extent) == grid.n_axes, "its origin, low and extent differ in length")
    demand(all(n > 0 for n in extent) or not any(extent), "its extent cannot be")
    far = int(MOST_INDEX)
    demand(all(-far <= a and a + n - 1 <= far for a, n in zip(low, extent, strict=True)), "its low cannot be")
    demand(len(keys) == len(counts), "its keys and counts differ in number")
    half = bits_of(n_classes)
    # Keys are ranks exactly where the ranges leave no other choice: merging decides by the ranges.
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
    # In halves, so that sums cannot wrap.
    total = (int((counts >> 32).sum()) << 32) + int((counts & 0xFFFFFFFF).sum())
    demand(total <= MOST_POINTS, "its counts add up to 2**61 or more")
    return Fields(grid, n_classes, counts, n_dropped, keys, table, (low, extent))


def _check_table(table: np.ndarray, low: tuple[int, ...], extent: tuple[int, ...]) -> None:
    """Check that `table` has different rows, in order, inside the ranges."""
    demand(table.shape[1] == len(low), "its table has another number of axes")
    last = [a + n - 1 for a, n in zip(low, extent, strict=True)]
    inside = all(int(x.min()) >= a and int(x.max()) <= b for x, a, b in zip(table.T, low, last, strict=True) if len(x))
    demand(inside, "its table leaves its ranges")
    differs = table[1:] != table[:-1]
    first = differs.argmax(axis=1)[:, None]  # the first axis on which a row differs from the one before
    above = np.take_along_axis(table[1:] > table[:-1], first, axis=1)
    demand(bool(above.all()), "its table is not in order")
