"""Conformal prediction: scores, thresholds, prediction sets, and co-occurrence of classes in sets."""
