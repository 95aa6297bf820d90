"""Scaling of small matrices by some lanes each, for the many that make no trouble; says which ones are left."""

from typing import Any, NamedTuple

from cmfast.kernels.cuda._core.module import SHARED, Kernel
from cmfast.kernels.cuda.scaling import arguments, single
from cmfast.kernels.shared.scaling import ScalingProblem

MOST_GROUP_LINES = 32  # lines on the longer side: no more lanes share a matrix
MOST_EVERY_WIDTH = 16  # lines up to which there is a kernel for each number, beyond it for even ones
WIDTHS = (
    *range(single.MOST_SINGLE_LINES + 1, MOST_EVERY_WIDTH + 1),
    *range(MOST_EVERY_WIDTH + 2, MOST_GROUP_LINES + 1, 2),
)
GROUP_THREADS = 128  # of a block, or fewer where shared memory is short


class _Sizes(NamedTuple):
    """How the lanes of a matrix lay out what they share, in numbers of 64 bits.

    Attributes
    ----------
    even : int
        Lines, as many as are read two at a time.
    pitch : int
        Of a row of cells: 2 modulo 4, so that eight rows read by pairs meet no bank twice.
    used : int
        By cells, shares and two boards of pairs.
    step : int
        To the next matrix: `even` modulo 16, so that one begins at the bank where one ends.
    """

    even: int
    pitch: int
    used: int
    step: int

    @classmethod
    def of(cls, width: int) -> "_Sizes":
        even, pitch = width + width % 2, width + (2 - width) % 4
        used = 2 * width * pitch + 4 * even
        return cls(even, pitch, used, used + (even - used) % 16)


_SIZES = [_Sizes.of(width) for width in range(MOST_GROUP_LINES + 1)]
DEFINES = {
    "LANE_SIZES": ", ".join(f"{{{', '.join(map(str, sizes))}}}" for sizes in _SIZES),
    "GROUP_THREADS": GROUP_THREADS,
}

# Weights and flows take four registers for each line.
_REGISTERS = tuple(128 if width < 14 else 168 if width < 24 else 208 if width < 28 else 255 for width in WIDTHS)
_GROUP = Kernel("scaling/group", "cmfast_ipf_group", tuple((str(width),) for width in WIDTHS), _REGISTERS)
KERNELS = (_GROUP,)


def takes(problem: ScalingProblem) -> bool:
    """Return whether matrices of this shape, under these rules, are scaled here."""
    p = problem
    return p.n > 0 and min(p.R, p.C) > 0 and max(p.R, p.C) <= MOST_GROUP_LINES and not p.plain and p.amount >= 0.0


def solve(problem: ScalingProblem) -> tuple[Any, Any]:
    """Scale what takes few steps.

    Returns
    -------
    array of int64, shape (n,)
        The numbers of all other matrices, in any order; what stands behind them has no meaning.
    array of uint64, shape (1,)
        How many they are.
    """
    p, queue = problem, arguments.of_queue(problem)
    if max(p.R, p.C) <= single.MOST_SINGLE_LINES:
        single.launch(p, queue)
    else:
        width = next(w for w in WIDTHS if w >= max(p.R, p.C))
        threads, shared = _block(width)
        blocks = -(-p.n // (threads // 32 * (32 // width)))
        _GROUP.launch((str(width),), blocks, shared=shared, threads=threads, **arguments.of_problem(p), **queue)
    return queue["out_queue"], queue["out_length"]


def _block(width: int) -> tuple[int, int]:
    """Return the threads of a block and its bytes of shared memory."""
    warp = 32 // width * _SIZES[width].step * 8
    threads = GROUP_THREADS if GROUP_THREADS // 32 * warp <= SHARED else GROUP_THREADS // 2
    return threads, threads // 32 * warp
