"""The only place that calls Numba: compiled code is kept on disk, without the traps of Numba's cache.

1. It stands beside the sources where that can be written, so it survives their uninstallation, as a folder that is in
   the way of the next one. Here it is kept in the user's cache folder, or in NUMBA_CACHE_DIR where that is set.
2. Its key covers the file of the cached function alone. After an edit of a function that it calls in another file, or
   of a constant that it froze, the old machine code would be used again; and the switches of Numba that change machine
   code are not in it either. Here each version, digest of all kernels, Numba and its switches has its own folder.
3. With nowhere to write, decorating raises when the module is imported. Here it is compiled uncached, once per process;
   and what somebody else has kept, as the builder of an image, can be read where it cannot be written.
4. An index is written before the data it points to, so two processes that start together can be handed what belongs to
   another signature; an unreadable file or a full disk raises, and one flipped bit in machine code is a crash. Here
   files begin with a checksum, and whatever is not exactly what was asked for is compiled again.
5. It learns how to compile before it looks for what is there, twice as long as all the rest of a first call; here only
   where something has to be compiled.
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

import numba  # noqa: TID251
from numba.core import config, event, types  # noqa: TID251
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile  # noqa: TID251
from numba.core.runtime import rtsys  # noqa: TID251

from cmfast._version import __version__
from cmfast.kernels.cpu._core import inner as inner_functions
from cmfast.kernels.cpu._core import steps

F = TypeVar("F", bound=Callable[..., Any])

# Switches of Numba that change machine code without being in its key.
SWITCHES = ("BOUNDSCHECK", "OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "DEBUGINFO_DEFAULT")
KEPT_BYTES = 2**28  # of other versions: environments that take turns should not compile anew each time
LOOK = 32  # kernels that are compiled until somebody looks for garbage
KEPT_SECONDS = 30 * 86_400.0  # unless nothing used them for so long


def _python_files(folder: Traversable) -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from ((f"{entry.name}/{name}", file) for name, file in _python_files(entry))
        elif entry.name.endswith(".py"):
            yield entry.name, entry


@cache
def digest() -> str:
    """Return a digest of the sources of all kernels, of both targets and of what they share."""
    found = hashlib.sha256()
    for name, file in _python_files(files("cmfast.kernels")):
        content = file.read_bytes()
        found.update(f"{name} {len(content)} ".encode())
        found.update(content)
    return found.hexdigest()


def root() -> Path:
    """Return the folder with the folders of all versions; it need not exist."""
    if config.CACHE_DIR:
        return Path(config.CACHE_DIR) / "cmfast"
    import platformdirs

    return platformdirs.user_cache_path("cmfast", appauthor=False) / "kernels"


def folder() -> Path:
    """Return the folder of this version, these sources and Numba with its switches as they are; it need not exist."""
    compiler = [numba.__version__, *(getattr(config, name, None) for name in SWITCHES)]
    return root() / f"{__version__}-{digest()[:24]}-{hashlib.sha256(repr(compiler).encode()).hexdigest()[:8]}"


@cache
def _prepared(path: Path) -> bool:
    """Make the folder, once a process, and remove old ones of other versions; return whether it can be written."""
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
    with contextlib.suppress(OSError):  # another process may be removing the same
        found = [(other.stat().st_mtime, other) for other in path.parent.iterdir() if other != path and other.is_dir()]
        found.sort(reverse=True)
        kept = 0
        for used, other in found:
            kept += sum(size for _, size in _files(other))
            if kept > KEPT_BYTES or used < time.time() - KEPT_SECONDS:
                shutil.rmtree(other, ignore_errors=True)


class _Locator:
    """Where Numba keeps what was compiled of one function, in the terms that it asks for."""

    def __init__(self, function: Callable[..., Any], file: str, path: Path) -> None:
        self._py_file = file  # by this name Numba's warnings ask for it
        self._path = path
        self._line = function.__code__.co_firstlineno
        # Files of the kernels have the same names wherever they are installed; others, in tests, only on this machine.
        inside = function.__module__.startswith("cmfast.kernels.")
        self._name = function.__module__ if inside else hashlib.sha256(file.encode()).hexdigest()[:16]

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> "_Locator | None":
        path = folder()
        return cls(function, file, path) if _prepared(path) or path.is_dir() else None

    def get_cache_path(self) -> str:
        return str(self._path)

    def ensure_cache_path(self) -> None:
        self._path.mkdir(parents=True, exist_ok=True)  # somebody may have cleared it since

    def get_source_stamp(self) -> str:
        return digest()

    def get_disambiguator(self) -> str:
        return f"{self._name}-{self._line}"


class _Result(CompileResultCacheImpl):  # type: ignore[misc]  # Numba is untyped
    """How what was compiled is written, in the folder that is ours."""

    _locator_classes = (_Locator,)

    def reduce(self, data: Any) -> Any:
        """Leave out environments without constants: nothing is read from them, and their modules would be imported.

        And the types in words, which nobody asks for.
        """
        *head, environments = super().reduce(data._replace(type_annotation=""))
        return (*head, tuple(one for one in environments if one.consts))


@cache
def _say_that_nothing_is_found() -> None:
    text = "Numba %s keeps functions in another way than those that cmfast knows: every process compiles them again"
    logging.getLogger("cmfast").warning(text, numba.__version__)


class _InnerResult(_Result):
    """How a function that only kernels call is written."""

    def rebuild(self, target_context: Any, payload: Any) -> Any:
        try:
            return inner_functions.rebuild(target_context, payload)
        except Exception:
            _say_that_nothing_is_found()  # what its checksum let through is what was written
            raise


class _File(IndexDataCacheFile):  # type: ignore[misc]  # Numba is untyped
    """An index and data files, each with a checksum in front; what does not match it is not there."""

    def _load_index(self) -> dict[Any, str]:
        try:
            version, stamp, names = pickle.loads(_checked(Path(self._index_path)))
        except FileNotFoundError:
            return {}
        return names if (version, stamp) == (self._version, self._source_stamp) else {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        self._save(self._index_path, (self._version, self._source_stamp, overloads))

    def _load_data(self, name: str) -> Any:
        return pickle.loads(_checked(Path(self._data_path(name))))

    def _save_data(self, name: str, data: Any) -> None:
        self._save(self._data_path(name), data)

    def _save(self, path: str, data: Any) -> None:
        payload = self._dump(data)
        with self._open_for_write(path) as file:
            file.write(hashlib.sha256(payload).digest())
            file.write(payload)


def _checked(path: Path) -> bytes:
    """Return what follows the checksum in a file; raise ValueError where it is not what was written."""
    content = path.read_bytes()
    checksum, payload = content[:32], content[32:]
    if hashlib.sha256(payload).digest() != checksum:
        msg = f"{path} is damaged"
        raise ValueError(msg)
    return payload


class _Cache(FunctionCache):  # type: ignore[misc]  # Numba is untyped
    """Numba's cache of one function, which can miss but neither lie nor raise."""

    _impl_class = _Result

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file = _File(self._cache_path, self._impl.filename_base, self._impl.locator.get_source_stamp())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            rtsys.initialize(target_context)  # the symbols of allocation; all others are known from the start
            with self._guard_against_spurious_io_errors():
                found = self._load_overload(sig, target_context)  # refreshing the context, as Numba does, takes .4 s
        except Exception:  # noqa: BLE001  # a damaged file, or one that Numba cannot rebuild
            with contextlib.suppress(OSError):
                self.flush()  # or the next one would meet it too
            return None
        return found if found is not None and tuple(found.signature.args) == tuple(sig) else None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except Exception:  # noqa: BLE001  # a full disk costs the next process its time, this one nothing
            self.disable()


class _InnerCache(_Cache):
    _impl_class = _InnerResult


def jit(
    *,
    fastmath: frozenset[str] = frozenset(),
    inline: bool = False,
    inner: bool = False,
    borrows: bool = False,
    late: bool = False,
) -> Callable[[F], F]:
    """Compile a kernel on first use, without the GIL.

    Parameters
    ----------
    fastmath : frozenset of str
        LLVM flags out of ``{"reassoc", "nsz", "contract", "arcp"}``, named with their reason at the kernel. ``nnan``
        and ``ninf`` would delete the checks for NaN and infinity, so they are refused. A function with flags that other
        kernels call must be `inner`.
    inline : bool
        Inline this function into the kernels that call it: Numba does, or, if it is `inner`, LLVM, which compiles
        sooner. One that is handed a tile many times needs it: each call would copy all its fields.
    inner : bool
        Only kernels call this function, never Python: it is compiled within these alone, and needs no wrapper that
        unpacks Python objects, which for a tuple of thirty arrays takes longer to compile than the function itself.
    borrows : bool
        A function that makes no array, and none of whose callees does: it counts no references to those that it is
        handed. To count is to lock, twice for each array of each call, which for a call per row of a batch was half of
        the time; and that code is compiled, for a tuple of twenty arrays two thirds of all there is.
    late : bool
        Only kernels call this function, by its address: see :mod:`cmfast.kernels.cpu._core.late`. It needs no wrapper.
    """
    if not fastmath <= {"reassoc", "nsz", "contract", "arcp"}:
        msg = f"fastmath: {sorted(fastmath)} has flags that break NaN"
        raise ValueError(msg)
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": set(fastmath)}
    options["no_cfunc_wrapper"] = True  # nobody calls a kernel from C
    options["pipeline_class"] = steps.Compiler
    if inner:
        options |= {"no_cpython_wrapper": True, "pipeline_class": inner_functions.InnerCompiler}
        if fastmath:
            # A sum in several parts depends on how it was compiled, and a function of its own is compiled again within
            # each that calls it: which copy is run differs between the process that compiles and those that load.
            options["forceinline"] = True
    options["_nrt"] = not borrows  # said for all, because what is not said is taken over from the first caller
    if late:
        options["no_cpython_wrapper"] = True
    if inline and inner:
        options["forceinline"] = True
    elif inline:
        options["inline"] = "always"

    def decorate(function: F) -> F:
        jitted: Any = numba.njit(**options)(function)
        if jitted is not function:  # it is with NUMBA_DISABLE_JIT
            try:
                # What njit(cache=True) does, with its own class; a test watches it.
                jitted._cache = (_InnerCache if inner else _Cache)(function)
            except RuntimeError as error:
                if "cannot cache" not in str(error):
                    raise
        return jitted  # type: ignore[no-any-return]

    return decorate


class CacheFacts(NamedTuple):
    """Where compiled kernels are kept, and how much of them there is."""

    folder: Path
    writable: bool
    n_functions: int
    """Compiled of this version."""
    n_bytes: int
    """Of all versions together."""


def cache_facts() -> CacheFacts:
    """Return where compiled kernels are kept, of this version and of others."""
    path = folder()
    writable = _prepared(path)
    n_functions = sum(1 for _ in path.glob("*.nbc"))
    return CacheFacts(path, writable, n_functions, sum(size for _, size in _kept()))


def _kernel(dispatcher: Any, args: Any) -> str | None:
    """Return what is compiled; None where it is straight-line code that there is for other sizes."""
    name: str = dispatcher.py_func.__name__
    if not _is_straight(args):
        return name
    kept: Any = ()
    with contextlib.suppress(Exception):  # a damaged index, or none at all
        kept = [signature for signature, *_ in dispatcher._cache._cache_file._load_index()]
    return None if any(map(_is_straight, kept)) else f"{name} for a size"


def _is_straight(args: Any) -> bool:
    """Whether a kernel is compiled for a size, which the number of equal numbers in a tuple says."""
    return any(isinstance(kind, types.containers.UniTuple) for kind in args)


class _Watch(event.Listener):  # type: ignore[misc]  # Numba is untyped
    """What Numba tells when it compiles, under its lock: of kernels that were called, not of those within them."""

    def __init__(self, begin: Callable[[str | None], object], end: Callable[[], object]) -> None:
        self._begin, self._end, self._depth = begin, end, 0
        self._collects, self._uncollected = False, 0

    def on_start(self, event: Any) -> None:
        """Count functions within functions; a ninth of the time would go into looking for garbage in what is kept."""
        self._depth += 1
        dispatcher = event.data["dispatcher"]
        if self._depth == 1 and dispatcher.py_func.__module__.startswith("cmfast."):
            self._collects = gc.isenabled()
            gc.disable()
            self._begin(_kernel(dispatcher, event.data["args"]))

    def on_end(self, event: Any) -> None:
        """Count functions within functions."""
        self._depth -= 1
        if self._depth == 0 and event.data["dispatcher"].py_func.__module__.startswith("cmfast."):
            if self._collects:
                self._age()
                gc.enable()
            self._end()

    def _age(self) -> None:
        """Put all that was made among what is old, or the first look for garbage would go through it; rarely look.

        What somebody froze stays so.
        """
        self._uncollected += 1
        if self._uncollected % LOOK == 0:
            gc.collect()
        elif not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()


def watch(begin: Callable[[str | None], object], end: Callable[[], object]) -> None:
    """Call `begin` before a kernel is compiled, in the thread that needs it, and `end` afterwards.

    `begin` gets its name, or None where it is for one more size.
    """
    event.register("numba:compile", _Watch(begin, end))


def clear_cache() -> int:
    """Remove what was compiled, of this version and of others; return the bytes that are free now."""
    before = sum(size for _, size in _kept())
    for path in _folders():
        shutil.rmtree(path, ignore_errors=True)
    return before - sum(size for _, size in _kept())


def _folders() -> list[Path]:
    try:
        return [path for path in root().iterdir() if path.is_dir()]
    except OSError:
        return []


def _kept() -> Iterator[tuple[Path, int]]:
    return (found for folder in _folders() for found in _files(folder))


def _files(folder: Path) -> Iterator[tuple[Path, int]]:
    for path in folder.iterdir():
        with contextlib.suppress(OSError):  # another process may replace it just now
            yield path, path.stat().st_size
