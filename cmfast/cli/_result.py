"""Result of a command, and its delivery: written to a file, printed, turned into an exit status."""

import argparse
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from cmfast._files.states import State
from cmfast.cli._printing import print_json
from cmfast.cli._writing import Content, write


class Result(NamedTuple):
    """Result of a command in all its output forms."""

    metadata: Mapping[str, Any] | State
    """Printed by --json."""
    lines: Iterable[str]
    """Printed without --json; computed lazily."""
    content: Content | None = None
    """Written to --output; None if nothing is, or it was already written block by block."""
    failed: bool = False
    """Whether some elements failed, which gives exit status 1."""


def deliver(args: argparse.Namespace, result: Result) -> int:
    """Write the result to ``args.target``, print it and return the exit status."""
    if result.content is not None and args.target is not None:
        write(args.target, result.content, force=args.force)
    if args.json:
        print_json(result.metadata)
    else:
        for line in result.lines:
            print(line)
    return int(result.failed)
