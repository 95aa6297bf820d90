"""``cmfast rake``: weight survey respondents so that they add up to known totals (raking)."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np

import cmfast
from cmfast._files import survey_records, survey_totals
from cmfast._files.output import FileError
from cmfast.cli import _screen
from cmfast.cli._calls import compute, select_options, tick
from cmfast.cli._options import TABLES, add_common, add_output, check_output
from cmfast.cli._parser import Parser, misuse
from cmfast.cli._result import Result
from cmfast.cli._values import positive_number
from cmfast.cli._wording import naming_elements
from cmfast.cli._writing import Content
from cmfast.margins._rake import BOUNDED, Raking

MOST_SHOWN_TARGETS = 40  # targets that are printed


def add_options(parser: Parser) -> None:
    """Add the options of the command."""
    parser.add_argument(
        "input", type=Path, metavar="FILE", help="table of respondents: csv, tsv, Parquet, Arrow, Feather"
    )
    what = (
        "tidy table with columns named as in FILE and one named target: a row per category, or combination of "
        "categories; a column named of names a numeric column to sum instead of counting respondents"
    )
    parser.add_argument("--targets", type=Path, required=True, metavar="FILE", help=what)
    parser.add_argument("--weights", metavar="COLUMN", help="design weights; default: 1 for each respondent")
    parser.add_argument("--method", choices=get_args(Raking), default="raking", help="default raking")
    parser.add_argument(
        "--bounds",
        nargs=2,
        type=_bound,
        metavar=("LOW", "HIGH"),
        help="truncated, logit: bounds of weight / design weight; numbers or columns of FILE",
    )
    what = "penalty weight of missing a target; or a column named importance in the targets; default: all exact"
    parser.add_argument("--importance", type=positive_number, metavar="P", help=what)
    what = "column of the targets: weight the same respondents for each of its values, such as areas"
    parser.add_argument("--by", metavar="COLUMN", help=what)
    add_common(parser, "--tol", help="relative error of the totals, default 1e-9")
    add_common(parser, "--max-iter")
    add_output(parser, "csv, Parquet or JSON file for the weights, in the order of the respondents")


def run(args: argparse.Namespace) -> Result:
    """Compute the weights; failed if no weights have these totals."""
    if (args.bounds is None) == (args.method in BOUNDED):
        misuse(f"--bounds {'is needed by' if args.bounds is None else 'does not belong to'} --method {args.method}")
    args.target = check_output(args, TABLES, args.input, args.targets)
    known = survey_totals.read_totals(args.targets, args.by)
    columns = [bound for bound in args.bounds or () if isinstance(bound, str)]
    found = survey_records.read_records(args.input, known, args.weights, args.by, tick(args, "read"), columns)
    if columns:
        args.bounds = _read_bounds(args, found)
    matched = survey_records.match_totals(args.input, known, found, by_area=args.by is not None)
    result, achieved = _rake(args, known, found, matched)
    areas = {area: _describe(args, found, matched, result, achieved, k) for k, area in enumerate(known.areas)}
    failed = not all(cmfast.Status(status).ok for status in np.atleast_1d(result.status))
    content = None if np.isnan(result.weights).all() else _content(args, result, areas)
    one_or_all = next(iter(areas.values())) if args.by is None else areas
    return Result(one_or_all, _lines(args.by, areas), content, failed)


def _bound(text: str) -> float | str:
    """Parse a bound: a number, or else the name of a column."""
    try:
        return float(text)
    except ValueError:
        return text


def _read_bounds(args: argparse.Namespace, found: survey_records.SurveyRecords) -> list[np.ndarray]:
    """Return the bounds of all respondents as arrays; raise FileError for bounds that no weight can satisfy."""
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


def _rake(
    args: argparse.Namespace,
    known: survey_totals.Totals,
    found: survey_records.SurveyRecords,
    matched: survey_records.MatchedTotals,
) -> tuple[Any, np.ndarray]:
    """Return the raking result and the achieved totals in each area."""
    options = select_options(args, "tol", "max_iter", "bounds") | {"weights": found.weights, "method": args.method}
    options["names"] = matched.names
    if known.are_counts:
        options |= select_options(args, "importance")
        with naming_elements("targets", [f"targets of {', '.join(target.columns)}" for target in known.targets]):
            result = compute(cmfast.rake, found.codes, matched.margins, **options)
        parts = [sums.reshape(len(known.areas), -1) for sums in result.achieved]
        return result, np.concatenate(parts, -1)
    default = np.inf if args.importance is None else args.importance
    importance = np.where(np.isnan(matched.importance), default, matched.importance)
    wanted = np.concatenate([t.reshape(*t.shape[: t.ndim - len(of)], -1) for of, t in matched.margins], -1)
    A = survey_records.make_design_matrix(found, known, matched)
    result = compute(cmfast.rake, A, wanted, importance=importance, **options)
    return result, np.atleast_2d(result.achieved)


def _content(args: argparse.Namespace, result: Any, areas: dict[str, dict[str, Any]]) -> Content:
    """Return the weights as columns, one per area; NaN for an area that failed."""
    kept = ("method", "status", "residual", "weight_error")
    about = {area: {name: one[name] for name in kept} for area, one in areas.items()}
    if args.by is None:
        return Content(columns=[("weight", result.weights.tolist())], metadata=next(iter(about.values())))
    columns = [(area, line.tolist()) for area, line in zip(areas, result.weights, strict=True)]
    return Content(columns=columns, metadata=about)


def _describe(
    args: argparse.Namespace,
    found: survey_records.SurveyRecords,
    matched: survey_records.MatchedTotals,
    result: Any,
    achieved: np.ndarray,
    area: int,
) -> dict[str, Any]:
    """Return how well the targets of an area are met, and how far its weights changed."""
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


def _lines(by: str | None, areas: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield the printed summary of every area."""
    for area, found in areas.items():
        where = f"{by} = {area}: " if by is not None else ""
        size = f"{found['records']:,} records, {len(found['targets'])} targets"
        yield f"{_screen.shown(where)}{size}, {found['method']}: {found['status']}"
        if found["effective_records"] is None:
            continue
        low, high = found["ratios"]
        worth = f"{found['effective_records']:,.0f} equal ones"
        yield f"totals met to {found['residual']:.1e}; weights off by an estimated {found['weight_error']:.1e}"
        yield f"weights are {low:.4g} to {high:.4g} times what they were, worth {worth}"
        for target in found["targets"][:MOST_SHOWN_TARGETS]:
            yield f"  {_screen.shown(target['name'])}: {target['achieved']:,.6g}"
        if len(found["targets"]) > MOST_SHOWN_TARGETS:
            yield f"  and {len(found['targets']) - MOST_SHOWN_TARGETS} more; --json gives all of them"
