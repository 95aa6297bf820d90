"""What pytest leaves alone here."""

collect_ignore = ["gpu.py", "_gpu_rivals.py", "_triton_sweeps.py"]  # they need CuPy or Triton, and a GPU
