"""The GPU of this machine, if it has one that CuPy and torch can use."""

import os
from functools import cache


@cache
def missing() -> str | None:
    """Return why nothing runs on a GPU here, or None; an error where CMFAST_REQUIRE_GPU=1 says that it must."""
    reason = _reason()
    if reason and os.environ.get("CMFAST_REQUIRE_GPU") == "1":
        raise RuntimeError(reason)
    return reason


def _reason() -> str | None:
    import torch

    try:
        import cupy
    except ImportError:
        return "no GPU: CuPy is not installed"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"no GPU: {error}"
    return None if count and torch.cuda.is_available() else "no GPU that both CuPy and torch see"
