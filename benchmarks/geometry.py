"""The geometric confusion matrix of embeddings: all four weightings, against one weighting of the others."""

import warnings
from collections.abc import Iterator
from functools import cache, lru_cache

import numpy as np

import cmfast
from benchmarks import _data, _numba_loops, _rivals
from benchmarks._job import Job, Rival

WEIGHTS = ["all", "row", "col", "bi"]
MILLIONS = 10_000_000
PACKED = ("packed", "keyed")  # rivals of one integer key per point


def jobs(*, small: bool = False) -> Iterator[Job]:
    """Yield the jobs, one in memory at a time; `small` ones end in a fraction of a second."""
    N = 2_000 if small else 1_000_000
    yield _job("gcm", N, 10, 10, note="Scott", rivals_of=(*PACKED, "columns", "scipy", "unique"))
    many = 20 if small else 1000
    yield _job("gcm C=1000", N, 10, many, note="Scott", rivals_of=PACKED)
    yield _job("gcm C=1000 one weighting", N, 10, many, note="Scott", weights=["all"], rivals_of=PACKED)
    yield _make_weighted_job(N, 10)
    yield _pca(N, 20 if small else 128)


def full_jobs(*, small: bool = False) -> Iterator[Job]:
    """Yield ten million points of every kind, and the way from raw embeddings of 512 axes; one job in memory a time."""
    N = 2_000 if small else MILLIONS
    every = (*PACKED, "columns", "unique")
    many = 20 if small else 1000
    yield _job("gcm 1e7", N, 10, 10, note="Scott", rivals_of=every)
    yield _job("gcm 1e7 one weighting", N, 10, 10, note="Scott", weights=["all"], rivals_of=PACKED)
    yield _job("gcm 1e7 f64", N, 10, 10, note="Scott", dtype=np.float64)
    yield _job("gcm 1e7 C=1000", N, 10, many, note="Scott", rivals_of=PACKED)
    yield _job("gcm 1e7 C=1000 one weighting", N, 10, many, note="Scott", weights=["all"], rivals_of=PACKED)
    yield _job("gcm 1e7 m=2", N, 2, 10, note="Scott", rivals_of=PACKED)
    yield _job("gcm 1e7 m=32", N, 32, 10, note="Scott, ranked cells", rivals_of=("columns",))
    yield _job("gcm 1e7 one cell", N, 10, 10, note="everything in one cell", scale=1e6)
    yield _job("gcm 1e7 alone", N, 10, 10, note="nearly all alone", scale=0.3)
    points, n = (2_000, 20) if small else (1_000_000, 512)
    yield _pca(points, n)
    yield _raw(points, n)


@lru_cache(1)
def _points(N: int, m: int, C: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return _data.embeddings(N, m, C)


def _job(
    name: str,
    N: int,
    m: int,
    C: int,
    *,
    note: str,
    weights: list[str] = WEIGHTS,
    rivals_of: tuple[str, ...] = (),
    dtype: type = np.float32,
    scale: float = 1.0,
) -> Job:
    X, y, p = _points(N, m, C)
    X = X.astype(dtype, copy=False)
    out = np.empty_like(X)
    grid = cmfast.Grid.scott(X).scaled(scale)
    if scale > 1:
        grid = grid.shifted(0.5)
    lattice = np.asarray(grid.origin), 1 / np.asarray(grid.width)
    tenth = N // 10
    part = X[:tenth], y[:tenth], p[:tenth]

    def run(threads):
        cells = cmfast.cell_counts(X, y, p, grid=grid, n_classes=C, num_threads=threads)
        return cmfast.gcm(cells, weights, smoothing=1e-3, num_threads=threads)

    def check_ours(result):
        if not {"packed", "columns"} & set(rivals_of):
            cells = cmfast.cell_counts(*part, grid=grid, n_classes=C)
            want = _rivals.scipy_gcm(*part, *lattice, C) if C <= 10 and m <= 10 else None
            if want is None:
                return "not compared"
            np.testing.assert_array_equal(cmfast.gcm(cells, np.ones((C, C))), want)
            return "a tenth agrees with scipy"
        # Our first weighting is 1/N of the counts; polars sums the counts themselves.
        want = _rivals.polars_gcm(X, y, p, *lattice, C, packed=False)
        np.testing.assert_allclose(result[0] * N, want, rtol=1e-12)
        return "agrees with polars"

    def whole(result):
        return _same(result, rivals_want(), "one weighting")

    @cache
    def rivals_want():
        return cmfast.gcm(cmfast.cell_counts(X, y, p, grid=grid, n_classes=C), np.ones((C, C)))

    def check_scipy(result):
        return _same(
            result, cmfast.gcm(cmfast.cell_counts(*part, grid=grid, n_classes=C), np.ones((C, C))), "one weighting"
        )

    def check_unique(result):
        assert result[1].sum() == tenth, "every point is in one cell"
        return "the cells alone"

    def polars(*, packed):
        return lambda: _rivals.polars_gcm(X, y, p, *lattice, C, packed=packed)

    every = {
        "packed": Rival("polars, packed key", polars(packed=True), N, whole),
        "keyed": Rival(
            "polars, Numba's key",
            lambda: _rivals.keyed_polars_gcm(X, y, p, *lattice, C),
            N,
            whole,
            lambda: _numba_loops.pack_cells(X[:9], *lattice),
        ),
        "columns": Rival(f"polars, {m} columns", polars(packed=False), N, whole),
        "scipy": Rival("scipy.sparse", lambda: _rivals.scipy_gcm(*part, *lattice, C), tenth, check_scipy),
        "unique": Rival(
            "numpy.unique of keys", lambda: _rivals.numpy_unique_keys(part[0], *lattice), tenth, check_unique
        ),
    }
    size = f"{N:,} points, m={m} {np.dtype(dtype).name}, C={C}, {note}, {len(weights)} weightings"
    copy = lambda: np.copyto(out, X)  # noqa: E731
    return Job(name, size, N, "points", run, check_ours, copy, "copy", [every[rival] for rival in rivals_of])


def _same(result: np.ndarray, want: np.ndarray, note: str) -> str:
    np.testing.assert_array_equal(result, want)
    return note


def _make_weighted_job(N: int, m: int) -> Job:
    """Return the job of summing float weights in the occupied cells."""
    X, _, _ = _points(N, m, 10)
    w = np.random.default_rng(3).gamma(0.5, size=N)
    grid = cmfast.Grid.scott(X)
    lattice = np.asarray(grid.origin), 1 / np.asarray(grid.width)
    arguments = X, w, *lattice

    def sort(found):
        order = np.argsort(found[0])
        return found[0][order], found[1][order]

    want = sort(_rivals.numpy_weighted_cells(*arguments))

    def check(found):
        keys, sums = sort(found)
        np.testing.assert_array_equal(keys, want[0])
        np.testing.assert_allclose(sums, want[1], rtol=1e-12)
        return f"{len(keys):,} cells"

    calls = {
        "NumPy, argsort": _rivals.numpy_weighted_cells,
        "polars, packed key": _rivals.polars_weighted_cells,
        "Numba hash": _numba_loops.weighted_cells,
    }
    return Job(
        "sparse_histogram floats",
        f"{N:,} points, m={m} float32, float64 weights, Scott",
        N,
        "points",
        lambda threads: cmfast.sparse_histogram(X, grid=grid, weights=w, num_threads=threads),
        lambda h: check((_rivals.pack_cell_indices(h.cells), h.values)),
        lambda: (X.sum(), w.sum()),
        "read",
        [
            Rival(name, lambda call=call: call(*arguments), N, check, lambda call=call: call(X[:9], w[:9], *lattice))
            for name, call in calls.items()
        ],
    )


@lru_cache(1)
def _embedded(N: int, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return float32 embeddings (N, n) of points in ten dimensions, their labels and predictions."""
    low, y, p = _data.embeddings(N, 10, 10)
    X = low @ np.random.default_rng(1).normal(size=(10, n)).astype(np.float32)
    X += 0.1 * np.random.default_rng(2).normal(size=(1, n)).astype(np.float32)
    return X, y, p


def _pca(N: int, n: int) -> Job:
    """Return the job of ten principal axes; every library's BLAS has its own threads."""
    X, m = _embedded(N, n)[0], 10
    axes, shares = _rivals.blas_pca(X, m)

    def check(found):
        np.testing.assert_allclose(found[1], shares, rtol=1e-4, atol=1e-5)
        same = np.abs((np.asarray(found[0], float) * axes).sum(1))
        np.testing.assert_allclose(same, 1, atol=1e-4)
        return f"same axes, shares within {np.abs(found[1] - shares).max():.0e}"

    calls = {"scikit-learn": _rivals.sklearn_pca, "BLAS in blocks": _rivals.blas_pca}
    return Job(
        f"pca {n}",
        f"{N:,} points, n={n} float32, {m} axes",
        N,
        "points",
        lambda threads: cmfast.pca(X, m),
        lambda found: check((found.components, found.explained_variance_ratio)),
        X.sum,
        "read",
        [Rival(name, lambda call=call: call(X, m), N, check) for name, call in calls.items()],
    )


def _raw(N: int, n: int) -> Job:
    """Raw embeddings: principal axes, projection, cells, four weightings; against scikit-learn's PCA and polars."""
    X, y, p = _embedded(N, n)

    def run(threads):
        with warnings.catch_warnings():  # ten axes say little about geometry, which is not what is measured
            warnings.simplefilter("ignore", cmfast.DiagnosticWarning)
            return cmfast.geometric_confusion_matrix(
                X, y, p, weights=WEIGHTS, smoothing=1e-3, n_classes=10, num_threads=threads
            )

    def check_ours(result):
        assert result.cells.n_points == N
        return f"{result.diagnostics.n_cells:,} cells, null {result.diagnostics.null_overlap[0]:.2f}, with diagnostics"

    def rival():
        from sklearn.decomposition import PCA

        Z = PCA(10, svd_solver="covariance_eigh").fit_transform(X)
        grid = cmfast.Grid.scott(Z)
        return _rivals.polars_gcm(Z, y, p, np.asarray(grid.origin), 1 / np.asarray(grid.width), 10, packed=True)

    def check_rival(result):
        want = run(None).matrix[0]  # a last bit of an axis may move a point to the next cell
        np.testing.assert_allclose(result / N, want, rtol=0, atol=1e-3 * want.max())
        return "one weighting, our grid"

    size = f"{N:,} raw embeddings, n={n} float32, C=10: PCA to 10 axes, grid, cells, four weightings, diagnostics"
    rivals_of = [Rival("scikit-learn + polars", rival, N, check_rival)]
    return Job("gcm raw", size, N, "points", run, check_ours, X.sum, "read", rivals_of)
