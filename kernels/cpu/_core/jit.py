"""Compile kernels with Numba and cache the machine code on disk, without the traps of Numba's own cache.

1. Numba caches next to the sources if it can, and leaves a folder there when they are uninstalled. Here the cache is
   the user's cache folder, or NUMBA_CACHE_DIR.
2. Its key is the file of the cached function: an edited callee in another file, a changed constant or a compiler switch
   would reuse old machine code. Here each version, digest of all kernels, Numba and its switches has its own folder.
3. With no writable folder its decorator raises at import. Here kernels are then compiled once per process, and a cache
   that another user wrote, as the builder of an image, can still be read.
4. It writes an index before the data, so two processes that start together can load each other's signatures; a damaged
   file or a full disk raises, and one flipped bit of machine code crashes. Here files begin with a checksum, and a
   mismatch means compiling again.
5. It sets up the compiler before it looks for cached code, which takes twice the rest of a first call. Here only if
   something has to be compiled.
6. It finds code for this very processor only. Here code for a level of x86-64 that came with the wheel is found, too.
"""

import contextlib
import gc
import hashlib
import logging
import os
import pickle
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from cmfast._version import __version__
from cmfast.kernels.cpu._core import compiler_passes, machine_code
from cmfast.kernels.cpu._core import inner as inner_functions
from cmfast.kernels.cpu._core.numba_internals import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    config,
    event,
    numba,
    rtsys,
    types,
)

F = TypeVar("F", bound=Callable[..., Any])

# Numba switches that change machine code without being part of its cache key.
SWITCHES = ("BOUNDSCHECK", "OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "DEBUGINFO_DEFAULT")
KEPT_CACHE_BYTES = 2**28  # kept for other versions, so that environments used in turn do not recompile each time
KERNELS_PER_COLLECTION = 32  # compiled kernels between two garbage collections
KEPT_CACHE_SECONDS = 30 * 86_400.0  # since their last use, after which other versions are removed


def _python_files(package: Traversable) -> Iterator[tuple[str, Traversable]]:
    """Yield relative path and file of all Python sources below a package folder, sorted."""
    for entry in sorted(package.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from ((f"{entry.name}/{name}", file) for name, file in _python_files(entry))
        elif entry.name.endswith(".py"):
            yield entry.name, entry


@cache
def digest() -> str:
    """Return a hash of the sources of all kernels, of both targets and of what they share."""
    found = hashlib.sha256()
    for name, file in _python_files(files("cmfast.kernels")):
        content = file.read_bytes()
        found.update(f"{name} {len(content)} ".encode())
        found.update(content)
    return found.hexdigest()


def find_cache_root() -> Path:
    """Return the cache folder that holds one folder for each version; it need not exist."""
    if config.CACHE_DIR:
        return Path(config.CACHE_DIR) / "cmfast"
    import platformdirs

    return platformdirs.user_cache_path("cmfast", appauthor=False) / "kernels"


def find_cache_folder() -> Path:
    """Return the cache folder of this version, these sources and this Numba with its switches; it need not exist."""
    compiler = [numba.__version__, *(getattr(config, name, None) for name in SWITCHES)]
    return (
        find_cache_root() / f"{__version__}-{digest()[:24]}-{hashlib.sha256(repr(compiler).encode()).hexdigest()[:8]}"
    )


@cache
def _prepare_folder(path: Path) -> bool:
    """Create the cache folder and remove old ones, once per process; return whether it is writable."""
    try:
        fresh = not path.exists()
        path.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path).close()
        os.utime(path)  # used now
    except OSError:
        return False
    if fresh:
        _remove_old(path)
    return True


def _remove_old(path: Path) -> None:
    """Delete cache folders of other versions beyond 256 MB in total or unused for 30 days."""
    with contextlib.suppress(OSError):  # another process may be removing the same
        found = [(other.stat().st_mtime, other) for other in path.parent.iterdir() if other != path and other.is_dir()]
        found.sort(reverse=True)
        kept = 0
        for used, other in found:
            kept += sum(size for _, size in _files(other))
            if kept > KEPT_CACHE_BYTES or used < time.time() - KEPT_CACHE_SECONDS:
                shutil.rmtree(other, ignore_errors=True)


class _Locator:
    """Tell Numba's cache the folder, the source stamp and the file name for one function."""

    def __init__(self, function: Callable[..., Any], file: str, path: Path) -> None:
        self._py_file = file  # the attribute that Numba's warnings read
        self._path = path
        self._line = function.__code__.co_firstlineno
        # Files of the kernels have the same names wherever they are installed; others, in tests, only on this machine.
        inside = function.__module__.startswith("cmfast.kernels.")
        self._name = function.__module__ if inside else hashlib.sha256(file.encode()).hexdigest()[:16]

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> "_Locator | None":
        """Return a locator if there is a folder to write to or read from, else None (Numba's protocol)."""
        path = find_cache_folder()
        there = _prepare_folder(path) or path.is_dir() or machine_code.find_folder(path.name) is not None
        return cls(function, file, path) if there else None

    def get_cache_path(self) -> str:
        """Return the cache folder."""
        return str(self._path)

    def ensure_cache_path(self) -> None:
        """Create the cache folder again if it was removed."""
        self._path.mkdir(parents=True, exist_ok=True)  # another process may have cleared it since

    def get_source_stamp(self) -> str:
        """Return the digest of all kernel sources."""
        return digest()

    def get_disambiguator(self) -> str:
        """Return a file name stem for the function: its module and first line."""
        return f"{self._name}-{self._line}"


class _Result(CompileResultCacheImpl):  # type: ignore[misc]  # Numba is untyped
    """Serialise compile results of kernels into our cache folder."""

    _locator_classes = (_Locator,)

    def reduce(self, data: Any) -> Any:
        """Return the serialised compile result, without type annotations and without constant-free environments.

        Loading an empty environment would import its module for nothing.
        """
        *head, environments = super().reduce(data._replace(type_annotation=""))
        return (*head, tuple(one for one in environments if one.consts))


@cache
def _warn_of_unknown_format() -> None:
    """Warn, once per process, that this Numba's cache format is unknown, so that every process recompiles."""
    text = "Numba %s stores functions in a format that cmfast does not know: every process compiles them again"
    logging.getLogger("cmfast").warning(text, numba.__version__)


class _InnerResult(_Result):
    """Serialise compile results of functions that only kernels call, as bitcode."""

    def rebuild(self, target_context: Any, payload: Any) -> Any:
        """Rebuild a function from bitcode; warn and raise if this Numba stores another format."""
        try:
            return inner_functions.rebuild(target_context, payload)
        except Exception:
            _warn_of_unknown_format()  # the checksum matched, so the file holds what was written
            raise


class _File(IndexDataCacheFile):  # type: ignore[misc]  # Numba is untyped
    """Numba's cache index and data files, each preceded by a checksum; a mismatch counts as a missing file."""

    def _load_index(self) -> dict[Any, str]:
        """Read the index of cached signatures; empty if it is missing or of another version."""
        try:
            version, stamp, names = pickle.loads(_read_verified(Path(self._index_path)))
        except FileNotFoundError:
            return {}
        return names if (version, stamp) == (self._version, self._source_stamp) else {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        """Write the index of cached signatures."""
        self._save(self._index_path, (self._version, self._source_stamp, overloads))

    def _load_data(self, name: str) -> Any:
        """Read a cached compile result."""
        return pickle.loads(_read_verified(Path(self._data_path(name))))

    def _save_data(self, name: str, data: Any) -> None:
        """Write a compile result."""
        self._save(self._data_path(name), data)

    def _save(self, path: str, data: Any) -> None:
        """Write an object after its checksum."""
        payload = self._dump(data)
        with self._open_for_write(path) as file:
            file.write(hashlib.sha256(payload).digest())
            file.write(payload)


def copy_machine_code(source: Path, target: Path) -> int:
    """Copy the functions in a cache folder to another folder, but those that are bitcode; return their number.

    Bitcode is of functions that only kernels call: it serves to compile further kernels, and machine code contains it.
    """
    target.mkdir(parents=True)
    copied = 0
    for path in sorted(source.glob("*.nbi")):
        file = _File(str(source), path.stem, digest())
        kept = {key: name for key, name in file._load_index().items() if file._load_data(name)[0][1] == "object"}
        for name in kept.values():
            shutil.copyfile(source / name, target / name)
        if kept:
            _File(str(target), path.stem, digest())._save_index(kept)
        copied += len(kept)
    return copied


def _read_verified(path: Path) -> bytes:
    """Return the content of a cache file after its checksum; raise ValueError if they do not match."""
    content = path.read_bytes()
    checksum, payload = content[:32], content[32:]
    if hashlib.sha256(payload).digest() != checksum:
        msg = f"{path} is damaged"
        raise ValueError(msg)
    return payload


class _Cache(FunctionCache):  # type: ignore[misc]  # Numba is untyped
    """Numba's function cache that on any error misses, instead of raising or returning wrong code."""

    _impl_class = _Result

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file = _File(self._cache_path, self._impl.filename_base, self._impl.locator.get_source_stamp())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the cached compile result of a signature; None after any error or mismatch."""
        try:
            rtsys.initialize(target_context)  # registers the allocation symbols; all others are known from the start
            with self._guard_against_spurious_io_errors():
                overload = self._load_overload(
                    sig, target_context
                )  # without Numba's context refresh, which takes 0.4 s
        except Exception:  # noqa: BLE001  # a damaged file, or one that Numba cannot rebuild
            with contextlib.suppress(OSError):
                self.flush()  # else the next process meets it too
            overload = None
        if overload is None:
            with contextlib.suppress(Exception):  # as above; what came with the wheel stays as it is
                overload = self._load_level(sig, target_context)
        return overload if overload is not None and tuple(overload.signature.args) == tuple(sig) else None

    def _load_level(self, sig: Any, target_context: Any) -> Any:
        """Return the compile result of a signature for the best level of this processor in the wheel's machine code."""
        folder = machine_code.find_folder(Path(self._cache_path).name)
        if folder is None:
            return None
        file = _File(str(folder), self._impl.filename_base, self._impl.locator.get_source_stamp())
        _, (triple, _, features), code = self._index_key(sig, target_context.codegen())
        for level in machine_code.list_levels(features):
            data = file.load((sig, (triple, level, machine_code.LEVELS[level]), code))
            if data is not None:
                return self._impl.rebuild(target_context, data)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write the compile result of a signature; after an error stop caching in this process."""
        try:
            super().save_overload(sig, data)
        except Exception:  # noqa: BLE001  # with a full disk only the next process loses time
            self.disable()


class _InnerCache(_Cache):
    """Function cache of functions that only kernels call."""

    _impl_class = _InnerResult


def jit(
    *,
    fastmath: frozenset[str] = frozenset(),
    inline: bool = False,
    inner: bool = False,
    borrows: bool = False,
    late: bool = False,
) -> Callable[[F], F]:
    """Return a decorator that compiles a kernel on first use, without the GIL, and caches it on disk.

    Parameters
    ----------
    fastmath : frozenset of str
        LLVM flags out of ``{"reassoc", "nsz", "contract", "arcp"}``, named with their reason at the kernel. ``nnan``
        and ``ninf`` would delete the checks for NaN and infinity, so they are refused. A function with flags that other
        kernels call must be `inner`.
    inline : bool
        Inline this function into the kernels that call it: by Numba or, if it is `inner`, by LLVM, which compiles
        faster. A function that takes a tile and is called often needs it: each call would copy all fields.
    inner : bool
        Only kernels call this function, never Python: it is compiled inside them and has no wrapper that unpacks Python
        objects, which for a tuple of thirty arrays takes longer to compile than the function itself.
    borrows : bool
        Neither this function nor its callees allocate arrays, so reference counting is left out. Each count is an
        atomic operation, two per array and call, which took half of the time of a call per row of a batch; its code was
        two thirds of what is compiled for a tuple of twenty arrays.
    late : bool
        Kernels call this function through a pointer (:mod:`cmfast.kernels.cpu._core.late`); it needs no wrapper.
    """
    if not fastmath <= {"reassoc", "nsz", "contract", "arcp"}:
        msg = f"fastmath: {sorted(fastmath)} has flags that break NaN"
        raise ValueError(msg)
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": set(fastmath)}
    options["no_cfunc_wrapper"] = True  # kernels are never called from C
    options["pipeline_class"] = compiler_passes.Compiler
    if inner:
        options |= {"no_cpython_wrapper": True, "pipeline_class": inner_functions.InnerCompiler}
        if fastmath:
            # A reassociated sum depends on how it was compiled, and a separate function is compiled again in each
            # caller: which copy runs would differ between the process that compiles and those that load the cache.
            options["forceinline"] = True
    options["_nrt"] = not borrows  # set for all, because an unset option is inherited from the first caller
    if late:
        options["no_cpython_wrapper"] = True
    if inline and inner:
        options["forceinline"] = True
    elif inline:
        options["inline"] = "always"

    def decorate(function: F) -> F:
        """Compile one function with these options and attach the cache to it."""
        jitted: Any = numba.njit(**options)(function)
        if jitted is not function:  # equal with NUMBA_DISABLE_JIT
            try:
                # What njit(cache=True) does, with its own class; a test watches it.
                jitted._cache = (_InnerCache if inner else _Cache)(function)
            except RuntimeError as error:
                if "cannot cache" not in str(error):
                    raise
        return jitted  # type: ignore[no-any-return]

    return decorate


class CacheSummary(NamedTuple):
    """Location, writability and size of the cache of compiled kernels."""

    folder: Path
    writable: bool
    n_functions: int
    """Cached functions of this version."""
    n_bytes: int
    """Size of the cache, all versions together."""


def summarize_cache() -> CacheSummary:
    """Return location, writability and size of the cache of compiled kernels."""
    path = find_cache_folder()
    writable = _prepare_folder(path)
    n_functions = sum(1 for _ in path.glob("*.nbc"))
    return CacheSummary(path, writable, n_functions, sum(size for _, size in _list_cached_files()))


def _describe_compilation(dispatcher: Any, args: Any) -> str | None:
    """Return the name to announce for a compilation; None for unrolled code if another size of it is cached."""
    name: str = dispatcher.py_func.__name__
    if not _is_unrolled(args):
        return name
    cached: Any = ()
    with contextlib.suppress(Exception):  # a damaged index, or none at all
        cached = [signature for signature, *_ in dispatcher._cache._cache_file._load_index()]
    return None if any(map(_is_unrolled, cached)) else f"{name} for a size"


def _is_unrolled(args: Any) -> bool:
    """Return whether a kernel is unrolled for a size, which is encoded as the length of a uniform tuple."""
    return any(isinstance(kind, types.containers.UniTuple) for kind in args)


class _CompileListener(event.Listener):  # type: ignore[misc]  # Numba is untyped
    """Listener of Numba's compile events: reports outermost compilations of cmfast, and pauses garbage collection."""

    def __init__(self, begin: Callable[[str | None], object], end: Callable[[], object]) -> None:
        self._begin, self._end, self._depth = begin, end, 0
        self._collects, self._uncollected = False, 0

    def on_start(self, event: Any) -> None:
        """Report the start of an outermost compilation, and pause garbage collection meanwhile.

        Collections would take a ninth of the compile time, scanning objects that stay alive.
        """
        self._depth += 1
        dispatcher = event.data["dispatcher"]
        if self._depth == 1 and dispatcher.py_func.__module__.startswith("cmfast."):
            self._collects = gc.isenabled()
            gc.disable()
            self._begin(_describe_compilation(dispatcher, event.data["args"]))

    def on_end(self, event: Any) -> None:
        """Report the end of an outermost compilation, and resume garbage collection."""
        self._depth -= 1
        if self._depth == 0 and event.data["dispatcher"].py_func.__module__.startswith("cmfast."):
            if self._collects:
                self._age()
                gc.enable()
            self._end()

    def _age(self) -> None:
        """Move all objects to the oldest generation, or collect every 32nd time, so that the next collection is short.

        Objects that the program froze stay frozen.
        """
        self._uncollected += 1
        if self._uncollected % KERNELS_PER_COLLECTION == 0:
            gc.collect()
        elif not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()


@contextlib.contextmanager
def lock_cache() -> Iterator[None]:
    """In this block, hold a lock that one process of the machine can hold, so that others wait for what it compiles.

    The system releases it when the process ends, however that happens. Where the system has no such locks, and where
    the file system refuses them, processes do not wait.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(ImportError, OSError):
            import fcntl

            file = stack.enter_context((find_cache_root() / "warmup.lock").open("a"))
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def watch(begin: Callable[[str | None], object], end: Callable[[], object]) -> None:
    """Call `begin` before each outermost compilation of a kernel, in the compiling thread, and `end` afterwards.

    `begin` gets the kernel's name, or None if it is unrolled for one more size.
    """
    event.register("numba:compile", _CompileListener(begin, end))


def clear_cache() -> int:
    """Delete all cached machine code, of every version; return the number of bytes freed."""
    before = sum(size for _, size in _list_cached_files())
    for path in _folders():
        shutil.rmtree(path, ignore_errors=True)
    return before - sum(size for _, size in _list_cached_files())


def _folders() -> list[Path]:
    """Return the cache folders of all versions."""
    try:
        return [path for path in find_cache_root().iterdir() if path.is_dir()]
    except OSError:
        return []


def _list_cached_files() -> Iterator[tuple[Path, int]]:
    """Yield path and size of every cached file, of all versions."""
    return (entry for path in _folders() for entry in _files(path))


def _files(path: Path) -> Iterator[tuple[Path, int]]:
    """Yield path and size of the files of a folder, skipping those that vanish meanwhile."""
    for file in path.iterdir():
        with contextlib.suppress(OSError):  # another process may replace it just now
            yield file, file.stat().st_size
