"""Compile kernels ahead of first calls, by small calls of every op on arrays of the usual dtypes.

Usual dtypes: int64, int32, uint8 and bool for labels; float64, float32, int64, int32 and bool for other arrays.
"""

import multiprocessing
import signal
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, product
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

import cmfast
from cmfast._core import compile_notices, dispatch
from cmfast.kernels.loading import load
from cmfast.kernels.ops import OPS
from cmfast.metrics import PER_CLASS, SCALARS, MetricName
from cmfast.metrics._plan import make_plan as plan_of

LABELS = (np.int64, np.int32, np.uint8, np.bool_)
FLOATS = (np.float64, np.float32)
VALUES = (*FLOATS, np.int64, np.int32, np.bool_)
AXES = (*range(1, 13), 20)  # numbers of axes of points, for each of which kernels are compiled; the default is 10
WARM_SAMPLES = 24
WARM_PAIRS_OF_TEXTS = 20_000  # fewer texts are encoded without a kernel
SAMPLE_REPEATS = 200  # repetitions of the samples, because few samples are counted without a kernel
WARM_VIEWS = 600  # matrices of 8 classes that are copied in pieces
LARGE_SIDE = 70  # classes of a matrix that does not fit into registers
MANY_POINTS = 1 << 17  # points that are divided among buckets before they are sorted
WARM_MATRICES = 256  # large matrices in a batch; fewer are scaled one by one
EVERY = (*SCALARS, *PER_CLASS)  # metric
SCALING_OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"solver": "sinkhorn"},
    {"smoothing": "pseudo-bayes"},
    {"empty": "drop"},
)


def _matrix(dtype: type, n_classes: int = 3) -> np.ndarray:
    """Return a small matrix without zeros, with a dominant diagonal (unless bool)."""
    return (np.ones((n_classes, n_classes)) + 7 * np.eye(n_classes)).astype(dtype)


def _labels(dtype: type = np.int64) -> np.ndarray:
    """Return small labels of 0 and 1."""
    return (np.arange(WARM_SAMPLES) % 2).astype(dtype)


def _points(n_axes: int, dtype: type = np.float64) -> np.ndarray:
    """Return small random points."""
    return np.random.default_rng(0).normal(size=(WARM_SAMPLES, n_axes)).astype(dtype)


def _many_points() -> np.ndarray:
    """Return many random points."""
    return np.random.default_rng(0).normal(size=(MANY_POINTS, 6))


def _cells(n_axes: int = 2, dtype: type = np.float64) -> cmfast.CellCounts:
    """Return the cell counts of small points."""
    return cmfast.cell_counts(_points(n_axes, dtype), _labels(), _labels()[::-1], grid=_grid(n_axes))


def _grid(n_axes: int) -> cmfast.Grid:
    """Return a unit grid."""
    return cmfast.Grid(np.zeros(n_axes), np.ones(n_axes))


def _confusion_matrix() -> None:
    """Call functions that compile the kernels of op ``confusion_matrix``."""
    weights = [None, _labels(np.float64), _labels()]
    for dtype, weight, groups, ignored in product(LABELS, weights, (None, _labels()), (None, 0)):
        y = np.tile(_labels(dtype), SAMPLE_REPEATS)
        w, g = (None if a is None else np.tile(a, SAMPLE_REPEATS) for a in (weight, groups))
        cmfast.confusion_matrix(y, y, sample_weight=w, groups=g, ignore_index=ignored)
    for dtype, n_classes in product((*LABELS, np.int8), (3, 20, 400, 1500)):  # kernels by type and number of classes
        y = np.tile(_labels(dtype), SAMPLE_REPEATS)
        cmfast.confusion_matrix(y, y, n_classes=n_classes)
    ids = np.tile(_labels(), SAMPLE_REPEATS) << 40  # far apart: hashed
    cmfast.confusion_matrix(ids, ids)
    cmfast.confusion_matrix(ids, ids, ignore_index=5)  # hashed twice
    words = np.array(["a", "b"] * WARM_PAIRS_OF_TEXTS)
    cmfast.confusion_matrix(words, words)
    own = [f"{k % 2:02}" for k in range(2 * WARM_PAIRS_OF_TEXTS)]  # an object of its own for each label
    cmfast.confusion_matrix(own, own)


def _compare(function: Callable[[Any, Any], Any]) -> Callable[[], None]:
    """Return calls that compile the kernels of ops ``overlap``, ``l1_distance``, ``kl_divergence``."""

    def calls() -> None:
        """Call the function on all combinations of inputs."""
        for one, other in product(FLOATS, FLOATS):
            function(_matrix(one), _matrix(other))

    return calls


def _normalize(function: Callable[..., Any]) -> Callable[[], None]:
    """Return calls that compile the kernels of ops ``normalize``, ``importance_weights``."""

    def calls() -> None:
        """Call the function on all combinations of inputs."""
        for dtype, method in product(VALUES, ("all", "row", "col", "bi")):
            function(_matrix(dtype), method)

    return calls


def _scale(function: Callable[..., Any]) -> Callable[[], None]:
    """Return calls that compile the kernels of ops ``ipf``, ``ras``."""

    def calls() -> None:
        """Call the function on all combinations of inputs."""
        sums = np.array([3.0, 2.0, 1.0])
        for dtype in FLOATS:
            M = _matrix(dtype)
            for targets in ((), (sums, sums[::-1])):
                function(M, *targets)
                function(np.triu(M), *targets)
        for oblong in (np.ones((3, 4)), np.ones((4, 3))):
            function(oblong, oblong.sum(-1), oblong.sum(-2))
        for n_classes in (*range(1, 17), 20, 36):  # all with unrolled code, one without, one swept first
            function(_matrix(np.float64, n_classes))
        for odd in (_matrix(np.float64)[::-1], np.tri(3)[::-1], 10.0 ** (200 * np.eye(3))):
            for options in SCALING_OPTIONS:
                function(odd, **options)
        function(np.ones((WARM_MATRICES, LARGE_SIDE, LARGE_SIDE)))
        for size, power in product((LARGE_SIDE, 2 * LARGE_SIDE), (1, 12, 140)):
            M = _large(size, power)
            for options in (*SCALING_OPTIONS, {"smoothing": 10.0**power}):
                function(M, max_iter=20, **options)
                function(np.triu(M), max_iter=20, **options)
            wide = M[:-1]
            for part in (wide, wide.T):
                function(part, part.sum(-1), part.sum(-2), max_iter=20)

    return calls


def _scaling_gradient() -> None:
    """Call functions that compile the kernels of op ``scaling_gradient``."""
    limit = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.5, 2.0]])
    certain = _large(2 * LARGE_SIDE, 1) + 1e6 * np.eye(2 * LARGE_SIDE)
    for M in (
        _matrix(np.float64),
        limit,
        certain,
        _large(LARGE_SIDE, 1),
        _large(2 * LARGE_SIDE, 1),
        _large(2 * LARGE_SIDE, 100),
    ):
        result = cmfast.ipf(M, on_failure="ignore")
        for of_row, of_col in ((None, None), (result.row_scale, result.col_scale)):
            known = result.row_scale, result.col_scale, result.matrix, result.status, result.smoothing
            for part in (M, M.astype(np.float32)):
                dispatch.call("scaling_gradient", part, part, of_row, of_col, *known)


def _ipf_of_logits() -> None:
    """Call functions that compile the kernels of op ``ipf_of_logits``."""
    sums = np.array([3.0, 2.0, 1.0])
    for dtype, spread in product(FLOATS, (1.0, 1000.0)):
        L = spread * _matrix(dtype)
        cmfast.ipf(L, logits=True)
        cmfast.ipf(L, sums, sums[::-1], logits=True)
    cmfast.ipf(np.where(np.tri(3) > 0.0, 1000.0 * np.eye(3), -np.inf), logits=True)


def _ipf_nd() -> None:
    """Call ``ipf_nd`` on small tables with and without zeros, on tables that need Newton steps, and on large ones.

    Sweeps alone do not solve the first four; one of the large tables has an empty row.
    """
    for n, least in ((2, 1.0), (2, 2.0), (9, 1.0), (40, 1.0)):
        i, j, k = np.indices((n, n, n))
        M = 10.0 ** ((3 * i + 5 * j + 7 * k) % 8)
        M = np.where(least > M, 0.0, M)
        T = M * 10.0 ** ((i * j) % 4 + (j * k) % 4 + (i * k) % 3)
        cmfast.ipf_nd(M, [((0, 1), T.sum(2)), ((0, 2), T.sum(1)), ((1, 2), T.sum(0))])
    for zeros in (0, 1):
        M = np.ones((LARGE_SIDE, LARGE_SIDE))
        M[:zeros] = 0.0
        cmfast.ipf_nd(M, [(0, M.sum(1)), (1, M.sum(0))])


def _support_nd() -> None:
    """Call ``support_nd`` on tables that are scalable, have only a limit, and are infeasible."""
    ones = np.ones(2)
    for M in ([[1.0, 1.0], [1.0, 1.0]], [[1.0, 1.0], [0.0, 1.0]]):
        cmfast.support_nd(np.array(M), [(0, ones), (1, ones)])
    same = np.eye(2) + 0.1
    cmfast.support_nd(np.ones((2, 2, 2)), [((0, 1), same), ((1, 2), same), ((0, 2), same[::-1])])


def _ipf_cells() -> None:
    """Call ``ipf_cells``, whose kernels are those of tables."""
    cmfast.ipf_cells(np.array([1.0, 2.0]), np.array([[0, 1]]), [(0, np.array([2.0, 2.0]))])
    _ipf_nd()


def _rake() -> None:
    """Call ``rake`` on few and many columns, dense, sparse and categorical designs, and with bounds."""
    A, known = np.array([[1.0, 1.0], [1.0, -1.0], [1.0, 0.0]]), np.array([6.0, 1.0])
    cmfast.rake(np.repeat(A, 3, 0), known)
    cmfast.rake(np.eye(120), np.full(120, 2.0))
    each: list[dict[str, Any]] = [{}, {"method": "linear"}, {"method": "truncated", "bounds": (0.5, 3.0)}]
    cmfast.rake(A, known, method="logit", bounds=(0.5, 3.0))
    for options in each:
        cmfast.rake(A, known, **options)
    for design in (zeros := np.repeat(np.eye(9), 2, 0), csr_array(zeros)):
        cmfast.rake(design, np.full(9, 2.5), **each[-1])
    cmfast.rake(np.array([[0, 0, 1], [0, 1, 1]]), [(0, np.array([3.0, 1.0])), (1, np.array([2.0, 2.0]))])
    cmfast.rake(np.array([[1.0, 1.0], [1.0, 0.0]]), np.array([1.0, 0.0]))
    cmfast.rake(A, np.array([6.0, 100.0]), on_failure="ignore")


def _ipf_sparse() -> None:
    """Call ``ipf`` on sparse matrices of counts and floats, with inaccurate small cells, and with cells that vanish."""
    for values in (np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.5, 2.5, 3.5, 1.5])):
        cmfast.ipf(csr_array(values.reshape(2, 2)))
    counts, sums = np.arange(1.0, 37.0).reshape(6, 6), np.repeat([1.0, 1e-6], 3)
    for M in (counts, counts + 0.5):
        cmfast.ipf(csr_array(M), sums, sums)
    cmfast.ipf(csr_array(np.array([[1.0, 1.0], [0.0, 1.0]])), on_failure="ignore")
    cmfast.ipf(csr_array(np.triu(counts)), sums**2, sums**2, on_failure="ignore")


def _balance() -> None:
    """Call ``balance`` on counts and floats, few and many, and on maps without a solution."""
    many = np.triu_indices(800, 1)  # more than the NumPy path handles
    for kind in (np.int64, np.int32, np.float64):  # int32 are the counts in files
        cmfast.balance((*many, np.ones(len(many[0]), kind), 800), symmetric="upper")
    near = np.array([0, 0, 1]), np.array([1, 2, 2])
    for values in (np.array([1, 2, 3]), np.array([0.5, 2.5, 3.5])):
        cmfast.balance((*near, values, 3), symmetric="upper")
    for i, j in (([0, 1], [1, 2]), ([0, 0, 1, 0], [1, 2, 2, 3])):
        cmfast.balance((np.array(i), np.array(j), np.ones(len(i)), 1 + max(j)), symmetric="upper", on_failure="ignore")


def _round_to_margins() -> None:
    """Call ``round_to_margins`` on a matrix, deterministic and random, and on a table."""
    T = np.array([[0.5, 0.5, 0.2], [0.5, 1.5, 0.8]])
    cmfast.round_to_margins(T)
    cmfast.round_to_margins(T, rng=0)
    cmfast.round_to_margins(T, axes=[(0, 1), 0])


def _comparison_gradient() -> None:
    """Call functions that compile the kernels of op ``comparison_gradient``."""
    for one, other in product(FLOATS, FLOATS):
        arrays = _matrix(one), _matrix(other), np.array(1.0)
        dispatch.call("comparison_gradient", *dispatch.adopt(S=arrays[0], T=arrays[1], G=arrays[2]), of="overlap")


def _normalizing_gradient() -> None:
    """Call functions that compile the kernels of op ``normalizing_gradient``."""
    for dtype in FLOATS:
        dispatch.call("normalizing_gradient", _matrix(dtype), _matrix(dtype), method="row")


def _metrics_gradient() -> None:
    """Call functions that compile the kernels of op ``metrics_gradient``."""
    names = ("geometric_mean", "gerrity", "recall")
    for dtype, n_classes in product(FLOATS, (3, LARGE_SIDE)):
        plan = plan_of(names, n_classes, "present", 1, argument="M").plan
        M = _matrix(dtype, n_classes)
        (M,) = dispatch.adopt(M=M)
        dispatch.call("metrics_gradient", M, np.ones(2), np.ones((1, n_classes)), plan=plan)


def _large(size: int, power: int) -> np.ndarray:
    """Return a matrix too large for registers, with cells from 10**-power to 10**power."""
    return 10.0 ** np.random.default_rng(0).uniform(-power, power, (size, size))


def _support() -> None:
    """Call functions that compile the kernels of op ``support``."""
    for dtype in FLOATS:
        cmfast.support(np.triu(_matrix(dtype)))
        cmfast.support(
            np.array([[1, 1, 1], [1, 0, 0], [1, 0, 0]], dtype)
        )  # two rows that need the same column: infeasible


def _columns() -> None:
    """Call functions that compile the kernels of column statistics (ranges, moments, quartiles)."""
    for dtype, n_axes in product(VALUES, (1, 2, 10)):
        X = _points(n_axes, dtype)
        cmfast.Grid.freedman_diaconis(X)
        if dtype in FLOATS:
            cmfast.Grid.scott(X * np.finfo(dtype).tiny)
            X[0] = np.nan
            cmfast.Grid.scott(X)


def _projections() -> None:
    """Call functions that compile the kernels of ops ``pca``, ``project``."""
    for dtype in VALUES:
        cmfast.pca(_points(4, dtype), n_components=2).transform(_points(4, dtype))
    for dtype in FLOATS:
        X = np.resize(_points(16, dtype), (MANY_POINTS, 16))  # 2**25 products, from which on there are kernels for them
        cmfast.pca(X, 1, precision="float64")
        cmfast.pca(X, 1, precision="float32")


def _cell_counts() -> None:
    """Call functions that compile the kernels of op ``cell_counts``."""
    for dtype, n_axes in product(VALUES, AXES):
        X, y = _points(n_axes, dtype), _labels()
        cmfast.cell_counts(X, y, y, grid=_grid(n_axes))
        if dtype in FLOATS:
            X[0, 0] = np.nan
            cmfast.cell_counts(X, y, y, grid=_grid(n_axes))
    for dtype in LABELS:
        cmfast.cell_counts(_points(2), _labels(dtype), _labels(dtype), grid=_grid(2))
    y, many = np.arange(MANY_POINTS) % 2, _many_points()
    cmfast.cell_counts(many, y, y, grid=_grid(6))
    for dtype in FLOATS:  # cells that are numbered, as their indices do not fit into one integer
        cmfast.cell_counts(_points(6, dtype) * 1e6, _labels(), _labels(), grid=_grid(6))
    cmfast.cell_counts(many * 1e6, y, y, grid=_grid(6))
    load("cmfast.kernels.cpu.geometry._sample_sort").warm_up(np.arange(MANY_POINTS)[::-1].copy())


def _sparse_histogram() -> None:
    """Call functions that compile the kernels of op ``sparse_histogram``."""
    for n_axes, weights, groups in product(AXES, (None, *VALUES), (None, _labels())):
        values = None if weights is None else np.ones(WARM_SAMPLES, weights)
        cmfast.sparse_histogram(_points(n_axes), weights=values, groups=groups, grid=_grid(n_axes))
    for weights in (None, *FLOATS, np.int64):
        values = None if weights is None else np.ones(MANY_POINTS, weights)
        cmfast.sparse_histogram(_many_points(), weights=values, grid=_grid(6))


def _merge_cells() -> None:
    """Call functions that compile the kernels of op ``merge_cells``."""
    y = _labels()
    for X in (_points(2), _points(2) + 5.0, _points(2) / 9.0, np.full((WARM_SAMPLES, 2), np.nan)):
        other = cmfast.cell_counts(X, y, y, grid=_grid(2))
        for cells in (_cells() + other, other + _cells()):
            _ = cells + other


def _decode_cells() -> None:
    """Call functions that compile the kernels of op ``decode_cells``."""
    for n_axes in AXES:
        len(_cells(n_axes).cells)


def _histograms() -> None:
    """Call functions that compile the kernels of op ``marginal_histogram``."""
    for table in (None, _matrix(np.float64, 2)):
        _cells().label_histogram(table)
        _cells().prediction_histogram(table)


def _gcm() -> None:
    """Call functions that compile the kernels of op ``gcm``."""
    for table in ("all", "row", "col", "bi", _matrix(np.float64, 2), np.array([[1e-200, 1.0], [1e200, 1.0]])):
        cmfast.gcm(_cells(), table)
        cmfast.gcm(_cells(), [table, "all"])


def _gcm_from_points() -> None:
    """Call functions that compile the kernels of ops ``cell_shapes``, ``cell_excess``."""
    y = _labels()
    cmfast.geometric_confusion_matrix(_points(4), y, y[::-1], n_components=2, weights=["all", "bi"])


def _min_overlap() -> None:
    """Call functions that compile the kernels of op ``min_overlap``."""
    for dtype in (np.int64, np.float64):
        one, other = (
            cmfast.sparse_histogram(_points(2), weights=np.ones(WARM_SAMPLES, dtype), groups=_labels(), grid=_grid(2))
            for _ in range(2)
        )
        cmfast.min_overlap(one, other)


def _call_on_matrices(*functions: Callable[..., Any]) -> Callable[[], None]:
    """Return calls of functions of matrices, on every dtype, small and large."""

    def calls() -> None:
        """Call the function on all combinations of inputs."""
        for dtype, function in product(VALUES, functions):
            for M in (_matrix(dtype), _matrix(dtype, 40), *_UNUSUAL):
                function(M)

    return calls


# Totals that float64 cannot hold exactly, and cells far below one.
_UNUSUAL = (np.full((3, 3), 2**59), np.full((3, 3), 1e-200))


def _compute(M: np.ndarray) -> None:
    """Call ``metrics.compute`` with every metric."""
    cmfast.metrics.compute(M, EVERY)
    cmfast.metrics.tau_weighted(M, np.ones(len(M)))


def _metrics_of_matrices() -> None:
    """Call functions that compile the kernels of op ``metrics_of_matrices``."""
    _call_on_matrices(_compute)()
    for dtype in VALUES:  # a batch; one matrix of many classes, of counts beyond what int64 holds of weighted kappas
        cmfast.metrics.accuracy(_matrix(dtype)[None])
        cmfast.metrics.compute(np.full((512, 512), 99, dtype))
    for view in (np.ones((WARM_VIEWS, 8, 8), order="F"), np.ones((WARM_VIEWS, 8, 8)).transpose(0, 2, 1)):
        cmfast.metrics.accuracy(view)


def _weighted_kappa(M: np.ndarray) -> None:
    """Call ``kappa`` with a table of weights."""
    cmfast.metrics.kappa(M, weights=1.0 - np.eye(len(M)))


def _metrics_of_sums() -> None:
    """Call functions that compile the kernels of op ``metrics_of_sums``."""
    ordered = ("kappa_l", "kappa_q", "gerrity")  # these need all cells
    names: list[MetricName] = [name for name in EVERY if not name.startswith(ordered)]
    for sums in (*(np.ones(3, dtype) for dtype in VALUES), *(M[0] for M in _UNUSUAL)):
        cmfast.metrics.from_sums(sums, sums, sums, names)
    for dtype in VALUES:  # one matrix of many classes
        sums = np.ones(1000, dtype)
        cmfast.metrics.from_sums(sums, sums, sums, "mcc")


def _label_margins() -> None:
    """Call functions that compile the kernels of op ``label_margins``."""
    weights = (None, _labels(np.float64), _labels())
    # int8: positions among the classes, for labels other than 0, 1, ...
    for dtype, weight, groups, ignored in product((*LABELS, np.int8), weights, (None, _labels()), (None, 0)):
        options = {"sample_weight": weight, "groups": groups, "ignore_index": ignored}
        cmfast.metrics.label_margins(_labels(dtype), _labels(dtype), **options)
    for dtype in (*LABELS, np.int8):  # more classes than samples
        cmfast.metrics.label_margins(_labels(dtype), _labels(dtype), n_classes=1000)
        many = np.tile(_labels(dtype), 50)  # more than classes, which are too many for a matrix
        cmfast.metrics.from_labels(many, many, "accuracy", n_classes=1000)


def _call_with_scores(function: Callable[..., Any]) -> None:
    """Call a function of labels and scores with few and with many samples, of all types and weights."""
    for repeats, is_narrow in product((1, SAMPLE_REPEATS), (False, True)):
        labels = np.tile(_labels(), repeats)
        scores, y = np.arange(labels.size, dtype=np.float64), labels == 1 if is_narrow else labels
        function(y, scores.astype(np.float32))
        for weight in (None, labels + 1, labels + 0.5):
            function(y, scores, sample_weight=weight)


def _threshold_matrices() -> None:
    """Call functions that compile the kernels of op ``threshold_matrices``."""
    _call_with_scores(cmfast.metrics.threshold_matrices)


def _score_areas() -> None:
    """Call functions that compile the kernels of op ``score_areas``."""
    _call_with_scores(cmfast.metrics.roc_auc)


def _auc_covariance() -> None:
    """Call functions that compile the kernels of op ``auc_covariance``."""
    for dtype, weight in product(FLOATS, (None, _labels() + 1)):
        scores = np.stack([np.arange(WARM_SAMPLES, dtype=dtype)] * 2)
        cmfast.uncertainty.auc_covariance(_labels() > 0, scores, sample_weight=weight)


def _agreement_coefficients() -> None:
    """Call the function that compiles the kernels of op ``agreement_coefficients``."""
    for dtype in FLOATS:
        ratings = np.array([[0, 1], [1, 1]], dtype)
        cmfast.agreement.compute(ratings, "krippendorff_alpha", on_failure="ignore")


def _match_boxes() -> None:
    """Call the function that compiles the kernel of op ``match_boxes``."""
    cmfast.detection.match(np.array([[0.0, 0.0, 1.0, 1.0]]), np.array([[0.0, 0.0, 1.0, 1.0]]))


def _least_cost() -> None:
    """Call functions that compile the kernels of op ``least_cost``."""
    cmfast.metrics.least_cost(_labels() > 0, np.arange(WARM_SAMPLES), [[0, 1], [1, 0]])


def _resample() -> None:
    """Call functions that compile the kernels of op ``resample``."""
    for dtype in VALUES:
        cmfast.uncertainty.resample(_matrix(dtype), n_resamples=2)
        cmfast.uncertainty.resample(_matrix(dtype), n_resamples=2, scheme="expected_rounded")


def _intervals() -> None:
    """Call functions that compile the kernels of op ``metric_intervals``."""
    for method in ("bca", "posterior"):
        cmfast.uncertainty.interval(
            _matrix(np.int64), ["mcc", "recall"], method=method, n_resamples=2, on_failure="ignore"
        )


def _clusters(function: Callable[..., object], **options: Any) -> Callable[[], object]:
    """Return a call of a function of clustered matrices."""
    clusters = np.stack([_matrix(np.int64)] * 2)
    names = None if "of" in options else ["gerrity", "recall"]
    return lambda: function(clusters, names, clusters=True, **options)


def _standard_errors() -> None:
    """Call ``standard_error`` on every dtype."""
    names = ["geometric_mean", "gerrity", "recall"]
    for dtype in VALUES:
        for n_classes in (3, 2 * LARGE_SIDE):
            M = _matrix(dtype, n_classes)
            cmfast.uncertainty.standard_error(M, names)  # type: ignore[arg-type]
            cmfast.uncertainty.standard_error(M, "accuracy")
    cmfast.uncertainty.standard_error(np.eye(2, dtype=np.int64) * 2**60, "accuracy")


def _make_probabilities(dtype: type, n_classes: int = 3) -> np.ndarray:
    """Return rows of equal probabilities, for few classes or for more than the lane kernel handles."""
    return np.full((WARM_SAMPLES, n_classes), 1 / n_classes, dtype)


def _row_draws() -> None:
    """Call functions that compile the kernels of op ``row_draws``, the random numbers of conformal scores."""
    for dtype in FLOATS:
        cmfast.conformal.scores(_make_probabilities(dtype))


def _scores() -> None:
    """Call functions that compile the kernels of op ``scores``."""
    for dtype, n_classes in product(FLOATS, (3, LARGE_SIDE)):
        P = _make_probabilities(dtype, n_classes)
        cmfast.conformal.scores(P, _labels(), randomised=False)
        cmfast.conformal.scores(P, randomised=False)
        cmfast.conformal.scores(P, _labels(), method="lac")


def _sets(dtype: type = np.float64, n_classes: int = 3) -> cmfast.results.PredictionSets:
    """Return small prediction sets."""
    return cmfast.conformal.prediction_sets(_make_probabilities(dtype, n_classes), [0.5], randomised=False)


def _prediction_sets() -> None:
    """Call functions that compile the kernels of op ``prediction_sets``."""
    for dtype, n_classes in product(FLOATS, (3, LARGE_SIDE)):
        _sets(dtype, n_classes)
        P = _make_probabilities(dtype, n_classes)
        for method, q in (("lac", np.full(1, 0.5)), ("aps", np.full((1, n_classes), 0.5))):
            cmfast.conformal.prediction_sets(P, q, method=method, rng=0)  # type: ignore[arg-type]


def _thresholds() -> None:
    """Call functions that compile the kernels of op ``threshold``."""
    cmfast.conformal.threshold(np.arange(WARM_SAMPLES), 0.1, y=_labels())
    cmfast.conformal.threshold(np.zeros((8, 8)), 0.1)  # eight rows for the lane kernel


def _weighted_thresholds() -> None:
    """Call functions that compile the kernels of op ``weighted_threshold``: none so far."""
    ones = np.ones(WARM_SAMPLES)
    cmfast.conformal.threshold(ones, 0.1, sample_weight=ones, new_weight=ones[:1])


def _p_values() -> None:
    """Call functions that compile the kernels of op ``p_values``: none so far."""
    cmfast.conformal.p_values(np.ones(WARM_SAMPLES), np.ones(1))


def _score_histogram() -> None:
    """Call functions that compile the kernels of op ``score_histogram``."""
    cmfast.conformal.score_histogram(np.arange(WARM_SAMPLES))


def _shared() -> None:
    """Call functions that compile the kernels of ops ``ccm``, ``ccm_ratios``."""
    cmfast.conformal.ccm(_sets()).correlation()


def _covered() -> None:
    """Call functions that compile the kernels of ops ``set_coverage``, ``coverage_confusion``."""
    sets = _sets()
    sets.coverage(_labels())
    cmfast.conformal.coverage_confusion(sets, _labels())


def _carrying_samples() -> None:
    """Call functions that compile the kernels of op ``carrying_samples``."""
    cmfast.uncertainty.interval(_matrix(np.int64), ["accuracy", "gerrity"], method="normal")


def _paired_errors() -> None:
    """Call functions that compile the kernels of op ``paired_errors``."""
    y = _labels()
    cmfast.uncertainty.compare(cmfast.uncertainty.paired_counts(y, y[::-1], y), EVERY, method="delta", test="interval")


def _paired_replicates() -> None:
    """Call functions that compile the kernels of op ``paired_replicates``."""
    y = _labels()
    for clusters in (None, y):
        T = cmfast.uncertainty.paired_counts(y, y[::-1], y, clusters=clusters)
        cmfast.uncertainty.compare(T, EVERY, n_resamples=2)


CALLS: dict[str, Callable[[], object]] = {
    "confusion_matrix": _confusion_matrix,
    "overlap": _compare(cmfast.overlap),
    "l1_distance": _compare(cmfast.l1_distance),
    "kl_divergence": _compare(cmfast.kl_divergence),
    "normalize": _normalize(cmfast.normalize),
    "importance_weights": _normalize(cmfast.importance_weights),
    "ipf": _scale(cmfast.ipf),
    "ras": _scale(cmfast.ras),
    "comparison_gradient": _comparison_gradient,
    "metrics_gradient": _metrics_gradient,
    "normalizing_gradient": _normalizing_gradient,
    "ipf_of_logits": _ipf_of_logits,
    "scaling_gradient": _scaling_gradient,
    "ipf_nd": _ipf_nd,
    "ipf_cells": _ipf_cells,
    "support_nd": _support_nd,
    "rake": _rake,
    "balance": _balance,
    "ipf_sparse": _ipf_sparse,
    "round_to_margins": _round_to_margins,
    "support": _support,
    "column_ranges": _columns,
    "column_moments": _columns,
    "column_products": lambda: cmfast.pca(_points(4, np.float64), 2, precision="exact"),
    "column_quartiles": _columns,
    "pca": _projections,
    "project": _projections,
    "cell_counts": _cell_counts,
    "sparse_histogram": _sparse_histogram,
    "merge_cells": _merge_cells,
    "decode_cells": _decode_cells,
    "pair_counts": lambda: _cells().confusion_matrix(),
    "cell_shapes": _gcm_from_points,
    "cell_excess": _gcm_from_points,
    "marginal_histogram": _histograms,
    "gcm": _gcm,
    "min_overlap": _min_overlap,
    "margins": _call_on_matrices(cmfast.metrics.margins),
    "metrics_of_matrices": _metrics_of_matrices,
    "weighted_kappa": _call_on_matrices(_weighted_kappa),
    "metrics_of_sums": _metrics_of_sums,
    "one_vs_rest": _call_on_matrices(cmfast.metrics.one_vs_rest),
    "confusion_fractions": _call_on_matrices(cmfast.metrics.confusion_fractions),
    "most_confused": _call_on_matrices(cmfast.metrics.most_confused),
    "threshold_matrices": _threshold_matrices,
    "score_areas": _score_areas,
    "least_cost": _least_cost,
    "agreement_coefficients": _agreement_coefficients,
    "match_boxes": _match_boxes,
    "auc_covariance": _auc_covariance,
    "resample": _resample,
    "cell_errors": lambda: cmfast.uncertainty.standard_error(_matrix(np.int64), of="bi"),
    "cluster_cell_errors": _clusters(cmfast.uncertainty.standard_error, of="bi"),
    "cluster_errors": _clusters(cmfast.uncertainty.standard_error),
    "cluster_intervals": _clusters(cmfast.uncertainty.interval, n_resamples=2),
    "cluster_replicates": _clusters(cmfast.uncertainty.interval, of="row", n_resamples=2),
    "metric_intervals": _intervals,
    "replicate_intervals": lambda: cmfast.uncertainty.interval(_matrix(np.int64), of="row", n_resamples=2),
    "metric_draws": lambda: cmfast.uncertainty.posterior(_matrix(np.int64), ["mcc", "recall"], n_resamples=2),
    "standard_errors": _standard_errors,
    "carrying_samples": _carrying_samples,
    "paired_errors": _paired_errors,
    "paired_replicates": _paired_replicates,
    "label_margins": _label_margins,
    "row_draws": _row_draws,
    "scores": _scores,
    "threshold": _thresholds,
    "weighted_threshold": _weighted_thresholds,
    "p_values": _p_values,
    "score_histogram": _score_histogram,
    "prediction_sets": _prediction_sets,
    "set_coverage": _covered,
    "ccm": _shared,
    "coverage_confusion": _covered,
    "ccm_ratios": _shared,
}


# Ops that share kernels are compiled in one process, because two would compile them twice; longest first.
SHARED_KERNELS: tuple[tuple[str, ...], ...] = (
    ("ipf", "ras", "normalize", "importance_weights", "ipf_of_logits", "scaling_gradient"),
    ("metrics_of_matrices", "metrics_of_sums"),
    ("margins", "most_confused", "one_vs_rest", "confusion_fractions"),
    ("ipf_nd", "ipf_cells"),
    tuple(op for op, entry in OPS.items() if entry.topic == "geometry"),
)


def group_ops(ops: Iterable[str]) -> list[list[str]]:
    """Return ops grouped by shared kernels, those with the longest compile time first."""
    found: dict[tuple[int, float, str], list[str]] = {}
    for op in ops:
        shared = next((place for place, together in enumerate(SHARED_KERNELS) if op in together), None)
        alone = (len(SHARED_KERNELS), -compile_notices.SECONDS.get(op, 0.0), op)
        found.setdefault(alone if shared is None else (shared, 0.0, ""), []).append(op)
    return [found[key] for key in sorted(found)]


def list_names() -> list[str]:
    """Return the names of all public functions and classes that compile kernels, and of all ops."""
    found = list(OPS)
    for prefix in ("", "metrics.", "uncertainty.", "conformal.", "contingency."):
        space = getattr(cmfast, prefix.rstrip("."), cmfast)
        found += [prefix + name for name in space.__all__ if callable(getattr(space, name))]
    return sorted({name for name in found if name in OPS or compile_notices.list_ops(name)})


def select_ops(wanted: Iterable[str]) -> list[str]:
    """Return the ops that the named functions call, in table order; all ops without names."""
    found = {op for name in wanted for op in compile_notices.list_ops(name)}
    return [op for op in OPS if not found or op in found]


class Compiled(NamedTuple):
    """Result of compiling an op: number of compiled functions (0 if all were cached) and seconds."""

    op: str
    functions: int
    seconds: float


def compile_op(op: str) -> Compiled:
    """Compile the kernels of an op by its warm-up calls, or load them from the cache."""
    compile_notices.watch()
    before, begun = compile_notices.NOTICES.compiled, time.perf_counter()
    with compile_notices.silence(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of the warm-up calls do not concern the user
        CALLS[op]()
    return Compiled(op, compile_notices.NOTICES.compiled - before, time.perf_counter() - begun)


def _compile_group(ops: Sequence[str]) -> list[Compiled]:
    """Compile a group of ops in this process."""
    return [compile_op(op) for op in ops]


def compile_ops(ops: Sequence[str], processes: int, tick: Callable[[int, int], object] | None = None) -> list[Compiled]:
    """Compile the kernels of `ops` in several processes; `tick` is called with (done, total).

    Two processes that write the cache of one function at the same time may lose an entry. This process therefore runs
    last, compiles what was lost, and so ensures that everything is cached.
    """
    found = []
    for one in chain(_compile_in_processes(ops, processes), map(compile_op, ops)):
        found.append(one)
        if tick is not None:
            tick(min(len(found), len(ops) - 1), len(ops))
    if tick is not None:
        tick(len(ops), len(ops))
    return found


def _compile_in_processes(ops: Sequence[str], processes: int) -> Iterator[Compiled]:
    """Compile groups of ops in spawned processes and yield the results."""
    jobs = group_ops(ops)
    if min(processes, len(jobs)) < 2:
        return
    context = multiprocessing.get_context("spawn")  # forked processes would share Numba's partly initialised state
    ignored = (signal.SIGINT, signal.SIG_IGN)  # this process handles interrupts and terminates the others
    pool = ProcessPoolExecutor(min(processes, len(jobs)), context, signal.signal, ignored)
    try:
        for done in as_completed([pool.submit(_compile_group, job) for job in jobs]):
            yield from done.result()
    except BrokenProcessPool:  # a process was killed, perhaps for memory: this process compiles the rest
        pass
    except BaseException:
        for child in multiprocessing.active_children():
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
