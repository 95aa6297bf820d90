"""Options that several commands have, and what they name: files, columns, metrics."""

import argparse
from pathlib import Path
from typing import Any, get_args

from cmfast._core.annotations import Empty
from cmfast._files import tables
from cmfast._files.output import check_target
from cmfast._files.sources import Source, parse_source
from cmfast.cli._parser import Parser, misuse
from cmfast.cli._values import natural_number, policy, positive_number, replicates, share, smoothing, whole_number

MATRICES = "npy or zarr (..., C, C), or a csv, Parquet, Arrow or Feather table with one in each row"
CELLS = "columns of a table with the cells: one of lists, or one for each cell, row by row"
TABLES = (".csv", ".parquet", ".json")  # suffixes of columns that are written
COLUMN = "name or number of a column"
AGAIN = "may be given again for further columns"
TRUTH = "name or number of the column of the truth"
DEFAULT = "default: the one with a usual name, as y_true and y_pred, or the first of two"

COMMON: dict[str, dict[str, Any]] = {
    "--block-mb": {"type": positive_number, "default": tables.MATRIX_BLOCK_BYTES / 2**20, "help": argparse.SUPPRESS},
    "--by": {"action": "append", "metavar": "COLUMN"},
    "--cells": {"nargs": "+", "metavar": "COLUMN", "help": f"{CELLS} (default: all)"},
    "--cluster": {"metavar": "COLUMN"},
    "--empty": {"choices": get_args(Empty), "help": "bi: a class never true nor predicted, default nan"},
    "--features": {"nargs": "+", "metavar": "COLUMN"},
    "--header": {"action": argparse.BooleanOptionalAction, "help": "csv: whether the first line names the columns"},
    "--level": {"type": share, "default": 0.95, "metavar": "L", "help": "of the intervals (default: 0.95)"},
    "--max-iter": {"type": natural_number, "metavar": "N", "help": "most passes, default 200 Newton steps"},
    "--only": {"nargs": "+", "metavar": "NAME"},
    "--order": {
        "nargs": "+",
        "metavar": "CLASS",
        "help": "all classes in their order, which weighted kappas depend on (default: that of the file, else sorted)",
    },
    "--quiet": {"action": "store_true", "help": "no progress on stderr"},
    "--replicates": {"type": replicates, "default": 10_000, "metavar": "N"},
    "--seed": {"type": whole_number, "default": 0, "metavar": "N", "help": "of the draws, default 0"},
    "--smoothing": {
        "type": smoothing,
        "metavar": "EPS",
        "help": "bi: a number added to every cell, or pseudo-bayes, default none",
    },
    "--threads": {"type": natural_number, "metavar": "N", "help": "most threads to use, default: all"},
    "--tol": {"type": positive_number},
    "--undefined": {"type": policy, "default": "present", "metavar": "POLICY"},
    "--true": {"required": True, "metavar": "COLUMN", "help": TRUTH},
}


def add_common(parser: Parser, *names: str, **changes: Any) -> None:
    """Add options that several commands have, with `changes` to what these share."""
    for name in names:
        parser.add_argument(name, **COMMON[name] | changes)


def add_output(parser: Parser, what: str, *, required: bool = False) -> None:
    """Add the output, whether to replace it, and whether to show progress."""
    parser.add_argument("-o", "--output", type=Path, required=required, metavar="OUT", help=what)
    parser.add_argument("--force", action="store_true", help="replace OUT if it exists")
    add_common(parser, "--quiet", help="no progress on stderr, where it is a terminal")


def add_labels(parser: Parser, what: str) -> None:
    """Add columns of labels: of a table, or files of their own."""
    parser.add_argument("input", type=parse_source, nargs="?", metavar="FILE", help=what)
    parser.add_argument(
        "--labels",
        type=parse_source,
        metavar="Y",
        help="instead of FILE: npy or zarr file (n,) of the truth; needs --pred",
    )
    add_common(parser, "--true", required=False, help=f"{TRUTH}; {DEFAULT}")
    parser.add_argument("--pred", metavar="COLUMN", help="the same for the prediction; with --labels its file")
    add_common(parser, "--by", help=f"{COLUMN}: a matrix for each of its values; {AGAIN}")
    add_common(parser, "--header", "--order")


def find_label_files(args: argparse.Namespace) -> list[Source]:
    """Return the files that hold the labels, after checking how they are named."""
    if args.labels is None:
        if args.input is None:
            misuse("give FILE, or --labels and --pred")
        return [args.input]
    if args.input is not None:
        misuse("--labels takes the place of FILE, whose columns are --true and --pred")
    if args.pred is None:
        misuse("--labels needs --pred, the file of the predictions")
    if (args.true, args.header) != (None, None):
        misuse("--true and --header belong to FILE")
    return [args.labels, parse_source(args.pred), *map(parse_source, args.by or ())]


def check_output(args: argparse.Namespace, suffixes: tuple[str, ...], *sources: Source) -> Path | None:
    """Return where --output goes, None if nowhere, before anything is computed."""
    if args.output is None:
        return None
    if args.output.suffix.lower() not in suffixes:
        misuse(f"--output must end in {', '.join(suffixes)}, got {args.output}")
    files = tuple(one for one in sources if isinstance(one, Path))
    return check_target(args.output, force=args.force, sources=files)


def parse_metric_names(given: list[str]) -> list[str]:
    """Return the names of metrics, between spaces or commas; one that is mistyped is answered by those next to it."""
    from cmfast.metrics import _catalogue

    names = [name for text in given for name in text.split(",") if name]
    for name in names:
        if _catalogue.find_form(name) is None:
            near = _catalogue.suggest_names(name)
            other = f"did you mean {near[0]!r}?" if near else "there is accuracy, f1_macro, mcc, ..."
            misuse(f"--only: there is no metric {name!r}; {other}")
    if not names:
        misuse("--only: give the names of metrics")
    return names
