"""Compiler, thread pool, SIMD vectors, batch layout and row blocks: what the kernels of every topic are built with."""
