"""Merge the geometric counts of seven sites: the same bits as at one."""

import functools
import operator

import numpy as np

import cmfast

rng = np.random.default_rng(0)
y = rng.integers(0, 4, 40_000)
X = rng.normal(size=(len(y), 3)) + 1.5 * np.eye(4, 3)[y]
p = np.argmin(((X[:, None] - 1.5 * np.eye(4, 3)) ** 2).sum(-1), axis=1)

# One grid for all, fixed once from a sample and sent to every site.
grid = cmfast.Grid.scott(X[:2000], n=len(X))
sites = np.array_split(rng.permutation(len(y)), 7)
parts = [
    cmfast.cell_counts(X[rows], y[rows], p[rows], grid=grid, n_classes=4)
    for rows in sites
]
merged = functools.reduce(operator.add, parts)
whole = cmfast.cell_counts(X, y, p, grid=grid, n_classes=4)

weights = ["all", "row", "col", "bi"]
same = (
    cmfast.gcm(merged, weights).tobytes()
    == cmfast.gcm(whole, weights).tobytes()
)
print(f"{len(parts)} parts, merged: the same bits as in one pass: {same}")
assert same
