"""
Two models, paired
==================

Draw the differences of two models in several metrics, with intervals.

Both have labelled the same samples. Where the interval does not reach
zero, one of them is better by that metric.
"""

import numpy as np

from cmfast import uncertainty
from cmfast.display import ComparisonDisplay

rng = np.random.default_rng(6)
y = rng.integers(0, 3, 2000)
hard = rng.random(2000) < 0.25  # what is hard is hard for both
old = np.where(hard | (rng.random(2000) < 0.02), (y + 1) % 3, y)
new = np.where(hard & (rng.random(2000) < 0.9), (y + 1) % 3, y)

compared = uncertainty.compare(
    uncertainty.paired_counts(y, new, old),
    ["accuracy", "f1_macro", "mcc"],
    rng=0,
)
ComparisonDisplay.from_comparisons(compared).plot()
