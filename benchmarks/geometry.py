"""The geometric confusion matrix of embeddings: all four weightings, against one weighting of the others."""

import warnings
from collections.abc import Iterator
from functools import cache, lru_cache

import numpy as np

import cmfast
from benchmarks import _data, _rivals
from benchmarks._job import Job, Rival

WEIGHTS = ["all", "row", "col", "bi"]
MILLIONS = 10_000_000


def jobs(*, small: bool = False) -> list[Job]:
    """Return the jobs; `small` ones end in a fraction of a second."""
    N = 2_000 if small else 1_000_000
    return [_job("gcm", N, 10, 10, note="Scott", rivals_of=("packed", "columns", "scipy", "unique"))]


def full_jobs(*, small: bool = False) -> Iterator[Job]:
    """Yield ten million points of every kind, and the way from raw embeddings of 512 axes; one job in memory a time."""
    N = 2_000 if small else MILLIONS
    every = ("packed", "columns", "unique")
    many = 20 if small else 1000
    yield _job("gcm 1e7", N, 10, 10, note="Scott", rivals_of=every)
    yield _job("gcm 1e7 one weighting", N, 10, 10, note="Scott", weights=["all"])
    yield _job("gcm 1e7 f64", N, 10, 10, note="Scott", dtype=np.float64)
    yield _job("gcm 1e7 C=1000", N, 10, many, note="Scott")
    yield _job("gcm 1e7 C=1000 one weighting", N, 10, many, note="Scott", weights=["all"])
    yield _job("gcm 1e7 m=2", N, 2, 10, note="Scott", rivals_of=("packed",))
    yield _job("gcm 1e7 m=32", N, 32, 10, note="Scott, ranked cells", rivals_of=("columns",))
    yield _job("gcm 1e7 one cell", N, 10, 10, note="everything in one cell", scale=1e6)
    yield _job("gcm 1e7 alone", N, 10, 10, note="nearly all alone", scale=0.3)
    yield _raw(2_000 if small else 1_000_000, 20 if small else 512)


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
        "columns": Rival(f"polars, {m} columns", polars(packed=False), N, whole),
        "scipy": Rival("scipy.sparse", lambda: _rivals.scipy_gcm(*part, *lattice, C), tenth, check_scipy),
        "unique": Rival("numpy.unique", lambda: _rivals.numpy_unique_cells(part[0], *lattice), tenth, check_unique),
    }
    size = f"{N:,} points, m={m} {np.dtype(dtype).name}, C={C}, {note}, {len(weights)} weightings"
    copy = lambda: np.copyto(out, X)  # noqa: E731
    return Job(name, size, N, "points", run, check_ours, copy, "copy", [every[rival] for rival in rivals_of])


def _same(result: np.ndarray, want: np.ndarray, note: str) -> str:
    np.testing.assert_array_equal(result, want)
    return note


def _raw(N: int, n: int) -> Job:
    """Raw embeddings: principal axes, projection, cells, four weightings; against scikit-learn's PCA and polars."""
    low, y, p = _points(N, 10, 10)
    mix = np.random.default_rng(1).normal(size=(10, n)).astype(np.float32)
    X = low @ mix
    X += 0.1 * np.random.default_rng(2).normal(size=(1, n)).astype(np.float32)

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
        assert result.sum() > 0
        return "one weighting, our grid"

    size = f"{N:,} raw embeddings, n={n} float32, C=10: PCA to 10 axes, grid, cells, four weightings, diagnostics"
    rivals_of = [Rival("scikit-learn + polars", rival, N, check_rival)]
    return Job("gcm raw", size, N, "points", run, check_ours, X.sum, "read", rivals_of)
