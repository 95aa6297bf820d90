"""``cmfast merge``: counts of parts, added up."""

import argparse
import json
from pathlib import Path
from typing import Any

import cmfast
from cmfast._files import states
from cmfast._files.output import FileError, reason, replacing
from cmfast.cli import _screen
from cmfast.cli._options import Parser, compute, output_options, table_target
from cmfast.cli._printing import print_matrix


def add_options(parser: Parser) -> None:
    """Add what the command takes."""
    what = "counts as ConfusionCounts and CellCounts save them (json, npz), or json of cmfast confusion"
    parser.add_argument("input", type=Path, nargs="+", metavar="FILE", help=what)
    output_options(parser, "json or npz file for the sum")


def run(args: argparse.Namespace) -> int:
    """Merge the files: the sum is that of all samples at once."""
    target = table_target(args, (".json", ".npz"), *args.input)
    parts = [_read(path) for path in args.input]
    for path, part in zip(args.input, parts, strict=True):
        if type(part) is not type(parts[0]):
            raise FileError(path, f"holds {type(part).__name__}, but {args.input[0]} {type(parts[0]).__name__}")
    total = compute(type(parts[0]).merge, parts)
    if target is not None:
        with replacing(target, force=args.force) as file:
            file.write(total.to_json().encode() if target.suffix.lower() == ".json" else total.to_bytes())
    if args.json:
        print(total.to_json(), end="")
    elif isinstance(total, cmfast.ConfusionCounts) and total.groups is None:
        print_matrix(total.matrix, _screen.names(list(total.labels)))
    else:
        print(f"{repr(total)[1:-1]} of {len(parts)} files")
    return 0


def _read(path: Path) -> Any:
    """Return the counts in a file."""
    try:
        facts = _facts(path)
        return states.load_any(path, cmfast.ConfusionCounts, cmfast.CellCounts) if facts is None else _counted(*facts)
    except ValueError as error:
        raise FileError(path, str(error).removeprefix(f"path {path} ")) from error
    except OSError as error:
        raise FileError(path, reason(error)) from error


def _facts(path: Path) -> tuple[Any, Any] | None:
    """Return labels and matrix of what ``cmfast confusion`` wrote, None for anything else."""
    if path.suffix.lower() != ".json":
        return None
    try:
        facts = json.loads(path.read_bytes())
    except (ValueError, RecursionError):  # it is told what it is not where it is read
        return None
    if not isinstance(facts, dict) or "class" in facts or not {"labels", "matrix", "normalize"} <= set(facts):
        return None
    if facts["normalize"] is not None:
        raise FileError(path, "holds a matrix that is normalised, which does not add up")
    return facts["labels"], facts["matrix"]


def _counted(labels: Any, matrix: Any) -> Any:
    """Return the counts of labels and a matrix."""
    if not (isinstance(labels, list) and isinstance(matrix, list)):
        raise ValueError("holds no labels and counts of them")  # noqa: EM101
    kinds = [name for name, kind in (("booleans", bool), ("integers", int)) if all(isinstance(x, kind) for x in labels)]
    classes = {"from": "found", "kind": (*kinds, "strings")[0], "labels": labels}
    values = {"dtype": "<i8", "shape": [len(labels)] * 2, "values": matrix}
    facts = {"class": "ConfusionCounts", "format": states.FORMAT, "classes": classes, "matrix": values}
    return cmfast.ConfusionCounts.from_json(json.dumps(facts))
