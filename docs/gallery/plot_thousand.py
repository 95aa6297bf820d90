"""
A thousand classes
==================

Draw a matrix of a thousand classes in which each confusion can be seen.

Cells that are smaller than a dot are drawn as the largest of their
neighbours, so that no confusion is lost. Clustered, the matrix falls into
blocks; ``zoom`` gives a picture of each, the largest first.
"""

import numpy as np

from cmfast.display import ConfusionDisplay

rng = np.random.default_rng(1)
cluster = rng.integers(0, 40, 1000)
rate = np.where(
    cluster[:, None] == cluster, rng.gamma(0.4, 1.0, (1000, 1000)), 0.0004
)
rate[np.arange(1000), np.arange(1000)] = 25.0

blocks = ConfusionDisplay.from_matrix(
    rng.poisson(rate), order="cluster"
).blocks()
blocks.plot(log=True)

# %%
blocks.zoom()[0].plot()
