"""``cmfast report``: a page on one or two classifiers of a table."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import cmfast
from cmfast._files import points
from cmfast._files.output import FileError, replacing
from cmfast.cli import _screen
from cmfast.cli._columns import in_names, ranked, read
from cmfast.cli._options import (
    Parser,
    bar,
    compute,
    misuse,
    natural_number,
    output_options,
    positive_number,
    replicates,
    share,
    table_target,
    whole_number,
)
from cmfast.cli._printing import print_json


def add_options(parser: Parser) -> None:
    """Add what the command takes."""
    parser.add_argument("input", type=Path, metavar="FILE", help="a table as for confusion")
    parser.add_argument("--true", required=True, metavar="COLUMN", help="name or number of the column of the truth")
    what = "name or number of the column of a prediction; given twice, of two models"
    parser.add_argument("--pred", action="append", required=True, metavar="COLUMN", help=what)
    what = "name or number of a column: its values side by side; may be given again for further columns"
    parser.add_argument("--by", action="append", metavar="COLUMN", help=what)
    parser.add_argument(
        "--header", action=argparse.BooleanOptionalAction, help="csv: whether the first line names the columns"
    )
    parser.add_argument("--embeddings", type=Path, metavar="X", help="npy or zarr (n, m): where the samples lie")
    what = "npy or zarr (n, C): probabilities of the classes of the table, sorted"
    parser.add_argument("--scores", type=Path, metavar="P", help=what)
    parser.add_argument("--title", metavar="TEXT", help="of the page")
    parser.add_argument("--smoothing", type=positive_number, metavar="EPS", help="bi: a number added to every cell")
    parser.add_argument("--level", type=share, default=0.95, metavar="L", help="of the intervals (default: 0.95)")
    parser.add_argument(
        "--replicates", type=replicates, default=10_000, metavar="N", help="matrices to draw for intervals, 10000"
    )
    parser.add_argument("--seed", type=whole_number, default=0, metavar="N", help="of the draws, default 0")
    parser.add_argument("--threads", type=natural_number, metavar="N", help="most threads to use, default: all")
    output_options(parser, "html file for the page", required=True)


def run(args: argparse.Namespace) -> int:
    """Make the page, and say where it is."""
    if len(args.pred) > 2 or len(set(args.pred)) < len(args.pred):
        misuse(f"--pred must be given once, or twice for two models, got {', '.join(args.pred)}")
    arrays = {name: getattr(args, name) for name in ("embeddings", "scores")}
    target = table_target(args, (".html", ".htm"), args.input, *(path for path in arrays.values() if path is not None))
    columns, labels = _columns(args)
    options: dict[str, Any] = {name: _array(args, path) for name, path in arrays.items() if path is not None}
    if args.by:
        options["groups"] = dict(zip(args.by, columns[1 + len(args.pred) :], strict=True))
    options |= {"labels": labels, "level": args.level, "n_replicates": args.replicates, "rng": args.seed}
    options |= {"smoothing": args.smoothing, "num_threads": args.threads}
    predictions = dict(zip(args.pred, columns[1:], strict=False))
    title = args.title or f"Confusion report: {args.input.name}"
    page = compute(cmfast.report, columns[0], predictions, title=title, **options)
    if target is not None:
        with replacing(target, force=args.force) as file:
            file.write(page.html.encode())
    if args.json:
        print_json(page.to_dict())
    else:
        print(f"{_screen.shown(args.output)}: {_screen.shown(repr(page)[1:-1])}")
    return 0


def _columns(args: argparse.Namespace) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the columns as labels of one kind each, and the classes in order."""
    n_labels = 1 + len(args.pred)
    wanted = (args.true, *args.pred, *(args.by or ()))
    values, codes, orders = read(args, wanted, n_labels)
    classes, order = in_names(
        list(dict.fromkeys(label for own in values[:n_labels] for label in own)), orders.of_labels
    )
    labels = np.array(classes)
    found = [labels[ranked(own, order, one)] for own, one in zip(values[:n_labels], codes, strict=False)]
    for k, (own, one) in enumerate(zip(values[n_labels:], codes[n_labels:], strict=True)):
        names, order = in_names(list(dict.fromkeys(own)), orders.of_group(k))
        found.append(np.array(names)[ranked(own, order, one)])
    return found, labels


def _array(args: argparse.Namespace, path: Path) -> np.ndarray:
    """Return the rows of a file."""
    found: np.ndarray = points.open_array(path, tick=bar(args, "report, reading", "rows") or (lambda done, total: None))
    if found.ndim != 2:
        raise FileError(path, f"must be of shape (n, m), a row per sample, but is {found.shape}")
    return found
