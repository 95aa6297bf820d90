"""``python -m benchmarks.gpu``: CUDA operations on data on the device, compared with a copy there and with rivals.

Times come from CUDA events, so waiting for the device is included. The bytes of a job are the minimum that it reads and
writes; results give the time as a multiple of copying these bytes on that device, and the target as such a multiple.
Results with an entry per item are compared with the CPU's at the first, the last and random items of the whole. Other
jobs (counts, draws, thresholds, a pass over pixels) are compared with the CPU on the first 1,000 inputs; at full size
only their sums or other invariants are checked, on the device. "left" is the number of matrices that a fast kernel of
scaling leaves to the general one, whose results are correct but slow. The file of results is rewritten after every job,
and jobs with a target come first, because a GPU may be gone before the end.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import partial
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

import cupy
import numpy as np
from scipy.special import ndtri

import cmfast
from benchmarks import _data
from benchmarks._gpu_rivals import RACES, Race, Rival, back, layers
from cmfast.kernels.cuda._core import sorting
from cmfast.kernels.cuda.balancing import launch
from cmfast.kernels.cuda.scaling import group as lane_groups
from cmfast.kernels.cuda.scaling import team as teams

PART = 1000  # first items that are compared with the CPU, last items, and random ones
PIECE = 1 << 26  # labels that are counted at a time by the check
SCALED = 2e-6  # largest difference of two scaling results, each accurate to a relative 1e-6 with the default `tol`
LEAST, MOST, BUDGET = 3, 10, 1.0  # repetitions, and the seconds that they should take
SMOKE = 1 << 18  # bytes that a device has for rivals on tiny inputs
TOGETHER = 10  # calls between two events, which hide what the host does between two kernels
COPIES = {"H100": 3.0e12, "H200": 4.3e12}  # bytes per second of a copy: what targets in seconds are meant for
FIRST, LAST = COPIES.values()
NAMES = ["accuracy", "mcc", "kappa", "f1_macro", "f1_weighted", "recall_macro", "precision_macro", "jaccard_macro",
         "balanced_accuracy", "geometric_mean"]  # fmt: skip
ROWS = 1 << 20  # points that are made at a time
SMOOTHED: dict[str, Any] = {"smoothing": 1e-3}  # weights "bi" of cells


@dataclass(frozen=True)
class Job:
    """One row of the table: what it is, what it must move, how it is called on the whole and on a part.

    Attributes
    ----------
    most : float or None
        Target: how many times as long as a copy of the bytes it may take.
    most_seconds : float or None
        Target: how long it may take on the first device of `COPIES`; on the others less, as a copy takes.
    per_item : bool
        Whether the result has one entry per item; else a part is compared by itself.
    check_sums : callable or None
        Raises if sums of the result of the whole are wrong.
    check_timed : callable or None
        Raises if what is timed instead of the whole gives a wrong result.
    most_left : int or None
        How many matrices the fast kernels of scaling may leave.
    timed : callable or None
        What is timed, where that is not the whole.
    rtol, atol : float
        Between the results of the CPU and of the device; the latter as a part of the largest.
    """

    name: str
    size: str
    bytes: int
    run: Callable[..., Any]
    whole: tuple[Any, ...]
    most: float | None = None
    most_seconds: float | None = None
    per_item: bool = True
    check_sums: Callable[[Any], None] | None = None
    check_timed: Callable[[], None] | None = None
    most_left: int | None = None
    timed: Callable[[], Any] | None = None
    rtol: float = 1e-9
    atol: float = 0.0

    def check(self) -> int | None:
        """Raise if the result is wrong; return how many matrices fast kernels of scaling left, None without any."""
        with watch_queues() as lengths:
            whole = self.run(*self.whole) if self.per_item or self.check_sums else None
        if self.check_sums:
            self.check_sums(whole)
        if self.check_timed:
            self.check_timed()
        which = choose_items(len(self.whole[0])) if self.per_item else np.arange(min(PART, len(self.whole[0])))
        place = cupy.asarray(which)
        part = tuple(a[place] for a in self.whole)
        want = self.run(*(a.get() for a in part))
        got = tuple(one[place] for one in _parts(whole)) if self.per_item else _parts(self.run(*part))
        for one, other in zip(got, _parts(want), strict=True):
            atol = self.atol * abs(other).max() if self.atol else 0.0
            np.testing.assert_allclose(one.get(), other, rtol=self.rtol if other.dtype.kind == "f" else 0, atol=atol)
        left = sum(int(length.get()[0]) for length in lengths) if lengths else None
        if left is not None and self.most_left is not None:
            assert left <= self.most_left, (
                f"{left} matrices are left to the slow kernel, at most {self.most_left} may be"
            )
        return left


def choose_items(n: int) -> Any:
    """Return the first, the last and random indices below n, in order."""
    last, some = np.arange(max(0, n - PART), n), np.random.default_rng(0).integers(0, n, PART)
    return np.unique(np.concatenate([np.arange(min(PART, n)), last, some]))


@contextmanager
def watch_queues() -> Iterator[list[Any]]:
    """Give the lengths of the queues of matrices that fast kernels of scaling leave in the block, on the device."""
    found: list[Any] = []

    def watched(solve: Callable[[Any], tuple[Any, Any]]) -> Callable[[Any], tuple[Any, Any]]:
        def solve_and_note(problem: Any) -> tuple[Any, Any]:
            queue, length = solve(problem)
            found.append(length)
            return queue, length

        return solve_and_note

    with (
        mock.patch.object(lane_groups, "solve", watched(lane_groups.solve)),
        mock.patch.object(teams, "solve_common", watched(teams.solve_common)),
    ):
        yield found


def _parts(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


# Data that are made where they are needed: moving them there would take longer than all jobs.


def bits(start: int, n: int) -> Any:
    """Return n numbers of 64 bits that look random."""
    x = (cupy.arange(start, start + n).astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return x ^ (x >> np.uint64(31))


def uniform(n: int) -> Any:
    """Return n numbers from 0 to 1."""
    return (bits(0, n) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def embeddings(n: int, m: int, C: int) -> tuple[Any, Any, Any]:
    """Return float32 points (n, m) of C overlapping Gaussian classes, their labels, and nearest-centre predictions."""
    centres = cupy.asarray(np.random.default_rng(0).normal(size=(C, m)) * 1.5)
    quantiles = cupy.asarray(ndtri((np.arange(1 << 16) + 0.5) / (1 << 16)))
    X, y, p = cupy.empty((n, m), np.float32), cupy.empty(n, np.uint8), cupy.empty(n, np.uint8)
    for start in range(0, n, ROWS):
        rows = slice(start, min(start + ROWS, n))
        k = rows.stop - start
        label = (bits(start, k) >> np.uint64(40)).astype(np.int64) % C
        noise = (bits(n + start * m, k * m) >> np.uint64(48)).astype(np.int64)
        X[rows] = centres[label] + quantiles[noise].reshape(k, m)
        y[rows] = label
        # The nearest centre, without the squared norm of x that all distances share.
        p[rows] = (2.0 * (X[rows].astype(np.float64) @ centres.T) - (centres * centres).sum(axis=1)).argmax(axis=1)
    return X, y, p


def matrices(n: int, accuracy: float, eps: float) -> Any:
    """Return n confusion matrices, a thousand different ones again and again."""
    base = cupy.asarray(_data.confusion_matrices(1000, 10, accuracy, eps))
    return base[cupy.arange(n) % 1000]


def labels(n: int) -> tuple[Any, Any]:
    """Return true and predicted labels, one in ten of them wrong."""
    y, p = (cupy.asarray(a) for a in _data.labels(100_003, 10))
    index = cupy.arange(n) % 100_003
    return y[index], p[index]


@dataclass(frozen=True)
class Size:
    """Numbers of items that fit into memory and time."""

    matrices: int
    labels: int
    points: int

    @classmethod
    def choose(cls, *, small: bool, most_bytes: int | None = None) -> "Size":
        """Return tiny sizes, or those of the targets, reduced to the memory of the device or to `most_bytes`."""
        if small:
            return cls(20, 4_000, 2_000)
        free = cupy.cuda.runtime.memGetInfo()[0]
        free = free if most_bytes is None else min(free, most_bytes)
        return cls(min(10_000_000, free // 6_000), min(1_000_000_000, free // 40), min(100_000_000, free // 400))


def comparing(size: Size) -> Iterator[Job]:
    """Compare two matrices, and divide one by its lines."""
    n = size.matrices
    M, what = matrices(n, 0.9, 1e-3), f"{n:,} 10x10"
    pair, other = 2 * M.nbytes + 9 * n, cupy.ascontiguousarray(M[::-1])
    for name in ("overlap", "l1_distance", "kl_divergence"):
        yield Job(name, what, pair, getattr(cmfast, name), (M, other))
    for method in ("all", "row", "col"):
        yield Job(f"normalize {method}", what, 2 * M.nbytes + n, lambda M, how=method: cmfast.normalize(M, how), (M,))
    run = lambda M: cmfast.importance_weights(M, "row")  # noqa: E731
    yield Job("importance_weights row", what, 2 * M.nbytes + n, run, (M,))


def scaling(size: Size) -> Iterator[Job]:
    """Bi-normalise: easy, hard and nearly singular matrices may all take four copies."""
    n = size.matrices
    for accuracy, eps in ((0.6, 1e-3), (0.9, 1e-3), (0.99, 1e-3), (0.9, 1e-12)):
        M, what = matrices(n, accuracy, eps), f"{n:,} 10x10, accuracy {accuracy}, + {eps}"
        limits: dict[str, Any] = {"most": 4.0, "most_left": 0, "rtol": SCALED, "check_sums": check_lines}
        yield Job("bi_normalize", what, 2 * M.nbytes, cmfast.bi_normalize, (M,), **limits)
    run = lambda M: cmfast.ras(M)[1:3]  # noqa: E731
    yield Job("ras", what, M.nbytes + n * 178, run, (M,), rtol=SCALED, most_left=0)


def check_lines(P: Any) -> None:
    """Assert that all rows and columns of matrices have the sum one."""
    for axis in (1, 2):
        apart = abs(P.sum(axis=axis) - 1.0).max()
        assert float(apart) <= SCALED, f"sums along axis {axis} miss one by {float(apart)}"


def check_total(counts: Any, n: int) -> None:
    """Assert that every item is counted once."""
    assert int(counts.sum()) == n, f"{int(counts.sum())} items are counted, {n} are there"


def check_table(counts: Any, y: Any, p: Any) -> None:
    """Assert that a table of pairs of labels has the counts of CuPy's bincount, a piece of the labels at a time."""
    C, n = len(counts), len(y)
    want = cupy.zeros(C * C, np.int64)
    for start in range(0, n, PIECE):
        part = slice(start, min(start + PIECE, n))
        want += cupy.bincount(y[part].astype(np.int64) * C + p[part].astype(np.int64), minlength=C * C)
    np.testing.assert_array_equal(counts.get().ravel(), want.get())


def check_margins(M: Any, found: tuple[Any, ...]) -> None:
    """Assert that the row and column sums of all matrices have the totals of their cells."""
    total = M.reshape(len(M), -1).sum(axis=1)
    for lines in found[1:3]:
        assert bool((lines.sum(axis=1) == total).all()), "sums of rows or columns miss the total of a matrix"


def check_draws(counts: Any, drawn: Any) -> None:
    """Assert that every replicate has the total of its matrix."""
    totals = counts.reshape(len(counts), -1).sum(axis=1)
    assert bool((drawn.reshape(*drawn.shape[:2], -1).sum(axis=2) == totals[:, None]).all()), "a replicate misses draws"


def check_matrices(found: tuple[Any, ...], n: int) -> None:
    """Assert that the matrices of all thresholds hold every score."""
    totals = found[1].reshape(len(found[1]), -1).sum(axis=1)
    assert bool((totals == n).all()), "a threshold leaves out scores"


def check_minima(found: Any, cells: Any, methods: list[str]) -> None:
    """Assert that matrices of cells lie between their bounds, and have the bits of those of two parts of the cells."""
    found, M = found.reshape(len(methods), *found.shape[-2:]), cells.confusion_matrix()
    for G, method in zip(found, methods, strict=True):
        mass = cmfast.importance_weights(M, method, **(SMOOTHED if method == "bi" else {})) * M
        rows, columns = mass.sum(axis=1)[:, None], mass.sum(axis=0)[None, :]
        most = cupy.where(rows < columns, rows, columns)
        inside = (mass <= G * (1 + 1e-12)) & (most * (1 + 1e-12) >= G)
        assert bool(inside.all()), f"{method}: beyond a bound"
    parts = cmfast.gcm(cells.deal(2), methods, **SMOOTHED)
    np.testing.assert_array_equal(found.get(), parts.get())


def check_products(product: Callable[[], Any], i: Any, j: Any, a: Any, out: Any) -> None:
    """Assert that a symmetric map, listed on one side of its diagonal, times ones gives the sums of its lines."""
    product()
    want = sum(cupy.bincount(lines, weights=a, minlength=len(out)) for lines in (i, j))
    np.testing.assert_array_equal(out.get(), want.get())  # of integers


def large(size: Size) -> Iterator[Job]:
    """Bi-normalise matrices that a block each scales, and one that blocks share."""
    for most, lines in ((10_000, 64), (1, 1000)):
        n = max(1, min(size.matrices // 10, most))
        C = lines if size.matrices > 100 else 40  # tiny inputs
        M = uniform(n * C * C).reshape(n, C, C) + C * cupy.asarray(np.eye(C))
        limits: dict[str, Any] = {"most_left": 0, "rtol": SCALED, "check_sums": check_lines}
        yield Job("bi_normalize", f"{n:,} {C}x{C}", 2 * M.nbytes, cmfast.bi_normalize, (M,), **limits)


def gradients(size: Size) -> Iterator[Job]:
    """Scale small matrices of float32 and come back: a thousand million of the smallest a second on the last device."""
    options: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-5, "most_left": 0}
    for most, C, limits in ((1_000_000, 4, {"most_seconds": 1e-3 * LAST / FIRST}), (100_000, 10, {"most": 4.0})):
        n = min(size.matrices, most)
        pair = layers(n, C)
        moved = n * (4 * 5 * C * C + 2 * 8 * 2 * C + 34)  # the factors and what is known of each, twice
        size_of = f"{n:,} {C}x{C} float32"
        yield Job("bi_normalize and back", size_of, moved, back, pair, **limits, **options)


def tables(size: Size) -> Iterator[Job]:
    """Scale tables, and some of their cells, to all of their two-way margins."""
    axes = (0, 1), (0, 2), (1, 2)
    for n_axis, most in ((4, 1_000_000), (7, 10_000)):
        n = min(size.matrices // 4, most)
        M = uniform(n * n_axis**3).reshape(n, n_axis, n_axis, n_axis) + 0.05
        T = M * (M[::-1] + 0.5)
        targets = [T.sum(axis) for axis in (3, 2, 1)]

        def run(M: Any, *targets: Any) -> tuple[Any, ...]:
            found = cmfast.ipf_nd(M, list(zip(axes, targets, strict=True)))
            return found.table, found.status

        moved = 2 * M.nbytes + 3 * sum(target.nbytes for target in targets) + 25 * n
        yield Job("ipf_nd", f"{n:,} {n_axis}x{n_axis}x{n_axis}", moved, run, (M, *targets), rtol=SCALED)
    some = np.random.default_rng(0).random((9, 9, 9)) < 0.3
    coords, n = np.stack(np.nonzero(some)), min(size.matrices // 4, 10_000)
    values = uniform(n * int(some.sum())).reshape(n, -1) + 0.05
    T = cupy.zeros((n, 9, 9, 9))
    T[(slice(None), *map(cupy.asarray, coords))] = values * (values[::-1] + 0.5)
    targets = [T.sum(axis) for axis in (3, 2, 1)]

    def run_cells(values: Any, *targets: Any) -> tuple[Any, ...]:
        places = coords if isinstance(values, np.ndarray) else cupy.asarray(coords)
        found = cmfast.ipf_cells(values, places, list(zip(axes, targets, strict=True)))
        return found.table, found.status

    moved = 2 * values.nbytes + 3 * sum(target.nbytes for target in targets) + 25 * n
    what = f"{n:,} 9x9x9, {len(coords[0])} cells"
    yield Job("ipf_cells", what, moved, run_cells, (values, *targets), rtol=SCALED)


def maps(size: Size) -> Iterator[Job]:
    """Go over the pixels of a map once: at distances that grow, with counts that fall."""
    n = min(size.points // 10, 240_000)
    far = np.unique(np.geomspace(1, n // 2, 80).astype(np.int64))
    j = np.repeat(np.arange(n), len(far))  # by columns, so that the first pixels are those of the first bins
    i = j - np.tile(far, n)
    a = 1 + np.random.default_rng(0).poisson(3000.0 / np.tile(far, n))
    i, j, a = (x[i >= 0] for x in (i, j, a))
    order = np.lexsort((j, i))
    passes = launch.SymmetricProducts(cupy, i[order], j[order], a[order], n)
    x, out = cupy.ones(n), cupy.empty(n)

    def run(i: Any, j: Any, a: Any) -> tuple[Any, ...]:
        found = cmfast.balance((i, j, a, n), symmetric="upper", on_failure="ignore")
        return found.weights, found.status

    timed = partial(passes.product, x, x, None, None, out)
    what, arrays = f"{len(i):,} pixels, {n:,} bins", tuple(map(cupy.asarray, (i, j, a)))
    options: dict[str, Any] = {"timed": timed, "check_timed": partial(check_products, timed, *arrays, out)}
    yield Job("balance, a pass", what, 8 * len(i) + 56 * n, run, arrays, per_item=False, rtol=SCALED, **options)


def metrics(size: Size) -> Iterator[Job]:
    """Read matrices once."""
    n = size.matrices
    counts, what = matrices(n, 0.9, 0.0).astype(np.int64), f"{n:,} 10x10 int64"
    run = lambda M: tuple(cmfast.metrics.compute(M, NAMES).values())  # noqa: E731
    yield Job("metrics.compute, 10 names", what, counts.nbytes + n * 81, run, (counts,), most=1.5)
    check = partial(check_margins, counts)
    yield Job("margins", what, counts.nbytes + n * 409, cmfast.metrics.margins, (counts,), check_sums=check)


def counting(size: Size) -> Iterator[Job]:
    """Count labels."""
    run = lambda y, p: cmfast.confusion_matrix(y, p, n_classes=10)  # noqa: E731
    weigh = lambda y, p, w: cmfast.confusion_matrix(y, p, n_classes=10, sample_weight=w)  # noqa: E731
    n = size.labels // 4
    y, p = labels(n)
    what = f"{n:,} labels, C=10"
    options: dict[str, Any] = {"per_item": False, "check_sums": partial(check_table, y=y, p=p)}
    yield Job("confusion_matrix int64", what, 16 * n, run, (y, p), most=1.3, **options)
    short = tuple(cupy.concatenate([a.astype(np.uint8)] * 4)[: size.labels] for a in (y, p))
    many = len(short[0])
    options["check_sums"] = partial(check_table, y=short[0], p=short[1])
    yield Job("confusion_matrix uint8", f"{many:,} labels, C=10", 2 * many, run, short, most=1.3, **options)
    w = uniform(n)
    options["check_sums"] = lambda sums: np.testing.assert_allclose(float(sums.sum()), float(w.sum()), rtol=1e-9)
    yield Job("confusion_matrix weights", what, 24 * n, weigh, (y, p, w), **options)
    many_classes = tuple((bits(k * n, n) >> np.uint64(32)).astype(np.int64) % 100 for k in (0, 1))
    run = lambda y, p: cmfast.confusion_matrix(y, p, n_classes=100)  # noqa: E731
    options["check_sums"] = partial(check_table, y=many_classes[0], p=many_classes[1])
    yield Job("confusion_matrix int64", f"{n:,} labels, C=100", 16 * n, run, many_classes, **options)


def patterns(size: Size) -> Iterator[Job]:
    """Look at zeros."""

    def support(M: Any) -> tuple[Any, ...]:
        found = cmfast.support(M)
        return found.status, found.dead_cells, found.row_block, found.col_block

    n = min(size.matrices, 4_000_000)
    for name, eps in (("support", 1e-3), ("support, zeros", 0.0)):
        M = matrices(n, 0.9, eps)
        yield Job(name, f"{n:,} 10x10", M.nbytes + 297 * n, support, (M,))


def sampling(size: Size) -> Iterator[Job]:
    """Draw replicates, and move a threshold over scores."""
    counts = matrices(min(size.matrices, 10_000), 0.9, 0.0).astype(np.int64)
    run = lambda M: cmfast.uncertainty.resample(M, n_resamples=100)  # noqa: E731
    # A draw depends on the index of its matrix, so that the first alone are compared.
    options: dict[str, Any] = {"per_item": False, "check_sums": partial(check_draws, counts)}
    yield Job("resample", f"{len(counts):,} 10x10, 100 replicates", 101 * counts.nbytes, run, (counts,), **options)
    n = min(size.labels, 10_000_000)
    scores, hits = uniform(n), labels(n)[0] % 2
    run = lambda s, y: tuple(cmfast.metrics.threshold_matrices(y, s))  # noqa: E731
    options["check_sums"] = partial(check_matrices, n=n)
    yield Job("threshold_matrices", f"{n:,} scores", 56 * n, run, (scores, hits), **options)


def cells(size: Size) -> Iterator[Job]:
    """Count points by cell, and overlap the cells."""
    targets = {(10, 10_000_000): 2e-3, (10, 100_000_000): 15e-3}
    for m, n in ((10, size.points // 10), (10, size.points), (3, size.points)):
        points = embeddings(n, m, 10)
        yield from make_point_jobs(m, n, points, targets.get((m, n)))


def make_point_jobs(m: int, n: int, points: tuple[Any, ...], most: float | None) -> Iterator[Job]:
    """Yield the jobs on one set of points; `most` is the target in seconds from points to a matrix."""
    grid, methods = cmfast.Grid.scott(points[0]), ["all", "row", "col", "bi"]
    what, moved = f"{n:,} points, m={m}, C=10", (4 * m + 2) * n
    found = cmfast.cell_counts(*points, grid=grid, n_classes=10)

    def count(*points: Any) -> Any:
        return cmfast.cell_counts(*points, grid=grid, n_classes=10).counts

    def one(*points: Any) -> Any:
        return cmfast.gcm(cmfast.cell_counts(*points, grid=grid, n_classes=10), "row")

    def four(*points: Any) -> Any:
        cells = cmfast.cell_counts(*points, grid=grid, n_classes=10)
        return cmfast.gcm(cells, methods, **SMOOTHED)

    options: dict[str, Any] = {"per_item": False, "check_sums": partial(check_minima, cells=found, methods=["row"])}
    yield Job("cell_counts, gcm", what, moved, one, points, most_seconds=most, **options)
    yield Job("cell_counts", what, moved, count, points, per_item=False, check_sums=partial(check_total, n=n))
    alone = f"{len(found):,} triples of {found.key_bits} bits, {len(methods)} weightings"
    timed = partial(cmfast.gcm, found, methods, **SMOOTHED)
    options |= {"check_sums": partial(check_minima, cells=found, methods=methods)}
    yield Job("gcm", alone, 16 * len(found), four, points, timed=timed, rtol=SCALED, **options)


# Those with targets first.
GROUPS: dict[str, Callable[[Size], Iterator[Job]]] = {
    group.__name__: group
    for group in (scaling, gradients, counting, metrics, cells, comparing, patterns, sampling, large, tables, maps)
}


def seconds(call: Callable[[], Any]) -> float:
    """Return the median time of `call` on the device, after one call that compiles, and what threads compile for it."""
    call()
    if sorting.wait_for_compilers():
        call()
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < LEAST or (len(times) < MOST and time.perf_counter() - begin < BUDGET):
        start, stop = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        call()
        stop.record()
        stop.synchronize()
        times.append(cupy.cuda.get_elapsed_time(start, stop) / 1e3)
    return median(times)


def together(call: Callable[[], Any], alone: float) -> float:
    """Return the time of a call among several; what takes long `alone` hides what the host does as it is."""
    if alone * TOGETHER > BUDGET:
        return alone

    def several() -> None:
        for _ in range(TOGETHER):
            call()

    return seconds(several) / TOGETHER


def targets(most_seconds: float) -> dict[str, float]:
    """Return the target of every device with a known copy bandwidth."""
    first = next(iter(COPIES.values()))
    return {device: most_seconds * first / speed for device, speed in COPIES.items()}


def copy_speed(*, small: bool) -> float:
    """Return the bytes per second that a copy on the device reads and writes."""
    free, _ = cupy.cuda.runtime.memGetInfo()
    source = cupy.zeros(1 << 16 if small else min(1 << 30, free // 4), np.uint8)
    target = cupy.empty_like(source)
    return 2 * source.nbytes / seconds(lambda: cupy.copyto(target, source))


def row(job: Job, speed: float) -> dict[str, Any]:
    """Check and time a job; print its line."""
    left = job.check()
    took = seconds(job.timed or partial(job.run, *job.whole))
    copies = took * speed / job.bytes
    within = [copies <= job.most] if job.most else []
    target = f"{job.most:g} copies" if job.most else ""
    if job.most_seconds:
        most = targets(job.most_seconds)
        nearest = min(COPIES, key=lambda device: abs(COPIES[device] - speed))
        within, target = [took <= most[nearest]], ", ".join(f"{t * 1e3:.2g} ms ({d})" for d, t in most.items())
    verdict = "" if not within else f"  target {target}: {'met' if within[0] else 'MISSED'}"
    rest = "" if left is None else f", left {left}"
    print(f"  {job.name:<26}{took * 1e3:10.3f} ms {copies:8.2f} copies   {job.size}{rest}{verdict}", flush=True)
    return {
        "job": job.name, "size": job.size, "bytes": job.bytes, "seconds": took, "copies": copies,
        "share_of_copy": 1 / copies, "target": target or None, "met": within[0] if within else None, "left": left,
    }  # fmt: skip


def rows(
    group: str, jobs: Iterator[Any], speed: float, measure: Callable[[Any, float], dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield what every job of a group gives; one that fails says so, and the next is tried."""
    while True:
        job = None
        try:
            job = next(jobs, None)
            found = measure(job, speed) if job else None
        except Exception as error:  # noqa: BLE001  # a wrong result, no memory, a kernel that fails: all are findings
            found = {"job": job.name if job else group, "size": job.size if job else None}
            found["error"] = f"{type(error).__name__}: {error}"
            print(f"  {found['job']:<26}FAILED {found['error'].splitlines()[0]}", flush=True)
        if found:
            yield found
        if job is None:  # there is no other, or its data could not be made
            return


def race(found: Race, speed: float) -> dict[str, Any]:
    """Time what we do and what the others do, each once its result is known to be right; print a line for each."""
    del speed
    took = seconds(found.ours)
    ten = together(found.ours, took)
    print(f"  {found.name:<26}{took * 1e3:10.3f} ms, of ten {ten * 1e3:10.3f}   {found.size}", flush=True)
    rivals = [against(rival, took) for rival in found.rivals]
    wrong = [f"{each['rival']}: {each['error']}" for each in rivals if "error" in each]
    entry = {"job": found.name, "size": found.size, "seconds": took, "seconds_of_ten": ten, "rivals": rivals}
    return entry | ({"error": "; ".join(wrong)} if wrong else {})


def against(rival: Rival, ours: float) -> dict[str, Any]:
    """Return how long a rival takes, and how many times as long as we; or why it is not known."""
    entry: dict[str, Any] = {"rival": rival.name}
    try:
        call = rival.make()
        entry["note"] = rival.check(call())
        took = seconds(call)
        ten = together(call, took)
    except ImportError as error:
        entry["skipped"] = str(error)
    except Exception as error:  # noqa: BLE001  # what fails in one says nothing of the next
        entry["error"] = f"{type(error).__name__}: {error}"
    else:
        entry |= {"seconds": took, "seconds_of_ten": ten, "times_ours": took / ours}
    said = f"{took * 1e3:10.3f} ms, of ten {ten * 1e3:10.3f}, {took / ours:.2f} x" if "seconds" in entry else ""
    why = entry.get("skipped", entry.get("error", "")).partition("\n")[0]
    print(f"    {rival.name:<38}{said}{why} {entry.get('note', '')}", flush=True)
    return entry


def about() -> dict[str, Any]:
    """Return what a figure means nothing without."""
    properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
    return {
        "device": properties["name"].decode(), "driver": cupy.cuda.runtime.driverGetVersion(),
        "cupy": cupy.__version__, "cmfast": cmfast.__version__, "date": date.today().isoformat(),
        **{name: metadata.version(name) for name in ("numpy", "numba", "torch")},
    }  # fmt: skip


def write(file: Path, found: dict[str, Any]) -> None:
    """Write the file atomically: a killed process leaves the previous one."""
    part = file.with_suffix(".part")
    part.write_text(json.dumps(found, indent=1) + "\n")
    part.replace(file)


def once(groups: list[str], size: Size, named: str) -> None:
    """Call the first job of every group, for a profiler to watch."""
    for group in groups:
        job = next(job for job in GROUPS[group](size) if named in f"{job.name}, {job.size}")
        (job.timed or partial(job.run, *job.whole))()
        cupy.cuda.Device().synchronize()


def main(argv: list[str] | None = None) -> int:
    """Measure, print, write; 1 if a job failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="tiny inputs: no figure means anything")
    parser.add_argument("--only", choices=GROUPS, action="append", help="this group alone (may be repeated)")
    parser.add_argument("--once", action="store_true", help="call the first job of every group once, measure nothing")
    parser.add_argument("--job", default="", metavar="TEXT", help="with --once, the first whose name or size has this")
    parser.add_argument("--size", type=int, metavar="BYTES", help="size inputs for a device with this much memory")
    parser.add_argument("--rivals", action="store_true", help="beside what others do on this device, not beside a copy")
    parser.add_argument("--results", type=Path, metavar="FOLDER", help="write <device>.json there, after every job")
    options = parser.parse_args(argv)
    machine, size = about(), Size.choose(small=options.smoke, most_bytes=options.size)
    groups = [group for group in options.only or GROUPS if not options.rivals or group in RACES]
    if options.once:
        once(groups, size, options.job)
        return 0
    room = SMOKE if options.smoke else cupy.cuda.runtime.memGetInfo()[0]
    speed = copy_speed(small=options.smoke)
    print(f"{machine['device']}, copy {speed / 1e9:,.0f} GB/s", flush=True)
    found: dict[str, Any] = {"machine": machine, "copy_bytes_per_second": speed, "complete": False, "jobs": []}
    # Tiny inputs, or some of the groups, must not replace the figures of all.
    kinds = [kind for kind in ("rivals", "smoke") if getattr(options, kind)]
    name = "-".join([machine["device"].replace(" ", "-"), *kinds, *(options.only or [])])
    file = options.results / f"{name}.json" if options.results else None
    if file:
        file.parent.mkdir(parents=True, exist_ok=True)
        write(file, found)
    for group in groups:
        jobs = RACES[group](room) if options.rivals else GROUPS[group](size)
        for one in rows(group, jobs, speed, race if options.rivals else row):
            found["jobs"].append(one)
            if file:
                write(file, found)
        cupy.get_default_memory_pool().free_all_blocks()
    if file:
        write(file, found | {"complete": True})
    return int(any("error" in one for one in found["jobs"]))


if __name__ == "__main__":
    raise SystemExit(main())
