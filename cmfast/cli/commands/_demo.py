"""``cmfast demo``: the whole story on real data."""

import argparse
from pathlib import Path

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
    add_common(parser, "--seed", help="default 0")


def run(args: argparse.Namespace) -> Result:
    """Make the report."""
    from cmfast._reproduce import demo  # what it imports --help can do without

    missing = demo.missing()
    if missing:
        misuse(f'demo needs {" and ".join(missing)}: pip install "cmfast[demo]"')
    facts = demo.run(args.out, args.seed)
    return Result(facts, [demo.table(facts, args.out)])
