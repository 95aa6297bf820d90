"""Compile and launch CUDA kernels; sorting, workspaces and the prelude of all sources."""
