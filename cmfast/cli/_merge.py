"""``cmfast merge``: counts of parts, added up."""

import argparse
from pathlib import Path

import cmfast
from cmfast import conformal, uncertainty
from cmfast._files.output import FileError
from cmfast.cli import _screen
from cmfast.cli._options import Parser, compute, output_options, table_target
from cmfast.cli._printing import print_matrix
from cmfast.cli._stored import read_counts
from cmfast.cli._writing import write_state

KINDS = (
    cmfast.ConfusionCounts,
    cmfast.CellCounts,
    uncertainty.PairedCounts,
    conformal.CcmCounts,
    conformal.CoverageCounts,
    conformal.ScoreHistogram,
)


def add_options(parser: Parser) -> None:
    """Add what the command takes."""
    what = "counts of one class, as ConfusionCounts saves them (json, npz), or json of cmfast confusion"
    parser.add_argument("input", type=Path, nargs="+", metavar="FILE", help=what)
    output_options(parser, "json or npz file for the sum; of ConfusionCounts cmfast metrics gives metrics")


def run(args: argparse.Namespace) -> int:
    """Merge the files: the sum is that of all samples at once."""
    target = table_target(args, (".json", ".npz"), *args.input)
    parts = [read_counts(path, *KINDS) for path in args.input]
    for path, part in zip(args.input, parts, strict=True):
        if type(part) is not type(parts[0]):
            raise FileError(path, f"holds {type(part).__name__}, but {args.input[0]} {type(parts[0]).__name__}")
    total = compute(getattr(type(parts[0]), "merge", sum), parts)
    if target is not None:
        write_state(target, total, force=args.force)
    if args.json:
        print(total.to_json(), end="")
    elif isinstance(total, cmfast.ConfusionCounts) and total.groups is None:
        print_matrix(total.matrix, _screen.names(list(total.labels)))
    else:
        print(f"{repr(total)[1:-1]} of {len(parts)} files")
    return 0
