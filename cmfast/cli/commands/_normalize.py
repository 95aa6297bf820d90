"""``cmfast normalize``: normalise a file of confusion matrices, possibly larger than memory, block by block."""

import argparse
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias, get_args

import numpy as np

import cmfast
from cmfast._core.annotations import NORMALIZATIONS, Solver
from cmfast._files import tables
from cmfast._files.output import Outputs, check_target
from cmfast._files.sources import parse_source
from cmfast.cli import _matrix_parts, _screen
from cmfast.cli._calls import bar, compute, compute_with_status, select_options
from cmfast.cli._cluster import Part, add_cluster, start_tasks
from cmfast.cli._matrices import block_bytes, check_is_npy, check_matrices, count_matrices, local_files, open_matrices
from cmfast.cli._options import MATRICES, add_common, add_output
from cmfast.cli._parser import Parser, misuse
from cmfast.cli._result import Result
from cmfast.cli._values import normalization
from cmfast.cli._writing import write_npy

Normalized: TypeAlias = tuple[
    np.ndarray, np.ndarray, np.ndarray | None
]  # matrices, and the status and residual of each


def add_options(parser: Parser) -> None:
    """Add the options of the command."""
    what = f"matrices, possibly larger than memory: {MATRICES}; or a folder, glob or URL of arrays, concatenated"
    parser.add_argument("input", type=parse_source, metavar="IN", help=what)
    add_common(parser, "--cells")
    add_output(parser, "npy file for the result", required=True)
    what = "default bi; row is also called true, col pred"
    parser.add_argument("--method", type=normalization, choices=NORMALIZATIONS, default="bi", help=what)
    add_common(parser, "--smoothing", "--threads")
    add_common(parser, "--tol", help="bi: relative error of each row and column sum, default 1e-9")
    add_common(parser, "--max-iter", help="bi: maximum number of iterations, default 10000 sweeps or 200 Newton steps")
    parser.add_argument("--solver", choices=get_args(Solver), help="bi: default auto")
    add_common(parser, "--empty")
    parser.add_argument("--status", type=Path, metavar="OUT.npy", help="also write the status code of every matrix")
    add_cluster(parser)
    add_common(parser, "--block-mb")


def run(args: argparse.Namespace) -> Result:
    """Normalise the file; failed if some of its matrices failed."""
    args.tasks = start_tasks(args)
    options = select_options(args, "smoothing", "tol", "max_iter", "solver", "empty")
    if args.method != "bi" and options:
        misuse(f"--{next(iter(options)).replace('_', '-')} belongs to --method bi")
    check_is_npy("--output", args.output)
    check_is_npy("--status", args.status)
    target = check_target(args.output, force=args.force, sources=local_files(args.input))
    codes_target = None
    if args.status is not None:
        if Path(os.path.realpath(args.status)) == target:
            misuse("--status and --output are the same file")
        codes_target = check_target(args.status, force=args.force, sources=local_files(args.input, args.output))
    started = time.perf_counter()
    shape, given_dtype, blocks = _normalize(args, options)
    normalized = _NormalizedBlocks(args, blocks, math.prod(shape[:-2]))
    with Outputs() as outputs:
        with outputs.replace_file(target, force=args.force) as file:
            dtype = write_npy(file, shape, normalized)
        codes = normalized.codes
        if codes_target is not None:
            with outputs.replace_file(codes_target, force=args.force) as file:
                write_npy(file, shape[:-2], [codes])
    statuses = {status.name: int(np.count_nonzero(codes == status)) for status in cmfast.Status}
    failed = np.flatnonzero(np.isin(codes, [status for status in cmfast.Status if not status.ok]))
    metadata = {
        "input": str(args.input),
        "output": str(args.output),
        "shape": list(shape),
        "dtype": [str(given_dtype), str(dtype)],
        "method": args.method,
        "options": options,
        "matrices": len(codes),
        "statuses": {name: number for name, number in statuses.items() if number},
        "failed": int(failed.size),
        "first_failed": failed[:5].tolist(),
        "largest_residual": normalized.worst,
        "seconds": round(time.perf_counter() - started, 3),
    }
    return Result(metadata, _lines(metadata), failed=bool(failed.size))


def _normalize(
    args: argparse.Namespace, options: dict[str, Any]
) -> tuple[tuple[int, ...], np.dtype[Any], Iterator[Normalized]]:
    """Return shape and dtype of all matrices, and an iterator that normalises them block by block."""
    square = args.method == "bi"
    if args.tasks.are_needed(args.input):
        if args.cells is not None:
            misuse("--cells belongs to one table, read without --scheduler")
        whole = _matrix_parts.plan_parts(args, lambda C: block_bytes(args))
        check_matrices(args.input, whole.shape, whole.dtype, square=square)
        made = _matrix_parts.compute_parts(args, "normalized", _normalize_part, whole, args.method, options)
        return whole.shape, whole.dtype, ((one["matrix"], one["status"], one.get("residual")) for one in made)
    M = open_matrices(args)
    check_matrices(args.input, M.shape, M.dtype, square=square)
    blocks = tables.MatrixBlocks(M, block_bytes(args))
    return M.shape, M.dtype, (_normalize_block(block, args.method, options, args.threads) for block in blocks)


def _normalize_part(part: Part, method: str, options: dict[str, Any], *, threads: int | None) -> bytes:
    """Return the normalised matrices of a part, with status and residual of each, as npz bytes."""
    out, status, residual = _normalize_block(_matrix_parts.read_part(part), method, options, threads)
    return _matrix_parts.pack_arrays(matrix=out, status=status, residual=residual)


def _normalize_block(block: np.ndarray, method: str, options: dict[str, Any], threads: int | None) -> Normalized:
    """Normalise a block of matrices; return matrices, statuses and residuals."""
    if method == "bi":
        result = compute(cmfast.ipf, block, on_failure="ignore", **options, num_threads=threads)
        return result.matrix, result.status, result.residual
    return *compute_with_status(cmfast.normalize, block, method, num_threads=threads), None


class _NormalizedBlocks:
    """Iterate over normalised blocks, collecting the statuses and the worst residual."""

    def __init__(self, args: argparse.Namespace, blocks: Iterator[Normalized], n: int) -> None:
        self._blocks, self._show = blocks, bar(args, "normalize", "matrices")
        self.codes = np.empty(n, np.int8)
        """The status of every matrix."""
        self.worst: float | None = None
        """The largest residual of the matrices that did not fail."""

    def __iter__(self) -> Iterator[np.ndarray]:
        done = 0
        for out, status, residual in self._blocks:
            yield out
            self.codes[done : done + len(out)] = status
            done += len(out)
            fine = residual[status == 0] if residual is not None else ()
            if len(fine):
                self.worst = max(float(np.max(fine)), self.worst or 0.0)
            if self._show is not None:
                self._show(done, len(self.codes))


def _lines(metadata: dict[str, Any]) -> Iterator[str]:
    """Yield the printed summary: shape, method, time, statuses."""
    shape, seconds, matrices = metadata["shape"], metadata["seconds"], metadata["matrices"]
    rate = f", {matrices / seconds:,.0f} matrices/s" if seconds > 0 else ""
    options = "".join(f", {name} {value}" for name, value in metadata["options"].items())
    name = _screen.shown(metadata["output"])
    yield f"{name}: {count_matrices(matrices)} {shape[-2]} x {shape[-1]}, {metadata['dtype'][1]}"
    yield f"method {metadata['method']}{options}; {seconds:.2f} s{rate}"
    for name, number in metadata["statuses"].items():
        yield f"  {name:<12}{number:>14,}"
    if metadata["largest_residual"] is not None:
        yield f"largest residual {metadata['largest_residual']:.2g}"
    if metadata["failed"]:
        more = ", ..." if metadata["failed"] > len(metadata["first_failed"]) else ""
        yield f"first that failed (flat index): {', '.join(map(str, metadata['first_failed']))}{more}"
