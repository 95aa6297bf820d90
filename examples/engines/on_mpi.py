"""MPI: each rank counts what it has read, and all of them get the sum.

Run it with ``mpiexec -n 2 python examples/engines/on_mpi.py``.
"""

import numpy as np
from mpi4py import MPI
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB

import cmfast

ranks = MPI.COMM_WORLD
X, y = load_digits(return_X_y=True)
p = GaussianNB().fit(X[::2], y[::2]).predict(X)
points = cmfast.pca(X, 3).transform(X)
mine = slice(ranks.rank, None, ranks.size)

# Matrices are integers of one shape: MPI adds them exactly.
matrix = cmfast.confusion_matrix(y[mine], p[mine], n_classes=10)
ranks.Allreduce(MPI.IN_PLACE, matrix, op=MPI.SUM)


def merge(one, other):
    """Return the sum of two states."""
    return cmfast.CellCounts.merge(
        [cmfast.CellCounts.from_bytes(state) for state in (one, other)]
    ).to_bytes()


# Cells are not dense: states are added as bytes, on one grid that one
# rank chose.
grid = cmfast.Grid.from_bytes(
    ranks.bcast(
        cmfast.Grid.scott(points).to_bytes() if ranks.rank == 0 else None
    )
)
state = cmfast.cell_counts(
    points[mine], y[mine], p[mine], grid=grid, n_classes=10, num_threads=1
).to_bytes()
counts = cmfast.CellCounts.from_bytes(ranks.allreduce(state, op=merge))

if ranks.rank == 0:
    print(f"{ranks.size} ranks:\n{counts}")
assert np.array_equal(matrix, cmfast.confusion_matrix(y, p, n_classes=10))
assert counts == cmfast.cell_counts(points, y, p, grid=grid, n_classes=10)
