"""The only place that calls Numba: compiled code is kept on disk, without the traps of Numba's cache.

1. Its key covers the file of the cached function alone. After an edit of a function that it calls in another file, or
   of a constant that it froze, the old machine code would be used again. Here a cached result also names the sources
   that it was made from.
2. With nowhere to write, decorating raises when the module is imported. Here it is compiled uncached, once per process.
3. An index is written before the data it points to, so two processes that start together can be handed what belongs to
   another signature or an older release; an unreadable file or a full disk raises. Here whatever is not exactly what
   was asked for is compiled again.
"""

import contextlib
import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba  # noqa: TID251
from numba.core.caching import CompileResultCacheImpl, FunctionCache  # noqa: TID251

F = TypeVar("F", bound=Callable[..., Any])


@cache
def _sources() -> bytes:
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.digest()


class _Result(CompileResultCacheImpl):  # type: ignore[misc]  # Numba is untyped
    """What is stored of one compiled function: Numba's form of it, and the sources."""

    def reduce(self, data: Any) -> Any:
        return _sources(), super().reduce(data)

    def rebuild(self, target_context: Any, reduced_data: Any) -> Any:
        sources, payload = reduced_data
        return super().rebuild(target_context, payload) if sources == _sources() else None


class _Cache(FunctionCache):  # type: ignore[misc]  # Numba is untyped
    """Numba's cache of one function, which can miss but neither lie nor raise."""

    _impl_class = _Result

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            found = super().load_overload(sig, target_context)
        except Exception:  # noqa: BLE001  # unpickling a damaged file can raise anything
            with contextlib.suppress(OSError):
                self.flush()  # or the next one would meet it too
            return None
        return found if found is not None and tuple(found.signature.args) == tuple(sig) else None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except Exception:  # noqa: BLE001  # a full disk costs the next process its time, this one nothing
            self.disable()


def jit(*, fastmath: frozenset[str] = frozenset(), inline: bool = False, inner: bool = False) -> Callable[[F], F]:
    """Compile a kernel on first use, without the GIL.

    Parameters
    ----------
    fastmath : frozenset of str
        LLVM flags out of ``{"reassoc", "nsz", "contract", "arcp"}``, named with their reason at the kernel. ``nnan``
        and ``ninf`` would delete the checks for NaN and infinity, so they are refused. A function with flags that other
        kernels call must be `inner`.
    inline : bool
        Inline this function into the kernels that call it.
    inner : bool
        Only kernels call this function, never Python: it needs no wrapper that unpacks Python objects, which for a
        tuple of thirty arrays takes longer to compile than the function itself.
    """
    if not fastmath <= {"reassoc", "nsz", "contract", "arcp"}:
        msg = f"fastmath: {sorted(fastmath)} has flags that break NaN"
        raise ValueError(msg)
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": set(fastmath)}
    if inner:
        options |= {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        if fastmath:
            # A sum in several parts depends on how it was compiled, and a function of its own is compiled again within
            # each that calls it: which copy is run differs between the process that compiles and those that load.
            options["forceinline"] = True
    if inline:
        options["inline"] = "always"

    def decorate(function: F) -> F:
        jitted: Any = numba.njit(**options)(function)
        if jitted is not function:  # it is with NUMBA_DISABLE_JIT
            try:
                jitted._cache = _Cache(function)  # what njit(cache=True) does, with its own class; a test watches it
            except RuntimeError as error:
                if "cannot cache" not in str(error):
                    raise
        return jitted  # type: ignore[no-any-return]

    return decorate


def cache_folder() -> str | None:
    """Return where compiled kernels are kept, or None where there is nowhere to write."""
    probe = jit()(lambda: None)
    folder: str | None = getattr(getattr(probe, "stats", None), "cache_path", None)
    return folder
