"""CUDA C++ kernels and their CuPy launchers. No op of the table has a ``cuda`` target yet."""
