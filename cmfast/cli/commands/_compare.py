"""``cmfast compare``: two classifiers on the same samples of a table, and which of them is higher."""

import argparse
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np

import cmfast
from cmfast.cli import _screen
from cmfast.cli._columns import in_names, ranked, read
from cmfast.cli._options import (
    Parser,
    compute,
    metric_names,
    misuse,
    natural_number,
    order_option,
    policy,
    replicates,
    share,
    whole_number,
)
from cmfast.cli._ordering import wanted_order, warn_of_order
from cmfast.cli._printing import described, print_json, single
from cmfast.metrics._report import in_head
from cmfast.uncertainty import Comparison, McNemar, PairedCounts
from cmfast.uncertainty._compare import CompareTest
from cmfast.uncertainty._comparison import OPTIONS

NAMES = ("accuracy", "balanced_accuracy", "f1_macro", "mcc")
HIGHER = ("the first is higher", "the second is higher")
HEADS = ("first", "second", "difference", "low", "high", "p")


def add_options(parser: Parser) -> None:
    """Add what the command takes."""
    parser.add_argument("input", type=Path, metavar="FILE", help="a table as for confusion")
    parser.add_argument("--true", required=True, metavar="COLUMN", help="name or number of the column of the truth")
    what = "name or number of the column of a prediction; given twice, the first and the second"
    parser.add_argument("--pred", action="append", required=True, metavar="COLUMN", help=what)
    what = "name or number of a column: a comparison for each of its values; may be given again for further columns"
    parser.add_argument("--by", action="append", metavar="COLUMN", help=what)
    order_option(parser)
    what = "column of what samples have in common, as a patient: these are drawn and swapped, not samples"
    parser.add_argument("--cluster", metavar="COLUMN", help=what)
    parser.add_argument(
        "--header", action=argparse.BooleanOptionalAction, help="csv: whether the first line names the columns"
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", help=f"these metrics (default: {', '.join(NAMES)})")
    parser.add_argument("--level", type=share, default=0.95, metavar="L", help="of the intervals (default: 0.95)")
    parser.add_argument(
        "--replicates",
        type=replicates,
        default=10_000,
        metavar="N",
        help="how often samples are drawn again, and how often swaps are where they are too many; default 10000",
    )
    what = "p from swapping both answers of a sample (default), or from the interval"
    parser.add_argument("--test", choices=get_args(CompareTest), default="permutation", help=what)
    parser.add_argument("--seed", type=whole_number, default=0, metavar="N", help="of the draws, default 0")
    parser.add_argument(
        "--undefined", type=policy, default="present", metavar="POLICY", help="a 0/0, as for cmfast metrics"
    )
    parser.add_argument("--threads", type=natural_number, metavar="N", help="most threads to use, default: all")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")


class Answer(NamedTuple):
    """What was asked for, of every group."""

    labels: list[Any]
    groups: list[tuple[Any, ...]]
    """Values of the columns --by, in order; an empty one where there are no groups."""
    T: PairedCounts
    found: dict[str, Comparison]
    right: McNemar

    def at(self, g: int) -> tuple[int, ...]:
        """Return the place of a group in the arrays."""
        return () if self.T.groups is None else (g,)


def run(args: argparse.Namespace) -> int:
    """Compare, and say it; what was found is no failure."""
    if len(args.pred) != 2:
        misuse(f"--pred must be given twice, once for each to compare, got {len(args.pred)}")
    if args.pred[0] == args.pred[1]:
        misuse(f"--pred: both are {args.pred[0]}")
    names: Any = metric_names(args.only) if args.only else list(NAMES)
    labels, groups, T = _counted(args)
    if args.only:
        warn_of_order(args, names, labels)
    options = {"test": args.test, "level": args.level, "n_replicates": args.replicates, "rng": args.seed}
    options |= {"undefined": args.undefined, "num_threads": args.threads}
    found = compute(cmfast.uncertainty.compare, T, names, **options)
    answer = Answer(labels, groups, T, found, compute(cmfast.uncertainty.mcnemar, T))
    if args.json:
        _print_json(args, answer)
    else:
        for g, group in enumerate(groups):
            if group:
                print(f"{chr(10) if g else ''}{described(args.by, group)}")
            _print(args, answer, answer.at(g))
            print(_verdict(args, answer, answer.at(g)))
    return 0


def _counted(args: argparse.Namespace) -> tuple[list[Any], list[tuple[Any, ...]], PairedCounts]:
    """Return labels, groups and counts of a table, which is read once, in blocks."""
    more = (*(args.by or ()), *([] if args.cluster is None else [args.cluster]))
    values, codes, orders = read(args, (args.true, *args.pred, *more), n_labels=3)
    labels = list(dict.fromkeys(label for own in values[:3] for label in own))
    args.has_order = bool(orders.of_labels)
    classes, order = in_names(labels, wanted_order(args, labels, orders.of_labels))
    sides = [ranked(own, order, one) for own, one in zip(values[:3], codes[:3], strict=True)]
    named: dict[str, Any] = {}
    names = []
    for k, (own, one) in enumerate(zip(values[3:], codes[3:], strict=True)):
        group, order = in_names(list(dict.fromkeys(own)), orders.of_group(k))
        names.append(group)
        named[str(k)] = ranked(own, order, one)
    options: dict[str, Any] = {}
    if args.cluster is not None:
        options["clusters"] = named.popitem()[1]
    if named:
        options["groups"] = named
    T = compute(cmfast.uncertainty.paired_counts, *sides, n_classes=len(classes), **options)
    places = [place if isinstance(place, tuple) else (place,) for place in T.groups or ()]
    groups = [tuple(names[k][at] for k, at in enumerate(place)) for place in places]
    return classes, groups or [()], T


def _print(args: argparse.Namespace, answer: Answer, at: tuple[int, ...]) -> None:
    """Print a line for every metric, or for every class of it."""
    names = _screen.names(answer.labels)
    rows: dict[str, list[float]] = {}
    for name, one in answer.found.items():
        fields = [np.asarray(field)[at] for field in (one.first, one.second, *one[3:7])]
        if np.ndim(fields[0]):
            rows |= {f"{name} {label}": [field[k] for field in fields] for k, label in enumerate(names)}
        else:
            rows[name] = fields
    head = in_head(args.undefined)
    width = max(map(len, (head, *rows)))
    print(f"{head:<{width}}" + "".join(f"{text:>12}" for text in HEADS))
    for name, (first, second, difference, low, high, p) in rows.items():
        cells = f"{first:>12.4f}{second:>12.4f}{difference:>+12.4f}{low:>+12.4f}{high:>+12.4f}{p:>12.3g}"
        print(f"{name:<{width}}{cells}")


def _verdict(args: argparse.Namespace, answer: Answer, at: tuple[int, ...]) -> str:
    """Return one sentence about the first metric that has one number."""
    one = next((found for found in answer.found.values() if np.ndim(found.difference) == len(at)), None)
    b, c = (np.asarray(field)[at] for field in (answer.right.only_first, answer.right.only_second))
    first, second = (_screen.shown(name) for name in args.pred)
    right = f"only {first} is right in {b:,} samples, only {second} in {c:,}"
    if one is None or np.isnan(one.p_value[at] if at else one.p_value):
        return f"Undefined or one per class: {right}."
    chance = np.asarray(one.p_value)[at]
    low, high = (np.asarray(end)[at] for end in (one.low, one.high))
    interval = f"{100 * args.level:g} % between {low:+.4f} and {high:+.4f}, p {chance:.3g}{one.parting(at)}"
    if one.verdict(at) not in HIGHER:
        return f"No difference in {one.name} that could not be chance ({interval}): {right}."
    higher, lower = (first, second) if one.verdict(at) == HIGHER[0] else (second, first)
    return f"{higher} has a higher {one.name} than {lower} ({interval}): {right}."


def _print_json(args: argparse.Namespace, answer: Answer) -> None:
    right, parts = answer.right, []
    for g, group in enumerate(answer.groups):
        at = answer.at(g)
        tested = () if answer.T.n_clusters is not None else ("p_value",)  # which takes samples as independent
        said = {name: np.asarray(getattr(right, name))[at] for name in ("only_first", "only_second", *tested)}
        metrics = {
            name: {field: np.asarray(getattr(one, field))[at] for field in one._fields[1 : -len(OPTIONS)]}
            for name, one in answer.found.items()
        }
        named = {"group": single(group)} if group else {}
        parts.append({**named, "mcnemar": said, "metrics": metrics, "verdict": _verdict(args, answer, at)})
    one = next(iter(answer.found.values()))
    facts: dict[str, Any] = {"labels": answer.labels, "first": args.pred[0], "second": args.pred[1]}
    facts |= {"samples": answer.T.n_samples, "clusters": answer.T.n_clusters, "undefined": args.undefined}
    facts |= {
        "method": one.method,
        "test": one.test,
        "level": one.level,
        "replicates": args.replicates,
        "seed": args.seed,
    }
    print_json(facts | ({"by": single(args.by), "groups": parts} if args.by else parts[0]))
