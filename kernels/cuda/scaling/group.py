"""Scaling of common matrices with five to 32 rows or columns, by lanes of a warp; others are left to `team.py`."""

from typing import Any, NamedTuple

from cmfast.kernels.cuda._core.module import SHARED, Kernel
from cmfast.kernels.cuda.scaling import arguments, thread_per_matrix
from cmfast.kernels.shared.scaling import ScalingProblem

MOST_GROUP_LINES = 32  # rows or columns on the longer side: a lane each, of one warp
MOST_EVERY_WIDTH = 16  # rows or columns up to which every size has a kernel, beyond it even sizes
WIDTHS = (
    *range(thread_per_matrix.MOST_SINGLE_LINES + 1, MOST_EVERY_WIDTH + 1),
    *range(MOST_EVERY_WIDTH + 2, MOST_GROUP_LINES + 1, 2),
)
GROUP_THREADS = 128  # threads of a block, or fewer where shared memory is short


class _LaneSizes(NamedTuple):
    """Layout of the shared memory of a matrix, in values of 64 bits.

    Attributes
    ----------
    even : int
        Rows or columns, rounded up to an even number, as they are read in pairs.
    pitch : int
        Stride of a row of cells: 2 modulo 4, so that eight rows read by pairs have no bank conflicts.
    used : int
        Values of cells, shares and two broadcast buffers of pairs.
    step : int
        Stride to the next matrix: `even` modulo 16, so that one begins at the bank where the last one ends.
    """

    even: int
    pitch: int
    used: int
    step: int

    @classmethod
    def compute(cls, width: int) -> "_LaneSizes":
        """Return the layout for matrices of up to `width` rows and columns."""
        even, pitch = width + width % 2, width + (2 - width) % 4
        used = 2 * width * pitch + 4 * even
        return cls(even, pitch, used, used + (even - used) % 16)


_SIZES = [_LaneSizes.compute(width) for width in range(MOST_GROUP_LINES + 1)]
DEFINES = {
    "LANE_SIZES": ", ".join(f"{{{', '.join(map(str, sizes))}}}" for sizes in _SIZES),
    "GROUP_THREADS": GROUP_THREADS,
}

# Weights and flows take four registers for each row.
_REGISTERS = tuple(128 if width < 13 else 168 if width < 24 else 208 if width < 28 else 255 for width in WIDTHS)
_GROUP = Kernel("scaling/group", "cmfast_ipf_group", tuple((str(width),) for width in WIDTHS), _REGISTERS)
KERNELS = (_GROUP,)


def takes(problem: ScalingProblem) -> bool:
    """Test whether matrices of this shape, under these rules, are scaled by this kernel."""
    p = problem
    return p.n > 0 and min(p.R, p.C) > 0 and max(p.R, p.C) <= MOST_GROUP_LINES and not p.plain and p.amount >= 0.0


def solve(problem: ScalingProblem) -> tuple[Any, Any]:
    """Scale the matrices that need few steps; return the queue of all others and its length.

    Returns
    -------
    array of int64, shape (n,)
        Indices of all other matrices, in any order; entries beyond the length are undefined.
    array of uint64, shape (1,)
        The length of the queue.
    """
    p, queue = problem, arguments.make_queue_arguments(problem)
    if max(p.R, p.C) <= thread_per_matrix.MOST_SINGLE_LINES:
        thread_per_matrix.launch(p, queue)
    else:
        width = next(w for w in WIDTHS if w >= max(p.R, p.C))
        threads, shared = _choose_block(width)
        blocks = -(-p.n // (threads // 32 * (32 // width)))
        _GROUP.launch(
            (str(width),), blocks, shared=shared, threads=threads, **arguments.make_problem_arguments(p), **queue
        )
    return queue["out_queue"], queue["out_length"]


def _choose_block(width: int) -> tuple[int, int]:
    """Return the threads of a block and its bytes of shared memory."""
    warp = 32 // width * _SIZES[width].step * 8
    threads = GROUP_THREADS if GROUP_THREADS // 32 * warp <= SHARED else GROUP_THREADS // 2
    return threads, threads // 32 * warp
