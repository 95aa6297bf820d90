"""What pytest leaves alone here."""

collect_ignore = ["gpu.py", "_gpu_rivals.py"]  # they need CuPy and a GPU to be imported
