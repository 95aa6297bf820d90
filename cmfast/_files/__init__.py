"""Read and write files: tables, points, archives, and outputs that are written atomically."""
