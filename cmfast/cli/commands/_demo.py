"""``cmfast demo``: the whole story on real data."""

import argparse
from pathlib import Path

from cmfast.cli._options import Parser, misuse, whole_number
from cmfast.cli._printing import print_json


def add_options(parser: Parser) -> None:
    """Add what the command takes."""
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("cmfast-demo"),
        metavar="DIR",
        help="folder for the results, default cmfast-demo",
    )
    parser.add_argument("--seed", type=whole_number, default=0, metavar="N", help="default 0")


def run(args: argparse.Namespace) -> int:
    """Make the report."""
    from cmfast import _demo as demo

    missing = demo.missing()
    if missing:
        misuse(f'demo needs {" and ".join(missing)}: pip install "cmfast[demo]"')
    facts = demo.run(args.out, args.seed)
    if args.json:
        print_json(facts)
    else:
        print(demo.table(facts, args.out))
    return 0
