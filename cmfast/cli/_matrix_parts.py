"""Process batches of matrices from many files in parts: plan, read, compute, pack results."""

import argparse
import io
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from cmfast._files import points, sources
from cmfast._files.output import FileError, write_npz
from cmfast._files.sources import open_sources
from cmfast.cli._cluster import Part, Task

Layout: TypeAlias = tuple[tuple[int, ...], np.dtype[Any], int]  # shape, dtype, and rows per chunk


class Batch(NamedTuple):
    """Shape and dtype of the matrices of all files together, and their parts."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    parts: list[Part]


def plan_parts(args: argparse.Namespace, block_bytes: Callable[[int], int], *, placed: bool = False) -> Batch:
    """Plan the parts of all matrix files, concatenated in order; a file with one matrix is a batch of one.

    `block_bytes` returns the size of a part for a number of columns; `placed` parts know their offset in the batch.
    """
    files = sources.expand_source(args.input)
    named: dict[int, Layout] = dict(args.tasks.each(_layout, [Part((one,)) for one in files]))
    known = [named[k] for k in range(len(files))]
    first, dtype, _ = known[0]
    if len(files) == 1 and len(first) == 2:
        return Batch(first, dtype, [Part((files[0],))])
    for one, (shape, kind, _) in zip(files, known, strict=True):
        if (_batch_shape(shape)[1:], kind) != (_batch_shape(first)[1:], dtype):
            raise FileError(str(one), f"holds {_describe(shape, kind)}, but {files[0]} {_describe(first, dtype)}")
    parts: list[Part] = []
    end = 0
    for one, (shape, _, chunk) in zip(files, known, strict=True):
        number = math.prod(_batch_shape(shape)[:-2])
        end += number
        place = end - number if placed else 0
        if len(shape) == 2:
            parts.append(Part((one,), place=place))
            continue
        each = max(int(np.prod(shape[1:])) * max(8, dtype.itemsize), 1)
        step = points.round_to_chunks(block_bytes(shape[-1]) // each, chunk)
        inner = math.prod(shape[1:-2]) if placed else 0
        parts += [
            Part((one,), (start, min(start + step, shape[0])), place + start * inner)
            for start in range(0, max(shape[0], 1), step)
        ]
    return Batch((sum(_batch_shape(shape)[0] for shape, _, _ in known), *_batch_shape(first)[1:]), dtype, parts)


def _batch_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape with a batch axis of 1 added to a single matrix."""
    return shape if len(shape) > 2 else (1, *shape)


def _describe(shape: tuple[int, ...], dtype: np.dtype[Any]) -> str:
    """Describe shape and dtype of matrices for a message."""
    return f"matrices of {' x '.join(map(str, _batch_shape(shape)[1:]))} {dtype}"


def _layout(part: Part, *, threads: int | None) -> Layout:
    """Return shape, dtype and rows per chunk of an array of matrices."""
    del threads
    (source,) = part.sources
    if source.suffix.lower() not in points.ARRAYS:
        raise FileError(str(source), f"is no file of matrices, which ends in {' or '.join(points.ARRAYS)}")
    with open_sources(part.sources, points.ARRAYS) as (path,):
        shape, dtype, chunk = points.read_layout(path)
        if len(shape) < 2:
            raise FileError(path, f"must hold matrices (..., R, C), but its shape is {shape}")
        return shape, dtype, chunk


def read_part(part: Part) -> np.ndarray:
    """Read the matrices of a part, shape (b, R, C)."""
    with open_sources(part.sources, points.ARRAYS) as (path,):
        M = points.open_array(path, tick=lambda done, total: None, rows=part.rows)
        return np.array(M).reshape(-1, *M.shape[-2:])


def pack_arrays(**arrays: np.ndarray | None) -> bytes:
    """Pack arrays into the bytes of an npz archive, leaving out None."""
    file = io.BytesIO()
    write_npz(file, {name: array for name, array in arrays.items() if array is not None})
    return file.getvalue()


def compute_parts(
    args: argparse.Namespace, kind: str, task: Task, found: Batch, *given: Any
) -> Iterator[dict[str, np.ndarray]]:
    """Yield the arrays computed by a task for each part, in order."""
    for path in args.tasks.states(kind, task, found.parts, *given):
        with np.load(path, allow_pickle=False) as archive:
            yield dict(archive)
