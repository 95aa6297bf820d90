"""Metrics on CUDA: class sums of confusion matrices, metrics computed from them, their gradients, and score thresholds."""
