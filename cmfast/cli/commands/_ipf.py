"""``cmfast ipf``: scale a table to margins from files (iterative proportional fitting); arrays, or a row per cell."""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import cmfast
from cmfast._files import points, survey_records, survey_totals, tables
from cmfast._files.output import FileError
from cmfast.cli import _screen
from cmfast.cli._calls import compute, select_options, tick
from cmfast.cli._options import TABLES, add_common, add_output, check_output
from cmfast.cli._parser import Parser, misuse
from cmfast.cli._result import Result
from cmfast.cli._values import importances, positive_number
from cmfast.cli._wording import naming_elements
from cmfast.cli._writing import Content

LONG = (*tables.TEXTS, *points.TABLES)


class Margin(NamedTuple):
    """A margin of the command line: its text, the axes it keeps, its file."""

    text: str
    axes: tuple[int, ...]
    path: Path


def add_options(parser: Parser) -> None:
    """Add the options of the command."""
    what = "npy with an axis per attribute; or a table with a row per cell: csv, tsv, Parquet, Arrow, Feather"
    parser.add_argument("input", type=Path, metavar="TABLE", help=what)
    parser.add_argument(
        "--margin",
        action="append",
        required=True,
        metavar="AXES:FILE",
        help="npy: target sums over all but AXES, such as 0,1:rows.npy; table: only FILE, with columns named as "
        "in TABLE and the totals in a column named target or as --value; repeat for further margins",
    )
    parser.add_argument("--value", metavar="COLUMN", help="table: the column with the cell values (required)")
    add_common(parser, "--smoothing", type=positive_number, help="npy: a number added to every cell, default none")
    what = (
        "penalty weight of missing a margin, inf: exact; one number for all, or one per --margin in order, such as "
        "inf,1000; default: all exact"
    )
    parser.add_argument("--importance", type=importances, action="extend", metavar="P,..", help=what)
    add_common(parser, "--tol", help="relative error of the margins, default 1e-9")
    add_common(parser, "--max-iter")
    add_output(parser, "npy file for an array; csv, Parquet or JSON for a table")


def run(args: argparse.Namespace) -> Result:
    """Scale the table; failed if no table has these margins."""
    return _scale_rows(args) if args.input.suffix.lower() in LONG else _scale_array(args)


def _scale_array(args: argparse.Namespace) -> Result:
    """Scale an array to margins from npy files."""
    if args.value is not None:
        misuse("--value belongs to a table with a row per cell")
    margins = [_parse_margin(text) for text in args.margin]
    args.target = check_output(args, (".npy",), args.input, *(margin.path for margin in margins))
    M = _open_array(args.input)
    targets = [_open_target(args.input, M.shape, margin) for margin in margins]
    options = select_options(args, "smoothing", "tol", "max_iter") | _importance(args, [1] * len(margins))
    pairs = [(margin.axes, target) for margin, target in zip(margins, targets, strict=True)]
    with naming_elements("margins", [f"--margin {margin.text}" for margin in margins]):
        result = compute(cmfast.ipf_nd, M, pairs, ndim=M.ndim, **options)
    names = [margin.text for margin in margins]
    content = None if np.isnan(result.table).any() else Content({"table": result.table})
    return _result({"shape": list(M.shape)}, result, result.cell_error, names, targets, content)


def _scale_rows(args: argparse.Namespace) -> Result:
    """Scale a table with a row per cell, to margins from tables."""
    if args.value is None or args.smoothing is not None:
        misuse("--smoothing belongs to npy" if args.value is not None else "--value names the column of the cells")
    files = [Path(text) for text in args.margin]
    args.target = check_output(args, TABLES, args.input, *files)
    targets = [survey_totals.read_totals(path, None, args.value).targets for path in files]
    known = survey_totals.Totals([target for of_file in targets for target in of_file], [""])
    if len({target.columns for target in known.targets}) < len(known.targets):
        misuse("--margin: two files have the same columns")
    if not known.are_counts:
        misuse(f"--margin: columns named {survey_totals.OF} and {survey_totals.IMPORTANCE} are for cmfast rake")
    importance = _importance(args, [len(of_file) for of_file in targets])
    cells = survey_records.read_records(args.input, known, args.value, None, tick(args, "read"))
    margins, names, _ = survey_records.match_totals(args.input, known, cells, by_area=False)
    options = select_options(args, "tol", "max_iter") | {"weights": cells.weights, "names": names, **importance}
    columns = [", ".join(target.columns) for target in known.targets]
    with naming_elements("targets", [f"targets of {name}" for name in columns]):
        result = compute(cmfast.rake, cells.codes, margins, **options)
    content = None
    if not np.isnan(result.weights).any():
        categories = zip(cells.columns, cells.categories, cells.codes.tolist(), strict=True)
        rows = [(column, [own[k] for k in code]) for column, own, code in categories]
        content = Content(columns=[*rows, (args.value, result.weights.tolist())])
    size = {"cells": cells.codes.shape[1]}
    return _result(size, result, result.weight_error, columns, [target for _, target in margins], content)


def _result(
    size: dict[str, Any],
    scaled: Any,
    cell_error: np.ndarray,
    names: list[str],
    targets: list[np.ndarray],
    content: Content | None,
) -> Result:
    """Return how well the margins are met; content with NaN is not written."""
    about = {"status": cmfast.Status(scaled.status).name, "residual": float(scaled.residual)}
    about |= {"cell_error": float(cell_error)}
    margins = [
        {"name": name, "lines": int(target.size), "residual": _residual(sums, target)}
        for name, sums, target in zip(names, scaled.achieved, targets, strict=True)
    ]
    metadata = {**size, **about, "passes": int(scaled.n_iter), "margins": margins}
    if content is not None and content.columns is not None:
        content = content._replace(metadata=about)
    return Result(metadata, _lines(metadata), content, not cmfast.Status(scaled.status).ok)


def _importance(args: argparse.Namespace, targets: list[int]) -> dict[str, list[float]]:
    """Return the penalty weight of each target; an empty dict if all must be met."""
    given = args.importance
    if given is None:
        return {}
    if len(given) not in (1, len(targets)):
        misuse(f"--importance: one number for all, or one for each of {len(targets)} --margin, got {len(given)}")
    return {"importance": np.repeat(np.broadcast_to(given, len(targets)), targets).tolist()}


def _parse_margin(text: str) -> Margin:
    """Parse a margin "axes:file"."""
    found = re.fullmatch(r"(\d+(?:,\d+)*):(.+)", text)
    if found is None:
        misuse(f"--margin must be axes and a file, as 0,1:rows.npy, got {text!r}")
    return Margin(text, tuple(map(int, found[1].split(","))), Path(found[2]))


def _open_array(path: Path) -> np.ndarray:
    """Open an npy file of real numbers."""
    array = tables.open_npy(path)
    if array.dtype.kind not in "buif" or array.itemsize > 8:
        raise FileError(path, f"must hold real numbers of at most 64 bits, but its dtype is {array.dtype}")
    return array


def _open_target(source: Path, shape: tuple[int, ...], margin: Margin) -> np.ndarray:
    """Return the array of a margin, whose shape must match the axes of the table."""
    if max(margin.axes) >= len(shape) or len(set(margin.axes)) < len(margin.axes):
        misuse(f"--margin {margin.text}: {source} has axes 0 to {len(shape) - 1}, each to be named once")
    wanted = tuple(shape[axis] for axis in margin.axes)
    target = _open_array(margin.path)
    if target.shape != wanted:
        axes = ", ".join(map(str, margin.axes))
        what = f"must have shape {wanted}, as axes {axes} of {source} have, but has {target.shape}"
        raise FileError(margin.path, what)
    return target


def _residual(sums: np.ndarray, target: np.ndarray) -> float:
    """Return the L1 distance of a margin from its target, relative to the target's sum."""
    some = ~np.isnan(target)
    total = float(np.abs(target[some]).sum())
    return float(np.abs(sums[some] - target[some]).sum()) / (total or 1.0)


def _lines(metadata: dict[str, Any]) -> Iterator[str]:
    """Yield the printed summary: status, errors, margins."""
    of = " x ".join(map(str, metadata["shape"])) if "shape" in metadata else f"{metadata['cells']:,} cells"
    yield f"{of}, {len(metadata['margins'])} margins: {metadata['status']}"
    if np.isnan(metadata["residual"]):
        return
    met, error = metadata["residual"], metadata["cell_error"]
    yield f"margins met to {met:.1e}; cells off by an estimated {error:.1e}; {metadata['passes']:,} passes"
    for margin in metadata["margins"]:
        yield f"  {_screen.shown(margin['name'])}: {margin['lines']:,} lines, off by {margin['residual']:.1e}"
