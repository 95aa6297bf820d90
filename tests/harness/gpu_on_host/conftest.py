"""What pytest leaves alone here."""

collect_ignore = ["cupy.py"]  # whoever imports it has no other CuPy
