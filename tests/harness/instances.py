"""For every instance of every CUDA kernel a call that launches it: what is called, on which arrays, how exactly.

A new kernel needs a line in `CALLS`. Besides there are calls for matrices of a size, which kernels choose by.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import numpy as np
from calls import ENTRIES
from cases.geometry import key_cells_of_sizes
from cases.margins import PAIRS, margins_of

import cmfast
from cmfast._core import dispatch
from cmfast.kernels.cuda._core import sorting
from cmfast.kernels.cuda._core.module import TYPES, Kernel
from cmfast.kernels.cuda.geometry import _entries, _keys
from cmfast.kernels.ops import OPS
from cmfast.kernels.shared import symmetric_packing
from cmfast.metrics._plan import make_plan as plan_of

# Whose launchers ask for no more than MOST_RANGE_BLOCKS.
BLOCKS_OF_ROWS = frozenset({"cmfast_cell_counts_ranges", "cmfast_column_ranges_blocks", "cmfast_column_moments_blocks"})
N = 37  # matrices: several blocks of the smallest teams, and a number that nothing divides


@dataclass(frozen=True)
class Call:
    """A function of arrays, here or there.

    Attributes
    ----------
    rtol : float
        Between the results of the CPU and of the device; 0: the same bits.
    """

    function: Callable[..., Any]
    arrays: tuple[np.ndarray, ...]
    rtol: float = 0.0


def compare(call: Call, device: Any) -> None:
    """Assert that a call gives on the device, whose module is given, what it gives here."""
    want, got = _parts(call.function(*call.arrays)), _parts(call.function(*map(device.asarray, call.arrays)))
    for one, other in zip(got, want, strict=True):
        found, wanted = device.host(one), np.asarray(other)
        if not isinstance(other, np.ndarray | np.generic):
            assert found == other
        elif call.rtol and wanted.dtype.kind == "f":
            assert found.dtype == wanted.dtype
            np.testing.assert_allclose(found, wanted, rtol=call.rtol, atol=call.rtol * 1e-3)
        else:
            assert (found.dtype, found.shape, found.tobytes()) == (wanted.dtype, wanted.shape, wanted.tobytes())


def _parts(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


@contextmanager
def launches() -> Iterator[dict[tuple[Kernel, tuple[str, ...]], None]]:
    """Give the instances that are launched in the block, in the order in which they first are."""
    found: dict[tuple[Kernel, tuple[str, ...]], None] = {}
    launch = Kernel.launch

    def noted(kernel: Kernel, instance: Sequence[str], *args: Any, **options: Any) -> None:
        found[kernel, tuple(instance)] = None
        launch(kernel, instance, *args, **options)

    with mock.patch.object(Kernel, "launch", noted):
        yield found


@contextmanager
def small_grids(most: int) -> Iterator[set[str]]:
    """Launch at most so many blocks in the block, which then take several turns; give the names of kernels that do."""
    found: set[str] = set()
    launch = Kernel.launch

    def limited(kernel: Kernel, instance: Sequence[str], blocks: int, /, **options: Any) -> None:
        # Blocks that wait for each other, or write a row of results each, must be as many as their launcher says.
        if options.get("group_size", 1) == 1 and kernel.name not in BLOCKS_OF_ROWS and blocks > most:
            found.add(kernel.name)
            blocks = most
        launch(kernel, instance, blocks, **options)

    with mock.patch.object(Kernel, "launch", limited), mock.patch.object(_keys, "MOST_RANGE_BLOCKS", most):
        yield found


def call_for(kernel: Kernel, instance: tuple[str, ...]) -> Call:
    """Return the call that is meant to launch one instance."""
    found = CALLS.get(kernel.name)
    if found is None:
        msg = f"tests/harness/instances.py has no call that launches {kernel.name}"
        raise LookupError(msg)
    return found(*instance)


def _rng(*seed: Any) -> np.random.Generator:
    """Return a generator that is the same in every process, which what ``hash`` gives is not."""
    return np.random.default_rng([int.from_bytes(str(word).encode()[:8], "little") for word in seed])


def _rtol(op: str, kind: str) -> float:
    return 10 * OPS[op].rtol[0 if kind == "float" else 1]


def _matrices(kind: str, C: int, n: int = N) -> np.ndarray:
    """Return matrices of whole numbers, most of them on the diagonal, or such with a fraction."""
    dtype, rng = TYPES[kind], _rng(kind, C)
    M = rng.integers(1, 90, (n, C, C)) + 90 * np.eye(C, dtype=int)
    return (M if dtype.kind in "iu" else M + rng.random(M.shape)).astype(dtype)


def _choose_size(width: str) -> int:
    """Return how many classes make a team of so many threads share the cells of a matrix."""
    return {"8": 4, "32": 9, "256": 40}[width]


def _choose_lines(width: str) -> int:
    """Return the number of rows at which this many threads share a row."""
    return {"8": 9, "32": 40, "256": 200}[width]


def _labels(kind: str, n: int, C: int) -> tuple[np.ndarray, np.ndarray]:
    y, p = _rng(kind, n, C).integers(0, C, (2, n))
    return y.astype(TYPES[kind]), np.where(np.arange(n) % 3, y, p).astype(TYPES[kind])


# Comparisons, shares, metrics.


def _compared(op: str) -> Callable[..., Call]:
    def call(kind: str, width: str) -> Call:
        M = _matrices(kind, _choose_size(width))
        return Call(getattr(cmfast, op), (M, M[::-1].copy()), _rtol(op, kind))

    return call


def _compared_back(kind: str, width: str) -> Call:
    M = _matrices(kind, _choose_size(width))
    G = _rng(kind, width).normal(size=len(M))

    def gradient(S: Any, T: Any, G: Any) -> Any:
        return dispatch.call("comparison_gradient", *dispatch.adopt(S=S, T=T, G=G), of="overlap")

    return Call(gradient, (M, M[::-1].copy(), G), _rtol("comparison_gradient", kind))


def _normalized_back(kind: str, width: str) -> Call:
    M = _matrices(kind, _choose_lines(width))
    G = _rng(kind, width).normal(size=M.shape).astype(M.dtype)

    def gradient(M: Any, G: Any) -> Any:
        return dispatch.call("normalizing_gradient", *dispatch.adopt(M=M, G=G), method="row")

    return Call(gradient, (M, G), _rtol("normalizing_gradient", kind))


def _metrics_back(kind: str = "double") -> Call:
    M, plan = _matrices(kind, 5), plan_of(("mcc", "gerrity", "f1_macro", "recall"), 5, "present", 1, argument="M").plan
    rng = _rng(kind, "metrics")
    given = rng.normal(size=(len(M), plan.scalars)), rng.normal(size=(len(M), plan.tables, 5))

    def gradient(M: Any, of_scalars: Any, of_tables: Any) -> Any:
        given = dispatch.adopt(M=M, of_scalars=of_scalars, of_tables=of_tables)
        return dispatch.call("metrics_gradient", *given, plan=plan)

    return Call(gradient, (M, *given), _rtol("metrics_gradient", kind))


def _normalized(kind: str, result: str, width: str) -> Call:
    return Call(
        lambda M: cmfast.normalize(M, "row"), (_matrices(kind, _choose_lines(width)),), _rtol("normalize", result)
    )


def _weights_of_lines(kind: str, result: str, width: str) -> Call:
    M = _matrices(kind, _choose_lines(width))
    return Call(lambda M: cmfast.importance_weights(M, "row"), (M,), _rtol("normalize", result))


def _weights_of_factors(kind: str, width: str) -> Call:
    M = _matrices(kind, _choose_size(width))
    return Call(lambda M: cmfast.importance_weights(M, "bi", tol=1e-13), (M,), _rtol("ipf", kind))


def _margins(kind: str, total: str, width: str) -> Call:
    del total
    return Call(cmfast.metrics.margins, (_matrices(kind, _choose_lines(width)),), _rtol("margins", "double"))


def _metrics(total: str, result: str) -> Call:
    return _metrics_of(_matrices("float" if result == "float" else total, 40), result)


def _metrics_of_small(kind: str, total: str, result: str, lanes: str) -> Call:
    del total
    return _metrics_of(_matrices(kind, {"8": 10, "32": 20}[lanes]), result)


def _metrics_of(M: np.ndarray, result: str) -> Call:
    names = ["accuracy", "mcc", "kappa", "kappa_quadratic", "gerrity", "f1", "f1_macro", "recall"]
    return Call(lambda M: tuple(cmfast.metrics.compute(M, names).values()), (M,), _rtol("metrics_of_matrices", result))


def _kappa(kind: str, total: str, result: str, width: str) -> Call:
    del total
    C = _choose_size(width)
    W = _rng("kappa", C).random((C, C)) * (1 - np.eye(C))
    return Call(
        lambda M, W: cmfast.metrics.kappa(M, weights=W), (_matrices(kind, C), W), _rtol("weighted_kappa", result)
    )


def _one_vs_rest(total: str, result: str) -> Call:
    M = _matrices("float" if result == "float" else total, 10)
    return Call(cmfast.metrics.one_vs_rest, (M,), _rtol("one_vs_rest", result))


def _fractions(kind: str, total: str, result: str) -> Call:
    del total
    return Call(cmfast.metrics.confusion_fractions, (_matrices(kind, 10),), _rtol("confusion_fractions", result))


def _most_confused(kind: str, total: str) -> Call:
    del total
    return Call(lambda M: cmfast.metrics.most_confused(M, 5), (_matrices(kind, 10),), _rtol("most_confused", kind))


def _label_margins(held: str) -> Call:
    C = 200 if held == "1" else 2600  # too many for a table of all pairs, and for counters in shared memory
    return Call(lambda y, p: cmfast.metrics.label_margins(y, p, n_classes=C), _labels("i64", 3000, C))


def _thresholds(kind: str, label: str = "i64", key: str = "u64") -> Call:
    rng = _rng(kind, label, key)
    shape = (3000,) if key == "unsigned" else (3, 1000)
    scores = (rng.integers(-200, 200, shape) / 7).astype(TYPES[kind])
    return Call(cmfast.metrics.threshold_matrices, (rng.integers(0, 2, shape).astype(TYPES[label]), scores))


def _thresholds_by_bits(kind: str, key: str) -> Call:
    """Return the call with another sort than CuPy's in place, which may not be installed."""
    call = _thresholds(kind, key=key)

    def sort_by_bits(keys: Any, values: Any, begin: int, end: int) -> tuple[Any, Any]:
        order = (keys >> np.uint64(begin) & np.uint64((1 << end - begin) - 1)).argsort()
        return keys[order], values[order]

    def run(scores: Any, y: Any) -> Any:
        with mock.patch.multiple(sorting, has_bit_range_sort=lambda keys: True, sort_by_bits=sort_by_bits):
            return call.function(scores, y)

    return Call(run, call.arrays)


# Counts.


def _classes(held: str) -> int:
    """Return a number of classes that fits into shared memory, or one that does not."""
    return 6 if held == "1" else 130


def _make_counting_call(label: str, held: str = "bytes") -> Call:
    C = {"bytes": 6, "1": 40, "0": 130}[held]
    return Call(lambda y, p: cmfast.confusion_matrix(y, p, n_classes=C), _labels(label, 9000, min(C, 128)))


def _weighed(label: str, kind: str, held: str = "1") -> Call:
    C = _classes(held)
    w = _rng(label, kind).random(9000).astype(TYPES[kind])
    call = lambda y, p, w: cmfast.confusion_matrix(y, p, n_classes=C, sample_weight=w)  # noqa: E731
    return Call(call, (*_labels(label, 9000, min(C, 128)), w), _rtol("confusion_matrix", kind))


# Cells.


def _points(kind: str, label: str, *, m: int = 3, C: int = 6, n: int = 3000) -> tuple[np.ndarray, ...]:
    y, p = _labels(label, n, C)
    return ((_rng(m, C, n).normal(size=(n, m)) + y[:, None] % 3).astype(TYPES[kind]), y, p)


def _table(cells: Any) -> tuple[Any, ...]:
    return cells.cells, cells.labels, cells.predictions, cells.counts


def _cells(
    kind: str = "double", label: str = "i64", key: str = "int", *, m: int = 3, C: int = 6, n: int = 3000
) -> Call:
    grid = cmfast.Grid([0.0] * m, [0.7 if key == "int" else 1e-4] * m)
    return Call(lambda *points: _table(cmfast.cell_counts(*points, grid=grid)), _points(kind, label, m=m, C=C, n=n))


def _ranked(kind: str) -> Call:
    X, y, p = _points(kind, "int", m=9)
    grid = cmfast.Grid([0.0] * 9, [1.5] * 9)
    return Call(lambda *points: _table(cmfast.cell_counts(*points, grid=grid)), ((X * 1e9).astype(X.dtype), y, p))


def _make_merging_call() -> Call:
    grid = cmfast.Grid([0.0] * 3, [0.7] * 3)

    def count_halves(X: Any, y: Any, p: Any) -> tuple[Any, ...]:
        low, high = (cmfast.cell_counts(X[s], y[s], p[s], grid=grid, n_classes=6) for s in (slice(99), slice(99, None)))
        return _table(low + high)

    return Call(count_halves, _points("double", "i64"))


def _pairs_of_cells(held: str) -> Call:
    C = 6 if held == "1" else 90
    call = lambda *points: cmfast.cell_counts(*points, grid=_wide(0.7), n_classes=C).confusion_matrix()  # noqa: E731
    return Call(call, _points("double", "int", C=C))


def _wide(width: float) -> cmfast.Grid:
    return cmfast.Grid([-25.0] * 3, [width] * 3)


def _gcm(*tables: np.ndarray, C: int = 6, width: float = 0.7) -> Call:
    def call(X: Any, y: Any, p: Any, *tables: Any) -> Any:
        return cmfast.gcm(cmfast.cell_counts(X, y, p, grid=_wide(width), n_classes=C), ["all", *tables])

    return Call(call, (*_points("double", "int", C=C), *tables))


def _overlaps(width: str, held: str) -> Call:
    """Overlaps of counts; with the largest cells a block has one with all points."""
    C, grid = 40 if held == "1" else 90, _wide(0.7 if width == "32" else 50.0)

    def call(X: Any, y: Any, p: Any) -> Any:
        return cmfast.min_overlap(*(cmfast.sparse_histogram(X, grid=grid, groups=each) for each in (y, p)))

    return Call(call, _points("double", "int", C=C))


def _minima(words: str, held: str) -> Call:
    """Minima of cells; without shared memory for heights if a block has little of it."""
    C = 90 if held == "1" else 6
    gcm = _gcm(*([10.0 ** _rng("words").uniform(-6, 6, (C, C))] if words == "2" else []), C=C, width=7.0)
    if held != "0":
        return gcm

    def call(*arrays: Any) -> Any:
        with mock.patch.object(_entries, "SHARED", 2100 * (1 + int(words))):
            return gcm.function(*arrays)

    return replace(gcm, function=call)


def _shapes() -> Call:
    """Cells that a thread looks at and one that a block does."""
    keys, counts, _, _ = key_cells_of_sizes(90, [1, 2, 40, 5, 900, 30] * 60, 0)
    return Call(lambda *given: dispatch.call("cell_shapes", *given, n_classes=90), (keys, counts))


def _limbs(*_: str) -> Call:
    return _gcm(10.0 ** _rng("limbs").uniform(-30, 30, (6, 6)))


def _overlap_of_histograms() -> Call:
    grid = cmfast.Grid([0.0] * 3, [0.7] * 3)
    X, g, h = _points("double", "int")
    v, w = _rng("heights").random((2, len(X)))

    def call(X: Any, g: Any, h: Any, v: Any, w: Any) -> Any:
        one, other = (cmfast.sparse_histogram(X, grid=grid, weights=a, groups=b) for a, b in ((v, g), (w, h)))
        return cmfast.min_overlap(one, other)

    return Call(call, (X, g, h, v, w), 1e-13)


def _columns(op: str) -> Callable[[str], Call]:
    return lambda kind: Call(ENTRIES[op], (_points(kind, "int", m=5)[0],), 1e-15)


# Scaling, zeros, draws.


def _make_scaling_call(M: np.ndarray, **options: Any) -> Call:
    options = {"tol": 1e-13, "on_failure": "ignore", **options}
    # Passes are compared elsewhere: the last one may differ where a sum differs in its last bit.
    return Call(lambda M: tuple(cmfast.ipf(M, **options)._replace(n_iter=0, residual=0.0)), (M,), 1e-9)


def _group(width: str = "7") -> Call:
    return _make_scaling_call(_matrices("double", int(width)))


def _team(width: str, large: str, easy: str) -> Call:
    del easy  # comes first, and leaves what has a zero
    C = 20 if width == "32" else 70 if large == "true" else 40
    M = _matrices("double", C, 5) * (_rng(C).random((5, C, C)) < 0.8)
    return _make_scaling_call(M + np.eye(C))


def _scaled_back(width: str, large: str = "") -> Call:
    """Return the call for matrices of `width` lines, or for a team so wide: some with zeros, one a limit, one bad."""
    C = {"32": 20, "256": 135 if large == "true" else 40}.get(width) or int(width)
    M = _matrices("double", C, 6)
    M[::2] *= (_rng(C).random(M[::2].shape) < 0.8) | np.eye(C, dtype=bool)
    M[4], M[5, 0, 0] = np.triu(M[4]), np.nan
    G = _rng("back", C).normal(size=M.shape)

    def gradient(M: Any, G: Any) -> Any:
        return ENTRIES["scaling_gradient"](M, G, None, None, tol=1e-13, on_failure="ignore")

    return Call(gradient, (M, G), _rtol("scaling_gradient", "double"))


def _tables(width: str) -> Call:
    n = 4 if width == "32" else 7
    M = _rng(width).random((3, n, n, n)) * (_rng(width, n).random((3, n, n, n)) < 0.8)
    T = M * np.exp(_rng(n, width).normal(size=M.shape))

    def call(M: Any, *targets: Any) -> tuple[Any, ...]:
        found = cmfast.ipf_nd(M, list(zip(PAIRS, targets, strict=True)), tol=1e-13)
        return found.table, *found.factors, *found.achieved, found.status

    return Call(call, (M, *margins_of(T, PAIRS, 1)), _rtol("ipf_nd", "double"))


def _balanced(gap: str = "unsigned short", value: str = "unsigned short") -> Call:
    i, j = np.triu_indices(30)
    a = _rng(gap, value).integers(1, 7, len(i)) * (0.37 if value == "double" else 1.0)
    narrow = 8 if gap == "int" else symmetric_packing.LEAST_WIDE_VALUE
    sums = np.where((np.arange(30) == 4) | (np.arange(30) == 5), 1e-6, 1.0)  # so small that triangles are looked at

    def call(i: Any, j: Any, a: Any, sums: Any) -> tuple[Any, ...]:
        with mock.patch.object(symmetric_packing, "LEAST_WIDE_VALUE", narrow):
            found = cmfast.balance((i, j, a, 30), sums, symmetric="upper", tol=1e-13)
        return found.weights, found.reason, found.status

    return Call(call, (i, j, a, sums), _rtol("balance", "double"))


def _patterns(kind: str, width: str) -> Call:
    C = 20 if width == "32" else 70
    rng = _rng(kind, width)
    M = rng.random((9, C, C)) * (rng.random((9, C, C)) < rng.uniform(1, 6, (9, 1, 1)) / C)

    def call(M: Any) -> tuple[Any, ...]:
        found = cmfast.support(M)
        return *found[:-1], *found.certificate

    return Call(call, (M.astype(TYPES[kind]),))


def _make_resampling_call(scheme: str) -> Callable[..., Call]:
    def call(kind: str = "i64") -> Call:
        options = {"n_resamples": 70, "scheme": scheme, "rng": 1, "n": None if kind == "i64" else 500}
        return Call(lambda M: cmfast.uncertainty.resample(M, **options), (_matrices(kind, 6),))

    return call


def _intervals(method: str) -> Callable[[], Call]:
    def call() -> Call:
        names = ["mcc", "recall", "gerrity", "krippendorff_alpha"]
        options = {"n_resamples": 1500, "method": method, "rng": 2, "on_failure": "ignore"}

        def ends(M: Any) -> tuple[Any, ...]:
            found = cmfast.uncertainty.interval(M, names, **options)
            return tuple(part for one in found.values() for part in one)

        return Call(ends, (_matrices("i64", 5, 4),), 1e-9)  # on the host 1,500 replicates of more take long

    return call


def _errors(C: int, kind: str = "i64") -> Call:
    names = ["mcc", "f1", "diagnostic_odds_ratio_micro", "kappa_linear", "gerrity", "min_recall"]
    names += ["recall_weighted", "tau", "balanced_accuracy_adjusted", "geometric_mean"]
    n = None if kind == "i64" else 900

    def errors(M: Any) -> tuple[Any, ...]:
        found = (cmfast.uncertainty.standard_error(M, names, fixed=fixed, n=n) for fixed in ("total", "rows"))
        return tuple(error for one in found for error in one.values())

    return Call(errors, (_matrices(kind, C),), 1e-12)


def _fractions_of_counts() -> Call:
    def errors(M: Any) -> tuple[Any, ...]:
        return cmfast.uncertainty.standard_error(M, "mcc"), cmfast.uncertainty.standard_error(M, "recall")

    return Call(errors, (_matrices("i64", 6).astype(float),), 1e-12)


def _cell_errors() -> Call:
    def errors(M: Any, P: Any, W: Any, Q: Any) -> tuple[Any, ...]:
        M, P, W, Q = dispatch.adopt(M=M, P=P, W=W, Q=Q)
        some = {"n": None, "bent": True}
        return (
            *dispatch.call("cell_errors", M, P, of="bi", rows=False, **some),
            *dispatch.call("cell_errors", M, P, of="col", rows=True, **some),  # for every normalisation
            *dispatch.call("cell_errors", W, Q, of="bi", rows=True, n=900),
        )

    M, W = _matrices("i64", 5), _matrices("i64", 23, 3)  # in shared memory, and not
    return Call(errors, (M, cmfast.bi_normalize(M), W, cmfast.bi_normalize(W)))


def _paired() -> Call:
    rng, names = _rng("paired"), ["mcc", "kappa_linear", "f1"]
    labels = [rng.integers(0, 5, 300) for _ in range(4)]

    def call(y: Any, a: Any, b: Any, clusters: Any) -> tuple[Any, ...]:
        options = {"names": names, "n_classes": 5, "n_resamples": 300, "seed": 3}
        return tuple(ENTRIES["paired_replicates"](y, a, b, clusters=clusters, **options))

    return Call(call, tuple(labels), 1e-12)


def _clusters(kind: str, clusters: bool, method: str | None) -> Call:
    names = ["mcc", "recall", "kappa_linear", "f1_macro"]
    M = _matrices(kind, 4, 24).reshape(3, 8, 4, 4) // 9
    options = {"clusters": clusters, "strata": np.array([0, 1, 1, 0, 0, 1, 0, 0])}

    def call(M: Any) -> tuple[Any, ...]:
        if method is None:
            return tuple(cmfast.uncertainty.standard_error(M, names, **options).values())
        found = ENTRIES["metric_intervals"](M, names, method=method, n_resamples=150, rng=4, **options)
        return tuple(part for one in found.values() for part in one)

    return Call(call, (np.floor(M).astype(TYPES[kind]),), 1e-9)


def _redrawn() -> Call:
    M = _matrices("i64", 4, 24).reshape(3, 8, 4, 4) // 9
    options = {"clusters": True, "strata": np.array([0, 1, 1, 0, 0, 1, 0, 0]), "n_resamples": 150}
    return Call(lambda M: ENTRIES["cluster_replicates"](M, **options), (M,))


def _cells_of_clusters() -> Call:
    def errors(M: Any, W: Any) -> tuple[Any, ...]:
        given = ((M, {"of": "bi", "clusters": True}), (M, {"of": "col", "strata": [0, 1, 1, 0, 0, 1, 0, 0]}))
        given = (*given, (W, {"of": "bi", "clusters": True, "n": 9}))  # in shared memory, and not
        return tuple(part for matrices, asked in given for part in ENTRIES["cluster_cell_errors"](matrices, **asked))

    M, W = _matrices("i64", 4, 24).reshape(3, 8, 4, 4) // 9, _matrices("i64", 30, 3).reshape(1, 3, 30, 30)
    return Call(errors, (M, W), 1e-7)  # what a residual leaves


def _paired_errors() -> Call:
    rng, names = _rng("errors"), ["mcc", "kappa_linear", "f1", "recall_macro"]
    labels = [*(rng.integers(0, 4, 300) for _ in range(3)), rng.integers(0, 20, 300)]

    def call(y: Any, a: Any, b: Any, clusters: Any) -> tuple[Any, ...]:
        options = {"names": names, "n_classes": 4, "groups": np.arange(300) // 100}
        errors = (ENTRIES["paired_errors"](y, a, b, clusters=c, **options) for c in (None, clusters))
        return tuple(part for one in errors for part in one)

    return Call(call, tuple(labels), 1e-12)


# Conformal sets.


def _shares(kind: str, width: str = "32") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows of probabilities, a label and a draw for each."""
    C, rng = _choose_lines(width), _rng("shares", kind, width)
    P = rng.dirichlet(np.full(C, 0.2), (2, N)).astype(TYPES[kind])
    return P, rng.integers(0, C, (2, N)), rng.random((2, N))


def _scored(kind: str, width: str = "32") -> Call:
    return Call(lambda P, y, u: cmfast.conformal.scores(P, y, u=u), _shares(kind, width))


def _row_draws(kind: str, width: str = "32") -> Call:
    P, y, _ = _shares(kind, width)
    return Call(cmfast.conformal.scores, (P, y))


def _all_scored(kind: str) -> Call:
    P, _, u = _shares(kind)
    return Call(lambda P, u: cmfast.conformal.scores(P, u=u), (P, u))


def _predicted(kind: str = "double") -> Any:
    P, y, u = _shares(kind)
    return P, _rng("q").random((2, 3)), u, y


def _sets(kind: str = "double") -> Call:
    def call(P: Any, q: Any, u: Any) -> tuple[Any, ...]:
        found = cmfast.conformal.prediction_sets(P, q, u=u, empty="top1")
        return found.packed, found.sizes

    return Call(call, _predicted(kind)[:3])


def _make_sets_call(read: Callable[[Any, Any], Any]) -> Callable[[], Call]:
    def call(P: Any, q: Any, u: Any, y: Any) -> Any:
        return read(cmfast.conformal.prediction_sets(P, q, u=u), y)

    return lambda: Call(call, _predicted())


def _thresholds_of_groups() -> Call:
    rng = _rng("groups")
    s, y = rng.integers(0, 99, (2, 500)) / 64, rng.integers(0, 7, (2, 500))
    return Call(lambda s, y: cmfast.conformal.threshold(s, [0.1, 0.3], y=y, n_classes=7), (s, y))


def _cells_of_scores() -> Call:
    s = _rng("scores").random((3, 400))
    return Call(lambda s: cmfast.conformal.score_histogram(s, bins=50).counts, (s,))


# What is done to matrices of C classes, by a name.
OF_A_SIZE: dict[str, Callable[[Any], Any]] = {
    "overlap": lambda M: cmfast.overlap(M, M[::-1]),
    "l1_distance": lambda M: cmfast.l1_distance(M, M[::-1]),
    "kl_divergence": lambda M: cmfast.kl_divergence(M, M[::-1]),
    **{f"normalize-{how}": lambda M, how=how: cmfast.normalize(M, how) for how in ("all", "row", "col")},
    **{f"weights-{how}": lambda M, how=how: cmfast.importance_weights(M, how) for how in ("all", "row", "col")},
    "margins": cmfast.metrics.margins,
    "metrics": lambda M: tuple(cmfast.metrics.compute(M, ["mcc", "kappa_quadratic", "f1", "f1_macro"]).values()),
    "one_vs_rest": cmfast.metrics.one_vs_rest,
    "confusion_fractions": cmfast.metrics.confusion_fractions,
    "most_confused": lambda M: cmfast.metrics.most_confused(M, 7, by="symmetric_rate"),
    "resample": lambda M: cmfast.uncertainty.resample(M, n_resamples=3, n=500),
}


def make_sized_call(name: str, C: int, kind: str) -> Call:
    """Return the call of one of `OF_A_SIZE` on three matrices of C classes."""
    return Call(OF_A_SIZE[name], (_matrices(kind, C, 3),), 2e-6 if kind == "float" else 1e-11)


def make_sized_counting_call(C: int, what: str) -> Call:
    """Return the call that counts labels of C classes: unweighted, weighted, by groups, or only their margins."""
    y, p = _labels("i64", 9000, C)
    more: dict[str, np.ndarray] = {"weights": _rng("w", C).random(9000), "groups": y % 3}

    def call(y: Any, p: Any, *rest: Any) -> Any:
        if what == "margins":
            return cmfast.metrics.label_margins(y, p, n_classes=C)
        options = {"weights": "sample_weight", "groups": "groups"}
        return cmfast.confusion_matrix(y, p, n_classes=C, **({options[what]: rest[0]} if rest else {}))

    return Call(call, (y, p, *([more[what]] if what in more else [])), 1e-12)


def make_sized_scaling_call(op: str, K: int) -> Call:
    """Return the call that scales three matrices of K rows: an easy one, one with zeros, one with cells far apart."""
    easy, zeros, far = _matrices("double", K, 3)
    rng = _rng("scaled", K)
    zeros *= (rng.random((K, K)) < 0.7) | np.eye(K, dtype=bool)
    far *= np.exp(2.0 * rng.normal(size=(K, K)))
    call = _make_scaling_call(np.stack([easy, zeros, far]))
    if op == "ipf":
        return call
    return Call(lambda M: cmfast.ras(M, tol=1e-13)[1:3], call.arrays, call.rtol)


CALLS: dict[str, Callable[..., Call]] = {
    "cmfast_cell_errors_matrices": _cell_errors,
    "cmfast_cluster_replicates_cells": _redrawn,
    "cmfast_cluster_cell_errors_matrices": _cells_of_clusters,
    "cmfast_cluster_errors_totals": lambda kind: _clusters(kind, True, None),
    "cmfast_cluster_errors_status": lambda: _clusters("double", False, "percentile"),
    "cmfast_cluster_errors_numbers": lambda: _clusters("i64", False, None),
    "cmfast_cluster_intervals_draws": lambda: _clusters("i64", True, "percentile"),
    "cmfast_cluster_intervals_without": lambda: _clusters("i64", True, "bca"),
    "cmfast_cluster_intervals_acceleration": lambda: _clusters("i64", False, "bca"),
    "cmfast_standard_errors_fractions": _fractions_of_counts,
    "cmfast_standard_errors_slopes": lambda: _errors(5),
    "cmfast_standard_errors_numbers": lambda width: _errors(6 if width == "1" else 40),
    "cmfast_standard_errors_classes": lambda: _errors(7, "double"),
    "cmfast_paired_replicates_sums": _paired,
    **{f"cmfast_paired_errors_{what}": _paired_errors for what in ("counts", "numbers")},
    **{f"cmfast_{op}_pairs": _compared(op) for op in ("overlap", "l1_distance", "kl_divergence")},
    "cmfast_comparison_gradient_pairs": _compared_back,
    "cmfast_normalizing_gradient_lines": _normalized_back,
    "cmfast_metrics_gradient_mix": _metrics_back,
    "cmfast_metrics_gradient_cells": _metrics_back,
    "cmfast_normalize_lines": _normalized,
    "cmfast_importance_weights_lines": _weights_of_lines,
    "cmfast_importance_weights_factors": _weights_of_factors,
    "cmfast_margins_sums": _margins,
    "cmfast_metrics_of_sums_plan": _metrics,
    "cmfast_metrics_of_matrices_plan": _metrics_of_small,
    "cmfast_weighted_kappa_pairs": _kappa,
    "cmfast_one_vs_rest_tables": _one_vs_rest,
    "cmfast_confusion_fractions_cells": _fractions,
    "cmfast_most_confused_cells": _most_confused,
    "cmfast_label_margins_count": _label_margins,
    "cmfast_threshold_matrices_keys": _thresholds,
    "cmfast_threshold_matrices_gather": _thresholds,
    "cmfast_threshold_matrices_scores": _thresholds_by_bits,
    "cmfast_threshold_matrices_count": _thresholds,
    "cmfast_confusion_matrix_count": _make_counting_call,
    "cmfast_confusion_matrix_count_bytes": _make_counting_call,
    "cmfast_confusion_matrix_exponents": _weighed,
    "cmfast_confusion_matrix_add": _weighed,
    "cmfast_confusion_matrix_round": lambda: _weighed("int", "float"),
    "cmfast_cell_counts_ranges": _cells,
    "cmfast_cell_counts_keys": _cells,
    "cmfast_cell_counts_labels": lambda label: _cells("double", label),
    "cmfast_cell_counts_indices": _ranked,
    "cmfast_cell_counts_number": lambda: _cells(C=2, n=9000),
    "cmfast_cell_counts_runs": lambda key: _cells(key=key, n=9000),
    "cmfast_cell_counts_starts": lambda key: _cells(key=key, n=9000),
    "cmfast_decode_cells_rows": _cells,
    "cmfast_merge_cells_numbers": _make_merging_call,
    "cmfast_pair_counts_add": _pairs_of_cells,
    "cmfast_min_overlap_pairs": _overlap_of_histograms,
    "cmfast_gcm_overlaps": _overlaps,
    "cmfast_gcm_sums": _minima,
    "cmfast_cell_shapes_cells": _shapes,
    "cmfast_gcm_summary": _gcm,
    "cmfast_gcm_integers": _gcm,
    "cmfast_gcm_round": _gcm,
    "cmfast_gcm_wide": _limbs,
    "cmfast_gcm_round_limbs": _limbs,
    "cmfast_column_ranges_blocks": _columns("column_ranges"),
    "cmfast_column_moments_blocks": _columns("column_moments"),
    "cmfast_ipf_group": _group,
    "cmfast_ipf_single": _group,
    "cmfast_ipf_team": _team,
    "cmfast_scaling_gradient_single": _scaled_back,
    "cmfast_scaling_gradient_team": _scaled_back,
    "cmfast_ipf_nd_tables": _tables,
    **{f"cmfast_balance_{what}": _balanced for what in ("product", "least", "triangles", "dot", "advance", "turn")},
    "cmfast_support_patterns": _patterns,
    "cmfast_scores_rows": _scored,
    "cmfast_scores_labels": _scored,
    "cmfast_scores_all": _all_scored,
    "cmfast_row_draws_rows": _row_draws,
    "cmfast_prediction_sets_words": _sets,
    "cmfast_prediction_sets_sizes": _sets,
    "cmfast_set_coverage_count": _make_sets_call(lambda sets, y: tuple(sets.coverage_by_size(y))),
    "cmfast_threshold_keys": _thresholds_of_groups,
    "cmfast_threshold_pick": _thresholds_of_groups,
    "cmfast_score_histogram_count": _cells_of_scores,
    "cmfast_ccm_columns": _make_sets_call(lambda sets, y: cmfast.conformal.ccm(sets).G),
    "cmfast_ccm_pairs": _make_sets_call(lambda sets, y: cmfast.conformal.ccm(sets).G),
    "cmfast_coverage_confusion_count": _make_sets_call(lambda sets, y: cmfast.conformal.coverage_confusion(sets, y).V),
    "cmfast_ccm_ratios_pairs": _make_sets_call(
        lambda sets, y: cmfast.conformal.ccm(sets).correlation(undefined="zero")
    ),
    "cmfast_metric_draws_of_counts": _intervals("percentile"),
    "cmfast_metric_draws_of_shares": _intervals("posterior"),
    "cmfast_metric_intervals_whole": _intervals("bca"),
    "cmfast_metric_intervals_without": _intervals("bca"),
    "cmfast_metric_intervals_acceleration": _intervals("bca"),
    "cmfast_replicate_intervals_rows": _intervals("basic"),
    "cmfast_resample_rows": _make_resampling_call("multinomial"),
    "cmfast_resample_matrices": _make_resampling_call("multinomial"),
    "cmfast_resample_totals": _make_resampling_call("multinomial"),
    "cmfast_resample_cells": _make_resampling_call("multinomial"),
    "cmfast_resample_rounded": _make_resampling_call("expected_rounded"),
}
