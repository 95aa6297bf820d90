"""``cmfast demo``: run a complete example on real data."""

import argparse
from pathlib import Path

from cmfast._reproduce import find_missing_distributions
from cmfast.cli._options import add_common
from cmfast.cli._parser import Parser, misuse
from cmfast.cli._result import Result


def add_options(parser: Parser) -> None:
    """Add the options of the command."""
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("cmfast-demo"),
        metavar="DIR",
        help="folder for the results, default cmfast-demo",
    )
    add_common(parser, "--seed")


def run(args: argparse.Namespace) -> Result:
    """Write the report of the example."""
    if missing := find_missing_distributions(["sklearn"]):
        misuse(f'demo needs {" and ".join(missing)}: pip install "cmfast[demo]"')
    from cmfast._reproduce.demo import report  # imported late, so that --help stays fast

    facts = report.run(args.out, args.seed)
    return Result(facts, [report.table(facts, args.out)])
