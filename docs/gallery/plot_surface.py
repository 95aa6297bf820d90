"""
A metric over the contingency space
===================================

Draw metrics as surfaces over the two recalls, at two imbalances.

Every classifier of two classes is a point: its two recalls. A metric is a
surface over them, another one for each imbalance. With nine negatives for
each positive precision falls off at once, and so do the metrics that
contain it.
"""

import matplotlib.pyplot as plt
import numpy as np

import cmfast
from cmfast.display import PathDisplay, SurfaceDisplay

figure, axes = plt.subplots(1, 2, figsize=(9.5, 4), layout="compressed")
for ax, r in zip(axes, (1, 9), strict=True):
    SurfaceDisplay.from_metric("f1", r).plot(ax=ax)

# %%
# A training run is a path on it.
rng = np.random.default_rng(2)
y = (rng.random((30, 2000)) < 0.2).astype(int)
skill = 1 - 0.9 ** np.arange(30)
guess = np.where(
    rng.random(y.shape) < skill[:, None],
    y,
    rng.random(y.shape) < 0.3 * skill[:, None],
)
PathDisplay.from_matrices(
    cmfast.confusion_matrix(y, guess, n_classes=2), name="f1"
).plot()
