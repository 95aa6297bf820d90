"""Conformal prediction on CUDA: scores, thresholds, prediction sets, and co-occurrence of classes in sets."""
