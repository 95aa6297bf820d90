"""Open and validate files of matrices."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from cmfast._files import matrices, points
from cmfast._files.output import FileError
from cmfast._files.sources import open_locally
from cmfast._files.stores import Source
from cmfast.cli._calls import tick
from cmfast.cli._parser import misuse

OTHER_KINDS = (".npz", ".csv", ".tsv", ".txt", ".json", ".zarr", *points.TABLES)


def open_matrices(args: argparse.Namespace) -> np.ndarray:
    """Return the matrices of one file as an array read from disk on access."""
    if args.cells and args.input.suffix.lower() not in matrices.TABLES:
        misuse("--cells belongs to a table")
    if isinstance(args.input, Path):
        return matrices.open_matrices(args.input, args.cells, tick=tick(args, args.command))
    with open_locally((args.input,)) as (path,):  # the local copy is removed at the end of the block
        return np.array(matrices.open_matrices(path, args.cells, tick=tick(args, args.command)))


def check_matrices(source: Source, shape: tuple[int, ...], dtype: np.dtype[Any], *, square: bool) -> None:
    """Raise FileError, naming the file, for shapes and dtypes that the functions would refuse."""
    if len(shape) < 2 or (square and shape[-2] != shape[-1]):
        what = "square matrices (..., C, C)" if square else "matrices (..., R, C)"
        raise FileError(str(source), f"must hold {what}, but its shape is {shape}")
    if dtype.kind not in "buif" or dtype.itemsize > 8:
        raise FileError(str(source), f"must hold real numbers of at most 64 bits, but its dtype is {dtype}")


def check_is_npy(option: str, path: Path | None) -> None:
    """Raise UsageError if an output path has the suffix of another format than npy."""
    if path is not None and path.suffix.lower() in OTHER_KINDS:
        misuse(f"{option} is written as npy, so its name should not end in {path.suffix}")


def local_files(*sources: Source) -> tuple[Path, ...]:
    """Return the sources that are local paths."""
    return tuple(source for source in sources if isinstance(source, Path))


def count_matrices(n: int) -> str:
    """Return the number of matrices as text."""
    return "1 matrix" if n == 1 else f"{n:,} matrices"


def block_bytes(args: argparse.Namespace) -> int:
    """Return the size in bytes of a block of matrices."""
    return int(min(args.block_mb, 2**40) * 2**20)
