"""Count parts in processes of joblib, and add them as they come."""

from joblib import Parallel, delayed
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB

import cmfast

X, y = load_digits(return_X_y=True)
p = GaussianNB().fit(X[::2], y[::2]).predict(X)
points = cmfast.pca(X, 3).transform(X)
grid = cmfast.Grid.scott(points)


def count(rows):
    """Return the counts of some rows, which a real job would read."""
    return cmfast.cell_counts(
        points[rows],
        y[rows],
        p[rows],
        grid=grid,
        n_classes=10,
        num_threads=1,
    )


parts = [slice(start, start + 225) for start in range(0, len(y), 225)]
cells = cmfast.CellAccumulator(grid, n_classes=10)
for part in Parallel(n_jobs=2, return_as="generator_unordered")(
    delayed(count)(rows) for rows in parts
):
    cells.add(part)
counts = cells.counts()
print(f"{len(parts)} parts: {counts}")
assert counts == cmfast.cell_counts(points, y, p, grid=grid, n_classes=10)
