"""The command ``cmfast``: files in, tables or files out. It holds no mathematics.

Exit status: 0 fine, 1 some elements failed, 2 wrong usage or a file that cannot be read or written; 128 and the number
of the signal where one ended it, as a shell says it.
"""

import signal
import sys
import threading
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from types import ModuleType
from typing import NamedTuple, NoReturn

import cmfast
from cmfast._core import compiling
from cmfast._files.output import FileError, reason
from cmfast.cli import _screen
from cmfast.cli._options import Parser, UsageError, worded
from cmfast.cli.commands import (
    _balance,
    _compare,
    _conformal,
    _confusion,
    _demo,
    _gcm,
    _info,
    _ipf,
    _merge,
    _metrics,
    _normalize,
    _rake,
    _report,
    _reproduce,
    _resample,
    _warmup,
)


class Command(NamedTuple):
    """What a command is, in a line, and how it is called."""

    module: ModuleType
    summary: str
    example: str


COMMANDS = {
    "demo": Command(_demo, "the whole story on real data: a report, numbers and matrices", "--out cmfast-demo"),
    "report": Command(
        _report,
        "a page on one model or two: matrices, metrics, differences, groups, all with intervals",
        "t.parquet --true label --pred new --pred old --by site -o report.html",
    ),
    "confusion": Command(
        _confusion, "count a confusion matrix from a table of labels", "t.csv --true label --pred new"
    ),
    "metrics": Command(
        _metrics, "metrics of a table of labels, or of a file of matrices", "t.csv --true label --pred new --interval"
    ),
    "compare": Command(
        _compare,
        "two classifiers on the same samples: differences, how sure they are, which is higher",
        "t.csv --true label --pred new --pred old",
    ),
    "normalize": Command(
        _normalize, "normalise a file of confusion matrices", "matrices.npy -o bi.npy --method bi --smoothing 0.5"
    ),
    "resample": Command(
        _resample, "draw a file of confusion matrices again", "matrices.npy -o replicates.npy --replicates 2000"
    ),
    "ipf": Command(
        _ipf,
        "a table scaled to margins over any of its axes",
        "table.npy --margin 0,1:rows.npy --margin 2:depth.npy -o out.npy",
    ),
    "rake": Command(
        _rake,
        "weights of records that add up to known totals",
        "microdata.parquet --targets totals.csv --weights w -o weights.parquet",
    ),
    "balance": Command(
        _balance,
        "weights of the bins of a contact map, with which all rows have the same sum",
        "map.mcool::resolutions/10000 -o map.mcool",
    ),
    "merge": Command(_merge, "add up counts of parts", "monday.json tuesday.json -o both.json"),
    "gcm": Command(_gcm, "geometric confusion matrix of embeddings", "X.npy --labels y.npy --pred p.npy"),
    "conformal": Command(
        _conformal,
        "conformal sets of a file of probabilities, and which classes share them",
        "new.npy --calibration known.npy --calibration-labels y.npy --alpha 0.1",
    ),
    "reproduce": Command(
        _reproduce, "the papers that the library stands on, computed again: what holds, what fails", "glossary --quick"
    ),
    "info": Command(_info, "versions, threads, cache folder, GPU: what a bug report needs", ""),
    "warmup": Command(_warmup, "compile now what first calls would compile", ""),
}


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
    if not (sys.argv[1:] if argv is None else argv):
        print(overview())
        return 0
    try:
        args = _parser().parse_args(argv)
    except SystemExit as done:  # --help and --version have been printed
        return int(done.code or 0)
    quiet = compiling.silence() if getattr(args, "quiet", False) else nullcontext()
    with _Signals(), quiet, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", cmfast.FailureWarning)
        warnings.simplefilter("always", cmfast.DiagnosticWarning)
        try:
            return int(args.run(args))
        except UsageError as error:
            raise UsageError(worded(str(error), vars(args))) from error
        finally:
            for message in dict.fromkeys(str(w.message) for w in caught):
                _say(f"warning: {worded(message, vars(args))}")


def overview() -> str:
    """Return what there is to do, with an example of each."""
    lines = ["Confusion matrices, fast and exact. What there is, with an example each:", ""]
    for name, command in COMMANDS.items():
        lines += [f"  {command.summary}", f"    $ {f'cmfast {name} {command.example}'.rstrip()}", ""]
    return "\n".join([*lines, "cmfast COMMAND --help: all that a command takes."])


def _parser() -> Parser:
    parser = Parser(prog="cmfast", description="Confusion matrices, fast and exact.")
    parser.add_argument("--version", action="version", version=f"cmfast {cmfast.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, (module, summary, _) in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        command.add_argument("--json", action="store_true", help="print JSON for programs instead of a table")
        command.set_defaults(run=module.run, command=name)
        module.add_options(command)
    return parser


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
