"""Count at each rank what it has seen; all ranks get the sum.

Run it with ``torchrun --nproc-per-node 2
examples/engines/on_torch_distributed.py``.
"""

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB

import cmfast

dist.init_process_group("gloo")
rank, n_ranks = dist.get_rank(), dist.get_world_size()

X, y = load_digits(return_X_y=True)
p = GaussianNB().fit(X[::2], y[::2]).predict(X)
points = cmfast.pca(X, 3).transform(X)
mine = slice(rank, None, n_ranks)  # as a DistributedSampler deals

# Matrices are integers: any reduction of the engine adds them exactly.
matrix = cmfast.confusion_matrix(
    torch.from_numpy(y[mine]), torch.from_numpy(p[mine]), n_classes=10
)
dist.all_reduce(matrix)

# Cells are not dense: every rank gets the states of all, as bytes, on one
# grid that one rank chose.
chosen = [cmfast.Grid.scott(points).to_bytes() if rank == 0 else None]
dist.broadcast_object_list(chosen)
grid = cmfast.Grid.from_bytes(chosen[0])
states = [b""] * n_ranks
dist.all_gather_object(
    states,
    cmfast.cell_counts(
        points[mine], y[mine], p[mine], grid=grid, n_classes=10
    ).to_bytes(),
)
counts = cmfast.CellCounts.merge(
    [cmfast.CellCounts.from_bytes(state) for state in states]
)
dist.destroy_process_group()

if rank == 0:
    print(f"{n_ranks} ranks, {sum(map(len, states)):,} bytes: {counts}")
assert (
    matrix.numpy() == cmfast.confusion_matrix(y, p, n_classes=10)
).all()
assert counts == cmfast.cell_counts(points, y, p, grid=grid, n_classes=10)
