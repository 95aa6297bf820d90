"""The compiler that CuPy uses, without a GPU.

``python tests/harness/nvrtc.py [TOPIC...]`` prints what kernels take of one, all of them unless topics are named.
``python tests/harness/nvrtc.py first`` prints how long a first call waits for it.
"""

import ctypes
import importlib.util
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from cmfast.kernels.cuda._core import module

ARCHITECTURES = ("sm_80", "sm_90")  # where nothing is spilled
NEWER = ("sm_100", "sm_120")  # where some is
HALF = 128  # of the registers that a thread may use, on both
# CuPy appends this, so it is what kernels are compiled with; and the assembler is to say what it made.
EXTRA = ("-ftz=true", "--ptxas-options=-v")


@dataclass(frozen=True)
class Usage:
    """What a thread of one instance of a kernel takes, in registers and in bytes."""

    registers: int
    stack: int
    spill_stores: int
    spill_loads: int
    shared: int  # besides what a launch asks for


def _file() -> Path | None:
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations or () if spec else ():
        for file in sorted(Path(folder).glob("cu13/lib/libnvrtc.so.*")):
            return file
    return None


def missing() -> str | None:
    """Return why nothing can be compiled here, or None."""
    return None if _file() else "the CUDA sources are compiled by nvidia-cuda-nvrtc, which is not installed"


@cache
def _library() -> Any:
    file = _file()
    if file is None:
        raise FileNotFoundError(missing())
    for builtins in file.parent.glob("libnvrtc-builtins.so.*"):  # which it would look for elsewhere
        ctypes.CDLL(str(builtins))
    return ctypes.CDLL(str(file))


class Program:
    """A source, for as long as the compiler keeps what it made of it."""

    def __init__(self, source: str) -> None:
        self._handle = ctypes.c_void_p()
        self._call("CreateProgram", ctypes.byref(self._handle), source.encode(), b"source.cu", 0, None, None, of=False)

    def _call(self, name: str, *arguments: Any, of: bool = True) -> None:
        status = getattr(_library(), f"nvrtc{name}")(*((self._handle,) if of else ()), *arguments)
        if status:
            log = self._text("ProgramLog") if name == "CompileProgram" else ""
            msg = f"nvrtc{name}: error {status}\n{log}"
            raise RuntimeError(msg)

    def _text(self, what: str) -> str:
        size = ctypes.c_size_t()
        self._call(f"Get{what}Size", ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        self._call(f"Get{what}", text)
        return text.value.decode()

    def compile(
        self, expressions: Sequence[str], architecture: str, options: Sequence[str] = module.OPTIONS
    ) -> dict[str, Usage]:
        """Return what each of the kernels `expressions` takes; a warning is an error."""
        log = self._compile(expressions, (*options, f"-arch={architecture}", *EXTRA))
        return {expression: _usage(log, self._lowered(expression)) for expression in expressions}

    def assembly(self, expressions: Sequence[str], options: Sequence[str]) -> str:
        """Return what the compiler hands to the assembler."""
        self._compile(expressions, (*options, "-arch=compute_80"))
        return self._text("PTX")

    def _compile(self, expressions: Sequence[str], options: Sequence[str]) -> str:
        for expression in expressions:
            self._call("AddNameExpression", expression.encode())
        given = [o.encode() for o in options]
        self._call("CompileProgram", len(given), (ctypes.c_char_p * len(given))(*given))
        log = self._text("ProgramLog")
        if "warning" in log:
            raise RuntimeError(log)
        return log

    def _lowered(self, expression: str) -> str:
        name = ctypes.c_char_p()
        self._call("GetLoweredName", expression.encode(), ctypes.byref(name))
        return (name.value or b"").decode()

    def __del__(self) -> None:
        """Let go of it."""
        _library().nvrtcDestroyProgram(ctypes.byref(self._handle))


def _usage(log: str, name: str) -> Usage:
    found = re.search(
        rf"Function properties for {re.escape(name)}\n"
        r".*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads\n"
        r".*?Used (\d+) registers([^\n]*)",
        log,
    )
    if found is None:
        msg = f"the compiler says nothing about {name}:\n{log}"
        raise LookupError(msg)
    stack, stores, loads, registers = map(int, found.groups()[:4])
    shared = re.search(r"(\d+) bytes smem", found[5])
    return Usage(registers, stack, stores, loads, int(shared[1]) if shared else 0)


@cache
def usage(topic: str, architecture: str, most: int | None = None) -> dict[str, Usage]:
    """Return what the instances of the kernels of a topic take: all of them, or the first `most` of each kernel."""
    kernels = [kernel for kernel in module.list_kernels() if kernel.topic == topic]
    expressions = [kernel.expression(instance) for kernel in kernels for instance in kernel.instances[:most]]
    return Program(module.assemble_source(topic)).compile(expressions, architecture, module.options(topic))


# What a kernel whose blocks exchange numbers must not have: loads that order nothing, or come from a cache that nobody
# brings up to date.
UNORDERED = (r"\bld\.(?:relaxed|volatile|weak)\b", r"\bld\.global\.nc\b", r"\batom[.\w]*\.relaxed\b")
# What it must have, and how often: to join a group, to learn its size, at barriers.
ORDERED = {r"\bld\.acquire\.gpu\.": 3, r"\batom[.\w]*\.acq_rel\.gpu\.": 3}


def find_unordered(assembly: str) -> list[str]:
    """Return what of a kernel whose blocks exchange numbers does not let them see what others wrote."""
    found = [said for pattern in UNORDERED for said in set(re.findall(pattern, assembly))]
    return found + [f"few of {each}" for each, least in ORDERED.items() if len(re.findall(each, assembly)) < least]


def launched(call: Callable[[Any], Any]) -> list[tuple[str, str]]:
    """Return the kernels that a call launches, by topic and name, as the host that stands for a GPU sees them."""
    import device
    import instances

    with instances.launches() as found:
        call(device.asarray)
    return [(kernel.topic, kernel.expression(instance)) for kernel, instance in found]


def seconds(topic: str, expression: str) -> float:
    """Return the processor time that one unit takes, for the newest architecture of all."""
    begin = time.process_time()
    code, names = module.make_translation_unit(topic, expression)
    Program(code).compile(names, ARCHITECTURES[-1], module.options(topic))
    return time.process_time() - begin


def first_calls() -> dict[str, Callable[[Any], Any]]:
    """Return calls that a user may begin with."""
    import numpy as np

    import cmfast

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 10)).astype(np.float32), rng.integers(0, 10, 3000)
    grid = cmfast.Grid.scott(X)

    def cells(make: Any) -> Any:
        return cmfast.cell_counts(*map(make, (X, y, y[::-1].copy())), grid=grid, n_classes=10)

    def scale(C: int) -> Callable[[Any], Any]:
        return lambda make: cmfast.bi_normalize(make(rng.random((9, C, C)) + 1))

    return {
        **{f"bi_normalize, {C}x{C}": scale(C) for C in (3, 10, 16, 32, 40, 100)},
        "confusion_matrix": lambda make: cmfast.confusion_matrix(make(y), make(y), n_classes=10),
        "cell_counts": cells,
        "cell_counts, gcm of a row": lambda make: cmfast.gcm(cells(make), "row"),
        "metrics.compute": lambda make: cmfast.metrics.compute(make(rng.random((9, 10, 10))), ["mcc", "f1_macro"]),
    }


def first() -> None:
    """Print what the first call of some functions waits for, and what a thread compiles meanwhile."""
    for name, call in first_calls().items():
        module._loads.clear()
        units = {module.make_translation_unit(*each): each for each in launched(call)}
        later = {key[2:] for key in module._loads}
        waited = {each: seconds(*each) for each in units.values() if each not in later}
        print(f"{name}: {sum(waited.values()):.2f} s")
        for (_, expression), took in waited.items():
            print(f"  {expression} {took:.2f}")
        for topic, expression in later:
            print(f"  meanwhile: {expression} {seconds(topic, expression):.2f}")


def main(*topics: str) -> int:
    """Print the table, or the times."""
    if topics == ("first",):
        first()
        return 0
    every = ARCHITECTURES + NEWER
    print("| kernel | " + " | ".join(f"{a}: registers, shared, stack, spills" for a in every) + " |")
    print("|---" * (1 + len(every)) + "|")
    for kernel in (kernel for kernel in module.list_kernels() if not topics or kernel.topic in topics):
        for expression in map(kernel.expression, kernel.instances):
            found = [usage(kernel.topic, architecture)[expression] for architecture in every]
            cells = [f"{u.registers}, {u.shared}, {u.stack}, {u.spill_stores + u.spill_loads}" for u in found]
            print(f"| `{expression}` | " + " | ".join(cells) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
