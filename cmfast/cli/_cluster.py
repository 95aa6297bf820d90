"""Count partitions of files in separate tasks, one after another or on a Dask cluster, resumably.

The result of a task is a state file that ``cmfast merge`` can read, named by a hash of its inputs, so that an
interrupted run can be resumed.
"""

import argparse
import functools
import hashlib
import json
import logging
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import cmfast
from cmfast._core.source_digest import explain_mismatch, version_and_digest
from cmfast._files import sources, tables
from cmfast._files.output import FileError, make_folder, replace_file
from cmfast._files.stores import Source
from cmfast.cli._calls import tick
from cmfast.cli._parser import Parser, UsageError, misuse
from cmfast.cli._values import natural_number

LOCAL = re.compile(r"local(?::(\d+))?")
ADDRESS = re.compile(r"\w+://.+")
STATES = re.compile(r"[a-z]+-[0-9a-f]{32}\.npz")
PATIENCE = "30s"  # timeout for a scheduler that does not answer

Task = Callable[..., bytes]


class Part(NamedTuple):
    """A part of the samples, counted by one task."""

    sources: tuple[Source, ...]
    """A table; or a file per array, matched row by row."""
    rows: tuple[int, int] | None = None
    """Range (start, stop) of rows, for arrays; None: all rows."""
    place: int = 0
    """Index of the first sample among those of all parts, if needed."""

    def __str__(self) -> str:
        return str(self.sources[0]) if self.rows is None else f"{self.sources[0]}, rows from {self.rows[0]:,}"


def add_cluster(parser: Parser) -> None:
    """Add the options --scheduler and --state."""
    what = "count folders, globs and URLs in parallel by Dask: at a scheduler tcp://..., or in N local processes"
    parser.add_argument("--scheduler", type=scheduler, metavar="ADDRESS|local[:N]", help=what)
    what = (
        "folder for intermediate counts, from which an interrupted run resumes (default: OUT.parts, removed at the end)"
    )
    parser.add_argument("--state", type=Path, metavar="DIR", help=what)


def scheduler(text: str) -> str | int | None:
    """Parse the address of a scheduler, or a number of local processes (0: one per core)."""
    here = LOCAL.fullmatch(text)
    if here is not None:
        return natural_number(here[1]) if here[1] else 0
    if ADDRESS.fullmatch(text) is None:
        msg = f"must be an address as tcp://10.0.0.1:8786, local or local:N, got {text!r}"
        raise argparse.ArgumentTypeError(msg)
    return text


def start_tasks(args: argparse.Namespace) -> "Tasks":
    """Return the tasks of a command; their state files are removed once the result is written."""
    tasks: Tasks = args.stack.enter_context(Tasks(args))
    return tasks


class Tasks:
    """Tasks of a command, one per partition; results of an interrupted run are reused."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._stack = ExitStack()
        self._folder: Path | None = None
        self._processes: Processes | None = None
        self._known: dict[Source, list[Any]] = {}
        self._kept = args.state is not None

    def __enter__(self) -> "Tasks":
        return self

    def __exit__(self, kind: Any, *error: object) -> None:
        with self._stack:
            if self._folder is not None and not self._kept:
                for path in self._folder.iterdir() if kind is None else ():
                    if STATES.fullmatch(path.name):
                        path.unlink()
                with suppress(OSError):  # keep remaining states and other files
                    self._folder.rmdir()

    def are_needed(self, *named: Source) -> bool:
        """Whether the command must count in parts."""
        return (self._args.scheduler, self._args.state) != (None, None) or any(map(sources.is_several, named))

    def hold(self, task: Callable[..., Any], *given: Any) -> "Hold":
        """Return a function of a part: the task's result, computed once and kept where that was, for later tasks."""
        return functools.cache(lambda part: self._start().hold(self._bind(task, given), part))

    def states(
        self, kind: str, task: Task, parts: Sequence[Any], *given: Any, held: "Hold | None" = None
    ) -> list[Path]:
        """Return a state file per part, computed by ``task(part, *given, threads=...)`` unless it exists.

        What is `held` of a part, if anything, goes to the task as ``held=``.
        """
        paths = [self._path(kind, part, given) for part in parts]
        missing = [k for k, path in enumerate(paths) if not path.exists()]
        done = len(parts) - len(missing)
        if done and not self._args.quiet:
            sys.stderr.write(f"cmfast: {kind} of {done:,} of {len(parts):,} parts are there already\n")
        show = tick(self._args, f"{self._args.command}, {kind}", "parts")
        for k, data in self.each(task, [parts[k] for k in missing], *given, held=held):
            with replace_file(paths[missing[k]]) as file:
                file.write(data)
            done += 1
            show(done, len(parts))
        return paths

    def state(self, kind: str, parts: Sequence[Part], given: tuple[Any, ...], make: Callable[[], bytes]) -> Path:
        """Return the state file of a result from all parts, made by `make` unless it exists."""
        path = self._path(kind, parts, given)
        if not path.exists():
            data = make()
            with replace_file(path) as file:
                file.write(data)
        return path

    def each(
        self, task: Callable[..., Any], parts: Sequence[Any], *given: Any, held: "Hold | None" = None
    ) -> Iterator[tuple[int, Any]]:
        """Yield the number of each part and the result of the task, in any order; `held` as for :meth:`states`."""
        if parts:
            kept = [None if held is None else held(part) for part in parts]
            yield from self._start().map(self._bind(task, given), parts, kept)

    def _start(self) -> "Processes":
        """Return what runs tasks: this process, or a cluster that is started or connected at the first call."""
        if self._processes is None:
            self._processes = self._stack.enter_context(_open_processes(self._args.scheduler))
        return self._processes

    def _bind(self, task: Callable[..., Any], given: tuple[Any, ...]) -> Callable[..., Any]:
        """Return the function of a part that runs a task."""
        threads = self._args.threads
        if threads is None and self._args.scheduler is not None:
            threads = 1  # as many tasks run at a time as there are cores
        return functools.partial(run_task, task=task, given=given, threads=threads, made_by=version_and_digest())

    def _path(self, kind: str, part: Any, given: tuple[Any, ...]) -> Path:
        """Return the path of the state file of a part."""
        if self._folder is None:
            self._folder = self._made()
        return self._folder / f"{kind}-{self._digest(part, given)}.npz"

    def _made(self) -> Path:
        """Make the folder for state files, temporary unless --state or --output is given."""
        out = self._args.output
        if not self._kept and out is None:
            return Path(self._stack.enter_context(TemporaryDirectory(prefix="cmfast-")))
        folder: Path = self._args.state if self._kept else out.with_name(f"{out.name}.parts")
        make_folder(folder)
        return folder

    def _digest(self, part: Any, given: tuple[Any, ...]) -> str:
        """Return the hash of all inputs of a state: version, files and arguments."""
        parts = [part] if isinstance(part, Part) else part
        files = [[[self._identity(one) for one in each.sources], *each[1:]] for each in parts]
        facts = json.dumps([version_and_digest(), files, given], sort_keys=True, default=_hashed)
        return hashlib.sha256(facts.encode()).hexdigest()[:32]

    def _identity(self, source: Source) -> list[Any]:
        """Return the fingerprint of a source, cached."""
        if source not in self._known:
            self._known[source] = sources.fingerprint(source)
        return self._known[source]


def _hashed(value: Any) -> str:
    """Return the SHA-256 of bytes, for JSON."""
    return hashlib.sha256(value).hexdigest()


Hold = Callable[[Any], Any]


class Processes:
    """The process of the command, which runs tasks one after another."""

    def hold(self, task: Callable[..., Any], part: Any) -> Any:
        """Return a handle of the task's result for a part, which tasks of :meth:`map` accept."""
        return functools.cache(lambda: task(part))

    def map(self, task: Callable[..., Any], parts: Sequence[Any], kept: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Run a task on every part with what is kept of it; yield number and result, raise an error it returned."""
        for k, (part, handle) in enumerate(zip(parts, kept, strict=True)):
            failed, result = task(part, None if handle is None else handle())
            if failed is not None:
                raise failed
            yield k, result


class Cluster(Processes):
    """Workers of Dask; what they keep stays on their disks and goes to another worker only if that needs it."""

    def __init__(self, distributed: Any, client: Any) -> None:
        self._distributed, self._client = distributed, client

    def hold(self, task: Callable[..., Any], part: Any) -> Any:
        """Return the future of the task's result for a part."""
        return self._client.submit(task, part, pure=False)

    def map(self, task: Callable[..., Any], parts: Sequence[Any], kept: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Run a task on every part on the cluster, yielding results as they complete."""
        futures = self._client.map(task, parts, kept, pure=False)
        rest = {future.key: (k, future) for k, future in enumerate(futures)}
        done = self._distributed.as_completed(futures, loop=self._client.loop, with_results=True)
        del futures  # keep no reference to finished futures
        try:
            for future, found in done:
                if isinstance(found, BaseException):
                    misuse("--scheduler: the scheduler lost the tasks, perhaps it was started anew; run this again")
                failed, result = found
                if failed is not None:
                    raise failed
                yield rest.pop(future.key)[0], result
        except self._distributed.KilledWorker as error:
            misuse(f"--scheduler: workers die over a part again and again ({error})")
        except ImportError as error:
            misuse(f"--scheduler: what workers need is not installed there ({error})")
        finally:
            self._client.cancel([future for _, future in rest.values()])


@contextmanager
def _open_processes(where: str | int | None) -> Iterator[Processes]:
    """Yield what runs tasks: this process, or a cluster."""
    if where is None:
        yield Processes()
        return
    distributed = tables.require_module("distributed", f"--scheduler {where or 'local'}", "cluster")
    with ExitStack() as stack:
        address: Any = where
        if isinstance(where, int):
            options = {"n_workers": where or None, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
            with _undisturbed():
                address = stack.enter_context(distributed.LocalCluster(**options, silence_logs=logging.CRITICAL))
        elif where.startswith("tls:") and distributed.Security().get_connection_args("client")["ssl_context"] is None:
            misuse(f"--scheduler {where}: needs certificates, by distributed.comm.tls in the settings of Dask")
        log = logging.getLogger("distributed.client")  # prints a traceback where the scheduler ends; ours is a message
        stack.callback(log.setLevel, log.level)
        log.setLevel(logging.CRITICAL)
        try:
            client = stack.enter_context(distributed.Client(address, timeout=PATIENCE, set_as_default=False))
        except (OSError, ValueError) as error:
            misuse(f"--scheduler {where}: {str(error).partition(chr(10))[0] or type(error).__name__}")
        _require_cmfast(client, where)
        yield Cluster(distributed, client)


def _require_cmfast(client: Any, where: Any) -> None:
    """Name the scheduler and the workers that have no cmfast: a task would end them without a message."""
    found = {"the scheduler": client.run_on_scheduler(find_spec, "cmfast"), **client.run(find_spec, "cmfast")}
    lacking = [name for name, spec in found.items() if spec is None]
    if lacking:
        misuse(f"--scheduler {where}: cmfast is not installed at {', '.join(lacking)}")


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Block SIGINT in processes started in this block, so that Ctrl-C reaches this process only."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # started first, because starting it unblocks the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # threads and processes inherit this
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def run_task(
    part: Any,
    kept: tuple[Exception | None, Any] | None = None,
    *,
    task: Callable[..., Any],
    given: tuple[Any, ...],
    threads: int | None,
    made_by: str,
) -> tuple[Exception | None, Any]:
    """Run a task; return errors about its files or values as FileError instead of raising.

    `kept` is what an earlier task returned for this part. Refuses a task made by another version of cmfast.
    """
    other = explain_mismatch(made_by)
    if other:
        return UsageError(f"--scheduler: {other}"), None
    held = {}
    if kept is not None:
        failed, held["held"] = kept
        if failed is not None:
            return failed, None
    try:
        return None, task(part, *given, threads=threads, **held)
    except FileError as error:
        return FileError(*map(str, error.args)), None  # without the frames of another process
    except (UsageError, cmfast.FailureError) as error:
        return FileError(str(part), str(error)), None


def parts_of_tables(named: Source) -> list[Part]:
    """Return one part per table."""
    return [Part((one,)) for one in sources.expand_source(named)]


def parts_of_arrays(named: Sequence[Source], rows: Callable[[Sequence[Source]], tuple[int, int]]) -> list[Part]:
    """Return parts of arrays that are matched row by row, each some rows of a file.

    `rows` returns, for the files of a part, their number of rows and the number of rows per part.
    """
    every = [sources.expand_source(one) for one in named]
    for one, found in zip(named, every, strict=True):
        if len(found) != len(every[0]):
            raise FileError(str(one), f"holds {len(found):,} files, but {named[0]} {len(every[0]):,}")
    parts: list[Part] = []
    for together in zip(*every, strict=True):
        n, step = rows(together)
        parts += [Part(together, (start, min(start + step, n))) for start in range(0, max(n, 1), step)]
    return parts
