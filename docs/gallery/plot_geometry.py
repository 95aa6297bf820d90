"""
Whether confusion follows from the embeddings
=============================================

Compare a confusion matrix with the overlap of the classes in an
embedding.

The geometric confusion matrix of three clouds of points, two of which lie
close together. Beside it: how much it has in common with the matrix of
the classifier, what the grid guarantees of that, what comes out for
permuted labels, and the same along other widths of a cell.
"""

import numpy as np

import cmfast
from cmfast.display import GcmDisplay

rng = np.random.default_rng(0)
centres = np.array([[0.0, 0.0], [1.5, 0.0], [0.0, 5.0]])
y = rng.integers(0, 3, 6000)
X = centres[y] + rng.normal(size=(6000, 2))
# a classifier that sees them less well
seen = X + rng.normal(size=X.shape)
guess = np.linalg.norm(seen[:, None] - centres, axis=2).argmin(axis=1)

result = cmfast.geometric_confusion_matrix(
    X, y, guess, weights="row", n_components=None
)
curve = cmfast.width_curve(
    X, y, guess, weights="row", n_components=None, factors=[0.5, 1, 2, 4]
)
GcmDisplay.from_result(
    result, curve, display_labels=["left", "right", "above"]
).plot()
