"""``cmfast info``: versions, threads, cache folder, GPU."""

import argparse

from cmfast.cli._options import Parser
from cmfast.cli._printing import print_json


def add_options(parser: Parser) -> None:
    """Add what the command takes."""
    parser.add_argument("--clear-cache", action="store_true", help="remove the compiled kernels of all versions")


def run(args: argparse.Namespace) -> int:
    """Print the facts, after removing compiled kernels if that was asked for."""
    from cmfast.cli.commands import _about  # what it imports no other command needs

    removed = _about.clear_cache() if args.clear_cache else None
    facts = _about.facts()
    if removed is not None:
        facts["removed_bytes"] = removed
    if args.json:
        print_json(facts)
    else:
        print(_about.text(facts))
        if removed is not None:
            print(f"removed       {removed / 1e6:.1f} MB of compiled kernels")
    return 0
