"""Metrics on CUDA: class sums of confusion matrices, metrics of them with their gradients, and score thresholds."""
