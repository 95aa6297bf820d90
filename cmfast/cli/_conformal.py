"""``cmfast conformal``: prediction sets of a file of probabilities, and how often classes share one."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cmfast import conformal
from cmfast._core.progress import Bar
from cmfast._files import points
from cmfast.cli import _screen
from cmfast.cli._options import (
    Parser,
    compute,
    misuse,
    natural_number,
    output_options,
    positive_number,
    table_target,
    whole_number,
)
from cmfast.cli._printing import print_json
from cmfast.cli._writing import write_state
from cmfast.conformal._options import METHODS
from cmfast.conformal._sets import EMPTY


def add_options(parser: Parser) -> None:
    """Add what the command takes."""
    parser.add_argument("input", type=Path, metavar="FILE", help="probabilities: npy or zarr (n, C), or a table")
    parser.add_argument(
        "--calibration", type=Path, required=True, metavar="FILE", help="the same of rows whose labels are known"
    )
    parser.add_argument(
        "--labels",
        metavar="Y",
        help="npy or zarr (n,) of the class ids of FILE; a column of a table, ids or names of columns",
    )
    parser.add_argument("--calibration-labels", metavar="Y", help="the same of the calibration; default: as --labels")
    parser.add_argument(
        "--features", nargs="+", metavar="COLUMN", help="columns of tables with the probabilities; default: all others"
    )
    parser.add_argument("--alpha", nargs="+", default=["0.1"], metavar="A", help="errors to allow; default 0.1")
    parser.add_argument("--method", choices=METHODS, default="aps", help="the score; default aps")
    parser.add_argument("--lam", type=positive_number, default=0.0, metavar="L", help="raps: penalty of a rank (0)")
    parser.add_argument("--k-reg", type=whole_number, default=0, metavar="K", help="raps: ranks without a penalty (0)")
    parser.add_argument("--deterministic", action="store_true", help="inclusive sums in place of randomised ones")
    parser.add_argument("--seed", type=whole_number, default=0, metavar="N", help="of randomised scores; default 0")
    parser.add_argument("--by-class", action="store_true", help="a threshold for every class")
    parser.add_argument(
        "--empty", choices=EMPTY, default="allow", help="top1: the likeliest label for an empty set; default allow"
    )
    parser.add_argument("--threads", type=natural_number, metavar="N", help="most threads to use, default: all")
    output_options(parser, "npz or json file for the counts of shared sets, which merge")


def run(args: argparse.Namespace) -> int:
    """Calibrate, predict and print; 1 if some rows or labels are none."""
    alphas = [_alpha(text) for text in args.alpha]
    target = table_target(args, (".npz", ".json"), args.input, args.calibration)
    if args.lam and args.method != "raps":
        misuse("--lam belongs to --method raps")
    if args.k_reg and args.method != "raps":
        misuse("--k-reg belongs to --method raps")
    if args.calibration_labels is None and args.labels is None:
        misuse("the calibration needs labels: --calibration-labels, or for tables --labels")
    of_known, calibration, known = _read(args, args.calibration, args.calibration_labels or args.labels)
    of_new, P, y = _read(args, args.input, args.labels)
    _alike(args, calibration, of_known, P, of_new)
    rule: dict[str, Any] = {
        "method": args.method,
        "lam": args.lam,
        "k_reg": args.k_reg,
        "randomised": not args.deterministic,
    }
    rule |= {"rng": args.seed, "num_threads": args.threads}
    s = compute(conformal.scores, calibration, known, **rule)
    of_classes = {"y": known, "n_classes": P.shape[-1]} if args.by_class else {}
    q = compute(conformal.threshold, s, alphas, num_threads=args.threads, **of_classes)
    sets = compute(conformal.prediction_sets, P, q, empty=args.empty, **rule)
    counts = conformal.ccm(sets, num_threads=args.threads)
    if target is not None:
        write_state(target, counts, force=args.force)
    columns = of_new if of_new is not None and len(of_new) == P.shape[1] else None  # or one column of lists
    facts = {"columns": columns, **_facts(args, sets, counts, q, y)}
    if args.json:
        options = {"lam": args.lam, "k_reg": args.k_reg, "randomised": rule["randomised"] and args.method != "lac"}
        options |= {"seed": args.seed, "by_class": args.by_class, "empty": args.empty}
        print_json({"calibration_rows": len(calibration), **options, **facts})
    else:
        _print(len(calibration), facts)
    return int(bool(np.isnan(s).any()) or _some_bad(P, y))


def _alike(args: argparse.Namespace, known: np.ndarray, of_known: Any, new: np.ndarray, of_new: Any) -> None:
    """Refuse a calibration of other columns than the new rows have."""
    for path, P in ((args.calibration, known), (args.input, new)):
        if P.ndim != 2:
            misuse(f"{path} must be of shape (n, C), a row of probabilities per sample, but is {P.shape}")
    if known.shape[1] != new.shape[1]:
        misuse(f"{args.calibration} has {known.shape[1]} columns of probabilities, but {args.input} {new.shape[1]}")
    if of_known is not None and of_new is not None and of_known != of_new:
        one, other = next(pair for pair in zip(of_known, of_new, strict=True) if pair[0] != pair[1])
        misuse(f"columns differ: {one!r} in {args.calibration} is {other!r} in {args.input}; name them with --features")


def _some_bad(P: np.ndarray, y: np.ndarray | None) -> bool:
    """Whether a new row is none, or its label no class: that was said already."""
    found = conformal.scores(P, np.zeros(len(P), np.int64) if y is None else y, method="lac", on_failure="ignore")
    return bool(np.isnan(found).any())


def _alpha(text: str) -> Any:
    from decimal import Decimal, InvalidOperation

    try:
        found = Decimal(text)
    except InvalidOperation:
        found = Decimal("NaN")
    if not (found.is_finite() and 0 < found < 1):
        misuse(f"--alpha must be above 0 and below 1, got {text!r}")
    return found


def _read(
    args: argparse.Namespace, path: Path, labels: str | None
) -> tuple[list[str] | None, np.ndarray, np.ndarray | None]:
    """Return the names of the columns, probabilities and labels; None without."""
    tick = (lambda done, total: None) if args.quiet else Bar("read", "rows")
    table = path.suffix.lower() in points.TABLES
    names, P, y = points.open_rows(path, labels, args.features if table else None, tick=tick)
    if y is not None and (y.dtype.kind not in "bui" or y.shape != P.shape[:1]):
        wanted = f"of shape {P.shape[:1]} with class ids 0, 1, ..., as {path} has rows"
        misuse(f"{labels} must be {wanted}, but is {y.shape} of {y.dtype}")
    return names, P, y


def _facts(args: argparse.Namespace, sets: Any, counts: Any, q: np.ndarray, y: np.ndarray | None) -> dict[str, Any]:
    """Return what is known of the sets of every alpha."""
    coverage = None if y is None else compute(sets.coverage, y)
    classes = None if y is None else compute(conformal.coverage_confusion, sets, y, on_failure="ignore").rates()
    found = []
    for k, text in enumerate(args.alpha):
        sizes = sets.sizes[k]
        found.append(
            {
                "alpha": float(text),
                "threshold": q[k].tolist(),
                "coverage": None if coverage is None else float(coverage[k]),
                "coverage_by_class": None if classes is None else np.diagonal(classes[k]).tolist(),
                "mean_size": float(sizes.mean()) if sizes.size else None,
                "empty": float((sizes == 0).mean()) if sizes.size else None,
                "G": counts.G[k].tolist(),
                "correlation": counts.correlation()[k].tolist(),
            }
        )
    return {"rows": int(sets.sizes.shape[-1]), "classes": sets.n_classes, "method": args.method, "alphas": found}


def _print(calibration: int, facts: dict[str, Any]) -> None:
    print(f"{facts['rows']:,} rows, {facts['classes']} classes, {facts['method']}; calibrated by {calibration:,}")
    print("alpha   threshold  coverage  mean size    empty  pairs of the highest correlation")
    for one in facts["alphas"]:
        limit = "by class" if isinstance(one["threshold"], list) else f"{one['threshold']:.6f}"
        numbers = [("-" if x is None else f"{x:.4f}") for x in (one["coverage"], one["mean_size"], one["empty"])]
        cells = f"{numbers[0]:>8}  {numbers[1]:>9}  {numbers[2]:>7}"
        pairs = _pairs(np.array(one["correlation"]), facts["columns"] or range(facts["classes"]))
        print(f"{one['alpha']:<7g} {limit:>9}  {cells}  {_screen.shown(pairs)}")


def _pairs(rho: np.ndarray, names: Sequence[object]) -> str:
    """Return the three pairs of the highest correlation."""
    first, second = (places.tolist() for places in np.triu_indices(len(rho), 1))
    values = rho[first, second]
    order = [k for k in np.argsort(-values, kind="stable") if not np.isnan(values[k])][:3]
    return ", ".join(f"{names[first[k]]}-{names[second[k]]} {values[k]:+.2f}" for k in order) or "none defined"
