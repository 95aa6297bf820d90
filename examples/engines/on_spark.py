"""Spark: every partition becomes one small state, as bytes in a column; executors add them up, and the driver gets one.

Executors run the Python that PYSPARK_PYTHON names, which must have cmfast; by default `python3` of their PATH.
"""

import os
import sys

import pyarrow as pa
from pyspark.sql import SparkSession
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB

import cmfast

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # before the session starts

X, y = load_digits(return_X_y=True)
p = GaussianNB().fit(X[::2], y[::2]).predict(X)
points = cmfast.pca(X, 3).transform(X)
grid = cmfast.Grid.scott(points)  # once, from all points or a sample: it travels with the function


def count(batches):
    """Return the counts of a partition, of whose batches one at a time is in memory."""
    cells = cmfast.CellAccumulator(grid, n_classes=10)
    for batch in batches:
        rows = batch["x"].flatten().to_numpy().reshape(len(batch), -1)
        cells.update(rows, batch["y"].to_numpy(), batch["p"].to_numpy(), num_threads=1)
    yield pa.record_batch({"state": [cells.counts().to_bytes()]})


def merge(batches):
    """Return the sum of the states in a partition, of which two at a time are in memory."""
    cells = cmfast.CellAccumulator(grid, n_classes=10)
    for batch in batches:
        for state in batch["state"]:
            cells.add(cmfast.CellCounts.from_bytes(state.as_py()))
    yield pa.record_batch({"state": [cells.counts().to_bytes()]})


spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
table = pa.table({"x": points.tolist(), "y": y, "p": p})  # or spark.read.parquet(...)
states = spark.createDataFrame(table).repartition(16).mapInArrow(count, "state binary")
for n_partitions in (4, 1):  # each a quarter of the last; fewer steps where there are few partitions
    states = states.repartition(n_partitions).mapInArrow(merge, "state binary")
collected = states.collect()
spark.stop()

(row,) = collected
counts = cmfast.CellCounts.from_bytes(bytes(row.state))
print(f"{len(collected)} state of {len(row.state):,} bytes: {counts}")
assert counts == cmfast.cell_counts(points, y, p, grid=grid, n_classes=10)
