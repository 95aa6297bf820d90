"""
Where two models differ
=======================

Draw the difference of two confusion matrices, with a star on each
significant cell.

Both have labelled the same samples. Orange cells are those that the first
fills more often; a star stands where the difference is more than chance,
by McNemar's test of that cell, corrected for the number of cells by Holm.
"""

import numpy as np

from cmfast import uncertainty
from cmfast.display import ConfusionDisplay

rng = np.random.default_rng(0)
y = rng.integers(0, 5, 4000)
near = (y + rng.choice([-1, 1], 4000)) % 5
first = np.where(rng.random(4000) < 0.15, near, y)
second = np.where((rng.random(4000) < 0.12) & (y < 3), near, first)

pair = uncertainty.paired_counts(y, first, second)
ConfusionDisplay.compare(
    pair.first, pair.second, paired=pair, display_labels=list("ABCDE")
).plot()
