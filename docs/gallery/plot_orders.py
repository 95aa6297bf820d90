"""
Classes in an order that shows something
========================================

Put classes that are confused next to each other.

A file names its classes in some order, which has nothing to do with which
of them are confused. ``order="cluster"`` puts those together that are,
and blocks stand out; ``"support"`` and ``"recall"`` sort by size and by
how well they do.
"""

import matplotlib.pyplot as plt
import numpy as np

from cmfast.display import ConfusionDisplay

rng = np.random.default_rng(3)
# twenty classes of four kinds
kind = rng.permutation(np.repeat(range(4), 5))
rate = np.where(kind[:, None] == kind, 12.0, 0.4)
rate[np.arange(20), np.arange(20)] = 80.0
M = rng.poisson(rate * rng.uniform(0.3, 2.0, 20)[:, None])

figure, axes = plt.subplots(1, 2, figsize=(11, 5), layout="compressed")
for ax, order in zip(axes, ("given", "cluster"), strict=True):
    ConfusionDisplay.from_matrix(M, normalize="row", order=order).plot(
        ax=ax
    )
    ax.set_title(f'order="{order}"')
