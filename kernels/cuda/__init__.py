"""CUDA C++ kernels and the code that launches them, on CuPy arrays."""
