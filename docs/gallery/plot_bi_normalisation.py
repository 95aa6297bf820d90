"""
What bi-normalisation shows
===========================

Scale rows and columns to one, and see which classes are alike rather
than which are frequent.

Of 1,000 animals 20 are cats. By the shares of the rows three cats in ten
are taken for dogs and only one dog in ten for a cat; by those of the
columns it is the other way round, as most of what is called a cat is a
dog. Both say how frequent the classes are. With rows and columns both
scaled to one that is gone, and what is left is which classes are alike:
cats and dogs, as much to one side as to the other.
"""

import matplotlib.pyplot as plt

import cmfast
from cmfast.display import ConfusionDisplay

names = ["cat", "dog", "cow"]
M = [[14, 6, 0], [60, 520, 20], [2, 10, 368]]

figure, axes = plt.subplots(
    1, 3, figsize=(10.5, 3.4), layout="compressed"
)
for ax, method in zip(axes, ("counts", "row", "bi"), strict=True):
    how = None if method == "counts" else method
    ConfusionDisplay.from_matrix(
        M, normalize=how, display_labels=names
    ).plot(ax=ax, colorbar=False)
    ax.set_title("counts" if how is None else f'normalize="{method}"')

# %%
# What it takes is a factor for each row and one for each column. These
# leave odds ratios as they are, here that of cats and dogs:
P = cmfast.bi_normalize(M, smoothing=0.001)
for A in (M, P):
    print(round(A[0][0] * A[1][1] / (A[0][1] * A[1][0]), 1))
