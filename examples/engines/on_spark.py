"""Spark: every partition becomes one small state, as bytes in a column; the driver adds them up. Exact in any order."""

import pyarrow as pa
from pyspark.sql import SparkSession
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB

import cmfast

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


spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
table = pa.table({"x": points.tolist(), "y": y, "p": p})  # or spark.read.parquet(...)
states = spark.createDataFrame(table).repartition(4).mapInArrow(count, "state binary").collect()
spark.stop()

counts = cmfast.CellCounts.merge([cmfast.CellCounts.from_bytes(bytes(row.state)) for row in states])
print(f"{len(states)} partitions, {sum(len(row.state) for row in states):,} bytes: {counts}")
assert counts == cmfast.cell_counts(points, y, p, grid=grid, n_classes=10)
