"""Scaling of common matrices with up to four rows and columns, by one thread each; others are left to `team.py`."""

from typing import Any

from cmfast.kernels.cuda._core.module import Kernel
from cmfast.kernels.cuda.scaling import arguments
from cmfast.kernels.shared.scaling import ScalingProblem

MOST_SINGLE_LINES = 4  # rows or columns on the longer side: more exceed the registers of a thread
SINGLE_THREADS = 64  # threads of a block
DEFINES = {"SINGLE_THREADS": SINGLE_THREADS}

_SINGLE = Kernel("scaling/thread_per_matrix", "cmfast_ipf_single", (("2",), ("3",), ("4",)), (96, 128, 208))
KERNELS = (_SINGLE,)


def launch(problem: ScalingProblem, queue: dict[str, Any]) -> None:
    """Launch the kernel that scales matrices needing few steps, and appends all others to the queue."""
    p = problem
    shared = 8 * SINGLE_THREADS * max(p.R * p.C | 1, p.R | 1, p.C | 1)
    _SINGLE.launch(
        (str(max(2, p.R, p.C)),), -(-p.n // SINGLE_THREADS), shared=shared, threads=SINGLE_THREADS,
        **arguments.make_problem_arguments(p), **queue,
    )  # fmt: skip
