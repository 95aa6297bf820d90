"""Process a file larger than memory (pretend) in three passes."""

import tempfile
from pathlib import Path

import numpy as np

import cmfast

with tempfile.TemporaryDirectory() as folder:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 300_000)
    centred = rng.normal(size=(len(y), 16)).astype(np.float32)
    np.save(
        Path(folder, "X.npy"),
        centred + 2 * np.eye(5, 16, dtype=np.float32)[y],
        allow_pickle=False,
    )
    X = np.load(Path(folder, "X.npy"), mmap_mode="r", allow_pickle=False)
    guess = np.where(
        rng.random(len(y)) < 0.8, y, rng.integers(0, 5, len(y))
    )
    parts = [
        slice(start, start + 50_000) for start in range(0, len(y), 50_000)
    ]

    axes = cmfast.PcaAccumulator()
    for part in parts:
        axes.update(X[part])
    projection = axes.projection(3)

    grid = cmfast.Grid.scott(projection.transform(X[parts[0]]), n=len(y))
    cells = cmfast.CellAccumulator(grid, n_classes=5)
    for part in parts:
        cells.update(projection.transform(X[part]), y[part], guess[part])

    counts = cells.counts()
    print(counts.confusion_matrix())
    print(cmfast.diagnose(counts, "row"))
