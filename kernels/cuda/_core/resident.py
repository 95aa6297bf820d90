"""Small arrays that stay on a device between calls: what a call needs to know but does not change.

A copy from the host to a device in every call costs as much as a small kernel, and no graph of CUDA can hold it.
"""

from types import ModuleType
from typing import Any

import numpy as np

from cmfast.kernels.cuda._core import workspace
from cmfast.kernels.cuda._core.module import library

# Arrays; what is beyond is copied in every call, for one that is let go might still be read.
MOST_RESIDENT_ARRAYS = 1024

_kept: dict[tuple[ModuleType, int, str, tuple[int, ...], bytes], Any] = {}


def resident(beside: Any, array: np.ndarray) -> Any:
    """Return `array` on the device of `beside`, not to be written to.

    The first time that waits for the copy: any stream may read it from then on.
    """
    xp, array = library(beside), np.ascontiguousarray(array)
    key = (xp, beside.device.id, array.dtype.str, array.shape, array.tobytes())
    found = _kept.get(key)
    if found is None:
        if workspace.in_use():
            msg = "what stays on the device must be there before a workspace is used: ask how large that must be first"
            raise RuntimeError(msg)
        found = xp.asarray(array)
        if len(_kept) < MOST_RESIDENT_ARRAYS:
            xp.cuda.get_current_stream().synchronize()
            _kept[key] = found
    return found
