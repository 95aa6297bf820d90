"""The only place that calls Numba: cached compilation without the cache's two traps.

1. Numba's cache key covers the file of the cached function alone: after an edit of a function that it calls in another
   file the old machine code would be used again. Here the key also holds a hash of every kernel source.
2. With nowhere to write the cache, decorating raises when the module is imported. Here the function is compiled
   uncached instead, once per process.
"""

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba  # noqa: TID251

F = TypeVar("F", bound=Callable[..., Any])


@cache
def _sources() -> bytes:
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.digest()


def jit(*, fastmath: frozenset[str] = frozenset(), inline: bool = False) -> Callable[[F], F]:
    """Compile a kernel on first use, without the GIL.

    Parameters
    ----------
    fastmath : frozenset of str
        LLVM flags out of ``{"reassoc", "nsz", "contract", "arcp"}``, named with their reason at the kernel. ``nnan``
        and ``ninf`` would delete the checks for NaN and infinity, so they are refused.
    inline : bool
        Inline this function into the kernels that call it.
    """
    if not fastmath <= {"reassoc", "nsz", "contract", "arcp"}:
        msg = f"fastmath: {sorted(fastmath)} has flags that break NaN"
        raise ValueError(msg)
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": set(fastmath)}
    if inline:
        options["inline"] = "always"

    def decorate(function: F) -> F:
        try:
            jitted = numba.njit(cache=True, **options)(function)
        except RuntimeError as error:
            if "cannot cache" not in str(error):
                raise
            return numba.njit(**options)(function)  # type: ignore[no-any-return]
        stamp_sources(jitted)
        return jitted  # type: ignore[no-any-return]

    return decorate


def stamp_sources(jitted: Any) -> None:
    """Put the hash of all kernel sources into the cache key of `jitted` (a private attribute: a test watches it)."""
    index = getattr(getattr(jitted, "_cache", None), "_cache_file", None)
    if index is not None:  # with NUMBA_DISABLE_JIT there is no cache
        index._source_stamp = (index._source_stamp, _sources())
