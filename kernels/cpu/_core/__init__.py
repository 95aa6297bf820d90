"""Compiler, thread pool, vectors, batches and blocks: what the kernels of every topic are made with."""
