"""Count partitions with Spark: executors merge the states, as bytes.

Executors run the Python that PYSPARK_PYTHON names, which must have
cmfast; by default `python3` of their PATH.
"""

import os
import sys

import pyarrow as pa
from pyspark.sql import SparkSession
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB

import cmfast

# before the session starts
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

X, y = load_digits(return_X_y=True)
p = GaussianNB().fit(X[::2], y[::2]).predict(X)
points = cmfast.pca(X, 3).transform(X)
# once, from all points or a sample: it travels with the function
grid = cmfast.Grid.scott(points)


def count(batches):
    """Return the counts of a partition, one batch at a time in memory."""
    cells = cmfast.CellAccumulator(grid, n_classes=10)
    for batch in batches:
        rows = batch["x"].flatten().to_numpy().reshape(len(batch), -1)
        cells.update(
            rows,
            batch["y"].to_numpy(),
            batch["p"].to_numpy(),
            num_threads=1,
        )
    yield pa.record_batch({"state": [cells.counts().to_bytes()]})


def merge(batches):
    """Return the sum of the states in a partition, two in memory."""
    cells = cmfast.CellAccumulator(grid, n_classes=10)
    for batch in batches:
        for state in batch["state"]:
            cells.add(cmfast.CellCounts.from_bytes(state.as_py()))
    yield pa.record_batch({"state": [cells.counts().to_bytes()]})


spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .getOrCreate()
)
# or spark.read.parquet(...)
table = pa.table({"x": points.tolist(), "y": y, "p": p})
states = (
    spark.createDataFrame(table)
    .repartition(16)
    .mapInArrow(count, "state binary")
)
# each a quarter of the last; fewer steps where there are few partitions
for n_partitions in (4, 1):
    states = states.repartition(n_partitions).mapInArrow(
        merge, "state binary"
    )
collected = states.collect()
spark.stop()

(row,) = collected
counts = cmfast.CellCounts.from_bytes(bytes(row.state))
print(f"{len(collected)} state of {len(row.state):,} bytes:\n{counts}")
assert counts == cmfast.cell_counts(points, y, p, grid=grid, n_classes=10)
