"""``cmfast warmup``: compile all kernels now instead of on first use."""

import argparse
import time
from difflib import get_close_matches

import cmfast
from cmfast.cli import _screen
from cmfast.cli._options import add_common
from cmfast.cli._parser import Parser, misuse
from cmfast.cli._result import Result
from cmfast.cli._values import natural_number


def add_options(parser: Parser) -> None:
    """Add the options of the command."""
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="functions such as bi_normalize or metrics.compute; default: all"
    )
    parser.add_argument(
        "--jobs", type=natural_number, metavar="N", help="maximum number of processes; default: all cores"
    )
    add_common(parser, "--quiet", help="no progress and no summary")


def run(args: argparse.Namespace) -> Result:
    """Compile the kernels; report their number, the time and the cache folder."""
    from cmfast import _warmup  # imported late, so that --help stays fast
    from cmfast._core.progress import Bar
    from cmfast.kernels.cpu._core import jit, pool

    _check(args.names, _warmup.list_names())
    if not jit.summarize_cache().writable:
        misuse(f"{jit.find_cache_folder()} cannot be written: set NUMBA_CACHE_DIR to a folder that can")
    ops = _warmup.select_ops(args.names)
    bar = None if args.quiet else Bar("compiling", "operations")
    begun = time.perf_counter()
    with jit.lock_cache():  # of several that start together, as on workers of a cluster, one compiles
        parts = _warmup.compile_ops(ops, args.jobs or pool.cpu_count(), bar)
    compiled, seconds, folder = (
        sum(part.functions for part in parts),
        time.perf_counter() - begun,
        str(jit.find_cache_folder()),
    )
    metadata = {
        "compiled": compiled,
        "operations": len(ops),
        "seconds": seconds,
        "folder": folder,
        "seconds_by_operation": {op: sum(part.seconds for part in parts if part.op == op) for op in ops},
    }
    done = f"compiled {compiled} functions in {seconds:.1f} s" if compiled else "nothing was left to compile"
    lines = [] if args.quiet else [_screen.shown(f"{done}; {len(ops)} operations are ready in {folder}")]
    return Result(metadata, lines)


def _check(names: list[str], known: list[str]) -> None:
    """Raise UsageError for names that compile nothing, with suggestions."""
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, 3, 0.6)
            meant = f"did you mean {' or '.join(near)}? There are " if near else "there are "
            there = ", ".join(one for one in known if one in cmfast.__all__)
            misuse(f"no function to compile is called {name}; {meant}{there}, and those of cmfast.metrics")
