"""Compile CUDA kernels from named sources on first use, and launch them with the types that the source declares.

An array determines its library (:func:`library`): CuPy, or in tests one that runs the same sources on the host.
"""

import contextlib
import functools
import itertools
import re
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from types import ModuleType
from typing import Any

import numpy as np

from cmfast.kernels.cuda._core import formulas
from cmfast.kernels.shared import metric_formulas, metrics, scaling
from cmfast.kernels.status import Status

_PACKAGE = "cmfast.kernels.cuda"

WARP = 32  # threads of a warp
THREADS = 256  # threads of every block
TABLE_ROWS = 4 * THREADS  # table rows that a block processes together
BLOCKS = 1 << 16  # at most; kernels stride over the remaining items
SHARED = 48 << 10  # bytes of shared memory that every device grants by default

OPTIONS = ("-std=c++17", "--device-int128")
# More options of some topics: no fused multiply-add where bits must equal the CPU's or derivatives must cancel exactly.
MORE_OPTIONS = dict.fromkeys(
    (
        "conformal/correlation",
        "conformal/scores",
        "conformal/thresholds",
        "metrics/gradient",
        "uncertainty/cell_errors",
        "uncertainty/cluster_cells",
        "uncertainty/clusters",
        "uncertainty/errors",
        "uncertainty/intervals",
        "uncertainty/paired",
        "uncertainty/paired_errors",
        "uncertainty/resample",
    ),
    ("-fmad=false",),
)

# Headers inserted between the prelude and the source of a topic, from its folder or another.
_NEWTON = "_core/newton.cuh"
_RULES, _QUICK, _ZEROS = "scaling/convergence.cuh", "scaling/fast_arithmetic.cuh", "zeros/support.cuh"
_ALONE, _TILE = "scaling/thread_elimination.cuh", ("scaling/block_group.cuh", "scaling/tile.cuh", "scaling/newton.cuh")
_CELL_SLOPES, _CLUSTERS = "uncertainty/cell_slopes.cuh", "uncertainty/clusters.cuh"
_INVERSE = "uncertainty/inverse.cuh"
_DRAWS, _SUMS, _ORDERED_KEYS = "uncertainty/draws.cuh", "uncertainty/sums.cuh", "_core/ordered_keys.cuh"
_SHARE, _PRODUCT = "conformal/share.cuh", "metrics/long_product.cuh"
_FORMULAS = "shared/metric_formulas.py"  # as C++
_SLOPES = (_PRODUCT, "metrics/class_slopes.cuh", _FORMULAS, "metrics/total_slopes.cuh", "metrics/slopes.cuh")
_LARGE = (
    "scaling/block_group.cuh",
    "scaling/tile.cuh",
    "scaling/equilibration.cuh",
    "scaling/newton.cuh",
    "scaling/large.cuh",
)
HEADERS = {
    "conformal/scores": (_SHARE,),
    "conformal/sets": (_SHARE,),
    "conformal/thresholds": (_ORDERED_KEYS,),
    "margins/launch": (_NEWTON, "margins/table.cuh", "margins/infeasibility.cuh", "margins/newton.cuh"),
    "metrics/gradient": _SLOPES,
    "metrics/values": (_PRODUCT, "metrics/quotients.cuh", _FORMULAS),
    "scaling/gradient": (_ZEROS, _RULES, _NEWTON, *_TILE),
    "scaling/gradient_single": (_QUICK, _ALONE),
    "scaling/group": (_RULES, _NEWTON, _QUICK),
    "scaling/thread_per_matrix": (_RULES, _NEWTON, _QUICK, _ALONE),
    "scaling/team": (_ZEROS, _RULES, _NEWTON, *_LARGE, "scaling/refine.cuh"),
    "uncertainty/cell_errors": (_INVERSE,),
    "uncertainty/cluster_cells": (_DRAWS, _CLUSTERS, _INVERSE),
    "uncertainty/clusters": (_DRAWS, _CLUSTERS, _SUMS, _CELL_SLOPES),
    "uncertainty/errors": (*_SLOPES, _CELL_SLOPES),
    "uncertainty/intervals": (_ORDERED_KEYS, _DRAWS, _SUMS),
    "uncertainty/paired": (_DRAWS, _SUMS),
    "uncertainty/paired_errors": (_CELL_SLOPES,),
    "uncertainty/resample": (_DRAWS,),
    "zeros/support": (_RULES, _ZEROS),
}

# Names of types in the sources.
TYPES: dict[str, np.dtype[Any]] = {
    "float": np.dtype(np.float32),
    "double": np.dtype(np.float64),
    "signed char": np.dtype(np.int8),
    "unsigned char": np.dtype(np.uint8),
    "unsigned short": np.dtype(np.uint16),
    "int": np.dtype(np.int32),
    "unsigned": np.dtype(np.uint32),
    "i64": np.dtype(np.int64),
    "u64": np.dtype(np.uint64),
}
NAMES = {dtype: name for name, dtype in TYPES.items()}


def library(array: Any) -> ModuleType:
    """Return the array library (``xp``) of an array: the package that its class, or a base class, comes from."""
    cls: type = type(array)
    return _library(cls)


@functools.cache
def _library(cls: type) -> ModuleType:
    """Return the first package among the bases of a class that can compile CUDA source."""
    roots = (sys.modules.get(base.__module__.partition(".")[0]) for base in cls.__mro__)
    return next(root for root in roots if root is not None and hasattr(root, "RawModule"))


@functools.cache
def assemble_source(topic: str) -> str:
    """Return the full source of one topic: constants, the prelude, its headers, ``<topic>.cu``.

    Constants that the launcher ``<topic>.py`` shares are in its ``DEFINES``. CuPy caches kernels by their text, so
    headers are inserted instead of included.
    """
    folder = files(_PACKAGE)
    defines = [f"#define CM_{status.name} {status.value}" for status in Status]
    for codes in (metrics.Step, metric_formulas.Value, metrics.Over, metrics.Total, metrics.Mode):
        defines += [f"#define CM_{codes.__name__.upper()}_{code.name} {code.value}" for code in codes]
    defines += [f"#define CM_{name} {value!r}" for name, value in vars(scaling).items() if type(value) in (int, float)]
    defines += [f"#define CM_THREADS {THREADS}", f"#define CM_TABLE_ROWS {TABLE_ROWS}"]
    launcher = import_module(f"{_PACKAGE}.{topic.replace('/', '.')}")
    defines += [f"#define CM_{name} {value}" for name, value in getattr(launcher, "DEFINES", {}).items()]
    parts = [*defines]
    for name in ("_core/prelude.cuh", *HEADERS.get(topic, ()), f"{topic}.cu"):
        text = formulas.render() if name == _FORMULAS else folder.joinpath(*name.split("/")).read_text()
        parts += [f'#line 1 "{name}"', text]
    return "\n".join(parts)


# Kernels that are not templates.
_PLAIN = re.compile(r"(?<!>\n)^__global__ void (?:__launch_bounds__\([^)]*\)\s+)?(?=(\w+)\()", re.MULTILINE)


def make_translation_unit(topic: str, expression: str) -> tuple[str, tuple[str, ...]]:
    """Return the source that a kernel is compiled from, and the kernels compiled with it.

    Non-template kernels would be compiled again with every template instance. So they are compiled together, once, and
    are turned into inline functions in the source of a template instance.
    """
    code = assemble_source(topic)
    plain = tuple(_PLAIN.findall(code))
    if expression in plain:
        return code, plain
    return _PLAIN.sub("inline __device__ void ", code), (expression,)


def options(topic: str) -> tuple[str, ...]:
    """Return the compiler options of one topic."""
    return OPTIONS + MORE_OPTIONS.get(topic, ())


_most_shared: dict[int, int] = {}


def most_shared(device: Any) -> int:
    """Return the bytes of shared memory that a block may have on `device` on request (opt-in)."""
    if device.id not in _most_shared:  # CuPy reads all attributes to return one
        _most_shared[device.id] = int(device.attributes["MaxSharedMemoryPerBlockOptin"])
    return _most_shared[device.id]


_processors: dict[int, int] = {}


def processors(device: Any) -> int:
    """Return the number of multiprocessors of `device`."""
    if device.id not in _processors:
        _processors[device.id] = int(device.attributes["MultiProcessorCount"])
    return _processors[device.id]


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel: its name, the name of its type, whether it is an array."""

    name: str
    type: str
    is_array: bool


@dataclass(frozen=True)
class Kernel:
    """A ``__global__`` function of the source ``<topic>.cu``, as in ``scaling/team``.

    Attributes
    ----------
    topic, name : str
        Its source file, and its name there.
    instances : tuple of tuple of str
        Template arguments that it is compiled for; one empty tuple if it is not a template.
    registers : int or tuple of int
        Largest number of registers per thread of any instance, or of each; a test compares it with the compiler's
        report.
    """

    topic: str
    name: str
    instances: tuple[tuple[str, ...], ...] = ((),)
    registers: int | tuple[int, ...] = 64

    def expression(self, instance: Sequence[str]) -> str:
        """Return the C++ name of one template instance."""
        return f"{self.name}<{', '.join(instance)}>" if instance else self.name

    def ceiling(self, instance: Sequence[str]) -> int:
        """Return the largest number of registers per thread that one instance may use."""
        if isinstance(self.registers, int):
            return self.registers
        return dict(zip(self.instances, self.registers, strict=True))[tuple(instance)]

    @functools.cached_property
    def signature(self) -> tuple[list[str], list[Parameter]]:
        """Return template parameters and parameters, parsed from the source so that no copy can disagree."""
        found = re.search(
            rf"^(?:template <([^>]*)>\n)?__global__ void (?:__launch_bounds__\([^)]*\)\s+)?{self.name}\(([^)]*)\)",
            assemble_source(self.topic),
            re.MULTILINE,
        )
        if found is None:
            msg = f"{self.topic}.cu has no kernel {self.name}"
            raise LookupError(msg)
        templates = [part.split()[-1] for part in (found[1] or "").split(",") if part.strip()]
        return templates, [_parse_parameter(part) for part in found[2].split(",")]

    @functools.cached_property
    def _types(self) -> dict[tuple[str, ...], dict[str, np.dtype[Any]]]:
        """Return the type of every parameter, by name, of every instance; cached because launches are many."""
        templates, parameters = self.signature
        types = {}
        for instance in self.instances:
            names = dict(zip(templates, instance, strict=True))
            types[instance] = {p.name: TYPES[names.get(p.type, p.type)] for p in parameters}
        return types

    def is_loaded(self, instance: Sequence[str], array: Any) -> bool:
        """Return whether one instance can be launched without compiling; if not, start a thread that compiles it.

        A launch waits for that thread. It is not a daemon, because a process must not end while the compiler runs in
        it.
        """
        key = self._key(instance, array)
        with _starting:
            if key not in _loads:
                _loads[key] = threading.Thread(target=_load, args=(array.device, *key), name=key[-1])
                _loads[key].start()
        return not _loads[key].is_alive()

    def _key(self, instance: Sequence[str], array: Any) -> tuple[ModuleType, int, str, str]:
        """Return what identifies a loaded kernel: library, device, topic and C++ name."""
        return library(array), array.device.id, self.topic, self.expression(instance)

    def launch(
        self, instance: Sequence[str], blocks: int, /, *, shared: int = 0, threads: int = THREADS, **arguments: Any
    ) -> None:
        """Launch one instance on the current stream of its arrays' device.

        Arguments are named as in the source, in any order. Arrays must be contiguous and of the declared type, which is
        checked here; numbers are converted to the declared type.
        """
        types = self._types.get(tuple(instance))
        if types is None:
            msg = f"{self.name} is not compiled for {tuple(instance)}"
            raise LookupError(msg)
        if arguments.keys() != types.keys():
            raise TypeError(self._misnamed(arguments))
        parameters = self.signature[1]
        values = [_convert_argument(self.name, p, types[p.name], arguments[p.name]) for p in parameters]
        # The first array, not the first object with a device: NumPy scalars have the device "cpu".
        first = next(arguments[p.name] for p in parameters if p.is_array and arguments[p.name] is not None)
        key = self._key(instance, first)
        if key in _loads:
            _loads[key].join()
        function = _load_function(*key)
        if shared > SHARED:
            # The maximum, because another host thread may be about to launch the same kernel with more than `shared`.
            function.max_dynamic_shared_size_bytes = most_shared(first.device)
        function((max(1, min(blocks, BLOCKS)),), (threads,), tuple(values), shared_mem=shared)

    def _misnamed(self, arguments: dict[str, Any]) -> str:
        """Return a message that names the missing and the unknown arguments of a launch."""
        known = [parameter.name for parameter in self.signature[1]]
        missing = [name for name in known if name not in arguments]
        unknown = [name for name in arguments if name not in known]
        found = [f"{what} {', '.join(names)}" for what, names in (("missing", missing), ("unknown", unknown)) if names]
        return f"{self.name}: {'; '.join(found)}"


def _parse_parameter(text: str) -> Parameter:
    """Parse the declaration of a kernel parameter."""
    words = text.replace("*", " * ").replace("const ", "").replace("__restrict__", "").split()
    *kind, name = words
    is_array = "*" in kind
    return Parameter(name, " ".join(word for word in kind if word != "*"), is_array)


def _convert_argument(kernel: str, parameter: Parameter, dtype: np.dtype[Any], argument: Any) -> Any:
    """Convert or validate an argument for a kernel parameter; None becomes a null pointer."""
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
def _load_function(xp: ModuleType, device: int, topic: str, expression: str) -> Any:
    """Return the compiled kernel, loaded on the current device, which must be `device`."""
    code, names = make_translation_unit(topic, expression)
    return _compile_module(xp, device, code, options(topic), names).get_function(expression)


@functools.cache
def _compile_module(xp: ModuleType, device: int, code: str, options: tuple[str, ...], names: tuple[str, ...]) -> Any:
    """Compile a source into a module of the array library, cached per device."""
    del device
    return xp.RawModule(code=code, options=options, name_expressions=names)


_loads: dict[tuple[ModuleType, int, str, str], threading.Thread] = {}
_starting = threading.Lock()


def _load(on: Any, *key: Any) -> None:
    """Compile and load a kernel in a background thread."""
    # An error occurs again, and is raised, when the kernel is launched.
    with contextlib.suppress(Exception), on:
        _load_function(*key)


def list_sources(suffix: str = ".cu") -> list[str]:
    """Return the source files with a suffix below the CUDA package, as ``folder/file``."""
    folders = [entry for entry in files(_PACKAGE).iterdir() if entry.is_dir()]
    found = [(f"{folder.name}/", entry) for folder in folders for entry in folder.iterdir()]
    found += [("", entry) for entry in files(_PACKAGE).iterdir()]
    return sorted(start + entry.name for start, entry in found if entry.name.endswith(suffix))


def list_kernels() -> list[Kernel]:
    """Return every kernel of every topic: launchers list theirs in ``KERNELS``."""
    names = [name[:-3].replace("/", ".") for name in list_sources(".py") if not name.endswith("__init__.py")]
    modules = [import_module(f"{_PACKAGE}.{name}") for name in names]
    return list(itertools.chain.from_iterable(getattr(module, "KERNELS", ()) for module in modules))
