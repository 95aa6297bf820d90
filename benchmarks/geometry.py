"""The geometric confusion matrix of embeddings: all four weightings, against one weighting of the others."""

import numpy as np

import cmfast
from benchmarks import data, rivals
from benchmarks._job import Job, Rival

WEIGHTS = ["all", "row", "col", "bi"]


def jobs(*, small: bool = False) -> list[Job]:
    """Return the jobs; `small` ones end in a fraction of a second."""
    N, m, C = (2_000, 10, 10) if small else (1_000_000, 10, 10)
    X, y, p = data.embeddings(N, m, C)
    out = np.empty_like(X)
    grid = cmfast.Grid.scott(X)
    lattice = np.asarray(grid.origin), 1 / np.asarray(grid.width)
    want = rivals.polars_gcm(X, y, p, *lattice, C, packed=False)
    tenth = N // 10
    part = X[:tenth], y[:tenth], p[:tenth]
    want_part = rivals.polars_gcm(*part, *lattice, C, packed=False)

    def run(threads):
        cells = cmfast.cell_counts(X, y, p, grid=grid, n_classes=C, num_threads=threads)
        return cmfast.gcm(cells, WEIGHTS, smoothing=1e-3, num_threads=threads)

    def check_ours(result):
        # Our first weighting is 1/N of the counts; polars sums the counts themselves.
        np.testing.assert_allclose(result[0] * N, want, rtol=1e-12)
        return "agrees with polars"

    def check_polars(result):
        np.testing.assert_array_equal(result, want)
        return "one weighting"

    def check_scipy(result):
        np.testing.assert_array_equal(result, want_part)
        return "one weighting"

    def check_unique(result):
        assert result[1].sum() == tenth, "every point is in one cell"
        return "the cells alone"

    def polars(*, packed):
        return lambda: rivals.polars_gcm(X, y, p, *lattice, C, packed=packed)

    return [
        Job(
            "gcm",
            f"{N:,} points, m={m} float32, C={C}, Scott, four weightings",
            N,
            "points",
            run,
            check_ours,
            lambda: np.copyto(out, X),
            "copy",
            [
                Rival("polars, packed key", polars(packed=True), N, check_polars),
                Rival("polars, ten columns", polars(packed=False), N, check_polars),
                Rival("scipy.sparse", lambda: rivals.scipy_gcm(*part, *lattice, C), tenth, check_scipy),
                Rival("numpy.unique", lambda: rivals.numpy_unique_cells(part[0], *lattice), tenth, check_unique),
            ],
        )
    ]
