"""Class sums of confusion matrices, metrics computed from them and their gradients, and score thresholds."""
