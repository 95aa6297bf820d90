"""Cache of small constant arrays that stay on a device between calls.

A host-to-device copy in every call costs as much as a small kernel, and a CUDA graph cannot contain it.
"""

from types import ModuleType
from typing import Any

import numpy as np

from cmfast.kernels.cuda._core import workspace
from cmfast.kernels.cuda._core.module import library

# At most so many arrays; later ones are copied in every call, because a freed one might still be read.
MOST_RESIDENT_ARRAYS = 1024

_cached: dict[tuple[ModuleType, int, str, tuple[int, ...], bytes], Any] = {}


def copy_to_device(like: Any, array: np.ndarray) -> Any:
    """Return a read-only copy of `array` on the device of `like`, from the cache if it was copied before.

    The first copy synchronises, so that any stream may read it afterwards.
    """
    xp, array = library(like), np.ascontiguousarray(array)
    key = (xp, like.device.id, array.dtype.str, array.shape, array.tobytes())
    copy = _cached.get(key)
    if copy is None:
        if workspace.is_active():
            msg = "constants must be on the device before a workspace is used: call workspace.measure first"
            raise RuntimeError(msg)
        copy = xp.asarray(array)
        if len(_cached) < MOST_RESIDENT_ARRAYS:
            xp.cuda.get_current_stream().synchronize()
            _cached[key] = copy
    return copy
