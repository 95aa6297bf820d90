"""CUDA on the host, for tests: the part of CuPy's interface that this project uses, with kernels run by the CPU.

The CUDA sources are compiled by g++ against ``cuda_host.h`` and the launchers of ``kernels/cuda`` call them as they
call CuPy: an array brings its library along, and that of the arrays made here is this package. Nothing falls back: a
function, an intrinsic or an implicit copy to the host that is not here is an error.

What it cannot show: speed; a missing memory fence; barriers of the whole grid. Numbers of 32 bits are flushed as with
``-ftz=true``. Fused multiply-adds, which NVRTC makes, g++ makes in the mode ``fused`` alone.
"""

from cuda_host._arrays import (
    Device,
    MemoryPointer,
    UnownedMemory,
    allocations,
    arange,
    asarray,
    ascontiguousarray,
    broadcast_to,
    concatenate,
    copied,
    cuda,
    cumsum,
    empty,
    flatnonzero,
    frexp,
    isfinite,
    ldexp,
    linalg,
    ndarray,
    searchsorted,
    synchronisations,
    unique,
    using_allocator,
    where,
    zeros,
)
from cuda_host._build import MODE, covered, environment, missing
from cuda_host._module import RawModule, schedule, siblings

__all__ = [
    "MODE",
    "Device",
    "MemoryPointer",
    "RawModule",
    "UnownedMemory",
    "allocations",
    "arange",
    "asarray",
    "ascontiguousarray",
    "broadcast_to",
    "concatenate",
    "copied",
    "covered",
    "cuda",
    "cumsum",
    "empty",
    "environment",
    "flatnonzero",
    "frexp",
    "isfinite",
    "ldexp",
    "linalg",
    "missing",
    "ndarray",
    "schedule",
    "searchsorted",
    "siblings",
    "synchronisations",
    "unique",
    "using_allocator",
    "where",
    "zeros",
]
