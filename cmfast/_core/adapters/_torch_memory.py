"""CuPy arrays in memory of torch's allocator, so that results are tensors like any other.

What torch did not allocate it does not know: ``tensor.record_stream`` ignores it, its statistics leave it out, and
each of two libraries keeps memory that the other may want.
"""

from collections.abc import Callable
from typing import Any

import torch  # noqa: TID251


def make_allocator(device: torch.device) -> Callable[[int], Any]:
    """Return what CuPy is to ask for memory: each piece is a tensor of bytes on `device`, for the current stream."""
    import cupy  # noqa: TID251

    def allocate(size: int) -> Any:
        owner = torch.empty(size, dtype=torch.uint8, device=device)
        return cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(owner.data_ptr(), size, owner, device.index), 0)

    return allocate


def to_tensor(x: Any, dtype: torch.dtype) -> torch.Tensor:
    """Return an array of CuPy as a tensor of the same memory: torch's own where that is where it came from."""
    owner = getattr(x.data.mem, "_owner", None)
    if not isinstance(owner, torch.Tensor):
        shared: torch.Tensor = torch.from_dlpack(x)
        return shared
    first = (x.data.ptr - owner.data_ptr()) // x.itemsize if x.size else 0
    steps = tuple(stride // x.itemsize for stride in x.strides)
    made: torch.Tensor = torch.empty(0, dtype=dtype, device=owner.device)
    return made.set_(owner.untyped_storage(), first, x.shape, steps)
