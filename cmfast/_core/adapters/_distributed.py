"""Sum tensors and NumPy arrays over the processes of ``torch.distributed``."""

import sys
from typing import Any

import numpy as np

from cmfast._core import source_digest, validate
from cmfast.kernels.shared import halves


def gather_objects(value: Any, group: Any) -> list[Any] | None:
    """Return the objects of all processes in rank order; None if there is only this process.

    Raises RuntimeError in all processes if one has another version of cmfast.
    """
    if "torch" not in sys.modules:
        return None
    import torch.distributed as dist  # noqa: TID251

    if not (dist.is_available() and dist.is_initialized()):
        return None
    every: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(every, (source_digest.version_and_digest(), value), group=group)
    versions = {part[0] for part in every}
    if len(versions) > 1:
        named = " and ".join(sorted(versions))
        validate.fail(f"the processes have cmfast {named}; install one version on all machines", RuntimeError)
    return [part[1] for part in every]


def describe_location(array: Any) -> str | None:
    """Return library and device kind of an array as a string that all processes share; None for None."""
    if array is None or isinstance(array, np.ndarray):
        return None if array is None else "numpy"
    if not hasattr(array, "device") or not hasattr(array, "is_cuda"):
        validate.fail(f"torch.distributed adds tensors and NumPy's arrays, not {type(array).__module__}", TypeError)
    return f"torch {array.device.type}"


def sum_over_processes(array: Any, shape: tuple[int, ...], place: str, *, floats: bool, group: Any, most: int) -> Any:
    """Return the sum of the arrays of all processes; None counts as zeros of `shape` on `place`.

    `most` bounds the sums of integers. Raises OverflowError in all processes if a sum overflows int64.
    """
    import torch  # noqa: TID251
    import torch.distributed as dist  # noqa: TID251

    dtype = torch.float64 if floats else torch.int64
    if array is None:  # on the current device of this process, as torch.distributed expects
        total = torch.zeros(shape, dtype=dtype, device=place.removeprefix("torch ") if place != "numpy" else "cpu")
    else:
        total = torch.as_tensor(array).to(dtype, copy=True)
    if floats or most < 2**63:
        dist.all_reduce(total, group=group)
    else:
        low, high = total & (2**halves.BITS - 1), total >> halves.BITS
        for half in (low, high):
            dist.all_reduce(half, group=group)
        total, good = halves.join_halves(low, high)
        if not bool(good.all()):
            validate.fail("the counts of all processes add up to more than int64 holds", OverflowError)
    return total.numpy() if place == "numpy" else total
