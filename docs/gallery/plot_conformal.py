"""
Which labels a prediction leaves open
=====================================

Draw which labels come together in conformal sets, whether each class is
covered, and how large the sets are.

Conformal sets at 10 percent. The conformal correlation matrix counts how
often each class is in the sets, and together with which others.
"""

import numpy as np

from cmfast import conformal
from cmfast.display import CcmDisplay

rng = np.random.default_rng(0)
y = rng.integers(0, 4, 4000)
logits = 2.2 * np.eye(4)[y] + rng.normal(size=(4000, 4))
logits[:, 3] += 0.8 * logits[:, 2]  # the last two are hard to tell apart
P = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)

known, new = slice(0, 2000), slice(2000, None)
q = conformal.threshold(conformal.scores(P[known], y[known]), 0.1)
sets = conformal.prediction_sets(P[new], q)
CcmDisplay.from_sets(sets, y[new], P[new].argmax(1), alpha=0.1).plot()
