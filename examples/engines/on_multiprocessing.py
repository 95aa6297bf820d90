"""Count parts in new processes (spawn), and add them as they come.

A process that is forked after cmfast ran works, too; a new one is safe
whatever threads and GPUs the parent uses.
"""

import multiprocessing
from functools import partial

from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB

import cmfast


def load_points():
    """Return points, labels and predictions, which a job would read."""
    X, y = load_digits(return_X_y=True)
    return (
        cmfast.pca(X, 3).transform(X),
        y,
        GaussianNB().fit(X[::2], y[::2]).predict(X),
    )


def count(rows, grid):
    """Return the counts of some rows."""
    points, y, p = load_points()
    return cmfast.cell_counts(
        points[rows],
        y[rows],
        p[rows],
        grid=grid,
        n_classes=10,
        num_threads=1,
    )


# new processes import this file, and must not start processes themselves
if __name__ == "__main__":
    points, y, p = load_points()
    grid = cmfast.Grid.scott(points)
    parts = [slice(start, start + 450) for start in range(0, len(y), 450)]
    cells = cmfast.CellAccumulator(grid, n_classes=10)
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        for part in pool.imap_unordered(partial(count, grid=grid), parts):
            cells.add(part)
    counts = cells.counts()
    print(f"{len(parts)} parts: {counts}")
    assert counts == cmfast.cell_counts(
        points, y, p, grid=grid, n_classes=10
    )
