"""Numba kernels: plain loops over part of a batch, run by one thread pool."""
