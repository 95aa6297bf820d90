"""Sums of matrices, metrics of sums, tables and thresholds."""
