"""What a command hands back: one record, which is written, printed and turned into an exit status here alone."""

import argparse
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from cmfast._files.states import State
from cmfast.cli._printing import print_json
from cmfast.cli._writing import Content, write


class Result(NamedTuple):
    """What was requested and what came of it, in every form that a command may be called for."""

    metadata: Mapping[str, Any] | State
    """What --json prints."""
    lines: Iterable[str]
    """What is printed without --json; made when it is."""
    content: Content | None = None
    """What --output gets; None: nothing, or it was written block by block."""
    failed: bool = False
    """Whether some elements failed, which is an exit status of 1."""


def deliver(args: argparse.Namespace, result: Result) -> int:
    """Write the result to ``args.target``, print it, and return the exit status."""
    if result.content is not None and args.target is not None:
        write(args.target, result.content, force=args.force)
    if args.json:
        print_json(result.metadata)
    else:
        for line in result.lines:
            print(line)
    return int(result.failed)
