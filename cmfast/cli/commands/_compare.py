"""``cmfast compare``: compare two classifiers on the same samples of a table."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np

import cmfast
from cmfast.cli import _screen
from cmfast.cli._calls import compute
from cmfast.cli._label_table import LabelTable, complete_columns, read_columns
from cmfast.cli._options import AGAIN, COLUMN, add_common, parse_metric_names
from cmfast.cli._ordering import warn_of_order
from cmfast.cli._parser import Parser, misuse
from cmfast.cli._printing import describe_group, fit_widths, format_table, single
from cmfast.cli._result import Result
from cmfast.metrics._report import format_policy
from cmfast.results import Comparison, McNemar
from cmfast.uncertainty import PairedCounts
from cmfast.uncertainty._compare import CompareTest
from cmfast.uncertainty._comparison import DECIDES, OPTIONS

NAMES = ("accuracy", "balanced_accuracy", "f1_macro", "mcc")
HIGHER = ("the first is higher", "the second is higher")
CONTRADICTION = f"the interval and the test contradict each other; {DECIDES}"
HEADS = ("first", "second", "difference", "low", "high", "p")
FORMATS = (".4f", ".4f", "+.4f", "+.4f", "+.4f", ".3g")


def add_options(parser: Parser) -> None:
    """Add the options of the command."""
    parser.add_argument("input", type=Path, metavar="FILE", help="a table as for confusion")
    add_common(parser, "--true")
    what = "name or number of a column of predictions; give it twice, once per classifier"
    parser.add_argument("--pred", action="append", metavar="COLUMN", help=what)
    add_common(parser, "--by", help=f"{COLUMN}: one comparison per value; {AGAIN}")
    add_common(parser, "--order")
    what = "column of clusters, such as patients: clusters are resampled and swapped instead of samples"
    add_common(parser, "--cluster", help=what)
    add_common(parser, "--header")
    add_common(parser, "--only", help=f"these metrics (default: {', '.join(NAMES)})")
    add_common(parser, "--confidence-level")
    what = "number of bootstrap resamples, and of random permutations if there are too many; default 10000"
    add_common(parser, "--resamples", help=what)
    what = "p-value from permuting the two predictions of a sample (default), or from the interval"
    parser.add_argument("--test", choices=get_args(CompareTest), default="permutation", help=what)
    add_common(parser, "--seed")
    add_common(parser, "--undefined", help="value of 0/0, as for cmfast metrics")
    add_common(parser, "--threads", "--quiet")


class Compared(NamedTuple):
    """Comparison of two classifiers in every group."""

    labels: list[Any]
    groups: list[tuple[Any, ...]]
    """Values of the columns --by, in order; an empty tuple without --by."""
    counts: PairedCounts
    metrics: dict[str, Comparison]
    mcnemar: McNemar

    def group_index(self, g: int) -> tuple[int, ...]:
        """Return the index of group `g` in the result arrays."""
        return () if self.counts.groups is None else (g,)


def run(args: argparse.Namespace) -> Result:
    """Compare the classifiers; never a failure."""
    if len(args.pred or ()) > 2:
        misuse(f"--pred must be given twice, once for each to compare, got {len(args.pred)}")
    complete_columns(args, 2)
    if args.pred[0] == args.pred[1]:
        misuse(f"--pred: both are {args.pred[0]}")
    names: Any = parse_metric_names(args.only) if args.only else list(NAMES)
    others = [*(args.by or ()), *(() if args.cluster is None else (args.cluster,))]
    table = read_columns(args, [args.true, *args.pred], others)
    groups, T = _count(args, table)
    if args.only and not table.has_order:
        warn_of_order(names, table.labels)
    options = {
        "test": args.test,
        "confidence_level": args.confidence_level,
        "n_resamples": args.resamples,
        "rng": args.seed,
    }
    options |= {"undefined": args.undefined, "num_threads": args.threads}
    metrics = compute(cmfast.uncertainty.compare, T, names, **options)
    compared = Compared(table.labels, groups, T, metrics, compute(cmfast.uncertainty.mcnemar, T))
    return Result(_metadata(args, compared), _lines(args, compared))


def _count(args: argparse.Namespace, table: LabelTable) -> tuple[list[tuple[Any, ...]], PairedCounts]:
    """Return the groups and the paired counts of all groups."""
    by = table.others[: len(args.by or ())]
    options: dict[str, Any] = {"groups": {str(k): codes for k, (_, codes) in enumerate(by)}} if by else {}
    if args.cluster is not None:
        options["clusters"] = table.others[-1][1]
    T = compute(cmfast.uncertainty.paired_counts, *table.codes, n_classes=len(table.labels), **options)
    indices = [index if isinstance(index, tuple) else (index,) for index in T.groups or ()]
    groups = [tuple(by[k][0][at] for k, at in enumerate(index)) for index in indices]
    return groups or [()], T


def _lines(args: argparse.Namespace, compared: Compared) -> Iterator[str]:
    """Yield per group a line for each metric (or metric and class) and a verdict.

    A star marks intervals that contradict the test.
    """
    classes = _screen.names(compared.labels)
    for g, group in enumerate(compared.groups):
        if group:
            yield f"{chr(10) if g else ''}{describe_group(args.by, group)}"
        at = compared.group_index(g)
        rows: dict[str, list[float]] = {}
        contradictory: dict[str, bool] = {}
        for name, one in compared.metrics.items():
            fields = [np.asarray(field)[at] for field in (one.first, one.second, *one[3:7])]
            if np.ndim(fields[0]):
                rows |= {f"{name} {label}": [field[k] for field in fields] for k, label in enumerate(classes)}
                contradictory |= {f"{name} {label}": bool(one.parting((*at, k))) for k, label in enumerate(classes)}
            else:
                rows[name], contradictory[name] = fields, bool(one.parting(at))
        texts = {name: [format(x, how) for x, how in zip(row, FORMATS, strict=True)] for name, row in rows.items()}
        head, *lines = format_table(format_policy(args.undefined), HEADS, texts, fit_widths(HEADS, texts))
        yield head
        for line, name in zip(lines, rows, strict=True):
            yield f"{line} *" if contradictory[name] else line
        if any(contradictory.values()):
            yield f"* {CONTRADICTION}"
        yield _verdict(args, compared, at)


def _verdict(args: argparse.Namespace, compared: Compared, at: tuple[int, ...]) -> str:
    """Return one sentence on the first metric with a single value."""
    one = next((found for found in compared.metrics.values() if np.ndim(found.difference) == len(at)), None)
    b, c = (np.asarray(field)[at] for field in (compared.mcnemar.only_first, compared.mcnemar.only_second))
    first, second = (_screen.shown(name) for name in args.pred)
    right = f"only {first} is correct in {b:,} samples, only {second} in {c:,}"
    if one is None or np.isnan(one.p_value[at] if at else one.p_value):
        return f"Undefined or one per class: {right}."
    chance = np.asarray(one.p_value)[at]
    low, high = (np.asarray(end)[at] for end in (one.low, one.high))
    interval = f"{100 * args.confidence_level:g} % between {low:+.4f} and {high:+.4f}, p {chance:.3g}{one.parting(at)}"
    if one.verdict(at) not in HIGHER:
        return f"No difference in {one.name} that could not be chance ({interval}): {right}."
    higher, lower = (first, second) if one.verdict(at) == HIGHER[0] else (second, first)
    return f"{higher} has a higher {one.name} than {lower} ({interval}): {right}."


def _metadata(args: argparse.Namespace, compared: Compared) -> dict[str, Any]:
    """Return the settings of the comparison and the results of every group."""
    counts, mcnemar, parts = compared.counts, compared.mcnemar, []
    tested = () if counts.n_clusters is not None else ("p_value",)  # McNemar's test assumes independent samples
    for g, group in enumerate(compared.groups):
        at = compared.group_index(g)
        metrics = {
            name: {field: np.asarray(getattr(one, field))[at] for field in one._fields[1 : -len(OPTIONS)]}
            for name, one in compared.metrics.items()
        }
        said = {name: np.asarray(getattr(mcnemar, name))[at] for name in ("only_first", "only_second", *tested)}
        named = {"group": single(group)} if group else {}
        parts.append({**named, "mcnemar": said, "metrics": metrics, "verdict": _verdict(args, compared, at)})
    one = next(iter(compared.metrics.values()))
    return {
        "labels": compared.labels,
        "first": args.pred[0],
        "second": args.pred[1],
        "samples": counts.n_samples,
        "clusters": counts.n_clusters,
        "undefined": args.undefined,
        "method": one.method,
        "test": one.test,
        "confidence_level": one.confidence_level,
        "resamples": args.resamples,
        "seed": args.seed,
        **({"by": single(args.by), "groups": parts} if args.by else parts[0]),
    }
