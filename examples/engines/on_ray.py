"""Count batches with Ray: tasks merge their states, as bytes."""

import numpy as np
import ray
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB

import cmfast

X, y = load_digits(return_X_y=True)
p = GaussianNB().fit(X[::2], y[::2]).predict(X)
points = cmfast.pca(X, 3).transform(X)
# once, from all points or a sample: it travels with the function
grid = cmfast.Grid.scott(points)


def count(batch):
    """Return the counts of a batch."""
    cells = cmfast.cell_counts(
        batch["x"],
        batch["y"],
        batch["p"],
        grid=grid,
        n_classes=10,
        num_threads=1,
    )
    return {"state": np.array([cells.to_bytes()], object)}


def merge(batch):
    """Return the sum of the states in a batch."""
    cells = cmfast.CellCounts.merge(
        [cmfast.CellCounts.from_bytes(state) for state in batch["state"]]
    )
    return {"state": np.array([cells.to_bytes()], object)}


ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
rows = ray.data.from_items(
    [
        {"x": x, "y": t, "p": g}
        for x, t, g in zip(points, y, p, strict=True)
    ]
)
merged = (
    rows.map_batches(count, batch_size=100)
    .repartition(4)
    .map_batches(merge, batch_size=None)
)
states = [row["state"] for row in merged.take_all()]
ray.shutdown()

counts = cmfast.CellCounts.merge(
    [cmfast.CellCounts.from_bytes(state) for state in states]
)
print(f"{len(states)} states, merged:\n{counts}")
assert counts == cmfast.cell_counts(points, y, p, grid=grid, n_classes=10)
