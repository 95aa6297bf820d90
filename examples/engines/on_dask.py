"""Count Dask arrays: any chunks and any workers give the same bits."""

import dask
import dask.array as da
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB

import cmfast

X, y = load_digits(return_X_y=True)
p = GaussianNB().fit(X[::2], y[::2]).predict(X)
points = cmfast.pca(X, 3).transform(X)
grid = cmfast.Grid.scott(points)

# or da.from_zarr, da.from_npy_stack, a DataFrame's .values
lazy_points = da.from_array(points, chunks=(450, 3))
lazy_y, lazy_p = (da.from_array(labels, chunks=450) for labels in (y, p))
# lazy: not counted yet
cells = cmfast.cell_counts(
    lazy_points, lazy_y, lazy_p, grid=grid, n_classes=10
)
gcm = dask.delayed(cmfast.gcm)(cells, ["row", "bi"])
matrix = cmfast.confusion_matrix(lazy_y, lazy_p, n_classes=10)
print(cells, matrix)

counts = cells.compute()
print(f"{lazy_y.npartitions} chunks: {counts}")
assert counts == cmfast.cell_counts(points, y, p, grid=grid, n_classes=10)
assert (
    gcm.compute().tobytes() == cmfast.gcm(counts, ["row", "bi"]).tobytes()
)
assert (
    matrix.compute() == cmfast.confusion_matrix(y, p, n_classes=10)
).all()
