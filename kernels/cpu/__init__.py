"""CPU kernels (Numba): loops over part of a batch, run by one thread pool."""
