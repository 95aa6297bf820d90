"""Read contact maps (cool, mcool, hic, npz, pixel tables) and write balancing weights into cool files."""

import os
import shutil
from collections.abc import Callable
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
HDF5_BYTES = 1 << 20  # bytes of HDF5 metadata per column
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


def _get_cool_group(path: Path, file: Any, group: str) -> Any:
    """Return the HDF5 group of a map; raise FileError listing the available groups if it has none."""
    found = file.get(group)
    for part in (found, file.get("resolutions")):
        _check_is_own(path, file, part)
    if found is None or "pixels" not in found or "bins" not in found:
        inner = [f"{RESOLUTIONS}{name}" for name in file.get("resolutions", ())]
        there = f"; give one of them: {path}::{inner[0]} (there are: {', '.join(inner)})" if inner else ""
        raise FileError(path, f"has no map in {'its root' if group == '/' else repr(group)}{there}")
    if str(found.attrs.get("storage-mode", "symmetric-upper")) != "symmetric-upper":
        raise FileError(path, "holds a map that is not symmetric, which has no weights")
    for name in PARTS:
        _check_is_own(path, file, found.get(name))
    return found


def _check_is_own(path: Path, file: Any, part: Any) -> None:
    """Raise FileError if a part of a cool file is a link to another file, which could be any file of the user."""
    if part is None:
        return
    is_elsewhere = part.file.filename != file.filename
    if is_elsewhere or (hasattr(part, "is_virtual") and (part.is_virtual or part.external)):
        raise FileError(path, f"has {part.name} in another file, which is neither read nor written")


def _read_cool(path: Path, group: str, tick: Callable[[int, int], object]) -> PixelMap:
    """Read a contact map from a group of a cool or mcool file."""
    h5py = tables.require_module("h5py", path, "maps")
    with tables.catch_reader_errors(path, "not readable"), h5py.File(path, "r") as file:
        found = _get_cool_group(path, file, group)
        pixels, number = found["pixels"], len(found["pixels"]["count"])
        parts: list[np.ndarray] = []
        for name in ("bin1_id", "bin2_id", "count"):
            column = _make_column(path, number, pixels[name].dtype)
            for start in range(0, number, READ_PIXELS):
                column[start : start + READ_PIXELS] = pixels[name][start : start + READ_PIXELS]
                tick((len(parts) * number + min(start + READ_PIXELS, number)) // 3, number)
            parts.append(column)
        names = [name.decode() if isinstance(name, bytes) else str(name) for name in found["chroms"]["name"][:]]
        offsets = [int(k) for k in found["indexes"]["chrom_offset"][:]]
        rows, columns, values = parts
        return PixelMap(rows, columns, values, len(found["bins"]["start"]), names, offsets)


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
    with tables.catch_reader_errors(path, "not readable"):
        file = hictkpy.File(str(path), resolution)
        cells = file.fetch(count_type="float64").to_coo("upper_triangle")
        lengths = file.chromosomes()
        offsets = np.concatenate([[0], np.cumsum([-(-length // resolution) for length in lengths.values()])])
        return PixelMap(cells.row, cells.col, cells.data, int(cells.shape[0]), list(lengths), offsets.tolist())


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
        lines = tables.csv_lines(path)
        _, names, _ = next(lines, (0, [], 0))
        places = _find_pixel_columns(path, [name.strip() for name in names])
        cells = [[row[k] for k in places] for _, row, _ in lines if len(row) > max(places)]
        text = np.array(cells, np.str_).reshape(-1, 3)
        try:
            rows, columns, values = text[:, 0].astype(np.int64), text[:, 1].astype(np.int64), text[:, 2].astype(float)
        except (ValueError, OverflowError):  # whose text is NumPy's
            raise FileError(path, "holds a cell that is not a number, or a bin that is not a whole one") from None
    else:
        tables.require_module("pyarrow", path)
        names, _, parts = tables.arrow_batches(path)
        blocks = list(parts(_find_pixel_columns(path, names)))
        with tables.catch_reader_errors(path, "holds a cell that is not a number"):
            found = [[one.to_numpy(zero_copy_only=False) for one in block] for block in blocks] or [[np.zeros(0)] * 3]
            rows, columns, values = (np.concatenate([part[k] for part in found]) for k in range(3))
            rows, columns = rows.astype(np.int64, casting="safe"), columns.astype(np.int64, casting="safe")
    n = 1 + max(int(rows.max(initial=-1)), int(columns.max(initial=-1)))
    return PixelMap(rows, columns, values, n, None, None)


def _find_pixel_columns(path: Path, names: list[str]) -> list[int]:
    """Return the positions of the row, column and value columns, recognised by name."""
    lower = [name.lower() for name in names]
    known = [[lower.index(name) for name in wanted if name in lower] for wanted in COLUMN_NAMES]
    if not all(known):
        wanted = ", ".join(" or ".join(some) for some in COLUMN_NAMES)
        raise FileError(path, f"needs columns {wanted} (has: {', '.join(names)})")
    return [places[0] for places in known]


def has_weights(path: Path, group: str, name: str) -> bool:
    """Whether a cool file has weights of that name."""
    h5py = tables.require_module("h5py", path, "maps")
    with tables.catch_reader_errors(path, "not readable"), h5py.File(path, "r") as file:
        return f"bins/{name}" in _get_cool_group(path, file, group)


def write_weights(
    source: Path, group: str, target: Path, name: str, weights: np.ndarray, facts: dict[str, Any], *, force: bool
) -> None:
    """Copy the cool file `source` to `target` (possibly the same) with a column of weights, as cooler stores them."""
    h5py = tables.require_module("h5py", source, "maps")
    with replace_file(target, force=force) as file:
        with source.open("rb") as given:
            shutil.copyfileobj(given, file, 1 << 22)
        # HDF5 crashes the process on a full disk: reserve the space first; HDF5 truncates what it does not use.
        file.write(bytes(2 * weights.nbytes + HDF5_BYTES))
        file.flush()
        os.fsync(file.fileno())
        with (
            tables.catch_reader_errors(target, "cannot be written"),
            h5py.File(file.name, "r+", locking=False) as edited,
        ):
            bins = _get_cool_group(source, edited, group)["bins"]
            if name in bins:
                del bins[name]
            column = bins.create_dataset(name, data=weights, compression="gzip", compression_opts=6)
            column.attrs.update(facts)
