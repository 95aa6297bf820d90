"""Scaling of tables to margins on CUDA."""
