"""Gradient of scaling matrices with up to four rows and columns, by one thread each."""

from typing import Any

from cmfast.kernels.cuda._core.module import Kernel
from cmfast.kernels.cuda.scaling.thread_per_matrix import DEFINES, MOST_SINGLE_LINES, SINGLE_THREADS

_SINGLE = Kernel("scaling/gradient_single", "cmfast_scaling_gradient_single", (("2",), ("3",), ("4",)), (128, 224, 255))
KERNELS = (_SINGLE,)
__all__ = ["DEFINES", "MOST_SINGLE_LINES"]


def launch(R: int, C: int, n: int, arguments: dict[str, Any]) -> None:
    """Launch the kernel that writes the gradients of all matrices."""
    shared = 2 * 8 * SINGLE_THREADS * (R * C | 1)
    instance = (str(max(2, R, C)),)
    _SINGLE.launch(instance, -(-n // SINGLE_THREADS), shared=shared, threads=SINGLE_THREADS, R=R, C=C, n=n, **arguments)
