"""Uncertainty on CUDA: bootstrap replicates, intervals and delta-method standard errors of metrics and cells."""
