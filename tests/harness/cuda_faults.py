"""Plant a fault in the copy of a CUDA source that is compiled, and make the calls that should show it.

``tests/core/test_cuda_faults.py`` starts ``python tests/harness/cuda_faults.py FAULT`` in a mode of ``cuda_host``. The
exit status is not 0 if a result is not the CPU's, if the host that stands for a GPU refuses what a kernel does, if a
fast kernel leaves matrices that it should scale, or if a sanitizer reports something. Without a fault (``FAULT`` is
``none``) all calls are made, and none of this may happen.
"""

import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest import mock

import cuda_host
import device
import instances
import numpy as np
from cuda_host import _module
from cuda_sweep import crews

import cmfast
from cmfast.kernels.cuda import counting
from cmfast.kernels.cuda._core import module
from cmfast.kernels.cuda.geometry import _weights
from cmfast.kernels.cuda.scaling import group

PLAIN, THREAD, ADDRESS, FUSED = "", "thread", "address", "fused"
ASSEMBLY = "assembly"  # no mode: what NVRTC makes of it
DEVICE = "device"  # only on a GPU

# What shows a fault: a sanitizer, the host that stands for a GPU, or a result that is not the CPU's.
RACE = r"^WARNING: ThreadSanitizer: data race"
BEYOND = r"ERROR: AddressSanitizer: heap-buffer-overflow"
MISALIGNED = r"runtime error: .* misaligned address"
DIVERGED = r"^RuntimeError: lanes of one warp meet from different lines$"
TOO_MANY = r"^RuntimeError: more threads than __launch_bounds__ allows$"
WRONG = r"^AssertionError\b"
UNORDERED = r"relaxed"
# What shows that no fault was tried: it cannot be planted, the source does not compile, or the script itself fails.
UNTRIED = r"\b(Lookup|Import|ModuleNotFound|Syntax|Name|Attribute|Type|OS|FileNotFound)Error\b|\bg\+\+ -"


@dataclass(frozen=True)
class Fault:
    """A fault in the source of a topic, and what shows it.

    Attributes
    ----------
    topic : str
        Whose source, with its headers, has the text `old`; once.
    call : callable
        Makes calls, and raises where something is wrong; or the instance whose assembly is looked at.
    mode : str
        The mode of ``cuda_host`` in which it is found, or `ASSEMBLY`, or `DEVICE`.
    shown : str
        Regular expression of the message that shows it, so that no other failure passes for it.
    """

    topic: str
    old: str
    new: str
    call: Callable[[], None] | str
    mode: str
    shown: str


# Calls.


def launch(name: str, *instance: str) -> Callable[[], None]:
    """Return what compares an instance with the CPU: with blocks as many as there are, and with one."""

    def run() -> None:
        call = instances.call_for(next(k for k in module.list_kernels() if k.name == name), instance)
        for most, seed in ((1 << 16, 0), (1, 1), (1, 2)):
            with instances.small_grids(most), device.schedule(seed):
                instances.compare(call, device)

    return run


def scale(*, hard: bool = False) -> Callable[[], None]:
    """Return what scales matrices of six lines by lanes; of the easy ones, with and without zeros, none may be left."""

    def run() -> None:
        rng = np.random.default_rng(0)
        M = rng.random((37, 6, 6)) + 0.1 + 4 * np.eye(6)
        M[::3, 1, 2] = M[::3, 2, 1] = 0.0
        M[1::3] = M[1::3, ::-1]  # the largest cells elsewhere than on the diagonal
        if hard:
            M[:, 0, 0] = np.nan
        queues = []

        def solve(problem: Any, right: Any = group.solve) -> tuple[Any, Any]:
            queues.append(right(problem))
            return queues[-1]

        for most, seed in ((1 << 16, 0), (1, 1)):
            with instances.small_grids(most), device.schedule(seed), mock.patch.object(group, "solve", solve):
                instances.compare(instances._make_scaling_call(M), device)
        left = {int(length.get()[0]) for _, length in queues}
        assert left == ({37} if hard else {0}), f"{left} matrices are left"

    return run


def count(n: int, first: int = 0, *, same: bool = False) -> Callable[[], None]:
    """Return what counts n labels of one byte, in memory from the byte `first` of 16 on, all of them the same if so."""

    def run() -> None:
        y = (np.arange(n + first) * (not same) % 5).astype(np.uint8)
        there = device.asarray(y)[first:]
        with mock.patch.object(counting, "MOST_SAMPLE_BLOCKS", 1):  # as many for a block as of a thousand million
            got = cmfast.confusion_matrix(there, there, n_classes=5)
        assert got.get().tolist() == np.diag(np.bincount(y[first:], minlength=5)).tolist()

    return run


def compare_tiny() -> None:
    """Compare matrices of denormal numbers of 32 bits."""
    M = (np.random.default_rng(0).integers(1, 1000, (37, 3, 3)) * 2.0**-149).astype(np.float32)
    instances.compare(instances.Call(cmfast.overlap, (M, M[::-1].copy()), 1e-6), device)


def share_matrices() -> None:
    """Scale large matrices by several blocks each."""
    deque(crews(device.asarray), maxlen=0)


def add_products() -> None:
    """Find the largest sum of weights times counts, whose exponent a fused product changes."""
    w = np.array([[1.0, (1 - 2.0**-53) / 11], [0.0, 0.0]])
    assert w[0, 1] * 11 == 1 - 2.0**-53  # rounded up
    found = _weights._summarize_tables(device.asarray(w[None]), device.asarray(np.array([[1, 11], [0, 0]])))
    assert 2.0 in found[0], found


LANES = "scaling/group"
FAULTS = {
    "no barrier after a broadcast": Fault(
        LANES,
        "if (mine) board[l] = Pair{a, b};\n    __syncwarp();",
        "if (mine) board[l] = Pair{a, b};",
        scale(),
        THREAD,
        RACE,
    ),
    "no barrier between shuffles before the next matrices": Fault(
        LANES, "__syncwarp();  // all have read what the next matrices overwrite", "", scale(), THREAD, RACE
    ),
    "16 bytes loaded from anywhere": Fault(
        "counting",
        "if (sizeof(L) == 1 && ((reinterpret_cast<u64>(t) | reinterpret_cast<u64>(p)) & 15) == 0)",
        "if (sizeof(L) == 1)",
        count(9000, 1),
        ADDRESS,
        MISALIGNED,
    ),
    "a byte that counts once too often": Fault(
        "counting", "255 / AHEAD<L>", "256 / AHEAD<L>", count(1 << 17, same=True), PLAIN, WRONG
    ),
    "one board": Fault(LANES, "turn ^= 1;", "", scale(), THREAD, RACE),
    "a reduction without its first barrier": Fault(
        "comparison",
        "__syncthreads();  // all threads have read the previous reduction",
        "",
        launch("cmfast_overlap_pairs", "double", "256"),
        THREAD,
        RACE,
    ),
    "a tail that is read beyond": Fault(
        "counting",
        "const i64 k = min(first + u * CM_THREADS, last);",
        "const i64 k = first + u * CM_THREADS;",
        launch("cmfast_confusion_matrix_count", "i64", "1"),
        ADDRESS,
        BEYOND,
    ),
    "indices of 32 bits": Fault(
        "comparison",
        "T* p = P + team.matrix() * p_step * cells;",
        "T* p = P + int(team.matrix()) * p_step * int(cells);",
        launch("cmfast_overlap_pairs", "float", "8"),
        DEVICE,
        WRONG,
    ),
    "a shuffle under a branch": Fault(
        LANES,
        "if (warp_any(t.easy && zeros)) t.limit = clear_unsupported",
        "if (t.easy && zeros) t.limit = clear_unsupported",
        scale(),
        PLAIN,
        DIVERGED,
    ),
    "a carry that is lost": Fault(
        "counting",
        "(negative ? old < size : old + size < size) ? 1u",
        "(negative ? old < size : old + size < size) ? 0u",
        launch("cmfast_confusion_matrix_add", "i64", "double", "1"),
        PLAIN,
        WRONG,
    ),
    "small numbers of 32 bits that become zero": Fault(
        "comparison",
        "if (bits & 0x7f800000u) return x;",
        "return x;",
        compare_tiny,
        PLAIN,
        WRONG,
    ),
    "a product that may be fused": Fault(
        "geometry/counts",
        "__dadd_rn(sum, __dmul_rn(w, double(M[at])))",
        "sum + w * double(M[at])",
        add_products,
        FUSED,
        WRONG,
    ),
    "a write before its readers": Fault(
        LANES,
        "const double m = g.cell(i, from);\n    __syncwarp();",
        "const double m = g.cell(i, from);",
        scale(),
        PLAIN,
        WRONG,
    ),
    "a queue whose length is no atomic": Fault(
        LANES, "queue[atomicAdd(length, u64(1))] = b;", "queue[(*length)++] = b;", scale(hard=True), THREAD, RACE
    ),
    "one exchange buffer": Fault(
        "scaling/team", "(2 * number() + (barriers & 1))", "2 * number()", share_matrices, THREAD, RACE
    ),
    "no barrier before blocks meet": Fault(
        "scaling/team",
        "__syncthreads();\n    if (size > 1) of_block().wait_for_others();",
        "if (size > 1) of_block().wait_for_others();",
        share_matrices,
        THREAD,
        RACE,
    ),
    "no barrier after blocks have met": Fault(
        "scaling/team",
        "u64(barriers) * size) back_off();\n    }\n    __syncthreads();",
        "u64(barriers) * size) back_off();\n    }",
        share_matrices,
        THREAD,
        RACE,
    ),
    "no barrier after the last tile": Fault(
        "geometry/columns",
        "__syncthreads();  // all threads have read the flags of the previous tile",
        "",
        launch("cmfast_column_moments_blocks", "double"),
        THREAD,
        RACE,
    ),
    "counters that are cleared early": Fault(
        "counting",
        "if (total) atomicAdd(&out[job.row * cells + k], total);\n      }\n      __syncthreads();",
        "if (total) atomicAdd(&out[job.row * cells + k], total);\n      }",
        launch("cmfast_confusion_matrix_count", "i64", "1"),
        THREAD,
        RACE,
    ),
    "half of the threads in the bounds": Fault(
        LANES,
        "__launch_bounds__(CM_GROUP_THREADS,",
        "__launch_bounds__(CM_GROUP_THREADS / 2,",
        scale(),
        PLAIN,
        TOO_MANY,
    ),
    "a load that orders nothing": Fault(
        "scaling/team", "ld.acquire.gpu.", "ld.relaxed.gpu.", "cmfast_ipf_team<256, true, true>", ASSEMBLY, UNORDERED
    ),
    "an addition that orders nothing": Fault(
        "scaling/team", "acq_rel.gpu", "relaxed.gpu", "cmfast_ipf_team<256, true, true>", ASSEMBLY, UNORDERED
    ),
}


def plant(fault: Fault, code: str) -> str:
    """Return the source of the topic of a fault with the fault in it."""
    if code.count(fault.old) != 1:
        msg = f"{fault.topic} has {fault.old!r} {code.count(fault.old)} times, not once"
        raise LookupError(msg)
    return code.replace(fault.old, fault.new)


def main(name: str) -> int:
    """Make the calls of a fault, planted, or without any those of all that are found in this mode."""
    if name == "none":
        for fault in FAULTS.values():
            if fault.mode == cuda_host.MODE and callable(fault.call):
                fault.call()
        return 0
    fault, right = FAULTS[name], module.make_translation_unit

    def planted(topic: str, expression: str) -> tuple[str, tuple[str, ...]]:
        code, names = right(topic, expression)
        return plant(fault, code) if topic == fault.topic else code, names

    # Without the instances that no call needs.
    with mock.patch.object(module, "make_translation_unit", planted), mock.patch.object(_module, "_siblings", []):
        assert callable(fault.call)
        fault.call()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
