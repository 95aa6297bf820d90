"""Options shared by several commands, and parsing of the files, columns and metrics that they name."""

import argparse
from pathlib import Path
from typing import Any, get_args

from cmfast._core.annotations import Empty
from cmfast._core.usual_names import OF_SCORES
from cmfast._files import tables
from cmfast._files.output import FileError, check_target
from cmfast._files.sources import parse_source
from cmfast._files.stores import Source
from cmfast.cli._parser import Parser, misuse
from cmfast.cli._values import natural_number, policy, positive_number, replicates, share, smoothing, whole_number

MATRICES = "npy or zarr (..., C, C), or a csv, Parquet, Arrow or Feather table with one in each row"
CELLS = "columns of a table with the cells: one of lists, or one for each cell, row by row"
TABLES = (".csv", ".parquet", ".json")  # suffixes of columns that are written
COLUMN = "name or number of a column"
AGAIN = "repeat for further columns"
TRUTH = "name or number of the column of true labels"
DEFAULT = "default: a column with a usual name such as y_true, or the first of two"

COMMON: dict[str, dict[str, Any]] = {
    "--block-mb": {"type": positive_number, "default": tables.MATRIX_BLOCK_BYTES / 2**20, "help": argparse.SUPPRESS},
    "--by": {"action": "append", "metavar": "COLUMN"},
    "--cells": {"nargs": "+", "metavar": "COLUMN", "help": f"{CELLS} (default: all)"},
    "--cluster": {"metavar": "COLUMN"},
    "--empty": {"choices": get_args(Empty), "help": "bi: a class never true nor predicted, default nan"},
    "--features": {"nargs": "+", "metavar": "COLUMN"},
    "--header": {"action": argparse.BooleanOptionalAction, "help": "csv: whether the first line names the columns"},
    "--confidence-level": {"type": share, "default": 0.95, "metavar": "L", "help": "confidence level (default: 0.95)"},
    "--max-iter": {
        "type": natural_number,
        "metavar": "N",
        "help": "maximum number of iterations, default 200 Newton steps",
    },
    "--only": {"nargs": "+", "metavar": "NAME"},
    "--order": {
        "nargs": "+",
        "metavar": "CLASS",
        "help": "all classes in order, for weighted kappas (default: the order of the file, else sorted)",
    },
    "--quiet": {"action": "store_true", "help": "no progress on stderr"},
    "--resamples": {"type": replicates, "default": 10_000, "metavar": "N"},
    "--seed": {"type": whole_number, "default": 0, "metavar": "N", "help": "random seed, default 0"},
    "--smoothing": {
        "type": smoothing,
        "metavar": "EPS",
        "help": "bi: a number added to every cell, or pseudo-bayes, default none",
    },
    "--threads": {"type": natural_number, "metavar": "N", "help": "maximum number of threads, default: all"},
    "--tol": {"type": positive_number},
    "--undefined": {"type": policy, "default": "present", "metavar": "POLICY"},
    "--true": {"metavar": "COLUMN", "help": TRUTH},
}


def add_common(parser: Parser, *names: str, **changes: Any) -> None:
    """Add shared options to `parser`; `changes` override their settings."""
    for name in names:
        parser.add_argument(name, **COMMON[name] | changes)


def add_output(parser: Parser, what: str, *, required: bool = False) -> None:
    """Add the options --output, --force and --quiet."""
    parser.add_argument("-o", "--output", type=Path, required=required, metavar="OUT", help=what)
    parser.add_argument("--force", action="store_true", help="replace OUT if it exists")
    add_common(parser, "--quiet", help="no progress on stderr, where it is a terminal")


class _Once(argparse.Action):
    """Action of an option that takes one value in all; argparse would keep the last of several."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: str | None = None) -> None:
        """Keep the value; raise UsageError if there is one already."""
        if getattr(namespace, self.dest) is not None:
            misuse(f"{option} is given twice; cmfast compare and cmfast report take several models")
        setattr(namespace, self.dest, values)


def add_labels(parser: Parser, what: str) -> None:
    """Add the options that name label columns of a table, or separate label files."""
    parser.add_argument("input", type=parse_source, nargs="?", metavar="FILE", help=what)
    parser.add_argument(
        "--labels",
        type=parse_source,
        metavar="Y",
        help="instead of FILE: npy or zarr file (n,) of the truth; needs --pred",
    )
    add_common(parser, "--true", help=f"{TRUTH}; {DEFAULT}")
    parser.add_argument(
        "--pred", action=_Once, metavar="COLUMN", help="the same for the prediction; with --labels its file"
    )
    add_common(parser, "--by", help=f"{COLUMN}: one matrix per value; {AGAIN}")
    add_common(parser, "--header", "--order")


def find_label_files(args: argparse.Namespace) -> list[Source]:
    """Return the files that hold the labels, after checking the options that name them."""
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
    """Return the resolved path of --output (None without it); raise before computing if writing would fail."""
    if args.output is None:
        return None
    if args.output.suffix.lower() not in suffixes:
        misuse(f"--output must end in {', '.join(suffixes)}, got {args.output}")
    files = tuple(one for one in sources if isinstance(one, Path))
    try:
        return check_target(args.output, force=args.force, sources=files)
    except FileError:
        _check_input(args, files)
        raise


def _check_input(args: argparse.Namespace, files: tuple[Path, ...]) -> None:
    """Raise an error if an input file, or a column that the options name, does not exist.

    Such a mistake is reported before one in --output: the advice to give --force would only lead to it.
    """
    for file in files:
        file.stat()
    named = [getattr(args, option, None) for option in ("true", "pred", "by", "cluster")]
    columns = [name for one in named if one is not None for name in ([one] if isinstance(one, str) else one)]
    if columns and getattr(args, "labels", None) is None and args.input in files and args.input.suffix != ".npy":
        from cmfast.cli._label_table import check_names

        check_names(args, columns)


def parse_metric_names(given: list[str]) -> list[str]:
    """Parse metric names separated by spaces or commas; suggest a name for a mistyped one."""
    from cmfast.metrics import _catalogue

    names = [name for text in given for name in text.split(",") if name]
    for name in names:
        if _catalogue.find_form(name) is None:
            near = _catalogue.suggest_names(name)
            other = f"did you mean {near[0]!r}?" if near else "there is accuracy, f1_macro, mcc, ..."
            if (call := OF_SCORES.get(name.lower())) is not None:
                misuse(f"--only: {name} is a metric of scores, and no command reads scores for it; in Python {call}")
            misuse(f"--only: there is no metric {name!r}; {other}")
    if not names:
        misuse("--only: give the names of metrics")
    return names
