"""``cmfast resample``: draw bootstrap resamples of a file of confusion matrices."""

import argparse
import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np

import cmfast
from cmfast._core import caller, failures
from cmfast._files import tables
from cmfast._files.output import check_target, replace_file
from cmfast._files.sources import parse_source
from cmfast.cli import _screen
from cmfast.cli._calls import bar, compute_with_status, part_of_batch, select_options
from cmfast.cli._matrices import block_bytes, check_is_npy, check_matrices, count_matrices, local_files, open_matrices
from cmfast.cli._options import MATRICES, add_common, add_output
from cmfast.cli._parser import Parser, misuse
from cmfast.cli._result import Result
from cmfast.cli._saved_counts import are_counts, read_counts
from cmfast.cli._values import natural_number, whole_number
from cmfast.cli._writing import write_npy
from cmfast.uncertainty._resample import Scheme, explain_failure

CALLED = "uncertainty.resample"


def add_options(parser: Parser) -> None:
    """Add the options of the command."""
    what = f"counts: {MATRICES}; or the output of confusion --json or merge"
    parser.add_argument("input", type=parse_source, metavar="IN", help=what)
    add_common(parser, "--cells")
    add_output(parser, "npy file (..., N, C, C) for the resamples", required=True)
    many = "resamples per matrix, default 1000"
    parser.add_argument("--resamples", type=natural_number, default=1000, metavar="N", help=many)
    scheme = "what is resampled: all cells, the cells of each row, or only the class counts; default multinomial"
    parser.add_argument("--scheme", choices=get_args(Scheme), default="multinomial", help=scheme)
    size = "samples per replicate, default: the total of the matrix; with --n matrices may hold shares"
    parser.add_argument("--n", type=whole_number, metavar="N", help=size)
    add_common(parser, "--seed", "--threads", "--block-mb")


def run(args: argparse.Namespace) -> Result:
    """Draw the replicates; failed if some matrices cannot be resampled."""
    check_is_npy("--output", args.output)
    if args.n is not None and args.scheme == "row_multinomial":
        misuse("--n does not belong to --scheme row_multinomial, which keeps the number of samples of every class")
    target = check_target(args.output, force=args.force, sources=local_files(args.input))
    M = _read_counts(args)
    check_matrices(args.input, M.shape, M.dtype, square=True)
    status = np.zeros(math.prod(M.shape[:-2]), np.int8)
    shape = (*M.shape[:-2], args.resamples, *M.shape[-2:])
    with replace_file(target, force=args.force) as file:
        write_npy(file, shape, _draw(args, M, status))
    with caller.set_task(CALLED):
        why = partial(explain_failure, M, None, args.scheme)
        failures.report(status.reshape(M.shape[:-2]), "warn", failed="matrices not resampled", why=why)
    failed = int(np.count_nonzero(status))
    names = ("resamples", "scheme", "n", "seed")
    requested = {name: getattr(args, name) for name in names}
    metadata = {"output": str(args.output), "shape": list(shape), **requested, "failed": failed}
    drawn = f"{args.resamples:,} resamples of {count_matrices(len(status))} {shape[-2]} x {shape[-1]}"
    line = f"{_screen.shown(args.output)}: {drawn}, {args.scheme}, seed {args.seed}"
    return Result(metadata, [line], failed=failed > 0)


def _read_counts(args: argparse.Namespace) -> np.ndarray:
    """Return the matrices of the file."""
    if isinstance(args.input, Path) and are_counts(args.input):
        if args.cells:
            misuse("--cells belongs to a table")
        return np.asarray(read_counts(args.input, cmfast.ConfusionCounts).matrix)
    return open_matrices(args)


def _draw(args: argparse.Namespace, M: np.ndarray, status: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the replicates block by block; write the status of every matrix into `status`."""
    options: dict[str, Any] = {"n_resamples": args.resamples, "scheme": args.scheme, "rng": args.seed}
    options |= {"num_threads": args.threads, **select_options(args, "n")}
    show, done = bar(args, "resample", "matrices"), 0
    for block in tables.MatrixBlocks(M, block_bytes(args) // args.resamples):
        end = done + len(block)
        with part_of_batch(CALLED, done, len(block)):
            drawn, status[done:end] = compute_with_status(cmfast.uncertainty.resample, block, **options)
        yield np.asarray(drawn)
        done = end
        if show is not None:
            show(done, len(status))
