"""Let CuPy allocate from torch's memory pool, so that its results are ordinary tensors.

For memory that torch did not allocate, ``tensor.record_stream`` has no effect and torch's statistics are incomplete,
and two memory pools would each hold memory that the other may need.
"""

from collections.abc import Callable
from typing import Any

import torch  # noqa: TID251


def make_allocator(device: torch.device) -> Callable[[int], Any]:
    """Return an allocator for CuPy: each block is a torch tensor of bytes on `device`, for the current stream."""
    import cupy  # noqa: TID251

    def allocate(size: int) -> Any:
        """Allocate `size` bytes from torch, as CuPy memory."""
        owner = torch.empty(size, dtype=torch.uint8, device=device)
        return cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(owner.data_ptr(), size, owner, device.index), 0)

    return allocate


def share_as_tensor(x: Any, dtype: torch.dtype) -> torch.Tensor:
    """Return a CuPy array as a tensor of the same memory; via torch's own storage if torch allocated it."""
    owner = getattr(x.data.mem, "_owner", None)
    if not isinstance(owner, torch.Tensor):
        shared: torch.Tensor = torch.from_dlpack(x)
        return shared
    first = (x.data.ptr - owner.data_ptr()) // x.itemsize if x.size else 0
    steps = tuple(stride // x.itemsize for stride in x.strides)
    made: torch.Tensor = torch.empty(0, dtype=dtype, device=owner.device)
    return made.set_(owner.untyped_storage(), first, x.shape, steps)
