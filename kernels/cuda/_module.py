"""CUDA kernels by name: compiled on first use, launched with the types that their source declares.

An array brings its library along (:func:`library`): CuPy, or in the tests one that runs the same sources on the host.
"""

import functools
import itertools
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from types import ModuleType
from typing import Any

import numpy as np

from cmfast.kernels import formulas
from cmfast.kernels.status import Status

THREADS = 256  # of every block
BLOCKS = 1 << 16  # at most; every kernel strides over what is left
SHARED = 48 << 10  # bytes of shared memory that every device grants without being asked

OPTIONS = ("-std=c++17", "--device-int128")
# What a topic asks for besides: no fused multiplications where every bit is the CPU's.
MORE_OPTIONS = {"uncertainty": ("-fmad=false",)}

# What stands between the prelude and the source of a topic.
HEADERS = {
    "scaling_group": ("scaling.cuh",),
    "scaling_team": (
        "zeros.cuh",
        "scaling.cuh",
        "scaling_tile.cuh",
        "scaling_near.cuh",
        "scaling_newton.cuh",
        "scaling_large.cuh",
    ),
    "zeros": ("zeros.cuh",),
}

# How types are written in the sources.
TYPES: dict[str, np.dtype[Any]] = {
    "float": np.dtype(np.float32),
    "double": np.dtype(np.float64),
    "signed char": np.dtype(np.int8),
    "unsigned char": np.dtype(np.uint8),
    "int": np.dtype(np.int32),
    "unsigned": np.dtype(np.uint32),
    "i64": np.dtype(np.int64),
    "u64": np.dtype(np.uint64),
}
NAMES = {dtype: name for name, dtype in TYPES.items()}


def library(array: Any) -> ModuleType:
    """Return the package that the class of `array`, or one it is derived from, comes from: ``xp`` in the launchers."""
    cls: type = type(array)
    return _library(cls)


@functools.cache
def _library(cls: type) -> ModuleType:
    roots = (sys.modules.get(base.__module__.partition(".")[0]) for base in cls.__mro__)
    return next(root for root in roots if root is not None and hasattr(root, "RawModule"))


@functools.cache
def source(topic: str) -> str:
    """Return what is compiled for one topic: constants, the prelude, its headers, ``<topic>.cu``.

    CuPy's cache knows a kernel by its text alone, so nothing is included.
    """
    folder = files(__package__)
    defines = [f"#define CM_{status.name} {status.value}" for status in Status]
    for codes in (formulas.Step, formulas.Value, formulas.Over, formulas.Total, formulas.Mode):
        defines += [f"#define CM_{codes.__name__.upper()}_{code.name} {code.value}" for code in codes]
    defines.append(f"#define CM_THREADS {THREADS}")
    parts = [*defines]
    for name in ("prelude.cuh", *HEADERS.get(topic, ()), f"{topic}.cu"):
        parts += [f'#line 1 "{name}"', (folder / name).read_text()]
    return "\n".join(parts)


def options(topic: str) -> tuple[str, ...]:
    """Return what the compiler is told about one topic."""
    return OPTIONS + MORE_OPTIONS.get(topic, ())


_most_shared: dict[int, int] = {}


def most_shared(device: Any) -> int:
    """Return the bytes of shared memory that a block may have on `device` if it asks for them."""
    if device.id not in _most_shared:  # CuPy reads all attributes to tell one
        _most_shared[device.id] = int(device.attributes["MaxSharedMemoryPerBlockOptin"])
    return _most_shared[device.id]


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel: its name, the name of its type, whether it is an array."""

    name: str
    type: str
    is_array: bool


@dataclass(frozen=True)
class Kernel:
    """A ``__global__`` function of ``<topic>.cu``.

    Attributes
    ----------
    topic, name : str
        Where it is, and what it is called there.
    instances : tuple of tuple of str
        The template arguments that it is compiled for; one empty tuple for a function that is no template.
    registers : int or tuple of int
        The most registers per thread that any instance may use, or each of them; a test compares it with what the
        compiler says.
    """

    topic: str
    name: str
    instances: tuple[tuple[str, ...], ...] = ((),)
    registers: int | tuple[int, ...] = 64

    def expression(self, instance: Sequence[str]) -> str:
        """Return the name of one instance in C++."""
        return f"{self.name}<{', '.join(instance)}>" if instance else self.name

    def ceiling(self, instance: Sequence[str]) -> int:
        """Return the most registers that one instance may use."""
        if isinstance(self.registers, int):
            return self.registers
        return dict(zip(self.instances, self.registers, strict=True))[tuple(instance)]

    @functools.cached_property
    def signature(self) -> tuple[list[str], list[Parameter]]:
        """Template parameters and parameters, read from the source so that no second copy can disagree."""
        found = re.search(
            rf"^(?:template <([^>]*)>\n)?__global__ void (?:__launch_bounds__\([^)]*\)\s+)?{self.name}\(([^)]*)\)",
            source(self.topic),
            re.MULTILINE,
        )
        if found is None:
            msg = f"{self.topic}.cu has no kernel {self.name}"
            raise LookupError(msg)
        templates = [part.split()[-1] for part in (found[1] or "").split(",") if part.strip()]
        return templates, [_parameter(part) for part in found[2].split(",")]

    def launch(
        self, instance: Sequence[str], blocks: int, arguments: Sequence[Any], *, shared: int = 0, threads: int = THREADS
    ) -> None:
        """Run one instance on the current stream of the device of its arrays.

        Arrays must be contiguous and have the type that the source declares: a launch itself checks neither. Numbers
        are passed as that type.
        """
        instance = tuple(instance)
        if instance not in self.instances:
            msg = f"{self.name} is not compiled for {instance}"
            raise LookupError(msg)
        templates, parameters = self.signature
        names = dict(zip(templates, instance, strict=True))
        values = [_value(self.name, p, names, a) for p, a in zip(parameters, arguments, strict=True)]
        # Not what has a device: NumPy's scalars say that theirs is "cpu".
        first = next(a for p, a in zip(parameters, arguments, strict=True) if p.is_array and a is not None)
        function = _function(library(first), first.device.id, self.topic, self.expression(instance))
        if shared > SHARED:
            # Not `shared`: another thread of the host may be about to launch the same kernel with more.
            function.max_dynamic_shared_size_bytes = most_shared(first.device)
        function((max(1, min(blocks, BLOCKS)),), (threads,), tuple(values), shared_mem=shared)


def _parameter(text: str) -> Parameter:
    words = text.replace("*", " * ").replace("const ", "").replace("__restrict__", "").split()
    *kind, name = words
    is_array = "*" in kind
    return Parameter(name, " ".join(word for word in kind if word != "*"), is_array)


def _value(kernel: str, parameter: Parameter, names: dict[str, str], argument: Any) -> Any:
    dtype: np.dtype[Any] = TYPES[names.get(parameter.type, parameter.type)]
    if not parameter.is_array:
        return dtype.type(argument)
    if argument is None:
        return np.uintp(0)
    if argument.dtype != dtype or not argument.flags.c_contiguous:
        order = "" if argument.flags.c_contiguous else ", not contiguous"
        msg = f"{kernel}: {parameter.name} must be contiguous {dtype}, got {argument.dtype}{order}"
        raise TypeError(msg)
    return argument


@functools.cache
def _function(xp: ModuleType, device: int, topic: str, expression: str) -> Any:
    """Return the compiled kernel for the current device, which is `device`."""
    del device  # part of the key: a kernel is loaded into one device
    module = xp.RawModule(code=source(topic), options=options(topic), name_expressions=(expression,))
    return module.get_function(expression)


def table() -> list[Kernel]:
    """Return every kernel of every topic."""
    topics = sorted(path.name[:-3] for path in files(__package__).iterdir() if path.name.endswith(".cu"))
    modules = [import_module(f"{__package__}.{topic}") for topic in topics]
    return list(itertools.chain.from_iterable(module.KERNELS for module in modules))
