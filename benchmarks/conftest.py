"""What pytest leaves alone here."""

collect_ignore = ["gpu.py"]  # it needs CuPy and a GPU to be imported
