"""The command ``cmfast``: files in, tables or files out. It holds no mathematics.

Exit status: 0 fine, 1 some elements failed, 2 wrong usage or a file that cannot be read or written; 128 and the number
of the signal where one ended it, as a shell says it.
"""

import argparse
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn, cast

import numpy as np

import cmfast
from cmfast._core.progress import Bar
from cmfast._files import points, tables
from cmfast._files.output import (
    FileError,
    check_target,
    reason,
    replacing,
    to_json,
    write_block,
    write_npy_header,
    write_npz,
)
from cmfast.cli import _screen

METHODS = ("all", "row", "col", "bi")
WIDEST = 20  # classes of a matrix that is printed
DEFAULT = "default: the one with a usual name, as y_true and y_pred, or the first of two"
OTHER_KINDS = (".npz", ".csv", ".tsv", ".txt", ".json", ".zarr", *points.TABLES)
DIGITS = 600  # of a label that may be a number; Python reads 640 whatever its settings
LABEL_BYTES = 64 << 20  # of the labels in an npz file, where the matrix is no larger
GCM_COLUMNS = ("overlap", "guaranteed", "null_overlap", "null_sd", "missing_mass")


class UsageError(Exception):
    """Wrong options; the text is one line."""


def _misuse(text: str) -> NoReturn:
    raise UsageError(text)


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the whole usage."""
        _misuse(f"{message} (see {self.prog} --help)")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    with _screen.attached() as screen:
        try:
            status = _run(argv)
            screen.flush()
        except (UsageError, FileError) as error:
            return _complain(str(error))
        except MemoryError as error:
            return _complain(f"not enough memory ({error})" if str(error) else "not enough memory")
        except BrokenPipeError:  # the reader of our output has gone, as `head` does
            return 128 + signal.SIGPIPE
        except OSError as error:
            return _complain(f"{error.filename}: {reason(error)}" if error.filename else reason(error))
        except _Stopped as stopped:
            return stopped.status
        except KeyboardInterrupt:
            return 128 + signal.SIGINT
        return status


def _run(argv: Sequence[str] | None) -> int:
    try:
        args = _parser().parse_args(argv)
    except SystemExit as done:  # --help and --version have been printed
        return int(done.code or 0)
    with _Signals(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", cmfast.FailureWarning)
        warnings.simplefilter("always", cmfast.DiagnosticWarning)
        try:
            return int(args.run(args))
        finally:
            for message in dict.fromkeys(str(w.message) for w in caught):
                _say(f"warning: {message}")


def _say(text: str) -> None:
    sys.stderr.write(f"cmfast: {_screen.line(text)}\n")


def _complain(text: str) -> int:
    _say(text)
    return 2


class _Stopped(BaseException):
    """The process was asked to end; what it had half written is removed on the way out."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.status = 128 + number


class _Signals:
    """Turn SIGTERM and SIGHUP into an exception, so that files are cleaned up; as it was before, afterwards."""

    def __enter__(self) -> None:
        names = ("SIGTERM", "SIGHUP") if threading.current_thread() is threading.main_thread() else ()
        numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
        self._before = [(number, signal.signal(number, self._stop)) for number in numbers]

    @staticmethod
    def _stop(number: int, frame: object) -> NoReturn:
        raise _Stopped(number)

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before:
            signal.signal(number, handler)


# The options


def _parser() -> Parser:
    parser = Parser(prog="cmfast", description="Confusion matrices, fast and exact.")
    parser.add_argument("--version", action="version", version=f"cmfast {cmfast.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _normalize_options(_command(commands, "normalize", _normalize, "normalise a file of confusion matrices"))
    _confusion_options(_command(commands, "confusion", _confusion, "count a confusion matrix from a table of labels"))
    _metrics_options(_command(commands, "metrics", _metrics, "metrics of a table of labels, or of a file of matrices"))
    _gcm_options(_command(commands, "gcm", _gcm, "geometric confusion matrix of embeddings"))
    info = _command(commands, "info", _info, "versions, threads, cache folder, GPU: what a bug report needs")
    info.add_argument("--clear-cache", action="store_true", help="remove the compiled kernels of all versions")
    demo = _command(commands, "demo", _demo, "the whole story on real data: a report, numbers and matrices")
    demo.add_argument("--out", type=Path, default=Path("cmfast-demo"), metavar="DIR", help="folder for the results")
    demo.add_argument("--seed", type=whole_number, default=0, metavar="N", help="default 0")
    return parser


def _command(commands: Any, name: str, run: Callable[[argparse.Namespace], int], summary: str) -> Parser:
    parser: Parser = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
    parser.add_argument("--json", action="store_true", help="print JSON for programs instead of a table")
    parser.set_defaults(run=run)
    return parser


def _output_options(parser: Parser, what: str, *, required: bool = False) -> None:
    parser.add_argument("-o", "--output", type=Path, required=required, metavar="OUT", help=what)
    parser.add_argument("--force", action="store_true", help="replace OUT if it exists")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")


def _scaling_options(parser: Parser) -> None:
    parser.add_argument(
        "--smoothing", type=smoothing, metavar="EPS", help="bi: a number added to every cell, or pseudo-bayes"
    )
    parser.add_argument("--threads", type=natural_number, metavar="N", help="most threads to use")


def _normalize_options(parser: Parser) -> None:
    parser.add_argument("input", type=Path, metavar="IN.npy", help="matrices (..., C, C); may be larger than memory")
    _output_options(parser, "npy file for the result", required=True)
    parser.add_argument("--method", choices=METHODS, default="bi", help="default bi")
    _scaling_options(parser)
    parser.add_argument("--tol", type=positive_number, help="bi: relative error of the margins (L1), default 1e-9")
    parser.add_argument("--max-iter", type=natural_number, metavar="N", help="bi: most passes over a matrix")
    parser.add_argument("--solver", choices=("auto", "newton", "sinkhorn"), help="bi: default auto")
    parser.add_argument("--empty", choices=("nan", "drop"), help="bi: a class never true and never predicted")
    parser.add_argument("--status", type=Path, metavar="OUT.npy", help="also write the status code of every matrix")
    parser.add_argument("--block-mb", type=positive_number, default=tables.BLOCK_BYTES / 2**20, help=argparse.SUPPRESS)


def _confusion_options(parser: Parser) -> None:
    parser.add_argument("input", type=Path, metavar="FILE", help="npy (n, 2), csv, tsv, Parquet, Arrow or Feather")
    parser.add_argument("--true", metavar="COLUMN", help=f"name or number of the column of the truth; {DEFAULT}")
    parser.add_argument("--pred", metavar="COLUMN", help="the same for the prediction")
    parser.add_argument(
        "--header", action=argparse.BooleanOptionalAction, help="csv: whether the first line names the columns"
    )
    parser.add_argument("--normalize", choices=METHODS, help="normalise the matrix")
    _scaling_options(parser)
    _output_options(parser, "npy, npz, csv or json file; the last three keep the labels")


def _metrics_options(parser: Parser) -> None:
    parser.add_argument("input", type=Path, metavar="FILE", help="labels as for confusion, or npy matrices (..., C, C)")
    parser.add_argument("--true", metavar="COLUMN", help=f"name or number of the column of the truth; {DEFAULT}")
    parser.add_argument("--pred", metavar="COLUMN", help="the same for the prediction")
    parser.add_argument(
        "--header", action=argparse.BooleanOptionalAction, help="csv: whether the first line names the columns"
    )
    parser.add_argument("--by", metavar="COLUMN", help="name or number of a column: a matrix for each of its values")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these metrics (default: all, one number per matrix)")
    parser.add_argument(
        "--undefined", choices=("present", "nan", "strict", "zero", "one"), default="nan", help="a 0/0; default nan"
    )
    parser.add_argument("--threads", type=natural_number, metavar="N", help="most threads to use")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")


def _gcm_options(parser: Parser) -> None:
    parser.add_argument(
        "input", type=Path, metavar="X", help="embeddings (n, m): npy, zarr, or a Parquet, Arrow or Feather table"
    )
    parser.add_argument("--labels", required=True, metavar="Y", help="true classes 0..C-1: file (n,), or column of X")
    parser.add_argument("--pred", required=True, metavar="P", help="predicted classes: file (n,), or column of X")
    parser.add_argument(
        "--features", nargs="+", metavar="COLUMN", help="columns of a table with the embeddings (default: all others)"
    )
    parser.add_argument("--weights", choices=METHODS, nargs="+", default=list(METHODS), help="default: all four")
    parser.add_argument(
        "--components", type=components, default=10, metavar="M", help="axes of the PCA, default 10; none: no PCA"
    )
    parser.add_argument(
        "--grid", choices=("scott", "freedman-diaconis"), default="scott", help="rule for the cell widths"
    )
    parser.add_argument(
        "--seed", type=whole_number, default=0, metavar="N", help="of the permuted-label null, default 0"
    )
    _scaling_options(parser)
    _output_options(parser, "npz or json file for matrices and diagnostics")


def positive_number(text: str) -> float:
    """Read a finite number above zero."""
    value: float = _number(text, float, lambda value: np.isfinite(value) and value > 0, "a number above 0")
    return value


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


def _given(args: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Return the options that were given; the others keep the defaults of the function."""
    return {name: value for name in names if (value := getattr(args, name)) is not None}


def _compute(function: Callable[..., Any], *arrays: Any, **options: Any) -> Any:
    """Call a public function; what it refuses is a wrong use of the command."""
    try:
        return function(*arrays, **options)
    except (TypeError, ValueError, OverflowError, NotImplementedError) as error:
        raise UsageError(str(error)) from error


# normalize


def _normalize(args: argparse.Namespace) -> int:
    options = _given(args, "smoothing", "tol", "max_iter", "solver", "empty")
    if args.method != "bi" and options:
        _misuse(f"--{next(iter(options)).replace('_', '-')} belongs to --method bi")
    for option, path in (("--output", args.output), ("--status", args.status)):
        if path is not None and path.suffix.lower() in OTHER_KINDS:
            _misuse(f"{option} is written as npy, so its name should not end in {path.suffix}")
    target = check_target(args.output, force=args.force, sources=(args.input,))
    codes_target = None
    if args.status is not None:
        if Path(os.path.realpath(args.status)) == target:
            _misuse("--status and --output are the same file")
        codes_target = check_target(args.status, force=args.force, sources=(args.input, args.output))
    M = _matrices(args.input, square=args.method == "bi")
    blocks = tables.MatrixBlocks(M, int(min(args.block_mb, 2**40) * 2**20))
    started = time.perf_counter()
    codes, residual, dtype = _normalize_file(blocks, target, args, options)
    if codes_target is not None:
        with replacing(codes_target, force=args.force) as file:
            write_npy_header(file, blocks.batch, codes.dtype)
            write_block(file, codes)
    facts = {
        "input": str(args.input),
        "output": str(args.output),
        "shape": list(M.shape),
        "dtype": [str(M.dtype), str(dtype)],
        "method": args.method,
        "options": options,
        "matrices": blocks.total,
        **_tally(codes),
        "largest_residual": residual,
        "seconds": round(time.perf_counter() - started, 3),
    }
    if args.json:
        _print_json(facts)
    else:
        _print_normalized(facts)
    return 1 if facts["failed"] else 0


def _matrices(path: Path, *, square: bool) -> np.ndarray:
    """Map a file of matrices; what the functions would refuse is refused here by the name of the file."""
    M = tables.open_npy(path)
    if M.ndim < 2 or (square and M.shape[-2] != M.shape[-1]):
        what = "square matrices (..., C, C)" if square else "matrices (..., R, C)"
        raise FileError(path, f"must hold {what}, but its shape is {M.shape}")
    if M.dtype.kind not in "buif" or M.itemsize > 8:
        raise FileError(path, f"must hold real numbers of at most 64 bits, but its dtype is {M.dtype}")
    return M


def _normalize_file(
    blocks: tables.MatrixBlocks, target: Path, args: argparse.Namespace, options: dict[str, Any]
) -> tuple[np.ndarray, float | None, np.dtype]:
    """Write every block normalised; return the codes, the largest residual of a matrix without failure, the dtype."""
    codes = np.empty(blocks.total, np.int8)
    worst: float | None = None
    dtype: np.dtype | None = None
    bar = None if args.quiet else Bar("normalize", "matrices")
    done = 0
    with replacing(target, force=args.force) as file:
        for block in blocks:
            out, status, residual = _normalize_block(block, args, options)
            if dtype is None:
                dtype = out.dtype
                write_npy_header(file, (*blocks.batch, *blocks.core), dtype)
            write_block(file, out)
            codes[done : done + len(block)] = status
            done += len(block)
            fine = residual[status == 0] if residual is not None else ()
            if len(fine):
                worst = max(float(np.max(fine)), worst or 0.0)
            if bar is not None:
                bar(done, blocks.total)
    if dtype is None:
        raise AssertionError  # there is always one block, if only an empty one
    return codes, worst, dtype


def _normalize_block(
    block: np.ndarray, args: argparse.Namespace, options: dict[str, Any]
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    threads = {"num_threads": args.threads}
    if args.method == "bi":
        result = _compute(cmfast.ipf, block, on_failure="ignore", **options, **threads)
        return result.matrix, result.status, result.residual
    try:
        out = _compute(cmfast.normalize, block, args.method, on_failure="raise", **threads)
        return out, np.zeros(len(block), np.int8), None
    except UsageError as error:
        # An error names the status of every matrix; then the same again for the matrices themselves.
        if not isinstance(error.__cause__, cmfast.FailureError):
            raise
        status = np.asarray(error.__cause__.status)
        return _compute(cmfast.normalize, block, args.method, on_failure="ignore", **threads), status, None


def _tally(codes: np.ndarray) -> dict[str, Any]:
    """Return how many matrices ended in which status, and where the first ones that failed are."""
    statuses = {s.name: int(np.count_nonzero(codes == s)) for s in cmfast.Status}
    bad = np.flatnonzero([not s.ok for s in cmfast.Status])
    failed = np.flatnonzero(np.isin(codes, bad))
    return {
        "statuses": {name: number for name, number in statuses.items() if number},
        "failed": int(failed.size),
        "first_failed": failed[:5].tolist(),
    }


def _print_normalized(facts: dict[str, Any]) -> None:
    shape, seconds = facts["shape"], facts["seconds"]
    rate = f", {facts['matrices'] / seconds:,.0f} matrices/s" if seconds > 0 else ""
    options = "".join(f", {name} {value}" for name, value in facts["options"].items())
    name = _screen.shown(facts["output"])
    count = "1 matrix" if facts["matrices"] == 1 else f"{facts['matrices']:,} matrices"
    print(f"{name}: {count} {shape[-2]} x {shape[-1]}, {facts['dtype'][1]}")
    print(f"method {facts['method']}{options}; {seconds:.2f} s{rate}")
    for name, number in facts["statuses"].items():
        print(f"  {name:<12}{number:>14,}")
    if facts["largest_residual"] is not None:
        print(f"largest residual {facts['largest_residual']:.2g}")
    if facts["failed"]:
        more = ", ..." if facts["failed"] > len(facts["first_failed"]) else ""
        print(f"first that failed (flat index): {', '.join(map(str, facts['first_failed']))}{more}")


# confusion


def _confusion(args: argparse.Namespace) -> int:
    if args.smoothing is not None and args.normalize != "bi":
        _misuse("--smoothing belongs to --normalize bi")
    target = _table_target(args, (".npy", ".npz", ".csv", ".json"), args.input)
    labels, _, (M,) = _count(args)
    status = cmfast.Status.CONVERGED
    if args.normalize is not None:
        options = _given(args, "smoothing")
        try:
            M = _compute(cmfast.normalize, M, args.normalize, on_failure="raise", num_threads=args.threads, **options)
        except UsageError as error:
            if not isinstance(error.__cause__, cmfast.FailureError):
                raise
            status = cmfast.Status(int(error.__cause__.status))
            M = _compute(cmfast.normalize, M, args.normalize, on_failure="warn", num_threads=args.threads, **options)
    facts = {
        "labels": labels,
        "matrix": M.tolist(),
        "normalize": args.normalize,
        "smoothing": args.smoothing,
        "status": status.name,
    }
    if target is not None:
        _write_confusion(target, labels, M, facts, force=args.force)
    if args.json:
        _print_json(facts)
    elif target is not None and len(labels) > WIDEST:
        print(f"{_screen.shown(args.output)}: {len(labels)} x {len(labels)}")
    else:
        _print_matrix(M, _screen.names(labels))
    return 0 if status.ok else 1


# metrics


def _metrics(args: argparse.Namespace) -> int:
    of_labels = (args.true, args.pred, args.by, args.header) != (None,) * 4
    matrices = None if of_labels else _stored_matrices(args.input)
    if args.by is not None:
        labels, groups, M = _count(args, by=args.by)
    elif matrices is None:
        labels, groups, (M,) = _count(args)
    else:
        labels, groups, M = list(range(matrices.shape[-1])), [], matrices
    names = _metric_names(args.only) if args.only else list(cmfast.metrics.SCALARS)
    found = _compute(cmfast.metrics.compute, M, names, undefined=args.undefined, num_threads=args.threads)
    failed = _compute(cmfast.metrics.margins, M, on_failure="ignore", num_threads=args.threads).status
    texts = _screen.names(labels)
    if args.json and args.by is None:
        _print_json({"labels": labels, "matrices": int(np.size(failed)), "metrics": found})
    elif args.json:
        samples = M.sum((1, 2)).tolist()
        each = [{name: value[g] for name, value in found.items()} for g in range(len(groups))]
        entries = [
            {"group": group, "samples": n, "metrics": values}
            for group, n, values in zip(groups, samples, each, strict=True)
        ]
        _print_json({"labels": labels, "by": args.by, "groups": entries})
    elif args.by is not None and args.only:
        _print_groups(args.by, groups, found, texts)
    elif not args.only and (args.by is not None or M.ndim == 2) and not np.any(failed):
        for k, matrix in enumerate(M if args.by is not None else [M]):
            if args.by is not None:
                name = f"{_screen.shown(args.by)} = {_screen.shown(groups[k])}"
                print(f"{chr(10) if k else ''}{name}: {matrix.sum():,} samples")
            print(_compute(cmfast.metrics.report, matrix, class_names=texts, undefined=args.undefined))
    else:
        _print_metrics(found, texts)
    return int(np.any(failed))


def _metric_names(given: list[str]) -> list[str]:
    """Return the names of metrics, between spaces or commas; one that is mistyped is answered by those next to it."""
    from difflib import get_close_matches

    from cmfast.metrics import _catalogue

    names = [name for text in given for name in text.split(",") if name]
    for name in names:
        if _catalogue.find(name) is None:
            known = (*_catalogue.SCALARS, *_catalogue.PER_CLASS, *_catalogue.BINARY)
            near = get_close_matches(name.lower(), known, 3, 0.5) or ["accuracy", "f1_macro", "mcc"]
            _misuse(f"--only: there is no metric {name!r}; there is {', '.join(near)}, ...")
    if not names:
        _misuse("--only: give the names of metrics")
    return names


def _stored_matrices(path: Path) -> np.ndarray | None:
    """Return the matrices of an npy file, None where the file holds labels: (n, 2) but for n = 2."""
    if path.suffix.lower() != ".npy":
        return None
    M = tables.open_npy(path)
    return M if M.ndim >= 2 and M.shape[-1] == M.shape[-2] else None


def _numbers(found: dict[str, Any], labels: list[str]) -> dict[str, np.ndarray]:
    """Return one array per number of a matrix: a metric per class has a name for every class."""
    rows: dict[str, np.ndarray] = {}
    for name, value in found.items():
        per_class = name not in cmfast.metrics.SCALARS and np.ndim(value) > 0 and np.shape(value)[-1] == len(labels)
        parts = {f"{name} {label}": value[..., k] for k, label in enumerate(labels)} if per_class else {name: value}
        rows |= {key: np.ravel(part) for key, part in parts.items()}
    return rows


def _print_groups(by: str, groups: list[Any], found: dict[str, Any], labels: list[str]) -> None:
    """Print one line per group, one column per number."""
    columns = _numbers(found, labels)
    texts, head = _screen.names(groups), _screen.shown(by)
    width = max(map(len, (head, *texts)))
    print(f"{head:<{width}}" + "".join(f"{name:>{max(12, len(name) + 2)}}" for name in columns))
    for g, text in enumerate(texts):
        cells = (f"{part[g]:>{max(12, len(name) + 2)}.4f}" for name, part in columns.items())
        print(f"{text:<{width}}" + "".join(cells))


def _print_metrics(found: dict[str, Any], labels: list[str]) -> None:
    """Print one line per number; of a batch its mean, least and largest, and how many are undefined."""
    rows = _numbers(found, labels)
    width = max(map(len, rows))
    if all(part.size == 1 for part in rows.values()):
        for name, part in rows.items():
            print(f"{name:<{width}}{part[0]:>12.4f}")
        return
    print(" " * width + "".join(f"{head:>12}" for head in ("mean", "least", "largest", "undefined")))
    for name, part in rows.items():
        known = part[~np.isnan(part)]
        cells = [f"{f(known):.4f}" if known.size else "-" for f in (np.mean, np.min, np.max)]
        print(f"{name:<{width}}" + "".join(f"{cell:>12}" for cell in (*cells, str(part.size - known.size))))


def _table_target(args: argparse.Namespace, suffixes: tuple[str, ...], *sources: Path) -> Path | None:
    if args.output is None:
        return None
    if args.output.suffix.lower() not in suffixes:
        _misuse(f"--output must end in {', '.join(suffixes)}, got {args.output}")
    return check_target(args.output, force=args.force, sources=sources)


def _count(args: argparse.Namespace, by: str | None = None) -> tuple[list[Any], list[Any], np.ndarray]:
    """Return labels, groups (values of the column `by`) and a matrix for each; the file is read once, in blocks."""
    total = np.zeros((0, 0, 0), np.int64)
    places: dict[Any, int] = {}
    groups: dict[Any, int] = {}
    wanted = (args.true, args.pred) if by is None else (args.true, args.pred, by)
    tick = (lambda done, total: None) if args.quiet else Bar("confusion")
    for y_true, y_pred, *third in tables.iter_columns(args.input, wanted, header=args.header, tick=tick):
        n = len(y_true.codes)
        if n == 0:
            continue
        found: dict[Any, int] = {}  # places in this block, which may hold few of all classes
        ids = [_places(column, found) for column in (y_true, y_pred)]
        team = third[0] if third else tables.Column("integers", [0], np.zeros(n, np.int64))
        where = [places.setdefault(label, len(places)) for label in found]
        which = [groups.setdefault(name, len(groups)) for name in team.labels]
        _check_room(args.input, len(groups), len(places))
        options = {"n_classes": len(found), "groups": team.codes, "n_groups": len(which), "num_threads": args.threads}
        part = _compute(cmfast.confusion_matrix, *ids, **options)
        more, new = len(groups) - len(total), len(places) - total.shape[1]
        if more or new:
            total = np.pad(total, ((0, more), (0, new), (0, new)))
        total[np.ix_(which, where, where)] += part
    if not places:
        raise FileError(args.input, "holds no samples")
    labels, order = _in_order(list(places))
    teams, turn = _in_order(list(groups))
    return labels, teams, total[np.ix_(turn, order, order)]


def _places(column: tables.Column, found: dict[Any, int]) -> np.ndarray:
    """Return the place in `found` of every row's label; what is new is added to it."""
    ids: np.ndarray = np.array([found.setdefault(label, len(found)) for label in column.labels], np.int64)[column.codes]
    return ids


def _check_room(path: Path, n_matrices: int, n_classes: int) -> None:
    """Refuse a matrix that this machine cannot hold, before the system ends the process for trying."""
    if 8 * n_matrices * n_classes**2 > _memory():
        matrices = "a matrix" if n_matrices == 1 else f"{n_matrices:,} matrices"
        raise FileError(path, f"holds {n_classes:,} classes, too many for {matrices} in memory; are these the labels?")


def _memory() -> int:
    """Return the bytes of this machine's memory."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 40  # not told: the allocation will


def _in_order(labels: list[Any]) -> tuple[list[Any], list[int]]:
    """Return labels sorted, and where each stood: integers where one type of 64 bits holds them all, else strings."""
    keys = labels
    if all(isinstance(label, str) and tables.is_integer(label) and len(label) <= DIGITS for label in labels):
        numbers = [int(label) for label in labels]
        if len(set(numbers)) == len(numbers):  # "01" and "1" stay two strings
            keys = numbers
    order = sorted(range(len(keys)), key=keys.__getitem__)
    least, most = keys[order[0]], keys[order[-1]]
    if not isinstance(least, str) and (least >= 0 or most < 1 << 63) and least >= -(1 << 63) and most < 1 << 64:
        return [keys[k] for k in order], order
    return [str(labels[k]) for k in order], order


def _write_confusion(target: Path, labels: list[Any], M: np.ndarray, facts: dict[str, Any], *, force: bool) -> None:
    kind = target.suffix.lower()
    # What cannot be written is found out before the file is begun.
    array = _label_array(target, labels, M.nbytes) if kind == ".npz" else None
    text = _csv_table(target, labels, M) if kind == ".csv" else to_json(facts).encode() if kind == ".json" else b""
    with replacing(target, force=force) as file:
        if kind == ".npy":
            np.save(file, M, allow_pickle=False)
        elif array is not None:
            write_npz(file, {"matrix": M, "labels": array})
        else:
            file.write(text)


def _label_array(target: Path, labels: list[Any], matrix_bytes: int) -> np.ndarray:
    """Return labels as NumPy keeps them in a file: every text as long as the longest, NUL for what is missing."""
    if not isinstance(labels[0], str):
        kind = np.bool_ if isinstance(labels[0], bool) else np.uint64 if labels[-1] >= 1 << 63 else np.int64
        return np.array(labels, kind)
    ended = [label for label in labels if label.endswith("\0")]
    if ended:
        raise FileError(target, f"npz cannot keep the NUL that ends the label {ended[0]!r}; write csv or json")
    longest = max(map(len, labels))
    if 4 * longest * len(labels) > max(matrix_bytes, LABEL_BYTES):
        raise FileError(target, f"npz would give every label room for {longest:,} characters; write csv or json")
    return np.array(labels, np.str_)


def _csv_table(target: Path, labels: list[Any], M: np.ndarray) -> bytes:
    head = ["true \\ predicted", *map(_csv_cell, labels)]
    rows = [[name, *map(str, row)] for name, row in zip(head[1:], M.tolist(), strict=True)]
    try:
        return "".join(",".join(row) + "\n" for row in [head, *rows]).encode()
    except UnicodeEncodeError as error:
        label = error.object[error.start]
        raise FileError(target, f"a label holds {label!r}, which UTF-8 cannot write; write npz or json") from error


def _csv_cell(label: Any) -> str:
    """Return a label as a cell; in quotes where a reader would break it, or shave it, without."""
    text = str(label)
    special = any(c in ',"\r\n' for c in text) or text != text.strip()
    return '"' + text.replace('"', '""') + '"' if special else text


# gcm


def _gcm(args: argparse.Namespace) -> int:
    table = args.input.suffix.lower() in points.TABLES
    args.weights = list(dict.fromkeys(args.weights))
    if args.features and not table:
        _misuse("--features belongs to a table")
    sources = (args.input,) if table else (args.input, Path(args.labels), Path(args.pred))
    target = _table_target(args, (".npz", ".json"), *sources)
    tick = (lambda done, total: None) if args.quiet else Bar("read", "points")
    X, y, p = points.open_points(args.input, args.labels, args.pred, args.features, tick=tick)
    for source, ids in ((args.labels, y), (args.pred, p)):
        if ids.dtype.kind in "iu" and ids.size:
            _check_room(Path(source), len(args.weights), int(ids.max()) + 1)
    options = _given(args, "smoothing")
    result = _compute(
        cmfast.geometric_confusion_matrix,
        X,
        y,
        p,
        weights=args.weights,
        n_components=args.components,
        grid=args.grid.replace("-", "_"),
        rng=args.seed,
        num_threads=args.threads,
        progress=None if args.quiet else Bar("gcm", "points"),
        **options,
    )
    diagnostics = result.diagnostics
    matrices = {"gcm": result.matrix, "normalized": diagnostics.normalized}
    by_weights = [
        {name: float(getattr(diagnostics, name)[k]) for name in GCM_COLUMNS} for k in range(len(args.weights))
    ]
    facts = {
        "points": diagnostics.n_points,
        "dropped": diagnostics.n_dropped,
        "cells": diagnostics.n_cells,
        "alone": diagnostics.singleton_fraction,
        "unmixed": diagnostics.unmixed_fraction,
        "options": {"components": args.components, "grid": args.grid, "seed": args.seed, **options},
        "weights": dict(zip(args.weights, by_weights, strict=True)),
    }
    if target is not None:
        with replacing(target, force=args.force) as file:
            if target.suffix.lower() == ".npz":
                write_npz(file, {"weights": np.array(args.weights), **matrices})
            else:
                file.write(to_json({**facts, **matrices}).encode())
    if args.json:
        _print_json({**facts, **matrices})
    else:
        _print_gcm(facts, result.matrix)
    return 0 if np.isfinite(result.matrix).all() else 1


def _print_gcm(facts: dict[str, Any], G: np.ndarray) -> None:
    dropped = f" ({facts['dropped']:,} not finite, left out)" if facts["dropped"] else ""
    print(f"{facts['points']:,} points{dropped} in {facts['cells']:,} cells; {facts['alone']:.0%} are alone in theirs")
    print("overlap of each geometric matrix with the normalised matrix of the same weights:")
    print("weights" + "".join(name.replace("_", " ").rjust(15) for name in GCM_COLUMNS))
    for name, values in facts["weights"].items():
        print(name.ljust(7) + "".join(f"{round(values[column], 3) + 0.0:15.3f}" for column in GCM_COLUMNS))
    classes = [str(k) for k in range(G.shape[-1])]
    for name, matrix in zip(facts["weights"], G, strict=True):
        print(f"\n{name}")
        _print_matrix(matrix, classes)


# info


def _info(args: argparse.Namespace) -> int:
    from cmfast.cli import _about

    removed = _about.clear_cache() if args.clear_cache else None
    facts = _about.facts()
    if removed is not None:
        facts["removed_bytes"] = removed
    if args.json:
        _print_json(facts)
    else:
        print(_about.text(facts))
        if removed is not None:
            print(f"removed       {removed / 1e6:.1f} MB of compiled kernels")
    return 0


# demo


def _demo(args: argparse.Namespace) -> int:
    from cmfast import _demo as demo

    missing = demo.missing()
    if missing:
        _misuse(f'demo needs {" and ".join(missing)}: pip install "cmfast[demo]"')
    facts = demo.run(args.out, args.seed)
    if args.json:
        _print_json(facts)
    else:
        print(demo.table(facts, args.out))
    return 0


# Printing


def _print_json(facts: dict[str, Any]) -> None:
    text = to_json(facts)
    if not cast("_screen.Stream", sys.stdout).takes(text):
        text = to_json(facts, ascii_only=True)
    sys.stdout.write(text)


def _print_matrix(M: np.ndarray, labels: list[str]) -> None:
    if len(labels) > WIDEST:
        print(f"{len(labels)} x {len(labels)} matrix; --output or --json gives all of it")
        return
    cells = [[f"{x:,}" if isinstance(x, int) else f"{x:.4f}" for x in row] for row in M.tolist()]
    width = max(len(text) for text in [*labels, *(cell for row in cells for cell in row)]) + 2
    head = max(len("true \\ pred"), *(len(label) for label in labels))
    print("true \\ pred".ljust(head) + "".join(label.rjust(width) for label in labels))
    for label, row in zip(labels, cells, strict=True):
        print(label.ljust(head) + "".join(cell.rjust(width) for cell in row))
