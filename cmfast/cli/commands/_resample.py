"""``cmfast resample``: a file of confusion matrices drawn again, as other samples would have given them."""

import argparse
import math
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np

import cmfast
from cmfast._core import caller, failures, lazy
from cmfast._files import tables
from cmfast._files.output import check_target, replacing, write_block, write_npy_header
from cmfast._files.sources import located
from cmfast.cli import _screen
from cmfast.cli._matrices import OTHER_KINDS, check, stored
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
    whole_number,
)
from cmfast.cli._printing import print_json
from cmfast.cli._stored import read_counts
from cmfast.uncertainty._resample import Scheme, why_not

COUNTS = (".json", ".npz")
CALLED = "uncertainty.resample"


def add_options(parser: Parser) -> None:
    """Add what the command takes."""
    what = f"counts: {MATRICES}; or as confusion --json and merge write them"
    parser.add_argument("input", type=located, metavar="IN", help=what)
    parser.add_argument("--cells", nargs="+", metavar="COLUMN", help=f"{CELLS} (default: all)")
    output_options(parser, "npy file (..., N, C, C) for the replicates", required=True)
    many = "matrices to draw for each one, default 1000"
    parser.add_argument("--replicates", type=natural_number, default=1000, metavar="N", help=many)
    scheme = "what is random: all cells, those of each row, or the class counts alone; default multinomial"
    parser.add_argument("--scheme", choices=get_args(Scheme), default="multinomial", help=scheme)
    size = "samples in each replicate, default as many as the matrix has; with it matrices may be shares"
    parser.add_argument("--n", type=whole_number, metavar="N", help=size)
    parser.add_argument("--seed", type=whole_number, default=0, metavar="N", help="of the draws, default 0")
    parser.add_argument("--threads", type=natural_number, metavar="N", help="most threads to use, default: all")
    parser.add_argument("--block-mb", type=positive_number, default=tables.BLOCK_BYTES / 2**20, help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Draw the replicates; 1 if some matrices cannot be drawn from."""
    if args.output.suffix.lower() in OTHER_KINDS:
        misuse(f"--output is written as npy, so its name should not end in {args.output.suffix}")
    if args.n is not None and args.scheme == "row_multinomial":
        misuse("--n does not belong to --scheme row_multinomial, which keeps the number of samples of every class")
    target = check_target(args.output, force=args.force, sources=(args.input,) if isinstance(args.input, Path) else ())
    M = _counts(args)
    check(args.input, M.shape, M.dtype, square=True)
    status = _written(M, target, args)
    shape = (*M.shape[:-2], args.replicates, *M.shape[-2:])
    names = ("replicates", "scheme", "n", "seed")
    facts = {"output": str(args.output), "shape": list(shape), **{name: getattr(args, name) for name in names}}
    facts["failed"] = int(np.count_nonzero(status))
    with caller.inside(CALLED):
        why = partial(why_not, M, None, args.scheme)
        failures.report(status.reshape(M.shape[:-2]), "warn", failed="matrices not resampled", why=why)
    if args.json:
        print_json(facts)
    else:
        count = "1 matrix" if len(status) == 1 else f"{len(status):,} matrices"
        drawn = f"{args.replicates:,} replicates of {count} {shape[-2]} x {shape[-1]}"
        print(f"{_screen.shown(facts['output'])}: {drawn}, {args.scheme}, seed {args.seed}")
    return int(facts["failed"] > 0)


def _counts(args: argparse.Namespace) -> np.ndarray:
    """Return the matrices of the file."""
    if isinstance(args.input, Path) and args.input.suffix.lower() in COUNTS:
        if args.cells:
            misuse("--cells belongs to a table")
        return np.asarray(read_counts(args.input, cmfast.ConfusionCounts).matrix)
    return stored(args)


def _written(M: np.ndarray, target: Path, args: argparse.Namespace) -> np.ndarray:
    """Write the replicates, those of some matrices at a time; return the status of every matrix."""
    status = np.zeros(math.prod(M.shape[:-2]), np.int8)
    options = {"n_replicates": args.replicates, "scheme": args.scheme, "rng": args.seed, "num_threads": args.threads}
    options |= given(args, "n")
    shown, done = bar(args, "resample", "matrices"), 0
    room = int(min(args.block_mb, 2**40) * 2**20)
    with replacing(target, force=args.force) as file:
        write_npy_header(file, (*M.shape[:-2], args.replicates, *M.shape[-2:]), np.dtype(np.int64))
        for block in tables.MatrixBlocks(M, room // args.replicates):
            end = done + len(block)
            write_block(file, _drawn(block, done, status[done:end], options))
            done = end
            if shown is not None:
                shown(done, len(status))
    return status


def _drawn(block: np.ndarray, first: int, status: np.ndarray, options: dict[str, Any]) -> np.ndarray:
    """Return replicates of matrices that a batch has from its element `first` on; note what cannot be drawn from."""
    with caller.inside(CALLED, is_part=True), lazy.placed(np.arange(first, first + len(block))):
        try:
            return np.asarray(compute(cmfast.uncertainty.resample, block, on_failure="raise", **options))
        except cmfast.FailureError as error:  # it has the status of every matrix; the same again for the others
            status[:] = error.status
            return np.asarray(compute(cmfast.uncertainty.resample, block, on_failure="ignore", **options))
