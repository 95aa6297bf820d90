"""``cmfast report``: write an HTML report on one or two classifiers of a table."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import cmfast
from cmfast._files import points
from cmfast._files.output import FileError
from cmfast.cli import _screen
from cmfast.cli._calls import compute, tick
from cmfast.cli._label_table import check_columns, complete_columns, read_columns
from cmfast.cli._options import AGAIN, COLUMN, DEFAULT, TRUTH, add_common, add_output, check_output
from cmfast.cli._parser import Parser, misuse
from cmfast.cli._result import Result
from cmfast.cli._values import positive_number
from cmfast.cli._writing import Content


def add_options(parser: Parser) -> None:
    """Add the options of the command."""
    parser.add_argument("input", type=Path, metavar="FILE", help="a table as for confusion")
    add_common(parser, "--true", help=f"{TRUTH}; {DEFAULT}")
    what = "name or number of a column of predictions; give it twice for two models"
    parser.add_argument("--pred", action="append", metavar="COLUMN", help=what)
    add_common(parser, "--by", help=f"{COLUMN}: compare its groups side by side; {AGAIN}")
    add_common(parser, "--header")
    parser.add_argument("--embeddings", type=Path, metavar="X", help="npy or zarr (n, m): embeddings of the samples")
    what = "npy or zarr (n, C): probabilities of the classes, in sorted order"
    parser.add_argument("--scores", type=Path, metavar="P", help=what)
    parser.add_argument("--title", metavar="TEXT", help="title of the page")
    add_common(parser, "--smoothing", type=positive_number, help="bi: a number added to every cell")
    add_common(parser, "--confidence-level")
    add_common(parser, "--resamples", help="number of bootstrap resamples for intervals, default 10000")
    add_common(parser, "--seed", "--threads")
    add_output(parser, "html file for the page, default report.html")
    parser.set_defaults(output=Path("report.html"))


def run(args: argparse.Namespace) -> Result:
    """Write the report and print its path."""
    complete_columns(args, 1)
    if len(args.pred) > 2 or len(set(args.pred)) < len(args.pred):
        misuse(f"--pred must be given once, or twice for two models, got {', '.join(args.pred)}")
    arrays = {name: path for name in ("embeddings", "scores") if (path := getattr(args, name)) is not None}
    check_columns(args, [args.true, *args.pred], args.by or [])  # before the output, which has a default name
    args.target = check_output(args, (".html", ".htm"), args.input, *arrays.values())
    table = read_columns(args, [args.true, *args.pred], args.by or [])
    labels = np.array(table.labels)
    y, *predictions = (labels[codes] for codes in table.codes)
    options: dict[str, Any] = {name: _read_array(args, path) for name, path in arrays.items()}
    if args.by:
        groups = [np.array(values)[codes] for values, codes in table.others]
        options["groups"] = dict(zip(args.by, groups, strict=True))
    options |= {
        "labels": labels,
        "confidence_level": args.confidence_level,
        "n_resamples": args.resamples,
        "rng": args.seed,
    }
    options |= {"smoothing": args.smoothing, "num_threads": args.threads}
    title = args.title or f"Confusion report: {args.input.name}"
    page = compute(cmfast.report, y, dict(zip(args.pred, predictions, strict=True)), title=title, **options)
    line = f"{_screen.shown(args.output)}: {_screen.shown(repr(page)[1:-1])}"
    return Result(page.to_dict(), [line], Content(data=page.html.encode()))


def _read_array(args: argparse.Namespace, path: Path) -> np.ndarray:
    """Return the rows of an array file."""
    found: np.ndarray = points.open_array(path, tick=tick(args, "report, reading", "rows"))
    if found.ndim != 2:
        raise FileError(path, f"must be of shape (n, m), a row per sample, but is {found.shape}")
    return found
