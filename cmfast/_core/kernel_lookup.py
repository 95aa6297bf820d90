"""Look up the kernel of an op for a target, importing its module on first use."""

from collections.abc import Callable
from functools import cache
from typing import Any

from cmfast._core import compile_notices
from cmfast.kernels.loading import load
from cmfast.kernels.ops import OPS


@cache
def get_kernel(op: str, target: str) -> Callable[..., Any]:
    """Return the kernel of `op` for `target` ("cpu" or "cuda"); its module is imported once."""
    entry = OPS[op]
    if target not in entry.targets:
        msg = f"{op} has no {target} kernel (has: {', '.join(sorted(entry.targets))})"
        raise NotImplementedError(msg)
    module = load(f"cmfast.kernels.{target}.{entry.module}")
    if target == "cpu":
        compile_notices.watch()
    function: Callable[..., Any] = getattr(module, op)
    return function
