"""``cmfast warmup``: compile everything now, so that no first call has to."""

import argparse
import time
from difflib import get_close_matches
from typing import Any

import cmfast
from cmfast.cli import _screen
from cmfast.cli._options import Parser, misuse, natural_number
from cmfast.cli._printing import print_json


def add_options(parser: Parser) -> None:
    """Add what the command takes."""
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="functions, as bi_normalize or metrics.compute; default: all"
    )
    parser.add_argument("--jobs", type=natural_number, metavar="N", help="most processes to use; default: all cores")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")


def run(args: argparse.Namespace) -> int:
    """Compile, and say what it was, how long it took and where it is kept."""
    from cmfast import _warmup  # what it imports no other command needs
    from cmfast._core.progress import Bar
    from cmfast.kernels.cpu._core import jit, pool

    _check(args.names, _warmup.names())
    if not jit.cache_facts().writable:
        misuse(f"{jit.folder()} cannot be written: set NUMBA_CACHE_DIR to a folder that can")
    ops = _warmup.ops_of(args.names)
    bar = None if args.quiet else Bar("compiling", "operations")
    begun = time.perf_counter()
    found = _warmup.compile_ops(ops, args.jobs or pool.cpu_count(), bar)
    facts: dict[str, Any] = {
        "compiled": sum(one.functions for one in found),
        "operations": len(ops),
        "seconds": time.perf_counter() - begun,
        "folder": str(jit.folder()),
    }
    if args.json:
        print_json(facts | {"seconds_by_operation": {op: sum(f.seconds for f in found if f.op == op) for op in ops}})
    else:
        print(_screen.shown(_text(**facts)))
    return 0


def _text(compiled: int, operations: int, seconds: float, folder: str) -> str:
    done = f"compiled {compiled} functions in {seconds:.1f} s" if compiled else "nothing was left to compile"
    return f"{done}; {operations} operations are ready in {folder}"


def _check(names: list[str], known: list[str]) -> None:
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, 3, 0.6)
            meant = f"did you mean {' or '.join(near)}? There are " if near else "there are "
            there = ", ".join(one for one in known if one in cmfast.__all__)
            misuse(f"no function to compile is called {name}; {meant}{there}, and those of cmfast.metrics")
