"""Numba and CUDA kernels of all operations, their table, and the code that both targets share."""
