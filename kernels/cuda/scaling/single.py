"""Scaling of the smallest matrices by a thread each, for the many that make no trouble; says which ones are left."""

from typing import Any

from cmfast.kernels.cuda._core.module import Kernel
from cmfast.kernels.cuda.scaling import arguments
from cmfast.kernels.shared.scaling import ScalingProblem

MOST_SINGLE_LINES = 4  # lines on the longer side: more do not fit into the registers of a thread
SINGLE_THREADS = 64  # of a block
DEFINES = {"SINGLE_THREADS": SINGLE_THREADS}

_SINGLE = Kernel("scaling/single", "cmfast_ipf_single", (("2",), ("3",), ("4",)), (96, 128, 208))
KERNELS = (_SINGLE,)


def launch(problem: ScalingProblem, queue: dict[str, Any]) -> None:
    """Scale what takes few steps; write down every other matrix."""
    p = problem
    shared = 8 * SINGLE_THREADS * max(p.R * p.C | 1, p.R | 1, p.C | 1)
    _SINGLE.launch(
        (str(max(2, p.R, p.C)),), -(-p.n // SINGLE_THREADS), shared=shared, threads=SINGLE_THREADS,
        **arguments.of_problem(p), **queue,
    )  # fmt: skip
