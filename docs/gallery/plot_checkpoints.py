"""
A model that learns
===================

Draw the matrices of all checkpoints, and how the largest confusions
change.

The matrices are side by side and on one scale. Below, each line is a cell
that was among the largest at some checkpoint.
"""

import numpy as np

import cmfast
from cmfast.display import CellsDisplay, StripDisplay

rng = np.random.default_rng(1)
names = ["cat", "lynx", "wolf", "dog", "fox"]
alike = np.array([1, 0, 3, 2, 3])  # for what each is taken
y = rng.integers(0, 5, (12, 3000))
wrong = rng.random(y.shape) < (0.6 / (1 + np.arange(12) / 3))[
    :, None
] * np.where(y == 4, 1.0, 0.5)
guess = np.where(
    wrong,
    np.where(
        rng.random(y.shape) < 0.7, alike[y], rng.integers(0, 5, y.shape)
    ),
    y,
)
epochs = cmfast.confusion_matrix(y, guess, n_classes=5)

StripDisplay.from_matrices(epochs, display_labels=names).plot(most=6)

# %%
CellsDisplay.from_matrices(epochs, k=4, display_labels=names).plot()
