"""Run every CUDA kernel on the cases of the conformance suite in a mode of `cuda_host`, and say what it finds.

``python tests/harness/cuda_sweep.py thread | coverage``, the latter for lines that do not run and for accesses out of
bounds; with ``gpu SECONDS`` on a GPU, for its own sanitizer to watch: every instance once, then until the time is over
what no case asks for, the first case of every op, the second, and so on. Nobody looks at results here.
"""

import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from heapq import nlargest
from itertools import cycle, groupby, zip_longest
from operator import itemgetter
from typing import Any
from unittest import mock

import cuda_host
import numpy as np
from calls import ENTRIES, public
from cases import CASES
from cases.geometry import CELL_SIZES, key_cells_of_sizes
from cases.margins import PAIRS, margins_of
from instances import call_for, launches, small_grids
from on_cuda_host import has_kernels, on_device

import cmfast
from cmfast._core import dispatch
from cmfast.kernels.cuda._core import module
from cmfast.kernels.cuda.balancing import launch as balancing
from cmfast.kernels.cuda.geometry._entries import sum_cell_minima
from cmfast.kernels.cuda.margins import launch as margins
from cmfast.kernels.cuda.metrics import thresholds
from cmfast.kernels.cuda.scaling import team
from cmfast.kernels.ops import OPS

LEAST_COVERED = 0.95
# Sanitizers look at every access: what races on many matrices, or reads beyond their end, does so on few, and cases of
# one op differ in values more than in what threads do.
FEW, RACES = cuda_host.MODE != "", cuda_host.MODE == "thread"
MANY = ("many", "large", "float64-overflow", "overflowing", "tiles", "rows-of")
JUDGED = ("path", "pattern", "chain", "no-pixels")  # maps whose zeros the host judges, by Numba
EVERY = 5  # of the cases of an op one is enough, but for the lines of these
MANY_LINES = frozenset({"cell_errors", "confusion_fractions", "ipf", "most_confused", "one_vs_rest", "ras"})
GRIDS = (1, 2, 1 << 16)  # blocks of a call, in turn
LONGEST = 10  # calls whose time is printed


def calls(mode: str) -> Iterator[tuple[str, Any]]:
    """Yield op and case, as far as arrays on a device can hold it."""
    for op in sorted(OPS):
        every = mode == "gpu" or (mode == "coverage" and op in MANY_LINES)
        for case in CASES[op][:: 1 if every else EVERY]:
            arrays = [a for a in (*case.args, *case.options.values()) if hasattr(a, "dtype")]
            numbers = all(a.dtype.kind in "biuf" for a in arrays)
            words = (*MANY, *JUDGED) if op == "balance" else MANY
            small = mode == "gpu" or not any(word in case.id for word in words)
            if "cuda" in OPS[op].targets and has_kernels(op, case) and numbers and small:
                yield op, case


def run(op: str, case: Any, make: Any) -> None:
    """Call `op` on one case with arrays that `make` makes."""
    options = {name: on_device(value, make) for name, value in case.options.items()}
    public(op)(*(on_device(value, make) for value in case.args), **options)


def sweep(mode: str) -> None:
    """Run all of them in this process, by one block, by two, which do the work of many in turns, or by all.

    Where no block of a kernel has taken a second turn by then, the call for its first instance follows.
    """
    every, left = list(calls(mode)), {kernel.name: kernel for kernel in module.list_kernels()}
    spent, make = dict[str, float](), cuda_host.asarray

    def watch(name: str, call: Callable[[], Any], most: int = 1) -> None:
        begin = time.process_time()
        with small_grids(most) as found:
            call()
        spent[name] = time.process_time() - begin
        for each in found:
            left.pop(each, None)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for (op, case), most in zip(every, cycle(GRIDS), strict=False):
            watch(f"{op} {case.id}", partial(run, op, case, make), most)
        for part in BEYOND:
            watch(part.__name__, partial(deque, part(make), maxlen=0))
        for kernel in list(left.values()):
            if kernel.name in left:
                call = call_for(kernel, kernel.instances[0])
                watch(kernel.name, partial(call.function, *on_device(call.arrays, make)))
    longest = ", ".join(f"{name} {seconds:.1f}" for name, seconds in nlargest(LONGEST, spent.items(), itemgetter(1)))
    print(f"{mode}: {len(every)} calls; a block of each of these takes one turn: {sorted(left)}")
    print(f"{mode}: longest, in seconds of this process without the compiler: {longest}")


def sweep_gpu(seconds: float) -> None:
    """Launch every instance on a GPU, then do what there is time for; say how much it was, also if it is cut short."""
    import cupy

    # In CuPy's pool an overrun of one array lands in the next, where no sanitizer sees it.
    cupy.cuda.set_allocator(None)
    begin, done = time.perf_counter(), Counter[str]()
    every = {(kernel, instance) for kernel in module.list_kernels() for instance in kernel.instances}
    with warnings.catch_warnings(), launches() as launched:
        warnings.simplefilter("ignore")
        try:
            for what in steps_of_gpu(cupy.asarray, launched):
                done[what] += 1
                if what != "instance" and time.perf_counter() - begin > seconds:
                    break
            cupy.cuda.Device().synchronize()
        finally:
            said = f"{len(every & launched.keys())} of {len(every)} instances, {done['beyond']} calls beyond cases, "
            print(f"gpu: {said}{done['case']} cases, {time.perf_counter() - begin:.0f} s", flush=True)


def steps_of_gpu(make: Any, launched: Any) -> Iterator[str]:
    """Make a call for every instance that is not yet among those `launched`, then others; yield after each."""
    by_kernel = [[(kernel, instance) for instance in kernel.instances] for kernel in module.list_kernels()]
    for kernel, instance in interleave(by_kernel):
        if (kernel, instance) not in launched:
            call = call_for(kernel, instance)
            call.function(*on_device(call.arrays, make))
            yield "instance"
    for part in BEYOND:
        yield from ("beyond" for _ in part(make))
    by_op = [list(group) for _, group in groupby(calls("gpu"), itemgetter(0))]
    for op, case in interleave(by_op):
        run(op, case, make)
        yield "case"


def interleave(groups: list[Any]) -> Iterator[Any]:
    """Yield the first of every group, then the second, and so on."""
    absent = object()
    yield from (each for turn in zip_longest(*groups, fillvalue=absent) for each in turn if each is not absent)


def factors(make: Any) -> Iterator[Any]:
    """Make weights of factors, good and bad ones."""
    for dtype in (np.float32, np.float64):
        scale = np.array([[1.0, 2.0], [1e200, 1e200], [np.nan, 1.0]])
        given = on_device((np.ones((3, 2, 2), dtype), scale, scale, np.array([0, 0, 5], np.int8)), make)
        yield dispatch.call("importance_weights", *given, method="bi")


def zeros(make: Any) -> Iterator[Any]:
    """Scale matrices with zeros, and with cells of every size, to equal and to other targets."""
    rng = np.random.default_rng(0)
    for shape in ((4, 4), (3, 5), (5, 3), (6, 6)):
        M = 10.0 ** rng.uniform(-140, 140, (8, *shape)) * (rng.random((8, *shape)) < 0.7)
        M[4:] = np.minimum(M[4:], 1.0) + (M[4:] > 1.0)
        T = np.roll(M > 0, 1, 0) * rng.integers(1, 9, (8, *shape))
        T[::2] = (M > 0)[::2] * (T > 0)[::2]
        if FEW:
            M, T = M[::4], T[::4]
        start = (rng.random(shape[0]), rng.random(shape[1]))
        for targets in ((T.sum(2) * 1.0, T.sum(1) * 1.0), (T.sum(2) / 7, T.sum(1) / 7)):
            yield cmfast.ipf(*on_device((M, *targets), make), on_failure="ignore", start=on_device(start, make))
        if shape == (4, 4):
            many = rng.random((1, 65, 66)) * (rng.random((1, 65, 66)) < 0.5)
            yield cmfast.ipf(
                *on_device((many, np.full(65, 66.0), np.full(66, 65.0)), make), on_failure="ignore", max_iter=7
            )
            yield cmfast.ipf(make(many[:, :33, :33] + 0.1), on_failure="ignore")
            sparse = many * (rng.random((6, 65, 66)) < 0.1) + np.eye(65, 66)
            yield cmfast.support(*on_device((sparse, *(sparse.sum(axis) for axis in (2, 1))), make))
            yield cmfast.support(
                *on_device((sparse.swapaxes(1, 2), np.ones((6, 66)) / 66, np.ones((6, 65)) / 65), make)
            )
        if shape[0] == shape[1]:
            yield cmfast.ipf(make(M), on_failure="ignore", empty="drop")
            yield cmfast.ipf(make(M), on_failure="ignore", start=on_device((start[0], -start[1]), make))
            yield cmfast.ipf(make(M), on_failure="ignore", solver="sinkhorn", max_iter=9)


def large(make: Any) -> Iterator[Any]:
    """Scale matrices that sweeps, conjugate gradients and elimination share."""
    rng = np.random.default_rng(2)
    far = np.arange(140)[:, None] // 70 != np.arange(140) // 70
    blocks = np.where(far, 1e-6, rng.random((140, 140)) + 0.1)
    chain = np.eye(130) + 0.3 * np.eye(130, k=1) + 0.2 * np.eye(130, k=-1) + 1e-9
    few = (blocks, far + 1.0)
    many = (chain, np.tril(rng.random((140, 140)), 1), 10.0 ** rng.uniform(-140, 140, (65, 65)))
    for M in few if RACES else few + many[:2] if FEW else few + many:
        cut = FEW and M is not chain  # which Newton's method ends soon
        yield cmfast.ipf(make(M), on_failure="ignore", max_iter=9 if cut else 60, tol=1e-13)
    targets = (blocks[:-1] * rng.random(140)).sum(1), (blocks[:-1] * rng.random(140)).sum(0)
    yield cmfast.ipf(*on_device((blocks[:-1], targets[0], targets[1] * (targets[0].sum() / targets[1].sum())), make))


def small(make: Any) -> Iterator[Any]:
    """Scale so many small matrices, and come back, that a block takes several turns."""
    M, G = np.random.default_rng(7).random((2, 150, 3, 3)) + 0.1
    yield cmfast.ipf(make(M))
    yield ENTRIES["scaling_gradient"](make(M), make(G), None, None)


def places(make: Any) -> Iterator[Any]:
    """Count labels that begin at a multiple of 16 bytes, or at none; one of them is no class."""
    y = np.arange(9001, dtype=np.uint8) % 5
    for some in (make(y)[1:], make(y)[:-1]):
        yield cmfast.confusion_matrix(some, make(y)[:-1], n_classes=5)
    with suppress(ValueError):
        yield cmfast.confusion_matrix(make(y), make(y), n_classes=4)


def crews(make: Any) -> Iterator[Any]:
    """Scale large matrices by several blocks each."""
    rng = np.random.default_rng(3)
    whole = rng.random((66, 66))
    far = (whole + 0.1) * np.outer(*10.0 ** rng.uniform(-70, 70, (2, 66)))
    before, team.SHARED_MATRIX_CELLS = team.SHARED_MATRIX_CELLS, 1
    try:
        near = (whole + 0.1, whole + 66 * np.eye(66), whole * (whole < 0.5) + np.eye(66))
        for M in near if FEW else (*near, far):
            yield cmfast.ipf(make(M), on_failure="ignore", max_iter=9, tol=1e-13)
        yield cmfast.ipf(make(whole), on_failure="ignore", smoothing="pseudo-bayes", solver="sinkhorn", max_iter=3)
        for width, lines in ((8.0, 5.0), (15.0, 9.0)):  # refined; with few columns that takes little time
            tall = np.exp(rng.normal(0.0, width, (70, 5)))
            T = tall * 10.0 ** rng.uniform(-lines, lines, (70, 1)) * 10.0 ** rng.uniform(-lines, lines, 5)
            yield cmfast.ipf(*on_device((tall, T.sum(1), T.sum(0)), make), on_failure="ignore")
    finally:
        team.SHARED_MATRIX_CELLS = before


def backs(make: Any) -> Iterator[Any]:
    """Differentiate blocks, limits and targets of zero, by a thread, a warp, a block and a thread-block group."""
    rng, gradient = np.random.default_rng(4), ENTRIES["scaling_gradient"]
    crew = mock.patch.object(team, "SHARED_MATRIX_CELLS", 1)
    for R, C in ((4, 4), (4, 3), (3, 4), (7, 7), (34, 33), (131, 129))[:: 2 if RACES else 1]:
        M, G, line = rng.random((3, R, C)) + 0.1, rng.normal(size=(3, R, C)), rng.random((3, R))
        M[:2, R // 2 :, : C // 2] = 0.0  # with equal sums a limit, or blocks
        M[1, : R // 2, C // 2 :] = 0.0
        u, v = (M.sum(axis) for axis in (2, 1))
        u[2, 1] = v[2, 1] = 0.0
        u[2] *= v[2].sum() / u[2].sum()
        with crew:
            yield gradient(*on_device((M, G, None, None, u, v), make), on_failure="ignore")
            if not (FEW and R > 99):  # which takes the host long
                yield gradient(*on_device((M.astype(np.float32), None, line, None, u, v), make), on_failure="ignore")
            if R == C:
                single = M.astype(np.float32), G.astype(np.float32), None, None
                yield gradient(*on_device(single, make), on_failure="ignore")


def tables(make: Any) -> Iterator[Any]:
    """Scale tables by warps and by blocks, near and far: what converges, cells that die, what has no answer."""
    rng = np.random.default_rng(5)
    block, far = (
        mock.patch.object(margins, "MOST_WARP_NUMBERS", 0),
        mock.patch.object(margins, "most_shared", return_value=0),
    )
    for patches in ((), (block,), (block, far))[RACES:]:
        with ExitStack() as stack:
            for patch in patches:
                stack.enter_context(patch)
            few = FEW and bool(patches)  # blocks take long on the host
            for shape in ((3, 4, 3), (4, 4, 4))[few:]:
                some = rng.random((3, *shape)) < 0.6
                T = rng.integers(1, 9, some.shape) * (some & (rng.random(some.shape) < 0.8)) * 1.0
                T[2] = T[2, ::-1]  # which has other zeros
                M = some * np.exp(rng.normal(0.0, 3.0, some.shape))
                for axes in (PAIRS, ((0,), (1,), (2,)), PAIRS[:2])[: 2 if few else 3]:
                    given = on_device((M, *margins_of(T, axes, 1)), make)
                    yield ENTRIES["ipf_nd"](*given, axes=axes, on_failure="ignore", max_iter=12 if few else None)


def scale_spread_tables(make: Any) -> Iterator[Any]:
    """Scale tables of widely spread cells to margins of all sizes, by warps and blocks, and check the sums."""
    rng = np.random.default_rng(6)
    for R, C in ((2, 2), (3, 5), (4, 4), (40, 34), (70, 66))[: 3 if FEW else 5]:
        for width, lines in ((8.0, 5.0), (1.0, 9.0), (15.0, 9.0)):
            M = np.exp(rng.normal(0.0, width, (2, R, C)))
            T = M * 10.0 ** rng.uniform(-lines, lines, (2, R, 1)) * 10.0 ** rng.uniform(-lines, lines, (2, 1, C))
            u, v = T.sum(2), T.sum(1)
            yield cmfast.ipf(*on_device((M, u, v), make), on_failure="ignore")
        if R == C or R > 66:
            n = min(R, C)
            M = np.eye(n) + 10.0 ** rng.uniform(-12, -6, (2, n, n))
            u = np.rint(10.0 ** rng.uniform(0, 9, n))
            yield cmfast.ipf(*on_device((M, u, u[rng.permutation(n)]), make), on_failure="ignore")
            yield cmfast.ipf(*on_device((M, u, np.roll(u, 1) + np.roll(u, 2) - u), make), on_failure="ignore")
            yield cmfast.ipf(*on_device((M, u, u), make), on_failure="ignore")


def sums(make: Any) -> Iterator[Any]:
    """Make metrics of sums, possible and impossible ones, of counts whose products no two words hold, of tiny cells."""
    names = ("kappa_linear", "kappa_quadratic", "gerrity", "mcc")
    M = np.random.default_rng(1).integers(0, 9, (4, 3, 3))
    for cells in (M, M * 0.5, M * 2**56, M * 1e80):
        d, t, p, bands, tops, *_ = cmfast.metrics.margins(cells)
        for bad in (tops, tops[:, ::-1], -tops):
            given = on_device((d, t, p), make)
            yield cmfast.metrics.from_sums(*given, names, bands=make(bands), tops=make(bad), on_failure="ignore")
    tiny = M * np.where(np.eye(3) > 0, 1e-308, 1.0)
    yield cmfast.metrics.compute(make(tiny), ("geometric_mean", "recall"), on_failure="ignore")


def sorts(make: Any) -> Iterator[Any]:
    """Sort scores with what goes along, as where cuda-cccl is installed."""
    yield from call_kernel_instances(thresholds.KERNELS, "cmfast_threshold_matrices_scores", make)


def maps(make: Any) -> Iterator[Any]:
    """Balance maps of all pixel types where triangles must bound the error."""
    if cuda_host.MODE != "thread":  # no two threads share anything there
        yield from call_kernel_instances(balancing.KERNELS, "cmfast_balance_triangles", make)


def call_kernel_instances(kernels: tuple[module.Kernel, ...], name: str, make: Any) -> Iterator[Any]:
    """Make the call for every instance of a kernel."""
    (kernel,) = (each for each in kernels if each.name == name)
    for call in (call_for(kernel, instance) for instance in kernel.instances):
        yield call.function(*on_device(call.arrays, make))


def cells(make: Any) -> Iterator[Any]:
    """Add the minima of cells for threads and for a block, with heights in either memory, and count what they have."""
    for C, sizes in CELL_SIZES:
        keys, counts, weights, half = key_cells_of_sizes(C, sizes, 0)
        for q in weights:
            yield sum_cell_minima(*on_device((keys, counts, q), make), half)
        yield dispatch.call("cell_shapes", *on_device((keys, counts), make), n_classes=C)


# What no case of the conformance suite asks for; each makes a call and yields.
BEYOND = (
    small,
    places,
    factors,
    zeros,
    sums,
    large,
    crews,
    backs,
    tables,
    scale_spread_tables,
    maps,
    sorts,
    cells,
)


def report() -> int:
    """Print the share of lines of the sources that ran, and those that did not; 1 if they are too many."""
    few = False
    for name, lines in sorted(cuda_host.covered().items()):
        if name.endswith((".cu", ".cuh")):
            missed = [line for line, count in sorted(lines.items()) if not count]
            share = 1 - len(missed) / len(lines)
            few |= share < LEAST_COVERED
            print(f"{name}: {share:.1%} of {len(lines)} lines, not {missed}")
    return int(few)


def main() -> int:
    """Start a process in the mode that was asked for; a GPU is used by this one."""
    mode, *rest = sys.argv[1:]
    if mode == "gpu":
        sweep_gpu(float(rest[0]))
        return 0
    if mode == cuda_host.MODE:
        sweep(mode)
        return 0
    with tempfile.TemporaryDirectory() as folder:  # lines of older sources must not count as covered
        tempfile.tempdir = folder if mode == "coverage" else None
        environment = cuda_host.environment(mode) | {"TMPDIR": tempfile.gettempdir()}
        done = subprocess.run([sys.executable, __file__, mode], env=environment, check=False)
        return done.returncode or (report() if mode == "coverage" else 0)


if __name__ == "__main__":
    sys.exit(main())
