"""What pytest leaves alone here."""

collect_ignore = ["cupy.py"]  # importing it replaces CuPy in the process
