"""Labels of two classifiers on the same samples."""

import numpy as np


def samples(T):
    """Return labels that give the table T."""
    T = np.asarray(T)
    return [np.repeat(axis.ravel(), T.ravel()) for axis in np.indices(T.shape)]


def draw_predictions(rng, n, C):
    """Draw true labels and two predictions; the first is correct more often."""
    y = rng.integers(0, C, n)
    return (y, *(np.where(rng.random(n) < share, y, rng.integers(0, C, n)) for share in (0.8, 0.6)))
