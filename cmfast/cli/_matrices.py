"""Matrices in files: which they may be, and how they are normalised."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import cmfast
from cmfast._files import matrices, points
from cmfast._files.output import FileError
from cmfast._files.sources import Source, reached
from cmfast.cli._options import bar, compute, misuse

OTHER_KINDS = (".npz", ".csv", ".tsv", ".txt", ".json", ".zarr", *points.TABLES)


def check(source: Source, shape: tuple[int, ...], dtype: np.dtype[Any], *, square: bool) -> None:
    """Refuse by the name of the file what the functions would refuse."""
    if len(shape) < 2 or (square and shape[-2] != shape[-1]):
        what = "square matrices (..., C, C)" if square else "matrices (..., R, C)"
        raise FileError(str(source), f"must hold {what}, but its shape is {shape}")
    if dtype.kind not in "buif" or dtype.itemsize > 8:
        raise FileError(str(source), f"must hold real numbers of at most 64 bits, but its dtype is {dtype}")


def stored(args: argparse.Namespace) -> np.ndarray:
    """Return the array of one file of matrices, which is read where it is touched."""
    if args.cells and args.input.suffix.lower() not in matrices.TABLES:
        misuse("--cells belongs to a table")
    tick = bar(args, args.command) or (lambda done, total: None)
    if isinstance(args.input, Path):
        return matrices.open_matrices(args.input, args.cells, tick=tick)
    with reached((args.input,)) as (path,):  # the copy of it ends here
        return np.array(matrices.open_matrices(path, args.cells, tick=tick))


def normalized(M: np.ndarray, method: str, on_failure: str, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return matrices normalised, and the status of each; what is said of those that fail is up to `on_failure`."""
    try:
        out = compute(cmfast.normalize, M, method, on_failure="raise", **options)
    except cmfast.FailureError as error:  # it has the status of every matrix; the same again for the matrices
        return compute(cmfast.normalize, M, method, on_failure=on_failure, **options), np.asarray(error.status)
    return out, np.zeros(M.shape[:-2], np.int8)
