"""``cmfast merge``: merge saved counts."""

import argparse
from pathlib import Path

import cmfast
from cmfast import conformal, uncertainty
from cmfast._files.output import FileError
from cmfast.cli import _screen
from cmfast.cli._calls import compute
from cmfast.cli._options import add_output, check_output
from cmfast.cli._parser import Parser
from cmfast.cli._printing import format_matrix
from cmfast.cli._result import Result
from cmfast.cli._saved_counts import read_counts
from cmfast.cli._writing import content_of_state

KINDS = (
    cmfast.ConfusionCounts,
    cmfast.CellCounts,
    uncertainty.PairedCounts,
    conformal.CcmCounts,
    conformal.CoverageCounts,
    conformal.ScoreHistogram,
)


def add_options(parser: Parser) -> None:
    """Add the options of the command."""
    what = "saved counts of one kind, such as ConfusionCounts (json, npz), or json of cmfast confusion"
    parser.add_argument("input", type=Path, nargs="+", metavar="FILE", help=what)
    add_output(parser, "json or npz file for the sum; cmfast metrics reads merged ConfusionCounts")


def run(args: argparse.Namespace) -> Result:
    """Merge the files; the sum equals counting all samples in one call."""
    args.target = check_output(args, (".json", ".npz"), *args.input)
    parts = [read_counts(path, *KINDS) for path in args.input]
    for path, part in zip(args.input, parts, strict=True):
        if type(part) is not type(parts[0]):
            raise FileError(path, f"holds {type(part).__name__}, but {args.input[0]} {type(parts[0]).__name__}")
    total = compute(getattr(type(parts[0]), "merge", sum), parts)
    if isinstance(total, cmfast.ConfusionCounts) and total.groups is None:
        lines = format_matrix(total.matrix, _screen.names(list(total.labels)))
    else:
        lines = iter([f"{repr(total)[1:-1]} of {len(parts)} files"])
    return Result(total, lines, content_of_state(total, args.target))
