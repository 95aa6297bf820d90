"""Entry point of the command ``cmfast``: parse arguments, run a command, map errors to exit statuses.

Exit status: 0 success; 1 some elements failed; 2 wrong usage or an unreadable file; 128 plus the signal number if a
signal ended the run.
"""

import re
import shlex
import signal
import sys
import threading
import warnings
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import NoReturn

import cmfast
from cmfast._core import compile_notices, validate, wording
from cmfast._files.output import FileError, describe_os_error
from cmfast.cli import _screen
from cmfast.cli._parser import Parser, UsageError, misuse
from cmfast.cli._result import deliver
from cmfast.cli._wording import CommandWording
from cmfast.cli.commands import COMMANDS, load


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    with _screen.attached() as screen:
        try:
            status = _run(argv)
            screen.flush()
        except UsageError as error:
            return _complain(str(error))
        except FileError as error:
            given = sys.argv[1:] if argv is None else argv
            proposal = f"; for example: cmfast {shlex.join([*given, *error.more])}" if error.more else ""
            return _complain(f"{error}{proposal}")
        except MemoryError as error:
            return _complain(f"not enough memory ({error})" if str(error) else "not enough memory")
        except BrokenPipeError:  # the reader of the output has exited, as `head` does
            return 128 + signal.SIGPIPE
        except OSError as error:
            return _complain(
                f"{error.filename}: {describe_os_error(error)}" if error.filename else describe_os_error(error)
            )
        except _Stopped as stopped:
            return stopped.status
        except KeyboardInterrupt:
            return 128 + signal.SIGINT
        return status


def _run(argv: Sequence[str] | None) -> int:
    """Parse the arguments, run the command and print its warnings; return the exit status."""
    given = sys.argv[1:] if argv is None else argv
    if not given:
        print(overview())
        return 0
    if given[0] == "help":
        given = [*given[1:2], "--help"]
    try:
        args = _parser(given).parse_args(given)
    except SystemExit as done:  # --help and --version have been printed
        return int(done.code or 0)
    quiet = compile_notices.silence() if getattr(args, "quiet", False) else nullcontext()
    with (
        _Signals(),
        quiet,
        wording.use_wording(CommandWording(args.flags)),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always", cmfast.FailureWarning)
        warnings.simplefilter("always", cmfast.DiagnosticWarning)
        try:
            with ExitStack() as args.stack:
                return deliver(args, args.run(args))
        finally:
            for message in dict.fromkeys(str(w.message) for w in caught):
                _say(f"warning: {message}")


def overview() -> str:
    """Return the list of commands by topic, on one screen."""
    lines = ["Confusion matrices, fast and exact.", ""]
    before = ""
    for name, command in COMMANDS.items():
        lines.append(f"{'' if command.topic == before else command.topic:10}{name:11}{command.summary}")
        before = command.topic
    more = ["cmfast COMMAND --help has an example and all options. To begin:", "$ cmfast example t.csv"]
    return "\n".join([*lines, "", *more, f"$ cmfast report {COMMANDS['report'].example}"])


class _Overview(Parser):
    """Parser whose help is the list of commands."""

    def format_help(self) -> str:
        """Return the list of commands."""
        return overview() + "\n"

    def error(self, message: str) -> NoReturn:
        """Raise UsageError; for an unknown command propose a similar one, or the report of a file."""
        first = next((text for text in self.given if not text.startswith("-")), "")
        if first and first not in COMMANDS:
            near = validate.suggest_name(first, COMMANDS)
            if Path(first).is_file():
                near = f"; cmfast report {shlex.quote(first)} writes a page about a table of labels"
            elif Path(first).suffix:
                near = ", and there is no file of this name"
            misuse(f"{first!r} is not a command{near}")
        super().error(message)

    given: Sequence[str] = ()


def _parser(argv: Sequence[str] = ()) -> Parser:
    """Return the argument parser with all commands."""
    parser = _Overview(prog="cmfast")
    parser.given = argv
    parser.add_argument("--version", action="version", version=f"cmfast {cmfast.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)
    for name, (_, summary, _) in COMMANDS.items():
        command = commands.add_parser(name, description=f"{summary[0].upper()}{summary[1:]}.")
        command.prepare = partial(_prepare, name)
    return parser


def _prepare(name: str, parser: Parser) -> None:
    """Add the options of a command to its parser, and an example to its help."""
    module = load(name)
    example = COMMANDS[name].example
    files = dict.fromkeys(re.findall(r"(?<!-o )\b\w+\.(?:csv|json|npy|npz)\b", example))
    written = [f"$ cmfast example {' '.join(files)}"] if files and name != "example" else []
    parser.front = "\n".join([*written, f"$ cmfast {name} {example}".rstrip(), "", ""])
    parser.add_argument("--json", action="store_true", help="print JSON for programs instead of a table")
    module.add_options(parser)
    parser.set_defaults(run=module.run, command=name, flags=parser.flags, target=None)


def _say(text: str) -> None:
    """Write a line to stderr."""
    sys.stderr.write(f"cmfast: {_screen.line(text)}\n")


def _complain(text: str) -> int:
    """Write an error to stderr and return exit status 2."""
    _say(text)
    return 2


class _Stopped(BaseException):
    """The process received a signal to stop; partial files are removed while it propagates."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.status = 128 + number


class _Signals:
    """Raise an exception on SIGTERM and SIGHUP in this block, so that files are cleaned up."""

    def __enter__(self) -> None:
        names = ("SIGTERM", "SIGHUP") if threading.current_thread() is threading.main_thread() else ()
        numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
        self._before = [(number, signal.signal(number, self._stop)) for number in numbers]

    @staticmethod
    def _stop(number: int, frame: object) -> NoReturn:
        """Raise the exception for a signal."""
        raise _Stopped(number)

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before:
            signal.signal(number, handler)
