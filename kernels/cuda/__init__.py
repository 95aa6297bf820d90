"""CUDA kernels and their launchers, for arrays that are on a device already."""
