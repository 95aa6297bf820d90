"""``cmfast ipf``: a table scaled to margins that are files; an array, or rows that name the categories of a cell."""

import argparse
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import cmfast
from cmfast._files import points, records, tables, tidy_totals
from cmfast._files.output import FileError, replacing, write_block, write_npy_header
from cmfast.cli import _screen
from cmfast.cli._options import (
    Parser,
    bar,
    compute_named,
    given,
    importances,
    misuse,
    natural_number,
    output_options,
    positive_number,
    table_target,
)
from cmfast.cli._printing import print_json
from cmfast.cli._writing import write_columns

LONG = (*tables.TEXTS, *points.TABLES)
COLUMNS = (".csv", ".parquet", ".json")


class Margin(NamedTuple):
    """A margin of the command line: what it says, the axes that it keeps, its file."""

    text: str
    axes: tuple[int, ...]
    path: Path


def add_options(parser: Parser) -> None:
    """Add what the command takes."""
    what = "npy with an axis for each attribute; or a row per cell: csv, tsv, Parquet, Arrow, Feather"
    parser.add_argument("input", type=Path, metavar="TABLE", help=what)
    parser.add_argument(
        "--margin",
        action="append",
        required=True,
        metavar="AXES:FILE",
        help="npy: what it must sum to over all axes but these, as 0,1:rows.npy; "
        "rows: only FILE, a table with columns named as in TABLE, and one named target or as --value; again for "
        "further margins",
    )
    parser.add_argument("--value", metavar="COLUMN", help="rows: the column of the cells; it is needed")
    parser.add_argument(
        "--smoothing", type=positive_number, metavar="EPS", help="npy: a number added to every cell, default none"
    )
    what = (
        "what it costs to miss a margin, inf: it must be met; one number for all, or one for each --margin, in order, "
        "as inf,1000; default: all are met"
    )
    parser.add_argument("--importance", type=importances, action="extend", metavar="P,..", help=what)
    parser.add_argument("--tol", type=positive_number, help="relative error of the margins, default 1e-9")
    parser.add_argument("--max-iter", type=natural_number, metavar="N", help="most passes, default 200 Newton steps")
    output_options(parser, "npy file for the table; of rows csv, Parquet or JSON")


def run(args: argparse.Namespace) -> int:
    """Scale the table; 1 if it has no answer."""
    facts = _rows(args) if args.input.suffix.lower() in LONG else _array(args)
    if args.json:
        print_json(facts)
    else:
        _print(facts)
    return int(not cmfast.Status[facts["status"]].ok)


def _array(args: argparse.Namespace) -> dict[str, Any]:
    """Scale an array, write it, and return what became of it."""
    if args.value is not None:
        misuse("--value belongs to a table with a row per cell")
    margins = [_margin(text) for text in args.margin]
    target = table_target(args, (".npy",), args.input, *(one.path for one in margins))
    M = _numbers(args.input)
    targets = [_target(args.input, M.shape, one) for one in margins]
    options = given(args, "smoothing", "tol", "max_iter")
    pairs = [(one.axes, target) for one, target in zip(margins, targets, strict=True)]
    options |= _important(args, [1] * len(margins))
    said = [f"--margin {one.text}" for one in margins]
    result = compute_named(said, cmfast.ipf_nd, M, pairs, ndim=M.ndim, **options)
    if target is not None and not np.isnan(result.table).any():
        with replacing(target, force=args.force) as file:
            write_npy_header(file, result.table.shape, result.table.dtype)
            write_block(file, result.table)
    return {
        "shape": list(M.shape),
        **_facts(result, result.cell_error),
        "margins": [
            {"name": one.text, "lines": int(asked.size), "residual": _missed(found, asked)}
            for one, found, asked in zip(margins, result.achieved, targets, strict=True)
        ],
    }


def _important(args: argparse.Namespace, targets: list[int]) -> dict[str, list[float]]:
    """Return how important each target is, of which every margin has so many; nothing where all must be met."""
    given = args.importance
    if given is None:
        return {}
    if len(given) not in (1, len(targets)):
        misuse(f"--importance: one number for all, or one for each of {len(targets)} --margin, got {len(given)}")
    return {"importance": np.repeat(np.broadcast_to(given, len(targets)), targets).tolist()}


def _margin(text: str) -> Margin:
    found = re.fullmatch(r"(\d+(?:,\d+)*):(.+)", text)
    if found is None:
        misuse(f"--margin must be axes and a file, as 0,1:rows.npy, got {text!r}")
    return Margin(text, tuple(map(int, found[1].split(","))), Path(found[2]))


def _numbers(path: Path) -> np.ndarray:
    array = tables.open_npy(path)
    if array.dtype.kind not in "buif" or array.itemsize > 8:
        raise FileError(path, f"must hold real numbers of at most 64 bits, but its dtype is {array.dtype}")
    return array


def _target(source: Path, shape: tuple[int, ...], margin: Margin) -> np.ndarray:
    """Return the numbers of a margin, which must be as long as the axes of the table."""
    if max(margin.axes) >= len(shape) or len(set(margin.axes)) < len(margin.axes):
        misuse(f"--margin {margin.text}: {source} has axes 0 to {len(shape) - 1}, each to be named once")
    wanted = tuple(shape[axis] for axis in margin.axes)
    target = _numbers(margin.path)
    if target.shape != wanted:
        axes = ", ".join(map(str, margin.axes))
        what = f"must have shape {wanted}, as axes {axes} of {source} have, but has {target.shape}"
        raise FileError(margin.path, what)
    return target


def _rows(args: argparse.Namespace) -> dict[str, Any]:
    """Scale the cells that are rows, write them, and return what became of them."""
    if args.value is None or args.smoothing is not None:
        misuse("--smoothing belongs to npy" if args.value is not None else "--value names the column of the cells")
    files = [Path(text) for text in args.margin]
    target = table_target(args, COLUMNS, args.input, *files)
    asked = [tidy_totals.read_totals(path, None, args.value).targets for path in files]
    wanted = [one for of_file in asked for one in of_file]
    if len({one.columns for one in wanted}) < len(wanted):
        misuse("--margin: two files ask the same columns")
    known = tidy_totals.Totals(wanted, [""])
    if not known.are_counts:
        misuse(f"--margin: columns named {tidy_totals.OF} and {tidy_totals.IMPORTANCE} are for cmfast rake")
    important = _important(args, [len(of_file) for of_file in asked])
    tick = bar(args, "read") or (lambda done, total: None)
    cells = records.read_records(args.input, known, args.value, None, tick)
    margins, names, _ = records.matched(args.input, known, cells, by_area=False)
    options = given(args, "tol", "max_iter")
    said = [f"targets of {', '.join(one.columns)}" for one in wanted]
    options |= {"weights": cells.weights, "names": names, **important}
    result = compute_named(said, cmfast.rake, cells.codes, margins, **options)
    facts = {
        "cells": cells.codes.shape[1],
        **_facts(result, result.weight_error),
        "margins": [
            {"name": ", ".join(one.columns), "lines": int(asked.size), "residual": _missed(found, asked)}
            for one, found, (_, asked) in zip(wanted, result.achieved, margins, strict=True)
        ],
    }
    if target is not None and not np.isnan(result.weights).any():
        out: dict[str, list[Any]] = {
            column: [own[k] for k in code]
            for column, own, code in zip(cells.columns, cells.categories, cells.codes.tolist(), strict=True)
        }
        about = {name: facts[name] for name in ("status", "residual", "cell_error")}
        write_columns(target, out | {args.value: result.weights.tolist()}, about, force=args.force)
    return facts


def _facts(result: Any, error: np.ndarray) -> dict[str, Any]:
    return {
        "status": cmfast.Status(result.status).name,
        "residual": float(result.residual),
        "cell_error": float(error),
        "passes": int(result.n_iter),
    }


def _missed(found: np.ndarray, asked: np.ndarray) -> float:
    """Return the L1 distance of a margin from its target, over the sum of that."""
    some = ~np.isnan(asked)
    total = float(np.abs(asked[some]).sum())
    return float(np.abs(found[some] - asked[some]).sum()) / (total or 1.0)


def _print(facts: dict[str, Any]) -> None:
    of = " x ".join(map(str, facts["shape"])) if "shape" in facts else f"{facts['cells']:,} cells"
    print(f"{of}, {len(facts['margins'])} margins: {facts['status']}")
    if np.isnan(facts["residual"]):
        return
    error = facts["cell_error"]
    print(f"margins met to {facts['residual']:.1e}; cells off by an estimated {error:.1e}; {facts['passes']:,} passes")
    for one in facts["margins"]:
        print(f"  {_screen.shown(one['name'])}: {one['lines']:,} lines, off by {one['residual']:.1e}")
