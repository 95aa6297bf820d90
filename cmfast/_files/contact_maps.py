"""Read contact maps (cool, mcool, hic, npz, pixel tables) and write balancing weights into cool files."""

import os
import shutil
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cmfast._files import tables
from cmfast._files.output import FileError, replace_file
from cmfast._files.points import TABLES

COOLS = (".cool", ".mcool")
COLUMN_NAMES = (  # accepted names of table columns: row, column, value
    ("bin1_id", "bin1", "row", "i"),
    ("bin2_id", "bin2", "column", "col", "j"),
    ("count", "value", "values", "counts"),
)
RESOLUTIONS = "resolutions/"
PARTS = (  # of a group that are read or written
    "pixels", "pixels/bin1_id", "pixels/bin2_id", "pixels/count", "bins", "bins/start",
    "chroms", "chroms/name", "indexes", "indexes/chrom_offset",
)  # fmt: skip
BIN_COLUMNS = ("chrom", "start", "end")  # of the map itself, which no weights may replace
HDF5_MAGIC, HIC_MAGIC = b"\x89HDF\r\n\x1a\n", b"HIC\0"
MOST_LINKS = 16  # soft links that lead to a part
HDF5_BYTES = 1 << 20  # bytes of HDF5 metadata per column
NO_PIXEL = "a cell that is not a number, or a bin that is not a whole one"
READ_PIXELS = 1 << 24  # pixels read at a time
KNOWN = ".cool, .mcool, .hic, .npz, .csv, .tsv, .parquet, .arrow, .feather"


class PixelMap(NamedTuple):
    """Pixels of a contact map as stored, and the first bins of chromosomes; None if the file has no chromosomes."""

    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    n: int
    chromosomes: list[str] | None
    offsets: list[int] | None


def split_group(name: str) -> tuple[Path, str]:
    """Split ``file::group`` into path and group; the group is "/" if none is named."""
    path, _, group = name.partition("::")
    return Path(path), group.strip("/") or "/"


def read_map(path: Path, group: str, resolution: int | None, tick: Callable[[int, int], object]) -> PixelMap:
    """Read the contact map in a file of any supported kind."""
    suffix = path.suffix.lower()
    if group != "/" and suffix not in COOLS:
        raise FileError(path, f"has no group {group!r}; only cool and mcool files have groups")
    if resolution is not None and suffix != ".hic":
        raise FileError(path, "has one resolution, or a group for each; --resolution is for hic")
    tables.check_source(path)
    if suffix in COOLS:
        return _read_cool(path, group, tick)
    if suffix == ".hic":
        return _read_hic(path, resolution)
    if suffix == ".npz":
        return _read_npz(path)
    if suffix in (*tables.TEXTS, *TABLES):
        return _read_table(path)
    raise FileError(path, f"unknown kind of file {suffix!r} (known: {KNOWN})")


def _get_cool_parts(path: Path, file: Any, group: str) -> dict[str, Any]:
    """Return the HDF5 groups and columns of a map by name; raise FileError listing the available groups if it has none.

    Links to other files are refused without following them, which would open these files.
    """
    root = file["/"]
    found = _follow(path, root, root, group)
    resolutions = _follow(path, root, root, "resolutions")
    parts = {name: _follow(path, root, found, name) for name in PARTS}
    if found is None or parts["pixels"] is None or parts["bins"] is None:
        inner = [f"{RESOLUTIONS}{name}" for name in (resolutions if hasattr(resolutions, "keys") else ())]
        there = f"; give one of them: {path}::{inner[0]} (there are: {', '.join(inner)})" if inner else ""
        raise FileError(path, f"has no map in {'its root' if group == '/' else repr(group)}{there}")
    if str(found.attrs.get("storage-mode", "symmetric-upper")) != "symmetric-upper":
        raise FileError(path, "holds a map that is not symmetric, which has no weights")
    if missing := [name for name, part in parts.items() if part is None]:
        raise FileError(path, f"has no {missing[0]} in its map")
    return parts


def _follow(path: Path, root: Any, start: Any, name: str) -> Any:
    """Return the part of a cool file that a name leads to by links within the file, None if none exists."""
    import h5py

    found, steps, links = start, name.split("/"), 0
    while steps:
        step = steps.pop(0)
        if step in ("", "."):
            continue
        link = _get_link(found, step)
        if link is None:
            return None
        where = f"{found.name.rstrip('/')}/{step}"
        if isinstance(link, h5py.SoftLink):
            links += 1
            if links > MOST_LINKS:
                raise FileError(path, f"has {where} behind more than {MOST_LINKS} links")
            found, steps = root if link.path.startswith("/") else found, link.path.split("/") + steps
            continue
        if isinstance(link, h5py.ExternalLink) or _is_stored_elsewhere(part := found[step]):  # links are not followed
            raise FileError(path, f"has {where} in another file, which is neither read nor written")
        found = part
    return found


def _is_stored_elsewhere(part: Any) -> bool:
    """Whether a part of an HDF5 file is a dataset whose values are in another file."""
    import h5py

    return isinstance(part, h5py.Dataset) and bool(part.is_virtual or part.external)


def _get_link(part: Any, name: str) -> Any:
    """Return the link of this name in a part of an HDF5 file; None if none exists, or the part is no group."""
    import h5py

    return part.get(name, getlink=True) if isinstance(part, h5py.Group) else None


def _read_cool(path: Path, group: str, tick: Callable[[int, int], object]) -> PixelMap:
    """Read a contact map from a group of a cool or mcool file."""
    h5py = tables.require_module("h5py", path, "maps")
    with tables.catch_reader_errors(path, "not readable"), h5py.File(path, "r") as file:
        found = _get_cool_parts(path, file, group)
        number = len(found["pixels/count"])
        parts: list[np.ndarray] = []
        for name in ("bin1_id", "bin2_id", "count"):
            stored = found[f"pixels/{name}"]
            column = _make_column(path, number, stored.dtype)
            for start in range(0, number, READ_PIXELS):
                column[start : start + READ_PIXELS] = stored[start : start + READ_PIXELS]
                tick((len(parts) * number + min(start + READ_PIXELS, number)) // 3, number)
            parts.append(column)
        names = [name.decode() if isinstance(name, bytes) else str(name) for name in found["chroms/name"][:]]
        offsets = [int(k) for k in found["indexes/chrom_offset"][:]]
        n = len(found["bins/start"])
        if len(offsets) != len(names) + 1 or offsets != sorted(offsets) or (offsets[0], offsets[-1]) != (0, n):
            raise FileError(path, f"has {len(names)} chromosomes, whose offsets do not divide its {n:,} bins")
        rows, columns, values = parts
        return PixelMap(rows, columns, values, n, names, offsets)


def _make_column(path: Path, number: int, dtype: np.dtype) -> np.ndarray:
    """Return an uninitialised column of pixels."""
    try:
        return np.empty(number, dtype)
    except MemoryError:
        raise FileError(path, f"says that it has {number:,} pixels, more than fit into memory") from None


def _read_hic(path: Path, resolution: int | None) -> PixelMap:
    """Read a contact map of one resolution from a hic file."""
    hictkpy: Any = tables.require_module("hictkpy", path, "maps")
    if resolution is None:
        raise FileError(path, "holds maps of several resolutions, give --resolution")
    _check_hic(path)
    with tables.catch_reader_errors(path, "not readable"):
        file = hictkpy.File(str(path), resolution)
        cells = file.fetch(count_type="float64").to_coo("upper_triangle")
        lengths = file.chromosomes()
        offsets = np.concatenate([[0], np.cumsum([-(-length // resolution) for length in lengths.values()])])
        return PixelMap(cells.row, cells.col, cells.data, int(cells.shape[0]), list(lengths), offsets.tolist())


def _check_hic(path: Path) -> None:
    """Raise FileError unless a file begins as hic files do, and is no HDF5 file, which hictkpy would read as a cooler.

    HDF5 looks for its signature at the beginning, and then at 512 bytes, 1,024, 2,048, ...
    """
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        places = [0, *(512 << k for k in range(max(size, 1).bit_length()))]
        found = [file.read(8) for place in places if place < size and file.seek(place) == place]
    if HDF5_MAGIC in found:
        raise FileError(path, "is an HDF5 file; a map of cooler must be named .cool or .mcool")
    if not found or not found[0].startswith(HIC_MAGIC):
        raise FileError(path, "is no hic file")


def _read_npz(path: Path) -> PixelMap:
    """Read a contact map from a scipy.sparse npz file."""
    from scipy.sparse import load_npz

    with tables.catch_reader_errors(path, "is no matrix of scipy.sparse.save_npz"):
        cells = load_npz(path).tocoo()
    if cells.shape[0] != cells.shape[1]:
        raise FileError(path, f"holds a matrix of shape {cells.shape}, which is not square")
    return PixelMap(cells.row, cells.col, cells.data, int(cells.shape[0]), None, None)


def _read_table(path: Path) -> PixelMap:
    """Read a pixel table with columns for row, column and value, recognised by name."""
    if path.suffix.lower() in tables.TEXTS:
        blocks = list(_read_text_blocks(path))
        rows, columns, values = (np.concatenate([block[k] for block in blocks]) for k in range(3))
    else:
        tables.require_module("pyarrow", path)
        names, _, parts = tables.arrow_batches(path)
        arrow = list(parts(_find_pixel_columns(path, names)))
        with tables.catch_reader_errors(path, "holds a cell that is not a number"):
            found = [[one.to_numpy(zero_copy_only=False) for one in block] for block in arrow] or [[np.zeros(0)] * 3]
            rows, columns, values = (np.concatenate([part[k] for part in found]) for k in range(3))
            rows, columns = rows.astype(np.int64, casting="safe"), columns.astype(np.int64, casting="safe")
    n = 1 + max(int(rows.max(initial=-1)), int(columns.max(initial=-1)))
    return PixelMap(rows, columns, values, n, None, None)


def _read_text_blocks(path: Path) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield rows, columns and values of a csv or tsv file, a block of lines at a time; at least one block."""
    lines = tables.csv_lines(path)
    _, names, _ = next(lines, (0, [], 0))
    places = _find_pixel_columns(path, [name.strip() for name in names])
    while True:
        block = [(line, row) for line, row, _ in islice(lines, tables.TABLE_BLOCK_ROWS)]
        cells = [[row[k] for _, row in block] for k in places]
        tables.check_cells(path, [line for line, _ in block], cells)
        try:
            rows, columns = (np.array(list(map(int, column)), np.int64) for column in cells[:2])
            values = np.array(list(map(float, cells[2])), np.float64)
        except (ValueError, OverflowError):
            raise FileError(path, f"line {_find_odd_line(block, places)} holds {NO_PIXEL}") from None
        yield rows, columns, values
        if len(block) < tables.TABLE_BLOCK_ROWS:
            return


def _find_odd_line(block: list[tuple[int, list[str]]], places: list[int]) -> int:
    """Return the number of the first line whose cells are no pixel."""
    for line, row in block:
        try:
            np.array([int(row[k]) for k in places[:2]], np.int64)
            float(row[places[2]])
        except (ValueError, OverflowError):
            return line
    msg = "all lines hold pixels"
    raise AssertionError(msg)


def _find_pixel_columns(path: Path, names: list[str]) -> list[int]:
    """Return the positions of the row, column and value columns, recognised by name."""
    lower = [name.lower() for name in names]
    known = [[lower.index(name) for name in wanted if name in lower] for wanted in COLUMN_NAMES]
    if not all(known):
        wanted = ", ".join(" or ".join(some) for some in COLUMN_NAMES)
        raise FileError(path, f"needs columns {wanted} (has: {', '.join(names)})")
    return [places[0] for places in known]


def check_weight_name(name: str) -> str | None:
    """Return what is wrong with the name of a column of weights; None for a good name."""
    if name in BIN_COLUMNS:
        return f"is a column of the map itself ({', '.join(BIN_COLUMNS)})"
    if name in ("", ".", "..") or "/" in name or not name.isprintable():
        return "is no name of a column: give one without a slash"
    return None


def has_weights(path: Path, group: str, name: str) -> bool:
    """Whether a cool file has weights of that name."""
    h5py = tables.require_module("h5py", path, "maps")
    with tables.catch_reader_errors(path, "not readable"), h5py.File(path, "r") as file:
        return _has_column(path, _get_cool_parts(path, file, group)["bins"], name)


def _has_column(path: Path, bins: Any, name: str) -> bool:
    """Whether bins have a column; raise FileError if it is a link or anything else, which is not replaced."""
    import h5py

    link = bins.get(name, getlink=True)
    if link is None:
        return False
    if not isinstance(link, h5py.HardLink) or not isinstance(bins[name], h5py.Dataset):
        raise FileError(path, f"has bins/{name}, which is a link or no column; give another --name")
    return True


def write_weights(
    source: Path, group: str, target: Path, name: str, weights: np.ndarray, facts: dict[str, Any], *, force: bool
) -> None:
    """Copy the cool file `source` to `target` (possibly the same) with a column of weights, as cooler stores them."""
    if (what := check_weight_name(name)) is not None:
        msg = f"name={name!r} {what}"
        raise ValueError(msg)
    h5py = tables.require_module("h5py", source, "maps")
    with replace_file(target, force=force) as file:
        with source.open("rb") as given:
            shutil.copyfileobj(given, file, 1 << 22)
        # HDF5 crashes the process on a full disk: reserve the space first; HDF5 truncates what it does not use.
        file.write(bytes(2 * weights.nbytes + HDF5_BYTES))
        file.flush()
        os.fsync(file.fileno())
        with tables.catch_reader_errors(target, "cannot be written"):
            with h5py.File(file.name, "r", locking=False) as copied:  # judge all parts before writing
                _has_column(source, _get_cool_parts(source, copied, group)["bins"], name)
            with h5py.File(file.name, "r+", locking=False) as edited:
                bins = _get_cool_parts(source, edited, group)["bins"]
                if _has_column(source, bins, name):
                    del bins[name]
                column = bins.create_dataset(name, data=weights, compression="gzip", compression_opts=6)
                column.attrs.update(facts)
