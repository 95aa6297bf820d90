"""``cmfast rake``: weights of the records of a table, moved until they add up to known totals."""

import argparse
from pathlib import Path
from typing import Any, get_args

import numpy as np

import cmfast
from cmfast._files import records
from cmfast.cli import _screen
from cmfast.cli._options import (
    Parser,
    bar,
    compute,
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
    what = "tidy table: columns named as in FILE, and one named target; a row per category, or combination of some"
    parser.add_argument("--targets", type=Path, required=True, metavar="FILE", help=what)
    parser.add_argument("--weights", metavar="COLUMN", help="design weights; default: one for every record")
    parser.add_argument("--method", choices=get_args(Raking), default="raking", help="default raking")
    parser.add_argument(
        "--bounds",
        nargs=2,
        type=float,
        metavar=("LOW", "HIGH"),
        help="truncated, logit: of a weight over its design weight",
    )
    parser.add_argument("--tol", type=positive_number, help="relative error of the totals, default 1e-9")
    parser.add_argument("--max-iter", type=natural_number, metavar="N", help="most passes, default 200 Newton steps")
    output_options(parser, "csv, Parquet or JSON file for the weights, in the order of the records")


def run(args: argparse.Namespace) -> int:
    """Move the weights; 1 if there are none that are right."""
    if (args.bounds is None) == (args.method in BOUNDED):
        misuse(f"--bounds {'is needed by' if args.bounds is None else 'does not belong to'} --method {args.method}")
    target = table_target(args, SUFFIXES, args.input, args.targets)
    wanted = records.read_targets(args.targets)
    columns = list(dict.fromkeys(column for one in wanted for column in one.columns))
    found = records.read_records(args.input, columns, args.weights, bar(args, "read") or (lambda done, total: None))
    codes, margins, names = records.matched(args.input, wanted, found, columns)
    options = given(args, "tol", "max_iter", "bounds")
    result = compute(cmfast.rake, codes, margins, weights=found.weights, method=args.method, names=names, **options)
    facts = _facts(args, found, margins, names, result)
    if target is not None and not np.isnan(result.weights).any():
        about = {name: facts[name] for name in ("method", "status", "residual", "weight_error")}
        write_columns(target, {"weight": result.weights.tolist()}, about, force=args.force)
    if args.json:
        print_json(facts)
    else:
        _print(facts)
    return int(not cmfast.Status(result.status).ok)


def _facts(
    args: argparse.Namespace, found: records.Records, margins: list[Any], names: list[str], result: Any
) -> dict[str, Any]:
    """Return what became of the weights and of every target."""
    w, q = result.weights, np.ones(len(result.weights)) if found.weights is None else found.weights
    ratio = w[q > 0] / q[q > 0]
    wanted = np.concatenate([totals.ravel() for _, totals in margins])
    achieved = np.concatenate([sums.ravel() for sums in result.achieved])
    asked = np.flatnonzero(~np.isnan(wanted))
    return {
        "records": len(w),
        "method": args.method,
        "status": cmfast.Status(result.status).name,
        "residual": float(result.residual),
        "weight_error": float(result.weight_error),
        "passes": int(result.n_iter),
        "ratios": [float(ratio.min()), float(ratio.max())] if ratio.size else None,
        "effective_records": float(w.sum() ** 2 / (w**2).sum()) if (w > 0).any() else None,
        "targets": [{"name": names[k], "target": float(wanted[k]), "achieved": float(achieved[k])} for k in asked],
    }


def _print(facts: dict[str, Any]) -> None:
    print(f"{facts['records']:,} records, {len(facts['targets'])} targets, {facts['method']}: {facts['status']}")
    if facts["effective_records"] is None:
        return
    low, high = facts["ratios"]
    print(f"totals met to {facts['residual']:.1e}; weights right to about {facts['weight_error']:.1e}")
    print(
        f"weights are {low:.4g} to {high:.4g} times what they were, worth {facts['effective_records']:,.0f} equal ones"
    )
    for one in facts["targets"][:MOST_SHOWN]:
        print(f"  {_screen.shown(one['name'])}: {one['achieved']:,.6g}")
    if len(facts["targets"]) > MOST_SHOWN:
        print(f"  and {len(facts['targets']) - MOST_SHOWN} more; --json gives all of them")
