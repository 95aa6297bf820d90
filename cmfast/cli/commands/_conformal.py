"""``cmfast conformal``: prediction sets for a file of probabilities, and how often classes share a set."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cmfast import conformal
from cmfast._files import points
from cmfast.cli import _screen
from cmfast.cli._calls import compute, tick
from cmfast.cli._options import add_common, add_output, check_output
from cmfast.cli._parser import Parser, misuse
from cmfast.cli._result import Result
from cmfast.cli._values import positive_number, whole_number
from cmfast.cli._writing import content_of_state
from cmfast.conformal._options import METHODS
from cmfast.conformal._prediction_sets import EMPTY_RULES


def add_options(parser: Parser) -> None:
    """Add the options of the command."""
    parser.add_argument("input", type=Path, metavar="FILE", help="probabilities: npy or zarr (n, C), or a table")
    parser.add_argument(
        "--calibration",
        type=Path,
        required=True,
        metavar="FILE",
        help="probabilities of the calibration samples, whose labels are known",
    )
    parser.add_argument(
        "--labels",
        metavar="Y",
        help="npy or zarr (n,) with the class ids of FILE; or a column of the table, with ids or names of columns",
    )
    parser.add_argument(
        "--calibration-labels", metavar="Y", help="labels of the calibration samples; default: as --labels"
    )
    add_common(parser, "--features", help="table columns with the probabilities; default: all other columns")
    parser.add_argument("--alpha", nargs="+", default=["0.1"], metavar="A", help="error rates; default 0.1")
    parser.add_argument("--method", choices=METHODS, default="aps", help="conformity score; default aps")
    parser.add_argument(
        "--lam",
        type=positive_number,
        metavar="L",
        help="raps: penalty per rank; saps: its weight",
    )
    parser.add_argument(
        "--k-reg", type=whole_number, default=0, metavar="K", help="raps: number of ranks without penalty; default 0"
    )
    parser.add_argument("--deterministic", action="store_true", help="inclusive instead of randomised scores")
    add_common(parser, "--seed", help="random seed of randomised scores; default 0")
    parser.add_argument("--by-class", action="store_true", help="one threshold per class")
    parser.add_argument(
        "--empty",
        choices=EMPTY_RULES,
        default="allow",
        help="top1: replace an empty set by the most likely label; default allow",
    )
    add_common(parser, "--threads")
    add_output(parser, "npz or json file for the co-occurrence counts, readable by cmfast merge")


def run(args: argparse.Namespace) -> Result:
    """Calibrate and predict; failed if a row holds no probabilities or a label is not a class."""
    alphas = [_parse_alpha(text) for text in args.alpha]
    args.target = check_output(args, (".npz", ".json"), args.input, args.calibration)
    if args.lam is not None and args.method not in ("raps", "saps"):
        misuse("--lam belongs to --method raps or saps")
    if args.k_reg and args.method != "raps":
        misuse("--k-reg belongs to --method raps")
    if args.method == "saps" and not args.lam:
        misuse("--method saps needs --lam, the weight of a rank, for example 0.1")
    if args.method == "raps" and args.lam is None:
        misuse("--method raps needs --lam, the penalty per rank beyond --k-reg, for example 0.1")
    if args.calibration_labels is None and args.labels is None:
        misuse("the calibration needs labels: --calibration-labels, or for tables --labels")
    of_known, calibration, known = _read_rows(args, args.calibration, args.calibration_labels or args.labels)
    of_new, P, y = _read_rows(args, args.input, args.labels)
    _check_columns(args, calibration, of_known, P, of_new)
    penalty = {"lam": args.lam or 0.0, "k_reg": args.k_reg}
    rule: dict[str, Any] = {"method": args.method, **penalty, "randomised": not args.deterministic}
    rule |= {"rng": args.seed, "num_threads": args.threads}
    s = compute(conformal.scores, calibration, known, **rule)
    of_classes = {"y": known, "n_classes": P.shape[-1]} if args.by_class else {}
    q = compute(conformal.threshold, s, alphas, num_threads=args.threads, **of_classes)
    sets = compute(conformal.prediction_sets, P, q, empty=args.empty, **rule)
    counts = conformal.ccm(sets, num_threads=args.threads)
    metadata = {
        "calibration_rows": len(calibration),
        **penalty,
        "randomised": rule["randomised"] and args.method != "lac",
        "seed": args.seed,
        "by_class": args.by_class,
        "empty": args.empty,
        "columns": of_new if of_new is not None and len(of_new) == P.shape[1] else None,  # or one column of lists
        "rows": int(sets.sizes.shape[-1]),
        "classes": sets.n_classes,
        "method": args.method,
        "alphas": _describe(args, sets, counts, q, y),
    }
    failed = bool(np.isnan(s).any()) or _has_bad_rows(P, y)
    return Result(metadata, _lines(metadata), content_of_state(counts, args.target), failed)


def _check_columns(args: argparse.Namespace, known: np.ndarray, of_known: Any, new: np.ndarray, of_new: Any) -> None:
    """Raise UsageError if calibration and new rows have different columns."""
    for path, P in ((args.calibration, known), (args.input, new)):
        if P.ndim != 2:
            misuse(f"{path} must be of shape (n, C), a row of probabilities per sample, but is {P.shape}")
    if known.shape[1] != new.shape[1]:
        misuse(f"{args.calibration} has {known.shape[1]} columns of probabilities, but {args.input} {new.shape[1]}")
    if of_known is not None and of_new is not None and of_known != of_new:
        one, other = next(pair for pair in zip(of_known, of_new, strict=True) if pair[0] != pair[1])
        misuse(f"columns differ: {one!r} in {args.calibration} is {other!r} in {args.input}; name them with --features")


def _has_bad_rows(P: np.ndarray, y: np.ndarray | None) -> bool:
    """Whether a new row holds no probabilities or its label is not a class; the warning was already issued."""
    found = conformal.scores(P, np.zeros(len(P), np.int64) if y is None else y, method="lac", on_failure="ignore")
    return bool(np.isnan(found).any())


def _parse_alpha(text: str) -> Any:
    """Parse an error rate between 0 and 1 as a Decimal."""
    from decimal import Decimal, InvalidOperation

    try:
        found = Decimal(text)
    except InvalidOperation:
        found = Decimal("NaN")
    if not (found.is_finite() and 0 < found < 1):
        misuse(f"--alpha must be above 0 and below 1, got {text!r}")
    return found


def _read_rows(
    args: argparse.Namespace, path: Path, labels: str | None
) -> tuple[list[str] | None, np.ndarray, np.ndarray | None]:
    """Return column names (None for arrays), probabilities, and labels (None without)."""
    table = path.suffix.lower() in points.TABLES
    names, P, y = points.open_rows(path, labels, args.features if table else None, tick=tick(args, "read", "rows"))
    if y is not None and (y.dtype.kind not in "bui" or y.shape != P.shape[:1]):
        wanted = f"of shape {P.shape[:1]} with class ids 0, 1, ..., as {path} has rows"
        misuse(f"{labels} must be {wanted}, but is {y.shape} of {y.dtype}")
    return names, P, y


def _describe(
    args: argparse.Namespace, sets: Any, counts: Any, q: np.ndarray, y: np.ndarray | None
) -> list[dict[str, Any]]:
    """Return threshold, coverage, set sizes and co-occurrence for every alpha."""
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
    return found


def _lines(metadata: dict[str, Any]) -> Iterator[str]:
    """Yield the printed table: threshold, coverage, sizes and correlated classes for every alpha."""
    size = f"{metadata['rows']:,} rows, {metadata['classes']} classes"
    yield f"{size}, {metadata['method']}; calibrated by {metadata['calibration_rows']:,}"
    yield "alpha   threshold  coverage  mean size    empty  pairs of the highest correlation"
    for one in metadata["alphas"]:
        limit = "by class" if isinstance(one["threshold"], list) else f"{one['threshold']:.6f}"
        numbers = [("-" if x is None else f"{x:.4f}") for x in (one["coverage"], one["mean_size"], one["empty"])]
        cells = f"{numbers[0]:>8}  {numbers[1]:>9}  {numbers[2]:>7}"
        pairs = _name_pairs(np.array(one["correlation"]), metadata["columns"] or range(metadata["classes"]))
        yield f"{one['alpha']:<7g} {limit:>9}  {cells}  {_screen.shown(pairs)}"


def _name_pairs(rho: np.ndarray, names: Sequence[object]) -> str:
    """Return the three pairs of classes with the highest correlation, as text."""
    first, second = (places.tolist() for places in np.triu_indices(len(rho), 1))
    values = rho[first, second]
    order = [k for k in np.argsort(-values, kind="stable") if not np.isnan(values[k])][:3]
    return ", ".join(f"{names[first[k]]}-{names[second[k]]} {values[k]:+.2f}" for k in order) or "none defined"
