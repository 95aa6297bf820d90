"""``cmfast normalize``: a file of confusion matrices, which may be larger than memory, normalised block by block."""

import argparse
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, get_args

import numpy as np

import cmfast
from cmfast._core.annotations import NORMALIZATIONS, Empty, Solver
from cmfast._files import points, tables
from cmfast._files.output import FileError, Outputs, check_target, write_block, write_npy_header
from cmfast._files.sources import Source, located
from cmfast.cli import _matrix_parts, _screen
from cmfast.cli._cluster import Part, cluster_options, in_parts
from cmfast.cli._options import (
    CELLS,
    MATRICES,
    Parser,
    bar,
    compute,
    given,
    misuse,
    natural_number,
    output_options,
    positive_number,
    scaling_options,
    stored,
)
from cmfast.cli._printing import print_json

Normalized: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray | None]  # matrices, status and residual of each

OTHER_KINDS = (".npz", ".csv", ".tsv", ".txt", ".json", ".zarr", *points.TABLES)


def add_options(parser: Parser) -> None:
    """Add what the command takes."""
    what = f"matrices, may be larger than memory: {MATRICES}; a folder, a glob or a URL of arrays, one behind the other"
    parser.add_argument("input", type=located, metavar="IN", help=what)
    parser.add_argument("--cells", nargs="+", metavar="COLUMN", help=f"{CELLS} (default: all)")
    output_options(parser, "npy file for the result", required=True)
    parser.add_argument("--method", choices=NORMALIZATIONS, default="bi", help="default bi")
    scaling_options(parser)
    parser.add_argument(
        "--tol", type=positive_number, help="bi: relative error of each row and column sum, default 1e-9"
    )
    parser.add_argument(
        "--max-iter",
        type=natural_number,
        metavar="N",
        help="bi: most passes, default 10000 sweeps or 200 Newton steps",
    )
    parser.add_argument("--solver", choices=get_args(Solver), help="bi: default auto")
    parser.add_argument("--empty", choices=get_args(Empty), help="bi: a class never true nor predicted, default nan")
    parser.add_argument("--status", type=Path, metavar="OUT.npy", help="also write the status code of every matrix")
    cluster_options(parser)
    parser.add_argument("--block-mb", type=positive_number, default=tables.BLOCK_BYTES / 2**20, help=argparse.SUPPRESS)


@in_parts
def run(args: argparse.Namespace) -> int:
    """Normalise the file; 1 if some of its matrices failed."""
    options = given(args, "smoothing", "tol", "max_iter", "solver", "empty")
    if args.method != "bi" and options:
        misuse(f"--{next(iter(options)).replace('_', '-')} belongs to --method bi")
    for option, path in (("--output", args.output), ("--status", args.status)):
        if path is not None and path.suffix.lower() in OTHER_KINDS:
            misuse(f"{option} is written as npy, so its name should not end in {path.suffix}")
    files = (args.input,) if isinstance(args.input, Path) else ()
    target = check_target(args.output, force=args.force, sources=files)
    codes_target = None
    if args.status is not None:
        if Path(os.path.realpath(args.status)) == target:
            misuse("--status and --output are the same file")
        codes_target = check_target(args.status, force=args.force, sources=(*files, args.output))
    started = time.perf_counter()
    shape, given_dtype, found = _found(args, options)
    with Outputs() as outputs:
        with outputs.replacing(target, force=args.force) as file:
            codes, residual, dtype = _write_normalized(found, shape, file, args)
        if codes_target is not None:
            with outputs.replacing(codes_target, force=args.force) as file:
                write_npy_header(file, shape[:-2], codes.dtype)
                write_block(file, codes)
    facts = {
        "input": str(args.input),
        "output": str(args.output),
        "shape": list(shape),
        "dtype": [str(given_dtype), str(dtype)],
        "method": args.method,
        "options": options,
        "matrices": len(codes),
        **_tally(codes),
        "largest_residual": residual,
        "seconds": round(time.perf_counter() - started, 3),
    }
    if args.json:
        print_json(facts)
    else:
        _print_normalized(facts)
    return 1 if facts["failed"] else 0


def _found(
    args: argparse.Namespace, options: dict[str, Any]
) -> tuple[tuple[int, ...], np.dtype[Any], Iterator[Normalized]]:
    """Return the shape and the type of all matrices, and what they are normalised, block by block."""
    block_bytes, square = int(min(args.block_mb, 2**40) * 2**20), args.method == "bi"
    if args.tasks.wanted(args.input):
        if args.cells is not None:
            misuse("--cells belongs to one table, read without --scheduler")
        whole = _matrix_parts.batch(args, lambda C: block_bytes)
        check(args.input, whole.shape, whole.dtype, square=square)
        made = _matrix_parts.made(args, "normalized", _part_normalized, whole, args.method, options)
        return whole.shape, whole.dtype, ((one["matrix"], one["status"], one.get("residual")) for one in made)
    M = stored(args)
    check(args.input, M.shape, M.dtype, square=square)
    blocks = tables.MatrixBlocks(M, block_bytes)
    return M.shape, M.dtype, (_block_normalized(block, args.method, options, args.threads) for block in blocks)


def check(source: Source, shape: tuple[int, ...], dtype: np.dtype[Any], *, square: bool) -> None:
    """Refuse by the name of the file what the functions would refuse."""
    if len(shape) < 2 or (square and shape[-2] != shape[-1]):
        what = "square matrices (..., C, C)" if square else "matrices (..., R, C)"
        raise FileError(str(source), f"must hold {what}, but its shape is {shape}")
    if dtype.kind not in "buif" or dtype.itemsize > 8:
        raise FileError(str(source), f"must hold real numbers of at most 64 bits, but its dtype is {dtype}")


def _write_normalized(
    found: Iterator[Normalized], shape: tuple[int, ...], file: BinaryIO, args: argparse.Namespace
) -> tuple[np.ndarray, float | None, np.dtype[Any]]:
    """Write every block normalised; return the codes, the largest residual of a matrix without failure, the dtype."""
    codes = np.empty(math.prod(shape[:-2]), np.int8)
    worst: float | None = None
    dtype: np.dtype[Any] | None = None
    shown = bar(args, "normalize", "matrices")
    done = 0
    for out, status, residual in found:
        if dtype is None:
            dtype = out.dtype
            write_npy_header(file, shape, dtype)
        write_block(file, out)
        codes[done : done + len(out)] = status
        done += len(out)
        fine = residual[status == 0] if residual is not None else ()
        if len(fine):
            worst = max(float(np.max(fine)), worst or 0.0)
        if shown is not None:
            shown(done, len(codes))
    if dtype is None:
        raise AssertionError  # there is always one block, if only an empty one
    return codes, worst, dtype


def _part_normalized(part: Part, method: str, options: dict[str, Any], *, threads: int | None) -> bytes:
    """Return the matrices of a part normalised, and what is known of each."""
    out, status, residual = _block_normalized(_matrix_parts.matrices(part), method, options, threads)
    return _matrix_parts.stored(matrix=out, status=status, residual=residual)


def _block_normalized(block: np.ndarray, method: str, options: dict[str, Any], threads: int | None) -> Normalized:
    if method == "bi":
        result = compute(cmfast.ipf, block, on_failure="ignore", **options, num_threads=threads)
        return result.matrix, result.status, result.residual
    return *normalized(block, method, "ignore", num_threads=threads), None


def normalized(M: np.ndarray, method: str, on_failure: str, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return matrices normalised, and the status of each; what is said of those that fail is up to `on_failure`."""
    try:
        out = compute(cmfast.normalize, M, method, on_failure="raise", **options)
    except cmfast.FailureError as error:  # it has the status of every matrix; the same again for the matrices
        return compute(cmfast.normalize, M, method, on_failure=on_failure, **options), np.asarray(error.status)
    return out, np.zeros(M.shape[:-2], np.int8)


def _tally(codes: np.ndarray) -> dict[str, Any]:
    """Return how many matrices ended in which status, and where the first ones that failed are."""
    statuses = {s.name: int(np.count_nonzero(codes == s)) for s in cmfast.Status}
    bad = np.flatnonzero([not s.ok for s in cmfast.Status])
    failed = np.flatnonzero(np.isin(codes, bad))
    return {
        "statuses": {name: number for name, number in statuses.items() if number},
        "failed": int(failed.size),
        "first_failed": failed[:5].tolist(),
    }


def _print_normalized(facts: dict[str, Any]) -> None:
    shape, seconds = facts["shape"], facts["seconds"]
    rate = f", {facts['matrices'] / seconds:,.0f} matrices/s" if seconds > 0 else ""
    options = "".join(f", {name} {value}" for name, value in facts["options"].items())
    name = _screen.shown(facts["output"])
    count = "1 matrix" if facts["matrices"] == 1 else f"{facts['matrices']:,} matrices"
    print(f"{name}: {count} {shape[-2]} x {shape[-1]}, {facts['dtype'][1]}")
    print(f"method {facts['method']}{options}; {seconds:.2f} s{rate}")
    for name, number in facts["statuses"].items():
        print(f"  {name:<12}{number:>14,}")
    if facts["largest_residual"] is not None:
        print(f"largest residual {facts['largest_residual']:.2g}")
    if facts["failed"]:
        more = ", ..." if facts["failed"] > len(facts["first_failed"]) else ""
        print(f"first that failed (flat index): {', '.join(map(str, facts['first_failed']))}{more}")
