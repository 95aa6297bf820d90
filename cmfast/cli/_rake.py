"""``cmfast rake``: weights of the records of a table, moved until they add up to known totals."""

import argparse
from pathlib import Path
from typing import Any, get_args

import numpy as np

import cmfast
from cmfast._files import records, tidy_totals
from cmfast._files.output import FileError
from cmfast.cli import _screen
from cmfast.cli._options import (
    Parser,
    bar,
    compute,
    compute_named,
    given,
    misuse,
    natural_number,
    output_options,
    positive_number,
    table_target,
)
from cmfast.cli._printing import print_json
from cmfast.cli._writing import write_columns
from cmfast.margins._rake import BOUNDED, Raking

SUFFIXES = (".csv", ".parquet", ".json")
MOST_SHOWN = 40  # targets


def add_options(parser: Parser) -> None:
    """Add what the command takes."""
    parser.add_argument("input", type=Path, metavar="FILE", help="table of records: csv, tsv, Parquet, Arrow, Feather")
    what = (
        "tidy table: columns named as in FILE, and one named target; a row per category, or combination of some; a "
        "column named of says which column of numbers is added up, in place of records"
    )
    parser.add_argument("--targets", type=Path, required=True, metavar="FILE", help=what)
    parser.add_argument("--weights", metavar="COLUMN", help="design weights; default: one for every record")
    parser.add_argument("--method", choices=get_args(Raking), default="raking", help="default raking")
    parser.add_argument(
        "--bounds",
        nargs=2,
        type=_bound,
        metavar=("LOW", "HIGH"),
        help="truncated, logit: of a weight over its design weight; each a number, or a column of FILE",
    )
    what = (
        "what it costs to miss a target; in place of it a column named importance in the targets; default: all are met"
    )
    parser.add_argument("--importance", type=positive_number, metavar="P", help=what)
    what = "column of the targets: the same records are weighted for each of its values, as areas"
    parser.add_argument("--by", metavar="COLUMN", help=what)
    parser.add_argument("--tol", type=positive_number, help="relative error of the totals, default 1e-9")
    parser.add_argument("--max-iter", type=natural_number, metavar="N", help="most passes, default 200 Newton steps")
    output_options(parser, "csv, Parquet or JSON file for the weights, in the order of the records")


def run(args: argparse.Namespace) -> int:
    """Move the weights; 1 if there are none that are right."""
    if (args.bounds is None) == (args.method in BOUNDED):
        misuse(f"--bounds {'is needed by' if args.bounds is None else 'does not belong to'} --method {args.method}")
    target = table_target(args, SUFFIXES, args.input, args.targets)
    known = tidy_totals.read_totals(args.targets, args.by)
    tick = bar(args, "read") or (lambda done, total: None)
    columns = [bound for bound in args.bounds or () if isinstance(bound, str)]
    found = records.read_records(args.input, known, args.weights, args.by, tick, columns)
    if columns:
        args.bounds = _of_records(args, found)
    matched = records.matched(args.input, known, found, by_area=args.by is not None)
    result, achieved = _raked(args, known, found, matched)
    facts = [_facts(args, found, matched, result, achieved, k) for k in range(len(known.areas))]
    if target is not None and not np.isnan(result.weights).all():
        _write(target, args, known.areas, result, facts)
    if args.json:
        print_json(facts[0] if args.by is None else dict(zip(known.areas, facts, strict=True)))
    else:
        for area, one in zip(known.areas, facts, strict=True):
            _print(one, f"{args.by} = {area}: " if args.by is not None else "")
    return int(not all(cmfast.Status(status).ok for status in np.atleast_1d(result.status)))


def _bound(text: str) -> float | str:
    """Read a number; else it is the name of a column."""
    try:
        return float(text)
    except ValueError:
        return text


def _of_records(args: argparse.Namespace, found: records.Records) -> list[np.ndarray]:
    """Return the bounds of all records, of which some are columns; refuse those that no weight can have."""
    n = found.codes.shape[1]
    low, high = (np.broadcast_to(found.numbers[b] if isinstance(b, str) else b, n) for b in args.bounds)
    fit = (low >= 0.0) & (low <= high)
    wanted = "0 <= low <= high"
    if args.method == "logit":
        fit &= (low < 1.0) & (high > 1.0)
        wanted = "0 <= low < 1 < high with --method logit"
    for k in np.flatnonzero(~fit)[:1]:
        names = " and ".join(f"column {b!r}" if isinstance(b, str) else str(b) for b in args.bounds)
        what = f"--bounds of row {k} must be {wanted}, but {names} say {low[k]:g} and {high[k]:g}"
        raise FileError(args.input, what)
    return [low, high]


def _raked(
    args: argparse.Namespace, known: tidy_totals.Totals, found: records.Records, matched: records.Matched
) -> tuple[Any, np.ndarray]:
    """Return the weights, and what they add up to in each area."""
    options = given(args, "tol", "max_iter", "bounds") | {"weights": found.weights, "method": args.method}
    options["names"] = matched.names
    if known.are_counts:
        said = [f"targets of {', '.join(target.columns)}" for target in known.targets]
        options |= given(args, "importance")
        result = compute_named(said, cmfast.rake, found.codes, matched.margins, **options)
        parts = [sums.reshape(len(known.areas), -1) for sums in result.achieved]
        return result, np.concatenate(parts, -1)
    default = np.inf if args.importance is None else args.importance
    importance = np.where(np.isnan(matched.importance), default, matched.importance)
    wanted = np.concatenate([t.reshape(*t.shape[: t.ndim - len(of)], -1) for of, t in matched.margins], -1)
    A = records.design(found, known, matched)
    result = compute(cmfast.rake, A, wanted, importance=importance, **options)
    return result, np.atleast_2d(result.achieved)


def _write(target: Path, args: argparse.Namespace, areas: list[str], result: Any, facts: list[dict[str, Any]]) -> None:
    """Write the weights, a column for each area; those that were not found are missing."""
    kept = ("method", "status", "residual", "weight_error")
    if args.by is None:
        columns, about = {"weight": result.weights.tolist()}, {name: facts[0][name] for name in kept}
    else:
        columns = {area: line.tolist() for area, line in zip(areas, result.weights, strict=True)}
        about = {area: {name: one[name] for name in kept} for area, one in zip(areas, facts, strict=True)}
    write_columns(target, columns, about, force=args.force)


def _facts(
    args: argparse.Namespace,
    found: records.Records,
    matched: records.Matched,
    result: Any,
    achieved: np.ndarray,
    area: int,
) -> dict[str, Any]:
    """Return what became of the weights and of every target in an area."""
    w = np.atleast_2d(result.weights)[area]
    q = np.ones(len(w)) if found.weights is None else found.weights
    ratio = w[q > 0] / q[q > 0]
    by_area = args.by is not None
    wanted = np.concatenate([(t[area] if by_area else t).ravel() for _, t in matched.margins])
    asked = np.flatnonzero(~np.isnan(wanted))
    residual, error, passes, status = (np.atleast_1d(part)[area] for part in result[-4:])
    return {
        "records": len(w),
        "method": args.method,
        "status": cmfast.Status(status).name,
        "residual": float(residual),
        "weight_error": float(error),
        "passes": int(passes),
        "ratios": [float(ratio.min()), float(ratio.max())] if ratio.size else None,
        "effective_records": float(w.sum() ** 2 / (w**2).sum()) if (w > 0).any() else None,
        "targets": [
            {"name": matched.names[k], "target": float(wanted[k]), "achieved": float(achieved[area, k])} for k in asked
        ],
    }


def _print(facts: dict[str, Any], what: str) -> None:
    size = f"{facts['records']:,} records, {len(facts['targets'])} targets"
    print(f"{_screen.shown(what)}{size}, {facts['method']}: {facts['status']}")
    if facts["effective_records"] is None:
        return
    low, high = facts["ratios"]
    print(f"totals met to {facts['residual']:.1e}; weights off by an estimated {facts['weight_error']:.1e}")
    print(
        f"weights are {low:.4g} to {high:.4g} times what they were, worth {facts['effective_records']:,.0f} equal ones"
    )
    for one in facts["targets"][:MOST_SHOWN]:
        print(f"  {_screen.shown(one['name'])}: {one['achieved']:,.6g}")
    if len(facts["targets"]) > MOST_SHOWN:
        print(f"  and {len(facts['targets']) - MOST_SHOWN} more; --json gives all of them")
