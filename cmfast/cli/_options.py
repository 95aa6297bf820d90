"""What the commands share of their options: the parser, kinds of values, groups of options, and what misuse is."""

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, cast, get_args

import numpy as np

import cmfast
from cmfast._core import validate
from cmfast._core.annotations import Policy, Undefined
from cmfast._core.progress import Bar, on_terminal
from cmfast._files.output import check_target
from cmfast._files.sources import Source, located

MATRICES = "npy or zarr (..., C, C), or a csv, Parquet, Arrow or Feather table with one in each row"
CELLS = "columns of a table with the cells: one of lists, or one for each cell, row by row"
POLICIES = get_args(Policy)
DEFAULT = "default: the one with a usual name, as y_true and y_pred, or the first of two"


class UsageError(Exception):
    """Wrong options; the text is one line."""


def misuse(text: str) -> NoReturn:
    """End the command, which cannot do what was asked."""
    raise UsageError(text)


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, and whose options are added when it is used."""

    prepare: Callable[["Parser"], None] | None = None

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride]  # of overloads
        self, args: Any = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Refuse what is not known in the parser that knows what is near."""
        if self.prepare is not None:
            prepare, self.prepare = self.prepare, None
            prepare(self)
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            wrong = next((text.partition("=")[0] for text in rest if text.startswith("--")), "")
            known = [name for action in self._actions for name in action.option_strings if name.startswith("--")]
            self.error(f"unrecognized arguments: {' '.join(rest)}{validate.meant(wrong, known) if wrong else ''}")
        return found, rest

    @property
    def flags(self) -> dict[str, str]:
        """The options by what they set."""
        return {action.dest: action.option_strings[-1] for action in self._actions if action.option_strings}

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the whole usage."""
        misuse(f"{message} (see {self.prog} --help)")


def output_options(parser: Parser, what: str, *, required: bool = False) -> None:
    """Add where the result goes, and that nothing is said on the way."""
    parser.add_argument("-o", "--output", type=Path, required=required, metavar="OUT", help=what)
    parser.add_argument("--force", action="store_true", help="replace OUT if it exists")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr, where it is a terminal")


def scaling_options(parser: Parser) -> None:
    """Add what normalising asks for in every command."""
    parser.add_argument(
        "--smoothing",
        type=smoothing,
        metavar="EPS",
        help="bi: a number added to every cell, or pseudo-bayes, default none",
    )
    parser.add_argument("--threads", type=natural_number, metavar="N", help="most threads to use, default: all")


def label_options(parser: Parser, what: str) -> None:
    """Add where the labels are: columns of a table, or files of their own."""
    parser.add_argument("input", type=located, nargs="?", metavar="FILE", help=what)
    parser.add_argument(
        "--labels", type=located, metavar="Y", help="in place of FILE: npy or zarr (n,) of the truth; --pred is another"
    )
    parser.add_argument("--true", metavar="COLUMN", help=f"name or number of the column of the truth; {DEFAULT}")
    parser.add_argument("--pred", metavar="COLUMN", help="the same for the prediction; with --labels its file")
    what = "name or number of a column: a matrix for each of its values; may be given again for further columns"
    parser.add_argument("--by", action="append", metavar="COLUMN", help=what)
    parser.add_argument(
        "--header", action=argparse.BooleanOptionalAction, help="csv: whether the first line names the columns"
    )
    order_option(parser)


def order_option(parser: Parser) -> None:
    """Add the order of the classes."""
    what = "all classes in their order, which weighted kappas depend on (default: that of the file, else sorted)"
    parser.add_argument("--order", nargs="+", metavar="CLASS", help=what)


def bar(args: argparse.Namespace, label: str, unit: str = "") -> Bar | None:
    """Return what shows how far the work is; None where nobody looks, or wants to."""
    return None if args.quiet or not on_terminal() else Bar(label, unit)


def positive_number(text: str) -> float:
    """Read a finite number above zero."""
    value: float = _number(text, float, lambda value: np.isfinite(value) and value > 0, "a number above 0")
    return value


def importances(text: str) -> list[float]:
    """Read numbers above zero, or inf, between commas."""
    wanted = "a number above 0 or inf, or some between commas"
    return [_number(part, float, lambda value: value > 0, wanted) for part in text.split(",")]


def whole_number(text: str) -> int:
    """Read an integer of at least 0."""
    value: int = _number(text, int, lambda value: value >= 0, "an integer of at least 0")
    return value


def natural_number(text: str) -> int:
    """Read an integer of at least 1."""
    value: int = _number(text, int, lambda value: value >= 1, "an integer of at least 1")
    return value


def components(text: str) -> int | None:
    """Read an integer of at least 1, or "none"."""
    if text == "none":
        return None
    return natural_number(text)


def smoothing(text: str) -> float | str:
    """Read a finite number above zero, or "pseudo-bayes"."""
    if text == "pseudo-bayes":
        return text
    try:
        return positive_number(text)
    except argparse.ArgumentTypeError:
        msg = f"must be a number above 0 or pseudo-bayes, got {text!r}"
        raise argparse.ArgumentTypeError(msg) from None


def _number(text: str, read: Callable[[str], Any], fits: Callable[[Any], bool], wanted: str) -> Any:
    try:
        value = read(text)
    except ValueError:
        value = None
    if value is None or not fits(value):
        msg = f"must be {wanted}, got {text!r}"
        raise argparse.ArgumentTypeError(msg)
    return value


def given(args: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Return the options that were given; the others keep the defaults of the function."""
    return {name: value for name in names if (value := getattr(args, name)) is not None}


def compute(function: Callable[..., Any], *arrays: Any, **options: Any) -> Any:
    """Call a public function; what it refuses is a wrong use of the command, and a FailureError stays one."""
    try:
        return function(*arrays, **options)
    except cmfast.FailureError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(str(error)) from error


def sources(args: argparse.Namespace) -> list[Source]:
    """Return the files that hold the labels, after checking how they are named."""
    if args.labels is None:
        if args.input is None:
            misuse("give FILE, or --labels and --pred")
        return [args.input]
    if args.input is not None:
        misuse("--labels takes the place of FILE, whose columns are --true and --pred")
    if args.pred is None:
        misuse("--labels needs --pred, the file of the predictions")
    if (args.true, args.header) != (None, None):
        misuse("--true and --header belong to FILE")
    return [args.labels, located(args.pred), *map(located, args.by or ())]


def table_target(args: argparse.Namespace, suffixes: tuple[str, ...], *sources: Source) -> Path | None:
    """Return where --output goes, None if nowhere, before anything is computed."""
    if args.output is None:
        return None
    if args.output.suffix.lower() not in suffixes:
        misuse(f"--output must end in {', '.join(suffixes)}, got {args.output}")
    files = tuple(one for one in sources if isinstance(one, Path))
    return check_target(args.output, force=args.force, sources=files)


def policy(text: str) -> Undefined:
    """Read a policy for 0/0: one of the names, or a number from 0 to 1."""
    if text in POLICIES:
        return cast(Undefined, text)
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        msg = f"must be a number from 0 to 1, or one of {', '.join(POLICIES)}, got {text!r}"
        raise argparse.ArgumentTypeError(msg)
    return value


def metric_names(given: list[str]) -> list[str]:
    """Return the names of metrics, between spaces or commas; one that is mistyped is answered by those next to it."""
    from cmfast.metrics import _catalogue

    names = [name for text in given for name in text.split(",") if name]
    for name in names:
        if _catalogue.find(name) is None:
            near = _catalogue.near(name)
            other = f"did you mean {near[0]!r}?" if near else "there is accuracy, f1_macro, mcc, ..."
            misuse(f"--only: there is no metric {name!r}; {other}")
    if not names:
        misuse("--only: give the names of metrics")
    return names


def replicates(text: str) -> int:
    """Read an integer of at least 2."""
    value = natural_number(text)
    if value < 2:
        msg = f"must be at least 2, got {text!r}"
        raise argparse.ArgumentTypeError(msg)
    return value


def share(text: str) -> float:
    """Read a number between 0 and 1."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        msg = f"must be a number between 0 and 1, got {text!r}"
        raise argparse.ArgumentTypeError(msg)
    return value
